"""The model card of an adapter: what it is of, how it was trained, what it reaches stage by stage, and what it loses.

`python -m worldlm.train.card CARD.json PAGE.md` puts it between the marks of a page.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from worldlm.core.errors import InputError
from worldlm.core.jsonl import describe
from worldlm.core.types import DOMAIN_NAMES, JsonObject, Text, Value
from worldlm.data.markdown import block, put_between, table
from worldlm.train.checkpoint import read_state
from worldlm.train.events import Event
from worldlm.train.forgetting import Estimate, Forgetting
from worldlm.train.report import METRICS, read_events

NAME = "card"
"""Of the marks of a page."""
EXAMPLES = 3
"""The worst predictions that are shown, each of another domain."""
_LINES = 16
"""Of an example's text that are shown."""


class StageRun(Value):
    """A run of training, as it was."""

    stage: Text
    run: Text
    seed: int
    steps: int
    tokens: int
    targets: int
    hours: float
    validation: float | None
    """The lowest loss, in nats a target; None where nothing was measured."""
    validation_step: int | None
    sizes: dict[Text, float]
    """Rows, tokens and targets of its set: `rows`, …, and by domain `rows/DOMAIN`, …"""
    settings: JsonObject
    files: dict[Text, Text]
    """Hex SHA-256 of each file of data."""
    version: Text


class Score(Value):
    """A mean on 0–100 with its 95 % interval, the model's failures at 0."""

    mean: float | None
    low: float | None = None
    high: float | None = None
    count: int
    """Samples that it stands on."""
    exact: float | None = None
    """The share of them, in [0, 1], that is the reference exactly."""
    failures: int = 0
    """How many of them the model gave no answer to."""


class Share(Value):
    """How many of some samples are the reference exactly."""

    right: int
    of: int


class Example(Value):
    """A prediction, to look at."""

    id: Text
    domain: Text
    action: Text
    real: Text
    predicted: Text | None
    value: float


class Measured(Value):
    """What a stage reaches on a benchmark, by the rules against the reference."""

    stage: Text
    benchmark: Text
    """`realturns-a`, …"""
    headline: Score
    """The mean of the domain means."""
    domains: dict[Text, Score]
    contents: dict[Text, Score] = Field(default_factory=dict)
    """By content class."""
    exact: dict[Text, Share] = Field(default_factory=dict)
    """Further shares of exact predictions, by what they are of."""
    worst: tuple[Example, ...] = ()


class ModelCard(Value):
    """All that is told of a shipped adapter."""

    schema_: Text = Field(default="worldlm.model-card/1", alias="schema")
    name: Text
    licence: Text
    base: Text
    base_licence: Text
    base_digest: Text
    file: Text
    bytes: int
    sha256: Text
    stage: Text
    """The stage that is shipped."""
    parameters: int
    """Of the adapter."""
    machine: Text
    data: Text
    """Name and licence of the data set, in words."""
    stages: tuple[StageRun, ...]
    choice: dict[Text, Score]
    """By stage, on the split by which one was chosen."""
    results: tuple[Measured, ...]
    forgetting: dict[Text, Forgetting]
    """By stage."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)


# From a run's folder, and from a benchmark's results.


def stage_run(folder: Path) -> StageRun:
    """What a finished run's folder tells. Raises InputError where it holds none."""
    state = read_state(folder / "checkpoints" / "last")
    start = next((event for event in read_events(folder / METRICS) if event.kind == "start"), None)
    return StageRun(
        stage=state.settings["stage"],
        run=state.settings["name"],
        seed=state.seed,
        steps=state.step,
        tokens=state.tokens,
        targets=state.targets,
        hours=state.seconds / 3600,
        validation=state.best,
        validation_step=state.best_step,
        sizes=_sizes(start) if start else {},
        settings=state.settings,
        files={Path(name).name: known for name, known in state.files.items()},
        version=state.version,
    )


def _sizes(start: Event) -> dict[str, float]:
    return {
        key: value for key, value in start.figures.items() if key.partition("/")[0] in ("rows", "tokens", "targets")
    }


def measured(stage: str, benchmark: str, results: Path, exact: Mapping[str, Share] | None = None) -> Measured:
    """What a `results.json` of `worldlm bench` says by the metric `rules`. Raises InputError where it says nothing."""
    try:
        found = json.loads(results.read_bytes())
        rules = next(each for each in found["tables"] if each["metric"]["name"] == "rules")
        return Measured(
            stage=stage,
            benchmark=benchmark,
            headline=Score(**rules["headline"]),
            domains={each["name"]: _score(each) for each in rules["domains"]},
            contents={each["name"]: _score(each) for each in rules["contents"]},
            exact=dict(exact or {}),
            worst=tuple(_examples(found["worst"])),
        )
    except OSError as error:
        raise InputError(f"cannot read {results}: {error.strerror or error}") from error
    except (ValueError, LookupError, TypeError, StopIteration) as error:
        raise InputError(f"{results} is no result of `worldlm bench score` by the metric rules") from error


