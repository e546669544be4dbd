"""DroidBot: a folder of events (`event_TAG.json`) and of screens (`state_TAG.json`).

An event names the state it began in and the one it ended in. A screen is a list of views, which becomes the view
hierarchy of the android domain; a touch is a click in the middle of the view that was touched, as DroidBot does it.
"""

from collections.abc import Sequence
from typing import Any

from worldlm.core.text import canonical_json
from worldlm.core.types import Observation, Trajectory
from worldlm.data.formats.format import (
    Format,
    Reading,
    RecordError,
    Shot,
    Source,
    make_trajectory,
    make_world,
    parse,
    part_key,
    segments,
)
from worldlm.domains.android import write_screen
from worldlm.domains.tree import Box, Node, Tree

SOURCE = "DroidBot"
KEYS = {"BACK": "navigate_back", "HOME": "navigate_home", "ENTER": "keyboard_enter"}
_REACH = 0.4
"""How far a scroll goes from the middle of its view, as a part of the view's size."""
_MOVES = {"UP": (0, -1), "DOWN": (0, 1), "LEFT": (-1, 0), "RIGHT": (1, 0)}
"""Where the finger of a scroll starts, seen from the middle; it ends on the other side."""
_STATES = {
    "checkable": "checkable",
    "checked": "checked",
    "clickable": "clickable",
    "editable": "editable",
    "focused": "focused",
    "is_password": "password",
    "long_clickable": "long_clickable",
    "scrollable": "scrollable",
    "selected": "selected",
}


class Event(Source):
    """What an event file holds."""

    tag: str = ""
    event: dict[str, Any]
    start_state: str | None = None
    stop_state: str | None = None


class State(Source):
    """What a state file holds."""

    tag: str = ""
    state_str: str
    foreground_activity: str | None = None
    width: int | None = None
    height: int | None = None
    views: list[dict[str, Any]]


def sniff(value: Any) -> str | None:
    """Event and state files: one of them, or a list of them."""
    values = value if isinstance(value, list) else [value]
    if values and all(isinstance(item, dict) and (_is_event(item) or _is_state(item)) for item in values):
        return "1"
    return None


def _is_event(value: dict[str, Any]) -> bool:
    return isinstance(value.get("event"), dict) and "stop_state" in value


def _is_state(value: dict[str, Any]) -> bool:
    return isinstance(value.get("views"), list) and "state_str" in value


def read(value: Any, reading: Reading) -> list[Trajectory]:
    """The unbroken parts of a recording."""
    values = value if isinstance(value, list) else [value]
    events = [parse(Event, item, reading) for item in values if _is_event(item)]
    states = [parse(State, item, reading) for item in values if not _is_event(item)]
    if not events or not states:
        lacks = "screens (state_….json)" if events else "events (event_….json)"
        raise RecordError(f"the recording holds no {lacks}; name the folder that holds both")
    screens = {state.state_str: screen(state, reading) for state in states}
    package = next((_package(state.foreground_activity)[0] for state in states if state.foreground_activity), "")
    shots: list[Shot] = []
    last: str | None = None
    for event in sorted(events, key=lambda event: event.tag):
        where = event.tag
        if event.start_state != last or not shots:
            shots.append(Shot(None, _known(screens, event.start_state, reading, where)))
        action = event_action(event.event, reading, where)
        shots.append(Shot(action, _known(screens, event.stop_state, reading, where), _raw(event.event)))
        last = event.stop_state
    return android_trajectories(reading, package or "app", shots, f"The app is {package}.", SOURCE, "DroidBot")


def android_trajectories(
    reading: Reading,
    key: str,
    shots: Sequence[Shot],
    context: str,
    source: str,
    policy: str,
    licence: str | None = None,
) -> list[Trajectory]:
    """A trajectory of each unbroken part. Raises RecordError when there is none."""
    parts = segments(shots, reading)
    if not parts:
        raise RecordError("no action with a screen before and after it, so there is no turn")
    made = []
    for index, (first, turns) in enumerate(parts):
        name = part_key(key, index, len(parts))
        world = make_world(reading, name, "android", context, initial_observation=first.text)
        source = reading.options.source or source
        made.append(make_trajectory(reading, name, world, first, turns, policy=policy, source=source, licence=licence))
    return made


def _known(screens: dict[str, Observation], state: str | None, reading: Reading, where: str) -> Observation | None:
    if state in screens:
        return screens[str(state)]
    reading.dropped("a screen whose file is not there: the recording breaks", f"{where}: {state}")
    return None


# Actions.


