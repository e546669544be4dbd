"""A real desktop: an X server in the sandbox, the applications that the world names, Python in, the tree out.

`initial_state` has the keys of a terminal's (`user`, `host`, `cwd`, `files`, `setup`, `mtime`, `notes`) and

    screen: 1280x800                                    # the default
    applications: [mousepad notes.txt, thunar, galculator, localc]

Each application is a command line without a shell, run in the home folder; one is started after the other, each when
the one before shows its window. Any program of the host's `/usr` that registers with AT-SPI will do. Files of
the world win over the settings that we put into `~/.config` (`inside/desktop_config`).

A step: the block runs in a process of its own with pyautogui itself (0.02 s as its PAUSE), in the home folder; then the
window manager and every application are waited for until they have taken in their input and send no more events; then
the tree is read. Code that runs longer than `CODE_SECONDS` is ended, which is an ordinary observation, and so is an
application that dies. When the X server, a bus or the window manager ends, that is INFRASTRUCTURE_FAILED.
"""

import asyncio
import importlib.util
import shlex
import shutil
import time
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from pydantic import Field

from worldlm.core.errors import InputError, SetupError
from worldlm.core.types import Limits, Observation, Origin, Step, Text, Usage, World
from worldlm.domains.desktop import BUSY, OS, cut
from worldlm.domains.domain import read_state
from worldlm.domains.files import FileState
from worldlm.real.episode import Episode
from worldlm.real.sandbox import Bind, Plan, program_plan, require_programs
from worldlm.real.surroundings import HERE, Surroundings
from worldlm.real.worker import Worker, WorkerError

PACKAGES = {
    "/usr/bin/python3": "python3",
    "Xvfb": "xvfb",
    "openbox": "openbox",
    "dbus-daemon": "dbus",
    "/usr/libexec/at-spi-bus-launcher": "at-spi2-core",
}
"""The system programs of a desktop, with their packages."""
LIBRARIES = "python3-gi gir1.2-atspi-2.0 python3-xlib"
"""Packages of what /usr/bin/python3 needs besides."""
APPLICATIONS = {
    "mousepad": ("mousepad", ("--disable-server",)),
    "thunar": ("thunar", ()),
    "galculator": ("galculator", ()),
    "localc": ("libreoffice-calc libreoffice-gtk3", ("--norestore", "--nologo", "--nofirststartwizard")),
}
"""Packages of the usual applications, and options with which they start alone and quickly."""
START_SECONDS = 180.0
"""For everything up to the first observation."""
CODE_SECONDS = 20.0
"""For one block."""
WAIT_SECONDS = 1.0
"""What WAIT waits."""

_PYTHON = ("pyautogui", "pytweening")
_HOST_SETTINGS = ("/etc/fonts", "/etc/libreoffice", "/var/cache/fontconfig")


class DesktopState(FileState):
    """What `World.initial_state` holds for a real desktop."""

    screen: str = Field(default="1280x800", pattern=r"^[1-9]\d{2,3}x[1-9]\d{2,3}$")
    """Width and height in pixels."""
    applications: tuple[Text, ...] = ()
    """Command lines, from the first that is started to the last, which is in front."""


def desktop_state(world: World) -> DesktopState:
    """The state of a world. Raises InputError that names the key."""
    if isinstance(world.initial_state, str):
        raise InputError(f"world {world.name!r}: initial_state must be a mapping (applications, files, screen, …)")
    state = read_state(world, DesktopState)
    for command in state.applications:
        command_words(command)
    return state


def command_words(command: str) -> list[str]:
    """An application's command line as words, with the options that go with it. Raises InputError."""
    try:
        name, *words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"initial_state.applications: {command!r} is not a command line: {error}") from error
    _, options = APPLICATIONS.get(name, ("", ()))
    return [name, *options, *words]


