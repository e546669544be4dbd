"""Short ways to type into a real terminal, and to see what one leaves behind."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from worldlm.core.outcomes import Outcome
from worldlm.core.types import Observation, Step, World
from worldlm.domains.terminal import from_line
from worldlm.real.terminal import TerminalEnvironment

WORLD = World(
    name="box",
    domain="terminal",
    initial_state={"user": "ana", "host": "box", "cwd": "~/app", "files": {"app/a.txt": "one\ntwo\n"}},
)


class Session:
    """A terminal with short ways to type."""

    def __init__(self, environment: TerminalEnvironment, initial: Observation):
        self.environment = environment
        self.initial = initial

    async def line(self, line: str) -> str:
        """Type a line; the observation's text."""
        return self.text(await self.environment.step(from_line(line, self.environment.world)))

    async def keys(self, *keys: tuple[str, float]) -> str:
        """Type keys as they are; the observation's text."""
        return self.text(await self.step(*keys))

    async def step(self, *keys: tuple[str, float]) -> Step:
        """Type keys as they are; the step."""
        return await self.environment.step(typed(*keys))

    @staticmethod
    def text(step: Step) -> str:
        assert step.outcome is Outcome.OK, step.detail
        assert step.observation is not None
        return step.observation.text


def typed(*keys: tuple[str, float]) -> str:
    """An action of keys and durations."""
    return json.dumps([{"keystrokes": k, "duration": d} for k, d in keys])


@asynccontextmanager
async def opened(world: World = WORLD) -> AsyncIterator[Session]:
    """A session in a fresh sandbox, closed at the end."""
    environment = TerminalEnvironment(world)
    try:
        yield Session(environment, await environment.reset())
    finally:
        await environment.close()


def world_with(**limits: float) -> World:
    """The test world with other limits."""
    return WORLD.model_copy(update={"limits": WORLD.limits.model_validate(limits)})


# What of a sandbox could be left on the host.


def traces() -> set[str]:
    """Processes of sandboxes, and the files in the temporary folders."""
    found = set()
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                command = (path / "cmdline").read_bytes() + b" " + (path / "comm").read_bytes()
            except OSError:
                continue
            if any(name in command for name in (b"bwrap", b"tmux", b"/run/pane.sh", b"sandboxed")):
                found.add(f"process {path.name}")
    for folder in ("/tmp", "/run", "/dev/shm", "/var/tmp"):
        found |= {f"file {path}" for path in Path(folder).iterdir() if "tmux" in path.name or "worldlm-" in path.name}
    return found


def gone(before: set[str], seconds: float = 10.0) -> list[str]:
    """What is there that was not there `before`, once it has had the time to go."""
    end = time.monotonic() + seconds
    while (left := traces() - before) and time.monotonic() < end:
        time.sleep(0.02)
    return sorted(left)
