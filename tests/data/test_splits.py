from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.data.corpus import ids, make, said, text_record, trajectories, write
from worldlm.core.errors import InputError
from worldlm.core.types import Trajectory, World
from worldlm.data.report import Losses
from worldlm.data.steps.pipeline import Execution
from worldlm.data.steps.records import Record
from worldlm.data.steps.run import split
from worldlm.data.steps.splits import Kinds, Part, SplitPlan, assign, group_key, held_turns, holds_out, side

PLAIN = SplitPlan(test=0.2, validation=0.1)
HELD = SplitPlan(
    test=0.3,
    validation=0.1,
    held_out={
        "terminal": Kinds(labels=("awk", "sheet/*"), words=("bisect",)),
        "mcp": Kinds(worlds=("mcp-shop*",)),
    },
)


def part(record: Record, plan: SplitPlan) -> Part | None:
    done = assign(record, plan, Losses())
    return done[0] if done else None


def side_seed(side: Part, plan: SplitPlan) -> int:
    """A seed whose group is on a side."""
    return next(seed for seed in range(1000) if part(make("t", said(1), seed=seed), plan) is side)


def test_a_group_is_a_world_with_a_seed() -> None:
    one = make("a", said(1), seed=3)
    assert group_key(one) == group_key(make("b", said(2), seed=3).model_copy(update={"policy": "model", "group": "g"}))
    assert group_key(one) != group_key(make("a", said(1), seed=4))
    assert group_key(one) != group_key(make("a", said(1), world="other", seed=3))
    lone = [make(name, said(1), seed=None) for name in "ab"]
    assert group_key(lone[0]) != group_key(lone[1])
    together = [each.model_copy(update={"group": "g"}) for each in lone]
    assert group_key(together[0]) == group_key(together[1])


@given(st.integers(), st.integers(0, 10**6), st.sampled_from(["box", "web-a.b"]), st.integers(1, 9), st.integers(1, 9))
def test_a_group_is_never_on_two_sides_and_never_changes_them(
    plan_seed: int, seed: int, world: str, one: int, other: int
) -> None:
    plan = PLAIN.model_copy(update={"seed": plan_seed})
    first = make("a", said(one), world=world, seed=seed)
    second = make("b", said(other, turns=2), world=world, seed=seed).model_copy(update={"policy": "script"})
    assert part(first, plan) is part(second, plan) is not None


@given(st.integers(), st.integers(0, 10**6), st.sampled_from(["box", "web-a"]))
def test_the_side_is_known_before_anything_is_played(plan_seed: int, seed: int, world: str) -> None:
    plan = PLAIN.model_copy(update={"seed": plan_seed})
    known = side(World(name=world, domain="terminal"), seed, plan)
    assert part(make("a", said(1), world=world, seed=seed), plan) is known
    # A start that chooses one of a world's tasks names it.
    assert part(make("a", said(1), world=f"{world}.task-2", seed=seed), plan) is known


def test_a_world_is_held_out_by_its_name_and_domain() -> None:
    assert holds_out(World(name="mcp-shop-2", domain="mcp"), HELD)
    assert not holds_out(World(name="mcp-shop-2", domain="terminal"), HELD)
    assert not holds_out(World(name="mcp-time", domain="mcp"), HELD)
    plan = SplitPlan(held_out={"web": Kinds(worlds=("web-find",))})
    assert part(make("t", said(1), world="web-find.read-table", domain="web"), plan) is Part.TEST_B


def test_shares_are_kept_and_a_domain_may_have_its_own() -> None:
    plan = SplitPlan(test=0.2, validation=0.1, test_by_domain={"os": 0.5})
    counts = Counter(part(make("t", said(1), seed=seed), plan) for seed in range(2000))
    assert counts[Part.TEST_A] == pytest.approx(400, abs=60)
    assert counts[Part.VALIDATION] == pytest.approx(200, abs=50)
    desks = Counter(part(make("t", said(1), domain="os", world="desk", seed=seed), plan) for seed in range(1000))
    assert desks[Part.TEST_A] == pytest.approx(500, abs=60)


def test_a_held_out_world_is_test_b_whatever_its_side() -> None:
    for seed in range(20):
        shop = make("t", said(1), world="mcp-shop-2", domain="mcp", seed=seed)
        assert part(shop, HELD) is Part.TEST_B
        assert [number for number, _ in held_turns(shop, HELD)] == [0, 1, 2, 3]
    assert part(make("t", said(1), world="mcp-shop", seed=1), HELD) is not Part.TEST_B, "another domain's kinds"


@pytest.mark.parametrize("label", ["awk", "awk/odd", "sheet/sum"])
def test_a_held_out_label_is_cut_out_of_training_and_asked_on_the_test_side(label: str) -> None:
    labels = ["ls", "gawk", label, "ls"]
    train, test = (make("t", said(1), seed=side_seed(side, HELD), labels=labels) for side in (Part.TRAIN, Part.TEST_A))
    assert assign(test, HELD, Losses()) == (Part.TEST_B, test)
    assert [number for number, _ in held_turns(test, HELD)] == [2]
    losses = Losses()
    done = assign(train, HELD, losses)
    assert done is not None
    side, left = done
    assert isinstance(left, Trajectory)
    assert (side, left.turns) == (Part.TRAIN, train.turns[:2])
    assert [row["reason"] for row in losses.to_json()] == ["cut before a held-out kind"]
    dropping = HELD.model_copy(update={"mode": "drop"})
    assert assign(train, dropping, Losses()) is None
    assert assign(test, dropping, Losses()) == (Part.TEST_B, test)
    first = make("t", said(1), seed=side_seed(Part.TRAIN, HELD), labels=labels[2:] * 2)
    assert assign(first, HELD, Losses()) is None


