"""The Turing test and the pairwise comparison over files of predictions, and what they come to.

A judge sees two answers to each turn: the real one and the predicted one (*turing*), or the predictions of two runs
beside the real one (*pairwise*). Which stands first is drawn from the seed for each sample and judge's turn at it, and
is kept with the choice. As with scores, a line holds everything that its figures are made of.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, TypeAlias

from pydantic import ConfigDict, Field

from worldlm.bench.averages import DRAWS, MIN_COVERAGE, headline, interval, resample
from worldlm.bench.infer import Prediction
from worldlm.bench.judging import Judged, prediction_digest
from worldlm.bench.results import Estimate, Failure, InferSettings, JudgingSettings, write_whole
from worldlm.bench.running import Report, run_samples
from worldlm.bench.runs import NOT_THERE, Planned, RunFile, last_samples, line_done, read_manifest, with_ours
from worldlm.bench.samples import Sample
from worldlm.core.errors import InputError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Model
from worldlm.core.text import digest
from worldlm.core.types import DOMAIN_NAMES, NO_USAGE, DomainName, Text, Usage, Value
from worldlm.domains import get_domain
from worldlm.judge.agreement import wilson
from worldlm.judge.choosing import TIE, Choice, tally
from worldlm.judge.pairwise import CHALLENGER, pairwise, pairwise_hash
from worldlm.judge.panel import same_family
from worldlm.judge.rubric import JudgeSettings
from worldlm.judge.turing import PREDICTED, turing, turing_hash

ChoiceProtocol: TypeAlias = Literal["turing", "pairwise"]
CHOICE_PROTOCOLS: tuple[ChoiceProtocol, ...] = ("turing", "pairwise")
COUNTED: dict[ChoiceProtocol, str] = {"turing": PREDICTED, "pairwise": CHALLENGER}
"""The answer whose share is the protocol's rate."""
DEFINITIONS: dict[ChoiceProtocol, str] = {
    "turing": "share of predictions that a judge takes for the real observation, a tie as one half, in percent; 50: "
    "they cannot be told apart",
    "pairwise": "share of turns at which a judge finds the prediction better than the other run's, a tie as one half, "
    "in percent",
}


class Chosen(Judged):
    """What came of choosing: one choice for each judge and repeat, judge by judge."""

    choices: tuple[Choice, ...] = ()

    @property
    def usage(self) -> Usage:
        """What the judges took."""
        return sum((choice.usage for choice in self.choices), NO_USAGE)


@dataclass(frozen=True, slots=True)
class Choosing:
    """How predictions are judged."""

    protocol: ChoiceProtocol
    judges: Sequence[Model]
    settings: JudgeSettings = field(default_factory=JudgeSettings)
    repeats: int = 1
    against: str | None = None
    """Of a pairwise comparison: what the other predictions are called."""

    def __post_init__(self) -> None:
        """Raises InputError for no judges, and for two of the same name."""
        names = [judge.name for judge in self.judges]
        if not names or len(set(names)) < len(names):
            raise InputError(f"judges of different names are needed, not {', '.join(names) or 'none'}")

    @property
    def identity(self) -> JudgingSettings:
        """Everything of it that can change a choice."""
        return JudgingSettings(
            protocol=self.protocol,
            wording=turing_hash() if self.protocol == "turing" else pairwise_hash(),
            against=self.against,
            judges=tuple(judge.name for judge in self.judges),
            structured=self.settings.structured,
            repeats=self.repeats,
            sampling=self.settings.sampling,
            context=self.settings.context,
            attempts=self.settings.attempts,
            seed=self.settings.seed,
        )


