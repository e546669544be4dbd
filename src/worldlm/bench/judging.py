"""From predictions to scores: by rules against the reference, by the rubric of one or several judges, or by both.

A judged file holds everything that its scores are made of (the verification, every verdict with the judge's raw
reply), so that figures are made anew without a call. A judge that cannot be read, or reached, leaves no number.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from worldlm.bench.infer import Prediction, read_prediction
from worldlm.bench.results import JudgingSettings
from worldlm.bench.running import Report, run_samples
from worldlm.bench.runs import Done, RunFile, last_samples, line_done, with_ours
from worldlm.bench.samples import Sample
from worldlm.core.errors import InputError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Model
from worldlm.core.text import canonical_json, digest
from worldlm.core.types import DOMAIN_NAMES, NO_USAGE, Usage
from worldlm.domains import get_domain
from worldlm.judge.panel import Panel, judge_panel
from worldlm.judge.rubric import RUBRIC_VERSION, JudgeSettings, rubric_hash
from worldlm.judge.score import DIMENSIONS, Verdict
from worldlm.judge.verifiers import VERSION, Verification, verify

PUBLIC_KEYS = (
    "total_score",
    *DIMENSIONS,
    "failed",
    "strengths",
    "weaknesses",
    "extracted_output",
    "judge_raw_output",
    "error_message",
)
"""What the public format says of a judged sample."""


class Judged(Done):
    """What came of judging one prediction. The digest is of the sample and of what was predicted."""

    outcome: Outcome = Outcome.OK
    """OK: it has what was asked for. Otherwise the prediction's own failure, or the judges'."""

    @property
    def usage(self) -> Usage:
        """What the judges took."""
        return NO_USAGE

    @property
    def of_sample(self) -> bool:
        """A judge that fails at one prediction may well fail at all."""
        return False


class Judgement(Judged):
    """What came of scoring one prediction."""

    rules: Verification | None = None
    verdicts: tuple[Verdict, ...] = ()

    @property
    def usage(self) -> Usage:
        """What the judges took."""
        return self.panel.usage if self.panel else NO_USAGE

    @property
    def panel(self) -> Panel | None:
        """The verdicts together; None where no judge was asked."""
        return Panel(verdicts=self.verdicts) if self.verdicts else None


@dataclass(frozen=True, slots=True)
class Judging:
    """How predictions are scored. Without a judge: by rules alone."""

    rules: bool = True
    judges: Sequence[Model] = ()
    settings: JudgeSettings = field(default_factory=JudgeSettings)
    repeats: int = 1

    @property
    def identity(self) -> JudgingSettings:
        """Everything of it that can change a score."""
        if not self.judges:
            return JudgingSettings(rules=VERSION)
        wording = digest(*(rubric_hash(name) for name in DOMAIN_NAMES))[:16]
        return JudgingSettings(
            rules=VERSION if self.rules else None,
            rubric=f"rubric/{RUBRIC_VERSION} {wording}",
            judges=tuple(judge.name for judge in self.judges),
            structured=self.settings.structured,
            repeats=self.repeats,
            sampling=self.settings.sampling,
            context=self.settings.context,
            attempts=self.settings.attempts,
            seed=self.settings.seed,
        )


def predictions(path: Path) -> Iterator[tuple[Sample, Prediction]]:
    """The samples of a file of predictions, each with its last prediction. Raises InputError naming file and line."""
    return ((sample, read_prediction(sample)) for sample in last_samples(path))


def prediction_digest(sample: Sample, prediction: Prediction) -> str:
    """Identifies what is judged: a prediction that was asked for again is another one."""
    seen = prediction.observation.model_dump(mode="json") if prediction.observation else None
    return digest(sample.digest, prediction.outcome.value, canonical_json(seen))[:16]


async def score_one(sample: Sample, prediction: Prediction, judging: Judging) -> Judgement:
    """One prediction, scored. A failed one is not: it keeps its outcome."""
    made = Judgement(digest=prediction_digest(sample, prediction))
    if prediction.observation is None:
        detail = prediction.detail or "no detail given"
        return made.model_copy(update={"outcome": prediction.outcome, "detail": detail})
    question = sample.question
    told: dict[str, Any] = {"rules": verify(question, prediction.observation) if judging.rules else None}
    if judging.judges:
        text = get_domain(question.domain).write_observation(prediction.observation)
        panel = await judge_panel(question, text, judging.judges, judging.settings, samples=judging.repeats)
        told |= {"verdicts": panel.verdicts, "outcome": panel.outcome, "detail": panel.detail}
    return made.model_copy(update=told)


async def judge_all(
    judged: Sequence[tuple[Sample, Prediction]],
    judging: Judging,
    file: RunFile,
    *,
    concurrency: int,
    on_done: Callable[[Sample, Judgement], None] | None = None,
) -> Report:
    """Score every prediction that `file` does not hold as scored, `concurrency` at a time; each is one flushed line.

    Raises WorldlmError with the judge's own words when nothing is answered any more, and when the budget is spent.
    """
    by_key = {sample.key: prediction for sample, prediction in judged}
    return await run_samples(
        [sample for sample, _ in judged],
        file,
        Judgement,
        verb="judge",
        digest_of=lambda sample: prediction_digest(sample, by_key[sample.key]),
        asks=lambda sample: by_key[sample.key].observation is not None,
        work=lambda sample: score_one(sample, by_key[sample.key], judging),
        record=lambda sample, judgement: judged_record(sample, by_key[sample.key], judgement),
        concurrency=concurrency,
        on_done=on_done,
    )


def judged_record(sample: Sample, prediction: Prediction, judgement: Judgement) -> dict[str, Any]:
    """The line of a judged prediction: the public format's scores where a judge gave some, and ours under our key.

    A failure has no number: `failed` is 1.0 and `error_message` says why.
    """
    record = {key: value for key, value in sample.raw.items() if key not in PUBLIC_KEYS}
    panel = judgement.panel
    if prediction.observation is not None:
        record["extracted_output"] = get_domain(sample.domain).write_observation(prediction.observation)
    if panel is not None:
        record["judge_raw_output"] = panel.verdicts[0].raw
    if not judgement.outcome.is_ok:
        record |= {"failed": 1.0, "error_message": f"{judgement.outcome.value}: {judgement.detail}"}
    elif panel is not None and panel.grades is not None:
        grades: dict[str, float] = {str(name): grade for name, grade in panel.grades.items()}
        record |= {"total_score": panel.total, **grades, "failed": 0.0, **_words(panel)}
    told = judgement.model_dump(mode="json", exclude_defaults=True)
    return with_ours(record, judgement={**told, "outcome": judgement.outcome.value})


def _words(panel: Panel) -> dict[str, str]:
    """What the judges said, the first of them alone or each in turn."""
    scores = [verdict.score for verdict in panel.verdicts if verdict.score is not None]
    return {
        key: "\n\n".join(dict.fromkeys(getattr(score, key) for score in scores)) for key in ("strengths", "weaknesses")
    }


def read_judgement(sample: Sample) -> Judgement | None:
    """The judgement that a line holds; None where it holds none of ours. Raises InputError for one that is broken."""
    return line_done(sample.place, sample.raw, "judgement", Judgement)


def public_grades(sample: Sample) -> dict[str, float] | None:
    """The grades (1–5) of a line that the public script, or somebody else, judged; None where it failed or has none.

    Raises InputError for a line with some of the five and not all, or with one out of range.
    """
    raw = sample.raw
    if raw.get("failed") or not any(name in raw for name in DIMENSIONS):
        return None
    grades: dict[str, float] = {}
    for name in DIMENSIONS:
        value = raw.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 1 <= value <= 5:
            raise InputError(f"{sample.place}: sample {sample.key}: {name} is {value!r}, and a grade is 1 to 5")
        grades[name] = float(value)
    total = raw.get("total_score")
    if isinstance(total, int | float) and abs(total - fmean(grades.values())) > 0.01:
        raise InputError(
            f"{sample.place}: sample {sample.key}: total_score is {total}, and the mean of its five grades "
            f"{fmean(grades.values()):.2f}"
        )
    return grades
