"""A real Android device or emulator, over adb.

`initial_state` of a world says what to start from (every key may be left out):

    initial_state:
      package: org.fenn.notes     # the app to start; without it an episode starts at the home screen
      activity: .MainActivity     # where in it; the launcher's entry by default
      reset: force-stop           # before the start: force-stop (default), clear (erases the app's data!) or none
      apps: {Notes: org.fenn.notes}     # names for open_app (stock adb does not tell an app's label)
      serial: emulator-5554       # or a list, of which the first free one is taken
      server: 127.0.0.1:5037      # the adb server
      pause: 0.3                  # seconds between an action and the first look, and between looks

`serial` may come from ANDROID_SERIAL, `server` from ANDROID_ADB_SERVER_HOST and ANDROID_ADB_SERVER_PORT, or there is
one device alone. One environment has a device at a time; another waits until it is free. After a reset `world` says
what was found (`android`, `locale`, `screen`, the first screen) and neither serial nor server.

How a step goes: the action's `input` or `am` commands run; then the device is looked at (view hierarchy, focused
window, keyboard, toasts) until two looks in a row agree, three where they show the screen from before the action: a
stale tree looks like that. A screen that never settles within `LOOKS` looks (an animation, a running clock) is
answered as it was last seen, with the failed check `stable` in the step's `violations`: **such a turn is not fit for
training**. Needs nothing installed on the device. Toasts need Android 11 (text toasts alone have a text).

Text goes through `input text`, which knows ASCII alone: other text is refused (`INVALID_ACTION`) unless ADBKeyboard is
the device's keyboard. A point off the screen, an unknown index or app are told by `error` on the screen as it was.

Once an action may have reached the device and its screen could not be read, there is no way back: the step fails, and
so do further ones until a reset. An app is not stopped by `close`.
"""

import asyncio
import os
import time

from worldlm.core.errors import ActionError, InputError, SetupError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Limits, Observation, Origin, Step, ToolCall, Usage, World
from worldlm.domains.android import ANDROID, failed_screen
from worldlm.domains.tree import Tree, read_hierarchy
from worldlm.real.adb import Adb, AdbFailure, AdbTimeout, Claim, Server, explained
from worldlm.real.adb_device import Device, DeviceState, RefusedError, Seen, commands, device_state, target
from worldlm.real.episode import Episode

RESET_ATTEMPTS = 3
WAIT_SECONDS = 1.0
"""How much longer `wait` waits than other actions."""
_BATCH = 16
"""Typing commands that go to the device in one call (which holds 64 KiB at most)."""


