"""Terminal: keystrokes in, the new part of the screen out.

An action is a JSON array of `{"keystrokes": str, "duration": seconds}`. Keystrokes are raw terminal input: a
command runs only if they end in a newline; `C-c`, `C-d`, `C-z`, `C-l` and the like, alone in a string,
are control keys; `""` waits; `[]` claims that the task is complete.
"""

import math
import re
from collections.abc import Sequence

from worldlm.core.errors import ActionError, InputError, nearest
from worldlm.core.text import canonical_json
from worldlm.core.types import Check, Limits, Observation, Tool, ToolCall, Turn, World
from worldlm.domains.domain import (
    Domain,
    HarnessReply,
    json_kind,
    last_text,
    observation_text,
    parse_json,
    text_observation,
)
from worldlm.domains.files import file_state, render_file_state

ROWS, COLUMNS = 40, 120
"""The size of the screen. An observation holds at most its last `ROWS` rows."""
DEFAULT_DURATION = 1.0
MAX_DURATION = 120.0
MAX_KEYSTROKES = 100_000
"""Characters of one action. (tmux takes some 50,000 a second.)"""
CONFIRM = (
    "Are you sure that the task is complete? The session ends if you answer with an empty list again; otherwise go on."
)

_CONTROL_KEY = re.compile(r"C-([a-z\[\\\]^_])")
# What was printed last need not have ended its line.
_PROMPT = re.compile(r"[\w.-]{1,64}@[\w.-]{1,64}:[^\n]*[$#]$")
_FULL_SCREEN = re.compile(r"\b(vim?|nano|less|more|man|top|htop|watch)\b")
_SCROLLED = re.compile(r"^\[(\d+) earlier rows scrolled off; the last (\d+) of (\d+) are shown\]$")
_INTERRUPTED = re.compile(r"^\[interrupted: more than \d+ KiB of output in one step\]$")
_ESCAPES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Programs that may keep the terminal: no prompt is due after them.
_KEEPS_TERMINAL = re.compile(
    r"\b(sleep|vim?|nano|less|more|man|top|htop|watch|tail\s+-[a-zA-Z]*[fF]|python3?|ipython|bash|sh|ssh|"
    r"cat|read|wait|yes|ping|nc|gdb|mysql|psql|sqlite3|exit|logout|exec|su|while|until|git\s+(log|diff|show|commit)|"
    r"make|pip|npm|apt|find|tar|dd|ftp|telnet|screen|tmux|bc|node|perl|ruby|ed|sort|wc|tee|head|grep|awk|sed|"
    r"tr|cut|uniq|paste|nl|od|rev|tac|fold|fmt|base64|xargs|\w*sum)\b|&\s*$"
)


def control_key(keystrokes: str) -> str | None:
    """The control character that `keystrokes` names (`C-c` is `\\x03`), or None for ordinary input."""
    match = _CONTROL_KEY.fullmatch(keystrokes)
    return chr(ord(match[1].upper()) ^ 0x40) if match else None


def scrolled_off(total: int) -> str:
    """The line that stands before the last rows of a longer output: how much is shown, of how much."""
    return f"[{total - ROWS} earlier rows scrolled off; the last {ROWS} of {total} are shown]"


def interrupted(kib: int) -> str:
    """The line that stands first when a program printed more than a step may, and was stopped."""
    return f"[interrupted: more than {kib} KiB of output in one step]"


def at_prompt(text: str) -> bool:
    """Whether a shell prompt waits on the last line."""
    return bool(_PROMPT.search(text.rstrip("\n").rpartition("\n")[2].rstrip()))


def parse_action(text: str, world: World) -> ToolCall:
    """Array of key strokes to a call of `terminal`."""
    value = parse_json(text, 'an array of {"keystrokes": str, "duration": seconds}')
    if not isinstance(value, list):
        raise ActionError(f'the action must be an array of {{"keystrokes": …, "duration": …}}, not {json_kind(value)}')
    keys = [_parse_keys(k, i) for i, k in enumerate(value)]
    size = sum(len(str(k["keystrokes"])) for k in keys)
    if size > MAX_KEYSTROKES:
        raise ActionError(f"the action holds {size} keystrokes; {MAX_KEYSTROKES} are the most")
    return ToolCall(name="terminal", arguments={"keys": keys})


def _parse_keys(value: object, index: int) -> dict[str, str | float]:
    where = f"element {index}"
    if not isinstance(value, dict):
        raise ActionError(f"{where} must be an object with 'keystrokes' and 'duration', not {json_kind(value)}")
    for key in value:
        if key not in ("keystrokes", "duration"):
            raise ActionError(f"{where} has an unknown key {key!r}; {nearest(str(key), ('keystrokes', 'duration'))}")
    keystrokes = value.get("keystrokes")
    if not isinstance(keystrokes, str):
        raise ActionError(f"{where} needs 'keystrokes', a string (\"\" only waits)")
    duration = value.get("duration", DEFAULT_DURATION)
    if isinstance(duration, bool) or not isinstance(duration, int | float) or not math.isfinite(duration):
        raise ActionError(f"{where}: 'duration' must be a number of seconds")
    if not 0 <= duration <= MAX_DURATION:
        raise ActionError(f"{where}: 'duration' must be between 0 and {MAX_DURATION:g} seconds")
    return {"keystrokes": keystrokes, "duration": float(duration)}


