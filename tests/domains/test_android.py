"""Android: the action grammar, the harness, the rules for screens, the shipped worlds."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from worldlm.core.errors import ActionError, InputError
from worldlm.core.types import Observation, ToolCall, Turn, World
from worldlm.domains import get_domain
from worldlm.domains.android import (
    ANDROID,
    STATES,
    TOOLS,
    calm_screen,
    failed_screen,
    read_dump,
    screen_rules,
    write_screen,
)
from worldlm.domains.tree import Box, Node, Tree, read_hierarchy
from worldlm.simulate.worlds import load_world

WORLD = load_world("android-notes")
LIST = ANDROID.initial_observation(WORLD).text
FORM = (
    '<hierarchy package="app.marl.notes" activity=".EditActivity" screen="1080x2400" keyboard="shown">\n'
    '  <node index="0" class="EditText" hint="Title" bounds="[48,240][900,360]" state="clickable editable focused"/>\n'
    '  <node index="1" class="EditText" hint="Note" bounds="[48,380][1032,1200]" state="clickable editable"/>\n'
    '  <node index="2" class="EditText" hint="PIN" bounds="[48,1220][900,1320]" state="clickable editable password"/>\n'
    "</hierarchy>"
)
HOME = '<hierarchy package="com.android.launcher3" activity=".Launcher" screen="1080x2400" keyboard="hidden"/>'


def call(text: str) -> ToolCall:
    return ANDROID.parse_action(text, WORLD)


def broken(before: str, action: str, after: str) -> set[str]:
    """The rules that `after` breaks."""
    turns = [Turn(action="{}", observation=Observation(text=before))]
    checks = ANDROID.check(WORLD, turns, call(action), Observation(text=after))
    return {check.rule for check in checks if not check.passed}


def applied(before: str, action: str, after: str) -> set[str]:
    turns = [Turn(action="{}", observation=Observation(text=before))]
    return {check.rule for check in ANDROID.check(WORLD, turns, call(action), Observation(text=after))}


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ('{"action_type": "click", "index": 3}', "click", {"index": 3}),
        ('{"action_type": "click", "index": 3.0}', "click", {"index": 3}),
        ('{"x": 540, "action_type": "long_press", "y": 1200}', "long_press", {"x": 540, "y": 1200}),
        ('{"action_type": "input_text", "text": "é\\n"}', "input_text", {"text": "é\n"}),
        ('{"action_type": "scroll", "direction": "down", "index": 2}', "scroll", {"direction": "down", "index": 2}),
        ('{"action_type": "swipe", "x": 1, "y": 2, "x2": 3, "y2": 4}', "swipe", {"x": 1, "y": 2, "x2": 3, "y2": 4}),
        ('{"action_type": "open_app", "app_name": "Clock"}', "open_app", {"app_name": "Clock"}),
        ('{"action_type": "navigate_back"}', "navigate_back", {}),
        ('{"action_type": "status", "goal_status": "infeasible"}', "status", {"goal_status": "infeasible"}),
    ],
)
def test_actions(text: str, name: str, arguments: dict[str, object]) -> None:
    assert call(text) == ToolCall(name=name, arguments=arguments)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("click 3", r'not valid JSON: .* expected one object such as \{"action_type": "click"'),
        ("[]", "must be an object .*, not an array"),
        ("{}", "no 'action_type'"),
        ('{"action_type": 3}', "no 'action_type'"),
        ('{"action_type": "clik", "index": 1}', "no action 'clik'; did you mean 'click'"),
        ('{"action_type": "click"}', "click needs 'index', or 'x' and 'y'"),
        ('{"action_type": "click", "index": 1, "x": 2, "y": 3}', "either 'index' or 'x' and 'y', not both"),
        ('{"action_type": "click", "x": 2}', "both 'x' and 'y'"),
        ('{"action_type": "click", "idx": 2}', "no argument 'idx'; did you mean 'index'"),
        ('{"action_type": "click", "index": "2"}', "click: index: '2' is not of type 'integer'"),
        ('{"action_type": "click", "index": true}', "index: True is not of type 'integer'"),
        ('{"action_type": "click", "index": -1}', "index: -1 is less than the minimum"),
        ('{"action_type": "click", "x": 1e999, "y": 3}', "out of range"),
        ('{"action_type": "click", "x": NaN, "y": 3}', "out of range"),
        ('{"action_type": "input_text"}', "input_text needs 'text'"),
        ('{"action_type": "input_text", "text": 5}', "text: 5 is not of type 'string'"),
        ('{"action_type": "scroll", "direction": "dwn"}', "'dwn' is not one of .*; did you mean 'down'"),
        ('{"action_type": "scroll"}', "scroll needs 'direction': up, down, left or right"),
        ('{"action_type": "swipe"}', "swipe needs 'direction', or 'x', 'y', 'x2' and 'y2'"),
        ('{"action_type": "swipe", "x": 1, "y": 2}', "swipe needs 'direction'"),
        ('{"action_type": "swipe", "direction": "up", "x": 1, "y": 2}', "either 'direction'"),
        ('{"action_type": "wait", "seconds": 2}', "wait has no argument 'seconds'; it takes none"),
        ('{"action_type": "status", "goal_status": "done"}', "'done' is not one of"),
        ('{"action_type": "open_app", "app_name": ""}', "app_name"),
    ],
)
def test_what_does_not_parse_says_what_is_wrong(text: str, told: str) -> None:
    with pytest.raises(ActionError, match=told):
        call(text)


index, pixel, text = st.integers(0, 9999), st.integers(0, 19_999), st.text(max_size=40)
direction = st.sampled_from(["up", "down", "left", "right"])
targets = st.one_of(st.fixed_dictionaries({"index": index}), st.fixed_dictionaries({"x": pixel, "y": pixel}))
calls = st.one_of(
    st.builds(lambda n, t: ToolCall(name=n, arguments=t), st.sampled_from(["click", "long_press"]), targets),
    st.builds(
        lambda s, t: ToolCall(name="input_text", arguments={"text": s, **t}), text, st.one_of(st.just({}), targets)
    ),
    st.builds(lambda d, i: ToolCall(name="scroll", arguments={"direction": d, **i}), direction, st.just({})),
    st.builds(lambda d, i: ToolCall(name="swipe", arguments={"direction": d, "index": i}), direction, index),
    st.builds(lambda a, b, c, d: ToolCall(name="swipe", arguments={"x": a, "y": b, "x2": c, "y2": d}), *[pixel] * 4),
    st.builds(lambda s: ToolCall(name="answer", arguments={"text": s}), text),
    st.builds(
        lambda n: ToolCall(name=n), st.sampled_from(["wait", "navigate_back", "navigate_home", "keyboard_enter"])
    ),
)


@given(calls)
def test_a_call_formatted_and_parsed_is_the_call(action: ToolCall) -> None:
    assert call(ANDROID.format_action(action)) == action


@given(st.text(max_size=60))
def test_any_text_parses_or_is_an_action_error(anything: str) -> None:
    try:
        parsed = call(anything)
    except ActionError:
        return
    assert call(ANDROID.format_action(parsed)) == parsed


def test_the_tools_are_the_actions() -> None:
    assert [tool.name for tool in ANDROID.tools(WORLD)] == [tool.name for tool in TOOLS]
    assert {tool.name for tool in TOOLS} == {
        "click", "long_press", "input_text", "scroll", "swipe", "open_app", "navigate_back", "navigate_home",
        "keyboard_enter", "wait", "status", "answer",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("click 3", {"action_type": "click", "index": 3}),
        ("tap 540 1200", {"action_type": "click", "x": 540, "y": 1200}),
        ("long 3", {"action_type": "long_press", "index": 3}),
        ("type two words", {"action_type": "input_text", "text": "two words"}),
        ("type @3 two words", {"action_type": "input_text", "text": "two words", "index": 3}),
        ("scroll down", {"action_type": "scroll", "direction": "down"}),
        ("swipe left 4", {"action_type": "swipe", "direction": "left", "index": 4}),
        ("open Marl Notes", {"action_type": "open_app", "app_name": "Marl Notes"}),
        ("back", {"action_type": "navigate_back"}),
        ("home", {"action_type": "navigate_home"}),
        ("enter", {"action_type": "keyboard_enter"}),
        ("wait", {"action_type": "wait"}),
        ("answer 42", {"action_type": "answer", "text": "42"}),
        ("done", {"action_type": "status", "goal_status": "complete"}),
        ("infeasible", {"action_type": "status", "goal_status": "infeasible"}),
    ],
)
def test_shorthand(line: str, action: dict[str, object]) -> None:
    written = ANDROID.from_line(line, WORLD)
    assert json.loads(written) == action
    call(written)


def test_other_lines_stay() -> None:
    for line in ('{"action_type": "wait"}', "click", "scroll sideways", "do something"):
        assert ANDROID.from_line(line, WORLD) == line


def test_status_ends_the_episode_and_answer_does_not() -> None:
    failed = FORM.replace('keyboard="shown"', 'keyboard="shown" error="no node with index 9"')
    turns = [Turn(action="{}", observation=Observation(text=failed))]
    status = ANDROID.harness(WORLD, turns, call('{"action_type": "status", "goal_status": "complete"}'))
    answer = ANDROID.harness(WORLD, [], call('{"action_type": "answer", "text": "4"}'))
    assert status is not None
    assert status.terminated
    assert status.observation.text == FORM
    assert answer is not None
    assert not answer.terminated
    assert answer.observation.text == LIST
    assert ANDROID.harness(WORLD, [], call('{"action_type": "wait"}')) is None


def test_a_good_screen_breaks_no_rule() -> None:
    typed = FORM.replace('hint="Title"', 'hint="Title" text="Bread &amp; salt"')
    action = '{"action_type": "input_text", "text": "Bread & salt"}'
    assert broken(FORM, action, typed) == set()
    assert {"typed", "header", "indexed", "unique_ids", "one_focused", "on_screen", "tree"} <= applied(
        FORM, action, typed
    )
    assert broken(FORM, '{"action_type": "navigate_home"}', HOME) == set()
    assert broken(HOME, '{"action_type": "open_app", "app_name": "Marl"}', LIST) == set()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (("<hierarchy", "<screen"), "tree"),
        ((' keyboard="shown"', ""), "header"),
        ((' activity=".EditActivity"', ""), "header"),
        (('index="1"', 'index="0"'), "unique_ids"),
        (('index="1" ', ""), "indexed"),
        (('index="1"', 'index="one"'), "indexed"),
        (('"clickable editable"', '"clickable editable focused"'), "one_focused"),
        (("[900,360]", "[1132,360]"), "on_screen"),
        (("[900,360]", "[900,200]"), "on_screen"),
        (("clickable editable password", "clickable wobbly"), "states"),
        (('screen="1080x2400"', 'screen="1200x2400"'), "screen_size"),
    ],
)
def test_each_rule_of_a_screen(change: tuple[str, str], rule: str) -> None:
    assert rule in broken(FORM, '{"action_type": "wait"}', FORM.replace(*change))


def test_typing_must_show() -> None:
    action = '{"action_type": "input_text", "text": "milk", "index": 1}'
    assert broken(FORM, action, FORM) == {"typed"}
    assert broken(FORM, '{"action_type": "input_text", "text": "milk", "x": 500, "y": 400}', FORM) == {"typed"}
    secret = FORM.replace('hint="PIN"', 'hint="PIN" text="••••"')
    assert broken(FORM, '{"action_type": "input_text", "text": "2580", "index": 2}', secret) == set()
    # Nothing can be told when the window changed, or the action failed, or there was no field.
    assert "typed" not in applied(FORM, action, LIST)
    assert "typed" not in applied(FORM, action, FORM.replace("<hierarchy", '<hierarchy error="x"'))
    assert "typed" not in applied(LIST, '{"action_type": "input_text", "text": "milk"}', LIST)


def test_an_unknown_index_changes_nothing_and_says_so() -> None:
    action = '{"action_type": "click", "index": 99}'
    told = FORM.replace("<hierarchy", '<hierarchy error="no node with index 99"')
    assert broken(FORM, action, told) == set()
    assert broken(FORM, action, FORM) == {"unknown_target"}
    assert broken(FORM, action, told.replace("PIN", "Pin")) == {"unknown_target"}
    toast = LIST.replace("</hierarchy>", '  <toast text="Saved"/>\n</hierarchy>')
    assert broken(toast, action, LIST.replace("<hierarchy", '<hierarchy error="no node with index 99"')) == set()


def test_home_and_apps() -> None:
    assert broken(FORM, '{"action_type": "navigate_home"}', FORM) == {"home"}
    assert broken(HOME, '{"action_type": "open_app", "app_name": "Marl"}', HOME) == {"open_app"}
    assert "open_app" not in applied(FORM, '{"action_type": "open_app", "app_name": "Marl"}', FORM)


def test_the_first_action_is_checked_against_the_worlds_first_screen() -> None:
    checks = ANDROID.check(WORLD, [], call('{"action_type": "click", "index": 99}'), Observation(text=LIST))
    assert [check.rule for check in checks if not check.passed] == ["unknown_target"]


def test_after_an_unreadable_screen_only_the_new_one_is_checked() -> None:
    assert applied("garbage", '{"action_type": "click", "index": 99}', FORM) == applied_alone(FORM)


def applied_alone(screen: str) -> set[str]:
    bare = World(name="bare", domain="android")
    checks = ANDROID.check(bare, [], call('{"action_type": "click", "index": 99}'), Observation(text=screen))
    return {check.rule for check in checks}


def test_problems_of_a_world() -> None:
    assert ANDROID.problems(WORLD) == []
    bare = World(name="bare", domain="android")
    assert "initial_observation is missing" in ANDROID.problems(bare)[0]
    with pytest.raises(InputError, match="'bare' has no initial_observation"):
        ANDROID.initial_observation(bare)
    wrong = bare.model_copy(update={"initial_observation": FORM.replace('index="1"', 'index="0"')})
    assert [line.split(":")[0] for line in ANDROID.problems(wrong)] == [
        "initial_observation",
        "neither initial_state nor hidden_state",
    ]
    assert ANDROID.problems(bare.model_copy(update={"initial_observation": "<oops"}))[0].startswith(
        "initial_observation: line 1"
    )


@pytest.mark.parametrize("name", ["android-notes", "android-settings"])
def test_shipped_worlds(name: str) -> None:
    world = load_world(name)
    assert ANDROID.problems(world) == []
    assert world.hidden_state
    assert get_domain(world.domain) is ANDROID
    screen = read_hierarchy(ANDROID.initial_observation(world).text)
    indices = [int(node.id) for node in screen.nodes() if node.id is not None]
    assert indices == list(range(len(indices)))
    assert world.initial_state == ANDROID.render_state(world)


def test_prompts() -> None:
    assert len(ANDROID.prompt("compact").split()) <= 170
    assert len(ANDROID.prompt("full")) > 3 * len(ANDROID.prompt("compact"))


PIXELS = {"package": "org.fenn.notes", "activity": ".Main", "screen": "1080x2400", "keyboard": "hidden"}
DUMP = """<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>
<hierarchy rotation="0">
<node index="0" text="" resource-id="" class="android.widget.FrameLayout" package="org.fenn.notes" content-desc=""
 checkable="false" clickable="false" enabled="true" bounds="[0,0][1080,2400]">
