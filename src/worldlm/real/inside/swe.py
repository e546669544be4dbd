"""Inside a repository's machine: its first process, which runs commands and the file tools, one at a time.

Reads a line of JSON a request and answers with one. `{"do": "shell", …}` runs a command with bash; `{"do": TOOL, …}`
runs a function of `TOOLS` in a process of its own. What a request started is ended with everything that came from it
when its `seconds` are over, or when it wrote more than `output` bytes. What a command leaves running is told by its
process ids, and goes on.
"""

# ruff: noqa: PTH103, PTH110, PTH113, PTH116, PTH118, PTH119, PTH120, PTH123, PTH206, PTH207, PTH208
# (os.path: it is all text here, and a process starts faster without pathlib.)

import contextlib
import ctypes
import errno
import fnmatch
import glob
import json
import os
import re
import selectors
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]

MAX_FILE = 16 << 20
"""Bytes of a file that the tools read."""
MAX_ROWS = 200
MAX_ROW = 401
LAST_WORDS = 0.05
"""Seconds of quiet after which what a command left running is taken to have nothing to say to it."""
MERCY = 3.0
"""Seconds after which everything in the machine is ended when what a command started does not stop coming."""
PR_SET_DUMPABLE = 4


# Processes.


def processes() -> dict[int, tuple[int, bytes]]:
    """Every process but this one and the dead: its id to its parent's and to when it started."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b") ")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            if fields[0] not in (b"Z", b"X"):
                found[int(name)] = (int(fields[1]), fields[19])
    return found


def started_since(before: dict[int, tuple[int, bytes]]) -> list[int]:
    """The processes that are neither of `before` nor descend from one of them."""
    now = processes()
    known = {pid for pid, process in now.items() if before.get(pid, (0, b""))[1] == process[1]}

    def is_old(pid: int) -> bool:
        while pid in now:
            if pid in known:
                return True
            pid = now[pid][0]
        return False

    return sorted(pid for pid in now if not is_old(pid))


class Stream:
    """What is read from one pipe, at most `most` bytes of it."""

    def __init__(self, most: int):
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.data = bytearray()
        self.most = most
        self.open = True
        self.full = False
        self.heard = time.monotonic()


class Machine:
    """The event loop: requests come, output comes, children end."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.incoming = bytearray()
        self.status: dict[int, int] = {}  # of children that have ended
        awake, waker = os.pipe()
        os.set_blocking(awake, False)
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(awake, selectors.EVENT_READ, self.reap)
        self.selector.register(0, selectors.EVENT_READ, self.receive)

    def serve(self) -> None:
        """Answer requests until there are no more."""
        while True:
            while b"\n" not in self.incoming:
                self.look(None)
            line, _, self.incoming = self.incoming.partition(b"\n")
            answer = self.answer(json.loads(line))
            self.status.clear()
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()

    def look(self, seconds: float | None) -> None:
        """Deal with what has happened; wait at most `seconds` for something to."""
        for key, _ in self.selector.select(seconds):
            key.data(key.fd)

    def receive(self, fd: int) -> None:
        """Take what there is of requests; end when there will be no more."""
        data = os.read(fd, 1 << 16)
        if not data:
            os._exit(0)
        self.incoming += data

    def reap(self, fd: int) -> None:
        """Wait for every child that has ended, orphans among them."""
        os.read(fd, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self.status[pid] = status

    def listen(self, stream: Stream) -> None:
        """Read a stream from now on, to its end, and keep what there is room for."""
        os.close(stream.writer)

        def hear(fd: int) -> None:
            data = os.read(fd, 1 << 16)
            stream.heard = time.monotonic()
            room = stream.most - len(stream.data)
            stream.full = stream.full or len(data) > room
            stream.data += data[:room]
            if not data:
                stream.open = False
                self.selector.unregister(fd)
                os.close(fd)

        self.selector.register(stream.reader, selectors.EVENT_READ, hear)

    # Requests.

    def answer(self, request: Json) -> Json:
        """Do what a request asks."""
        if request["do"] == "shell":
            return self.shell(request)
        result = self.run(lambda out, err: fork(request, out), request["seconds"], 1 << 30)
        if result["error"] or result["exit_code"] != 0:
            return {"error": result["error"] or f"the tool failed: {result['stderr'][-200:]}"}
        answer: Json = json.loads(result["stdout"])
        return answer

    def shell(self, request: Json) -> Json:
        """Run a command with bash in its directory."""

        def start(out: int, err: int) -> int:
            child = subprocess.Popen(
                ["bash", "-c", request["command"]],
                cwd=request["directory"],
                env={**os.environ, **request["environment"]},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            child.returncode = 0  # it is for `reap` to wait for it
            return child.pid

        try:
            if request["background"]:
                with open(os.devnull, "wb") as nowhere:
                    pid = start(nowhere.fileno(), nowhere.fileno())
                return {"stdout": "", "stderr": "", "error": None, "exit_code": 0, "signal": None, "pids": [pid]}
            return self.run(start, request["seconds"], request["output"])
        except OSError as error:
            return {"errno": error.errno}
        except ValueError:  # a null byte
            return {"errno": errno.EINVAL}

    def run(self, start: Callable[[int, int], int], seconds: float, most: int) -> Json:
        """Run what `start` starts, to its end or to the end of what it may use."""
        before = processes()
        out, err = Stream(most), Stream(most)
        try:
            pid = start(out.writer, err.writer)
        except BaseException:
            for fd in (out.reader, out.writer, err.reader, err.writer):
                os.close(fd)
            raise
        self.listen(out)
        self.listen(err)
        deadline = time.monotonic() + seconds
        error = None
        while pid not in self.status and not error:
            self.look(max(0.0, deadline - time.monotonic()))
            if out.full or err.full:
                error = f"stopped: it wrote more than {most >> 10} KiB"
            elif time.monotonic() >= deadline and pid not in self.status:
                error = f"timed out after {seconds:g} s"
        if error:
            self.end(pid, before)
        left = started_since(before)
        ended = time.monotonic()
        while out.open or err.open:
            self.look(LAST_WORDS)
            now = time.monotonic()
            if now - max(out.heard, err.heard, ended) >= LAST_WORDS and (left or now - ended > MERCY):
                break
        status = self.status[pid]
        killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        return {
            "stdout": out.data.decode("utf-8", "replace"),
            "stderr": err.data.decode("utf-8", "replace"),
            "error": error,
            "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) and not error else None,
            "signal": "SIGKILL" if error else signal_name(killed_by),
            "pids": started_since(before),
        }

    def end(self, pid: int, before: dict[int, tuple[int, bytes]]) -> None:
        """End all that was started since `before`, and wait until it is gone."""
        began = time.monotonic()
        while (alive := started_since(before)) or pid not in self.status:
            if time.monotonic() - began > MERCY:
                os.kill(-1, signal.SIGKILL)
            for process in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            self.look(0.005)


def signal_name(number: int) -> str | None:
    """`SIGKILL` for 9; None for 0."""
    if not number:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def fork(request: Json, out: int) -> int:
    """Run a tool in a process of its own, which writes what it answers to `out`."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        try:
            answer = TOOLS[request["do"]](request)
        except OSError as error:
            answer = {"errno": error.errno}
        except (re.error, ValueError, RecursionError) as error:
            answer = {"error": str(error)}
        with open(out, "w", closefd=False) as file:
            json.dump(answer, file)
        os._exit(0)
    finally:
        os._exit(1)


# The file tools.


def read(request: Json) -> Json:
    """A file's text, or None where there is no such file."""
    try:
        with open(request["path"], "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return {"error": "not a regular file"}
            if status.st_size > MAX_FILE:
                return {"error": f"larger than {MAX_FILE >> 20} MiB"}
            data = file.read()
    except FileNotFoundError:
        return {"content": None}
    try:
        return {"content": data.decode()}
    except UnicodeDecodeError:
        return {"error": "not a text file"}


def write(request: Json) -> Json:
    """Replace a file's text, and say whether there was one."""
    path = request["path"]
    existed = os.path.exists(path)
    if existed and not os.path.isfile(path):
        return {"error": "not a regular file"}
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(request["content"])
    return {"existed": existed}


def list_folder(request: Json) -> Json:
    """The names in a folder; those of folders end in `/`."""
    with os.scandir(request["path"]) as entries:
        return {"names": [entry.name + "/" * entry.is_dir() for entry in entries if entry.name != ".git"]}


def find(request: Json) -> Json:
    """The files whose path within the folder matches a pattern."""
    root, pattern = request["path"], request["pattern"]
    os.scandir(root).close()
    names = glob.glob(pattern, root_dir=root, recursive=True, include_hidden=True)
    paths = {os.path.normpath(os.path.join(root, name)) for name in names}
    return {"files": sorted(path for path in paths if os.path.isfile(path) and not in_git(path, root))}


def search(request: Json) -> Json:
    """The lines of a folder's text files that match a regular expression; the text of the first rows alone."""
    root, include = request["path"], request["include"]
    matches = re.compile(request["pattern"]).search
    os.scandir(root).close()
    rows = []
    for path in sorted(walk(root)):
        relative = os.path.relpath(path, root)
        if include and not any(fnmatch.fnmatchcase(name, include) for name in (relative, os.path.basename(path))):
            continue
        text = readable(path)
        for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
            line = line.removesuffix("\r")
            if matches(line):
                rows.append((relative, number, line))
    rows.sort()
    return {"rows": [(*row[:2], row[2][:MAX_ROW] if n < MAX_ROWS else "") for n, row in enumerate(rows)]}


def survey(request: Json) -> Json:
    """What the machine is: the version of its git, and the repository's files with their lines."""
    root = request["path"]
    version = ""
    with contextlib.suppress(OSError):
        version = subprocess.run(["git", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    files = {os.path.relpath(path, root): len((readable(path) or "").splitlines()) for path in walk(root)}
    return {"git": version, "files": dict(sorted(files.items())), **list_folder(request)}


def walk(root: str) -> Iterator[str]:
    """The paths of all files under a folder."""
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != ".git"]
        yield from (os.path.join(folder, name) for name in names)


def readable(path: str) -> str | None:
    """The text of a file that has one."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE:
            return None
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    return None if b"\0" in data[:8192] else data.decode("utf-8", "replace")


def in_git(path: str, root: str) -> bool:
    """Whether a path lies in a repository's own folder."""
    return ".git" in os.path.relpath(path, root).split(os.sep)


TOOLS = {"read": read, "write": write, "list": list_folder, "find": find, "search": search, "survey": survey}


if __name__ == "__main__":
    # What it speaks over must be out of reach of the programs that run as the same user.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which, sent to a first process, does nothing
    sys.setrecursionlimit(10_000)
    Machine().serve()
