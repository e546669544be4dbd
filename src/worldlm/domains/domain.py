"""What makes a domain: one value, and not a base class.

Everything that differs between a terminal and a phone for whoever simulates, checks or drives one is
in these fields; the rest of the package is written once against them.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeVar

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from pydantic import ValidationError

from worldlm.core.errors import ActionError, InputError, nearest
from worldlm.core.jsonl import describe, unknown_key
from worldlm.core.text import canonical_json
from worldlm.core.types import Check, DomainName, Limits, Observation, Tool, ToolCall, Turn, Value, World

PromptSize = Literal["full", "compact"]


@dataclass(frozen=True, slots=True)
class HarnessReply:
    """An answer that the harness gives in place of the environment (a claim of completion, say)."""

    observation: Observation
    terminated: bool = False


@dataclass(frozen=True, slots=True)
class Domain:
    """One of the seven kinds of environment.

    Laws: `parse_action(format_action(call), world) == call` for every call that parses, and
    `read_observation(world, call, write_observation(o)) == o` for every observation of the domain.
    """

    name: DomainName
    summary: str
    limits: Limits
    """Defaults for worlds that set none."""
    tools: Callable[[World], tuple[Tool, ...]]
    """The tools through which an agent with tool calling acts here."""
    parse_action: Callable[[str, World], ToolCall]
    """Action text (the wire format) to a tool call. Raises ActionError that says what is wrong."""
    format_action: Callable[[ToolCall], str]
    """A tool call to action text."""
    from_line: Callable[[str, World], str]
    """What a person types on one line to action text: a shorthand where there is one."""
    problems: Callable[[World], list[str]]
    """What a world of this domain lacks or has wrong, one line each."""
    initial_observation: Callable[[World], Observation]
    """The first observation, from the world."""
    render_state: Callable[[World], str]
    """The initial state as text for the simulator's prompt."""
    read_observation: Callable[[World, ToolCall, str], Observation]
    """An answer's text to an observation. Raises ValueError when the answer cannot be one."""
    write_observation: Callable[[Observation], str]
    """An observation as the simulator's answer would have written it (history)."""
    check: Callable[[World, Sequence[Turn], ToolCall, Observation], tuple[Check, ...]]
    """The rules that apply to a predicted observation after these turns (a rule that does not apply is left out)."""
    harness: Callable[[World, Sequence[Turn], ToolCall], HarnessReply | None]
    """What the harness answers itself, in a simulated and in a real environment alike."""
    deltas: bool = False
    """Whether an observation is a state of many lines that may be answered as a delta (`domains.delta`)."""

    def prompt(self, size: PromptSize) -> str:
        """The system prompt for the simulator, of our own wording: `full`, or `compact` (≤ 250 tokens)."""
        return read_prompt(f"{self.name}.{size}.txt")


@cache
def read_prompt(name: str) -> str:
    """A prompt file of the package."""
    return (resources.files("worldlm.domains") / "prompts" / name).read_text("utf-8").strip()


# What several domains share.


