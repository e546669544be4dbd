"""The corpus steps over files: what `worldlm data dedup`, `decontaminate`, `filter`, `split` and `mix` call.

Each reads trajectories and texts, writes new files, and gives a loss report. Nothing is overwritten, and an output has
its name only when it is whole. Needs the libraries of the extra `data`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from datatrove.data import Document
from numpy.typing import NDArray

from worldlm.core.errors import InputError
from worldlm.core.text import canonical_json
from worldlm.core.types import Trajectory, Value
from worldlm.data.exporting import refuse_existing
from worldlm.data.report import FileReport, Losses, LossReport
from worldlm.data.steps.decontaminate import (
    Leaks,
    common_runs,
    decontaminate,
    occurrences,
    reference,
    spell_out,
)
from worldlm.data.steps.dedup import Duplicates, exact_stages, near_stages
from worldlm.data.steps.mixture import Recipe, mix
from worldlm.data.steps.ngrams import Hashes
from worldlm.data.steps.pipeline import (
    OUT,
    Block,
    Change,
    ChangeRecords,
    CountRecords,
    Execution,
    Notes,
    Work,
    cluster,
)
from worldlm.data.steps.quality import Rules, refine
from worldlm.data.steps.records import CorpusFile, Record, corpus_files, read_record, read_shard, record_text
from worldlm.data.steps.splits import Part, SplitPlan, assign, held_turns, kinds_met

HERE = Execution()


@dataclass
class Done:
    """What a corpus step did."""

    report: LossReport
    written: dict[str, int]
    """Records, by output file."""
    figures: dict[str, Any] = field(default_factory=dict)
    """What the step has to tell beside its losses, as JSON."""


def remove_duplicates(inputs: Sequence[Path], output: Path, settings: Duplicates, execution: Execution = HERE) -> Done:
    """Write the records of `inputs` without duplicates; at the level of turns also `OUT.repeats.jsonl`.

    A line of that is `{"id": …, "turns": [numbers from 0]}`. Raises InputError for inputs and outputs that will not do.
    """
    by_turn = settings.near and settings.level == "turn"
    repeats = output.with_name(f"{output.name}.repeats.jsonl")
    with _work("dedup", inputs, [output, repeats] if by_turn else [output], settings, execution) as (work, files, told):
        exact_stages(work, files)
        if settings.near:
            near_stages(work, settings)
        last = "near" if settings.near else "exact"
        report = _report(work, told, [("exact", "read"), ("exact", "drop"), ("near", "drop")])
        done = Done(report, {str(output): work.read_notes(last, "write").counts[OUT]})
        outputs = {output: work.shards(last)}
        if by_turn:
            outputs[repeats] = sorted((work.folder / "near" / "repeats").glob("*.jsonl"))
        work.publish(outputs)
    return done


def filter_quality(inputs: Sequence[Path], output: Path, rules: Rules, execution: Execution = HERE) -> Done:
    """Write the records that keep the rules. Raises InputError for inputs and outputs that will not do."""
    with _work("filter", inputs, [output], rules, execution) as (work, files, told):
        return _change(work, files, told, output, partial(_refine, rules))


def remove_leaks(
    inputs: Sequence[Path],
    tests: Callable[[], Iterable[Record]],
    output: Path,
    leaks: Leaks,
    execution: Execution = HERE,
) -> Done:
    """Write the records without what stands in the test set too. `tests` is called where its records are wanted.

    Raises InputError when the tests hold no run of words, and for inputs and outputs that will not do.
    """
    known = reference(tests(), leaks)
    if not len(known.hashes):
        raise InputError(
            f"the test set holds no run of {leaks.n} words, so nothing can be compared; ask for fewer words"
        )
    settings = [leaks, xxhash.xxh3_128_hexdigest(known.hashes.tobytes())]
    with _work("decontaminate", inputs, [output], settings, execution) as (work, files, told):
        found = work.folder / "count" / "found"
        count = _CountRuns(known.hashes, leaks, found, work.notes("count", "count"))
        work.run("count", [work.reader("count", files), count])
        pieces = [np.load(path) for path in sorted(found.glob("*.npy"))]
        records, counts = sum(int(piece[0]) for piece in pieces), np.sum([piece[1:] for piece in pieces], axis=0)
        is_common = common_runs(counts, records, leaks)
        done = _change(work, files, told, output, partial(_decontaminate, known.hashes[~is_common], leaks))
    spelt = spell_out(tests(), known.hashes[is_common], leaks)
    ranked = sorted(
        zip(known.hashes[is_common].tolist(), counts[is_common].tolist(), strict=True), key=lambda run: -run[1]
    )
    done.figures = {
        "test_runs": len(known.hashes),
        "test_texts": known.passages,
        "test_texts_too_short": known.short,
        "matched_runs": int(np.count_nonzero(counts)),
        "common_runs": [{"words": spelt[run], "records": number} for run, number in ranked],
    }
    return done


def split(inputs: Sequence[Path], folder: Path, plan: SplitPlan, execution: Execution = HERE) -> Done:
    """Write the parts of a split into a folder, `PART.jsonl` each.

    Raises InputError when a part is empty or a held-out kind is never met (and writes none then), and for inputs and
    outputs that will not do.
    """
    outputs = {part: folder / f"{part.value}.jsonl" for part in plan.parts()}
    with _work("split", inputs, list(outputs.values()), plan, execution, folder) as (work, files, told):
        met = CountRecords("met", partial(_kinds_met, plan), work.notes("split", "met"))
        change = ChangeRecords("assign", partial(_assign, plan), work.notes("split", "change"))
        turns = CountRecords("turns", _turns_of, work.notes("split", "turns"))
        asked = CountRecords("asked", partial(_asked, plan), work.notes("split", "asked"))
        reader = work.reader("split", files)
        work.run("split", [reader, met, change, turns, asked, work.writer("split")])
        written = work.read_notes("split", "write").counts
        _require_kinds(plan, work.read_notes("split", "met").counts)
        _require_parts(plan, written)
        done = Done(
            _report(work, told, [("split", "read"), ("split", "change")]),
            {str(path): written[part] for part, path in outputs.items()},
            {
                "turns": _nested(work.read_notes("split", "turns").counts),
                "held_out_turns": _nested(work.read_notes("split", "asked").counts),
            },
        )
        work.publish({path: work.shards("split", part) for part, path in outputs.items()})
    return done


def mix_sources(
    recipe: Recipe, sources: Mapping[str, Sequence[Path]], output: Path, execution: Execution = HERE
) -> Done:
    """Write a mixture of records. `sources`: the files (or folders of files) of each source of the recipe.

    Raises InputError when a source is missing or empty, or holds too little, before anything is written.
    """
    if missing := [name for name in recipe.sources if not sources.get(name)]:
        raise InputError(f"source {missing[0]!r} is missing")
    by_source = {name: corpus_files(sources[name], FileReport(name)) for name in recipe.sources}
    of_file = np.repeat(np.arange(len(by_source)), [len(files) for files in by_source.values()])
    paths = [path for name in recipe.sources for path in sources[name]]
    with _work("mix", paths, [output], recipe, execution) as (work, files, told):
        found = work.folder / "index" / "found"
        work.run("index", [_Index(files, found, work.notes("index", "index"))])
        index = np.concatenate([np.load(path) for path in sorted(found.glob("*.npy"))])
        of_record = of_file[index["file"]]
        rows = {name: index[of_record == number] for number, name in enumerate(by_source)}
        choice = mix(recipe, {name: mine["chars"] for name, mine in rows.items()})
        starts = np.cumsum([0, *(len(mine) for mine in rows.values())])[:-1]
        plan = np.concatenate(list(rows.values()))[starts[choice.source] + choice.record]
        np.save(work.folder / "plan.npy", plan)
        gather = _Gather(files, work.folder / "plan.npy", work.notes("mix", "gather"))
        work.run("mix", [gather, work.writer("mix")])
        done = Done(
            _report(work, told, [("index", "index")]),
            {str(output): work.read_notes("mix", "write").counts[OUT]},
            {"sources": _portions(rows, choice.source, plan["chars"])},
        )
        work.publish({output: work.shards("mix")})
    return done


# What they share.


@contextmanager
def _work(
    name: str,
    inputs: Sequence[Path],
    outputs: Sequence[Path],
    settings: Any,
    execution: Execution,
    whole: Path | None = None,
) -> Iterator[tuple[Work, list[CorpusFile], FileReport]]:
    """The work folder, the input's files and what is to be told of them: all that can be refused has been looked at.

    `whole` is the folder that holds the outputs, where the step makes one.
    """
    for output in outputs:
        refuse_existing(output)
    told = FileReport(", ".join(map(str, inputs)), "worldlm")
    files = corpus_files(inputs, told)
    work = Work.open(whole or outputs[0], files, canonical_json([name, _plain(settings)]), execution)
    try:
        with cluster(execution):
            yield work, files, told
    except InputError:
        work.remove()  # to go on would come to the same
        raise


def _plain(settings: Any) -> Any:
    if isinstance(settings, Value):
        return settings.model_dump(mode="json")
    return [_plain(each) for each in settings] if isinstance(settings, list) else settings


def _report(work: Work, told: FileReport, blocks: Sequence[tuple[str, str]]) -> LossReport:
    """A loss report over the whole input: what is `told` of its files, and the notes of these blocks."""
    notes = Notes(told)
    for stage, block in blocks:
        notes.add(work.read_notes(stage, block).to_json())
    return LossReport([told])


def _change(work: Work, files: Sequence[CorpusFile], told: FileReport, output: Path, change: Change) -> Done:
    """The one stage of a step that does something to every record."""
    changing = ChangeRecords("change", change, work.notes("change", "change"))
    work.run("change", [work.reader("change", files), changing, work.writer("change")])
    report = _report(work, told, [("change", "read"), ("change", "change")])
    left = work.read_notes("change", "write").counts[OUT]
    if not left:
        why = "; ".join(f"{row['count']} {row['effect']}, {row['reason']}" for row in report.losses.to_json())
        raise InputError(f"no record is left, and nothing is written: {why or 'none could be read'}")
    done = Done(report, {str(output): left})
    work.publish({output: work.shards("change")})
    return done


# Plain steps with their settings first, so that `partial` makes blocks of them.


def _refine(rules: Rules, record: Record, losses: Losses) -> Record | None:
    return refine(record, rules, losses)


def _decontaminate(forbidden: Hashes, leaks: Leaks, record: Record, losses: Losses) -> Record | None:
    return decontaminate(record, forbidden, leaks, losses)


def _assign(plan: SplitPlan, record: Record, losses: Losses) -> tuple[str, Record] | None:
    return assign(record, plan, losses)


# Decontamination.


class _CountRuns(Block):
    """Counts, over a shard, the records that hold each of the known runs: an array, the number of records first."""

    def __init__(self, known: Hashes, leaks: Leaks, folder: Path, notes: Path):
        super().__init__("count runs", notes)
        self.known, self.leaks, self.folder = known, leaks, folder

    def _work(self, data: Iterable[Document], notes: Notes, rank: int, world_size: int) -> Iterator[Document]:
        records, counts = occurrences((document.metadata["record"] for document in data), self.known, self.leaks)
        self.folder.mkdir(parents=True, exist_ok=True)
        np.save(self.folder / f"{rank:05d}.npy", np.concatenate([[records], counts]))
        yield from ()


# Splitting.

_BETWEEN = "\t"


def _turns_of(part: str, record: Record) -> list[str]:
    return [f"{part}{_BETWEEN}{record.world.domain}"] * len(record.turns) if isinstance(record, Trajectory) else []


def _asked(plan: SplitPlan, part: str, record: Record) -> list[str]:
    if part != Part.TEST_B or not isinstance(record, Trajectory):
        return []
    return [f"{record.world.domain}{_BETWEEN}{kind}" for _, kind in held_turns(record, plan)]


def _kinds_met(plan: SplitPlan, part: str, record: Record) -> set[str]:
    if not isinstance(record, Trajectory):
        return set()
    domain = record.world.domain
    return {domain, *(f"{domain}{_BETWEEN}{kind}" for kind in kinds_met(record, plan))}


def _nested(counts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for key, count in sorted(counts.items()):
        outer, inner = key.split(_BETWEEN)
        nested.setdefault(outer, {})[inner] = count
    return nested


_CURES = {
    Part.TRAIN: "give smaller 'test' and 'validation' shares",
    Part.VALIDATION: "give a larger 'validation' share",
    Part.TEST_A: "give a larger 'test' share, or hold out rarer kinds",
    Part.TEST_B: "hold out kinds that the test side has",
}


def _require_parts(plan: SplitPlan, written: Mapping[str, int]) -> None:
    for part in plan.parts():
        if not written.get(part):
            raise InputError(f"the part {part.value} is empty: {_CURES[part]}, or give another seed or more records")


def _require_kinds(plan: SplitPlan, met: Mapping[str, int]) -> None:
    """Raises InputError for a kind that nothing in the corpus is of.

    One plan serves several corpora: a domain that the corpus has not is passed over, where it has another of the plan.
    """
    some = any(domain in met for domain in plan.held_out)
    for domain, kinds in plan.held_out.items():
        if some and domain not in met:
            continue
        for kind in (*kinds.worlds, *kinds.labels, *kinds.words):
            if f"{domain}{_BETWEEN}{kind}" not in met:
                raise InputError(
                    f"held_out.{domain}: nothing in the corpus is of the kind {kind!r}; correct it, or leave it out"
                )


# Mixing.

_ROW = np.dtype([("file", "<u4"), ("start", "<u8"), ("length", "<u4"), ("chars", "<i8")])


class _Index(Block):
    """Where each record of a shard stands, and how much text it has."""

    def __init__(self, files: Sequence[CorpusFile], folder: Path, notes: Path):
        super().__init__("index", notes)
        self.files, self.folder = tuple(files), folder

    def _work(self, data: Iterable[Document], notes: Notes, rank: int, world_size: int) -> Iterator[Document]:
        number = {file.path: place for place, file in enumerate(self.files)}
        rows: list[tuple[int, int, int, int]] = []
        for line in read_shard(self.files, rank, world_size):
            try:
                record = read_record(line.data)
            except ValueError as error:
                notes.report.problem(f"{line.place}: {error}")
                continue
            notes.report.records += 1
            if isinstance(record, Trajectory):
                notes.report.trajectories += 1
                notes.report.turns += len(record.turns)
            rows.append((number[line.path], line.start, len(line.data), len(record_text(record))))
        self.folder.mkdir(parents=True, exist_ok=True)
        np.save(self.folder / f"{rank:05d}.npy", np.array(rows, _ROW))
        yield from ()


class _Gather(Block):
    """The records of its part of a plan, in the plan's order."""

    def __init__(self, files: Sequence[CorpusFile], plan: Path, notes: Path):
        super().__init__("gather", notes)
        self.paths, self.plan = [file.path for file in files], plan

    def _work(self, data: Iterable[Document], notes: Notes, rank: int, world_size: int) -> Iterator[Document]:
        plan = np.load(self.plan, mmap_mode="r")
        first, last = len(plan) * rank // world_size, len(plan) * (rank + 1) // world_size
        handles = {place: self.paths[place].open("rb") for place in np.unique(plan["file"][first:last]).tolist()}
        try:
            for file, start, length, _ in plan[first:last].tolist():
                handles[file].seek(start)
                yield Document(text="", id="", metadata={"line": handles[file].read(length), "part": OUT})
        finally:
            for handle in handles.values():
                handle.close()


def _portions(
    rows: Mapping[str, NDArray[Any]], source: NDArray[np.int64], chars: NDArray[np.int64]
) -> dict[str, dict[str, Any]]:
    """What the mixture holds of each source."""
    whole = int(chars.sum())
    return {
        name: {
            "records": int(np.count_nonzero(source == number)),
            "characters": (mine := int(chars[source == number].sum())),
            "share": mine / whole,
            "rounds": mine / int(rows[name]["chars"].sum()),
        }
        for number, name in enumerate(rows)
    }


__all__ = ["HERE", "Done", "filter_quality", "mix_sources", "remove_duplicates", "remove_leaks", "split"]
