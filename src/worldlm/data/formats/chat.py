"""Messages with tool calls, as OpenAI's chat protocol has them: what several formats are made of.

A turn is a call with its result. Results are paired with the calls of the message before them by id, and by
order where ids are missing; an id counts within one message only, for there are recordings that use it again later.
"""

import ast
import re
from collections.abc import Sequence
from typing import Any

from worldlm.core.text import canonical_json
from worldlm.core.types import Observation, Tool, ToolCall, Turn, World
from worldlm.data.formats.format import Reading, RecordError, Source, call_arguments, invalid_turn, make_turn
from worldlm.domains.mcp import result_observation

RESPOND = "respond"
"""The call that a talk with a simulated user is written as (tau-bench's own name for it)."""


class Function(Source):
    """A call's function."""

    name: str
    arguments: Any = None


class Call(Source):
    """A call of a message."""

    id: str | None = None
    type: str | None = None
    function: Function


class ChatMessage(Source):
    """A message. `content` may be a list of parts; only their texts are used."""

    role: str
    content: str | list[Any] | None = None
    name: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None


class FunctionTool(Source):
    """A tool's description."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


def content_text(content: Any, reading: Reading, where: object = "") -> str:
    """The text of a message's content; parts that are no text are dropped."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        reading.changed("content that is JSON is its text", where)
        return canonical_json(content)
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            kind = part.get("type", "part") if isinstance(part, dict) else type(part).__name__
            reading.dropped(f"content of type {kind!r}: observations are text", where)
    if len(texts) > 1:
        reading.changed("several texts of one content are joined", where)
    return "\n".join(texts)


def read_tools(tools: Sequence[Any], reading: Reading) -> tuple[Tool, ...]:
    """Tool descriptions: OpenAI's, with or without the `function` around them. Raises RecordError."""
    found = []
    for index, value in enumerate(tools):
        inner = value.get("function", value) if isinstance(value, dict) else value
        try:
            tool = FunctionTool.model_validate(inner)
        except ValueError:
            raise RecordError(f"tools[{index}]: a tool needs a 'name'") from None
        schema = tool.parameters or {"type": "object", "properties": {}}
        found.append(Tool(name=tool.name, description=tool.description or "", parameters=schema))
    return tuple(found)


def calls_of(messages: Sequence[ChatMessage]) -> list[ToolCall]:
    """The calls of a conversation, by name (without arguments)."""
    return [ToolCall(name=call.function.name) for message in messages for call in message.tool_calls or ()]


def chat_turns(
    messages: Sequence[ChatMessage], reading: Reading, world: World, *, respond: bool = False, strict: bool = False
) -> list[Turn]:
    """The turns of a conversation. With `respond`, talk is a call: what the agent says, and the answer as its result.

    Raises RecordError: for a call that is no action of the world's domain and, if `strict`, a result without a call.
    """
    turns: list[Turn] = []
    position = 0
    while position < len(messages):
        message = messages[position]
        where = f"messages[{position}]"
        position += 1
        if message.role == "assistant" and message.tool_calls:
            if content_text(message.content, reading, where):
                reading.dropped("what the agent says beside a call", where)
            end = position
            while end < len(messages) and messages[end].role in ("tool", "function"):
                end += 1
            turns += _paired(message.tool_calls, messages[position:end], reading, world, where, strict=strict)
            position = end
        elif message.role == "assistant":
            answer = messages[position] if position < len(messages) else None
            if respond and answer is not None and answer.role == "user":
                said = content_text(message.content, reading, where)
                heard = Observation(text=content_text(answer.content, reading, where))
                call = ToolCall(name=RESPOND, arguments={"content": said})
                turns.append(make_turn(reading, world, call, heard, where).model_copy(update={"label": RESPOND}))
                position += 1
            elif message.content:
                reading.dropped("what the agent says without a call", where)
        elif message.role in ("tool", "function"):
            if strict:
                raise RecordError(f"{where}: a result without a call before it")
            reading.dropped("a result without a call", where)
        elif message.role == "user" and turns:
            reading.dropped("what the user says in the middle", where)
    return turns


def _paired(
    calls: Sequence[Call],
    results: Sequence[ChatMessage],
    reading: Reading,
    world: World,
    where: str,
    *,
    strict: bool,
) -> list[Turn]:
    waiting = list(results)
    turns = []
    for call in calls:
        found = next((result for result in waiting if result.tool_call_id and result.tool_call_id == call.id), None)
        if found is None and waiting and (not waiting[0].tool_call_id or not call.id):
            if strict:
                raise RecordError(f"{where}: a result without tool_call_id")
            found = waiting[0]
            reading.changed("a result without an id goes to the call at its place", where)
        if found is None:
            reading.dropped("a call without a result", f"{where} {call.function.name}")
            continue
        waiting.remove(found)
        text = content_text(found.content, reading, where)
        arguments = call_arguments(call.function.arguments, reading, where)
        if arguments is None:
            reading.changed("a call whose arguments are not JSON is an invalid action", where)
            turns.append(invalid_turn(call.function.name, str(call.function.arguments), text))
            continue
        made = ToolCall(name=call.function.name, arguments=arguments)
        turns.append(make_turn(reading, world, made, tool_result(text, reading, where), where))
    for result in waiting:
        if strict:
            raise RecordError(f"{where}: there is no call with the id {result.tool_call_id!r}")
        reading.dropped("a result without a call", where)
    return turns


_RESULT_REPR = re.compile(
    r"(?:meta=(?:None|\{.*?\}) )?content=\[(?P<content>.*)\]"
    r"(?: structuredContent=(?P<structured>None|[\[{].*[\]}]))? isError=(?P<error>True|False)",
    re.DOTALL,
)


def tool_result(text: str, reading: Reading, where: object = "") -> Observation:
    """A result's text as an observation; what Python's MCP library prints for a whole result is read as that."""
    match = _RESULT_REPR.fullmatch(text)
    if match is None:
        return Observation(text=text)
    try:
        blocks = [_block(node) for node in ast.parse(f"[{match['content']}]", mode="eval").body.elts]  # type: ignore[attr-defined]
        structured = ast.literal_eval(match["structured"]) if match["structured"] else None
        result = {"content": blocks, "structuredContent": structured, "isError": match["error"] == "True"}
        observation = result_observation({key: value for key, value in result.items() if value is not None})
    except (ValueError, SyntaxError, RecursionError, MemoryError, AttributeError):
        return Observation(text=text)
    reading.changed("a result that was printed by Python is read as the MCP result it was", where)
    return observation


def _block(node: ast.expr) -> dict[str, Any]:
    """A content block from `TextContent(type='text', text='…', annotations=None)`. Nothing is run."""
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("not a content block")
    pairs = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg}
    return {key: value for key, value in pairs.items() if value is not None}
