"""`worldlm train cpt | sft`: train an adapter from a settings file, in slices if need be."""

import os
import signal
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml
from rich.text import Text

from worldlm.cli.console import err, note, show, show_json, transfer, visible
from worldlm.cli.train_think import register as register_think
from worldlm.core.errors import InputError, SetupError, WorldlmError
from worldlm.core.types import Profile
from worldlm.data.settings import read_settings
from worldlm.models.profiles import get_profile
from worldlm.models.weights import obtain
from worldlm.train.settings import Run, Stage

if TYPE_CHECKING:
    from worldlm.data.tokenizers import ChatTokenizer
    from worldlm.train.examples import Row
    from worldlm.train.loop import Result

app = typer.Typer(rich_markup_mode=None, help="Train a world model: an adapter of a base.")

_Config = Annotated[Path, typer.Option("--config", help="The run's settings, as YAML.")]
_Out = Annotated[Path | None, typer.Option("--out", help="The run's folder; out/NAME unless told.")]
_Resume = Annotated[bool, typer.Option("--resume", help="Go on from the folder's last checkpoint.")]
_Minutes = Annotated[
    float | None, typer.Option(min=0, help="Save and stop after so long, at the end of a step; --resume goes on.")
]
_Json = Annotated[bool, typer.Option("--json", help="Report as JSON.")]

SHOWN_ROWS = 2
"""Rows of the first batch that are shown on a terminal."""
SHOWN_CONTEXT = 600
"""Characters that are shown of a piece that is not trained."""


@app.command("cpt")
def train_cpt(
    config: _Config,
    out: _Out = None,
    resume: _Resume = False,
    minutes: _Minutes = None,
    as_json: _Json = False,
) -> None:
    """Continual pre-training: what environments answer, from whole trajectories without thinking."""
    _train("cpt", config, out, resume, minutes, as_json)


@app.command("sft")
def train_sft(
    config: _Config,
    out: _Out = None,
    resume: _Resume = False,
    minutes: _Minutes = None,
    as_json: _Json = False,
) -> None:
    """Supervised fine-tuning: thinking before an answer, or answers of another form."""
    _train("sft", config, out, resume, minutes, as_json)


def _train(stage: Stage, config: Path, out: Path | None, resume: bool, minutes: float | None, as_json: bool) -> None:
    run = read_settings(config, Run)
    if run.stage != stage:
        raise InputError(f"{config} is a run of the stage {run.stage}: worldlm train {run.stage} --config {config}")
    profile = profile_of(run)
    folder = out or Path("out") / run.name
    begun = (folder / "checkpoints" / "last").exists() or (folder / "adapter").exists()
    if begun and not resume:
        raise InputError(f"{folder} holds a run already; go on with --resume, or name another folder with --out")
    base = _base(run)
    try:
        from worldlm.train.cpt import cpt
        from worldlm.train.loop import Limits
        from worldlm.train.report import Report
        from worldlm.train.sft import sft
    except ImportError as error:
        raise SetupError(f"training needs {error.name}, which is not here: pip install 'worldlm[train]'") from error
    first = os.environ.get("RANK", "0") == "0"  # torchrun and accelerate start this program several times
    if first and not resume:
        _write_settings(run, folder)
    with _Signals() as signals, Report(folder, err) if first else nullcontext() as report, ExitStack() as reading:
        tell = reading.enter_context(transfer())

        def begin(rows: "Sequence[Row]", tokenizer: "ChatTokenizer") -> None:
            reading.close()
            signals.wait = True
            if first:
                inspect(rows, tokenizer)

        result = (cpt if stage == "cpt" else sft)(
            run,
            profile,
            base,
            folder,
            report or (lambda event: None),
            inspect=begin,
            tell=tell if first else None,
            resume=resume,
            limits=Limits(minutes=minutes, signalled=lambda: signals.caught is not None),
        )
    _part()
    if first:
        _tell(result, folder, as_json)
    if result.why == "signal":
        raise SystemExit(128 + (signals.caught or signal.SIGTERM))


def _part() -> None:
    """End what the processes of a run share, once all are done: its threads, left to a program's end, can abort it."""
    from accelerate import PartialState

    state = PartialState()
    state.wait_for_everyone()
    state.destroy_process_group()


def profile_of(run: Run) -> Profile:
    """How the model of a run will be asked: a profile, with what the run says in its place."""
    given: dict[str, Any] = {"thinking": run.thinking, "state": run.state, "context": run.context}
    profile = get_profile(run.profile)
    if run.max_tokens is not None:
        given["sampling"] = profile.sampling.model_copy(update={"max_tokens": run.max_tokens})
    return profile.model_copy(update={key: value for key, value in given.items() if value is not None})


def _base(run: Run) -> str:
    if run.base != "embedded":
        return run.base
    with transfer(lambda: note("The embedded model's weights are not here yet: fetching them, once.")) as progress:
        return str(obtain(progress=progress))


def _write_settings(run: Run, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(run.model_dump(mode="json", by_alias=True), sort_keys=False, allow_unicode=True)
        (folder / "run.yaml").write_text(text, "utf-8")
    except OSError as error:
        raise WorldlmError(f"cannot write {folder}: {error.strerror or error}") from error


class _Signals:
    """SIGINT and SIGTERM, while steps are taken, are waited with until the step is saved; a second one is not."""

    def __init__(self) -> None:
        self.caught: int | None = None
        self.wait = False
        self._before: dict[int, Any] = {}

    def _receive(self, number: int, frame: Any) -> None:
        self._give_back()
        if not self.wait:
            raise SystemExit(128 + number)
        self.caught = number
        note("Stopping after this step; once more stops at once, without saving.")

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __enter__(self) -> "_Signals":
        self._before = {number: signal.signal(number, self._receive) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *error: object) -> None:
        self._give_back()


def inspect(rows: "Sequence[Row]", tokenizer: "ChatTokenizer") -> None:
    """Show what is trained of the rows of the first batch: in colour on a terminal, else in figures."""
    from worldlm.train.examples import pieces

    trained, tokens = sum(row.trained for row in rows), sum(len(row.ids) for row in rows)
    note(f"masks: {trained:,} of {tokens:,} tokens of the first batch are trained, in {len(rows)} rows")
    if not err.is_terminal:
        return
    for row in rows[:SHOWN_ROWS]:
        err.print(Text(f"--- {row.source} ({row.domain})", style="bold"), soft_wrap=True)
        for text, is_trained in pieces(row, tokenizer):
            half = SHOWN_CONTEXT // 2
            cut = not is_trained and len(text) > SHOWN_CONTEXT
            told = f"{text[:half]}\n[… {len(text) - 2 * half:,} characters …]\n{text[-half:]}" if cut else text
            err.print(Text(visible(told), style="green" if is_trained else "dim"), end="", soft_wrap=True)
        err.print()


def _tell(result: "Result", folder: Path, as_json: bool) -> None:
    if as_json:
        show_json({**asdict(result), "folder": str(folder)})
        return
    best = "" if result.best is None else f", best validation loss {result.best:.4f}"
    if result.why == "finished":
        show(f"{folder / 'adapter'}: the adapter after {result.steps} steps{best}")
    else:
        show(f"{folder}: stopped after {result.step} of {result.steps} steps{best}; --resume goes on")


register_think(app)
