"""From files to rows: token ids, and which of them are trained.

A row is a trajectory's example (`data.masks`) or a piece of a text, of which all tokens but the first are trained. The
rows of a run lie behind each other in a few arrays, which are kept beside the run: a run that goes on, and each process
of several, maps them instead of making them again.

Which rows an epoch has, and in which order, follows from the seed and the epoch's number alone.
"""

import hashlib
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from worldlm.core.errors import InputError, WorldlmError, user_path
from worldlm.core.text import canonical_json, digest
from worldlm.core.types import Message, Profile, Trajectory
from worldlm.data.classes import MaskConfig, default_config, label_turns
from worldlm.data.masks import Example, MaskError, TemplateError, check_template, mask
from worldlm.data.settings import read_settings
from worldlm.data.steps.records import Line, Record, TextRecord, corpus_files, read_record, read_shard
from worldlm.data.tokenizers import ChatTokenizer
from worldlm.domains import get_domain
from worldlm.domains.reply import THINK_CLOSE, THINK_OPEN
from worldlm.train.settings import Data, Run

Tell = Callable[[str, int, int], None]
"""Called with what is being read, bytes done, and bytes in all."""

Inspect = Callable[[Sequence["Row"], ChatTokenizer], None]
"""Shown rows before they are trained."""


@dataclass(frozen=True, slots=True)
class Row:
    """A training sequence. Raises MaskError when nothing of it is trained, or the first token is."""

    ids: NDArray[np.int32]
    mask: NDArray[np.bool_]
    """One for each id: whether predicting that token from those before is trained."""
    domain: str
    """The domain of a trajectory; of a text, the name of its file."""
    source: str
    """The id of the trajectory or text."""

    def __post_init__(self) -> None:
        if self.ids.shape != self.mask.shape or self.ids.ndim != 1:
            raise MaskError(f"{self.source}: a mask of shape {self.mask.shape} for ids of shape {self.ids.shape}")
        if not self.mask.any() or self.mask[0]:
            what = (
                "the first token is trained, and nothing stands before it" if self.mask.any() else "no token is trained"
            )
            raise MaskError(f"{self.source}: {what}")

    @property
    def trained(self) -> int:
        """Tokens that are trained."""
        return int(self.mask.sum())

    @classmethod
    def of_example(cls, example: Example, domain: str, *, every_token: bool = False) -> "Row":
        """An example of a trajectory; with `every_token` all but its first token are trained."""
        trained = np.array(example.mask, np.bool_)
        if every_token:
            trained[:] = True
            trained[0] = False
        return cls(np.array(example.ids, np.int32), trained, domain, example.trajectory)

    @classmethod
    def of_text(cls, ids: Sequence[int], domain: str, source: str) -> "Row":
        """A piece of a text of at least two tokens."""
        trained = np.ones(len(ids), np.bool_)
        trained[:1] = False
        return cls(np.array(ids, np.int32), trained, domain, source)


