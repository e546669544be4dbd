"""A chat-completions server on loopback that answers by a script and keeps what it was asked."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One HTTP answer. `body` is JSON, or text as it stands; `events` are streamed as server-sent events."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    events: Sequence[Any] | None = None
    broken: bool = False
    """Drop the connection after the last event instead of ending the stream."""
    delay: float = 0.0
    """Seconds before the answer; before each event of a stream but the first."""


def chat(text: str | None = "hello", *, finish: str = "stop", **message: Any) -> Answer:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    return Answer({"id": "x", "object": "chat.completion", "model": "served", "choices": [choice], "usage": usage})


def error(status: int, message: str, headers: dict[str, str] | None = None, **more: Any) -> Answer:
    return Answer({"error": {"message": message, **more}}, status, headers or {})


def events(*deltas: dict[str, Any], finish: str | None = "stop") -> list[Any]:
    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
        return {"id": "x", "object": "chat.completion.chunk", "model": "served", "choices": choices}

    chunks: list[Any] = [chunk(delta) for delta in deltas]
    if finish is not None:
        chunks.append(chunk({}, finish))
        usage = {"prompt_tokens": 10, "completion_tokens": 5}
        chunks += [{"id": "x", "object": "chat.completion.chunk", "choices": [], "usage": usage}, "[DONE]"]
    return chunks


Script = Callable[[dict[str, Any], int], Answer]


class ChatServer:
    def __init__(self, script: Script, models: Sequence[str] = ()):
        self.script = script
        self.models = list(models)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.in_flight = self.peak = self.dropped = 0
        self.lock = threading.Lock()
        self.url = ""


@contextmanager
def serving(script: Script | Sequence[Answer], models: Sequence[str] = ()) -> Iterator[ChatServer]:
    """A running server. A list of answers is given in order; its last one stays."""
    if callable(script):
        by_index = script
    else:
        answers = list(script)

        def by_index(body: dict[str, Any], index: int) -> Answer:
            return answers[min(index, len(answers) - 1)]

    state = ChatServer(by_index, models)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

        def do_GET(self) -> None:
            if self.path.endswith("/models") and state.models:
                self.reply(
                    Answer({"object": "list", "data": [{"id": name, "object": "model"} for name in state.models]})
                )
            else:
                self.reply(Answer({"error": {"message": "nothing here"}}, 404))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with state.lock:
                index = len(state.bodies)
                state.bodies.append(body)
                state.headers.append({key.lower(): value for key, value in self.headers.items()})
                state.times.append(time.monotonic())
                state.in_flight += 1
                state.peak = max(state.peak, state.in_flight)
            try:
                self.reply(state.script(body, index))
            except OSError:
                with state.lock:
                    state.dropped += 1
                self.close_connection = True
            finally:
                with state.lock:
                    state.in_flight -= 1

        def reply(self, answer: Answer) -> None:
            if answer.events is not None:
                self.stream(answer)
                return
            time.sleep(answer.delay)
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            data = text.encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", "text/html" if isinstance(answer.body, str) else "application/json")
            self.send_header("Content-Length", str(len(data)))
            for key, value in answer.headers.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(data)

        def stream(self, answer: Answer) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for number, event in enumerate(answer.events or ()):
                time.sleep(answer.delay if number else 0)
                line = f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
            if answer.broken:
                self.close_connection = True
            else:
                self.wfile.write(b"0\r\n\r\n")

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            return

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
