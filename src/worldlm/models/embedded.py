"""A GGUF model in this process, by llama.cpp (`xllamacpp`): no server to start, no key, no GPU.

llama.cpp has a number of slots, each with a context of its own. A session's next prompt goes to the slot
whose content it continues, so only what is new is evaluated; several requests are decoded as one batch.
"""

import asyncio
import contextlib
import http.client
import json
import os
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from worldlm.core.errors import SetupError
from worldlm.core.outcomes import Outcome
from worldlm.core.text import goes_round
from worldlm.core.types import Completion, Delta, Message, Sampling
from worldlm.models.weights import file_sha256
from worldlm.models.wire import ReplyReader, chat_messages, error_message, failed, overflowed, sampling_fields

BATCH = 512
"""Prompt tokens evaluated at a time: how soon a cancelled call stops while it reads its prompt."""
PROMPT_CACHE_MIB = 512
"""Memory for the prompts of sessions that lost their slot to another."""
DETERMINISTIC_SEED = 0
COUNTED = 4096
"""Texts whose length in tokens is remembered."""


class EmbeddedModel:
    """A model out of a GGUF file. Satisfies `Model`, `StreamsCompletion`, `CountsTokens` and `Closes`.

    `slots` requests run at the same time, each with up to `context` tokens of prompt and reply; further
    ones wait. `lora` is an adapter in GGUF. `threads` is None for all processors that we may use. In
    `deterministic` mode the same request always gives the same text: one slot, temperature 0, nothing
    reused from one prompt to the next (llama.cpp's sums depend on how work is batched).

    The weights are loaded at first use, or by `load`. A call that is cancelled stops generating, and so does a reply
    that goes round (`core.text.goes_round`): it is cut off as at the length limit, only sooner.
    """

    def __init__(
        self,
        weights: Path,
        *,
        lora: Path | None = None,
        label: str | None = None,
        slots: int = 4,
        context: int = 8192,
        threads: int | None = None,
        deterministic: bool = False,
    ):
        """Cheap. Raises SetupError when a file is missing or is not GGUF."""
        for path in (weights, lora):
            if path is not None:
                _check_gguf(path)
        self.weights = weights
        self.lora = lora
        self.slots = 1 if deterministic else slots
        self.context = context
        self.deterministic = deterministic
        self._label = label or weights.stem
        self._whole_label = f"{self._label}+{lora.stem}" if lora else self._label
        self.threads = threads or _processors()
        self._key = secrets.token_urlsafe(16)
        self._loading = threading.Lock()
        self._server: Any = None
        self._pool = ThreadPoolExecutor(self.slots, thread_name_prefix="worldlm-embedded")
        self._running: set[threading.Event] = set()
        self._counting = threading.Lock()
        self._tokenizer: http.client.HTTPConnection | None = None
        self.count_tokens: Callable[[str], int] = lru_cache(COUNTED)(self._count_tokens)
        """Tokens of a text, exactly, without any chat template around it."""

    @cached_property
    def name(self) -> str:
        """The label with the digests of weights and adapter, and whether deterministic."""
        parts = [f"{self._label}@{file_sha256(self.weights)[:12]}"]
        if self.lora is not None:
            parts.append(f"{self.lora.stem}@{file_sha256(self.lora)[:12]}")
        return "+".join(parts) + ("/deterministic" if self.deterministic else "")

    def load(self) -> None:
        """Load the weights, unless they are loaded. Blocks (a second or so for the default model).

        Raises SetupError for a damaged file, or one that this llama.cpp does not know.
        """
        self._engine()

    @property
    def url(self) -> str:
        """Base URL of this engine as an OpenAI-compatible server on loopback; it asks for `api_key`."""
        return f"{self._engine().listening_address}/v1"

    @property
    def api_key(self) -> str:
        """Made anew for each object, so that nobody else on the machine can use the engine."""
        return self._key

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """One answer, in one piece."""
        return await self._run(messages, sampling, None)

    async def stream(self, messages: Sequence[Message], sampling: Sampling) -> AsyncIterator[Delta | Completion]:
        """The answer token by token."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[Delta | None] = asyncio.Queue()

        def show(delta: Delta) -> None:
            loop.call_soon_threadsafe(pieces.put_nowait, delta)

        task = loop.create_task(self._run(messages, sampling, show))
        task.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            yield task.result()
        finally:
            task.cancel()

    async def close(self) -> None:
        """Free the engine. Calls that are running are stopped; later ones load it again."""
        for cancelled in list(self._running):
            cancelled.set()
        pool, self._pool = self._pool, ThreadPoolExecutor(self.slots, thread_name_prefix="worldlm-embedded")
        pool.shutdown(wait=False)
        with self._counting, self._loading:
            if self._tokenizer is not None:
                self._tokenizer.close()
            self._tokenizer = self._server = None

    # In the worker threads.

    async def _run(
        self, messages: Sequence[Message], sampling: Sampling, show: Callable[[Delta], None] | None
    ) -> Completion:
        cancelled = threading.Event()
        self._running.add(cancelled)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._pool, self._generate, messages, sampling, cancelled, show)
        finally:
            cancelled.set()
            self._running.discard(cancelled)

    def _generate(
        self,
        messages: Sequence[Message],
        sampling: Sampling,
        cancelled: threading.Event,
        show: Callable[[Delta], None] | None,
    ) -> Completion:
        started = time.monotonic()
        reader = ReplyReader()
        overflow: list[str] = []
        text = ""

        def take(chunk: Any) -> bool:
            """One chunk from llama.cpp; True stops it. Progress reports come here too, so a prompt can be stopped."""
            nonlocal text
            error = chunk.get("error") if isinstance(chunk, dict) else None
            if isinstance(error, dict) and error.get("type") == "exceed_context_size_error":
                overflow.append(error_message(error))
            elif (delta := reader.feed(chunk)) and not cancelled.is_set():
                text += delta.text
                if show:
                    show(delta)
                if goes_round(text):  # it would until the length limit
                    reader.feed(_cut_off(chunk.get("timings", {})))
                    return True
            return cancelled.is_set()

        try:
            if not cancelled.is_set():
                self._engine().handle_chat_completions(self._body(messages, sampling), take)
        except SetupError as error:
            return failed(Outcome.INFRASTRUCTURE_FAILED, str(error))
        except Exception as error:
            detail = f"llama.cpp refused the request: {error}"
            return failed(Outcome.INFRASTRUCTURE_FAILED, detail)
        if overflow:
            return overflowed(overflow[0])
        if cancelled.is_set():
            return failed(Outcome.CANCELLED, "the call was cancelled")
        return reader.completion(time.monotonic() - started).model_copy(update={"model": self._whole_label})

    def _body(self, messages: Sequence[Message], sampling: Sampling) -> dict[str, Any]:
        body = sampling_fields(sampling)
        if self.deterministic:
            body |= {"temperature": 0.0, "seed": DETERMINISTIC_SEED}
        return {
            "messages": chat_messages(messages),
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,
            "timings_per_token": True,  # what a reply that is stopped has cost
            **body,
        }

    def _engine(self) -> Any:
        with self._loading:
            if self._server is None:
                self._server = self._start()
            return self._server

    def _start(self) -> Any:
        # llama.cpp's threads wait for each other many times a token, by default spinning. When the processors are busy
        # with anything else, two threads then get in each other's way; spinning briefly and then sleeping is several
        # times faster there, and as fast on an idle machine. (OpenMP reads this when it is loaded.)
        if "OMP_WAIT_POLICY" not in os.environ:
            os.environ.setdefault("GOMP_SPINCOUNT", "1000")
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(self.weights)
        params.model_alias = {self._whole_label}
        if self.lora is not None:
            params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(self.lora), 1.0)]
        params.n_parallel = self.slots
        params.n_ctx = self.context * self.slots
        params.fit_params = False  # the context is what was asked for, not what llama.cpp thinks fits
        params.n_batch = BATCH
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = self.threads
        params.cache_prompt = not self.deterministic
        params.cache_ram_mib = 0 if self.deterministic else PROMPT_CACHE_MIB
        # What is in a reply is text: no tool calls, no thinking taken out (the reader of replies does that).
        params.force_pure_content_parser = True
        params.verbosity = -1
        params.warmup = False
        # It listens on loopback; nobody else shall use it, nor read there what sessions hold.
        params.api_keys = [self._key]
        params.endpoint_slots = False
        params.ui = False
        try:
            return xllamacpp.Server(params)
        except RuntimeError as error:
            files = " or ".join(str(path) for path in (self.weights, self.lora) if path is not None)
            raise SetupError(
                f"llama.cpp cannot load {files}: damaged, or an architecture that xllamacpp "
                f"{xllamacpp.__version__} does not know (or {self.slots} × {self.context} tokens of context do not "
                "fit in memory); for the default weights run `worldlm models pull --force`"
            ) from error

    # Counting tokens and probabilities: llama.cpp's own are reached through its server.

    def _count_tokens(self, text: str) -> int:
        return len(self._post("/tokenize", {"content": text})["tokens"])

    def likeliest(self, ids: Sequence[int], most: int) -> dict[int, float]:
        """The `most` likeliest tokens after `ids`, each with its log-probability (of the softmax, unscaled). Blocks.

        Successive calls whose `ids` go on from each other evaluate only what is new. Raises SetupError when llama.cpp
        refuses.
        """
        body = {"prompt": list(ids), "n_predict": 1, "n_probs": most, "temperature": 0.0, "cache_prompt": True}
        answer = self._post("/completion", {**body, "post_sampling_probs": False, "id_slot": 0})
        try:
            return {entry["id"]: entry["logprob"] for entry in answer["completion_probabilities"][0]["top_logprobs"]}
        except (KeyError, IndexError) as error:
            raise SetupError(f"llama.cpp gives no probabilities: {error_message(answer)}") from error

    def _post(self, path: str, fields: dict[str, Any]) -> Any:
        body = json.dumps(fields)
        with self._counting:
            for last in (False, True):
                connection = self._connection()
                try:
                    connection.request("POST", path, body, self._headers)
                    return json.loads(connection.getresponse().read())
                except (OSError, http.client.HTTPException) as error:  # an idle connection was closed
                    connection.close()
                    if last:
                        raise SetupError(f"llama.cpp does not answer: {error}") from error
        raise AssertionError("unreachable")

    def _connection(self) -> http.client.HTTPConnection:
        if self._tokenizer is None:
            address = urlsplit(self._engine().listening_address)
            self._tokenizer = http.client.HTTPConnection(address.hostname or "127.0.0.1", address.port, timeout=600)
        return self._tokenizer

    @property
    def _headers(self) -> dict[str, str]:
        return {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}


def _cut_off(timings: dict[str, int]) -> dict[str, Any]:
    """The last chunk of a reply that is cut off here, as llama.cpp would have sent it at the length limit."""
    fresh, cached, replied = (timings.get(key, 0) for key in ("prompt_n", "cache_n", "predicted_n"))
    usage = {
        "prompt_tokens": fresh + cached,
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens": replied,
    }
    return {"choices": [{"finish_reason": "length"}], "usage": usage}


def _check_gguf(path: Path) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise SetupError(
            f"cannot read {path}: {error.strerror or error}; `worldlm models pull` fetches the default weights, "
            "`--model embedded:PATH` takes another GGUF file"
        ) from error
    if magic != b"GGUF":
        raise SetupError(f"{path} is not a GGUF file (damaged, or another format); give a file that llama.cpp reads")


def _processors() -> int:
    with contextlib.suppress(AttributeError):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
