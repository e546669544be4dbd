"""The Android environment, against a stand-in adb server on loopback with phones behind it."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.real.adb_apps import PACKAGE, Notes
from tests.real.adb_server import AdbServer, Phone, Recording
from worldlm.core.errors import InputError, SetupError
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import Limits, Step, World
from worldlm.domains.android import ANDROID
from worldlm.domains.tree import Tree, read_hierarchy
from worldlm.real import android, make_environment, world_files
from worldlm.real.adb import Claim, Server
from worldlm.real.adb_device import LOOKS, device_state, typing_commands
from worldlm.real.android import AndroidEnvironment
from worldlm.rollout import RolloutLimits, ScriptPolicy, run_episode
from worldlm.simulate import load_world
from worldlm.testing import check_environment

pytest.importorskip("adbutils", reason="needs adbutils: pip install 'worldlm[real]'")
pytestmark = pytest.mark.anyio
SERIAL = "emulator-5554"


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """No device of whoever runs the tests, no long waits, and no adb server that adbutils would start."""
    for name in ("ANDROID_SERIAL", "ANDROID_ADB_SERVER_HOST", "ANDROID_ADB_SERVER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(android, "WAIT_SECONDS", 0.0)
    monkeypatch.setenv("ADBUTILS_ADB_PATH", "/nonexistent/adb")


@pytest.fixture
def server() -> Iterator[AdbServer]:
    with AdbServer(**{SERIAL: Phone()}) as server:
        yield server


@pytest.fixture
def phone(server: AdbServer) -> Phone:
    return server.phones[SERIAL]


def world(server: AdbServer | None, limits: Limits | None = None, **state: Any) -> World:
    address = {"server": server.address} if server else {}
    given = {"package": PACKAGE, "pause": 0, "apps": {"Notes": PACKAGE, "Wecker": "dev.tern.clock"}}
    return World(name="phone", domain="android", initial_state={**given, **address, **state}, limits=limits or Limits())


def act(name: str, **arguments: object) -> str:
    return json.dumps({"action_type": name, **arguments})


class Session:
    """An environment with what it shows."""

    def __init__(self, environment: AndroidEnvironment):
        self.environment = environment
        self.text = ""

    async def start(self) -> Tree:
        self.text = (await self.environment.reset()).text
        return self.tree

    async def step(self, name: str, **arguments: object) -> Step:
        step = await self.environment.step(act(name, **arguments))
        if step.observation:
            self.text = step.observation.text
        return step

    async def do(self, name: str, **arguments: object) -> Tree:
        step = await self.step(name, **arguments)
        assert step.outcome is Outcome.OK, step.detail
        return self.tree

    async def click(self, words: str) -> Tree:
        return await self.do("click", index=self.index(words))

    def index(self, words: str) -> int:
        """What says these words, or what they stand in."""
        for node in self.tree.nodes():
            if node.id and (node.name == words or any(child.name == words for child in node.children)):
                return int(node.id)
        raise AssertionError(f"{words!r} is not on the screen:\n{self.text}")

    @property
    def tree(self) -> Tree:
        return read_hierarchy(self.text)

    @property
    def names(self) -> list[str]:
        return [node.name for node in self.tree.nodes() if node.name]


Opened = Callable[..., Session]


@pytest.fixture
async def session(server: AdbServer) -> AsyncIterator[Opened]:
    """Opens sessions on the server's phones; they are closed at the end."""
    made: list[Session] = []

    def opened(limits: Limits | None = None, **state: Any) -> Session:
        made.append(Session(AndroidEnvironment(world(server, limits, **state))))
        return made[-1]

    yield opened
    for one in made:
        await one.environment.close()


# What it is.


async def test_conforms() -> None:
    with AdbServer(**{f"emulator-{number}": Phone() for number in range(5554, 5578, 2)}) as server:
        place = world(server, serial=list(server.phones), reset="clear")
        result = await check_environment(
            lambda: AndroidEnvironment(place),
            [
                act("click", index=3),
                act("input_text", index=2, text=" to Tavira"),
                act("navigate_back"),
                act("click", index=0),
            ],
            invalid_action=act("tap", index=1),
        )
    assert result.agreement == 1
    assert set(result.skipped) == {"snapshot and restore", "resume", "streaming"}


