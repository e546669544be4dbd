"""What is counted of a collection, and how far two of them agree."""

import pytest

from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import Check, Ending, Observation, Origin, Trajectory, Turn, Usage, World
from worldlm.rollout import Summary, is_done, records

WORLD = World(name="box", domain="terminal")


def turn(action: str, text: str | None, label: str | None = None, *, seconds: float = 0.1, stable: bool = True) -> Turn:
    return Turn(
        action=action,
        observation=None if text is None else Observation(text=text),
        outcome=Outcome.OK if text is not None else Outcome.TIMED_OUT,
        detail=None if text is not None else "slow",
        label=label,
        violations=() if stable else (Check(rule="stable", passed=False),),
        usage=Usage(seconds=seconds, cost_usd=0.5),
    )


def episode(name: str, *turns: Turn, kind: EndingKind = EndingKind.COMPLETED) -> Trajectory:
    outcome = Outcome.INFRASTRUCTURE_FAILED if kind is EndingKind.FAILED else Outcome.OK
    return Trajectory(
        id=name,
        world=WORLD,
        initial=Observation(text="$"),
        turns=turns,
        ending=Ending(kind=kind, outcome=outcome, detail="gone" if kind is EndingKind.FAILED else None),
        policy="test",
        origin=Origin(kind="real"),
    )


def test_counts() -> None:
    summary = Summary(planned=3, already=1)
    summary.add(episode("a", turn("ls", "x", "ls"), turn("ls", "x", "ls/odd"), turn("pwd", "$", "pwd", stable=False)))
    summary.add(episode("b", turn("ls", "$", "ls"), turn("cat", None, "cat", seconds=3), kind=EndingKind.FAILED))
    summary.seconds = 10
    figures = summary.figures()
    assert (figures["recorded"], figures["turns"], figures["turns_per_second"]) == (2, 5, 0.5)
    assert figures["failed_turns"] == {"timed_out": 1}
    assert figures["failed_share"] == pytest.approx(1 / 5)
    assert figures["unchanged_share"] == pytest.approx(2 / 4)
    assert figures["unstable_turns"] == 1
    assert figures["distinct_actions"] == 3
    assert figures["turns_by_family"] == {"cat": 1, "ls": 3, "pwd": 1}
    assert figures["odd_share"] == pytest.approx(1 / 5)
    assert figures["step_seconds_p50"] == pytest.approx(0.1)
    assert figures["cost_usd"] == pytest.approx(2.5)
    assert (summary.good, summary.last_failure) == (1, "gone")
    assert "same_action_share" not in figures


def test_nothing_has_no_shares() -> None:
    figures = Summary().figures()
    assert figures["turns"] == 0
    for name in ("failed_share", "unchanged_share", "odd_share", "turns_per_second", "step_seconds_p50"):
        assert figures[name] is None


def test_agreement_is_by_episode_and_turn() -> None:
    before = [episode("a", turn("ls", "x"), turn("date", "1"), turn("ls", "x")), episode("gone", turn("ls", "x"))]
    summary = Summary(earlier=records(before))
    summary.add(episode("a", turn("ls", "x"), turn("date", "2"), turn("pwd", "x"), turn("ls", "x")))
    summary.add(episode("new", turn("ls", "x")))
    figures = summary.figures()
    assert figures["compared_turns"] == 3
    assert figures["same_action_share"] == pytest.approx(2 / 3)
    assert figures["same_observation_share"] == pytest.approx(1 / 2)


def test_a_failure_agrees_with_the_same_failure_only() -> None:
    summary = Summary(earlier=records([episode("a", turn("ls", None), turn("ls", ""))]))
    summary.add(episode("a", turn("ls", None), turn("ls", None)))
    assert summary.figures()["same_observation_share"] == pytest.approx(1 / 2)


def test_a_step_that_timed_out_is_run_again_and_a_full_hour_is_not() -> None:
    lost = Ending(kind=EndingKind.TIME_LIMIT, outcome=Outcome.TIMED_OUT, detail="no answer within 2 s")
    full = Ending(kind=EndingKind.TIME_LIMIT, outcome=Outcome.TIMED_OUT)
    assert not is_done(episode("a").model_copy(update={"ending": lost}))
    assert is_done(episode("a").model_copy(update={"ending": full}))


def test_no_percentile_is_beyond_the_longest_step() -> None:
    summary = Summary()
    summary.add(episode("a", turn("a", "x", seconds=1), turn("b", "y", seconds=2)))
    assert 1 <= summary.figures()["step_seconds_p95"] <= 2
