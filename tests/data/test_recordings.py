"""Recordings: small ones of every domain, and the user's own (`WORLDLM_RECORDINGS`) where there are some."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.data.kit import pairs, read, read_one, told
from tests.data.samples import RECORDING, dom
from worldlm.core.types import Observation
from worldlm.data import LossReport, ReadOptions, WriteOptions, export_trajectories, get_format, import_trajectories
from worldlm.data.formats import RecordError
from worldlm.data.report import Losses
from worldlm.domains import get_domain
from worldlm.domains.tree import read_hierarchy, read_outline
from worldlm.domains.web import HEADERS


def recording(domain: str, *turns: tuple[str, str], **more: Any) -> dict[str, Any]:
    listed = [{"action": action, "observation": seen} for action, seen in turns]
    return {**copy.deepcopy(RECORDING), "domain": domain, "turns": listed, **more}


def test_origin_is_the_recordings_own() -> None:
    made, _ = read_one(RECORDING, ReadOptions(source="mine", licence="other"))
    assert (made.origin.kind, made.origin.source, made.origin.licence) == (
        "recorded",
        "someone/repo@1:file.json#1",
        "MIT",
    )
    assert made.world.context == "The agent was asked:\nFind it."
    assert pairs(made) == [('{"arguments":{"q":"it"},"name":"find"}', "here")]


@pytest.mark.parametrize(
    ("domain", "action", "expected"),
    [
        ("terminal", "ls -l", '[{"duration":1.0,"keystrokes":"ls -l\\n"}]'),
        ("swe", "open a.py 3", '{"arguments":{"command":"open a.py 3"},"name":"bash"}'),
        ("search", "Search[Nick Park]", '{"arguments":{"input":"Nick Park"},"name":"Search"}'),
        ("search", '{"name": "wiki", "arguments": {"q": "x"}}', '{"arguments":{"q":"x"},"name":"wiki"}'),
    ],
)
def test_actions_in_words_of_their_own_are_actions_of_the_domain(domain: str, action: str, expected: str) -> None:
    made, _ = read_one(recording(domain, (action, "seen")))
    assert pairs(made) == [(expected, "seen")]
    assert made.turns[0].raw_action == (None if action.startswith("{") else action)


def test_taps_on_elements() -> None:
    first = "<button id=0>Add</button>\n<input id=1 >Title</input>\n<button id=2>go back</button>"
    turns = [
        ("[start]", first),
        ("tap id=0 on <button id=0>Add</button>", first),
        ("input id=1 text='it's' on <input id=1 >Title</input>", first),
        ("tap id=2 on <button id=2>go back</button>", first),
    ]
    made, _ = read_one(recording("android", *turns, app="notes"))
    assert made.actions == [
        '{"action_type":"click","index":0}',
        '{"action_type":"input_text","index":1,"text":"it\'s"}',
        '{"action_type":"navigate_back"}',
    ]
    assert made.world.context.startswith("The app is notes.")


def test_events_on_a_hierarchy() -> None:
    screen = (
        '<hierarchy activity="org.app/.A"><node class="T" text="x" bounds="[0,0][9,20]" state="clickable"/></hierarchy>'
    )
    made, _ = read_one(recording("android", ("[start]", screen), ('{"event_type": "key", "name": "BACK"}', screen)))
    assert made.actions == ['{"action_type":"navigate_back"}']
    assert made.initial is not None
    assert 'package="org.app" activity=".A" screen="9x20"' in made.initial.text
    assert made.initial.raw == screen


def test_clicks_on_a_page() -> None:

    shown = json.dumps(dom())
    turns = [
        ("[start]", shown),
        ("click x=5 y=45", shown),
        ("type 'it is'", shown),
        ("press Tab", shown),
        ("click x=900 y=1 ref=3 tag=X", shown),
        ("dblclick x=5.5 y=6", shown),
    ]
    made, _ = read_one(recording("web", *turns))
    assert made.actions == [
        'click("4")',
        'keyboard_type("it is")',
        'keyboard_press("Tab")',
        'click("3")',
        "mouse_dblclick(5.5, 6)",
    ]


def test_what_was_cut_off_or_cannot_be_said_breaks_a_recording() -> None:

    shown = json.dumps(dom())
    turns = [
        ("[start]", shown),
        ("click x=5 y=45", shown),
        ("scroll ref=3", shown),
        ("press Tab", shown),
        ("press Tab", shown[:50]),
    ]
    made, losses = read(recording("web", *turns))
    assert [one.actions for one in made] == [['click("4")'], ['keyboard_press("Tab")']]
    assert told(losses)["an action that the domain has none for: the recording breaks"] == 1
    assert told(losses)["a page that was cut off: the recording breaks"] == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (recording("mcp", ("not a call", "x")), r"turns\[0\]\.action: the action is not valid JSON"),
        (recording("chess", ("e4", "e5")), "domain"),
        (recording("mcp"), "turns: there are none"),
        (recording("os", ("DONE", "x")), "domain: recordings of 'os' have no known form"),
    ],
)
def test_a_wrong_recording_is_named_with_its_key(value: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        read(value)


# The user's own.


@pytest.fixture(scope="module")
def recordings() -> Path:
    folder = os.environ.get("WORLDLM_RECORDINGS")
    if not folder:
        pytest.skip("WORLDLM_RECORDINGS names no folder of recordings")
    return Path(folder)


def imported(path: Path) -> tuple[list[Any], LossReport]:
    report = LossReport()
    return list(import_trajectories(path, None, ReadOptions(), report)), report


def test_recordings_are_imported_with_a_report_and_survive_every_round_trip(recordings: Path, tmp_path: Path) -> None:
    files = sorted(recordings.glob("*.jsonl"))
    assert files
    for path in files:
        made, report = imported(path)
        assert made, path
        assert report.bad == 0, report.files[0].problems
        assert report.turns == sum(len(one.turns) for one in made)
        for one in made:
            domain = get_domain(one.world.domain)
            for turn in one.turns:
                domain.parse_action(turn.action, one.world)
            seen = [one.initial, *(turn.observation for turn in one.turns)]
            if one.world.domain == "web":
                assert all(read_outline(screen.text, HEADERS) for screen in seen if screen)
            if one.world.domain == "android":
                assert all(read_hierarchy(screen.text) for screen in seen if screen)
        for name in ("worldlm", "atif"):
            output = tmp_path / f"{path.stem}-{name}"
            export_trajectories(made, get_format(name), output, WriteOptions(), Losses())
            again = {one.id: one for one in imported(output)[0]}
            assert again == {one.id: one for one in made}
        for name in ("agentworldbench", "openai-chat"):
            output = tmp_path / f"{path.stem}-{name}"
            export_trajectories(made, get_format(name), output, WriteOptions(), Losses())
            again_made, again_report = imported(output)
            assert again_report.bad == 0
            if name == "agentworldbench" or made[0].world.domain in ("mcp", "search", "swe"):
                assert [pairs(one) for one in again_made] == [pairs(one) for one in made]


def test_untouched_files_of_other_tools_are_imported(recordings: Path) -> None:
    made, report = imported(recordings / "raw")
    formats = {file.format: file for file in report.files}
    assert {"swe-agent", "tau-bench", "droidbot", "autodroid", "miniwob", "openai-chat"} <= set(formats)
    assert [Path(file.path).suffix for file in report.files if file.bad] == [".txt"]
    assert all(one.turns for one in made)
    assert all(isinstance(one.initial, Observation) for one in made)
