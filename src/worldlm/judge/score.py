"""A score and a verdict: five grades of one predicted observation, or why there are none."""

from collections.abc import Mapping
from typing import Literal, Self, TypeAlias

from pydantic import Field, model_validator

from worldlm.core.outcomes import Outcome
from worldlm.core.types import NO_USAGE, Text, Usage, Value

Dimension: TypeAlias = Literal["format", "factuality", "consistency", "realism", "quality"]
DIMENSIONS: tuple[Dimension, ...] = ("format", "factuality", "consistency", "realism", "quality")
LOWEST, HIGHEST = 1, 5


def percent(total: float) -> float:
    """A mean of grades (1–5) on the scale of 0–100 on which AgentWorldBench is reported."""
    return (total - LOWEST) / (HIGHEST - LOWEST) * 100


class Score(Value):
    """The five dimensions of AgentWorldBench, whole numbers from 1 (worst) to 5 (best), and the judge's words."""

    format: int = Field(ge=LOWEST, le=HIGHEST)
    factuality: int = Field(ge=LOWEST, le=HIGHEST)
    consistency: int = Field(ge=LOWEST, le=HIGHEST)
    realism: int = Field(ge=LOWEST, le=HIGHEST)
    quality: int = Field(ge=LOWEST, le=HIGHEST)
    strengths: Text = ""
    weaknesses: Text = ""

    @property
    def grades(self) -> dict[Dimension, int]:
        """The grade of each dimension, in the order of `DIMENSIONS`."""
        return {dimension: getattr(self, dimension) for dimension in DIMENSIONS}

    @property
    def total(self) -> float:
        """The mean of the five grades: 1–5."""
        return sum(self.grades.values()) / len(DIMENSIONS)

    @property
    def percent(self) -> float:
        """The total on 0–100."""
        return percent(self.total)

    @classmethod
    def even(cls, grade: int, strengths: str = "", weaknesses: str = "") -> "Score":
        """The same grade in every dimension."""
        return cls.of(dict.fromkeys(DIMENSIONS, grade), strengths, weaknesses)

    @classmethod
    def of(cls, grades: Mapping[Dimension, int], strengths: str = "", weaknesses: str = "") -> "Score":
        """The score of these grades. Raises pydantic's ValueError where they are not five whole numbers from 1 to 5."""
        return cls.model_validate({**grades, "strengths": strengths, "weaknesses": weaknesses})


FLOOR = Score.even(LOWEST)
"""What a failure of the model counts as in the means that count failures."""


class Ruling(Value):
    """What became of asking a judge. Its decision is there exactly when `outcome` is OK.

    CUT_OFF and MODEL_FAILED are the world model's failures: there was nothing to judge. Every other outcome is not the
    model's doing.
    """

    outcome: Outcome = Outcome.OK
    detail: Text | None = None
    """On a failure: what went wrong, in words. On a decision: what to know about it (shortened input)."""
    judge: Text = ""
    """Name of the judge model, as `Model.name` says it; empty where no judge was asked."""
    served: Text = ""
    """The name that the judge's server gave for what answered: often with a version."""
    raw: Text | None = None
    """The judge's last reply as it came, readable or not."""
    usage: Usage = NO_USAGE
    """What judging took, every attempt counted."""

    @property
    def decision(self) -> object:
        """What the judge decided; None where it did not."""
        raise NotImplementedError

    @model_validator(mode="after")
    def _decision_or_reason(self) -> Self:
        if (self.decision is None) == self.outcome.is_ok:
            raise ValueError("there is a decision exactly when the outcome is OK")
        if not self.outcome.is_ok and not self.detail:
            raise ValueError("what was not decided says why (detail)")
        return self


class Verdict(Ruling):
    """What became of judging one prediction.

    A benchmark counts the world model's failures at `FLOOR`; any other failure has no score, and lowers the coverage.
    """

    score: Score | None = None

    @property
    def decision(self) -> Score | None:
        """The score."""
        return self.score

    @property
    def counted(self) -> Score | None:
        """The score that counts: the judge's, `FLOOR` for a failure of the model, None where there is none."""
        return FLOOR if self.outcome.is_models_fault else self.score


__all__ = ["DIMENSIONS", "FLOOR", "HIGHEST", "LOWEST", "Dimension", "Ruling", "Score", "Verdict", "percent"]
