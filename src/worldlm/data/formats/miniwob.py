"""MiniWoB demonstrations (`.json.gz`): the DOM of the page at every event of a person.

Each event is recorded before and after the page handled it (`timing` 1 and 3; the DOM after 3 counts). Down, up and
click of a mouse are one click, keys that make letters are one typing. A click names the element that it hit. The DOM
becomes the outline of the web domain, with `ref` as the bid; the DOM itself is kept beside it.
"""

import json
from collections.abc import Iterator
from typing import Any

from worldlm.core.text import canonical_json
from worldlm.core.types import Observation, ToolCall, Trajectory
from worldlm.data.formats.format import (
    Format,
    Reading,
    RecordError,
    Shot,
    Source,
    asked,
    make_trajectory,
    make_world,
    parse,
    part_key,
    segments,
)
from worldlm.domains.web import WEB

SOURCE = "MiniWoB demonstrations"
ROLES = {
    "A": "link",
    "BUTTON": "button",
    "FORM": "form",
    "H1": "heading",
    "H2": "heading",
    "H3": "heading",
    "IMG": "image",
    "INPUT_button": "button",
    "INPUT_checkbox": "checkbox",
    "INPUT_number": "spinbutton",
    "INPUT_password": "textbox",
    "INPUT_radio": "radio",
    "INPUT_range": "slider",
    "INPUT_submit": "button",
    "INPUT_text": "textbox",
    "LABEL": "LabelText",
    "LI": "listitem",
    "OL": "list",
    "OPTION": "option",
    "P": "paragraph",
    "SELECT": "combobox",
    "TABLE": "table",
    "TD": "cell",
    "TEXTAREA": "textbox",
    "TH": "columnheader",
    "TR": "row",
    "UL": "list",
    "t": "StaticText",
}
KEYS = {
    8: "Backspace",
    9: "Tab",
    13: "Enter",
    27: "Escape",
    33: "PageUp",
    34: "PageDown",
    35: "End",
    36: "Home",
    37: "ArrowLeft",
    38: "ArrowUp",
    39: "ArrowRight",
    40: "ArrowDown",
    46: "Delete",
}
"""Names of keys that make no letter, by their code in the DOM's events."""

DRAG = 4
"""Pixels that a mouse may move between down and up, and it is still a click."""


class State(Source):
    """A moment."""

    time: float
    action: dict[str, Any] | None = None
    dom: dict[str, Any]


class Demonstration(Source):
    """A file."""

    taskName: str | None = None  # noqa: N815
    utterance: Any = None
    states: list[State]
    reward: float | None = None
    rawReward: float | None = None  # noqa: N815


def sniff(value: Any) -> str | None:
    """`utterance` and `states` with a `dom`."""
    states = value.get("states") if isinstance(value, dict) else None
    if isinstance(states, list) and states and all(isinstance(s, dict) and "dom" in s for s in states):
        return "1"
    return None


def read(value: Any, reading: Reading) -> list[Trajectory]:
    """The trajectory of a demonstration (several, where it breaks)."""
    found = parse(Demonstration, value, reading)
    name = found.taskName or "task"
    utterance = found.utterance.get("utterance") if isinstance(found.utterance, dict) else found.utterance
    return web_trajectories(
        reading, name, list(_shots(found.states, name, reading)), asked(str(utterance or "")), SOURCE
    )


def web_trajectories(
    reading: Reading, key: str, shots: list[Shot], context: str, source: str, licence: str | None = None
) -> list[Trajectory]:
    """A trajectory of each unbroken part. Raises RecordError when there is none."""
    parts = segments(shots, reading)
    if not parts:
        raise RecordError("no action with a page before and after it, so there is no turn")
    made = []
    for index, (first, turns) in enumerate(parts):
        name = part_key(key, index, len(parts))
        world = make_world(reading, name, "web", context, initial_observation=first.text)
        source = reading.options.source or source
        made.append(
            make_trajectory(reading, name, world, first, turns, policy="person", source=source, licence=licence)
        )
    return made


def _shots(states: list[State], name: str, reading: Reading) -> Iterator[Shot]:
    before = states[0].dom
    yield Shot(None, page(before, name, reading, "states[0]"))
    for where, call, dom, raw in _Hands(reading).gestures(states):
        # Where a click goes is told by the page on which it was begun.
        made = click(before, call.arguments, double=False) if call.name == "mouse_click" else call
        yield Shot(WEB.format_action(made), page(dom, name, reading, where), raw)
        before = dom


_Gesture = tuple[str, ToolCall, dict[str, Any], str]
"""Where it is, what was done, the page after it, and the source's words."""