def parse_json(text: str, expected: str) -> Any:
    """The JSON value of an action. Raises ActionError that says what was `expected` and where it breaks."""
    try:
        value = json.loads(text)
        canonical_json(value)  # refuses NaN and infinity, which Python reads and JSON does not have
    except json.JSONDecodeError as error:
        raise ActionError(
            f"the action is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}; "
            f"expected {expected}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ActionError("the action holds a number that is out of range, or is nested too deeply") from error
    return value


def schema_problem(value: Any, schema: dict[str, Any]) -> str | None:
    """The most telling breach of a JSON Schema, with its path, or None."""
    error = best_match(Draft202012Validator(schema).iter_errors(value))
    if error is None:
        return None
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    return f"{path.lstrip('.') or 'value'}: {error.message}"


def parse_tool_call(text: str, known: Sequence[str] | None) -> ToolCall:
    """`{"name": …, "arguments": {…}}` to a call of one of the `known` tools (None: of any name).

    Arguments are not checked against a schema here: a wrong argument to a known tool is an ordinary
    observation (the server's own validation error), and not an invalid action.
    """
    value = parse_json(text, '{"name": tool, "arguments": {…}}')
    if not isinstance(value, dict):
        raise ActionError(f'the action must be an object {{"name": …, "arguments": {{…}}}}, not {json_kind(value)}')
    extra = sorted(set(value) - {"name", "arguments"})
    if extra:
        raise ActionError(f"the action has an unknown key {extra[0]!r}; it takes 'name' and 'arguments'")
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise ActionError("the action has no 'name' (a string: the tool to call)")
    arguments = value.get("arguments", {})
    if not isinstance(arguments, dict):
        raise ActionError(f"'arguments' must be an object, not {json_kind(arguments)}")
    if known is not None and name not in known:
        raise ActionError(f"there is no tool {name!r}; {nearest(name, known)}")
    return ToolCall(name=name, arguments=arguments)


def format_tool_call(call: ToolCall) -> str:
    """A call as action text, canonical."""
    return canonical_json({"name": call.name, "arguments": call.arguments})


def json_kind(value: Any) -> str:
    """What kind of JSON value it is, in words for whoever wrote it."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def text_observation(world: World, call: ToolCall, text: str) -> Observation:
    """The default of `read_observation`: the text as it stands."""
    return Observation(text=text)


def observation_text(observation: Observation) -> str:
    """The default of `write_observation`."""
    return observation.text


def no_harness(world: World, turns: Sequence[Turn], call: ToolCall) -> HarnessReply | None:
    """The default of `harness`: everything goes to the environment."""
    return None


def same_line(line: str, world: World) -> str:
    """The default of `from_line`: a line is an action as it stands."""
    return line


def call_from_line(line: str, tools: Sequence[Tool]) -> str:
    """A person's line to action text: `tool key=value …`, `tool {"key": …}`, or an action as it stands.

    A value is JSON where the tool's schema wants something else than a string, and text otherwise. What is wrong
    with the line is for `parse_action` to say.
    """
    line = line.strip()
    name, _, rest = line.partition(" ")
    rest = rest.strip()
    if line.startswith("{") or not name:
        return line
    if rest.startswith("{"):
        return f'{{"name": {json.dumps(name)}, "arguments": {rest}}}'
    properties: dict[str, Any] = next(
        (tool.parameters.get("properties", {}) for tool in tools if tool.name == name), {}
    )
    try:
        pairs = [word.partition("=") for word in shlex.split(rest)]
    except ValueError:
        pairs = [rest.partition("=")]
    arguments = {key: _line_value(value, properties.get(key, {})) for key, _, value in pairs}
    return canonical_json({"name": name, "arguments": arguments})


def _line_value(text: str, schema: Any) -> Any:
    if isinstance(schema, dict) and schema.get("type") == "string":
        return text
    try:
        return parse_json(text, "a value")
    except ActionError:
        return text


def bad_arguments(call: ToolCall, tool: Tool) -> str | None:
    """What the arguments of a call break of its tool's schema, in words; None when they are as they should be."""
    properties = tool.parameters.get("properties", {})
    if tool.parameters.get("additionalProperties") is False:
        for key in call.arguments:
            if key not in properties:
                return f"{key!r} is not a parameter; {nearest(key, properties)}"
    return schema_problem(call.arguments, tool.parameters)


State = TypeVar("State", bound=Value)


def read_state(world: World, kind: type[State], state: Mapping[str, Any] | None = None) -> State:
    """The initial state of a world (or `state` in its place) as a domain's type. Raises InputError naming the key."""
    try:
        return kind.model_validate(world.initial_state if state is None else state)
    except ValidationError as error:
        if found := unknown_key(error, kind):
            raise InputError(f"unknown key {'initial_state.' + found[0]!r}; {found[1]}") from error
        raise InputError(f"world {world.name!r}: initial_state.{describe(error)}") from error


def state_text(world: World) -> str:
    """The default of `render_state`: text as it stands, anything else as canonical JSON."""
    state = world.initial_state
    return state if isinstance(state, str) else canonical_json(state)


def last_text(world: World, turns: Sequence[Turn], initial: Callable[[World], Observation]) -> str:
    """The newest observation's text: the last turn that has one, else the first observation."""
    for turn in reversed(turns):
        if turn.observation is not None:
            return turn.observation.text
    return initial(world).text
