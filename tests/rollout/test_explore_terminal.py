"""The terminal's explorer: laws of its table, what it does on a quiet terminal, and what a real one answers."""

import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.real.conftest import terminal_programs
from worldlm.core.text import canonical_json
from worldlm.core.types import Observation, Trajectory, Turn, World
from worldlm.domains.terminal import TERMINAL
from worldlm.real import make_environment, world_files
from worldlm.real.terminal import TerminalEnvironment
from worldlm.rollout import Job, RolloutLimits, run_episodes
from worldlm.rollout.explorers import make_explorer
from worldlm.rollout.explorers.explorer import Act, Behave
from worldlm.rollout.explorers.terminal import FAMILIES, GOALS, Family, behave, make_behave
from worldlm.rollout.explorers.terminal.goals import LEAVING, LOOKS, REPAIRS
from worldlm.rollout.explorers.terminal.known import Known
from worldlm.rollout.explorers.terminal.scene import Move, Scene
from worldlm.simulate.worlds import load_world

__all__ = ["terminal_programs"]  # a fixture that is shared with the tests of real environments

NAMES = [family.name for family in FAMILIES]
WORLDS = [load_world(str(path)) for name, path in world_files().items() if name.startswith("terminal-")]
HOME = next(world for world in WORLDS if world.name == "terminal-home")
PROJECT = next(world for world in WORLDS if world.name == "terminal-project")


def episode(behaviour: Behave, seed: int, world: World = PROJECT, most: int = 60) -> list[Act]:
    """What a behaviour does where every command succeeds and prints nothing."""
    initial = TERMINAL.initial_observation(world)
    running = behaviour(Random(seed), world, initial)
    acts: list[Act] = []
    try:
        act = next(running)
        while len(acts) < most:
            acts.append(act)
            answer = Observation(text=f"{initial.text} …\n{initial.text}")
            act = running.send(Turn(action=act.action, observation=answer))
    except StopIteration:
        pass
    return acts


def family_of(act: Act) -> str:
    return act.label.removesuffix("/odd")


# The table.


def test_the_table_is_wide_and_its_names_are_unique() -> None:
    assert len(FAMILIES) >= 150
    assert [name for name, count in Counter(NAMES).items() if count > 1] == []
    assert all(re.fullmatch(r"[a-z][a-z0-9-]*", name) for name in NAMES)
    assert {"files", "text", "pipes", "processes", "git", "python", "archives"} <= {f.kind for f in FAMILIES}
    assert {"permissions", "scripts", "editors", "loops", "search"} <= {f.kind for f in FAMILIES}
    assert 100 < sum(family.changes for family in FAMILIES) < len(FAMILIES) - 100


def test_goals_repairs_and_looks_name_families_of_the_table() -> None:
    goals = [goal for group in GOALS.values() for goal in group] + [goal for _, goal in REPAIRS]
    named = {name for goal in goals for step in goal for name in step.rstrip("?").split("|")}
    assert named | set(LOOKS) | set(LEAVING.values()) <= set(NAMES)
    for program in {f.opens for f in FAMILIES if f.opens}:
        leaving = next(f for f in FAMILIES if f.name == LEAVING[program])
        assert leaving.program == program


# What it does.


def test_one_seed_gives_one_episode_and_another_seed_another() -> None:
    assert episode(behave, 5) == episode(behave, 5)
    assert episode(behave, 5) != episode(behave, 6)


def test_an_episode_returns_by_itself_after_its_goals() -> None:
    lengths = [len(episode(behave, seed)) for seed in range(60)]
    assert min(lengths) >= 30
    assert sum(lengths) / len(lengths) < 50


def test_every_action_is_one_of_the_domain_and_carries_its_familys_name() -> None:
    for seed in range(30):
        for act in episode(behave, seed, WORLDS[seed % len(WORLDS)]):
            TERMINAL.parse_action(act.action, PROJECT)
            assert family_of(act) in NAMES


def test_ten_to_twenty_in_a_hundred_actions_are_odd() -> None:
    acts = [act for seed in range(120) for act in episode(behave, seed, WORLDS[seed % len(WORLDS)])]
    odd = sum(act.label.endswith("/odd") for act in acts) / len(acts)
    assert 0.10 <= odd <= 0.20
    assert len({act.action for act in acts}) / len(acts) > 0.7


@settings(max_examples=15)
@given(st.sets(st.sampled_from(NAMES)), st.integers(0, 1000))
def test_a_family_that_is_held_out_is_never_used(without: set[str], seed: int) -> None:
    used = {family_of(act) for act in episode(make_behave(without), seed)}
    assert not used & without


def test_holding_out_everything_leaves_nothing_to_do() -> None:
    assert episode(make_behave(frozenset(NAMES)), 1) == []


def test_holding_out_a_name_that_there_is_not_is_an_error() -> None:
    with pytest.raises(ValueError, match="'gti'"):
        make_behave(frozenset({"gti"}))