@dataclass(frozen=True)
class TrainingSet:
    """Rows, and what became of everything that was to be one."""

    ids: NDArray[np.int32]
    """(tokens,) of all rows behind each other."""
    mask: NDArray[np.bool_]
    """(tokens,)"""
    ends: NDArray[np.int64]
    """(rows,) where each row ends in `ids`."""
    domain: NDArray[np.int16]
    """(rows,) the number of each row's domain in `domains`."""
    domains: tuple[str, ...]
    texts: frozenset[str]
    """Those of `domains` that are texts."""
    sources: tuple[str, ...]
    wanted: int = 0
    """Turns that were to be trained."""
    unfit: Mapping[str, int] = field(default_factory=dict)
    """Turns that were to be trained and are not, by reason."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Turns that were not to be trained, by reason."""

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: int) -> Row:
        start, end = int(self.ends[number - 1]) if number else 0, int(self.ends[number])
        name = self.domains[self.domain[number]]
        return Row(self.ids[start:end], self.mask[start:end], name, self.sources[number])

    def __iter__(self) -> Iterator[Row]:
        return (self[number] for number in range(len(self)))

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """(rows,) tokens of each row."""
        return np.diff(self.ends, prepend=0)

    @cached_property
    def trained(self) -> NDArray[np.int64]:
        """(rows,) trained tokens of each row."""
        return np.add.reduceat(self.mask, np.concatenate([[0], self.ends[:-1]]), dtype=np.int64)

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of what is trained."""
        sha = hashlib.sha256()
        for array in (self.ids, self.mask, self.ends, self.domain):
            sha.update(np.ascontiguousarray(array).tobytes())
        sha.update("\0".join(self.domains).encode())
        return sha.hexdigest()

    def figures(self) -> dict[str, int]:
        """Rows, tokens and trained tokens, by domain and in all."""
        lengths, trained = self.lengths, self.trained
        found = {"rows": len(self), "tokens": len(self.ids), "targets": int(trained.sum())}
        for number, name in enumerate(self.domains):
            of = self.domain == number
            found |= {
                f"rows/{name}": int(of.sum()),
                f"tokens/{name}": int(lengths[of].sum()),
                f"targets/{name}": int(trained[of].sum()),
            }
        return found

    @classmethod
    def of_rows(
        cls,
        rows: Iterable[Row],
        *,
        texts: Iterable[str] = (),
        wanted: int = 0,
        unfit: Mapping[str, int] | None = None,
        left_out: Mapping[str, int] | None = None,
    ) -> "TrainingSet":
        """A set of these rows. Raises MaskError when there is none."""
        held = list(rows)
        if not held:
            raise MaskError("there is nothing to train: no row has a target")
        domains = tuple(dict.fromkeys(row.domain for row in held))
        return cls(
            ids=np.concatenate([row.ids for row in held]),
            mask=np.concatenate([row.mask for row in held]),
            ends=np.cumsum([len(row.ids) for row in held], dtype=np.int64),
            domain=np.array([domains.index(row.domain) for row in held], np.int16),
            domains=domains,
            texts=frozenset(texts) & frozenset(domains),
            sources=tuple(row.source for row in held),
            wanted=wanted,
            unfit=dict(unfit or {}),
            left_out=dict(left_out or {}),
        )


# Making rows.


def training_set(run: Run, profile: Profile, tokenizer: ChatTokenizer, tell: Tell | None = None) -> TrainingSet:
    """The rows of a run's training files, with the text that is replayed.

    Raises InputError for a file that cannot be read or holds something else, and MaskError or TemplateError when
    nothing would be trained, or more than `data.max_unfit` of what was to be trained does not fit.
    """
    making = _Making(run, profile, tokenizer)
    for path in map(user_path, run.data.files):
        for line, record in _records(path, tell):
            if isinstance(record, TextRecord):
                raise InputError(f"{line.place}: a text among trajectories; name its file under data.replay.texts")
            making.add_trajectory(record)
    making.check(", ".join(run.data.files))
    wanted = _replayed(run.data, sum(len(row.ids) for row in making.rows))
    for path in map(user_path, run.data.replay.texts if run.data.replay.share else ()):
        making.add_texts(path, wanted, tell)
    return making.finish()


def validation_set(
    run: Run, profile: Profile, tokenizer: ChatTokenizer, tell: Tell | None = None
) -> TrainingSet | None:
    """Rows whose loss is measured, at most `data.validation_rows` a domain; None when the run names no file.

    Raises as `training_set` does.
    """
    if not run.data.validation:
        return None
    making = _Making(run, profile, tokenizer)
    names = ", ".join(run.data.validation)
    for path in map(user_path, run.data.validation):
        records = [record for _, record in _records(path, tell)]
        random.Random(f"{run.seed}:{path.name}").shuffle(records)
        for record in records:
            domain = path.stem if isinstance(record, TextRecord) else record.world.domain
            if making.counts[domain] >= run.data.validation_rows:
                continue
            if isinstance(record, TextRecord):
                making.add_text(record, path.stem)
            else:
                making.add_trajectory(record)
    making.check(names)
    making.choose(run.data.validation_rows)
    return making.finish()


HELD_OUT = 0.05
"""The share of documents that are never replayed: what a model forgets is measured on them (`train.forgetting`)."""


def is_held_out(document: str) -> bool:
    """Whether the document of this id (`TextRecord.id`) is kept from training."""
    return int(digest("held-out text", document)[:13], 16) < HELD_OUT * 16**13


def _replayed(data: Data, tokens: int) -> int:
    """Tokens of each text file that an epoch wants, beside this many tokens of trajectories."""
    share = data.replay.share
    return round(tokens * share / (1 - share) / max(1, len(data.replay.texts)))


class _Making:
    """Rows as they come, and the count of what does not become one."""

    def __init__(self, run: Run, profile: Profile, tokenizer: ChatTokenizer):
        self.run = run
        most = min(run.data.row_tokens or profile.context, profile.context)
        self.profile = profile.model_copy(update={"context": most})
        self.tokenizer = tokenizer
        self.masks = _mask_config(run, profile)
        self.rows: list[Row] = []
        self.counts: Counter[str] = Counter()
        self.texts: set[str] = set()
        self.wanted = 0
        self.unfit: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        check_template(tokenizer, per_turn=self.masks.per_turn)
        if profile.thinking:
            check_thinking(tokenizer)

    def add_trajectory(self, trajectory: Trajectory) -> None:
        domain = get_domain(trajectory.world.domain)
        before = label_turns(trajectory, domain, self.masks)
        thoughtless = {
            label.turn for label in before if self.profile.thinking and not trajectory.turns[label.turn - 1].thinking
        }
        for label in before:
            if not label.trained:
                self.left_out[label.why] += 1
            elif label.turn in thoughtless:
                self.left_out["it has no thinking"] += 1
        asked = {label.turn for label in before if label.trained} - thoughtless
        self.wanted += len(asked)
        if not asked:
            return
        try:
            masked = mask(trajectory, domain, self.profile, self.tokenizer, self.masks)
        except MaskError:
            raise
        except InputError:
            self.unfit["its world does not fit the context"] += len(asked)
            return
        self.unfit.update(label.why for label in masked.labels if label.turn in asked and not label.trained)
        for example in masked.examples:
            if {span.turn for span in example.spans if span.trained} <= thoughtless:
                continue
            self._add(Row.of_example(example, domain.name, every_token=self.run.targets == "all"))

    def add_texts(self, path: Path, tokens: int, tell: Tell | None) -> None:
        """As much of a file of texts as the run wants, its documents in an order that hangs on the seed.

        Held-out documents are passed over.
        """
        records = []
        for line, record in _records(path, tell):
            if not isinstance(record, TextRecord):
                raise InputError(f"{line.place}: a trajectory among texts; name its file under data.files")
            if not is_held_out(record.id):
                records.append(record)
        random.Random(f"{self.run.seed}:{path.stem}").shuffle(records)
        most = tokens * self.run.data.epochs
        had = 0
        for record in records:
            if had >= most:
                break
            had += self.add_text(record, path.stem)
        if not had:
            raise InputError(f"{path} holds no text to replay")

    def add_text(self, record: TextRecord, name: str) -> int:
        """The pieces of a document, each as long as the context allows; how many tokens they have."""
        ids = self.tokenizer.encode(record.text)
        pieces = [ids[at : at + self.profile.context] for at in range(0, len(ids), self.profile.context)]
        self.texts.add(name)
        for piece in pieces:
            if len(piece) > 1:  # a piece of one token has no target
                self._add(Row.of_text(piece, name, record.id))
        return len(ids)

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        self.counts[row.domain] += 1

    def choose(self, most: int) -> None:
        """Keep so many rows of each domain: a trajectory may have many, where each turn has one."""
        ordered = list(range(len(self.rows)))
        random.Random(f"{self.run.seed}:rows").shuffle(ordered)
        kept: Counter[str] = Counter()
        chosen = []
        for number in ordered:
            if kept[self.rows[number].domain] < most:
                kept[self.rows[number].domain] += 1
                chosen.append(number)
        self.rows = [self.rows[number] for number in sorted(chosen)]

    def check(self, names: str) -> None:
        """Raises MaskError when too little of what was to be trained is."""
        lost = self.unfit.total()
        reasons = "; ".join(f"{count} × {why}" for why, count in (self.unfit or self.left_out).most_common(3))
        if not self.rows:
            raise MaskError(f"{names}: no turn is trained ({reasons or 'there is none'}); {self._cure()}")
        if lost > self.run.data.max_unfit * self.wanted:
            raise MaskError(
                f"{names}: {lost} of {self.wanted} turns that were to be trained are lost ({reasons}); {self._cure()}, "
                "or allow it with data.max_unfit"
            )

    def _cure(self) -> str:
        if self.profile.thinking and not self.wanted:
            return "make thinking first, with worldlm train think"
        most = self.profile.context
        key = "data.row_tokens" if most == self.run.data.row_tokens else "context"
        return f"see why with worldlm data show-mask, or raise '{key}' above {most}"

    def finish(self) -> TrainingSet:
        return TrainingSet.of_rows(
            self.rows, texts=self.texts, wanted=self.wanted, unfit=self.unfit, left_out=self.left_out
        )


def _mask_config(run: Run, profile: Profile) -> MaskConfig:
    """What is trained of a trajectory: by class, or all; with thinking each turn by itself."""
    config = read_settings(user_path(run.data.masks), MaskConfig) if run.data.masks else default_config()
    if run.targets != "kept":
        config = config.model_copy(
            update={"classes": tuple(rule.model_copy(update={"keep": 1.0}) for rule in config.classes)}
        )
    return config.model_copy(update={"per_turn": True}) if profile.thinking else config


def check_thinking(tokenizer: ChatTokenizer) -> None:
    """Raises TemplateError when a chat template leaves the thinking out of the reply that is trained."""
    thought = "The file was made one turn ago."
    asked = (Message(role="user", content="ls"),)
    reply = Message(role="assistant", content=f"{THINK_OPEN}\n{thought}\n{THINK_CLOSE}\n\nnotes.txt")
    written = tokenizer.decode(tokenizer.apply([*asked, reply], prompt=False))
    if thought not in written:
        raise TemplateError(
            f"the chat template of {tokenizer.name} drops the thinking of a reply, so none would be trained; use a "
            "template that keeps it, or set thinking: false"
        )


def _records(path: Path, tell: Tell | None) -> Iterator[tuple[Line, Record]]:
    """The records of a file or folder, each with its line. Raises InputError that names the line that is none."""
    files = corpus_files([path])
    total, before, last = sum(file.size for file in files), 0, files[0]
    for line in read_shard(files, 0, 1):
        if line.path != last.path:
            before += last.size
            last = next(file for file in files if file.path == line.path)
        try:
            record = read_record(line.data)
        except ValueError as error:
            raise InputError(f"{line.place}: {error}") from error
        yield line, record
        if tell:
            tell(path.name, before + line.start + len(line.data), total)


# To look at.


def pieces(row: Row, tokenizer: ChatTokenizer) -> list[tuple[str, bool]]:
    """The text of a row in order, in pieces that are trained or not."""
    changes = [0, *(int(at) + 1 for at in np.flatnonzero(np.diff(row.mask))), len(row.ids)]
    return [(tokenizer.decode(row.ids[start:end].tolist()), bool(row.mask[start])) for start, end in pairwise(changes)]


def ask(row: Row) -> tuple[list[int], list[int]]:
    """The ids before the first trained run of tokens, and that run: a prompt, and what should follow it."""
    start = int(np.argmax(row.mask))
    rest = row.mask[start:]
    end = start + (int(np.argmin(rest)) if not rest.all() else len(rest))
    return row.ids[:start].tolist(), row.ids[start:end].tolist()


# The order of an epoch.


def epoch_order(rows: TrainingSet, data: Data, seed: int, epoch: int) -> list[int]:
    """The numbers of the rows of an epoch (from 0), in order.

    Trajectories have as many tokens in an epoch as in the set, shared out to domains by `data.temperature` and
    `data.weights`; texts have their share beside them. A domain's rows form an endless stream of rounds, each in an
    order of its own, and an epoch takes the next piece of it: so with temperature 1 and no weights an epoch has each
    row of a trajectory once.
    """
    lengths = rows.lengths
    sizes = {name: int(lengths[rows.domain == number].sum()) for number, name in enumerate(rows.domains)}
    worlds = {name: size for name, size in sizes.items() if name not in rows.texts}
    powers = {name: size ** (1 / data.temperature) * data.weights.get(name, 1.0) for name, size in worlds.items()}
    whole, power = sum(worlds.values()), sum(powers.values())
    quotas = {name: whole * each / power for name, each in powers.items()}
    quotas |= dict.fromkeys(rows.texts, float(_replayed(data, whole)))
    order = []
    for number, name in enumerate(rows.domains):
        own = [int(row) for row in np.flatnonzero(rows.domain == number)]
        order += _next(own, lengths, quotas[name], epoch, f"{seed}:{name}")
    shuffle = random.Random(f"{seed}:order:{epoch}").shuffle
    shuffle(order)
    if data.curriculum == "none" or epoch:
        return order
    order.sort(key=lambda row: int(lengths[row]))
    bands = [list(map(int, band)) for band in np.array_split(np.array(order, np.int64), data.bands)]
    for band in bands:
        shuffle(band)
    return [row for band in bands for row in band]


def _next(own: list[int], lengths: NDArray[np.int64], quota: float, epoch: int, key: str) -> list[int]:
    """The rows of an endless stream of rounds through `own` that begin in the epoch's piece of it, in tokens."""
    size = float(lengths[own].sum())
    start, end = epoch * quota, (epoch + 1) * quota
    taken = []
    for turn in range(int(start // size), int(np.ceil(end / size))):
        shuffled = list(own)
        random.Random(f"{key}:{turn}").shuffle(shuffled)
        at = turn * size
        for row in shuffled:
            if start <= at < end:
                taken.append(row)
            at += float(lengths[row])
    return taken


# Files.


def file_digests(paths: Iterable[str]) -> dict[str, str]:
    """The hex SHA-256 of each file, of a folder's `.jsonl` files too. Raises InputError where there is none."""
    found = {}
    for file in corpus_files([user_path(path) for path in paths]):
        with file.path.open("rb") as stream:
            found[str(file.path)] = hashlib.file_digest(stream, "sha256").hexdigest()
    return found


def sets(
    run: Run, profile: Profile, tokenizer: ChatTokenizer, base: str, folder: Path, tell: Tell | None = None
) -> tuple[TrainingSet, TrainingSet | None, dict[str, str]]:
    """What a run trains, what it measures, and the digests of the files of both.

    They are made once and kept in `folder`, for as long as files, settings, base (its digest) and this package are the
    same. Raises as `training_set` does.
    """
    replayed = run.data.replay.texts if run.data.replay.share else ()
    files = file_digests(
        [*run.data.files, *run.data.validation, *replayed, *([run.data.masks] if run.data.masks else [])]
    )
    decisive = run.model_dump(mode="json", include={"data", "seed", "stage"})
    key = digest(canonical_json(decisive), canonical_json(files), profile.model_dump_json(), base, version("worldlm"))
    made: list[TrainingSet | None] = []
    for name, make in (("train", training_set), ("validation", validation_set)):
        if name == "validation" and not run.data.validation:
            made.append(None)
            continue
        rows = kept(folder / name, key)
        if rows is None:
            rows = make(run, profile, tokenizer, tell)
            assert rows is not None
            keep(rows, folder / name, key)
        made.append(rows)
    assert made[0] is not None
    return made[0], made[1], files


def keep(rows: TrainingSet, folder: Path, key: str) -> None:
    """Write a set to a folder, whole or not at all. `key` says what it was made of."""
    draft = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        for name in _ARRAYS:
            np.save(draft / f"{name}.npy", getattr(rows, name))
        rest = {
            "key": key,
            "domains": rows.domains,
            "texts": sorted(rows.texts),
            "sources": rows.sources,
            "wanted": rows.wanted,
            "unfit": rows.unfit,
            "left_out": rows.left_out,
        }
        (draft / "set.json").write_text(json.dumps(rest), "utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise WorldlmError(f"cannot write {folder}: {error.strerror or error}; free some space") from error


def kept(folder: Path, key: str) -> TrainingSet | None:
    """The set in a folder, mapped from disk; None when there is none that was made of `key`."""
    try:
        rest = json.loads((folder / "set.json").read_text("utf-8"))
        if rest.pop("key") != key:
            return None
        arrays = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS}
    except (OSError, ValueError, KeyError):
        return None
    domains, texts, sources = tuple(rest.pop("domains")), frozenset(rest.pop("texts")), tuple(rest.pop("sources"))
    return TrainingSet(**arrays, domains=domains, texts=texts, sources=sources, **rest)


_ARRAYS = ("ids", "mask", "ends", "domain")

__all__ = [
    "Inspect",
    "Row",
    "Tell",
    "TrainingSet",
    "ask",
    "check_thinking",
    "epoch_order",
    "file_digests",
    "keep",
    "kept",
    "pieces",
    "sets",
    "training_set",
    "validation_set",
]
