"""The same world under another clock, other process ids and another host name."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.real.terminal_session import WORLD, needs, typed
from worldlm.core.errors import SetupError
from worldlm.core.protocols import Environment, HasOrigin
from worldlm.core.types import Observation, Step, World
from worldlm.domains.terminal import from_line
from worldlm.real import Surroundings, make_environment, other_surroundings, surroundings
from worldlm.real.surroundings import PLACED, Elsewhere, host_of
from worldlm.testing import ToyEnvironment, check_environment

YEARS = Surroundings(clock=800 * 86_400, first_pid=400, host="xyz")


@pytest.fixture
def faketime(terminal_programs: None) -> None:
    """Skip, and name the package, where no other clock can be had."""
    try:
        YEARS.files()
    except SetupError as error:
        pytest.skip(f"needs system programs: {error}")


class Acting:
    """An environment with a short way to act."""

    def __init__(self, environment: Environment, first: Observation):
        self.environment = environment
        self.first = first.text

    async def line(self, line: str) -> str:
        return await self.act(from_line(line, self.environment.world))

    async def keys(self, *keys: tuple[str, float]) -> str:
        return await self.act(typed(*keys))

    async def tool(self, name: str, **arguments: Any) -> str:
        return await self.act(json.dumps({"name": name, "arguments": arguments}))

    async def act(self, action: str) -> str:
        step: Step = await self.environment.step(action)
        assert step.observation is not None, step.detail
        return step.observation.text


@asynccontextmanager
async def placed(world: World, around: Surroundings | None) -> AsyncIterator[Acting]:
    environment = make_environment(world, around)
    try:
        yield Acting(environment, await environment.reset())
    finally:
        await environment.close()


def year() -> str:
    return str((datetime.now(UTC) + timedelta(seconds=YEARS.clock)).year)


# A terminal.


@pytest.mark.anyio
async def test_a_terminal_elsewhere_shows_what_is_chance_and_nothing_else(faketime: None) -> None:
    needs(python3="python3", git="git")
    async with placed(WORLD, None) as home, placed(WORLD, YEARS) as away:
        assert home.first == away.first == "ana@box:~/app$"
        for line in (
            "cat a.txt",
            "echo $SHLVL $PPID",
            "hostname; cat /etc/hostname",
            "env | sort",
            "ls -l a.txt",
        ):
            assert await home.line(line) == await away.line(line), line
        for line in ("date +%Y", "python3 -c 'import time; print(time.gmtime().tm_year)'", "printf '%(%Y)T\\n' -1"):
            assert (await away.line(line)).split("\n")[1] == year(), line
        used = [int((await one.line("df --output=used /tmp")).split("\n")[2]) for one in (home, away)]
        assert abs(used[0] - used[1]) < 64  # KiB: libfaketime keeps a page or two for a process
        assert int((await away.line("echo $$")).split("\n")[1]) >= YEARS.first_pid
        assert int((await home.line("echo $$")).split("\n")[1]) < YEARS.first_pid


@pytest.mark.anyio
async def test_time_passes_elsewhere_as_it_does_here(faketime: None) -> None:
    needs(python3="python3")
    async with placed(WORLD, YEARS) as away:
        assert "124" in await away.line("timeout 0.2 sleep 30; echo $?")
        assert "142" in await away.line("read -t 0.2 word; echo $?")
        for waits in (
            "time.sleep(0.1)",
            "threading.Event().wait(0.1)",
            "asyncio.run(asyncio.sleep(0.1))",
            'subprocess.run(["sleep", "9"], timeout=0.1)',
            "signal.setitimer(0, 0.1) or signal.sigwait([14])",
        ):
            program = f"import asyncio, signal, subprocess, threading, time; signal.pthread_sigmask(0, [14]); {waits}"
            told = await away.keys((f"python3 -c '{program}'; echo over $?\n", 20.0))
            assert ("TimeoutExpired" in told) == ("timeout" in waits), told
            assert f"over {int('timeout' in waits)}" in told, told
        assert "done" in await away.line("sleep 0.1 & wait; echo done")


@pytest.mark.anyio
async def test_jobs_interrupts_and_the_end_of_the_shell_are_the_usual_ones(faketime: None) -> None:
    async with placed(WORLD, YEARS) as away:
        assert "Terminated" in await away.line("sleep 30 & kill %1; wait %1")
        action = json.dumps([{"keystrokes": "sleep 30\n", "duration": 0.3}, {"keystrokes": "C-c", "duration": 5}])
        assert (await away.act(action)).endswith("^C\nana@box:~/app$")
        step = await away.environment.step(from_line("exit 3", WORLD))
        assert step.terminated


@pytest.mark.anyio
async def test_a_placed_environment_keeps_the_contract(faketime: None) -> None:
    actions = [from_line(line, WORLD) for line in ("echo hello >b.txt", "cat b.txt")]
    around = YEARS.model_copy(update={"first_pid": 40})
    result = await check_environment(lambda: make_environment(WORLD, around), actions, invalid_action="nonsense")
    assert result.agreement == 1


# Repositories and servers.


@pytest.mark.anyio
async def test_what_is_derived_from_a_hosts_name_stays_other(faketime: None) -> None:
    needs(git="git")
    setup = ["git init -q", "git add -A", "git commit -qm start"]
    state = {"user": "ana", "host": "box", "cwd": "~/app", "files": {"app/a.py": "A = 1\n"}, "setup": setup}
    world = World(name="app", domain="swe", initial_state=state)
    commands = {
        "address": "git log -1 --format=%ae",
        "id": "git log -1 --format=%h",
        "date": "git log -1 --format=%as",
        "year": "python -c 'import time; print(time.gmtime().tm_year)'",
    }

    async def told(around: Surroundings | None) -> dict[str, str]:
        async with placed(world, around) as machine:
            return {
                key: re.findall(r"Stdout: (.*)", await machine.tool("run_shell_command", command=command))[0]
                for key, command in commands.items()
            }

    home, away = await told(None), await told(YEARS)
    assert (home["address"], home["date"]) == (away["address"], away["date"]) == ("ana@box.example", "2026-01-15")
    assert home["id"] != away["id"]
    assert away["year"] == year()


@pytest.mark.anyio
async def test_a_server_in_the_sandbox_is_placed(faketime: None) -> None:
    pytest.importorskip("mcp")
    needs(**{"/usr/bin/python3": "python3"})
    source = """
