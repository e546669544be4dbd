"""From trajectories to files of another format, with a report of what that format cannot hold."""

import json
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.jsonl import COMPRESSED, ZSTD, JsonlWriter
from worldlm.core.types import Trajectory
from worldlm.data.formats import FORMATS, Format, WriteOptions
from worldlm.data.report import Losses


def writable() -> list[str]:
    """The formats that can be written."""
    return [each.name for each in FORMATS.values() if each.write is not None]


def export_trajectories(
    trajectories: Iterable[Trajectory],
    target: Format,
    output: Path,
    options: WriteOptions,
    losses: Losses,
) -> dict[str, int]:
    """Write `trajectories` to `output`, a file or (for formats of many files) a folder; records by file.

    Nothing is overwritten. Raises InputError when the format cannot be written or a file is there already.
    """
    if target.write is None:
        raise InputError(f"{target.name} can be read and not written; these can be written: {', '.join(writable())}")
    if target.many_files and output.is_file():
        raise InputError(f"{output} is a file; {target.name} is written as a folder")
    written: dict[str, int] = {}
    with ExitStack() as stack:
        lines: dict[Path, JsonlWriter] = {}
        for piece in target.write(trajectories, options, losses):
            path = output / piece.file if piece.file else output
            if path.suffix == ".json" and target.many_files:
                _write_json(path, piece.value)
            else:
                if path not in lines:
                    refuse_existing(path)
                    lines[path] = stack.enter_context(JsonlWriter(path))
                lines[path].write(piece.value)
            written[str(path)] = written.get(str(path), 0) + 1
    return written


def refuse_existing(path: Path) -> None:
    """Raises InputError when there is something at `path` that writing would add to or replace.

    Also for a name that says that the file is compressed, which nothing here writes.
    """
    if path.suffix in (*COMPRESSED, *ZSTD):
        raise InputError(f"{path}: it is written as plain text; leave out {path.suffix}")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file")
    if path.is_file() and path.stat().st_size:
        raise InputError(f"{path} is there already; choose another name, or remove it")


def _write_json(path: Path, value: object) -> None:
    refuse_existing(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2) + "\n", "utf-8")
    except OSError as error:
        raise WorldlmError(f"cannot write {path}: {error.strerror or error}") from error
