"""For tests, ours and yours: a scripted model, a toy environment and the conformance check.

`check_environment` holds any environment, simulated or real, to the contract of `Environment` and of
the further protocols that it satisfies. Run it over your own environment:

    from worldlm.testing import check_environment

    await check_environment(MyEnvironment, actions=["look", "go north"], invalid_action="???")
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio
from pydantic import JsonValue

from worldlm.core.errors import ConformanceError, InputError, WorldlmError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Environment, Resume, Snapshot, Streams
from worldlm.core.types import (
    Completion,
    Delta,
    Message,
    Observation,
    Origin,
    Sampling,
    Step,
    Turn,
    Usage,
    World,
)

Script = Callable[[Sequence[Message], Sampling], str | Completion]


class ScriptedModel:
    """A model that answers by a script: a list of replies in order, or a function of what it is asked.

    Every request is kept in `requests`. Running out of replies is a MODEL_FAILED completion.
    `delay` seconds pass before each answer.
    """

    def __init__(self, script: Sequence[str | Completion] | Script, *, name: str = "scripted", delay: float = 0.0):
        self.name = name
        self.requests: list[tuple[list[Message], Sampling]] = []
        self._script = script
        self._delay = delay

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """The script's next answer."""
        if self._delay:
            await anyio.sleep(self._delay)
        index = len(self.requests)
        self.requests.append((list(messages), sampling))
        if callable(self._script):
            reply = self._script(messages, sampling)
        elif index < len(self._script):
            reply = self._script[index]
        else:
            return Completion(outcome=Outcome.MODEL_FAILED, detail="the script has no more replies")
        if isinstance(reply, Completion):
            return reply
        return Completion(text=reply, model=self.name, usage=Usage(calls=1))

    async def stream(self, messages: Sequence[Message], sampling: Sampling) -> AsyncIterator[Delta | Completion]:
        """The same answer in pieces of a few characters."""
        completion = await self.complete(messages, sampling)
        for start in range(0, len(completion.text), 7):
            yield Delta(text=completion.text[start : start + 7])
        yield completion


class ToyEnvironment:
    """A counter: `add N` adds, `get` tells, `boom` fails, `end` ends. Deterministic, with snapshots and resume."""

    def __init__(self, *, open_sessions: set["ToyEnvironment"] | None = None):
        self.world = World(name="toy", domain="terminal", context="A counter.", initial_state="0")
        self.origin = Origin(kind="real", source="toy")
        self.open_sessions: set[ToyEnvironment] = set() if open_sessions is None else open_sessions
        """Sessions that were reset and not closed: a leak shows here."""
        self._count: int | None = None
        self._over = False

    async def reset(self, seed: int | None = None) -> Observation:
        """Start at the seed (0 by default)."""
        self._count, self._over = seed or 0, False
        self.open_sessions.add(self)
        return Observation(text=f"count is {self._count}")

    async def step(self, action: str) -> Step:
        """One of the four actions."""
        if self._count is None:
            raise InputError("the toy has not been reset: call reset first")
        if self._over:
            return Step(observation=None, outcome=Outcome.INVALID_ACTION, detail="the episode is over", terminated=True)
        await anyio.lowlevel.checkpoint()
        verb, _, rest = action.partition(" ")
        if verb == "add" and rest.lstrip("-").isdigit():
            self._count += int(rest)
        elif action == "boom":
            return Step(observation=None, outcome=Outcome.INFRASTRUCTURE_FAILED, detail="boom")
        elif action == "end":
            self._over = True
            return Step(observation=Observation(text="goodbye"), terminated=True)
        elif action != "get":
            return Step(
                observation=None,
                outcome=Outcome.INVALID_ACTION,
                detail=f"unknown action {action!r}; known: add N, get, boom, end",
            )
        return Step(observation=Observation(text=f"count is {self._count}"))

    async def close(self) -> None:
        """Forget the count."""
        self._count = None
        self.open_sessions.discard(self)

    async def snapshot(self) -> dict[str, JsonValue]:
        """The count."""
        return {"count": self._count, "over": self._over}

    async def restore(self, snapshot: dict[str, JsonValue]) -> None:
        """Put the count back."""
        count = snapshot["count"]
        self._count = count if isinstance(count, int) else None
        self._over = bool(snapshot["over"])

    async def resume(self, initial: Observation, turns: Sequence[Turn], seed: int | None = None) -> None:
        """Play the actions of `turns` again."""
        await self.reset(int(initial.text.rpartition(" ")[2]))
        for turn in turns:
            await self.step(turn.action)
