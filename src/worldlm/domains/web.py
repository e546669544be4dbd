r"""Web: one BrowserGym call in, the page's accessibility tree out.

An action is one call as text: `click("a12")`, `fill("b3", "two words")`, `scroll(0, 200)`. Arguments are literals,
by position or by name; nothing is ever evaluated. `report_infeasible` ends the episode; `send_msg_to_user` is heard by
the harness; neither changes the page.

An observation is two to four header lines and the tree of the active tab, indented by a tab a level:

    URL: https://fenway.example/search?q=lamp
    Tabs: 0 'Inbox', *1 'lamp - Fenway'
    Error: ValueError: Could not find element with bid "z9"
    Dialog: confirm 'Delete it?' accepted
    RootWebArea 'lamp - Fenway', focused
    \t[12] banner ''
    \t\t[14] textbox 'Search' value='lamp', clickable, required
    \t\t[15] combobox 'Sort' value='Price', clickable, hasPopup='menu', expanded=False
    \t\tStaticText '3 results'

`URL` and `Tabs` are always there (a star marks the active tab; tabs count from 0). `Error` is there when the last
action failed, in one line, and then the page is as it was (or the browser's own error page, after an address that
leads nowhere). `Dialog` is there when the page opened dialogs, which are answered at once. A node is `[bid] role
'name'`, its value, then properties (`key=value`) and states. The root is `RootWebArea` with the page's title and no
bid. A bid is unique and stays with its element as long as that is on the page. A generic node is there only if it
has a state or answers to clicks. The tree is the whole page, not the part in view, so scrolling shows in it only
where the page loads more. Text that only repeats its parent's name is left out.
"""

import ast
import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from worldlm.core.errors import ActionError
from worldlm.core.types import Check, Limits, Tool, ToolCall, Turn, World
from worldlm.domains.domain import Domain, HarnessReply, observation_text, text_observation
from worldlm.domains.gui import (
    Screens,
    check_arguments,
    find_tool,
    first_screen,
    keep_screen,
    no_fence,
    parse_python,
    state_text,
    tool,
)
from worldlm.domains.tree import Node, Tree, one_focused, read_outline, string_literal, unique_ids

HEADERS = ("URL", "Tabs", "Error", "Dialog")
PLACES = ("site", "folder", "url")
"""Keys of `initial_state` of which a world of a real browser has one: its first page comes from there."""

_BID = {"type": "string", "minLength": 1, "maxLength": 40, "description": 'the element\'s bid, a string: "a12"'}
_X = {"type": "number", "minimum": 0, "maximum": 100_000, "description": "pixels from the left"}
_Y = {"type": "number", "minimum": 0, "maximum": 100_000, "description": "pixels from the top"}
_DISTANCE = {"type": "number", "minimum": -100_000, "maximum": 100_000, "description": "pixels"}
_BUTTON = {"type": "string", "enum": ["left", "middle", "right"], "default": "left", "description": "mouse button"}
_MODIFIER = {"type": "string", "enum": ["Alt", "Control", "ControlOrMeta", "Meta", "Shift"]}
_MODIFIERS = {"type": "array", "items": _MODIFIER, "default": [], "description": "keys held meanwhile"}
_TEXT = {"type": "string", "description": "the text, a string"}
_KEY = {"type": "string", "minLength": 1, "description": 'a key or a combination: "Enter", "Control+a"'}
_OPTIONS = {
    "type": ["string", "array"],
    "items": {"type": "string"},
    "minItems": 1,
    "description": "an option's label or value, or a list of them",
}
_POINT = {"x": _X, "y": _Y}

