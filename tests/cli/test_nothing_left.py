"""However a collection ends, in whatever domain: no process, no listening port, no temporary folder stays."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from worldlm.core.errors import SetupError
from worldlm.core.jsonl import read_trajectories
from worldlm.core.types import DOMAIN_NAMES, DomainName
from worldlm.real import make_environment, world_files
from worldlm.simulate import load_world

# What others leave in the temporary folder meanwhile would be taken for ours.
pytestmark = pytest.mark.alone
PR_SET_CHILD_SUBREAPER = 36
COLLECTED = [name for name in DOMAIN_NAMES if name != "android"]  # which wants a device
LIKE_OTHERS = ("swe", "mcp", "search")
"""What stands between a kill and their processes is the terminal's sandbox; search has none."""


@pytest.fixture
def reaper() -> Iterator[None]:
    """Whatever a child leaves behind becomes a child of this process, and is found."""
    libc = ctypes.CDLL(None)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    ahead = [pid]
    while ahead:
        # What ends while it is looked at has no children any more.
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{ahead.pop()}/task").iterdir():
                with contextlib.suppress(OSError):
                    children = {int(child) for child in (task / "children").read_text().split()}
                    ahead += children - found
                    found |= children
    return found


def listening(pids: set[int]) -> set[str]:
    """TCP addresses of this machine on which these processes listen."""
    held = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for fd in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    held.add(str(fd.readlink()))
    lines = [line.split() for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()]
    return {fields[1] for fields in lines if fields[3] == "0A" and f"socket:[{fields[9]}]" in held}


def temporary_files() -> set[Path]:
    """What lies in this machine's temporary folders that could be a collection's."""
    names = ("worldlm", "tmux", "playwright", "chrom", "miniwob", "mcp", "soffice", "dbus", "X11", "adb")
    folders = map(Path, ("/tmp", "/var/tmp", "/dev/shm", "/run"))
    return {path for folder in folders for path in folder.iterdir() if any(name in path.name for name in names)}


def named(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:120]
    return "?"


ENDINGS = [
    pytest.param(
        domain,
        ending,
        id=f"{domain}-{ending.name}",
        marks=[pytest.mark.long] if ending is signal.SIGKILL and domain in LIKE_OTHERS else [],
    )
    for domain in COLLECTED
    for ending in (signal.SIGINT, signal.SIGKILL)
]


@pytest.mark.parametrize(("domain", "ending"), ENDINGS)
@pytest.mark.usefixtures("reaper")
def test_nothing_is_left_of_a_collection(domain: DomainName, ending: signal.Signals, tmp_path: Path) -> None:
    worlds = [str(path) for name, path in world_files().items() if name.startswith(f"{domain}-")]
    try:
        for path in worlds:
            make_environment(load_world(path))
    except SetupError as error:
        pytest.skip(str(error))
    temporary, out = tmp_path / "temporary", tmp_path / "real.jsonl"
    temporary.mkdir()
    before = temporary_files()
    ours = descendants(os.getpid())
    # Short episodes, so that one is soon done and others run.
    collect = ["collect", domain, "--episodes", "200", "--turns", "6", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "worldlm.cli.main", *collect],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    assert process.stderr is not None
    deadline = time.monotonic() + 120
    while not (out.exists() and out.stat().st_size):
        if process.poll() is not None:
            told = process.stderr.read().decode()
            assert "apt-get install" in told or "pip install" in told, told
            pytest.skip(told.strip())
        assert time.monotonic() < deadline, f"no episode of {domain} in two minutes"
        time.sleep(0.05)
    running = descendants(os.getpid()) - ours - {process.pid}
    assert running or domain == "search", "nothing runs: there is nothing to be left"
    assert listening(running | {process.pid}) == set(), "a collection opens no port of the host"
    process.send_signal(ending)
    process.wait(30)
    process.stderr.close()

    end = time.monotonic() + 15
    left = descendants(os.getpid()) - ours
    while left and time.monotonic() < end:
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        left = descendants(os.getpid()) - ours
        time.sleep(0.05)
    assert {named(pid) for pid in left} == set()
    assert list(temporary.iterdir()) == []
    assert temporary_files() <= before
    assert len(read_trajectories(out).items) >= 1