def pair_up(
    judged: Sequence[tuple[Sample, Prediction]], others: Iterable[tuple[Sample, Prediction]]
) -> dict[str, Prediction]:
    """The other run's predictions of these samples, by key.

    Raises InputError, before anything is asked, for a sample whose texts differ in the two files, and where none is in
    both.
    """
    wanted = {sample.key: sample for sample, _ in judged}
    found: dict[str, Prediction] = {}
    for sample, prediction in others:
        mine = wanted.get(sample.key)
        if mine is None:
            continue
        if mine.digest != sample.digest:
            raise InputError(f"{sample.place}: sample {sample.id} is not the one at {mine.place}: their texts differ")
        found[sample.key] = prediction
    if not found:
        raise InputError("the two files share no sample; compare predictions of one benchmark")
    return found


async def choose_all(
    judged: Sequence[tuple[Sample, Prediction]],
    choosing: Choosing,
    file: RunFile,
    *,
    others: Mapping[str, Prediction] | None = None,
    concurrency: int,
    on_done: Callable[[Sample, Chosen], None] | None = None,
) -> Report:
    """Judge every prediction that `file` does not hold as judged, `concurrency` at a time; each is one flushed line.

    `others`: of a pairwise comparison, by sample (`pair_up`). A model's failure loses without a judge; what else is
    missing keeps its outcome. Raises WorldlmError as `bench.judging.judge_all` does.
    """
    if (others is not None) != (choosing.protocol == "pairwise"):
        raise InputError("a pairwise comparison, and nothing else, needs another run's predictions")
    by_key = {sample.key: prediction for sample, prediction in judged}
    missing = Prediction(
        digest="",
        settings="",
        outcome=Outcome.INFRASTRUCTURE_FAILED,
        detail=f"{choosing.against or 'the other run'} has no prediction of it",
    )

    def sides(sample: Sample) -> tuple[Prediction, ...]:
        mine = by_key[sample.key]
        return (mine,) if others is None else (mine, others.get(sample.key, missing))

    def digest_of(sample: Sample) -> str:
        return digest(*(prediction_digest(sample, side) for side in sides(sample)))[:16]

    async def work(sample: Sample) -> Chosen:
        made = Chosen(digest=digest_of(sample), settings="")
        if lacking := _lacking(choosing.protocol, sides(sample)):
            why = lacking.detail or "no detail given"
            return made.model_copy(update={"outcome": lacking.outcome, "detail": why})
        choices = [
            await _choose(sample, sides(sample), choosing, judge, repeat)
            for judge in choosing.judges
            for repeat in range(choosing.repeats)
        ]
        outcomes = [choice.outcome for choice in choices]
        outcome = next((each for each in outcomes if each.is_ok), outcomes[0])
        detail = choices[0].detail if outcome.is_models_fault else _missing(choices)
        return made.model_copy(update={"choices": tuple(choices), "outcome": outcome, "detail": detail})

    return await run_samples(
        [sample for sample, _ in judged],
        file,
        Chosen,
        verb="judge",
        digest_of=digest_of,
        asks=lambda sample: all(side.observation is not None for side in sides(sample)),
        work=work,
        record=_record,
        concurrency=concurrency,
        on_done=on_done,
    )


def _lacking(protocol: ChoiceProtocol, sides: Sequence[Prediction]) -> Prediction | None:
    """The side without which there is nothing to choose. (In a comparison a model's failure is an answer: it loses.)"""
    absent = [side for side in sides if side.observation is None]
    return next((side for side in absent if protocol == "turing" or not side.outcome.is_models_fault), None)


async def _choose(sample: Sample, sides: Sequence[Prediction], choosing: Choosing, judge: Model, repeat: int) -> Choice:
    question, settings = sample.question, choosing.settings
    write = get_domain(question.domain).write_observation
    texts = [None if side.observation is None else write(side.observation) for side in sides]
    if choosing.protocol == "turing":
        return await turing(question, texts[0] or "", judge, settings, sample=repeat)
    return await pairwise(question, texts[0], texts[1], judge, settings, sample=repeat)


def _missing(choices: Sequence[Choice]) -> str | None:
    missing = [choice for choice in choices if not choice.outcome.is_ok]
    return f"{len(missing)} of {len(choices)} choices are missing: {missing[0].detail}" if missing else None


