"""The shipped worlds run for real, and the shipped recording is what they answer."""

from pathlib import Path

import pytest

from tests.real.terminal_session import needs, opened
from worldlm.core.jsonl import read_trajectories
from worldlm.core.outcomes import EndingKind
from worldlm.core.types import World
from worldlm.domains import get_domain
from worldlm.domains.files import file_state
from worldlm.domains.terminal import TERMINAL
from worldlm.real.terminal import TerminalEnvironment
from worldlm.rollout import ScriptPolicy, run_episode
from worldlm.rollout.policies import read_script
from worldlm.simulate import load_world
from worldlm.simulate.worlds import shipped_worlds

pytestmark = pytest.mark.usefixtures("terminal_programs")
EXAMPLE = Path(__file__).parents[2] / "examples" / "terminal"
WORLDS = [world for world in shipped_worlds().values() if world.domain == "terminal"]


@pytest.mark.anyio
async def test_typing_the_script_again_gives_the_recording_back() -> None:
    needs(git="git", python3="python3")
    (recorded,) = read_trajectories(EXAMPLE / "recording.jsonl").items
    world = load_world("terminal")
    actions = read_script(EXAMPLE / "session.txt", get_domain("terminal"), world)
    again = await run_episode(ScriptPolicy(actions), TerminalEnvironment(world))
    assert recorded.world == world
    assert recorded.initial == again.initial
    assert recorded.actions == actions
    assert [turn.observation for turn in recorded.turns] == [turn.observation for turn in again.turns]
    assert again.ending.kind is EndingKind.COMPLETED
    assert len(actions) >= 10


@pytest.mark.anyio
async def test_twenty_turns_in_the_default_world_are_answered_and_repeat() -> None:
    needs(git="git", python3="python3")
    world = load_world("terminal")
    actions = read_script(EXAMPLE.parent / "scripts" / "terminal.txt", get_domain("terminal"), world)
    assert len(actions) >= 20
    one, other = [await run_episode(ScriptPolicy(actions), TerminalEnvironment(world)) for _ in range(2)]
    assert one.ending.kind is EndingKind.COMPLETED
    assert [turn.observation for turn in one.turns] == [turn.observation for turn in other.turns]


def test_the_recording_passes_the_rule_checks() -> None:
    (recorded,) = read_trajectories(EXAMPLE / "recording.jsonl").items
    for index, turn in enumerate(recorded.turns):
        assert turn.observation is not None
        call = TERMINAL.parse_action(turn.action, recorded.world)
        checks = TERMINAL.check(recorded.world, recorded.turns[:index], call, turn.observation)
        assert [check for check in checks if not check.passed] == []


@pytest.mark.anyio
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
async def test_a_shipped_world_starts_as_it_is_described(world: World) -> None:
    needs(git="git")
    state = file_state(world)
    async with opened(world) as terminal:
        assert terminal.initial == TERMINAL.initial_observation(world)
        for path, entry in state.files.items():
            full = state.absolute(path)
            if not full.endswith("/"):
                size = len(entry.content.encode())
                assert f"\n{size} {entry.mode}\n" in await terminal.line(f"stat -c '%s %a' {full}")


@pytest.mark.anyio
async def test_the_scripts_of_the_log_world_work() -> None:
    needs(python3="python3")
    async with opened(load_world("terminal-logs")) as terminal:

        async def line(text: str) -> str:  # on a busy machine they take more than the second that a line has
            return await terminal.keys((f"{text}\n", 30.0))

        assert "      5 02\n      1 04\n" in await line("bin/errors.sh 2026-01-14")
        assert "30000 /checkout\n" in await line("bin/slow.sh 1")
        found = await line("python3 bin/check.py || echo differs")
        assert "not in shop.conf: app3\nnot in hosts.csv: app4\ndiffers\n" in found
        assert "access.log  access.log.1" in await line("bash bin/rotate.sh; ls /var/log/shop")
        assert "Read-only file system" in await line("echo x >> /etc/shop/shop.conf")
