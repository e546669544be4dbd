"""State deltas: an observation written as its difference from an earlier one of the session.

A screen is long and mostly what it was before; what a delta does not name cannot drift. The form is made to be
written by a language model: a line of the base is named by its beginning, as far as no other line begins so, and
not by its number; and the base by how many observations back it lies, so that going back or closing a dialog
costs one line.

    @back 1                      the base: the last observation (2: the one before it; 0: nothing at all)
    = [31] textbox               this line of the base is replaced by the lines that follow
    +    [31] textbox 'City' value='Faro', focused
    - [44]                       this line goes …
    : [52]                       … and all up to this one (also after =)
    > [12]                       after this line come the lines that follow
    +    [63] alert 'Saved'
    > ^                          before the first line
    = #7                         the seventh line, where no beginning is its own

Everything is about lines between line feeds, so every text has a delta against every other, and none loses anything.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence

from rapidfuzz.distance import Indel, Levenshtein, Prefix

from worldlm.core.errors import WorldlmError
from worldlm.core.text import estimate_tokens

_HEADER = re.compile(r"@back (\d+)\Z")
_WORD_END = re.compile(r"\S(?=\s|\Z)")
_NUMBER = re.compile(r"#(\d+)\Z")
CANDIDATES = 3
"""Bases that are tried in full, of those that have most lines in common."""


class DeltaError(WorldlmError):
    """A delta that does not apply."""


def is_delta(text: str) -> bool:
    """Whether a text has the form of a delta (its first line does)."""
    return _HEADER.match(text.partition("\n")[0]) is not None


def write_delta(new: str, base: str | None, back: int) -> str:
    """`new` as its difference from `base`, which lies `back` observations back (None and 0: from nothing)."""
    old, lines = _lines(base), new.split("\n")
    names = _Names(old)
    out = [f"@back {back}"]
    for start, end, new_start, new_end in _blocks(old, lines) if old else ():
        came = ["+" + line for line in lines[new_start:new_end]]
        if end == start:
            out.append(f"> {names.before(start)}")
        else:
            out += names.spell("=" if came else "-", start, end)
        out += came
    if not old:
        out += ["> ^", *("+" + line for line in lines)]
    return "\n".join(out)


def _blocks(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """The ranges in which two lists of lines differ; no two of them touch."""
    blocks: list[tuple[int, int, int, int]] = []
    for code in Levenshtein.opcodes(old, new):
        if code.tag == "equal":
            continue
        start, new_start = code.src_start, code.dest_start
        if blocks and blocks[-1][1] == start and blocks[-1][3] == new_start:
            start, _, new_start, _ = blocks.pop()
        blocks.append((start, code.src_end, new_start, code.dest_end))
    return blocks


def read_delta(delta: str, earlier: Sequence[str]) -> str:
    """The observation that a delta stands for. `earlier`: the observations so far, the last one last.

    Raises DeltaError, with the line that is wrong, when it does not apply.
    """
    header, *commands = delta.split("\n")
    found = _HEADER.match(header)
    if found is None:
        raise DeltaError(f"a delta begins with '@back N', not {header[:60]!r}")
    back = int(found[1])
    if back > len(earlier):
        raise DeltaError(f"'{header}' goes further back than the {len(earlier)} observations there are")
    old = _lines(earlier[-back] if back else None)
    names = _Names(old)
    edits: dict[int, tuple[int, list[str]]] = {}  # where in the base, to where what goes ends and what comes
    at = 0
    while at < len(commands):
        command, text = commands[at][:2], commands[at][2:]
        at += 1
        if command == "> ":
            start = end = 0 if text == "^" else names.find(text) + 1
        elif command in ("= ", "- "):
            start = names.find(text)
            end = start + 1
            if at < len(commands) and commands[at].startswith(": "):
                end = names.find(commands[at][2:]) + 1
                at += 1
        else:
            raise DeltaError(f"a line of a delta begins with '= ', '- ', '> ' or '+', not {commands[at - 1][:60]!r}")
        if end < start:
            raise DeltaError(f"{commands[at - 1][:60]!r} ends before it begins")
        came = []
        while command != "- " and at < len(commands) and commands[at].startswith("+"):
            came.append(commands[at][1:])
            at += 1
        if command != "- " and not came:
            raise DeltaError(f"nothing follows {(command + text)[:60]!r}")
        if start in edits:
            raise DeltaError(f"two changes at one place: {(command + text)[:60]!r}")
        edits[start] = (end, came)
    lines: list[str] = []
    done = 0
    for start in sorted(edits):
        end, came = edits[start]
        if start < done:
            raise DeltaError(f"two changes overlap at line {start + 1} of the base")
        lines += old[done:start] + came
        done = end
    return "\n".join(lines + old[done:])


def shortest(new: str, earlier: Sequence[str], cost: Callable[[str], int] = estimate_tokens) -> str:
    """The cheapest way to write `new`: whole, or as a delta against the best of the `earlier` observations.

    `cost` is in tokens. A text that would be taken for a delta is written as a delta from nothing.
    """
    best = write_delta(new, None, 0) if is_delta(new) else new
    least = cost(best)
    if not earlier:
        return best
    lines = new.split("\n")
    likeness = {
        back: Indel.distance(earlier[-back].split("\n"), lines, score_cutoff=len(lines))
        for back in range(1, len(earlier) + 1)
    }
    for back in sorted(likeness, key=lambda back: (likeness[back], back))[:CANDIDATES]:
        if likeness[back] > len(lines):
            break
        delta = write_delta(new, earlier[-back], back)
        price = cost(delta)
        if price < least:
            best, least = delta, price
    return best


def _lines(base: str | None) -> list[str]:
    return [] if base is None else base.split("\n")


class _Names:
    """The lines of a base by their beginnings."""

    def __init__(self, lines: Sequence[str]):
        self._stripped = [line.strip() for line in lines]
        self._sorted = sorted((line, number) for number, line in enumerate(self._stripped))

    def find(self, name: str) -> int:
        """The index of the line that has this name."""
        if found := _NUMBER.match(name):
            number = int(found[1])
            if not 1 <= number <= len(self._stripped):
                raise DeltaError(f"the base has no line {number}; it has {len(self._stripped)}")
            return number - 1
        at = bisect_left(self._sorted, (name, -1))
        if not name or at == len(self._sorted) or not self._sorted[at][0].startswith(name):
            raise DeltaError(f"no line of the base begins with {name[:60]!r}")
        if at + 1 < len(self._sorted) and self._sorted[at + 1][0].startswith(name):
            raise DeltaError(f"several lines of the base begin with {name[:60]!r}")
        return self._sorted[at][1]

    def name(self, index: int) -> str:
        """The shortest beginning, in whole words, that no other line has, or the line's number."""
        line = self._stripped[index]
        at = bisect_left(self._sorted, (line, index))
        neighbours = [self._sorted[i][0] for i in (at - 1, at + 1) if 0 <= i < len(self._sorted)]
        shared = max((Prefix.similarity(line, other) for other in neighbours), default=0)
        end = _WORD_END.search(line, shared)
        if end is None or line[0] == "#":
            return f"#{index + 1}"
        return line[: end.end()]

    def before(self, index: int) -> str:
        """The name of the line before `index`, as a place to insert after."""
        return self.name(index - 1) if index else "^"

    def spell(self, command: str, start: int, end: int) -> list[str]:
        """The lines that name a range."""
        first = f"{command} {self.name(start)}"
        return [first] if end == start + 1 else [first, f": {self.name(end - 1)}"]
