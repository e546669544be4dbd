"""A real repository: where it comes from, what its tools answer, and that nothing of it stays."""

import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.real.terminal_session import family, files, left_of, needs
from worldlm.core.errors import InputError, SetupError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Environment, HasOrigin
from worldlm.core.types import Step, World
from worldlm.domains.swe import (
    OUTPUT_CHARACTERS,
    OUTPUT_LINES,
    SWE,
    ShellResult,
    initial_observation,
    parse_shell_result,
    shorten,
)
from worldlm.real import make_environment, sdists, world_files
from worldlm.real.swe import SweEnvironment
from worldlm.simulate import load_world
from worldlm.testing import check_environment

pytestmark = [pytest.mark.usefixtures("terminal_programs")]


@pytest.fixture(autouse=True)
def git() -> None:
    needs(git="git")


ROOT = "/home/ana/app"
MAIN = "def double(x):\n    return x * 2\n"
STATE: dict[str, Any] = {
    "user": "ana",
    "host": "box",
    "cwd": "~/app",
    "files": {
        "app/main.py": MAIN,
        "app/tests/test_main.py": "from main import double\n\n\ndef test_double():\n    assert double(2) == 4\n",
        "app/data.bin": {"content": "\u00e9" * 3, "mode": "600"},
    },
    "setup": ["git init -q", "git add -A", "git commit -qm start"],
}
WORLD = World(name="app", domain="swe", initial_state=STATE)


def action(tool: str, **arguments: Any) -> str:
    return json.dumps({"name": tool, "arguments": arguments})


class Session:
    """A repository with short ways to act."""

    def __init__(self, environment: SweEnvironment, first: str):
        self.environment = environment
        self.first = first

    async def step(self, tool: str, **arguments: Any) -> Step:
        return await self.environment.step(action(tool, **arguments))

    async def use(self, tool: str, **arguments: Any) -> str:
        step = await self.step(tool, **arguments)
        assert step.observation is not None, step.detail
        return step.observation.text

    async def run(self, command: str, **arguments: Any) -> ShellResult:
        return parse_shell_result(await self.use("run_shell_command", command=command, **arguments))


@asynccontextmanager
async def opened(world: World = WORLD) -> AsyncIterator[Session]:
    """A fresh repository, closed at the end, of which nothing stays."""
    environment = SweEnvironment(world)
    before = files()
    try:
        yield Session(environment, (await environment.reset()).text)
    finally:
        worker = environment._worker
        processes = family(worker.sandbox._process.pid) if worker else set()
        await environment.close()
        assert left_of(processes, 0) == set()
        assert files() == before


def world_of(**state: Any) -> World:
    return World(name="other", domain="swe", initial_state={"user": "ana", "host": "box", **state})


# What it is.


@pytest.mark.anyio
async def test_it_keeps_the_contract_of_an_environment() -> None:
    actions = [
        action("run_shell_command", command="git log --oneline && echo 'x = 1' >> main.py"),
        action("edit", file_path="main.py", old_string="x * 2", new_string="x + x"),
        action("run_shell_command", command="git commit -qam more && git rev-parse HEAD"),
        action("search_file_content", pattern="x"),
    ]
    found = await check_environment(lambda: SweEnvironment(WORLD), actions, invalid_action='{"name": "run"}')
    assert found.agreement == 1.0


