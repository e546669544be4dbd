"""A real repository: a git repository in the sandbox, and a coding agent's tools over it.

The machine's first process is ours (`inside/swe.py`): it runs each command with bash in a session of its own, ends all
that a command started when its time is over, and runs the file tools as the agent's user. What it tells is put into
words by `domains.swe`, as a simulated result is.

What the repository starts from stands in the world's `initial_state`: `sdist: NAME==VERSION` (fetched once, see
`real.sdists`), `folder: PATH` (copied), or `files`. From a source distribution and from a folder a git repository with
one commit is made; for `files` it is the world's `setup` that does so. Author, date and place of commits are fixed: the
date is the world's `mtime` and a minute for each turn since, so that commit ids are the same everywhere.

The machine has the Python that runs us in a virtual environment, with those of our installed packages that the world
names (pytest) and the repository itself importable, as after `pip install --editable`. It has no network.

Runs in an asyncio event loop. Cancelling a step closes the environment.
"""

import asyncio
import contextlib
import errno
import os
import platform
import re
import subprocess
import sys
import sysconfig
import time
from datetime import datetime, timedelta
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from worldlm.core.errors import InputError, SetupError, user_path
from worldlm.core.outcomes import Outcome
from worldlm.core.text import clean_text
from worldlm.core.types import Limits, Observation, Origin, Step, ToolCall, Usage, World
from worldlm.domains.swe import (
    READ_LINES,
    SWE,
    RepositoryState,
    ShellResult,
    edit_result,
    format_shell_result,
    glob_result,
    initial_observation,
    list_result,
    read_result,
    repository_state,
    resolve,
    search_result,
    shorten,
    write_result,
)
from worldlm.real import sdists
from worldlm.real.episode import Episode
from worldlm.real.sandbox import Bind, Plan, program_plan
from worldlm.real.surroundings import HERE, Surroundings
from worldlm.real.worker import Worker, WorkerError

START_SECONDS = 120.0
"""How long the sandbox and the set-up of the repository may take."""
SHELL_SECONDS = 120.0
"""How long a command may take that says nothing else."""
TOOL_SECONDS = 30.0
GRACE_SECONDS = 15.0
"""How much longer than that we wait for the machine's answer."""
TURN_TIME = timedelta(minutes=1)
LISTED_FILES = 300
"""Files of a repository that the world tells of."""

