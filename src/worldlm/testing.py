"""For tests, ours and yours: a scripted model, a toy environment and the conformance check.

`check_environment` holds any environment, simulated or real, to the contract of `Environment` and of
the further protocols that it satisfies. Run it over your own environment:

    from worldlm.testing import check_environment

    await check_environment(MyEnvironment, actions=["look", "go north"], invalid_action="???")
"""

import json
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

__all__ = ["Conformance", "ScriptedModel", "ToyEnvironment", "check_environment"]

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


@dataclass
class Conformance:
    """What `check_environment` found: the laws that hold, those that do not apply (with why), and the agreement."""

    passed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    agreement: float = 0.0
    """Share of equal observations between two runs of the same actions from the same seed."""


async def check_environment(
    factory: Callable[[], Environment],
    actions: Sequence[str],
    *,
    invalid_action: str | None = None,
    seed: int = 0,
    deterministic: bool = True,
) -> Conformance:
    """Hold the environments that `factory` makes to the contract of `Environment`.

    `actions` are at least two valid actions that do not end the episode; `invalid_action` is one that does not
    parse. With `deterministic=False` laws that need equal replays are checked for their shape alone, and the
    agreement is measured. Every law is tried; raises ConformanceError with all breaches found.
    """
    if len(actions) < 2:
        raise InputError("check_environment needs at least two actions")
    check = _Check(factory, list(actions), invalid_action, seed, deterministic)
    result = Conformance()
    breaches: list[str] = []
    for name, law in check.laws():
        try:
            why = await law()
        except _BreachError as breach:
            breaches.append(f"{name}: {breach}")
        except Exception as error:
            breaches.append(f"{name}: raised {type(error).__name__}: {error}")
        else:
            if why is None:
                result.passed.append(name)
            else:
                result.skipped[name] = why
        finally:
            await check.close_all()
    result.agreement = check.agreement
    if breaches:
        raise ConformanceError("; ".join(breaches))
    return result


class _BreachError(Exception):
    """A law that does not hold."""


