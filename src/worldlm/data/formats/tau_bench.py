"""tau-bench: an agent with tools over a mock database, and a simulated user.

Version 1 is a list of results with `traj`, the messages. Version 2 (tau2-bench) is an object with `simulations`, each
with its messages. There the user is part of the environment, and talking to him a call, `respond`: its turns carry
that label.
"""

from typing import Any

from worldlm.core.types import Observation, ToolCall, Trajectory
from worldlm.data.formats.chat import RESPOND, Call, ChatMessage, Function, calls_of, chat_turns, content_text
from worldlm.data.formats.format import Format, Reading, Source, make_trajectory, make_world, parse, seen_tools

SOURCE = "tau-bench"


class Result(Source):
    """A result of version 1."""

    task_id: int | str
    trial: int | str = 0
    traj: list[ChatMessage]


class Call2(Source):
    """A call of version 2."""

    id: str | None = None
    name: str
    arguments: Any = None
    requestor: str = "assistant"


class Message2(Source):
    """A message of version 2."""

    role: str
    content: str | None = None
    tool_calls: list[Call2] | None = None
    id: str | None = None
    requestor: str = "assistant"


class Simulation(Source):
    """A simulation of version 2."""

    id: str | None = None
    task_id: int | str
    trial: int | str | None = 0
    messages: list[Message2]


class Results2(Source):
    """A results file of version 2."""

    simulations: list[Simulation]


def sniff(value: Any) -> str | None:
    """`traj` with `task_id`, or `simulations`."""
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("traj"), list) and "task_id" in value:
        return "1"
    return "2" if isinstance(value.get("simulations"), list) else None


def read(value: Any, reading: Reading) -> list[Trajectory]:
    """One trajectory of version 1, one of each simulation of version 2."""
    if reading.version == "1":
        result = parse(Result, value, reading)
        return [_trajectory(reading, f"{result.task_id}-{result.trial}", result.traj)]
    results = parse(Results2, value, reading)
    return [
        _trajectory(reading, f"{one.task_id}-{one.trial or 0}", _as_chat(one.messages, reading))
        for one in results.simulations
    ]


def _as_chat(messages: list[Message2], reading: Reading) -> list[ChatMessage]:
    """The messages of version 2 as those of version 1; what the user does with tools of his own is left out."""
    found = []
    for index, message in enumerate(messages):
        theirs = [call for call in message.tool_calls or () if call.requestor != "assistant"]
        if theirs or (message.role == "tool" and message.requestor != "assistant"):
            reading.dropped("a call that the simulated user makes, and its result", f"messages[{index}]")
            continue
        calls = [
            Call(id=call.id, function=Function(name=call.name, arguments=call.arguments))
            for call in message.tool_calls or ()
        ]
        answers = message.id if message.role == "tool" else None
        found.append(
            ChatMessage(role=message.role, content=message.content, tool_calls=calls or None, tool_call_id=answers)
        )
    return found


def _trajectory(reading: Reading, key: str, messages: list[ChatMessage]) -> Trajectory:
    policy = "\n\n".join(content_text(message.content, reading) for message in messages if message.role == "system")
    opening = next((index for index, message in enumerate(messages) if message.role == "user"), None)
    first = content_text(messages[opening].content, reading) if opening is not None else None
    if opening is not None:
        messages = [*messages[:opening], *messages[opening + 1 :]]
    tools = seen_tools([*calls_of(messages), ToolCall(name=RESPOND)], reading)
    world = make_world(reading, key, reading.options.domain or "mcp", policy, tools=tools)
    turns = chat_turns(messages, reading, world, respond=True, strict=reading.options.strict)
    initial = Observation(text=first) if first is not None else None
    return make_trajectory(reading, key, world, initial, turns, source=reading.options.source or SOURCE)


TAU_BENCH = Format(
    name="tau-bench",
    summary="Results of tau-bench (a list of `traj`) and tau2-bench (`simulations`)",
    versions=("1", "2"),
    sniff=sniff,
    read=read,
)
