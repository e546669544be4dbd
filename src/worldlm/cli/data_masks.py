"""`worldlm data clean | mask | show-mask | stats`: cleaning, what is trained and why, figures."""

import secrets
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from worldlm.cli.console import out, progress, show, show_json, show_rows
from worldlm.cli.data_report import MAX_BAD, begun, half, judge, show_problems, show_report, stoppable
from worldlm.core.errors import InputError, WorldlmError, nearest, user_path
from worldlm.core.jsonl import JsonlWriter
from worldlm.core.types import Trajectory, Turn
from worldlm.data.classes import MaskConfig, TurnLabel, default_config, label_turns
from worldlm.data.cleaning import KINDS, MAX_TOKENS, Cleaning, Scrubber
from worldlm.data.cleaning import clean as clean_trajectory
from worldlm.data.exporting import refuse_existing
from worldlm.data.formats import ReadOptions
from worldlm.data.importing import import_trajectories
from worldlm.data.masks import Example, Masked, MaskError, pieces_of
from worldlm.data.masks import mask as mask_trajectory
from worldlm.data.report import LossReport
from worldlm.data.settings import read_settings
from worldlm.data.stats import Stats
from worldlm.data.stats_plots import require_plots, stats_page
from worldlm.data.tokenizers import ByteTokenizer, ChatTokenizer, HuggingFaceTokenizer
from worldlm.domains import get_domain
from worldlm.models.profiles import get_profile

app = typer.Typer(rich_markup_mode=None)

_Json = Annotated[bool, typer.Option("--json", help="Report as JSON.")]
_Input = Annotated[Path, typer.Argument(metavar="IN", help="A file, or a folder of files.")]
_MaxBad = Annotated[
    float,
    typer.Option(min=0, max=1, help="The share of bad records above which the exit code is 1."),
]
HISTORY_TOKENS = 6000
"""Tokens of a training example, history and all, unless told otherwise."""
STYLES = {
    "retrieval": "blue",
    "expansion": "cyan",
    "action": "green",
    "transform": "magenta",
    "boilerplate": "yellow",
    "echo": "red",
    "other": "white",
}
"""How what is trained is coloured, by turn class."""

_Output = Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; it must not be there yet.")]
_Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files or folders of any known format.")]
_Config = Annotated[
    Path | None, typer.Option("--config", help="Classes and keep ratios, as YAML, in place of the package's own.")
]
_Tokenizer = Annotated[
    str | None,
    typer.Option(help="A model's tokenizer: its folder, a GGUF file, or bytes."),
]
_Profile = Annotated[str, typer.Option(help="How the model will be asked (see `worldlm models list`).")]


@app.command("clean")
def clean_data(
    source: _Input,
    output: _Output,
    render: Annotated[bool, typer.Option(help="Render what terminals were sent.")] = True,
    scrub: Annotated[bool, typer.Option(help="Replace secrets and personal data.")] = True,
    leave: Annotated[list[str] | None, typer.Option(help=f"A kind not to replace: {', '.join(KINDS)}.")] = None,
    key: Annotated[
        str | None,
        typer.Option(envvar="WORLDLM_SCRUB_KEY", help="The same key gives the same stand-ins in every file."),
    ] = None,
    max_tokens: Annotated[
        int, typer.Option(min=0, help="Tokens of an observation above which it is cut head and tail; 0: never.")
    ] = MAX_TOKENS,
    tokenizer: _Tokenizer = None,
    max_bad: _MaxBad = MAX_BAD,
    as_json: _Json = False,
) -> None:
    """Render terminal output, replace secrets and personal data, cut long observations, and say what was changed."""
    for kind in leave or ():
        if kind not in KINDS:
            raise InputError(f"--leave {kind!r}: there is no such kind; {nearest(kind, KINDS)}")
    scrubber = Scrubber((key or secrets.token_hex()).encode(), frozenset(leave or ())) if scrub else None
    cleaning = Cleaning(render=render, scrubber=scrubber, max_tokens=max_tokens or None)
    if tokenizer is not None:
        cleaning.count = _tokenizer(tokenizer).count
    report = LossReport()
    refuse_existing(output)
    trajectories = begun(import_trajectories(source, None, ReadOptions(), report), report)
    with (
        stoppable(half(output)),
        JsonlWriter(output) as writer,
        progress("cleaning", None, hidden=as_json) as advance,
    ):
        for trajectory in trajectories:
            writer.write(clean_trajectory(trajectory, cleaning))
            advance()
    count = report.trajectories
    report.start(str(output), "worldlm").losses.add(cleaning.losses)
    if as_json:
        show_json({**report.to_json(), "written": {str(output): count}, "cut_share": cleaning.cut_share})
    else:
        show_report(report, as_json=False, written={str(output): count})
        if cleaning.cut_share is not None:
            show(f"{cleaning.cut_share:.1%} of {cleaning.observations} observations were cut")
    judge(report, max_bad)


