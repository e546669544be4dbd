"""Duplicates: records with the same content, and records with nearly the same.

*Exact*: the same actions, outcomes and observations in the same order (or the same text), whatever their ids, worlds,
seeds and times. *Near*: MinHash with locality-sensitive hashing over runs of tokens, by `datatrove`'s blocks. With 14
bands of 8 hashes two records of Jaccard similarity 0.8 meet with a probability of 92 %, of 0.7 with 56 %, of 0.5 with
5 %. Of records that are alike, also by way of others, the first of the corpus is kept.

A near duplicate is a whole trajectory by default. At the level of *turns* each action with its answer is compared by
itself. A turn cannot be taken out of a history, so a trajectory is dropped only when all its turns stand earlier in the
corpus; the repeated turns of the others are listed, for the loss mask.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from datatrove.data import Document
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.dedup import (
    ExactDedupConfig,
    ExactDedupSignature,
    ExactFindDedups,
    MinhashConfig,
    MinhashDedupBuckets,
    MinhashDedupSignature,
)
from datatrove.utils.hashing import HashConfig
from datatrove.utils.word_tokenizers import WordTokenizer
from pydantic import Field

from worldlm.core.text import canonical_json, digest
from worldlm.core.types import Trajectory, Value
from worldlm.data.steps.ngrams import Hashes, ngram_hashes, tokens
from worldlm.data.steps.pipeline import Block, Notes, Work
from worldlm.data.steps.records import CorpusFile, Record, TextRecord, record_text, turn_text

LINES = 1000
"""Signatures that a reader of datatrove's holds at once."""
ROWS = 4096
"""Runs of tokens whose hashes are permuted at once: bounds the memory that one long record takes."""


class Duplicates(Value):
    """What counts as a duplicate."""

    near: bool = True
    """Near duplicates too."""
    level: Literal["trajectory", "turn"] = "trajectory"
    n: int = Field(default=5, ge=1)
    """Tokens of a run (words and signs, as they are written)."""
    bands: int = Field(default=14, ge=1)
    rows: int = Field(default=8, ge=1)
    """Hashes of a band: two records are alike when one whole band is equal."""
    seed: int = 1

    def minhash(self) -> MinhashConfig:
        """As datatrove's blocks want it."""
        return MinhashConfig(n_grams=self.n, num_buckets=self.bands, hashes_per_bucket=self.rows, seed=self.seed)


def content_key(record: Record) -> str:
    """A digest of what a record teaches."""
    if isinstance(record, TextRecord):
        return digest("text", record.text)
    parts = ["trajectory", record.world.domain, record.initial.text if record.initial else ""]
    for turn in record.turns:
        seen = turn.observation
        answer = [seen.text, str(seen.is_error), canonical_json(seen.structured)] if seen else [turn.detail or ""]
        parts += [turn.action, turn.outcome.value, *answer]
    return digest(*parts)


def first_of_each(pairs: Iterable[tuple[tuple[int, int], tuple[int, int]]]) -> Iterator[tuple[int, int]]:
    """Of each set of places that are connected by `pairs`, all but the smallest, in order."""
    above: dict[tuple[int, int], tuple[int, int]] = {}

    def root(place: tuple[int, int]) -> tuple[int, int]:
        while (up := above.setdefault(place, place)) != place:
            above[place] = place = above[up]
        return place

    for one, other in pairs:
        low, high = sorted((root(one), root(other)))
        above[high] = low
    return (place for place in sorted(above) if root(place) != place)


# Blocks.


class _Tokens(WordTokenizer):  # type: ignore[misc]
    """datatrove asks for a tokenizer of its own kind; ours is used by `_Signature`."""

    def word_tokenize(self, text: str) -> list[str]:
        return tokens(text)

    def sent_tokenize(self, text: str) -> list[str]:
        return text.splitlines()

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        return [(0, len(text))]


class _Signature(MinhashDedupSignature):  # type: ignore[misc]
    """datatrove's signatures over our runs of tokens, in bounded memory."""

    def get_shingles(self, text: str) -> Hashes:
        return np.unique(ngram_hashes(tokens(text), self.config.n_grams)).reshape((-1, 1))

    def get_signature(self, shingles: Hashes) -> list[list[int]]:
        pieces = [
            super(_Signature, self).get_signature(shingles[at : at + ROWS]) for at in range(0, len(shingles), ROWS)
        ]
        smallest = np.min(np.array(pieces, np.uint64), axis=0)
        return [[int(number) for number in band] for band in smallest]


