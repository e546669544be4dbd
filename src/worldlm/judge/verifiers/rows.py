"""Texts as rows, and how much of one stands in another.

Everything that the verifiers compare is a sequence of rows: the lines of a text, the leaves of a JSON value, the
nodes of a tree in the order of its text. Rows that are equal are matched first (a longest common subsequence), then
rows that are alike, in the gaps between those. A row without its like earns nothing, wherever it stands, and weighs
in the sum: so text that the reference does not hold can only cost.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from rapidfuzz.distance import Indel

ALIKE = 0.5
"""The least likeness of two rows (2 × common tokens / all tokens) that earns anything."""
LINE_ALIKE = 0.55
"""The least share of common letters of two single lines that earns anything."""
NEARLY = 0.95
"""What two rows earn at most that differ."""
NOT_EQUAL = 0.999
"""What two sequences of rows get at most that differ."""
CELLS = 4_000
"""Pairs of rows that are compared token by token, in all gaps together. Larger gaps are matched by their loose keys."""
MOST_ROWS = 5_000
MOST_TOKENS = 2_000
"""Of a row, so many tokens are looked at; of a text, so many rows. What goes beyond weighs, and earns nothing."""
HEAVIEST = 60.0
"""What a row weighs at most: an encoded picture is not all of a result."""

_TOKEN = re.compile(r"\d+|[^\W\d_]+|[^\w\s]+|_+")
_DIGITS = re.compile(r"\d+")


class Row(NamedTuple):
    """One line, leaf or node."""

    key: str
    """Equal rows have equal keys."""
    tokens: tuple[str, ...]
    loose: str
    """Rows that say something of the same thing have the same: a line without its numbers, a node without its states,
    a leaf without its value."""
    weight: float


def words(text: str) -> tuple[str, ...]:
    """Numbers, words and runs of signs."""
    return tuple(_TOKEN.findall(text))


def make_row(key: str, tokens: tuple[str, ...], loose: str, weight: float | None = None) -> Row:
    """A row that weighs as much as it has tokens (up to `HEAVIEST`), unless said otherwise."""
    return Row(key, tokens[:MOST_TOKENS], loose, weight if weight is not None else min(max(len(tokens), 0.5), HEAVIEST))


def text_row(line: str) -> Row:
    """A line of text; space at its end does not count."""
    return _short_row(line) if len(line) <= 400 else _row(line)


def _row(line: str) -> Row:
    line = line.rstrip()
    # Empty lines must be where they belong, and do not weigh: else they would earn wherever they stand.
    return make_row(line, words(line), _DIGITS.sub("0", line.strip()), None if line else 0.0)


_short_row = lru_cache(maxsize=1 << 15)(_row)


def text_rows(text: str) -> list[Row]:
    """The lines of a text, without empty ones at its ends."""
    return [text_row(line) for line in text.replace("\r\n", "\n").strip().split("\n")] if text.strip() else []


class Match(NamedTuple):
    """Two rows that belong together."""

    truth: int
    predicted: int
    credit: float
    """1 for equal rows, else at most `NEARLY`."""


def align(truth: Sequence[Row], predicted: Sequence[Row]) -> list[Match]:
    """The rows that belong together, in order."""
    truth, predicted = truth[:MOST_ROWS], predicted[:MOST_ROWS]
    found: list[Match] = []
    cells = CELLS
    for gap in _match(truth, predicted, (0, len(truth), 0, len(predicted)), lambda row: row.key, found):
        for inner in _match(truth, predicted, gap, lambda row: row.loose, found):
            size = (inner[1] - inner[0]) * (inner[3] - inner[2])
            if size <= cells:
                cells -= size
                found += _match_alike(truth, predicted, inner)
    return sorted(found)


_Gap = tuple[int, int, int, int]
"""Where rows are unmatched: from and to in the truth, from and to in the prediction."""


def _match(
    truth: Sequence[Row], predicted: Sequence[Row], gap: _Gap, key: Callable[[Row], str], found: list[Match]
) -> Iterator[_Gap]:
    """Match rows of one key (a longest common subsequence); the gaps that are left with rows on both sides."""
    left, left_end, right, right_end = gap
    ours, theirs = [key(row) for row in truth[left:left_end]], [key(row) for row in predicted[right:right_end]]
    at_left = at_right = 0
    for block in Indel.opcodes(ours, theirs).as_matching_blocks():
        if at_left < block.a and at_right < block.b:
            yield (left + at_left, left + block.a, right + at_right, right + block.b)
        for step in range(block.size):
            one, other = truth[left + block.a + step], predicted[right + block.b + step]
            if credit := _credit(one, other):
                found.append(Match(left + block.a + step, right + block.b + step, credit))
        at_left, at_right = block.a + block.size, block.b + block.size


def _credit(one: Row, other: Row) -> float:
    if one.key == other.key:
        return 1.0
    return _worth(one.tokens, other.tokens)


def _worth(one: str | tuple[str, ...], other: str | tuple[str, ...]) -> float:
    """What two sequences of tokens earn that do not stand in equal rows."""
    likeness = Indel.normalized_similarity(one, other, score_cutoff=ALIKE)
    return float(NEARLY * likeness**2) if likeness >= ALIKE else 0.0


class _Code:
    """Tokens as letters: rows that are compared many times are compared as strings, which is fast."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def __call__(self, row: Row) -> str:
        letters = self._letters
        return "".join(letters.setdefault(token, chr(0x100 + len(letters) % 0xFFFFF)) for token in row.tokens)