_PYTHON = "/opt/python"
_VENV = "/opt/venv"
_PACKAGES = "/opt/packages"
_RUNNER = "/opt/tools/run.py"
_PROBLEMS = {
    errno.EACCES: "permission denied",
    errno.EEXIST: "not a folder",
    errno.EISDIR: "not a file",
    errno.ENAMETOOLONG: "name too long",
    errno.ENOTDIR: "not a folder",
}
_REQUIRED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class SweEnvironment:
    """Satisfies `Environment` and `HasOrigin`. Steps run one at a time."""

    def __init__(self, world: World, around: Surroundings = HERE):
        """Cheap: nothing starts before `reset`. `around`: another clock, process ids and host than usual.

        Raises InputError for a world that is of another domain.
        """
        if world.domain != "swe":
            raise InputError(f"world {world.name!r} is of domain {world.domain!r}, not 'swe'")
        self._world = world
        self._around = around
        self._view = world.agent_view()
        self._state = RepositoryState()
        self._limits: Limits = SWE.limits.model_copy(update=world.limits.model_dump(exclude_none=True))
        self._origin = Origin(kind="real", source="bash and file tools in bubblewrap")
        self._lock = asyncio.Lock()
        self._worker: Worker | None = None
        self._episode = Episode(SWE, self._limits)

    @property
    def world(self) -> World:
        """The agent's view of the world; after `reset` with what the machine and the repository turned out to hold."""
        return self._view

    @property
    def origin(self) -> Origin:
        """Real: which repository, in which sandbox; the licence is that of the repository, where it states one."""
        return self._origin

    async def reset(self, seed: int | None = None) -> Observation:
        """Start a fresh machine; the first observation says what the repository holds. (The seed changes nothing.)

        Raises InputError for an initial state that is wrong, SetupError when the source cannot be had, a program or
        package is missing, or a set-up command fails.
        """
        if self._worker is not None:
            self._worker.kill()  # a step that is under way ends by this
        async with self._lock:
            await self._close()
            if problems := SWE.problems(self._world):
                raise InputError(f"world {self._world.name!r}: {problems[0]}")
            if self._world.tools:
                raise InputError(f"world {self._world.name!r}: a real repository has the default tools, and no others")
            state = repository_state(self._world)
            files = await asyncio.to_thread(_source, state)
            plan = _plan(state, files, self._limits, self._around)
            worker = await Worker.start(plan, self._limits, "a real repository")
            self._worker, self._state, self._episode = worker, state, Episode(SWE, self._limits)
            try:
                survey = await self._survey(worker)
            except BaseException:
                worker.kill()
                raise
            self._describe(state, files, survey)
            return initial_observation(self._view)

    async def step(self, action: str) -> Step:
        """Call the action's tool."""
        async with self._lock:
            worker = self._worker
            if worker is None:
                raise InputError("the environment has not been reset (or is closed): call reset first")
            call = self._episode.read(action, self._view)
            if isinstance(call, Step):
                return call
            started = time.monotonic()
            try:
                text = await _TOOLS[call.name](self, worker, call)
            except WorkerError as error:
                self._episode.over = True
                truncated = error.outcome is not Outcome.CANCELLED
                return Step(observation=None, outcome=error.outcome, detail=str(error), truncated=truncated)
            except BaseException:
                # What was done of it is not known: there is no way back to before the step.
                worker.kill()
                self._worker, self._episode.over = None, True
                await asyncio.shield(worker.close())
                raise
            usage = Usage(seconds=time.monotonic() - started)
            return self._episode.finish(action, Step(observation=Observation(text=text), usage=usage))

    async def close(self) -> None:
        """End the machine and everything in it, and wait until it is gone."""
        await self._close()

    async def _close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.close()

    # How it starts.

    async def _survey(self, worker: Worker) -> dict[str, Any]:
        request = {"do": "survey", "path": resolve(self._state), "seconds": START_SECONDS}
        try:
            return await worker.ask(request, START_SECONDS)
        except WorkerError as error:
            told = worker.sandbox.errors(last=True).strip().splitlines()
            why = " / ".join(told[-3:])[-500:] or str(error)
            raise SetupError(
                f"world {self._world.name!r}: its machine did not start, or a command of its set-up failed: {why}"
            ) from error

    def _describe(self, state: RepositoryState, files: dict[str, bytes], survey: dict[str, Any]) -> None:
        """Tell what a world model must know, and nothing of this machine."""
        packages = [f"{name} {metadata.version(name)}" for name in state.packages]
        versions = ", ".join([f"Python {platform.python_version()}", survey["git"] or "no git", *packages])
        notes = [state.notes.strip(), f"Installed: {versions}. There is no network."]
        if files:
            listed = [f"{path} ({lines})" for path, lines in survey["files"].items()]
            more = [f"… and {len(listed) - LISTED_FILES} more"] if len(listed) > LISTED_FILES else []
            notes.append("Files of the repository (lines):\n" + "\n".join(listed[:LISTED_FILES] + more))
        told = {"notes": clean_text("\n".join(filter(None, notes))), "cwd": state.cwd}
        if state.folder:
            told["folder"] = clean_text(user_path(state.folder).name)
        given = self._world.initial_state
        view = self._world.agent_view()
        root = resolve(state)
        first = view.initial_observation or f"The repository is in {list_result(root, survey['names'])}"
        self._view = view.model_copy(
            update={
                "initial_state": {**(given if isinstance(given, dict) else {}), **told},
                "initial_observation": clean_text(first),
            }
        )
        source = state.sdist or told.get("folder") or "files of the world"
        self._origin = Origin(
            kind="real",
            source=f"bash and file tools in bubblewrap over {source}",
            version=versions,
            licence=sdists.licence(files),
        )

    # The tools.

    def _path(self, call: ToolCall, name: str) -> str:
        return resolve(self._state, clean_text(call.arguments.get(name, "")))

    async def _ask(self, worker: Worker, tool: str, path: str, **more: Any) -> dict[str, Any] | str:
        """A file tool's answer, or the line that says why there is none."""
        seconds = min(TOOL_SECONDS, self._limits.step_seconds or TOOL_SECONDS)
        answer = await worker.ask({"do": tool, "path": path, "seconds": seconds, **more}, seconds + GRACE_SECONDS)
        if number := answer.get("errno"):
            missing = "folder not found" if tool in ("list", "find", "search") else "file not found"
            known = {errno.ENOENT: missing, **_PROBLEMS}
            return f"Error: {known.get(number) or os.strerror(number).lower()}: {path}"
        if problem := answer.get("error"):
            return f"Error: {problem}: {path}".replace("\n", " ")
        return answer

    async def _shell(self, worker: Worker, call: ToolCall) -> str:
        arguments = call.arguments
        command, directory = clean_text(arguments["command"]), self._path(call, "directory")
        most = self._limits.step_seconds or SHELL_SECONDS
        seconds = min(most, arguments.get("timeout", SHELL_SECONDS))
        now = datetime.fromisoformat(self._state.mtime) + TURN_TIME * (len(self._episode.turns) + 1)
        request = {
            "do": "shell",
            "command": command,
            "directory": directory,
            "background": arguments.get("is_background", False),
            "environment": _git_dates(now),
            "seconds": seconds,
            "output": (self._limits.output_kib or 1) << 10,
        }
        answer = await worker.ask(request, seconds + GRACE_SECONDS)
        if "errno" in answer:
            reason = {errno.ENOENT: "folder not found", **_PROBLEMS}.get(answer["errno"]) or os.strerror(
                answer["errno"]
            )
            error = f"{reason}: {directory}" if answer["errno"] != errno.E2BIG else "the command is too long"
            return format_shell_result(ShellResult(command=command, directory=directory, error=error, exit_code=None))
        return format_shell_result(
            ShellResult(
                command=command,
                directory=directory,
                stdout=shorten(answer["stdout"]),
                stderr=shorten(answer["stderr"]),
                error=answer["error"],
                exit_code=answer["exit_code"],
                signal=answer["signal"],
                background_pids=tuple(answer["pids"]),
            )
        )

    async def _read(self, worker: Worker, call: ToolCall) -> str:
        path = self._path(call, "file_path")
        answer = await self._ask(worker, "read", path)
        if isinstance(answer, str):
            return answer
        offset, limit = call.arguments.get("offset", 0), call.arguments.get("limit", READ_LINES)
        return read_result(path, answer["content"], int(offset), int(limit))

    async def _write(self, worker: Worker, call: ToolCall) -> str:
        path, content = self._path(call, "file_path"), clean_text(call.arguments["content"])
        answer = await self._ask(worker, "write", path, content=content)
        return answer if isinstance(answer, str) else write_result(path, content, existed=answer["existed"])

    async def _edit(self, worker: Worker, call: ToolCall) -> str:
        path, arguments = self._path(call, "file_path"), call.arguments
        answer = await self._ask(worker, "read", path)
        if isinstance(answer, str):
            return answer
        before = answer["content"]
        old, new = clean_text(arguments["old_string"]), clean_text(arguments["new_string"])
        after, text = edit_result(path, before, old, new, int(arguments.get("expected_replacements", 1)))
        if after is None or after == before:
            return text
        written = await self._ask(worker, "write", path, content=after)
        return written if isinstance(written, str) else text

    async def _list(self, worker: Worker, call: ToolCall) -> str:
        path = self._path(call, "path")
        answer = await self._ask(worker, "list", path)
        return answer if isinstance(answer, str) else list_result(path, answer["names"])

    async def _glob(self, worker: Worker, call: ToolCall) -> str:
        path, pattern = self._path(call, "path"), clean_text(call.arguments["pattern"])
        answer = await self._ask(worker, "find", path, pattern=pattern)
        return answer if isinstance(answer, str) else glob_result(pattern, path, answer["files"])

    async def _search(self, worker: Worker, call: ToolCall) -> str:
        path, pattern = self._path(call, "path"), clean_text(call.arguments["pattern"])
        try:
            re.compile(pattern)
        except re.error as error:
            return f"Error: not a regular expression: {error}".replace("\n", " ")
        include = call.arguments.get("include", "")
        answer = await self._ask(worker, "search", path, pattern=pattern, include=include)
        if isinstance(answer, str):
            return answer
        return search_result(pattern, path, [(file, line, text) for file, line, text in answer["rows"]])


