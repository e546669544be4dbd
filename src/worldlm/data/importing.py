"""From files and folders to trajectories, in any known format: one bad file never stops a batch.

What cannot be used is named and counted in the report; who asked decides by the share of it whether that is a failure.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from worldlm.core.jsonl import describe
from worldlm.core.types import Trajectory
from worldlm.data.formats import FORMATS, Format, Reading, ReadOptions, RecordError, sniff_value
from worldlm.data.formats.files import Found, Unit, read_unit, spread, units
from worldlm.data.report import FileReport, Losses, LossReport

_ODD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a reader runs into where a deep piece of a record is of another type than its format has there."""


def sniff(path: Path) -> tuple[Format, str] | None:
    """Format and version of a file (of its first record that has one), or of a folder that is one recording.

    None where there is none. Raises InputError when there is no such file or folder.
    """
    for unit in units(path):
        for found in read_unit(unit, Losses()):
            if found.problem is None:
                for one in _records(found, None):
                    if known := sniff_value(one.value):
                        return known
                break
    return None


def import_trajectories(
    path: Path,
    expected: Format | None,
    options: ReadOptions,
    report: LossReport,
) -> Iterator[Trajectory]:
    """The trajectories of a file, or of all files of a folder; `report` is filled on the way.

    Without an `expected` format each record tells its own. An id that an earlier trajectory has is given a number.
    Raises InputError when there is no such file or folder.
    """
    used: dict[str, int] = {}
    for unit in units(path):
        file = report.start(str(unit.path))
        for trajectory in _import_unit(unit, expected, options, file):
            yield _with_own_id(trajectory, used, file)


def _import_unit(unit: Unit, expected: Format | None, options: ReadOptions, file: FileReport) -> Iterator[Trajectory]:
    read = 0
    for found in read_unit(unit, file.losses):
        read += 1
        if found.problem is not None:
            file.problem(f"{found.place}: {found.problem}")
            continue
        for one in _records(found, expected):
            try:
                made = read_record(one, expected, options, file)
            except RecordError as error:
                file.problem(f"{one.place}: {error}")
                continue
            file.records += 1
            file.trajectories += len(made)
            file.turns += sum(len(trajectory.turns) for trajectory in made)
            yield from made
    if not read:
        file.problem(f"{unit.path}: the file is empty")


def _records(found: Found, expected: Format | None) -> Iterator[Found]:
    """What a value holds: it is a record, or a list of records."""
    value = found.value
    if isinstance(value, list) and value:
        known = (expected,) if expected else tuple(FORMATS.values())
        if all(each.sniff(value) is None for each in known):
            yield from spread(found.place, value)
            return
    yield found


def read_record(one: Found, expected: Format | None, options: ReadOptions, file: FileReport) -> list[Trajectory]:
    """The trajectories of one record; its losses are added to the file's. Raises RecordError."""
    known = sniff_value(one.value) if expected is None else _check(expected, one.value)
    if known is None:
        raise RecordError(f"of no known format (known: {', '.join(FORMATS)})")
    found, version = known
    file.format = file.format or found.name
    file.versions.add(version)
    if version not in found.versions:
        raise RecordError(f"{found.name} of version {version!r} is not known; known: {', '.join(found.versions)}")
    reading = Reading(one.place, found.name, version, options)
    try:
        made = found.read(one.value, reading)
    except RecordError:
        raise
    except ValidationError as error:
        raise RecordError(describe(error)) from None
    except _ODD as error:
        raise RecordError(f"not as {found.name} writes it: {type(error).__name__}: {error}") from None
    file.losses.add(reading.losses)
    return made


def _check(expected: Format, value: Any) -> tuple[Format, str]:
    version = expected.sniff(value)
    if version is None:
        other = sniff_value(value)
        looks = f"; it looks like {other[0].name}" if other else ""
        raise RecordError(f"not of the format {expected.name}{looks}")
    return expected, version


def _with_own_id(trajectory: Trajectory, used: dict[str, int], file: FileReport) -> Trajectory:
    number = used[trajectory.id] = used.get(trajectory.id, 0) + 1
    if number == 1:
        return trajectory
    file.losses.changed("an id that was used already is given a number", trajectory.id)
    return trajectory.model_copy(update={"id": f"{trajectory.id}-{number}"})
