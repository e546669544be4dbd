"""MCP: the tools of a Model Context Protocol server.

An action is one call, `{"name": tool, "arguments": {…}}`. An observation is what the tool returned (a
`CallToolResult` of the protocol): when that is a single text block, the block's text; anything else is the
canonical JSON of the result, `{"content": […], "structuredContent": {…}, "isError": true}`. Structured
content and `isError` ride along in `Observation.structured` and `Observation.is_error`.

A simulator may answer in either way. Plain text is a single text block; JSON of the result's shape is a
result; for a tool with an output schema, any other JSON is its structured content. In history, a result that
is more than a text, or whose text could be taken for a result, is written as JSON, so that nothing is lost.
"""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import json_repair
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from pydantic import Field, model_validator

from worldlm.core.errors import InputError
from worldlm.core.text import canonical_json
from worldlm.core.types import Check, JsonObject, Limits, Observation, Text, Tool, ToolCall, Turn, Value, World
from worldlm.domains.domain import (
    Domain,
    call_from_line,
    format_tool_call,
    json_kind,
    no_harness,
    parse_tool_call,
    read_state,
    schema_problem,
    state_text,
)
from worldlm.domains.files import FileState

RESULT_KEYS = ("content", "structuredContent", "isError", "_meta")
BLOCKS: dict[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource": ("resource",),
    "resource_link": ("uri", "name"),
}
"""Types of content blocks, with the keys that each must have."""

_RESULT_START = re.compile(r'\s*\{\s*["\'](content["\']\s*:\s*\[\s*\{\s*["\']type|structuredContent|isError)\b')


# What a real environment starts.


class ServerState(Value):
    """Which server: a command, the address of one that runs already, or a packaged one. Exactly one of the three."""

    command: tuple[Text, ...] = ()
    """The program and its arguments; it speaks MCP over its standard input and output."""
    url: Text | None = None
    """The address of a server that speaks streamable HTTP."""
    package: Text | None = None
    """The name of a server that is installed on first use."""
    args: tuple[Text, ...] = ()
    """Further arguments of a packaged server."""
    options: JsonObject = Field(default_factory=dict)
    """What a packaged server is told besides (its own documentation says what)."""
    env: dict[str, Text] = Field(default_factory=dict)
    """Further environment variables. `${NAME}` in a value is our own variable of that name."""
    headers: dict[str, Text] = Field(default_factory=dict)
    """HTTP headers, with `${NAME}` as above."""
    mounts: dict[str, Text] = Field(default_factory=dict)
    """What the sandbox sees of this machine, read-only: path inside (under `/opt`, say) to our file or folder."""
    sandbox: bool = True
    """Whether the command runs in the sandbox. Outside of it, it may do all that you may."""
    network: bool = False
    """Whether the sandbox has the network."""

    @model_validator(mode="after")
    def _one_kind(self) -> "ServerState":
        given = [
            name for name, value in (("command", self.command), ("url", self.url), ("package", self.package)) if value
        ]
        if len(given) != 1:
            raise ValueError(f"give one of command, url and package, not {' and '.join(given) or 'none of them'}")
        takes = {
            "command": ("env", "mounts", "sandbox", "network"),
            "url": ("headers",),
            "package": ("args", "options", "env", "network"),
        }[given[0]]
        if self.url and not self.url.startswith(("http://", "https://", "${")):
            raise ValueError(f"url must be an address of http or https, not {self.url!r}")
        for name in sorted(self.model_fields_set - {given[0], *takes}):
            raise ValueError(f"{name!r} does not go with {given[0]!r}, which takes {', '.join(takes)}")
        return self


class McpState(FileState):
    """What `World.initial_state` of a real MCP environment holds: a server, and the machine that it works on."""

    server: ServerState


def server_state(world: World) -> McpState:
    """The server of a world, with its files. Raises InputError that names the key."""
    state = world.initial_state
    if isinstance(state, str) or "server" not in state:
        raise InputError(
            f"world {world.name!r}: initial_state has no 'server'; "
            "a real one needs {command: […]}, {url: …} or {package: NAME}"
        )
    found = read_state(world, McpState)
    if (found.files or found.setup) and (found.server.url or not found.server.sandbox):
        raise InputError(
            f"world {world.name!r}: initial_state.files and setup are made in the sandbox, and this server is not in it"
        )
    return found


# Results of the protocol.


