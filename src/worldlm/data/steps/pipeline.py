"""`datatrove` blocks for corpus records, and the work folder in which a corpus step runs and can be taken up again.

A step is a few *stages*, each a `datatrove` pipeline over shards of its input. The shards are worked off in this
process, by several processes, or by Ray; what a shard gives depends on the input and the settings alone. Finished
shards are known by the folder's log, so a run that was stopped goes on where it was when it is started again with the
same input and settings.
"""

import contextlib
import copy
import json
import logging
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import multiprocess
from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor, RayPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.utils.logging import setup_default_logger
from loguru import logger

from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.jsonl import dump_line
from worldlm.core.text import digest
from worldlm.core.types import Trajectory
from worldlm.data.report import Count, Effect, FileReport, Losses
from worldlm.data.steps.records import CorpusFile, Record, corpus_files, read_record, read_shard, record_text

SHARD_BYTES = 64 << 20
"""A shard is about so long: what a task keeps of its records stays small."""
OUT = "out"
"""The part that records belong to where a step has only one."""


# Blocks.


@dataclass(slots=True)
class Notes:
    """What a block, or several of them, did: as in a loss report, and what it counted beside that."""

    report: FileReport
    counts: Counter[str] = field(default_factory=Counter)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {**self.report.to_json(), "counts": dict(self.counts)}

    def add(self, notes: Mapping[str, Any]) -> None:
        """Count what the notes of another block say, which are JSON."""
        total = self.report
        total.records += notes["records"]
        total.trajectories += notes["trajectories"]
        total.turns += notes["turns"]
        for problem in notes["problems"]:
            total.problem(problem)
        total.bad += notes["bad"] - len(notes["problems"])
        losses = {
            (Effect(row["effect"]), row["reason"]): Count(row["count"], row["examples"]) for row in notes["losses"]
        }
        total.losses.add(Losses(losses))
        self.counts.update(notes["counts"])


