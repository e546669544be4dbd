"""`worldlm data`: bring trajectories of others in, write them for others, check files."""

from pathlib import Path
from typing import Annotated

import typer

from worldlm.cli import data_build, data_masks, data_steps
from worldlm.cli.console import complain, progress, show, show_json, show_rows
from worldlm.cli.data_report import MAX_BAD, begun, half, judge, show_report, stoppable
from worldlm.core.errors import InputError, nearest
from worldlm.core.jsonl import JsonlWriter
from worldlm.core.types import DOMAIN_NAMES, DomainName
from worldlm.data.exporting import export_trajectories, refuse_existing, writable
from worldlm.data.formats import FORMATS, Format, ReadOptions, WriteOptions, get_format
from worldlm.data.importing import import_trajectories
from worldlm.data.report import LossReport

app = typer.Typer(rich_markup_mode=None, help="Bring trajectories of others in, write them for others, check files.")
app.add_typer(data_masks.app)  # clean, mask, show-mask, stats
app.add_typer(data_steps.app)  # dedup, filter, decontaminate, split, mix
app.add_typer(data_build.app)  # build

AUTO = "auto"

_Json = Annotated[bool, typer.Option("--json", help="Report as JSON.")]
_Input = Annotated[Path, typer.Argument(metavar="IN", help="A file, or a folder of files.")]
_Strict = Annotated[
    bool,
    typer.Option("--strict", help="Refuse records that break their format's own rules (else: use what can be used)."),
]
_Domain = Annotated[str | None, typer.Option(help="What kind of environment it was, where the format does not say.")]
_MaxBad = Annotated[
    float,
    typer.Option(min=0, max=1, help="The share of bad records above which the exit code is 1."),
]


@app.command("import")
def import_data(
    format: Annotated[str, typer.Argument(metavar="FORMAT", help="A format of `worldlm data formats`, or auto.")],  # noqa: A002
    source: _Input,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The trajectory file; it must not be there yet.")],
    strict: _Strict = False,
    domain: _Domain = None,
    origin: Annotated[
        str | None, typer.Option("--source", help="Where the recordings are from, where they do not say so.")
    ] = None,
    licence: Annotated[str | None, typer.Option(help="Their licence, where they do not say so.")] = None,
    max_bad: _MaxBad = MAX_BAD,
    as_json: _Json = False,
) -> None:
    """Read recordings of any known format into a trajectory file, and say what was kept, changed and dropped.

    A bad file or line is named and counted, and the others go on.
    """
    known = _format(format)
    options = ReadOptions(strict, _known_domain(domain), origin, licence)
    report = LossReport()
    refuse_existing(output)
    trajectories = begun(import_trajectories(source, known, options, report), report)
    with (
        stoppable(half(output)),
        JsonlWriter(output) as writer,
        progress("importing", None, hidden=as_json) as advance,
    ):
        for trajectory in trajectories:
            writer.write(trajectory)
            advance()
    show_report(report, as_json=as_json, written={str(output): report.trajectories})
    judge(report, max_bad)


@app.command("export")
def export_data(
    format: Annotated[str, typer.Argument(metavar="FORMAT", help="A format that can be written.")],  # noqa: A002
    source: _Input,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="A file, or a folder where the format has many files.")],
    turns: Annotated[str, typer.Option(help="For agentworldbench: which turns become samples, last or all.")] = "last",
    max_bad: _MaxBad = MAX_BAD,
    as_json: _Json = False,
) -> None:
    """Write trajectories (ours, or of any known format) in another format, and say what that cannot hold."""
    if turns not in ("last", "all"):
        raise InputError(f"--turns {turns!r}: it is last or all")
    known = _format(format)
    if known is None or known.write is None:
        raise InputError(f"there is no writer for {format!r}; these can be written: {', '.join(writable())}")
    report = LossReport()
    trajectories = import_trajectories(source, None, ReadOptions(), report)
    losses = report.start(str(output), known.name).losses
    written = export_trajectories(trajectories, known, output, WriteOptions(turns == "all"), losses)
    show_report(report, as_json=as_json, written=written)
    judge(report, max_bad)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files or folders of any known format.")],
    format: Annotated[str, typer.Option(help="The format that they must be of.")] = AUTO,  # noqa: A002
    domain: _Domain = None,
    as_json: _Json = False,
) -> None:
    """Check files by the rules of their format: what each holds, and each fault with its line and key.

    Exits with 2 when there is a fault.
    """
    known, kind = _format(format), _known_domain(domain)
    report = LossReport()
    for path in files:
        try:
            for _ in import_trajectories(path, known, ReadOptions(strict=True, domain=kind), report):
                pass
        except InputError as error:
            report.start(str(path)).problem(str(error))
    if as_json:
        show_json([{**file.to_json(), "ok": not file.bad} for file in report.files])
    else:
        for file in report.files:
            if not file.bad:
                held = f"{file.trajectories} trajectories, {file.turns} turns"
                show(f"{file.path}: OK ({file.format} {', '.join(sorted(file.versions))}; {held})")
            for problem in file.problems:
                complain(problem)
            if file.bad > len(file.problems):
                complain(f"{file.path}: and {file.bad - len(file.problems)} more")
    if report.bad:
        raise typer.Exit(2)


@app.command()
def formats(as_json: _Json = False) -> None:
    """List the formats, their versions, and which can be written."""
    rows: list[tuple[str, ...]] = [
        (each.name, "read, write" if each.write else "read", _versions(each), each.summary) for each in FORMATS.values()
    ]
    if as_json:
        show_json(
            [
                {
                    "name": each.name,
                    "versions": list(each.versions),
                    "writes": each.write is not None,
                    "summary": each.summary,
                }
                for each in FORMATS.values()
            ]
        )
    else:
        show_rows(rows)


def _versions(each: Format) -> str:
    return each.versions[0] if len(each.versions) == 1 else f"{each.versions[0]} to {each.versions[-1]}"


def _format(name: str) -> Format | None:
    if name == AUTO:
        return None
    if name not in FORMATS:
        raise InputError(f"there is no format {name!r}; {nearest(name, [*FORMATS, AUTO])}")
    return get_format(name)


def _known_domain(name: str | None) -> DomainName | None:
    if name is not None and name not in DOMAIN_NAMES:
        raise InputError(f"there is no domain {name!r}; {nearest(name, DOMAIN_NAMES)}")
    return name