class DesktopEnvironment:
    """Satisfies `Environment` and `HasOrigin`. Steps run one at a time; cancelling one closes the environment."""

    def __init__(self, world: World, around: Surroundings = HERE):
        """Cheap: nothing starts before `reset`. `around`: another clock, process ids and host than usual.

        Raises InputError where the world is none for a real desktop.
        """
        if world.domain != "os":
            raise InputError(f"world {world.name!r} is of domain {world.domain!r}, not 'os'")
        self._world = world
        self._around = around
        self._view = world.agent_view()
        self._state = desktop_state(world)
        given = world.limits.model_dump(exclude_none=True)
        self._limits: Limits = OS.limits.model_copy(update=given)
        self._lock = asyncio.Lock()
        self._worker: Worker | None = None
        self._episode = Episode(OS, self._limits)

    @property
    def world(self) -> World:
        """The agent's view of the world; after `reset` with its first screen."""
        return self._view

    @property
    def origin(self) -> Origin:
        """Real: which desktop, in which sandbox."""
        return Origin(kind="real", source="Xvfb, openbox and AT-SPI in bubblewrap", version=_versions())

    async def reset(self, seed: int | None = None) -> Observation:
        """Start a fresh desktop. (Nothing depends on the seed.)

        Raises SetupError when something is missing or does not start, InputError when the world's files or
        applications are wrong.
        """
        self._kill()  # a step or another start that is under way ends by this
        async with self._lock:
            await self._end()
            require_programs(PACKAGES, "a real desktop")
            _require_applications(self._state)
            self._episode = Episode(OS, self._limits)
            self._worker = worker = await Worker.start(
                _plan(self._state, self._limits, self._around), self._limits, "a real desktop"
            )
            commands = [command_words(command) for command in self._state.applications]
            order = {"do": "start", "screen": self._state.screen, "applications": commands}
            try:
                first = self._observation(await worker.ask(order, START_SECONDS))
            except WorkerError as error:
                await self._end()
                raise SetupError(
                    f"the desktop did not start: {error}; it needs: apt-get install"
                    f" {' '.join(PACKAGES.values())} {LIBRARIES}"
                ) from error
            except BaseException:
                self._kill()
                raise
            self._view = self._world.agent_view().model_copy(update={"initial_observation": first.text})
            return first

    async def step(self, action: str) -> Step:
        """Run the block, wait until the desktop is quiet, and look."""
        async with self._lock:
            worker = self._worker
            if worker is None:
                raise InputError("the environment has not been reset (or is closed): call reset first")
            call = self._episode.read(action, self._view)
            if isinstance(call, Step):
                return call
            started = time.monotonic()
            try:
                observation = self._observation(await worker.ask(self._order(call.name, action), self._patience))
            except WorkerError as error:
                self._episode.over = True
                return Step(observation=None, outcome=error.outcome, detail=str(error), truncated=True)
            except BaseException:
                self._episode.over = True  # the code may have run, and the answer is lost
                raise
            usage = Usage(seconds=time.monotonic() - started)
            return self._episode.finish(action, Step(observation=observation, usage=usage))

    async def close(self) -> None:
        """End the sandbox and everything in it, and wait until it is gone."""
        self._kill()
        await self._end()

    # How a step is made.

    @property
    def _patience(self) -> float:
        return self._limits.step_seconds or CODE_SECONDS

    def _order(self, name: str, action: str) -> dict[str, Any]:
        if name == "wait":
            return {"do": "wait", "seconds": WAIT_SECONDS}
        return {"do": "run", "code": action, "seconds": min(CODE_SECONDS, self._patience / 2)}

    def _observation(self, answer: dict[str, Any]) -> Observation:
        """An answer as text. Raises WorkerError when the desktop is gone, InputError when an application is wrong."""
        if "died" in answer:
            self._kill()
            raise WorkerError(answer["died"])
        if "failed" in answer:
            raise SetupError(f"initial_state.applications: {answer['failed']}")
        header = [f"Screen: {self._state.screen}"]
        if answer.get("output"):
            header.append(f"Output: {answer['output']!r}")
        if answer.get("error"):
            header.append(f"Error: {answer['error']}")
        if not answer["quiet"]:
            header.append(BUSY)
        if answer["cut"]:
            header.append(cut(answer["cut"]))
        return Observation(text="\n".join(header + answer["lines"]))

    def _kill(self) -> None:
        if self._worker is not None:
            self._worker.kill()

    async def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.close()


# What goes in.


def _plan(state: DesktopState, limits: Limits, around: Surroundings) -> Plan:
    inside = resources.files("worldlm.real") / "inside"
    files = {f"/opt/worldlm/{name}": (inside / name).read_bytes() for name in ("desktop.py", "desktop_run.py")}
    files["/var/lib/dbus/machine-id"] = b"0123456789abcdef0123456789abcdef\n"
    settings = Path(str(inside / "desktop_config"))
    own = {state.absolute(path) for path in state.files}
    for path in sorted(settings.rglob("*")):
        place = f"{state.home}/.config/{path.relative_to(settings).as_posix()}"
        if path.is_file() and place not in own:
            files[place] = path.read_bytes()
    binds = [Bind(_package(name), f"/opt/packages/{name}") for name in _PYTHON]
    binds += [Bind(Path(path), path) for path in _HOST_SETTINGS if Path(path).is_dir()]
    return program_plan(
        ["/usr/bin/python3", "-W", "ignore", "/opt/worldlm/desktop.py"],
        state,
        limits,
        files=files,
        binds=binds,
        environment={
            "GDK_BACKEND": "x11",
            "GSETTINGS_BACKEND": "keyfile",
            "GTK_MODULES": "gail:atk-bridge",
            "GTK_THEME": "Adwaita",
            "NO_AT_BRIDGE": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": "/opt/packages",
            "SAL_USE_VCLPLUGIN": "gtk3",
            "TZ": "UTC",
            "XDG_RUNTIME_DIR": "/tmp/run",
        },
        first=True,
        around=around,
    )


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise SetupError(f"a real desktop needs {name}: pip install 'worldlm[real]'")
    return Path(spec.submodule_search_locations[0])


def _require_applications(state: DesktopState) -> None:
    for command in state.applications:
        name = command_words(command)[0]
        if shutil.which(name, path="/usr/bin:/bin:/usr/games") is None:
            package, _ = APPLICATIONS.get(name, (name, ()))
            raise SetupError(f"initial_state.applications: {name!r} is not installed: apt-get install {package}")


@cache
def _versions() -> str:
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    return f"{release.get('PRETTY_NAME', 'Linux').strip(chr(34))}, pyautogui {metadata.version('pyautogui')}"
