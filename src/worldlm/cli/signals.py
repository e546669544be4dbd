"""Signals while asynchronous work runs: they cancel it, and what it saves on its way out is saved."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio
import anyio.lowlevel

T = TypeVar("T")
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """What a signal cancels at the moment: all work, or, for Ctrl-C, one step of it."""

    def __init__(self) -> None:
        self.caught: int | None = None
        self.work = anyio.CancelScope()
        self._step: anyio.CancelScope | None = None

    @contextmanager
    def step(self) -> Iterator[anyio.CancelScope]:
        """Inside, Ctrl-C cancels only this block; ask the scope for `cancelled_caught` afterwards."""
        with anyio.CancelScope() as scope:
            self._step = scope
            try:
                yield scope
            finally:
                self._step = None

    async def check(self) -> None:
        """Let a signal that has come act now."""
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()

    def receive(self, number: int) -> None:
        """Act on a signal."""
        if number == signal.SIGINT and self._step is not None:
            self._step.cancel()
            return
        self.caught = number
        self.work.cancel()
        _give_back()  # a second signal ends the program at once


def _give_back() -> None:
    for number in _SIGNALS:
        asyncio.get_running_loop().remove_signal_handler(number)


def run(work: Callable[[Signals], Awaitable[T]]) -> T:
    """Run `work` to its end. SIGINT and SIGTERM cancel it; the program then exits with 128 + the signal's number."""

    async def supervised() -> T:
        signals = Signals()
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, signals.receive, number)
        try:
            with signals.work:
                result = await work(signals)
        finally:
            _give_back()
        if signals.caught is not None:
            raise SystemExit(128 + signals.caught)
        return result

    return anyio.run(supervised)
