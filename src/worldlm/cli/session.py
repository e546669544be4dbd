"""A person's session in a simulated world: the episode, its branches, and what is kept of them."""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from uuid import uuid4

from worldlm.core.errors import InputError
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import NO_USAGE, Delta, Ending, Step, Trajectory, Turn, Usage
from worldlm.simulate import SimulatedEnvironment


@dataclass
class Branch:
    """One line of history. `turns` holds all that was tried, failed steps too."""

    environment: SimulatedEnvironment
    turns: list[Turn] = field(default_factory=list)
    origin: str = "the start"
    """Where it begins, in words."""
    terminated: bool = False

    @property
    def length(self) -> int:
        """Turns of the history: those that have an observation."""
        return len(self.environment.turns)

    def position(self, count: int) -> int:
        """The place in `turns` after `count` turns of the history."""
        if count == 0:
            return 0
        places = [index for index, turn in enumerate(self.turns) if turn.observation is not None]
        return places[count - 1] + 1


class Session:
    """Numbered branches of one episode, one of them current. The environment must have been reset."""

    def __init__(self, environment: SimulatedEnvironment):
        self.branches = {1: Branch(environment)}
        self.current = 1
        self._id = uuid4().hex[:16]

    @property
    def branch(self) -> Branch:
        """The current branch."""
        return self.branches[self.current]

    @property
    def seed(self) -> int:
        """The seed of the current branch."""
        seed = self.branch.environment.origin.seed
        assert seed is not None
        return seed

    @property
    def usage(self) -> Usage:
        """What the current branch took."""
        return _sum(self.branch.turns)

    async def act(self, action: str, on_delta: Callable[[Delta], None]) -> Step:
        """Do one action in the current branch; `on_delta` sees the observation while it is made."""
        branch = self.branch
        step = None
        async with aclosing(branch.environment.stream(action)) as items:  # type: ignore[type-var]
            async for item in items:
                if isinstance(item, Step):
                    step = item
                else:
                    on_delta(item)
        assert step is not None
        branch.turns.append(step.turn(action))
        branch.terminated = step.terminated
        return step

    async def undo(self) -> Turn:
        """Take back the last turn of the current branch, and what failed after it. Returns that turn."""
        branch = self.branch
        if not branch.length:
            raise InputError("there is no turn to take back")
        start = branch.position(branch.length) - 1
        undone = branch.turns[start]
        del branch.turns[start:]
        assert branch.environment.initial is not None
        await branch.environment.resume(branch.environment.initial, branch.turns, self.seed)
        branch.terminated = False
        return undone

    async def fork(self, turn: int | None = None) -> int:
        """Branch off after `turn` turns of the current branch (all by default); the new branch becomes current."""
        old = self.branch
        at = old.length if turn is None else turn
        environment = await old.environment.fork(at)
        over = old.terminated and at == old.length
        number = max(self.branches) + 1
        turns = old.turns[: old.position(at)]
        self.branches[number] = Branch(environment, turns, f"branch {self.current} after turn {at}", over)
        self.current = number
        return number

    def switch(self, number: int) -> None:
        """Make another branch current."""
        if number not in self.branches:
            raise InputError(f"there is no branch {number}; known: {', '.join(map(str, self.branches))}")
        self.current = number

    async def reseed(self, seed: int) -> None:
        """Go on from here with another seed."""
        environment = self.branch.environment
        await environment.restore({**await environment.snapshot(), "seed": seed})

    def trajectory(self, number: int, ending: Ending) -> Trajectory:
        """A branch as a trajectory. Branches of one session are one group."""
        branch = self.branches[number]
        if branch.terminated:
            ending = Ending(kind=EndingKind.TERMINATED)
        several = len(self.branches) > 1
        return Trajectory(
            id=f"{self._id}-{number}" if several else self._id,
            world=branch.environment.world,
            initial=branch.environment.initial,
            turns=tuple(branch.turns),
            ending=ending,
            policy="person",
            group=self._id if several else None,
            origin=branch.environment.origin,
            usage=_sum(branch.turns),
        )


QUIT = Ending(kind=EndingKind.COMPLETED)
INTERRUPTED = Ending(kind=EndingKind.CANCELLED, outcome=Outcome.CANCELLED)


def _sum(turns: list[Turn]) -> Usage:
    return sum((turn.usage for turn in turns), NO_USAGE)
