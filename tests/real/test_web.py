"""A real browser: its contract, what a page shows, what actions do and refuse, what dies, and that nothing is left."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.real.terminal_session import family, left_of
from worldlm.core.errors import InputError, SetupError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Environment, HasOrigin
from worldlm.core.types import Limits, Step, Turn, World
from worldlm.domains.tree import Node, Tree, read_outline
from worldlm.domains.web import HEADERS, WEB
from worldlm.real import make_environment, sites, web, world_files
from worldlm.real.sandbox import Process
from worldlm.real.web import WebEnvironment, make_site, web_state
from worldlm.simulate.worlds import parse_world
from worldlm.testing import check_environment

pytestmark = pytest.mark.anyio

SHOP = """<!doctype html><meta charset="utf-8"><title>Corner Shop</title><h1>Corner Shop</h1>
<form action="thanks.html"><label>Name <input name="n" required></label>
<label>Size <select name="s"><option>Small<option>Large</select></label>
<label><input type="checkbox" name="gift"> Gift</label> <button>Order</button></form>
<button id="ask" onclick="said.textContent = confirm('Empty the cart?') ? 'emptied' : 'kept'">Empty</button>
<p id="said"></p><button disabled>Sold out</button>
<a href="terms.html" target="_blank">Terms</a> <a href="news.html">News</a>
<button onclick="setTimeout(() => said.textContent = 'ready at ' + new Date().toISOString(), 800)">Later</button>
<button onclick="said.textContent = Math.random()">Draw</button>
<span onclick="said.textContent = 'pressed'">press me</span>
<iframe src="frame.html" title="Extra"></iframe>"""
PAGES = {
    "index.html": SHOP,
    "thanks.html": "<!doctype html><title>Thanks</title><p>Thank you.</p>",
    "terms.html": "<!doctype html><title>Terms</title><p>None.</p><button onclick='window.close()'>Close</button>",
    "news.html": "<!doctype html><title>News</title><p>Nothing new.</p>",
    "frame.html": "<!doctype html><button onclick=\"this.textContent = 'Pressed'\">Inner</button>",
    "endless.html": "<!doctype html><title>Endless</title><script>(function go() { fetch('x').then(go) })()</script>",
}


@pytest.fixture
def browser() -> None:
    """Skip, and say why, where a real browser cannot run."""
    if not any(Path(path).exists() for path in web.CHROMIUM):
        pytest.skip("needs system programs: apt-get install chromium")
    if find_spec("playwright") is None:
        pytest.skip("needs playwright: pip install 'worldlm[real]'")


@pytest.fixture
def shop(tmp_path: Path, browser: None) -> World:
    """A folder of pages as a world."""
    for name, page in PAGES.items():
        (tmp_path / name).write_text(page)
    return World(name="shop", domain="web", initial_state={"folder": str(tmp_path)})


@asynccontextmanager
async def opened(world: World, seed: int = 0) -> AsyncIterator["Session"]:
    environment = WebEnvironment(world)
    try:
        yield Session(environment, (await environment.reset(seed)).text)
    finally:
        worker = environment._worker
        processes = family(worker.sandbox._process.pid) if worker else set()
        await environment.close()
        assert left_of(processes, 0) == set()


class Session:
    """An environment with the page that it showed last, whose steps keep the domain's rules."""

    def __init__(self, environment: WebEnvironment, text: str):
        self.environment = environment
        self.text = self.first = text
        self.turns: list[Turn] = []

    async def step(self, action: str) -> Step:
        step = await self.environment.step(action)
        if step.observation is not None:
            world = self.environment.world.model_copy(update={"initial_observation": self.first})
            checks = WEB.check(world, self.turns, WEB.parse_action(action, world), step.observation)
            assert [check for check in checks if not check.passed] == []
            self.text = step.observation.text
        self.turns.append(step.turn(action))
        return step

    async def click(self, role: str, name: str) -> Step:
        return await self.step(f'click("{self.node(role, name).id}")')

    @property
    def page(self) -> Tree:
        return read_outline(self.text, HEADERS)

    def shows(self, role: str, name: str) -> bool:
        return any(node.role == role and node.name.startswith(name) for node in self.page.nodes())

    def node(self, role: str, name: str) -> Node:
        found = [n for n in self.page.nodes() if n.role == role and n.name.startswith(name)]
        assert found, f"no {role} {name!r} in\n{self.text}"
        return found[0]


