"""The conformance check: it passes what conforms, and finds each kind of breach."""

import itertools
from collections.abc import AsyncIterator, Callable, Sequence

import anyio
import pytest
from pydantic import JsonValue

from worldlm.core.errors import ConformanceError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Control, Delta, Observation, Step, Turn, World
from worldlm.testing import ToyEnvironment, check_environment

pytestmark = pytest.mark.anyio
ACTIONS = ["add 2", "get", "add 5", "get"]


async def test_toy_conforms() -> None:
    result = await check_environment(ToyEnvironment, ACTIONS, invalid_action="jump")
    assert result.agreement == 1
    assert result.skipped == {"streaming": "no streaming"}
    assert "resume" in result.passed
    assert "cancellation" in result.passed


async def test_nothing_is_left_open() -> None:
    sessions: set[ToyEnvironment] = set()
    await check_environment(lambda: ToyEnvironment(open_sessions=sessions), ACTIONS, invalid_action="jump")
    assert not sessions


class Raises(ToyEnvironment):
    async def step(self, action: str) -> Step:
        if action == "jump":
            raise ValueError("no such action")
        return await super().step(action)


class EmptyFailure(ToyEnvironment):
    async def step(self, action: str) -> Step:
        step = await super().step(action)
        return step if step.observation else Step(observation=Observation(text=""), outcome=step.outcome)


class InvalidCounts(ToyEnvironment):
    async def step(self, action: str) -> Step:
        if action == "jump":
            await super().step("add 1")
        return await super().step(action)


class ShowsSecrets(ToyEnvironment):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(name="toy", domain="terminal", control=Control(instructions=("lie",)))


class Drifts(ToyEnvironment):
    ticks = itertools.count()

    async def step(self, action: str) -> Step:
        step = await super().step(action)
        return Step(observation=Observation(text=f"tick {next(self.ticks)}")) if action == "get" else step


class KeepsOnReset(ToyEnvironment):
    async def reset(self, seed: int | None = None) -> Observation:
        kept = self._count
        await super().reset(seed)
        self._count = kept or self._count
        return Observation(text=f"count is {self._count}")


class BadSnapshot(ToyEnvironment):
    async def restore(self, snapshot: dict[str, JsonValue]) -> None:
        self._over = False


class BadResume(ToyEnvironment):
    async def resume(self, initial: Observation, turns: Sequence[Turn], seed: int | None = None) -> None:
        await self.reset(seed)


class HalfTurn(ToyEnvironment):
    async def step(self, action: str) -> Step:
        step = await super().step(action)
        await anyio.sleep(0.005)
        return step


class LivesOn(ToyEnvironment):
    async def close(self) -> None:
        pass


class StreamsWithoutEnd(ToyEnvironment):
    async def stream(self, action: str) -> AsyncIterator[Delta | Step]:
        yield Delta(text="…")


class SilentFailure(ToyEnvironment):
    async def step(self, action: str) -> Step:
        step = await super().step(action)
        return step.model_copy(update={"detail": None})


BREACHES: list[tuple[Callable[[], ToyEnvironment], list[str], str]] = [
    (Raises, ACTIONS, "raised ValueError"),
    (EmptyFailure, ACTIONS, "does not go with observation"),
    (InvalidCounts, ["add 2", "get"], "with and without an invalid action"),
    (ShowsSecrets, ACTIONS, "hidden state or control"),
    (Drifts, ACTIONS, "same seed, same observations"),
    (KeepsOnReset, ACTIONS, "second reset"),
    (BadSnapshot, ACTIONS, "after restore"),
    (BadResume, ACTIONS, "resumed after"),
    (HalfTurn, ["add 2", "add 5"], "after being cancelled"),
    (LivesOn, ACTIONS, "after close"),
    (StreamsWithoutEnd, ACTIONS, "must end in a Step"),
    (SilentFailure, ACTIONS, "must say what went wrong"),
]


@pytest.mark.parametrize(("factory", "actions", "words"), BREACHES, ids=[b[0].__name__ for b in BREACHES])
async def test_breaches_are_found(factory: Callable[[], ToyEnvironment], actions: list[str], words: str) -> None:
    with pytest.raises(ConformanceError, match=words):
        await check_environment(factory, actions, invalid_action="jump")


async def test_agreement_is_measured_where_replays_differ() -> None:
    result = await check_environment(Drifts, ACTIONS, deterministic=False)
    assert result.agreement == pytest.approx(3 / 5)


async def test_a_wrong_action_list_is_a_breach() -> None:
    with pytest.raises(ConformanceError, match=Outcome.INFRASTRUCTURE_FAILED.value):
        await check_environment(ToyEnvironment, ["boom", "get"])
