"""SWE: a coding agent's tools over one repository.

An action is one call, `{"name": tool, "arguments": {…}}`. Paths are absolute, or relative to the repository,
which is the `cwd` of the world's initial state. Every result is text. These are the exact forms, for a
simulated and for a real repository alike; the functions below write them, and the rule checks compare with them.

`run_shell_command`: eight fields in this order, `(empty)` for text that is empty and `(none)` for what does not apply:

    Command: python -m unittest
    Directory: /home/dev/repo
    Stdout: (empty)
    Stderr: …, over as many lines as it takes
    Error: (none)
    Exit Code: 0
    Signal: (none)
    Background PIDs: (none)

Output stands without the line break that ends it. `Error` is one line, for what kept the command from running to its
end ("timed out after 120 s"). Of output that is longer than 200 lines or 16,000 characters the first and the last
part stand, with `[lines 101-1300 of 1400 left out]` between them. The exit code is 0–255, and `(none)` when a signal
(`SIGKILL`) ended the command or it never started. The form is lossless: where a line of the command begins with
`Directory: ` or a line of the output with `Stderr: `, and where a text is just `(empty)` or `(none)`, a backslash is
put before it.

`read_file`: the text without its final line break; `(empty file)`; when lines are left out, the first line is
`[lines 1-200 of 950]`. `write_file`: `Created PATH (12 lines).` or `Overwrote PATH (12 lines).` `edit`:
`Edited PATH: 1 replacement.` `list_directory`: `PATH:`, then the folders (with `/`), then the files, sorted.
`glob`: `2 files match "PATTERN" in PATH:`, then absolute paths, sorted. `search_file_content`:
`3 matches for "PATTERN" in PATH:`, then rows `relative/path:line: text`, sorted; a text of more than 400 characters
ends in `…`. `todo_write`: the list, numbered.
Listings, globs and searches leave out the folder `.git`. Whatever fails is one line that begins with `Error: `.
"""

import posixpath
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import Field, field_validator, model_validator

from worldlm.core.errors import ActionError, InputError
from worldlm.core.text import canonical_json
from worldlm.core.types import Check, Limits, Observation, Text, Tool, ToolCall, Turn, Value, World
from worldlm.domains.domain import (
    Domain,
    HarnessReply,
    bad_arguments,
    call_from_line,
    format_tool_call,
    observation_text,
    parse_tool_call,
    text_observation,
)
from worldlm.domains.files import FileState, read_file_state, render_state

READ_LINES = 2000
"""Lines that `read_file` gives when no limit is asked for."""
MAX_ROWS = 200
"""Rows that `glob` and `search_file_content` show; the first line tells how many there are."""
MAX_ROW = 400
"""Characters of a matching line that `search_file_content` shows."""
OUTPUT_LINES = 200
"""Lines of a command's stdout, and of its stderr, that are shown."""
OUTPUT_CHARACTERS = 16_000
LOOK_BACK = 200
"""Turns that a rule looks back for what a file holds; beyond them it is taken as unknown."""


def _tool(name: str, description: str, required: Sequence[str], /, **properties: dict[str, object]) -> Tool:
    schema = {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }
    return Tool(name=name, description=description, parameters=schema)


def _string(description: str) -> dict[str, object]:
    return {"type": "string", "description": description}


def _integer(description: str, minimum: int) -> dict[str, object]:
    return {"type": "integer", "minimum": minimum, "description": description}


