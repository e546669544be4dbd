"""Rows side by side or behind each other, and the plan of a run's steps."""

from itertools import chain

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'worldlm[train]'")

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.train.kit import rows_of
from worldlm.train.batches import PAD, Step, batch_of, micro_batches, plan
from worldlm.train.examples import Row, TrainingSet
from worldlm.train.settings import Batches, Run


def test_rows_side_by_side_are_padded_behind_their_end() -> None:
    long, short = rows_of(9, 5)
    batch = batch_of([long, short])
    assert batch.ids.shape == (2, 9)
    assert batch.ids[1].tolist() == [*short.ids.tolist(), *[PAD] * 4]
    assert batch.positions[1].tolist() == [0, 1, 2, 3, 4, 0, 0, 0, 0]
    assert batch.rows[1].tolist() == [1] * 5 + [-1] * 4
    assert batch.targets[1].tolist() == [*short.mask.tolist(), *[False] * 4]
    assert batch.attention is not None
    assert batch.attention.tolist() == [[1] * 9, [1] * 5 + [0] * 4]
    assert batch.tokens == 14


def test_the_token_that_pads_is_a_token_like_any_other_in_a_row() -> None:
    row = Row(np.array([3, PAD, PAD], np.int32), np.array([False, True, True]), "terminal", "one")
    batch = batch_of([row, *rows_of(6)])
    assert batch.attention is not None
    assert batch.attention[0].tolist() == [1, 1, 1, 0, 0, 0]
    assert int(batch.targets[0].sum()) == 2


def test_packed_rows_stand_behind_each_other_and_each_begins_at_0() -> None:
    first, second = rows_of(6, 4)
    batch = batch_of([first, second], packed=True)
    assert batch.ids.tolist() == [[*first.ids.tolist(), *second.ids.tolist()]]
    assert batch.positions.tolist() == [[0, 1, 2, 3, 4, 5, 0, 1, 2, 3]]
    assert batch.starts.tolist() == [0, 6, 10]
    assert batch.attention is None
    # The first token of a row follows nothing, so it is never a target.
    assert not batch.targets[0, 6]


def test_a_blank_batch_has_no_target() -> None:
    batch = batch_of(rows_of(6, 4))
    assert not bool(batch.blank().targets.any())
    assert torch.equal(batch.blank().ids, batch.ids)


LENGTHS = st.lists(st.integers(2, 300), min_size=1, max_size=60)


@given(LENGTHS, st.integers(2, 1000), st.integers(1, 30), st.sampled_from(["none", "mask"]))
@settings(max_examples=60)
def test_micro_batches_hold_each_row_once_within_their_tokens(
    lengths: list[int], tokens: int, window: int, packing: str
) -> None:
    shape = Batches.model_validate({"tokens": tokens, "window": window, "packing": packing})
    order = list(range(len(lengths)))[::-1]
    parts = micro_batches(order, np.array(lengths), shape, "key")
    assert sorted(chain.from_iterable(parts)) == sorted(order)
    for part in parts:
        sizes = [lengths[row] for row in part]
        room = sum(sizes) if packing == "mask" else len(sizes) * max(sizes)
        assert room <= tokens or len(part) == 1
    # Windows stay in their order.
    where = [order.index(row) // window for part in parts for row in part]
    assert where == sorted(where)
    assert parts == micro_batches(order, np.array(lengths), shape, "key")


@given(st.integers(1, 9), st.integers(1, 4))
def test_the_processes_of_a_step_share_its_micro_batches(count: int, processes: int) -> None:
    step = Step(0, tuple((n,) for n in range(count)), 1, 1)
    shares = [step.share(process, processes) for process in range(processes)]
    assert len({len(share) for share in shares}) == 1
    assert sorted(row for share in shares for part in share for row in part) == list(range(count))


def run_of(**given: object) -> Run:
    data = {"files": ["a"], "replay": {"share": 0}, **given.pop("data", {})}  # type: ignore[dict-item]
    return Run.model_validate({"name": "a", "stage": "cpt", "base": "b", "data": data, **given})


def test_a_plan_counts_what_each_step_holds_and_leaves_nothing_out() -> None:
    rows = TrainingSet.of_rows(rows_of(*range(10, 33)))
    steps = plan(rows, run_of(batches={"tokens": 60, "micro_batches": 3}, data={"epochs": 2}))
    taken = [row for step in steps for part in step.micro_batches for row in part]
    assert sorted(taken) == sorted([*range(len(rows))] * 2)
    assert all(len(step.micro_batches) == 3 for step in steps[:-1])
    for step in steps:
        own = [row for part in step.micro_batches for row in part]
        assert step.tokens == sum(len(rows[row].ids) for row in own)
        assert step.targets == sum(rows[row].trained for row in own)


def test_a_run_ends_where_its_tokens_do() -> None:
    rows = TrainingSet.of_rows(rows_of(*[20] * 50))
    steps = plan(rows, run_of(batches={"tokens": 20, "micro_batches": 2}, data={"tokens": 201}))
    assert len(steps) == 6
