"""Means that can be compared: failures counted, coverage beside them, intervals by a bootstrap over trajectories.

*Headline*: the mean of the domain means, so that a domain counts as much whatever its size (the published overall
scores of AgentWorldBench are made so). A model's failure counts at the floor, 0: a model that fails every hard sample
must not score above one that answers them badly. Beside it stand the mean over samples, and both without failures.

*Intervals*: whole trajectories are drawn with replacement within each domain, for the turns of one trajectory share
its luck; 2.5 % and 97.5 % of the means of the draws.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from worldlm.bench.results import Estimate, Metric, MetricName, SampleResult, Slice, Table
from worldlm.core.text import derive_seed, number_of
from worldlm.core.types import DOMAIN_NAMES
from worldlm.data.content import ContentClass

DRAWS = 1000
LEVEL = 0.95
MIN_COVERAGE = 0.9
"""Of each domain: below it there is no headline, unless asked for."""
TURN_BINS = (1, 2, 4, 8, 16)
"""Where ranges of turn numbers begin."""
LENGTH_BINS = (0, 200, 1000, 4000)
"""Where ranges of the real observation's length begin, in characters."""
FLOOR = 0.0
Draws = list[float]


def counted(result: SampleResult, metric: MetricName) -> float | None:
    """What a sample counts as, 0–100: its value, the floor for a model's failure, None where it is not scored."""
    if metric in result.values:
        return result.values[metric]
    failed = result.outcomes.get(metric, result.outcome)
    return FLOOR if failed.is_models_fault else None


def table(
    results: Sequence[SampleResult],
    metric: Metric,
    *,
    min_coverage: float = MIN_COVERAGE,
    draws: int = DRAWS,
    seed: int = 0,
) -> Table:
    """All figures by one metric."""

    def parts(kind: str, name_of: Callable[[SampleResult], str | None], order: Iterable[str]) -> list[_Part]:
        groups: dict[str, list[SampleResult]] = {}
        for result in results:
            if (name := name_of(result)) is not None:
                groups.setdefault(name, []).append(result)
        return [_part(name, groups[name], metric, draws, f"{seed}/{kind}/{name}") for name in order if name in groups]

    domains = parts("domain", lambda result: result.domain, DOMAIN_NAMES)
    headline, withheld = _headline(domains, min_coverage)
    turns = [_bin_name(index, TURN_BINS) for index in range(len(TURN_BINS))]
    lengths = [_bin_name(index, LENGTH_BINS) for index in range(len(LENGTH_BINS))]
    return Table(
        metric=metric,
        overall=_part("all", results, metric, draws, f"{seed}/all").slice,
        headline=headline if withheld is None else Estimate(mean=None, count=headline.count),
        headline_answered=_of_domains(domains, lambda part: part.answered, lambda part: part.slice.answered),
        withheld=withheld,
        domains=_slices(domains),
        contents=_slices(parts("content", lambda result: result.content, [kind.value for kind in ContentClass])),
        turns=_slices(parts("turn", lambda result: bin_of(result.turn, TURN_BINS), turns)),
        lengths=_slices(parts("length", lambda result: bin_of(result.length, LENGTH_BINS), lengths)),
    )


def headline(means: Mapping[str, float]) -> float:
    """The headline formula: the mean of the domain means. Raises ValueError without a domain."""
    if not means:
        raise ValueError("there is no domain to take a mean of")
    return fmean(means.values())


def bin_of(number: int, starts: Sequence[int]) -> str:
    """The range that a number is in (`4–7`; `16+` for the last). Numbers below the first start are in the first."""
    index = max((index for index, start in enumerate(starts) if start <= number), default=0)
    return _bin_name(index, starts)


def _bin_name(index: int, starts: Sequence[int]) -> str:
    if index == len(starts) - 1:
        return f"{starts[index]}+"
    first, last = starts[index], starts[index + 1] - 1
    return str(first) if first == last else f"{first}–{last}"


# Slices.


@dataclass(frozen=True, slots=True)
class _Part:
    """A slice with the draws that its intervals are made of."""

    slice: Slice
    floor: Draws
    answered: Draws


def _slices(parts: Sequence[_Part]) -> tuple[Slice, ...]:
    return tuple(part.slice for part in parts)


