"""The chat-completions wire format: a request's body, and readers for whole answers, streamed ones and their events.

Shared by everything that speaks it, over HTTP or in process. Where servers differ (reasoning under two
names, `content: null`, a refusal in a field of its own), this is where it ends.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from worldlm.core.outcomes import Outcome
from worldlm.core.types import Completion, Delta, Finish, Message, Sampling, Usage

_THINKING_KEYS = ("reasoning_content", "reasoning")
_CUT = ("length", "max_tokens")
_REFUSED = ("content_filter", "refusal", "safety")
_BROKEN = ("error", "abort", "cancelled")
_LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Price:
    """What a provider asks, in US dollars per million tokens."""

    prompt: float
    completion: float
    cached: float | None = None
    """For prompt tokens out of a prefix cache; None: the price of any prompt token."""

    def cost(self, prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> float:
        """Dollars for one call. `cached_tokens` are a part of `prompt_tokens`."""
        cached = self.prompt if self.cached is None else self.cached
        fresh = (prompt_tokens - cached_tokens) * self.prompt
        return (fresh + cached_tokens * cached + completion_tokens * self.completion) / 1e6


FREE = Price(0.0, 0.0)


def chat_messages(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Messages as the wire wants them."""
    return [{"role": message.role, "content": message.content} for message in messages]


def sampling_fields(sampling: Sampling) -> dict[str, Any]:
    """The fields of a request's body that hold its sampling; what is None is left to the server."""
    fields = sampling.model_dump(exclude_none=True, exclude={"stop"})
    if sampling.stop:
        fields["stop"] = list(sampling.stop)
    return fields


def failed(outcome: Outcome, detail: str, *, usage: Usage | None = None, model: str = "") -> Completion:
    """A completion that holds no reply, and says why."""
    return Completion(finish="error", outcome=outcome, detail=detail, usage=usage or Usage(), model=model)


def overflowed(detail: str) -> Completion:
    """The prompt does not fit the model's context."""
    return Completion(finish="context_overflow", outcome=Outcome.INFRASTRUCTURE_FAILED, detail=detail)


