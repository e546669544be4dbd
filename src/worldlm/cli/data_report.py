"""What the verbs of `worldlm data` share: how a loss report is shown, and when too much was lost."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from worldlm.cli.console import note, show, show_json, show_rows
from worldlm.core.errors import WorldlmError
from worldlm.core.types import Trajectory
from worldlm.data.report import LossReport

MAX_BAD = 0.1
"""The share of bad records above which an import has failed, unless told otherwise."""


@contextmanager
def stoppable(left: Callable[[], str]) -> Iterator[None]:
    """Says, where Ctrl-C ends a run, what is `left` of it."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"stopped; {left()}") from error


def half(output: Path) -> Callable[[], str]:
    """What is left of a run that writes `output` record by record: for `stoppable`."""
    return lambda: f"{output} holds what was finished; to begin again remove it, or name another file"


def begun(trajectories: Iterator[Trajectory], report: LossReport) -> Iterator[Trajectory]:
    """The same trajectories, of which one is read: what cannot be read at all is found out before a file is made.

    Raises WorldlmError when there is none.
    """
    first = next(trajectories, None)
    if first is None:
        show_problems(report)
        judge(report, 1)
        return iter(())
    return chain([first], trajectories)


def show_problems(report: LossReport) -> None:
    """Name what could not be used."""
    for file in report.files:
        for problem in file.problems:
            note(problem)
        if file.bad > len(file.problems):
            note(f"{file.path}: and {file.bad - len(file.problems)} more")


def show_report(report: LossReport, *, as_json: bool, written: dict[str, int]) -> None:
    """Say what was kept, changed and dropped, and what was written."""
    if as_json:
        show_json({**report.to_json(), "written": written})
        return
    show_problems(report)
    if rows := list(report.rows()):
        show_rows([("effect", "count", "what", "for example"), *rows])
    for path, count in written.items():
        show(f"{path}: {count} records")
    show(f"{report.trajectories} trajectories, {report.turns} turns; {report.bad} bad records")


def judge(report: LossReport, max_bad: float, others: str = "the others are written") -> None:
    """Raises WorldlmError when too much of what was read could not be used; `others` says what became of the rest."""
    if not report.trajectories:
        first = next((problem for file in report.files for problem in file.problems), "there was nothing to read")
        raise WorldlmError(f"no trajectory was found that can be used: {first}; nothing is written")
    if report.bad_share > max_bad:
        raise WorldlmError(
            f"{report.bad_share:.1%} of the records could not be used, and --max-bad allows {max_bad:.1%}; {others}"
        )
