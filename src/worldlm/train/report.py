"""What a run leaves to be looked at, made from its events: lines, scalars, a bar while it goes, and a page at its end.

`metrics.jsonl` is the one record: each event a flushed line. The page is drawn from it alone, and TensorBoard's files
repeat its figures. A run that goes on from a checkpoint goes on in the same files: what was told of steps after the
checkpoint is taken out first, for those steps are taken again.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import SequenceMatcher
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import jinja2
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from worldlm.core.errors import InputError, SetupError, WorldlmError
from worldlm.core.jsonl import JsonlWriter, dump_line, read_jsonl
from worldlm.data.stats_plots import COLOURS, drawing, require_plots
from worldlm.train.events import Event

METRICS, TENSORBOARD, PAGE, SETTINGS = "metrics.jsonl", "tensorboard", "report.html", "run.yaml"
"""In a run's folder."""
SAMPLES = 12
"""The last samples that the page shows."""
MAX_SHOWN = 4000
"""Characters of a text that are shown and compared."""
_WINDOWS = 50
"""A curve is smoothed over windows of which so many make its length."""


class Report:
    """Takes a run's events (`events.Emit`) and writes them into its folder.

    `console` shows a bar with what is left of the time; None, or one that is no terminal, shows nothing. The page is
    written at the end of each slice, and by `close` where a run ends without one. Use it as a context manager.
    """

    def __init__(self, folder: Path, console: Console | None = None):
        """Raises SetupError when tensorboard or matplotlib is not installed, InputError when nothing can be written."""
        self.folder = folder
        require_plots()
        _require_tensorboard()
        self._lines = JsonlWriter(folder / METRICS)
        self._scalars: Any = None
        self._start: Event | None = None
        self._bar: Progress | None = None
        self._task = TaskID(0)
        self._console = console if console is not None and console.is_terminal else None
        self._unshown = False

    def __call__(self, event: Event) -> None:
        """Take an event. Raises WorldlmError when it cannot be kept."""
        if event.kind == "start":
            self._start = event  # what comes next says whether it is one
            return
        if self._scalars is None:
            self._begin(event)
        self._keep(event)
        for name, value in scalars(event):
            self._scalars.add_scalar(name, value, event.step, event.time)
        if event.kind == "sample":
            self._scalars.add_text("sample", _as_markdown(event), event.step, event.time)
        self._show(event)
        if event.kind == "end":
            self._write_page()

    def _keep(self, event: Event) -> None:
        self._lines.write(event)
        self._unshown = True

    def close(self) -> None:
        """Finish the files."""
        if self._bar is not None:
            self._bar.stop()
        try:
            if self._unshown:
                self._write_page()
        finally:
            if self._scalars is not None:
                self._scalars.close()
            self._lines.close()

    def _begin(self, event: Event) -> None:
        from torch.utils.tensorboard import SummaryWriter

        resumes = event.kind == "resume"
        kept = self._rewind(event.step) if resumes else self._rewind(-1)
        self._scalars = SummaryWriter(self.folder / TENSORBOARD, purge_step=event.step + 1 if resumes else 0)
        if self._start and not any(old.kind == "start" for old in kept):
            self._keep(self._start)

    def _rewind(self, step: int) -> list[Event]:
        """Take out what was told of later steps; what stays."""
        path = self.folder / METRICS
        told = read_events(path)
        kept = [event for event in told if event.step <= step]
        if len(kept) < len(told):
            self._lines.close()
            _write_whole(path, "".join(f"{dump_line(event)}\n" for event in kept))
            self._lines = JsonlWriter(path)
        return kept

    def _show(self, event: Event) -> None:
        if self._console is None:
            return
        if self._bar is None:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[told]}"),
                TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            )
            self._bar = Progress(*columns, console=self._console, transient=True, redirect_stdout=False)
            self._task = self._bar.add_task("training", total=event.steps or None, completed=event.step, told="")
            self._bar.start()
        if event.kind == "step":
            loss, rate = event.figures.get("loss"), event.figures.get("tokens_per_second")
            told = f"loss {loss:.3f}" if loss is not None else ""
            told += f", {rate:,.0f} tokens/s" if rate is not None else ""
            self._bar.update(self._task, completed=event.step, told=told)
        elif event.kind in ("validation", "skip", "warning"):
            words = _in_words(event)
            self._bar.console.print(words, style="dim", markup=False, highlight=False, soft_wrap=True)

    def _write_page(self) -> None:
        self._unshown = False
        write_page(self.folder)

    def __enter__(self) -> "Report":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _require_tensorboard() -> None:
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        raise SetupError("a run is recorded for TensorBoard, which is not here: pip install 'worldlm[train]'") from None


