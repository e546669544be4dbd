"""Rubric and rules as one number: nine tenths of what a judge says, one tenth of what a program can check."""

from pydantic import Field

from worldlm.core.outcomes import Outcome
from worldlm.core.types import Text, Value
from worldlm.judge.score import Verdict
from worldlm.judge.verifiers.verification import Verification

SHARE = 0.1
"""The verifier's share (Qwen-AgentWorld report, reward of the RL stage)."""
UNCHECKABLE = frozenset({"pre-existing"})
"""Content classes that no program can check: what a model cannot know must be plausible, and need not be equal."""


class Blended(Value):
    """One number on 0–100, or why there is none."""

    outcome: Outcome
    value: float | None = Field(default=None, ge=0, le=100)
    """None exactly when neither a score nor a failure of the model is there: such a turn is left out of every mean."""
    rubric: float | None = None
    verification: float | None = None
    """What the rules gave; None where they have no part in the value."""
    detail: Text | None = None


def blend(
    verdict: Verdict, verification: Verification | None = None, *, content: str | None = None, share: float = SHARE
) -> Blended:
    """`(1 - share)` × rubric + `share` × verification, both on 0–100.

    Without a verification, and for a content class that no program can check, the rubric stands alone. A failure of
    the model (CUT_OFF, MODEL_FAILED) is 0, the floor. Any other failure (JUDGE_FAILED, …) has no value, whatever the
    rules say: a number from the rules alone would not compare with the others. Raises ValueError for a share that is
    not between 0 and 1.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"the verifier's share must be between 0 and 1, not {share}")
    score = verdict.counted
    if score is None:
        return Blended(outcome=verdict.outcome, detail=verdict.detail)
    rubric = score.percent
    if verification is None or content in UNCHECKABLE or verdict.score is None:
        return Blended(outcome=verdict.outcome, value=rubric, rubric=rubric, detail=verdict.detail)
    value = (1 - share) * rubric + share * verification.value
    return Blended(
        outcome=verdict.outcome,
        value=min(value, 100.0),
        rubric=rubric,
        verification=verification.value,
        detail=verdict.detail,
    )


__all__ = ["SHARE", "UNCHECKABLE", "Blended", "blend"]
