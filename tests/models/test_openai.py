"""The OpenAI-compatible client against a real server on loopback."""

import asyncio
import email.utils
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.models.chat_server import Answer, ChatServer, Script, chat, error, events, serving
from worldlm.core.errors import InputError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Closes, CountsTokens, Model, StreamsCompletion
from worldlm.core.types import Completion, Delta, Message, Sampling
from worldlm.models import OpenAIModel, Price
from worldlm.models.openai import endpoint, retry_after

pytestmark = pytest.mark.anyio

ASK = [Message(role="system", content="You are a terminal."), Message(role="user", content="ls")]
SAMPLING = Sampling(temperature=0.6, top_p=0.9, top_k=20, max_tokens=64, seed=7, stop=("END",))


@asynccontextmanager
async def asking(
    script: Script | Sequence[Answer], models: Sequence[str] = (), **options: Any
) -> AsyncIterator[tuple[OpenAIModel, ChatServer]]:
    with serving(script, models) as server:
        model = OpenAIModel("some-model", server.url, **{"backoff_s": 0.001, "deadline_s": 30, **options})
        try:
            yield model, server
        finally:
            await model.close()
            await model.close()


async def ask(script: Script | Sequence[Answer], sampling: Sampling = SAMPLING, **options: Any) -> Completion:
    async with asking(script, **options) as (model, _):
        return await model.complete(ASK, sampling)


async def streamed(model: OpenAIModel) -> tuple[list[Delta], Completion]:
    items = [item async for item in model.stream(ASK, SAMPLING)]
    deltas = [item for item in items[:-1] if isinstance(item, Delta)]
    assert len(deltas) == len(items) - 1
    assert isinstance(items[-1], Completion)
    return deltas, items[-1]


