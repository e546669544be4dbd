"""Web: the action grammar, the harness, the rules for pages, the shipped worlds."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.core.errors import ActionError, InputError
from worldlm.core.types import Observation, ToolCall, Turn, World
from worldlm.domains import get_domain
from worldlm.domains.tree import read_outline
from worldlm.domains.web import HEADERS, TOOLS, WEB
from worldlm.simulate.worlds import load_world

WORLD = load_world("web-shop")
HOME = WEB.initial_observation(WORLD).text
FORM = """URL: https://shop.example/join?next=/cart
Tabs: 0 'It\\'s', *1 "Join"
RootWebArea 'Join', focused
\t[4] textbox 'Name' value='Ann', focused, required
\t[5] textbox 'Password' value=''
\t[6] combobox 'Country' value='Spain', hasPopup='menu', expanded=False
\t\t[7] option 'Spain', selected=True
\t\t[8] option 'France', selected=False
\t[9] button 'Send', disabled=True
\tStaticText 'All fields are needed.'"""


def call(text: str) -> ToolCall:
    return WEB.parse_action(text, WORLD)


def broken(before: str, action: str, after: str) -> set[str]:
    """The rules that `after` breaks."""
    turns = [Turn(action="noop()", observation=Observation(text=before))]
    checks = WEB.check(WORLD, turns, call(action), Observation(text=after))
    return {check.rule for check in checks if not check.passed}


def applied(before: str, action: str, after: str) -> set[str]:
    turns = [Turn(action="noop()", observation=Observation(text=before))]
    return {check.rule for check in WEB.check(WORLD, turns, call(action), Observation(text=after))}


def with_error(page: str) -> str:
    return page.replace("RootWebArea", "Error: ValueError: no\nRootWebArea", 1)


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ('click("a12")', "click", {"bid": "a12"}),
        ("click('a12', 'left', [])", "click", {"bid": "a12"}),
        ("click(bid='a12', modifiers=['Shift'])", "click", {"bid": "a12", "modifiers": ["Shift"]}),
        (' fill("b3", "it\\\'s\\n2")\n', "fill", {"bid": "b3", "value": "it's\n2"}),
        ("scroll(0, -200.5)", "scroll", {"delta_x": 0, "delta_y": -200.5}),
        ("noop()", "noop", {}),
        ("noop(1000)", "noop", {}),
        ("noop(wait_ms=50)", "noop", {"wait_ms": 50}),
        ("mouse_click(10, 20.5, button='right')", "mouse_click", {"x": 10, "y": 20.5, "button": "right"}),
        ("select_option('c1', ['a', 'b'])", "select_option", {"bid": "c1", "options": ["a", "b"]}),
        ("select_option('c1', 'a')", "select_option", {"bid": "c1", "options": "a"}),
        ("tab_focus(2)", "tab_focus", {"index": 2}),
        ("goto('https://a.example/?q=1#x')", "goto", {"url": "https://a.example/?q=1#x"}),
        ("send_msg_to_user('done (really)')", "send_msg_to_user", {"text": "done (really)"}),
        (r"fill('b3', '\d+')", "fill", {"bid": "b3", "value": r"\d+"}),
    ],
)
def test_actions(text: str, name: str, arguments: dict[str, object]) -> None:
    assert call(text) == ToolCall(name=name, arguments=arguments)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the action is empty"),
        ("```\nclick('a')\n```", "leave out the code fence"),
        ("click('a')\nclick('b')", "one call at a time: this holds 2 statements"),
        ("click('a'); noop()", "one call at a time"),
        ("click('a'", r"not valid Python: .* \(line 1, column 6\)"),
        ("I click the button", r"not valid Python: invalid syntax \(line 1"),
        ("clik('a')", "no action 'clik'; did you mean 'click'"),
        ("noop", r"noop is not called: write noop\("),
        ("page.click('a')", "by the function's bare name"),
        ("x = click('a')", "by the function's bare name"),
        ('{"name": "click"}', "by the function's bare name"),
        ("click()", "click needs 'bid': the element's bid"),
        ("click(12)", "click: bid: 12 is not of type 'string'"),
        ("click(a12)", "click: 'bid' must be a literal"),
        ("click(open('/etc/passwd'))", "'bid' must be a literal"),
        ("click('a' + 'b')", "'bid' must be a literal"),
        ("click('a', 'left', [], 4)", "click got 4 arguments and takes at most 3"),
        ("click('a', bid='b')", "click got 'bid' twice"),
        ("click('a', buton='left')", "no argument 'buton'; did you mean 'button'"),
        ("click('a', button='lft')", "'lft' is not one of .*; did you mean 'left'"),
        ("click('a', modifiers=['Hyper'])", r"modifiers\[0\]: 'Hyper' is not one of"),
        ("click(*['a'])", "without \\* or \\*\\*"),
        ("click(**{'bid': 'a'})", "without \\* or \\*\\*"),
        ("new_tab(1)", "new_tab got 1 arguments and takes at most 0"),
        ("new_tab(url='x')", "new_tab has no argument 'url'; it takes none"),
        ("scroll(0)", "scroll needs 'delta_y'"),
        ("scroll(0, 1e999)", "delta_y: inf is greater than the maximum"),
        ("scroll(0, True)", "delta_y: True is not of type 'number'"),
        ("mouse_click(-1, 5)", "x: -1 is less than the minimum"),
        ("tab_focus(1.5)", "index: 1.5 is not of type 'integer'"),
        ("noop(wait_ms=3600000)", "greater than the maximum of 60000"),
        ("select_option('c', [])", "options"),
        ("goto('')", "url"),
        ("fill('b3')", "fill needs 'value'"),
        ("fill('b3', b'x')", "not of type 'string'"),
        ("fill('b3', 1j)", "not of type 'string'"),
        ("click('a\0')", "not valid Python"),
        ("(" * 5000 + ")" * 5000, "not valid Python"),
        ("-" * 100_000 + "1", "not valid Python"),
    ],
)
def test_what_does_not_parse_says_what_is_wrong(text: str, told: str) -> None:
    with pytest.raises(ActionError, match=told):
        call(text)


bids = st.from_regex(r"[a-z0-9]{1,5}", fullmatch=True)
text = st.text(max_size=40)
far = st.integers(0, 100_000) | st.floats(0, 100_000)
keys = st.lists(st.sampled_from(["Alt", "Control", "Shift"]), max_size=2)
buttons = st.sampled_from(["left", "middle", "right"])


def canonical(name: str, **arguments: object) -> ToolCall:
    """A call as a parser would give it: without what equals its default."""
    schemas = next(tool for tool in TOOLS if tool.name == name).parameters["properties"]
    kept = {key: value for key, value in arguments.items() if value != schemas[key].get("default", "none")}
    return ToolCall(name=name, arguments=kept)


calls = st.one_of(
    st.builds(lambda b, k, m: canonical("click", bid=b, button=k, modifiers=m), bids, buttons, keys),
    st.builds(lambda b, v: canonical("fill", bid=b, value=v), bids, text),
    st.builds(lambda b, o: canonical("select_option", bid=b, options=o), bids, text | st.lists(text, min_size=1)),
    st.builds(
        lambda n, x, y, k: canonical(n, x=x, y=y, button=k),
        st.sampled_from(["mouse_up", "mouse_click"]),
        far,
        far,
        buttons,
    ),
    st.builds(lambda x, y: canonical("scroll", delta_x=-x, delta_y=y), far, far),
    st.builds(lambda w: canonical("noop", wait_ms=w), st.integers(0, 60_000)),
    st.builds(lambda t: canonical("send_msg_to_user", text=t), text),
    st.builds(lambda n: canonical(n), st.sampled_from(["new_tab", "tab_close", "go_back", "go_forward"])),
    st.builds(lambda i: canonical("tab_focus", index=i), st.integers(0, 999)),
)


@given(calls)
def test_a_call_formatted_and_parsed_is_the_call(action: ToolCall) -> None:
    assert call(WEB.format_action(action)) == action


@given(st.text(alphabet=st.sampled_from(list("click('a\")=, 1[]*{}\\\n")), max_size=40))
def test_any_text_parses_or_is_an_action_error(anything: str) -> None:
    try:
        parsed = call(anything)
    except ActionError:
        return
    assert call(WEB.format_action(parsed)) == parsed


def test_the_tools_are_the_21_actions() -> None:
    assert len(WEB.tools(WORLD)) == 21
    assert WEB.format_action(call("click('a', modifiers=['Alt'])")) == 'click("a", modifiers=["Alt"])'


@pytest.mark.parametrize(
    ("line", "action"),
    [
        ("click a12", 'click("a12")'),
        ("fill b3 two words", 'fill("b3", "two words")'),
        ("select c1 Very large", 'select_option("c1", "Very large")'),
        ("goto https://a.example/x", 'goto("https://a.example/x")'),
        ("press Enter", 'keyboard_press("Enter")'),
        ("type it's", 'keyboard_type("it\'s")'),
        ("scroll 0 200", "scroll(0, 200)"),
        ("mouse_click 10 20.5", "mouse_click(10, 20.5)"),
        ("tab 1", "tab_focus(1)"),
        ("back", "go_back()"),
        ("wait", "noop()"),
        ("say all done", 'send_msg_to_user("all done")'),
        ("infeasible no such page", 'report_infeasible("no such page")'),
    ],
)
def test_shorthand(line: str, action: str) -> None:
    assert WEB.from_line(line, WORLD) == action
    assert WEB.format_action(call(action)) == action


def test_other_lines_stay() -> None:
    for line in ('click("a12")', "click", "scroll down", "back now", "tab one", "do it"):
        assert WEB.from_line(line, WORLD) == line


def test_report_infeasible_ends_the_episode_and_a_message_does_not() -> None:
    turns = [Turn(action="noop()", observation=Observation(text=with_error(FORM)))]
    ended = WEB.harness(WORLD, turns, call("report_infeasible('no')"))
    heard = WEB.harness(WORLD, [], call("send_msg_to_user('hello')"))
    assert ended is not None
    assert ended.terminated
    assert ended.observation.text == FORM
    assert heard is not None
    assert not heard.terminated
    assert heard.observation.text == HOME
    assert WEB.harness(WORLD, [], call("noop()")) is None


def test_where_no_screen_is_known_the_harness_says_so() -> None:
    bare = World(name="bare", domain="web")
    heard = WEB.harness(bare, [], call("send_msg_to_user('hello')"))
    assert heard is not None
    assert heard.observation.text == "(the screen is as it was)"


def test_a_good_page_breaks_no_rule() -> None:
    assert broken(FORM, "noop()", FORM) == set()
    assert {"tree", "url", "tabs", "root", "title", "unique_ids", "one_focused"} == applied(FORM, "noop()", FORM)
    assert broken(FORM, "goto('https://tallowbirch.example/')", HOME) == set()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (("URL: https", "Address: https"), "tree"),
        (("\t\t[7]", "\t\t\t[7]"), "tree"),
        (("URL: https://shop.example", "URL: shop.example"), "url"),
        (("URL: https://shop.example/join?next=/cart", "URL: https:///"), "url"),
        (("*1", "1"), "tabs"),
        (("*1", "*2"), "tabs"),
        (("Tabs: 0 ", "Tabs: *0 "), "tabs"),
        (('"Join"', "Join"), "tabs"),
        (('"Join"', '"Join us"'), "title"),
        (("RootWebArea", "Page"), "root"),
        (("\tStaticText", "StaticText"), "root"),
        (("[5]", "[4]"), "unique_ids"),
        (("value=''", "value='', focused"), "one_focused"),
    ],
)
def test_each_rule_of_a_page(change: tuple[str, str], rule: str) -> None:
    assert rule in broken(FORM, "noop()", FORM.replace(*change))


def test_dialogs_are_told_above_the_page_and_gone_on_the_next() -> None:
    told = FORM.replace("RootWebArea", "Error: Error: no\nDialog: confirm 'Sure?' accepted\nRootWebArea", 1)
    assert broken(FORM, "noop()", told) == set()
    turns = [Turn(action="noop()", observation=Observation(text=told))]
    heard = WEB.harness(WORLD, turns, call("send_msg_to_user('hello')"))
    assert heard is not None
    assert heard.observation.text == FORM


def test_a_world_of_a_real_browser_says_where_to_start_in_place_of_the_first_page() -> None:
    for place in ({"site": "miniwob", "task": "click-test"}, {"folder": "pages"}, {"url": "https://a.example/"}):
        assert WEB.problems(World(name="x", domain="web", initial_state=place)) == []
    assert WEB.problems(World(name="x", domain="web", initial_state={"pages": 3}))


def test_what_is_filled_in_or_chosen_must_show() -> None:
    filled = FORM.replace("value='Ann'", "value='Bo B.'")
    assert broken(FORM, "fill('4', 'Bo  B.')", filled) == set()
    assert broken(FORM, "fill('4', 'Bo B.')", FORM) == {"filled"}
    assert broken(FORM, "fill('5', 'geheim')", FORM.replace("value=''", "value='••••••'")) == set()
    assert broken(FORM, "fill('5', 'geheim')", FORM.replace("value=''", "value='•••'")) == {"filled"}
    assert broken(FORM, "fill('4', '')", FORM.replace(" value='Ann'", "")) == set()
    chosen = FORM.replace("value='Spain'", "value='France'")
    assert broken(FORM, "select_option('6', 'France')", chosen) == set()
    assert broken(FORM, "select_option('6', ['France'])", FORM) == {"filled"}
    # Nothing can be told when the page changed, when it failed, or when the option goes by its value.
    assert "filled" not in applied(FORM, "fill('4', 'Bo')", HOME)
    assert "filled" not in applied(FORM, "fill('9', 'Bo')", with_error(FORM))
    assert "filled" not in applied(FORM, "select_option('6', 'fr')", FORM)


def test_an_unknown_bid_changes_nothing_and_says_so() -> None:
    assert broken(FORM, "click('z9')", with_error(FORM)) == set()
    assert broken(FORM, "click('z9')", FORM) == {"unknown_target"}
    assert broken(FORM, "hover('z9')", with_error(FORM).replace("Ann", "Bo")) == {"unknown_target"}


def test_goto_leads_to_its_host() -> None:
    assert broken(FORM, "goto('https://www.shop.example/x')", FORM) == set()
    assert broken(FORM, "goto('https://other.example/')", FORM) == {"goto"}
    assert broken(FORM, "goto('shop.example')", FORM) == {"goto"}
    assert broken(FORM, "goto('shop.example')", with_error(FORM)) == set()
    assert broken(FORM, "goto('https://[::1')", FORM) == {"goto"}


def test_tabs_are_counted() -> None:
    blank = "URL: about:blank\nTabs: 0 'It\\'s', 1 'Join', *2 ''\nRootWebArea '', focused"
    assert broken(FORM, "new_tab()", blank) == set()
    assert broken(FORM, "new_tab()", FORM) == {"tab"}
    closed = "URL: https://a.example/\nTabs: *0 'It\\'s'\nRootWebArea 'It\\'s', focused"
    assert broken(FORM, "tab_close()", closed) == set()
    assert broken(FORM, "tab_close()", FORM) == {"tab"}
    assert broken(closed, "tab_close()", closed) == set()
    assert broken(FORM, "tab_focus(1)", FORM) == set()
    assert broken(FORM, "tab_focus(0)", FORM) == {"tab"}
    assert broken(FORM, "tab_focus(7)", FORM) == {"tab"}
    assert broken(FORM, "tab_focus(7)", with_error(FORM)) == set()
    assert "tab" not in applied(FORM.replace("*1", "1"), "new_tab()", FORM)


def test_problems_of_a_world() -> None:
    bare = World(name="bare", domain="web", hidden_state="one page")
    assert "initial_observation is missing" in WEB.problems(bare)[0]
    with pytest.raises(InputError, match="'bare' has no initial_observation"):
        WEB.initial_observation(bare)
    twice = bare.model_copy(update={"initial_observation": FORM.replace("[5]", "[4]")})
    assert WEB.problems(twice) == ["initial_observation: ids used more than once: 4"]
    assert WEB.problems(bare.model_copy(update={"initial_observation": FORM})) == []


@pytest.mark.parametrize("name", ["web-admin", "web-shop"])
def test_shipped_worlds(name: str) -> None:
    world = load_world(name)
    assert WEB.problems(world) == []
    assert world.hidden_state
    assert get_domain(world.domain) is WEB
    assert read_outline(WEB.initial_observation(world).text, HEADERS).header["URL"] in str(world.initial_observation)


def test_prompts() -> None:
    assert len(WEB.prompt("compact").split()) <= 170
    assert len(WEB.prompt("full")) > 3 * len(WEB.prompt("compact"))


@pytest.mark.skipif("WORLDLM_RECORDINGS" not in os.environ, reason="WORLDLM_RECORDINGS names no folder of recordings")
def test_texts_of_recorded_pages_can_be_written_and_read() -> None:
    path = Path(os.environ["WORLDLM_RECORDINGS"]) / "web_miniwob_demos.jsonl"
    seen = 0
    for line in path.read_text("utf-8").splitlines():
        for turn in json.loads(line)["turns"]:
            for wanted in texts(turn["observation"]):
                node = read_outline(f"[1] generic {wanted!r} value={wanted!r}", ()).roots[0]
                assert (node.name, node.value) == (wanted, wanted)
                seen += 1
    assert seen > 1000


def texts(observation: str) -> list[str]:
    try:
        waiting = [json.loads(observation)]
    except json.JSONDecodeError:  # cut when it was recorded
        return []
    found = []
    while waiting:
        element = waiting.pop()
        found += [str(element[key]) for key in ("text", "value") if element.get(key)]
        waiting += element.get("children", [])
    return found