TOOLS: tuple[Tool, ...] = (
    _tool(
        "run_shell_command",
        "Run a command with bash. Each call is a new shell; folders and variables do not carry over.",
        ["command"],
        command=_string("What to run"),
        description=_string("What it is for, in a few words"),
        directory=_string("Where to run it; the repository by default"),
        is_background={
            "type": "boolean",
            "description": "Return at once and leave it running (a server, say); what it prints goes nowhere",
        },
        timeout=_integer("Seconds after which it is ended; 120 by default", 1),
    ),
    _tool(
        "read_file",
        "Read a text file, whole or in part.",
        ["file_path"],
        file_path=_string("The file"),
        offset=_integer("Lines to skip", 0),
        limit=_integer("Lines to read at most", 1),
    ),
    _tool(
        "write_file",
        "Create a file, or replace all of its content. Missing folders are made.",
        ["file_path", "content"],
        file_path=_string("The file"),
        content=_string("All of its new text"),
    ),
    _tool(
        "edit",
        "Replace text in a file. An empty old_string creates a file that does not exist yet.",
        ["file_path", "old_string", "new_string"],
        file_path=_string("The file"),
        old_string=_string("The text to replace, exact in every space and line break"),
        new_string=_string("What to put in its place"),
        expected_replacements=_integer("How often old_string must occur; 1 by default", 1),
    ),
    _tool(
        "glob",
        "Find files by a name pattern.",
        ["pattern"],
        pattern=_string("Such as **/*.py"),
        path=_string("The folder to look in; the repository by default"),
    ),
    _tool(
        "search_file_content",
        "Find the lines that match a regular expression.",
        ["pattern"],
        pattern=_string("A regular expression"),
        path=_string("The folder to look in; the repository by default"),
        include=_string("Only files that match this name pattern, such as *.py"),
    ),
    _tool("list_directory", "List a folder.", ["path"], path=_string("The folder")),
    _tool(
        "todo_write",
        "Replace the to-do list.",
        ["todos"],
        todos={
            "type": "array",
            "description": "All items, in order",
            "items": {
                "type": "object",
                "properties": {
                    "content": {"type": "string"},
                    "status": {"enum": ["pending", "in_progress", "completed"]},
                },
                "required": ["content", "status"],
            },
        },
    ),
)
"""The tools of a world that defines none."""

_BY_NAME = {tool.name: tool for tool in TOOLS}


# The initial state.


_SDIST = re.compile(r"\s*[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9][A-Za-z0-9.!+_-]*\s*")


class RepositoryState(FileState):
    """What `World.initial_state` holds here: a file tree, and where a real repository comes from."""

    sdist: Text | None = None
    """A source distribution, `NAME==VERSION`, whose files are the repository's."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-fA-F]{64}$")
    """The digest that its archive must have."""
    folder: Text | None = None
    """A folder of the host whose files are copied to be the repository's (without `.git` and what git ignores)."""
    packages: tuple[str, ...] = ("pytest",)
    """Installed Python packages that the machine has, with what they require."""

    @field_validator("sdist")
    @classmethod
    def _exact(cls, sdist: str | None) -> str | None:
        if sdist is not None and not _SDIST.fullmatch(sdist):
            raise ValueError(f"name one version, NAME==VERSION (more-itertools==10.8.0), not {sdist!r}")
        return sdist

    @model_validator(mode="before")
    @classmethod
    def _default_folder(cls, value: object) -> object:
        """The repository of a source is `~/NAME`, unless `cwd` says otherwise."""
        if not isinstance(value, Mapping) or "cwd" in value:
            return value
        source = value.get("sdist") or value.get("folder")
        if not isinstance(source, str):
            return value
        name = source.strip().partition("==")[0] if value.get("sdist") else posixpath.basename(source.rstrip("/"))
        return {**value, "cwd": f"~/{name}"}


def repository_state(world: World) -> RepositoryState:
    """The initial state of a world; free text counts as notes. Raises InputError that names the key."""
    return read_file_state(world, RepositoryState)


# The forms of results.


class ShellResult(Value):
    """What a shell command came to. Output is without the line break that ends it."""

    command: Text
    directory: Text = Field(pattern=r"^[^\n]+$")
    stdout: Text = ""
    stderr: Text = ""
    error: Text | None = Field(default=None, pattern=r"^[^\n]+$")
    exit_code: int | None = 0
    signal: str | None = Field(default=None, pattern=r"^SIG[A-Z0-9+]+$")
    background_pids: tuple[int, ...] = ()


