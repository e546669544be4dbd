"""OpenAI chat with tool calls: `{"messages": […], "tools": […]}`, or the list of messages alone.

This is also what fine-tuning files hold, one such object a line. Arguments come as JSON in a string or as a mapping;
inside they are a mapping, and they are written as the protocol has them, as a string.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from worldlm.core.errors import ActionError
from worldlm.core.text import canonical_json
from worldlm.core.types import Trajectory
from worldlm.data.formats.chat import ChatMessage, calls_of, chat_turns, content_text, read_tools
from worldlm.data.formats.format import (
    Format,
    Reading,
    RecordError,
    Source,
    WriteOptions,
    Written,
    asked,
    make_trajectory,
    make_world,
    parse,
    seen_tools,
)
from worldlm.data.report import Losses
from worldlm.domains import get_domain

ROLES = ("system", "developer", "user", "assistant", "tool", "function")


class Conversation(Source):
    """A record. Besides the messages, what is often found beside them."""

    messages: list[ChatMessage]
    tools: list[Any] | None = None
    id: str | int | None = None
    task_id: str | int | None = None
    instance_id: str | None = None
    model: str | None = None


def sniff(value: Any) -> str | None:
    """A list of messages, bare or under `messages`; a call must be among them."""
    messages = value.get("messages") if isinstance(value, dict) else value
    if not isinstance(messages, list) or not messages:
        return None
    if not all(isinstance(message, dict) and message.get("role") in ROLES for message in messages):
        return None
    return "chat"


def read(value: Any, reading: Reading) -> list[Trajectory]:
    """One trajectory of a conversation."""
    found = parse(Conversation, {"messages": value} if isinstance(value, list) else value, reading)
    calls = calls_of(found.messages)
    if not calls:
        raise RecordError("messages: no tool call, so there is no turn")
    tools = read_tools(found.tools, reading) if found.tools else seen_tools(calls, reading)
    key = next((str(name) for name in (found.id, found.task_id, found.instance_id) if name is not None), None)
    task = None
    for index, message in enumerate(found.messages):
        if message.role in ("system", "developer") and message.content:
            reading.dropped("the agent's system prompt", f"messages[{index}]")
        elif message.role == "user" and task is None:
            task = content_text(message.content, reading, f"messages[{index}]")
    domain = reading.options.domain or "mcp"
    world = make_world(reading, key or "chat", domain, asked(task), tools=tools)
    turns = chat_turns(found.messages, reading, world, strict=reading.options.strict)
    return [make_trajectory(reading, key, world, None, turns, policy=found.model or "")]


def write(trajectories: Iterable[Trajectory], options: WriteOptions, losses: Losses) -> Iterator[Written]:
    """One object a trajectory. The world's context and first observation are the user's message."""
    for trajectory in trajectories:
        place = trajectory.id
        world, domain = trajectory.world, get_domain(trajectory.world.domain)
        messages: list[dict[str, Any]] = []
        first = trajectory.initial.text if trajectory.initial else ""
        opening = "\n\n".join(part for part in (world.context, first) if part)
        if opening:
            messages.append({"role": "user", "content": opening})
        for number, turn in enumerate(trajectory.turns, 1):
            where = f"{place}: turn {number}"
            if turn.observation is None:
                losses.dropped(f"a turn without an observation ({turn.outcome.value})", where)
                continue
            try:
                call = domain.parse_action(turn.action, world)
            except ActionError:
                losses.dropped("a turn whose action does not parse", where)
                continue
            call_id = f"call_{number}"
            function = {"name": call.name, "arguments": canonical_json(call.arguments)}
            made = {"id": call_id, "type": "function", "function": function}
            messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
            messages.append({"role": "tool", "tool_call_id": call_id, "content": turn.observation.text})
            if turn.observation.structured is not None:
                losses.dropped("structured content", where)
            if turn.observation.is_error:
                losses.dropped("the mark that a result is an error", where)
        if len(messages) < 2:
            losses.dropped("a trajectory without a turn that can be written", place)
            continue
        for name in ("initial_state", "hidden_state", "control"):
            if getattr(world, name):
                losses.dropped(f"the world's {name}", place)
        losses.dropped("origin, ending, usage and what else is no message", place)
        tools = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in domain.tools(world)
        ]
        yield Written("", {"messages": messages, **({"tools": tools} if tools else {})})


OPENAI_CHAT = Format(
    name="openai-chat",
    summary="Chat messages with tool calls, as OpenAI's protocol has them; JSON or JSON lines",
    versions=("chat",),
    sniff=sniff,
    read=read,
    write=write,
)
