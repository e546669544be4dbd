r"""OS: a block of Python in, the desktop's accessibility tree out.

An action is Python text as it stands, without a fence: `pyautogui` calls (`pyautogui`, `time` and `os` are imported
already), helpers of an application, or plain file and process code. The code is the authority on what was done.
Three words stand for themselves: `DONE` and `FAIL` end the episode, `WAIT` lets time pass. Here the code is only
read (is it Python at all?); it runs in the environment.

An observation is header lines and the tree of what shows on the desktop, indented by a tab a level:

    Screen: 1280x800
    Output: 'notes.txt\n'
    Error: NameError: name 'pag' is not defined
    application 'thunar'
    \tframe 'ana - Thunar' (319,147 642x505)
    \t\ttool bar (320,192 640x42)
    \t\t\tpush button 'Back' (324,196 37x35), disabled
    \t\ttable (320,235 640x386)
    \t\t\ttable cell 'notes.txt' (348,289 411x26), selected
    application 'mousepad'
    \tframe '*~/notes.txt - Mousepad' (0,295 642x505), active
    \t\ttext (2,343 638x449) value='one\ntwo\n', editable, focused

`Screen` (width x height) is always there. `Output` is what the code and its children wrote, standard error included, as
a Python string; `Error` is the last line of its traceback, and what ran before it has had its effect. `Busy` says that
something was still changing when the tree was read, and `Cut` how many nodes a very long tree has besides. Without a
window there is no tree.

A node is `role 'name' (x,y WxH)`: AT-SPI's role, then the box in screen pixels (top left corner, size; none on
applications and where the program tells none), `value='…'` of texts, cells, sliders and the like where it is not the
name, and the states `active busy checked disabled editable expanded focused selected`. The screen is what counts: nodes
that do not show or have no area are left out, and so are scroll bars, tool tips and nodes that only arrange others,
whose children stand in their place (and the time of day in lists of files). Of a sheet only the cells that hold
something and the focused one are there. A box of a window includes its frame. Windows come in stacking order, an
application's front one last; what a window covers is still in the tree. Of an application that does not answer only its
name is known, and that it is `busy`.
"""

import ast
import re
from collections.abc import Sequence

from worldlm.core.errors import ActionError, nearest
from worldlm.core.types import Check, Limits, Tool, ToolCall, Turn, World
from worldlm.domains.domain import Domain, HarnessReply, observation_text, text_observation
from worldlm.domains.gui import (
    Screens,
    first_screen,
    keep_screen,
    no_fence,
    parse_python,
    state_text,
    tool,
)
from worldlm.domains.tree import Tree, on_screen, one_focused, read_outline, size, string_literal

HEADERS = ("Screen", "Output", "Error", "Busy", "Cut")
BUSY = "Busy: still changing"
"""The header line of a desktop that did not come to rest."""
WORDS = {"DONE": "done", "FAIL": "fail", "WAIT": "wait"}
WINDOWS = frozenset({"frame", "dialog", "window", "alert", "file chooser", "color chooser", "font chooser"})

TOOLS: tuple[Tool, ...] = (
    tool(
        "python",
        "Run Python on the desktop: pyautogui, helpers, files, processes.",
        ["code"],
        code={"type": "string", "minLength": 1, "description": "Python source, without a code fence"},
    ),
    tool("wait", "Let time pass."),
    tool("done", "End the episode: the task is done."),
    tool("fail", "End the episode: the task cannot be done."),
)
_ERROR_LINES = re.compile(r"^(?:(?:Output|Error|Busy):.*\n)+", re.MULTILINE)
_PAUSES = frozenset({"time.sleep", "pyautogui.sleep"})
_TYPING = frozenset({"pyautogui.write", "pyautogui.typewrite"})


def cut(nodes: int) -> str:
    """The header line of a tree that lacks its last `nodes`."""
    return f"Cut: {nodes} more nodes"


def parse_action(text: str, world: World) -> ToolCall:
    """Python text, or one of the three words."""
    word = text.strip()
    if word in WORDS:
        return ToolCall(name=WORDS[word])
    no_fence(text, "Python")
    body = parse_python(text).body
    if not body:
        raise ActionError("the action is empty: write Python, or DONE, FAIL or WAIT")
    if all(_does_nothing(statement) for statement in body):
        words = f"{nearest(word, WORDS.values())} The words are in capitals: {', '.join(WORDS)}"
        hint = words if word.isidentifier() else "write Python that acts, or DONE, FAIL or WAIT"
        raise ActionError(f"this does nothing when it runs (names and literals only); {hint}")
    return ToolCall(name="python", arguments={"code": text})


def _does_nothing(statement: ast.stmt) -> bool:
    harmless = ast.Constant | ast.Name | ast.Dict | ast.List | ast.Tuple | ast.Set
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, harmless)
    )


def format_action(call: ToolCall) -> str:
    """The code as it stands, or the word."""
    if call.name == "python":
        return str(call.arguments["code"])
    return call.name.upper()