import json, os, socket, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answers = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "clock", "version": "1"}},
        "tools/list": {"tools": [{"name": "tell", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text",
            "text": f"{time.gmtime().tm_year} {os.getpid()} {socket.gethostname()}"}],
            "structuredContent": {socket.gethostname(): [socket.gethostname()]}},
    }
    answer = answers.get(asked["method"], {})
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""
    server = {"command": ["/usr/bin/python3", "-c", source]}
    world = World(name="clock", domain="mcp", initial_state={"server": server, "host": "box"})
    environment = make_environment(world, YEARS)
    try:
        await environment.reset()
        step = await environment.step('{"name": "tell", "arguments": {}}')
        assert step.observation is not None, step.detail
        shown = json.dumps([step.observation.text, step.observation.structured])
        assert year() in shown
        assert '{"box": ["box"]}' in shown
        assert "xyz" not in shown
        (pid,) = re.findall(r"(\d+) box", shown)
        assert int(pid) >= YEARS.first_pid
    finally:
        await environment.close()


# What holds for all.


@given(st.from_regex(r"\A[a-z0-9][a-z0-9-]{0,20}\Z"))
def test_other_surroundings_differ_in_all_and_keep_the_layout(host: str) -> None:
    world = World(name="w", domain="terminal", initial_state={"host": host})
    others = other_surroundings(world)
    assert len({around.clock for around in others}) == len({around.first_pid for around in others}) == 3
    assert all(around.clock > 0 and around.first_pid > 0 for around in others)
    named = any(letter.isalpha() for letter in host)
    assert len({around.host for around in others} | {host}) == (4 if named else 1)
    assert all(len(around.host or "") == len(host) for around in others)


def test_a_world_that_names_no_host_has_the_usual_one() -> None:
    assert host_of(World(name="w", domain="terminal")) == "box"
    assert host_of(World(name="w", domain="terminal", initial_state="as text")) == "box"


def test_where_nothing_can_be_placed_the_environment_is_the_usual_one() -> None:
    pages = [{"url": "https://a.example/", "title": "A", "text": "a"}]
    world = World(name="w", domain="search", hidden_state={"pages": pages})
    assert "search" not in PLACED
    assert not isinstance(make_environment(world, YEARS), Elsewhere)
    assert not isinstance(make_environment(WORLD, Surroundings()), Elsewhere)
    assert isinstance(make_environment(WORLD, YEARS), HasOrigin)


class Saying(ToyEnvironment):
    """Says what it is told to."""

    async def step(self, action: str) -> Step:
        return Step(observation=Observation(text=action, raw=action, structured={action: [action, 1]}))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ("ana@xyz:~$", "ana@box:~$"),
        ("xyz.example xyz7 xxyz", "box.example xyz7 xxyz"),
        ("HOME=/h\nFAKETIME=+5s\nNO_FAKE_STAT=1\nLD_PRELOAD=/usr/lib/f.so.1\nUSER=a", "HOME=/h\nUSER=a"),
        ('export A="1"\ndeclare -x FAKETIME="+5s"', 'export A="1"\n'),
        ("grep FAKETIME= env", "grep FAKETIME= env"),
    ],
)
async def test_what_the_surroundings_brought_along_is_taken_out(said: str, seen: str) -> None:
    environment = Elsewhere(Saying(), YEARS, "box")
    await environment.reset()
    step = await environment.step(said)
    assert step.observation == Observation(text=seen, raw=seen, structured={seen: [seen, 1]})
    await environment.close()


def test_without_the_library_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "_LIBRARIES", ())
    surroundings._library.cache_clear()
    try:
        with pytest.raises(SetupError, match="apt-get install faketime"):
            YEARS.files()
    finally:
        surroundings._library.cache_clear()
    assert not Surroundings(first_pid=9).files()
    assert not Surroundings(first_pid=9).variables()