class AndroidEnvironment:
    """Satisfies `Environment` and `HasOrigin`. Steps run one at a time."""

    def __init__(self, world: World):
        """Cheap: nothing is asked of a device before `reset`. Raises InputError for a world that says too little."""
        if world.domain != "android":
            raise InputError(f"world {world.name!r} is of domain {world.domain!r}, not 'android'")
        self._state = device_state(world)
        self._server = _server(self._state)
        self._given = world
        self._view = world.agent_view()
        given = world.limits.model_dump(exclude_none=True)
        self._limits: Limits = ANDROID.limits.model_copy(update=given)
        self._lock = asyncio.Lock()
        self._device: Device | None = None
        self._closings = 0
        self._version = ""
        self._episode = Episode(ANDROID, self._limits)
        self._screen = ""
        self._until = 0.0
        self._lost: tuple[Outcome, str] | None = None

    @property
    def world(self) -> World:
        """The agent's view; after a reset with what the device turned out to be, and the first screen."""
        return self._view

    @property
    def origin(self) -> Origin:
        """Real: which build of Android, which version of the app, which adb."""
        return Origin(kind="real", source="Android over adb (uiautomator)", version=self._version)

    async def reset(self, seed: int | None = None) -> Observation:
        """Take a device, start the app, and look. (Nothing depends on the seed.)

        What fails for a moment is tried again, `RESET_ATTEMPTS` times in all. Raises SetupError when there is no
        device to be had or it does not come up, InputError when the world names an app that is not there.
        """
        self._release()  # a step that is under way ends by this
        async with self._lock:
            self._release()
            closings = self._closings
            adb = Adb(self._server)
            try:
                serial, claim = await _choose(adb, self._state, self._limits.episode_seconds or 0)
            except BaseException:
                adb.close()
                raise
            self._device = device = Device(adb, serial, claim, self._state)
            if self._closings != closings:
                self._release()
                raise SetupError("the environment was closed, or reset again, while it waited for a device")
            try:
                seen = await _start(device)
            except BaseException as error:
                self._release()
                if isinstance(error, AdbFailure):
                    raise SetupError(f"device {serial}: {error}") from error
                raise
            self._until = time.monotonic() + (self._limits.episode_seconds or 0)
            self._version = device.version
            self._screen = seen.text
            self._episode, self._lost = Episode(ANDROID, self._limits), None
            found = self._state.model_dump(exclude={"serial", "server", "pause"}, exclude_defaults=True) | device.found
            view = {"initial_state": found, "initial_observation": seen.text}
            self._view = self._given.agent_view().model_copy(update=view)
            return Observation(text=seen.text)

    async def step(self, action: str) -> Step:
        """Do the action, wait until the screen has settled, and tell it."""
        async with self._lock:
            device = self._device
            if device is None:
                raise InputError("the environment has not been reset (or is closed): call reset first")
            if self._lost:
                outcome, why = self._lost
                return Step(observation=None, outcome=outcome, detail=f"{why} (an earlier step; reset to go on)")
            call = self._episode.read(action, self._view)
            if isinstance(call, Step):
                self._screen = call.observation.text if call.observation else self._screen
                return call
            started = time.monotonic()
            left = self._until - started
            seconds = min(left, self._limits.step_seconds or left)
            if left <= 0:
                self._episode.over = True
                detail = f"the episode used up its {self._limits.episode_seconds:g} s"
                return Step(observation=None, outcome=Outcome.TIMED_OUT, detail=detail, truncated=True)
            try:
                async with asyncio.timeout(seconds):
                    seen = await self._do(device, call)
            except ActionError as error:
                return Step(observation=None, outcome=Outcome.INVALID_ACTION, detail=str(error))
            except (TimeoutError, AdbTimeout) as error:
                return self._fail(Outcome.TIMED_OUT, str(error) or f"the step took more than {seconds:g} s")
            except AdbFailure as error:
                if self._device is not device:
                    return self._fail(Outcome.CANCELLED, "the environment was closed during the step")
                return self._fail(Outcome.INFRASTRUCTURE_FAILED, str(error))
            except BaseException:
                # What was done to the device cannot be taken back.
                self._release()
                raise
            usage = Usage(seconds=time.monotonic() - started)
            return self._finish(
                action, Step(observation=Observation(text=seen.text), violations=seen.violations, usage=usage)
            )

    async def close(self) -> None:
        """Let go of the device; a step that is under way fails."""
        self._release()

    def _release(self) -> None:
        self._closings += 1
        if self._device is not None:
            self._device.adb.close()
            self._device.claim.release()
            self._device = None

    def _fail(self, outcome: Outcome, detail: str) -> Step:
        self._lost = (outcome, detail)
        return Step(observation=None, outcome=outcome, detail=detail)

    def _finish(self, action: str, step: Step) -> Step:
        assert step.observation is not None
        self._screen = step.observation.text
        return self._episode.finish(action, step)

    async def _do(self, device: Device, call: ToolCall) -> Seen:
        """The screen after an action; with `error` on the screen as it was where the action cannot be done."""
        tree = read_hierarchy(self._screen)
        try:
            match call.name:
                case "input_text":
                    return await self._type(device, call, tree)
                case "open_app":
                    await device.launch(device.component(call.arguments["app_name"]))
                case _:
                    await device.run(*commands(call, tree))
        except RefusedError as refused:
            return Seen(failed_screen(self._screen, str(refused)))
        if call.name == "wait":
            await asyncio.sleep(WAIT_SECONDS)
        return await device.settle(self._screen)

    async def _type(self, device: Device, call: ToolCall, tree: Tree) -> Seen:
        typed = device.typing(call.arguments["text"])
        before = self._screen
        if {"index", "x"} & set(call.arguments):
            x, y = target(call, tree)
            await device.run(f"input tap {x} {y}")
            before = (await device.settle(before)).text
            tree = read_hierarchy(before)
        focused = any({"focused", "editable"} <= node.states for node in tree.nodes())
        if not focused and tree.header["keyboard"] != "shown":
            # (A terminal or a game may take keys without having a field.)
            return Seen(failed_screen(before, "no focused field"))
        for start in range(0, len(typed), _BATCH):
            await device.run(*typed[start : start + _BATCH])
        return await device.settle(before)


