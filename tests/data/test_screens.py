"""Formats that are recordings of screens: DroidBot, AutoDroid, MiniWoB."""

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.data.kit import pairs, read, read_one, told
from tests.data.samples import AUTODROID, DROIDBOT, MINIWOB, dom, droidbot_event, droidbot_state, view
from worldlm.core.types import Observation, Trajectory
from worldlm.data.formats import RecordError
from worldlm.data.formats.autodroid import read_elements
from worldlm.data.formats.droidbot import event_action
from worldlm.data.formats.format import Reading, Shot, segments
from worldlm.data.formats.miniwob import hit, page
from worldlm.domains import get_domain
from worldlm.domains.tree import read_hierarchy, read_outline
from worldlm.domains.web import HEADERS, page_rules

GRAPH = yaml.safe_load(AUTODROID)


def actions(trajectory: Trajectory) -> list[str]:
    """The actions, each of which is one of the domain."""
    domain = get_domain(trajectory.world.domain)
    for turn in trajectory.turns:
        domain.parse_action(turn.action, trajectory.world)
    return trajectory.actions


# What breaks a recording.


def test_what_cannot_be_expressed_breaks_a_recording_in_parts() -> None:
    a, b, c = (Observation(text=name) for name in "abc")
    reading = Reading("here", "x", "1")
    shots = [Shot(None, a), Shot("1", b), Shot(None, c), Shot("2", a), Shot("3", None), Shot("4", b), Shot("5", c)]
    parts = segments(shots, reading)
    assert [(first.text, [turn.action for turn in turns]) for first, turns in parts] == [
        ("a", ["1"]),
        ("c", ["2"]),
        ("b", ["5"]),
    ]
    assert told(reading.losses) == {"an action on a screen that is not known": 1}


def test_a_screen_that_leads_nowhere_is_counted() -> None:
    reading = Reading("here", "x", "1")
    assert segments([Shot(None, Observation(text="a"))], reading) == []
    assert told(reading.losses) == {"a screen that no action is known of": 1}


# DroidBot.


def test_events_and_screens_are_turns() -> None:
    (first, second), losses = read(DROIDBOT)
    assert actions(first) == ['{"action_type":"click","x":100,"y":150}', '{"action_type":"navigate_back"}']
    assert actions(second) == ['{"action_type":"click","x":100,"y":150}']
    assert (first.id, second.id) == ("droidbot-org.app-part1", "droidbot-org.app-part2")
    assert "an event of type 'kill_app' that no action stands for: the recording breaks" in told(losses)
    assert first.initial is not None
    tree = read_hierarchy(first.initial.text)
    assert dict(tree.header) == {"package": "org.app", "activity": ".Main", "screen": "1080x2280", "keyboard": "hidden"}
    assert [node.name for node in tree.nodes()] == ["Open"]
    assert get_domain("android").problems(first.world) == [
        "neither initial_state nor hidden_state: say what there is besides the first screen"
    ]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"event_type": "long_touch", "x": 3, "y": 4}, {"action_type": "long_press", "x": 3, "y": 4}),
        (
            {"event_type": "scroll", "direction": "DOWN", "view": {"bounds": [[0, 0], [100, 1000]]}},
            {"action_type": "swipe", "x": 50, "y": 900, "x2": 50, "y2": 100},
        ),
        (
            {"event_type": "swipe", "start_x": 1, "start_y": 2, "end_x": 3, "end_y": 4},
            {"action_type": "swipe", "x": 1, "y": 2, "x2": 3, "y2": 4},
        ),
        (
            {"event_type": "set_text", "text": "hi", "x": 1, "y": 2},
            {"action_type": "input_text", "text": "hi", "x": 1, "y": 2},
        ),
        (
            {"event_type": "intent", "intent": "am start -n org.app/.Main"},
            {"action_type": "open_app", "app_name": "org.app"},
        ),
        ({"event_type": "intent", "intent": "am force-stop org.app"}, None),
        ({"event_type": "key", "name": "MENU"}, None),
        ({"event_type": "touch"}, None),
        ({"event_type": "nop"}, {"action_type": "wait"}),
    ],
)
def test_an_event_is_an_action_or_said_to_be_none(event: dict[str, Any], expected: dict[str, Any] | None) -> None:
    reading = Reading("here", "droidbot", "1")
    action = event_action(event, reading, "e")
    if expected is None:
        assert action is None
        assert told(reading.losses)
    else:
        assert action is not None
        assert yaml.safe_load(action) == expected


def test_a_screen_without_a_file_breaks_the_recording() -> None:
    lost = droidbot_event("2", "b", "lost", event_type="key", name="BACK")
    again = droidbot_event("3", "lost", "b", event_type="key", name="HOME")
    made, losses = read([DROIDBOT[0], lost, again, *DROIDBOT[4:]])
    assert [actions(one) for one in made] == [['{"action_type":"click","x":100,"y":150}']]
    assert told(losses)["a screen whose file is not there: the recording breaks"] == 1
    assert told(losses)["an action on a screen that is not known"] == 1


def test_a_part_of_a_recording_alone_is_refused() -> None:
    with pytest.raises(RecordError, match="name the folder that holds both"):
        read(DROIDBOT[0])