class _Check:
    """The laws, each a method that returns None (holds) or why it does not apply, or raises `_BreachError`."""

    def __init__(
        self,
        factory: Callable[[], Environment],
        actions: list[str],
        invalid_action: str | None,
        seed: int,
        deterministic: bool,
    ):
        self.factory = factory
        self.actions = actions
        self.invalid_action = invalid_action
        self.seed = seed
        self.deterministic = deterministic
        self.agreement = 0.0
        self._made: list[Environment] = []

    def laws(self) -> list[tuple[str, Callable[[], Awaitable[str | None]]]]:
        return [
            ("protocol", self.protocol),
            ("reset starts an episode", self.reset_again),
            ("same seed, same observations", self.replay),
            ("failures are values", self.failures),
            ("an invalid action changes nothing", self.invalid),
            ("snapshot and restore", self.snapshots),
            ("resume", self.resume),
            ("streaming", self.streaming),
            ("cancellation", self.cancellation),
            ("close", self.closing),
        ]

    def make(self) -> Environment:
        environment = self.factory()
        self._made.append(environment)
        return environment

    async def close_all(self) -> None:
        made, self._made = self._made, []
        for environment in made:
            await environment.close()

    async def started(self) -> tuple[Environment, Observation]:
        environment = self.make()
        return environment, await environment.reset(self.seed)

    async def play(self, environment: Environment, actions: Sequence[str]) -> list[Step]:
        return [await self.ok(environment, action) for action in actions]

    async def ok(self, environment: Environment, action: str) -> Step:
        step = await environment.step(action)
        _well_formed(step)
        _require(step.outcome is Outcome.OK, f"{action!r} came out as {step.outcome.value}: {step.detail}")
        return step

    def same(self, one: Sequence[Step], other: Sequence[Step], what: str) -> None:
        if self.deterministic:
            for index, (left, right) in enumerate(zip(one, other, strict=True)):
                _require(
                    left.observation == right.observation,
                    f"{what}: observation {index + 1} differs: {_short(left)} against {_short(right)}",
                )

    async def protocol(self) -> str | None:
        environment = self.make()
        _require(isinstance(environment, Environment), "reset, step, close or world is missing")
        _require(isinstance(environment.world, World), "world is not a World")
        _require(
            environment.world.hidden_state is None and environment.world.control is None,
            "the agent's world shows hidden state or control",
        )
        initial = await environment.reset(self.seed)
        _require(isinstance(initial, Observation), "reset returned no Observation")
        await self.play(environment, self.actions)
        return None

    async def reset_again(self) -> str | None:
        environment, first = await self.started()
        before = await self.play(environment, self.actions[:2])
        second = await environment.reset(self.seed)
        _require(not self.deterministic or first == second, "a second reset gave another first observation")
        self.same(before, await self.play(environment, self.actions[:2]), "after a second reset")
        return None

    async def replay(self) -> str | None:
        one, first = await self.started()
        other, second = await self.started()
        left, right = await self.play(one, self.actions), await self.play(other, self.actions)
        pairs = [(first, second), *zip((s.observation for s in left), (s.observation for s in right), strict=True)]
        self.agreement = sum(a == b for a, b in pairs) / len(pairs)
        _require(not self.deterministic or first == second, "the first observations differ")
        self.same(left, right, "replay")
        return None if self.deterministic else f"measured: agreement {self.agreement:.3f}"

    async def failures(self) -> str | None:
        environment = self.make()
        try:
            step = await environment.step(self.actions[0])
        except WorldlmError:
            return None
        _well_formed(step)
        _require(step.observation is None, "a step before reset gave an observation")
        return None

    async def invalid(self) -> str | None:
        if self.invalid_action is None:
            return "no invalid action was given"
        environment, _ = await self.started()
        before = await self.ok(environment, self.actions[0])
        step = await environment.step(self.invalid_action)
        _well_formed(step)
        _require(step.outcome is Outcome.INVALID_ACTION, f"it came out as {step.outcome.value}")
        _require(not step.terminated, "it ended the episode")
        after = await self.ok(environment, self.actions[1])
        other, _ = await self.started()
        self.same([before, after], await self.play(other, self.actions[:2]), "with and without an invalid action")
        return None

    async def snapshots(self) -> str | None:
        environment, _ = await self.started()
        if not isinstance(environment, Snapshot):
            return "no snapshots"
        await self.ok(environment, self.actions[0])
        saved = await environment.snapshot()
        rest = self.actions[1:]
        before = await self.play(environment, rest)
        await environment.restore(json.loads(json.dumps(saved)))
        self.same(before, await self.play(environment, rest), "after restore")
        other = self.make()
        await other.reset(self.seed + 1)
        assert isinstance(other, Snapshot)
        await other.restore(saved)
        self.same(before, await self.play(other, rest), "restored in another environment")
        return None

    async def resume(self) -> str | None:
        environment, initial = await self.started()
        if not isinstance(environment, Resume):
            return "no resume"
        steps = await self.play(environment, self.actions)
        turns = [step.turn(action) for step, action in zip(steps, self.actions, strict=True)]
        for cut in range(len(turns)):
            other = self.make()
            assert isinstance(other, Resume)
            await other.resume(initial, turns[:cut], self.seed)
            self.same([steps[cut]], [await self.ok(other, self.actions[cut])], f"resumed after {cut} turns")
        return None

    async def streaming(self) -> str | None:
        environment, _ = await self.started()
        if not isinstance(environment, Streams):
            return "no streaming"
        streamed: list[Step] = []
        for action in self.actions:
            items = [item async for item in environment.stream(action)]
            last = items[-1] if items else None
            _require(isinstance(last, Step), "a stream must end in a Step")
            _require(all(isinstance(item, Delta) for item in items[:-1]), "only the last item may be a Step")
            assert isinstance(last, Step)
            _well_formed(last)
            streamed.append(last)
        other, _ = await self.started()
        self.same(await self.play(other, self.actions), streamed, "streamed")
        return None

    async def cancellation(self) -> str | None:
        expected, _ = await self.started()
        steps = await self.play(expected, self.actions[:2])
        for delay in (0.0, 0.001, 0.02):
            environment, _ = await self.started()
            await self.ok(environment, self.actions[0])
            with anyio.move_on_after(delay) as scope:
                if delay == 0:
                    scope.cancel()
                self.same([steps[1]], [await self.ok(environment, self.actions[1])], "uncancelled")
            if not scope.cancelled_caught:
                continue
            try:
                step = await environment.step(self.actions[1])
            except WorldlmError:
                continue  # it closed itself, which the contract allows
            _well_formed(step)
            if step.outcome is Outcome.OK:
                self.same([steps[1]], [step], "the same step after being cancelled")
        return None

    async def closing(self) -> str | None:
        unused = self.make()
        await unused.close()
        environment, _ = await self.started()
        await self.ok(environment, self.actions[0])
        await environment.close()
        await environment.close()
        try:
            step = await environment.step(self.actions[0])
        except WorldlmError:
            return None
        _require(step.observation is None, "a step after close gave an observation")
        return None


def _well_formed(step: object) -> None:
    _require(isinstance(step, Step), f"step returned {type(step).__name__}, not a Step")
    assert isinstance(step, Step)
    _require(
        (step.observation is None) == (step.outcome is not Outcome.OK),
        f"outcome {step.outcome.value} does not go with observation {step.observation!r}",
    )
    _require(step.outcome is Outcome.OK or bool(step.detail), "a failure must say what went wrong (detail)")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise _BreachError(message)


def _short(step: Step) -> str:
    text = step.observation.text if step.observation else str(step.detail)
    return repr(text[:80])