TOOLS: tuple[Tool, ...] = (
    tool(
        "noop",
        "Do nothing and wait.",
        wait_ms={"type": "number", "minimum": 0, "maximum": 60_000, "default": 1000, "description": "milliseconds"},
    ),
    tool("mouse_move", "Move the mouse.", ["x", "y"], **_POINT),
    tool("mouse_click", "Move the mouse and click.", ["x", "y"], **_POINT, button=_BUTTON),
    tool("mouse_dblclick", "Move the mouse and double-click.", ["x", "y"], **_POINT, button=_BUTTON),
    tool("mouse_down", "Move the mouse and hold a button down.", ["x", "y"], **_POINT, button=_BUTTON),
    tool("mouse_up", "Move the mouse and release a button.", ["x", "y"], **_POINT, button=_BUTTON),
    tool(
        "scroll",
        "Scroll the page; positive is right and down.",
        ["delta_x", "delta_y"],
        delta_x=_DISTANCE,
        delta_y=_DISTANCE,
    ),
    tool("click", "Click an element.", ["bid"], bid=_BID, button=_BUTTON, modifiers=_MODIFIERS),
    tool("keyboard_press", "Press a key in the focused element.", ["key"], key=_KEY),
    tool("keyboard_type", "Type text into the focused element.", ["text"], text=_TEXT),
    tool("fill", "Replace the content of a field.", ["bid", "value"], bid=_BID, value=_TEXT),
    tool("hover", "Hover over an element.", ["bid"], bid=_BID),
    tool("select_option", "Choose in a select element.", ["bid", "options"], bid=_BID, options=_OPTIONS),
    tool(
        "tab_focus",
        "Bring a tab to the front.",
        ["index"],
        index={"type": "integer", "minimum": 0, "maximum": 999, "description": "the tab's number"},
    ),
    tool("new_tab", "Open a new tab."),
    tool("tab_close", "Close the active tab."),
    tool("go_back", "Go back in the tab's history."),
    tool("go_forward", "Go forward in the tab's history."),
    tool("goto", "Open an address.", ["url"], url={"type": "string", "minLength": 1, "description": "an absolute URL"}),
    tool("send_msg_to_user", "Write to the user; the page stays.", ["text"], text=_TEXT),
    tool("report_infeasible", "End the episode: it cannot be done.", ["reason"], reason=_TEXT),
)
_SAMPLE = 'one call such as click("a12")'
_ERROR_LINE = re.compile(r"^(?:(?:Error|Dialog):.*\n)+", re.MULTILINE)
_TAB = re.compile(r"(?P<star>\*?)(?P<number>\d+) (?P<title>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")


def parse_action(text: str, world: World) -> ToolCall:
    """One call, as text, to a call of the function's name."""
    no_fence(text, "one call")
    body = parse_python(text.strip()).body
    if not body:
        raise ActionError(f"the action is empty; write {_SAMPLE}")
    if len(body) > 1:
        raise ActionError(f"one call at a time: this holds {len(body)} statements; write {_SAMPLE}")
    call = body[0].value if isinstance(body[0], ast.Expr) else None
    if isinstance(call, ast.Name) and any(row.name == call.id for row in TOOLS):
        raise ActionError(f"{call.id} is not called: write {call.id}(…), with its arguments in brackets")
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ActionError(f"the action must be {_SAMPLE}, by the function's bare name, and nothing else")
    row = find_tool(call.func.id, TOOLS)
    return ToolCall(name=row.name, arguments=check_arguments(row, _bind(row, call)))


def _bind(row: Tool, call: ast.Call) -> dict[str, Any]:
    """Arguments by name, each a literal."""
    names = list(row.parameters["properties"])
    signature = f"{row.name}({', '.join(names)})"
    if len(call.args) > len(names):
        raise ActionError(f"{row.name} got {len(call.args)} arguments and takes at most {len(names)}: {signature}")
    arguments: dict[str, Any] = {}
    given = [*zip(names, call.args, strict=False), *((word.arg, word.value) for word in call.keywords)]
    for name, node in given:
        if name is None or isinstance(node, ast.Starred):
            raise ActionError(f"{row.name}: write the arguments out, without * or **: {signature}")
        if name in arguments:
            raise ActionError(f"{row.name} got {name!r} twice: {signature}")
        try:
            arguments[name] = ast.literal_eval(node)
        except (ValueError, TypeError, RecursionError, MemoryError):
            problem = f"{row.name}: {name!r} must be a literal (text in quotes, a number): {signature}"
            raise ActionError(problem) from None
    return arguments


