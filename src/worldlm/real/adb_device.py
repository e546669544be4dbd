"""An Android device behind adb: how it is started, looked at and acted on, with the programs that every device has."""

import asyncio
import base64
import re
import shlex
from typing import Literal, NamedTuple

from pydantic import Field, field_validator

from worldlm.core.errors import ActionError, InputError, SetupError, nearest
from worldlm.core.types import Check, Text, ToolCall, Value, World
from worldlm.domains.android import calm_screen, read_dump, write_screen
from worldlm.domains.domain import read_state
from worldlm.domains.tree import Box, Tree, TreeError, read_hierarchy, size
from worldlm.real.adb import Adb, AdbFailure, Claim, explained, properties

LOOKS = 8
"""Looks at the screen before it counts as one that never settles."""
_PACKAGE = r"^[A-Za-z]\w*(\.[A-Za-z]\w*)+$"


class DeviceState(Value):
    """What `World.initial_state` holds for a real device."""

    package: str | None = Field(default=None, pattern=_PACKAGE)
    activity: str | None = Field(default=None, pattern=r"^\.?[A-Za-z_][\w.$]*$")
    reset: Literal["force-stop", "clear", "none"] = "force-stop"
    apps: dict[str, str] = Field(default_factory=dict)
    serial: tuple[Text, ...] = ()
    server: str = ""
    pause: float = Field(default=0.3, ge=0, le=60)
    android: Text = ""
    """Found: the version of Android. (A world that was recorded can be started again: what was found is not asked.)"""
    locale: Text = ""
    """Found: the language."""
    screen: Text = ""
    """Found: the screen's size in pixels."""

    @field_validator("serial", mode="before")
    @classmethod
    def _one_or_more(cls, serial: object) -> object:
        return [serial] if isinstance(serial, str) else serial


def device_state(world: World) -> DeviceState:
    """The start of a world. Raises InputError that names the key."""
    state = world.initial_state
    if isinstance(state, str):
        if state.strip():
            raise InputError(
                f"world {world.name!r} describes a simulated phone; a real one needs a mapping as initial_state, with "
                f"keys of {', '.join(DeviceState.model_fields)}"
            )
        return DeviceState()
    return read_state(world, DeviceState)


class RefusedError(Exception):
    """An action that cannot be done on this screen, in the words that the screen's `error` gets."""


class Seen(NamedTuple):
    """A screen, and the checks that it failed."""

    text: str
    violations: tuple[Check, ...] = ()


