"""Markdown that programs write: tables, blocks of text as it is, and the part of a page that is generated."""

import re
from collections.abc import Iterable, Sequence

from worldlm.core.errors import InputError

Cells = Sequence[object]


def table(head: Cells, rows: Iterable[Cells]) -> str:
    """A table; what would end a cell in it is written so that it does not."""
    return "\n".join(f"| {' | '.join(map(_cell, cells))} |" for cells in [head, ["---"] * len(head), *rows])


def _cell(value: object) -> str:
    return str(value).replace("|", r"\|").replace("\n", " ")


def block(text: str, language: str = "text") -> str:
    """A fenced block that holds the text as it stands, whatever fences are in it."""
    longest = max(map(len, re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def marks(name: str) -> tuple[str, str]:
    """The lines of a page between which something is generated."""
    return f"<!-- {name}: generated -->", f"<!-- {name}: end -->"


def put_between(page: str, name: str, text: str) -> str:
    """The page with `text` between the `marks` of that name.

    Raises InputError where it has none.
    """
    begin, end = marks(name)
    head, found, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    if not (found and closed):
        raise InputError(f"the page has no place for it: a line {begin}, and after it a line {end}")
    return f"{head}{begin}\n\n{text}\n{end}{tail}"


__all__ = ["Cells", "block", "marks", "put_between", "table"]