def _in_words(event: Event) -> str:
    if event.kind == "validation":
        best = ", the best so far" if event.figures.get("best") else ""
        return f"step {event.step}: validation loss {event.figures.get('loss', float('nan')):.4f}{best}"
    return f"step {event.step}: {' '.join(event.texts.values())}"


def scalars(event: Event) -> Iterator[tuple[str, float]]:
    """The figures of an event by which runs are compared, by their TensorBoard names."""
    if event.kind in ("step", "validation", "sample"):
        for name, value in event.figures.items():
            if not name.startswith("targets/"):
                yield f"{'train' if event.kind == 'step' else event.kind}/{name}", value


def _as_markdown(event: Event) -> str:
    """A sample as code blocks: nothing in it is markup."""
    parts = [(name, event.texts.get(name, "")) for name in ("prompt", "expected", "text")]
    return "\n\n".join(f"{name}:\n\n" + re.sub("^", "    ", text, flags=re.MULTILINE) for name, text in parts)


def read_events(path: Path) -> list[Event]:
    """The events of a `metrics.jsonl`, in order. Raises InputError for a line that is none, and for no file."""
    return read_jsonl(path, Event.model_validate).items


# The page.


def write_page(folder: Path) -> None:
    """Draw `report.html` from what lies in a run's folder, whole or not at all.

    Raises InputError where the folder holds no run, WorldlmError when the page cannot be kept.
    """
    events = read_events(folder / METRICS)
    if not events:
        raise InputError(f"{folder / METRICS} tells of nothing yet")
    settings = folder / SETTINGS
    page = report_page(events, settings.read_text("utf-8") if settings.is_file() else "")
    _write_whole(folder / PAGE, page)


