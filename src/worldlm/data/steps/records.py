"""The records of a corpus, trajectories and texts, and the files of JSON lines that hold them.

Files are read in shards: equal ranges of bytes, each with the lines that begin in it. So the shards of a corpus, one
after another, are the corpus in its own order, into however many shards it is cut.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, ValidationError

from worldlm.core.errors import InputError
from worldlm.core.jsonl import COMPRESSED, ZSTD, describe, not_a_file, parse_trajectory
from worldlm.core.types import Text, Trajectory, Turn, Value
from worldlm.data.report import FileReport

TEXT_SCHEMA = "worldlm.text/1"


class TextRecord(Value):
    """A document for training beside trajectories: general text, documentation, a dictionary's entry."""

    schema_: Literal["worldlm.text/1"] = Field(default="worldlm.text/1", alias="schema")
    id: Text
    text: Text = Field(min_length=1)
    source: Text
    """The collection that it is from."""
    licence: Text = ""
    url: Text = ""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)


Record: TypeAlias = Trajectory | TextRecord


def parse_record(value: Any) -> Record:
    """A record from a JSON value. Raises ValueError that names an unknown format or version."""
    if isinstance(value, dict) and value.get("schema") == TEXT_SCHEMA:
        return TextRecord.model_validate(value)
    return parse_trajectory(value)


def read_record(line: bytes) -> Record:
    """A record from a line. Raises ValueError that says in one line what is wrong with it."""
    try:
        return parse_record(json.loads(line))
    except ValidationError as error:
        problem = describe(error)
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 (byte {error.start})"
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error.msg} at column {error.colno}"
    except RecursionError:
        problem = "nested too deeply"
    raise ValueError(problem)


def turn_text(turn: Turn) -> str:
    """An action with its answer: the observation, or the words that were given for it."""
    answer = turn.observation.text if turn.observation else turn.detail or ""
    return f"{turn.action}\n{answer}"


def record_text(record: Record) -> str:
    """What a record teaches: a text; or a trajectory's first observation, and its actions with their answers."""
    if isinstance(record, TextRecord):
        return record.text
    first = [record.initial.text] if record.initial else []
    return "\n".join([*first, *map(turn_text, record.turns)])


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """A file of JSON lines, as it was when the work began."""

    path: Path
    size: int
    changed_ns: int


def corpus_files(paths: Sequence[Path], told: FileReport | None = None) -> list[CorpusFile]:
    """The files at `paths`; of a folder, its `*.jsonl` in the order of their names, hidden ones left out.

    What else a folder holds is `told`: as a problem where its name says that it is such a file. Raises InputError where
    there is nothing, or nothing in it, and, where nobody is told, for such a problem.
    """
    found: list[Path] = []
    for path in paths:
        found += _inside(path, told) if path.is_dir() else [path]
    files = []
    for path in found:
        if path.suffix in (*COMPRESSED, *ZSTD):
            raise InputError(f"{path} is compressed, and shards are read from the middle: unpack it first")
        if not path.exists():
            raise InputError(f"there is no file or folder {path}")
        if why := not_a_file(path):
            raise InputError(f"cannot read {path}: {why}; write what it gives to a file first")
        status = path.stat()
        files.append(CorpusFile(path, status.st_size, status.st_mtime_ns))
    if not sum(file.size for file in files):
        raise InputError(f"{', '.join(map(str, paths))}: the file is empty")
    return files


def _inside(folder: Path, told: FileReport | None) -> list[Path]:
    """The files of records in a folder."""
    found, problems = [], []
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if path.suffix != ".jsonl":
            if told:
                told.losses.dropped("what in a folder is no .jsonl file", str(path))
        elif why := not_a_file(path):
            problems.append(f"{path} cannot be read: {why}")
        else:
            found.append(path)
    if problems and (told is None or not found):
        raise InputError(f"{problems[0]}; remove it from the folder, or mend it")
    if not found:
        raise InputError(f"the folder {folder} holds no .jsonl file")
    if told:
        for problem in problems:
            told.problem(problem)
    return found


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is not blank, without its end."""

    path: Path
    start: int
    """Byte at which it begins."""
    data: bytes

    @property
    def place(self) -> str:
        """`FILE:LINE`. Counts the lines before it, so ask for it only where something is wrong."""
        number, left = 1, self.start
        with self.path.open("rb") as file:
            while left and (block := file.read(min(left, 1 << 20))):
                number += block.count(b"\n")
                left -= len(block)
        return f"{self.path}:{number}"


def read_shard(files: Sequence[CorpusFile], shard: int, shards: int) -> Iterator[Line]:
    """The lines of one of `shards` shards of the files."""
    total = sum(file.size for file in files)
    first, last = total * shard // shards, total * (shard + 1) // shards
    offset = 0
    for file in files:
        start, end = max(first - offset, 0), min(last - offset, file.size)
        if start < end:
            yield from _lines(file.path, start, end)
        offset += file.size


def _lines(path: Path, start: int, end: int) -> Iterator[Line]:
    """The lines that begin at a byte of [start, end)."""
    try:
        with path.open("rb") as file:
            if start:
                file.seek(start - 1)
                start += len(file.readline()) - 1
            while start < end and (data := file.readline()):
                if data.strip():
                    yield Line(path, start, data.rstrip(b"\r\n"))
                start += len(data)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


__all__ = [
    "TEXT_SCHEMA",
    "CorpusFile",
    "Line",
    "Record",
    "TextRecord",
    "corpus_files",
    "parse_record",
    "read_record",
    "read_shard",
    "record_text",
    "turn_text",
]
