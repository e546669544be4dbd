"""Wrappers round any model: a cache of answers on disk, a budget, a recording.

A wrapper has the powers of what it wraps, and no others: `isinstance(wrapped, CountsTokens)` and
`isinstance(wrapped, StreamsCompletion)` tell the truth.
"""

import contextlib
import logging
import sqlite3
import threading
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread
from pydantic import ConfigDict, Field, ValidationError

from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.jsonl import JsonlWriter
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Closes, CountsTokens, Model, StreamsCompletion
from worldlm.core.text import canonical_json, digest, estimate_tokens
from worldlm.core.types import NO_USAGE, Completion, Delta, Message, Sampling, Text, Value

log = logging.getLogger(__name__)

CALL_SCHEMA = "worldlm.call/1"
CACHE_VERSION = 1

Items = AsyncGenerator[Delta | Completion, None]


def request_key(messages: Sequence[Message], sampling: Sampling) -> str:
    """Identifies a request: its messages, and its sampling with the seed."""
    asked = [[message.role, message.content] for message in messages]
    return digest(canonical_json(asked), canonical_json(sampling.model_dump(mode="json")))


class ModelWrapper:
    """Base of the wrappers: passes everything on. A wrapper of your own overrides `_call`.

    `count_tokens` and `stream` are attributes of an object only where the wrapped model has them.
    """

    count_tokens: Callable[[str], int]
    stream: Callable[[Sequence[Message], Sampling], AsyncIterator[Delta | Completion]]

    def __init__(self, model: Model):
        self._model = model
        if isinstance(model, CountsTokens):
            self.count_tokens = model.count_tokens
        if isinstance(model, StreamsCompletion):
            self.stream = self._stream

    @property
    def name(self) -> str:
        """The wrapped model's."""
        return self._model.name

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """The wrapped model's answer, by the rules of this wrapper."""
        return await last(self._call(messages, sampling, streaming=False))

    async def close(self) -> None:
        """Close the wrapped model."""
        if isinstance(self._model, Closes):
            await self._model.close()

    async def _stream(self, messages: Sequence[Message], sampling: Sampling) -> Items:
        async with aclosing(self._call(messages, sampling, streaming=True)) as items:
            async for item in items:
                yield item

    async def _call(self, messages: Sequence[Message], sampling: Sampling, *, streaming: bool) -> Items:
        """One call, streamed or not: deltas (when streamed), and last the completion."""
        if not (streaming and isinstance(self._model, StreamsCompletion)):
            yield await self._model.complete(messages, sampling)
            return
        items = self._model.stream(messages, sampling)
        try:
            async for item in items:
                yield item
        finally:
            if isinstance(items, AsyncGenerator):
                await items.aclose()


async def last(items: Items) -> Completion:
    """The completion at the end of a call."""
    found = Completion(finish="error", outcome=Outcome.INFRASTRUCTURE_FAILED, detail="the stream had no completion")
    async with aclosing(items):
        async for item in items:
            if isinstance(item, Completion):
                found = item
    return found


class CachedModel(ModelWrapper):
    """Answers a request that was answered before from a file, so that replays agree.

    The key is everything that can change an answer: the model's name (weights and settings), the messages,
    the sampling and its seed. Only whole good answers are kept. Of several answers to one request, whichever
    process gave it, the first stays and is what everybody gets. A hit costs nothing and its usage says so.
    One file serves any number of processes.
    """

    def __init__(self, model: Model, path: Path):
        """Raises InputError when `path` cannot be opened, or is something else than such a cache."""
        super().__init__(model)
        self._store = _Store(path)
        self._flights: weakref.WeakValueDictionary[str, anyio.Lock] = weakref.WeakValueDictionary()
        self.hits = 0
        self.misses = 0

    async def close(self) -> None:
        """Close the file and the wrapped model."""
        self._store.close()
        await super().close()

    async def _call(self, messages: Sequence[Message], sampling: Sampling, *, streaming: bool) -> Items:
        key = digest(str(CACHE_VERSION), self.name, request_key(messages, sampling))
        # Equal requests at the same time make one call: the others wait for its answer.
        flight = self._flights.setdefault(key, anyio.Lock())
        async with flight:
            kept = await anyio.to_thread.run_sync(self._store.get, key)
            if kept is not None:
                self.hits += 1
                if streaming and (kept.text or kept.thinking):
                    yield Delta(text=kept.text, thinking=kept.thinking or "")
                yield kept
                return
            self.misses += 1
            async with aclosing(super()._call(messages, sampling, streaming=streaming)) as items:
                async for item in items:
                    if isinstance(item, Completion) and item.outcome is Outcome.OK and item.finish == "stop":
                        first = await anyio.to_thread.run_sync(self._store.add, key, item)
                        yield first.model_copy(update={"usage": item.usage})
                    else:
                        yield item