# What it is.


@pytest.mark.timeout(600)  # a dozen browsers are started
async def test_it_keeps_the_contract_of_an_environment(shop: World) -> None:
    found = await check_environment(
        lambda: WebEnvironment(shop), ["noop()", 'click("1")', "scroll(0, 50)"], invalid_action="clik('1')"
    )
    assert found.agreement == 1.0


async def test_it_says_where_its_trajectories_come_from_and_nothing_of_this_machine(shop: World) -> None:
    environment = make_environment(shop)
    assert isinstance(environment, Environment)
    assert isinstance(environment, HasOrigin)
    folder = str(shop.initial_state["folder"])  # type: ignore[index]
    assert folder not in environment.world.model_dump_json()
    async with opened(shop) as session:
        origin = session.environment.origin
        assert origin.kind == "real"
        assert "Chromium 1" in origin.version
        assert "Playwright 1." in origin.version
        assert folder not in session.text + session.environment.world.model_dump_json() + origin.model_dump_json()


def test_the_agents_view_hides_what_it_must_not_see() -> None:
    world = World(name="x", domain="web", initial_state={"folder": "pages"}, hidden_state="secret")
    assert WebEnvironment(world).world.hidden_state is None


# What a page shows, and what actions do.


async def test_a_form_is_filled_checked_and_sent(shop: World) -> None:
    async with opened(shop) as session:
        assert session.text.startswith("URL: http://site.example/\nTabs: *0 'Corner Shop'\nRootWebArea 'Corner Shop'")
        field, size = session.node("textbox", "Name"), session.node("combobox", "Size")
        await session.click("button", "Order")
        assert "focused" in session.node("textbox", "Name").states, "a required field holds the form back"
        await session.step(f'fill("{field.id}", "Ann \\u00e9")')
        assert session.page.find(str(field.id)) == session.node("textbox", "Name")
        assert session.node("textbox", "Name").value == "Ann é"
        await session.step(f'select_option("{size.id}", "Large")')
        assert session.node("combobox", "Size").value == "Large"
        await session.click("checkbox", "Gift")
        assert session.node("checkbox", "Gift").attributes["checked"] == "true"
        await session.click("button", "Order")
        assert "URL: http://site.example/thanks.html?n=Ann+%C3%A9&s=Large&gift=on" in session.text
        await session.step("go_back()")
        assert session.page.header["URL"] == "http://site.example/"
        await session.step("go_forward()")
        assert session.shows("StaticText", "Thank you.")


async def test_what_fails_is_told_as_browsergym_tells_it(shop: World) -> None:
    async with opened(shop) as session:
        told = {
            'click("z9")': 'ValueError: Could not find element with bid "z9"',
            f'click("{session.node("button", "Sold out").id}")': "TimeoutError: Locator.click: Timeout 500ms",
            f'fill("{session.node("button", "Order").id}", "x")': "Error: Locator.fill: Error: Element is not an",
            f'select_option("{session.node("combobox", "Size").id}", "Huge")': "TimeoutError: Locator.select_option: ",
            "tab_focus(3)": "ValueError: there is no tab 3",
            'keyboard_press("Entr")': "Error: Keyboard.press: Unknown key",
            'goto("nowhere")': "Error: Page.goto: Protocol error (Page.navigate): Cannot navigate to invalid URL",
            'goto("file:///etc/passwd")': "Error: Page.goto: net::ERR_BLOCKED_BY_ADMINISTRATOR",
        }
        before = session.page
        for action, error in told.items():
            step = await session.step(action)
            assert step.outcome is Outcome.OK
            assert session.page.header["Error"].startswith(error), action
            assert session.page.same_nodes(before), action
        await session.step('goto("http://elsewhere.example/")')
        assert "ERR_NAME_NOT_RESOLVED" in session.page.header["Error"]
        await session.step("go_back()")
        assert "Error" not in session.page.header
        assert session.shows("heading", "Corner Shop")


