"""Leaks: runs of words that stand in a test set and in training too.

Runs of `n` words are taken within one turn's action and answer (and within its thinking), so that a trajectory can be
cut before the first turn that leaks and what is left holds no leak. Some runs stand everywhere, because a program
prints them or a world shows them: a listing's first lines, a banner, a menu. A run that so many training records hold
is no one test's secret; it is *common*, is passed over, and is reported word for word. After this step a run of the
test set stands in training only if it is common.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from worldlm.core.text import canonical_json
from worldlm.core.types import Trajectory, Turn, Value, World
from worldlm.data.report import Losses
from worldlm.data.steps.ngrams import Hashes, is_in, ngram_hashes, words
from worldlm.data.steps.quality import cut
from worldlm.data.steps.records import Record, TextRecord, turn_text


class Leaks(Value):
    """What counts as a leak, and what becomes of a trajectory that has one."""

    n: int = Field(default=13, ge=2)
    """Words of a run."""
    mode: Literal["cut", "drop"] = "cut"
    """Cut a trajectory before its first turn that leaks, or leave it out. A text is always left out."""
    common: int | None = Field(default=10, ge=2)
    """A run that at least so many training records hold is common, if `common_share` is reached too; None: none is."""
    common_share: float = Field(default=0.01, ge=0, le=1)
    descriptions: bool = False
    """Compare worlds and first observations too. For tests in worlds of their own: where training and tests share
    worlds, these are the same on purpose."""


def texts(turn: Turn) -> Iterator[str]:
    """What of a turn training may read."""
    yield turn_text(turn)
    if turn.thinking:
        yield turn.thinking


def _description(trajectory: Trajectory) -> Iterator[str]:
    world: World = trajectory.world
    yield world.context
    state = world.initial_state
    yield state if isinstance(state, str) else canonical_json(state)
    if trajectory.initial:
        yield trajectory.initial.text


def passages(record: Record, leaks: Leaks) -> Iterator[tuple[int, str]]:
    """The texts that are compared, each with the number of its turn (-1 where it stands before the first)."""
    if isinstance(record, TextRecord):
        yield -1, record.text
        return
    if leaks.descriptions:
        for text in _description(record):
            yield -1, text
    for number, turn in enumerate(record.turns):
        for text in texts(turn):
            yield number, text


class Reference(NamedTuple):
    """The runs of a test set."""

    hashes: Hashes
    """Sorted, each once."""
    passages: int
    """Texts that were looked at."""
    short: int
    """Of these, shorter than a run: nothing can be said about them."""


def reference(records: Iterable[Record], leaks: Leaks) -> Reference:
    """The runs of all `records`."""
    found: list[Hashes] = []
    count = short = 0
    for record in records:
        mine = [ngram_hashes(words(text), leaks.n) for _, text in passages(record, leaks)]
        count += len(mine)
        short += sum(not len(hashes) for hashes in mine)
        if mine:
            found.append(np.unique(np.concatenate(mine)))
    hashes = np.unique(np.concatenate(found)) if found else np.empty(0, np.uint64)
    return Reference(hashes, count, short)


def occurrences(records: Iterable[Record], known: Hashes, leaks: Leaks) -> tuple[int, NDArray[np.int64]]:
    """How many records there are, and how many of them hold each of the `known` runs."""
    counts = np.zeros(len(known), np.int64)
    number = 0
    for record in records:
        number += 1
        mine = [ngram_hashes(words(text), leaks.n) for _, text in passages(record, leaks)]
        if mine:
            hashes = np.unique(np.concatenate(mine))
            counts[np.searchsorted(known, hashes[is_in(hashes, known)])] += 1
    return number, counts


def common_runs(counts: NDArray[np.int64], records: int, leaks: Leaks) -> NDArray[np.bool_]:
    """Which runs are common, by the number of training records that hold them."""
    if leaks.common is None:
        return np.zeros(len(counts), np.bool_)
    return counts >= max(leaks.common, leaks.common_share * records)


def spell_out(records: Iterable[Record], wanted: Hashes, leaks: Leaks) -> dict[int, str]:
    """The words of the runs in `wanted`, which is sorted, by their hash."""
    found: dict[int, str] = {}
    for record in records:
        if len(found) == len(wanted):
            break
        for _, text in passages(record, leaks):
            items = words(text)
            hashes = ngram_hashes(items, leaks.n)
            for place in np.flatnonzero(is_in(hashes, wanted)).tolist():
                found.setdefault(int(hashes[place]), " ".join(items[place : place + leaks.n]))
    return found


@dataclass(frozen=True, slots=True)
class Leak:
    """A run of words that is forbidden."""

    turn: int
    """Its number from 0; -1: before the first turn."""
    words: str


def find_leaks(record: Record, forbidden: Hashes, leaks: Leaks) -> Iterator[Leak]:
    """The turns of a record that hold one of the `forbidden` runs (which are sorted), each with its first.

    With the runs of a training set it tells which turns of a test stand in training: no test of what was learned.
    """
    for turn, text in passages(record, leaks):
        items = words(text)
        places = np.flatnonzero(is_in(ngram_hashes(items, leaks.n), forbidden))
        if len(places):
            place = int(places[0])
            yield Leak(turn, " ".join(items[place : place + leaks.n]))


def decontaminate(record: Record, forbidden: Hashes, leaks: Leaks, losses: Losses) -> Record | None:
    """The record without leaks; None where nothing of it is left. `losses` is told what matched."""
    leak = next(find_leaks(record, forbidden, leaks), None)
    if leak is None:
        return record
    if isinstance(record, TextRecord):
        losses.dropped("a text with words of the test set", f"{record.id}: {leak.words}")
        return None
    place = f"{record.id} turn {leak.turn + 1}: {leak.words}"
    if leaks.mode == "drop" or leak.turn < 1:
        losses.dropped("a trajectory with words of the test set", place)
        return None
    losses.changed("cut before a turn with words of the test set", place)
    return cut(record, leak.turn, f"cut before turn {leak.turn + 1}, which stands in a test set")


__all__ = [
    "Leak",
    "Leaks",
    "Reference",
    "common_runs",
    "decontaminate",
    "find_leaks",
    "occurrences",
    "passages",
    "reference",
    "spell_out",
]
