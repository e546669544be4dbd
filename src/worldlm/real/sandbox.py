"""A sandbox that leaves nothing behind: bubblewrap, and in it bubblewrap again round the agent's machine.

The outer sandbox is a child of ours; its standard input and output are a pair of pipes to us. Of a terminal it holds
tmux, and the inner one is what runs in tmux's pane (`terminal_plan`). For everything else the inner one holds
a program that speaks with us over those pipes: a worker of ours, a server (`program_plan`). Whatever way our process
ends, the lifeline (a pipe of which only we have the other end) closes, and with it the outer process namespace ends;
with that the kernel ends every process inside, and all files were on a tmpfs of that namespace. No socket, folder or
process ever exists on the host's side.

What the agent's machine has: the host's `/usr`, read-only; an `/etc` of its own; home, `/tmp` and whatever
folders the world names, on one tmpfs of limited size; a loopback device and no network; one user
without privileges; no further user namespaces; a filter of system calls (when libseccomp is there).

Limits: processes, data memory, file size and CPU seconds by `prlimit` inside the inner user namespace (where Linux
counts processes since 5.14); disk by the size of the tmpfs; the sum of memory and the episode's time by a watching
thread. It is data memory and not address space, because runtimes reserve far more addresses than they use. Not
bounded: CPU time while the episode lasts, and small things that the kernel holds (pipes, locks, memory maps). Without
libseccomp the namespaces and limits hold just the same, but the refused system calls are open, and memory in unmapped
memfd files or in System V segments, semaphores and queues is not counted.
"""

import contextlib
import ctypes
import errno
import io
import json
import math
import os
import shlex
import shutil
import signal
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from worldlm.core.errors import InputError, SetupError
from worldlm.core.types import Limits
from worldlm.domains.files import FileState
from worldlm.domains.terminal import COLUMNS, ROWS
from worldlm.real.surroundings import HERE, PRELOADED, Surroundings
from worldlm.real.tmux import HISTORY, mark

PACKAGES = {"bwrap": "bubblewrap", "bash": "bash", "prlimit": "util-linux", "setpriv": "util-linux", "tmux": "tmux"}
"""The system programs that a real terminal needs, with their packages; other sandboxes do without tmux."""
UID = 1000
"""The agent's user, inside."""
NOBODY = 65534
"""What we run the sandbox as when we are root: the kernel counts no process limit for root."""
TERM = "tmux-256color"
SETUP_FAILED = 124
"""How the sandbox ends when a set-up command of the world fails."""
TMUX_MIB = 256
"""Data memory of tmux. Its longest history takes less than half; what sequences of an agent pile up in it takes all."""
SOCKET_BYTES = 416 * 1024
"""What one socket may hold in the kernel, which tells of none how much it does. (TCP's queues are counted besides.)"""
WATCH_SECONDS = 0.05
PATIENCE = 10
"""Looks for which a process that was ended may go on to be there before another is ended."""
CLOSE_SECONDS = 5.0

