"""The swap points. Each is a few lines; whatever satisfies one can stand in for everything else that does."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, runtime_checkable

from pydantic import JsonValue

from worldlm.core.types import (
    Completion,
    Delta,
    Message,
    Observation,
    Origin,
    Sampling,
    Step,
    Turn,
    World,
)


@runtime_checkable
class Environment(Protocol):
    """Something that runs: a language model playing a terminal, a real terminal, a recording.

    `reset` may raise `SetupError` or `InputError` (nothing has started yet). `step` does not raise on
    operation: a failure is a `Step` whose observation is None; history has not advanced and the same
    step may be tried again. Cancelling `step` leaves the environment usable or closed, never half a
    turn ahead. `close` may be called at any time, and twice.
    """

    @property
    def world(self) -> World:
        """The agent's view: hidden state and control are not in it."""
        ...

    async def reset(self, seed: int | None = None) -> Observation:
        """Start an episode. `seed` wins over the world's."""
        ...

    async def step(self, action: str) -> Step:
        """Do one action, given in the domain's wire format."""
        ...

    async def close(self) -> None:
        """Release everything."""
        ...


@runtime_checkable
class Snapshot(Protocol):
    """An environment that can be put back. A snapshot is a JSON value; wrappers nest the inner one's."""

    async def snapshot(self) -> dict[str, JsonValue]:
        """The state now."""
        ...

    async def restore(self, snapshot: dict[str, JsonValue]) -> None:
        """Go back to `snapshot`; what follows is as it would have been then."""
        ...


@runtime_checkable
class Resume(Protocol):
    """An environment that can start from a given history instead of from `reset`."""

    async def resume(self, initial: Observation, turns: Sequence[Turn], seed: int | None = None) -> None:
        """Take `initial` and `turns` as what happened so far."""
        ...


@runtime_checkable
class Streams(Protocol):
    """An environment that shows an observation while it is being made."""

    def stream(self, action: str) -> AsyncIterator[Delta | Step]:
        """Like `step`: pieces of text and thinking, and last the `Step`, which alone is authoritative."""
        ...


@runtime_checkable
class HasOrigin(Protocol):
    """An environment that can say what its trajectories are."""

    @property
    def origin(self) -> Origin:
        """Written into each trajectory."""
        ...


@runtime_checkable
class Grade(Protocol):
    """For the operator only: how well the task was done. Never reachable by the agent."""

    async def grade(self) -> float:
        """A finite number in [0, 1]."""
        ...


@runtime_checkable
class Model(Protocol):
    """A language model behind one call. Failures are `Completion`s with another outcome than OK."""

    @property
    def name(self) -> str:
        """Identifies weights and settings: part of cache keys and of results."""
        ...

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer `messages`. Raises only `asyncio.CancelledError`."""
        ...


@runtime_checkable
class StreamsCompletion(Protocol):
    """A model that can stream."""

    def stream(self, messages: Sequence[Message], sampling: Sampling) -> AsyncIterator[Delta | Completion]:
        """Pieces as they come, and last the whole `Completion`."""
        ...


@runtime_checkable
class CountsTokens(Protocol):
    """A model that knows how long a text is for it."""

    def count_tokens(self, text: str) -> int:
        """Tokens of `text`, without any chat template around it."""
        ...


@runtime_checkable
class Closes(Protocol):
    """Something that holds resources."""

    async def close(self) -> None:
        """Release them; may be called twice."""
        ...


@runtime_checkable
class Policy(Protocol):
    """What chooses actions: a script, a person, a seeded explorer, a model."""

    @property
    def name(self) -> str:
        """Written into each trajectory."""
        ...

    async def act(self, world: World, initial: Observation, turns: Sequence[Turn]) -> str | None:
        """The next action, or None when there is nothing more to do.

        `turns` holds every turn so far, failed ones too (their `detail` is what the agent was told).
        Raises `PolicyError` when no action can be had.
        """
        ...


@runtime_checkable
class HasLabel(Protocol):
    """A policy that can say what kind of action its last one was."""

    @property
    def label(self) -> str | None:
        """Written into the turn."""
        ...
