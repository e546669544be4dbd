"""What the choices of a Turing test or of a pairwise comparison come to: rates, positions, telling pairs.

Nothing is asked, so figures can be made anew at any time.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from worldlm.bench.averages import DRAWS, LEVEL, MIN_COVERAGE, headline, interval, resample
from worldlm.bench.choosing import CHOICE_PROTOCOLS, ChoiceProtocol, Chosen, read_choices
from worldlm.bench.infer import read_prediction
from worldlm.bench.results import (
    Estimate,
    Failure,
    InferSettings,
    JudgingSettings,
    Results,
    SampleResult,
    write_whole,
)
from worldlm.bench.runs import NOT_THERE, Planned, check_benchmark, last_samples, read_manifest
from worldlm.bench.samples import Sample
from worldlm.bench.scoring import WORST
from worldlm.core.errors import InputError
from worldlm.core.jsonl import describe, obstacle
from worldlm.core.outcomes import Outcome
from worldlm.core.text import digest, number_of
from worldlm.core.types import DOMAIN_NAMES, NO_USAGE, DomainName, Json, Text, Usage, Value
from worldlm.domains import get_domain
from worldlm.judge.agreement import wilson
from worldlm.judge.choosing import TIE, Choice, tally
from worldlm.judge.pairwise import CHALLENGER
from worldlm.judge.panel import same_family
from worldlm.judge.turing import PREDICTED
from worldlm.judge.verdicts import UnreadableError, find_object

COUNTED: dict[ChoiceProtocol, str] = {"turing": PREDICTED, "pairwise": CHALLENGER}
"""The answer whose share is the protocol's rate."""
DEFINITIONS: dict[ChoiceProtocol, str] = {
    "turing": "share of predictions that a judge takes for the real observation, a tie as one half, in percent; 50: "
    "they cannot be told apart",
    "pairwise": "share of turns at which a judge finds the prediction better than the other run's, a tie as one half, "
    "in percent",
}


NOT_IN_OTHER: Final = "not_in_other"
"""In place of an outcome: the run that is compared with has no prediction of the sample, so nobody was asked."""


class ChoiceRow(Value):
    """The samples of one domain, or all."""

    name: Text
    planned: int
    counted: int
    """Samples with a choice, and those that the model failed to predict: they count as lost."""
    won: int
    """Choices (one for each judge and repeat), the model's failures among the lost ones."""
    tied: int
    lost: int
    by_rule: int
    """Of the choices: those that needed no judge (a prediction that failed, two equal texts)."""
    missing: dict[str, int]
    """Samples that do not count, by outcome, `not_in_other` among them."""
    rate: Estimate
    """In percent, over the counted samples: `ChoiceResults.definition`."""

    @property
    def coverage(self) -> float:
        """The share of the planned samples that counts, in [0, 1]."""
        return self.counted / self.planned if self.planned else 0.0


class Position(Value):
    """How one judge picks by what it was shown first."""

    judge: Text
    shown_first: dict[str, int]
    """How often each of the two was shown first, as it was drawn."""
    picks: int
    """Choices that are no tie."""
    first_picks: int
    first_share: float | None
    """The share of picks that fell on what was shown first; 0.5 of a fair judge."""
    low: float | None
    high: float | None
    """Its 95 % interval (Wilson)."""
    biased: bool
    """Whether the interval leaves out 0.5."""


class SampleChoice(Value):
    """One sample, without texts."""

    id: Text
    domain: DomainName
    trajectory: Text
    value: float | None
    """0–1: the mean over judges of each one's choices (won 1, tie 0.5, lost 0); None where it does not count."""
    outcome: Outcome | Literal["not_in_other"]
    first: tuple[Text | None, ...] = ()
    """What was shown first, choice by choice; None where no judge was asked."""
    chosen: tuple[Text | None, ...] = ()


class Pick(Value):
    """What one judge chose."""

    judge: Text
    first: Text
    """The answer that it was shown first."""
    chosen: Text
    reason: Text = ""
    """In the judge's words."""


class Pair(Value):
    """A sample with its texts, and what judges chose: to look at."""

    id: Text
    domain: DomainName
    turn: int
    turns: int
    """Turns of the trajectory."""
    content: Text | None = None
    action: Text
    real: Text
    predicted: Text
    other: Text | None = None
    """Of a pairwise comparison: the other run's prediction."""
    value: float
    """In percent, as a sample's part of the rate."""
    picks: tuple[Pick, ...]


