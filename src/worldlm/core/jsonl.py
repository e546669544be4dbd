"""JSON lines on disk: one flushed line a record, and a broken line named by file and number.

Rules, for every reader of the package: a file may be compressed, and its name says so; a blank line is skipped; a line
that does not parse or does not fit the schema is an error that names file and line. Strict reading (the default) raises
on the first. Lenient reading yields the good records and collects the errors.
"""

import bz2
import errno
import fcntl
import gzip
import json
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Generic, TypeVar, cast, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from worldlm.core.errors import InputError, WorldlmError, nearest
from worldlm.core.text import clean_json
from worldlm.core.types import TRAJECTORY_SCHEMA, Trajectory

T = TypeVar("T")


COMPRESSED: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
"""What opens a file for reading, by the last ending of its name."""
ZSTD = (".zst", ".zstd")
"""Endings of a compression that is told and not read."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What a file raises that cannot be opened, or that proves damaged while it is read: see `read_problem`."""


def open_file(path: Path) -> BinaryIO:
    """Open a file, compressed or not, for reading what is in it. Raises one of `READ_ERRORS`."""
    if path.suffix in ZSTD:
        raise OSError(errno.EOPNOTSUPP, "it is compressed by zstd, which is not read here; unpack it first (zstd -d)")
    return cast(BinaryIO, COMPRESSED.get(path.suffix, _open_plain)(path))


def _open_plain(path: Path) -> BinaryIO:
    return path.open("rb")


def unpacked_name(path: Path) -> Path:
    """The path without the ending that says that it is compressed."""
    return path.with_suffix("") if path.suffix in COMPRESSED else path


def not_a_file(path: Path) -> str | None:
    """Why there is no file to be read at `path`, in words; None where there is one.

    A pipe is none: nobody may ever write into it.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return error.strerror or str(error)
    return None if stat.S_ISREG(mode) else "it is no regular file"


def read_problem(path: Path, error: Exception) -> str:
    """Why a file could not be read, in words, given one of `READ_ERRORS`."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if path.suffix in COMPRESSED:
        return f"it is damaged, cut off, or not compressed as its name says ({error})"
    return str(error)


@dataclass
class Records(Generic[T]):
    """What a file held: the good records in order, and one message for each line that was not used."""

    items: list[T] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def describe(error: ValidationError) -> str:
    """The first problem of a pydantic error in one line: where, and what."""
    problems = error.errors(include_url=False, include_input=False)
    # Of the types that a value may have, the one that says why it is refused tells most.
    first = next((problem for problem in problems if problem["type"] == "value_error"), problems[0])
    # Where a value may be one of several types, pydantic names its own functions among the keys.
    where = ".".join(str(part) for part in first["loc"] if not str(part).startswith("function-"))
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    said = first["msg"].removeprefix("Value error, ")
    said = said.replace("valid tuple", "valid list").replace("valid dictionary", "valid mapping")
    return f"{where or 'value'}: {said}{more}"


def unknown_key(error: ValidationError, model: type[BaseModel]) -> tuple[str, str] | None:
    """The first key of an error that `model` does not know, with its place, and a hint at the nearest that it does."""
    for problem in error.errors(include_url=False, include_input=False):
        if problem["type"] == "extra_forbidden":
            *place, key = problem["loc"]
            return ".".join(map(str, problem["loc"])), nearest(str(key), _known_keys(model, place))
    return None