_SHELL = re.compile(
    r"Command: (?P<command>.*?)\nDirectory: (?P<directory>[^\n]+)\nStdout: (?P<stdout>.*?)\nStderr: (?P<stderr>.*)\n"
    r"Error: (?P<error>[^\n]+)\nExit Code: (?P<code>\(none\)|-?[0-9]{1,9})\n"
    r"Signal: (?P<signal>\(none\)|SIG[A-Z0-9+]+)\nBackground PIDs: (?P<pids>\(none\)|[0-9]{1,9}(?:, [0-9]{1,9})*)",
    re.DOTALL,
)
SHELL_FIELDS = ("Command", "Directory", "Stdout", "Stderr", "Error", "Exit Code", "Signal", "Background PIDs")
"""The labels of a shell result, in their order."""


def format_shell_result(result: ShellResult) -> str:
    """The text of a shell result; `parse_shell_result` gives the result back."""
    pids = ", ".join(map(str, result.background_pids))
    return (
        f"Command: {_escape_lines(result.command, 'Directory: ')}\n"
        f"Directory: {result.directory}\n"
        f"Stdout: {_mark_empty(_escape_lines(result.stdout, 'Stderr: '))}\n"
        f"Stderr: {_mark_empty(result.stderr)}\n"
        f"Error: {'(none)' if result.error is None else _escape_word(result.error, '(none)')}\n"
        f"Exit Code: {'(none)' if result.exit_code is None else result.exit_code}\n"
        f"Signal: {result.signal or '(none)'}\n"
        f"Background PIDs: {pids or '(none)'}"
    )


def parse_shell_result(text: str) -> ShellResult:
    """The shell result that a text states. Raises ValueError that names the field that is missing or wrong."""
    match = _SHELL.fullmatch(text)
    if match is None:
        position = 0
        for name in SHELL_FIELDS:
            found = re.compile(rf"^{name}: ", re.MULTILINE).search(text, position)
            if found is None or (name == "Command" and found.start() > 0):
                raise ValueError(f"the shell result has no line '{name}: …' in its place")
            position = found.end()
        raise ValueError("the shell result has an error, exit code, signal or PIDs that are not one line of their form")
    code, signal, pids = match["code"], match["signal"], match["pids"]
    return ShellResult(
        command=_unescape_lines(match["command"], "Directory: "),
        directory=match["directory"],
        stdout=_unescape_lines(_unmark_empty(match["stdout"]), "Stderr: "),
        stderr=_unmark_empty(match["stderr"]),
        error=None if match["error"] == "(none)" else _unescape_word(match["error"], "(none)"),
        exit_code=None if code == "(none)" else int(code),
        signal=None if signal == "(none)" else signal,
        background_pids=() if pids == "(none)" else tuple(map(int, pids.split(", "))),
    )


def _escape_lines(text: str, label: str) -> str:
    return re.sub(rf"(?<=\n)(?=\\*{label})", r"\\", text)


def _unescape_lines(text: str, label: str) -> str:
    return re.sub(rf"(?<=\n)\\(?=\\*{label})", "", text)


def _escape_word(text: str, word: str) -> str:
    return "\\" + text if text.lstrip("\\") == word else text


def _unescape_word(text: str, word: str) -> str:
    return text[1:] if text.startswith("\\") and text.lstrip("\\") == word else text


def _mark_empty(text: str) -> str:
    return _escape_word(text, "(empty)") if text else "(empty)"


def _unmark_empty(text: str) -> str:
    return "" if text == "(empty)" else _unescape_word(text, "(empty)")