class Device:
    """A device that was taken, and what is known about it."""

    def __init__(self, adb: Adb, serial: str, claim: Claim, state: DeviceState):
        self.adb = adb
        self.serial = serial
        self.claim = claim
        self.state = state
        self.version = ""
        self.found: dict[str, str] = {}
        self._apps: dict[str, str] = {}
        self._unicode = False
        self._shown: set[str] = set()

    async def run(self, *commands: str) -> str:
        """Run shell commands, one after the other, in one call. Raises AdbFailure."""
        return await self.adb.shell(self.serial, " && ".join(commands))

    async def start(self) -> Seen:
        """Wake the device, start the app anew, and look."""
        state = self.state
        await self._ask()
        await self.adb.shell(self.serial, "input keyevent 224; wm dismiss-keyguard; input keyevent 3", check=False)
        if state.package:
            package = shlex.quote(state.package)
            if state.package not in self._apps and not state.activity:
                near = nearest(state.package, self._apps)
                raise InputError(f"device {self.serial} has no app {state.package!r} that can be started; {near}")
            if state.reset != "none":
                await self.run(f"pm clear {package}" if state.reset == "clear" else f"am force-stop {package}")
            component = f"{state.package}/{state.activity}" if state.activity else self._apps[state.package]
            try:
                await self.launch(component)
            except AdbFailure as error:
                if "does not exist" in str(error):
                    raise InputError(f"device {self.serial} has no activity {component}") from error
                raise
        seen = await self.settle("", state.package or "")
        front = read_hierarchy(seen.text).header
        if front["activity"] in _LOCKED:
            raise SetupError(f"device {self.serial} is locked (or its notifications are open): unlock it")
        return seen

    async def launch(self, component: str) -> None:
        """Start an activity. Raises AdbFailure."""
        told = await self.adb.shell(self.serial, _launch(component), check=False)
        if errors := re.findall(r"^.*(?:Error|Exception)\b.*$", told, re.MULTILINE):
            raise AdbFailure(explained(errors[-1]))

    async def _ask(self) -> None:
        """What the device is: its version, its screen, its apps, its keyboard."""
        known = properties(await self.run("getprop"))
        release = known.get("ro.build.version.release", "")
        sizes = re.findall(r"(?:Physical|Override) size: (\d+x\d+)", await self.run("wm size"))
        if not sizes or size(sizes[-1]) is None:
            raise AdbFailure("`wm size` told no screen size")
        locale = known.get("persist.sys.locale") or known.get("ro.product.locale", "")
        self.found = {"android": release, "locale": locale, "screen": sizes[-1]}
        told = await self.run(
            "cmd package query-activities --brief -a android.intent.action.MAIN -c android.intent.category.LAUNCHER"
        )
        rows = re.findall(r"^\s*([\w.]+)/([\w.$]+)\s*$", told, re.MULTILINE)
        self._apps = {package: f"{package}/{activity}" for package, activity in reversed(rows)}
        keyboard = await self.run("settings get secure default_input_method")
        self._unicode = keyboard.strip().startswith("com.android.adbkeyboard/")
        version = [f"Android {release}", known.get("ro.build.fingerprint", "")]
        if self.state.package:
            told = await self.adb.shell(self.serial, f"dumpsys package {shlex.quote(self.state.package)}", check=False)
            name = re.search(r"versionName=(\S+)", told)
            version.append(f"{self.state.package} {name[1]}" if name else self.state.package)
        version.append(f"adb server {await self.adb.version()}")
        self.version = ", ".join(filter(None, version))

    def component(self, name: str) -> str:
        """What to start for an app's name: by the world's `apps`, its package, or a part of the package's name."""
        word = name.casefold().replace(" ", "")
        named = [package for label, package in self.state.apps.items() if label.casefold() == name.casefold()]
        parts = sorted((len(package), package) for package in self._apps if word in package.casefold().split("."))
        for package in (*named, name, *(package for _, package in parts)):
            if package in self._apps:
                return self._apps[package]
        raise RefusedError(f"no app named {name}")

    def typing(self, text: str) -> list[str]:
        """The commands that type a text. Raises ActionError for what the device's keyboard cannot."""
        odd = next((letter for letter in text if not (" " <= letter <= "~" or letter in "\n\t")), None)
        if odd is None:
            return typing_commands(text)
        if not self._unicode:
            raise ActionError(
                f"this device types ASCII alone, not {odd!r} (a real device needs ADBKeyboard as its keyboard for more)"
            )
        return [f"am broadcast -a ADB_INPUT_B64 --es msg {base64.b64encode(text.encode()).decode()}"]

    async def settle(self, before: str, package: str = "") -> Seen:
        """The screen when it has settled. One like that `before`, or not of the expected `package`, takes a look more.

        Raises AdbFailure when it cannot be read.
        """
        before = calm_screen(before)
        toasts: dict[str, str] = {}
        last: Look | None = None
        agreeing = 0
        why = "no two in a row agree"
        for _ in range(LOOKS):
            await asyncio.sleep(self.state.pause)
            told = await self.adb.shell(self.serial, _LOOK, check=False)
            toasts |= _toasts(told)
            try:
                look = read_look(told, self.found["screen"])
            except TreeError as error:
                agreeing, why = 0, str(error)
                continue
            agreeing = agreeing + 1 if last and look.text == last.text else 1
            last = look
            # A tree that is not up to date shows the screen from before.
            stale = _nodes(last.text) == _nodes(before) or (package and last.header["package"] != package)
            if agreeing >= (3 if stale else 2):
                break
        else:
            if last is None:
                raise AdbFailure(f"the screen could not be read in {LOOKS} looks: {why}")
            agreeing = 0
        fresh = [text for identity, text in toasts.items() if identity not in self._shown]
        self._shown |= set(toasts)
        text = write_screen(last.tree, last.header, fresh)
        if agreeing:
            return Seen(text)
        message = f"the screen did not settle in {LOOKS} looks: {why}"
        return Seen(text, (Check(rule="stable", passed=False, message=message),))


