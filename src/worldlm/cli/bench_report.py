"""What `worldlm bench` says: how a run went, tables of results, two runs beside each other."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from worldlm.bench.choices import ChoiceResults, ChoiceRow, Position
from worldlm.bench.compare import Comparison, PairedRow
from worldlm.bench.public import PublicMean, PublicScores
from worldlm.bench.results import Estimate, Failure, Results, Slice, Table
from worldlm.bench.running import Report
from worldlm.cli.console import note, show, show_json, show_rows
from worldlm.core.text import number_of


def asked(report: Report) -> str:
    """How asking went, in one line."""
    counts = ", ".join(f"{name} {count}" for name, count in sorted(report.outcomes.items())) or "nothing to do"
    there = f"; {report.already} there already" if report.already else ""
    usage = report.usage
    return (
        f"{report.outcomes.total()} of {report.planned} in {report.seconds:.1f} s ({counts}{there}); "
        f"{number_of(usage.calls, 'call')}, {number_of(usage.completion_tokens, 'token')} after "
        f"{usage.prompt_tokens:,} of prompts ({usage.cached_tokens:,} cached)"
    )


def asked_json(report: Report) -> dict[str, Any]:
    """The same as a JSON object."""
    return {
        "planned": report.planned,
        "already": report.already,
        "outcomes": dict(report.outcomes),
        "usage": report.usage.model_dump(mode="json"),
        "wall_seconds": report.seconds,
    }


def show_results(results: Results, as_json: bool) -> None:
    """The tables of a run, its failures by kind, and what a reader should know."""
    if as_json:
        show_json(results.model_dump(mode="json", exclude={"samples", "worst"}))
        return
    for table in results.tables:
        show(f"{results.name}, by {table.metric.name} ({table.metric.version}), 0–100", "bold")
        show_rows(_table_rows(table))
        for kind in ("contents", "turns", "lengths"):
            parts: tuple[Slice, ...] = getattr(table, kind)
            if len(parts) > 1:
                title = {"contents": "content", "turns": "turn", "lengths": "characters"}[kind]
                show_rows([(title, *_HEAD[1:]), *map(_slice_row, parts)])
    _show_failures(results.failures)
    for warning in results.warnings:
        note(warning)


def _show_failures(failures: Sequence[Failure]) -> None:
    if failures:
        kinds = Counter(f"{failure.stage}: {failure.outcome.value}" for failure in failures)
        show("failures: " + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()))
        show(f"  for example {failures[0].id}: {failures[0].detail}")


_HEAD = ("domain", "samples", "coverage", "scored", "failed", "mean", "95 %", "answered", "exact")


def _table_rows(table: Table) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [_HEAD, *map(_slice_row, table.domains)]
    overall = table.overall
    head, answered = table.headline, table.headline_answered
    counts = (str(overall.planned), _percent(overall.coverage), str(overall.scored), str(overall.floored))
    rows.append(("mean of domains", *counts, _mean(head), _interval(head), _mean(answered), ""))
    return [*rows, _slice_row(overall.model_copy(update={"name": "mean of samples"}))]


def _slice_row(part: Slice) -> tuple[str, ...]:
    return (
        part.name,
        str(part.planned),
        _percent(part.coverage),
        str(part.scored),
        str(part.floored),
        _mean(part.floor),
        _interval(part.floor),
        _mean(part.answered),
        "" if part.exact is None else _percent(part.exact),
    )


def _mean(estimate: Estimate) -> str:
    return "–" if estimate.mean is None else f"{estimate.mean:.2f}"


def _interval(estimate: Estimate) -> str:
    return "–" if estimate.low is None or estimate.high is None else f"{estimate.low:.2f}–{estimate.high:.2f}"


def _percent(share: float) -> str:
    return f"{share:.1%}"


def show_public(scores: PublicScores, as_json: bool) -> None:
    """The means of the public script."""
    if as_json:
        show_json(scores.model_dump(mode="json"))
        return
    show(f"the public way: {scores.definition}")
    head = ("domain", "samples", "dropped", "total (1–5)", "0–100", f"by rules ({scores.rules})")
    show_rows([head, *map(_public_row, scores.domains), _public_row(scores.overall)])


def _public_row(mean: PublicMean) -> tuple[str, ...]:
    shown = ("–" if value is None else f"{value:.2f}" for value in (mean.total, mean.percent, mean.rules))
    return (mean.name, str(mean.samples), str(mean.dropped), *shown)


def show_comparison(compared: Comparison) -> None:
    """Two runs, domain by domain."""
    show(f"{compared.second} against {compared.first}, by {compared.metric} ({compared.version}), 0–100")
    head = (
        "domain",
        "samples",
        "first",
        "second",
        "difference",
        "95 %",
        "wins",
        "ties",
        "losses",
        "win rate %",
        "95 %",
    )
    show_rows([head, *map(_paired_row, compared.domains), _paired_row(compared.overall)])
    if compared.better is not None:
        show(f"{compared.second} is ahead in {compared.better:.1%} of the bootstrap draws")
    for warning in compared.warnings:
        note(warning)


def _paired_row(row: PairedRow) -> tuple[str, ...]:
    return (
        row.name,
        str(row.samples),
        f"{row.first:.2f}",
        f"{row.second:.2f}",
        f"{row.difference.mean:+.2f}" if row.difference.mean is not None else "–",
        _interval(row.difference),
        str(row.wins),
        str(row.ties),
        str(row.losses),
        _mean(row.win_rate),
        _interval(row.win_rate),
    )


def show_choices(results: ChoiceResults, as_json: bool, report: Report | None = None) -> None:
    """A Turing test or a comparison, domain by domain, and how its judges go by position."""
    if as_json:
        told = asked_json(report) if report else {}
        show_json({**told, "results": results.model_dump(mode="json", exclude={"samples", "telling"})})
        return
    other = f" against {results.judging.against}" if results.judging.against else ""
    show(f"{results.name}{other}, {results.protocol}: {results.definition}", "bold")
    head = ("domain", "samples", "coverage", "rate %", "95 %", "won", "tied", "lost", "by rule")
    overall = results.overall.model_copy(update={"name": "mean of samples"})
    mean = ("mean of domains", str(overall.planned), _percent(overall.coverage))
    rate = (_mean(results.headline), _interval(results.headline))
    show_rows([head, *map(_choice_row, results.domains), (*mean, *rate, "", "", "", ""), _choice_row(overall)])
    for position in results.positions:
        show(_position(position))
    _show_failures(results.failures)
    for warning in results.warnings:
        note(warning)


def _choice_row(row: ChoiceRow) -> tuple[str, ...]:
    counts = (str(row.won), str(row.tied), str(row.lost), str(row.by_rule))
    return (row.name, str(row.planned), _percent(row.coverage), _mean(row.rate), _interval(row.rate), *counts)


def _position(position: Position) -> str:
    shown = ", ".join(f"{name} {count}" for name, count in position.shown_first.items()) or "nothing"
    if position.first_share is None or position.low is None or position.high is None:
        return f"{position.judge}: no pick; shown first: {shown}"
    bias = "goes by position" if position.biased else "no bias by position is seen"
    picks = number_of(position.picks, "pick")
    return (
        f"{position.judge}: {position.first_share:.1%} of {picks} fell on what was shown first "
        f"({position.low:.1%}–{position.high:.1%}): {bias}; shown first: {shown}"
    )
