"""However hostile the command: the host is untouched, and nothing is left behind."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.terminal_session import WORLD, Session, family, files, left_of, opened, typed, world_with
from worldlm.core.outcomes import Outcome
from worldlm.domains.terminal import TERMINAL, interrupted
from worldlm.real.sandbox import system_call_filter
from worldlm.real.terminal import TerminalEnvironment

pytestmark = pytest.mark.usefixtures("terminal_programs", "nothing_left")
PROMPT = "ana@box:~/app$"


@pytest.fixture
def nothing_left() -> Iterator[None]:
    before = files()
    yield
    assert files() <= before


async def usable(terminal: Session) -> None:
    """The terminal still answers."""
    await terminal.keys(("C-c", 5.0))
    rows = (await terminal.keys(("echo $((6 * 7))\n", 20))).split("\n")
    assert "42" in rows  # the shell's word that a job has ended may follow it
    assert rows[-1] == PROMPT


# Using too much.


@pytest.mark.anyio
async def test_a_fork_bomb_is_bounded_and_ends_with_the_sandbox() -> None:
    async with opened(world_with(processes=24)) as terminal:
        text = await terminal.keys((":(){ :|:& };:\n", 1.5))
        sandbox = terminal.environment._sandbox
        assert sandbox is not None
        assert len(sandbox.processes()) <= 24
        text += await terminal.keys(("", 1.0))
        assert "Resource temporarily unavailable" in text


@pytest.mark.anyio
async def test_one_process_cannot_hold_more_memory_than_its_limit() -> None:
    async with opened(world_with(memory_mib=64)) as terminal:
        assert "MemoryError" in await terminal.keys(("python3 -c 'x = bytearray(1 << 28)'\n", 20))
        await usable(terminal)


@pytest.mark.anyio
async def test_many_processes_together_cannot_either() -> None:
    hog = "import time; x = bytearray(b'x') * (40 << 20); time.sleep(60)"
    async with opened(world_with(memory_mib=100)) as terminal:
        command = f'for i in 1 2 3 4; do python3 -c "{hog}" & done; wait'
        assert "Killed" in await terminal.keys((command + "\n", 2.5), ("C-c", 5))
        await usable(terminal)


@pytest.mark.anyio
async def test_shared_memory_counts() -> None:
    hog = (
        "import mmap, time; m = mmap.mmap(-1, 300 << 20); [m.write(bytes(1 << 20)) for _ in range(300)]; time.sleep(60)"
    )
    async with opened(world_with(memory_mib=100)) as terminal:
        assert "Killed" in await terminal.keys((f'python3 -c "{hog}"\n', 20))
        await usable(terminal)


_KERNEL_MEMORY = {
    "page tables": """