def _nodes(screen: str) -> str:
    """A screen without its header, which is asked apart and may be ahead of the tree."""
    return screen.partition("\n")[2]


# What is asked of a device, and how the answer is read.

_FILE = "/data/local/tmp/worldlm.xml"
_LOOK = "; ".join(
    [
        "dumpsys notification | grep TextToastRecord",
        # A file that an earlier dump left would pass for the screen when this one fails.
        f"rm -f {_FILE}",
        f"uiautomator dump {_FILE}",
        f"cat {_FILE}",
        f"rm -f {_FILE}",
        "echo",
        "dumpsys window | grep -E 'mCurrentFocus|mFocusedApp'",
        "dumpsys input_method | grep -E 'mInputShown|mIsInputViewShown'",
    ]
)
_TOAST = re.compile(r"^\s*TextToastRecord\{(?P<identity>\S+) .*? text=(?P<text>.*?)(?: duration=\d+\})?$", re.MULTILINE)
_FOCUS = re.compile(r"^\s*mCurrentFocus=Window\{\S+ (?:u\d+ )?(?P<title>[^}]+)\}", re.MULTILINE)
_ACTIVITY = re.compile(r"^\s*mFocusedApp=.*? u\d+ (?P<package>[\w.]+)/(?P<name>[\w.$]+)", re.MULTILINE)
_KEYBOARD = re.compile(r"\b(?:mInputShown|mIsInputViewShown)=(true|false)")
_LOCKED = ("Keyguard", "Bouncer", "StatusBar", "NotificationShade")
"""Windows in front that no app has opened."""


class Look(NamedTuple):
    """One look at a device."""

    tree: Tree
    header: dict[str, str]
    text: str
    """Both in the domain's format, without toasts."""


def read_look(told: str, screen: str) -> Look:
    """What a device told, read. `screen` is its size in pixels. Raises TreeError when there is no screen in it."""
    start, end = told.find("<hierarchy"), told.rfind("</hierarchy>")
    if start < 0 or end < start:
        lines = [line.strip() for line in told.splitlines() if "ERROR" in line or "Exception" in line]
        raise TreeError(f"uiautomator gave no tree: {lines[0] if lines else 'it did not say why'}")
    end += len("</hierarchy>")
    tree, rest = read_dump(told[start:end]), told[end:]
    focus, activity, keyboard = _FOCUS.search(rest), _ACTIVITY.search(rest), _KEYBOARD.search(rest)
    if focus is None or not tree.roots:
        raise TreeError("no window has the focus")
    title = focus["title"].strip()
    package = tree.roots[0].attributes.get("package") or title.partition("/")[0]
    width, height = size(screen) or (0, 0)
    if tree.header.get("rotation") in ("1", "3"):
        width, height = height, width
    header = {
        "package": package,
        "activity": _short_name(package, activity["package"], activity["name"]) if activity else title,
        "screen": f"{width}x{height}",
        "keyboard": "shown" if keyboard and keyboard[1] == "true" else "hidden",
    }
    if kind := _window(title, tree.roots[0].box, width, height):
        header["window"] = kind
    if title in _LOCKED:
        header["activity"] = title
    return Look(tree, header, write_screen(tree, header))


def _short_name(package: str, owner: str, name: str) -> str:
    name = name.removeprefix(owner) if name.startswith(f"{owner}.") else name
    return name if package == owner else f"{owner}/{name}"


def _window(title: str, box: Box | None, width: int, height: int) -> str | None:
    """What kind of window is in front, when it is not the activity's own.

    A dialog's title is that of its activity: it is told by its size.
    """
    if title.startswith("PopupWindow"):
        return "menu"
    if title.startswith("Application "):  # "Application Error: …", "Application Not Responding: …"
        return "dialog"
    if "/" not in title:
        return "panel"
    small = box is not None and (box.width < 0.98 * width or box.height < 0.6 * height) and box.height < 0.95 * height
    return "dialog" if small else None