@pytest.mark.parametrize(
    ("action", "held"),
    [
        ("git bisect start", True),
        ('[{"keystrokes": "cd a\\nbisect\\n"}]', True),
        ("git-bisect start", False),
        ("bisections", False),
        ("nbisect", False),
    ],
)
def test_words_tell_a_kind_where_there_are_no_labels(action: str, held: bool) -> None:
    assert bool([*held_turns(make("t", [(action, "")]), HELD)]) is held


def test_missing_labels_are_told() -> None:
    plan = SplitPlan(held_out={"terminal": Kinds(labels=("awk",))})
    losses = Losses()
    assign(make("t", said(1)), plan, losses)
    (row,) = losses.to_json()
    assert row["reason"] == "actions without a label, in a domain of which labels are held out"


def corpus() -> list[Record]:
    families = ["ls", "cat", "awk", "sed"]
    shells = [
        make(f"t{seed}", said(seed), seed=seed, labels=[families[(seed + n) % (3 + seed % 2)] for n in range(4)])
        for seed in range(60)
    ]
    shops = [make(f"s{seed}", said(1000 + seed), world="mcp-shop", domain="mcp", seed=seed) for seed in range(3)]
    others = [make(f"o{seed}", said(2000 + seed), world="mcp-time", domain="mcp", seed=seed) for seed in range(20)]
    return [*shells, *shops, *others, text_record("page", "some words")]


PLAN = SplitPlan(
    test=0.25,
    validation=0.1,
    held_out={
        "terminal": Kinds(labels=("awk",)),
        "mcp": Kinds(worlds=("mcp-shop",)),
        "os": Kinds(worlds=("a-domain-that-is-not-there",)),
    },
)


@pytest.mark.parametrize("workers", [1, 2])
def test_over_files(tmp_path: Path, workers: int) -> None:
    source = write(tmp_path / "in.jsonl", corpus())
    done = split([source], tmp_path / "parts", PLAN, Execution(workers))
    parts = {name: trajectories(tmp_path / "parts" / f"{name}.jsonl") for name in Part}
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == sorted(f"{name}.jsonl" for name in Part)
    assert list(done.written.values()) == [len(parts[name]) + (name == "train") for name in Part]
    sides: dict[str, set[bool]] = {}
    for name, records in parts.items():
        for record in records:
            sides.setdefault(group_key(record), set()).add(name in (Part.TEST_A, Part.TEST_B))
    assert all(len(each) == 1 for each in sides.values())
    for name in (Part.TRAIN, Part.VALIDATION, Part.TEST_A):
        assert not [turn for record in parts[name] for turn in held_turns(record, PLAN)]
    assert all([*held_turns(record, PLAN)] for record in parts[Part.TEST_B])
    assert {record.id for record in parts[Part.TEST_B]} >= {"s0", "s1", "s2"}
    assert done.figures["turns"]["test-b"]["mcp"] == 12
    assert done.figures["held_out_turns"]["mcp"] == {"mcp-shop": 12}
    assert done.figures["held_out_turns"]["terminal"]["awk"] > 0
    assert ids(tmp_path / "parts" / "train.jsonl")[-1] == "page"


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (SplitPlan(held_out={"mcp": Kinds(worlds=("mcp-shpo",))}), "nothing in the corpus is of the kind 'mcp-shpo'"),
        (SplitPlan(test=0.25, held_out={"mcp": Kinds(worlds=("*",))}), "the part train is empty"),
        (SplitPlan(test=0.0001, validation=0.1), "the part test-a is empty"),
        (SplitPlan(test=0.9, validation=0.0999), "the part train is empty"),
        (SplitPlan(test=0.25, validation=0.0001), "the part validation is empty"),
    ],
)
def test_an_empty_part_and_a_kind_that_is_never_met_are_refused(tmp_path: Path, plan: SplitPlan, message: str) -> None:
    records = [record for record in corpus() if record.id[0] in "so"]
    source = write(tmp_path / "in.jsonl", records)
    with pytest.raises(InputError, match=message):
        split([source], tmp_path / "parts", plan)
    assert [*tmp_path.iterdir()] == [source]


def test_a_kind_is_met_where_another_tells_it_too(tmp_path: Path) -> None:
    kinds = Kinds(worlds=("box-2",), labels=("sheet/*", "sheet/sum", "awk"), words=("bisect",))
    plan = SplitPlan(test=0.3, validation=0.2, held_out={"terminal": kinds})
    others = [make(f"o{seed}", said(seed), seed=seed) for seed in range(20)]
    told = [("git bisect start", "")]
    labelled = [make(f"b{seed}", told, seed=seed, labels=["sheet/sum"]) for seed in range(9)]
    source = write(tmp_path / "in.jsonl", [*others, *labelled, make("awk", told, world="box-2", labels=["awk"])])
    assert split([source], tmp_path / "parts", plan).figures["held_out_turns"]["terminal"]["box-2"] == 1


def test_a_plan_must_leave_something_to_train() -> None:
    with pytest.raises(ValidationError, match="leave nothing to train"):
        SplitPlan(test=0.9, validation=0.1)
