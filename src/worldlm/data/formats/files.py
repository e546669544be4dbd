"""From files to JSON values, whatever they are wrapped in: JSON, JSON lines, YAML, each of them compressed or not.

A recording may also be a folder of small files (DroidBot, OpenHands); those are read together, as one list.
"""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from worldlm.core.errors import InputError
from worldlm.core.jsonl import READ_ERRORS, not_a_file, open_file, read_problem, unpacked_name
from worldlm.core.text import MAX_DEPTH, clean_text
from worldlm.data.report import Losses
from worldlm.data.settings import YAML_ERRORS, yaml_problem

_PARTS = re.compile(r"(?:.*__)?(?:event|state)[_-]\d[^/]*\.json")
"""Files that are one event or one screen of a recording which is a folder."""
_PART_FOLDERS = ("events", "states")

YAML_SUFFIXES = (".yaml", ".yml")
LINES_SUFFIXES = (".jsonl", ".ndjson")
_NOT_A_NUMBER = "NaN and infinity, which JSON does not have, are null"


@dataclass(frozen=True, slots=True)
class Unit:
    """What is read together: a file, or the files of one recording."""

    path: Path
    """What a person would call it: the file, or the folder."""
    files: tuple[Path, ...]

    @property
    def joined(self) -> bool:
        """Whether it is a recording of many files."""
        return self.files != (self.path,)


@dataclass(frozen=True, slots=True)
class Found:
    """A JSON value and where it stands, or what is wrong there (`problem`, and then there is no value)."""

    place: str
    value: Any = None
    problem: str | None = None


def units(path: Path) -> list[Unit]:
    """What there is to read under `path`, sorted; hidden files are left out.

    Raises InputError when there is no such file, or the folder holds none.
    """
    if path.is_file():
        return [Unit(path, (path,))]
    if not path.exists():
        raise InputError(f"there is no file or folder {path}")
    if not path.is_dir():
        raise InputError(f"cannot read {path}: {not_a_file(path)}; write what it gives to a file first")
    files = sorted(
        file
        for file in path.rglob("*")
        if not file.is_dir() and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )
    if not files:
        raise InputError(f"{path} holds no files")
    found: dict[Path, list[Path]] = {}
    for file in files:
        key = file
        if _PARTS.fullmatch(file.name):
            key = file.parent.parent if file.parent.name in _PART_FOLDERS else file.parent
        found.setdefault(key, []).append(file)
    return [Unit(key, tuple(parts)) for key, parts in found.items()]


def read_unit(unit: Unit, losses: Losses) -> Iterator[Found]:
    """The values of a unit, one after another. What cannot be read is a value with a `problem`; nothing is raised."""
    if not unit.joined:
        yield from read_file(unit.path, losses)
        return
    values = []
    for file in unit.files:
        for found in read_file(file, losses):
            if found.problem is None:
                values.append(found.value)
            else:
                yield found
    yield Found(str(unit.path), values)


def read_file(path: Path, losses: Losses) -> Iterator[Found]:
    """The values of one file: each line of JSON lines, else the one that the file is."""
    name, kind = str(path), unpacked_name(path).suffix
    if why := not_a_file(path):
        yield Found(name, problem=f"cannot be read: {why}")
        return
    try:
        with open_file(path) as file:
            if kind in YAML_SUFFIXES:
                yield _parse_yaml(name, file.read(), losses)
                return
            head = _head(file) if kind not in LINES_SUFFIXES else []
            filled = [line for line in head if line.strip()]
            if kind in LINES_SUFFIXES or (len(filled) > 1 and _is_json(filled[0])):
                yield from _lines(name, itertools.chain(head, file), losses)
            else:
                yield _parse(name, b"".join(head) + file.read(), losses, whole=True)
    except READ_ERRORS as error:
        yield Found(name, problem=f"cannot be read: {read_problem(path, error)}")


def _head(file: Any) -> list[bytes]:
    """The first lines: up to the second that is not blank."""
    head: list[bytes] = []
    for line in file:
        head.append(line)
        if line.strip() and any(earlier.strip() for earlier in head[:-1]):
            break
    return head


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _lines(name: str, lines: Iterator[bytes], losses: Losses) -> Iterator[Found]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _parse(f"{name}:{number}", line, losses, whole=line.endswith(b"\n"))


def _parse(place: str, data: bytes, losses: Losses, *, whole: bool) -> Found:
    odd: list[str] = []
    try:
        value = json.loads(data.decode("utf-8-sig"), parse_constant=odd.append)
    except UnicodeDecodeError as error:
        return Found(place, problem=f"not UTF-8 (byte {error.start})")
    except json.JSONDecodeError as error:
        if not data.strip():
            return Found(place, problem="the file is empty")
        ends = error.pos >= len(error.doc.rstrip()) or "Unterminated" in error.msg or not whole
        torn = "; it ends in the middle: the file was cut off" if ends else ""
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        return Found(place, problem=f"not JSON: {error.msg} at {line}column {error.colno}{torn}")
    except RecursionError:
        return Found(place, problem="nested too deeply")
    except ValueError as error:  # a number of more digits than Python reads
        return Found(place, problem=f"not JSON: {error}")
    for constant in odd:
        losses.changed(_NOT_A_NUMBER, f"{place}: {constant}")
    return _tidied(place, value, losses)


def _parse_yaml(name: str, data: bytes, losses: Losses) -> Found:
    try:
        value = yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except YAML_ERRORS as error:
        return Found(name, problem=yaml_problem(error))
    return _tidied(name, value, losses)


def _tidied(place: str, value: Any, losses: Losses) -> Found:
    try:
        return Found(place, _tidy(value, place, losses, MAX_DEPTH))
    except ValueError as error:
        return Found(place, problem=str(error))


def _tidy(value: Any, place: str, losses: Losses, depth: int) -> Any:
    """`value` with what cannot be stored replaced: lone surrogates by U+FFFD, dates by their text."""
    if isinstance(value, str):
        clean = clean_text(value)
        if clean != value:
            losses.changed("a lone half of a surrogate pair is U+FFFD", place)
        return clean
    if value is None or isinstance(value, bool | int | float):
        return value
    if not depth:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    if isinstance(value, list | tuple):
        return [_tidy(item, place, losses, depth - 1) for item in value]
    if isinstance(value, dict):
        return {clean_text(str(key)): _tidy(item, place, losses, depth - 1) for key, item in value.items()}
    losses.changed(f"a {type(value).__name__} is its text", place)
    return str(value)


def spread(place: str, values: Sequence[Any]) -> Iterator[Found]:
    """The elements of a list, each with its place."""
    for index, value in enumerate(values):
        yield Found(f"{place}[{index}]", value)
