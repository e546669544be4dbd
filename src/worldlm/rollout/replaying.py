"""A trajectory's actions, played again."""

from worldlm.core.protocols import Environment
from worldlm.core.types import Trajectory
from worldlm.rollout.policies import ScriptPolicy
from worldlm.rollout.rollout import RolloutLimits, run_episode


async def replay(
    trajectory: Trajectory, environment: Environment, *, seed: int | None = None, name: str | None = None
) -> Trajectory:
    """The trajectory's actions in another environment, which is closed on every ending.

    Turn n of the replay is turn n of the trajectory: actions that failed in the one (an invalid action) are played in
    the other too. It ends where the environment fails, which its ending says. Its group is the trajectory's id, its own
    id `name` (by default the trajectory's with `.replay` behind it).

    `seed`: by default that of the trajectory, else the world's. Raises InputError for a world that cannot be started.
    """
    turns = len(trajectory.turns) + 1
    limits = RolloutLimits(turns=turns, invalid_actions=turns, failed_steps=turns)
    return await run_episode(
        ScriptPolicy(trajectory.actions, f"replay of {trajectory.policy}"),
        environment,
        id=name or f"{trajectory.id}.replay",
        seed=trajectory.origin.seed if seed is None else seed,
        group=trajectory.id,
        limits=limits,
    )


__all__ = ["replay"]
