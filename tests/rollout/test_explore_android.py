"""The Android explorer, in the stand-in phone's apps and on screens made for it."""

import json
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from tests.real.adb_apps import PACKAGE
from tests.real.adb_server import AdbServer, Phone
from worldlm.core.errors import ActionError
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import Observation, Trajectory, Turn, World
from worldlm.domains.android import ANDROID, TOOLS
from worldlm.domains.tree import read_hierarchy
from worldlm.real.android import AndroidEnvironment
from worldlm.rollout import Job, run_episodes
from worldlm.rollout.explorers import make_explorer
from worldlm.rollout.explorers.android import behave

pytest.importorskip("adbutils", reason="needs adbutils: pip install 'worldlm[real]'")
pytestmark = pytest.mark.anyio


async def explore(seeds: Sequence[int]) -> dict[int, Trajectory]:
    """An episode a seed, four at a time, each on a phone without any data of the one before."""
    with AdbServer(**{f"emulator-{number}": Phone() for number in (5554, 5556, 5558, 5560)}) as server:
        state = {
            "server": server.address,
            "serial": list(server.phones),
            "package": PACKAGE,
            "reset": "clear",
            "pause": 0,
            "apps": {"Notes": PACKAGE, "Clock": "dev.tern.clock"},
        }
        world = World(name="phone", domain="android", initial_state=state)
        done: dict[int, Trajectory] = {}
        jobs = [
            Job(str(seed), lambda: AndroidEnvironment(world), make_explorer("android", seed), seed) for seed in seeds
        ]
        await run_episodes(jobs, lambda trajectory: done.update({int(trajectory.id): trajectory}))
        return done


async def test_explores_an_app_widely_and_the_same_way_again() -> None:
    episodes = await explore(range(10))
    turns = [turn for episode in episodes.values() for turn in episode.turns]
    assert {episode.ending.kind for episode in episodes.values()} == {EndingKind.TERMINATED}
    assert {turn.outcome for turn in turns} <= {Outcome.OK, Outcome.INVALID_ACTION}
    assert not any(turn.violations for turn in turns)

    labels = Counter(str(turn.label) for turn in turns)
    assert {label.removesuffix("/odd") for label in labels} == {tool.name for tool in TOOLS}
    odd = sum(count for label, count in labels.items() if label.endswith("/odd"))
    assert 0.1 <= odd / len(turns) <= 0.2
    assert len({turn.action for turn in turns}) > 100

    screens = [read_hierarchy(turn.observation.text) for turn in turns if turn.observation]
    activities = {screen.header["activity"] for screen in screens}
    assert {".NotesActivity", ".EditorActivity", ".SearchActivity"} <= activities
    assert {"dialog", "menu"} <= {screen.header.get("window") for screen in screens}
    toasts = {node.name for screen in screens for node in screen.nodes() if node.role == "toast"}
    assert {"Saved", "A note needs a title"} <= toasts
    assert any({"checkable", "checked"} <= node.states for screen in screens for node in screen.nodes())

    again = await explore([7, 2])
    for seed, episode in again.items():
        assert episode.actions == episodes[seed].actions
        assert [turn.observation for turn in episode.turns] == [turn.observation for turn in episodes[seed].turns]


async def test_what_it_shows_keeps_the_domains_rules() -> None:
    (episode,) = (await explore([11])).values()
    for number, turn in enumerate(episode.turns):
        if turn.observation is None:
            with pytest.raises(ActionError):
                ANDROID.parse_action(turn.action, episode.world)
            continue
        call = ANDROID.parse_action(turn.action, episode.world)
        checks = ANDROID.check(episode.world, episode.turns[:number], call, turn.observation)
        assert [check for check in checks if not check.passed] == []


SCREEN = (
    '<hierarchy package="com.android.settings" activity=".Reset" screen="1080x2400" keyboard="hidden">\n'
    '  <node index="0" class="Button" text="Erase all data (factory reset)" bounds="[0,100][1080,300]" '
    'state="clickable long_clickable"/>\n'
    '  <node index="1" class="LinearLayout" bounds="[0,300][1080,500]" state="clickable">\n'
    '    <node class="TextView" text="USB debugging"/>\n'
    "  </node>\n"
    '  <node index="2" class="Button" text="Cancel" bounds="[0,500][1080,700]" state="clickable"/>\n'
    "</hierarchy>"
)


def _under(x: int, y: int) -> int | None:
    nodes = read_hierarchy(SCREEN).nodes()
    return next((int(node.id) for node in nodes if node.id and node.box and node.box.holds(x, y)), None)


@pytest.mark.parametrize("seed", range(20))
def test_keeps_off_what_cannot_be_undone(seed: int) -> None:
    behaviour = behave(Random(seed), World(name="phone", domain="android"), Observation(text=SCREEN))
    act = next(behaviour)
    touched = set()
    try:
        while True:
            if act.label in ("click", "long_press"):
                given = json.loads(act.action)
                touched.add(given["index"] if "index" in given else _under(given["x"], given["y"]))
            act = behaviour.send(Turn(action=act.action, observation=Observation(text=SCREEN)))
    except StopIteration:
        assert 2 in touched
        assert touched <= {2, None}


@pytest.mark.parametrize("text", ["", "(the screen is as it was)", '<hierarchy package="a.b"/>'])
def test_ends_on_any_screen_and_whatever_fails(text: str) -> None:
    behaviour = behave(Random(1), World(name="phone", domain="android"), Observation(text=text))
    act = next(behaviour)
    count = 1
    try:
        while True:
            failed = Turn(action=act.action, observation=None, outcome=Outcome.INVALID_ACTION, detail="no")
            act = behaviour.send(failed)
            count += 1
    except StopIteration:
        assert 20 <= count <= 60