def test_it_reads_the_prompt_and_repairs_what_it_is_told() -> None:
    known = Known(HOME, Observation(text="kim@lab:~$"))
    known.observe("kim@lab:~$ cd /tmp\nkim@lab:/tmp$", (), None)
    assert known.cwd == "/tmp"
    known.observe("kim@lab:/tmp$ git init\nInitialized empty Git repository in /tmp/.git/\nkim@lab:/tmp$", (), None)
    known.observe("kim@lab:/tmp$ git commit -m x\n[main (root-commit) 1a2b3c4] x\nkim@lab:/tmp$", (), None)
    assert known.repo is not None
    assert known.repo.commits == ["1a2b3c4"]
    known.observe("kim@lab:/tmp$ printf x\nx kim@lab:/tmp$", (), None)
    assert known.program is None
    known.observe("kim@lab:/tmp$ cat", (), None)
    assert known.program == "busy"
    known.observe("kim@lab:/tmp$ touch /x\ntouch: cannot touch '/x'\nkim@lab:/tmp$", (lambda k: k.drop("/tmp"),), None)
    assert "/tmp" in known.folders


# What a real terminal answers.


@pytest.mark.anyio
@pytest.mark.parametrize("world", WORLDS, ids=[world.name for world in WORLDS])
@pytest.mark.usefixtures("terminal_programs")
async def test_the_worlds_start(world: World) -> None:
    assert TERMINAL.problems(world) == []
    environment = make_environment(world)
    try:
        initial = await environment.reset(0)
        assert initial == TERMINAL.initial_observation(world)
    finally:
        await environment.close()


@pytest.mark.anyio
@pytest.mark.usefixtures("terminal_programs")
async def test_real_episodes_end_well() -> None:
    got: list[Trajectory] = []
    jobs = [
        Job(f"e{i}", lambda w=world: TerminalEnvironment(w), make_explorer("terminal", i), i, limits=RolloutLimits(25))  # type: ignore[misc]
        for i, world in enumerate(WORLDS[:6])
    ]
    await run_episodes(jobs, got.append, concurrency=3)
    turns = [turn for trajectory in got for turn in trajectory.turns]
    assert all(trajectory.ending.outcome.is_ok for trajectory in got)
    assert all(turn.outcome.is_ok for turn in turns)
    assert len(turns) == 6 * 25
    assert len({turn.label for turn in turns}) > 60


class Sweep:
    """Types one command of each family into one real terminal, as soon as the family fits."""

    def __init__(self, environment: TerminalEnvironment, initial: Observation):
        self.environment = environment
        self.known = Known(PROJECT, initial)
        self.scene = Scene(Random(7), self.known)
        self.left = {family.name for family in FAMILIES if family.program != "end"}

    async def type(self, move: Move, seconds: float = 2.0) -> str:
        keys = move.keys or ((move.text + "\n", seconds),)
        action = canonical_json([{"keystrokes": typed, "duration": seconds} for typed, seconds in keys])
        step = await self.environment.step(action)
        assert step.observation is not None, (action, step.detail)
        assert not step.terminated, action
        self.known.lines += 1
        self.known.observe(step.observation.text, move.effects, move.opens)
        return step.observation.text

    async def run(self, family: Family) -> None:
        made = family.make(self.scene)
        text = await self.type(made if isinstance(made, Move) else Move(made), family.seconds)
        self.known.again = family.name in ("history", "key-enter")
        self.left.discard(family.name)
        if not family.always_odd:
            assert not re.search("^bash: .*: command not found$", text, re.MULTILINE), text

    async def leave(self) -> None:
        while self.known.program:
            await self.run(BY_NAME[LEAVING[self.known.program]])

    async def round(self, again: tuple[str, ...] = ()) -> None:
        for family in FAMILIES:
            if family.name not in self.left and family.name not in again:
                continue
            if family.program is None:
                await self.leave()
            if family.fits(self.known):
                await self.run(family)


AGAIN = (
    ("background", "gzip", "git-branch", "git-add-all", "git-commit", "history", "key-enter"),
    ("git-add-all", "git-commit", "vim-open", "git-conflict"),
    ("background", "git-edit", "git-add", "git-branch", "git-conflict"),
)
"""What is done once more, round by round, so that the families that are still left find what they need."""
BY_NAME = {family.name: family for family in FAMILIES}


@pytest.mark.anyio
@pytest.mark.usefixtures("terminal_programs")
async def test_every_family_runs_in_a_real_terminal() -> None:
    environment = TerminalEnvironment(PROJECT)
    try:
        sweep = Sweep(environment, await environment.reset(0))
        await sweep.round()
        for count in range(12):
            if not sweep.left - {"key-quit", "key-break"}:
                break
            await sweep.leave()
            await sweep.type(Move("cd " + ("~/units", "~/units", "/usr", "/tmp")[count % 4]))
            await sweep.round(AGAIN[count % 3])
        await sweep.leave()
        await sweep.type(Move("cat"), 0.2)
        assert sweep.known.program == "busy"
        for name in ("key-quit", "key-break"):
            await sweep.run(BY_NAME[name])
    finally:
        await environment.close()
    assert sweep.known.program is None
    assert not sweep.left, sorted(sweep.left)