async def test_the_first_screen_is_told_in_the_domains_format(server: AdbServer, session: Opened) -> None:
    shown = session()
    await shown.start()
    assert shown.text.splitlines()[:6] == [
        f'<hierarchy package="{PACKAGE}" activity=".NotesActivity" screen="1080x2400" keyboard="hidden">',
        '  <node class="TextView" text="Notes"/>',
        '  <node index="0" class="ImageButton" content-desc="Search" bounds="[816,96][936,216]" state="clickable"/>',
        '  <node index="1" class="ImageButton" content-desc="More options" bounds="[936,96][1056,216]" '
        'state="clickable"/>',
        '  <node index="2" class="FrameLayout" bounds="[24,260][1056,540]" state="clickable long_clickable">',
        '    <node class="TextView" text="Groceries" resource-id="id/note_name"/>',
    ]


async def test_world_and_origin_tell_what_was_found_and_nothing_of_this_machine(
    server: AdbServer, session: Opened
) -> None:
    shown = session(serial=SERIAL)
    await shown.start()
    recorded = shown.environment.world
    assert recorded.initial_observation == shown.text
    assert recorded.initial_state == {
        "package": PACKAGE,
        "apps": {"Notes": PACKAGE, "Wecker": "dev.tern.clock"},
        "android": "14",
        "locale": "en-US",
        "screen": "1080x2400",
    }
    assert SERIAL not in recorded.model_dump_json()
    assert server.address not in recorded.model_dump_json()
    assert ANDROID.problems(recorded) == []
    assert device_state(recorded).package == PACKAGE  # it can be started again
    origin = shown.environment.origin
    assert origin.kind == "real"
    assert origin.version.startswith("Android 14, tern/phone/phone:14/")
    assert origin.version.endswith(f"{PACKAGE} 3.2.1, adb server 1.0.41")
    await shown.environment.close()


async def test_without_a_package_an_episode_starts_at_the_home_screen(server: AdbServer, session: Opened) -> None:
    shown = session(package=None)
    await shown.start()
    assert shown.names == ["Notes", "Clock"]


