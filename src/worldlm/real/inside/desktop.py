"""Inside a desktop's sandbox: X server, buses, window manager, applications. Has blocks run, and reads what shows.

It is the first process there. It reads a line of JSON an order and answers each with one: `{"do": "start", "screen",
"applications"}`, then `{"do": "run", "code", "seconds"}` or `{"do": "wait", "seconds"}`. An answer has `lines` (the
tree), `cut` (nodes that were left out), `quiet` (whether everything had settled), of a run also `output` and `error`;
or it is `{"died": what}` when the desktop itself is gone, `{"failed": why}` when an application does not start.
"""

# ruff: noqa: E402, PTH103 (gi wants its versions first)

import contextlib
import ctypes
import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi, Gio, GLib
from Xlib import X, display
from Xlib.error import XError
from Xlib.protocol.event import ClientMessage

RUNNER = "/opt/worldlm/desktop_run.py"
START_SECONDS = 20.0
"""For each part of the desktop."""
WINDOW_SECONDS = 60.0
"""For an application's first window."""
QUIET_SECONDS = 0.08
"""Without an event from any application: the desktop has settled."""
BUSY_SECONDS = 4.0
"""After which a desktop that does not settle is read as it is."""
ANSWER_SECONDS = 2.0
"""After which an application that does not take in its input is busy, and not read."""
READINGS = 4
"""How often a tree that changes while it is read, or disagrees with the window manager, is read at most."""
TEXT_CHARS = 2000
NODES = 500
CHILDREN = 200
"""Children of one node that are looked at. A table with more (a sheet) is read by the cells that show."""
EVENTS = ("object", "window")
TELLING = (
    "object:children-changed",
    "object:state-changed:active",
    "object:state-changed:focused",
    "object:state-changed:selected",
    "object:state-changed:showing",
    "object:text-changed:",
    "window",
)
"""The events after which a tree must be read again; being read makes some programs send others."""
ARRANGING = frozenset(
    {
        "filler",
        "panel",
        "redundant object",
        "root pane",
        "scroll pane",
        "section",
        "separator",
        "split pane",
        "viewport",
    }
)
"""Roles that only arrange others: left out, with their children in their place."""
NAMED = frozenset({"icon", "image", "label", "menu item", "table cell"})
"""Roles that say nothing without a name: the same."""
SKIPPED = frozenset({"animation", "scroll bar", "tool tip"})
"""Left out with all below them. (The first and the last come and go with time alone.)"""
VALUED = frozenset({"entry", "paragraph", "password text", "table cell", "terminal", "text"})
NUMBERED = frozenset({"progress bar", "slider", "spin button"})
MARKS = (
    ("checked", (Atspi.StateType.CHECKED, Atspi.StateType.PRESSED)),
    ("editable", (Atspi.StateType.EDITABLE,)),
    ("expanded", (Atspi.StateType.EXPANDED,)),
    ("focused", (Atspi.StateType.FOCUSED,)),
    ("selected", (Atspi.StateType.SELECTED,)),
)
CLOCK = re.compile(r"\d\d?\u200e?[:∶]\d\d")
"""A time of day, as lists of files have it for what was changed today: left out, because it tells when we ran."""
ACTIVE = re.compile(r"\t\w.*, active\b")
FOCUS = re.compile(r", focused(?=(, selected)?$)")
NOT_DUMPABLE = (4, 0)
"""PR_SET_DUMPABLE: what runs beside us as the same user cannot reach our descriptors."""


Node = Any
"""An accessible object, as Atspi has it."""


class DiedError(Exception):
    """The desktop itself is gone."""


class FailedError(Exception):
    """An application did not start."""


def main() -> None:
    """Serve until the other end closes."""
    ctypes.CDLL(None).prctl(*NOT_DUMPABLE)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    orders = os.fdopen(os.dup(0), "r")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    desktop = Desktop()
    for line in orders:
        print(json.dumps(answer(desktop, **json.loads(line))), file=answers, flush=True)


def answer(desktop: "Desktop", do: str, **arguments: Any) -> dict[str, Any]:
    """Follow one order."""
    try:
        try:
            told = getattr(desktop, do)(**arguments) or {}
            return told | desktop.look()
        except (DiedError, FailedError):
            raise
        except Exception:
            desktop.check()  # when a part has ended, that is why
            raise
    except DiedError as error:
        return {"died": str(error)}
    except FailedError as error:
        return {"failed": str(error)}