def from_line(line: str, world: World) -> str:
    """Shorthand; anything else is Python as it stands.

    `click 100 200`, `double 100 200`, `right 100 200`, `type hello`, `press enter`, `hotkey ctrl s`, `scroll -5`,
    `wait`, `done`, `fail`.
    """
    word, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    if word.upper() in WORDS and not rest:
        return word.upper()
    mouse = {"click": "click", "double": "doubleClick", "right": "rightClick", "move": "moveTo"}.get(word)
    if mouse and (point := re.fullmatch(r"(\d{1,5})[ ,]+(\d{1,5})", rest)):
        return f"pyautogui.{mouse}({point[1]}, {point[2]})"
    if word == "scroll" and re.fullmatch(r"-?\d{1,5}", rest):
        return f"pyautogui.scroll({rest})"
    if word == "type" and rest and not rest.startswith(("=", "(")):
        return f"pyautogui.write({rest!r})"
    if word == "press" and re.fullmatch(r"\w+", rest):
        return f"pyautogui.press({rest!r})"
    if word == "hotkey" and re.fullmatch(r"\S+( +\S+)+", rest) and not rest.startswith(("=", "(")):
        return f"pyautogui.hotkey({', '.join(map(repr, rest.split()))})"
    return line


def tools(world: World) -> tuple[Tool, ...]:
    """One tool that runs code, and the three words."""
    return TOOLS


def harness(world: World, turns: Sequence[Turn], call: ToolCall) -> HarnessReply | None:
    """`DONE` and `FAIL` end the episode; the screen stays as it was."""
    if call.name in ("done", "fail"):
        return keep_screen(world, turns, terminated=True, error=_ERROR_LINES)
    return None


def screen_rules(screen: Tree) -> list[Check]:
    """The rules that one screen keeps by itself."""
    pixels = size(screen.header.get("Screen", ""))
    stray = [node for node in screen.roots if node.role != "application"]
    active = sum("active" in node.states and node.role in WINDOWS for node in screen.nodes())
    checks = [
        Check(rule="header", passed=pixels is not None, message="the first line must be Screen: WIDTHxHEIGHT"),
        Check(rule="output", passed=_is_string(screen.header.get("Output", "''")), message="Output must be a string"),
        Check(
            rule="applications",
            passed=not stray,
            message=f"the outermost nodes are applications, not {stray[0].role if stray else ''}",
        ),
        Check(rule="one_active", passed=active <= 1, message=f"{active} windows are active; at most one can be"),
        one_focused(screen),
    ]
    if pixels is not None:
        checks.append(on_screen(screen, *pixels, wholly=False))
    return checks


def _is_string(literal: str) -> bool:
    if len(literal) < 2 or literal[0] not in "'\"" or literal[-1] != literal[0]:
        return False
    try:
        string_literal(literal)
    except ValueError:
        return False
    return True


def _action_rules(call: ToolCall, before: Tree, after: Tree) -> list[Check]:
    was, now = before.header.get("Screen"), after.header.get("Screen")
    checks = [Check(rule="screen_size", passed=was == now, message=f"the screen was {was}, it cannot become {now}")]
    if call.name == "wait":
        quiet = not {"Error", "Output"} & set(after.header)
        checks.append(Check(rule="quiet", passed=quiet, message="WAIT runs no code: no Output and no Error line"))
    if call.name != "python" or "Error" in after.header:
        return checks
    text = typed_text(call.arguments["code"])
    focused = next((node for node in before.nodes() if "focused" in node.states), None)
    if text and focused is not None and "editable" in focused.states and focused.role != "password text":
        shown = any(text in node.value or text in node.name for node in after.nodes())
        checks.append(Check(rule="typed", passed=shown, message=f"{text[:40]!r} was typed and must be shown"))
    return checks


def typed_text(code: str) -> str | None:
    """What `code` types, when typing a plain line (with imports and pauses) is all that it does; else None."""
    try:
        body = parse_python(code).body
    except ActionError:
        return None
    typed = ""
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call):
            return None
        name = ast.unparse(call.func)
        if name in _PAUSES:
            continue
        argument = call.args[0] if call.args else None
        if name not in _TYPING or not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
            return None
        typed += argument.value
    # pyautogui has keys for ASCII alone, and passes over anything else.
    return typed if typed.isprintable() and typed.isascii() else None


def problems(world: World) -> list[str]:
    """What a world lacks. One that names applications is for a real desktop, whose first screen is not known before."""
    if isinstance(world.initial_state, dict) and "applications" in world.initial_state:
        return [] if world.initial_observation is None else SCREENS.problems(world)
    return SCREENS.problems(world)


SCREENS = Screens(lambda text: read_outline(text, HEADERS, empty=True), screen_rules, _action_rules)

OS = Domain(
    name="os",
    summary="A desktop; a block of Python in, the accessibility tree out.",
    limits=Limits(turns=100, step_seconds=60, episode_seconds=1800, memory_mib=2048, disk_mib=512, processes=128),
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
