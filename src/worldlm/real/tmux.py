"""A client of tmux control mode: one process, two pipes, many commands, and no polling.

In control mode tmux reads commands line by line, answers each with a block, and reports what the pane's
programs print (`%output`) as it happens. The shell in the pane marks its prompts in that stream (see
`sandbox.bashrc`), so whoever typed a command knows at once when the next prompt stands.
"""

import asyncio
import contextlib
import os
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from worldlm.core.errors import WorldlmError

_OCTAL = re.compile(rb"\\(\d{3})")
_SCREEN = re.compile(rb"\x1b\[\?(?:1049|1047|47)([hl])|\x1b\[H\x1b\[0?J|\x1b\[[23]J|\x1bc")
_OPEN = re.compile(rb"\x1b(?:\[[\d;?]*|\][^\x07\x1b]*)?\Z")
_OUTPUT = b"%output %0 "
_BYTES = [bytes((i,)) for i in range(256)]
CHUNK = 1 << 16
HISTORY = 20_000
"""Rows that tmux keeps above the screen."""
THROTTLE_SECONDS = 0.05
"""Between two reads of a pane that has printed more than it may."""
KEYS = 1024
"""Bytes that one `send-keys` takes."""
KEPT = 32 * 1024
"""Bytes of a step's output that are kept as they came, at its start and at its end each."""


class TmuxError(WorldlmError):
    """tmux refused a command or is gone."""


def mark(kind: str, nonce: str) -> bytes:
    """An invisible mark in the stream: a shell-integration sequence (OSC 133) with our identifier."""
    return f"\x1b]133;{kind};aid={nonce}\x07".encode()


@dataclass(frozen=True, slots=True)
class Screen:
    """What the pane shows."""

    lines: list[str]
    """The last rows of the history (as many as the screen has, or fewer) and the screen, blanks at their ends gone."""
    history: int
    """Rows above the screen since the history was cleared."""
    row: int
    """The cursor's row on the screen."""
    full: bool
    """Whether a full-screen program has the screen (the alternate screen)."""
    saved_row: int
    """The row to which the cursor returns when the full-screen program leaves."""


@dataclass(slots=True)
class Output:
    """What the pane's programs printed since the last `restart`, with our marks taken out."""

    nonce: str
    """In the marks of the shell's prompts; whoever has the shell can read it, and gains no more than a wrong wait."""
    secret: str
    """In the mark of the shell's end."""
    size: int = 0
    newlines: int = 0
    cleared_at: int | None = None
    """How many lines had come when the screen was cleared last (the shell's, not that of a full-screen program)."""
    prompts: int = 0
    """Prompts that were drawn while no input was waiting, ever."""
    running: bool = True
    """Whether something other than the shell's prompt has the terminal, as far as the shell has told."""
    exit_code: int | None = None
    """Of the shell, once it has ended."""
    expect_redraw: bool = False
    """Count the next prompt even where the shell only draws its prompt again (C-l)."""
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)
    _carry: bytes = b""
    _armed: bool = False
    _alternate: bool = False
    _mark: re.Pattern[bytes] = field(init=False)

    def __post_init__(self) -> None:
        prompt, end = (re.escape(word).encode() for word in (self.nonce, self.secret))
        self._mark = re.compile(rb"\x1b\]133;(?:([ABCD]);aid=" + prompt + rb"|X;(\d{1,3});aid=" + end + rb")\x07")

    def restart(self) -> None:
        """Forget what came so far."""
        self.size = self.newlines = 0
        self.cleared_at = None
        self._head.clear()
        self._tail.clear()

    def feed(self, data: bytes) -> bool:
        """Take what the pane printed. Returns whether a prompt was completed or the shell ended."""
        data = self._carry + data
        # A sequence may be split between two reads: hold its start back.
        open_end = _OPEN.search(data, max(0, len(data) - 64))
        self._carry = open_end[0] if open_end else b""
        data = data[: len(data) - len(self._carry)]
        news = False
        if b"\x1b]133;" in data:
            for found in self._mark.finditer(data):
                news |= self._take(found)
            data = self._mark.sub(b"", data)
        self.size += len(data)
        if b"\x1b" in data:
            for found in _SCREEN.finditer(data):
                if found[1]:
                    self._alternate = found[1] == b"h"
                elif not self._alternate:
                    self.cleared_at = self.newlines + data.count(b"\n", 0, found.start())
        self.newlines += data.count(b"\n")
        room = KEPT - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            if len(self._tail) > 2 * KEPT:
                del self._tail[:-KEPT]
        return news

    def raw(self) -> str:
        """The bytes as they came, decoded; the middle of a long output is left out and says so."""
        tail = self._tail[-KEPT:]
        left_out = self.size - len(self._head) - len(tail)
        gap = f"\n[{left_out} bytes left out]\n".encode() if left_out > 0 else b""
        return bytes(self._head + gap + tail).decode("utf-8", "replace")

    def _take(self, found: re.Match[bytes]) -> bool:
        kind = found[1]
        if kind is None:
            self.exit_code = int(found[2])
            return True
        if kind in b"AD":  # the shell is about to draw a prompt: A while it is idle, D while input waits
            self._armed = kind == b"A"
        elif kind == b"C":
            self.running = True
        elif kind == b"B" and (self._armed or self.expect_redraw):
            self._armed = self.expect_redraw = self.running = False
            self.prompts += 1
            return True
        return False