class Block(PipelineStep):  # type: ignore[misc]
    """A block that leaves notes of its shard."""

    type = "worldlm"

    def __init__(self, name: str, notes: Path):
        super().__init__()
        self.name = name
        self.notes = notes

    def run(self, data: Iterable[Document] | None, rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Do the work on a shard, and leave notes when it is done."""
        notes = Notes(FileReport(self.name))
        yield from self._work(data or (), notes, rank, world_size)
        self.notes.mkdir(parents=True, exist_ok=True)
        (self.notes / f"{rank:05d}.json").write_text(json.dumps(notes.to_json()), "utf-8")

    def _work(self, data: Iterable[Document], notes: Notes, rank: int, world_size: int) -> Iterator[Document]:
        """What the block does with its shard."""
        raise NotImplementedError


class ReadRecords(Block):
    """Reads a shard of files of JSON lines. A line that is no record is named, counted and left out.

    A document's metadata hold the `record`, its `line`, its `part`, and the `shard`.
    """

    def __init__(self, files: Sequence[CorpusFile], notes: Path, text: Callable[[Record], str] | None = record_text):
        super().__init__("read", notes)
        self.files = tuple(files)
        self.text = text

    def _work(self, data: Iterable[Document], notes: Notes, rank: int, world_size: int) -> Iterator[Document]:
        report = notes.report
        for line in read_shard(self.files, rank, world_size):
            try:
                record = read_record(line.data)
            except ValueError as error:
                report.problem(f"{line.place}: {error}")
                continue
            report.records += 1
            if isinstance(record, Trajectory):
                report.trajectories += 1
                report.turns += len(record.turns)
            told = {"record": record, "line": line.data, "part": OUT, "shard": rank}
            yield Document(text=self.text(record) if self.text else "", id=record.id, metadata=told)


Change = Callable[[Record, Losses], tuple[str, Record] | Record | None]
"""A plain step: the record, changed or not, perhaps with the part that it belongs to; None where it is left out."""


class ChangeRecords(Block):
    """Does a plain step to every record."""

    def __init__(self, name: str, change: Change, notes: Path):
        super().__init__(name, notes)
        self.change = change

    def _work(self, data: Iterable[Document], notes: Notes, rank: int, world_size: int) -> Iterator[Document]:
        for document in data:
            old = document.metadata["record"]
            done = self.change(old, notes.report.losses)
            if done is None:
                continue
            part, record = done if isinstance(done, tuple) else (OUT, done)
            document.metadata["part"] = part
            if record is not old:
                document.metadata |= {"record": record, "line": dump_line(record).encode()}
            yield document


class CountRecords(Block):
    """Counts the keys that `keys` gives for each record and its part."""

    def __init__(self, name: str, keys: Callable[[str, Record], Iterable[str]], notes: Path):
        super().__init__(name, notes)
        self.keys = keys

    def _work(self, data: Iterable[Document], notes: Notes, rank: int, world_size: int) -> Iterator[Document]:
        for document in data:
            notes.counts.update(self.keys(document.metadata["part"], document.metadata["record"]))
            yield document


class WriteRecords(Block):
    """Writes each record into the folder of its part, one file a shard: a record that nobody changed byte for byte.

    Counts the records of each part.
    """

    def __init__(self, folder: Path, notes: Path):
        super().__init__("write", notes)
        self.folder = folder

    def _work(self, data: Iterable[Document], notes: Notes, rank: int, world_size: int) -> Iterator[Document]:
        with contextlib.ExitStack() as stack:
            files: dict[str, Any] = {}
            for document in data:
                part = str(document.metadata["part"])
                if part not in files:
                    (self.folder / part).mkdir(parents=True, exist_ok=True)
                    files[part] = stack.enter_context((self.folder / part / f"{rank:05d}.jsonl").open("wb"))
                files[part].write(document.metadata["line"] + b"\n")
                notes.counts[part] += 1
                yield document


# Running them.


@dataclass(frozen=True, slots=True)
class Execution:
    """Where stages run, and how many tasks at once."""

    workers: int = 1
    backend: Literal["local", "ray"] = "local"
    """`ray`: the cluster of RAY_ADDRESS, else one on this machine that ends with the step."""
    work: Path | None = None
    """The folder for what lies between the stages; beside the output where None. It goes when the step is done."""

    def __post_init__(self) -> None:
        """Raises InputError where Ray is asked for and not installed: nothing has been begun then."""
        if self.backend == "ray" and find_spec("ray") is None:
            raise InputError("--ray: Ray is not installed; pip install ray, or run without --ray")

    def folder(self, output: Path) -> Path:
        """The folder for a step that writes `output`."""
        return self.work or output.with_name(f"{output.name}.work")


class _Quiet:
    """Keeps datatrove's log lines and bars out of our standard error; what fails is raised."""

    def _run_for_rank(self, *arguments: Any, **named: Any) -> Any:
        logger.disable("datatrove")
        with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
            return super()._run_for_rank(*arguments, **named)  # type: ignore[misc]


class _Local(_Quiet, LocalPipelineExecutor):  # type: ignore[misc]
    """Starts no process for one worker, and no manager process (which would outlive us if we were killed)."""

    pipeline: list[Any]

    def run(self) -> None:
        ranks = self.get_incomplete_ranks()
        if self.workers == 1 or len(ranks) < 2:
            steps = self.pipeline
            for rank in ranks:
                self.pipeline = copy.deepcopy(steps)
                self._run_for_rank(rank)
            return
        context = multiprocess.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        with context.Pool(min(self.workers, len(ranks)), _leave_ctrl_c) as pool:
            for _ in pool.imap_unordered(self._run_for_rank, ranks):
                pass


def _leave_ctrl_c() -> None:
    """Ctrl-C reaches every process of a terminal; the one that was started ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Ray(_Quiet, RayPipelineExecutor):  # type: ignore[misc]
    pass


@dataclass
class Work:
    """The work folder of one corpus step, and its stages."""

    folder: Path
    execution: Execution
    tasks: int
    """Shards of a stage that reads records."""
    made: Sequence[Path] = ()
    """The folders that were made to hold it, the inner ones first: they go with it where they hold nothing else."""

    @classmethod
    def open(cls, output: Path, files: Sequence[CorpusFile], settings: str, execution: Execution) -> "Work":
        """The folder for this input and these settings, with what an earlier run of the same has left there.

        `output` is the file, or the folder of files, that the step writes. Raises InputError for a folder that holds
        something else, and for a place where no such folder can be.
        """
        named = execution.folder(output)
        folder = named.resolve()  # of a link, the folder
        for path in (output, *(file.path for file in files)):
            if path.resolve().is_relative_to(folder):
                raise InputError(f"{path} lies in {named}, which goes when the work is done: name another by --work")
        size = sum(file.size for file in files)
        tasks = max(execution.workers, -(-size // SHARD_BYTES))
        parts = [f"{file.path.resolve()} {file.size} {file.changed_ns}" for file in files]
        key = digest("1", settings, str(tasks), *parts)
        mark = folder / "work.json"
        try:
            if folder.exists() and not folder.is_dir():
                raise InputError(f"{named} is no folder, and stays; name another place for the work by --work")
            known = _read_mark(mark)
            # The mark is written first: half of one, alone in its folder, is of a run that was ended just then.
            if known is None and folder.exists() and any(path != mark for path in folder.iterdir()):
                raise InputError(
                    f"{named} is no work folder of ours, and not empty; remove it, or name another by --work"
                )
            made = missing_parents(folder)
            if known != {"key": key}:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                mark.write_text(json.dumps({"key": key}), "utf-8")
        except OSError as error:
            raise InputError(
                f"cannot write the work folder {named}: {error.strerror or error}; name another by --work"
            ) from error
        return cls(folder, execution, tasks, made)

    def notes(self, stage: str, block: str) -> Path:
        """Where a block of a stage leaves its notes."""
        return self.folder / stage / "notes" / block

    def run(self, stage: str, blocks: Sequence[Any], tasks: int | None = None) -> None:
        """Run a stage over `tasks` shards (as many as the input has, where None). Finished shards are left alone.

        Raises WorldlmError when a shard cannot be finished under Ray; locally what went wrong is raised.
        """
        count = tasks or self.tasks
        log = str(self.folder / stage / "log")
        workers = min(self.execution.workers, count)
        logger.disable("datatrove")
        try:
            if self.execution.backend == "local":
                _Local(list(blocks), tasks=count, workers=workers, logging_dir=log).run()
                return
            executor = _Ray(list(blocks), tasks=count, workers=workers, logging_dir=log, mem_per_cpu_gb=1)
            executor.run()
            if missing := executor.get_incomplete_ranks():
                raise WorldlmError(f"{len(missing)} of {count} shards of {stage} failed under Ray; see {log}/logs")
        finally:
            logger.enable("datatrove")
            setup_default_logger()

    def read_notes(self, stage: str, *blocks: str) -> Notes:
        """The notes of a stage's blocks, of all shards together."""
        total = Notes(FileReport(stage, "worldlm"))
        for block in blocks:
            for path in sorted(self.notes(stage, block).glob("*.json")):
                total.add(json.loads(path.read_text("utf-8")))
        return total

    def shards(self, stage: str, part: str = OUT) -> list[Path]:
        """The files that a stage wrote, in the order of the corpus."""
        return sorted((self.folder / stage / "records" / part).glob("*.jsonl"))

    def files(self, stage: str) -> list[CorpusFile]:
        """The same, to be read by another stage. Raises InputError where nothing was written."""
        if not self.shards(stage):
            raise InputError("no record is left")
        return corpus_files(self.shards(stage))

    def reader(self, stage: str, files: Sequence[CorpusFile], text: Callable[[Record], str] | None = None) -> Block:
        """A block that reads records."""
        return ReadRecords(files, self.notes(stage, "read"), text)

    def writer(self, stage: str) -> Block:
        """A block that writes records."""
        return WriteRecords(self.folder / stage / "records", self.notes(stage, "write"))

    def publish(self, parts: Mapping[Path, Sequence[Path]]) -> None:
        """Put the shards of each output together, and name the outputs only when all are whole. Removes the folder."""
        ready: list[tuple[Path, Path]] = []
        try:
            for output, shards in parts.items():
                output.parent.mkdir(parents=True, exist_ok=True)
                whole = output.with_name(f".{output.name}.part")
                ready.append((whole, output))
                with whole.open("wb") as file:
                    for shard in shards:
                        with shard.open("rb") as piece:
                            shutil.copyfileobj(piece, file, 1 << 20)
            for whole, output in ready:
                whole.replace(output)
        except OSError as error:
            raise WorldlmError(f"cannot write {error.filename}: {error.strerror}; free some space") from error
        finally:
            for whole, _ in ready:
                whole.unlink(missing_ok=True)
        self.remove()

    def remove(self) -> None:
        """Remove the folder, and those that were made for it and hold nothing."""
        shutil.rmtree(self.folder, ignore_errors=True)
        remove_empty(self.made)


def missing_parents(path: Path) -> list[Path]:
    """The folders that will have to be made to hold `path`, the inner ones first."""
    return [parent for parent in path.parents if not parent.exists()]


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove those of some folders that hold nothing."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _read_mark(path: Path) -> Any:
    """What identifies the work of a folder; None where nothing does."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def cluster(execution: Execution) -> Iterator[None]:
    """A Ray cluster while it is needed, where `execution` wants one."""
    if execution.backend != "ray":
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    if ray.is_initialized():
        yield
        return
    if address := os.environ.get("RAY_ADDRESS"):
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    else:
        ray.init(
            num_cpus=execution.workers,
            include_dashboard=False,
            object_store_memory=200 << 20,
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
    try:
        yield
    finally:
        ray.shutdown()


__all__ = [
    "OUT",
    "Block",
    "Change",
    "ChangeRecords",
    "CountRecords",
    "Execution",
    "Notes",
    "ReadRecords",
    "Work",
    "WriteRecords",
    "cluster",
    "missing_parents",
    "remove_empty",
]