class _Turns(PipelineStep):  # type: ignore[misc]
    """A document for each turn, in place of each trajectory's."""

    type = "worldlm"
    name = "turns"

    def run(self, data: Iterable[Document], rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        for document in data:
            for text in _units(document.metadata["record"]):
                yield Document(text=text, id=document.id)


def _units(record: Record) -> list[str]:
    return [turn_text(turn) for turn in record.turns] if isinstance(record, Trajectory) else [record.text]


class _KeepFirst(PipelineStep):  # type: ignore[misc]
    """datatrove's clusters keep any of their documents; this keeps the first of the corpus."""

    type = "worldlm"
    name = "keep the first"

    def __init__(self, pairs: Path, removed: Path):
        super().__init__()
        self.pairs = pairs
        self.removed = removed

    def run(self, data: Any = None, rank: int = 0, world_size: int = 1) -> None:
        self.removed.mkdir(parents=True, exist_ok=True)
        by_shard: dict[int, list[int]] = {}
        for shard, number in first_of_each(self._pairs()):
            by_shard.setdefault(shard, []).append(number)
        for shard, numbers in by_shard.items():
            np.array(numbers, "<u4").tofile(self.removed / f"{shard:05d}.remove")

    def _pairs(self) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        for path in sorted(self.pairs.glob("*.dups")):
            with path.open("rb") as file:
                while block := file.read(16 << 16):
                    for a, b, c, d in np.frombuffer(block, "<u4").reshape(-1, 4).tolist():
                        yield (a, b), (c, d)


def _removed(folder: Path, pattern: str) -> set[int]:
    """The numbers, within a shard, of what is to be removed."""
    return {int(number) for path in folder.glob(pattern) for number in np.fromfile(path, "<u4")}


class _Drop(Block):
    """Leaves out the documents whose numbers an earlier stage has written."""

    def __init__(self, folder: Path, pattern: str, why: str, notes: Path):
        super().__init__("drop", notes)
        self.folder, self.pattern, self.why = folder, pattern, why

    def _work(self, data: Iterable[Document], notes: Notes, rank: int, world_size: int) -> Iterator[Document]:
        removed = _removed(self.folder, self.pattern.format(rank=rank))
        for number, document in enumerate(data):
            if number in removed:
                notes.report.losses.dropped(self.why, document.id)
            else:
                yield document


class _DropRepeats(Block):
    """Leaves out the trajectories all of whose turns stand earlier, and lists the repeated turns of the others."""

    def __init__(self, folder: Path, lists: Path, notes: Path):
        super().__init__("drop", notes)
        self.folder, self.lists = folder, lists

    def _work(self, data: Iterable[Document], notes: Notes, rank: int, world_size: int) -> Iterator[Document]:
        removed = _removed(self.folder, f"{rank:05d}.remove")
        self.lists.mkdir(parents=True, exist_ok=True)
        first = 0
        with (self.lists / f"{rank:05d}.jsonl").open("w", encoding="utf-8") as lists:
            for document in data:
                count = len(_units(document.metadata["record"]))
                repeated = [number for number in range(count) if first + number in removed]
                first += count
                if count and len(repeated) == count:
                    notes.report.losses.dropped("every turn stands earlier in the corpus", document.id)
                    continue
                for number in repeated:
                    notes.report.losses.verbatim(
                        "a turn that stands earlier in the corpus", f"{document.id} turn {number + 1}"
                    )
                if repeated:
                    lists.write(json.dumps({"id": document.id, "turns": repeated}) + "\n")
                yield document


# Stages.


def _key(document: Document) -> str:  # datatrove reads the annotation
    return content_key(document.metadata["record"])


def _priority(document: Document) -> int:
    """Of equal documents datatrove keeps the one of highest priority: the one of the first shard."""
    return 65535 - int(document.metadata["shard"])


def exact_stages(work: Work, files: list[CorpusFile]) -> None:
    """Leave out exact duplicates: the stages `exact-keys`, `exact-find` and `exact`, which writes the records."""
    config = ExactDedupConfig(content_getter=_key, document_priority=_priority, hash_config=HashConfig(precision=64))
    keys, found = work.folder / "exact-keys" / "keys", work.folder / "exact-find" / "found"
    work.run("exact-keys", [work.reader("exact-keys", files), ExactDedupSignature(str(keys), config)])
    work.run("exact-find", [ExactFindDedups(str(keys), str(found), config, lines_to_buffer=LINES)], tasks=1)
    drop = _Drop(
        found, "*/{rank:05d}.c4_dup", "the same content stands earlier in the corpus", work.notes("exact", "drop")
    )
    work.run("exact", [work.reader("exact", files), drop, work.writer("exact")])


def near_stages(work: Work, settings: Duplicates) -> None:
    """Leave out near duplicates of what `exact` wrote: `near-keys`, `-find`, `-first`, and `near`, which writes."""
    files, config = work.files("exact"), settings.minhash()
    keys, pairs, removed = (work.folder / f"near-{name}" / "found" for name in ("keys", "find", "first"))
    by_turn = settings.level == "turn"
    units = [_Turns()] if by_turn else []
    reader = work.reader("near-keys", files, None if by_turn else record_text)
    work.run("near-keys", [reader, *units, _Signature(str(keys), config, language=_Tokens())])
    find = MinhashDedupBuckets(str(keys), str(pairs), config=config, lines_to_buffer=LINES)
    work.run("near-find", [find], tasks=settings.bands)
    work.run("near-first", [_KeepFirst(pairs, removed)], tasks=1)
    notes = work.notes("near", "drop")
    drop = (
        _DropRepeats(removed, work.folder / "near" / "repeats", notes)
        if by_turn
        else _Drop(removed, "{rank:05d}.remove", "nearly the same content stands earlier in the corpus", notes)
    )
    work.run("near", [work.reader("near", files), drop, work.writer("near")])


__all__ = ["Duplicates", "content_key", "exact_stages", "first_of_each", "near_stages"]