def format_action(call: ToolCall) -> str:
    """A call as text: required arguments by position, the others by name."""
    parameters = find_tool(call.name, TOOLS).parameters
    parts = [
        _literal(call.arguments[name]) if name in parameters["required"] else f"{name}={_literal(call.arguments[name])}"
        for name in parameters["properties"]
        if name in call.arguments
    ]
    return f"{call.name}({', '.join(parts)})"


def _literal(value: object) -> str:
    """A JSON value of this grammar as a Python literal: strings, numbers and lists of strings read the same in both."""
    return json.dumps(value, ensure_ascii=False)


_LINE_WORDS = {
    "back": "go_back",
    "forward": "go_forward",
    "wait": "noop",
    "newtab": "new_tab",
    "close": "tab_close",
    "press": "keyboard_press",
    "type": "keyboard_type",
    "say": "send_msg_to_user",
    "infeasible": "report_infeasible",
    "tab": "tab_focus",
    "select": "select_option",
}


def from_line(line: str, world: World) -> str:
    """Shorthand; a call is an action as it stands.

    `click a12`, `fill b3 two words`, `select c1 Large`, `hover a1`, `goto https://…`, `press Enter`, `type hello`,
    `scroll 0 200`, `tab 1`, `newtab`, `close`, `back`, `forward`, `wait`, `say done`, `infeasible no such page`.
    """
    word, _, rest = line.strip().partition(" ")
    name, rest = _LINE_WORDS.get(word, word), rest.strip()
    row = next((row for row in TOOLS if row.name == name), None)
    if row is None:
        return line
    schemas = row.parameters["properties"]
    required = row.parameters["required"]
    parts = rest.split(None, len(required) - 1) if required and rest else []
    if len(parts) != len(required) or (rest and not required):
        return line
    try:
        values = [
            float(part) if schemas[key]["type"] in ("number", "integer") else part
            for key, part in zip(required, parts, strict=True)
        ]
    except ValueError:
        return line
    values = [int(value) if isinstance(value, float) and value.is_integer() else value for value in values]
    return format_action(ToolCall(name=name, arguments=dict(zip(required, values, strict=True))))


def tools(world: World) -> tuple[Tool, ...]:
    """One tool a function."""
    return TOOLS


def harness(world: World, turns: Sequence[Turn], call: ToolCall) -> HarnessReply | None:
    """`report_infeasible` ends the episode, `send_msg_to_user` goes to the user; the page stays as it was."""
    if call.name in ("report_infeasible", "send_msg_to_user"):
        return keep_screen(world, turns, terminated=call.name == "report_infeasible", error=_ERROR_LINE)
    return None


def page_rules(page: Tree) -> list[Check]:
    """The rules that one page keeps by itself."""
    tabs = _tabs(page)
    url = page.header.get("URL", "")
    root = page.roots[0]
    single = len(page.roots) == 1 and root.role == "RootWebArea"
    titled = tabs is None or not single or tabs[0][tabs[1]] == root.name
    return [
        Check(rule="url", passed=_is_url(url), message=f"the URL line must hold an absolute URL, not {url!r}"),
        Check(
            rule="tabs",
            passed=tabs is not None,
            message="the Tabs line must read 0 'title', *1 'title': counted from 0, one starred",
        ),
        Check(rule="root", passed=single, message="the tree must have one root, RootWebArea with the page's title"),
        Check(rule="title", passed=titled, message="the active tab must have the title of RootWebArea"),
        unique_ids(page),
        one_focused(page, apart_from="RootWebArea"),
    ]


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.scheme in ("http", "https"):
        return bool(parts.hostname)
    return parts.scheme in ("about", "chrome-error", "data", "file", "blob")


