from pathlib import Path

import pytest

from tests.data.corpus import Said, ids, make, said, text_record, write
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import Check, Ending, Trajectory
from worldlm.data.report import Losses
from worldlm.data.steps.quality import Rules, refine
from worldlm.data.steps.records import Record
from worldlm.data.steps.run import filter_quality

RULES = Rules()


def kept(record: Record, rules: Rules = RULES) -> tuple[int, str]:
    """Turns that are left, and the reason."""
    losses = Losses()
    left = refine(record, rules, losses)
    reason = next((why for _, why in losses.reasons), "")
    return (len(left.turns) if isinstance(left, Trajectory) else int(left is not None)), reason


def test_a_good_trajectory_is_the_same_value() -> None:
    record = make("t", said(1))
    assert refine(record, RULES, Losses()) is record


def unstable(record: Trajectory, number: int) -> Trajectory:
    checks = (Check(rule="stable", passed=False),)
    turns = list(record.turns)
    turns[number] = turns[number].model_copy(update={"violations": checks})
    return record.model_copy(update={"turns": tuple(turns)})


def test_an_observation_that_was_still_changing_ends_the_trajectory() -> None:
    record = unstable(make("t", said(1, turns=6)), 3)
    assert kept(record) == (3, "cut before an observation that was still changing")
    assert kept(record, Rules(cut_unstable=False)) == (6, "")
    left = refine(record, RULES, Losses())
    assert isinstance(left, Trajectory)
    assert left.ending == Ending(
        kind=EndingKind.TURN_LIMIT, detail="cut before turn 4, whose observation was still changing"
    )
    assert kept(unstable(record, 1)) == (0, "cut before an observation that was still changing")


def test_a_dead_session_is_cut_to_its_first_dead_turn() -> None:
    dead: list[Said] = [(f"try {n}", "frozen") for n in range(6)]
    assert kept(make("t", [*said(1), *dead])) == (5, "cut the end, in which nothing changes any more")
    assert kept(make("t", [*said(1), *dead[:4]])) == (8, "")
    assert kept(make("t", dead))[0] == 0
    silent = make("t", [*said(1), *dead])
    turns = tuple(
        turn.model_copy(update={"observation": None, "outcome": Outcome.TIMED_OUT}) if number > 4 else turn
        for number, turn in enumerate(silent.turns)
    )
    assert kept(silent.model_copy(update={"turns": turns}))[0] == 5


def test_empty_and_short_trajectories_are_left_out() -> None:
    blank: list[Said] = [("a", " \n"), ("b", ""), ("c", "  ")]
    assert kept(make("t", [*blank, ("d", "seen")])) == (0, "more than 50% of the observations are empty")
    assert kept(make("t", [*blank[:2], ("d", "seen"), ("e", "seen too")])) == (4, "")
    assert kept(make("t", said(1, turns=1))) == (0, "fewer than 2 turns with an observation")
    assert kept(make("t", said(1, turns=1)), Rules(min_turns=1)) == (1, "")


@pytest.mark.parametrize(
    ("ending", "left"),
    [
        (Ending(kind=EndingKind.FAILED, outcome=Outcome.INFRASTRUCTURE_FAILED), 0),
        (Ending(kind=EndingKind.FAILED, outcome=Outcome.TIMED_OUT), 0),
        (Ending(kind=EndingKind.CANCELLED, outcome=Outcome.CANCELLED), 0),
        (Ending(kind=EndingKind.FAILED, outcome=Outcome.INVALID_ACTION), 4),
        (Ending(kind=EndingKind.TIME_LIMIT), 4),
    ],
)
def test_only_the_policys_own_failures_are_kept(ending: Ending, left: int) -> None:
    record = make("t", said(1)).model_copy(update={"ending": ending})
    assert kept(record)[0] == left
    assert kept(record, Rules(drop_failed=False))[0] == 4


def test_origins_sources_and_licences_are_allowed_by_name() -> None:
    record = make("t", said(1))
    made_up = record.model_copy(update={"origin": record.origin.model_copy(update={"kind": "simulated"})})
    assert kept(made_up) == (0, "its origin is simulated")
    assert kept(made_up, Rules(origins=("real", "simulated")))[0] == 4
    assert kept(record, Rules(sources=("tes*",)))[0] == 4
    assert kept(text_record("p", "words", "crawl"), Rules(sources=("test", "docs"))) == (
        0,
        "the source 'crawl' is not trusted",
    )
    assert kept(record, Rules(licences=("MIT",))) == (0, "the licence 'CC0-1.0' is not taken")
    assert kept(text_record("p", "words"), Rules(sources=("docs",), licences=("CC0*",))) == (1, "")


def test_over_files(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [make("a", said(1)), make("b", said(2, turns=1)), text_record("p", "words")])
    done = filter_quality([source], tmp_path / "out.jsonl", RULES)
    assert ids(tmp_path / "out.jsonl") == ["a", "p"]
    assert done.report.to_json()["losses"] == [
        {"effect": "dropped", "reason": "fewer than 2 turns with an observation", "count": 1, "examples": ["b"]}
    ]