_TOOLS = {
    "run_shell_command": SweEnvironment._shell,
    "read_file": SweEnvironment._read,
    "write_file": SweEnvironment._write,
    "edit": SweEnvironment._edit,
    "list_directory": SweEnvironment._list,
    "glob": SweEnvironment._glob,
    "search_file_content": SweEnvironment._search,
}


# What the machine starts from.


def _source(state: RepositoryState) -> dict[str, bytes]:
    """The files that the repository comes from, by their path in it; none where the world itself has them. Blocks."""
    if state.sdist:
        return sdists.unpack(sdists.obtain(state.sdist, state.sha256))
    return _copied(user_path(state.folder)) if state.folder else {}


def _copied(folder: Path) -> dict[str, bytes]:
    if not folder.is_dir():
        raise InputError(f"initial_state.folder: there is no folder {folder}")
    files: dict[str, bytes] = {}
    total = 0
    for name in _names(folder):
        path = folder / name
        try:
            if path.is_symlink() or not path.is_file():
                continue
            total += path.stat().st_size
            if total > sdists.MAX_ARCHIVE or len(files) >= sdists.MAX_FILES:
                raise InputError(
                    f"initial_state.folder: {folder} holds more than {sdists.MAX_FILES:,} files or "
                    f"{sdists.MAX_ARCHIVE >> 20} MiB; name a smaller one, or let its .gitignore leave some out"
                )
            files[name] = path.read_bytes()
        except OSError as error:
            raise InputError(f"initial_state.folder: cannot read {path}: {error.strerror or error}") from error
    if not files:
        raise InputError(f"initial_state.folder: {folder} holds no files")
    return files


