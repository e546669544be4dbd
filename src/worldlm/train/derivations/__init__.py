"""Thinking that a program writes: short, true derivations of an answer, and the check that they are true.

`derivations(trajectory)` gives one for each turn for which a rule serves; `false_claims(trajectory)` reads the thinking
of a trajectory and names every line that is no claim of its domain's book, or does not hold; `refutations(trajectory)`
tells how much the thinking says, by whether it would hold for another answer as well.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from worldlm.core.text import estimate_tokens
from worldlm.core.types import DomainName, Trajectory
from worldlm.train.derivations import gui, mcp, search, swe, terminal
from worldlm.train.derivations.claims import Book, Derivation, derive, faults

BOOKS: Mapping[DomainName, Book[Any]] = {
    "terminal": terminal.BOOK,
    "swe": swe.BOOK,
    "mcp": mcp.BOOK,
    "search": search.BOOK,
    "web": gui.WEB_BOOK,
    "os": gui.OS_BOOK,
}
"""The domains that have derivations. (For android there are none.)"""
MOST_TOKENS = 60


def derivations(
    trajectory: Trajectory, most_tokens: int = MOST_TOKENS, count: Callable[[str], int] = estimate_tokens
) -> Iterator[tuple[int, Derivation | None]]:
    """For each turn that has an observation, its number from 1 and its derivation; None where no rule serves.

    `count` is in tokens, of which a derivation has `most_tokens` at most.
    """
    book = BOOKS.get(trajectory.world.domain)
    if book is not None:
        for turn, scene in book.scenes(trajectory):
            yield turn, derive(book, scene, most_tokens, count)


def false_claims(trajectory: Trajectory) -> Iterator[tuple[int, str]]:
    """The lines of a trajectory's thinking that are false, or no claims, each with the number of its turn."""
    book = BOOKS.get(trajectory.world.domain)
    if book is None:
        return
    for turn, scene in book.scenes(trajectory):
        if (thinking := trajectory.turns[turn - 1].thinking) is not None:
            yield from ((turn, line) for line in faults(book, scene, thinking))


def refutations(trajectory: Trajectory) -> Iterator[tuple[int, bool]]:
    """Of each turn that has thinking, its number and whether another answer refutes the thinking.

    The other answer is that of the next turn (of the first, for the last one). Turns where it is the same are left out.
    """
    book = BOOKS.get(trajectory.world.domain)
    if book is None:
        return
    answers = [turn.observation for turn in trajectory.turns]
    for turn, scene in book.scenes(trajectory):
        other, thinking = answers[turn % len(answers)], trajectory.turns[turn - 1].thinking
        if thinking is not None and other is not None and other != answers[turn - 1]:
            yield turn, bool(faults(book, scene.answered(other), thinking))


__all__ = ["BOOKS", "MOST_TOKENS", "Derivation", "derivations", "false_claims", "refutations"]
