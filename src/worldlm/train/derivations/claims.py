"""Claims: sentences that a program writes, reads back and checks.

A *book* holds what can be said in a domain: its kinds of claim, each a sentence with gaps and the check that tells
whether it holds, and its rules, each of which proposes claims for a turn. Thinking that comes of it is one claim a
line. What is written is read back from its text and checked by the same functions as any file of such thinking, so
that a line which is no claim, or one that does not hold, never stays.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from string import Formatter
from typing import Any, Generic, Literal, Protocol, TypeVar

from worldlm.core.types import Observation, Trajectory


class Scene(Protocol):
    """A turn as a domain's rules see it: what was before, the action, and the true answer."""

    @property
    def truth(self) -> str:
        """The true answer, in the domain's wire format."""
        ...

    @property
    def said(self) -> str:
        """Of the answer, what is neither an echo of the action nor the state of before."""
        ...

    def answered(self, observation: Observation) -> "Scene":
        """The same turn, if this had been the answer."""
        ...


S = TypeVar("S", bound=Scene)


@dataclass(frozen=True)
class Kind(Generic[S]):
    """One thing that can be said."""

    words: str
    """A sentence with named gaps."""
    holds: Callable[..., bool]
    """Takes the scene, and the gaps' texts by name."""
    of: Literal["known", "answer"] = "known"
    """What it tells of: what is known before the answer, or the answer."""
    among: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The texts of a gap that has only certain ones."""

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = [re.escape(text) + self._gap(name) for text, name, _, _ in Formatter().parse(self.words)]
        return re.compile("".join(parts))

    def _gap(self, name: str | None) -> str:
        texts = "|".join(map(re.escape, self.among.get(name, ()))) if name else ""
        return f"(?P<{name}>{texts or '.+'})" if name else ""

    def read(self, line: str) -> dict[str, str] | None:
        """The gaps' texts of a line of this kind; None for any other line."""
        match = self._pattern.fullmatch(line)
        return match.groupdict() if match else None


@dataclass(frozen=True, slots=True)
class Claim:
    """A kind of a book, by its name, and the texts of its gaps."""

    kind: str
    values: Mapping[str, str]


def claim(name: str, /, **values: object) -> Claim:
    """A claim; values are written as text."""
    return Claim(name, {gap: str(value) for gap, value in values.items()})


@dataclass(frozen=True, slots=True)
class Rule(Generic[S]):
    """Proposes claims for a turn: none where it has nothing to say about it."""

    name: str
    propose: Callable[[S], Iterable[Claim]]


@dataclass(frozen=True)
class Book(Generic[S]):
    """What can be said in a domain."""

    scenes: Callable[[Trajectory], Iterator[tuple[int, S]]]
    """The turns that have an observation, with their numbers from 1. A scene holds until the next one is asked for."""
    kinds: Mapping[str, Kind[S]]
    rules: Sequence[Rule[S]]
    """The first one whose claims hold is taken."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """True thinking for a turn."""

    text: str
    rule: str


LONG = 40
"""Characters of an answer from which on a derivation must not hold it whole."""


def derive(book: Book[S], scene: S, most_tokens: int, count: Callable[[str], int]) -> Derivation | None:
    """The derivation of a turn: of the first rule whose claims all hold, and tell something of the answer.

    Of what is too long the last sentences about what is known before are left out. None where no rule serves.
    """
    for rule in book.rules:
        claims = list(rule.propose(scene))
        while claims:
            text = write(book, claims)
            if count(text) <= most_tokens:
                break
            spare = [at for at, each in enumerate(claims) if book.kinds[each.kind].of == "known"]
            claims = [*claims[: spare[-1]], *claims[spare[-1] + 1 :]] if spare else []
        tells = any(book.kinds[each.kind].of == "answer" for each in claims)
        if tells and not repeats(text, scene.said) and not faults(book, scene, text):
            return Derivation(text, rule.name)
    return None


def write(book: Book[Any], claims: Iterable[Claim]) -> str:
    """Claims as thinking: one a line, none twice."""
    return "\n".join(dict.fromkeys(book.kinds[each.kind].words.format(**each.values) for each in claims))


def faults(book: Book[S], scene: S, text: str) -> list[str]:
    """The lines of a thinking that are no claims of the book, or do not hold."""
    return [line for line in text.split("\n") if not _holds(book, scene, line)]


def _holds(book: Book[S], scene: S, line: str) -> bool:
    for kind in book.kinds.values():
        values = kind.read(line)
        if values is not None and kind.holds(scene, **values):
            return True
    return False


def repeats(text: str, said: str) -> bool:
    """Whether a thinking holds all of an answer that is more than a word or two."""
    flat = " ".join(said.split())
    return len(flat) >= LONG and flat in " ".join(text.split())


def number(text: str) -> int:
    """A number that a claim names; -1 for what is none."""
    return int(text) if text.isascii() and text.isdecimal() else -1


def rows(count: int, noun: str = "line") -> str:
    """`1 line`, `3 lines`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def are(count: int, noun: str = "line") -> str:
    """`1 line is`, `3 lines are`."""
    return f"{rows(count, noun)} {'is' if count == 1 else 'are'}"


def count_of(text: str, noun: str = "line") -> int:
    """The number that `rows` wrote; -1 for what it did not."""
    found = number(text.split(" ", 1)[0])
    return found if text == rows(found, noun) else -1


__all__ = [
    "LONG",
    "Book",
    "Claim",
    "Derivation",
    "Kind",
    "Rule",
    "Scene",
    "are",
    "claim",
    "count_of",
    "derive",
    "faults",
    "number",
    "repeats",
    "rows",
    "write",
]
