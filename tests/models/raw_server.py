"""A server on loopback that answers with bytes as they are given, and knows which connection a request came over."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.models.chat_server import chat


@dataclass(frozen=True)
class Asked:
    """A request. `connection` and `number` count from 0: connections of the server, and requests of the connection."""

    connection: int
    number: int
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class RawServer:
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0


def answer(
    body: bytes | None = None, *lines: str, status: str = "200 OK", content_type: str = "application/json"
) -> bytes:
    """An answer with more header lines; without a body, the one that a chat server gives."""
    body = json.dumps(chat().body).encode() if body is None else body
    head = [f"HTTP/1.1 {status}", f"content-type: {content_type}", f"content-length: {len(body)}", *lines, "", ""]
    return "\r\n".join(head).encode() + body


@asynccontextmanager
async def talking(
    reply: Callable[[Asked], bytes | None], certificate: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    """Serve `reply`; None closes the connection without an answer."""
    state = RawServer()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = state.connections
        state.connections += 1
        number = 0
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
                headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                state.asked.append(Asked(connection, number, first.split()[1], headers, body))
                number += 1
                if (data := reply(state.asked[-1])) is None:
                    break
                writer.write(data)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=certificate)
    scheme = "https" if certificate else "http"
    state.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield state
    finally:
        server.close()
