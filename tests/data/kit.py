"""Reading one record, as tests want it."""

from typing import Any

from worldlm.core.types import Trajectory
from worldlm.data.formats import Reading, ReadOptions, sniff_value
from worldlm.data.report import Losses


def read(value: Any, options: ReadOptions | None = None) -> tuple[list[Trajectory], Losses]:
    """The trajectories of a record, and what was lost."""
    found = sniff_value(value)
    assert found is not None, "of no known format"
    reading = Reading("here", found[0].name, found[1], options or ReadOptions())
    return found[0].read(value, reading), reading.losses


def read_one(value: Any, options: ReadOptions | None = None) -> tuple[Trajectory, Losses]:
    """The one trajectory of a record."""
    trajectories, losses = read(value, options)
    (one,) = trajectories
    return one, losses


def told(losses: Losses) -> dict[str, int]:
    """How often each reason came up."""
    return {why: count.number for (_, why), count in losses.reasons.items()}


def pairs(trajectory: Trajectory) -> list[tuple[str, str | None]]:
    """Action and observation of each turn."""
    return [(turn.action, turn.observation.text if turn.observation else None) for turn in trajectory.turns]