@app.command("mask")
def mask_data(
    source: _Input,
    output: _Output,
    config: _Config = None,
    tokenizer: _Tokenizer = None,
    profile: _Profile = "embedded",
    context: Annotated[int, typer.Option(min=512, help="Tokens of an example, history and all.")] = HISTORY_TOKENS,
    max_bad: _MaxBad = MAX_BAD,
    as_json: _Json = False,
) -> None:
    """Write each turn's class, whether it is trained and why; with a tokenizer also the examples and their masks."""
    rules = _config(config)
    chat = None if tokenizer is None else _tokenizer(tokenizer)
    shape = get_profile(profile).model_copy(update={"context": context})
    report = LossReport()
    refuse_existing(output)
    held: list[dict[str, Any]] = []
    writer: JsonlWriter | None = None
    totals = {"turns": 0, "trained_turns": 0, "examples": 0, "tokens": 0, "trained_tokens": 0}
    reasons: Counter[str] = Counter()
    try:
        with progress("masking", None, hidden=as_json) as advance:
            for trajectory in import_trajectories(source, None, ReadOptions(), report):
                domain = get_domain(trajectory.world.domain)
                try:
                    if chat is None:
                        masked = Masked(tuple(label_turns(trajectory, domain, rules)), ())
                    else:
                        masked = mask_trajectory(trajectory, domain, shape, chat, rules)
                except MaskError:
                    raise
                except InputError as error:  # a world that does not fit
                    report.files[-1].withdraw(len(trajectory.turns), f"{trajectory.id}: {error}")
                    continue
                reasons.update(label.why for label in masked.labels)
                totals["turns"] += len(masked.labels)
                totals["trained_turns"] += sum(label.trained for label in masked.labels)
                totals["examples"] += len(masked.examples)
                totals["tokens"] += sum(len(example.ids) for example in masked.examples)
                totals["trained_tokens"] += sum(example.trained for example in masked.examples)
                held.append(_mask_record(trajectory, masked))
                if totals["trained_turns"]:  # a mask that trains nothing leaves no file
                    writer = writer or JsonlWriter(output)
                    for record in held:
                        writer.write(record)
                    held.clear()
                advance()
    finally:
        if writer is not None:
            writer.close()
    if not as_json or writer is None:
        show_problems(report)
    if report.trajectories == 0 or writer is not None:
        judge(report, max_bad)
    if writer is None:
        told = "; ".join(f"{count} {why}" for why, count in reasons.most_common(5))
        raise MaskError(f"none of {totals['turns']} turns is trained: {told or 'there are none'}; nothing is written")
    if as_json:
        show_json({**report.to_json(), **totals, "reasons": dict(reasons.most_common())})
        return
    show_rows([("turns", "what becomes of them"), *((str(count), why) for why, count in reasons.most_common())])
    show(f"{output}: {totals['trained_turns']} of {totals['turns']} turns are trained")
    if totals["tokens"]:
        share = totals["trained_tokens"] / totals["tokens"]
        show(f"{totals['examples']} examples, {totals['tokens']} tokens, {share:.1%} of them trained")


@app.command("show-mask")
def show_mask(
    files: _Files,
    config: _Config = None,
    trajectory: Annotated[str | None, typer.Option(help="The id of the one to show.")] = None,
    most: Annotated[int, typer.Option(min=1, help="Trajectories to show.")] = 3,
    exact: Annotated[bool, typer.Option(help="Show the training examples themselves, template and all.")] = False,
    tokenizer: _Tokenizer = None,
    profile: _Profile = "embedded",
    context: Annotated[int | None, typer.Option(min=512, help="Tokens of an example; without it, all fits.")] = None,
) -> None:
    """Show what is trained, coloured by turn class; where there are no colours, its lines begin with +."""
    rules = _config(config)
    chat = ByteTokenizer() if tokenizer is None else _tokenizer(tokenizer)
    shape = get_profile(profile).model_copy(update={"context": context or 1_000_000_000})
    shown = 0
    for path in files:
        for one in import_trajectories(path, None, ReadOptions(), LossReport()):
            if trajectory not in (None, one.id):
                continue
            domain = get_domain(one.world.domain)
            show(f"=== {one.id} ({one.world.domain})", "bold")
            if exact:
                masked = mask_trajectory(one, domain, shape, chat, rules)
                for example in masked.examples:
                    _show_example(example, chat)
                for label in masked.labels:
                    if not label.trained:
                        show(f"--- turn {label.turn} is not trained: {label.why}", "dim")
            else:
                for label, turn in zip(label_turns(one, domain, rules), one.turns, strict=True):
                    _show_turn(label, turn)
            shown += 1
            if shown == most:
                return
    if not shown:
        wanted = f" {trajectory!r}" if trajectory else ""
        raise InputError(f"there is no trajectory{wanted} in {', '.join(map(str, files))}")


