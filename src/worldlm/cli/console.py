"""What all verbs share of output: results on stdout, everything else on stderr, JSON when asked for."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from rich.text import Text

from worldlm.core.text import clean_json

out = Console(highlight=False, markup=False, emoji=False)
"""Results."""
err = Console(stderr=True, highlight=False, markup=False, emoji=False)
"""Notes and progress."""

# A simulated observation may hold anything; it must not steer the terminal it is shown on.
_VISIBLE = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {127: "\u2421"}
_VISIBLE |= dict.fromkeys(range(0x80, 0xA0), "\ufffd")


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


def complain(text: str) -> None:
    """Write an error, in one line, to stderr."""
    err.file.write(" ".join(text.split()) + "\n")


def show_rows(rows: list[tuple[str, ...]]) -> None:
    """Write rows in aligned columns, the last one as long as it is."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        show("  ".join([*cells, row[-1]]).rstrip())


def show_beside(left_title: str, left: str, right_title: str, right: str) -> None:
    """Two texts beside each other on a wide terminal, else one under the other."""
    if out.is_terminal and out.width >= 100:
        table = Table(box=SIMPLE, expand=True, header_style="dim", padding=(0, 1), collapse_padding=True)
        for title in (left_title, right_title):
            table.add_column(title, ratio=1, overflow="fold")
        table.add_row(Text(visible(left)), Text(visible(right)))
        out.print(table)
        return
    for title, text in ((left_title, left), (right_title, right)):
        show(f"--- {title}", "dim")
        show(text)


@contextmanager
def waiting(what: str) -> Iterator[Callable[[], None]]:
    """Show on a terminal that something is being done; yields what ends the show earlier."""
    if not (err.is_terminal and out.is_terminal):
        yield lambda: None
        return
    with err.status(f"{what} …") as status:
        yield status.stop


@contextmanager
def progress(description: str, total: int | None, *, hidden: bool = False) -> Iterator[Callable[[], None]]:
    """A progress bar on stderr; yields what advances it by one. Silent when stderr is not a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Unless told, rich would send what is written to stdout to the bar's console.
    bar = Progress(
        *columns,
        console=err,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        disable=hidden or not err.is_terminal,
    )
    with bar:
        task = bar.add_task(description, total=total)
        yield lambda: bar.advance(task)


@contextmanager
def transfer(on_start: Callable[[], None] = lambda: None) -> Iterator[Callable[[str, int, int], None]]:
    """A bar of bytes on stderr, silent when that is no terminal; yields what takes (what, bytes done, bytes in all).

    `on_start` is called before the first bytes.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=err, transient=True, redirect_stdout=False, disable=not err.is_terminal) as bar:

        def advance(what: str, done: int, total: int) -> None:
            if not tasks:
                on_start()
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done)

        yield advance
