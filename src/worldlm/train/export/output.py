"""Where an export is written, and what is told of it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from worldlm.core.errors import InputError, WorldlmError
from worldlm.train.export.compare import Comparison


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written, and how it compares with what was trained."""

    path: Path
    bytes: int
    tensors: int
    """Weights that the adapter changed, each of which was found again in what was written."""
    comparison: Comparison
    notes: tuple[str, ...] = ()
    """What whoever runs it has to know."""


def refuse_output(out: Path) -> None:
    """Raises InputError when there is something at `out`, or no folder for it."""
    if os.path.lexists(out):
        raise InputError(f"{out} is there already; choose another name, or remove it")
    if not out.parent.is_dir():
        raise InputError(f"there is no folder {out.parent}; make it first")


@contextmanager
def whole(out: Path) -> Iterator[Path]:
    """A path beside `out` to write a file or a folder to. It gets its name at the end, and goes where that fails."""
    refuse_output(out)
    try:
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        try:
            yield work / out.name
            refuse_output(out)
            (work / out.name).rename(out)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise WorldlmError(f"cannot write {out}: {error.strerror or error}; nothing is left of it") from error


def size_of(path: Path) -> int:
    """Bytes of a file, or of the files in a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)