def _write_whole(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_text(text, "utf-8")
        draft.replace(path)
    except OSError as error:
        raise WorldlmError(f"cannot write {path}: {error.strerror or error}; free some space") from error


def report_page(events: Sequence[Event], settings: str = "") -> str:
    """A run as one HTML page that loads nothing and runs no script. `settings` is shown as it is.

    Raises SetupError when matplotlib is not installed.
    """
    first, last = events[0], events[-1]
    steps = [event for event in events if event.kind == "step"]
    checked = [event for event in events if event.kind == "validation"]
    samples = [event for event in events if event.kind == "sample"][-SAMPLES:]
    page = _templates().get_template("report.html.j2")
    return page.render(
        name=first.texts.get("run", "a run"),
        stage=first.texts.get("stage", ""),
        base=first.texts.get("base", ""),
        last=last,
        summary=_summary(events, steps, checked),
        domains=_domains(first),
        drawings=list(_drawings(steps, checked, [event.step for event in events if event.kind == "resume"])),
        untrained=_untrained(first),
        samples=[(event, compared(event.texts)) for event in samples],
        warnings=[event for event in events if event.kind in ("warning", "skip")],
        settings=settings,
    )


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("worldlm.train"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"visible": visible}
    return made


def _summary(events: Sequence[Event], steps: Sequence[Event], checked: Sequence[Event]) -> list[tuple[str, str]]:
    first, last = events[0], events[-1]
    # Not from `end`: a slice that was killed has none.
    taken = (event.time - before.time for before, event in pairwise(events) if event.kind not in ("start", "resume"))
    why = last.texts.get("why", "unfinished") if last.kind == "end" else "unfinished"
    rows = [
        ("ended", why),
        ("steps", f"{last.step:,} of {last.steps:,}"),
        ("tokens", f"{last.tokens:,}"),
        ("time", f"{sum(taken) / 3600:.2f} h"),
        ("slices", f"{1 + sum(event.kind == 'resume' for event in events)}"),
        ("begun", datetime.fromtimestamp(first.time, UTC).strftime("%Y-%m-%d %H:%M UTC")),
    ]
    if steps:
        rows.append(("loss, first and last", f"{_loss(steps[0])} → {_loss(steps[-1])}"))
    if checked:
        best = min(checked, key=lambda event: event.figures.get("loss", float("inf")))
        rows.append(("lowest validation loss", f"{_loss(best)} at step {best.step:,}"))
    if (trained := first.figures.get("trained_parameters")) and (all_of := first.figures.get("parameters")):
        rows.append(("parameters", f"{trained:,.0f} trained of {all_of:,.0f}"))
    return rows


def _loss(event: Event) -> str:
    return f"{event.figures['loss']:.4f}" if "loss" in event.figures else "–"


def _domains(first: Event) -> list[tuple[str, list[str]]]:
    """Rows, tokens and targets of the set, by domain and in all."""
    kinds = ("rows", "tokens", "targets")
    names = dict.fromkeys(key.partition("/")[2] for key in first.figures if key.startswith("rows/"))
    found = [(name, [first.figures.get(f"{kind}/{name}", 0.0) for kind in kinds]) for name in names]
    if found:
        found.append(("all", [first.figures.get(kind, 0.0) for kind in kinds]))
    return [(name, [f"{value:,.0f}" for value in values]) for name, values in found]


def _untrained(first: Event) -> list[tuple[str, str]]:
    """Why turns are not trained, the most frequent reason first, and how many."""
    counts = {
        key.partition("/")[2]: count for key, count in first.figures.items() if key.startswith(("unfit/", "left_out/"))
    }
    return [(why, f"{count:,.0f}") for why, count in sorted(counts.items(), key=lambda item: -item[1])]


# Curves.


def _drawings(steps: Sequence[Event], checked: Sequence[Event], resumed: Sequence[int]) -> Iterator[str]:
    def figure(heading: str, curves: dict[str, Sequence[Event]], unit: str, key: str, *, log: bool = False) -> str:
        def draw(held: Any) -> None:
            axes = held.subplots()
            for number, (label, events) in enumerate(curves.items()):
                _draw_curve(axes, label, events, key.format(label), COLOURS[number % len(COLOURS)])
            for step in resumed:
                axes.axvline(step, color="#bbbbbb", linestyle=":", linewidth=1)
            axes.set_xlabel("step")
            axes.set_ylabel(unit)
            axes.grid(alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
            if log:
                axes.set_yscale("log")
            if len(curves) > 1:
                axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)

        return drawing(heading, 3.2, draw)

    if steps:
        yield figure("Loss", {"training": steps, "validation": checked}, "nats a target", "loss")
    domains = dict.fromkeys(
        key.partition("/")[2] for event in checked for key in event.figures if key.startswith("loss/")
    )
    if domains:
        yield figure("Validation loss by domain", dict.fromkeys(domains, checked), "nats a target", "loss/{}")
    if steps:
        yield figure("Gradient norm before clipping", {"": steps}, "norm", "gradient_norm", log=True)
        yield figure("Speed", {"": steps}, "tokens/s", "tokens_per_second")
        yield figure("Learning rate", {"": steps}, "rate", "learning_rate")


def _draw_curve(axes: Any, label: str, events: Sequence[Event], key: str, colour: str) -> None:
    points = [(event.step, event.figures[key]) for event in events if key in event.figures]
    if not points:
        return
    x, y = np.array(points, dtype=float).T
    # What begins with _ has no place in a legend, and $ begins a formula.
    shown = f" {label}".replace("$", r"\$")
    dense = len(points) > 3 * _WINDOWS
    marker = "o" if len(points) < 30 else None
    style = {"alpha": 0.3} if dense else {"label": shown, "marker": marker, "markersize": 3}
    axes.plot(x, y, color=colour, linewidth=1, **style)
    if dense:
        axes.plot(x, smooth(y, len(y) // _WINDOWS), color=colour, linewidth=1.6, label=shown)


def smooth(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """The mean of each value and those up to `width` places before and after it (fewer at the ends)."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(len(values))
    low, high = np.maximum(places - width, 0), np.minimum(places + width + 1, len(values))
    return np.asarray((sums[high] - sums[low]) / (high - low))


# Samples.

_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
_SIGNS = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"} | {127: "\u2421"}
_SIGNS |= dict.fromkeys(
    [*range(0x80, 0xA0), *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd"
)


def visible(text: str) -> str:
    """A text in which nothing hides or turns what stands around it: such characters become signs."""
    return text.translate(_SIGNS)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a real and a predicted text laid over each other."""

    text: str
    kind: Literal["same", "missing", "added"]
    """In both; only in the real one; only in the predicted one."""


def compared(texts: dict[str, str]) -> list[Piece]:
    """The texts `expected` and `text` of a sample as one, word by word. Long ones are cut."""
    real, predicted = (_WORD.findall(texts.get(name, "")[:MAX_SHOWN]) for name in ("expected", "text"))
    pieces: list[Piece] = []
    for tag, a_from, a_to, b_from, b_to in SequenceMatcher(None, real, predicted, autojunk=False).get_opcodes():
        mine, its = "".join(real[a_from:a_to]), "".join(predicted[b_from:b_to])
        pieces += [Piece(mine, "same")] if tag == "equal" else [Piece(mine, "missing"), Piece(its, "added")]
    return [piece for piece in pieces if piece.text]


__all__ = [
    "METRICS",
    "PAGE",
    "TENSORBOARD",
    "Piece",
    "Report",
    "compared",
    "read_events",
    "report_page",
    "scalars",
    "smooth",
    "visible",
    "write_page",
]