def _score(part: Mapping[str, Any]) -> Score:
    return Score(**part["floor"], exact=part["exact"], failures=part["floored"])


def _examples(worst: Sequence[Mapping[str, Any]]) -> Iterator[Example]:
    first = {each["domain"]: each for each in reversed(worst)}
    for domain in DOMAIN_NAMES:
        if domain in first:
            each = first[domain]
            kept = {key: each[key] for key in ("id", "domain", "action", "real", "predicted")}
            yield Example(**kept, value=each["values"]["rules"])


# The card.


def render_card(card: ModelCard) -> str:
    """The card as Markdown, without a heading of its own."""
    benchmarks = list(dict.fromkeys(each.benchmark for each in card.results))
    parts = [
        table(["", ""], _facts(card)),
        "The stages, each going on from the one before:",
        table(["", *(run.stage for run in card.stages)], _runs(card.stages)),
        "What each was trained on, in tokens (targets):",
        table(["", *(run.stage for run in card.stages)], _tokens(card.stages)),
    ]
    if card.choice:
        parts += [
            f"**{card.stage}** is shipped, the best on the validation split (which shares no seed with a test part):",
            table(["", *card.choice], [["validation split", *map(_interval, card.choice.values())]]),
        ]
    for benchmark in benchmarks:
        found = [each for each in card.results if each.benchmark == benchmark]
        parts += [
            f"`worldlm bench run {benchmark}`: means on 0–100 by the rules, with 95 % intervals; a failure to answer "
            "counts 0.",
            table(["", "turns", *(each.stage for each in found)], _results(found)),
        ]
    if card.forgetting:
        head = [name for stage in card.forgetting for name in (stage, "change")]
        parts += [
            "Forgetting: perplexity on text that training never saw (a change of × 1: nothing is forgotten), and the "
            "share of instructions that are followed, as rules check it.",
            table(["", "base", *head], _forgotten(card.forgetting)),
        ]
    parts += list(_failures([each for each in card.results if each.stage == card.stage]))
    return "\n\n".join(parts) + "\n"


def _facts(card: ModelCard) -> Iterator[Sequence[object]]:
    yield (
        "adapter",
        f"`{card.file}`, {card.bytes / 1e6:.1f} MB, {card.parameters:,} parameters, SHA-256 `{card.sha256}`",
    )
    yield "licence", card.licence
    yield "base", f"{card.base} ({card.base_licence}), SHA-256 `{card.base_digest}`"
    yield "data", card.data
    yield "trained in", f"{sum(run.hours for run in card.stages):.1f} hours on {card.machine}"
    yield "with", card.stages[-1].version if card.stages else "–"


_SETTINGS: tuple[tuple[str, str], ...] = (
    ("rank and alpha of the adapter", "lora.rank lora.alpha"),
    ("layers", "lora.modules"),
    ("learning rate", "optimiser.learning_rate"),
    ("schedule, warm-up", "schedule.kind schedule.warmup"),
    ("tokens of a step, about", "batches.tokens batches.micro_batches"),
    ("context", "context"),
    ("replayed text", "data.replay.share"),
    ("temperature of the mixture", "data.temperature"),
    ("tokens of a row, at most", "data.row_tokens"),
    ("thinking", "thinking"),
    ("states", "state"),
)


def _runs(runs: Sequence[StageRun]) -> Iterator[Sequence[object]]:
    rows: list[tuple[str, Any]] = [
        ("seed", lambda run: run.seed),
        ("steps", lambda run: f"{run.steps:,}"),
        ("tokens read", lambda run: f"{run.tokens:,}"),
        ("targets", lambda run: f"{run.targets:,}"),
        ("hours", lambda run: f"{run.hours:.2f}"),
        ("lowest validation loss", _validation),
    ]
    for what, tell in rows:
        yield what, *map(tell, runs)
    for what, keys in _SETTINGS:
        told = [[_setting(run.settings, key) for key in keys.split()] for run in runs]
        if any(value is not None for values in told for value in values):
            yield what, *(", ".join("the profile's" if v is None else str(v) for v in values) for values in told)


def _validation(run: StageRun) -> str:
    return "–" if run.validation is None else f"{run.validation:.4f} at step {run.validation_step:,}"


