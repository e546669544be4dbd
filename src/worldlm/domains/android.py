"""Android: one UI action in, the screen as a view hierarchy out.

An action is a JSON object, `{"action_type": "click", "index": 3}`. A node is named by its `index` on the newest
screen or by a point (`x`, `y`, in pixels). `scroll` names the direction in which the content is explored (`down`
shows what lies below); `swipe` names the way of the finger. `input_text` taps its node first, when it names one,
puts the text at the cursor and presses no Enter. `status` ends the episode; `answer` is heard by
the harness; neither changes the screen.

An observation is the active window as XML, one element a line, indented by two spaces a level:

    <hierarchy package="org.fenn.notes" activity=".MainActivity" screen="1080x2400" keyboard="hidden">
      <node class="TextView" text="Notes"/>
      <node index="0" class="EditText" hint="Search" bounds="[48,260][1032,380]" state="clickable editable"/>
      <node index="1" class="Switch" text="Wi-Fi" bounds="[48,420][1032,560]" state="clickable checkable checked"/>
      <toast text="Saved"/>
    </hierarchy>

`<hierarchy>`: `package`, `activity` (a leading dot stands for the package), `screen` (WIDTHxHEIGHT in pixels) and
`keyboard` (`shown` or `hidden`) are always there; `window` (`dialog`, `menu`, `panel`) when the active window is not
the activity's own, whose nodes are then left out; `error` when the action could not be done, and then the screen is
otherwise as it was. `<node>`: `class` always (without `android.widget.`, `android.view.` or `android.webkit.`);
`index` on every node that can be acted on, unique on the screen, from 0 in order; `text`, `hint`, `content-desc`
(unless it repeats the text), `resource-id` (`id/…` for the package's own) where there is one; `bounds`, clipped to the
screen, on every node with an index; `state`, of `checkable checked clickable disabled editable focused long_clickable
password scrollable selected`. Layouts that hold nothing of their own are left out and their children move up.
`<toast>` comes last and is gone on the next screen.

`write_screen` makes this text of a view hierarchy as uiautomator dumps it. A dump does not say what is editable: that
is told by the class (`EditText`, `…AutoComplete…`). Nor does it tell hint and text of an empty field apart before
Android 14: there the hint stands as the text.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from worldlm.core.errors import ActionError, nearest
from worldlm.core.text import canonical_json
from worldlm.core.types import Check, Limits, Observation, Tool, ToolCall, Turn, World
from worldlm.domains.domain import (
    Domain,
    HarnessReply,
    json_kind,
    observation_text,
    parse_json,
    text_observation,
)
from worldlm.domains.gui import (
    Screens,
    check_arguments,
    find_tool,
    first_screen,
    keep_screen,
    state_text,
    tool,
)
from worldlm.domains.tree import Node, Tree, on_screen, one_focused, read_hierarchy, size, unique_ids

STATES = frozenset(
    {"checkable", "checked", "clickable", "disabled", "editable"}
    | {"focused", "long_clickable", "password", "scrollable", "selected"}
)
_ACTIONABLE = frozenset({"checkable", "clickable", "editable", "long_clickable", "scrollable"})

_INDEX = {"type": "integer", "minimum": 0, "maximum": 9999, "description": "the node's index on the newest screen"}
_PIXEL = {"type": "integer", "minimum": 0, "maximum": 19_999, "description": "a point on the screen, in pixels"}
_TARGET = {"index": _INDEX, "x": _PIXEL, "y": _PIXEL}
_TEXT = {"type": "string", "description": "the text"}
_DIRECTION = {"type": "string", "enum": ["up", "down", "left", "right"], "description": "up, down, left or right"}
_APP = {"type": "string", "minLength": 1, "description": "the app's name as the launcher shows it"}
_GOAL = {"type": "string", "enum": ["complete", "infeasible"], "description": "complete or infeasible"}

TOOLS: tuple[Tool, ...] = (
    tool("click", "Tap a node (index) or a point (x and y).", **_TARGET),
    tool("long_press", "Press and hold a node (index) or a point (x and y).", **_TARGET),
    tool(
        "input_text",
        "Type text into the focused field, or into the one named by index or by x and y. Enter is not pressed.",
        ["text"],
        text=_TEXT,
        **_TARGET,
    ),
    tool(
        "scroll",
        "Scroll the screen, or one scrollable node. down shows what lies below.",
        ["direction"],
        direction=_DIRECTION,
        index=_INDEX,
    ),
    tool(
        "swipe",
        "Move a finger in a direction (over the whole screen, or over one node) or from x, y to x2, y2.",
        direction=_DIRECTION,
        **_TARGET,
        x2=_PIXEL,
        y2=_PIXEL,
    ),
    tool("open_app", "Open an app.", ["app_name"], app_name=_APP),
    tool("navigate_back", "Press Back."),
    tool("navigate_home", "Press Home."),
    tool("keyboard_enter", "Press Enter on the keyboard."),
    tool("wait", "Wait for the screen to settle."),
    tool(
        "status",
        "End the episode: the goal is complete, or it is infeasible.",
        ["goal_status"],
        goal_status=_GOAL,
    ),
    tool("answer", "Answer the user's question; the screen stays.", ["text"], text=_TEXT),
)
_ERROR = re.compile(r' error="[^"]*"(?=[^<]*>)')
_TOAST = re.compile(r"\n *<toast [^<>]*/>")
_CLASS = re.compile(r"android\.(?:widget|view|webkit)\.")
_EDITABLE = re.compile(r"EditText|AutoComplete")
_UNPRINTABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
_EXPECTED = '{"action_type": "click", "index": 3}'


def parse_action(text: str, world: World) -> ToolCall:
    """A JSON object to a call of the action's name."""
    value = parse_json(text, f"one object such as {_EXPECTED}")
    if not isinstance(value, dict):
        raise ActionError(f"the action must be an object such as {_EXPECTED}, not {json_kind(value)}")
    arguments: dict[str, Any] = dict(value)
    name = arguments.pop("action_type", None)
    if not isinstance(name, str) or not name:
        raise ActionError(f"the action has no 'action_type' (a string); {nearest('', [row.name for row in TOOLS])}")
    row = find_tool(name, TOOLS)
    call = ToolCall(name=name, arguments=check_arguments(row, arguments))
    _check_target(call)
    return call


