"""BFCL: the multi-turn results of the Berkeley function calling leaderboard, one JSON object a line.

The turns are in `inference_log`: calls as Python text with the results of executing them, and the state of each API
class at the beginning, which becomes the world's hidden state. Single-turn results execute nothing and hold no turns.
"""

import ast
import re
from typing import Any

from worldlm.core.types import Observation, ToolCall, Trajectory, Turn
from worldlm.data.formats.format import (
    Format,
    Reading,
    RecordError,
    Source,
    asked,
    call_arguments,
    make_trajectory,
    make_turn,
    make_world,
    parse,
    seen_tools,
)

SOURCE = "BFCL"
_STEP = re.compile(r"step_(\d+)")


class Result(Source):
    """A result."""

    id: str
    inference_log: list[Any]


class Entry(Source):
    """An entry of a step's log."""

    role: str
    content: Any = None
    model_response_decoded: Any = None


def sniff(value: Any) -> str | None:
    """`inference_log` beside `result`; the entries of single-turn results too, which the reader then refuses."""
    if (
        isinstance(value, dict)
        and "id" in value
        and "result" in value
        and ("inference_log" in value or "latency" in value)
    ):
        return "multi-turn"
    return None


def read(value: Any, reading: Reading) -> list[Trajectory]:
    """One trajectory of a multi-turn result."""
    if not isinstance(value.get("inference_log"), list) or not any(
        isinstance(entry, dict) for entry in value["inference_log"]
    ):
        raise RecordError("inference_log: a single-turn result executes nothing, so it holds no turns")
    known = {key: item for key, item in value.items() if key != "result"}  # the log repeats it
    found = parse(Result, known, reading)
    state: dict[str, Any] = {}
    task: str | None = None
    executed: list[tuple[ToolCall, str, str]] = []
    for index, part in enumerate(found.inference_log):
        where = f"inference_log[{index}]"
        if isinstance(part, list):
            if executed or state:
                reading.dropped("the state of the API classes after a turn", where)
            else:
                state = {
                    str(entry.get("class_name")): entry.get("content") for entry in part if isinstance(entry, dict)
                }
            continue
        if not isinstance(part, dict):
            raise RecordError(f"{where}: an object of steps or a list of states, not {type(part).__name__}")
        query = _words(part.get("begin_of_turn_query"))
        if task is None:
            task = query
        elif query:
            reading.dropped("what the user says in the middle", where)
        for name in sorted((key for key in part if _STEP.fullmatch(key)), key=lambda key: int(key[5:])):
            executed += _executed(part[name], reading, f"{where}.{name}")
    calls = [call for call, _, _ in executed]
    if not calls:
        raise RecordError("inference_log: no call was executed")
    world = make_world(
        reading,
        found.id,
        reading.options.domain or "mcp",
        asked(task),
        tools=seen_tools(calls, reading),
        hidden_state=state or None,
    )
    turns: list[Turn] = [
        make_turn(reading, world, call, Observation(text=text), where) for call, text, where in executed
    ]
    return [make_trajectory(reading, found.id, world, None, turns, source=reading.options.source or SOURCE)]


def _words(query: Any) -> str:
    if not isinstance(query, list):
        return ""
    return "\n".join(str(message.get("content", "")) for message in query if isinstance(message, dict))


def _executed(entries: Any, reading: Reading, where: str) -> list[tuple[ToolCall, str, str]]:
    """The calls of a step, each with its result and its place."""
    if not isinstance(entries, list):
        raise RecordError(f"{where}: a list of entries, not {type(entries).__name__}")
    calls: list[ToolCall | None] = []
    results: list[str] = []
    for number, value in enumerate(entries):
        entry = parse(Entry, value, reading, where)
        if entry.role == "handler_log" and isinstance(entry.model_response_decoded, list):
            calls = [_call(text, reading, f"{where}[{number}]") for text in entry.model_response_decoded]
        elif entry.role == "tool":
            results.append(entry.content if isinstance(entry.content, str) else str(entry.content))
        elif entry.role == "handler_log":
            reading.dropped("a step that the handler could not decode", where)
    if len(calls) != len(results):
        raise RecordError(f"{where}: {len(calls)} calls and {len(results)} results")
    pairs = []
    for call, result in zip(calls, results, strict=True):
        if call is None:
            reading.dropped("a call that is no plain Python call", where)
        else:
            pairs.append((call, result, where))
    return pairs


def _call(text: Any, reading: Reading, where: str) -> ToolCall | None:
    """A call from `move(source='a', destination='b')`, or from `{name: arguments}`. Nothing is run."""
    if isinstance(text, dict) and len(text) == 1:
        name, given = next(iter(text.items()))
        arguments = call_arguments(given, reading, where)
        return None if arguments is None else ToolCall(name=name, arguments=arguments)
    try:
        node = ast.parse(str(text).strip(), mode="eval").body
        if not isinstance(node, ast.Call):
            return None
        arguments = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg}
        for number, value in enumerate(node.args, 1):
            reading.changed("arguments by position are named arg1, arg2, …", where)
            arguments[f"arg{number}"] = ast.literal_eval(value)
        return ToolCall(name=ast.unparse(node.func), arguments=arguments)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


BFCL = Format(
    name="bfcl",
    summary="Multi-turn results of the Berkeley function calling leaderboard",
    versions=("multi-turn",),
    sniff=sniff,
    read=read,
)