class _Store:
    """The file of a `CachedModel`. Its troubles after opening cost a hit or an entry, never an answer."""

    def __init__(self, path: Path):
        self._path = path
        self._lock = threading.Lock()
        self._warned = False
        self._open: sqlite3.Connection | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open = sqlite3.connect(path, timeout=30, check_same_thread=False)
            self._prepare(self._open)
        except (OSError, sqlite3.Error, InputError) as error:
            self.close()
            raise InputError(f"cannot use {path} as a cache: {error}; give another path, or delete it") from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        with connection:
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if tables and version != CACHE_VERSION:
                raise InputError(f"it is another database, or of another version than {CACHE_VERSION}")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS completions (key TEXT PRIMARY KEY, completion TEXT NOT NULL) WITHOUT ROWID"
            )
            connection.execute(f"PRAGMA user_version = {CACHE_VERSION}")

    def get(self, key: str) -> Completion | None:
        """The answer kept under `key`."""
        with self._guarded(), self._lock:
            if self._open is not None:
                row = self._open.execute("SELECT completion FROM completions WHERE key = ?", (key,)).fetchone()
                return None if row is None else Completion.model_validate_json(row[0])
        return None

    def add(self, key: str, completion: Completion) -> Completion:
        """Keep an answer, unless there is one already; the one that is kept."""
        text = completion.model_copy(update={"usage": NO_USAGE}).model_dump_json()
        with self._guarded():
            with self._lock:
                if self._open is None:
                    return completion
                with self._open:
                    self._open.execute("INSERT OR IGNORE INTO completions VALUES (?, ?)", (key, text))
            return self.get(key) or completion
        return completion

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValidationError) as error:
            if not self._warned:
                log.warning("the cache %s does not work and is passed over: %s", self._path, error)
            self._warned = True

    def close(self) -> None:
        """Close the file; may be called twice."""
        with self._lock:
            if self._open is not None:
                self._open.close()
            self._open = None


class BudgetModel(ModelWrapper):
    """Refuses calls once a budget is spent, with outcome BUDGET_EXHAUSTED.

    `tokens` counts prompt (cached ones too) and completion tokens, and estimates them where a server does not
    say (three bytes a token); `cost_usd` counts dollars as the model prices them, `seconds` the time since
    the first call. Calls that are running when it runs out are not stopped:
    what they take is the most by which it is exceeded.
    """

    def __init__(
        self,
        model: Model,
        *,
        tokens: int | None = None,
        cost_usd: float | None = None,
        seconds: float | None = None,
    ):
        super().__init__(model)
        self._tokens = tokens
        self._cost_usd = cost_usd
        self._seconds = seconds
        self._started: float | None = None
        self.spent = NO_USAGE
        """What all calls took so far, by the model's own account."""
        self._unsaid = 0

    def exhausted(self) -> str | None:
        """Which limit is reached, in words; None while there is budget left."""
        if self._tokens is not None:
            used = self.spent.prompt_tokens + self.spent.completion_tokens + self._unsaid
            if used >= self._tokens:
                return f"{used} of {self._tokens} tokens"
        if self._cost_usd is not None and self.spent.cost_usd >= self._cost_usd:
            return f"{self.spent.cost_usd:.4f} of {self._cost_usd:g} US dollars"
        if self._seconds is not None and self._started is not None:
            passed = time.monotonic() - self._started
            if passed >= self._seconds:
                return f"{passed:.1f} of {self._seconds:g} seconds"
        return None

    async def _call(self, messages: Sequence[Message], sampling: Sampling, *, streaming: bool) -> Items:
        if self._started is None:
            self._started = time.monotonic()
        if spent := self.exhausted():
            detail = f"the budget is spent: {spent}"
            yield Completion(finish="error", outcome=Outcome.BUDGET_EXHAUSTED, detail=detail)
            return
        async with aclosing(super()._call(messages, sampling, streaming=streaming)) as items:
            async for item in items:
                if isinstance(item, Completion):
                    self.spent += item.usage
                    if item.outcome is Outcome.OK and item.usage.calls and not item.usage.prompt_tokens:
                        texts = [*(message.content for message in messages), item.text, item.thinking or ""]
                        self._unsaid += sum(map(estimate_tokens, texts)) - item.usage.completion_tokens
                yield item


class RecordedCall(Value):
    """One line of a recording."""

    schema_: Literal["worldlm.call/1"] = Field(default="worldlm.call/1", alias="schema")
    model: Text
    messages: tuple[Message, ...]
    sampling: Sampling
    completion: Completion

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)


class RecordingModel(ModelWrapper):
    """Appends every finished call, failed ones too, to a file of JSON lines that `ReplayModel` reads."""

    def __init__(self, model: Model, path: Path):
        """Raises InputError when `path` cannot be written, or another process writes it."""
        super().__init__(model)
        self._writer = JsonlWriter(path)

    async def close(self) -> None:
        """Close the file and the wrapped model."""
        self._writer.close()
        await super().close()

    async def _call(self, messages: Sequence[Message], sampling: Sampling, *, streaming: bool) -> Items:
        async with aclosing(super()._call(messages, sampling, streaming=streaming)) as items:
            async for item in items:
                if isinstance(item, Completion):
                    self._write(messages, sampling, item)
                yield item

    def _write(self, messages: Sequence[Message], sampling: Sampling, completion: Completion) -> None:
        call = RecordedCall(model=self.name, messages=tuple(messages), sampling=sampling, completion=completion)
        try:
            self._writer.write(call)
        except (WorldlmError, ValueError) as error:  # a full disk, a closed file: the answer is worth more
            log.error("a call is missing in %s: %s", self._writer.path, error)  # noqa: TRY400
