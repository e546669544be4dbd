"""OpenHands: the events of a session: a list, under `history` (evaluation output), or a folder of one file an event.

Version 0 has events with `action` and `args`, and events with `observation` and `content` whose `cause` is the action's
id. Version 1 (the SDK) names an event's `kind`: `ActionEvent` with `tool_name` and `tool_call`, and what answers its
`tool_call_id`.
"""

from typing import Any

from worldlm.core.types import Observation, ToolCall, Trajectory, Turn
from worldlm.data.formats.chat import content_text
from worldlm.data.formats.format import (
    Format,
    Reading,
    RecordError,
    asked,
    call_arguments,
    invalid_turn,
    make_trajectory,
    make_turn,
    make_world,
    seen_tools,
)

SOURCE = "OpenHands"
_TALK = {"message", "system", "finish", "think", "recall", "change_agent_state", "reject", "null", "condensation"}
"""Actions that do nothing to the environment."""
_BOOKKEEPING = {"thought", "hidden", "confirmation_state", "security_risk", "blocking", "is_confirmed", "keep_prompt"}
_NO_CHANGE: tuple[Any, ...] = ("", None, False, [], {})
_ANSWERS = ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation")


def _events(value: Any) -> list[dict[str, Any]] | None:
    events = value.get("history") if isinstance(value, dict) else value
    if isinstance(events, list) and events and all(isinstance(event, dict) for event in events):
        return events
    return None


def sniff(value: Any) -> str | None:
    """Events of one version or the other."""
    events = _events(value)
    if events is None:
        return None
    if all("kind" in event and "source" in event for event in events):
        return "1"
    named = [event for event in events if "action" in event or "observation" in event]
    return "0" if named and all("source" in event and "id" in event for event in named) else None


def read(value: Any, reading: Reading) -> list[Trajectory]:
    """One trajectory of a session."""
    events = _events(value)
    assert events is not None  # what the sniffer asked
    if isinstance(value, dict):
        for name in sorted(set(value) - {"history", "instance_id"}):
            reading.dropped(f"key {name}")
    key = str(value["instance_id"]) if isinstance(value, dict) and value.get("instance_id") else None
    pairs = _pairs_0(events, reading) if reading.version == "0" else _pairs_1(events, reading)
    if not pairs:
        raise RecordError("no action with an observation, so there is no turn")
    calls = [ToolCall(name=name) for name, *_ in pairs]
    world = make_world(
        reading,
        key or "run",
        reading.options.domain or "swe",
        asked(_task(events, reading)),
        tools=seen_tools(calls, reading),
    )
    turns: list[Turn] = []
    for name, given, observation, where in pairs:
        arguments = call_arguments(given, reading, where)
        if arguments is None:
            reading.changed("a call whose arguments are not JSON is an invalid action", where)
            turns.append(invalid_turn(name, str(given), observation.text))
        else:
            turns.append(make_turn(reading, world, ToolCall(name=name, arguments=arguments), observation, where))
    return [make_trajectory(reading, key, world, None, turns, policy=SOURCE, source=reading.options.source or SOURCE)]


def _task(events: list[dict[str, Any]], reading: Reading) -> str | None:
    for event in events:
        if event.get("source") != "user":
            continue
        if event.get("action") == "message":
            return str((event.get("args") or {}).get("content", ""))
        message = event.get("llm_message")
        if isinstance(message, dict):
            return content_text(message.get("content"), reading, "the task")
    return None


_Pair = tuple[str, Any, Observation, str]


def _pairs_0(events: list[dict[str, Any]], reading: Reading) -> list[_Pair]:
    answers: dict[Any, dict[str, Any]] = {}
    for event in events:
        if "observation" in event and event.get("cause") is not None:
            answers.setdefault(event["cause"], event)
    pairs: list[_Pair] = []
    for index, event in enumerate(events):
        where = f"event {event.get('id', index)}"
        kind = event.get("action")
        if kind is None:
            if "observation" in event and event.get("cause") is None and event["observation"] != "agent_state_changed":
                reading.dropped("an observation that names no action", where)
            continue
        if kind in _TALK or event.get("source") != "agent":
            reading.dropped(f"an event of type {kind!r}: it does nothing to the environment", where)
            continue
        answer = answers.get(event.get("id"))
        if answer is None:
            reading.dropped("an action without an observation", where)
            continue
        args = event.get("args") if isinstance(event.get("args"), dict) else {}
        shown = {
            name: item for name, item in (args or {}).items() if name not in _BOOKKEEPING and item not in _NO_CHANGE
        }
        pairs.append((str(kind), shown, _observation_0(answer, reading, where), where))
    return pairs


def _observation_0(event: dict[str, Any], reading: Reading, where: str) -> Observation:
    """What the agent saw of an observation: its content within the prefix and suffix of its metadata."""
    extras = event.get("extras") if isinstance(event.get("extras"), dict) else {}
    metadata = (extras or {}).get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    text = f"{metadata.get('prefix') or ''}{event.get('content') or ''}{metadata.get('suffix') or ''}"
    for name in sorted(set(extras or {})):
        reading.dropped(f"key extras.{name} of an observation", where)
    return Observation(text=text, is_error=event.get("observation") == "error")


def _pairs_1(events: list[dict[str, Any]], reading: Reading) -> list[_Pair]:
    answers: dict[Any, dict[str, Any]] = {}
    for event in events:
        if event["kind"] in _ANSWERS and event.get("tool_call_id"):
            answers.setdefault(event["tool_call_id"], event)
    pairs: list[_Pair] = []
    for index, event in enumerate(events):
        where = f"event {event.get('id', index)}"
        if event["kind"] != "ActionEvent":
            if event["kind"] not in _ANSWERS:
                reading.dropped(f"an event of type {event['kind']!r}: it does nothing to the environment", where)
            continue
        name = str(event.get("tool_name") or "")
        if name in _TALK:
            reading.dropped(f"an event of type {name!r}: it does nothing to the environment", where)
            continue
        answer = answers.get(event.get("tool_call_id"))
        if answer is None or not name:
            reading.dropped("an action without an observation", where)
            continue
        call = event.get("tool_call")
        given = call.get("arguments", (call.get("function") or {}).get("arguments")) if isinstance(call, dict) else None
        if given is None:
            action = event.get("action")
            given = {key: item for key, item in action.items() if key != "kind"} if isinstance(action, dict) else None
        pairs.append((name, given, _observation_1(answer, reading, where), where))
    return pairs


def _observation_1(event: dict[str, Any], reading: Reading, where: str) -> Observation:
    if event["kind"] != "ObservationEvent":
        text = event.get("error") or event.get("rejection_reason") or ""
        return Observation(text=str(text), is_error=True)
    inner = event.get("observation")
    if not isinstance(inner, dict):
        return Observation(text=content_text(inner, reading, where))
    known = ("content", "output", "text")
    name = next((name for name in known if inner.get(name) is not None), None)
    for other in sorted(set(inner) - {"kind", "is_error", name}):
        if inner[other] not in _NO_CHANGE:
            reading.dropped(f"key observation.{other}", where)
    text = content_text(inner[name], reading, where) if name else ""
    return Observation(text=text, is_error=inner.get("is_error") is True)


OPENHANDS = Format(
    name="openhands",
    summary="Events of OpenHands sessions: a list, evaluation output, or a folder of events",
    versions=("0", "1"),
    sniff=sniff,
    read=read,
)
