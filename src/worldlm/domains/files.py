"""The initial state of the domains that have a file tree (terminal, swe): one schema, simulated or real."""

import posixpath
from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar

from pydantic import Field, field_validator

from worldlm.core.types import Text, Value, World
from worldlm.domains.domain import read_state


class FileEntry(Value):
    """A file, with its permission bits."""

    content: Text = ""
    mode: str = Field(default="644", pattern=r"^[0-7]{3,4}$")


class FileState(Value):
    """What `World.initial_state` holds in these domains when it is a mapping."""

    user: str = Field(default="user", pattern=r"^[a-z_][a-z0-9_-]{0,30}$")
    host: str = Field(default="box", pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    cwd: str = "~"
    """Where the shell starts; `~` is `/home/USER`."""
    files: dict[str, FileEntry] = Field(default_factory=dict)
    """Path (absolute, or relative to home) to a file. A path that ends in `/` is an empty folder."""
    setup: tuple[Text, ...] = ()
    """Shell commands that ran in `cwd` before the first prompt (`git init`, …)."""
    mtime: str = Field(default="2026-01-15T09:00:00+00:00")
    """When the files were last changed (ISO 8601)."""
    notes: Text = ""
    """Anything else that the simulator should know (installed programs, versions)."""

    @field_validator("files", mode="before")
    @classmethod
    def _short_form(cls, files: object) -> object:
        if not isinstance(files, Mapping):
            return files
        return {path: {"content": entry} if isinstance(entry, str) else entry for path, entry in files.items()}

    @field_validator("mtime")
    @classmethod
    def _is_a_time(cls, value: str) -> str:
        datetime.fromisoformat(value)
        return value

    @property
    def home(self) -> str:
        """The user's home directory."""
        return f"/home/{self.user}"

    def absolute(self, path: str) -> str:
        """`path` made absolute: `~` and relative paths are under home. A folder keeps its final `/`."""
        slash = "/" if path.endswith("/") else ""
        joined = posixpath.join(self.home, self.home + path[1:] if path.startswith("~") else path)
        return posixpath.normpath(joined).rstrip("/") + slash

    @property
    def prompt(self) -> str:
        """The shell prompt of the first line, without its trailing space."""
        cwd = self.absolute(self.cwd)
        if cwd == self.home or cwd.startswith(self.home + "/"):
            cwd = "~" + cwd[len(self.home) :]
        return f"{self.user}@{self.host}:{cwd}$"


_State = TypeVar("_State", bound=FileState)


def file_state(world: World) -> FileState:
    """The file state of a world; free text counts as notes. Raises InputError that names the key."""
    return read_file_state(world, FileState)


def read_file_state(world: World, kind: type[_State]) -> _State:
    """The same for a domain that has more keys."""
    text = world.initial_state
    return read_state(world, kind, {"notes": text} if isinstance(text, str) else None)


def render_file_state(world: World) -> str:
    """User, host, folder and every file with its content, as text."""
    return render_state(file_state(world))


def render_state(state: FileState) -> str:
    """The same, of a state."""
    lines = [f"User {state.user} on host {state.host}, in {state.absolute(state.cwd)}."]
    if state.notes:
        lines.append(state.notes.strip())
    if state.setup:
        lines.append("Commands that have been run before:")
        lines += [f"$ {command}" for command in state.setup]
    if state.files:
        lines.append(f"Files (last changed {state.mtime}):")
    for path, entry in sorted(state.files.items()):
        full = state.absolute(path)
        if full.endswith("/"):
            lines.append(f"--- {full} (empty folder)")
            continue
        mode = f", mode {entry.mode}" if entry.mode != "644" else ""
        lines.append(f"--- {full} ({len(entry.content.encode())} bytes{mode})")
        if entry.content:
            lines.append(entry.content.rstrip("\n"))
    return "\n".join(lines)