# What of the host's /etc programs under /usr need; nothing in it tells who or where we are.
_SHARED_ETC = (
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "magic",
    "magic.mime",
    "mime.types",
    "perl",
    "protocols",
    "python3",
    "services",
    "shells",
    "terminfo",
    "vim",
)
_BINDS = "/mnt"
"""Where root's binds are mounted, in a mount namespace of their own."""
_NETWORK_ETC = ("ca-certificates", "pki", "resolv.conf", "ssl")
_SYSTEM_FOLDERS = ("bin", "boot", "dev", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr")
_REFUSED_CALLS = {
    # Kernel surface that a shell user has no business with, and memory that no limit here would see.
    errno.EPERM: (
        "add_key",
        "bpf",
        "fanotify_init",
        "fsconfig",
        "fsmount",
        "fsopen",
        "fspick",
        "init_module",
        "finit_module",
        "kexec_load",
        "kexec_file_load",
        "keyctl",
        "mount",
        "mount_setattr",
        "move_mount",
        "msgget",
        "open_by_handle_at",
        "open_tree",
        "perf_event_open",
        "pivot_root",
        "process_vm_readv",
        "process_vm_writev",
        "ptrace",
        "request_key",
        "semget",
        "setns",
        "shmget",
        "swapon",
        "umount2",
        "unshare",
        "userfaultfd",
    ),
    errno.ENOSYS: ("clone3", "io_uring_setup", "memfd_create", "memfd_secret"),
}


class Ended(Enum):
    """Why a sandbox is over, when it was we who ended it."""

    CLOSED = "closed"
    TIME = "the episode's time is over"
    MEMORY = "the sandbox held more memory than its limit, and ending its processes did not help"


def require_programs(packages: Mapping[str, str] = PACKAGES, who: str = "a real terminal") -> None:
    """Raises SetupError that names the packages of the programs which are missing."""
    missing = [package for program, package in packages.items() if _program(program) is None]
    if missing:
        names = " ".join(dict.fromkeys(missing))
        raise SetupError(f"{who} needs programs that are not installed: apt-get install {names}")


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")


# What goes in.


def bashrc(nonce: str) -> str:
    """`/etc/bash.bashrc` of the sandbox: the usual prompt, and marks in the stream that say when one is due.

    Before each prompt: A when no input waits, D when more was typed ahead; at its end: B; before a command runs: C.
    Builtins alone, no fork; bash itself keeps `$?`, `$_` and PIPESTATUS over PROMPT_COMMAND; its errors and
    traces (`set -x`) are not shown.
    """
    idle, busy, drawn, runs = (_spelled(kind, nonce) for kind in "ADBC")
    return rf"""case $- in *i*) ;; *) return ;; esac
PS1='\u@\h:\w\$ '
PS0='{runs}'
PROMPT_COMMAND='{{ if builtin read -t 0; then builtin printf "{busy}"; else builtin printf "{idle}"; fi >/dev/tty
[[ ${{PS1-}} == *"\[{drawn}\]" ]] || PS1+="\[{drawn}\]"; }} 2>/dev/null'
"""


def _spelled(kind: str, nonce: str) -> str:
    return mark(kind, nonce).decode().replace("\x1b", r"\e").replace("\x07", r"\a")


def mount_points(state: FileState, files: Iterable[str] = ()) -> list[str]:
    """The writable folders of the agent's machine. Raises InputError for a file where none can be."""
    points = {state.home, "/tmp", "/var"}
    for path in map(state.absolute, (*state.files, *files)):
        top, *below = PurePosixPath(path).parts[1:] or ("",)
        if top in _SYSTEM_FOLDERS or not (below or (top and path.endswith("/"))):
            raise InputError(
                f"initial_state.files: {path} cannot be there; put it under home, /srv, /var, /opt or /etc"
            )
        points |= _point(path)
    return sorted(points | _point(state.absolute(state.cwd)))


def _point(path: str) -> set[str]:
    """The folder that must be mounted for `path` to be writable, if any."""
    top, *below = PurePosixPath(path).parts[1:] or ("",)
    if top in ("", "etc", *_SYSTEM_FOLDERS):
        return set()
    if top == "home":
        return {f"/home/{below[0]}"} if below else set()
    return {f"/{top}"}


def seed_tar(
    state: FileState,
    run: dict[str, str | bytes],
    etc: dict[str, str],
    files: Mapping[str, bytes] | None = None,
) -> bytes:
    """What the outer sandbox starts from: our own files for `/run`, and the agent's tree under `/disk`.

    Every file and folder has the world's time; the agent owns them all.
    """
    when = _epoch(state)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        added: dict[str, bool] = {"/": True}  # path to whether it is a folder

        def add(path: str, mode: int, data: bytes | None = None) -> None:
            if path in added:
                if added[path] and data is None:
                    return
                raise InputError(f"initial_state.files: {path.removeprefix('/disk/tree')} is both a file and a folder")
            parent = str(PurePosixPath(path).parent)
            if not added.get(parent):
                add(parent, 0o755)
            added[path] = data is None
            info = tarfile.TarInfo(path.lstrip("/"))
            info.mode, info.mtime = mode, when
            if data is None:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            else:
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))

        for name, content in run.items():
            add(f"/run/{name}", 0o644, content if isinstance(content, bytes) else content.encode())
        for folder in ("/disk/shm", "/disk/tree/tmp", "/disk/tree/var/tmp"):
            add(folder, 0o1777)
        for folder in ("/run", "/root", "/srv", "/opt", "/mnt"):
            add("/disk/tree" + folder, 0o755)
        for folder in (state.home, state.absolute(state.cwd)):
            add("/disk/tree" + folder.rstrip("/"), 0o755)
        for name, entry in state.files.items():
            path = "/disk/tree" + state.absolute(name)
            if path.endswith("/"):
                add(path.rstrip("/"), 0o755 if entry.mode == "644" else int(entry.mode, 8))
            else:
                add(path, int(entry.mode, 8), entry.content.encode())
        for name, data in (files or {}).items():
            add("/disk/tree" + state.absolute(name), 0o755 if data.startswith(b"#!") else 0o644, data)
        for name, text in etc.items():
            if f"/disk/tree/etc/{name}" not in added:
                add(f"/disk/tree/etc/{name}", 0o644, text.encode())
    return buffer.getvalue()


