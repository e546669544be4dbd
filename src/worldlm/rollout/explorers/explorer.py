"""What every explorer is: a seeded behaviour that yields actions and is told what came of each."""

from collections.abc import Callable, Generator, Sequence
from random import Random
from typing import NamedTuple

from worldlm.core.text import derive_seed
from worldlm.core.types import Observation, Turn, World


class Act(NamedTuple):
    """An action with its kind."""

    action: str
    """In the domain's wire format."""
    label: str
    """The family of the action; `/odd` behind it where it is wrong or odd on purpose."""


Behaviour = Generator[Act, Turn, None]
"""Yields an action, receives the turn that came of it, and returns when it has nothing more to do.

Chains compose with `yield from`. What a behaviour does may depend on its random numbers and on the turns alone, so
that one seed gives the same actions wherever the environment gives the same observations.
"""
Behave = Callable[[Random, World, Observation], Behaviour]
"""Starts a behaviour in a world, from its first observation."""


class Explorer:
    """A policy that runs a behaviour. One object serves one episode. Satisfies `Policy` and `HasLabel`."""

    def __init__(self, name: str, behave: Behave, seed: int):
        self.name = name
        self.label: str | None = None
        self._behave = behave
        self._seed = seed
        self._running: Behaviour | None = None

    async def act(self, world: World, initial: Observation, turns: Sequence[Turn]) -> str | None:
        """The behaviour's next action."""
        try:
            if self._running is None:
                random = Random(derive_seed(self.name, world.name, str(self._seed)))
                self._running = self._behave(random, world, initial)
                act = next(self._running)
            else:
                act = self._running.send(turns[-1])
        except StopIteration:
            return None
        self.label = act.label
        return act.action