def _server(state: DeviceState) -> Server:
    host = os.environ.get("ANDROID_ADB_SERVER_HOST", "127.0.0.1")
    port = os.environ.get("ANDROID_ADB_SERVER_PORT", "5037")
    return Server.at(state.server or f"{host}:{port}")


async def _choose(adb: Adb, state: DeviceState, patience: float) -> tuple[str, Claim]:
    """A device that can be used and is free, waited for while all are in use. Raises SetupError with the cure."""
    wanted = list(state.serial) or [part for part in os.environ.get("ANDROID_SERIAL", "").split(",") if part]
    deadline = time.monotonic() + patience
    attempt = 0
    while True:
        attempt += 1
        try:
            ready = _ready(await adb.devices(), wanted, adb.server)
        except (AdbFailure, SetupError) as error:
            if attempt < RESET_ATTEMPTS and "connect to adb server" not in str(error):
                await asyncio.sleep(state.pause)  # a device that reconnects is gone for a moment
                continue
            raise SetupError(str(error)) from error
        for serial in ready:
            claim = Claim(adb.server, serial)
            if claim.held:
                return serial, claim
        if time.monotonic() > deadline:
            raise SetupError(
                f"{', '.join(ready)} in use by another environment for {patience:g} s: collect with --concurrency "
                f"{len(ready)}, or name more devices in initial_state.serial"
            )
        await asyncio.sleep(0.1)


def _ready(states: dict[str, str], wanted: list[str], server: Server) -> list[str]:
    """The serials to choose from. Raises SetupError."""
    there = ", ".join(f"{serial} ({state})" for serial, state in states.items()) or "none"
    if not states:
        raise SetupError(f"no device is connected to the adb server at {server}: start an emulator, or plug one in")
    if not wanted and len(states) > 1:
        raise SetupError(f"several devices are connected ({there}): name one in initial_state.serial or ANDROID_SERIAL")
    names = wanted or list(states)
    ready = [serial for serial in names if states.get(serial) == "device"]
    if not ready:
        told = [
            explained(f"device {serial} is {states[serial]}" if serial in states else f"device {serial} not found")
            for serial in names
        ]
        raise SetupError(f"{'; '.join(told)}; connected: {there}")
    return ready


async def _start(device: Device) -> Seen:
    """The first screen. Raises SetupError, InputError (no such app), AdbFailure (after the last attempt)."""
    for attempt in range(1, RESET_ATTEMPTS + 1):
        try:
            seen = await device.start()
        except AdbFailure:
            if attempt == RESET_ATTEMPTS:
                raise
        else:
            if not seen.violations:
                return seen
            if attempt == RESET_ATTEMPTS:
                raise SetupError(
                    f"device {device.serial}: the first screen never settles; start at another one, or turn animations "
                    "off in the developer options"
                )
        await asyncio.sleep(device.state.pause)
    raise AssertionError("unreachable")