async def test_the_server_and_the_device_may_come_from_the_surroundings(
    server: AdbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.phones["emulator-5556"] = Phone()
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", server.address.rpartition(":")[2])
    monkeypatch.setenv("ANDROID_SERIAL", "emulator-5556")
    environment = make_environment(world(None))
    await environment.reset()
    await environment.close()
    assert not server.phones[SERIAL].commands
    assert server.phones["emulator-5556"].commands


def test_shipped_worlds_can_be_started() -> None:
    places = [load_world(str(path)) for name, path in world_files().items() if name.startswith("android")]
    assert len(places) >= 2
    for place in places:
        assert isinstance(make_environment(place), AndroidEnvironment)
        assert not device_state(place).serial


# Actions.


async def test_a_note_is_made_found_and_deleted(server: AdbServer, session: Opened) -> None:
    shown = session()
    await shown.start()
    await shown.click("New note")
    await shown.click("Save")
    assert 'toast text="A note needs a title"' in shown.text
    await shown.do("input_text", index=shown.index("Title"), text="Dentist")
    assert "<toast" not in shown.text
    assert shown.tree.header["keyboard"] == "shown"
    await shown.do("keyboard_enter")
    await shown.do("input_text", text="Friday\n9:30")
    assert "Friday\n9:30" in shown.names
    await shown.do("navigate_back")
    assert shown.tree.header["keyboard"] == "hidden"
    assert shown.tree.header["activity"] == ".EditorActivity"
    await shown.click("Save")
    assert 'toast text="Saved"' in shown.text
    assert shown.names[3:5] == ["Dentist", "Friday"]

    await shown.click("Search")
    await shown.do("input_text", text="dent")
    assert "Dentist" in shown.names
    await shown.do("navigate_back")
    await shown.do("navigate_back")
    await shown.do("long_press", index=shown.index("Dentist"))
    assert "1 selected" in shown.names
    await shown.click("Delete")
    assert shown.tree.header["window"] == "dialog"
    await shown.click("Cancel")
    await shown.click("Delete")
    await shown.click("Delete")
    assert "window" not in shown.tree.header
    assert "Dentist" not in shown.names
    heard = await shown.step("answer", text="three")
    assert heard.observation is not None
    assert "<toast" not in heard.observation.text
    assert (await shown.step("status", goal_status="complete")).terminated
    over = await shown.step("wait")
    assert (over.outcome, over.terminated) == (Outcome.INVALID_ACTION, True)


async def test_switches_menus_and_lists(server: AdbServer, session: Opened) -> None:
    shown = session()
    await shown.start()
    await shown.click("More options")
    assert shown.tree.header["window"] == "menu"
    await shown.click("Settings")
    disabled = [node for node in shown.tree.nodes() if "disabled" in node.states]
    await shown.click("Sync")
    assert disabled
    assert not any("disabled" in node.states for node in shown.tree.nodes())
    assert shown.names.count("On") == 2
    await shown.click("Font size")
    assert [node.name for node in shown.tree.nodes() if "checked" in node.states] == ["Medium"]
    await shown.click("Large")
    await shown.do("navigate_home")
    await shown.do("open_app", app_name="Notes")
    assert "Large" in shown.names  # as it was left
    await shown.do("navigate_back")
    await shown.click("More options")
    await shown.click("About")
    await shown.do("scroll", direction="down")
    assert "Line 8 of the licence" in shown.names
    await shown.do("scroll", direction="up", index=int(next(n.id or "" for n in shown.tree.nodes() if n.id)))
    await shown.do("swipe", direction="up")
    await shown.do("swipe", x=500, y=600, x2=500, y2=1600)
    assert "Line 0 of the licence" in shown.names
    await shown.do("open_app", app_name="wecker")
    assert shown.tree.header["package"] == "dev.tern.clock"
    await shown.do("open_app", app_name=PACKAGE)
    await shown.do("wait")
    assert shown.tree.header["activity"] == ".AboutActivity"


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (act("click", index=99), "no node with index 99"),
        (act("scroll", direction="down", index=99), "no node with index 99"),
        (act("click", x=1080, y=5), "the point 1080,5 is not on the 1080x2400 screen"),
        (act("swipe", x=1, y=1, x2=5, y2=9000), "the point 5,9000 is not on the 1080x2400 screen"),
        (act("open_app", app_name='Maps "2"'), 'no app named Maps "2"'),
        (act("input_text", text="hello"), "no focused field"),
    ],
)
async def test_what_cannot_be_done_is_told_on_the_screen_as_it_was(
    server: AdbServer, session: Opened, phone: Phone, action: str, error: str
) -> None:
    shown = session()
    before = await shown.start()
    asked = len(phone.commands)
    step = await shown.environment.step(action)
    assert step.observation is not None
    after = read_hierarchy(step.observation.text)
    assert after.header["error"] == error
    assert before.same_nodes(after)
    assert len(phone.commands) == asked  # nothing was done to the device
    checks = ANDROID.check(shown.environment.world, [], ANDROID.parse_action(action, world(server)), step.observation)
    assert all(check.passed for check in checks)
    again = await shown.step("wait")
    assert again.observation is not None
    assert "error=" not in again.observation.text


ODD_TEXTS = (
    "100%s of %%s %",
    "$(reboot) `id` $HOME",
    "a'b\"c\\d",
    "x; rm -rf / & echo | cat > f",
    "-n --help",
    " two  ",
)


@pytest.mark.parametrize("text", ODD_TEXTS)
async def test_any_ascii_text_arrives_and_runs_nothing(
    server: AdbServer, session: Opened, phone: Phone, text: str
) -> None:
    shown = session()
    await shown.start()
    await shown.click("New note")
    await shown.do("input_text", index=3, text=text)
    notes = phone.front
    assert isinstance(notes, Notes)
    assert notes.fields["note_body"] == text


