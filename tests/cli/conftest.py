"""A world, a server that plays it, and two ways to run the program: in this process and in its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.cli_kit import WORLD, Cli, Result
from tests.cli.shell_server import ShellServer, shell_server
from worldlm.cli import main


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    """Runs the command line in this process."""

    def run(*arguments: object) -> Result:
        code = main.run([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Result(code, out, err)

    return run


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts the program in a process of its own, with pipes."""
    started = []
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONWARNINGS": "error"}

    def popen(*arguments: object) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "worldlm.cli.main", *map(str, arguments)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env, cwd=tmp_path)
        started.append(process)
        return process

    yield popen
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def pipe(start: Callable[..., "subprocess.Popen[str]"]) -> Cli:
    """Runs the program in a process of its own, with lines on stdin."""

    def run(*arguments: object, lines: str = "") -> Result:
        process = start(*arguments)
        out, err = process.communicate(lines, timeout=60)
        return Result(process.returncode, out, err)

    return run


@pytest.fixture
def world(tmp_path: Path) -> Path:
    path = tmp_path / "box.yaml"
    path.write_text(WORLD)
    return path


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.txt"
    path.write_text("# a comment\npwd\necho hi\n")
    return path


@pytest.fixture(scope="session")
def server() -> Iterator[ShellServer]:
    with shell_server() as server:
        yield server


@pytest.fixture
def model(server: ShellServer) -> str:
    server.requests.clear()
    return server.spec
