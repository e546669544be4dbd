"""A replay: the same actions from the same seed, turn by turn, to where the environment fails."""

import pytest

from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import Trajectory
from worldlm.rollout import RolloutLimits, ScriptPolicy, replay, run_episode
from worldlm.testing import ToyEnvironment

pytestmark = pytest.mark.anyio


async def played(*actions: str, seed: int | None = None) -> Trajectory:
    limits = RolloutLimits(invalid_actions=99, broken_steps=99)
    return await run_episode(ScriptPolicy(actions), ToyEnvironment(), id="first", seed=seed, limits=limits)


async def test_a_replay_is_turn_for_turn_the_same_from_the_same_seed() -> None:
    first = await played("add 2", "nonsense", "get", seed=5)
    assert first.origin.seed == 5
    toy = ToyEnvironment()
    again = await replay(first, toy)
    assert not toy.open_sessions
    assert (again.id, again.group, again.origin.seed) == ("first.replay", "first", 5)
    assert again.initial == first.initial
    assert [(t.action, t.observation, t.outcome) for t in again.turns] == [
        (t.action, t.observation, t.outcome) for t in first.turns
    ]
    assert again.ending.kind is EndingKind.COMPLETED


async def test_another_seed_and_another_name() -> None:
    first = await played("get", seed=5)
    again = await replay(first, ToyEnvironment(), seed=7, name="second")
    assert again.id == "second"
    assert again.turns[0].observation is not None
    assert again.turns[0].observation.text == "count is 7"


async def test_a_row_of_invalid_actions_is_played_to_its_end() -> None:
    first = await played(*["what"] * 20, "get")
    assert len((await replay(first, ToyEnvironment())).turns) == 21


async def test_a_replay_ends_where_its_environment_fails() -> None:
    first = await played("get", "boom", "get")
    assert len(first.turns) == 3
    again = await replay(first, ToyEnvironment())
    assert (len(again.turns), again.ending.kind) == (2, EndingKind.FAILED)
    assert again.ending.outcome is Outcome.INFRASTRUCTURE_FAILED
