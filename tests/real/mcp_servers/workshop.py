"""A small server written with the SDK: results of every kind, slowness, requests to the client. Stdio, or `--http`."""

import asyncio
import base64
import socket
import sys
import warnings
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

server = MCPServer("workshop", version="1.4", instructions="Count parts before you order them.")
PARTS: dict[str, int] = {"bolt": 3}
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Part(BaseModel):
    name: str
    count: int


@server.tool()
def add_part(name: str, count: int = 1) -> Part:
    """Put parts on the shelf."""
    if count < 0:
        raise ToolError("parts cannot be owed")
    PARTS[name] = PARTS.get(name, 0) + count
    return Part(name=name, count=PARTS[name])


@server.tool()
def list_parts() -> list[Part]:
    """All parts."""
    return [Part(name=name, count=count) for name, count in PARTS.items()]


@server.tool(structured_output=False)
def say(text: str) -> str:
    """Text alone."""
    return text


@server.tool()
def total() -> int:
    """A number."""
    return sum(PARTS.values())


@server.tool(structured_output=False)
def picture() -> Image:
    """An image."""
    return Image(data=PIXEL, format="png")


@server.tool(structured_output=False)
def several() -> list[Any]:
    """Two blocks of text."""
    return ["one", "two"]


@server.tool()
async def nap(seconds: float, ctx: Context) -> str:
    """Sleeps, and tells how far it is."""
    await ctx.report_progress(0.5, 1.0, "half way")
    await asyncio.sleep(seconds)
    return "rested"


class Answer(BaseModel):
    colour: str


@server.tool(structured_output=False)
async def ask(ctx: Context) -> str:
    """Asks whoever is there for a colour."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (await ctx.elicit("Which colour?", Answer)).action


@server.tool(structured_output=False)
async def think(ctx: Context) -> str:
    """Asks the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="hm?"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = await ctx.session.create_message([message], max_tokens=5)
    return str(answer.content)


if __name__ == "__main__":
    if "--http" in sys.argv:
        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="error")
        asyncio.run(uvicorn.Server(config).serve([listener]))
    else:
        server.run()