def result_observation(result: Mapping[str, Any]) -> Observation:
    """A `CallToolResult`, as JSON, as an observation. Raises ValueError that names what is wrong with it.

    Structured content that is no object is wrapped as `{"result": …}`, as the protocol asks.
    """
    structured, is_error = result.get("structuredContent"), result.get("isError", False)
    if structured is not None and not isinstance(structured, dict):
        structured = {"result": structured}
    if not isinstance(is_error, bool):
        raise ValueError(f"'isError' must be true or false, not {json_kind(is_error)}")  # noqa: TRY004
    if "content" not in result and structured is None:
        raise ValueError("the result has neither 'content' nor 'structuredContent'")
    content = result.get("content", [{"type": "text", "text": canonical_json(structured)}])
    if not isinstance(content, list):
        raise ValueError(f"'content' must be a list of blocks, not {json_kind(content)}")  # noqa: TRY004
    for index, block in enumerate(content):
        if problem := _block_problem(block):
            raise ValueError(f"content[{index}]: {problem}")
    if len(content) == 1 and content[0]["type"] == "text":
        text = content[0]["text"]
    else:
        text = canonical_json(_result(content, structured, is_error))
    return Observation(text=text, structured=structured, is_error=is_error)


def observation_result(observation: Observation) -> dict[str, Any]:
    """An observation as a `CallToolResult`: what a server sends. `result_observation` gives the observation back."""
    result = _load(observation.text)
    if _has_result_shape(result):
        with contextlib.suppress(ValueError):
            if result_observation(result) == observation:
                return dict(result)
    block = {"type": "text", "text": observation.text}
    return _result([block], observation.structured, observation.is_error)


def _result(content: list[Any], structured: Any, is_error: bool) -> dict[str, Any]:
    result: dict[str, Any] = {"content": content}
    if structured is not None:
        result["structuredContent"] = structured
    if is_error:
        result["isError"] = True
    return result


def _block_problem(block: Any) -> str | None:
    if not isinstance(block, dict):
        return f"a block is an object with a 'type', not {json_kind(block)}"
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in BLOCKS:
        return f"there is no block type {kind!r}; it is one of {', '.join(BLOCKS)}"
    for key in BLOCKS[kind]:
        wanted = dict if key == "resource" else str
        if not isinstance(block.get(key), wanted):
            return f"a block of type {kind!r} needs {key!r}, {'an object' if wanted is dict else 'a string'}"
    return None


_NOT_JSON = object()


def _load(text: str) -> Any:
    """The value that a text is in strict JSON, or `_NOT_JSON`."""
    try:
        value = json.loads(text)
        canonical_json(value)  # NaN is not JSON
    except (ValueError, RecursionError):
        return _NOT_JSON
    return value


def _has_result_shape(value: Any) -> bool:
    if not isinstance(value, dict) or not value or not set(value) <= set(RESULT_KEYS):
        return False
    if "content" not in value:
        return "structuredContent" in value
    content = value["content"]
    return isinstance(content, list) and all(isinstance(block, dict) and "type" in block for block in content)


def read_observation(world: World, call: ToolCall, text: str) -> Observation:
    """A simulator's answer: text, a result, or (where the tool has an output schema) structured content.

    Raises ValueError for an answer that has the shape of a result and is none, even after repair.
    """
    value = _load(text)
    if _has_result_shape(value):
        return result_observation(value)
    if value is _NOT_JSON:
        return result_observation(_repaired(text)) if _RESULT_START.match(text) else Observation(text=text)
    tool = _tool(world, call)
    if tool is None or tool.output_schema is None:
        return Observation(text=text)
    return Observation(text=text, structured=value if isinstance(value, dict) else {"result": value})


def _repaired(text: str) -> dict[str, Any]:
    """The result that broken JSON meant to be. Raises ValueError when that cannot be told."""
    try:
        value = json_repair.loads(text, skip_json_loads=True)
        canonical_json(value)
    except (ValueError, RecursionError) as error:
        raise ValueError("the answer begins like a result and is not JSON") from error
    if not isinstance(value, dict) or not _has_result_shape(value) or not (value.get("content") or len(value) > 1):
        raise ValueError("the answer begins like a result and is not JSON")
    return value


def write_observation(observation: Observation) -> str:
    """The text alone where that says everything; else the result as canonical JSON."""
    text = observation.text
    plain = observation.structured is None and not observation.is_error
    if plain and not _has_result_shape(_load(text)) and not _RESULT_START.match(text):
        return text
    return canonical_json(observation_result(observation))


# The domain.


def tools(world: World) -> tuple[Tool, ...]:
    """The world's."""
    return world.tools


def _tool(world: World, call: ToolCall) -> Tool | None:
    return next((tool for tool in world.tools if tool.name == call.name), None)


