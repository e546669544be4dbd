"""A program in a sandbox that we speak with: bytes both ways, or one line of JSON for each line of JSON."""

import asyncio
import contextlib
import json
import os
from collections.abc import Sequence
from typing import Any

from worldlm.core.errors import WorldlmError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import JsonObject, Limits
from worldlm.real.sandbox import PACKAGES, Ended, Plan, Sandbox, require_programs

LINE_BYTES = 64 << 20
"""The longest line that a worker may send."""


class WorkerError(WorldlmError):
    """A worker did not answer; `outcome` says whose doing that is, and the worker is gone."""

    def __init__(self, message: str, outcome: Outcome = Outcome.INFRASTRUCTURE_FAILED):
        super().__init__(message)
        self.outcome = outcome


async def pipe_streams(
    stdout: int, stdin: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, tuple[asyncio.BaseTransport, ...]]:
    """A program's pipes as streams in the running loop, with the transports to close; the pipes stay the caller's."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(LINE_BYTES)
    # Duplicates, because a transport closes what it was given.
    incoming, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(stdout), "rb", 0)
    )
    outgoing, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop), os.fdopen(os.dup(stdin), "wb", 0)
    )
    return reader, asyncio.StreamWriter(outgoing, protocol, None, loop), (incoming, outgoing)


class Pipes:
    """A sandboxed program's standard input and output as asyncio streams, in the running loop."""

    def __init__(
        self,
        sandbox: Sandbox,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        transports: Sequence[asyncio.BaseTransport],
    ):
        self.sandbox = sandbox
        self.reader = reader
        self.writer = writer
        self._transports = transports
        self._leaving: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, plan: Plan, limits: Limits, who: str) -> "Pipes":
        """Start a sandbox for `who` ("a real desktop"). Raises SetupError when a program is missing."""
        require_programs({name: package for name, package in PACKAGES.items() if name != "tmux"}, who)
        sandbox = Sandbox(plan, limits)
        try:
            reader, writer, transports = await pipe_streams(sandbox.stdout, sandbox.stdin)
        except BaseException:
            sandbox.close()
            raise
        return cls(sandbox, reader, writer, transports)

    def kill(self, why: Ended = Ended.CLOSED) -> None:
        """End everything in it, now; `close` must still be called."""
        self.sandbox.kill(why)

    async def close(self) -> None:
        """End everything in it and wait until it is gone. May be called twice, and from several tasks."""
        if self._leaving is None:
            self.kill()
            for transport in self._transports:
                if not transport.is_closing():
                    transport.abort() if isinstance(transport, asyncio.WriteTransport) else transport.close()
            self._leaving = asyncio.get_running_loop().run_in_executor(None, self.sandbox.close)
        await asyncio.shield(self._leaving)
        await asyncio.sleep(0)  # a transport closes its pipe in the loop's next round


class Worker:
    """A program that answers each line of JSON (an object) with one. One request at a time."""

    def __init__(self, pipes: Pipes):
        self._pipes = pipes
        self._lock = asyncio.Lock()

    @classmethod
    async def start(cls, plan: Plan, limits: Limits, who: str) -> "Worker":
        """Start the program in a sandbox. Raises SetupError when a program is missing."""
        return cls(await Pipes.open(plan, limits, who))

    @property
    def sandbox(self) -> Sandbox:
        """Where it runs."""
        return self._pipes.sandbox

    async def ask(self, request: JsonObject, seconds: float) -> dict[str, Any]:
        """Send a request and wait for its answer.

        Raises WorkerError: TIMED_OUT after `seconds` or at the end of the episode's time, CANCELLED when the worker is
        closed meanwhile, otherwise INFRASTRUCTURE_FAILED. After that, and after being cancelled, the worker is ended:
        an answer that nobody waits for would be taken for the next one's.
        """
        async with self._lock:
            try:
                async with asyncio.timeout(seconds):
                    line = await self._exchange(json.dumps(request).encode() + b"\n")
            except TimeoutError:
                self._pipes.kill()
                raise WorkerError(f"no answer within {seconds:g} s", Outcome.TIMED_OUT) from None
            except BaseException:
                self._pipes.kill()
                raise
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self._pipes.kill()
            raise WorkerError(f"the worker said something else than an answer: {line[:200]!r}")
        return answer

    async def close(self) -> None:
        """End the program and everything that it started, and wait until it is gone. May be called twice."""
        await self._pipes.close()

    def kill(self) -> None:
        """End it now; `close` must still be called."""
        self._pipes.kill()

    async def _exchange(self, line: bytes) -> bytes:
        pipes = self._pipes
        with contextlib.suppress(ConnectionError):
            pipes.writer.write(line)
            await pipes.writer.drain()
        try:
            answer = await pipes.reader.readline()
        except ValueError:
            raise WorkerError(f"the worker sent a line of more than {LINE_BYTES >> 20} MiB") from None
        if not answer.endswith(b"\n"):
            raise self._gone()
        return answer

    def _gone(self) -> WorkerError:
        ended = self.sandbox.ended
        if ended is Ended.CLOSED:
            return WorkerError("the environment was closed during the step", Outcome.CANCELLED)
        if ended is Ended.TIME:
            return WorkerError(f"{ended.value}; everything in the sandbox was ended", Outcome.TIMED_OUT)
        told = self.sandbox.errors().splitlines()
        why = ended.value if ended else f"its program is gone{': ' + told[-1] if told else ''}"
        return WorkerError(why)