def _names(folder: Path) -> list[str]:
    """The files of a folder: of a git repository those that git does not ignore."""
    command = ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if (folder / ".git").exists():
        with contextlib.suppress(OSError):
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode == 0:
                return sorted(os.fsdecode(name) for name in done.stdout.split(b"\0") if name)
    inside = (path.relative_to(folder) for path in folder.rglob("*"))
    return sorted(str(path) for path in inside if not {".git", "__pycache__"} & set(path.parts))


def _plan(state: RepositoryState, files: dict[str, bytes], limits: Limits, around: Surroundings) -> Plan:
    state = around.placed(state)
    root = resolve(state)
    runner = resources.files("worldlm.real") / "inside" / "swe.py"
    source = "src" if any(name.startswith("src/") for name in files) else ""
    site = f"{_VENV}/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    config = f"[user]\n\tname = {state.user}\n\temail = {state.user}@{state.host}.example\n"
    ours = {
        _RUNNER: runner.read_bytes(),
        f"{_VENV}/pyvenv.cfg": f"home = {_PYTHON}/bin\ninclude-system-site-packages = false\n".encode(),
        f"{site}/repository.pth": f"{_PACKAGES}\n{resolve(state, source)}\n".encode(),
        f"{state.home}/.gitconfig": f"{config}[init]\n\tdefaultBranch = main\n".encode(),
        **{f"{root}/{name}": data for name, data in files.items()},
    }
    if state.sdist and "PKG-INFO" in files:
        name, version = sdists.parse_requirement(state.sdist)
        ours[f"{site}/{name.replace('-', '_')}-{version}.dist-info/METADATA"] = files["PKG-INFO"]
    given = set(map(state.absolute, state.files))
    return program_plan(
        [f"{_PYTHON}/bin/python3", "-IS", _RUNNER],
        state.model_copy(update={"setup": (*_commands(state, bool(files)), *state.setup)}),
        limits,
        files={path: data for path, data in ours.items() if path not in given},
        binds=[Bind(Path(sys.base_prefix), _PYTHON), *_packages(state.packages)],
        environment={
            # A Python that is built with a shared library looks for it where it was installed on the host.
            **({"LD_LIBRARY_PATH": f"{_PYTHON}/lib"} if sysconfig.get_config_var("Py_ENABLE_SHARED") else {}),
            "PATH": f"{_VENV}/bin:/usr/local/bin:/usr/bin:/bin",
            "VIRTUAL_ENV": _VENV,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "PAGER": "cat",
            "TERM": "dumb",
        },
        first=True,
        around=around,
    )


def _commands(state: RepositoryState, committed: bool) -> list[str]:
    """What makes the repository; the dates hold for the world's own set-up commands too."""
    dates = [f"export {name}='{value}'" for name, value in _git_dates(datetime.fromisoformat(state.mtime)).items()]
    venv = f"mkdir {_VENV}/bin && ln -s {_PYTHON}/bin/python3 {_VENV}/bin/python3 && ln -s python3 {_VENV}/bin/python"
    if not committed:
        return [*dates, venv]
    return [
        *dates,
        venv,
        "git init -q -b main --template= .",
        "mkdir -p .git/info && printf '%s\\n' __pycache__/ .pytest_cache/ >.git/info/exclude",
        "git add -fA . && git commit -q -m 'Import'",
    ]


def _git_dates(when: datetime) -> dict[str, str]:
    return dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), when.isoformat())


def _packages(names: tuple[str, ...]) -> list[Bind]:
    """Installed packages, and what they require and is installed, as folders and files of the machine."""
    binds: dict[str, Bind] = {}
    waiting, seen = list(names), set[str]()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop(0)).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            if name in {re.sub(r"[-_.]+", "-", given).lower() for given in names}:
                raise SetupError(f"the repository's machine needs the package {name}: pip install {name}") from None
            continue  # what another system or an older Python would require
        parts = {path.parts[0] for path in found.files or () if path.parts[0] not in ("..", "__pycache__")}
        for part in sorted(parts):
            binds.setdefault(part, Bind(Path(str(found.locate_file(part))).resolve(), f"{_PACKAGES}/{part}"))
        required = [text for text in found.requires or () if "extra ==" not in text]
        waiting += [match[0] for text in required if (match := _REQUIRED.match(text))]
    return list(binds.values())
