"""Every way in which a step, a completion or an episode can come out, in one flat list.

A failure is a value. It is never an empty observation, never a number and never a missing row, so
whoever averages, trains or pays can tell the model's faults from everybody else's.
"""

from enum import StrEnum


class Outcome(StrEnum):
    """How one step, or one model call, came out."""

    OK = "ok"
    INVALID_ACTION = "invalid_action"
    """The action does not parse. The parser's words go to the agent; it counts as a turn."""
    CUT_OFF = "cut_off"
    """The reply hit a length limit, or its thinking never closed."""
    MODEL_FAILED = "model_failed"
    """The reply held no usable answer."""
    JUDGE_FAILED = "judge_failed"
    INFRASTRUCTURE_FAILED = "infrastructure_failed"
    """A server, a sandbox or a program failed: not the model's doing."""
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    BUDGET_EXHAUSTED = "budget_exhausted"

    @property
    def is_ok(self) -> bool:
        """Whether there is an observation."""
        return self is Outcome.OK

    @property
    def is_models_fault(self) -> bool:
        """Whether a benchmark counts this at the floor rather than as missing."""
        return self in (Outcome.CUT_OFF, Outcome.MODEL_FAILED)


class EndingKind(StrEnum):
    """Why an episode is over."""

    COMPLETED = "completed"
    """The policy had nothing more to do."""
    TERMINATED = "terminated"
    """The environment said that the episode is over."""
    TURN_LIMIT = "turn_limit"
    TIME_LIMIT = "time_limit"
    BUDGET = "budget"
    FAILED = "failed"
    """The environment or the policy failed; `Ending.outcome` says how."""
    CANCELLED = "cancelled"