@app.command("stats")
def stats_data(
    files: _Files,
    config: _Config = None,
    tokenizer: _Tokenizer = None,
    plots: Annotated[Path | None, typer.Option(help="Also write a page with plots to this HTML file.")] = None,
    max_bad: _MaxBad = MAX_BAD,
    as_json: _Json = False,
) -> None:
    """Count turns, tokens (without --tokenizer: about), turn classes, duplicates and languages, by domain."""
    if plots is not None:
        _refuse_page(plots, files)
    stats = Stats(config=_config(config))
    if tokenizer is not None:
        stats.count = _tokenizer(tokenizer).count
    report = LossReport()
    with progress("reading", None, hidden=as_json) as advance:
        for path in files:
            for trajectory in import_trajectories(path, None, ReadOptions(), report):
                stats.add(trajectory, get_domain(trajectory.world.domain))
                advance()
    if not as_json:
        show_problems(report)
    judge(report, max_bad, "the others are counted")
    if plots is not None:
        page = stats_page(stats, ", ".join(path.name for path in files))
        try:
            plots.write_text(page, "utf-8")
        except OSError as error:
            raise WorldlmError(f"cannot write {plots}: {error.strerror or error}") from error
    if as_json:
        show_json({**stats.figures(), "bad": report.bad})
        return
    show_rows(stats.rows())
    if plots is not None:
        show(f"{plots}: the plots")


def _refuse_page(path: Path, inputs: list[Path]) -> None:
    """Raises InputError for a place where no page of plots can be, or where it would replace anything but a page."""
    if any(each.resolve() == path.resolve() for each in inputs):
        raise InputError(f"--plots {path}: it is read, and would be replaced; name another file")
    if path.is_dir():
        raise InputError(f"--plots {path}: it is a folder; name a file")
    if not path.parent.is_dir():
        raise InputError(f"--plots {path}: there is no folder {path.parent}; make it first")
    if path.is_file() and path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--plots {path}: it is there already, and is no .html file; name another")
    require_plots()


def _config(path: Path | None) -> MaskConfig:
    return default_config() if path is None else read_settings(path, MaskConfig)


def _tokenizer(name: str) -> ChatTokenizer:
    if name == ByteTokenizer.name:
        return ByteTokenizer()
    try:
        return HuggingFaceTokenizer.load(user_path(name))
    except InputError as error:
        raise InputError(f"--tokenizer: {error}") from error


def _mask_record(trajectory: Trajectory, masked: Masked) -> dict[str, Any]:
    """A line of a mask file."""
    return {
        "schema": "worldlm.mask/1",
        "id": trajectory.id,
        "domain": trajectory.world.domain,
        "turns": [asdict(label) for label in masked.labels],
        "examples": [
            {
                "ids": list(example.ids),
                "mask": [int(trained) for trained in example.mask],
                "spans": [asdict(span) for span in example.spans],
                "missing": example.missing,
            }
            for example in masked.examples
        ],
    }


def _show_turn(label: TurnLabel, turn: Turn) -> None:
    """A turn by its label; what is trained in its class's colour."""
    ratios = label.ratios
    figures = (
        f"  overlap {ratios.overlap:.2f}, novelty {ratios.novelty:.2f}, jaccard {ratios.jaccard:.2f}, "
        f"length {ratios.length:.2f}"
        if ratios
        else ""
    )
    show(f"--- turn {label.turn}: {label.turn_class or 'no observation'}, {label.why}{figures}", "bold")
    for line in turn.action.split("\n"):
        show(f"> {line}", "dim")
    text = turn.detail or "" if turn.observation is None else turn.observation.text
    mark, style = ("+ ", STYLES[label.turn_class or "other"]) if label.trained else ("  ", "dim")
    for line in text.split("\n"):
        show(f"{mark}{line}", style)


def _show_example(example: Example, tokenizer: ChatTokenizer) -> None:
    """An example as it is trained: colours, or marks around what is trained."""
    show(f"--- example: {example.trained} of {len(example.ids)} tokens are trained", "bold")
    for text, span in pieces_of(example, tokenizer):
        if span is None or not span.trained:
            show(text, "dim", end="")
        elif out.is_terminal:
            show(text, STYLES[span.turn_class or "other"], end="")
        else:
            show(f"[+{span.turn_class} {text} +]", end="")
    show("")