class ChoiceResults(Value):
    """What a Turing test or a pairwise comparison comes to. One JSON object on disk."""

    schema_: Literal["worldlm.bench-choices/1"] = Field(default="worldlm.bench-choices/1", alias="schema")
    name: Text
    protocol: ChoiceProtocol
    definition: Text
    benchmark: Text
    benchmark_digest: Text
    version: Text = ""
    infer: InferSettings | None
    judging: JudgingSettings
    headline: Estimate
    """The mean of the domains' rates. Withheld (None) where `withheld` says why."""
    withheld: Text | None = None
    overall: ChoiceRow
    """All samples as one."""
    domains: tuple[ChoiceRow, ...]
    positions: tuple[Position, ...]
    """One a judge."""
    samples: tuple[SampleChoice, ...]
    telling: tuple[Pair, ...] = ()
    """Of each domain, some of the samples that were lost, worst first, then some that were won, best first. A judge
    decided all of them."""
    failures: tuple[Failure, ...] = ()
    usage: Usage = NO_USAGE
    wall_seconds: dict[str, float] = Field(default_factory=dict)
    bootstrap: dict[str, Json] = Field(default_factory=dict)
    """How intervals were drawn."""
    warnings: tuple[Text, ...] = ()

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)


def is_choices(path: Path) -> bool:
    """Whether a file of lines holds choices, by its manifest."""
    manifest = read_manifest(path)
    return bool(manifest and manifest.judging and manifest.judging.protocol in CHOICE_PROTOCOLS)


def count_choices(
    path: Path,
    *,
    name: str | None = None,
    min_coverage: float = MIN_COVERAGE,
    telling: int = WORST,
    draws: int = DRAWS,
    seed: int = 0,
    version: str = "",
) -> ChoiceResults:
    """Count the choices of a file. Nothing is asked. Raises InputError that names file, line and key.

    `telling`: of each domain, so many samples that were lost, and so many that were won, are kept with their texts.
    """
    manifest = read_manifest(path)
    judging = manifest.judging if manifest else None
    if manifest is None or judging is None or judging.protocol == "rubric":
        raise InputError(f"{path} holds no choices of `bench judge --protocol`, or its manifest is missing")
    found = {sample.key: (sample, chosen) for sample, chosen in _lines(path)}
    lacking = set(manifest.lacking).intersection(planned.id for planned in manifest.planned)
    chosen = {planned.id: _of(planned, found) for planned in manifest.planned if planned.id not in lacking}
    counted = COUNTED[judging.protocol]
    samples = [_sample(planned, chosen.get(planned.id), counted) for planned in manifest.planned]
    names = [each for each in DOMAIN_NAMES if any(sample.domain == each for sample in samples)]
    drawn: list[list[float]] = []
    rows = []
    for each in names:
        row, draw = _row(each, [s for s in samples if s.domain == each], chosen, counted, draws, f"{seed}/{each}")
        rows.append(row)
        drawn.append(draw)
    best, withheld = _headline(rows, drawn, min_coverage)
    infer = manifest.infer
    return ChoiceResults(
        name=name or (infer.model if infer else path.stem),
        protocol=judging.protocol,
        definition=DEFINITIONS[judging.protocol],
        benchmark=manifest.benchmark,
        benchmark_digest=manifest.benchmark_digest,
        version=version,
        infer=infer,
        judging=judging,
        headline=best,
        withheld=withheld,
        overall=_row("all", samples, chosen, counted, draws, f"{seed}/all")[0],
        domains=tuple(rows),
        positions=tuple(_position(judge, chosen.values(), counted) for judge in judging.judges),
        samples=tuple(samples),
        telling=tuple(
            _pair(sample, *found[sample.id]) for each in names for sample in _telling(each, samples, telling)
        ),
        failures=tuple(_failures(manifest.planned, chosen)),
        usage=sum((each.usage for each in chosen.values()), NO_USAGE),
        wall_seconds=manifest.wall_seconds,
        bootstrap={"draws": draws, "seed": seed, "level": LEVEL, "resampled": "trajectories within each domain"},
        warnings=tuple(_warnings(chosen.values(), len(lacking), judging, infer)),
    )


def read_any_results(path: Path) -> Results | ChoiceResults:
    """The results of a file, of scores or of choices. Raises InputError that names the file and the key."""
    either: TypeAdapter[Results | ChoiceResults] = TypeAdapter(
        Annotated[Results | ChoiceResults, Field(discriminator="schema_")]
    )
    try:
        return either.validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; name a file of results") from error
    except ValidationError as error:
        told = describe(error)
        raise InputError(
            f"{path} is no result of `worldlm bench score --out`, `bench run` or `bench judge --protocol`: {told}; "
            "make it again with one of them"
        ) from error


