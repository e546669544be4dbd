"""The stages of a build, and the log by which a stage that was done is left alone.

The log has a line for each time that a stage was done: its name, a digest of its settings and inputs, its figures and
its seconds. A stage whose last line has the same digest, and whose outputs are there, is done.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from worldlm.cli.console import waiting
from worldlm.core.errors import WorldlmError
from worldlm.core.jsonl import JsonlWriter, read_jsonl
from worldlm.core.text import canonical_json, digest
from worldlm.core.types import Value
from worldlm.data.steps.pipeline import Execution
from worldlm.data.steps.records import Record, corpus_files, read_record, read_shard
from worldlm.data.steps.run import Done


@dataclass
class Stages:
    """The stages of one build, in its folder."""

    folder: Path
    log: JsonlWriter
    execution: Execution
    hidden: bool = False
    """Whether nothing is shown meanwhile."""
    done: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The last line of each stage."""

    def __post_init__(self) -> None:
        for line in read_jsonl(self.log.path, _parse_line).items:
            self.done[line["stage"]] = line

    def path(self, *parts: str) -> Path:
        """A path in the build's folder."""
        return self.folder.joinpath(*parts)

    def run(
        self,
        name: str,
        settings: Any,
        inputs: Sequence[Path],
        outputs: Sequence[Path],
        work: Callable[[], Any],
        *,
        shows: bool = False,
    ) -> Any:
        """Do `work`, which writes `outputs` and gives figures as JSON; or leave it, where it was done just so.

        `shows`: the work shows by itself how far it is.
        """
        key = key_of(name, settings, inputs)
        if not self.is_done(name, key, outputs):
            for path in outputs:
                path.unlink(missing_ok=True)
                path.parent.mkdir(parents=True, exist_ok=True)
            started = time.perf_counter()
            with nullcontext() if shows else waiting(name):
                figures = work()
            self.finish(name, key, figures, time.perf_counter() - started)
        return self.figures(name)

    def is_done(self, name: str, key: str, outputs: Sequence[Path]) -> bool:
        """Whether a stage was done with these settings and inputs, and what it wrote is there."""
        return name in self.done and self.done[name]["key"] == key and all(path.exists() for path in outputs)

    def finish(self, name: str, key: str, figures: Any, seconds: float) -> None:
        """Note that a stage is done."""
        line = {"stage": name, "key": key, "seconds": round(seconds, 1), "figures": figures}
        self.log.write(line)
        self.done[name] = line

    def figures(self, name: str) -> Any:
        """What a stage that is done has told."""
        return self.done[name]["figures"]


def key_of(name: str, settings: Any, inputs: Sequence[Path] = ()) -> str:
    """Identifies what a stage does: its settings, and its input files as they are."""
    stats = [(path, path.stat()) for path in inputs]
    parts = [f"{path.resolve()} {status.st_size} {status.st_mtime_ns}" for path, status in stats]
    return digest(name, canonical_json(settings), *parts)


def plain(value: Value) -> Any:
    """Settings as JSON."""
    return value.model_dump(mode="json")


def told(done: Done) -> dict[str, Any]:
    """What a corpus step did, as JSON. Raises WorldlmError for bad lines: the files are our own."""
    for report in done.report.files:
        if report.bad:
            raise WorldlmError(f"a file of the build is damaged: {report.problems[0]}; remove it and build again")
    losses = [row for report in done.report.files for row in report.losses.to_json()]
    return {"losses": losses, "figures": done.figures}


def records(path: Path) -> Iterator[Record]:
    """The records of a file of the build."""
    for line in read_shard(corpus_files([path]), 0, 1):
        yield read_record(line.data)


@contextmanager
def whole(*outputs: Path) -> Iterator[list[JsonlWriter]]:
    """A writer for each output; they have their names only when all is written."""
    parts = [path.with_name(f".{path.name}.part") for path in outputs]
    for part in parts:
        part.unlink(missing_ok=True)
    writers = [JsonlWriter(part) for part in parts]
    try:
        yield writers
    except BaseException:
        for writer, part in zip(writers, parts, strict=True):
            writer.close()
            part.unlink(missing_ok=True)
        raise
    for writer, part, path in zip(writers, parts, outputs, strict=True):
        writer.close()
        part.replace(path)


def _parse_line(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not {"stage", "key", "figures"} <= set(value):
        raise ValueError("this is no line of a build")
    return value
