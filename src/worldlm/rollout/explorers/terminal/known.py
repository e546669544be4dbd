"""What an explorer knows of its machine: files, folders, repositories, jobs, names; learnt from what it did and saw."""

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from worldlm.core.types import Observation, World
from worldlm.domains.files import file_state
from worldlm.domains.terminal import at_prompt

TEXTS = ("txt", "list", "num", "csv", "log", "ini", "env", "json", "md", "html", "sh", "py")
"""Kinds of file that hold lines of text."""
ARCHIVES = ("tar", "tgz", "zip")
_KINDS = {suffix: suffix for suffix in (*TEXTS, *ARCHIVES, "gz", "sum", "patch")}
_KINDS |= {"conf": "ini", "cfg": "ini", "toml": "ini", "yaml": "ini", "yml": "ini", "lst": "list", "dat": "num"}
_KINDS |= {"htm": "html", "css": "txt", "js": "txt", "tgz": "tgz"}

_FAILED = re.compile(
    r"^(bash|-bash|\./[\w./-]+|[a-z][\w.+-]*): |^(fatal|error|usage|Usage): ?"
    r"|^Traceback |syntax error|^CONFLICT|^\s+\w*Error\b",
    re.MULTILINE,
)
_JOB = re.compile(r"^\[(\d+)\](?:[+-]?\s+(Running|Stopped|Done|Terminated|Killed|Exit|Interrupt|Hangup)| (\d+)$)", re.M)
_COMMIT = re.compile(r"^\[(\S+)(?: \(root-commit\))? ([0-9a-f]{7,})\]", re.M)
_SWITCHED = re.compile(r"^Switched to (?:a new )?branch '([^']+)'", re.M)
_STARTED = re.compile(r"^Initialized empty Git repository in (\S+)/\.git/", re.M)
_STOPPED = re.compile(r'use "git (merge|rebase|cherry-pick|revert) --abort')
_GONE = re.compile(
    r"(?:'([^'\n]+)'|can't read ([^:\n]+)|^\w+: ([^:\s]+)): No such file or directory"
    r"|pathspec '([^'\n]+)' did not match",
    re.M,
)
_CONFLICT = re.compile(r"^CONFLICT .*Merge conflict in (\S+)", re.M)


@dataclass(slots=True)
class File:
    """A file that is known to be there."""

    kind: str
    content: str | None = None
    """As it was written, or None where that is not known."""
    repair: str | None = None
    """For a program with a fault: the `sed` expression that mends it."""
    members: tuple[str, ...] = ()
    """What an archive holds."""
    executable: bool = False


@dataclass(slots=True)
class Repo:
    """A git repository."""

    branch: str = "main"
    branches: list[str] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)
    """Abbreviated hashes, as they were seen."""
    tags: list[str] = field(default_factory=list)
    tracked: list[str] = field(default_factory=list)
    """Absolute paths."""
    changed: bool = False
    staged: bool = False
    stashes: int = 0
    remote: bool = False
    conflict: str | None = None
    """The absolute path of a file with conflict marks."""
    started: str | None = None
    """What waits to be continued or given up: `merge`, `rebase`, `cherry-pick`."""