def check_results(path: Path, benchmark: str, samples: Iterable[Planned | SampleResult | SampleChoice]) -> None:
    """Raises InputError where no result can be written, or where what stands there is none of this benchmark."""
    if why := obstacle(path):
        raise InputError(f"cannot write {path}: {why}")
    if not path.is_file() or not path.stat().st_size:
        return
    try:
        held = read_any_results(path)
    except InputError as error:
        raise InputError(f"{path} is there already, and no result of a benchmark; name another place") from error
    before = {sample.id: sample.trajectory for sample in held.samples}
    check_benchmark(path, held.benchmark, before, benchmark, {sample.id: sample.trajectory for sample in samples})


def write_choice_results(results: ChoiceResults, path: Path) -> None:
    """Write a result file, whole or not at all. Raises WorldlmError when it cannot be kept."""
    write_whole(results, path)


def _lines(path: Path) -> Iterator[tuple[Sample, Chosen]]:
    for sample in last_samples(path):
        if (chosen := read_choices(sample)) is not None:
            yield sample, chosen


def _of(planned: Planned, found: Mapping[str, tuple[Sample, Chosen]]) -> Chosen:
    sample, chosen = found.get(planned.id, (None, None))
    if sample is None or chosen is None or sample.digest != planned.digest:
        return Chosen(digest="", outcome=Outcome.INFRASTRUCTURE_FAILED, detail=NOT_THERE)
    return chosen


def _sample(planned: Planned, chosen: Chosen | None, counted: str) -> SampleChoice:
    """A sample in the results; `chosen` is None where the other run lacks it."""
    choices = chosen.choices if chosen else ()
    return SampleChoice(
        id=planned.id,
        domain=planned.domain,
        trajectory=planned.trajectory,
        value=_value(chosen, counted) if chosen else None,
        outcome=chosen.outcome if chosen else NOT_IN_OTHER,
        first=tuple(choice.first for choice in choices),
        chosen=tuple(choice.chosen for choice in choices),
    )


def _value(chosen: Chosen, counted: str) -> float | None:
    """As a panel's grades: every judge has the same weight, however many of its choices were made."""
    if chosen.outcome.is_models_fault:
        return 0.0
    by_judge: dict[str, list[float]] = {}
    for choice in chosen.choices:
        if choice.outcome.is_ok:
            won = 0.5 if choice.chosen == TIE else float(choice.chosen == counted)
            by_judge.setdefault(choice.judge, []).append(won)
    return fmean(fmean(values) for values in by_judge.values()) if by_judge else None


def _telling(domain: str, samples: Iterable[SampleChoice], most: int) -> list[SampleChoice]:
    """The samples of a domain that went most clearly one way, of those that a judge was asked about.

    Among equals the digest of their ids decides: an order that knows nothing of the texts.
    """
    asked = [s for s in samples if s.domain == domain and s.value is not None and any(s.first)]
    drawn = sorted(asked, key=lambda sample: digest(sample.id))
    lost = sorted((s for s in drawn if (s.value or 0) < 0.5), key=lambda sample: sample.value or 0)
    won = sorted((s for s in drawn if (s.value or 0) > 0.5), key=lambda sample: -(sample.value or 0))
    return [*lost[:most], *won[:most]]


def _pair(counted: SampleChoice, sample: Sample, chosen: Chosen) -> Pair:
    write = get_domain(sample.domain).write_observation
    seen = read_prediction(sample).observation
    return Pair(
        id=sample.key,
        domain=sample.domain,
        turn=sample.turn,
        turns=sample.turns,
        content=sample.content,
        action=sample.action,
        real=write(sample.question.truth),
        predicted=write(seen) if seen else "",
        other=write(chosen.other) if chosen.other else None,
        value=100 * (counted.value or 0),
        picks=tuple(
            Pick(judge=choice.judge, first=choice.first, chosen=choice.chosen, reason=_reason(choice))
            for choice in chosen.choices
            if choice.first and choice.chosen
        ),
    )


def _reason(choice: Choice) -> str:
    """Why a judge chose as it did, as far as its reply says so."""
    try:
        reason = find_object(choice.raw or "", "choice", None).get("reason", "")
    except UnreadableError:
        return ""
    return reason if isinstance(reason, str) else ""