def _part(name: str, results: Sequence[SampleResult], metric: Metric, draws: int, seed: str) -> _Part:
    values = [(result, value) for result in results if (value := counted(result, metric.name)) is not None]
    scored = [(result, value) for result, value in values if metric.name in result.values]
    # Columns of sums by trajectory: of values, of what counts, of what was scored, of each dimension.
    rows: dict[str, list[float]] = {}
    for result, value in values:
        row = rows.setdefault(result.trajectory, [0.0] * (3 + len(metric.dimensions)))
        row[0] += value
        row[1] += 1
        row[2] += metric.name in result.values
        for place, dimension in enumerate(metric.dimensions, 3):
            row[place] += result.dimensions.get(dimension, FLOOR)
    columns = [list(column) for column in zip(*rows.values(), strict=True)]
    drawn = resample(columns, draws, seed)
    floor = _ratios(drawn, 0, 1)
    answered = _ratios(drawn, 0, 2)
    exact = [result.exact is True for result, _ in values]
    made = Slice(
        name=name,
        planned=len(results),
        scored=len(scored),
        floored=len(values) - len(scored),
        floor=estimate([value for _, value in values], floor),
        answered=estimate([value for _, value in scored], answered),
        dimensions={
            dimension: estimate(
                [result.dimensions.get(dimension, FLOOR) for result, _ in values], _ratios(drawn, place, 1)
            )
            for place, dimension in enumerate(metric.dimensions, 3)
        },
        exact=fmean(exact) if exact and metric.name == "rules" else None,
    )
    return _Part(made, floor, answered)


def _headline(domains: Sequence[_Part], min_coverage: float) -> tuple[Estimate, str | None]:
    made = _of_domains(domains, lambda part: part.floor, lambda part: part.slice.floor)
    worst = min(domains, key=lambda part: part.slice.coverage, default=None)
    if worst is None:
        return made, "there is no sample"
    if not worst.slice.counted:
        return made, f"nothing of {worst.slice.name} counts: {number_of(worst.slice.planned, 'sample')}, none scored"
    if worst.slice.coverage < min_coverage:
        return made, (
            f"the coverage of {worst.slice.name} is {worst.slice.coverage:.1%} ({worst.slice.counted} of "
            f"{number_of(worst.slice.planned, 'sample')}), and a headline needs {min_coverage:.1%}"
        )
    return made, None


def _of_domains(
    domains: Sequence[_Part], draws_of: Callable[[_Part], Draws], estimate_of: Callable[[_Part], Estimate]
) -> Estimate:
    """The mean of domain means; its draws are the means of the domains' draws."""
    estimates = {part.slice.name: estimate_of(part) for part in domains}
    means = {name: each.mean for name, each in estimates.items() if each.mean is not None}
    count = sum(each.count for each in estimates.values())
    if not means or len(means) < len(estimates):
        return Estimate(mean=None, count=count)
    drawn = [draws_of(part) for part in domains]
    joint = [fmean(values) for values in zip(*drawn, strict=True)] if all(drawn) else []
    low, high = interval(joint)
    return Estimate(mean=headline(means), low=low, high=high, count=count)


# The bootstrap.


def resample(columns: Sequence[Sequence[float]], draws: int, seed: str) -> list[list[float]]:
    """Sums of each column over rows drawn with replacement, `draws` times; empty with fewer than two rows."""
    rows = len(columns[0]) if columns else 0
    if rows < 2:
        return []
    rng = random.Random(derive_seed(seed))
    numbers = range(rows)
    drawn = []
    for _ in range(draws):
        chosen = rng.choices(numbers, k=rows)
        drawn.append([sum(map(column.__getitem__, chosen)) for column in columns])
    return drawn


def _ratios(drawn: Sequence[Sequence[float]], above: int, below: int) -> Draws:
    """One mean a draw. A draw in which nothing counts gets the mean of the others."""
    ratios = [row[above] / row[below] if row[below] else None for row in drawn]
    known = [ratio for ratio in ratios if ratio is not None]
    return [fmean(known) if ratio is None else ratio for ratio in ratios] if known else []


def interval(draws: Sequence[float], level: float = LEVEL) -> tuple[float | None, float | None]:
    """The percentile interval of draws; None, None of none."""
    if not draws:
        return None, None
    ordered = sorted(draws)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

    return at((1 - level) / 2), at((1 + level) / 2)


def estimate(values: Sequence[float], draws: Sequence[float]) -> Estimate:
    """A mean with its interval."""
    low, high = interval(draws) if len(values) > 1 else (None, None)
    return Estimate(mean=fmean(values) if values else None, low=low, high=high, count=len(values))