def _tabs(page: Tree) -> tuple[list[str], int] | None:
    """The tabs' titles, and which is active; None when the line is not well-formed."""
    line = page.header.get("Tabs", "")
    found = list(_TAB.finditer(line))
    if not found or ", ".join(match[0] for match in found) != line:
        return None
    active = [place for place, match in enumerate(found) if match["star"]]
    if len(active) != 1 or [int(match["number"]) for match in found] != list(range(len(found))):
        return None
    try:
        return [string_literal(match["title"]) for match in found], active[0]
    except ValueError:
        return None


def _action_rules(call: ToolCall, before: Tree, after: Tree) -> list[Check]:
    failed = "Error" in after.header
    bid = call.arguments.get("bid")
    target = before.find(bid) if bid is not None else None
    if bid is not None and target is None:
        message = f"no element had the bid {bid!r}: an Error line is due, and the page stays as it was"
        return [Check(rule="unknown_target", passed=failed and before.same_nodes(after), message=message)]
    if call.name in ("new_tab", "tab_close", "tab_focus"):
        return _tab_rules(call, before, after, failed=failed)
    if failed:
        return []
    url = after.header.get("URL", "")
    if call.name == "goto":
        wanted = call.arguments["url"]
        passed = _is_url(wanted) and _host(wanted) == _host(url)
        return [
            Check(rule="goto", passed=passed, message=f"the URL must be at {_host(wanted)!r}, or an Error line is due")
        ]
    if target is not None and call.name in ("fill", "select_option") and before.header.get("URL") == url:
        return _filled(call, target, after)
    return []


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or urlsplit(url).path).removeprefix("www.")
    except ValueError:
        return url


def _tab_rules(call: ToolCall, before: Tree, after: Tree, *, failed: bool) -> list[Check]:
    was, now = _tabs(before), _tabs(after)
    if was is None or now is None:
        return []
    count, (titles, active) = len(was[0]), now
    if call.name == "new_tab":
        passed, due = len(titles) == count + 1 and active == count, f"{count + 1} tabs, the last of them active"
    elif call.name == "tab_close":
        passed, due = len(titles) == max(1, count - 1), f"{max(1, count - 1)} tabs"
    elif call.arguments["index"] < count:
        passed, due = active == call.arguments["index"] and len(titles) == count, "the chosen tab active"
    else:
        passed, due = failed, "an Error line: there is no such tab"
    return [Check(rule="tab", passed=passed, message=f"after {call.name}, due is {due}")]


def _filled(call: ToolCall, target: Node, after: Tree) -> list[Check]:
    """What was filled in or chosen stands in that element, if it is still there."""
    node = after.find(call.arguments["bid"])
    if node is None or node.role != target.role:
        return []
    shown = node.value or ""
    if call.name == "fill":
        value = " ".join(call.arguments["value"].split())
        masked = bool(shown) and set(shown) <= set("•*●") and len(shown) == len(call.arguments["value"])
        passed = " ".join(shown.split()) == value or masked
    else:
        options = call.arguments["options"]
        chosen = [options] if isinstance(options, str) else options
        labels = {child.name for child in node.children if child.role == "option"}
        if not set(chosen) <= labels or len(chosen) != 1:
            return []
        value = chosen[0]
        passed = shown == value or any(c.name == value and "selected" in c.states for c in node.children)
    return [
        Check(rule="filled", passed=passed, message=f"[{node.id}] must show {value[:40]!r} now, not {shown[:40]!r}")
    ]


def problems(world: World) -> list[str]:
    """What a world lacks; one of a real browser says where to start, in place of the first page."""
    if isinstance(world.initial_state, dict) and any(key in world.initial_state for key in PLACES):
        return []
    return SCREENS.problems(world)


SCREENS = Screens(lambda text: read_outline(text, HEADERS), page_rules, _action_rules)

WEB = Domain(
    name="web",
    summary="A web browser; one BrowserGym call in, the page's accessibility tree out.",
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
