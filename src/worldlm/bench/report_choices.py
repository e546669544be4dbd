"""The part of a report about choices: who was taken for real, who was preferred, and how judges go by position."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from worldlm.bench.choices import ChoiceResults, ChoiceRow, Pair, Position
from worldlm.bench.choosing import CHOICE_PROTOCOLS, ChoiceProtocol
from worldlm.bench.report_charts import Bar, Group, Run
from worldlm.bench.report_diff import Diff, diff
from worldlm.bench.results import Estimate
from worldlm.core.types import DOMAIN_NAMES

TITLES: dict[ChoiceProtocol, str] = {"turing": "Turing test", "pairwise": "Pairwise comparison"}
SIDES: dict[ChoiceProtocol, tuple[str, str]] = {
    "turing": ("Told from the real answer", "Taken for the real answer"),
    "pairwise": ("The other run's preferred", "Preferred to the other run's"),
}
"""What pairs are called that were lost, and that were won."""


@dataclass(frozen=True, slots=True)
class ShownPair:
    """A telling pair: the real answer beside each predicted one."""

    pair: Pair
    diffs: tuple[tuple[str, Diff], ...]
    """What the right side is called, and the diff."""


@dataclass(frozen=True, slots=True)
class Telling:
    """The telling pairs of a run that went one way."""

    title: str
    pairs: tuple[ShownPair, ...]


@dataclass(frozen=True, slots=True)
class Choices:
    """Everything by one protocol."""

    protocol: ChoiceProtocol
    title: str
    definition: str
    runs: tuple[Run[ChoiceResults], ...]
    comparable: bool
    """Whether all runs were asked the same samples."""
    bars: tuple[Group, ...]
    positions: tuple[Group, ...]
    """By judge: the share of its picks that fell on what it was shown first."""
    telling: tuple[tuple[Run[ChoiceResults], tuple[Telling, ...]], ...]


def choice_sections(runs: Sequence[Run[ChoiceResults]]) -> Iterator[Choices]:
    """A section for each protocol that has runs."""
    for protocol in CHOICE_PROTOCOLS:
        if mine := [run for run in runs if run.results.protocol == protocol]:
            yield Choices(
                protocol=protocol,
                title=TITLES[protocol],
                definition=mine[0].results.definition,
                runs=tuple(mine),
                comparable=len({run.results.benchmark_digest for run in mine}) == 1,
                bars=_bars(mine),
                positions=_positions(mine),
                telling=tuple((run, tuple(_telling(run))) for run in mine),
            )


def label(results: ChoiceResults) -> str:
    """What a run is called among others."""
    if results.protocol == "turing":
        return f"{results.name}, Turing test"
    return f"{results.name} against {results.judging.against}"


def _bars(runs: Sequence[Run[ChoiceResults]]) -> tuple[Group, ...]:
    def row(run: Run[ChoiceResults], name: str) -> ChoiceRow | None:
        return next((each for each in run.results.domains if each.name == name), None)

    def bar(run: Run[ChoiceResults], name: str) -> Bar:
        found = row(run, name)
        return Bar(run.number, run.label, found.rate if found else None)

    names = [name for name in DOMAIN_NAMES if any(row(run, name) for run in runs)]
    groups = [Group(name, tuple(bar(run, name) for run in runs)) for name in names]
    headlines = tuple(Bar(run.number, run.label, run.results.headline) for run in runs)
    return (*groups, Group("mean of domains", headlines))


def _positions(runs: Sequence[Run[ChoiceResults]]) -> tuple[Group, ...]:
    by_judge: dict[str, list[Bar]] = {}
    for run in runs:
        for position in run.results.positions:
            by_judge.setdefault(position.judge, []).append(Bar(run.number, run.label, _share(position)))
    return tuple(Group(judge, tuple(bars)) for judge, bars in by_judge.items())


def _share(position: Position) -> Estimate:
    mean, low, high = (
        None if share is None else 100 * share for share in (position.first_share, position.low, position.high)
    )
    return Estimate(mean=mean, low=low, high=high, count=position.picks)


def _telling(run: Run[ChoiceResults]) -> Iterator[Telling]:
    results = run.results
    lost = [pair for pair in results.telling if pair.value < 50]
    won = [pair for pair in results.telling if pair.value >= 50]
    for title, pairs in zip(SIDES[results.protocol], (lost, won), strict=True):
        if pairs:
            yield Telling(title, tuple(_shown(pair, results) for pair in pairs))


def _shown(pair: Pair, results: ChoiceResults) -> ShownPair:
    alone = results.protocol == "turing"
    diffs = [("Predicted" if alone else f"Predicted by {results.name}", diff(pair.real, pair.predicted))]
    if pair.other is not None:
        diffs.append((f"Predicted by {results.judging.against}", diff(pair.real, pair.other)))
    return ShownPair(pair, tuple(diffs))


__all__ = ["Choices", "choice_sections", "label"]
