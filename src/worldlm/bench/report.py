"""Results of one run, or of several, as one HTML file: tables, charts, samples with their diffs, failures.

The file is whole: styles and drawings are in it, it runs no script and loads nothing (its own policy forbids both), so
what a model predicted is text and nothing else. It reads on a phone, in the dark and on paper.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import jinja2
from pydantic import BaseModel

from worldlm.bench.choices import ChoiceResults
from worldlm.bench.compare import Comparison, compare
from worldlm.bench.report_charts import Bar, Group, Radar, Run, radar
from worldlm.bench.report_choices import choice_sections, label
from worldlm.bench.report_diff import Diff, diff, visible
from worldlm.bench.results import (
    METRIC_NAMES,
    Example,
    Failure,
    Metric,
    MetricName,
    Results,
    Slice,
    Table,
    write_text_whole,
)
from worldlm.core.errors import InputError
from worldlm.core.outcomes import Outcome
from worldlm.core.text import number_of
from worldlm.core.types import DOMAIN_NAMES, Usage

TITLES: dict[MetricName, str] = {
    "rules": "By rules against the reference",
    "rubric": "By a judge's rubric",
    "blend": "Rubric and rules, blended",
}
PARTS: dict[str, tuple[str, str]] = {
    "turns": ("By depth", "Number of the turn that was predicted: how many turns of history it stands on."),
    "contents": (
        "By content class",
        "Whether what is asked for follows from the action, was there before, or is metadata.",
    ),
    "lengths": ("By length of the real observation", "In characters."),
}
WORDS: dict[Outcome, str] = {
    Outcome.CUT_OFF: "the reply hit a length limit, or its thinking never closed",
    Outcome.MODEL_FAILED: "the reply held no usable answer",
    Outcome.INVALID_ACTION: "the action does not parse",
    Outcome.JUDGE_FAILED: "the judge gave no usable verdict",
    Outcome.INFRASTRUCTURE_FAILED: "a server or a program failed",
    Outcome.TIMED_OUT: "there was no answer in time",
    Outcome.CANCELLED: "the call was cancelled",
    Outcome.BUDGET_EXHAUSTED: "the budget was spent",
}
MAX_MESSAGES = 20
"""Different messages of one kind of failure that are shown."""
MAX_IDS = 5
"""Samples that are named for one message."""
AnyResults: TypeAlias = Results | ChoiceResults
Scored: TypeAlias = Run[Results]


@dataclass(frozen=True, slots=True)
class Sliced:
    """One way to part the samples, for all runs."""

    key: str
    title: str
    about: str
    groups: tuple[Group, ...]
    rows: tuple[tuple[str, tuple[Slice | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class Section:
    """Everything by one metric."""

    metric: Metric
    title: str
    tables: tuple[tuple[Scored, Table | None], ...]
    bars: tuple[Group, ...]
    domains: Radar | None
    dimensions: Radar | None
    slices: tuple[Sliced, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """One of the worst samples, with its diff."""

    example: Example
    diff: Diff | None


@dataclass(frozen=True, slots=True)
class Message:
    """Failures with the same words."""

    detail: str
    count: int
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """Failures of one stage and outcome."""

    stage: str
    outcome: str
    about: str
    floored: bool
    count: int
    messages: tuple[Message, ...]
    more: int
    """Different messages that are not shown."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting in all runs."""

    name: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether the runs disagree."""
        return len(set(self.values)) > 1


def write_report(results: Sequence[AnyResults], path: Path) -> None:
    """Write the report of these results, of scores and of choices, whole or not at all.

    Raises InputError without a run, and WorldlmError when the file cannot be kept.
    """
    write_text_whole(report_page(results), path)


def report_page(results: Sequence[AnyResults]) -> str:
    """The report as HTML. Raises InputError without a run."""
    if not results:
        raise InputError("there is no run to report; name at least one file of `worldlm bench score`")
    runs = _runs(results)
    scored = [Run(run.number, run.label, run.results) for run in runs if isinstance(run.results, Results)]
    chosen = [Run(run.number, run.label, run.results) for run in runs if isinstance(run.results, ChoiceResults)]
    page = _templates().get_template("report.html.j2")
    return page.render(
        runs=runs,
        scored=scored,
        sections=[_section(name, scored) for name in METRIC_NAMES if any(run.results.table(name) for run in scored)],
        chosen=list(choice_sections(chosen)),
        comparisons=_comparisons(scored),
        worst=[(run, [_shown(example) for example in run.results.worst]) for run in scored],
        failures=[(run, _kinds(run.results.failures)) for run in runs],
        settings=_settings(runs),
        costs=[(run, _costs(run.results)) for run in runs],
    )


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("worldlm.bench"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": _number, "percent": _percent, "visible": visible, "number_of": number_of}
    # Nothing that hides in a name or a message may turn or hide what stands around it.
    made.finalize = lambda value: visible(value) if type(value) is str else value
    return made


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"


def _runs(results: Sequence[AnyResults]) -> list[Run[AnyResults]]:
    seen = Counter[str]()
    runs = []
    for number, each in enumerate(results):
        name = label(each) if isinstance(each, ChoiceResults) else each.name
        seen[name] += 1
        runs.append(Run(number, name if seen[name] == 1 else f"{name} ({seen[name]})", each))
    return runs


# By metric.


def _section(name: MetricName, runs: Sequence[Scored]) -> Section:
    tables = [(run, run.results.table(name)) for run in runs]
    metric = next(table.metric for _, table in tables if table)
    domains = [each for each in DOMAIN_NAMES if any(_slice(table, "domains", each) for _, table in tables)]

    def floors(table: Table | None) -> list[float | None]:
        found = [_slice(table, "domains", domain) for domain in domains]
        return [each.floor.mean if each else None for each in found]

    headline = Group(
        "mean of domains", tuple(Bar(run.number, run.label, each.headline if each else None) for run, each in tables)
    )
    return Section(
        metric=metric,
        title=TITLES[name],
        tables=tuple(tables),
        bars=(*_groups(tables, "domains", domains), headline),
        domains=radar(domains, [(run.label, floors(table)) for run, table in tables]),
        dimensions=radar(
            metric.dimensions,
            [(run.label, [_dimension(table, dimension) for dimension in metric.dimensions]) for run, table in tables],
        ),
        slices=tuple(made for key in PARTS if (made := _sliced(tables, key))),
    )


def _dimension(table: Table | None, name: str) -> float | None:
    found = table.overall.dimensions.get(name) if table else None
    return found.mean if found else None


def _slice(table: Table | None, key: str, name: str) -> Slice | None:
    slices: tuple[Slice, ...] = getattr(table, key) if table else ()
    return next((each for each in slices if each.name == name), None)


def _groups(tables: Sequence[tuple[Scored, Table | None]], key: str, names: Sequence[str]) -> tuple[Group, ...]:
    def bar(run: Scored, table: Table | None, name: str) -> Bar:
        found = _slice(table, key, name)
        return Bar(run.number, run.label, found.floor if found else None)

    return tuple(Group(name, tuple(bar(run, table, name) for run, table in tables)) for name in names)


def _sliced(tables: Sequence[tuple[Scored, Table | None]], key: str) -> Sliced | None:
    names = list(dict.fromkeys(each.name for _, table in tables if table for each in getattr(table, key)))
    if not names:
        return None
    rows = [(name, tuple(_slice(table, key, name) for _, table in tables)) for name in names]
    return Sliced(key, *PARTS[key], _groups(tables, key, names), tuple(rows))


# The runs beside each other.


def _comparisons(runs: Sequence[Scored]) -> list[tuple[Scored, Comparison | str]]:
    """Each further run against the first; in words, where they cannot be compared."""
    made: list[tuple[Scored, Comparison | str]] = []
    for run in runs[1:]:
        try:
            made.append((run, compare(runs[0].results, run.results)))
        except InputError as error:
            made.append((run, str(error)))
    return made


def _settings(runs: Sequence[Run[AnyResults]]) -> list[Setting]:
    """Every setting that can change a number, flat."""
    flat = [
        {
            "benchmark": run.results.benchmark,
            "benchmark digest": run.results.benchmark_digest,
            "worldlm": run.results.version,
            **_flat("predicting", run.results.infer),
            **_flat("judging", run.results.judging),
            **_flat("intervals", run.results.bootstrap),
        }
        for run in runs
    ]
    names = dict.fromkeys(name for settings in flat for name in settings)
    rows = [Setting(name, tuple(settings.get(name, "") or "–" for settings in flat)) for name in names]
    return [row for row in rows if any(value != "–" for value in row.values)]


def _flat(prefix: str, value: Any) -> dict[str, str]:
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    if isinstance(value, dict):
        return {key: text for name, each in value.items() for key, text in _flat(f"{prefix}: {name}", each).items()}
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return {prefix.replace("_", " "): "" if value is None else str(value)}


def _costs(results: AnyResults) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    if isinstance(results, ChoiceResults):
        spent = [("judging", results.usage)]
    else:
        spent = [("predicting", results.predicting), ("judging", results.judging_usage)]
    for name, usage in spent:
        if usage.calls:
            rows += [(f"{name}: {what}", told) for what, told in _spent(usage)]
    rows += [(f"wall time of {verb}, seconds", _number(seconds)) for verb, seconds in results.wall_seconds.items()]
    return rows


def _spent(usage: Usage) -> list[tuple[str, str]]:
    cached = f", of which cached {usage.cached_tokens:,}" if usage.cached_tokens else ""
    return [
        ("calls", f"{usage.calls:,}"),
        ("prompt tokens", f"{usage.prompt_tokens:,}{cached}"),
        ("completion tokens", f"{usage.completion_tokens:,}"),
        ("seconds in calls, summed", _number(usage.seconds)),
        ("US dollars", _number(usage.cost_usd, 4) if usage.cost_usd else "no price is known"),
    ]


# Samples.


def _shown(example: Example) -> Shown:
    return Shown(example, None if example.predicted is None else diff(example.real, example.predicted))


def _kinds(failures: Sequence[Failure]) -> list[Kind]:
    """Failures by stage and outcome, the most frequent first; within a kind by their words."""
    groups: dict[tuple[str, Outcome], list[Failure]] = {}
    for failure in failures:
        groups.setdefault((failure.stage, failure.outcome), []).append(failure)
    return [
        _kind(stage, outcome, members)
        for (stage, outcome), members in sorted(groups.items(), key=lambda item: -len(item[1]))
    ]


def _kind(stage: str, outcome: Outcome, members: Sequence[Failure]) -> Kind:
    by_words: dict[str, list[Failure]] = {}
    for failure in members:
        by_words.setdefault(failure.detail, []).append(failure)
    size: Callable[[tuple[str, list[Failure]]], int] = lambda item: -len(item[1])  # noqa: E731
    messages = [
        Message(detail or "no words were given", len(same), tuple(each.id for each in same[:MAX_IDS]))
        for detail, same in sorted(by_words.items(), key=size)
    ]
    return Kind(
        stage=stage,
        outcome=outcome.value,
        about=WORDS.get(outcome, ""),
        floored=outcome.is_models_fault,
        count=len(members),
        messages=tuple(messages[:MAX_MESSAGES]),
        more=max(0, len(messages) - MAX_MESSAGES),
    )


__all__ = ["report_page", "write_report"]
