"""The calibration set: what is in it, that it can be made anew and stored, and how the verifiers order it."""

from itertools import pairwise
from pathlib import Path

import pytest

from worldlm.core.errors import InputError
from worldlm.core.outcomes import EndingKind
from worldlm.core.types import DOMAIN_NAMES, DomainName, Ending, Origin, Trajectory, Turn
from worldlm.judge.calibration import (
    KINDS,
    ORDER,
    CalibrationItem,
    expected_pairs,
    load_calibration,
    make_calibration,
    measure_order,
    read_calibration,
    write_calibration,
)
from worldlm.judge.score import DIMENSIONS
from worldlm.judge.verifiers import verify

EVERY = pytest.mark.parametrize("domain", DOMAIN_NAMES)


@EVERY
def test_every_domain_ships_twenty_questions_with_every_kind_of_answer(domain: DomainName) -> None:
    items = load_calibration(domain)
    groups: dict[str, list[CalibrationItem]] = {}
    for item in items:
        groups.setdefault(item.group, []).append(item)
    assert len(groups) >= 20
    assert len({item.id for item in items}) == len(items)
    for group in groups.values():
        assert {item.kind for item in group} == set(KINDS)
        assert all(item.domain == domain for item in group)
        assert all(item.question == group[0].question for item in group)
        texts = {item.kind: item.predicted.text for item in group if item.base is None}
        assert texts["real"] == group[0].question.truth.text
        assert texts["empty"] == ""
        assert len(set(texts.values())) == len(ORDER)
    faults = {item.fault for item in items if item.kind in ("small_fault", "large_fault")}
    assert len(faults) >= 4
    assert all(item.dimension in DIMENSIONS for item in items if item.kind in ("small_fault", "large_fault"))


@EVERY
def test_the_verifiers_order_the_set(domain: DomainName) -> None:
    """Real > one small fault > one large fault > wrong turn > empty, for 95 % of pairs; talking never gains."""
    rows = measure_order(load_calibration(domain), lambda item: verify(item.question, item.predicted).value)
    assert {row.pair for row in rows if ">=" not in row.pair} == {f"{a} > {b}" for a, b in pairwise(ORDER)}
    for row in rows:
        assert row.missing == 0
        assert row.share is not None
        assert row.share >= (1 if ">=" in row.pair else 0.95), row


@EVERY
def test_a_screen_copied_from_the_one_before_scores_badly_where_something_changed(domain: DomainName) -> None:
    if domain not in ("web", "android", "os"):
        return
    for item in load_calibration(domain):
        before = item.question.before
        if item.kind == "real" and before is not None and before.text != item.predicted.text:
            assert verify(item.question, before).value <= 40


def test_the_set_is_small() -> None:
    from importlib import resources

    folder = resources.files("worldlm.judge.calibration")
    assert sum(len((folder / f"{domain}.jsonl.xz").read_bytes()) for domain in DOMAIN_NAMES) <= 1 << 20


def trajectory(items: list[CalibrationItem]) -> Trajectory:
    """A trajectory again, of the longest history in a set."""
    question = max((item.question for item in items), key=lambda question: len(question.history))
    return Trajectory(
        id="again",
        world=question.world,
        initial=question.initial,
        turns=(*question.history, Turn(action=question.action, observation=question.truth)),
        ending=Ending(kind=EndingKind.COMPLETED),
        policy="script",
        origin=Origin(kind="real"),
    )


@EVERY
def test_the_same_seed_makes_the_same_items(domain: DomainName) -> None:
    one = trajectory(load_calibration(domain))
    first, second = (list(make_calibration([one], 3, per_trajectory=9)) for _ in range(2))
    assert first == second
    assert all(item.question.truth.text for item in first)
    if first:
        other = list(make_calibration([one], 4, per_trajectory=9))
        assert [item.predicted for item in other] != [item.predicted for item in first]


def test_items_survive_the_disk(tmp_path: Path) -> None:
    for name in ("set.jsonl", "set.jsonl.xz"):
        items = load_calibration("mcp")
        count = write_calibration(items, tmp_path / name)
        assert read_calibration(tmp_path / name) == items
        assert count == len({item.group for item in items})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{}\n", r"bad\.jsonl:1: not a group of calibration items"),
        (b"not json\n", r"bad\.jsonl:1: not JSON"),
        (b"\xff\xfe", r"bad\.jsonl:1: not "),
        (b'{"group": "g", "question": {"world": 3}, "items": []}\n', r"bad\.jsonl:1: "),
    ],
)
def test_a_file_that_is_no_set_is_named(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(data)
    with pytest.raises(InputError, match=words):
        read_calibration(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_calibration(tmp_path / "none.jsonl")


def test_a_truncated_packed_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl.xz"
    write_calibration(load_calibration("mcp"), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="it is damaged"):
        read_calibration(path)


def test_ordering_counts_ties_and_missing_scores_apart() -> None:
    items = load_calibration("terminal")
    groups = len({item.group for item in items})
    rows = {row.pair: row for row in measure_order(items, lambda item: 1.0)}
    assert rows["real > small_fault"].right == 0
    assert rows["real > small_fault"].ties == groups
    assert rows["real >= grader_address"].right == groups
    none = measure_order(items, lambda item: None if item.kind == "empty" else float(ORDER.index("empty")))
    missing = next(row for row in none if row.pair == "wrong_turn > empty")
    assert (missing.missing, missing.total, missing.share) == (groups, 0, None)


def test_pairs_are_of_one_question() -> None:
    for better, worse in expected_pairs(load_calibration("web")):
        assert better.group == worse.group
