"""Questions: one turn with its truth, and everything that stood before."""

import pytest

from worldlm.core.errors import InputError
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import Ending, Observation, Origin, Trajectory, Turn, World
from worldlm.judge.question import Question

WORLD = World(name="lab", domain="terminal", context="A machine.", initial_state="Debian")


def trajectory(*turns: Turn, initial: Observation | None = None) -> Trajectory:
    return Trajectory(
        id="t1",
        world=WORLD,
        initial=initial,
        turns=turns,
        ending=Ending(kind=EndingKind.COMPLETED),
        policy="script",
        origin=Origin(kind="real"),
    )


def turn(action: str, text: str) -> Turn:
    return Turn(action=action, observation=Observation(text=text))


FAILED = Turn(action="b", observation=None, outcome=Outcome.INVALID_ACTION, detail="not an action")


def test_a_question_is_a_turn_with_all_that_stood_before_it() -> None:
    asked = Question.of(trajectory(turn("a", "1"), FAILED, turn("c", "3"), initial=Observation(text="0")), 2)
    assert (asked.action, asked.truth.text, asked.domain) == ("c", "3", "terminal")
    assert [past.action for past in asked.history] == ["a", "b"]
    assert asked.initial is not None
    assert asked.world == WORLD


def test_the_observation_before_is_the_newest_that_there_is() -> None:
    turns = (turn("a", "1"), FAILED, turn("c", "3"))
    start = Observation(text="0")
    before = Question.of(trajectory(*turns, initial=start), 2).before
    assert before is not None
    assert before.text == "1"
    assert Question.of(trajectory(*turns, initial=start), 0).before == start
    assert Question.of(trajectory(*turns), 0).before is None


@pytest.mark.parametrize("index", [-1, 3, 100])
def test_a_turn_that_is_not_there_is_named(index: int) -> None:
    with pytest.raises(InputError, match=rf"'t1' has no turn {index}: it has 3"):
        Question.of(trajectory(turn("a", "1"), FAILED, turn("c", "3")), index)


def test_a_turn_without_an_observation_has_no_truth() -> None:
    with pytest.raises(InputError, match="turn 1 of trajectory 't1' has no observation \\(invalid_action\\)"):
        Question.of(trajectory(turn("a", "1"), FAILED), 1)
