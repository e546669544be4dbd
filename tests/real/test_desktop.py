"""A real desktop: its contract, what a step shows, what dies, bad input, and that nothing stays behind."""

import asyncio
import importlib.util
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from worldlm.core.errors import InputError, SetupError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Limits, Step, Turn, World
from worldlm.domains.desktop import BUSY, HEADERS, OS
from worldlm.domains.tree import Node, read_outline
from worldlm.real import make_environment, world_files
from worldlm.real.desktop import APPLICATIONS, LIBRARIES, PACKAGES, DesktopEnvironment, command_words, desktop_state
from worldlm.simulate.worlds import parse_world
from worldlm.testing import check_environment

pytestmark = pytest.mark.anyio
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture
def desktop_programs() -> None:
    """Skip, and name the packages, where a real desktop cannot run."""
    missing = [package for program, package in PACKAGES.items() if shutil.which(program, path=SYSTEM_PATH) is None]
    missing += [APPLICATIONS[name][0] for name in ("mousepad", "galculator") if shutil.which(name) is None]
    modules = ["-c", "import gi, Xlib; gi.require_version('Atspi', '2.0')"]
    if not missing and subprocess.run(["/usr/bin/python3", *modules], capture_output=True).returncode:
        missing.append(LIBRARIES)
    if missing:
        pytest.skip(f"needs system programs: apt-get install {' '.join(missing)}")
    if importlib.util.find_spec("pyautogui") is None:
        pytest.skip("needs pyautogui: pip install 'worldlm[real]'")


def world(*applications: str, **limits: float) -> World:
    state = {"user": "ana", "applications": list(applications), "files": {"notes.txt": "one\ntwo\n"}}
    return World(name="desk", domain="os", initial_state=state, limits=Limits(**limits))  # type: ignore[arg-type]


@pytest.fixture
async def start(desktop_programs: None) -> AsyncIterator[Callable[[World], DesktopEnvironment]]:
    started: list[DesktopEnvironment] = []

    def begin(world: World) -> DesktopEnvironment:
        started.append(DesktopEnvironment(world))
        return started[-1]

    yield begin
    for environment in started:
        await environment.close()


def text(step: Step) -> str:
    assert step.observation is not None, step.detail
    return step.observation.text


def nodes(step: Step, role: str) -> list[Node]:
    return [node for node in read_outline(text(step), HEADERS, empty=True).nodes() if node.role == role]


async def test_contract(desktop_programs: None) -> None:
    result = await check_environment(
        lambda: DesktopEnvironment(world()),
        ["open('a.txt', 'w').write('seen')", "print(open('a.txt').read(), pyautogui.size())"],
        invalid_action="pyautogui.click(",
    )
    assert result.agreement == 1


async def test_an_editor(start: Callable[[World], DesktopEnvironment]) -> None:
    environment = start(world("mousepad notes.txt"))
    first = await environment.reset()
    assert first.text.startswith("Screen: 1280x800\napplication 'mousepad'\n\tframe '~/notes.txt - Mousepad' (")
    assert environment.world.initial_observation == first.text
    turns: list[Turn] = []

    async def do(action: str) -> Step:
        step = await environment.step(action)
        assert step.observation is not None
        call = OS.parse_action(action, environment.world)
        assert [c for c in OS.check(environment.world, turns, call, step.observation) if not c.passed] == []
        turns.append(step.turn(action))
        return step

    typed = await do("pyautogui.write('zero and ')")
    assert nodes(typed, "text")[0].value == "zero and one\ntwo\n"
    assert "frame '*~/notes.txt - Mousepad'" in text(typed)
    saved = await do("pyautogui.hotkey('ctrl', 's')")
    assert "frame '~/notes.txt - Mousepad'" in text(saved)
    told = await do("print(open('notes.txt').read(), end='')\nos.system('pwd; ls /nowhere')")
    assert "Output: \"zero and one\\ntwo\\n/home/ana\\nls: cannot access '/nowhere'" in text(told)
    menu = await do("pyautogui.hotkey('alt', 'f')")
    assert "menu 'File'" in text(menu)
    assert len(nodes(menu, "menu item")) > 5
    assert nodes(await do("pyautogui.press('esc')"), "menu item") == []
    wrong = await do("print('before')\npyautogui.clik(1, 2)")
    assert "Output: 'before\\n'\nError: AttributeError: module 'pyautogui' has no attribute 'clik'\n" in text(wrong)
    corner = await do("pyautogui.moveTo(0, 0)\npyautogui.click()")
    assert "Error: pyautogui.FailSafeException: " in text(corner)
    assert "Error: NameError: name 'x' is not defined" in text(await do("y = x"))
    assert "Error" not in text(await do("import sys\nsys.exit('bye')"))
    question = await do(
        "pyautogui.FAILSAFE = False\npyautogui.moveTo(600, 60)\npyautogui.write('more')\npyautogui.hotkey('alt', 'f4')"
    )
    assert "alert 'Question'" in text(question)
    button = next(node.box for node in nodes(question, "push button") if node.name.startswith("Don"))
    assert button is not None
    empty = await do(f"pyautogui.click({button.x + 9}, {button.y + 9})")
    assert text(empty) == "Screen: 1280x800"
    ended = await environment.step("DONE")
    assert ended.terminated
    assert text(ended) == text(empty)


