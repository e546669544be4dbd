"""Short ways to type into a real terminal, and to see what one leaves behind."""

import json
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from worldlm.core.outcomes import Outcome
from worldlm.core.types import Observation, Step, World
from worldlm.domains.terminal import from_line
from worldlm.real.terminal import TerminalEnvironment

WORLD = World(
    name="box",
    domain="terminal",
    initial_state={"user": "ana", "host": "box", "cwd": "~/app", "files": {"app/a.txt": "one\ntwo\n"}},
)


def needs(**packages: str) -> None:
    """Skip, and name the packages, when a program that a test types is not installed."""
    missing = [package for program, package in packages.items() if shutil.which(program) is None]
    if missing:
        pytest.skip(f"needs system programs: apt-get install {' '.join(missing)}")


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
        processes = family(environment._sandbox._process.pid) if environment._sandbox else set()
        await environment.close()
        assert left_of(processes, 0) == set()


def world_with(**limits: float) -> World:
    """The test world with other limits."""
    return WORLD.model_copy(update={"limits": WORLD.limits.model_validate(limits)})


# What of a sandbox could be left on the host.

Alive = set[tuple[int, str]]
"""Processes, each with its id and the time of its start."""


def family(pid: int) -> Alive:
    """A process's descendants."""
    found: Alive = set()
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return found
    for child in children:
        found |= {(child, start) for start in _start(child)} | family(child)
    return found


def _start(pid: int) -> list[str]:
    try:
        return [Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19]]
    except OSError:
        return []


def left_of(processes: Alive, seconds: float = 10.0) -> Alive:
    """Those that are still there, once they have had the time to go."""
    end = time.monotonic() + seconds
    while (left := {(pid, start) for pid, start in processes if start in _start(pid)}) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def files() -> set[str]:
    """What lies in the host's temporary folders that could be a sandbox's."""
    folders = ("/tmp", "/run", "/dev/shm", "/var/tmp")
    return {str(p) for f in folders for p in Path(f).iterdir() if any(n in p.name for n in ("tmux", "worldlm-sandbox"))}