<node NAF="true" index="0" text="" class="" clickable="true" enabled="true" bounds="[-20,96][144,2500]" />
<node index="1" text="Tom &amp; &#55357;&#56898; &#55357;&#10;" resource-id="org.fenn.notes:id/title"
 class="android.widget.EditText" content-desc="" clickable="true" enabled="true" focused="true"
 bounds="[48,240][900,360]" />
<node index="2" text="" class="android.view.ViewGroup" clickable="false" enabled="true" bounds="[0,400][1080,900]">
<node index="0" text="Search" hint="Search" class="android.widget.AutoCompleteTextView" clickable="true" enabled="false"
 bounds="[48,400][900,500]" />
<node index="1" text="OK" content-desc="OK" resource-id="android:id/button1" class="androidx.appcompat.widget.Button"
 clickable="false" enabled="true" bounds="[48,500][900,600]" />
<node index="2" text="Below" class="android.widget.Button" clickable="true" enabled="true" bounds="[0,2400][90,2600]" />
</node></node></hierarchy>"""


def test_a_dump_of_uiautomator_is_told_in_the_domains_format() -> None:
    text = write_screen(read_dump(DUMP), PIXELS, ["Saved <now>"])
    assert text.split("\n") == [
        '<hierarchy package="org.fenn.notes" activity=".Main" screen="1080x2400" keyboard="hidden">',
        '  <node index="0" class="View" bounds="[0,96][144,2400]" state="clickable"/>',
        '  <node index="1" class="EditText" text="Tom &amp; 🙂 \ufffd&#10;" resource-id="id/title"'
        ' bounds="[48,240][900,360]" state="clickable editable focused"/>',
        '  <node index="2" class="AutoCompleteTextView" hint="Search" bounds="[48,400][900,500]"'
        ' state="clickable editable disabled"/>',
        '  <node class="androidx.appcompat.widget.Button" text="OK" resource-id="android:id/button1"/>',
        '  <toast text="Saved &lt;now&gt;"/>',
        "</hierarchy>",
    ]
    assert all(rule.passed for rule in screen_rules(read_hierarchy(text)))
    failed = failed_screen(text, 'no app named "M>ps"')
    assert read_hierarchy(failed).header["error"] == 'no app named "M>ps"'
    assert "<toast" not in failed
    assert calm_screen(failed) == calm_screen(text)


BOXES = st.builds(Box, *[st.integers(-500, 3000)] * 2, *[st.integers(0, 3000)] * 2)
NODES = st.recursive(
    st.builds(
        Node,
        st.sampled_from(
            ["android.widget.Button", "android.view.View", "androidx.x.FrameLayout", "a.SearchAutoComplete"]
        ),
        attributes=st.fixed_dictionaries({"text": st.text(max_size=8), "content-desc": st.text(max_size=4)}),
        states=st.frozensets(st.sampled_from(sorted(STATES - {"focused"})), max_size=3),
        box=BOXES,
    ),
    lambda inner: st.builds(
        Node,
        st.just("android.widget.LinearLayout"),
        states=st.frozensets(st.just("clickable"), max_size=1),
        box=BOXES,
        children=st.lists(inner, max_size=4),
    ),
    max_leaves=12,
)


@settings(max_examples=40)
@given(st.lists(NODES, max_size=3), st.lists(st.text(max_size=10), max_size=2))
@example([Node("android.widget.Button", attributes={"text": "\x00", "content-desc": "\x01"})], [])
def test_whatever_a_device_shows_keeps_the_rules_when_told(roots: list[Node], toasts: list[str]) -> None:
    shown = read_hierarchy(write_screen(Tree({}, roots), PIXELS, toasts))
    assert [rule for rule in screen_rules(shown) if not rule.passed] == []
    assert write_screen(shown, PIXELS) == write_screen(Tree({}, roots), PIXELS)
    numbers = [int(node.id) for node in shown.nodes() if node.id]
    assert numbers == list(range(len(numbers)))


def test_a_world_of_a_real_device_gets_its_first_screen_from_there() -> None:
    assert ANDROID.problems(World(name="phone", domain="android", initial_state={"package": "org.fenn.notes"})) == []
    assert ANDROID.problems(World(name="phone", domain="android", initial_state="A phone.")) != []


@pytest.mark.skipif("WORLDLM_RECORDINGS" not in os.environ, reason="WORLDLM_RECORDINGS names no folder of recordings")
def test_recorded_screens_are_hierarchies() -> None:
    path = Path(os.environ["WORLDLM_RECORDINGS"]) / "android_droidbotexp.jsonl"
    screens = list(observations(path.read_text("utf-8").splitlines()))
    assert screens
    for screen in screens:
        assert next(read_hierarchy(screen).nodes()).role.startswith("android.")


def observations(lines: Sequence[str]) -> list[str]:
    return [turn["observation"] for line in lines for turn in json.loads(line)["turns"]]
