"""What the verbs of `worldlm data` share: how a loss report is shown, and when too much was lost."""

from collections.abc import Iterator

from worldlm.cli.console import note, show, show_json, show_rows
from worldlm.core.errors import WorldlmError
from worldlm.core.types import Trajectory
from worldlm.data.report import LossReport

MAX_BAD = 0.1
"""The share of bad records above which an import has failed, unless told otherwise."""


def chained(first: Trajectory | None, rest: Iterator[Trajectory]) -> Iterator[Trajectory]:
    """What was read ahead, and the rest."""
    if first is not None:
        yield first
        yield from rest


def show_report(report: LossReport, *, as_json: bool, written: dict[str, int]) -> None:
    """Say what was kept, changed and dropped, and what was written."""
    if as_json:
        show_json({**report.to_json(), "written": written})
        return
    for file in report.files:
        for problem in file.problems:
            note(problem)
        if file.bad > len(file.problems):
            note(f"{file.path}: and {file.bad - len(file.problems)} more")
    if rows := list(report.rows()):
        show_rows([("effect", "count", "what", "for example"), *rows])
    for path, count in written.items():
        show(f"{path}: {count} records")
    show(f"{report.trajectories} trajectories, {report.turns} turns; {report.bad} bad records")


def judge(report: LossReport, max_bad: float) -> None:
    """Raises WorldlmError when too much of what was read could not be used."""
    if not report.trajectories:
        first = next((problem for file in report.files for problem in file.problems), "there was nothing to read")
        raise WorldlmError(f"no trajectory was found: {first}")
    if report.bad_share > max_bad:
        raise WorldlmError(
            f"{report.bad_share:.1%} of the records could not be used, and --max-bad allows {max_bad:.1%}; "
            "the others are written"
        )