class Desktop:
    """The parts, and what is known of them. Its public methods without `look` and `check` are the orders."""

    def __init__(self) -> None:
        self._parts: dict[int, str] = {}  # process id to what it is, of those without which there is no desktop
        self._gone: dict[int, int] = {}  # process id to exit status
        self._changed = 0.0
        self._telling = 0.0
        self._busy: set[int] = set()  # process ids that do not take in their input
        self._names: dict[int, str] = {}  # process id to the name of its application

    # Orders.

    def start(self, screen: str, applications: list[list[str]]) -> None:
        """Start everything."""
        os.makedirs(os.environ["XDG_RUNTIME_DIR"], 0o700, exist_ok=True)
        size = ["-screen", "0", f"{screen}x24"]
        os.environ["DISPLAY"] = ":" + self._told(
            ["Xvfb", "-displayfd", "{}", *size, "-nolisten", "tcp", "-ac", "-noreset"], "the X server"
        )
        os.environ["DBUS_SESSION_BUS_ADDRESS"] = self._told(
            ["dbus-daemon", "--session", "--nofork", "--print-address={}"], "the session bus"
        )
        self._part(["/usr/libexec/at-spi-bus-launcher", "--launch-immediately"], "the accessibility bus")
        self._runner = subprocess.Popen(
            [sys.executable, RUNNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=os.environ["HOME"]
        )
        self._parts[self._runner.pid] = "the process that runs code"
        self._part(["openbox", "--sm-disable"], "the window manager")
        self._listen()
        self._display = display.Display()
        self._screen = self._display.screen().root
        self._screen.change_attributes(event_mask=X.SubstructureNotifyMask)  # there answers to pings arrive
        self._probe = self._screen.create_window(0, 0, 1, 1, 0, X.CopyFromParent, event_mask=X.PropertyChangeMask)
        self._await(lambda: self._property("_NET_SUPPORTING_WM_CHECK"), START_SECONDS, "the window manager")
        self._hear(START_SECONDS)
        for command in applications:
            self._launch(command)

    def run(self, code: str, seconds: float) -> dict[str, Any]:
        """Run a block."""
        assert self._runner.stdin is not None
        try:
            print(json.dumps({"code": code, "seconds": seconds}), file=self._runner.stdin, flush=True)
        except OSError as error:
            raise DiedError("the process that runs code ended") from error
        return self._hear(seconds + START_SECONDS)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        end = time.monotonic() + seconds
        self._await(lambda: time.monotonic() > end, seconds + 1, "time")

    # Parts.

    def _part(self, command: list[str], name: str, fds: tuple[int, ...] = ()) -> None:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=fds)
        self._parts[process.pid] = name

    def _told(self, command: list[str], name: str) -> str:
        """Start a part that writes a line into the descriptor whose number stands for `{}`, and read that line."""
        ready, told = os.pipe()
        self._part([word.replace("{}", str(told)) for word in command], name, (told,))
        os.close(told)
        with os.fdopen(ready) as file:
            line = file.readline().strip()
        if not line:
            raise DiedError(f"{name} did not start")
        return line

    def _listen(self) -> None:
        """Switch accessibility on, and hear of every change."""
        bus = Gio.bus_get_sync(Gio.BusType.SESSION)
        enable = GLib.Variant("(ssv)", ("org.a11y.Status", "IsEnabled", GLib.Variant("b", True)))

        def enabled() -> bool:
            with contextlib.suppress(GLib.Error):
                where = ("org.a11y.Bus", "/org/a11y/bus", "org.freedesktop.DBus.Properties", "Set")
                # Without starting it: a second one would be there beside ours, and one of the two ends.
                bus.call_sync(*where, enable, None, Gio.DBusCallFlags.NO_AUTO_START, 5000, None)
                return True
            return False

        self._await(enabled, START_SECONDS, "the accessibility bus")
        Atspi.init()
        Atspi.set_timeout(int(ANSWER_SECONDS * 1000), 0)
        self._listener = Atspi.EventListener.new(self._on_event)
        for event in EVENTS:
            self._listener.register(event)
        self._root = Atspi.get_desktop(0)

    def _launch(self, command: list[str]) -> None:
        """Start an application and wait for its window."""
        before = len(self._windows())
        null = subprocess.DEVNULL
        try:
            process = subprocess.Popen(command, stdout=null, stderr=null, cwd=os.environ["HOME"])
        except OSError as error:
            raise FailedError(f"{command[0]}: {error.strerror}") from error

        def shown() -> bool:
            if self._gone.get(process.pid, 0):
                raise FailedError(f"{command[0]}: it ended at once, with status {self._gone[process.pid]}")
            if len(self._windows()) <= before:
                return False  # what is loading does not answer: it is not asked
            frames = [frame for app in self._applications() for frame in self._children(app)]
            return len(frames) >= len(self._windows())

        if not self._await(shown, WINDOW_SECONDS):
            raise FailedError(f"{command[0]}: no window within {WINDOW_SECONDS:g} s that can be read")

        def taken_in() -> bool:
            self._barrier()
            return not self._busy

        self._await(taken_in, WINDOW_SECONDS)
        self._settle(3 * QUIET_SECONDS)

    def _hear(self, seconds: float) -> dict[str, Any]:
        """The next line of the process that runs code."""
        stream = self._runner.stdout
        assert stream is not None
        self._await(lambda: select.select([stream], [], [], 0.005)[0], seconds, "the process that runs code", pause=0.0)
        line = stream.readline()
        if not line:
            raise DiedError("the process that runs code ended")
        told: dict[str, Any] = json.loads(line)
        return told

    def _await(self, true: Callable[[], object], seconds: float, who: str | None = None, pause: float = 0.02) -> bool:
        """Wait until it is `true`. Raises DiedError when a part ends, and, given `who` it is, when it never is."""
        end = time.monotonic() + seconds
        while not true():
            self._pump()
            self.check()
            if time.monotonic() > end:
                if who:
                    raise DiedError(f"{who} did not answer within {seconds:g} s")
                return False
            time.sleep(pause)
        return True

    def check(self) -> None:
        """Take in what has ended. Raises DiedError when the desktop has."""
        with contextlib.suppress(ChildProcessError):
            while True:
                process, status = os.waitpid(-1, os.WNOHANG)
                if not process:
                    break
                self._gone[process] = os.waitstatus_to_exitcode(status)
        for process, name in self._parts.items():
            if process in self._gone:
                raise DiedError(f"{name} ended")

    # Quiet.

    def _on_event(self, event: Any, *_: Any) -> None:
        self._changed = time.monotonic()
        if event.type.startswith(TELLING):
            self._telling = self._changed

    def _pump(self) -> None:
        """Take in the events that are there."""
        context = GLib.MainContext.default()
        while context.pending():
            context.iteration(False)

    def _settle(self, quiet: float = QUIET_SECONDS) -> bool:
        """Wait until nothing changes; whether that came about."""
        began = time.monotonic()
        while True:
            self._pump()
            now = time.monotonic()
            if now - max(self._changed, began) >= quiet:
                return True
            if now - began > BUSY_SECONDS:
                return False
            time.sleep(0.004)

    def _barrier(self) -> None:
        """Wait until the window manager and every window's application have taken in their input.

        The former answers what the frame of a window would be, the latter answer to pings, both only after all that
        came before. Twice, because what an application did with its input may be input for the manager, and so back.
        """
        self._busy = set()
        for _ in range(2):
            self._ask_manager()
            self._ask_windows()

    def _ask_manager(self) -> None:
        ask, told = (self._display.intern_atom(f"_NET_{name}FRAME_EXTENTS") for name in ("REQUEST_", ""))
        message = ClientMessage(window=self._probe, client_type=ask, data=(32, [0] * 5))
        self._screen.send_event(message, event_mask=X.SubstructureNotifyMask | X.SubstructureRedirectMask)
        self._hear_until(lambda event: event is not None and event.type == X.PropertyNotify and event.atom == told)

    def _ask_windows(self) -> None:
        protocols, ping = (self._display.intern_atom(name) for name in ("WM_PROTOCOLS", "_NET_WM_PING"))
        stamp = int(time.monotonic() * 1000) & 0x7FFFFFFF
        waiting: dict[int, int] = {}
        for window in self._property("_NET_CLIENT_LIST"):
            with contextlib.suppress(XError):
                pid = self._property("_NET_WM_PID", window)
                if ping in self._property("WM_PROTOCOLS", window) and pid and pid[0] not in self._busy:
                    target = self._display.create_resource_object("window", window)
                    data = (32, [ping, stamp, window, 0, 0])
                    target.send_event(ClientMessage(window=target, client_type=protocols, data=data))
                    waiting[window] = pid[0]

        def all_answered(event: Any) -> bool:
            if event is None:  # a window that has gone or is hidden does not answer any more
                for window in waiting.keys() - set(self._property("_NET_CLIENT_LIST")):
                    del waiting[window]
            elif event.type == X.ClientMessage and event.client_type == protocols and event.data[1][1] == stamp:
                waiting.pop(event.data[1][2], None)
            return not waiting

        self._hear_until(all_answered)
        self._busy |= set(waiting.values())

    def _hear_until(self, true: Callable[[Any], bool]) -> None:
        """Take in events of the X server until one, or the lack of one (None), makes it `true`, or time is over."""
        end = time.monotonic() + ANSWER_SECONDS
        self._display.flush()
        while time.monotonic() < end:
            while self._display.pending_events():
                if true(self._display.next_event()):
                    return
            if true(None):
                return
            self._pump()
            self.check()
            time.sleep(0.003)

    # Sight.

    def look(self) -> dict[str, Any]:
        """The desktop once it is quiet."""
        for _ in range(READINGS):
            self._barrier()
            quiet = self._settle() and not self._busy
            began = time.monotonic()
            lines = self._read()
            self._pump()
            if self._telling < began and self._has_active(lines):
                break
        self.check()
        return {"lines": lines[:NODES], "cut": max(0, len(lines) - NODES), "quiet": quiet}

    def _has_active(self, lines: list[str]) -> bool:
        """Whether the application whose window is active knows that already."""
        active = self._property("_NET_ACTIVE_WINDOW")
        return bool(self._busy) or not any(active) or any(ACTIVE.match(line) for line in lines)

    def _read(self) -> list[str]:
        windows = self._windows()
        titles = [title for _, title in windows]
        apps = []
        for app in self._applications():
            pid = app.get_process_id()
            height = max((n for n, window in enumerate(windows) if window[0] == pid), default=-1)
            apps.append((height, pid, app))
        lines: list[str] = []
        for _, pid, app in sorted(apps, key=lambda entry: entry[0]):
            if pid in self._busy:
                lines.append(f"application {self._names.get(pid, '')!r}, busy")
                continue
            self._names[pid] = self._names.get(pid) or _fresh_name(app)
            frames = [(_place(titles, frame.get_name()), frame) for frame in self._children(app)]
            start = len(lines)
            for _, frame in sorted(frames, key=lambda entry: entry[0]):
                self._add(frame, 1, lines, False)
            if len(lines) > start:
                lines.insert(start, f"application {self._names[pid]!r}")
        return _with_one_focus(lines)

    def _on_screen(self, box: Any) -> bool:
        """Whether some of a box can be seen; an unknown one (-1) may be anywhere."""
        geometry = self._display.screen()
        right, bottom = geometry.width_in_pixels, geometry.height_in_pixels
        return bool(box.width < 0 or (-box.width < box.x < right and -box.height < box.y < bottom))

    def _applications(self) -> list[Node]:
        return [app for app in self._children(self._root) if app.get_process_id() > 0]

    def _children(self, node: Node) -> list[Node]:
        """The children of a node, as far as they answer."""
        found = []
        with contextlib.suppress(GLib.Error):
            for index in range(min(node.get_child_count(), CHILDREN)):
                child = node.get_child_at_index(index)
                if child is not None:
                    found.append(child)
        return found

    def _windows(self) -> list[tuple[int, str]]:
        """(process id, title) of the windows, from the lowest to the front one."""
        found = []
        for window in self._property("_NET_CLIENT_LIST_STACKING"):
            with contextlib.suppress(XError):  # it may have gone meanwhile
                pid = self._property("_NET_WM_PID", window) or [0]
                title = bytes(self._property("_NET_WM_NAME", window)).decode("utf-8", "replace")
                found.append((pid[0], title))
        return found

    def _property(self, name: str, window: int | None = None) -> Any:
        source = self._display.create_resource_object("window", window) if window else self._screen
        value = source.get_full_property(self._display.intern_atom(name), X.AnyPropertyType)
        return value.value if value else []

    def _add(self, node: Node, depth: int, lines: list[str], active: bool) -> None:
        """Append a node that shows and what is below it."""
        with contextlib.suppress(GLib.Error):  # it may have gone meanwhile
            states = node.get_state_set()
            role = node.get_role_name()
            if not states.contains(Atspi.StateType.SHOWING) or role in SKIPPED:
                return
            active = active or states.contains(Atspi.StateType.ACTIVE)
            box = node.get_extents(Atspi.CoordType.SCREEN)
            if not box.width or not box.height or not self._on_screen(box):
                return
            line = _line(node, role, states, box, depth, active)
            if line:
                lines.append("\t" * depth + line)
                depth += 1
            if role == "table" and node.get_child_count() > CHILDREN:
                for cell in _cells(node, box):
                    self._add(cell, depth, lines, active)
                return
            if role == "menu" and depth > 3 and not states.contains(Atspi.StateType.SELECTED):
                return  # closed: none of its many items shows
            for child in self._children(node):
                self._add(child, depth, lines, active)


