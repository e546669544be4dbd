"""An OpenAI-compatible server on loopback that plays a simple shell, streamed or not."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def shell(typed: str, seed: int) -> str:
    """What the pretended shell answers to what was typed."""
    command = json.loads(typed)[0]["keystrokes"].rstrip("\n")
    said = {
        "pwd": "/home/user\n",
        "seed": f"{seed}\n",
        "escape": "\x1b[31mred\x1b[0m\n",
        "true": "",
    }
    out = command.removeprefix("echo ") + "\n" if command.startswith("echo ") else said.get(command, "")
    return f"user@box:~$ {command}\n{out}user@box:~$"


class Handler(BaseHTTPRequestHandler):
    """`slow` never answers, `think` thinks first, `silent` says nothing; anything else is `shell`."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)  # type: ignore[attr-defined]
        typed = body["messages"][-1]["content"]
        text = "" if "silent" in typed else shell(typed, body.get("seed", 0))
        if "think" in typed:
            text = f"<think>A command that is not known.</think>{text}"
        if "slow" in typed:
            self.server.waiting.wait(60)  # type: ignore[attr-defined]
            return
        if body.get("stream"):
            self._stream(text)
        else:
            message = {"role": "assistant", "content": text}
            self._send("application/json", json.dumps(self._answer("message", message, "stop")).encode())

    def _stream(self, text: str) -> None:
        pieces = [{"content": text[start : start + 9]} for start in range(0, len(text), 9)]
        events = [self._answer("delta", piece, None) for piece in pieces] + [self._answer("delta", {}, "stop")]
        self._send("text/event-stream", b"".join(b"data: %s\n\n" % json.dumps(e).encode() for e in [*events, "[DONE]"]))

    def _answer(self, key: str, message: dict[str, str], finish: str | None) -> dict[str, Any]:
        usage = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}
        choice = {"index": 0, key: message, "finish_reason": finish}
        kind = "chat.completion" + (".chunk" if key == "delta" else "")
        return {"id": "x", "object": kind, "created": 1, "model": "shell", "choices": [choice], "usage": usage}

    def _send(self, kind: str, data: bytes) -> None:
        data = data.replace(b'data: "[DONE]"', b"data: [DONE]")
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Keep quiet."""


class ShellServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.waiting = threading.Event()

    @property
    def spec(self) -> str:
        """For `--model`."""
        return f"openai:shell@http://127.0.0.1:{self.server_port}/v1"

    def wait_for_request(self, count: int) -> None:
        deadline = time.monotonic() + 30
        while len(self.requests) < count:
            assert time.monotonic() < deadline, "no request came"
            time.sleep(0.01)


@contextmanager
def shell_server() -> Iterator[ShellServer]:
    server = ShellServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.waiting.set()
        server.shutdown()
        thread.join()
        server.server_close()