def _epoch(state: FileState) -> int:
    return int(datetime.fromisoformat(state.mtime).timestamp())


def _etc(state: FileState, nonce: str) -> dict[str, str]:
    user, host = state.user, state.host
    release = Path("/usr/lib/os-release")
    return {
        "bash.bashrc": bashrc(nonce),
        "passwd": "root:x:0:0:root:/root:/bin/bash\n"
        f"{user}:x:{UID}:{UID}::{state.home}:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        "group": f"root:x:0:\ntty:x:5:\n{user}:x:{UID}:\nnogroup:x:65534:\n",
        "hostname": f"{host}\n",
        "hosts": f"127.0.0.1\tlocalhost\n127.0.1.1\t{host}\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        "profile": '[ -n "$BASH" ] && . /etc/bash.bashrc\n',
        "inputrc": "set enable-bracketed-paste off\n",
        "os-release": release.read_text() if release.exists() else "",
    }


# The two command lines.


def _usr() -> list[str]:
    """The system's programs and libraries, wherever this distribution keeps them."""
    args = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/", name)
        if path.is_symlink():
            args += ["--symlink", str(path.readlink()).lstrip("/"), f"/{name}"]
        elif path.is_dir():
            args += ["--ro-bind", f"/{name}", f"/{name}"]
    return args


_NAMESPACES = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--clearenv",
)


@dataclass(frozen=True, slots=True)
class Bind:
    """A file or folder of the host that is seen inside, read-only, under a path that tells nothing of the host."""

    host: Path
    inside: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sandbox starts from."""

    seed: bytes
    """Its files, as a tar: ours under `/run`, the agent's tree under `/disk/tree`."""
    start: str
    """What the outer shell becomes once they are there (a shell command)."""
    binds: tuple[Bind, ...] = ()
    network: bool = False
    """Whether it shares the host's network; otherwise it has a loopback device of its own and nothing else."""


def outer_command(plan: Plan, seed_fd: int, info_fd: int, life_fd: int, limits: Limits) -> list[str]:
    """The command line of the outer sandbox.

    bubblewrap's own --die-with-parent will not do: when we end, or end it, while it starts, its child waits for it
    for ever. Here it is left to start, and then finds the lifeline closed. (For the same reason it tells about itself
    in files: a closed pipe would end it.)
    """
    start = (
        f"bash -c 'read -r -u {life_fd}; while :; do kill -9 -- -1; sleep 0.1; done' </dev/null >/dev/null 2>&1 &"
        f" tar -xpf /run/seed.tar -C / && rm /run/seed.tar && {plan.start}"
    )
    return [
        *(_unprivileged(plan.binds) if os.geteuid() == 0 else ()),
        _program("bwrap") or "bwrap",
        *_namespaces(plan.network),
        "--new-session",
        "--as-pid-1",  # else its parent goes as soon as the first process has ended, and leaves it unreaped
        *("--setenv", "PATH", "/usr/bin:/bin:/usr/sbin:/sbin"),
        *("--setenv", "LANG", "C.UTF-8"),
        *("--setenv", "HOME", "/tmp"),
        *("--setenv", "SHELL", "/bin/sh"),
        *_usr(),
        *_etc_binds(plan.network),
        *(arg for n, path in enumerate(_bind_paths(plan.binds)) for arg in ("--ro-bind", path, f"/bind/{n}")),
        *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run"),
        *("--size", str(_mib(limits.disk_mib)), "--tmpfs", "/disk"),
        *("--file", str(seed_fd), "/run/seed.tar", "--info-fd", str(info_fd), "--chdir", "/"),
        *("--", "setpriv", "--pdeathsig", "KILL", "sh", "-c", start),
    ]


