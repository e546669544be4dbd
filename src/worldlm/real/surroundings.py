"""What of a machine is chance: its clock, its process ids, the name of its host.

An episode that is played again under other ones tells which parts of an observation follow from the world and the
actions, and which only from when and where it ran (`data.content`).

The clock is libfaketime's (preloaded; the package is in every distribution), which changes what programs are told, and
not the monotonic clock, by which they wait. What the kernel writes down itself goes by the real clock: the times of
files, and what programs see that are linked statically. Those of two runs differ by the real time between them.

What the surroundings bring along is taken out of the observations again (`Elsewhere`): the host goes by the world's own
name, and lines that list the variables of libfaketime are dropped. What a program *derives* from a host's name
(the id of a commit, through its author's address) stays other.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field

from worldlm.core.errors import SetupError
from worldlm.core.protocols import Environment, HasOrigin
from worldlm.core.types import DomainName, Observation, Origin, Step, Value, World
from worldlm.domains.files import FileState

PLACED: frozenset[DomainName] = frozenset({"terminal", "swe", "mcp", "os"})
"""The domains whose machine can be put elsewhere.

A web page of a local site has a clock of its own that stands still, and shows neither process nor host; a search has no
machine; a device keeps its own time, and so does a server that runs outside of the sandbox. For these only the real
time differs.
"""

PRELOADED = "/var/lib/clock.so"
"""Where the library of another clock is inside."""
_LIBRARIES = ("lib/*/faketime", "lib64/faketime", "lib/faketime", "local/lib/faketime")
_DAY = 86_400.0
# Clocks ahead, because what lies behind the time of a file breaks build tools. Each differs from the others in year or
# month, day, weekday, hour, minute and second.
_REPLAYS = ((41 * _DAY + 11_655, 130, 13), (398 * _DAY + 42_424, 710, 7), (1_213 * _DAY + 73_333, 2_300, 19))
_OURS = re.compile(r"^(?:declare -x |export )?(?:LD_PRELOAD|NO_FAKE_STAT|FAKETIME\w*)=.*(?:\n|\Z)", re.MULTILINE)

State = TypeVar("State", bound=FileState)


class Surroundings(Value):
    """A clock, a range of process ids and a host name. The default is those of an ordinary episode."""

    clock: float = 0.0
    """Seconds by which the machine's clock is ahead of ours (behind, where negative)."""
    first_pid: int = Field(default=0, ge=0, le=30_000)
    """Lower process ids are used up before the agent's programs start; 0: they begin where they begin."""
    host: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    """The host's name; None: the world's own. One of the same length leaves the layout of what shows it alone."""

    def placed(self, state: State) -> State:
        """A machine's state with the host's name."""
        return state.model_copy(update={"host": self.host}) if self.host else state

    def files(self) -> dict[str, bytes]:
        """Files that the sandbox brings beside the agent's, by name. Raises SetupError when libfaketime is missing."""
        return {"clock.so": _library()} if self.clock else {}

    def variables(self) -> dict[str, str]:
        """What programs find in their environment."""
        if not self.clock:
            return {}
        return {
            "LD_PRELOAD": PRELOADED,
            "FAKETIME": f"{self.clock:+.0f}s",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",  # it fakes the times of files for some programs and not for others
        }


HERE = Surroundings()
"""The surroundings of an ordinary episode."""


@cache
def _library() -> bytes:
    """Libfaketime without its `clock_nanosleep`, which refuses deadlines of the true monotonic clock: Python's sleep.

    The name that it is found by is another; programs get the C library's.
    """
    found = (path for place in _LIBRARIES for path in Path("/usr").glob(f"{place}/libfaketimeMT.so.1"))
    path = next(found, None)
    if path is None:
        raise SetupError("another clock needs a library that is not installed: apt-get install faketime")
    # The first place is the table of symbols; a later one is where it looks for the C library's.
    return path.read_bytes().replace(b"\0clock_nanosleep\0", b"\0_lock_nanosleep\0", 1)


def host_of(world: World) -> str:
    """The name of a world's host."""
    state = world.initial_state
    named = state.get("host") if isinstance(state, dict) else None
    return named if isinstance(named, str) else str(FileState.model_fields["host"].default)


def other_surroundings(world: World) -> tuple[Surroundings, ...]:
    """The three under which a trajectory of `world` is replayed, to tell the content classes of its turns."""
    host = host_of(world)
    return tuple(
        Surroundings(clock=clock, first_pid=first, host=_shifted(host, shift)) for clock, first, shift in _REPLAYS
    )


def _shifted(host: str, by: int) -> str:
    """A name of the same length that is hardly a word: each letter is moved on in the alphabet."""
    return "".join(chr((ord(c) - 97 + by) % 26 + 97) if c.isalpha() else c for c in host)


class Elsewhere:
    """An environment in other surroundings, with observations as if it were at home.

    Satisfies `Environment` and `HasOrigin`. Only what comes back is put right: an action that names the host means the
    world's own, which is not there.
    """

    def __init__(self, inner: Environment, around: Surroundings, home: str):
        """`home`: the host's name in the world."""
        self._inner = inner
        other = around.host or home
        self._host = re.compile(rf"(?<![A-Za-z0-9]){re.escape(other)}(?![A-Za-z0-9])") if other != home else None
        self._home = home

    @property
    def world(self) -> World:
        """The agent's view of the world."""
        world = self._inner.world
        told = {"context": self._text(world.context), "initial_observation": self._back(world.initial_observation)}
        return world.model_copy(update=told)

    @property
    def origin(self) -> Origin:
        """Where its trajectories come from."""
        return self._inner.origin if isinstance(self._inner, HasOrigin) else Origin(kind="real")

    async def reset(self, seed: int | None = None) -> Observation:
        """Start an episode."""
        return self._observation(await self._inner.reset(seed))

    async def step(self, action: str) -> Step:
        """Do one action."""
        step = await self._inner.step(action)
        if step.observation is None:
            return step
        return step.model_copy(update={"observation": self._observation(step.observation)})

    async def close(self) -> None:
        """Release everything."""
        await self._inner.close()

    def _observation(self, observation: Observation) -> Observation:
        told = {key: self._back(getattr(observation, key)) for key in ("text", "raw", "structured")}
        return observation.model_copy(update=told)

    def _back(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self._back(item) for item in value]
        if isinstance(value, dict):
            return {self._text(key): self._back(item) for key, item in value.items()}
        return value

    def _text(self, text: str) -> str:
        text = _OURS.sub("", text) if "FAKETIME" in text else text
        return self._host.sub(self._home, text) if self._host else text


__all__ = ["HERE", "PLACED", "Elsewhere", "Surroundings", "host_of", "other_surroundings"]