async def test_what_ends_and_what_hangs(start: Callable[[World], DesktopEnvironment]) -> None:
    environment = start(world("mousepad notes.txt", "galculator", step_seconds=8.0))
    await environment.reset()
    late = await environment.step("print('on')\nwhile True: pass")
    assert "Output: 'on\\n'\nError: TimeoutError: the code was ended after 4 s\n" in text(late)
    hung = await environment.step("os.system('kill -STOP $(pidof galculator)')")
    assert f"{BUSY}\n" in text(hung)
    assert "application 'galculator', busy" in text(hung)
    awake = await environment.step("os.system('kill -CONT $(pidof galculator)')")
    assert "toggle button" in text(awake)
    dead = await environment.step("os.system('kill -KILL $(pidof galculator)')")
    assert [node.name for node in nodes(dead, "application")] == ["mousepad"]
    gone = await environment.step("os.system('pkill Xvfb; sleep 5')")
    assert gone.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert "ended" in str(gone.detail)
    assert (await environment.step("x = 1 + 1")).outcome is Outcome.INVALID_ACTION
    assert "application 'galculator'" in (await environment.reset()).text


async def test_output_is_bounded(start: Callable[[World], DesktopEnvironment]) -> None:
    environment = start(world())
    assert (await environment.reset()).text == "Screen: 1280x800"
    loud = text(await environment.step("print('x' * 100_000)"))
    assert len(loud) < 10_000
    assert "bytes more]" in loud


async def test_closing_during_a_step(start: Callable[[World], DesktopEnvironment]) -> None:
    environment = start(world())
    await environment.reset()
    running = asyncio.ensure_future(environment.step("time.sleep(10)"))
    await asyncio.sleep(0.3)
    await environment.close()
    assert (await running).outcome is Outcome.CANCELLED
    with pytest.raises(InputError, match="reset first"):
        await environment.step("WAIT")


async def test_applications_that_do_not_start(start: Callable[[World], DesktopEnvironment]) -> None:
    with pytest.raises(SetupError, match="'nosuch' is not installed: apt-get install nosuch"):
        await start(world("nosuch --help")).reset()
    with pytest.raises(SetupError, match="applications: false: it ended at once, with status 1"):
        await start(world("false")).reset()


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("a desktop", "initial_state must be a mapping"),
        ({"applicatoins": []}, "unknown key 'initial_state.applicatoins'; did you mean 'applications'"),
        ({"screen": "big"}, "initial_state.screen"),
        ({"applications": ["mousepad 'x"]}, "not a command line"),
    ],
)
def test_a_wrong_world_is_told(state: object, told: str) -> None:
    with pytest.raises(InputError, match=told):
        DesktopEnvironment(World(name="w", domain="os", initial_state=state))  # type: ignore[arg-type]


def test_other_domains_are_refused() -> None:
    with pytest.raises(InputError, match="not 'os'"):
        DesktopEnvironment(World(name="w", domain="web"))


def test_usual_applications_start_alone() -> None:
    assert command_words("mousepad 'my notes.txt'") == ["mousepad", "--disable-server", "my notes.txt"]
    assert command_words("xterm -e top") == ["xterm", "-e", "top"]


SHIPPED = [name for name in world_files() if name.startswith("os-")]


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_worlds(name: str) -> None:
    path = world_files()[name]
    shipped = parse_world(path.read_text("utf-8"), str(path))
    assert shipped.name == name
    assert shipped.context
    assert desktop_state(shipped).applications
    assert isinstance(make_environment(shipped), DesktopEnvironment)


async def test_nothing_stays_behind_when_we_are_killed(desktop_programs: None, tmp_path: Path) -> None:
    mark = f"left-{tmp_path.name}.txt"
    script = f"""
import asyncio
from worldlm.core.types import World
from worldlm.real.desktop import DesktopEnvironment

async def main():
    state = {{"applications": ["mousepad {mark}"]}}
    environment = DesktopEnvironment(World(name="w", domain="os", initial_state=state))
    await environment.reset()
    print("ready", flush=True)
    await asyncio.sleep(100)

asyncio.run(main())
"""
    ours = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220
    assert ours.stdout is not None
    assert ours.stdout.readline() == "ready\n"
    assert _programs_with(mark)
    ours.send_signal(signal.SIGKILL)
    ours.wait()
    ours.stdout.close()
    for _ in range(200):
        if not _programs_with(mark):
            break
        await asyncio.sleep(0.05)
    assert _programs_with(mark) == []


def _programs_with(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in words:
            found.append(path.parent.name)
    return found