@pytest.mark.parametrize(
    ("answer", "done", "said"), [("accept", "accepted", "emptied"), ("dismiss", "dismissed", "kept")]
)
async def test_dialogs_are_answered_and_told(shop: World, answer: str, done: str, said: str) -> None:
    assert isinstance(shop.initial_state, dict)
    world = shop.model_copy(update={"initial_state": shop.initial_state | {"dialogs": answer}})
    async with opened(world) as session:
        await session.click("button", "Empty")
        assert session.page.header["Dialog"] == f"confirm 'Empty the cart?' {done}"
        assert session.shows("StaticText", said)
        await session.step("noop(10)")
        assert "Dialog" not in session.page.header


async def test_tabs(shop: World) -> None:
    async with opened(shop) as session:
        await session.click("link", "Terms")
        assert session.page.header["Tabs"] == "0 'Corner Shop', *1 'Terms'"
        await session.click("button", "Close")
        assert session.page.header["Tabs"] == "*0 'Corner Shop'"
        assert "Error" not in session.page.header
        await session.step(f'click("{session.node("link", "News").id}", modifiers=["Control"])')
        assert session.page.header["Tabs"] == "*0 'Corner Shop', 1 'News'"
        await session.step("tab_focus(1)")
        assert session.page.header["Tabs"] == "0 'Corner Shop', *1 'News'"
        await session.step("new_tab()")
        assert session.page.header["URL"] == "about:blank"
        for left in (2, 1, 1):
            await session.step("tab_close()")
            assert session.page.header["Tabs"].count("'") == 2 * left
        assert session.page.header["URL"] == "about:blank"


async def test_an_element_keeps_its_bid_and_one_in_a_frame_has_its_frames_letter(shop: World) -> None:
    async with opened(shop) as session:
        before = {node.id: (node.role, node.name) for node in session.page.nodes() if node.id}
        inner = session.node("button", "Inner")
        assert str(inner.id).startswith("a")
        await session.step(f'click("{inner.id}")')
        assert session.node("button", "Pressed").id == inner.id
        pressed = next(n for n in session.page.nodes() if any(c.name == "press me" for c in n.children))
        assert "clickable" in pressed.states
        await session.step(f'click("{pressed.id}")')
        after = {node.id: (node.role, node.name) for node in session.page.nodes() if node.id}
        assert {bid: after[bid] for bid in before if bid != inner.id} == {
            bid: told for bid, told in before.items() if bid != inner.id
        }


async def test_time_and_chance_are_the_episodes_own(shop: World) -> None:
    said = []
    for seed in (5, 5, 6):
        async with opened(shop, seed) as session:
            await session.click("button", "Later")
            assert "ready at 2026-01-15T09:00:0" in session.text, "what comes within a second is waited for"
            await asyncio.sleep(0.05 * seed)
            await session.click("button", "Draw")
            said.append(session.text)
    assert said[0] == said[1] != said[2]


async def test_a_page_that_never_settles_is_read_as_it_is_and_marked(shop: World) -> None:
    async with opened(shop) as session:
        step = await session.step('goto("http://site.example/endless.html")')
        assert step.outcome is Outcome.OK
        (check,) = step.violations
        assert (check.rule, check.passed) == ("stable", False)
        assert check.message.startswith("the page was still loading after")
        assert session.page.header["Tabs"] == "*0 'Endless'"


async def test_the_harness_hears_messages_and_ends_the_episode(shop: World) -> None:
    async with opened(shop) as session:
        await session.step('click("z9")')
        await session.step('send_msg_to_user("hello")')
        assert session.text == session.first
        assert (await session.step('report_infeasible("no")')).terminated
        step = await session.environment.step("noop()")
        assert (step.outcome, step.terminated) == (Outcome.INVALID_ACTION, True)


# What dies.


def chromium_of(programs: list[Process]) -> list[int]:
    return [p.pid for p in programs if "chromium" in Path(f"/proc/{p.pid}/comm").read_text()]


