"""State deltas: an observation written as its difference from an earlier one of the session.

A screen is long and mostly what it was before; what a delta does not name cannot drift. The form is made to be
written by a language model: a line of the base is named by its beginning, as far as no other line begins so, and
not by counting lines; and the base by how many observations back it lies, so that going back or closing a dialog
costs one line. Screens number their elements from top to bottom (`[31]`, `<node index="31"`), so one that is new
renumbers all behind it: that costs one line as well.

    @back 1                      the base: the last observation (2: the one before it; 0: nothing at all)
    = [31] textbox               this line of the base is replaced by the lines that follow
    +    [31] textbox 'City' value='Faro', focused
    - [44]                       this line goes …
    : [52]                       … and all up to this one (also after =)
    > [12]                       after this line come the lines that follow
    +    [13] alert 'Saved'
    ~ 14                         and then the base goes on with 14 for its next number; later numbers move as far
    > ^                          before the first line
    = [7] +2                     the second line after [7], where no beginning is its own

Everything is about lines between line feeds, so every text has a delta against every other, and none loses anything.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rapidfuzz.distance import LCSseq, Levenshtein, Prefix

from worldlm.core.errors import WorldlmError
from worldlm.core.text import estimate_tokens

_HEADER = re.compile(r"@back ([0-9]{1,9})\Z")
_WORD_END = re.compile(r"\S(?=\s|\Z)")
_FURTHER = re.compile(r"(.*) \+([1-9][0-9]{0,8})\Z", re.DOTALL)
_NUMBER = r"0|[1-9][0-9]{0,8}"
_NUMBERED = re.compile(rf'(\s*(?:\[|<node index="))({_NUMBER})([\]"].*)', re.DOTALL)
_GOES_ON = re.compile(rf"~ ({_NUMBER})\Z")
_TOP = "^"
CANDIDATES = 3
"""Bases that are tried in full, of those that have most lines in common."""


class DeltaError(WorldlmError):
    """A delta that does not apply."""


def is_delta(text: str) -> bool:
    """Whether a text has the form of a delta (its first line does)."""
    return _HEADER.match(text.partition("\n")[0]) is not None


def bases(states: Sequence[str], shown: int) -> list[str]:
    """Which of a session's states may be named: the first, and of the later ones the `shown` newest.

    Those are what a model sees when it answers: the first stands in the system message, the others in the turns that
    still fit its context.
    """
    return [*states[:1], *states[max(1, len(states) - shown) :]]


class _Change(NamedTuple):
    """Lines `start` to before `end` of the base become `came`; `number` is that of the next numbered line kept."""

    start: int
    end: int
    came: Sequence[str]
    number: int | None


# Writing.


def write_delta(new: str, base: str | None, back: int) -> str:
    """`new` as its difference from `base`, which lies `back` observations back (None and 0: from nothing)."""
    old = _lines(base)
    names = _Names(old)
    out = [f"@back {back}"]
    for start, end, came, number in _changes(old, new.split("\n")):
        if start == end:
            out.append(f"> {names.before(start)}")
        else:
            out += names.spell("=" if came else "-", start, end)
        out += ["+" + line for line in came]
        if number is not None:
            out.append(f"~ {number}")
    return "\n".join(out)


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[_Change]:
    """What turns one list of lines into the other, from top to bottom; no two changes touch."""
    theirs, ours = _parted(old), _parted(new)
    moved = 0  # by how much the numbers that are kept differ here
    change: _Change | None = None  # not yet told, because the next number kept may belong to it
    for code in Levenshtein.opcodes(*_as_integers(theirs, ours)):
        if code.tag != "equal":
            start, end, came = code.src_start, code.src_end, new[code.dest_start : code.dest_end]
            if change and change.end == start:
                change = _Change(change.start, end, [*change.came, *came], None)
                continue
            if change:
                yield change
            change = _Change(start, end, came, None)
            continue
        for at in range(code.src_start, code.src_end):
            before, after = theirs[at].number, ours[code.dest_start + at - code.src_start].number
            if before is None or after is None:
                continue
            if after - before != moved:
                moved = after - before
                change = (change or _Change(at, at, (), None))._replace(number=after)
            if change:
                yield change
                change = None
    if change:
        yield change


def shortest(new: str, earlier: Sequence[str], cost: Callable[[str], int] = estimate_tokens) -> str:
    """The cheapest way to write `new`: whole, or as a delta against the best of the `earlier` observations.

    `cost` is in tokens. A text that would be taken for a delta is written as a delta from nothing.
    """
    best = write_delta(new, None, 0) if is_delta(new) else new
    least = cost(best)
    texts = [text.split("\n") for text in (*earlier, new)]
    *others, ours = _as_integers(*map(_parted, texts))
    likeness = [LCSseq.similarity(theirs, ours) for theirs in others]
    backs = sorted(range(1, len(earlier) + 1), key=lambda back: (-likeness[-back], len(others[-back]), back))
    for back in backs[:CANDIDATES]:
        if not likeness[-back]:
            break
        delta = write_delta(new, earlier[-back], back)
        price = cost(delta)
        if price < least:
            best, least = delta, price
    return best


class _Parted(NamedTuple):
    """A line without its number, and the number."""

    rest: Hashable
    number: int | None


def _parted(lines: Iterable[str]) -> list[_Parted]:
    found = ((line, _NUMBERED.fullmatch(line)) for line in lines)
    return [_Parted((m[1], m[3]), int(m[2])) if m else _Parted(line, None) for line, m in found]


def _as_integers(*texts: Sequence[_Parted]) -> list[list[int]]:
    """Equal lines, but for their numbers, as equal integers: what is compared is compared exactly, and not by hash."""
    known: dict[Hashable, int] = {}
    return [[known.setdefault(line.rest, len(known)) for line in lines] for lines in texts]


# Reading.


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
    changes = sorted(_read_changes(commands, _Names(old)), key=lambda change: change.start)
    lines: list[str] = []
    done, shift = 0, _Shift()
    for change in changes:
        if change.start < done:
            raise DeltaError(f"two changes overlap at line {change.start + 1} of the base")
        lines += shift.apply(old[done : change.start])
        lines += change.came
        done = change.end
        if change.number is not None:
            shift.expect(change.number)
    lines += shift.apply(old[done:])
    shift.finish()
    return "\n".join(lines)


def _read_changes(commands: Sequence[str], names: "_Names") -> list[_Change]:
    changes: dict[int, _Change] = {}
    at = 0

    def next_is(prefix: str) -> bool:
        return at < len(commands) and commands[at].startswith(prefix)

    while at < len(commands):
        line = commands[at]
        command, name = line[:2], line[2:]
        at += 1
        if command == "> ":
            start = end = names.find(name) + 1
        elif command in ("= ", "- "):
            start = names.find_line(name)
            end = start + 1
            if next_is(": "):
                end = names.find_line(commands[at][2:]) + 1
                at += 1
        else:
            raise DeltaError(f"a line of a delta begins with '= ', '- ', '> ', '+' or '~ ', not {line[:60]!r}")
        if end < start:
            raise DeltaError(f"{commands[at - 1][:60]!r} ends before it begins")
        came = []
        while command != "- " and next_is("+"):
            came.append(commands[at][1:])
            at += 1
        number = None
        if next_is("~ "):
            goes_on = _GOES_ON.match(commands[at])
            if goes_on is None:
                raise DeltaError(f"'~ ' is followed by a number alone, as in '~ 12', not {commands[at][:60]!r}")
            number = int(goes_on[1])
            at += 1
        if not came and (command == "= " or (command == "> " and number is None)):
            raise DeltaError(f"nothing follows {line[:60]!r}")
        if start in changes:
            raise DeltaError(f"two changes at one place: {line[:60]!r}")
        changes[start] = _Change(start, end, came, number)
    return list(changes.values())


class _Shift:
    """How far the numbers of the lines that are kept have moved."""

    def __init__(self) -> None:
        self._by = 0
        self._next: int | None = None

    def expect(self, number: int) -> None:
        """The next numbered line has this number."""
        self.finish()
        self._next = number

    def finish(self) -> None:
        """Raises DeltaError when a number was expected that did not come."""
        if self._next is not None:
            raise DeltaError(f"no numbered line follows '~ {self._next}'")

    def apply(self, lines: Iterable[str]) -> Iterator[str]:
        """The lines with their numbers moved."""
        for line in lines:
            found = _NUMBERED.fullmatch(line) if self._by or self._next is not None else None
            if found is None:
                yield line
                continue
            if self._next is not None:
                self._by, self._next = self._next - int(found[2]), None
            number = int(found[2]) + self._by
            if number < 0:
                raise DeltaError(f"the number of {line.strip()[:60]!r} would fall below 0")
            yield f"{found[1]}{number}{found[3]}"


def _lines(base: str | None) -> list[str]:
    return [] if base is None else base.split("\n")


class _Names:
    """The lines of a base by their beginnings."""

    def __init__(self, lines: Sequence[str]):
        self._stripped = [line.strip() for line in lines]
        self._sorted = sorted((line, number) for number, line in enumerate(self._stripped))

    def find(self, name: str) -> int:
        """The index of the line that has this name; -1 for the place before the first."""
        further = _FURTHER.match(name)
        if further is None:
            return self._begun(name)
        index = self._begun(further[1]) + int(further[2])
        if index >= len(self._stripped):
            raise DeltaError(f"{name[:60]!r} is behind the last line of the base")
        return index

    def _begun(self, name: str) -> int:
        """The index of the only line that begins so."""
        if name == _TOP:
            return -1
        at = bisect_left(self._sorted, (name, -1))
        if not name or at == len(self._sorted) or not self._sorted[at][0].startswith(name):
            raise DeltaError(f"no line of the base begins with {name[:60]!r}")
        if at + 1 < len(self._sorted) and self._sorted[at + 1][0].startswith(name):
            raise DeltaError(f"several lines of the base begin with {name[:60]!r}")
        return self._sorted[at][1]

    def find_line(self, name: str) -> int:
        """The index of the line that has this name."""
        index = self.find(name)
        if index < 0:
            raise DeltaError(f"{_TOP!r} is no line of the base but the place before the first; only '> ' takes it")
        return index

    def _beginning(self, index: int) -> str | None:
        """The shortest beginning, in whole words, that no other line has."""
        line = self._stripped[index]
        at = bisect_left(self._sorted, (line, index))
        neighbours = [self._sorted[i][0] for i in (at - 1, at + 1) if 0 <= i < len(self._sorted)]
        shared = max((Prefix.similarity(line, other) for other in neighbours), default=0)
        end = _WORD_END.search(line, shared)
        name = line[: end.end()] if end else ""
        return None if not name or name == _TOP or _FURTHER.match(name) else name

    def name(self, index: int) -> str:
        """What a line is called; -1 is the place before the first."""
        for at in range(index, -1, -1):
            if name := self._beginning(at):
                return f"{name} +{index - at}" if at < index else name
        return f"{_TOP} +{index + 1}" if index >= 0 else _TOP

    def before(self, index: int) -> str:
        """The name of the line before `index`, as a place to insert after."""
        return self.name(index - 1)

    def spell(self, command: str, start: int, end: int) -> list[str]:
        """The lines that name a range."""
        first = f"{command} {self.name(start)}"
        return [first] if end == start + 1 else [first, f": {self.name(end - 1)}"]