def _check_target(call: ToolCall) -> None:
    """Which of index, point and direction go together."""
    given = set(call.arguments)
    if "index" in given and given & {"x", "y"}:
        raise ActionError(f"{call.name} takes either 'index' or 'x' and 'y', not both")
    if ("x" in given) != ("y" in given):
        raise ActionError(f"{call.name} needs both 'x' and 'y' for a point")
    if call.name in ("click", "long_press") and not given:
        raise ActionError(f"{call.name} needs 'index', or 'x' and 'y'")
    if call.name != "swipe":
        return
    path = given & {"x2", "y2"}
    if "direction" in given and (path or "x" in given):
        raise ActionError("swipe takes either 'direction' (with or without 'index') or 'x', 'y', 'x2', 'y2'")
    if "direction" not in given and (len(path) < 2 or "x" not in given):
        raise ActionError("swipe needs 'direction', or 'x', 'y', 'x2' and 'y2'")


def format_action(call: ToolCall) -> str:
    """A call to its JSON object, canonical."""
    return canonical_json({"action_type": call.name, **call.arguments})


_LINE_WORDS = {
    "back": "navigate_back",
    "home": "navigate_home",
    "enter": "keyboard_enter",
    "wait": "wait",
    "tap": "click",
    "click": "click",
    "long": "long_press",
    "press": "long_press",
}


def from_line(line: str, world: World) -> str:
    """Shorthand; an object is an action as it stands.

    `click 3`, `click 540 1200`, `long 3`, `type hello`, `type @3 hello`, `scroll down`, `scroll down 3`, `swipe left`,
    `open Notes`, `back`, `home`, `enter`, `wait`, `answer 42`, `done`, `infeasible`.
    """
    word, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    numbers = [int(part) for part in rest.split()] if re.fullmatch(r"\d{1,5}( +\d{1,5})?", rest) else []
    name = _LINE_WORDS.get(word)
    if name in ("click", "long_press") and numbers:
        target = {"index": numbers[0]} if len(numbers) == 1 else {"x": numbers[0], "y": numbers[1]}
        return _action(name, **target)
    if name and not rest and name not in ("click", "long_press"):
        return _action(name)
    if word == "type" and rest:
        field = re.match(r"@(\d{1,4}) ", rest)
        if field:
            return _action("input_text", text=rest[field.end() :], index=int(field[1]))
        return _action("input_text", text=rest)
    if word in ("scroll", "swipe") and (match := re.fullmatch(r"(up|down|left|right)(?: +(\d{1,4}))?", rest)):
        index = {"index": int(match[2])} if match[2] else {}
        return _action(word, direction=match[1], **index)
    if word == "open" and rest:
        return _action("open_app", app_name=rest)
    if word == "answer" and rest:
        return _action("answer", text=rest)
    if word in ("done", "infeasible") and not rest:
        return _action("status", goal_status="complete" if word == "done" else "infeasible")
    return line


def _action(name: str, **arguments: str | int) -> str:
    return canonical_json({"action_type": name, **arguments})


def tools(world: World) -> tuple[Tool, ...]:
    """One tool an action."""
    return TOOLS