async def test_a_browser_that_dies_is_a_failure_and_the_next_reset_works(shop: World) -> None:
    environment = WebEnvironment(shop)
    try:
        first = await environment.reset(0)
        assert environment._worker is not None
        programs = environment._worker.sandbox.processes()
        for pid in chromium_of(programs):
            with contextlib.suppress(ProcessLookupError):  # some end with others
                os.kill(pid, signal.SIGKILL)
        step = await environment.step("noop()")
        assert step.outcome is Outcome.INFRASTRUCTURE_FAILED
        assert step.detail
        assert (await environment.step("noop()")).observation is None
        assert await environment.reset(0) == first
    finally:
        await environment.close()


async def test_a_page_that_hangs_runs_out_of_time(shop: World) -> None:
    world = shop.model_copy(update={"limits": Limits(step_seconds=4)})
    environment = WebEnvironment(world)
    try:
        await environment.reset(0)
        step = await environment.step('goto("data:text/html,<script>while(true);</script>")')
        assert step.outcome is Outcome.TIMED_OUT
    finally:
        await environment.close()


async def test_a_browser_that_does_not_start_is_told_after_some_tries(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "chromium", lambda: "/usr/bin/false")
    with pytest.raises(SetupError, match="the browser did not start: "):
        await WebEnvironment(shop).reset()


_CHILD = """
import asyncio, sys
from worldlm.core.types import World
from worldlm.real.sandbox import Process
from worldlm.real.web import WebEnvironment

async def main():
    await WebEnvironment(World(name="x", domain="web", initial_state={"folder": sys.argv[1]})).reset()
    print("running", flush=True)
    await asyncio.sleep(100)

asyncio.run(main())
"""


def test_nothing_is_left_when_our_process_is_killed(shop: World) -> None:
    assert isinstance(shop.initial_state, dict)
    command = [sys.executable, "-c", _CHILD, str(shop.initial_state["folder"])]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"running\n"
        processes = family(process.pid)
        assert len(processes) > 5
        process.kill()
        process.wait(20)
    assert left_of(processes) == set()


# The sites.


@pytest.fixture
def packages(browser: None) -> None:
    """Skip where the sites' packages are not here and cannot be fetched."""
    try:
        for packages in (sites.MINIWOB, sites.DJANGO):
            sites.obtain(packages)
    except SetupError as error:
        pytest.skip(str(error))


async def test_a_task_of_miniwob_is_picked_by_the_seed_and_solved(packages: None) -> None:
    world = World(
        name="tasks", domain="web", initial_state={"site": "miniwob", "tasks": ["click-button", "focus-text"]}
    )
    names = {make_site(world, web_state(world), seed).name for seed in range(8)}
    assert names == {"tasks.click-button", "tasks.focus-text"}
    world = world.model_copy(update={"initial_state": {"site": "miniwob", "task": "click-button"}})
    async with opened(world, 3) as session:
        view = session.environment.world
        assert view.initial_state == {"site": "miniwob", "task": "click-button"}
        assert 'Goal: Click on the "' in view.context
        assert "Click on the" not in session.text, "the goal is told beside the page"
        assert "Time left" not in session.text
        step = await session.click("button", view.context.split('"')[1])
        assert step.terminated
        assert session.environment.origin.licence == "MIT"


async def test_a_record_is_added_found_changed_and_deleted_in_django(packages: None) -> None:
    state = {"site": "django", "app": "tracker", "start": "admin/tracker/label/add/"}
    async with opened(World(name="t", domain="web", initial_state=state), 1) as session:
        await session.step(f'fill("{session.node("textbox", "Name").id}", "zeta")')
        await session.step(f'fill("{session.node("textbox", "Colour").id}", "red")')
        await session.click("button", "Save")
        assert "Write a colour as #rrggbb." in session.text
        await session.step(f'fill("{session.node("textbox", "Colour").id}", "#aa0000")')
        await session.click("button", "Save")
        assert "was added successfully" in session.text
        boxes = [n for n in session.page.nodes() if n.role in ("searchbox", "textbox") and "Filter" not in n.name]
        await session.step(f'fill("{boxes[0].id}", "zet")')
        await session.click("button", "Search")
        await session.click("link", "zeta")
        await session.click("link", "HISTORY")
        assert "Jan. 15, 2026" in session.text, "the site's clock is its own"
        await session.step("go_back()")
        await session.click("link", "Delete")
        await session.click("button", "Yes")
        assert "was deleted successfully" in session.text