def _setting(settings: Mapping[str, Any], key: str) -> Any:
    value: Any = settings
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _tokens(runs: Sequence[StageRun]) -> Iterator[Sequence[object]]:
    names = dict.fromkeys(key.partition("/")[2] for run in runs for key in run.sizes if key.startswith("tokens/"))
    for name in (*names, ""):
        tail = f"/{name}" if name else ""
        yield (
            name or "all",
            *(
                f"{run.sizes['tokens' + tail]:,.0f} ({run.sizes['targets' + tail]:,.0f})"
                if f"tokens{tail}" in run.sizes
                else "–"
                for run in runs
            ),
        )


def _results(found: Sequence[Measured]) -> Iterator[Sequence[object]]:
    for domain in DOMAIN_NAMES:
        yield from _row(domain, [each.domains.get(domain) for each in found])
    yield from _row("**mean of the domains**", [each.headline for each in found])
    for content in dict.fromkeys(name for each in found for name in each.contents):
        yield from _row(f"{content} content", [each.contents.get(content) for each in found])
    for what in dict.fromkeys(name for each in found for name in each.exact):
        shares = [each.exact.get(what) for each in found]
        count = next(share.of for share in shares if share)
        yield f"exact: {what}", f"{count:,}", *(_percent(share) for share in shares)


def _row(name: str, scores: Sequence[Score | None]) -> Iterator[Sequence[object]]:
    if any(scores):
        count = next(score.count for score in scores if score)
        yield name, f"{count:,}", *(_interval(score) if score else "–" for score in scores)


def _interval(score: Score | Estimate, digits: int = 1) -> str:
    if score.mean is None:
        return "–"
    between = "" if score.low is None else f" [{score.low:.{digits}f}, {score.high:.{digits}f}]"
    return f"{score.mean:.{digits}f}{between}"


def _percent(share: Share | None) -> str:
    return f"{share.right / share.of:.2f}" if share and share.of else "–"


def _forgotten(found: Mapping[str, Forgetting]) -> Iterator[Sequence[object]]:
    first = next(iter(found.values()))
    for kind, text in first.texts.items():
        stages = [each.texts[kind] for each in found.values()]
        cells = [cell for each in stages for cell in (_interval(each.after, 2), f"× {_interval(each.ratio, 3)}")]
        yield f"perplexity, {kind} text ({text.documents:,} documents)", _interval(text.before, 2), *cells
    asked = first.instructions
    followed = [each.instructions for each in found.values()]
    cells = [cell for each in followed for cell in (_interval(each.after), _interval(each.difference))]
    yield f"instructions followed, % (of {asked.prompts})", _interval(asked.before), *cells


def _failures(found: Sequence[Measured]) -> Iterator[str]:
    """What the shipped stage does not answer, and its worst answers."""
    silent = [
        f"{score.failures} of {score.count} in {domain} ({each.benchmark})"
        for each in found
        for domain, score in each.domains.items()
        if score.failures
    ]
    yield f"It gave no usable answer to {'; '.join(silent) if silent else 'none of the turns less than it was asked'}."
    worst = [example for each in found[:1] for example in each.worst][:EXAMPLES]
    if worst:
        yield "Among its worst predictions, of one domain each:"
    for example in worst:
        yield f"{example.domain}, `{example.id}`, {example.value:.0f} of 100. The action, what was real, what it said:"
        texts = (example.action, example.real, example.predicted or "")
        yield "\n\n".join(block(_shortened(text)) for text in texts)


def _shortened(text: str) -> str:
    lines = [line[:160] for line in text.split("\n")]
    more = [f"[{len(lines) - _LINES} more lines]"] if len(lines) > _LINES else []
    return "\n".join([*lines[:_LINES], *more])


def read_card(path: Path) -> ModelCard:
    """A card from its file. Raises InputError that names file and key."""
    try:
        return ModelCard.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except ValidationError as error:
        raise InputError(f"{path} is no model card: {describe(error)}") from error


def main(arguments: Sequence[str]) -> int:
    """Put a card into a page."""
    try:
        card, page = (Path(name) for name in arguments)
        page.write_text(put_between(page.read_text("utf-8"), NAME, render_card(read_card(card))), "utf-8")
    except (ValueError, OSError, InputError) as error:
        print(f"usage: python -m worldlm.train.card CARD.json PAGE.md ({error})", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))


__all__ = [
    "NAME",
    "Example",
    "Measured",
    "ModelCard",
    "Score",
    "Share",
    "StageRun",
    "measured",
    "read_card",
    "render_card",
    "stage_run",
]