@dataclass(slots=True)
class _Request:
    """Commands sent on one line, whose answers come as that many blocks."""

    wanted: int
    least: Callable[[list[list[bytes]]], int]
    """Lines that the next block must have, given the blocks before it (an agent may print what looks like an end)."""
    future: asyncio.Future[list[list[bytes]]] | None
    blocks: list[list[bytes]] = field(default_factory=list)


class Tmux:
    """A control-mode client on two pipes, in the running asyncio loop. The first answer is to the start itself."""

    def __init__(self, stdin: int, stdout: int, nonce: str, secret: str, *, rows: int, flood: int):
        """`nonce`, `secret`: of the marks. `rows`: of the screen. `flood`: bytes that may come between two looks."""
        self.output = Output(nonce, secret)
        self._why = ""
        self.gone = False
        """tmux has ended."""
        self.draining = False
        """Read a flood as fast as it comes, because its end is being waited for."""
        self._stdin, self._stdout, self._rows, self._flood = stdin, stdout, rows, flood
        self.loop = asyncio.get_running_loop()
        """The event loop that it belongs to."""
        self._news = asyncio.Event()
        self._throttle: asyncio.TimerHandle | None = None
        self._received = bytearray()
        self._unsent = bytearray()
        self._block: tuple[bytes, list[bytes]] | None = None
        self._requests: deque[_Request] = deque([_Request(1, _no_lines, None)])
        for pipe in (stdin, stdout):
            os.set_blocking(pipe, False)
        self.loop.add_reader(stdout, self._readable)

    def close(self) -> None:
        """Leave the loop. Whoever waits is told that tmux is gone. The pipes are not closed here."""
        if self._throttle is not None:
            self._throttle.cancel()
        self.loop.remove_reader(self._stdout)
        self.loop.remove_writer(self._stdin)
        self._end()

    # What can be asked of it.

    async def command(self, line: str) -> list[bytes]:
        """Run one tmux command; its answer, line by line. Raises TmuxError."""
        return (await self._ask(line, 1))[0]

    def type(self, data: bytes) -> None:
        """Send bytes to the pane as they are."""
        for start in range(0, len(data), KEYS):
            keys = data[start : start + KEYS].hex(" ")
            self._send(f"send-keys -t %0 -H {keys}", _Request(1, _no_lines, None))

    async def screen(self) -> Screen:
        """The screen, with up to as many rows of the history; the history is cleared. Raises TmuxError."""
        rows = self._rows
        state, lines, _ = await self._ask(
            "display-message -p -t %0 '#{history_size} #{cursor_y} #{alternate_on} #{alternate_saved_y}'"
            f" ; capture-pane -p -t %0 -S -{rows} ; clear-history -t %0",
            3,
            lambda blocks: rows + min(rows, int(blocks[0][0].split()[0])) if len(blocks) == 1 else 0,
        )
        history, row, full, saved = (int(part) for part in state[0].split())
        # While the alternate screen is on, there is no history above it.
        return Screen(
            [line.decode("utf-8", "replace").rstrip() for line in lines],
            history,
            row,
            bool(full),
            saved if full else row,
        )

    @property
    def flooded(self) -> bool:
        """Whether the pane has printed more than it may."""
        return self.output.size > self._flood

    async def prompt(self, after: int, seconds: float) -> bool:
        """Wait for a prompt beyond the first `after`, at most `seconds`; whether it came.

        Also ends when the shell or tmux has ended, and (unless `draining`) in a flood.
        """

        def ready() -> bool:
            output = self.output
            ended = self.gone or output.exit_code is not None
            return output.prompts > after or ended or (self.flooded and not self.draining)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds)):
                while not ready():
                    self._news.clear()
                    await self._news.wait()
        return self.output.prompts > after

    async def quiet(self, during: float, seconds: float) -> bool:
        """Wait until nothing has been printed `during` so many seconds, at most `seconds`; whether that came."""
        end = self.loop.time() + seconds
        while self.loop.time() < end:
            before = self.output.size
            await asyncio.sleep(during)
            if self.output.size == before:
                return True
        return False

    # How it speaks.

    async def _ask(
        self, line: str, blocks: int, least: Callable[[list[list[bytes]]], int] | None = None
    ) -> list[list[bytes]]:
        future: asyncio.Future[list[list[bytes]]] = self.loop.create_future()
        self._send(line, _Request(blocks, least or _no_lines, future))
        return await future

    def _send(self, line: str, request: _Request) -> None:
        if self.gone:
            raise TmuxError(self._why)
        self._requests.append(request)
        self._unsent += line.encode() + b"\n"
        self._writable()

    def _writable(self) -> None:
        try:
            sent = os.write(self._stdin, self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._end()
            return
        del self._unsent[:sent]
        if self._unsent:
            self.loop.add_writer(self._stdin, self._writable)
        else:
            self.loop.remove_writer(self._stdin)

    def _readable(self) -> None:
        try:
            data = os.read(self._stdout, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.loop.remove_reader(self._stdout)
            self._end()
            return
        self._received += data
        *lines, rest = self._received.split(b"\n")
        self._received = rest
        printed: list[bytes] = []
        for line in lines:
            if self._block is None and line.startswith(_OUTPUT):
                printed.append(bytes(line[len(_OUTPUT) :]))
            else:
                self._printed(printed)
                self._line(bytes(line))
        self._printed(printed)
        if self.flooded and not self.draining:
            # Left unread, the flood waits in tmux and in the program that makes it.
            self._news.set()
            self.loop.remove_reader(self._stdout)
            self._throttle = self.loop.call_later(THROTTLE_SECONDS, self._read_on)

    def _read_on(self) -> None:
        self._throttle = None
        self.loop.add_reader(self._stdout, self._readable)

    def _printed(self, printed: list[bytes]) -> None:
        """Take what the pane printed, and leave the list empty."""
        if not printed:
            return
        data = b"".join(printed)
        printed.clear()
        if b"\\" in data:
            data = _OCTAL.sub(lambda found: _BYTES[int(found[1], 8) & 0xFF], data)
        if self.output.feed(data):
            self._news.set()

    def _line(self, line: bytes) -> None:
        if self._block is not None:
            self._block_line(line)
        elif line.startswith(b"%begin "):
            self._block = (line[7:], [])
        elif line.startswith(b"%exit"):
            self._end(line[6:].decode("utf-8", "replace"))

    def _block_line(self, line: bytes) -> None:
        assert self._block is not None
        stamp, lines = self._block
        request = self._requests[0] if self._requests else None
        least = request.least(request.blocks) if request else 0
        # What the screen shows is nobody's error: where it can be taken at all, taking it does not fail.
        failed = line == b"%error " + stamp and not least
        done = line == b"%end " + stamp and len(lines) >= least
        if not done and not failed:
            lines.append(line)
            return
        self._block = None
        if request is None:
            return
        request.blocks.append(lines)
        future = request.future
        if failed:
            self._requests.popleft()
            if future and not future.done():
                future.set_exception(TmuxError(f"tmux: {b' '.join(lines).decode('utf-8', 'replace')}"))
        elif len(request.blocks) == request.wanted:
            self._requests.popleft()
            if future and not future.done():
                future.set_result(request.blocks)

    def _end(self, reason: str = "") -> None:
        self.gone = True
        self._why = self._why or f"tmux has ended{reason and ': '}{reason}"
        self._news.set()
        while self._requests:
            future = self._requests.popleft().future
            if future and not future.done():
                future.set_exception(TmuxError(self._why))
                future.exception()  # nobody may be waiting any more


def _no_lines(blocks: list[list[bytes]]) -> int:
    return 0