async def test_request_and_answer() -> None:
    async with asking([chat("a\nb", finish="stop")], api_key="sk-secret", price=Price(1.0, 2.0, 0.5)) as (
        model,
        server,
    ):
        completion = await model.complete(ASK, SAMPLING)
    assert completion.text == "a\nb"
    assert completion.outcome is Outcome.OK
    assert completion.finish == "stop"
    assert completion.model == "served"
    usage = completion.usage
    assert (usage.calls, usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (1, 10, 4, 5)
    assert usage.cost_usd == pytest.approx((6 * 1.0 + 4 * 0.5 + 5 * 2.0) / 1e6)
    assert usage.seconds > 0
    assert server.bodies == [
        {
            "model": "some-model",
            "messages": [{"role": "system", "content": "You are a terminal."}, {"role": "user", "content": "ls"}],
            "temperature": 0.6,
            "top_p": 0.9,
            "top_k": 20,
            "max_tokens": 64,
            "seed": 7,
            "stop": ["END"],
        }
    ]
    assert server.headers[0]["authorization"] == "Bearer sk-secret"


async def test_what_is_not_set_is_not_sent_and_extra_body_is() -> None:
    extra = {"chat_template_kwargs": {"enable_thinking": False}}
    async with asking([chat()], extra_body=extra) as (model, server):
        await model.complete(ASK, Sampling())
    assert set(server.bodies[0]) == {"model", "messages", "chat_template_kwargs"}
    plain = OpenAIModel("some-model", server.url)
    assert model.name != plain.name
    assert plain.name == f"some-model@{server.url}"


def test_powers() -> None:
    model = OpenAIModel("m", "http://127.0.0.1:1")
    assert isinstance(model, Model)
    assert isinstance(model, StreamsCompletion)
    assert isinstance(model, Closes)
    assert not isinstance(model, CountsTokens)


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
async def test_thinking_in_a_field_of_its_own(key: str) -> None:
    completion = await ask([chat("seen", **{key: "hm"})])
    assert (completion.text, completion.thinking) == ("seen", "hm")


async def test_content_null_at_the_length_limit_is_cut_off_and_not_an_answer() -> None:
    completion = await ask([chat(None, finish="length", reasoning_content="still thinking")])
    assert (completion.text, completion.thinking, completion.finish) == ("", "still thinking", "length")
    assert completion.outcome is Outcome.OK  # the reader of replies makes it CUT_OFF


async def test_content_as_a_list_of_parts() -> None:
    completion = await ask([chat([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])])  # type: ignore[arg-type]
    assert completion.text == "ab"


async def test_empty_text_is_left_to_the_reader() -> None:
    completion = await ask([chat("")])
    assert (completion.text, completion.outcome, completion.finish) == ("", Outcome.OK, "stop")


@pytest.mark.parametrize(
    "answer", [chat("half", finish="content_filter"), chat(None, refusal="I will not.")], ids=["filter", "refusal"]
)
async def test_refused(answer: Answer) -> None:
    completion = await ask([answer])
    assert (completion.finish, completion.outcome, completion.text) == ("refused", Outcome.MODEL_FAILED, "")
    assert completion.detail


@pytest.mark.parametrize(
    "answer",
    [
        Answer({"object": "chat.completion"}),
        Answer({"choices": []}),
        Answer({"choices": None}),
        Answer({"choices": ["what"]}),
        Answer({"error": {"message": "upstream is down", "code": 502}}),
        Answer("<html>hello from a proxy</html>"),
        Answer(""),
        Answer([1, 2]),
        Answer({"choices": [{"message": {"content": "x"}, "finish_reason": None}]}),
        chat("half", finish="abort"),
    ],
)
async def test_http_200_without_an_answer_is_no_answer(answer: Answer) -> None:
    completion = await ask([answer])
    assert (completion.outcome, completion.text, completion.finish) == (Outcome.INFRASTRUCTURE_FAILED, "", "error")
    assert completion.detail


async def test_lone_surrogates_are_replaced() -> None:
    body = '{"choices": [{"message": {"content": "a\\ud83db"}, "finish_reason": "stop"}]}'
    completion = await ask([Answer(body)])
    assert completion.text == "a\ufffdb"
    completion.model_dump_json()


# Parameters that are refused.

REFUSALS = [
    (
        error(
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
            param="max_tokens",
            code="unsupported_parameter",
        ),
        "max_tokens",
        "max_completion_tokens",
    ),
    (
        error(
            400,
            "Unsupported value: 'temperature' does not support 0.6 with this model. "
            "Only the default (1) value is supported.",
            param="temperature",
            code="unsupported_value",
        ),
        "temperature",
        None,
    ),
    (error(400, "`temperature` is deprecated for this model."), "temperature", None),
    (error(400, "temperature and top_p cannot both be specified for this model."), "top_p", None),
    (error(400, "Unrecognized request argument supplied: top_k"), "top_k", None),
    (error(400, "Unsupported parameter: 'stop' is not supported with this model.", param="stop"), "stop", None),
    (error(400, "property 'seed' is unsupported"), "seed", None),
    (
        Answer(
            {
                "detail": [
                    {"type": "extra_forbidden", "loc": ["body", "top_k"], "msg": "Extra inputs are not permitted"}
                ]
            },
            422,
        ),
        "top_k",
        None,
    ),
]


@pytest.mark.parametrize(("refusal", "field", "instead"), REFUSALS)
async def test_a_refused_parameter_is_adapted_once_and_remembered(
    refusal: Answer, field: str, instead: str | None
) -> None:
    def script(body: dict[str, Any], index: int) -> Answer:
        return refusal if field in body else chat()

    async with asking(script) as (model, server):
        first = await model.complete(ASK, SAMPLING)
        second = await model.complete(ASK, SAMPLING)
        _, third = await streamed_text(model, server)
    assert [first.text, second.text] == ["hello", "hello"]
    assert model.adaptations == {field: instead}
    assert [field in body for body in server.bodies] == [True, False, False, False]
    if instead:
        assert server.bodies[-1][instead] == 64
    assert third.outcome is Outcome.INFRASTRUCTURE_FAILED  # this server cannot stream: it answers with one JSON


@pytest.mark.parametrize(
    "words",
    [
        "This response_format type is unavailable now",
        "'response_format.type' must be 'json_schema' or 'text'",
        "the model does not support response format `json_schema`",
        "Invalid schema for response_format 'verdict'",
    ],
)
async def test_a_server_without_structured_output_is_asked_plainly(words: str) -> None:
    def script(body: dict[str, Any], index: int) -> Answer:
        return error(400, words) if "response_format" in body else chat()

    async with asking(script, extra_body={"response_format": {"type": "json_schema"}}) as (model, server):
        replies = [await model.complete(ASK, SAMPLING) for _ in range(2)]
    assert [reply.text for reply in replies] == ["hello", "hello"]
    assert ["response_format" in body for body in server.bodies] == [True, False, False]


async def streamed_text(model: OpenAIModel, server: ChatServer) -> tuple[list[Delta], Completion]:
    return await streamed(model)


async def test_several_refused_parameters_and_parallel_calls() -> None:
    def script(body: dict[str, Any], index: int) -> Answer:
        for field in ("temperature", "top_k", "max_tokens"):
            if field in body:
                return error(400, f"Unsupported parameter: '{field}'", param=field)
        return chat()

    async with asking(script) as (model, server):
        completions = await asyncio.gather(*(model.complete(ASK, SAMPLING) for _ in range(8)))
        asked = len(server.bodies)
        await model.complete(ASK, SAMPLING)
    assert all(completion.outcome is Outcome.OK for completion in completions)
    assert len(server.bodies) == asked + 1
    assert model.adaptations == {"max_tokens": "max_completion_tokens", "temperature": None, "top_k": None}


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 64. This model supports at most 16 completion tokens.",
        "messages: roles must alternate",
    ],
)
async def test_another_400_is_the_providers_word_and_not_retried(message: str) -> None:
    async with asking([error(400, message)]) as (model, server):
        completion = await model.complete(ASK, SAMPLING)
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert message in (completion.detail or "")
    assert len(server.bodies) == 1


