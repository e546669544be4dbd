"""Where a session's lines come from: a person at a terminal, or a pipe."""

import os
import sys
from pathlib import Path
from typing import Protocol

import anyio
import anyio.lowlevel

from worldlm.cli.console import out
from worldlm.core.errors import InputError, user_path


class Lines(Protocol):
    """A source of lines."""

    by_hand: bool
    """Whether a person types them, at a terminal."""

    async def next(self, prompt: str) -> str | None:
        """The next line, or None when there are no more. Raises KeyboardInterrupt for Ctrl-C at the prompt."""
        ...


def standard_input() -> Lines:
    """A line editor when stdin and stdout are a terminal, else the lines of stdin."""
    return _Editor() if sys.stdin.isatty() and out.is_terminal else _Pipe(sys.stdin.fileno())


class _Editor:
    """prompt_toolkit: history kept between sessions, Alt-Enter for a new line inside the input."""

    by_hand = True

    def __init__(self) -> None:
        # Only here: a scripted run needs no line editor, and it takes long to import.
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import FileHistory, History, InMemoryHistory
        from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

        keys = KeyBindings()

        @keys.add("escape", "enter")
        def new_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        path = history_file()
        history: History = FileHistory(str(path)) if path else InMemoryHistory()
        self._session: PromptSession[str] = PromptSession(history=history, key_bindings=keys, multiline=False)

    async def next(self, prompt: str) -> str | None:
        try:
            return await self._session.prompt_async(prompt, handle_sigint=False)
        except EOFError:
            return None


class _Pipe:
    """Lines of a file descriptor, waited for without a thread, so that a signal ends the wait."""

    by_hand = False

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._data = b""
        self._ended = False

    async def next(self, prompt: str) -> str | None:
        while b"\n" not in self._data and not self._ended:
            try:
                await anyio.wait_readable(self._descriptor)
            except PermissionError:  # an ordinary file: it never makes one wait
                await anyio.lowlevel.checkpoint()
            chunk = os.read(self._descriptor, 65_536)
            self._data += chunk
            self._ended = not chunk
        if not self._data:
            return None
        line, _, self._data = self._data.partition(b"\n")
        return line.decode("utf-8", "replace").removesuffix("\r")


def history_file() -> Path | None:
    """Where typed lines are kept (XDG state folder), or None when it cannot be written."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    try:
        path = user_path(base) / "worldlm" / "history"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except (OSError, InputError):
        return None
    return path