def harness(world: World, turns: Sequence[Turn], call: ToolCall) -> HarnessReply | None:
    """`status` ends the episode, `answer` goes to the user; the screen stays as it was."""
    if call.name in ("status", "answer"):
        kept = keep_screen(world, turns, terminated=call.name == "status", error=_ERROR)
        return replace(kept, observation=Observation(text=calm_screen(kept.observation.text)))
    return None


def read_dump(text: str) -> Tree:
    """A view hierarchy as uiautomator writes it. Raises TreeError.

    Old versions write a letter beyond the basic plane as two halves, which no XML reader takes, and views drawn by
    other toolkits may have no class.
    """
    text = _HALVES.sub(_joined, text)
    return read_hierarchy(text.replace(' class=""', ' class="android.view.View"'))


_HALVES = re.compile(r"&#(?P<high>5\d{4});(?:&#(?P<low>5\d{4});)?")


def _joined(match: re.Match[str]) -> str:
    codes = [int(code) for code in match.groups() if code]
    letters = b"".join(code.to_bytes(2, "big") for code in codes).decode("utf-16-be", "replace")
    return _escaped(letters)


def write_screen(tree: Tree, header: Mapping[str, str], toasts: Sequence[str] = ()) -> str:
    """A view hierarchy as uiautomator dumps it, as an observation. `header` holds `screen` and what else is known."""
    pixels = size(header["screen"]) or (0, 0)
    package = header.get("package", "")
    numbers = itertools.count()

    def lines(node: Node, depth: int) -> Iterator[str]:
        row = _row(node, package, pixels)
        if row is None:
            for child in node.children:
                yield from lines(child, depth)
            return
        if "bounds" in row:
            row = {"index": str(next(numbers)), **row}
        indent = "  " * depth
        inner = [line for child in node.children for line in lines(child, depth + 1)]
        yield f"{indent}<node{_attributes(row)}{'>' if inner else '/>'}"
        if inner:
            yield from inner
            yield f"{indent}</node>"

    nodes = [line for root in tree.roots if root.role != "toast" for line in lines(root, 1)]
    shown = [f"  <toast{_attributes({'text': text})}/>" for text in toasts]
    return "\n".join([f"<hierarchy{_attributes(header)}>", *nodes, *shown, "</hierarchy>"])


def _row(node: Node, package: str, pixels: tuple[int, int]) -> dict[str, str] | None:
    """The attributes of a node; None for one that holds nothing of its own, or lies off the screen."""
    states = set(node.states & STATES)
    if _EDITABLE.search(node.role.rpartition(".")[2]):
        states.add("editable")
    # As they will be written: two that differ only in what cannot be are the same.
    given = {
        key: _UNPRINTABLE.sub("\ufffd", node.attributes.get(key, ""))
        for key in ("text", "hint", "content-desc", "resource-id")
    }
    if "editable" in states and given["text"] == given["hint"]:
        given["text"] = ""
    if given["content-desc"] == given["text"]:
        given["content-desc"] = ""
    if not states and not (given["text"] or given["hint"] or given["content-desc"]):
        return None
    given["resource-id"] = given["resource-id"].removeprefix(f"{package}:")
    row = {"class": _CLASS.sub("", node.role, count=1) if _CLASS.match(node.role) else node.role}
    row |= {key: value for key, value in given.items() if value}
    if states & _ACTIONABLE:
        bounds = _clipped(node, pixels)
        if bounds is None:
            return None
        row["bounds"] = bounds
    if states:
        row["state"] = " ".join(sorted(states, key=_STATE_ORDER.index))
    return row


_STATE_ORDER = (
    *("clickable", "long_clickable", "checkable", "checked", "editable", "password"),
    *("scrollable", "selected", "focused", "disabled"),
)


def _clipped(node: Node, pixels: tuple[int, int]) -> str | None:
    if node.box is None:
        return None
    left, top = max(node.box.x, 0), max(node.box.y, 0)
    right, bottom = min(node.box.x + node.box.width, pixels[0]), min(node.box.y + node.box.height, pixels[1])
    return f"[{left},{top}][{right},{bottom}]" if left < right and top < bottom else None


def _attributes(row: Mapping[str, str]) -> str:
    return "".join(f' {key}="{_escaped(value)}"' for key, value in row.items())


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(letter, letter) for letter in _UNPRINTABLE.sub("\ufffd", text))


def calm_screen(screen: str) -> str:
    """A screen without what stands on it once: toasts, and the error of an action."""
    return _TOAST.sub("", _ERROR.sub("", screen, count=1))


def failed_screen(screen: str, error: str) -> str:
    """The screen as it was, with what could not be done."""
    return re.sub(r"(?=/?>)", lambda _: _attributes({"error": error}), calm_screen(screen), count=1)