def _toasts(told: str) -> dict[str, str]:
    """The text toasts that stand in the queue: identity to text."""
    return {match["identity"]: match["text"] for match in _TOAST.finditer(told.partition("<hierarchy")[0])}


# Actions as commands of a device's shell.

_KEYS = {"navigate_home": 3, "navigate_back": 4, "keyboard_enter": 66}
_TYPED_KEYS = {"\n": 66, "\t": 61}
_FINGER = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
_OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
_PRESS_MS, _SCROLL_MS, _SWIPE_MS = 1000, 600, 250
_CHUNK = 200
"""Characters that one `input text` types."""


def commands(call: ToolCall, tree: Tree) -> list[str]:
    """What does an action. Raises RefusedError for one that this screen does not allow."""
    if call.name in _KEYS:
        return [f"input keyevent {_KEYS[call.name]}"]
    match call.name:
        case "click":
            x, y = target(call, tree)
            return [f"input tap {x} {y}"]
        case "long_press":
            x, y = target(call, tree)
            return [f"input swipe {x} {y} {x} {y} {_PRESS_MS}"]
        case "scroll":
            path = _path(_OPPOSITE[call.arguments["direction"]], _area(call, tree))
            return [f"input swipe {path} {_SCROLL_MS}"]
        case "swipe" if "direction" in call.arguments:
            return [f"input swipe {_path(call.arguments['direction'], _area(call, tree))} {_SWIPE_MS}"]
        case "swipe":
            points = [_on_screen(tree, call.arguments[f"x{end}"], call.arguments[f"y{end}"]) for end in ("", "2")]
            return [f"input swipe {' '.join(str(number) for point in points for number in point)} {_SWIPE_MS}"]
    return ["true"]  # wait


def target(call: ToolCall, tree: Tree) -> tuple[int, int]:
    """The point that an action touches."""
    if "x" in call.arguments:
        return _on_screen(tree, call.arguments["x"], call.arguments["y"])
    box = _area(call, tree)
    return box.x + box.width // 2, box.y + box.height // 2


def _area(call: ToolCall, tree: Tree) -> Box:
    """The node that an action names, or the screen."""
    if "index" not in call.arguments:
        return Box(0, 0, *_size(tree))
    node = tree.find(str(call.arguments["index"]))
    if node is None or node.box is None:
        raise RefusedError(f"no node with index {call.arguments['index']}")
    return node.box


def _size(tree: Tree) -> tuple[int, int]:
    pixels = size(tree.header["screen"])
    assert pixels is not None  # we wrote it
    return pixels


def _on_screen(tree: Tree, x: int, y: int) -> tuple[int, int]:
    if not Box(0, 0, *_size(tree)).holds(x, y):
        raise RefusedError(f"the point {x},{y} is not on the {tree.header['screen']} screen")
    return x, y


def _path(direction: str, area: Box) -> str:
    """The way of a finger through the middle half of an area (its edges may belong to the system)."""
    across, down = _FINGER[direction]
    x, y = area.x + area.width // 2, area.y + area.height // 2
    dx, dy = across * area.width // 4, down * area.height // 4
    return f"{x - dx} {y - dy} {x + dx} {y + dy}"


def typing_commands(text: str) -> list[str]:
    """The commands that type an ASCII text, whatever is in it. A line break is the Enter key, a tab the Tab key."""
    typed = []
    for part in re.split(r"([\n\t])", text):
        if part in _TYPED_KEYS:
            typed.append(f"input keyevent {_TYPED_KEYS[part]}")
            continue
        for start in range(0, len(part), _CHUNK):
            # `input` reads %s as a space: a real %s is typed in two.
            pieces = re.split(r"(?<=%)(?=s)", part[start : start + _CHUNK])
            typed += [f"input text {shlex.quote(piece.replace(' ', '%s'))}" for piece in pieces]
    return typed


def _launch(component: str) -> str:
    """Start an activity as the launcher does: an app that runs comes to the front as it was left."""
    intent = "-a android.intent.action.MAIN -c android.intent.category.LAUNCHER -f 0x10200000"
    return f"am start -W {intent} -n {shlex.quote(component)}"
