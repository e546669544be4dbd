"""Several verdicts on one prediction: repeats of a judge, several judges, or both."""

import re
from collections.abc import Iterable, Sequence
from statistics import fmean, pstdev

import anyio
from pydantic import Field

from worldlm.core.errors import InputError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Model
from worldlm.core.text import number_of
from worldlm.core.types import NO_USAGE, Usage, Value
from worldlm.judge.agreement import spearman, weighted_kappa
from worldlm.judge.question import Question
from worldlm.judge.rubric import JudgeSettings, judge
from worldlm.judge.score import DIMENSIONS, Dimension, Score, Verdict, percent


class Panel(Value):
    """The verdicts of a panel on one prediction, judge by judge. Its grades are means, so they need not be whole.

    Every judge has the same weight, however many of its samples could be read.
    """

    verdicts: tuple[Verdict, ...] = Field(min_length=1)

    @property
    def by_judge(self) -> dict[str, list[Score]]:
        """The scores that each judge gave; a judge without any is missing."""
        found: dict[str, list[Score]] = {}
        for verdict in self.verdicts:
            if verdict.score is not None:
                found.setdefault(verdict.judge, []).append(verdict.score)
        return found

    @property
    def outcome(self) -> Outcome:
        """OK when there is a score; otherwise the first verdict's failure (all share the model's own)."""
        return Outcome.OK if self.by_judge else self.verdicts[0].outcome

    @property
    def detail(self) -> str | None:
        """How many verdicts are missing, and the first reason; None when none is."""
        missing = [verdict for verdict in self.verdicts if verdict.score is None]
        if not missing:
            return None
        return f"missing {len(missing)} of {number_of(len(self.verdicts), 'verdict')}: {missing[0].detail}"

    @property
    def grades(self) -> dict[Dimension, float] | None:
        """The mean grade (1–5) of each dimension: over judges, of each judge's mean."""
        if not self.by_judge:
            return None
        return {
            name: fmean(fmean(score.grades[name] for score in scores) for scores in self.by_judge.values())
            for name in DIMENSIONS
        }

    @property
    def total(self) -> float | None:
        """The mean of the five mean grades: 1–5."""
        return fmean(self.grades.values()) if self.grades else None

    @property
    def percent(self) -> float | None:
        """The total on 0–100."""
        return None if self.total is None else percent(self.total)

    @property
    def spread(self) -> float | None:
        """How far one judge's totals (1–5) lie apart: standard deviation over its samples, mean over judges.

        None where no judge gave two scores.
        """
        repeated = [[score.total for score in scores] for scores in self.by_judge.values() if len(scores) > 1]
        return fmean(map(pstdev, repeated)) if repeated else None

    @property
    def usage(self) -> Usage:
        """What all verdicts took."""
        return sum((verdict.usage for verdict in self.verdicts), NO_USAGE)


async def judge_panel(
    question: Question,
    predicted: str,
    models: Sequence[Model],
    settings: JudgeSettings = JudgeSettings(),  # noqa: B008 (frozen)
    *,
    samples: int = 1,
) -> Panel:
    """Let every one of `models` grade `predicted`, each `samples` times, all at once.

    Repeats differ by their seed and code alone: give `settings.sampling` a temperature for them to tell anything.
    Raises InputError without a judge, and for two of the same name.
    """
    names = [model.name for model in models]
    if not names or samples < 1:
        raise InputError("a panel needs at least one judge and one sample")
    if len(set(names)) < len(names):
        raise InputError(f"two judges of a panel are the same model: {', '.join(names)}; ask for more samples instead")
    verdicts: dict[tuple[int, int], Verdict] = {}
    refused: list[InputError] = []

    async def one(place: int, sample: int) -> None:
        try:
            verdicts[place, sample] = await judge(question, predicted, models[place], settings, sample=sample)
        except InputError as error:
            refused.append(error)

    async with anyio.create_task_group() as group:
        for place in range(len(models)):
            for sample in range(samples):
                group.start_soon(one, place, sample)
    if refused:
        raise refused[0]
    return Panel(verdicts=tuple(verdicts[key] for key in sorted(verdicts)))


class Agreement(Value):
    """How far two raters of the same predictions agree. None where a measure is not defined (too few, all the same)."""

    items: int
    """Predictions that both scored."""
    kappa: dict[Dimension, float | None]
    """Cohen's kappa with quadratic weights, for each dimension."""
    spearman: float | None
    """Rank correlation of the totals."""
    same: float | None
    """Share of all grades that are equal."""
    near: float | None
    """Share of all grades that are equal or one apart."""


def agreement(pairs: Iterable[tuple[Score | None, Score | None]]) -> Agreement:
    """The agreement of two raters; a pair in which one gave no score is left out (`Agreement.items` says how many)."""
    both = [(one, other) for one, other in pairs if one is not None and other is not None]
    apart = [abs(one.grades[name] - other.grades[name]) for one, other in both for name in DIMENSIONS]
    return Agreement(
        items=len(both),
        kappa={
            name: weighted_kappa([one.grades[name] for one, _ in both], [other.grades[name] for _, other in both])
            for name in DIMENSIONS
        },
        spearman=spearman([one.total for one, _ in both], [other.total for _, other in both]),
        same=fmean(gap == 0 for gap in apart) if apart else None,
        near=fmean(gap <= 1 for gap in apart) if apart else None,
    )


def same_family(judge: str, model: str) -> bool:
    """Whether a judge and the judged model seem to be of one family, by their names (`qwen3-32b@…`, `org/Qwen2.5`).

    Models are known to favour their own kind: say so beside such a result.
    """
    one, other = _family(judge), _family(model)
    return bool(one) and one == other


def _family(name: str) -> str:
    word = re.match(r"[a-z]+", re.split(r"[@#]", name)[0].rpartition("/")[2].lower().replace("openai:", ""))
    return word[0] if word else ""


__all__ = ["Agreement", "Panel", "agreement", "judge_panel", "same_family"]
