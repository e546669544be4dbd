"""The Turing test and the pairwise comparison over files of predictions: asking the judges.

A judge sees two answers to each turn: the real one and the predicted one (*turing*), or the predictions of two runs
beside the real one (*pairwise*). Which stands first is drawn from the seed for each sample and judge's turn at it, and
is kept with the choice. As with scores, a line holds everything that its figures are made of (`bench.choices`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from worldlm.bench.infer import Prediction
from worldlm.bench.judging import Judged, prediction_digest
from worldlm.bench.results import JudgingSettings
from worldlm.bench.running import Report, run_samples
from worldlm.bench.runs import RunFile, line_done, with_ours
from worldlm.bench.samples import Sample
from worldlm.core.errors import InputError
from worldlm.core.protocols import Model
from worldlm.core.text import digest, number_of
from worldlm.core.types import NO_USAGE, Observation, Usage
from worldlm.domains import get_domain
from worldlm.judge.choosing import Choice
from worldlm.judge.pairwise import pairwise, pairwise_hash
from worldlm.judge.rubric import JudgeSettings
from worldlm.judge.turing import turing, turing_hash

ChoiceProtocol: TypeAlias = Literal["turing", "pairwise"]
CHOICE_PROTOCOLS: tuple[ChoiceProtocol, ...] = ("turing", "pairwise")


class Chosen(Judged):
    """What came of choosing: one choice for each judge and repeat, judge by judge."""

    choices: tuple[Choice, ...] = ()
    other: Observation | None = None
    """Of a pairwise comparison: the other run's prediction, where it has one."""

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
            raise InputError(f"{sample.place}: sample {sample.key} is not the one at {mine.place}: their texts differ")
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

    `others`: of a pairwise comparison, by sample (`pair_up`); samples that it lacks are left out, and noted in the
    manifest. A model's failure loses without a judge; what else is missing keeps its outcome. Raises WorldlmError as
    `bench.judging.judge_all` does.
    """
    if (others is not None) != (choosing.protocol == "pairwise"):
        raise InputError("a pairwise comparison, and nothing else, needs another run's predictions")
    by_key = {sample.key: prediction for sample, prediction in judged}
    if others is not None:
        file.leave_out([key for key in by_key if key not in others])

    def sides(sample: Sample) -> tuple[Prediction, ...]:
        mine = by_key[sample.key]
        return (mine,) if others is None else (mine, others[sample.key])

    def digest_of(sample: Sample) -> str:
        return digest(*(prediction_digest(sample, side) for side in sides(sample)))[:16]

    async def work(sample: Sample) -> Chosen:
        other = sides(sample)[1].observation if others is not None else None
        made = Chosen(digest=digest_of(sample), other=other)
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
        [sample for sample, _ in judged if others is None or sample.key in others],
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
    return f"missing {len(missing)} of {number_of(len(choices), 'choice')}: {missing[0].detail}" if missing else None


def _record(sample: Sample, chosen: Chosen) -> dict[str, Any]:
    told = chosen.model_dump(mode="json", exclude_defaults=True)
    return with_ours(sample.raw, choice={**told, "outcome": chosen.outcome.value})


def read_choices(sample: Sample) -> Chosen | None:
    """The choices that a line holds; None where it holds none. Raises InputError for what is broken."""
    return line_done(sample.place, sample.raw, "choice", Chosen)