def _row(
    name: str, samples: Sequence[SampleChoice], chosen: Mapping[str, Chosen], counted: str, draws: int, seed: str
) -> tuple[ChoiceRow, list[float]]:
    """A row, and the draws of its rate."""
    valued = [(sample, sample.value) for sample in samples if sample.value is not None]
    sums: dict[str, list[float]] = {}
    for sample, value in valued:
        row = sums.setdefault(sample.trajectory, [0.0, 0.0])
        row[0] += 100 * value
        row[1] += 1
    drawn = [won / number for won, number in resample(list(zip(*sums.values(), strict=True)), draws, seed)]
    made = [choice for sample, _ in valued for choice in _choices(chosen[sample.id])]
    choices = tally(made, counted)
    counts = ChoiceRow(
        name=name,
        planned=len(samples),
        counted=len(valued),
        won=choices.won,
        tied=choices.tied,
        lost=choices.lost,
        by_rule=sum(choice.first is None for choice in made),
        missing=dict(Counter(str(sample.outcome) for sample in samples if sample.value is None)),
        rate=_rate([value for _, value in valued], drawn, len(sums)),
    )
    return counts, drawn


def _choices(chosen: Chosen) -> Sequence[Choice]:
    """The choices of a sample; one that was lost where the model gave nothing to choose."""
    if chosen.choices:
        return chosen.choices
    return [Choice(outcome=chosen.outcome, detail=chosen.detail or "no detail given")]


def _rate(values: Sequence[float], drawn: Sequence[float], trajectories: int) -> Estimate:
    if not values:
        return Estimate(mean=None, count=0)
    mean = fmean(values)
    low, high = interval(drawn)
    if low == high:  # all alike, or one trajectory: drawing them again tells nothing
        low, high = (100 * bound for bound in wilson(mean * trajectories, trajectories) or (0.0, 1.0))
    return Estimate(mean=100 * mean, low=low, high=high, count=len(values))


def _headline(
    rows: Sequence[ChoiceRow], drawn: Sequence[list[float]], min_coverage: float
) -> tuple[Estimate, str | None]:
    made = Estimate(mean=None, count=sum(row.counted for row in rows))
    worst = min(rows, key=lambda row: row.coverage)
    if not worst.counted:
        return made, f"nothing of {worst.name} counts: {number_of(worst.planned, 'sample')}, none judged"
    if worst.coverage < min_coverage:
        counts = f"{worst.counted} of {number_of(worst.planned, 'sample')}"
        return made, (
            f"the coverage of {worst.name} is {worst.coverage:.1%} ({counts}), and a headline needs {min_coverage:.1%}"
        )
    if len(rows) == 1:
        return rows[0].rate, None
    mean = headline({row.name: row.rate.mean for row in rows if row.rate.mean is not None})
    low, high = interval([fmean(values) for values in zip(*drawn, strict=True)] if all(drawn) else [])
    return made.model_copy(update={"mean": mean, "low": low, "high": high}), None


def _position(judge: str, chosen: Iterable[Chosen], counted: str) -> Position:
    mine = [choice for each in chosen for choice in each.choices if choice.judge == judge and choice.first]
    told = tally(mine, counted)
    low, high = told.first_interval or (None, None)
    return Position(
        judge=judge,
        shown_first=dict(sorted(Counter(choice.first for choice in mine if choice.first).items())),
        picks=told.picks,
        first_picks=told.first_picks,
        first_share=told.first_share,
        low=low,
        high=high,
        biased=told.position_bias,
    )


def _failures(planned: Iterable[Planned], chosen: Mapping[str, Chosen]) -> Iterator[Failure]:
    for sample in planned:
        made = chosen.get(sample.id)
        if made is not None and not made.outcome.is_ok:
            judged = made.choices and not made.outcome.is_models_fault
            stage: Literal["predict", "choice"] = "choice" if judged else "predict"
            detail = made.detail or ""
            yield Failure(id=sample.id, domain=sample.domain, stage=stage, outcome=made.outcome, detail=detail)


def _warnings(
    chosen: Iterable[Chosen], lacking: int, judging: JudgingSettings, infer: InferSettings | None
) -> Iterator[str]:
    if lacking:
        told = number_of(lacking, "sample")
        yield f"{told} not judged, which lowers the coverage: not predicted by {judging.against}"
    choices = [choice for each in chosen for choice in each.choices]
    if in_part := sum(choice.outcome.is_ok and choice.first is not None and bool(choice.detail) for choice in choices):
        yield f"{number_of(in_part, 'choice')} made on a part of the material, which did not fit the context"
    for judge in judging.judges:
        for model in filter(None, (infer.model if infer else None, judging.against)):
            if same_family(judge, model):
                yield f"the judge {judge} and the model {model} seem to be of one family, which it may favour"