@settings(max_examples=25)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=450))
def test_a_real_shell_hands_input_the_very_text(text: str) -> None:
    script = "input() { shift; printf '%s\\0' \"$@\"; }; " + " && ".join(typing_commands(text) or ["true"])
    told = subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=True).stdout.decode()
    assert "".join(piece.replace("%s", " ") for piece in told.split("\0")) == text


async def test_a_long_text_is_typed_in_parts(server: AdbServer, session: Opened, phone: Phone) -> None:
    shown = session()
    await shown.start()
    await shown.click("New note")
    await shown.do("input_text", index=3, text="'" * 30_000)
    assert phone.front.fields["note_body"] == "'" * 30_000


async def test_other_letters_need_a_keyboard_that_has_them(server: AdbServer, session: Opened, phone: Phone) -> None:
    shown = session()
    await shown.start()
    await shown.click("New note")
    refused = await shown.step("input_text", index=3, text="Café 🙂")
    assert refused.outcome is Outcome.INVALID_ACTION
    assert "ASCII alone, not 'é'" in (refused.detail or "")
    phone.input_method = "com.android.adbkeyboard/.AdbIME"
    await shown.start()
    await shown.click("New note")
    await shown.do("input_text", index=3, text="Café 🙂")
    assert "Café 🙂" in shown.names


async def test_a_turned_phone_has_a_turned_screen(server: AdbServer, session: Opened, phone: Phone) -> None:
    phone.rotation = 1
    shown = session()
    assert (await shown.start()).header["screen"] == "2400x1080"


# What goes wrong.


@pytest.mark.parametrize("stale", [1, 2])
async def test_a_stale_tree_is_not_believed(server: AdbServer, session: Opened, phone: Phone, stale: int) -> None:
    phone.faults.stale = stale
    shown = session()
    await shown.start()
    assert (await shown.click("New note")).header["activity"] == ".EditorActivity"
    assert "Title" in shown.names
    await shown.do("input_text", index=2, text="Dentist")
    assert "Dentist" in shown.names


async def test_a_dump_that_fails_is_made_again(server: AdbServer, session: Opened, phone: Phone) -> None:
    shown = session()
    await shown.start()
    phone.faults.blind = LOOKS - 2
    await shown.click("New note")
    assert "Title" in shown.names


async def test_a_screen_that_cannot_be_read_ends_the_episode(server: AdbServer, session: Opened, phone: Phone) -> None:
    shown = session()
    await shown.start()
    phone.faults.blind = LOOKS
    step = await shown.step("click", index=5)
    assert step.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert "could not get idle state" in (step.detail or "")
    phone.commands.clear()
    again = await shown.step("click", index=5)  # not done twice
    assert (again.outcome, phone.commands) == (Outcome.INFRASTRUCTURE_FAILED, [])
    await shown.start()
    await shown.click("New note")


async def test_a_screen_that_never_settles_is_marked(server: AdbServer, session: Opened, phone: Phone) -> None:
    shown = session()
    await shown.start()
    phone.faults.restless = True
    step = await shown.step("click", index=5)
    assert step.outcome is Outcome.OK
    assert [check.rule for check in step.turn("").violations] == ["stable"]
    phone.faults.restless = False
    assert (await shown.step("wait")).violations == ()
    phone.faults.restless = True
    with pytest.raises(SetupError, match="the first screen never settles"):
        await shown.start()


async def test_a_device_that_goes_away_is_a_typed_outcome(server: AdbServer, session: Opened, phone: Phone) -> None:
    shown = session(serial=SERIAL)
    await shown.start()
    phone.faults.cut = "uiautomator"
    step = await shown.step("click", index=5)
    assert (step.outcome, step.terminated) == (Outcome.INFRASTRUCTURE_FAILED, False)
    with pytest.raises(SetupError, match=f"no device is connected|device {SERIAL} not found"):
        await shown.environment.reset()
    phone.state = "device"
    await shown.start()
    await shown.click("New note")