def _match_alike(truth: Sequence[Row], predicted: Sequence[Row], gap: _Gap) -> list[Match]:
    """The matching of rows in order that earns most."""
    left, left_end, right, right_end = gap
    code = _Code()
    ours, theirs = [code(row) for row in truth[left:left_end]], [code(row) for row in predicted[right:right_end]]
    earnings = [[_worth(one, other) for other in theirs] for one in ours]
    if not any(map(any, earnings)):
        return []
    worth = [[0.0] * (right_end - right + 1) for _ in range(left_end - left + 1)]
    for i in range(left_end - left - 1, -1, -1):
        for j in range(right_end - right - 1, -1, -1):
            best = max(worth[i + 1][j], worth[i][j + 1])
            if credit := earnings[i][j]:
                pair = credit * (truth[left + i].weight + predicted[right + j].weight)
                best = max(best, worth[i + 1][j + 1] + pair)
            worth[i][j] = best
    found = []
    i = j = 0
    while i < left_end - left and j < right_end - right:
        if worth[i][j] == worth[i + 1][j]:
            i += 1
        elif worth[i][j] == worth[i][j + 1]:
            j += 1
        else:
            found.append(Match(left + i, right + j, earnings[i][j]))
            i, j = i + 1, j + 1
    return found


def weigh(rows: Sequence[Row]) -> float:
    """The weight of rows together."""
    return sum(row.weight for row in rows)


def earned(truth: Sequence[Row], predicted: Sequence[Row], matches: Sequence[Match]) -> float:
    """What matches earn: twice the weight of a row that is there, as it is counted on both sides."""
    return sum(match.credit * (truth[match.truth].weight + predicted[match.predicted].weight) for match in matches)


def likeness(truth: Sequence[Row], predicted: Sequence[Row]) -> float:
    """How much of the rows is right: 2 × matched / (all of the truth + all of the prediction), by weight.

    1 exactly when the rows are equal (two empty sequences are), 0 when nothing is.
    """
    if [row.key for row in truth] == [row.key for row in predicted]:
        return 1.0
    total = weigh(truth) + weigh(predicted)
    return min(earned(truth, predicted, align(truth, predicted)) / total, NOT_EQUAL) if total else 0.0


def line_likeness(truth: str, predicted: str) -> float:
    """How alike two single lines are letter by letter: 1 exactly when they are equal but for space at the end.

    The cube of the share of common letters, as a slip of the pen costs little and another line nearly all; 0 where
    less than half is common, which any two sentences have.
    """
    one, other = truth.rstrip(), predicted.rstrip()
    if one == other:
        return 1.0
    share = Indel.normalized_similarity(one[:MOST_TOKENS], other[:MOST_TOKENS], score_cutoff=LINE_ALIKE)
    return float(NEARLY * share**3)


__all__ = [
    "Match",
    "Row",
    "align",
    "earned",
    "likeness",
    "line_likeness",
    "make_row",
    "text_row",
    "text_rows",
    "weigh",
    "words",
]