def event_action(event: dict[str, Any], reading: Reading, where: object) -> str | None:
    """An event as an action of the android domain; None (told as dropped) where it has none."""
    kind = event.get("event_type")
    point = _middle(event)
    found: dict[str, Any] | None = None
    if kind in ("touch", "long_touch") and point:
        found = {"action_type": "click" if kind == "touch" else "long_press", "x": point[0], "y": point[1]}
    elif kind == "scroll" and point and str(event.get("direction")) in _MOVES:
        found = _scroll(event, point)
    elif kind == "swipe":
        found = _swipe(event)
    elif kind == "set_text" and isinstance(event.get("text"), str):
        found = {"action_type": "input_text", "text": event["text"]}
        if point:
            found |= {"x": point[0], "y": point[1]}
        reading.changed("set_text replaces a field's text; input_text puts it at the cursor", where)
    elif kind == "key" and (key := KEYS.get(str(event.get("name")))):
        found = {"action_type": key}
    elif kind == "intent" and (app := _started(str(event.get("intent")))):
        found = {"action_type": "open_app", "app_name": app}
        reading.changed("an intent that starts an app is open_app with the app's package", where)
    elif kind == "nop":
        found = {"action_type": "wait"}
    if found is None:
        reading.dropped(f"an event of type {kind!r} that no action stands for: the recording breaks", where)
        return None
    reading.changed("an event is an action of the domain (the event is kept beside it)", where)
    return canonical_json(found)


def _raw(event: dict[str, Any]) -> str:
    return canonical_json(event)


def _started(intent: str) -> str | None:
    """The package that `am start` starts."""
    words = intent.split()
    if words[:2] != ["am", "start"]:
        return None
    target = next((word for word in reversed(words[2:]) if "/" in word and not word.startswith("-")), None)
    return target.partition("/")[0] if target else None


def _bounds(event: dict[str, Any], key: str = "view") -> tuple[int, int, int, int] | None:
    try:
        (left, top), (right, bottom) = event[key]["bounds"]
        return int(left), int(top), int(right), int(bottom)
    except (KeyError, TypeError, ValueError):
        return None


def _middle(event: dict[str, Any], x: str = "x", y: str = "y", view: str = "view") -> tuple[int, int] | None:
    bounds = _bounds(event, view)
    if bounds is not None:
        return max(0, (bounds[0] + bounds[2]) // 2), max(0, (bounds[1] + bounds[3]) // 2)
    if isinstance(event.get(x), int | float) and isinstance(event.get(y), int | float):
        return max(0, int(event[x])), max(0, int(event[y]))
    return None


def _scroll(event: dict[str, Any], point: tuple[int, int]) -> dict[str, Any] | None:
    bounds = _bounds(event)
    if bounds is None:
        return {"action_type": "scroll", "direction": event["direction"].lower()}
    across, down = _MOVES[event["direction"]]
    dx = int((bounds[2] - bounds[0]) * _REACH) * across
    dy = int((bounds[3] - bounds[1]) * _REACH) * down
    ends = {"x": point[0] + dx, "y": point[1] + dy, "x2": point[0] - dx, "y2": point[1] - dy}
    return {"action_type": "swipe", **{key: max(0, value) for key, value in ends.items()}}


def _swipe(event: dict[str, Any]) -> dict[str, Any] | None:
    start = _middle(event, "start_x", "start_y", "start_view")
    end = _middle(event, "end_x", "end_y", "end_view")
    if start is None or end is None:
        return None
    return {"action_type": "swipe", "x": start[0], "y": start[1], "x2": end[0], "y2": end[1]}


# Screens.


def screen(state: State, reading: Reading) -> Observation:
    """A state as a screen of the android domain."""
    roots = _nodes(state.views)
    width = state.width or max((node.box.x + node.box.width for node in roots if node.box), default=0)
    height = state.height or max((node.box.y + node.box.height for node in roots if node.box), default=0)
    package, activity = _package(state.foreground_activity)
    header = {"package": package, "activity": activity, "screen": f"{width}x{height}", "keyboard": "hidden"}
    reading.changed(
        "a screen is written as the domain has it: without invisible views, sizes and signatures", state.tag
    )
    reading.changed("the keyboard, which the source does not tell, is given as hidden", state.tag)
    return Observation(text=write_screen(Tree(header, roots), header))


def _package(activity: str | None) -> tuple[str, str]:
    package, _, name = (activity or "").partition("/")
    return package or "unknown", name or "unknown"


def _nodes(views: Sequence[dict[str, Any]]) -> list[Node]:
    """The views as a forest, parents before children; a view that is not visible is left out with all below it."""
    made: dict[int, Node] = {}
    roots: list[Node] = []
    for index, view in enumerate(views):
        if view.get("visible") is False:
            continue
        parent = view.get("parent", -1)
        if isinstance(parent, int) and parent >= 0 and parent not in made:
            continue
        node = made[view.get("temp_id", index)] = _node(view)
        (made[parent].children if isinstance(parent, int) and parent >= 0 else roots).append(node)
    return roots


def _node(view: dict[str, Any]) -> Node:
    states = {ours for theirs, ours in _STATES.items() if view.get(theirs) is True}
    if view.get("enabled") is False:
        states.add("disabled")
    given = {
        "text": view.get("text"),
        "content-desc": view.get("content_description"),
        "resource-id": view.get("resource_id"),
    }
    attributes = {key: str(value) for key, value in given.items() if value}
    bounds = _bounds({"view": view})
    box = Box(bounds[0], bounds[1], bounds[2] - bounds[0], bounds[3] - bounds[1]) if bounds else None
    role = str(view.get("class") or "android.view.View")
    return Node(role, attributes.get("text", ""), None, attributes, frozenset(states), box)


DROIDBOT = Format(
    name="droidbot",
    summary="DroidBot's output folders: events and states as JSON",
    versions=("1",),
    sniff=sniff,
    read=read,
)
