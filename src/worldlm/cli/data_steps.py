"""`worldlm data dedup | filter | decontaminate | split | mix`: the corpus steps."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from worldlm.cli.console import note, show, show_json, show_rows
from worldlm.cli.data_report import show_problems, stoppable
from worldlm.core.errors import InputError, SetupError, WorldlmError
from worldlm.core.jsonl import JsonlWriter
from worldlm.data import LossReport, ReadOptions, import_trajectories
from worldlm.data.settings import read_settings, settings
from worldlm.retrieval import Source
from worldlm.retrieval.collections import COLLECTIONS, collection_sources

if TYPE_CHECKING:
    from worldlm.data.steps.mixture import Ingredient
    from worldlm.data.steps.records import Record
    from worldlm.data.steps.run import Done

app = typer.Typer(rich_markup_mode=None)

MAX_BAD = 0.1
"""The share of bad lines above which a step has failed, unless told otherwise."""
SHOWN = 10
"""Rows of a table of figures that are shown; JSON has all."""

_Input = Annotated[Path, typer.Argument(metavar="IN", help="A file of records, or a folder of .jsonl files.")]
_Output = Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; it must not be there yet.")]
_Workers = Annotated[int, typer.Option(min=1, help="Processes, or tasks under Ray, at once.")]
_Ray = Annotated[bool, typer.Option("--ray", help="Run under Ray: at RAY_ADDRESS, else on this machine.")]
_Work = Annotated[
    Path | None, typer.Option(help="The folder for what is half done (beside OUT by default); a rerun goes on with it.")
]
_MaxBad = Annotated[float, typer.Option(min=0, max=1, help="The share of bad lines above which the exit code is 1.")]
_Json = Annotated[bool, typer.Option("--json", help="Report as JSON.")]


@app.command()
def dedup(
    source: _Input,
    output: _Output,
    exact: Annotated[bool, typer.Option("--exact", help="Leave out exact duplicates only.")] = False,
    by_turn: Annotated[
        bool,
        typer.Option("--by-turn", help="Compare turns: drop what is all repeated, list the other repeats."),
    ] = False,
    workers: _Workers = 1,
    ray: _Ray = False,
    work: _Work = None,
    max_bad: _MaxBad = MAX_BAD,
    as_json: _Json = False,
) -> None:
    """Leave out records whose content, or nearly the same, stands earlier in the corpus."""
    steps = _steps()
    from worldlm.data.steps.dedup import Duplicates

    settings = Duplicates(near=not exact, level="turn" if by_turn else "trajectory")
    with _running(output, workers, ray, work) as execution:
        done = steps.remove_duplicates([source], output, settings, execution)
    _tell(done, max_bad, as_json)


@app.command("filter")
def filter_records(
    source: _Input,
    output: _Output,
    config: Annotated[Path | None, typer.Option(help="Rules (YAML) other than the defaults.")] = None,
    workers: _Workers = 1,
    ray: _Ray = False,
    work: _Work = None,
    max_bad: _MaxBad = MAX_BAD,
    as_json: _Json = False,
) -> None:
    """Leave out, or cut, what teaches nothing: unstable screens, dead sessions, failed and short episodes."""
    steps = _steps()
    from worldlm.data.steps.quality import Rules

    rules = read_settings(config, Rules) if config else Rules()
    with _running(output, workers, ray, work) as execution:
        done = steps.filter_quality([source], output, rules, execution)
    _tell(done, max_bad, as_json)


@app.command()
def decontaminate(
    source: _Input,
    output: _Output,
    against: Annotated[list[Path], typer.Option(help="A test set, of any known format; may be given again.")],
    ngram: Annotated[int, typer.Option(min=2, help="Words of a run that counts as a leak.")] = 13,
    mode: Annotated[str, typer.Option(help="What becomes of a trajectory that leaks: cut or drop.")] = "cut",
    common: Annotated[
        int, typer.Option(min=0, help="A run in so many training records is common, and no leak; 0: none is.")
    ] = 10,
    common_share: Annotated[
        float, typer.Option(min=0, max=1, help="And in this share of the training records.")
    ] = 0.01,
    descriptions: Annotated[
        bool, typer.Option("--descriptions", help="Compare worlds and first observations too.")
    ] = False,
    workers: _Workers = 1,
    ray: _Ray = False,
    work: _Work = None,
    max_bad: _MaxBad = MAX_BAD,
    as_json: _Json = False,
) -> None:
    """Take out of a training set what stands in a test set too, and say what matched."""
    if mode not in ("cut", "drop"):
        raise InputError(f"--mode {mode!r}: it is cut or drop")
    if common == 1:
        raise InputError("--common 1: every run that leaks stands in one record; give 2 or more, or 0 for none")
    steps = _steps()
    from worldlm.data.steps.decontaminate import Leaks

    kind: Literal["cut", "drop"] = "cut" if mode == "cut" else "drop"
    leaks = Leaks(n=ngram, mode=kind, common=common or None, common_share=common_share, descriptions=descriptions)
    report = LossReport()

    def tests() -> "Iterable[Record]":
        for path in against:
            yield from import_trajectories(path, None, ReadOptions(), report)

    with _running(output, workers, ray, work) as execution:
        done = steps.remove_leaks([source], tests, output, leaks, execution)
    for problem in dict.fromkeys(problem for file in report.files for problem in file.problems):
        note(f"the test set: {problem}")
    _tell(done, max_bad, as_json)
    if not as_json:
        figures = done.figures
        show(f"{figures['matched_runs']} of the test set's {figures['test_runs']} runs of words stand in training")
        if runs := figures["common_runs"]:
            show(f"{len(runs)} of them are common, and were passed over:")
            show_rows([("records", "words"), *((str(run["records"]), run["words"]) for run in runs[:SHOWN])])


@app.command()
def split(
    source: _Input,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The folder for the parts.")],
    config: Annotated[Path | None, typer.Option(help="The plan (YAML): shares, seed, kinds that are held out.")] = None,
    test: Annotated[float | None, typer.Option(help="Share of the groups that is the test side.")] = None,
    validation: Annotated[float | None, typer.Option(help="Share of the groups that is the validation side.")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides which groups those are.")] = None,
    workers: _Workers = 1,
    ray: _Ray = False,
    work: _Work = None,
    max_bad: _MaxBad = MAX_BAD,
    as_json: _Json = False,
) -> None:
    """Split a corpus into train, validation, test-a (unseen seeds) and test-b (held-out kinds)."""
    steps = _steps()
    from worldlm.data.steps.splits import SplitPlan

    given = {"test": test, "validation": validation, "seed": seed}
    said = {name: value for name, value in given.items() if value is not None}
    plan = read_settings(config, SplitPlan, said) if config else settings(said, SplitPlan, "the options")
    with _running(output, workers, ray, work) as execution:
        done = steps.split([source], output, plan, execution)
    _tell(done, max_bad, as_json)
    if not as_json:
        rows = [
            (part, domain, str(turns)) for part, by in done.figures["turns"].items() for domain, turns in by.items()
        ]
        show_rows([("part", "domain", "turns"), *rows])


@app.command("mix")
def mix_records(
    output: _Output,
    config: Annotated[Path, typer.Option(help="The recipe (YAML): sources, weights, temperature, total, seed.")],
    workers: _Workers = 1,
    ray: _Ray = False,
    work: _Work = None,
    max_bad: _MaxBad = MAX_BAD,
    as_json: _Json = False,
) -> None:
    """Mix records and documents of several sources by weight, in a seeded order."""
    steps = _steps()
    from worldlm.data.exporting import refuse_existing
    from worldlm.data.steps.mixture import Recipe
    from worldlm.data.steps.pipeline import missing_parents, remove_empty

    recipe = read_settings(config, Recipe)
    refuse_existing(output)
    texts = output.with_name(f"{output.name}.documents")
    written = any(each.documents is not None for each in recipe.sources.values())
    with _running(output, workers, ray, work, anew=written) as execution:
        made = [texts, *missing_parents(texts)]
        try:
            sources = {name: _source(config.parent, name, each, texts) for name, each in recipe.sources.items()}
            done = steps.mix_sources(recipe, sources, output, execution)
        finally:
            for path in texts.glob("*.jsonl"):
                path.unlink()
            remove_empty(made)
    _tell(done, max_bad, as_json)
    if not as_json:
        rows = [
            (name, str(each["records"]), str(each["characters"]), f"{each['share']:.1%}", f"{each['rounds']:.2f}")
            for name, each in done.figures["sources"].items()
        ]
        show_rows([("source", "records", "characters", "share", "rounds"), *rows])


def _steps() -> Any:
    """The steps over files. Raises SetupError where their libraries are not installed."""
    try:
        from worldlm.data.steps import run
    except ImportError as error:
        raise SetupError(f"the corpus steps need the library {error.name}: pip install 'worldlm[data]'") from error
    return run


@contextmanager
def _running(output: Path, workers: int, ray: bool, work: Path | None, *, anew: bool = False) -> Iterator[Any]:
    """How the step that writes `output` is to be run. What is left of it is told where Ctrl-C ends it.

    `anew`: the next run begins from its beginning, because what it reads is made for it.
    """
    from worldlm.data.steps.pipeline import Execution

    execution = Execution(workers, "ray" if ray else "local", work)
    folder = execution.folder(output)

    def left() -> str:
        if not folder.is_dir():
            return "nothing is left"
        goes_on = f"what is finished is in {folder}, and the same command goes on from there"
        return f"the same command begins anew, in {folder} again" if anew else goes_on

    with stoppable(left):
        yield execution


def _source(base: Path, name: str, each: "Ingredient", texts: Path) -> list[Path]:
    """The files of a source of a mixture; documents are written as records first. Paths are relative to `base`."""
    if each.path is not None:
        return [base / Path(each.path).expanduser()]
    from worldlm.cli.texts import text_records

    told = str(each.documents)
    if told in COLLECTIONS:
        (found,) = collection_sources([told])
        licence = each.licence or COLLECTIONS[told].licence
    else:
        path = base / Path(told).expanduser()
        if not path.exists():
            raise InputError(f"source {name!r}: there is no file or folder {path}, nor a collection of that name")
        found, licence = Source(name, f"https://{name}.example/", path), each.licence
    output = texts / f"{name}.jsonl"
    output.unlink(missing_ok=True)
    kept = 0
    with JsonlWriter(output) as writer:
        for record in text_records(found, licence, lambda problem: note(f"source {name!r}: {problem}")):
            writer.write(record)
            kept += 1
    if not kept:
        raise InputError(f"source {name!r}: {told} holds no document that can be read")
    return [output]


def _tell(done: "Done", max_bad: float, as_json: bool) -> None:
    """Show what a step did. Raises WorldlmError when too many lines were bad."""
    report = done.report
    if as_json:
        show_json({**report.to_json(), "written": done.written, "figures": done.figures})
    else:
        show_problems(report)
        if rows := list(report.rows()):
            show_rows([("effect", "count", "what", "for example"), *rows])
        for path, count in done.written.items():
            show(f"{path}: {count} records")
        records = sum(file.records for file in report.files)
        show(f"{records} records, {report.turns} turns read; {report.bad} bad lines")
    if report.bad_share > max_bad:
        raise WorldlmError(
            f"{report.bad_share:.1%} of the lines could not be used, and --max-bad allows {max_bad:.1%}; "
            "the others are written"
        )
