"""What lies between the client and a server: connections, proxies, certificates, redirects, compressed answers."""

import asyncio
import base64
import gzip
import json
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.models.chat_server import chat, events, serving
from tests.models.raw_server import Asked, RawServer, answer, talking
from worldlm.core.errors import InputError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Completion, Message, Sampling
from worldlm.models import OpenAIModel
from worldlm.models.connection import proxy_for

pytestmark = pytest.mark.anyio

ASK = [Message(role="user", content="ls")]
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    others = ("SSL_CERT_FILE", "SSL_CERT_DIR", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS")
    for name in (*PROXIES, *map(str.upper, PROXIES), *others):
        monkeypatch.delenv(name, raising=False)


@asynccontextmanager
async def asking(
    reply: Callable[[Asked], bytes | None], **options: Any
) -> AsyncIterator[tuple[OpenAIModel, RawServer]]:
    async with talking(reply) as server:
        model = OpenAIModel("some-model", server.url, **{"backoff_s": 0.001, "deadline_s": 30, **options})
        try:
            yield model, server
        finally:
            await model.close()


async def asked_once(url: str, **options: Any) -> Completion:
    model = OpenAIModel("some-model", url, **{"backoff_s": 0.001, "deadline_s": 30, "max_retries": 0, **options})
    try:
        return await model.complete(ASK, Sampling())
    finally:
        await model.close()


async def streamed(model: OpenAIModel) -> Completion:
    *_, last = [item async for item in model.stream(ASK, Sampling())]
    assert isinstance(last, Completion)
    return last


def event_stream(*pieces: str, ending: bytes = b"0\r\n\r\n", lines: str = "") -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n{lines}\r\n"
    chunks = [b"%x\r\n%s\r\n" % (len(piece.encode()), piece.encode()) for piece in pieces]
    return head.encode() + b"".join(chunks) + ending


def data(value: Any) -> str:
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n"


# Connections.


async def test_a_connection_serves_call_after_call() -> None:
    stream = event_stream(*map(data, events({"content": "a"})))
    async with asking(lambda asked: stream if asked.json.get("stream") else answer()) as (model, server):
        for _ in range(2):
            assert (await model.complete(ASK, Sampling())).text == "hello"
            assert (await streamed(model)).text == "a"
    assert (len(server.asked), server.connections) == (4, 1)


async def test_there_is_no_bound_on_connections() -> None:
    everybody = asyncio.Event()
    waiting = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal waiting
        await reader.readuntil(b"\r\n\r\n")
        waiting += 1
        if waiting == 150:
            everybody.set()
        await everybody.wait()
        writer.write(answer(None, "connection: close"))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=200)
    model = OpenAIModel("m", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", deadline_s=60)
    completions = await asyncio.gather(*(model.complete(ASK, Sampling()) for _ in range(150)))
    await model.close()
    server.close()
    assert {completion.outcome for completion in completions} == {Outcome.OK}


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_kept_connection_that_the_server_has_closed_is_no_failure_of_the_server(streaming: bool) -> None:
    stream = event_stream(*map(data, events({"content": "hello"})))

    def reply(asked: Asked) -> bytes | None:
        if asked.number:  # it was closed while the request was under way
            return None
        return stream if asked.json.get("stream") else answer()

    async with asking(reply, max_retries=0) as (model, server):
        for _ in range(3):
            completion = await streamed(model) if streaming else await model.complete(ASK, Sampling())
            assert (completion.outcome, completion.text) == (Outcome.OK, "hello")
    assert server.connections == 3


async def test_a_new_connection_that_the_server_closes_is_a_failure_of_the_server() -> None:
    async with asking(lambda asked: None, max_retries=2) as (model, server):
        completion = await model.complete(ASK, Sampling())
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert "3 tries" in (completion.detail or "")
    assert len(server.asked) == 3


async def test_a_kept_connection_that_redirects_to_a_server_that_closes_is_a_failure() -> None:
    async with talking(lambda asked: None) as dead:
        moved = answer(b"", f"location: {dead.url}", status="307 Temporary Redirect")
        async with asking(lambda asked: moved if asked.number else answer(), max_retries=1) as (model, _):
            assert (await model.complete(ASK, Sampling())).text == "hello"
            completion = await model.complete(ASK, Sampling())
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert len(dead.asked) == 2
    assert all("authorization" not in asked.headers for asked in dead.asked)  # a key is for its own server alone


async def test_connecting_is_bounded_by_connect_s_and_the_url_stays_out_of_the_words() -> None:
    with socket.socket() as silent:  # takes connections, and says nothing to the greeting of TLS
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/v1?key=secret"
        completion = await asked_once(url, connect_s=0.1)
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert "no connection" in (completion.detail or "")
    assert "secret" not in (completion.detail or "")


def test_a_model_that_nobody_closes_says_nothing() -> None:
    with serving([chat()]) as server:
        program = f"""
import asyncio
from worldlm.core.types import Message, Sampling
from worldlm.models import OpenAIModel

async def ask(model):
    return (await model.complete([Message(role="user", content="ls")], Sampling())).text

kept = OpenAIModel("m", {server.url!r})
print(asyncio.run(ask(kept)), asyncio.run(ask(kept)), asyncio.run(ask(OpenAIModel("m", {server.url!r}))))
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("hello hello hello\n", "")


# What is sent.


async def test_without_a_key_there_is_one_all_the_same() -> None:
    async with asking(lambda asked: answer()) as (model, server):
        await model.complete(ASK, Sampling())
    assert server.asked[0].headers["authorization"] == "Bearer none"
    assert server.asked[0].headers["content-type"] == "application/json"


async def test_a_password_in_the_url_is_sent_as_one_and_its_query_stays() -> None:
    async with talking(lambda asked: answer()) as server:
        url = server.url.replace("//", "//me:se%20cret@") + "?version=2"
        assert (await asked_once(url, api_key="sk-key")).text == "hello"
    sent = server.asked[0]
    assert sent.headers["authorization"] == "Basic " + base64.b64encode(b"me:se cret").decode()
    assert sent.target == "/v1/chat/completions?version=2"


async def test_headers_that_the_environment_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: blue\nX-Room: 7")
    async with asking(lambda asked: answer()) as (model, server):
        await model.complete(ASK, Sampling())
    headers = server.asked[0].headers
    names = ("openai-organization", "openai-project", "x-team", "x-room")
    assert [headers[name] for name in names] == ["org", "project", "blue", "7"]


async def test_a_long_prompt_arrives_whole() -> None:
    text = "é" * 1_500_000
    async with asking(lambda asked: answer()) as (model, server):
        completion = await model.complete([Message(role="user", content=text)], Sampling())
    assert completion.outcome is Outcome.OK
    assert server.asked[0].json["messages"][0]["content"] == text


async def test_cookies_come_back() -> None:
    async with asking(lambda asked: answer(None, "set-cookie: home=b7; path=/")) as (model, server):
        for _ in range(2):
            await model.complete(ASK, Sampling())
    assert [asked.headers.get("cookie") for asked in server.asked] == [None, "home=b7"]


# What comes back.


@pytest.mark.parametrize("status", ["307 Temporary Redirect", "308 Permanent Redirect"])
@pytest.mark.parametrize("length", [2, 1_500_000])
async def test_a_redirect_is_followed_with_the_body(status: str, length: int) -> None:
    def reply(asked: Asked) -> bytes:
        return answer() if asked.target == "/moved" else answer(b"", "location: /moved", status=status)

    async with asking(reply) as (model, server):
        completion = await model.complete([Message(role="user", content="x" * length)], Sampling())
    assert completion.text == "hello"
    assert [len(asked.json["messages"][0]["content"]) for asked in server.asked] == [length, length]


async def test_redirects_without_end_are_a_failure() -> None:
    async with asking(
        lambda asked: answer(b"", f"location: {asked.target}", status="307 Temporary Redirect"), max_retries=0
    ) as (model, _):
        completion = await model.complete(ASK, Sampling())
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert completion.detail


@pytest.mark.parametrize("status", ["304 Not Modified", "307 Temporary Redirect"])
async def test_a_status_that_is_neither_success_nor_error_is_a_failure(status: str) -> None:
    async with asking(lambda asked: answer(b"", status=status), max_retries=0) as (model, _):
        completion = await model.complete(ASK, Sampling())
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert f"HTTP {status[:3]}" in (completion.detail or "")


@pytest.mark.parametrize("content_type", ["text/plain; charset=latin-1", "application/octet-stream", "nonsense"])
async def test_the_content_type_does_not_matter(content_type: str) -> None:
    def reply(asked: Asked) -> bytes:
        if asked.json.get("stream"):
            stream = event_stream(*map(data, events({"content": "é"})))
            return stream.replace(b"text/event-stream", content_type.encode())
        return answer(json.dumps(chat("é").body, ensure_ascii=False).encode(), content_type=content_type)

    async with asking(reply) as (model, _):
        assert (await model.complete(ASK, Sampling())).text == "é"
        assert (await streamed(model)).text == "é"


async def test_compressed_answers() -> None:
    def reply(asked: Asked) -> bytes:
        assert "gzip" in asked.headers["accept-encoding"]
        if asked.json.get("stream"):
            body = gzip.compress("".join(map(data, events({"content": "hello"}))).encode())
            return answer(body, "content-encoding: gzip", content_type="text/event-stream")
        return answer(gzip.compress(json.dumps(chat().body).encode()), "content-encoding: gzip")

    async with asking(reply) as (model, _):
        assert (await model.complete(ASK, Sampling())).text == "hello"
        assert (await streamed(model)).text == "hello"


async def test_long_headers() -> None:
    async with asking(lambda asked: answer(None, f"content-security-policy: {'x' * 20_000}")) as (model, _):
        assert (await model.complete(ASK, Sampling())).text == "hello"


async def test_an_answer_that_is_not_http_is_a_failure() -> None:
    async with asking(lambda asked: b"SSH-2.0-OpenSSH_9.2\r\n\r\n", max_retries=1) as (model, server):
        completion = await model.complete(ASK, Sampling())
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert len(server.asked) == 2


async def test_a_connection_that_was_left_in_the_middle_of_an_answer_is_not_used_again() -> None:
    async with asking(lambda asked: answer() if asked.connection else answer()[:-5]) as (model, server):
        task = asyncio.create_task(model.complete(ASK, Sampling()))
        for _ in range(300):
            if server.asked:
                break
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await model.complete(ASK, Sampling())).text == "hello"
    assert server.connections == 2


# Streams.


async def test_a_line_of_a_stream_may_be_of_any_length() -> None:
    text = "long é " * 300_000
    stream = event_stream(*map(data, events({"content": text})))
    async with asking(lambda asked: stream) as (model, _):
        completion = await streamed(model)
    assert completion.text == text


async def test_what_keeps_a_stream_alive_is_no_part_of_it() -> None:
    first, *rest = map(data, events({"content": "a"}, {"content": "b"}))
    pieces = [": waiting\n\n", "event: ping\n\n", "data:\n\n", first, ": still there\n\n", "id: 7\nretry: 3\n", *rest]
    async with asking(lambda asked: event_stream(*pieces)) as (model, _):
        completion = await streamed(model)
    assert (completion.text, completion.outcome) == ("ab", Outcome.OK)


async def test_a_connection_that_ends_after_the_last_event_ends_nothing() -> None:
    def reply(asked: Asked) -> bytes | None:
        return None if asked.number else event_stream(*map(data, events({"content": "a"})), ending=b"")

    async with asking(reply) as (model, server):
        for _ in range(2):
            assert (await streamed(model)).text == "a"
    assert server.connections == 2


@pytest.mark.parametrize(
    ("error", "finish"),
    [
        ({"message": "out of memory"}, "error"),
        ("out of memory", "error"),
        ({"message": "This model's maximum context length is 10 tokens", "code": 400}, "context_overflow"),
    ],
)
async def test_an_error_instead_of_the_first_piece(error: Any, finish: str) -> None:
    async with asking(lambda asked: event_stream(data({"error": error}))) as (model, server):
        completion = await streamed(model)
    assert (completion.outcome, completion.finish) == (Outcome.INFRASTRUCTURE_FAILED, finish)
    assert (error if isinstance(error, str) else error["message"]) in (completion.detail or "")
    assert len(server.asked) == 1


@pytest.mark.parametrize("chunk", ["5", "[1]", '"text"', "null"])
async def test_events_that_are_no_objects(chunk: str) -> None:
    async with asking(lambda asked: event_stream(data(chunk))) as (model, _):
        completion = await streamed(model)
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert completion.detail


# Proxies.


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "all_proxy"])
async def test_the_proxy_of_the_environment_is_asked(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(lambda asked: answer()) as proxy:
        monkeypatch.setenv(variable, proxy.url.removesuffix("/v1").replace("//", "//me:word@"))
        completion = await asked_once("http://models.invalid/v1")
    assert completion.text == "hello"
    assert proxy.asked[0].target == "http://models.invalid/v1/chat/completions"
    assert proxy.asked[0].headers["proxy-authorization"] == "Basic " + base64.b64encode(b"me:word").decode()
    assert proxy.asked[0].headers["authorization"] == "Bearer none"


async def test_no_proxy_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.0/8")
    async with talking(lambda asked: answer()) as server:
        assert (await asked_once(server.url)).text == "hello"


@pytest.mark.parametrize(
    ("url", "rules", "through"),
    [
        ("http://models.test/v1", "", True),
        ("http://models.test/v1", "*", False),
        ("http://models.test/v1", "other.test, Models.test", False),
        ("http://gpu.models.test/v1", "models.test", False),
        ("http://gpu.models.test/v1", ".models.test", False),
        ("http://gpu.models.test/v1", "*.models.test", False),
        ("http://mymodels.test/v1", "models.test", True),
        ("http://models.test:8000/v1", "models.test:8000", False),
        ("http://models.test:8001/v1", "models.test:8000", True),
        ("http://10.1.2.3/v1", "10.0.0.0/8", False),
        ("http://11.1.2.3/v1", "10.0.0.0/8", True),
        ("http://[::1]:8000/v1", "::1", False),
        ("http://[::1]:8000/v1", "[::1]", False),
        ("http://localhost:8000/v1", "localhost,nonsense/8/8", False),
        ("https://models.test/v1", "", False),  # it is for http alone
    ],
)
def test_for_whom_a_proxy_is(url: str, rules: str, through: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", rules)
    assert proxy_for(url) == ("http://proxy.test:3128" if through else None)


async def test_a_proxy_that_does_not_speak_http_is_said_once_and_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://me:secret@127.0.0.1:1080")
    completion = await asked_once("http://models.invalid/v1")
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    for part in ("socks5", "ALL_PROXY", "NO_PROXY=models.invalid"):
        assert part in (completion.detail or "")
    assert "secret" not in (completion.detail or "")
    with pytest.raises(InputError):
        proxy_for("http://models.invalid/v1")


# Certificates.


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that nobody has signed, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    file = tmp_path / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    named = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(tmp_path / "key.pem"), "-out", str(file)]
    subprocess.run([*made, *named], check=True, capture_output=True)
    return file


async def test_whom_to_trust_is_said_by_the_environment(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    async with talking(lambda asked: answer(), context) as server:
        stranger = await asked_once(server.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        friend = await asked_once(server.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_name("none.pem")))
        nobody = await asked_once(server.url)
    assert friend.text == "hello"
    assert stranger.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert "certificate" in (stranger.detail or "").lower()
    assert nobody.outcome is Outcome.INFRASTRUCTURE_FAILED
