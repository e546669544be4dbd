"""mini-SWE-agent's `.traj.json`: chat messages under a `trajectory_format`.

`mini-swe-agent-1` has the command in the reply's one fenced block, and the output in the user's next message. In
`mini-swe-agent-1.1` each reply lists its commands in `extra.actions`, and messages with `extra.returncode` answer them.
"""

import re
from typing import Any

from worldlm.core.outcomes import EndingKind
from worldlm.core.types import Observation, Trajectory
from worldlm.data.formats.chat import content_text
from worldlm.data.formats.format import (
    Format,
    Reading,
    RecordError,
    Source,
    asked,
    make_trajectory,
    make_turn,
    make_world,
    parse,
)
from worldlm.data.formats.swe_agent import BASH, shell_call

SOURCE = "mini-SWE-agent"
VERSIONS = ("mini-swe-agent-1", "mini-swe-agent-1.1")
_BLOCK = re.compile(r"```(?:bash|mswea_bash_command)?\s*\n(.*?)\n```", re.DOTALL)


class Action(Source):
    """A command that a reply asked for."""

    command: str
    tool_call_id: str | None = None


class Extra(Source):
    """What version 1.1 keeps beside a message."""

    actions: list[Action] | None = None
    returncode: int | None = None


class Message(Source):
    """A message."""

    role: str
    content: str | list[Any] | None = None
    tool_call_id: str | None = None
    extra: Extra | None = None


class Info(Source):
    """What is known of the run."""

    exit_status: str | None = None
    mini_version: str | None = None


class Recording(Source):
    """A file."""

    messages: list[Message]
    info: Info = Info()
    instance_id: str | None = None
    trajectory_format: str


def sniff(value: Any) -> str | None:
    """The `trajectory_format` that the file names."""
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        named = value.get("trajectory_format")
        return named if isinstance(named, str) else None
    return None


def read(value: Any, reading: Reading) -> list[Trajectory]:
    """One trajectory of a file."""
    found = parse(Recording, value, reading)
    task = next((content_text(m.content, reading) for m in found.messages if m.role == "user"), None)
    domain = reading.options.domain or "swe"
    world = make_world(reading, found.instance_id or "run", domain, asked(task), tools=(BASH,))
    pairs = _by_block(found.messages, reading) if reading.version == VERSIONS[0] else _by_extra(found.messages, reading)
    turns = [
        make_turn(reading, world, shell_call(c, domain), Observation(text=text), where) for c, text, where in pairs
    ]
    if not turns:
        raise RecordError("messages: no command with its output")
    status = found.info.exit_status or ""
    ending = EndingKind.COMPLETED if status in ("", "Submitted") else EndingKind.FAILED
    return [
        make_trajectory(
            reading,
            found.instance_id,
            world,
            None,
            turns,
            policy=f"{SOURCE} {found.info.mini_version or ''}".strip(),
            ending=ending,
            detail=status or None,
            source=reading.options.source or SOURCE,
        )
    ]


def _by_block(messages: list[Message], reading: Reading) -> list[tuple[str, str, str]]:
    """Command, output and place of each turn, where the command stands in the reply."""
    pairs = []
    for index, message in enumerate(messages):
        if message.role != "assistant":
            continue
        where = f"messages[{index}]"
        blocks = _BLOCK.findall(content_text(message.content, reading, where))
        answer = messages[index + 1] if index + 1 < len(messages) else None
        if len(blocks) != 1:
            reading.dropped("a reply that is not one command", where)
        elif answer is None or answer.role != "user":
            reading.dropped("a command without an output", where)
        else:
            pairs.append((blocks[0].strip(), content_text(answer.content, reading, where), where))
    return pairs


def _by_extra(messages: list[Message], reading: Reading) -> list[tuple[str, str, str]]:
    """Command, output and place of each turn, where they are listed."""
    pairs = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        actions = message.extra.actions if message.extra and message.extra.actions else []
        if message.role == "assistant" and not actions:
            reading.dropped("a reply that is not one command", where)
        answers = []
        for later in messages[index + 1 :]:
            if later.extra is None or later.extra.returncode is None:
                break
            answers.append(later)
        for position, action in enumerate(actions):
            by_id = [answer for answer in answers if action.tool_call_id and answer.tool_call_id == action.tool_call_id]
            answer = by_id[0] if by_id else answers[position] if position < len(answers) else None
            if answer is None:
                reading.dropped("a command without an output", where)
            else:
                pairs.append((action.command, content_text(answer.content, reading, where), where))
    return pairs


MINI_SWE_AGENT = Format(
    name="mini-swe-agent",
    summary="mini-SWE-agent's .traj.json files",
    versions=VERSIONS,
    sniff=sniff,
    read=read,
)