def _with_one_focus(lines: list[str]) -> list[str]:
    """Of nested nodes that all claim the focus the innermost has it."""
    focused = [n for n, line in enumerate(lines) if FOCUS.search(line)]
    for n in focused[:-1]:
        lines[n] = FOCUS.sub("", lines[n])
    return lines


def _fresh_name(app: Node) -> str:
    """An application's name; it may have had none yet when it was asked last."""
    app.clear_cache()
    return str(app.get_name())


def _place(titles: list[str], name: str) -> int:
    return titles.index(name) if name in titles else len(titles)


def _line(node: Node, role: str, states: Any, box: Any, depth: int, active: bool) -> str | None:
    """A node's line; None for one that only arranges others."""
    name = node.get_name().strip()
    value = _value(node, role)
    marks = ["active"] if depth == 1 and states.contains(Atspi.StateType.ACTIVE) else []
    if not states.contains(Atspi.StateType.SENSITIVE) and not states.contains(Atspi.StateType.ENABLED):
        marks.append("disabled")
    for mark, kinds in MARKS:
        # A window that is not active keeps a focus that no key reaches.
        if any(map(states.contains, kinds)) and (mark != "focused" or (active and depth > 1)):
            marks.append(mark)
    if role in ARRANGING or (role in NAMED and (not (name or value) or CLOCK.fullmatch(name))):
        return None
    line = role + (f" {name!r}" if name else "")
    if box.width > 0 and box.height > 0:
        line += f" ({box.x},{box.y} {box.width}x{box.height})"
    if value and value != name:
        line += f" value={value!r}"
    return ", ".join([line, *marks])


