"""Any server that speaks OpenAI's `/v1/chat/completions`: vLLM, SGLang, llama.cpp, Ollama, hosted models.

What servers do differently is learned from their answers: a parameter that one refuses (HTTP 400 that
names it) is renamed or left out, once, for the life of the model object, and is said in a log line and
in `adaptations`. Everything else that goes wrong comes back as a `Completion` with its outcome.
"""

import asyncio
import contextlib
import email.utils
import json
import logging
import math
import random
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

from worldlm.core.errors import InputError, nearest
from worldlm.core.outcomes import Outcome
from worldlm.core.text import canonical_json, digest
from worldlm.core.types import Completion, Delta, Message, Sampling
from worldlm.models.connection import Connection, StatusError, error_words, is_deadline, is_transport
from worldlm.models.wire import FREE, EventReader, Price, ReplyReader, chat_messages, failed, overflowed
from worldlm.models.wire import sampling_fields as fields_of

T = TypeVar("T")
log = logging.getLogger(__name__)

BACKOFF_CAP_S = 30.0
KEY_CURE = "set WORLDLM_API_KEY (or OPENAI_API_KEY)"

_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size"
    r"|maximum context length|context (length|window|size|limit)[^.]{0,40}(exceed|too|larger|increas)"
    r"|(exceed|longer than|larger than|too large for|fit)[^.]{0,60}context"
    r"|(prompt|input|messages?)[^.]{0,40}(is|are) too long|longer than the maximum model length"
    r"|input token count[^.]{0,40}exceeds|prompt too long|max_new_tokens`? must be <=",
    re.IGNORECASE,
)
_REFUSING = re.compile(
    r"unsupported|(not|n't|cannot) (be )?(support|allow|permit|accept|both|specified|recogni)|only the default|unknown"
    r"|unrecogni[sz]ed|unexpected|extra (input|field)|forbidden|deprecated|not available|invalid (parameter|argument)",
    re.IGNORECASE,
)
_ABOUT_FORMAT = re.compile(r"response[_ ]format|json[_ ]schema", re.IGNORECASE)
_RENAMED = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_DONE = "[DONE]"
_DRAIN_S = 0.1
"""How long to wait, after the last event of a stream, for the end that lets the connection be used again."""
_RETRIED = frozenset((408, 409, 425, 429))


@dataclass
class _Quirks:
    """What this server does not take, learned so far."""

    renamed: dict[str, str] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)

    def apply(self, body: dict[str, Any]) -> dict[str, Any]:
        return {self.renamed.get(key, key): value for key, value in body.items() if key not in self.dropped}

    def learn(self, refused: str) -> bool:
        """Adapt to a refusal of a field that was sent. False when there is nothing left to try."""
        if refused in self.renamed.values():
            return False
        if refused in _RENAMED:
            self.renamed[refused] = _RENAMED[refused]
        else:
            self.dropped.add(refused)
        return True