def shorten(output: str) -> str:
    """Output as a shell result shows it: whole, or its first and last part and how much is between them."""
    output = output.removesuffix("\n")
    lines = output.split("\n")
    if len(lines) <= OUTPUT_LINES and len(output) <= OUTPUT_CHARACTERS:
        return output
    head = _fitting(lines, OUTPUT_LINES // 2, OUTPUT_CHARACTERS // 2)
    tail = _fitting(lines[head:][::-1], OUTPUT_LINES // 2, OUTPUT_CHARACTERS // 2)
    if head + tail == 0:  # lines that are too long
        half = OUTPUT_CHARACTERS // 2
        left = len(output) - 2 * half
        return f"{output[:half]}\n[{_count(left, 'character')} left out]\n{output[-half:]}"
    first, last = head + 1, len(lines) - tail
    shown = [*lines[:head], f"[lines {first}-{last} of {len(lines)} left out]", *lines[last:]]
    return "\n".join(shown)


def _fitting(lines: Sequence[str], most: int, characters: int) -> int:
    """How many of the first lines have room."""
    for number, line in enumerate(lines[:most]):
        characters -= len(line) + 1
        if characters < 0:
            return number
    return min(most, len(lines))


def read_result(path: str, content: str | None, offset: int = 0, limit: int = READ_LINES) -> str:
    """What `read_file` answers for a file of this content (None: there is no such file)."""
    if content is None:
        return f"Error: file not found: {path}"
    if not content:
        return "(empty file)"
    lines = content.removesuffix("\n").split("\n")
    shown = lines[offset : offset + limit]
    if not shown:
        return f"Error: offset {offset} is past the end of {path} ({_count(len(lines), 'line')})"
    text = "\n".join(shown)
    if len(shown) == len(lines):
        return text
    return f"[lines {offset + 1}-{offset + len(shown)} of {len(lines)}]\n{text}"


def write_result(path: str, content: str, *, existed: bool) -> str:
    """What `write_file` answers."""
    return f"{'Overwrote' if existed else 'Created'} {path} ({_count(line_count(content), 'line')})."


def edit_result(path: str, content: str | None, old: str, new: str, expected: int = 1) -> tuple[str | None, str]:
    """What `edit` makes of a file's content (None: there is no file), and what it answers."""
    if content is None:
        if old:
            return None, f"Error: file not found: {path}"
        return new, write_result(path, new, existed=False)
    if not old:
        return content, f"Error: old_string is empty and {path} exists"
    if old == new:
        return content, "Error: old_string and new_string are the same"
    found = content.count(old)
    if not found:
        return content, f"Error: old_string does not occur in {path}"
    if found != expected:
        return content, f"Error: old_string occurs {_count(found, 'time')} in {path}, expected {expected}"
    return content.replace(old, new), _edited(path, found)


def _edited(path: str, replacements: int) -> str:
    return f"Edited {path}: {_count(replacements, 'replacement')}."


def list_result(path: str, names: Sequence[str]) -> str:
    """What `list_directory` answers; the names of folders end in `/`."""
    if not names:
        return f"{path} is empty."
    return "\n".join([f"{path}:", *sorted(names, key=lambda name: (not name.endswith("/"), name))])


def glob_result(pattern: str, path: str, files: Sequence[str]) -> str:
    """What `glob` answers for these absolute paths."""
    if not files:
        return f"No files match {_quoted(pattern)} in {path}."
    verb = "file matches" if len(files) == 1 else "files match"
    return "\n".join([f"{len(files)} {verb} {_quoted(pattern)} in {path}:", *sorted(files)[:MAX_ROWS]])


def search_result(pattern: str, path: str, matches: Sequence[tuple[str, int, str]]) -> str:
    """What `search_file_content` answers for matches of (path relative to the folder, line from 1, its text)."""
    if not matches:
        return f"No matches for {_quoted(pattern)} in {path}."
    word = "match" if len(matches) == 1 else "matches"
    rows = [f"{file}:{line}: {_cut(text)}" for file, line, text in sorted(matches)[:MAX_ROWS]]
    return "\n".join([f"{len(matches)} {word} for {_quoted(pattern)} in {path}:", *rows])


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ROW else text[: MAX_ROW - 1] + "…"


def todo_result(todos: Sequence[dict[str, str]]) -> str:
    """What `todo_write` answers."""
    if not todos:
        return "The to-do list is empty."
    rows = [f"{number}. [{todo['status']}] {todo['content']}" for number, todo in enumerate(todos, 1)]
    return "\n".join([f"To-do list, {_count(len(todos), 'item')}:", *rows])


def line_count(content: str) -> int:
    """Lines of a text; the last one counts with or without its line break."""
    return content.count("\n") + (bool(content) and not content.endswith("\n"))


def _quoted(pattern: str) -> str:
    return '"' + pattern.replace("\n", "\\n") + '"'


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# The domain.


def resolve(state: FileState, path: str = "") -> str:
    """A path of an action, made absolute: it is relative to the repository."""
    root = state.absolute(state.cwd).rstrip("/")
    if path.startswith("~"):
        path = state.home + path[1:]
    return posixpath.normpath(posixpath.join(root or "/", path))


def tools(world: World) -> tuple[Tool, ...]:
    """The world's own tools, or the default set."""
    return world.tools or TOOLS


def parse_action(text: str, world: World) -> ToolCall:
    """One call of a known tool."""
    return parse_tool_call(text, [tool.name for tool in tools(world)])


def from_line(line: str, world: World) -> str:
    """`$ command` runs a command, `tool key=value` calls a tool, an object is an action as it stands."""
    stripped = line.strip()
    if stripped.startswith("$"):
        return canonical_json({"name": "run_shell_command", "arguments": {"command": stripped[1:].strip()}})
    return call_from_line(line, tools(world))


def problems(world: World) -> list[str]:
    """A repository needs files under its `cwd`, or a source that it comes from."""
    try:
        state = repository_state(world)
    except InputError as error:
        return [str(error)]
    if isinstance(world.initial_state, str):
        return ["initial_state must be a mapping with user, cwd (the repository) and files, sdist or folder"]
    if state.sdist and state.folder:
        return ["initial_state has both sdist and folder: the repository comes from one of them"]
    if not (state.sdist or state.folder or _top_level(state)):
        return [
            f"initial_state.files has no file under the repository, {resolve(state)} (initial_state.cwd); "
            "a real repository may come from initial_state.sdist or initial_state.folder"
        ]
    return []


def initial_observation(world: World) -> Observation:
    """Where the repository is and what lies in it, unless the world says otherwise."""
    if world.initial_observation is not None:
        return Observation(text=world.initial_observation)
    state = repository_state(world)
    return Observation(text=f"The repository is in {list_result(resolve(state), _top_level(state))}")


def render_repository(world: World) -> str:
    """The initial state as text."""
    state = repository_state(world)
    source = f"\nThe repository is the source distribution {state.sdist}." if state.sdist else ""
    return render_state(state) + source


def _top_level(state: FileState) -> list[str]:
    root = resolve(state).rstrip("/") + "/"
    below = [path[len(root) :] for path in map(state.absolute, state.files) if path.startswith(root)]
    return sorted({path.split("/", 1)[0] + ("/" if "/" in path else "") for path in below if path})


def harness(world: World, turns: Sequence[Turn], call: ToolCall) -> HarnessReply | None:
    """Wrong arguments to a default tool, and the to-do list: their answers need no repository."""
    if world.tools:
        return None
    if problem := bad_arguments(call, _BY_NAME[call.name]):
        return HarnessReply(Observation(text=f"Error: wrong arguments for {call.name}: {problem}"))
    if call.name == "todo_write":
        return HarnessReply(Observation(text=todo_result(call.arguments["todos"])))
    return None


def check(world: World, turns: Sequence[Turn], call: ToolCall, observation: Observation) -> tuple[Check, ...]:
    """The form of a result, what it repeats of its action, and what is known of the file that it is about.

    Only results of the default tools are checked: the forms of others are not known.
    """
    if world.tools or bad_arguments(call, _BY_NAME[call.name]):
        return ()
    state, arguments, text = repository_state(world), call.arguments, observation.text
    if call.name == "run_shell_command":
        return _check_shell(resolve(state, arguments.get("directory", "")), arguments, text)
    if call.name == "todo_write":
        return (_exactly("todo_list", text, todo_result(arguments["todos"])),)
    if call.name in ("read_file", "write_file", "edit"):
        return _check_file(world, turns, state, call, text)
    path = resolve(state, arguments.get("path", ""))
    if text.startswith("Error: "):
        return (_one_line(text),)
    if call.name == "list_directory":
        names = text.split("\n")[1:]
        return (_exactly("listing", text, list_result(path, list(dict.fromkeys(names)))),)
    return (_check_rows(call, path, text),)


def _check_shell(directory: str, arguments: dict[str, Any], text: str) -> tuple[Check, ...]:
    try:
        result = parse_shell_result(text)
    except ValueError as error:
        return (Check(rule="shell_fields", passed=False, message=str(error)),)
    checks = [
        Check(rule="shell_fields", passed=True),
        Check(
            rule="command_echo",
            passed=result.command == arguments["command"],
            message="'Command' must repeat the command of the action",
        ),
        Check(
            rule="directory_echo",
            passed=result.directory == directory,
            message=f"'Directory' must be {directory}",
        ),
        Check(
            rule="exit_code",
            passed=0 <= result.exit_code <= 255
            if result.exit_code is not None
            else bool(result.signal or result.error),
            message="'Exit Code' must be 0 to 255, or (none) with a signal or an error",
        ),
    ]
    if arguments.get("is_background") and result.error is None and result.exit_code == 0:
        checks.append(
            Check(
                rule="background_pid",
                passed=bool(result.background_pids),
                message="a command that was started in the background has a PID",
            )
        )
    return tuple(checks)


def _check_file(world: World, turns: Sequence[Turn], state: FileState, call: ToolCall, text: str) -> tuple[Check, ...]:
    """The exact answer where the file's content is known; else the form of the answer."""
    arguments = call.arguments
    path = resolve(state, arguments["file_path"])
    content = _known_content(world, turns, state, path)
    if content is not None:
        return (_exactly("known_file", text, _apply(call, path, content)[1]),)
    if text.startswith("Error: "):
        return (_one_line(text),)
    if call.name == "read_file":
        return ()
    if call.name == "write_file":
        forms = [write_result(path, arguments["content"], existed=existed) for existed in (True, False)]
    else:
        created = write_result(path, arguments["new_string"], existed=False)
        forms = [_edited(path, _expected(arguments)) if arguments["old_string"] else created]
    return (Check(rule="names_the_file", passed=text in forms, message=f"the answer must be: {' or '.join(forms)}"),)


def _apply(call: ToolCall, path: str, content: str) -> tuple[str, str]:
    """What a call makes of an existing file's content, and what it answers."""
    arguments = call.arguments
    if call.name == "read_file":
        # JSON Schema takes 5.0 for an integer.
        offset, limit = int(arguments.get("offset", 0)), int(arguments.get("limit", READ_LINES))
        return content, read_result(path, content, offset, limit)
    if call.name == "write_file":
        return arguments["content"], write_result(path, arguments["content"], existed=True)
    old, new = arguments["old_string"], arguments["new_string"]
    after, text = edit_result(path, content, old, new, _expected(arguments))
    return after or "", text


def _expected(arguments: dict[str, Any]) -> int:
    return int(arguments.get("expected_replacements", 1))


# Commands that leave the files of a repository alone, as far as one can tell from their first words.
_HARMLESS = re.compile(
    r"(ls|cat|head|tail|grep|rg|wc|pwd|echo|which|find|git (init|add|commit|status|diff|log|show|blame|branch)|"
    r"git( -c \S+)* commit|python3? -m (unittest|pytest)|pytest|python3? --version)\b"
)
_RISKY = re.compile(r"[;&|><`$\n]|-delete|-exec|--output|\brm\b|\bmv\b")


def _known_content(world: World, turns: Sequence[Turn], state: FileState, path: str) -> str | None:
    """What the file at `path` holds now, where the initial state and the turns determine it."""
    recent = turns[-LOOK_BACK:]
    base: str | None = None
    calls: list[tuple[ToolCall, str]] = []
    for turn in reversed(recent):
        call = _past_call(turn.action)
        if call is None or turn.observation is None:
            continue
        if call.name == "run_shell_command" and not _leaves_files(call.arguments["command"]):
            return None
        if call.name not in ("write_file", "edit") or turn.observation.text.startswith("Error: "):
            continue
        if resolve(state, call.arguments["file_path"]) != path:
            continue
        if call.name == "write_file" or not call.arguments["old_string"]:
            base = call.arguments["content" if call.name == "write_file" else "new_string"]
            break
        calls.append((call, turn.observation.text))
    else:
        entry = next((entry for name, entry in state.files.items() if state.absolute(name) == path), None)
        if entry is None or len(recent) < len(turns) or not all(map(_leaves_files, state.setup)):
            return None
        base = entry.content
    for call, text in reversed(calls):
        base, expected = _apply(call, path, base)
        if text != expected:
            return None  # an answer that was no true one: from here on anything may be
    return base


@lru_cache(maxsize=1024)
def _past_call(action: str) -> ToolCall | None:
    """The call that an action of a default tool was; None when it was none, or had wrong arguments."""
    try:
        call = parse_tool_call(action, tuple(_BY_NAME))
    except ActionError:
        return None
    return None if bad_arguments(call, _BY_NAME[call.name]) else call


def _leaves_files(command: str) -> bool:
    return bool(_HARMLESS.match(command)) and not _RISKY.search(command)


_SEARCH_ROW = re.compile(r"([^:\n]+):([1-9]\d*): (.*)")


def _check_rows(call: ToolCall, path: str, text: str) -> Check:
    """Whether rows are as many as their first line says, of their form, unique and sorted."""
    pattern = call.arguments["pattern"]
    rows = text.split("\n")[1:]
    count = re.match(r"\d{1,9}", text)
    if call.name == "glob":
        files = [row for row in dict.fromkeys(rows) if row.startswith(path.rstrip("/") + "/")]
        expected = glob_result(pattern, path, files)
    else:
        found = [match for row in dict.fromkeys(rows) if (match := _SEARCH_ROW.fullmatch(row))]
        expected = search_result(pattern, path, [(match[1], int(match[2]), match[3]) for match in found])
    if count and int(count[0]) > MAX_ROWS == len(rows):
        expected = re.sub(r"^\d+", count[0], expected)
    return _exactly("rows", text, expected)


def _exactly(rule: str, text: str, expected: str) -> Check:
    shown = expected if len(expected) <= 300 else expected[:300] + "…"
    return Check(rule=rule, passed=text == expected, message="" if text == expected else f"the answer must be: {shown}")


def _one_line(text: str) -> Check:
    return Check(rule="error_line", passed="\n" not in text, message="an error is one line")


SWE = Domain(
    name="swe",
    summary="A repository and a coding agent's tools; one tool call in, its result out.",
    limits=Limits(
        turns=200,
        step_seconds=120,
        episode_seconds=3600,
        memory_mib=2048,
        disk_mib=1024,
        processes=128,
        output_kib=1024,
    ),
    tools=tools,
    parse_action=parse_action,
    format_action=format_tool_call,
    from_line=from_line,
    problems=problems,
    initial_observation=initial_observation,
    render_state=render_repository,
    read_observation=text_observation,
    write_observation=observation_text,
    check=check,
    harness=harness,
)