def _record(sample: Sample, chosen: Chosen) -> dict[str, Any]:
    told = chosen.model_dump(mode="json", exclude_defaults=True)
    return with_ours(sample.raw, choice={**told, "outcome": chosen.outcome.value})


def read_choices(sample: Sample) -> Chosen | None:
    """The choices that a line holds; None where it holds none. Raises InputError for what is broken."""
    return line_done(sample.place, sample.raw, "choice", Chosen)


# What it comes to.


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
    """Samples that do not count, by outcome."""
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
    outcome: Outcome
    first: tuple[Text | None, ...] = ()
    """What was shown first, choice by choice; None where no judge was asked."""
    chosen: tuple[Text | None, ...] = ()


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
    failures: tuple[Failure, ...] = ()
    usage: Usage = NO_USAGE
    wall_seconds: dict[str, float] = Field(default_factory=dict)
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
    draws: int = DRAWS,
    seed: int = 0,
    version: str = "",
) -> ChoiceResults:
    """Count the choices of a file. Nothing is asked. Raises InputError that names file, line and key."""
    manifest = read_manifest(path)
    judging = manifest.judging if manifest else None
    if manifest is None or judging is None or judging.protocol == "rubric":
        raise InputError(f"{path} holds no choices of `bench judge --protocol`, or its manifest is missing")
    found = {sample.key: (sample, chosen) for sample, chosen in _lines(path)}
    chosen = {planned.id: _of(planned, found) for planned in manifest.planned}
    counted = COUNTED[judging.protocol]
    samples = [_sample(planned, chosen[planned.id], counted) for planned in manifest.planned]
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
        failures=tuple(_failures(samples, chosen)),
        usage=sum((each.usage for each in chosen.values()), NO_USAGE),
        wall_seconds=manifest.wall_seconds,
        warnings=tuple(_warnings(chosen.values(), judging, infer)),
    )


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
        return Chosen(digest="", settings="", outcome=Outcome.INFRASTRUCTURE_FAILED, detail=NOT_THERE)
    return chosen


def _sample(planned: Planned, chosen: Chosen, counted: str) -> SampleChoice:
    return SampleChoice(
        id=planned.id,
        domain=planned.domain,
        trajectory=planned.trajectory,
        value=_value(chosen, counted),
        outcome=chosen.outcome,
        first=tuple(choice.first for choice in chosen.choices),
        chosen=tuple(choice.chosen for choice in chosen.choices),
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
        missing=dict(Counter(sample.outcome.value for sample in samples if sample.value is None)),
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
        return made, f"nothing of {worst.name} counts: its {worst.planned} samples were not judged"
    if worst.coverage < min_coverage:
        counts = f"{worst.counted} of {worst.planned} samples"
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


def _failures(samples: Iterable[SampleChoice], chosen: Mapping[str, Chosen]) -> Iterator[Failure]:
    for sample in samples:
        made = chosen[sample.id]
        if not made.outcome.is_ok:
            judged = made.choices and not made.outcome.is_models_fault
            stage: Literal["predict", "choice"] = "choice" if judged else "predict"
            detail = made.detail or ""
            yield Failure(id=sample.id, domain=sample.domain, stage=stage, outcome=made.outcome, detail=detail)


def _warnings(chosen: Iterable[Chosen], judging: JudgingSettings, infer: InferSettings | None) -> Iterator[str]:
    choices = [choice for each in chosen for choice in each.choices]
    if in_part := sum(choice.outcome.is_ok and choice.first is not None and bool(choice.detail) for choice in choices):
        yield f"{in_part} choices were made on a part of their material, which did not fit the context"
    for judge in judging.judges:
        for model in filter(None, (infer.model if infer else None, judging.against)):
            if same_family(judge, model):
                yield f"the judge {judge} and the model {model} seem to be of one family, which it may favour"