def format_action(call: ToolCall) -> str:
    """A call of `terminal` to its array."""
    return canonical_json(call.arguments["keys"])


def from_line(line: str, world: World) -> str:
    """A plain line is typed, with Return; a control key's name presses it; an array is an action as it stands."""
    stripped = line.strip()
    if stripped.startswith("[{") or stripped == "[]":
        return stripped
    keys = stripped if control_key(stripped) else line + "\n"
    return canonical_json([{"keystrokes": keys, "duration": DEFAULT_DURATION}])


def tools(world: World) -> tuple[Tool, ...]:
    """One tool that types."""
    keys = {
        "type": "array",
        "description": "In order. An empty list claims that the task is complete.",
        "items": {
            "type": "object",
            "properties": {
                "keystrokes": {
                    "type": "string",
                    "description": "Raw input; end a command with a newline. C-c, C-d, C-z alone are control keys.",
                },
                "duration": {"type": "number", "description": "Seconds to wait at most", "default": 1.0},
            },
            "required": ["keystrokes"],
        },
    }
    schema = {"type": "object", "properties": {"keys": keys}, "required": ["keys"]}
    return (Tool(name="terminal", description="Type into the terminal and read the screen.", parameters=schema),)


def problems(world: World) -> list[str]:
    """A terminal needs a state to start from."""
    try:
        file_state(world)
    except InputError as error:
        return [str(error)]
    return [] if world.initial_state else ["initial_state is empty: a terminal needs user, cwd and files"]


def initial_observation(world: World) -> Observation:
    """The prompt of a fresh shell, unless the world says otherwise."""
    return Observation(text=world.initial_observation or file_state(world).prompt)


def harness(world: World, turns: Sequence[Turn], call: ToolCall) -> HarnessReply | None:
    """`[]` claims completion: a question the first time, the end when it is claimed again at once."""
    if call.arguments["keys"]:
        return None
    again = bool(turns) and turns[-1].observation is not None and turns[-1].observation.text == CONFIRM
    return HarnessReply(Observation(text="Session closed." if again else CONFIRM), terminated=again)


def check(world: World, turns: Sequence[Turn], call: ToolCall, observation: Observation) -> tuple[Check, ...]:
    """Echo of what was typed, a prompt when one is due, screen size, no control sequences."""
    keys = call.arguments["keys"]
    typed = "".join(k["keystrokes"] for k in keys)
    before = last_text(world, turns, initial_observation)
    rows = observation.text.split("\n")
    body = rows[1:] if _INTERRUPTED.match(rows[0]) else rows
    body = body[1:] if body and _SCROLLED.match(body[0]) else body
    checks = [
        Check(
            rule="screen_size",
            passed=len(body) <= ROWS,
            message=f"{len(body)} rows; a screen holds {ROWS}",
        ),
        Check(
            rule="no_control_sequences",
            passed=not _ESCAPES.search(observation.text),
            message="control characters stand in the text; a screen shows their effect",
        ),
    ]
    first = typed.split("\n", 1)[0]
    plain = bool(first.strip()) and "\n" in typed and first.isprintable()
    plain = plain and not any(control_key(k["keystrokes"]) for k in keys)
    # An echo longer than the line wraps, and one that scrolled off cannot be seen.
    shown = len(body) < ROWS and "clear" not in first and not _FULL_SCREEN.search(first)
    if plain and at_prompt(before) and shown and len(first) < COLUMNS // 2:
        prompt = before.rstrip("\n").rpartition("\n")[2].rstrip()
        checks.append(
            Check(
                rule="echo",
                passed=bool(body) and body[0].rstrip() == f"{prompt} {first}".rstrip(),
                message=f"the first line must be the prompt with what was typed: {prompt} {first}",
            )
        )
    complete = typed.endswith("\n") and typed.count("\n") == 1 and plain
    if complete and at_prompt(before) and not _KEEPS_TERMINAL.search(first) and _quotes_close(first):
        checks.append(
            Check(
                rule="prompt",
                passed=at_prompt(observation.text),
                message="the last line must be a new prompt: the command ends at once",
            )
        )
    return tuple(checks)


def _quotes_close(line: str) -> bool:
    """Whether a line is a command of its own: no open quote, here-document, block or continuation."""
    opens = line.count("'") % 2 or line.count('"') % 2 or line.rstrip().endswith(("\\", "|", "&&", "||"))
    return not opens and "<<" not in line and not re.search(r"\b(for|if|case|select|function)\b|[({]\s*$", line)


TERMINAL = Domain(
    name="terminal",
    summary="A Linux shell on a screen; keystrokes in, new rows out.",
    limits=Limits(
        turns=200,
        step_seconds=MAX_DURATION,
        episode_seconds=1800,
        memory_mib=1024,
        disk_mib=256,
        processes=64,
        output_kib=4096,
    ),
    tools=tools,
    parse_action=parse_action,
    format_action=format_action,
    from_line=from_line,
    problems=problems,
    initial_observation=initial_observation,
    render_state=render_file_state,
    read_observation=text_observation,
    write_observation=observation_text,
    check=check,
    harness=harness,
)
