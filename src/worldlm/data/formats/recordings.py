"""Collected recordings of many sources: JSON lines with `source`, `licence`, `domain`, `task` and `turns`.

A turn is `action` and `observation`. Actions come in the words of their source: commands, JSON calls, ReAct's
`Search[…]`, taps on elements, clicks at points, DroidBot's events. An action `[start]` marks the first screen.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from worldlm.core.errors import ActionError
from worldlm.core.types import DomainName, Observation, ToolCall, Trajectory, Turn
from worldlm.data.formats import autodroid, droidbot, miniwob
from worldlm.data.formats.format import (
    Format,
    Reading,
    RecordError,
    Shot,
    Source,
    asked,
    make_trajectory,
    make_turn,
    make_world,
    parse,
    seen_tools,
    slug,
)
from worldlm.data.formats.swe_agent import BASH, shell_call
from worldlm.domains import get_domain
from worldlm.domains.android import read_dump, write_screen
from worldlm.domains.domain import parse_tool_call
from worldlm.domains.tree import TreeError
from worldlm.domains.web import WEB

START = "[start]"
_REACT = re.compile(r"(?P<name>\w+)\[(?P<input>.*)\]\s*", re.DOTALL)
_TAP = re.compile(r"(?P<verb>tap|input) id=(?P<id>\d+)(?: text='(?P<text>.*?)')?(?: on <.*)?", re.DOTALL)
_CLICK = re.compile(
    r"(?P<verb>click|dblclick) x=(?P<x>-?\d+(?:\.\d+)?) y=(?P<y>-?\d+(?:\.\d+)?)(?: ref=(?P<ref>-?\d+) .*)?", re.DOTALL
)
_KEYS = re.compile(r"(?P<verb>type|press) (?P<text>.+)", re.DOTALL)
_APP = "start app "


class RecordedTurn(Source):
    """A turn."""

    action: str
    observation: str


class Recording(Source):
    """A line."""

    source: str
    licence: str
    domain: DomainName
    task: str = ""
    agent: str | None = None
    app: str | None = None
    turns: list[RecordedTurn]


def sniff(value: Any) -> str | None:
    """`source`, `licence`, `domain` and `turns`."""
    return "1" if isinstance(value, dict) and {"source", "licence", "domain", "turns"} <= set(value) else None


def read(value: Any, reading: Reading) -> list[Trajectory]:
    """The trajectory of a line (several, where a recording of screens breaks)."""
    found = parse(Recording, value, reading)
    if not found.turns:
        raise RecordError("turns: there are none")
    return _READERS[found.domain](found, reading)


def _key(found: Recording) -> str:
    """A name for the recording: the end of its source tells most."""
    return slug(found.source[-60:])


# Domains of text.


def _call_of(turn: RecordedTurn, domain: str, reading: Reading, where: str) -> tuple[ToolCall, bool]:
    """The call that an action is, and whether it was written as one."""
    if domain == "swe":
        return shell_call(turn.action, domain), False
    react = _REACT.fullmatch(turn.action)
    if react and domain == "search":
        return ToolCall(name=react["name"], arguments={"input": react["input"]}), False
    try:
        return parse_tool_call(turn.action, None), True
    except ActionError as error:
        raise RecordError(f"{where}.action: {error}") from None


def _calls(found: Recording, reading: Reading) -> list[Trajectory]:
    """A recording whose actions are calls."""
    numbered = [(f"turns[{index}]", turn) for index, turn in enumerate(found.turns)]
    calls = [_call_of(turn, found.domain, reading, where) for where, turn in numbered]
    tools = (BASH,) if found.domain == "swe" else seen_tools([call for call, _ in calls], reading)
    key = _key(found)
    world = make_world(reading, key, found.domain, asked(found.task), tools=tools)
    turns: list[Turn] = []
    for (where, turn), (call, was_call) in zip(numbered, calls, strict=True):
        made = make_turn(reading, world, call, Observation(text=turn.observation), where)
        if not was_call:
            reading.changed("an action in words of its own is a call (the words are kept beside it)", where)
            made = made.model_copy(update={"raw_action": turn.action})
        turns.append(made)
    return [_made(found, reading, world, None, turns)]


def _terminal(found: Recording, reading: Reading) -> list[Trajectory]:
    world = make_world(reading, _key(found), "terminal", asked(found.task))
    turns = []
    for index, turn in enumerate(found.turns):
        where = f"turns[{index}]"
        call = shell_call(turn.action, "terminal")
        made = make_turn(reading, world, call, Observation(text=turn.observation), where)
        turns.append(made.model_copy(update={"raw_action": turn.action}))
        reading.changed("a command is keys that are typed, with Return", where)
        reading.verbatim("the observation is the command's output alone: no echo, no prompt", where)
    return [_made(found, reading, world, None, turns)]


def _made(
    found: Recording, reading: Reading, world: Any, initial: Observation | None, turns: Sequence[Turn]
) -> Trajectory:
    return make_trajectory(
        reading,
        None,
        world,
        initial,
        turns,
        policy=found.agent or "",
        source=found.source,
        licence=found.licence,
    )


# Domains of screens.


@dataclass(frozen=True, slots=True)
class _Screens:
    """How a source writes screens and actions."""

    screen: Callable[[str, Reading, object], Observation | None]
    action: Callable[[str, str, Reading, object], str | None]
    """Takes the action, and the screen before it as the source wrote it."""


def _shots(turns: Sequence[RecordedTurn], words: _Screens, reading: Reading) -> Iterator[Shot]:
    before: str | None = None
    for index, turn in enumerate(turns):
        where = f"turns[{index}]"
        observed = words.screen(turn.observation, reading, where)
        action = None
        if turn.action != START and before is not None:
            action = words.action(turn.action, before, reading, where)
            if action is None:
                reading.dropped("an action that the domain has none for: the recording breaks", where)
        elif turn.action != START:
            reading.dropped("an action on a screen that is not known", where)
        yield Shot(action, observed, turn.action if action else None)
        before = turn.observation if observed is not None else None


def _android(found: Recording, reading: Reading) -> list[Trajectory]:
    xml = found.turns[0].observation.startswith("<hierarchy")
    words = _Screens(_dump, _event) if xml else _Screens(autodroid.read_screen, _tap)
    shots = list(_shots(found.turns, words, reading))
    context = "\n\n".join(part for part in (f"The app is {found.app}." if found.app else "", asked(found.task)) if part)
    return droidbot.android_trajectories(
        reading, _key(found), shots, context, found.source, found.agent or "", found.licence
    )


def _tap(action: str, before: str, reading: Reading, where: object) -> str | None:
    if action.startswith(_APP):
        call = ToolCall(name="open_app", arguments={"app_name": action[len(_APP) :]})
        return get_domain("android").format_action(call)
    match = _TAP.fullmatch(action)
    if match is None:
        return None
    reading.changed("an action in words of its own is one of the domain (the words are kept beside it)", where)
    return autodroid.choice_action(before, int(match["id"]), match["text"] if match["verb"] == "input" else None)


def _event(action: str, before: str, reading: Reading, where: object) -> str | None:
    try:
        event = json.loads(action)
    except ValueError:
        return None
    return droidbot.event_action(event, reading, where) if isinstance(event, dict) else None


def _dump(text: str, reading: Reading, where: object) -> Observation | None:
    """A hierarchy as uiautomator dumps it, as a screen."""
    try:
        tree = read_dump(text)
    except TreeError as error:
        reading.dropped(f"a screen that cannot be read: the recording breaks ({error})", where)
        return None
    package, _, activity = tree.header.get("activity", "").partition("/")
    boxes = [node.box for node in tree.nodes() if node.box]
    width = max((box.x + box.width for box in boxes), default=0)
    height = max((box.y + box.height for box in boxes), default=0)
    header = {
        "package": package or "unknown",
        "activity": activity or "unknown",
        "screen": f"{width}x{height}",
        "keyboard": "hidden",
    }
    reading.changed("a screen is written as the domain has it (the source's text is kept beside it)", where)
    reading.changed(
        "keyboard and size of the screen, which the source does not tell, are hidden and what the nodes take", where
    )
    return Observation(text=write_screen(tree, header), raw=text)


def _web(found: Recording, reading: Reading) -> list[Trajectory]:
    name = found.source.rpartition("/")[2].partition("_")[0] or "page"

    def screen(text: str, reading: Reading, where: object) -> Observation | None:
        dom = _load(text)
        if dom is None:
            reading.dropped("a page that was cut off: the recording breaks", where)
            return None
        return miniwob.page(dom, name, reading, where)

    shots = list(_shots(found.turns, _Screens(screen, _web_action), reading))
    return miniwob.web_trajectories(reading, _key(found), shots, asked(found.task), found.source, found.licence)


def _load(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _web_action(action: str, before: str, reading: Reading, where: object) -> str | None:
    dom = _load(before) or {}
    if match := _CLICK.fullmatch(action):
        point = {"x": json.loads(match["x"]), "y": json.loads(match["y"])}
        call = miniwob.click(dom, point, double=match["verb"] == "dblclick", ref=int(match["ref"] or 0))
    elif match := _KEYS.fullmatch(action):
        press = match["verb"] == "press"
        text = match["text"]
        plain = text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
        call = (
            ToolCall(name="keyboard_press", arguments={"key": text})
            if press
            else ToolCall(name="keyboard_type", arguments={"text": plain})
        )
    else:
        return None
    reading.changed("an action in words of its own is one of the domain (the words are kept beside it)", where)
    return WEB.format_action(call)


def _no_reader(found: Recording, reading: Reading) -> list[Trajectory]:
    raise RecordError(f"domain: recordings of {found.domain!r} have no known form")


_READERS: dict[str, Callable[[Recording, Reading], list[Trajectory]]] = {
    "terminal": _terminal,
    "swe": _calls,
    "mcp": _calls,
    "search": _calls,
    "web": _web,
    "android": _android,
    "os": _no_reader,
}

RECORDINGS = Format(
    name="recordings",
    summary="Collected recordings of many sources: JSON lines with source, licence, domain and turns",
    versions=("1",),
    sniff=sniff,
    read=read,
)
