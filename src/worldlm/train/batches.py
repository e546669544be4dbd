"""From rows to steps: which rows are computed together, and as which tensors.

A run's steps are planned before the first one, on every process alike, so the number of targets of a step is known
without asking. A step is so many micro-batches over all processes together: it is the same on one process as on
several.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from worldlm.train.examples import Row, TrainingSet, epoch_order
from worldlm.train.settings import Batches, Run

PAD = 0
"""What stands where a row has ended. It is never looked at: masks say where a row ends."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What is computed at once: B sequences of L tokens."""

    ids: Tensor
    """(B, L) int64."""
    positions: Tensor
    """(B, L) int64: the place of each token in its row, from 0."""
    rows: Tensor
    """(B, L) int64: the number of each token's row in the batch, -1 behind a row's end."""
    targets: Tensor
    """(B, L) bool: whether predicting the token here from those before it in its row is trained."""
    packed: bool
    """Whether rows stand behind each other (B is 1 then, and nothing is padded)."""

    @property
    def attention(self) -> Tensor | None:
        """(B, L) which tokens there are; None for packed rows, which `positions` tell apart."""
        return None if self.packed else (self.rows >= 0).long()

    @property
    def starts(self) -> Tensor:
        """(rows + 1,) int32: where each packed row begins, and the end of the last."""
        begin = torch.nonzero(self.positions[0] == 0).flatten()
        return torch.cat([begin, begin.new_tensor([self.ids.shape[1]])]).int()

    @property
    def tokens(self) -> int:
        """Tokens of rows, without padding."""
        return int((self.rows >= 0).sum())

    def blank(self) -> "Batch":
        """The same without targets: what a process computes when the others have more to do."""
        return replace(self, targets=torch.zeros_like(self.targets))

    def to(self, device: torch.device) -> "Batch":
        """The same on a device."""
        return Batch(
            self.ids.to(device),
            self.positions.to(device),
            self.rows.to(device),
            self.targets.to(device),
            self.packed,
        )


def batch_of(rows: Sequence[Row], *, packed: bool = False) -> Batch:
    """Rows side by side, padded to the longest; or, packed, behind each other."""
    width = sum(len(row.ids) for row in rows) if packed else max(len(row.ids) for row in rows)
    height = 1 if packed else len(rows)
    ids = torch.full((height, width), PAD, dtype=torch.long)
    positions = torch.zeros((height, width), dtype=torch.long)
    numbers = torch.full((height, width), -1, dtype=torch.long)
    targets = torch.zeros((height, width), dtype=torch.bool)
    at = 0
    for number, row in enumerate(rows):
        line, start = (0, at) if packed else (number, 0)
        place = (line, slice(start, start + len(row.ids)))
        ids[place] = torch.from_numpy(np.array(row.ids, np.int64))
        positions[place] = torch.arange(len(row.ids))
        numbers[place] = number
        targets[place] = torch.from_numpy(np.array(row.mask, np.bool_))
        at += len(row.ids)
    return Batch(ids, positions, numbers, targets, packed)


@dataclass(frozen=True, slots=True)
class Step:
    """What one step computes."""

    epoch: int
    """Of its first micro-batch, from 0."""
    micro_batches: tuple[tuple[int, ...], ...]
    """The numbers of each one's rows."""
    tokens: int
    """Without padding, over all processes."""
    targets: int

    def share(self, process: int, processes: int) -> list[tuple[int, ...]]:
        """The micro-batches of a process, as many as any other has; an empty one is computed blank."""
        count = -(-len(self.micro_batches) // processes)
        own = list(self.micro_batches[process::processes])
        return own + [()] * (count - len(own))


def plan(rows: TrainingSet, run: Run) -> list[Step]:
    """All steps of a run, in order."""
    steps: list[Step] = []
    lengths, trained = rows.lengths, rows.trained
    left = run.data.tokens or np.inf
    waiting: list[tuple[int, tuple[int, ...]]] = []
    for epoch in range(run.data.epochs):
        order = epoch_order(rows, run.data, run.seed, epoch)
        for micro_batch in micro_batches(order, lengths, run.batches, f"{run.seed}:{epoch}"):
            waiting.append((epoch, micro_batch))
            if len(waiting) == run.batches.micro_batches:
                steps.append(_step(waiting, lengths, trained))
                left -= steps[-1].tokens
                waiting = []
            if left <= 0:
                return steps
    return [*steps, _step(waiting, lengths, trained)] if waiting else steps


def _step(parts: list[tuple[int, tuple[int, ...]]], lengths: NDArray[np.int64], trained: NDArray[np.int64]) -> Step:
    own = [row for _, rows in parts for row in rows]
    return Step(parts[0][0], tuple(rows for _, rows in parts), int(lengths[own].sum()), int(trained[own].sum()))


def micro_batches(
    order: Sequence[int], lengths: NDArray[np.int64], batches: Batches, key: str
) -> list[tuple[int, ...]]:
    """Rows that are computed together: rows of like length within a window, or, packed, as many as fill one.

    The micro-batches of a window stand in an order that `key` decides; windows stay in theirs.
    """
    found = []
    for number, start in enumerate(range(0, len(order), batches.window)):
        window = order[start : start + batches.window]
        cut = _by_length if batches.packing == "none" else _filled
        parts = cut(window, lengths, batches.tokens)
        random.Random(f"{key}:window:{number}").shuffle(parts)
        found += parts
    return found


def _by_length(window: Sequence[int], lengths: NDArray[np.int64], tokens: int) -> list[tuple[int, ...]]:
    """Neighbours by length, as many as fit when padded to the longest."""
    parts: list[list[int]] = []
    for row in sorted(window, key=lambda row: int(lengths[row])):
        if parts and (len(parts[-1]) + 1) * lengths[row] <= tokens:
            parts[-1].append(row)
        else:
            parts.append([row])
    return [tuple(part) for part in parts]


def _filled(window: Sequence[int], lengths: NDArray[np.int64], tokens: int) -> list[tuple[int, ...]]:
    """Each row, the longest first, into the fullest part in which it still fits (best fit decreasing)."""
    parts: list[list[int]] = []
    room: list[int] = []
    for row in sorted(window, key=lambda row: -int(lengths[row])):
        length = int(lengths[row])
        fitting = [number for number, left in enumerate(room) if left >= length]
        if fitting:
            best = min(fitting, key=lambda number: room[number])
            parts[best].append(row)
            room[best] -= length
        else:
            parts.append([row])
            room.append(tokens - length)
    return [tuple(part) for part in parts]


__all__ = ["PAD", "Batch", "Step", "batch_of", "micro_batches", "plan"]
