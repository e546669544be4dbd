"""adb for asyncio: every call has a deadline, can be cancelled, and fails in words that name the cure.

adbutils speaks the adb server's protocol. Three things it leaves to us: it starts a server of its own where none
answers (a process that would outlive us), its deadlines are for a single read and not for a call, and its calls block.
So each call runs in a thread with a client of its own, whose sockets are shut when time is up or the caller is gone.
"""

import asyncio
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, TypeVar

from worldlm.core.errors import InputError, SetupError

CALL_SECONDS = 30.0
"""How long one call may take. (uiautomator itself waits up to ten seconds for an idle screen.)"""
CONNECT_SECONDS = 3.0
_Result = TypeVar("_Result")


class AdbFailure(Exception):  # noqa: N818
    """A call that failed; the message names the cure where one is known."""


class AdbTimeout(AdbFailure):
    """A call that took longer than it may."""


class Server(NamedTuple):
    """Where an adb server listens."""

    host: str
    port: int

    @classmethod
    def at(cls, address: str) -> "Server":
        """`HOST:PORT`. Raises InputError."""
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise InputError(f"initial_state.server must be HOST:PORT, such as 127.0.0.1:5037, not {address!r}")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


_CURES = (
    (
        "connect to adb server",
        "start one with `adb start-server` (apt-get install adb), or name another in initial_state.server",
    ),
    ("unauthorized", "unlock the device and allow USB debugging for this computer"),
    ("authorizing", "unlock the device and allow USB debugging for this computer"),
    ("offline", "`adb reconnect` it, or restart the emulator"),
    ("not found", "`adb devices` lists those that are connected"),
    ("INJECT_EVENTS", "allow simulated input in the device's developer options"),
)


def explained(message: str) -> str:
    """A failure's first line, with the cure behind it where one is known."""
    line = " ".join(message.strip().partition("\n")[0].split())[:300] or "adb gave no reason"
    cure = next((cure for sign, cure in _CURES if sign in line), None)
    return f"{line}: {cure}" if cure else line


class Adb:
    """Calls to one server. `close` ends those that are under way; later ones fail."""

    def __init__(self, server: Server):
        """Cheap. Raises SetupError when adbutils is missing."""
        self.server = server
        self._client = _client_class()
        self._running: list[Any] = []
        self._closed = False

    async def version(self) -> str:
        """The server's version, as `adb version` writes it."""
        return f"1.0.{await self._call(lambda client: client.server_version())}"

    async def devices(self) -> dict[str, str]:
        """Serial to state (`device` when it can be used) of what is connected."""
        return await self._call(lambda client: {info.serial: info.state for info in client.list()})

    async def shell(self, serial: str, command: str, *, check: bool = True, seconds: float = CALL_SECONDS) -> str:
        """What a device's shell answers to `command`, lines ended by `\\n`.

        Raises AdbFailure; also for an exit status other than 0, unless `check` is false.
        """

        def work(client: Any) -> tuple[int, str]:
            result = client.device(serial).shell2(command, timeout=seconds)
            return int(result.returncode), str(result.output).replace("\r\n", "\n")

        status, output = await self._call(work, seconds)
        if check and status:
            raise AdbFailure(explained(output or f"{command.split()[0]} ended with status {status}"))
        return output

    def close(self) -> None:
        """End every call. May be called twice, and from any thread."""
        self._closed = True
        for client in list(self._running):
            client.abort()

    async def _call(self, work: Callable[[Any], _Result], seconds: float = CALL_SECONDS) -> _Result:
        if self._closed:
            raise AdbFailure("the connection to the device was closed")
        client = self._client(self.server.host, self.server.port, socket_timeout=seconds)
        self._running.append(client)
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.get_running_loop().run_in_executor(None, work, client)
        except TimeoutError as error:
            raise AdbTimeout(f"no answer from adb at {self.server} within {seconds:g} s") from error
        except _library().AdbTimeout as error:
            raise AdbTimeout(f"no answer from adb at {self.server} within {seconds:g} s") from error
        except _library().AdbError as error:
            message = str(error.args[0]) if error.args else ""
            raise AdbFailure(explained(message.replace("shell output invalid", "the device went away"))) from error
        except (OSError, EOFError, ValueError) as error:
            raise AdbFailure(
                f"the connection to adb at {self.server} broke: {type(error).__name__}: {error}"
            ) from error
        finally:
            client.abort()
            self._running.remove(client)


class Claim:
    """A device in use: by one environment at a time, on this machine.

    The mark is an abstract socket name, which the kernel drops with the process, however that ends.
    """

    def __init__(self, server: Server, serial: str):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.held = True
        try:
            self._socket.bind(f"\0worldlm-adb:{server}:{serial}"[:100])
        except OSError:
            self.release()

    def release(self) -> None:
        """Let others have it. May be called twice."""
        self.held = False
        self._socket.close()


@cache
def _library() -> Any:
    try:
        import adbutils
    except ImportError as error:
        raise SetupError("android needs adbutils: pip install 'worldlm[real]'") from error
    return adbutils


@cache
def _client_class() -> Any:
    library = _library()

    class Connection(library.AdbConnection):  # type: ignore[misc,name-defined]
        def __init__(self, host: str, port: int):
            self._address = host, port
            super().__init__(host, port)

        def _safe_connect(self) -> Any:  # the library's own would start a server
            try:
                return socket.create_connection(self._address, CONNECT_SECONDS)
            except OSError as error:
                told = (
                    f"connect to adb server at {':'.join(map(str, self._address))} failed ({error.strerror or error})"
                )
                raise library.AdbError(told) from error

    class Client(library.AdbClient):  # type: ignore[misc,name-defined]
        """One call's client, whose sockets another thread can shut."""

        def __init__(self, host: str, port: int, socket_timeout: float):
            super().__init__(host, port, socket_timeout)
            self._seconds = socket_timeout
            self._guard = threading.Lock()
            self._open: list[Any] = []
            self._aborted = False

        def make_connection(self, timeout: float | None = None) -> Any:
            connection = Connection(self.host, self.port)
            with self._guard:
                if self._aborted:
                    connection.conn.close()
                    raise library.AdbError("the call was ended")
                connection.conn.settimeout(timeout or self._seconds)
                self._open.append(connection.conn)
            return connection

        def abort(self) -> None:
            with self._guard:
                self._aborted = True
                for conn in self._open:
                    with suppress(OSError):  # closed already
                        conn.shutdown(socket.SHUT_RDWR)
                    conn.close()

    return Client


def properties(text: str) -> dict[str, str]:
    """What `getprop` prints, by name."""
    return dict(re.findall(r"^\[([^\]]+)\]: \[(.*)\]$", text, re.MULTILINE))