def _namespaces(network: bool) -> list[str]:
    return [*_NAMESPACES, *(() if network else ("--unshare-net",))]


def _etc_binds(network: bool) -> list[str]:
    names = (*_SHARED_ETC, *(_NETWORK_ETC if network else ()))
    return [arg for name in names for arg in ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")]


def _unprivileged(binds: Sequence[Bind]) -> list[str]:
    """The start of a command that root runs as nobody.

    Nobody cannot look into root's home: what is bound from there is first mounted where all can, in a mount
    namespace that has no other use.
    """
    setpriv = _program("setpriv") or "setpriv"
    drop = [setpriv, "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", "--"]
    if not binds:
        return drop
    mounts = ["set -e", f"mount -t tmpfs none {_BINDS}"]
    for n, bind in enumerate(binds):
        kind = "mkdir" if bind.host.is_dir() else "touch"
        mounts.append(f"{kind} {_BINDS}/{n}; mount --bind {shlex.quote(str(bind.host))} {_BINDS}/{n}")
    mounts.append('exec "$@"')
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", "; ".join(mounts), "sh", *drop]


def _bind_paths(binds: Sequence[Bind]) -> list[str]:
    """Where the outer sandbox finds what is bound."""
    if os.geteuid() == 0:
        return [f"{_BINDS}/{n}" for n in range(len(binds))]
    return [str(bind.host) for bind in binds]


def inner_args(
    state: FileState,
    *,
    filtered: bool,
    binds: tuple[Bind, ...] = (),
    environment: Mapping[str, str] | None = None,
    network: bool = False,
    first: bool = False,
    files: Iterable[str] = (),
    around: Surroundings = HERE,
) -> list[str]:
    """The options of the inner sandbox: the agent's machine."""
    trees = [arg for point in mount_points(state, files) for arg in ("--bind", f"/disk/tree{point}", point)]
    variables = {
        "HOME": state.home,
        "USER": state.user,
        "LOGNAME": state.user,
        "SHELL": "/bin/bash",
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/games",
        "LANG": "C.UTF-8",
        "TERM": TERM,
        **(environment or {}),
        **around.variables(),
    }
    # Bound, and not in its tree: free space is as usual.
    library = [("--ro-bind", f"/run/{name}", PRELOADED) for name in around.files()]
    return [
        *_namespaces(network),
        "--die-with-parent",
        "--disable-userns",
        *(("--as-pid-1",) if first or around.first_pid else ()),
        *("--uid", str(UID), "--gid", str(UID), "--hostname", state.host),
        *("--bind", "/disk/tree", "/"),
        *_usr(),
        *_etc_binds(network),
        *("--proc", "/proc", "--dev", "/dev", "--dev-bind", "/dev/pts", "/dev/pts"),
        *("--bind", "/disk/shm", "/dev/shm", "--remount-ro", "/dev"),
        *trees,
        *(arg for n, bind in enumerate(binds) for arg in ("--ro-bind", f"/bind/{n}", bind.inside)),
        *(arg for mount in library for arg in mount),
        *("--remount-ro", "/"),
        *(("--seccomp", "9") if filtered else ()),
        *(arg for name, value in variables.items() for arg in ("--setenv", name, value)),
        *("--chdir", state.absolute(state.cwd)),
    ]


def _inner_command(filtered: bool) -> str:
    return f"bwrap --args 8 -- sh /dev/fd/7 6</run/setup 7</run/start 8</run/args {'9</run/filter' if filtered else ''}"


def pane_script(secret: str, *, filtered: bool) -> str:
    """What tmux runs: the inner sandbox, then the mark that it has ended. The agent's machine cannot read it."""
    ended = _spelled("X;%d", secret).replace("\\e", "\\033")
    return f"""\
{_inner_command(filtered)}
printf '{ended}' $?
exec sleep 1000000
"""


def start_script(state: FileState, limits: Limits, program: str, *, first_pid: int = 0, first: bool = True) -> str:
    """What runs first on the agent's machine: limits, the world's set-up commands, then the program.

    Where a limit is None the system's stands. (A browser's engine maps far more data than it uses.) Process ids below
    `first_pid` are used up; a program that is not to be the `first` process then gets one above, and its shell stays.
    """
    bounds = [
        f"--nproc={limits.processes}" if limits.processes else "",
        f"--data={_mib(limits.memory_mib)}" if limits.memory_mib else "",
        f"--fsize={_mib(limits.disk_mib)} --core=0 --nofile=1024 --cpu={int(limits.episode_seconds or 1) + 1}",
    ]
    lines = [f"prlimit --pid $$ {' '.join(filter(None, bounds))} || exit 125"]
    if state.setup:
        points = shlex.join(mount_points(state))
        lines += [
            f"bash -e /dev/fd/6 >/tmp/.setup 2>&1 </dev/null || {{ cat /tmp/.setup >&2; exit {SETUP_FAILED}; }}",
            f"rm /tmp/.setup; find {points} -exec touch -h -c -d @{_epoch(state)} {{}} + 2>/dev/null",
        ]
    if first_pid:
        lines.append(f"while (read -r id _ </proc/self/stat; [ $id -lt {first_pid} ]); do :; done")
    lines.append(f"exec 6<&- 7<&- && {'exec ' if first or not first_pid else ''}{program}")
    return "\n".join(lines) + "\n"


@cache
def _reads_system_bashrc() -> bool:
    """Whether bash was built to read /etc/bash.bashrc in every interactive shell (Debian, Ubuntu, Arch: yes)."""
    return b"/etc/bash.bashrc" in Path(_program("bash") or "/bin/bash").read_bytes()


TMUX_CONF = f"""\
set -g default-terminal {TERM}
set -g history-limit {HISTORY}
set -g status off
set -g default-size {COLUMNS}x{ROWS}
set -g allow-rename off
set -g bell-action none
set -g scroll-on-clear off
set -g prefix None
set -s escape-time 0
set -s set-clipboard off
"""


def _mib(mib: int | None) -> int:
    return (mib or 1) << 20


@cache
def system_call_filter() -> bytes | None:
    """The filter of system calls as a BPF program, or None where libseccomp is not installed."""
    try:
        lib = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return None
    lib.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(lib.seccomp_init(ctypes.c_uint32(0x7FFF0000)))  # allow what is not named
    if context.value is None:
        return None
    try:
        for error, calls in _REFUSED_CALLS.items():
            for call in calls:
                number = lib.seccomp_syscall_resolve_name(call.encode())
                if number >= 0:
                    lib.seccomp_rule_add(context, ctypes.c_uint32(0x00050000 | error), number, 0)
        with os.fdopen(os.memfd_create("filter"), "r+b") as file:
            if lib.seccomp_export_bpf(context, file.fileno()) != 0:
                return None
            file.seek(0)
            return file.read()
    finally:
        lib.seccomp_release(context)


def terminal_plan(state: FileState, limits: Limits, nonce: str, secret: str, around: Surroundings = HERE) -> Plan:
    """A terminal: tmux in control mode, and in its pane the agent's machine with a shell.

    `nonce` stands in the marks of the shell's prompts, `secret` in that of the shell's end. `around`: the machine's
    clock, process ids and host. Raises InputError for a file where none can be, SetupError for a clock that cannot be.
    """
    state = around.placed(state)
    rcfile = "" if _reads_system_bashrc() else " --rcfile /etc/bash.bashrc"
    calls = system_call_filter()
    run: dict[str, str | bytes] = {
        "tmux.conf": TMUX_CONF,
        "pane.sh": pane_script(secret, filtered=calls is not None),
        "start": start_script(state, limits, f"bash{rcfile}", first_pid=around.first_pid, first=False),
        "setup": "\n".join(state.setup) + "\n",
        "args": "\0".join(inner_args(state, filtered=calls is not None, around=around)) + "\0",
        "filter": calls or b"",
        **around.files(),
    }
    start = (
        f"prlimit --pid $$ --data={_mib(TMUX_MIB)}: && exec tmux -u -C -S /run/tmux -f /run/tmux.conf"
        f" new-session -x {COLUMNS} -y {ROWS} 'exec sh /run/pane.sh'"
    )
    return Plan(seed_tar(state, run, _etc(state, nonce)), start)


def program_plan(
    program: Sequence[str],
    state: FileState,
    limits: Limits,
    *,
    files: Mapping[str, bytes] | None = None,
    binds: Sequence[Bind] = (),
    environment: Mapping[str, str] | None = None,
    network: bool = False,
    first: bool = False,
    around: Surroundings = HERE,
) -> Plan:
    """The agent's machine with a program in it whose standard input and output are ours.

    `state`: its user, folders and files. `files`: more files for it, as bytes, by absolute path under home, `/srv`,
    `/var` or `/opt`. `binds`: what it sees of the host. `environment`: more variables. `limits`: None for the memory
    leaves data memory unlimited (the watcher then does not count it either). `first`: the program is the first process
    of its machine: nothing in it can end it, and it must reap what is orphaned. `around`: the machine's clock, process
    ids and host. Raises InputError for a file where none can be, SetupError for a clock that cannot be.
    """
    state = around.placed(state)
    calls = system_call_filter()
    args = inner_args(
        state,
        filtered=calls is not None,
        binds=tuple(binds),
        environment=environment,
        network=network,
        first=first,
        files=files or (),
        around=around,
    )
    run: dict[str, str | bytes] = {
        "start": start_script(state, limits, shlex.join(program), first_pid=around.first_pid, first=first),
        "setup": "\n".join(state.setup) + "\n",
        "args": "\0".join(args) + "\0",
        "filter": calls or b"",
        **around.files(),
    }
    seed = seed_tar(state, run, _etc(state, ""), files or {})
    return Plan(seed, f"exec {_inner_command(calls is not None)}", tuple(binds), network)


# Running.


class Process(NamedTuple):
    """A process of the sandbox, as the host sees it."""

    pid: int
    ids: tuple[int, ...]
    """Its ids in the process namespaces, from ours inwards."""
    held: int
    """Bytes of memory of its own: anonymous and shared memory and page tables, not mapped files."""


class Sandbox:
    """One running sandbox. `stdin` and `stdout` are those of its program (of a terminal: tmux's control channel)."""

    def __init__(self, plan: Plan, limits: Limits):
        """Start it. The programs that it takes must be there (`require_programs`)."""
        self.ended: Ended | None = None
        """Why we ended it."""
        self._memory = _mib(limits.memory_mib) if limits.memory_mib else math.inf
        self._deadline = time.monotonic() + (limits.episode_seconds or math.inf)
        self._stderr = os.memfd_create("stderr")
        seed_file = os.memfd_create("seed")
        self._info = os.memfd_create("info")
        life, self._lifeline = os.pipe()
        try:
            with os.fdopen(os.dup(seed_file), "wb") as file:
                file.write(plan.seed)
            os.lseek(seed_file, 0, os.SEEK_SET)
            self._process = subprocess.Popen(
                outer_command(plan, seed_file, self._info, life, limits),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                pass_fds=(seed_file, self._info, life),
                cwd="/",
                bufsize=0,
                start_new_session=True,
            )
        except BaseException:
            for fd in (self._stderr, self._info, self._lifeline):
                os.close(fd)
            raise
        finally:
            os.close(seed_file)
            os.close(life)
        self._first = 0
        self._asking = threading.Lock()
        self._closed = False
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="worldlm-sandbox", daemon=True)
        self._watcher.start()

    @property
    def stdin(self) -> int:
        """Where its program reads."""
        assert self._process.stdin is not None
        return self._process.stdin.fileno()

    @property
    def stdout(self) -> int:
        """Where its program writes."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def errors(self, *, last: bool = False) -> str:
        """The start (or the end: `last`) of what bubblewrap, tar or the program complained about."""
        if self._closed:
            return ""
        start = max(0, os.fstat(self._stderr).st_size - 4096) if last else 0
        return os.pread(self._stderr, 4096, start).decode("utf-8", "replace").strip()

    def kill(self, why: Ended) -> None:
        """End everything in it, now. The first reason stays."""
        with self._asking:
            # Before it ends: whoever sees it end asks why.
            if self._process.poll() is None:
                self.ended = self.ended or why
            lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)
        if self._process.poll() is not None:
            return
        # The first process of a namespace is gone only when all others are, and its parent waits for it:
        # so whoever reaps the parent knows that nothing is left. While there is none yet, the lifeline does it.
        first = self._first_process()
        if first:
            _kill(first)

    def close(self) -> None:
        """End everything in it and wait until it is gone. May be called twice."""
        if self._closed:
            return
        self._stop.set()
        self.kill(Ended.CLOSED)
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(CLOSE_SECONDS)
        self._watcher.join(CLOSE_SECONDS)
        self._closed = True
        for file in (self._process.stdin, self._process.stdout):
            if file is not None:
                file.close()
        os.close(self._stderr)
        os.close(self._info)

    def processes(self) -> list[Process]:
        """The processes of the agent's machine, its first (the reaper, or the program) among them."""
        tree = _tree(self._process.pid)
        return [p for p in tree if len(p.ids) == len(tree[0].ids) + 2]

    def kill_programs(self) -> None:
        """End every program of the agent but its first shell, whatever they are and however they were started."""
        programs = [program for program in self.processes() if program.ids[-1] != 1]
        shell = min((p.ids[-1] for p in programs), default=0)
        for program in programs:
            if program.ids[-1] != shell:
                _kill(program.pid)

    # Watching.

    def _watch(self) -> None:
        strikes = 0
        killed: dict[int, int] = {}  # to how many looks it has been there since
        while not self._stop.wait(WATCH_SECONDS):
            if self._process.poll() is not None:
                return
            if time.monotonic() > self._deadline:
                self.kill(Ended.TIME)
                return
            programs = self.processes()
            shared = _shared_use(programs)
            if sum(p.held for p in programs) + shared <= self._memory:
                strikes = 0
                continue
            strikes += 1
            programs = [program for program in programs if program.ids[-1] != 1]
            # What has been ended may take a moment to give back what it held.
            killed = {p.pid: killed[p.pid] + 1 for p in programs if p.pid in killed}
            if killed and max(killed.values()) < PATIENCE:
                continue
            if not programs or strikes > 2 * len(programs) + 20:
                self.kill(Ended.MEMORY)
                return
            # Of what is shared nobody knows whose it is: more and more of the processes are ended.
            count = 1 if shared <= self._memory else strikes
            for program in sorted(programs, key=lambda p: -p.held)[:count]:
                killed[program.pid] = 0
                _kill(program.pid)

    def _first_process(self) -> int:
        """The first process of the outer namespace, or 0 as long as there is none."""
        with self._asking:
            if not self._first:
                text = os.pread(self._info, 4096, 0).rstrip()
                if text.endswith(b"}"):
                    self._first = int(json.loads(text)["child-pid"])
            return self._first


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _shared_use(programs: list[Process]) -> int:
    """Bytes that the machine holds besides its processes: in files and in sockets."""
    for program in programs:
        proc = Path(f"/proc/{program.pid}")
        try:
            disk = os.statvfs(proc / "root/tmp")
            # The kernel keeps something of each file besides its content.
            files = (disk.f_blocks - disk.f_bfree) * disk.f_frsize + (disk.f_files - disk.f_ffree) * 1024
            return files + _socket_use(proc / "net")
        except (OSError, ValueError):
            continue  # it has ended meanwhile
    return 0


def _socket_use(net: Path) -> int:
    told = (net / "sockstat").read_text()
    sockets = int(told.split("used ", 1)[1].split()[0])
    queues = 0
    for table in ("tcp", "tcp6") if "TCP: inuse 0 orphan 0 " not in told else ():
        with contextlib.suppress(FileNotFoundError):
            for line in (net / table).read_text().splitlines()[1:]:
                queues += sum(int(size, 16) for size in line.split()[4].split(":"))
    return sockets * SOCKET_BYTES + queues


def _tree(pid: int) -> list[Process]:
    """A process and all that come from it."""
    found = []
    ahead = [pid]
    while ahead:
        pid = ahead.pop()
        try:
            fields = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
            ahead += [
                int(child)
                for task in Path(f"/proc/{pid}/task").iterdir()
                for child in (task / "children").read_text().split()
            ]
        except (OSError, ValueError):
            continue  # it has ended meanwhile
        held = sum(int(fields.get(name, "0").split()[0]) for name in ("RssAnon", "RssShmem", "VmPTE"))
        found.append(Process(pid, tuple(int(i) for i in fields.get("NSpid", str(pid)).split()), held * 1024))
    return found
