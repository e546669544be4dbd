"""OS: Python text as an action, the harness, the rules for a desktop, the shipped worlds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.core.errors import ActionError, InputError
from worldlm.core.types import Observation, ToolCall, Turn, World
from worldlm.domains import get_domain
from worldlm.domains.desktop import BUSY, OS, cut, typed_text
from worldlm.simulate.worlds import load_world

WORLD = load_world("os-office")
FIRST = OS.initial_observation(WORLD).text
DESK = """Screen: 800x600
application 'Quire'
\tframe 'a.txt - Quire' (10,20 400x300), active
\t\tmenu bar '' (10,50 400x28)
\t\ttext 'a.txt' (10,78 400x220) value='one\\n', editable, focused
\t\tpush button 'Print' (300,50 60x28), disabled
application 'Files'
\tframe 'Work' (-50,400 300x250)"""


def call(text: str) -> ToolCall:
    return OS.parse_action(text, WORLD)


def broken(before: str, action: str, after: str) -> set[str]:
    """The rules that `after` breaks."""
    turns = [Turn(action="WAIT", observation=Observation(text=before))]
    checks = OS.check(WORLD, turns, call(action), Observation(text=after))
    return {check.rule for check in checks if not check.passed}


def applied(before: str, action: str, after: str) -> set[str]:
    turns = [Turn(action="WAIT", observation=Observation(text=before))]
    return {check.rule for check in OS.check(WORLD, turns, call(action), Observation(text=after))}


def test_python_stands_as_it_is() -> None:
    code = "import time\nfor x in range(3):\n    pyautogui.click(x, 2)  # é\ntime.sleep(1)\n"
    assert call(code) == ToolCall(name="python", arguments={"code": code})
    assert OS.format_action(call(code)) == code


@pytest.mark.parametrize("word", ["DONE", "FAIL", "WAIT"])
def test_the_three_words(word: str) -> None:
    assert call(f" {word}\n") == ToolCall(name=word.lower())
    assert OS.format_action(ToolCall(name=word.lower())) == word


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the action is empty"),
        ("# nothing\n", "the action is empty"),
        ("```python\nx = 1\n```", "leave out the code fence"),
        ("pyautogui.click(1, 2", r"not valid Python: '\(' was never closed \(line 1, column 16\)"),
        ("x = 1\nclick the button", r"\(line 2, column 7\)"),
        ("  x = 1", r"unexpected indent \(line 1"),
        ("Done", "does nothing .*did you mean 'done'. The words are in capitals"),
        ("pass", "does nothing"),
        ("'click the button'", "does nothing .*; write Python that acts, or DONE"),
        ('{"action": "click", "x": 3}', "does nothing"),
        ("x = '\0'", "not valid Python"),
        ("(" * 5000 + ")" * 5000, "not valid Python"),
    ],
)
def test_what_does_not_parse_says_what_is_wrong(text: str, told: str) -> None:
    with pytest.raises(ActionError, match=told):
        call(text)


code = st.builds(
    lambda head, text, tail: f"{head}pyautogui.write({text!r}){tail}",
    st.sampled_from(["", "import os\n", "# note\n\n", "if True:\n    "]),
    st.text(max_size=30),
    st.sampled_from(["", "\n", "  # end", "; x = 1\n\n"]),
)


@given(code)
def test_a_call_formatted_and_parsed_is_the_call(source: str) -> None:
    action = call(source)
    assert action.arguments["code"] == source
    assert call(OS.format_action(action)) == action


@given(st.text(max_size=60))
def test_any_text_parses_or_is_an_action_error(anything: str) -> None:
    try:
        parsed = call(anything)
    except ActionError:
        return
    assert call(OS.format_action(parsed)) == parsed


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("click 100 200", "pyautogui.click(100, 200)"),
        ("double 100, 200", "pyautogui.doubleClick(100, 200)"),
        ("right 1 2", "pyautogui.rightClick(1, 2)"),
        ("type it's", 'pyautogui.write("it\'s")'),
        ("press enter", "pyautogui.press('enter')"),
        ("hotkey ctrl s", "pyautogui.hotkey('ctrl', 's')"),
        ("scroll -5", "pyautogui.scroll(-5)"),
        ("wait", "WAIT"),
        ("done", "DONE"),
    ],
)
def test_shorthand(line: str, action: str) -> None:
    assert OS.from_line(line, WORLD) == action
    call(action)


def test_other_lines_stay() -> None:
    for line in ("type = 3", "press(3)", "print('hello')", "click here", "wait for it", "scroll down"):
        assert OS.from_line(line, WORLD) == line


def test_done_and_fail_end_the_episode() -> None:
    noisy = DESK.replace("application", "Output: 'x\\n'\nError: NameError: y\napplication", 1)
    turns = [Turn(action="WAIT", observation=Observation(text=noisy))]
    for word in ("DONE", "FAIL"):
        reply = OS.harness(WORLD, turns, call(word))
        assert reply is not None
        assert reply.terminated
        assert reply.observation.text == DESK
    first = OS.harness(WORLD, [], call("DONE"))
    assert first is not None
    assert first.observation.text == FIRST
    assert OS.harness(WORLD, [], call("WAIT")) is None
    assert OS.harness(WORLD, [], call("x = 1")) is None


def test_a_good_screen_breaks_no_rule() -> None:
    typed = DESK.replace("one\\n", "one\\ntwo words")
    action = "import pyautogui\npyautogui.write('two ')\ntime.sleep(0.5)\npyautogui.typewrite('words', interval=0.1)"
    assert broken(DESK, action, typed) == set()
    assert {"typed", "header", "applications", "one_active", "one_focused", "on_screen"} <= applied(DESK, action, typed)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (("Screen: 800x600\n", ""), "header"),
        (("Screen: 800x600", "Screen: large"), "header"),
        (("Screen: 800x600", "Screen: 800x601"), "screen_size"),
        (("Screen: 800x600", "Screen: 800x600\nOutput: hello"), "output"),
        (("Screen: 800x600", "Screen: 800x600\nOutput: 'a\\x'"), "output"),
        (("application 'Files'", "frame 'Files'"), "applications"),
        (("(-50,400 300x250)", "(-50,400 300x250), active"), "one_active"),
        (("28), disabled", "28), focused"), "one_focused"),
        (("(-50,400 300x250)", "(-350,400 300x250)"), "on_screen"),
        (("(-50,400 300x250)", "(-50,400 300x-5)"), "on_screen"),
        (("\t\ttext", "\t\t\t\ttext"), "tree"),
    ],
)
def test_each_rule_of_a_screen(change: tuple[str, str], rule: str) -> None:
    assert rule in broken(DESK, "x = 1", DESK.replace(*change))


def test_a_desktop_without_a_window_is_its_header() -> None:
    assert broken(DESK, "pyautogui.hotkey('alt', 'f4')", "Screen: 800x600") == set()
    assert broken(DESK, "x = 1", "") == {"tree"}
    restless = DESK.replace("application", f"{BUSY}\n{cut(12)}\napplication", 1)
    assert broken(DESK, "x = 1", restless) == set()
    reply = OS.harness(WORLD, [Turn(action="WAIT", observation=Observation(text=restless))], call("DONE"))
    assert reply is not None
    assert reply.observation.text == restless.replace(f"{BUSY}\n", "")


def test_typing_must_show_where_it_can_be_told() -> None:
    assert broken(DESK, "pyautogui.write('two')", DESK) == {"typed"}
    raised = DESK.replace("application", "Error: NameError: x\napplication", 1)
    assert "typed" not in applied(DESK, "pyautogui.write('two')", raised)
    assert "typed" not in applied(DESK.replace(", focused", ""), "pyautogui.write('two')", DESK)
    assert "typed" not in applied(DESK, "pyautogui.click(3, 4)\npyautogui.write('two')", DESK)


def test_waiting_runs_no_code() -> None:
    assert broken(DESK, "WAIT", DESK) == set()
    assert broken(DESK, "WAIT", DESK.replace("application", "Output: 'x'\napplication", 1)) == {"quiet"}


@pytest.mark.parametrize(
    ("source", "typed"),
    [
        ("pyautogui.write('a'); pyautogui.write('b')", "ab"),
        ("import time\ntime.sleep(1)", ""),
        ("pyautogui.write('a\\n')", None),
        ("pyautogui.write('é')", None),
        ("pyautogui.write(name)", None),
        ("pyautogui.press('a')", None),
        ("x = 1", None),
        ("(", None),
    ],
)
def test_typed_text(source: str, typed: str | None) -> None:
    assert typed_text(source) == typed


def test_problems_of_a_world() -> None:
    bare = World(name="bare", domain="os", initial_state="a desk")
    assert "initial_observation is missing" in OS.problems(bare)[0]
    with pytest.raises(InputError, match="'bare' has no initial_observation"):
        OS.initial_observation(bare)
    assert OS.problems(bare.model_copy(update={"initial_observation": DESK})) == []
    assert OS.problems(bare.model_copy(update={"initial_state": {"applications": ["mousepad"]}})) == []
    assert OS.problems(bare.model_copy(update={"initial_observation": DESK.replace("Screen", "Size")})) != []


@pytest.mark.parametrize("name", ["os-files", "os-office"])
def test_shipped_worlds(name: str) -> None:
    world = load_world(name)
    assert OS.problems(world) == []
    assert world.hidden_state
    assert get_domain(world.domain) is OS
    state = World(name="mapping", domain="os", initial_state={"user": "ana"})
    assert OS.render_state(state) == '{"user":"ana"}'


def test_prompts() -> None:
    assert len(OS.prompt("compact").split()) <= 170
    assert len(OS.prompt("full")) > 3 * len(OS.prompt("compact"))