class EventReader:
    """Reads the data of server-sent events out of bytes as they come (WHATWG HTML, "Server-sent events").

    Lines may be of any length. Comments, other fields and events without data (all of them keep a connection alive)
    give nothing, and neither does an event that the end of the stream cuts off.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []
        """Pieces of the line that has not ended."""
        self._data: list[str] = []
        self._after_return = False

    def feed(self, piece: bytes) -> Iterator[str]:
        """The data of each event that ends in `piece`. Raises UnicodeDecodeError."""
        if self._after_return:
            piece = piece.removeprefix(b"\n")
        self._after_return = piece.endswith(b"\r")
        first, *others = _LINE_END.split(piece)
        self._line.append(first)
        for other in others:
            line, self._line = b"".join(self._line), [other]
            if line:
                field, _, value = line.partition(b":")
                if field == b"data":
                    self._data.append(value.removeprefix(b" ").decode())
                continue
            data, self._data = "\n".join(self._data), []
            if data.strip():
                yield data


class ReplyReader:
    """Collects one reply from a whole response, or from the chunks of a stream.

    Never raises: what is not in the format is remembered, and `completion` then says so.
    """

    def __init__(self, price: Price = FREE):
        self._price = price
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._refusal: list[str] = []
        self._finish: str | None = None
        self._usage: Mapping[str, Any] = {}
        self._model = ""
        self._problem: str | None = None
        self._choices = 0

    def feed(self, value: Any) -> Delta | None:
        """Take a response or a chunk; give what is new in it, if anything can be shown."""
        if not isinstance(value, Mapping):
            self._problem = f"the answer is {type(value).__name__}, not a JSON object"
            return None
        if error := value.get("error"):
            self._problem = error_message(error)
            return None
        if isinstance(value.get("model"), str):
            self._model = value["model"]
        if isinstance(value.get("usage"), Mapping):
            self._usage = value["usage"]
        choices = value.get("choices")
        if not isinstance(choices, Sequence) or not choices or not isinstance(choices[0], Mapping):
            return None
        self._choices += 1
        choice = choices[0]
        if isinstance(choice.get("finish_reason"), str):
            self._finish = choice["finish_reason"]
        message = choice.get("delta") or choice.get("message")
        if not isinstance(message, Mapping):
            return None
        text = _text_of(message.get("content"))
        thinking = next((found for key in _THINKING_KEYS if (found := _text_of(message.get(key)))), "")
        self._text.append(text)
        self._thinking.append(thinking)
        self._refusal.append(_text_of(message.get("refusal")))
        return Delta(text=text, thinking=thinking) if text or thinking else None

    @property
    def started(self) -> bool:
        """Whether any piece of the reply has come."""
        return any(self._text) or any(self._thinking)

    def completion(self, seconds: float) -> Completion:
        """The reply, after the whole response or the last chunk. `seconds` is what the call took."""
        usage = self._read_usage(seconds)
        if self._problem is not None:
            return failed(Outcome.INFRASTRUCTURE_FAILED, self._problem, usage=usage, model=self._model)
        if not self._choices:
            detail = "the server answered without any choices: not a chat completion"
            return failed(Outcome.INFRASTRUCTURE_FAILED, detail, usage=usage, model=self._model)
        if self._finish is None:
            detail = "the reply ended without a finish reason: the connection or the server broke off"
            return failed(Outcome.INFRASTRUCTURE_FAILED, detail, usage=usage, model=self._model)
        if self._finish in _BROKEN:
            detail = f"the server gave up on the reply (finish reason {self._finish!r})"
            return failed(Outcome.INFRASTRUCTURE_FAILED, detail, usage=usage, model=self._model)
        finish: Finish = "length" if self._finish in _CUT else "stop"
        outcome, detail = Outcome.OK, ""
        if self._finish in _REFUSED or any(self._refusal):
            finish, outcome = "refused", Outcome.MODEL_FAILED
            detail = "".join(self._refusal) or f"the provider withheld the reply (finish reason {self._finish!r})"
        return Completion(
            text="".join(self._text) if outcome.is_ok else "",
            thinking="".join(self._thinking) or None,
            finish=finish,
            outcome=outcome,
            detail=detail or None,
            usage=usage,
            model=self._model,
        )

    def _read_usage(self, seconds: float) -> Usage:
        prompt, completion = _count(self._usage, "prompt_tokens"), _count(self._usage, "completion_tokens")
        details = self._usage.get("prompt_tokens_details")
        cached = _count(details, "cached_tokens") if isinstance(details, Mapping) else 0
        cached = min(prompt, cached or _count(self._usage, "prompt_cache_hit_tokens"))
        cost = self._price.cost(prompt, cached, completion)
        return Usage(
            calls=1,
            prompt_tokens=prompt,
            cached_tokens=cached,
            completion_tokens=completion,
            seconds=seconds,
            cost_usd=cost,
        )


def error_message(body: Any) -> str:
    """The words of an error body: OpenAI's, FastAPI's (`detail`), or whatever there is. One line."""
    return " ".join(_error_words(body).split())[:600] or "no message"


def _error_words(body: Any) -> str:
    if isinstance(body, Mapping):
        for key in ("message", "error", "detail", "msg"):
            if value := body.get(key):
                words = _error_words(value)
                where = body.get("loc")
                return f"{'.'.join(map(str, where))}: {words}" if isinstance(where, Sequence) else words
        return str(dict(body))
    if isinstance(body, Sequence) and not isinstance(body, str | bytes):
        return "; ".join(_error_words(item) for item in body)
    return "" if body is None else str(body)


def _text_of(value: Any) -> str:
    """Text that is a string, or a list of text parts; anything else is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return "".join(_text_of(part.get("text")) for part in value if isinstance(part, Mapping))
    return ""


def _count(fields: Mapping[str, Any], key: str) -> int:
    value = fields.get(key)
    return max(0, value) if isinstance(value, int) else 0
