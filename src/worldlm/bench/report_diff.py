"""Two texts side by side, line by line, with what differs marked word by word.

What is shown is data of a model: it is made visible as it is (control characters, and those that turn or hide text, as
signs of their own), and never long enough to slow a browser down (what is left out is counted).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from worldlm.core.text import number_of

MAX_LINES = 400
"""Lines of each text that are shown."""
MAX_WIDTH = 2000
"""Characters of each line that are shown."""
MAX_WORDS = 250
"""A pair of lines with more words on one side is marked as a whole."""
CONTEXT = 3
"""Equal lines that stay open before and after a difference."""

_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
# C0 and C1 controls but tab and line end; what is of no width; what turns the direction of writing.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line; `changed`: the other side does not have it."""

    text: str
    changed: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A line of each side; None where a side has none."""

    left: tuple[Piece, ...] | None
    right: tuple[Piece, ...] | None
    equal: bool


@dataclass(frozen=True, slots=True)
class Block:
    """Rows that belong together; `folded`: equal ones, far from any difference."""

    rows: tuple[Row, ...]
    folded: bool = False


@dataclass(frozen=True, slots=True)
class Diff:
    """Two texts beside each other."""

    blocks: tuple[Block, ...]
    cut: tuple[str, str]
    """In words, what of each side is not shown; empty where all is."""


def visible(text: str) -> str:
    """A text in which nothing hides: control characters as their pictures, other invisible ones by number."""
    return _HIDDEN.sub(lambda match: _sign(ord(match[0])), text)


def _sign(code: int) -> str:
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"⟨U+{code:04X}⟩"


def diff(left: str, right: str) -> Diff:
    """Both texts, aligned. The lines of a side, put together again, are what is shown of it."""
    (a, left_cut), (b, right_cut) = _shown(left), _shown(right)
    return Diff(tuple(_blocks(list(_rows(a, b)))), (left_cut, right_cut))


def _shown(text: str) -> tuple[list[str], str]:
    """The lines that are shown, and what is not."""
    lines = visible(text).split("\n")
    kept = [line[:MAX_WIDTH] for line in lines[:MAX_LINES]]
    told = []
    if len(lines) > MAX_LINES:
        told.append(number_of(len(lines) - MAX_LINES, "more line"))
    if wide := sum(len(line) > MAX_WIDTH for line in lines[:MAX_LINES]):
        told.append(f"the ends of {number_of(wide, 'line')} longer than {MAX_WIDTH:,} characters")
    return kept, f"not shown: {', '.join(told)}" if told else ""


def _rows(a: Sequence[str], b: Sequence[str]) -> Iterator[Row]:
    for tag, a_from, a_to, b_from, b_to in SequenceMatcher(None, a, b).get_opcodes():
        if tag == "equal":
            for line in a[a_from:a_to]:
                yield Row((Piece(line),), (Piece(line),), equal=True)
            continue
        olds, news = a[a_from:a_to], b[b_from:b_to]
        for index in range(max(len(olds), len(news))):
            old = olds[index] if index < len(olds) else None
            new = news[index] if index < len(news) else None
            if old is not None and new is not None:
                yield Row(*_words(old, new), equal=False)
            else:
                yield Row(_whole(old), _whole(new), equal=False)


def _whole(line: str | None) -> tuple[Piece, ...] | None:
    return None if line is None else (Piece(line, changed=True),)


def _words(old: str, new: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Two lines, with the words marked that differ; all of both, where little is common."""
    a, b = _WORD.findall(old), _WORD.findall(new)
    everything = (Piece(old, changed=True),), (Piece(new, changed=True),)
    if max(len(a), len(b)) > MAX_WORDS:
        return everything
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if matcher.ratio() < 0.3:
        return everything
    left, right = list[Piece](), list[Piece]()
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        changed = tag != "equal"
        if a_to > a_from:
            left.append(Piece("".join(a[a_from:a_to]), changed))
        if b_to > b_from:
            right.append(Piece("".join(b[b_from:b_to]), changed))
    return tuple(left), tuple(right)


def _blocks(rows: Sequence[Row]) -> Iterator[Block]:
    """Rows, with the equal ones folded that stand more than `CONTEXT` lines from any difference."""
    near = set[int]()
    for index, row in enumerate(rows):
        if not row.equal:
            near.update(range(index - CONTEXT, index + CONTEXT + 1))
    start = 0
    while start < len(rows):
        folded, end = start not in near, start
        while end < len(rows) and (end not in near) == folded:
            end += 1
        # A line or two are shown sooner than announced.
        yield Block(tuple(rows[start:end]), folded and end - start > CONTEXT)
        start = end
