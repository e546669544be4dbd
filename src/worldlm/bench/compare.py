"""Two runs beside each other, sample by sample: a paired bootstrap of the difference, and who wins how often."""

from collections.abc import Callable, Sequence
from statistics import fmean

from worldlm.bench.averages import DRAWS, counted, interval, resample
from worldlm.bench.results import Estimate, MetricName, Results, SampleResult
from worldlm.core.errors import InputError
from worldlm.core.text import number_of
from worldlm.core.types import DOMAIN_NAMES, Text, Value

TIE = 1e-9
"""Values that differ by no more are equal."""


class PairedRow(Value):
    """The samples of one domain, or all, that count in both runs."""

    name: Text
    samples: int
    first: float
    """Mean of the first run, 0–100, over these samples."""
    second: float
    difference: Estimate
    """Second minus first, with its paired interval. Of `all`: the difference of the headlines over these samples."""
    wins: int
    """Samples at which the second run is better."""
    ties: int
    losses: int
    win_rate: Estimate
    """The share of samples that the second wins, a tie as half, in percent."""


class Comparison(Value):
    """What two runs come to, beside each other."""

    metric: MetricName
    version: Text
    first: Text
    second: Text
    only_first: int
    """Samples that count in the first run alone: in none of the figures."""
    only_second: int
    neither: int
    overall: PairedRow
    domains: tuple[PairedRow, ...]
    better: float | None
    """The share of draws in which the second run's headline is above the first's, in [0, 1]."""
    warnings: tuple[Text, ...] = ()


def compare(
    first: Results, second: Results, metric: MetricName | None = None, *, draws: int = DRAWS, seed: int = 0
) -> Comparison:
    """Compare two runs over the samples that count in both, by `metric` (the fullest that both have).

    Raises InputError where they share no metric of one definition, or no sample.
    """
    name = metric or _shared_metric(first, second)
    ours, theirs = first.table(name), second.table(name)
    if ours is None or theirs is None:
        lacking = first if ours is None else second
        raise InputError(f"{lacking.name} was not scored by {name}; {_has(lacking)}")
    if (ours.metric.version, ours.metric.definition) != (theirs.metric.version, theirs.metric.definition):
        raise InputError(
            f"the runs were scored by two versions of {name} ({ours.metric.version!r} and {theirs.metric.version!r}); "
            "judge both by the same one"
        )
    old = {result.id: result for result in first.samples}
    new = {result.id: result for result in second.samples}
    pairs: dict[str, list[tuple[SampleResult, float, float]]] = {}
    alone = [0, 0, 0]
    for key in dict.fromkeys((*old, *new)):
        before = counted(old[key], name) if key in old else None
        after = counted(new[key], name) if key in new else None
        if before is None or after is None:
            alone[0 if before is not None else 1 if after is not None else 2] += 1
        else:
            pairs.setdefault(old[key].domain, []).append((old[key], before, after))
    if not pairs:
        raise InputError(f"{first.name} and {second.name} share no sample that counts in both")
    rows, drawn = [], list[list[tuple[float, float]]]()
    for domain in (each for each in DOMAIN_NAMES if each in pairs):
        row, domain_draws = _row(domain, pairs[domain], draws, f"{seed}/{domain}")
        rows.append(row)
        drawn.append(domain_draws)
    overall, better = _overall(rows, drawn)
    return Comparison(
        metric=name,
        version=ours.metric.version,
        first=first.name,
        second=second.name,
        only_first=alone[0],
        only_second=alone[1],
        neither=alone[2],
        overall=overall,
        domains=tuple(rows),
        better=better,
        warnings=tuple(_warnings(first, second, alone)),
    )


def _shared_metric(first: Results, second: Results) -> MetricName:
    theirs = {table.metric.name for table in second.tables}
    shared = [table.metric.name for table in first.tables if table.metric.name in theirs]
    if not shared:
        raise InputError(f"{first.name} and {second.name} share no metric: {_has(first)}, {_has(second)}")
    return shared[-1]


def _has(results: Results) -> str:
    return f"{results.name} has {', '.join(table.metric.name for table in results.tables) or 'none'}"


def _row(
    name: str, pairs: Sequence[tuple[SampleResult, float, float]], draws: int, seed: str
) -> tuple[PairedRow, list[tuple[float, float]]]:
    """A domain's row, and for each draw its difference and its win rate."""
    sums: dict[str, list[float]] = {}
    wins = ties = 0
    for result, before, after in pairs:
        tied = abs(after - before) <= TIE
        won = 0.5 if tied else float(after > before)
        ties += tied
        wins += won == 1.0
        row = sums.setdefault(result.trajectory, [0.0, 0.0, 0.0])
        for place, value in enumerate((after - before, won, 1.0)):
            row[place] += value
    drawn = [
        (difference / count, 100 * won / count)
        for difference, won, count in resample(list(zip(*sums.values(), strict=True)), draws, seed)
    ]
    count = len(pairs)
    made = PairedRow(
        name=name,
        samples=count,
        first=fmean(before for _, before, _ in pairs),
        second=fmean(after for _, _, after in pairs),
        difference=_estimate(fmean(after - before for _, before, after in pairs), drawn, 0, count),
        wins=wins,
        ties=ties,
        losses=count - wins - ties,
        win_rate=_estimate(100 * (wins + ties / 2) / count, drawn, 1, count),
    )
    return made, drawn


def _estimate(mean: float, drawn: Sequence[tuple[float, float]], place: int, count: int) -> Estimate:
    low, high = interval([row[place] for row in drawn])
    return Estimate(mean=mean, low=low, high=high, count=count)


def _overall(rows: Sequence[PairedRow], drawn: Sequence[list[tuple[float, float]]]) -> tuple[PairedRow, float | None]:
    """All domains: means of domain means, as in the headline."""
    count = sum(row.samples for row in rows)
    joint = (
        [(fmean(part[0] for part in parts), fmean(part[1] for part in parts)) for parts in zip(*drawn, strict=True)]
        if all(drawn)
        else []
    )

    def mean(of: Callable[[PairedRow], float]) -> float:
        return fmean(of(row) for row in rows)

    made = PairedRow(
        name="all",
        samples=count,
        first=mean(lambda row: row.first),
        second=mean(lambda row: row.second),
        difference=_estimate(mean(lambda row: row.second - row.first), joint, 0, count),
        wins=sum(row.wins for row in rows),
        ties=sum(row.ties for row in rows),
        losses=sum(row.losses for row in rows),
        win_rate=_estimate(mean(lambda row: 100 * (row.wins + row.ties / 2) / row.samples), joint, 1, count),
    )
    return made, fmean(row[0] > 0 for row in joint) if joint else None


def _warnings(first: Results, second: Results, alone: Sequence[int]) -> list[str]:
    found = []
    if first.benchmark_digest != second.benchmark_digest:
        found.append(f"the benchmarks differ ({first.benchmark} and {second.benchmark}): only shared samples count")
    if left_out := sum(alone):
        found.append(f"{number_of(left_out, 'sample')} left out: only what counts in both runs is compared")
    if first.judging.judges != second.judging.judges:
        found.append("the judges differ: a difference may be theirs")
    return found