class OpenAIModel:
    """A model behind an OpenAI-compatible endpoint. Satisfies `Model`, `StreamsCompletion` and `Closes`.

    `deadline_s` bounds one call with all its tries and waits (seconds; waiting for a free place under
    `concurrency` not counted); `connect_s` bounds making a connection; `read_s` the silence between two
    pieces of an answer (None: the deadline alone). Up to `max_retries` further tries follow a connection
    error, a 429 or a 5xx, after a random wait of up to `backoff_s` doubled each time (30 s at most), or
    after what `Retry-After` asks. `concurrency` is the number of calls in flight (None: no bound).
    `extra_body` is sent with every request and wins over what is sampled.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        api_key: str | None = None,
        *,
        deadline_s: float = 600.0,
        connect_s: float = 10.0,
        read_s: float | None = None,
        max_retries: int = 5,
        backoff_s: float = 0.5,
        concurrency: int | None = None,
        extra_body: Mapping[str, Any] | None = None,
        price: Price = FREE,
    ):
        """Connects to nothing yet. Raises InputError for a URL that is none, and for a key that cannot be one."""
        self.model = model
        self.base_url = endpoint(base_url)
        self._key = (api_key or "").strip() or None
        if self._key and not re.fullmatch(r"[!-~]+", self._key):
            raise InputError(f"the key holds characters that no key has; {KEY_CURE} to the key alone")
        self._deadline_s = deadline_s
        self._max_retries = max_retries
        self._backoff_s = backoff_s
        self._extra = dict(extra_body or {})
        self._price = price
        self._quirks = _Quirks()
        self._places: AbstractAsyncContextManager[Any] = (
            nullcontext() if concurrency is None else asyncio.Semaphore(concurrency)
        )
        self._connection = Connection(self.base_url, self._key or "none", connect_s=connect_s, read_s=read_s)
        settings = f"#{digest(canonical_json(self._extra))[:8]}" if self._extra else ""
        self.name = f"{model}@{_without_secrets(self.base_url)}{settings}"

    @property
    def adaptations(self) -> dict[str, str | None]:
        """Fields of requests that the server refused, with the name sent instead; None: left out."""
        return {**self._quirks.renamed, **dict.fromkeys(sorted(self._quirks.dropped))}

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """One answer, in one piece."""
        reply: Completion | None = None
        async for item in self._call(messages, sampling, streaming=False):
            if isinstance(item, Completion):
                reply = item
        assert reply is not None
        return reply

    async def stream(self, messages: Sequence[Message], sampling: Sampling) -> AsyncIterator[Delta | Completion]:
        """The answer as it comes. Once a piece of it has been given, a break is a failure and not tried again."""
        async with aclosing(self._call(messages, sampling, streaming=True)) as items:
            async for item in items:
                yield item

    async def close(self) -> None:
        """Close the connections. (Do so before the event loop that used them ends.)"""
        await self._connection.close()

    async def list_models(self, seconds: float = 5.0) -> list[str]:
        """The names that the server lists; empty when it does not say."""
        names: list[str] = []
        with contextlib.suppress(Exception):
            async with asyncio.timeout(seconds):
                page = await self._connection.get("/models")
            names = [str(entry["id"]) for entry in page["data"]]
        return names

    # One call: tries, waits, adaptations.

    async def _call(
        self, messages: Sequence[Message], sampling: Sampling, *, streaming: bool
    ) -> AsyncGenerator[Delta | Completion, None]:
        async with self._places:
            attempts = _Attempts(time.monotonic(), self._deadline_s)
            fields = fields_of(sampling) | self._extra
            if streaming:
                fields["stream_options"] = {"include_usage": True}
            while True:
                attempts.made += 1
                reader = ReplyReader(self._price)
                body = self._quirks.apply(fields)
                try:
                    if streaming:
                        async with aclosing(self._streamed(reader, messages, body, attempts)) as deltas:
                            async for delta in deltas:
                                yield delta
                    else:
                        reader.feed(await attempts.within(self._whole(messages, body)))
                except Exception as error:
                    if is_deadline(error):
                        yield self._timed_out(
                            attempts, "the answer had not ended" if reader.started else "no answer came"
                        )
                        return
                    failure = await self._recover(error, body, attempts, reader)
                    if failure is None:
                        continue
                    yield failure
                    return
                completion = reader.completion(attempts.seconds)
                if completion.outcome is Outcome.INFRASTRUCTURE_FAILED:
                    completion = completion.model_copy(update={"detail": f"{self._where}: {completion.detail}"})
                yield completion
                return

    async def _whole(self, messages: Sequence[Message], body: dict[str, Any]) -> Any:
        sent = {"model": self.model, "messages": chat_messages(messages), **body}
        async with await self._connection.post("/chat/completions", sent) as response:
            return json.loads(await response.read())

    async def _streamed(
        self, reader: ReplyReader, messages: Sequence[Message], body: dict[str, Any], attempts: "_Attempts"
    ) -> AsyncGenerator[Delta, None]:
        sent = {"model": self.model, "messages": chat_messages(messages), "stream": True, **body}
        events = EventReader()
        async with await attempts.within(self._connection.post("/chat/completions", sent)) as response:
            while piece := await attempts.within(response.content.readany()):
                for data in events.feed(piece):
                    if data.startswith(_DONE):
                        with contextlib.suppress(Exception):
                            async with asyncio.timeout(_DRAIN_S):
                                await response.read()
                        return
                    chunk = json.loads(data)
                    if isinstance(chunk, Mapping) and chunk.get("error"):
                        raise StatusError(0, chunk)
                    if delta := reader.feed(chunk):
                        yield delta

    async def _recover(
        self, error: Exception, body: dict[str, Any], attempts: "_Attempts", reader: ReplyReader
    ) -> Completion | None:
        """What an error means for the call: None to try again (the wait is over), else the failure."""
        words = self._words(error)
        if reader.started:
            return self._failure(f"{self._where}: the reply broke off: {words}")
        if isinstance(error, InputError):
            return self._failure(words)
        if isinstance(error, StatusError) and (error.status == 413 or _OVERFLOW.search(f"{error.code} {words}")):
            return overflowed(f"{self._where} says that the prompt is too long: {words}")
        if isinstance(error, StatusError) and error.status:
            status = error.status
            if status in (400, 422) and (refused := refused_field(error.body, words, body)):
                renewed = self._quirks.apply({refused: None}) != {refused: None}  # a call beside this one learned it
                if renewed or self._quirks.learn(refused):
                    instead = self._quirks.renamed.get(refused)
                    how = f"sending {instead!r} instead" if instead else "leaving it out from now on"
                    log.warning("%s refuses %r: %s (%s)", self.name, refused, how, words)
                    return None
            if status not in _RETRIED and status < 500:
                return self._failure(f"{self._where} refused (HTTP {status}): {words}{await self._cure(status)}")
            if error.code == "insufficient_quota":
                return self._failure(f"{self._where}: {words}; add credit with the provider, or use another key")
            problem, wait = f"HTTP {status}: {words}", retry_after(error.headers)
        elif is_transport(error):
            problem, wait = f"no connection ({words})", None
        else:
            return self._failure(f"{self._where} gave an answer that cannot be read: {words}")
        if attempts.made > self._max_retries:
            cure = (
                "try again later, or lower the concurrency"
                if isinstance(error, StatusError)
                else "start the server, or check the URL in --model NAME@URL"
            )
            return self._failure(f"{self._where}: {problem}; {attempts.told}; {cure}")
        if wait is None:
            wait = random.uniform(0, min(BACKOFF_CAP_S, self._backoff_s * 2 ** (attempts.made - 1)))
        if wait >= attempts.left:
            return self._timed_out(attempts, f"{problem}; the next try would come after {wait:.3g} s")
        await asyncio.sleep(wait)
        return None

    def _timed_out(self, attempts: "_Attempts", last: str) -> Completion:
        detail = f"{self._where}: {last}; {attempts.told}; the deadline is {self._deadline_s:g} s"
        return failed(Outcome.TIMED_OUT, detail)

    def _failure(self, detail: str) -> Completion:
        return failed(Outcome.INFRASTRUCTURE_FAILED, detail)

    async def _cure(self, status: int) -> str:
        if status in (401, 403):
            return f"; {KEY_CURE} to a key that may use this model"
        if status != 404:
            return ""
        names = await self.list_models()
        if not names:
            return "; check the URL (it usually ends in /v1) and the model's name in --model openai:NAME@URL"
        return f"; for {self.model!r}: {nearest(self.model, names)} (names of this server)"

    def _words(self, error: Exception) -> str:
        """An error in one line, without the key."""
        words = error_words(error)
        return words.replace(self._key, "***") if self._key else words

    @property
    def _where(self) -> str:
        return f"{_without_secrets(self.base_url)}/chat/completions (model {self.model!r})"


@dataclass
class _Attempts:
    """The clock of one call."""

    started: float
    deadline_s: float
    made: int = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        return self.deadline_s - self.seconds

    @property
    def told(self) -> str:
        tries = "1 try" if self.made == 1 else f"{self.made} tries"
        return f"{tries} in {self.seconds:.1f} s"

    async def within(self, work: Awaitable[T]) -> T:
        """Await `work`, until the deadline at most. Raises TimeoutError there."""
        async with asyncio.timeout(max(0.0, self.left)):
            return await work


def endpoint(url: str) -> str:
    """A base URL as given by a user: without a final slash, and with `/v1` when there is no path.

    Raises InputError for what is not an http(s) URL.
    """
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is none
        usable = False
    if not usable or not re.fullmatch(r"[!-~]+", url.strip()):
        raise InputError(f"{url!r} is not a URL of a server; write it like http://127.0.0.1:8000/v1")
    path = parts.path.rstrip("/").removesuffix("/chat/completions") or "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def refused_field(body: Any, words: str, sent: Mapping[str, Any]) -> str | None:
    """The field of a request that an error names as not accepted, or None. A refused *value* of a limit is none."""
    if "response_format" in sent and _ABOUT_FORMAT.search(words):
        return "response_format"
    if not _REFUSING.search(words):
        return None
    named = body.get("param") if isinstance(body, Mapping) else None
    if isinstance(named, str) and named in sent:
        return named
    found = {key: re.search(rf"(?<!\w){re.escape(key)}(?!\w)", words) for key in sent}
    places = sorted((match.start(), key) for key, match in found.items() if match)
    if not places:
        return None
    # "a and b cannot both be given": the second goes.
    return places[-1 if re.search(r"\bboth\b", words) else 0][1]


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds that a server asks to wait: `retry-after-ms`, or `Retry-After` as seconds or as an HTTP date."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    if (seconds := _number(value)) is not None:
        return seconds
    with contextlib.suppress(ValueError, TypeError):
        when = email.utils.parsedate_to_datetime(value).timestamp()
        return max(0.0, when - (time.time() if now is None else now))
    return None


def _number(text: str | None) -> float | None:
    """A finite number that is not negative, or None."""
    with contextlib.suppress(ValueError, TypeError):
        if math.isfinite(number := float(text or "")):
            return max(0.0, number)
    return None
