"""SWE: calls, the exact forms of results, what rules know of files, and repositories that really run."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.core.errors import ActionError
from worldlm.core.types import Observation, Profile, ToolCall, Turn
from worldlm.domains import get_domain
from worldlm.domains.domain import schema_problem
from worldlm.domains.files import file_state
from worldlm.domains.swe import (
    MAX_ROWS,
    SWE,
    TOOLS,
    ShellResult,
    edit_result,
    format_shell_result,
    glob_result,
    line_count,
    list_result,
    parse_shell_result,
    read_result,
    search_result,
    write_result,
)
from worldlm.simulate import SimulatedEnvironment, load_world
from worldlm.testing import ScriptedModel, check_environment

WORLD = load_world("swe-duration")
ROOT = "/home/ines/ticktext"
RENDER = f"{ROOT}/ticktext/render.py"
RENDER_TEXT = file_state(WORLD).files["ticktext/ticktext/render.py"].content

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def action(name: str, **arguments: Any) -> str:
    return SWE.format_action(ToolCall(name=name, arguments=arguments))


def turn(name: str, answer: str, **arguments: Any) -> Turn:
    return Turn(action=action(name, **arguments), observation=Observation(text=answer))


def failed(answer: str, turns: list[Turn], name: str, **arguments: Any) -> list[str]:
    checks = SWE.check(WORLD, turns, ToolCall(name=name, arguments=arguments), Observation(text=answer))
    return [check.rule for check in checks if not check.passed]


def harness(name: str, **arguments: Any) -> str | None:
    reply = SWE.harness(WORLD, [], ToolCall(name=name, arguments=arguments))
    return None if reply is None else reply.observation.text


# Actions.


@given(st.sampled_from(TOOLS), st.dictionaries(st.text(), JSON, max_size=4))
def test_a_call_survives_its_text(tool: Any, arguments: dict[str, Any]) -> None:
    call = ToolCall(name=tool.name, arguments=arguments)
    assert SWE.parse_action(SWE.format_action(call), WORLD) == call


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ls", "not valid JSON: Expecting value at line 1, column 1"),
        ("[]", "must be an object .*, not an array"),
        ('{"name": "read_fil", "arguments": {}}', "no tool 'read_fil'; did you mean 'read_file'"),
        ('{"name": "read_file", "args": {}}', "unknown key 'args'"),
        ('{"arguments": {}}', "no 'name'"),
        ('{"name": "read_file", "arguments": "x"}', "'arguments' must be an object, not a string"),
        ('{"name": "read_file", "arguments": {"limit": NaN}}', "out of range"),
        ('{"name": "read_file", "arguments": {"limit": 1e999}}', "out of range"),
        ('{"name": "read_file", "arguments": {"limit": ' + "9" * 5000 + "}}", "out of range"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_an_action_that_does_not_parse_is_told_why(text: str, words: str) -> None:
    with pytest.raises(ActionError, match=words):
        SWE.parse_action(text, WORLD)


@pytest.mark.parametrize(
    ("line", "name", "arguments"),
    [
        ("$ python -m unittest", "run_shell_command", {"command": "python -m unittest"}),
        ("$ls | wc -l", "run_shell_command", {"command": "ls | wc -l"}),
        ("read_file file_path=README.md limit=5", "read_file", {"file_path": "README.md", "limit": 5}),
        ("glob pattern='**/*.py'", "glob", {"pattern": "**/*.py"}),
        ('list_directory {"path": "tests"}', "list_directory", {"path": "tests"}),
        ("write_file file_path=a content=7", "write_file", {"file_path": "a", "content": "7"}),
        ('{"name": "glob", "arguments": {"pattern": "*"}}', "glob", {"pattern": "*"}),
    ],
)
def test_a_line_becomes_a_call(line: str, name: str, arguments: dict[str, Any]) -> None:
    assert SWE.parse_action(SWE.from_line(line, WORLD), WORLD) == ToolCall(name=name, arguments=arguments)


@pytest.mark.parametrize("line", ["", "help me", "glob pattern='open", 'glob {"pattern":}', "=", "$"])
def test_any_line_becomes_text_that_the_parser_can_answer(line: str) -> None:
    with contextlib.suppress(ActionError):
        SWE.parse_action(SWE.from_line(line, WORLD), WORLD)


def test_default_tools_have_sound_schemas_and_own_tools_take_their_place() -> None:
    example = {"command": "ls", "directory": ".", "is_background": False}
    assert schema_problem(example, TOOLS[0].parameters) is None
    own = WORLD.model_copy(update={"tools": TOOLS[:1]})
    assert [tool.name for tool in SWE.tools(own)] == ["run_shell_command"]
    with pytest.raises(ActionError, match="no tool 'glob'"):
        SWE.parse_action(action("glob", pattern="*"), own)


# The forms of results.

NASTY = st.lists(
    st.sampled_from(["\n", "Stderr: ", "Directory: ", "Stdout: ", "Error: ", "Exit Code: 0", "\\", "(empty)", "(none)"])
    | st.text(max_size=4),
    max_size=8,
).map("".join)
LINE = NASTY.map(lambda text: text.replace("\n", " ") or "x")


@given(
    st.builds(
        ShellResult,
        command=NASTY,
        directory=LINE,
        stdout=NASTY,
        stderr=NASTY,
        error=st.none() | LINE,
        exit_code=st.none() | st.integers(0, 255),
        signal=st.sampled_from([None, "SIGKILL", "SIGRTMIN+3"]),
        background_pids=st.lists(st.integers(1, 4_000_000), max_size=3).map(tuple),
    )
)
def test_a_shell_result_survives_its_text(result: ShellResult) -> None:
    assert parse_shell_result(format_shell_result(result)) == result


def test_a_shell_result_looks_like_this() -> None:
    result = ShellResult(command="make test", directory=ROOT, stderr="a\nb", exit_code=2)
    assert format_shell_result(result) == (
        f"Command: make test\nDirectory: {ROOT}\nStdout: (empty)\nStderr: a\nb\nError: (none)\n"
        "Exit Code: 2\nSignal: (none)\nBackground PIDs: (none)"
    )


GOOD = format_shell_result(ShellResult(command="ls", directory=ROOT, stdout="README.md"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("README.md", "'Command: …'"),
        (GOOD.replace("Signal: (none)\n", ""), "'Signal: …'"),
        (GOOD.replace("Stdout", "stdout"), "'Stdout: …'"),
        (GOOD.replace("Exit Code: 0", "Exit Code: zero"), "not one line of their form"),
        (GOOD + "\nDone.", "not one line of their form"),
        ("Here:\n" + GOOD, "'Command: …'"),
    ],
)
def test_a_broken_shell_result_is_told_where(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_shell_result(text)


def test_files_are_read_whole_or_in_part() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 6))
    assert read_result("/f", text) == text[:-1]
    assert read_result("/f", text, offset=1, limit=2) == "[lines 2-3 of 5]\nline 2\nline 3"
    assert read_result("/f", text, offset=5) == "Error: offset 5 is past the end of /f (5 lines)"
    assert read_result("/f", "") == "(empty file)"
    assert read_result("/f", None) == "Error: file not found: /f"


def test_edits_replace_exactly_what_is_there() -> None:
    assert edit_result("/f", "a b a", "b", "c") == ("a c a", "Edited /f: 1 replacement.")
    assert edit_result("/f", "a b a", "a", "c", 2) == ("c b c", "Edited /f: 2 replacements.")
    assert edit_result("/f", "a b a", "a", "c") == ("a b a", "Error: old_string occurs 2 times in /f, expected 1")
    assert edit_result("/f", "a", "z", "c") == ("a", "Error: old_string does not occur in /f")
    assert edit_result("/f", "a", "a", "a")[1] == "Error: old_string and new_string are the same"
    assert edit_result("/f", "a", "", "x")[1] == "Error: old_string is empty and /f exists"
    assert edit_result("/f", None, "", "x\n") == ("x\n", "Created /f (1 line).")
    assert edit_result("/f", None, "y", "x") == (None, "Error: file not found: /f")
    assert write_result("/f", "a\nb", existed=True) == "Overwrote /f (2 lines)."


@given(st.text(alphabet="a\n", max_size=12))
def test_lines_are_counted_as_an_editor_does(text: str) -> None:
    lines = text.split("\n")
    assert line_count(text) == len(lines if lines[-1] else lines[:-1])


# What the harness answers.


def test_wrong_arguments_are_an_ordinary_observation() -> None:
    assert harness("read_file", file_pth="x") == (
        "Error: wrong arguments for read_file: 'file_pth' is not a parameter; did you mean 'file_path'?"
    )
    assert harness("read_file") == "Error: wrong arguments for read_file: value: 'file_path' is a required property"
    assert "limit: 'many' is not of type 'integer'" in str(harness("read_file", file_path="x", limit="many"))
    assert harness("read_file", file_path="x") is None


def test_the_todo_list_is_what_was_written() -> None:
    todos = [{"content": "Run the tests", "status": "completed"}, {"content": "Fix it", "status": "in_progress"}]
    expected = "To-do list, 2 items:\n1. [completed] Run the tests\n2. [in_progress] Fix it"
    assert harness("todo_write", todos=todos) == expected
    assert harness("todo_write", todos=[]) == "The to-do list is empty."
    assert failed(expected, [], "todo_write", todos=todos) == []
    assert failed("Done.", [], "todo_write", todos=todos) == ["todo_list"]


# Rules.


def test_shell_rules() -> None:
    assert failed(GOOD, [], "run_shell_command", command="ls") == []
    assert failed("README.md", [], "run_shell_command", command="ls") == ["shell_fields"]
    assert failed(GOOD, [], "run_shell_command", command="ls -l") == ["command_echo"]
    assert failed(GOOD, [], "run_shell_command", command="ls", directory="tests") == ["directory_echo"]
    assert failed(GOOD.replace(ROOT, ROOT + "/tests"), [], "run_shell_command", command="ls", directory="tests") == []
    assert failed(GOOD.replace("Code: 0", "Code: 256"), [], "run_shell_command", command="ls") == ["exit_code"]
    assert failed(GOOD.replace("Code: 0", "Code: (none)"), [], "run_shell_command", command="ls") == ["exit_code"]
    killed = GOOD.replace("Code: 0", "Code: (none)").replace("Signal: (none)", "Signal: SIGKILL")
    assert failed(killed, [], "run_shell_command", command="ls") == []
    assert failed(GOOD, [], "run_shell_command", command="ls", is_background=True) == ["background_pid"]
    started = GOOD.replace("PIDs: (none)", "PIDs: 4711")
    assert failed(started, [], "run_shell_command", command="ls", is_background=True) == []


def test_a_file_of_the_initial_state_is_known() -> None:
    text = RENDER_TEXT.removesuffix("\n")
    assert failed(text, [], "read_file", file_path="ticktext/render.py") == []
    assert failed(text, [], "read_file", file_path="~/ticktext/ticktext/render.py") == []
    assert failed(text + " ", [], "read_file", file_path=RENDER) == ["known_file"]
    assert failed("Error: file not found: " + RENDER, [], "read_file", file_path=RENDER) == ["known_file"]
    first = f"[lines 1-1 of {line_count(RENDER_TEXT)}]\n" + '"""Seconds to text."""'
    assert failed(first, [], "read_file", file_path=RENDER, limit=1.0) == []


def test_what_was_written_is_what_is_read() -> None:
    edited = turn(
        "edit", f"Edited {RENDER}: 1 replacement.", file_path=RENDER, old_string="rest > size", new_string="no"
    )
    after = RENDER_TEXT.replace("rest > size", "no").removesuffix("\n")
    looked = turn("run_shell_command", GOOD, command="python -m unittest tests.test_render")
    assert failed(after, [edited, looked], "read_file", file_path="ticktext/render.py") == []
    assert failed(RENDER_TEXT.removesuffix("\n"), [edited], "read_file", file_path=RENDER) == ["known_file"]
    again = {"file_path": RENDER, "old_string": "rest > size", "new_string": "x"}
    assert failed(f"Edited {RENDER}: 1 replacement.", [edited], "edit", **again) == ["known_file"]
    assert failed(f"Error: old_string does not occur in {RENDER}", [edited], "edit", **again) == []
    written = turn("write_file", f"Created {ROOT}/new.txt (1 line).", file_path="new.txt", content="hello\n")
    assert failed("hello", [edited, written], "read_file", file_path="new.txt") == []
    assert failed("hallo", [edited, written], "read_file", file_path="./new.txt") == ["known_file"]
    assert failed(f"Created {ROOT}/new.txt (1 line).", [written], "write_file", file_path="new.txt", content="x") == [
        "known_file"
    ]


def test_after_a_command_that_may_change_files_only_the_form_is_checked() -> None:
    changed = turn("run_shell_command", GOOD, command="sed -i s/a/b/ ticktext/render.py")
    assert failed("anything", [changed], "read_file", file_path=RENDER) == []
    call = {"file_path": RENDER, "old_string": "a", "new_string": "b"}
    assert failed(f"Edited {RENDER}: 1 replacement.", [changed], "edit", **call) == []
    assert failed("Edited the file.", [changed], "edit", **call) == ["names_the_file"]
    assert failed(f"Error: old_string does not occur in {RENDER}", [changed], "edit", **call) == []
    assert failed("Error: no\nreally", [changed], "edit", **call) == ["error_line"]
    written = {"file_path": "x.txt", "content": "a\n"}
    assert failed(f"Created {ROOT}/x.txt (1 line).", [changed], "write_file", **written) == []
    assert failed(f"Created {ROOT}/x.txt (2 lines).", [changed], "write_file", **written) == ["names_the_file"]
    huge = {**call, "expected_replacements": 10**12}
    assert failed("Edited the file.", [changed], "edit", **huge) == ["names_the_file"]


def test_listings_globs_and_searches_have_their_form() -> None:
    listing = list_result(ROOT, ["README.md", "tests/", "ticktext/"])
    assert listing.split("\n")[1:] == ["tests/", "ticktext/", "README.md"]
    assert failed(listing, [], "list_directory", path=".") == []
    assert failed(f"{ROOT}:\nREADME.md\ntests/", [], "list_directory", path=ROOT) == ["listing"]
    assert failed(f"{ROOT}/x is empty.", [], "list_directory", path="x") == []
    assert failed(f"Error: folder not found: {ROOT}/x", [], "list_directory", path="x") == []

    found = glob_result("**/*.md", ROOT, [f"{ROOT}/b.md", f"{ROOT}/a.md"])
    assert found == f'2 files match "**/*.md" in {ROOT}:\n{ROOT}/a.md\n{ROOT}/b.md'
    assert failed(found, [], "glob", pattern="**/*.md") == []
    assert failed(found.replace("2 files", "3 files"), [], "glob", pattern="**/*.md") == ["rows"]
    assert failed(found.replace(f"{ROOT}/a.md", "a.md"), [], "glob", pattern="**/*.md") == ["rows"]
    assert failed(f'No files match "*.x" in {ROOT}.', [], "glob", pattern="*.x") == []
    many = glob_result("*", ROOT, [f"{ROOT}/{number:04}" for number in range(300)])
    assert (many.split(" ")[0], many.count("\n")) == ("300", MAX_ROWS)
    assert failed(many, [], "glob", pattern="*") == []

    lines = search_result("def ", ROOT, [("b.py", 10, "def b():"), ("b.py", 2, "def a():")])
    assert failed(lines, [], "search_file_content", pattern="def ") == []
    assert failed(lines.replace(":2:", ":x:"), [], "search_file_content", pattern="def ") == ["rows"]
    assert (
        failed(f'No matches for "a\\nb" in {ROOT}/tests.', [], "search_file_content", pattern="a\nb", path="tests")
        == []
    )


@given(st.sampled_from(TOOLS), st.dictionaries(st.text(), JSON, max_size=3), NASTY)
def test_rules_take_any_call_and_any_answer(tool: Any, arguments: dict[str, Any], answer: str) -> None:
    SWE.check(WORLD, [], ToolCall(name=tool.name, arguments=arguments), Observation(text=answer))
    SWE.harness(WORLD, [], ToolCall(name=tool.name, arguments=arguments))


# Worlds.


def test_a_world_without_a_repository_is_told_so() -> None:
    def problems(**update: Any) -> list[str]:
        return SWE.problems(WORLD.model_copy(update=update))

    assert problems() == []
    assert problems(initial_state="some files") == [
        "initial_state must be a mapping with user, cwd (the repository) and files, sdist or folder"
    ]
    assert (
        "no file under the repository, /home/user/x" in problems(initial_state={"cwd": "~/x", "files": {"y/a": ""}})[0]
    )
    assert "initial_state.usr" in problems(initial_state={"usr": "x"})[0]


def test_the_first_observation_says_where_the_repository_is() -> None:
    lines = SWE.initial_observation(WORLD).text.split("\n")
    assert lines[0] == f"The repository is in {ROOT}:"
    assert lines[1:] == ["tests/", "ticktext/", ".gitignore", "CHANGELOG.md", "README.md", "pyproject.toml"]
    own = WORLD.model_copy(update={"initial_observation": "Hello."})
    assert SWE.initial_observation(own).text == "Hello."


FIXES = {
    "swe-duration": [("ticktext/ticktext/render.py", "rest > size", "rest >= size")],
    "swe-ledger": [
        (
            "coppermill/coppermill/money.py",
            "    return [cents // shares] * shares",
            "    each, rest = divmod(cents, shares)\n    return [each + (place < rest) for place in range(shares)]",
        ),
        (
            "coppermill/coppermill/money.py",
            "match = _AMOUNT.fullmatch(text.strip())",
            'match = _AMOUNT.fullmatch(text.strip().replace("\'", ""))',
        ),
    ],
}


@pytest.mark.parametrize(("name", "failing", "tests"), [("swe-duration", 1, 12), ("swe-ledger", 3, 20)])
def test_a_shipped_repository_fails_as_it_says_until_it_is_fixed(
    name: str, failing: int, tests: int, tmp_path: Path
) -> None:
    world = load_world(name)
    state = file_state(world)
    files = {path: entry.content for path, entry in state.files.items()}

    def run() -> tuple[int, str]:
        for path, content in files.items():
            place = tmp_path / state.absolute(path).lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)
        root = tmp_path / state.absolute(state.cwd).strip("/")
        command = [sys.executable, "-B", "-m", "unittest"]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    code, report = run()
    assert code == 1
    assert f"Ran {tests} tests" in report
    assert report.count("\nFAIL: ") + report.count("\nERROR: ") == failing
    for path, old, new in FIXES[name]:
        after, answer = edit_result(path, files[path], old, new)
        assert answer.startswith("Edited ")
        files[path] = after or ""
    assert run()[0] == 0


@pytest.mark.anyio
async def test_a_simulated_repository_keeps_the_contract() -> None:
    model = ScriptedModel(lambda messages, sampling: f"answer {len(messages)}")

    def make() -> SimulatedEnvironment:
        return SimulatedEnvironment(WORLD, get_domain("swe"), model, Profile(name="test", answer_tag=False))

    todo = action("todo_write", todos=[])
    actions = [
        action("list_directory", path="."),
        todo,
        action("read_file", file_path="README.md"),
        action("read_file"),
    ]
    await check_environment(make, actions, invalid_action=json.dumps({"name": "nothing"}))
