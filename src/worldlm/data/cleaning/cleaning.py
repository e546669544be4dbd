"""The three steps of cleaning, each a function from a trajectory to a trajectory that counts what it changes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from worldlm.core.text import estimate_tokens
from worldlm.core.types import Observation, Trajectory
from worldlm.data.cleaning.cut import cut
from worldlm.data.cleaning.scrub import Scrubber, scrub_json
from worldlm.data.cleaning.terminal import count_control, has_control, render_terminal
from worldlm.data.report import Effect, Losses

MAX_TOKENS = 1500
"""Tokens of an observation in training data, unless told otherwise."""
SCREENS = ("terminal", "swe")
"""Domains whose observations are what a terminal was sent."""


@dataclass
class Cleaning:
    """What to do, and what was done."""

    render: bool = True
    """Play what a terminal was sent (in the domains `SCREENS`)."""
    scrubber: Scrubber | None = None
    max_tokens: int | None = MAX_TOKENS
    count: Callable[[str], int] = estimate_tokens
    losses: Losses = field(default_factory=Losses)
    observations: int = 0
    cut: int = 0
    """Observations that were cut."""

    @property
    def cut_share(self) -> float | None:
        """The part of all observations that was cut; None of nothing."""
        return self.cut / self.observations if self.observations else None


def clean(trajectory: Trajectory, cleaning: Cleaning) -> Trajectory:
    """A trajectory rendered, scrubbed and cut, in this order: secrets are found in whole lines."""
    if cleaning.render:
        trajectory = render(trajectory, cleaning.losses)
    if cleaning.scrubber is not None:
        trajectory = scrub(trajectory, cleaning.scrubber, cleaning.losses)
    if cleaning.max_tokens is not None:
        trajectory, observations, short = cut_long(trajectory, cleaning.max_tokens, cleaning.count, cleaning.losses)
        cleaning.observations += observations
        cleaning.cut += short
    return trajectory


def render(trajectory: Trajectory, losses: Losses) -> Trajectory:
    """Observations of a terminal as its screen shows them; what the terminal was sent stays beside them, as `raw`."""
    if trajectory.world.domain not in SCREENS:
        return trajectory

    def step(observation: Observation, where: str) -> Observation:
        if not has_control(observation.text):
            return observation
        losses.changed("terminal output is rendered as a screen shows it (raw is kept)", where)
        losses.tell(Effect.CHANGED, "control characters that were in it", where, count_control(observation.text))
        raw = observation.text if observation.raw is None else observation.raw
        return observation.model_copy(update={"text": render_terminal(observation.text), "raw": raw})

    return _observations(trajectory, step)


def cut_long(
    trajectory: Trajectory, most: int, count: Callable[[str], int], losses: Losses
) -> tuple[Trajectory, int, int]:
    """Observations of more than `most` tokens cut in the middle; also how many observations there are, and were cut.

    Structured content goes with the part of its text that goes: it would hold all of it.
    """
    seen = short = 0

    def step(observation: Observation, where: str) -> Observation:
        nonlocal seen, short
        seen += 1
        text = cut(observation.text, most, count)
        if text == observation.text:
            return observation
        short += 1
        losses.changed(f"an observation of more than {most} tokens is cut head and tail", where)
        losses.tell(Effect.DROPPED, "characters of long observations", where, len(observation.text) - len(text))
        return observation.model_copy(update={"text": text, "structured": None})

    return _observations(trajectory, step), seen, short


def _observations(trajectory: Trajectory, step: Callable[[Observation, str], Observation]) -> Trajectory:
    """A trajectory with `step` done to each of its observations."""
    initial = trajectory.initial and step(trajectory.initial, f"{trajectory.id}: initial")
    turns = [
        turn
        if turn.observation is None
        else turn.model_copy(update={"observation": step(turn.observation, f"{trajectory.id}: turn {number}")})
        for number, turn in enumerate(trajectory.turns, 1)
    ]
    return trajectory.model_copy(update={"initial": initial, "turns": tuple(turns)})


_WORLD = ("summary", "context", "tools", "initial_state", "initial_observation", "hidden_state", "control")
_TURN = ("action", "raw_action", "observation", "detail", "thinking", "violations")


def scrub(trajectory: Trajectory, scrubber: Scrubber, losses: Losses) -> Trajectory:
    """A trajectory with stand-ins for secrets and personal data, in its world, actions and observations alike."""
    record: dict[str, Any] = trajectory.model_dump(mode="json", by_alias=True)
    parts = [(record["world"], key) for key in _WORLD] + [(record, "initial")]
    parts += [(turn, key) for turn in record["turns"] for key in _TURN] + [(record["ending"], "detail")]
    before = dict(scrubber.counts)
    names: set[str] = set()

    def first(text: str) -> str:
        done = scrubber(text)
        names.update(scrubber.learn(text))
        return done

    def scrub_parts(one: Callable[[str], str]) -> bool:
        done = [scrub_json(holder[key], one) for holder, key in parts]
        changed = any(value != holder[key] for (holder, key), value in zip(parts, done, strict=True))
        for (holder, key), value in zip(parts, done, strict=True):
            holder[key] = value
        return changed

    changed = scrub_parts(first)
    if names:  # one text's home folder is another text's prompt
        known = frozenset(names)
        changed |= scrub_parts(lambda text: scrubber(text, known))
    for kind, number in scrubber.counts.items():
        if more := number - before.get(kind, 0):
            losses.tell(Effect.CHANGED, f"{kind}: a stand-in of the same form", trajectory.id, more)
    return Trajectory.model_validate(record) if changed else trajectory