async def test_an_episode_records_why_it_failed(server: AdbServer, phone: Phone) -> None:
    phone.faults.cut = "input tap"
    actions = [act("navigate_back"), act("click", x=500, y=500), act("wait")]
    done = await run_episode(
        ScriptPolicy(actions), AndroidEnvironment(world(server)), limits=RolloutLimits(step_attempts=3)
    )
    assert (done.ending.kind, done.ending.outcome) == (EndingKind.FAILED, Outcome.INFRASTRUCTURE_FAILED)
    assert [turn.outcome for turn in done.turns] == [Outcome.OK, Outcome.INFRASTRUCTURE_FAILED]


async def test_a_device_that_hangs_meets_the_deadline(server: AdbServer, session: Opened, phone: Phone) -> None:
    shown = session(Limits(step_seconds=0.5))
    await shown.start()
    phone.faults.hang = "input tap"
    step = await shown.step("click", index=5)
    assert step.outcome is Outcome.TIMED_OUT
    assert "0.5 s" in (step.detail or "")
    phone.faults.hang = ""
    await shown.start()
    await shown.click("New note")


async def test_an_episode_has_a_limit_of_time_and_turns(server: AdbServer, session: Opened) -> None:
    shown = session(Limits(episode_seconds=0.4, turns=1))
    await shown.start()
    assert (await shown.step("answer", text="1")).truncated
    await asyncio.sleep(0.4)
    step = await shown.step("wait")
    assert (step.outcome, step.truncated) == (Outcome.TIMED_OUT, True)


async def test_a_start_that_fails_once_is_tried_again(server: AdbServer, session: Opened, phone: Phone) -> None:
    phone.faults.refused_starts = 1
    shown = session()
    await shown.start()
    phone.faults.refused_starts = 99
    with pytest.raises(SetupError, match=rf"device {SERIAL}: .*the package manager is not ready"):
        await shown.start()


async def test_cancelling_and_closing_let_go_of_the_device(server: AdbServer, session: Opened, phone: Phone) -> None:
    shown = session()
    await shown.start()
    phone.faults.hang = "input tap"
    running = asyncio.create_task(shown.environment.step(act("click", index=5)))
    await asyncio.sleep(0.1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(InputError, match="call reset first"):
        await shown.step("wait")
    await shown.start()
    running = asyncio.create_task(shown.environment.step(act("click", index=5)))
    await asyncio.sleep(0.1)
    await shown.environment.close()
    assert (await running).outcome is Outcome.CANCELLED
    claim = Claim(Server.at(server.address), SERIAL)
    assert claim.held
    claim.release()


async def test_two_environments_take_turns_at_one_device(server: AdbServer, session: Opened) -> None:
    one, other = session(), session()
    await one.start()
    waiting = asyncio.create_task(other.start())
    await asyncio.sleep(0.2)
    assert not waiting.done()
    given_up = Session(AndroidEnvironment(world(server)))
    starting = asyncio.create_task(given_up.start())
    await asyncio.sleep(0.1)
    await given_up.environment.close()
    await one.environment.close()
    await waiting
    await other.environment.close()
    with pytest.raises(SetupError, match="closed, or reset again, while it waited"):
        await starting
    await other.start()
    hasty = AndroidEnvironment(world(server, Limits(episode_seconds=0.1)))
    with pytest.raises(SetupError, match=f"{SERIAL} in use by another environment .* --concurrency 1"):
        await hasty.reset()
    await other.environment.close()


def test_a_killed_process_leaves_its_device_free() -> None:
    server = Server("127.0.0.1", 1)
    code = (
        "from worldlm.real.adb import Claim, Server; import time\n"
        f"claim = Claim(Server('127.0.0.1', 1), {SERIAL!r}); print(claim.held, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert not Claim(server, SERIAL).held
        process.kill()
        process.wait()
    claim = Claim(server, SERIAL)
    assert claim.held
    claim.release()


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("offline", rf"device {SERIAL} is offline: `adb reconnect` it"),
        ("unauthorized", "allow USB debugging for this computer"),
        ("gone", "no device is connected to the adb server at .*: start an emulator, or plug one in"),
    ],
)
async def test_a_device_that_cannot_be_used_names_the_cure(
    server: AdbServer, session: Opened, phone: Phone, state: str, told: str
) -> None:
    phone.state = state
    with pytest.raises(SetupError, match=told):
        await session().start()