async def test_both_names_refused_ends() -> None:
    def script(body: dict[str, Any], index: int) -> Answer:
        field = "max_tokens" if "max_tokens" in body else "max_completion_tokens"
        return error(400, f"Unsupported parameter: '{field}'", param=field)

    async with asking(script) as (model, server):
        completion = await model.complete(ASK, SAMPLING)
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert len(server.bodies) == 2


# A prompt that is too long.

OVERFLOWS = [
    error(
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        code="context_length_exceeded",
    ),
    error(400, "Your input exceeds the context window of this model. Please adjust your input and try again."),
    Answer(
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens "
            "(4000 in the messages, 1000 in the completion). Please reduce the length of the messages or completion.",
            "type": "BadRequestError",
            "code": 400,
        },
        400,
    ),
    error(
        400,
        "'max_tokens' or 'max_completion_tokens' is too large: 64. This model's maximum context length is 32 "
        "tokens and your request has 10 input tokens.",
    ),
    Answer(
        {
            "object": "error",
            "message": "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
            "code": 400,
        },
        400,
    ),
    error(
        400,
        "request (18031 tokens) exceeds the available context size (8192 tokens), try increasing it",
        type="exceed_context_size_error",
    ),
    error(400, "the input length exceeds the context length"),
    Answer({"error": "prompt too long; exceeded max context length by 200 tokens"}, 400),
    error(400, "prompt is too long: 210000 tokens > 200000 maximum"),
    error(400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
    error(400, "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"),
    error(413, "Request Entity Too Large"),
    Answer({"detail": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"}, 422),
]


@pytest.mark.parametrize("answer", OVERFLOWS)
@pytest.mark.parametrize("streaming", [False, True])
async def test_context_overflow_is_recognised(answer: Answer, streaming: bool) -> None:
    async with asking([answer]) as (model, server):
        completion = (await streamed(model))[1] if streaming else await model.complete(ASK, SAMPLING)
    assert completion.finish == "context_overflow"
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert completion.detail
    assert len(server.bodies) == 1
    assert model.adaptations == {}


# Trying again.


async def test_server_errors_are_tried_again() -> None:
    async with asking([error(500, "a"), error(503, "b"), error(429, "c"), chat()]) as (model, server):
        completion = await model.complete(ASK, SAMPLING)
    assert (completion.text, len(server.bodies)) == ("hello", 4)


async def test_tries_are_bounded_and_never_become_text() -> None:
    async with asking([error(500, "boom")], max_retries=3) as (model, server):
        completion = await model.complete(ASK, SAMPLING)
    assert (completion.outcome, completion.text) == (Outcome.INFRASTRUCTURE_FAILED, "")
    assert len(server.bodies) == 4
    for part in (server.url, "HTTP 500", "boom", "4 tries"):
        assert part in (completion.detail or "")


async def test_some_of_many_calls_fail_and_only_they() -> None:
    def script(body: dict[str, Any], index: int) -> Answer:
        number = int(body["messages"][-1]["content"])
        return error(500, "boom") if number in (2, 5, 7) else chat(str(number))

    async with asking(script, max_retries=0) as (model, _):
        asks = [[Message(role="user", content=str(number))] for number in range(10)]
        completions = await asyncio.gather(*(model.complete(messages, SAMPLING) for messages in asks))
    failed = [number for number, completion in enumerate(completions) if completion.outcome is not Outcome.OK]
    assert failed == [2, 5, 7]
    assert [completion.text for completion in completions] == ["0", "1", "", "3", "4", "", "6", "", "8", "9"]


@pytest.mark.parametrize("how", ["seconds", "date", "milliseconds"])
async def test_retry_after_is_honoured(how: str) -> None:
    def script(body: dict[str, Any], index: int) -> Answer:
        headers = {
            "seconds": {"Retry-After": "1"},
            "date": {"Retry-After": email.utils.formatdate(time.time() + 2, usegmt=True)},
            "milliseconds": {"retry-after-ms": "900"},
        }
        return chat() if index else error(429, "slow down", headers[how])

    async with asking(script) as (model, server):
        completion = await model.complete(ASK, SAMPLING)
    assert completion.text == "hello"
    assert server.times[1] - server.times[0] > 0.5  # the server's word, and not our back-off of a millisecond


@pytest.mark.parametrize(
    "value", ["3600", email.utils.formatdate(time.time() + 3600, usegmt=True)], ids=["seconds", "date"]
)
async def test_retry_after_beyond_the_deadline_is_not_waited_for(value: str) -> None:
    async with asking([error(429, "slow down", {"Retry-After": value})]) as (model, server):
        completion = await model.complete(ASK, SAMPLING)
    assert completion.outcome is Outcome.TIMED_OUT
    assert "slow down" in (completion.detail or "")
    assert len(server.bodies) == 1


@pytest.mark.parametrize("value", ["soon", "nan", "inf", "-5", ""])
def test_a_retry_after_that_is_none(value: str) -> None:
    assert retry_after({"retry-after": value}) in (None, 0.0)


async def test_an_exhausted_quota_is_not_waited_for() -> None:
    async with asking([error(429, "You exceeded your quota", code="insufficient_quota")]) as (model, server):
        completion = await model.complete(ASK, SAMPLING)
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert len(server.bodies) == 1


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_hanging_server_meets_the_deadline(streaming: bool) -> None:
    async with asking([Answer(chat().body, delay=5)], deadline_s=0.2) as (model, _):
        completion = (await streamed(model))[1] if streaming else await model.complete(ASK, SAMPLING)
    assert completion.outcome is Outcome.TIMED_OUT
    assert "0.2 s" in (completion.detail or "")


async def test_a_stream_that_stalls_meets_the_deadline() -> None:
    async with asking([Answer(events=events({"content": "a"}, {"content": "b"}), delay=5)], deadline_s=1.0) as (m, _):
        deltas, completion = await streamed(m)
    assert [delta.text for delta in deltas] == ["a"]
    assert (completion.outcome, completion.text) == (Outcome.TIMED_OUT, "")


async def test_silence_between_pieces_is_bounded_by_read_s() -> None:
    async with asking([Answer(chat().body, delay=5)], read_s=0.1, max_retries=1) as (model, server):
        completion = await model.complete(ASK, SAMPLING)
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert len(server.bodies) == 2


async def test_unreachable_says_url_tries_and_cure() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model = OpenAIModel("m", f"http://127.0.0.1:{port}/v1", max_retries=2, backoff_s=0.001)
    completion = await model.complete(ASK, SAMPLING)
    await model.close()
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    for part in (f"http://127.0.0.1:{port}/v1", "Connection refused", "3 tries", "start the server", "--model"):
        assert part in (completion.detail or "")


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_names_the_cure_and_not_the_key(status: int) -> None:
    async with asking([error(status, "Incorrect API key: sk-secret")], api_key="sk-secret") as (model, server):
        completion = await model.complete(ASK, SAMPLING)
    detail = completion.detail or ""
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert "WORLDLM_API_KEY" in detail
    assert "Incorrect API key" in detail
    assert "sk-secret" not in detail
    assert len(server.bodies) == 1


async def test_an_unknown_model_names_those_of_the_server() -> None:
    answer = error(404, "The model `some-model` does not exist.")
    async with asking([answer], models=["some-modal", "other"]) as (model, server):
        completion = await model.complete(ASK, SAMPLING)
    assert "does not exist" in (completion.detail or "")
    assert "some-modal" in (completion.detail or "")
    assert len(server.bodies) == 1


async def test_a_wrong_path_says_to_check_the_url() -> None:
    completion = await ask([Answer("<h1>Not Found</h1>", 404)])
    assert "check the URL" in (completion.detail or "")


# Streaming.


async def test_streaming() -> None:
    pieces = events(
        {"role": "assistant", "content": None}, {"reasoning_content": "hm"}, {"content": "a"}, {"content": "b"}
    )
    async with asking([Answer(events=pieces)]) as (model, server):
        deltas, completion = await streamed(model)
    assert deltas == [Delta(thinking="hm"), Delta(text="a"), Delta(text="b")]
    assert (completion.text, completion.thinking, completion.finish) == ("ab", "hm", "stop")
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (10, 5)
    assert server.bodies[0]["stream"] is True
    assert server.bodies[0]["stream_options"] == {"include_usage": True}


async def test_a_server_that_knows_no_stream_options() -> None:
    def script(body: dict[str, Any], index: int) -> Answer:
        if "stream_options" in body:
            return error(400, "Unknown field: stream_options")
        return Answer(events=events({"content": "a"}))

    async with asking(script) as (model, _):
        _, completion = await streamed(model)
    assert completion.text == "a"


BROKEN = {
    "no end": Answer(events=events({"content": "half"}, finish=None)),
    "dropped": Answer(events=events({"content": "half"}, finish=None), broken=True),
    "not JSON": Answer(events=[*events({"content": "half"}, finish=None), "{oops"]),
    "error event": Answer(events=[*events({"content": "half"}, finish=None), {"error": {"message": "out of memory"}}]),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_stream_that_breaks_off_is_no_answer_and_is_not_repeated(how: str) -> None:
    async with asking([BROKEN[how]]) as (model, server):
        deltas, completion = await streamed(model)
    assert [delta.text for delta in deltas] == ["half"]
    assert (completion.outcome, completion.text) == (Outcome.INFRASTRUCTURE_FAILED, "")
    assert completion.detail
    assert len(server.bodies) == 1


async def test_a_stream_that_breaks_before_its_first_piece_is_tried_again() -> None:
    async with asking([Answer(events=[], broken=True), Answer(events=events({"content": "a"}))]) as (model, server):
        deltas, completion = await streamed(model)
    assert (completion.text, len(deltas), len(server.bodies)) == ("a", 1, 2)


# Many at once, and leaving.


async def test_calls_overlap_up_to_the_concurrency() -> None:
    async with asking([Answer(chat().body, delay=0.1)], concurrency=25) as (model, server):
        completions = await asyncio.gather(*(model.complete(ASK, SAMPLING) for _ in range(50)))
    assert all(completion.outcome is Outcome.OK for completion in completions)
    assert 20 <= server.peak <= 25
    assert len(server.bodies) == 50


async def test_waiting_for_a_place_does_not_count_against_the_deadline() -> None:
    async with asking([Answer(chat().body, delay=0.3)], concurrency=1, deadline_s=0.9) as (model, _):
        completions = await asyncio.gather(*(model.complete(ASK, SAMPLING) for _ in range(5)))
    assert [completion.outcome for completion in completions] == [Outcome.OK] * 5


async def test_cancelling_closes_the_connection() -> None:
    async with asking([Answer(events=events(*[{"content": "x"}] * 500), delay=0.01)]) as (model, server):

        async def read() -> None:
            async for _ in model.stream(ASK, SAMPLING):
                pass

        task = asyncio.create_task(read())
        for _ in range(300):
            if server.bodies:
                break
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(300):
            if server.dropped:
                break
            await asyncio.sleep(0.01)
    assert server.dropped == 1


async def test_leaving_a_stream_early_closes_it() -> None:
    async with asking([Answer(events=events(*[{"content": "x"}] * 500), delay=0.01)]) as (model, server):
        stream = model.stream(ASK, SAMPLING)
        async for _ in stream:
            break
        await stream.aclose()  # type: ignore[attr-defined]
        for _ in range(300):
            if server.dropped:
                break
            await asyncio.sleep(0.01)
    assert server.dropped == 1


def test_one_model_in_two_event_loops() -> None:
    with serving([chat()]) as server:
        model = OpenAIModel("m", server.url)

        async def once() -> Completion:
            completion = await model.complete(ASK, SAMPLING)
            await model.close()
            return completion

        texts = [asyncio.run(once()).text, asyncio.run(once()).text]
    assert texts == ["hello", "hello"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://localhost:8000", "http://localhost:8000/v1"),
        ("http://localhost:8000/", "http://localhost:8000/v1"),
        ("http://localhost:8000/v1/", "http://localhost:8000/v1"),
        ("https://host/api/v3/chat/completions", "https://host/api/v3"),
    ],
)
def test_base_urls(given: str, expected: str) -> None:
    assert endpoint(given) == expected


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://host/v1", "http://"])
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(InputError, match="http://127"):
        OpenAIModel("m", url)


def test_a_password_in_a_url_stays_out_of_the_name() -> None:
    assert OpenAIModel("m", "https://me:secret@host/v1?key=secret").name == "m@https://host/v1"


def test_importing_the_room_loads_neither_openai_nor_llama_cpp() -> None:
    program = "import sys, worldlm.models; print(sorted({'aiohttp', 'openai', 'xllamacpp'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://h:abc/v1", "http://h:99999", "http://ho st/v1", "http://h\x00/v1"]
)
def test_a_url_that_cannot_be_one_is_an_input_error(url: str) -> None:
    with pytest.raises(InputError, match="not a URL"):
        endpoint(url)


def test_a_key_that_cannot_be_one_is_an_input_error_and_is_not_shown() -> None:
    OpenAIModel("m", "http://127.0.0.1:9", "sk-secret\r\n")
    for key in ("sk-s\u00e9cret", "sk-secret\nsk-other"):
        with pytest.raises(InputError, match="WORLDLM_API_KEY") as refusal:
            OpenAIModel("m", "http://127.0.0.1:9", key)
        assert "sk-" not in str(refusal.value)
