"""A stand-in for phones: an adb server on loopback, and what answers behind it.

The server speaks the adb server's protocol (host services, transports, `shell:`). Behind it is a phone: a small shell,
the programs that every Android has (`input`, `uiautomator`, `dumpsys`, `am`, `pm`, `wm`, …), a launcher, a keyboard and
two apps with state; or a recording, whose next screen comes with each input. What goes wrong on real devices goes wrong
here on demand: see the fields of `Faults`.
"""

import re
import shlex
import socket
import socketserver
import threading
from base64 import b64decode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

from tests.real.adb_apps import HEIGHT, LAUNCHER, PACKAGE, WIDTH, App, Clock, Home, Notes, View, dump

_OPERATORS = ("|", ";", "&&")


@dataclass
class Faults:
    """What is to go wrong, and how often."""

    stale: int = 0
    """Dumps after each input that still show the screen from before it."""
    blind: int = 0
    """Dumps that fail because the screen does not come to rest."""
    restless: bool = False
    """The screen changes from dump to dump."""
    refused_starts: int = 0
    """Starts of an app that fail."""
    cut: str = ""
    """A command with this in it ends the connection in the midst of its answer, and the device is gone."""
    hang: str = ""
    """A command with this in it is never answered."""


class Phone:
    """A phone: its shell, its system, its apps."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.state = "device"
        """What `adb devices` says of it."""
        self.commands: list[str] = []
        """What its shell was asked."""
        self.field: str | None = None
        self.keyboard = False
        self.input_method = "com.android.inputmethod.latin/.LatinIME"
        self.locked = False
        self.rotation = 0
        self.apps: dict[str, App] = {app.package: app for app in (Notes(self), Clock(self), Home(self))}
        self.front = self.apps[LAUNCHER]
        self.toasts: list[tuple[str, str]] = []
        self._made_toasts = 0
        self._files: dict[str, str] = {}
        self._before = ""
        self._stale = 0
        self._dumps = 0
        self._lock = threading.RLock()

    # What apps ask of the system.

    def enter_field(self, name: str) -> None:
        self.field, self.keyboard = name, True

    def leave_field(self) -> None:
        self.field, self.keyboard = None, False

    def toast(self, text: str) -> None:
        self._made_toasts += 1
        self.toasts.append((f"{self._made_toasts:x}f3a", text))

    def start(self, package: str) -> None:
        self.leave_field()
        self.front = self.apps[package]

    # The shell: lists of pipelines, with the quoting of a POSIX shell.

    def shell(self, command: str) -> str:
        """What a command prints."""
        with self._lock:
            self.commands.append(command)
            lexer = shlex.shlex(command, posix=True, punctuation_chars="|;&")
            lexer.whitespace_split, lexer.commenters = True, ""
            printed, status = "", 0
            operator, words, waiting = ";", [], ""
            for token in [*lexer, ";"]:
                if token not in _OPERATORS:
                    words.append(token)
                    continue
                piped, waiting = waiting, ""
                if operator != "&&" or status == 0:
                    output, status = self._run([word.replace("$?", str(status)) for word in words], piped)
                    if token == "|":
                        waiting = output
                    else:
                        printed += output
                words = []
                operator = token if token != "|" else operator
            return printed

    def _run(self, words: list[str], piped: str) -> tuple[str, int]:
        match words:
            case []:
                return "", 0
            case ["true"]:
                return "", 0
            case ["echo", *rest]:
                return " ".join(rest) + "\n", 0
            case ["rm", "-f", path]:
                self._files.pop(path, None)
                return "", 0
            case ["cat", path]:
                known = path in self._files
                return (self._files[path], 0) if known else (f"cat: {path}: No such file or directory\n", 1)
            case ["grep", *options, pattern]:
                sought = pattern if "-E" in options else re.escape(pattern)
                rows = [row for row in piped.splitlines() if re.search(sought, row)]
                return "".join(f"{row}\n" for row in rows), 0 if rows else 1
            case ["input", kind, *arguments]:
                return self._input(kind, arguments)
            case ["uiautomator", "dump", path]:
                return self._dump(path)
            case ["dumpsys", service, *rest]:
                return self._dumpsys(service, rest), 0
            case ["am", "force-stop", package]:
                return self._stop(package)
            case ["am", "start", *rest]:
                return self._start(rest)
            case ["am", "broadcast", "-a", "ADB_INPUT_B64", "--es", "msg", text]:
                self._type(b64decode(text).decode())
                return "Broadcast completed: result=0\n", 0
            case ["pm", "clear", package]:
                self._stop(package)
                return "Success\n", 0
            case ["cmd", "package", "query-activities", *_]:
                rows = [f"  {app.package}/{app.entry}" for app in self.apps.values() if app.package != LAUNCHER]
                return "\n".join(["2 activities found:", *rows, ""]), 0
            case ["wm", "size"]:
                return f"Physical size: {WIDTH}x{HEIGHT}\n", 0
            case ["wm", "dismiss-keyguard"]:
                return "", 0
            case ["settings", "get", "secure", "default_input_method"]:
                return f"{self.input_method}\n", 0
            case ["getprop"]:
                return (
                    "[ro.build.version.release]: [14]\n[persist.sys.locale]: [en-US]\n"
                    "[ro.build.fingerprint]: [tern/phone/phone:14/STAND.IN/1:userdebug/test-keys]\n"
                ), 0
        return f"/system/bin/sh: {words[0]}: inaccessible or not found\n", 127

    def _stop(self, package: str) -> tuple[str, int]:
        if package in self.apps:
            self.apps[package].clear()
            if self.front.package == package:
                self.start(LAUNCHER)
        return "", 0

    def _start(self, words: Sequence[str]) -> tuple[str, int]:
        package, _, activity = words[words.index("-n") + 1].partition("/")
        told = f"Starting: Intent {{ cmp={package}/{activity} }}\n"
        if self.faults.refused_starts:
            self.faults.refused_starts -= 1
            return told + "Error: java.lang.SecurityException: the package manager is not ready\n", 1
        if package not in self.apps or activity != self.apps[package].entry:
            return told + f"Error type 3\nError: Activity class {{{package}/{activity}}} does not exist.\n", 1
        self._changes()
        self.start(package)
        return told + "Status: ok\nComplete\n", 0

    # Input.

    def _input(self, kind: str, arguments: list[str]) -> tuple[str, int]:
        self._changes()
        match kind, arguments:
            case "tap", [x, y]:
                self._tap(int(x), int(y), pressed=False)
            case "swipe", [x, y, x2, y2, milliseconds]:
                if (x, y) == (x2, y2):
                    self._tap(int(x), int(y), pressed=int(milliseconds) >= 500)
                elif isinstance(self.front, Notes) and abs(int(y) - int(y2)) > 100:
                    self.front.scroll(down=int(y) > int(y2))
            case "keyevent", [code]:
                self._key(int(code))
            case "text", [text]:
                self._type(text.replace("%s", " "))
            case _:
                return "Error: Invalid arguments for command\n", 1
        return "", 0

    def _changes(self) -> None:
        """An input comes: from now on a dump may be out of date."""
        self._before, self._stale = self._screen(), self.faults.stale
        self.toasts = self.toasts[-1:]

    def _tap(self, x: int, y: int, *, pressed: bool) -> None:
        window = self.front.window()
        if window is not None and not any(window.at(x, y)):
            self.front.popup = None  # a tap beside a dialog closes it
            return
        for view in (window or self.front.view()).at(x, y):
            action = view.press if pressed and view.press else view.tap
            if action is not None:
                action()
                return

    def _key(self, code: int) -> None:
        if code == 4 and self.keyboard:
            self.keyboard = False
        elif code == 3 or (code == 4 and not self.front.back()):
            self.start(LAUNCHER)
        elif code == 66 and self.field:
            self.front.entered(self.field)

    def _type(self, text: str) -> None:
        if self.field:
            self.front.fields[self.field] = self.front.fields.get(self.field, "") + text

    # What can be seen.

    def _screen(self) -> str:
        view = self.front.window() or self.front.view()
        if self.faults.restless:
            self._dumps += 1
            view = View("FrameLayout", view.box, children=[view, View("TextView", (0, 0, 90, 90), f"{self._dumps} s")])
        head = f"<?xml version='1.0' encoding='UTF-8' standalone='yes' ?><hierarchy rotation=\"{self.rotation}\">"
        return f"{head}{dump(view, self.front.package)}</hierarchy>"

    def _dump(self, path: str) -> tuple[str, int]:
        if self.faults.blind:
            self.faults.blind -= 1
            return "ERROR: could not get idle state.\n", 1
        self._files[path] = self._before if self._stale else self._screen()
        self._stale = max(0, self._stale - 1)
        return f"UI hierchary dumped to: {path}\n", 0

    def _dumpsys(self, service: str, rest: list[str]) -> str:
        match service:
            case "notification":
                rows = [
                    f"    TextToastRecord{{{name} 412:{PACKAGE}/u0a9 token=b text={text} duration=0}}"
                    for name, text in self.toasts
                ]
                return "\n".join(["  Toast Queue:", *rows, ""])
            case "window":
                app, title = self.front, f"{self.front.package}/{self.front.package}{self.front.activity}"
                if app.popup == "menu":
                    title = "PopupWindow:5d1a0b"
                if self.locked:
                    title = "NotificationShade"
                return (
                    f"WINDOW MANAGER\n  mCurrentFocus=Window{{c1a7f7e u0 {title}}}\n"
                    f"  mFocusedApp=ActivityRecord{{5b3 u0 {app.package}/{app.activity} t12}}\n"
                )
            case "input_method":
                return f"  mInputShown={str(self.keyboard).lower()}\n"
            case "package":
                return "".join(f"    versionName={self.apps[name].version}\n" for name in rest if name in self.apps)
        return f"Can't find service: {service}\n"


class Recording(Phone):
    """A phone that shows recorded screens, one after the other: with each input comes the next."""

    def __init__(self, screens: Sequence[tuple[str, str]], package: str):
        """`screens`: activity and hierarchy of each, as recorded."""
        super().__init__()
        self.screens = list(screens)
        self.package = package
        self.shown = 0
        self.running = False
        """Whether inputs count. (Those of a start do not.)"""

    def _changes(self) -> None:
        super()._changes()
        if self.running:
            self.shown = min(self.shown + 1, len(self.screens) - 1)

    def _tap(self, x: int, y: int, *, pressed: bool) -> None:
        """The recording knows what came of it."""

    def _screen(self) -> str:
        return self.screens[self.shown][1]

    def _start(self, words: Sequence[str]) -> tuple[str, int]:
        self._changes()
        return "Status: ok\n", 0

    def _run(self, words: list[str], piped: str) -> tuple[str, int]:
        if words[:3] == ["cmd", "package", "query-activities"]:
            return f"  {self.package}/.Main\n", 0
        return super()._run(words, piped)

    def _dumpsys(self, service: str, rest: list[str]) -> str:
        if service != "window":
            return super()._dumpsys(service, rest)
        activity = self.screens[self.shown][0]
        return f"  mCurrentFocus=Window{{1 u0 {activity}}}\n  mFocusedApp=ActivityRecord{{5b3 u0 {activity} t1}}\n"


# The server.


class AdbServer:
    """An adb server on a free port of the loopback interface, with the phones behind it. A context manager."""

    def __init__(self, **phones: Phone):
        self.phones = phones
        self.requests: list[str] = []
        self._over = threading.Event()
        stand_in = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with suppress(OSError):
                    stand_in._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 64

        self._server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> "AdbServer":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self, connection: socket.socket) -> None:
        phone: Phone | None = None
        while request := _read_request(connection):
            self.requests.append(request)
            service, _, rest = request.partition(":")
            if service == "host" and rest == "version":
                connection.sendall(_OKAY + _block("0029"))
                return
            if service == "host" and rest in ("devices", "devices-l"):
                rows = [f"{serial}\t{phone.state}\n" for serial, phone in self.phones.items() if phone.state != "gone"]
                connection.sendall(_OKAY + _block("".join(rows)))
                return
            if service == "host" and rest.startswith("tport:serial:"):
                serial = rest.removeprefix("tport:serial:")
                phone = self.phones.get(serial)
                if phone is None or phone.state == "gone":
                    connection.sendall(_FAIL + _block(f"device '{serial}' not found"))
                    return
                if phone.state != "device":
                    connection.sendall(_FAIL + _block(f"device {phone.state}"))
                    return
                connection.sendall(_OKAY + bytes(8))
                continue
            if service == "shell" and phone is not None:
                connection.sendall(_OKAY)
                self._shell(connection, phone, rest)
                return
            connection.sendall(_FAIL + _block("unknown host service"))
            return

    def _shell(self, connection: socket.socket, phone: Phone, command: str) -> None:
        faults = phone.faults
        if faults.hang and faults.hang in command:
            self._over.wait()
            return
        output = phone.shell(command).encode()
        if faults.cut and faults.cut in command:
            faults.cut, phone.state = "", "gone"
            output = output[: len(output) // 2]
        connection.sendall(output)


_OKAY, _FAIL = b"OKAY", b"FAIL"


def _block(text: str) -> bytes:
    return f"{len(text.encode()):04x}{text}".encode()


def _read_request(connection: socket.socket) -> str:
    """The next request; `""` when the client is gone."""
    length = _read(connection, 4)
    return _read(connection, int(length, 16)).decode() if length else ""


def _read(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (part := connection.recv(count - len(data))):
        data += part
    return data