def _value(node: Node, role: str) -> str | None:
    if role in NUMBERED and "Value" in node.get_interfaces():
        return f"{node.get_current_value():g}"
    if role not in VALUED or "Text" not in node.get_interfaces():
        return None
    count = node.get_character_count()
    more = f"[{count - TEXT_CHARS} characters more]" if count > TEXT_CHARS else ""
    return str(node.get_text(0, min(count, TEXT_CHARS))) + more


def _cells(table: Node, box: Any) -> Iterator[Node]:
    """The cells of a sheet that show and hold something or have the focus."""
    corners = [
        table.get_accessible_at_point(x, y, Atspi.CoordType.SCREEN)
        for x, y in ((box.x + 2, box.y + 2), (box.x + box.width - 2, box.y + box.height - 2))
    ]
    if None in corners:
        return
    first, last = (corner.get_index_in_parent() for corner in corners)
    for row in range(table.get_row_at_index(first), table.get_row_at_index(last) + 1):
        for column in range(table.get_column_at_index(first), table.get_column_at_index(last) + 1):
            cell = table.get_accessible_at(row, column)
            if cell is not None and (cell.get_text(0, -1) or cell.get_state_set().contains(Atspi.StateType.FOCUSED)):
                yield cell


if __name__ == "__main__":
    main()
