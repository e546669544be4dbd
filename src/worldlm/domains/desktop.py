r"""OS: a block of Python in, the desktop's accessibility tree out.

An action is Python text as it stands, without a fence: `pyautogui` calls (`pyautogui`, `time` and `os` are imported
already), helpers of an application, or plain file and process code. The code is the authority on what was done.
Three words stand for themselves: `DONE` and `FAIL` end the episode, `WAIT` lets time pass. Here the code is only
read (is it Python at all?); it runs in the environment.

An observation is one to three header lines and the tree of what shows on the desktop, indented by a tab a level:

    Screen: 1280x800
    Output: 'report.txt\n'
    Error: NameError: name 'pag' is not defined
    application 'Files'
    \tframe 'Documents' (64,48 900x600), active
    \t\tpush button 'Back' (72,84 32x32), disabled
    \t\tlist item 'budget.ods' (220,140 96x96), selected
    \t\ttext 'Location' (220,84 500x32) value='/home/ana/Documents', focused

`Screen` (width x height) is always there. `Output` is what the code printed, as a Python string; `Error` is the last
line of its traceback, and what ran before it has had its effect. A node is `role 'name' (x,y WxH)`: AT-SPI's role, then
the box in screen pixels (top left corner, size; none on applications and hidden nodes), `value='…'` of texts, entries,
sliders and cells, and the states `active checked disabled editable expanded focused selected`. Windows come
in stacking order, an application's front one last; what a window covers is still in the tree.
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

HEADERS = ("Screen", "Output", "Error")
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
_ERROR_LINES = re.compile(r"^(?:(?:Output|Error):.*\n)+", re.MULTILINE)
_PAUSES = frozenset({"time.sleep", "pyautogui.sleep"})
_TYPING = frozenset({"pyautogui.write", "pyautogui.typewrite"})


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
    return typed if typed.isprintable() else None


SCREENS = Screens(lambda text: read_outline(text, HEADERS), screen_rules, _action_rules)

OS = Domain(
    name="os",
    summary="A desktop; a block of Python in, the accessibility tree out.",
    limits=Limits(turns=100, step_seconds=60, episode_seconds=1800, memory_mib=2048, disk_mib=512, processes=128),
    tools=tools,
    parse_action=parse_action,
    format_action=format_action,
    from_line=from_line,
    problems=SCREENS.problems,
    initial_observation=first_screen,
    render_state=state_text,
    read_observation=text_observation,
    write_observation=observation_text,
    check=SCREENS.check,
    harness=harness,
)
