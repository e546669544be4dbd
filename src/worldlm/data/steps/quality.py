"""Rules by which a record is left out of training, or a trajectory cut where it stops teaching anything."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from pydantic import Field

from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import Ending, Text, Trajectory, Turn, Value
from worldlm.data.report import Losses
from worldlm.data.steps.records import Record

STABLE = "stable"
"""The rule check that an observation fails when it was still changing as it was taken."""
_FAULTS = (Outcome.INFRASTRUCTURE_FAILED, Outcome.TIMED_OUT, Outcome.CANCELLED)


class Rules(Value):
    """What a training set may hold. The defaults suit trajectories that were collected from real environments."""

    min_turns: int = Field(default=2, ge=1)
    """Turns with an observation that a trajectory has at least, after it was cut."""
    cut_unstable: bool = True
    """Cut before the first observation that was still changing: what comes after it builds on what was not so."""
    dead_turns: int = Field(default=5, ge=2)
    """So many equal observations at the end are a dead session; all but the first of them are cut."""
    max_empty: float = Field(default=0.5, ge=0, le=1)
    """The share of observations that may be blank."""
    drop_failed: bool = True
    """Leave out episodes that were cancelled, or that failed through no fault of the policy: they are run again."""
    origins: tuple[Text, ...] = ("real", "recorded")
    """The kinds of origin that a trajectory may have. What a model made up teaches a model its own mistakes."""
    sources: tuple[Text, ...] | None = None
    """Patterns (`*`) of the sources that are trusted; None trusts all."""
    licences: tuple[Text, ...] | None = None
    """Patterns of the licences that are taken; None takes all."""


def refine(record: Record, rules: Rules, losses: Losses) -> Record | None:
    """The record by the rules, perhaps cut; None where it is left out. `losses` is told why."""
    why = _refusal(record, rules)
    if why is None and isinstance(record, Trajectory):
        record = _cut_unstable(record, losses) if rules.cut_unstable else record
        record = _cut_dead(record, rules.dead_turns, losses)
        why = _lack(record, rules)
    if why is None:
        return record
    losses.dropped(why, record.id)
    return None


def cut(trajectory: Trajectory, turns: int, why: str) -> Trajectory:
    """The first `turns` turns. It ends as at a limit, and says why."""
    ending = Ending(kind=EndingKind.TURN_LIMIT, detail=why)
    return trajectory.model_copy(update={"turns": trajectory.turns[:turns], "ending": ending})


def is_unstable(turn: Turn) -> bool:
    """Whether the observation was still changing when it was taken."""
    return any(check.rule == STABLE for check in turn.violations)


def _refusal(record: Record, rules: Rules) -> str | None:
    """Why a record is left out as a whole, whatever it holds."""
    if isinstance(record, Trajectory):
        source, licence = record.origin.source, record.origin.licence
        ending = record.ending
        if record.origin.kind not in rules.origins:
            return f"its origin is {record.origin.kind}"
        faulty = ending.kind is EndingKind.FAILED and ending.outcome in _FAULTS
        if rules.drop_failed and (faulty or ending.kind is EndingKind.CANCELLED):
            return "the episode was cancelled, or failed through no fault of the policy"
    else:
        source, licence = record.source, record.licence
    if not _fits(source, rules.sources):
        return f"the source {source!r} is not trusted"
    if not _fits(licence, rules.licences):
        return f"the licence {licence!r} is not taken"
    return None


def _fits(name: str, patterns: Sequence[str] | None) -> bool:
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns)


def _cut_unstable(trajectory: Trajectory, losses: Losses) -> Trajectory:
    for number, turn in enumerate(trajectory.turns):
        if is_unstable(turn):
            losses.changed("cut before an observation that was still changing", f"{trajectory.id} turn {number + 1}")
            return cut(trajectory, number, f"cut before turn {number + 1}, whose observation was still changing")
    return trajectory


def _cut_dead(trajectory: Trajectory, dead_turns: int, losses: Losses) -> Trajectory:
    """Without the tail in which nothing happens any more: the same observation, or none at all."""
    last = next((turn.observation for turn in reversed(trajectory.turns) if turn.observation), None)
    alive = len(trajectory.turns)
    while alive and trajectory.turns[alive - 1].observation in (None, last):
        alive -= 1
    if len(trajectory.turns) - alive < dead_turns:
        return trajectory
    losses.changed("cut the end, in which nothing changes any more", f"{trajectory.id} turn {alive + 2}")
    return cut(trajectory, alive + 1, f"cut after turn {alive + 1}: the same observation to the end")


def _lack(trajectory: Trajectory, rules: Rules) -> str | None:
    observed = [turn.observation for turn in trajectory.turns if turn.observation]
    if len(observed) < rules.min_turns:
        return f"fewer than {rules.min_turns} turns with an observation"
    empty = sum(not seen.text.strip() and seen.structured is None for seen in observed)
    if empty > rules.max_empty * len(observed):
        return f"more than {rules.max_empty:.0%} of the observations are empty"
    return None


__all__ = ["Rules", "cut", "is_unstable", "refine"]