def parse_action(text: str, world: World) -> ToolCall:
    """One call. A tool that is not the server's is for the server to refuse."""
    return parse_tool_call(text, None)


def from_line(line: str, world: World) -> str:
    """`tool key=value` or `tool {"key": …}` calls a tool, an object is an action as it stands."""
    return call_from_line(line, world.tools)


def problems(world: World) -> list[str]:
    """A server needs tools, each with a name of its own and valid schemas of objects. (A real one tells its own.)"""
    if isinstance(world.initial_state, dict) and "server" in world.initial_state:
        try:
            server_state(world)
        except InputError as error:
            return [str(error)]
    elif not world.tools:
        return ["tools is empty: an MCP world needs the server's tools with their schemas"]
    found = []
    names = [tool.name for tool in world.tools]
    for index, tool in enumerate(world.tools):
        where = f"tools[{index}] ({tool.name})"
        if not tool.name:
            found.append(f"{where}: the name is empty")
        if tool.name in names[:index]:
            found.append(f"{where}: there is an earlier tool of this name")
        for key, schema in (("parameters", tool.parameters), ("output_schema", tool.output_schema)):
            if schema is not None and (problem := _schema_fault(schema)):
                found.append(f"{where}.{key}: {problem}")
    return found


def _schema_fault(schema: dict[str, Any]) -> str | None:
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        path = ".".join(map(str, error.absolute_path)) or "schema"
        return f"not a JSON Schema: {path}: {error.message}"
    if schema.get("type") != "object":
        return "the schema must have type: object"
    return None


def initial_observation(world: World) -> Observation:
    """That the server is there, with the names of its tools, unless the world says otherwise."""
    if world.initial_observation is not None:
        return Observation(text=world.initial_observation)
    return Observation(text=f"Connected to {world.name}. Tools: {', '.join(tool.name for tool in world.tools)}")


def check(world: World, turns: Sequence[Turn], call: ToolCall, observation: Observation) -> tuple[Check, ...]:
    """Structured content against the output schema, arguments against the input schema, text against structure."""
    tool = _tool(world, call)
    if tool is None:
        # Some servers say so in an ordinary result.
        refused = observation.is_error or "unknown tool" in observation.text.lower()
        message = f"the server has no tool {call.name!r}, so the result must have isError true"
        return (Check(rule="unknown_tool", passed=refused, message=message),)
    checks = []
    breach = _certain_breach(call.arguments, tool.parameters)
    if breach is not None:
        checks.append(
            Check(
                rule="validation_error",
                passed=observation.is_error,
                message=f"the arguments break the tool's schema ({breach}), so the result must have isError true",
            )
        )
    if observation.is_error:
        checks.append(
            Check(rule="error_text", passed=bool(observation.text.strip()), message="an error says what went wrong")
        )
        return tuple(checks)
    if tool.output_schema is not None:
        if observation.structured is None:
            problem: str | None = "there is none, and the tool has an output schema"
        else:
            problem = schema_problem(observation.structured, tool.output_schema)
        message = f"structuredContent: {problem}" if problem else ""
        checks.append(Check(rule="output_schema", passed=problem is None, message=message))
    said, structured = _load(observation.text), observation.structured
    quoted = isinstance(structured, dict) and observation.text in structured.values()  # the text of a file, say
    if isinstance(structured, dict) and isinstance(said, dict) and not quoted and not _has_result_shape(said):
        checks.append(
            Check(
                rule="text_agrees",
                passed=said in (structured, structured.get("result")),
                message="the text is JSON that says something else than the structured content",
            )
        )
    return tuple(checks)


def _certain_breach(arguments: dict[str, Any], schema: dict[str, Any]) -> str | None:
    """A breach that every server reports. (Values of another type some convert, and some take as they are.)"""
    for error in Draft202012Validator(schema).iter_errors(arguments):
        if error.validator not in ("type", "anyOf", "oneOf"):
            path = ".".join(map(str, error.absolute_path))
            return f"{path}: {error.message}" if path else error.message
    return None


MCP = Domain(
    name="mcp",
    summary="The tools of an MCP server; one tool call in, its result out.",
    limits=Limits(turns=200, step_seconds=60, episode_seconds=3600, memory_mib=1024, disk_mib=256, processes=64),
    tools=tools,
    parse_action=parse_action,
    format_action=format_tool_call,
    from_line=from_line,
    problems=problems,
    initial_observation=initial_observation,
    render_state=state_text,
    read_observation=read_observation,
    write_observation=write_observation,
    check=check,
    harness=no_harness,
)