def screen_rules(screen: Tree) -> list[Check]:
    """The rules that one screen keeps by itself."""
    pixels = size(screen.header.get("screen", ""))
    missing = [key for key in ("package", "activity") if not screen.header.get(key)]
    if pixels is None:
        missing.append("screen (WIDTHxHEIGHT)")
    if screen.header.get("keyboard") not in ("shown", "hidden"):
        missing.append("keyboard (shown or hidden)")
    unknown = sorted({state for node in screen.nodes() for state in node.states} - STATES)
    bare = [node for node in screen.nodes() if node.states & _ACTIONABLE and not _addressable(node)]
    checks = [
        Check(rule="header", passed=not missing, message=f"<hierarchy> lacks {', '.join(missing)}"),
        Check(rule="states", passed=not unknown, message=f"unknown state: {', '.join(unknown[:5])}"),
        Check(
            rule="indexed",
            passed=not bare,
            message=f"{len(bare)} nodes can be acted on and have no index (a whole number) or no bounds",
        ),
        unique_ids(screen),
        one_focused(screen),
    ]
    if pixels is not None:
        checks.append(on_screen(screen, *pixels, wholly=True))
    return checks


def _addressable(node: Node) -> bool:
    return node.id is not None and node.id.isdecimal() and node.box is not None


def _action_rules(call: ToolCall, before: Tree, after: Tree) -> list[Check]:
    checks = [_same_screen(before, after)]
    failed = "error" in after.header
    index = call.arguments.get("index")
    if index is not None and before.find(str(index)) is None:
        stays = failed and before.same_nodes(after)
        message = f"no node had index {index}: <hierarchy> needs error=… and the nodes stay as they were"
        return [*checks, Check(rule="unknown_target", passed=stays, message=message)]
    if failed:
        return checks
    package = after.header.get("package", "")
    launcher = _is_launcher(before.header.get("package", ""))
    if call.name == "navigate_home":
        checks.append(
            Check(rule="home", passed=_is_launcher(package), message=f"Home shows the launcher, not {package!r}")
        )
    if call.name == "open_app" and launcher:
        checks.append(
            Check(rule="open_app", passed=not _is_launcher(package), message="the app's package, or error=…, was due")
        )
    if call.name == "input_text" and _same_window(before, after):
        checks += _typed(call, before, after)
    return checks


def _same_screen(before: Tree, after: Tree) -> Check:
    """A screen keeps its size, or turns."""
    was, now = size(before.header.get("screen", "")), size(after.header.get("screen", ""))
    same = was is None or now is None or sorted(was) == sorted(now)
    return Check(rule="screen_size", passed=same, message=f"the screen was {was}, it cannot become {now}")


def _same_window(before: Tree, after: Tree) -> bool:
    return all(before.header.get(key) == after.header.get(key) for key in ("package", "activity", "window"))


def _is_launcher(package: str) -> bool:
    return "launcher" in package or package.endswith(".home")


def _typed(call: ToolCall, before: Tree, after: Tree) -> list[Check]:
    """What was typed into a field is in a field."""
    field = _field(call, before)
    text = " ".join(call.arguments["text"].split())
    if field is None or not text or "disabled" in field.states:
        return []
    shown = [node for node in after.nodes() if "editable" in node.states]
    holds = any(text in " ".join(node.attributes.get("text", "").split()) for node in shown)
    masked = "password" in field.states and any("password" in n.states and n.attributes.get("text") for n in shown)
    return [Check(rule="typed", passed=holds or masked, message=f"{text[:40]!r} must be in an editable node now")]


def _field(call: ToolCall, before: Tree) -> Node | None:
    """The editable node that `input_text` goes to, as far as it can be told."""
    if "index" in call.arguments:
        node = before.find(str(call.arguments["index"]))
        return node if node is not None and "editable" in node.states else None
    editable = [node for node in before.nodes() if "editable" in node.states]
    if "x" in call.arguments:
        x, y = call.arguments["x"], call.arguments["y"]
        return next((node for node in editable if node.box is not None and node.box.holds(x, y)), None)
    return next((node for node in editable if "focused" in node.states), None)


SCREENS = Screens(read_hierarchy, screen_rules, _action_rules)


def problems(world: World) -> list[str]:
    """What a world lacks. One with a mapping as its state is a real device's, and gets its first screen from there."""
    if isinstance(world.initial_state, dict) and not world.initial_observation:
        return []
    return SCREENS.problems(world)


ANDROID = Domain(
    name="android",
    summary="An Android phone; one UI action in, the screen as a view hierarchy out.",
    limits=Limits(turns=100, step_seconds=60, episode_seconds=1800),
    tools=tools,
    parse_action=parse_action,
    format_action=format_action,
    from_line=from_line,
    problems=problems,
    initial_observation=first_screen,
    render_state=state_text,
    read_observation=text_observation,
    write_observation=observation_text,
    check=SCREENS.check,
    harness=harness,
    deltas=True,
)
