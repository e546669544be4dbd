"""A benchmark from trajectories: which turns, and how they are spread."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.kit import screen, session
from worldlm.bench.build import BuildPlan, build
from worldlm.bench.samples import load_samples
from worldlm.core.errors import InputError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Check, Observation, Trajectory, Turn
from worldlm.data.content import ContentClass


def sessions(count: int, turns: int) -> list[Trajectory]:
    return [session(f"s{run}", [f"r{run}t{turn}" for turn in range(turns)]) for run in range(count)]


def test_turns_are_spread_over_positions_and_trajectories(tmp_path: Path) -> None:
    report = build(sessions(6, 9), tmp_path / "b", BuildPlan(per_domain=12, per_trajectory=2))
    assert report.samples == {"terminal": 12}
    assert report.cells["terminal"] == {f"{place} unclassed": 4 for place in ("early", "middle", "late")}
    samples = load_samples(str(tmp_path / "b"))
    assert Counter(sample.trajectory for sample in samples) == {f"s{run}": 2 for run in range(6)}
    for sample in samples:
        run, turn = int(sample.trajectory[1:]), sample.turn - 1
        assert sample.question.truth.text == screen(f"r{run}t{turn}")
        assert len(sample.question.history) == turn
        assert sample.world == session("s", []).world


def test_the_same_plan_gives_the_same_benchmark_and_another_seed_another(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        build(sessions(8, 8), tmp_path / name, BuildPlan(per_domain=10, seed=seed))
    texts = [(tmp_path / name / "terminal_test.jsonl").read_text() for name in "abc"]
    assert texts[0] == texts[1] != texts[2]


def test_what_cannot_be_asked_about_is_counted_by_reason(tmp_path: Path) -> None:
    ours = session("s", ["a"])
    unstable = Turn(
        action=ours.turns[0].action,
        observation=Observation(text="x"),
        violations=(Check(rule="stable", passed=False),),
    )
    turns = (
        *ours.turns,
        Turn(action="???", observation=None, outcome=Outcome.INVALID_ACTION, detail="no"),
        Turn(action=ours.turns[0].action, observation=Observation(text=" \n")),
        unstable,
        Turn(action="[]", observation=Observation(text="Are you sure?")),
    )
    report = build([ours.model_copy(update={"turns": turns})], tmp_path / "b")
    assert report.samples == {"terminal": 1}
    assert report.left_out == {
        "no observation": 1,
        "a blank observation": 1,
        "still changing when it was taken": 1,
        "answered by the harness": 1,
    }
    with pytest.raises(InputError, match=r"no turn to ask about .*no observation 1"):
        build([ours.model_copy(update={"turns": turns[1:2]})], tmp_path / "c")


def test_replays_tell_content_classes(tmp_path: Path) -> None:
    (ours,) = sessions(1, 6)
    other = ours.turns[3].model_copy(
        update={"observation": Observation(text=screen("r0t3").replace("\nr0t3", "\npid 4711"))}
    )
    replay = ours.model_copy(update={"turns": (*ours.turns[:3], other, *ours.turns[4:])})
    build([ours], tmp_path / "b", BuildPlan(per_trajectory=6), replays={"s0": [replay]})
    classes = {sample.turn: sample.content for sample in load_samples(str(tmp_path / "b"))}
    assert classes[4] is ContentClass.METADATA
    assert classes[1] is ContentClass.DETERMINISTIC


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    build(sessions(1, 3), tmp_path / "b")
    with pytest.raises(InputError, match="is there already"):
        build(sessions(1, 3), tmp_path / "b")


@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6), wanted=st.integers(1, 20), most=st.integers(1, 4))
def test_limits_are_kept_and_nothing_is_left_out_that_fits(lengths: list[int], wanted: int, most: int) -> None:
    import tempfile

    made = [session(f"s{run}", [f"r{run}t{turn}" for turn in range(length)]) for run, length in enumerate(lengths)]
    with tempfile.TemporaryDirectory() as folder:
        build(made, Path(folder) / "b", BuildPlan(per_domain=wanted, per_trajectory=most))
        samples = load_samples(str(Path(folder) / "b"))
    of = Counter(sample.trajectory for sample in samples)
    assert max(of.values()) <= most
    assert len(samples) == min(wanted, sum(min(length, most) for length in lengths))
    assert len({(sample.trajectory, sample.turn) for sample in samples}) == len(samples)
