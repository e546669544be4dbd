"""What is asked of a world model in one turn, with what really came back: the unit that judges score."""

from worldlm.core.errors import InputError
from worldlm.core.types import DomainName, Observation, Trajectory, Turn, Value, World


class Question(Value):
    """One turn to predict, with the truth."""

    world: World
    """Its `context` is the system prompt of a public sample, or the world's own."""
    initial: Observation | None
    """What the session began with; None where its source kept none."""
    history: tuple[Turn, ...]
    """The real turns before, oldest first."""
    action: str
    """The raw payload of the action whose answer is to be predicted."""
    truth: Observation
    """What the environment really answered."""

    @property
    def domain(self) -> DomainName:
        """The domain of the world."""
        return self.world.domain

    @property
    def before(self) -> Observation | None:
        """The newest observation before the action: the last turn that has one, else the first observation."""
        return next((turn.observation for turn in reversed(self.history) if turn.observation), self.initial)

    @classmethod
    def of(cls, trajectory: Trajectory, turn: int) -> "Question":
        """The question that turn number `turn` (from 0) of a trajectory answers.

        Raises InputError when there is no such turn, or when it has no observation.
        """
        if not 0 <= turn < len(trajectory.turns):
            raise InputError(
                f"trajectory {trajectory.id!r} has no turn {turn}: it has {len(trajectory.turns)}, counted from 0"
            )
        asked = trajectory.turns[turn]
        if asked.observation is None:
            raise InputError(
                f"turn {turn} of trajectory {trajectory.id!r} has no observation ({asked.outcome}): "
                "there is nothing to compare a prediction with"
            )
        return cls(
            world=trajectory.world,
            initial=trajectory.initial,
            history=trajectory.turns[:turn],
            action=asked.action,
            truth=asked.observation,
        )


__all__ = ["Question"]