class _Hands:
    """Events, put together to what a person did."""

    def __init__(self, reading: Reading):
        self._reading = reading
        self._typed = ""
        self._typed_dom: dict[str, Any] = {}
        self._held = 0
        self._pressed: State | None = None
        self._dragged = False

    def gestures(self, states: list[State]) -> Iterator[_Gesture]:
        for index, state in enumerate(states):
            action, where = state.action or {}, f"states[{index}]"
            if not action or action.get("timing", 3) == 1:
                continue  # the first state, and events that the page has not handled yet
            kind = str(action.get("type"))
            if kind.startswith("key"):
                yield from self._key(kind, action, state, where)
                continue
            yield from self._letters(where)
            if kind == "mousedown":
                self._pressed, self._dragged = state, False
            elif kind == "mouseup":
                yield from self._up(action, state, where)
            elif kind == "click" and self._dragged:
                self._reading.dropped("the click that ends a drag", where)
            elif kind == "click":
                self._pressed = None
                yield where, _at("mouse_click", action), state.dom, canonical_json(action)
            elif kind == "dblclick":
                yield where, _at("mouse_dblclick", action), state.dom, canonical_json(action)
            else:
                self._reading.dropped(f"an event of type {kind!r} that no action stands for", where)
        yield from self._letters("the last state")

    def _key(self, kind: str, action: dict[str, Any], state: State, where: str) -> Iterator[_Gesture]:
        name = KEYS.get(action.get("keyCode") or 0)
        letter = _letter(action) if kind == "keypress" else ""
        if letter:
            self._typed += letter
        if self._typed:
            self._typed_dom = state.dom if kind == "keyup" or not self._typed_dom else self._typed_dom
        if name is None or letter:
            return
        if kind == "keydown":
            self._held += 1
        elif kind == "keyup":
            yield from self._letters(where)
            if self._held > 1:
                self._reading.changed("a key that was held down is pressed once", where)
            self._held = 0
            call = ToolCall(name="keyboard_press", arguments={"key": name})
            yield where, call, state.dom, canonical_json(action)

    def _letters(self, where: str) -> Iterator[_Gesture]:
        if self._typed:
            call = ToolCall(name="keyboard_type", arguments={"text": self._typed})
            yield where, call, self._typed_dom, repr(self._typed)
        self._typed, self._typed_dom = "", {}

    def _up(self, action: dict[str, Any], state: State, where: str) -> Iterator[_Gesture]:
        """A button that is let go elsewhere than it was pressed is a drag; at the same place, a click follows."""
        down = self._pressed
        if down is None or down.action is None:
            return
        way = [abs(action.get(axis, 0) - down.action.get(axis, 0)) for axis in ("x", "y")]
        self._dragged = max(way) > DRAG
        if self._dragged:
            yield where, _at("mouse_down", down.action), down.dom, canonical_json(down.action)
            yield where, _at("mouse_up", action), state.dom, canonical_json(action)
            self._pressed = None


def _at(name: str, action: dict[str, Any]) -> ToolCall:
    return ToolCall(name=name, arguments={axis: max(0, action.get(axis, 0)) for axis in ("x", "y")})


def _letter(action: dict[str, Any]) -> str:
    code = action.get("charCode") or 0
    return chr(code) if isinstance(code, int) and 32 <= code < 0x110000 and code != 127 else ""


def click(dom: dict[str, Any], action: dict[str, Any], *, double: bool, ref: int = 0) -> ToolCall:
    """A click: of the element `ref`, else of the one at the point, or (a double click, or none there) at the point."""
    x, y = max(0, action.get("x", 0)), max(0, action.get("y", 0))
    found = ref if ref > 0 and any(node.get("ref") == ref for node in nodes(dom)) else hit(dom, x, y)
    if found is None or double:
        return ToolCall(name="mouse_dblclick" if double else "mouse_click", arguments={"x": x, "y": y})
    return ToolCall(name="click", arguments={"bid": str(found)})


def nodes(dom: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every node, parents before children, in the order of the page."""
    waiting = [dom]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed([child for child in node.get("children") or () if isinstance(child, dict)])


def hit(dom: dict[str, Any], x: float, y: float) -> int | None:
    """The `ref` of the element at a point: the innermost, the last of those that lie over each other."""
    found: int | None = None
    for node in nodes(dom):
        left, top, ref = node.get("left", 0), node.get("top", 0), node.get("ref")
        inside = left <= x < left + node.get("width", 0) and top <= y < top + node.get("height", 0)
        if inside and isinstance(ref, int) and ref > 0:
            found = ref
    return found


def page(dom: dict[str, Any], name: str, reading: Reading, where: object) -> Observation:
    """A DOM as a page of the web domain, with its JSON beside it."""
    reading.changed("a DOM is written as an outline, without positions, colours and classes (it is kept)", where)
    reading.changed("the address, which the source does not tell, is made of the task's name", where)
    focused = ", focused" if dom.get("focused") else ""
    lines = [f"URL: http://miniwob/{name}.html", f"Tabs: *0 {name!r}", f"RootWebArea {name!r}{focused}"]
    waiting: list[tuple[dict[str, Any], int]] = [(child, 1) for child in reversed(dom.get("children") or [])]
    while waiting:
        node, depth = waiting.pop()
        lines.append("\t" * depth + _line(node))
        waiting += [(child, depth + 1) for child in reversed(node.get("children") or [])]
    return Observation(text="\n".join(lines), raw=json.dumps(dom, ensure_ascii=False, separators=(",", ":")))


def _line(node: dict[str, Any]) -> str:
    ref = node.get("ref")
    bid = f"[{ref}] " if isinstance(ref, int) and ref > 0 else ""
    role = ROLES.get(str(node.get("tag")), "generic")
    parts = [f"{bid}{role} {str(node.get('text') or '')!r}"]
    value = node.get("value")
    if isinstance(value, bool):
        parts.append(f"checked={value}")
    elif value not in (None, ""):
        parts[0] += f" value={str(value)!r}"
    if node.get("focused"):
        parts.append("focused")
    return ", ".join(parts)


MINIWOB = Format(
    name="miniwob",
    summary="MiniWoB demonstrations (.json.gz)",
    versions=("1",),
    sniff=sniff,
    read=read,
)