def test_views_below_an_invisible_one_are_left_out() -> None:
    state = droidbot_state("b", "x")
    state["views"] += [view(3, 2, text="below", clickable=True)]
    (first, _), _ = read([*DROIDBOT[:4], DROIDBOT[4], state])
    assert "below" not in (pairs(first)[0][1] or "")


# AutoDroid.


def test_choices_are_turns() -> None:
    made, losses = read_one(GRAPH)
    assert actions(made) == [
        '{"action_type":"click","index":1}',
        '{"action_type":"input_text","index":0,"text":"hello"}',
        '{"action_type":"navigate_back"}',
    ]
    assert made.initial is not None
    assert made.initial.raw == GRAPH["records"][0]["State"]
    nodes = list(read_hierarchy(made.initial.text).nodes())
    assert [(node.id, node.role, node.name) for node in nodes] == [
        ("0", "TextView", "Notes"),
        ("1", "Button", "More\noptions"),
    ]
    assert "the last action: the screen that came of it is not there" not in told(losses)


def test_a_choice_that_is_not_there_breaks_the_recording() -> None:
    graph = copy.deepcopy(GRAPH)
    graph["records"][1]["Choice"] = 9
    made, losses = read(graph)
    assert [actions(one) for one in made] == [
        ['{"action_type":"click","index":1}'],
        ['{"action_type":"navigate_back"}'],
    ]
    assert told(losses)["a choice that is no element of its screen: the recording breaks"] == 1


_plain = st.text(st.characters(exclude_characters="<>&\r", exclude_categories=["Cs", "Cc"]), max_size=8)


@given(st.lists(st.tuples(_plain, _plain.filter(lambda text: "'" not in text)), min_size=1, max_size=4))
def test_every_element_is_read(elements: list[tuple[str, str]]) -> None:
    shown = "\n".join(f"<button id={n} text='{label}'>{text}</button>" for n, (text, label) in enumerate(elements))
    assert [(element.text, element.label) for element in read_elements(shown)] == elements


def test_a_screen_that_is_none_breaks_the_recording() -> None:
    graph = copy.deepcopy(GRAPH)
    graph["records"][1]["State"] = "<button id=0>half"
    made, losses = read(graph)
    assert [len(one.turns) for one in made] == [1]
    assert any(why.startswith("a screen that cannot be read") for why in told(losses))


# MiniWoB.


def test_events_of_a_person_are_turns() -> None:
    made, losses = read_one(MINIWOB)
    assert actions(made) == ['click("3")', 'keyboard_type("Ab")', 'keyboard_press("Tab")', 'click("4")']
    assert made.policy == "person"
    assert made.world.context == 'The agent was asked:\nEnter "Ab" and press OK.'
    last = made.turns[-1].observation
    assert last is not None
    assert "StaticText 'Thanks'" in last.text
    assert "[3] textbox '' value='Ab'" in last.text
    assert '[4] button "It\'s OK"' in last.text
    assert last.raw is not None
    assert '"width":160' in last.raw
    assert told(losses)["the source names no licence: it is given as unknown"] == 1


def test_a_page_keeps_the_rules_of_the_domain() -> None:
    shown = page(dom(), "enter-text", Reading("here", "miniwob", "1"), "")
    assert [rule.message for rule in page_rules(read_outline(shown.text, HEADERS)) if not rule.passed] == []


def test_a_click_hits_the_innermost_element() -> None:
    assert [hit(dom(), x, y) for x, y in ((5, 25), (5, 45), (100, 100), (500, 5))] == [3, 4, 1, None]


def demonstration(*actions: dict[str, Any]) -> dict[str, Any]:
    """One whose events these are, all of them on one page."""
    states = [{"time": n, "action": {"timing": 3, **action}, "dom": dom()} for n, action in enumerate(actions)]
    return {**MINIWOB, "states": [MINIWOB["states"][0], *states]}


def mouse(kind: str, x: int, y: int = 25) -> dict[str, Any]:
    return {"type": kind, "x": x, "y": y}


def test_a_drag_is_down_and_up() -> None:
    made, losses = read_one(demonstration(mouse("mousedown", 5), mouse("mouseup", 90), mouse("click", 90)))
    assert actions(made) == ["mouse_down(5, 25)", "mouse_up(90, 25)"]
    assert told(losses)["the click that ends a drag"] == 1


def test_a_double_click_is_at_its_point() -> None:
    assert actions(read_one(demonstration(mouse("dblclick", 5)))[0]) == ["mouse_dblclick(5, 25)"]


def test_a_key_that_is_held_is_pressed_once_and_said_so() -> None:
    keys = [{"type": kind, "keyCode": 8, "charCode": 0} for kind in ("keydown", "keydown", "keyup")]
    made, losses = read_one(demonstration(*keys))
    assert actions(made) == ['keyboard_press("Backspace")']
    assert told(losses)["a key that was held down is pressed once"] == 1


def test_a_scroll_is_no_action_and_said_so() -> None:
    _, losses = read_one(demonstration({"type": "scroll"}, mouse("click", 5)))
    assert told(losses)["an event of type 'scroll' that no action stands for"] == 1


def test_a_demonstration_in_which_nothing_happens_is_no_record() -> None:
    with pytest.raises(RecordError, match="no turn"):
        read({**MINIWOB, "states": MINIWOB["states"][:1]})