import mmap, time
for block in range(16):
    m = mmap.mmap(-1, 16 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
    m.madvise(15)
    for i in range(0, 16 << 30, 2 << 20): m[i]
    globals()[f"keep{block}"] = m
print("all of it")
""",
    "sockets": """
import socket
keep = []
for i in range(400):
    keep += socket.socketpair()
    for s in keep[-2:]:
        s.setblocking(False)
        try:
            while True: s.send(bytes(60000))
        except BlockingIOError: pass
input()
""",
}


@pytest.mark.anyio
@pytest.mark.parametrize("script", _KERNEL_MEMORY.values(), ids=list(_KERNEL_MEMORY))
async def test_what_the_kernel_holds_for_a_process_counts(script: str) -> None:
    state = {"user": "ana", "cwd": "~/app", "files": {"app/hog.py": script}}
    async with opened(world_with(memory_mib=100).model_copy(update={"initial_state": state})) as terminal:
        text = await terminal.keys(("python3 hog.py\n", 30))
        assert "Killed" in text
        await usable(terminal)


@pytest.mark.anyio
async def test_sequences_that_make_tmux_hold_memory_end_the_sandbox_and_not_the_host() -> None:
    script = 'print(end="\\x1b]2;" + "A" * 900_000 + "\\a" + "\\x1b[22;0t" * 300_000)'
    state = {"user": "ana", "cwd": "~/app", "files": {"app/titles.py": script}}
    async with opened(WORLD.model_copy(update={"initial_state": state})) as terminal:
        step = await terminal.step(("python3 titles.py\n", 20))
        assert step.outcome is Outcome.INFRASTRUCTURE_FAILED
        assert "tmux has ended" in (step.detail or "")


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["~/fill", "/tmp/fill", "/dev/shm/fill", "/var/tmp/fill"])
async def test_filling_the_disk_gives_the_ordinary_error(path: str) -> None:
    async with opened(world_with(disk_mib=8)) as terminal:
        command = f"for i in 1 2 3 4 5 6; do head -c 2M /dev/zero > {path}$i; done"
        assert "No space left on device" in await terminal.keys((command + "\n", 20))
        assert "No space left" not in await terminal.keys((f"rm {path}*; echo room > {path}\n", 20))
        await usable(terminal)


@pytest.mark.anyio
async def test_there_is_nowhere_else_to_write() -> None:
    async with opened() as terminal:
        text = await terminal.keys(
            ("for d in / /dev /etc /usr /usr/local /run /root /home /proc/sys/kernel; do\n", 1.0)
        )
        text = await terminal.keys((" (echo x > $d/probe) 2>/dev/null && echo WROTE $d\ndone; echo tried\n", 20))
        assert "tried\n" in text
        assert "\nWROTE" not in text
        assert "hostname" in await terminal.keys(("echo evil > /proc/sys/kernel/hostname\n", 9))
        assert "\nbox\n" in await terminal.keys(("hostname\n", 9))


@pytest.mark.anyio
async def test_endless_files_are_counted_as_memory() -> None:
    async with opened(world_with(memory_mib=32)) as terminal:
        make = "import os\\nfor i in range(10**7): os.close(os.open(f'f{i}', os.O_CREAT))"
        step = await terminal.step((f'python3 -c "$(printf "{make}")"\n', 20))
        ended = step.observation is not None and re.search("Killed|No space left", step.observation.text)
        assert ended or step.outcome is Outcome.INFRASTRUCTURE_FAILED, step


@pytest.mark.anyio
async def test_endless_output_is_interrupted_and_says_so() -> None:
    async with opened(world_with(output_kib=256)) as terminal:
        step = await terminal.step(("yes\n", 60))
        assert terminal.text(step).split("\n")[0] == interrupted(256)
        assert step.observation is not None
        call = TERMINAL.parse_action(typed(("yes\n", 60)), WORLD)
        assert all(check.passed for check in TERMINAL.check(WORLD, (), call, step.observation))
        assert len(step.observation.text.split("\n")) <= 42
        assert step.observation.raw is None or len(step.observation.raw) < 80_000
        await usable(terminal)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "script",
    [
        "trap '' INT TERM\nwhile :; do echo deaf; done\n",
        "trap '' INT\nexec yes\n",
        "trap '' INT\nwhile :; do printf 'one row\\r'; done\n",
        "setsid yes &\nsleep 50\n",
        "yes & yes & yes & wait\n",
    ],
)
async def test_output_that_ignores_the_interrupt_is_ended(script: str) -> None:
    files = {"user": "ana", "cwd": "~/app", "files": {"app/flood.sh": script}}
    world = world_with(output_kib=128).model_copy(update={"initial_state": files})
    async with opened(world) as terminal:
        text = terminal.text(await terminal.step(("bash flood.sh\n", 60)))
        assert text.split("\n")[0] == interrupted(128)
        await terminal.step(("", 0.5))
        await usable(terminal)


@pytest.mark.anyio
async def test_a_flood_between_steps_does_not_grow_our_memory() -> None:
    async with opened(world_with(output_kib=64)) as terminal:
        await terminal.keys(("(sleep 0.3; yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx) &\n", 9))
        await asyncio.sleep(1.0)
        assert (await terminal.keys(("echo x\n", 9))).split("\n")[0] == interrupted(64)
        await usable(terminal)


# Getting out.


@pytest.mark.anyio
async def test_there_is_no_network_but_a_loopback_of_its_own() -> None:
    probe = (
        "import socket\nfor host in ('1.1.1.1', '169.254.169.254', 'example.org'):\n"
        "  try: socket.create_connection((host, 80), 2); print('REACHED')\n"
        "  except OSError as error: print('no:', error)\n"
        "s = socket.create_server(('127.0.0.1', 8000)); socket.create_connection(('127.0.0.1', 8000))\n"
        "print('own loopback')\n"
    )
    world = WORLD.model_copy(update={"initial_state": {"user": "ana", "files": {"probe.py": probe}}})
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "0"],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as server:
        assert server.stdout is not None
        port = server.stdout.readline().split("port ")[1].split()[0]
        async with opened(world) as terminal:
            text = await terminal.keys(("python3 probe.py\n", 30))
            assert text.count("no:") == 3
            assert "own loopback" in text
            assert "REACHED" not in text
            host = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'"
            assert "refused" in await terminal.keys((host + "\n", 9))
        server.terminate()


@pytest.mark.anyio
async def test_nothing_of_the_host_can_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("host-secret-1")
    monkeypatch.setenv("WORLDLM_TEST_SECRET", "host-secret-2")
    async with opened() as terminal:
        text = await terminal.keys((f"cat {secret}; ls /work /root /mnt /opt /srv /home; ls -d /proc/[0-9]*; env\n", 9))
        assert "host-secret" not in text
        assert "\nana\n" in text
        for command in (
            "cat /etc/shadow",
            "cat /proc/1/environ",
            "cat /proc/1/root/etc/shadow",
            "ls /run",
            "cat /etc/passwd",
        ):
            shown = await terminal.keys((command + "\n", 9))
            assert "host-secret" not in shown
            assert "/tmp/pytest" not in shown
        ids = await terminal.keys(("ps -e -o pid= | sort -n | tail -n 1\n", 9))
        assert int(ids.split("\n")[1]) < 1000
        assert f"/{Path.cwd().name}" not in await terminal.keys(("cat /proc/self/mountinfo | cut -c1-100\n", 9))


@pytest.mark.anyio
async def test_privileges_cannot_be_gained() -> None:
    async with opened() as terminal:
        for command, words in {
            "unshare -Ur id": "unshare failed",
            "mount -t tmpfs none /mnt": "mount",
            "bwrap --ro-bind / / id": "bwrap:",
            "chroot / id": "not permitted",
            "mknod /tmp/sda b 8 0": "not permitted",
            "kill -9 1; cat /proc/1/comm": "\nbwrap\n",
            "date -s 2001-01-01": "cannot set date",
            "hostname evil": "hostname:",
            "dmesg": "not permitted",
            "chown 0 a.txt": "chown",
        }.items():
            text = await terminal.keys((command + "\n", 9))
            assert words in text or "not found" in text, text
            assert "uid=0" not in text
        status = await terminal.keys(("grep -E '^(Cap|NoNew)' /proc/self/status\n", 9))
        assert status.count("0000000000000000") == 5
        assert re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE)
        await usable(terminal)


@pytest.mark.anyio
async def test_system_calls_beyond_a_shell_users_need_are_refused() -> None:
    if system_call_filter() is None:
        pytest.skip("needs a system library: apt-get install libseccomp2")
    probe = (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "for name, args in (('ptrace', (0, 0, 0, 0)), ('unshare', (0x10000000,)), ('setns', (0, 0)),\n"
        "        ('mount', (0, 0, 0, 0, 0)), ('memfd_create', (b'x', 0)), ('shmget', (0, 4096, 0o1600)),\n"
        "        ('semget', (0, 9, 0o1600)), ('msgget', (0, 0o1600))):\n"
        "  print(name, getattr(libc, name)(*args), ctypes.get_errno())\n"
    )
    world = WORLD.model_copy(update={"initial_state": {"user": "ana", "files": {"probe.py": probe}}})
    async with opened(world) as terminal:
        text = await terminal.keys(("python3 probe.py\n", 9))
        for name, number in {
            "ptrace": 1,
            "unshare": 1,
            "setns": 1,
            "mount": 1,
            "memfd_create": 38,
            "shmget": 1,
            "semget": 1,
            "msgget": 1,
        }.items():
            assert f"\n{name} -1 {number}" in text


@pytest.mark.anyio
async def test_processes_outside_cannot_be_reached() -> None:
    victim = subprocess.Popen(["sleep", "60"])  # noqa: ASYNC220
    try:
        async with opened() as terminal:
            await terminal.keys((f"kill -9 {victim.pid}; kill -9 -- -1\n", 2.0))
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


# Leaving something behind.


@pytest.mark.anyio
async def test_daemons_end_with_the_sandbox() -> None:
    async with opened() as terminal:
        await terminal.keys(("setsid nohup bash -c 'exec -a sandboxed-daemon sleep 1000' > /dev/null 2>&1 &\n", 5))
        await terminal.keys(("(trap '' HUP TERM INT; exec -a sandboxed-deaf sleep 1000) & disown\n", 5), ("", 0.3))
        assert "sandboxed-daemon" in await terminal.keys(("ps -ef | grep [s]andboxed\n", 5))


@pytest.mark.anyio
async def test_a_time_out_ends_what_runs() -> None:
    async with opened(world_with(episode_seconds=1)) as terminal:
        step = await terminal.step(("trap '' HUP TERM INT; while :; do :; done\n", 60))
        assert step.outcome is Outcome.TIMED_OUT


_CHILD = """
import asyncio, os, sys
from worldlm.core.types import World
from worldlm.real.terminal import TerminalEnvironment

async def main():
    environment = TerminalEnvironment(World(name="box", domain="terminal", initial_state={"user": "ana"}))
    await environment.reset()
    await environment.step(sys.argv[2])
    print("running", flush=True)
    if sys.argv[1] == "crash":
        os._exit(3)
    if sys.argv[1] == "forget":
        return
    await environment.step(sys.argv[3])

asyncio.run(main())
"""
_DAEMON = typed(("setsid nohup bash -c 'exec -a sandboxed-orphan sleep 1000' &\n", 5))
_DEAF = typed(("trap '' INT HUP TERM; sleep 100\n", 60))


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, "crash", "forget"])
def test_however_our_process_ends_nothing_is_left(ending: signal.Signals | str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _CHILD, str(ending), _DAEMON, _DEAF],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"running\n"
        processes = family(process.pid)
        if isinstance(ending, signal.Signals):
            assert len(processes) > 5
            time.sleep(0.2)
            processes |= family(process.pid)
            process.send_signal(ending)
        process.wait(20)
    assert left_of(processes) == set()


_STARTING = """
import asyncio, sys
from worldlm.core.types import World
from worldlm.real.terminal import TerminalEnvironment

async def main():
    world = World(name="box", domain="terminal", initial_state={"user": "ana"})
    print("starting", flush=True)
    sys.stdin.readline()
    await asyncio.gather(*(TerminalEnvironment(world).reset() for _ in range(2)))
    await asyncio.sleep(60)

asyncio.run(main())
"""


def inside_namespaces() -> set[int]:
    """Processes on this machine that have a process namespace of their own."""
    ours = Path("/proc/self/ns/pid").readlink()
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "ns/pid").readlink() != ours:
                found.add(int(folder.name))
    return found


def assert_gone(processes: set[int]) -> None:
    """They end soon."""
    end = time.monotonic() + 15
    while (left := processes & inside_namespaces()) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == set()


# Sandboxes that others have meanwhile would be taken for ours.
@pytest.mark.alone
def test_nothing_is_left_when_our_process_ends_while_a_sandbox_starts() -> None:
    before = inside_namespaces()
    endings = {0.0: signal.SIGINT, 0.01: signal.SIGTERM, 0.02: signal.SIGKILL, 0.04: signal.SIGKILL}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _STARTING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for _ in endings
    ]
    for process, (delay, ending) in zip(processes, endings.items(), strict=True):
        with process:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == b"starting\n"
            process.stdin.write(b"\n")
            process.stdin.flush()
            time.sleep(delay)
            process.send_signal(ending)
            process.wait(20)
    assert_gone(inside_namespaces() - before)


@pytest.mark.alone
@pytest.mark.anyio
async def test_nothing_is_left_of_starts_that_are_cancelled() -> None:
    before = inside_namespaces()
    for delay in range(0, 60, 5):
        environment = TerminalEnvironment(WORLD)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(environment.reset(), delay / 1000)
        await environment.close()
    assert_gone(inside_namespaces() - before)


def test_it_runs_as_an_ordinary_user_as_well() -> None:
    if os.geteuid() != 0:
        pytest.skip("the tests run as an ordinary user: all of them show it")
    system = f"/usr/bin/python3.{sys.version_info.minor}"
    for python in (sys.executable, system):
        try:
            done = subprocess.run(
                [python, "-W", "ignore", "-c", _CHILD, "forget", _DAEMON],
                capture_output=True,
                text=True,
                user=65534,
                group=65534,
                extra_groups=[],
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(path for path in sys.path if path)},
                timeout=60,
                check=False,
            )
        except OSError:
            continue
        assert done.stdout == "running\n", done.stderr
        return
    pytest.skip("an ordinary user cannot read this Python installation")
