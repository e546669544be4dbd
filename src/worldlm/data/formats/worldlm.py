"""Our own trajectory files: JSON lines, one trajectory a line."""

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import ValidationError

from worldlm.core.jsonl import describe, parse_trajectory
from worldlm.core.types import TRAJECTORY_SCHEMA, Trajectory
from worldlm.data.formats.format import Format, Reading, RecordError, WriteOptions, Written
from worldlm.data.report import Losses


def sniff(value: Any) -> str | None:
    """The `schema`, where it is one of a trajectory."""
    schema = value.get("schema") if isinstance(value, dict) else None
    return schema if isinstance(schema, str) and schema.startswith("worldlm.trajectory") else None


def read(value: Any, reading: Reading) -> list[Trajectory]:
    """The trajectory of a line."""
    try:
        return [parse_trajectory(value)]
    except ValidationError as error:
        raise RecordError(describe(error)) from None
    except ValueError as error:
        raise RecordError(str(error)) from None


def write(trajectories: Iterable[Trajectory], options: WriteOptions, losses: Losses) -> Iterator[Written]:
    """One line a trajectory."""
    for trajectory in trajectories:
        yield Written("", trajectory.model_dump(mode="json"))


WORLDLM = Format(
    name="worldlm",
    summary="Our own trajectory files",
    versions=(TRAJECTORY_SCHEMA,),
    sniff=sniff,
    read=read,
    write=write,
)