async def test_the_login_of_django(packages: None) -> None:
    state = {"site": "django", "app": "bookshop", "login": False}
    async with opened(World(name="t", domain="web", initial_state=state), 1) as session:
        for password, there in (("wrong", False), ("harbour-42", True)):
            await session.step(f'fill("{session.node("textbox", "Username").id}", "admin")')
            await session.step(f'fill("{session.node("textbox", "Password").id}", "{password}")')
            await session.click("button", "Log in")
            assert ("Site administration" in session.text) is there


def test_the_shipped_worlds_are_whole() -> None:
    worlds = [
        parse_world(path.read_text("utf-8"), path.name) for name, path in world_files().items() if name[:4] == "web-"
    ]
    tasks = [task for world in worlds for task in web_state(world).tasks]
    assert len(tasks) == len(set(tasks)) >= 40
    assert sum(web_state(world).site == "django" for world in worlds) == 2
    for world in worlds:
        assert WEB.problems(world) == []
        assert isinstance(make_environment(world), WebEnvironment)


# Bad input.


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("a shop", "needs initial_state with site, folder or url"),
        ({"folder": "x", "site": "miniwob", "task": "a"}, "say one of site, folder and url"),
        ({}, "say one of site, folder and url"),
        ({"sites": "miniwob"}, "unknown key 'initial_state.sites'; did you mean 'site'"),
        ({"site": "miniwb", "task": "a"}, "initial_state.site"),
        ({"site": "miniwob"}, "say task or tasks of MiniWoB"),
        ({"url": "https://www.example.com/"}, "write network: true"),
        ({"url": "file:///etc", "network": True}, "must be an address of http or https"),
        ({"site": "django", "app": "shop"}, "initial_state.app"),
    ],
)
def test_a_world_that_says_too_little_or_wrong_things(state: object, told: str) -> None:
    world = World.model_validate({"name": "x", "domain": "web", "initial_state": state})
    with pytest.raises(InputError, match=told):
        WebEnvironment(world)


async def test_what_is_not_there_is_named(packages: None, tmp_path: Path) -> None:
    world = World(name="x", domain="web", initial_state={"site": "miniwob", "task": "click-buton"})
    with pytest.raises(InputError, match="no task 'click-buton'; did you mean 'click-button'"):
        await WebEnvironment(world).reset()
    world = World(name="x", domain="web", initial_state={"folder": str(tmp_path / "pages")})
    with pytest.raises(InputError, match="there is no folder"):
        await WebEnvironment(world).reset()


async def test_missing_things_are_named_with_their_cure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(name="x", domain="web", initial_state={"folder": str(tmp_path)})
    monkeypatch.setattr(web, "CHROMIUM", ())
    with pytest.raises(SetupError, match="apt-get install chromium"):
        await WebEnvironment(world).reset()


def test_another_domain_is_refused() -> None:
    with pytest.raises(InputError, match="'mcp'"):
        WebEnvironment(World(name="x", domain="mcp"))


async def test_a_step_before_reset_is_refused(tmp_path: Path) -> None:
    environment = WebEnvironment(World(name="x", domain="web", initial_state={"folder": str(tmp_path)}))
    with pytest.raises(InputError, match="call reset first"):
        await environment.step("noop()")


def test_packages_that_cannot_be_had_are_named_with_the_cure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORLDLM_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    started = time.monotonic()
    with pytest.raises(SetupError, match=r"could not get miniwob==1\.1\.0: .*pip install --no-deps --target"):
        sites.obtain(sites.MINIWOB)
    assert time.monotonic() - started < sites.FETCH_SECONDS
    assert not sites.location(sites.MINIWOB).exists()