@pytest.mark.anyio
async def test_it_says_what_it_is_and_nothing_of_this_machine() -> None:
    async with opened() as session:
        environment = session.environment
        assert isinstance(environment, Environment)
        assert isinstance(environment, HasOrigin)
        assert environment.origin.kind == "real"
        assert "pytest" in environment.origin.version
        assert session.first == f"The repository is in {ROOT}:\ntests/\ndata.bin\nmain.py"
        assert initial_observation(environment.world).text == session.first
        assert SWE.problems(environment.world) == []
        told = (
            environment.world.model_dump_json()
            + (await session.run("env; python -c 'import sys; print(sys.path)'")).stdout
        )
        assert sys.prefix not in told
        assert str(Path.home()) + "/" not in told.replace("/home/ana/", "")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"sdst": "toolz==1.0"}, "'sdist'"),
        ({"sdist": "toolz>=1"}, "name one version, NAME==VERSION"),
        ({"cwd": "~/app"}, "no file under the repository"),
        ({"sdist": "toolz==1.0", "folder": "."}, "both sdist and folder"),
        ({"folder": "/nonexistent/x"}, "no folder /nonexistent/x"),
        ({"files": {"usr/x": "", "/usr/y": ""}, "cwd": "~/usr"}, "/usr/y cannot be there"),
    ],
)
async def test_a_wrong_initial_state_is_told(state: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        await SweEnvironment(world_of(**state)).reset()


@pytest.mark.anyio
async def test_worlds_that_cannot_be_real_are_refused() -> None:
    with pytest.raises(InputError, match="'terminal'"):
        SweEnvironment(WORLD.model_copy(update={"domain": "terminal"}))
    with pytest.raises(InputError, match="default tools"):
        await SweEnvironment(WORLD.model_copy(update={"tools": SWE.tools(WORLD)})).reset()
    with pytest.raises(SetupError, match="pip install no-such-package"):
        await SweEnvironment(
            WORLD.model_copy(update={"initial_state": {**STATE, "packages": ["no-such-package"]}})
        ).reset()


@pytest.mark.anyio
async def test_a_setup_command_that_fails_is_told_in_its_words() -> None:
    environment = SweEnvironment(WORLD.model_copy(update={"initial_state": {**STATE, "setup": ["ls /nowhere"]}}))
    with pytest.raises(SetupError, match="cannot access '/nowhere'"):
        await environment.reset()
    await environment.close()


# Commands.


@pytest.mark.anyio
async def test_a_command_tells_output_errors_code_and_signal_apart() -> None:
    async with opened() as session:
        result = await session.run("echo out; echo err >&2; exit 3", directory="tests")
        assert (result.stdout, result.stderr, result.exit_code, result.error) == ("out", "err", 3, None)
        assert result.directory == f"{ROOT}/tests"
        result = await session.run("kill -TERM $$")
        assert (result.exit_code, result.signal) == (None, "SIGTERM")
        result = await session.run("true", directory="nowhere")
        assert (result.exit_code, result.error) == (None, f"folder not found: {ROOT}/nowhere")
        assert (await session.run("cat")).stdout == ""
        assert (await session.run("python -m pytest -q tests | tail -n 1")).stdout.startswith("1 passed in ")


@pytest.mark.anyio
async def test_a_command_that_takes_too_long_ends_with_all_that_it_started() -> None:
    async with opened() as session:
        server = await session.run("exec sleep 900", is_background=True)
        command = "echo begun; (setsid sleep 901 &); sleep 902 & while :; do :; done"
        result = await session.run(command, timeout=1)
        assert (result.stdout, result.error) == ("begun", "timed out after 1 s")
        assert (result.exit_code, result.signal, result.background_pids) == (None, "SIGKILL", ())
        alive = (await session.run("ps -eo args=")).stdout
        assert "sleep 900" in alive
        assert "sleep 901" not in alive
        assert "sleep 902" not in alive
        assert (await session.run(f"kill {server.background_pids[0]} && sleep 0.1; ps -eo args=")).stdout.count(
            "sleep 900"
        ) == 0


@pytest.mark.anyio
async def test_what_a_command_leaves_running_is_told_and_can_be_ended() -> None:
    async with opened() as session:
        result = await session.run("sleep 903 & echo $!")
        assert result.background_pids == (int(result.stdout),)
        result = await session.run(f"kill {result.stdout}; echo done")
        assert (result.stdout, result.background_pids) == ("done", ())


@pytest.mark.anyio
async def test_a_flood_is_stopped_and_shown_in_part() -> None:
    world = WORLD.model_copy(update={"limits": WORLD.limits.model_copy(update={"output_kib": 64})})
    async with opened(world) as session:
        result = await session.run("yes")
        assert (result.error, result.signal) == ("stopped: it wrote more than 64 KiB", "SIGKILL")
        assert "[lines 101-32668 of 32768 left out]" in result.stdout
        assert (await session.run("seq 300")).stdout.split("\n")[99:102] == [
            "100",
            "[lines 101-200 of 300 left out]",
            "201",
        ]


@pytest.mark.anyio
async def test_the_machine_cannot_be_ended_or_spoken_for_from_inside() -> None:
    async with opened() as session:
        result = await session.run(
            "kill -9 1; kill -INT 1; kill -TERM 1; echo '{}' > /proc/1/fd/1; ls /proc/1/fd; echo on"
        )
        assert result.stdout == "on"
        assert "Permission denied" in result.stderr
        await session.run(":(){ :|:& };:", timeout=2)
        # The bomb goes on in the background. While it holds every process that there may be, none can be started, and
        # that is said.
        for _ in range(20):
            result = await session.run("echo still here")
            assert (
                result.stdout == "still here" or "Resource temporarily unavailable" in f"{result.error}{result.stderr}"
            )


@pytest.mark.anyio
async def test_commits_have_the_worlds_time_and_a_minute_for_each_turn() -> None:
    async with opened() as session:
        await session.use("list_directory", path=".")
        await session.run("git commit -q --allow-empty -m second")
        dates = (await session.run("git log --format=%aI")).stdout
        assert dates == "2026-01-15T09:02:00+00:00\n2026-01-15T09:00:00+00:00"


# The file tools.


@pytest.mark.anyio
async def test_the_file_tools_answer_in_the_domains_forms() -> None:
    async with opened() as session:
        use = session.use
        assert await use("read_file", file_path="main.py") == MAIN.rstrip("\n")
        assert await use("read_file", file_path="main.py", offset=1, limit=1) == "[lines 2-2 of 2]\n    return x * 2"
        assert await use("write_file", file_path="a/b/c.py", content="x = 1\n") == f"Created {ROOT}/a/b/c.py (1 line)."
        assert await use("edit", file_path="a/b/c.py", old_string="1", new_string="2\ny = 3") == (
            f"Edited {ROOT}/a/b/c.py: 1 replacement."
        )
        assert (await session.run("cat a/b/c.py")).stdout == "x = 2\ny = 3"
        assert await use("list_directory", path="~/app") == f"{ROOT}:\na/\ntests/\ndata.bin\nmain.py"
        assert await use("glob", pattern="**/*.py") == "\n".join(
            [
                f'3 files match "**/*.py" in {ROOT}:',
                *(f"{ROOT}/{name}" for name in ("a/b/c.py", "main.py", "tests/test_main.py")),
            ]
        )
        assert await use("search_file_content", pattern="double", include="*.py") == "\n".join(
            [
                f'4 matches for "double" in {ROOT}:',
                "main.py:1: def double(x):",
                "tests/test_main.py:1: from main import double",
                "tests/test_main.py:4: def test_double():",
                "tests/test_main.py:5:     assert double(2) == 4",
            ]
        )


@pytest.mark.anyio
async def test_the_file_tools_say_in_one_line_what_is_wrong() -> None:
    async with opened() as session:
        await session.run(
            "mkfifo pipe; printf '\\377\\376' > bytes; mkdir -m 0 shut; head -c 17M /dev/zero > large; ln -s loop loop"
        )
        cases = [
            ("read_file", {"file_path": "none.py"}, f"file not found: {ROOT}/none.py"),
            ("read_file", {"file_path": "tests"}, f"not a file: {ROOT}/tests"),
            ("read_file", {"file_path": "pipe"}, f"not a regular file: {ROOT}/pipe"),
            ("read_file", {"file_path": "bytes"}, f"not a text file: {ROOT}/bytes"),
            ("read_file", {"file_path": "large"}, f"larger than 16 MiB: {ROOT}/large"),
            ("read_file", {"file_path": "loop"}, f"too many levels of symbolic links: {ROOT}/loop"),
            ("read_file", {"file_path": "a\0b"}, f"embedded null byte: {ROOT}/a\0b"),
            ("write_file", {"file_path": "/usr/x", "content": ""}, "read-only file system: /usr/x"),
            ("write_file", {"file_path": "tests", "content": ""}, f"not a regular file: {ROOT}/tests"),
            ("write_file", {"file_path": "main.py/x", "content": ""}, f"not a folder: {ROOT}/main.py/x"),
            ("edit", {"file_path": "none", "old_string": "y", "new_string": ""}, f"file not found: {ROOT}/none"),
            ("list_directory", {"path": "main.py"}, f"not a folder: {ROOT}/main.py"),
            ("list_directory", {"path": "shut"}, f"permission denied: {ROOT}/shut"),
            ("glob", {"pattern": "*", "path": "none"}, f"folder not found: {ROOT}/none"),
            ("search_file_content", {"pattern": "*"}, "not a regular expression: nothing to repeat at position 0"),
        ]  # fmt: skip
        for tool, arguments, words in cases:
            assert await session.use(tool, **arguments) == f"Error: {words}", (tool, arguments)


@pytest.mark.anyio
async def test_a_search_that_never_ends_is_ended() -> None:
    limits = WORLD.limits.model_copy(update={"step_seconds": 1})
    async with opened(WORLD.model_copy(update={"limits": limits})) as session:
        await session.use("write_file", file_path="a.txt", content="a" * 40)
        text = await session.use("search_file_content", pattern="(a+)+b")
        assert text == f"Error: timed out after 1 s: {ROOT}"
        assert (await session.run("ps -e -o args=")).stdout.count("run.py") == 1


@given(
    st.lists(st.text(st.characters(blacklist_characters="\n", blacklist_categories=["Cs"]), max_size=90), max_size=500)
)
def test_output_is_shown_whole_or_with_its_beginning_and_end(lines: list[str]) -> None:
    output = "\n".join(lines)
    shown = shorten(output + "\n")
    if len(lines) <= OUTPUT_LINES and len(output) <= OUTPUT_CHARACTERS:
        assert shown == output
        return
    assert len(shown) <= OUTPUT_CHARACTERS + 100
    found = re.search(r"^\[lines (\d+)-(\d+) of (\d+) left out\]$", shown, re.MULTILINE)
    assert found
    first, last, total = map(int, found.groups())
    assert total == len(lines)
    assert shown == "\n".join([*lines[: first - 1], found[0], *lines[last:]])


# Source distributions.

BUILD = """
import pathlib
pathlib.Path({marker!r}).write_text("the project's code ran")
raise SystemExit("no")
"""


def archive(path: Path, members: dict[str, str], marker: Path) -> Path:
    """A source distribution whose build would leave a mark."""
    given = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": BUILD.format(marker=str(marker)),
        "setup.py": BUILD.format(marker=str(marker)),
        "PKG-INFO": "Metadata-Version: 2.1\nName: Tiny.Thing\nVersion: 1.0\nLicense-Expression: MIT\n",
        **members,
    }
    with tarfile.open(path, "w:gz") as tar:
        for name, text in given.items():
            info = tarfile.TarInfo(f"{path.name.removesuffix('.tar.gz')}/{name}")
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package index on loopback, which is all that pip is told of; its folder of archives."""
    folder = tmp_path / "index" / "tiny-thing"
    folder.mkdir(parents=True)
    made = archive(
        folder / "tiny_thing-1.0.tar.gz", {"tiny/__init__.py": "ONE = 1\n", "run": "#!/bin/sh\n"}, tmp_path / "ran"
    )
    (folder / "index.html").write_text(f'<a href="{made.name}">{made.name}</a>')
    with served(tmp_path / "index") as address:
        monkeypatch.setenv("PIP_INDEX_URL", address)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("WORLDLM_HOME", str(tmp_path / "home"))
        yield folder
    assert not (tmp_path / "ran").exists()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.anyio
async def test_a_repository_comes_from_a_source_distribution(index: Path) -> None:
    world = world_of(sdist="tiny.thing==1.0")
    async with opened(world) as session:
        root = "/home/ana/tiny.thing"
        assert session.first.startswith(f"The repository is in {root}:\ntiny/\nPKG-INFO\n")
        environment = session.environment
        assert environment.origin.licence == "MIT"
        notes = environment.world.initial_state["notes"]  # type: ignore[index]
        assert "tiny/__init__.py (1)" in notes
        assert (await session.run("git status --short && git log --format=%s")).stdout == "Import"
        told = await session.run(
            "cd / && python -c 'import tiny, importlib.metadata as m; print(tiny.ONE, m.version(\"tiny.thing\"))'"
        )
        assert told.stdout == "1 1.0"
        assert (await session.run("./run && echo ran")).stdout == "ran"
        commit = (await session.run("git rev-parse HEAD")).stdout
    (index / "tiny_thing-1.0.tar.gz").unlink()  # from here on it is kept
    async with opened(world) as session:
        assert (await session.run("git rev-parse HEAD")).stdout == commit


def test_a_source_distribution_is_what_it_should_be(index: Path) -> None:
    digest = hashlib.sha256((index / "tiny_thing-1.0.tar.gz").read_bytes()).hexdigest()
    path = sdists.obtain("Tiny-Thing==1.0", digest)
    assert path == sdists.location("tiny_thing==1.0")
    with pytest.raises(SetupError, match=r"is not the tiny-thing==1\.0 that the world was made with"):
        sdists.obtain("tiny-thing==1.0", "0" * 64)
    assert sorted(entry.name for entry in path.parent.iterdir()) == [
        "tiny-thing-1.0.tar.gz",
        "tiny-thing-1.0.tar.gz.lock",
    ]


def test_a_source_distribution_comes_from_a_folder_too(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    assert sdists.obtain("tiny-thing==1.0").read_bytes() == (index / "tiny_thing-1.0.tar.gz").read_bytes()


@pytest.mark.usefixtures("index")
def test_a_source_distribution_that_cannot_be_had_is_told(index: Path) -> None:
    with pytest.raises(SetupError, match=r"tiny-thing==2\.0: .*No matching distribution.*put its \.tar\.gz at "):
        sdists.obtain("tiny-thing==2.0")
    with pytest.raises(SetupError, match="other-thing==1"):
        sdists.obtain("other-thing==1")
    for text in ("tiny-thing", "tiny-thing>=1", "../x==1", "tiny==../../x", "-e==1", ""):
        with pytest.raises(InputError, match="NAME==VERSION"):
            sdists.obtain(text)


def _link(tar: tarfile.TarFile, name: str, target: str) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    tar.addfile(info)


def _file(tar: tarfile.TarFile, name: str, data: bytes = b"x") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
    return info


@pytest.mark.parametrize(
    "fill",
    [
        lambda tar: _file(tar, "a/../../b"),
        lambda tar: _link(tar, "a/b", "/etc/passwd"),
        lambda tar: _link(tar, "a/b", "../../x"),
        lambda tar: _link(tar, "a/b", "none"),
        lambda tar: (_file(tar, "a/1"), _file(tar, "a/2"), _file(tar, "a/3")),
        lambda tar: None,
    ],
    ids=["outside", "link to the host", "link outside", "link to nothing", "many", "empty"],
)
def test_an_archive_that_is_not_well_is_refused(
    fill: Callable[[tarfile.TarFile], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdists, "MAX_FILES", 2)
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        fill(tar)
    with pytest.raises(SetupError, match=r"does not unpack|holds more than"):
        sdists.unpack(path)


def test_links_within_an_archive_are_copies_and_a_damaged_one_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        _file(tar, "a/x.py", os.urandom(2000))
        _link(tar, "a/y.py", "x.py")
    unpacked = sdists.unpack(path)
    assert unpacked["x.py"] == unpacked["y.py"]
    for damaged in (path.read_bytes()[:500], b"no archive"):
        path.write_bytes(damaged)
        with pytest.raises(SetupError, match="delete it to fetch it again"):
            sdists.unpack(path)


@pytest.mark.anyio
async def test_a_repository_comes_from_a_folder_without_its_history_and_what_git_ignores(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, text in {"a.py": "A = 1\n", ".gitignore": "*.log\n", "b.log": "secret\n"}.items():
        (folder / name).write_text(text)
    await anyio.run_process(["git", "init", "-q", str(folder)])
    async with opened(world_of(folder=str(folder))) as session:
        assert session.first == "The repository is in /home/ana/mine:\n.gitignore\na.py"
        assert (await session.run("git log --format='%an %s'")).stdout == "ana Import"
        assert str(tmp_path) not in session.environment.world.model_dump_json()
        await session.use("write_file", file_path="a.py", content="")
    assert (folder / "a.py").read_text() == "A = 1\n"


@pytest.mark.parametrize("name", [name for name in world_files() if name.startswith("swe-")])
def test_shipped_worlds_pin_their_repository(name: str) -> None:
    world = load_world(str(world_files()[name]))
    assert world.name == name
    assert isinstance(make_environment(world), SweEnvironment)
    assert isinstance(world.initial_state, dict)
    sdists.parse_requirement(world.initial_state["sdist"])
    assert re.fullmatch("[0-9a-f]{64}", world.initial_state["sha256"])


# Ends.


@pytest.mark.anyio
async def test_closing_during_a_step_is_a_cancelled_step() -> None:
    async with opened() as session:
        found: list[Step] = []

        async def act() -> None:
            found.append(await session.step("run_shell_command", command="sleep 60"))

        async with anyio.create_task_group() as group:
            group.start_soon(act)
            await anyio.sleep(0.3)
            await session.environment.close()
        assert found[0].outcome is Outcome.CANCELLED


@pytest.mark.anyio
async def test_the_episodes_time_ends_it() -> None:
    limits = WORLD.limits.model_copy(update={"episode_seconds": 3})
    async with opened(WORLD.model_copy(update={"limits": limits})) as session:
        step = await session.step("run_shell_command", command="sleep 60")
        assert (step.outcome, step.truncated) == (Outcome.TIMED_OUT, True)
        assert (await session.step("list_directory", path=".")).outcome is Outcome.INVALID_ACTION


HOLDER = """
import asyncio, sys
from tests.real.test_swe import WORLD, action
from worldlm.real.swe import SweEnvironment

async def main():
    environment = SweEnvironment(WORLD)
    await environment.reset()
    await environment.step(action("run_shell_command", command="exec sleep 900", is_background=True))
    print("ready", flush=True)
    await environment.step(action("run_shell_command", command="sleep 901 & sleep 902"))

asyncio.run(main())
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_when_whoever_runs_it_is_ended(how: signal.Signals) -> None:
    before = files()
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        processes = family(holder.pid)
        assert len(processes) > 3
        holder.send_signal(how)
    assert left_of(processes) == set()
    assert files() == before
