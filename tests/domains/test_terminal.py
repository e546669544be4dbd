"""The terminal's actions and rule checks, without a terminal."""

import json
import re
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.core.errors import ActionError
from worldlm.core.types import Observation, ToolCall, World
from worldlm.domains.terminal import (
    CONFIRM,
    MAX_KEYSTROKES,
    ROWS,
    TERMINAL,
    control_key,
    from_line,
    interrupted,
    scrolled_off,
)

WORLD = World(name="box", domain="terminal", initial_state={"user": "ana", "host": "box", "cwd": "~"})
PROMPT = "ana@box:~$"


def failed(line: str, text: str) -> set[str]:
    """The rules that an observation breaks."""
    call = TERMINAL.parse_action(from_line(line, WORLD), WORLD)
    return {check.rule for check in TERMINAL.check(WORLD, (), call, Observation(text=text)) if not check.passed}


def test_an_answer_as_a_terminal_gives_it_passes() -> None:
    assert failed("ls", f"{PROMPT} ls\nnotes.txt\n{PROMPT}") == set()
    rows = [f"{i}" for i in range(ROWS - 1)]
    assert failed("seq 99", "\n".join([scrolled_off(101), *rows, PROMPT])) == set()
    assert failed("echo", f"{interrupted(64)}\n{PROMPT} echo\n{PROMPT}") == set()


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[31mred\x1b[0m",
        "\x1b]0;a title\x07",
        "ding\a",
        "10%\r20%",
        "a\bb",
        "\x1b[2K",
        "\x9b31mred",
        "\x00",
        "\x7f",
    ],
)
def test_control_sequences_in_a_prediction_are_caught(text: str) -> None:
    assert failed("ls", f"{PROMPT} ls\n{text}\n{PROMPT}") == {"no_control_sequences"}


@given(st.text(st.characters(exclude_categories=["C"]), max_size=30))
def test_ordinary_text_is_not(text: str) -> None:
    assert "no_control_sequences" not in failed("ls", f"{PROMPT} ls\n\t{text}\n{PROMPT}")


@pytest.mark.parametrize(
    ("line", "text", "rules"),
    [
        ("ls", f"{PROMPT} pwd\n{PROMPT}", {"echo"}),
        ("ls", "notes.txt", {"echo", "prompt"}),
        ("ls", f"{PROMPT} ls\nnotes.txt", {"prompt"}),
        ("ls", "\n".join([f"{PROMPT} ls", *["x"] * ROWS, PROMPT]), {"screen_size"}),
        ("ls", interrupted(64), {"echo", "prompt"}),
    ],
)
def test_breaches_are_named(line: str, text: str, rules: set[str]) -> None:
    assert failed(line, text) == rules


@pytest.mark.parametrize("size", ["full", "compact"])
def test_a_model_is_told_of_the_marker_for_what_scrolled_off(size: Literal["full", "compact"]) -> None:
    marker = re.sub(r"\d+(?= earlier)", "N", scrolled_off(75)).replace("75", "M")
    assert marker in TERMINAL.prompt(size)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("ls", "JSON"),
        ('{"keystrokes": "ls"}', "must be an array"),
        ('["ls"]', "element 0 must be an object"),
        ('[{"keystroke": "ls"}]', "did you mean 'keystrokes'"),
        ('[{"keystrokes": 1}]', "needs 'keystrokes', a string"),
        ('[{"keystrokes": "a"}, {"keystrokes": "", "duration": "1"}]', "element 1: 'duration' must be a number"),
        ('[{"keystrokes": "", "duration": true}]', "must be a number"),
        ('[{"keystrokes": "", "duration": 1e999}]', "out of range"),
        ('[{"keystrokes": "", "duration": -1}]', "between 0 and 120"),
        (json.dumps([{"keystrokes": "x" * (MAX_KEYSTROKES // 2 + 1)}] * 2), "100000 are the most"),
    ],
)
def test_a_bad_action_says_what_is_wrong(action: str, words: str) -> None:
    with pytest.raises(ActionError, match=words):
        TERMINAL.parse_action(action, WORLD)


@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.floats(0, 120))))
def test_an_action_survives_writing_and_reading(keys: list[tuple[str, float]]) -> None:
    action = json.dumps([{"keystrokes": k, "duration": d} for k, d in keys])
    call = TERMINAL.parse_action(action, WORLD)
    assert TERMINAL.parse_action(TERMINAL.format_action(call), WORLD) == call
    assert [(k["keystrokes"], k["duration"]) for k in call.arguments["keys"]] == keys


def test_control_keys_stand_alone() -> None:
    assert [control_key(key) for key in ("C-c", "C-d", "C-[", "C-C", "C-cc", "c")] == [
        "\x03",
        "\x04",
        "\x1b",
        *[None] * 3,
    ]


def test_a_claim_of_completion_is_asked_back_once() -> None:
    call = TERMINAL.parse_action("[]", WORLD)
    assert TERMINAL.harness is not None
    answered = TERMINAL.harness(WORLD, (), call)
    assert answered is not None
    assert (answered.observation.text, answered.terminated) == (CONFIRM, False)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (("echo -n 'a b'\n",), "ana@box:~$ echo -n 'a b'\na bana@box:~$"),
        (("rm lamp", "C-u", "echo lamp\n"), "ana@box:~$ echo lamp\nlamp\nana@box:~$"),
        (("uniq -c\n",), "ana@box:~$ uniq -c"),
        (("less a.txt\n",), "\n\none\na.txt (END)"),
        (("nohup true &\n",), "ana@box:~$ nohup true &\n[1] 7\nana@box:~$ nohup: ignoring input"),
    ],
)
def test_checks_allow_what_a_real_terminal_shows(keys: tuple[str, ...], text: str) -> None:
    world = World(name="box", domain="terminal", initial_state={"user": "ana", "host": "box"})
    call = ToolCall(name="terminal", arguments={"keys": [{"keystrokes": k, "duration": 1.0} for k in keys]})
    assert all(check.passed for check in TERMINAL.check(world, (), call, Observation(text=text)))