async def test_several_devices_need_a_name(server: AdbServer, session: Opened) -> None:
    server.phones["emulator-5556"] = Phone()
    with pytest.raises(SetupError, match=r"several devices .*5554 \(device\), emulator-5556 .*initial_state.serial"):
        await session().start()
    with pytest.raises(SetupError, match="device pixel not found: `adb devices` lists"):
        await session(serial="pixel").start()
    await session(serial=["pixel", "emulator-5556"]).start()


async def test_a_missing_server_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: pytest.fail(f"a program was started: {a}"))
    with pytest.raises(SetupError, match=rf"adb server at {address} .*`adb start-server` \(apt-get install adb\)"):
        await AndroidEnvironment(World(name="phone", domain="android", initial_state={"server": address})).reset()


async def test_a_locked_device_is_not_an_app(server: AdbServer, session: Opened, phone: Phone) -> None:
    phone.locked = True
    with pytest.raises(SetupError, match=r"is locked .*: unlock it"):
        await session().start()


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"package": "dev.tern.note"}, "has no app 'dev.tern.note' .*did you mean 'dev.tern.notes'"),
        ({"activity": ".Nowhere"}, f"has no activity {PACKAGE}/.Nowhere"),
    ],
)
async def test_an_app_that_is_not_there_is_bad_input(
    server: AdbServer, session: Opened, state: dict[str, str], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        await session(**state).start()


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"packge": "a.b"}, "unknown key 'initial_state.packge'; did you mean 'package'"),
        ({"package": "not a package; reboot"}, r"initial_state.package"),
        ({"reset": "wipe"}, r"initial_state.reset"),
        ({"server": "localhost"}, "initial_state.server must be HOST:PORT"),
        ("A phone with a note app.", "needs a mapping as initial_state"),
    ],
)
def test_a_world_that_says_it_wrongly(state: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        AndroidEnvironment(World(name="phone", domain="android", initial_state=state))


def test_a_world_of_another_domain() -> None:
    with pytest.raises(InputError, match="domain 'web', not 'android'"):
        AndroidEnvironment(World(name="page", domain="web"))


# Recorded screens.


@pytest.mark.skipif("WORLDLM_RECORDINGS" not in os.environ, reason="WORLDLM_RECORDINGS names no folder of recordings")
async def test_recorded_screens_are_told_whole() -> None:
    path = Path(os.environ["WORLDLM_RECORDINGS"]) / "android_droidbotexp.jsonl"
    turns = 0
    for line in path.read_text("utf-8").splitlines():
        recorded = json.loads(line)
        screens = [turn["observation"] for turn in recorded["turns"]]
        titles = [re.search(r'activity="([^"]*)"', screen) for screen in screens]
        phone = Recording([(title[1], s) for title, s in zip(titles, screens, strict=True) if title], recorded["app"])
        with AdbServer(**{SERIAL: phone}) as server:
            shown = Session(AndroidEnvironment(world(server, package=recorded["app"])))
            await shown.start()
            phone.running = True
            for screen in screens[1:]:
                await shown.do("click", x=1, y=1)
                whole = read_hierarchy(screen)
                assert shown.names == _said(whole)
                checks = ANDROID.check(
                    shown.environment.world,
                    [],
                    ANDROID.parse_action(act("wait"), shown.environment.world),
                    (await shown.environment.step(act("answer", text="-"))).observation or pytest.fail("no screen"),
                )
                assert [check for check in checks if not check.passed] == []
                turns += 1
            await shown.environment.close()
    assert turns > 20


def _said(tree: Tree) -> list[str]:
    return [node.name for node in tree.nodes() if node.name]