class Known:
    """The explorer's memory of one episode."""

    def __init__(self, world: World, initial: Observation):
        state = file_state(world)
        self.user = state.user
        self.home = state.home
        self.cwd = state.absolute(state.cwd)
        # What a program printed last need not have ended its line.
        self._prompt = re.compile(rf"{re.escape(state.user)}@{re.escape(state.host)}:(\S[^\n:]*)[$#]$")
        self.files: dict[str, File] = {}
        """By absolute path; the ones touched last come last."""
        self.folders: dict[str, None] = {self.home: None, "/tmp": None, self.cwd: None}
        self.repos: dict[str, Repo] = {}
        self.jobs: dict[int, str] = {}
        """Number to `running` or `stopped`."""
        self.variables: dict[str, str] = {}
        self.functions: list[str] = []
        self.aliases: list[str] = []
        self.arrays: list[str] = []
        self.program: str | None = None
        """What has the terminal, where it is not the shell at its prompt."""
        self.editing: str | None = None
        self.shells = 0
        """Shells that were started inside the first one."""
        self.identity = ".gitconfig" in state.files
        self.lines = 0
        """Command lines typed so far."""
        self.again = False
        """Whether the last of them does no harm when it is typed again."""
        self.seen = initial.text
        self.failed = False
        self.writable = [self.home, "/tmp"]
        for name, entry in state.files.items():
            path = state.absolute(name)
            if not path.startswith("/etc/"):
                self.writable.append("/" + path.split("/")[1] if not path.startswith("/home/") else self.home)
            if path.endswith("/"):
                self.folders[path.rstrip("/")] = None
            elif posixpath.basename(path) not in (".gitconfig", ".bashrc"):
                self.add(path, kind_of(path), entry.content, executable=int(entry.mode[-3:], 8) & 0o100 != 0)
        if any(command.startswith("git init") for command in state.setup):
            self.repos[self.cwd] = _set_up(
                "\n".join(state.setup), [p for p in self.files if p.startswith(self.cwd + "/")]
            )
        self._place(initial.text)

    # What is asked.

    @property
    def repo(self) -> Repo | None:
        """The repository round the working folder."""
        return self.repos.get(self.root or "")

    @property
    def root(self) -> str | None:
        """The top folder of that repository."""
        return next(
            (path for path in sorted(self.repos, reverse=True) if (self.cwd + "/").startswith(path + "/")), None
        )

    def paths(self, *kinds: str) -> list[str]:
        """The files of these kinds (of any, if none is named), the last touched last."""
        return [path for path, file in self.files.items() if not kinds or file.kind in kinds]

    def here(self, *kinds: str) -> list[str]:
        """The files of these kinds in the working folder itself."""
        return [path for path in self.paths(*kinds) if posixpath.dirname(path) == self.cwd]

    def can_write(self, path: str) -> bool:
        """Whether files can be made at `path`, by what the world says."""
        return any((path + "/").startswith(top + "/") for top in self.writable)

    # What is learnt.

    def add(
        self, path: str, kind: str, content: str | None = None, *, executable: bool = False, **more: object
    ) -> None:
        """There is a file now; it is the last one touched."""
        self.files.pop(path, None)
        self.files[path] = File(kind, content, executable=executable, **more)  # type: ignore[arg-type]
        folder = posixpath.dirname(path)
        while folder not in ("/", "") and folder not in self.folders:
            self.folders[folder] = None
            folder = posixpath.dirname(folder)
        if (repo := self.repo) and self.root and path.startswith(self.root + "/"):
            repo.changed = True

    def touch(self, path: str) -> None:
        """`path` changed, and is the last one touched; what it holds is not known for certain."""
        file = self.files.pop(path, None)
        self.files[path] = file or File(kind_of(path))
        if self.repo and self.root and path.startswith(self.root + "/"):
            self.repo.changed = True

    def drop(self, path: str) -> None:
        """A file or a whole folder is gone."""
        inside = path + "/"
        self.files = {p: f for p, f in self.files.items() if p != path and not p.startswith(inside)}
        self.folders = {p: None for p in self.folders if p != path and not p.startswith(inside)}
        self.repos = {p: r for p, r in self.repos.items() if p != path and not p.startswith(inside)}

    def listed(self, folder: str, names: list[str]) -> None:
        """A listing of `folder` was seen: what is not in it is gone, and what is new is there."""
        plain = [name.rstrip("/*@") for name in names]
        for path in [p for p in self.files if posixpath.dirname(p) == folder]:
            name = posixpath.basename(path)
            if name not in plain and not name.startswith("."):
                self.files.pop(path)
        for name in plain:
            path = posixpath.join(folder, name)
            if "." in name.strip(".") and path not in self.files and path not in self.folders and "/" not in name:
                self.files = {path: File(kind_of(name)), **self.files}

    def observe(self, text: str, effects: tuple[Callable[["Known"], object], ...], opens: str | None) -> None:
        """Take in an observation: of what was meant to happen, only what it does not contradict."""
        body = text.partition("\n")[2]
        self.seen = text
        self.failed = bool(_FAILED.search(body))
        waiting = at_prompt(text) or self._prompt.search(text.rstrip()) is not None
        if not self.failed and (waiting or opens):
            for effect in effects:
                effect(self)
        self.program = None if waiting else (opens or "busy")
        self._place(text)
        for number, state, started in _JOB.findall(body):
            if started or state in ("Running", "Stopped"):
                self.jobs[int(number)] = "stopped" if state == "Stopped" else "running"
            else:
                self.jobs.pop(int(number), None)
        for found in _GONE.findall(body):
            self.files.pop(posixpath.join(self.cwd, "".join(found)), None)
        if match := _STARTED.search(body):
            self.repos[match[1]] = Repo()
        if (repo := self.repo) and self.root:
            self._observe_git(repo, self.root, text.partition("\n")[0], body)

    def _observe_git(self, repo: Repo, root: str, typed: str, body: str) -> None:
        for branch, commit in _COMMIT.findall(body):
            repo.branch = branch
            repo.commits.append(commit)
            repo.staged, repo.started, repo.conflict = False, None, None
            if branch not in repo.branches:
                repo.branches.append(branch)
        if match := _SWITCHED.search(body):
            repo.branch = match[1]
            if match[1] not in repo.branches:
                repo.branches.append(match[1])
        if match := _CONFLICT.search(body):
            repo.conflict = posixpath.join(root, match[1])
            stops = ("rebase", "cherry-pick", "revert", "stash", "merge")
            repo.started = next((name for name in stops if f"git {name}" in typed), None)
            if repo.started == "stash":
                repo.started = None
        if match := _STOPPED.search(body):
            repo.started = match[1]
        if "nothing to commit, working tree clean" in body:
            repo.changed = repo.staged = False

    def _place(self, text: str) -> None:
        """The working folder stands in the prompt."""
        if match := self._prompt.search(text.rstrip()):
            self.cwd = self.home + match[1][1:] if match[1].startswith("~") else match[1]
            self.folders.setdefault(self.cwd, None)


def _set_up(commands: str, tracked: list[str]) -> Repo:
    """The repository that a world's set-up commands made."""
    return Repo(
        branches=["main", *re.findall(r"git branch (\w+)", commands)],
        commits=["HEAD"] * commands.count("git commit"),
        tags=re.findall(r"git tag (\S+)", commands),
        tracked=tracked,
    )


def kind_of(path: str) -> str:
    """The kind of a file, by its name."""
    name = posixpath.basename(path)
    if name.endswith(".tar.gz"):
        return "tgz"
    return _KINDS.get(name.rpartition(".")[2], "txt")
