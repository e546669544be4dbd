"""SWE-agent's `.traj`: an object with `trajectory`, a list of steps with `action` and `observation`.

An action is a line for the agent's shell, with its own commands (`open`, `edit`, `str_replace_editor …`) among them:
it becomes a call of one tool, `bash`. Version 0 keeps a step's `state` as JSON in a string, version 1 as an object.
"""

from typing import Any

from pydantic import Field

from worldlm.core.outcomes import EndingKind
from worldlm.core.types import Observation, Tool, ToolCall, Trajectory
from worldlm.data.formats.chat import content_text
from worldlm.data.formats.format import (
    Format,
    Reading,
    Source,
    asked,
    make_trajectory,
    make_turn,
    make_world,
    parse,
)

SOURCE = "SWE-agent"
BASH = Tool(
    name="bash",
    description="Run a command in the agent's shell, which stays open.",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)


class Step(Source):
    """A step."""

    action: str
    observation: str | None = None


class Recording(Source):
    """A file."""

    trajectory: list[Step]
    environment: str | None = None
    info: dict[str, Any] | None = None
    history: list[Any] = Field(default_factory=list)


def sniff(value: Any) -> str | None:
    """`trajectory` with steps of `action` and `observation`."""
    if not isinstance(value, dict) or not isinstance(value.get("trajectory"), list):
        return None
    steps = value["trajectory"]
    if not all(isinstance(step, dict) and "action" in step and "observation" in step for step in steps):
        return None
    newer = "replay_config" in value or any(isinstance(step.get("state"), dict) for step in steps)
    return "1" if newer else "0"


def read(value: Any, reading: Reading) -> list[Trajectory]:
    """One trajectory of a file."""
    found = parse(Recording, value, reading)
    domain = reading.options.domain or "swe"
    world = make_world(reading, found.environment or "run", domain, asked(_task(found.history, reading)), tools=(BASH,))
    turns = []
    for index, step in enumerate(found.trajectory):
        where = f"trajectory[{index}]"
        if not step.action.strip():
            reading.dropped("a step without an action", where)
            continue
        if step.observation is None:
            reading.dropped("a step without an observation", where)
            continue
        call = shell_call(step.action, world.domain)
        reading.changed("a command of the agent's shell is a call of `bash`", where)
        turn = make_turn(reading, world, call, Observation(text=step.observation), where)
        turns.append(turn.model_copy(update={"raw_action": step.action}))
    if world.domain == "terminal" and turns:
        reading.verbatim("the observation is the command's output alone: no echo, no prompt")
    status = str((found.info or {}).get("exit_status") or "")
    ending = EndingKind.COMPLETED if status.startswith("submitted") or not status else EndingKind.FAILED
    return [
        make_trajectory(
            reading,
            None,
            world,
            None,
            turns,
            policy=SOURCE,
            ending=ending,
            detail=status or None,
            source=reading.options.source or SOURCE,
        )
    ]


def _task(history: list[Any], reading: Reading) -> str | None:
    """What the user asked first. The rest of the history repeats the steps."""
    for index, message in enumerate(history):
        if isinstance(message, dict) and message.get("role") == "user" and not message.get("is_demo"):
            return content_text(message.get("content"), reading, f"history[{index}]")
    return None


def shell_call(command: str, domain: str) -> ToolCall:
    """A command as a call: of `bash`, or (in a terminal) as keys that are typed."""
    if domain == "terminal":
        keys = command if command.endswith("\n") else command + "\n"
        return ToolCall(name="terminal", arguments={"keys": [{"keystrokes": keys, "duration": 1.0}]})
    return ToolCall(name=BASH.name, arguments={"command": command})


SWE_AGENT = Format(
    name="swe-agent",
    summary="SWE-agent's .traj files",
    versions=("0", "1"),
    sniff=sniff,
    read=read,
)