def _known_keys(model: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    """The keys that are valid at a place of a schema: what is no key there is an index or a name."""
    for part in place:
        field = _fields(model).get(str(part))
        model = next(_models(field.annotation), model) if field else model
    return list(_fields(model))


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def iter_jsonl(path: Path, parse: Callable[[Any], T], problems: list[str] | None = None) -> Iterator[tuple[str, T]]:
    """Place (`FILE:LINE`) and record of each line of a file, one line in memory at a time.

    `parse` makes a record of a line's JSON value; it raises ValueError (pydantic's ValidationError is one) for a value
    that it refuses. Raises InputError when the file cannot be read, and on the first bad line, unless there is a list
    for the `problems`: then those are added to it.
    """
    for number, line in _lines(path):
        place = f"{path}:{number}"
        try:
            record = parse(json.loads(line))
        except (ValueError, RecursionError) as error:
            message = f"{place}: {_problem(error, line)}"
            if problems is None:
                raise InputError(f"{message}; mend or remove that line") from error
            problems.append(message)
        else:
            yield place, record


def read_jsonl(path: Path, parse: Callable[[Any], T], *, lenient: bool = False) -> Records[T]:
    """All records of a file, as `iter_jsonl` reads them.

    Raises InputError, before anything has been used, when the file cannot be read, and on the first bad line unless
    `lenient`.
    """
    records: Records[T] = Records()
    records.items = [record for _, record in iter_jsonl(path, parse, records.errors if lenient else None)]
    return records


def _problem(error: Exception, line: bytes) -> str:
    """What is wrong with a line, in words."""
    if isinstance(error, ValidationError):
        return describe(error)
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 (byte {error.start})"
    if isinstance(error, json.JSONDecodeError):
        torn = "" if line.endswith(b"\n") else ", and the line has no end: the file was cut off"
        return f"not JSON: {error.msg} at column {error.colno}{torn}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with open_file(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line
    except READ_ERRORS as error:
        raise InputError(f"cannot read {path}: {read_problem(path, error)}") from error


def parse_trajectory(value: Any) -> Trajectory:
    """A `Trajectory` from a JSON value. Raises ValueError that names an unknown format or version."""
    if not isinstance(value, dict):
        raise ValueError(f"a trajectory is a JSON object, not {type(value).__name__}")  # noqa: TRY004
    schema = value.get("schema")
    if schema != TRAJECTORY_SCHEMA:
        told = f"schema {schema!r} is not known" if schema else "no 'schema' key: not a worldlm trajectory"
        raise ValueError(f"{told}; this version reads {TRAJECTORY_SCHEMA!r}")
    trajectory = Trajectory.model_validate(value)
    for number, turn in enumerate(trajectory.turns, 1):
        if turn.outcome.is_ok != (turn.observation is not None):
            has = "no observation" if turn.observation is None else "an observation"
            raise ValueError(f"turn {number} has outcome {turn.outcome.value!r} and {has}")
    return trajectory


def read_trajectories(path: Path, *, lenient: bool = False) -> Records[Trajectory]:
    """The trajectories of a file, by the rules of this module."""
    return read_jsonl(path, parse_trajectory, lenient=lenient)


def dump_line(record: BaseModel | dict[str, Any]) -> str:
    """One line of JSON, without its end. Lone surrogates are replaced."""
    if isinstance(record, BaseModel):
        return record.model_dump_json(exclude_defaults=False)
    return _ENCODER.encode(clean_json(record))


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def obstacle(path: Path) -> str | None:
    """Why `path` can be no file, whatever the disk: a file where its folder would be, a folder in its own place."""
    if path.is_dir():
        return f"{path} is a folder and no file; name another place"
    file = next((parent for parent in path.parents if parent.exists() and not parent.is_dir()), None)
    return f"{file} is a file and no folder; name another place" if file else None


class JsonlWriter:
    """Appends records to a file, each as one flushed line; a second writer of the same file is refused.

    A file that ends in half a line (its writer was killed) loses nothing that was finished: the half
    line is moved to `FILE.torn` and writing goes on after the last whole one. A last line that lacks
    nothing but its end is given one.
    """

    def __init__(self, path: Path):
        """Raises InputError when `path` cannot be written, or somebody else writes it."""
        self.path = path
        if path.suffix in (*COMPRESSED, *ZSTD):
            raise InputError(f"{path}: lines are appended as they are and not compressed; leave out {path.suffix}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: a line that does not fit the disk is not tried again when the file is closed.
            self._file = path.open("a+b", buffering=0)
        except OSError as error:
            raise InputError(f"cannot write {path}: {obstacle(path) or error.strerror or error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise InputError(f"{path} is being written already; choose another file") from error
        self._keeps = path.is_file()
        if not self._keeps:
            return  # /dev/null, say: nothing is there to be mended
        try:
            self._mend_tail()
        except OSError as error:
            self._file.close()
            raise InputError(f"cannot write {path}: {error.strerror or error}") from error

    def _mend_tail(self) -> None:
        data = self.path.read_bytes()
        end = data.rfind(b"\n") + 1
        if end == len(data):
            return
        if _is_json(data[end:]):
            self._append(b"\n")
            return
        with self.path.with_name(self.path.name + ".torn").open("ab") as torn:
            torn.write(data[end:] + b"\n")
        self._file.truncate(end)

    def write(self, record: BaseModel | dict[str, Any]) -> None:
        """Append one record and flush it. Raises WorldlmError when it cannot be kept; the file is as it was then."""
        try:
            self._append((dump_line(record) + "\n").encode())
        except OSError as error:
            raise WorldlmError(f"cannot write {self.path}: {error.strerror or error}; free some space") from error

    def _append(self, data: bytes) -> None:
        start = self._file.seek(0, os.SEEK_END) if self._keeps else 0
        left = memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            if self._keeps:
                self._file.truncate(start)
            raise

    def close(self) -> None:
        """Close the file and give up the lock."""
        self._file.close()

    def __enter__(self) -> "JsonlWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
