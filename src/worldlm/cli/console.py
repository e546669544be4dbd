"""What all verbs share of output: results on stdout, everything else on stderr, JSON when asked for."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from worldlm.core.text import clean_json

out = Console(highlight=False, markup=False, emoji=False)
"""Results."""
err = Console(stderr=True, highlight=False, markup=False, emoji=False)
"""Notes and progress."""

# A simulated observation may hold anything; it must not steer the terminal it is shown on.
_VISIBLE = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {127: "\u2421"}
_VISIBLE |= {code: "\ufffd" for code in range(0x80, 0xA0)}


def visible(text: str) -> str:
    """`text` with control characters made visible, for a screen."""
    return text.translate(_VISIBLE)


def show(text: str, style: str = "", end: str = "\n") -> None:
    """Write text to stdout as it stands: never wrapped, never interpreted."""
    shown = visible(text) if out.is_terminal else text
    if out.is_terminal and style:
        out.print(Text(shown, style=style), end=end, soft_wrap=True)
    else:
        out.file.write(shown + end)
        out.file.flush()


def show_json(value: Any) -> None:
    """Write one JSON value, on one line, to stdout."""
    out.file.write(json.dumps(clean_json(value), ensure_ascii=False, allow_nan=False) + "\n")


def note(text: str) -> None:
    """Write a line to stderr."""
    err.print(Text(visible(text), style="dim"), soft_wrap=True)


def show_rows(rows: list[tuple[str, ...]]) -> None:
    """Write rows in aligned columns, the last one as long as it is."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        show("  ".join([*cells, row[-1]]).rstrip())


def show_beside(left_title: str, left: str, right_title: str, right: str) -> None:
    """Two texts beside each other on a wide terminal, else one under the other."""
    if out.is_terminal and out.width >= 100:
        width = (out.width - 3) // 2
        columns = [Text(f"{title}\n{visible(text)}") for title, text in ((left_title, left), (right_title, right))]
        for column in columns:
            column.stylize("dim", 0, column.plain.index("\n"))
        out.print(Columns(columns, width=width, padding=(0, 3)))
        return
    for title, text in ((left_title, left), (right_title, right)):
        show(title, "dim")
        show(text)


@contextmanager
def progress(description: str, total: int | None) -> Iterator[Progress]:
    """A progress bar on stderr with one task; nothing is shown when stderr is not a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        bar.add_task(description, total=total)
        yield bar
