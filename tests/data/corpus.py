"""Corpora for the tests of the corpus steps: small, seeded, and written to files."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from worldlm.core.jsonl import JsonlWriter
from worldlm.core.outcomes import EndingKind
from worldlm.core.types import DomainName, Ending, Observation, Origin, Trajectory, Turn, World
from worldlm.data.steps.records import Record, TextRecord, read_record

VOCABULARY = [f"w{number}" for number in range(5000)]

Said = tuple[str, str]


def said(seed: int, turns: int = 4, words: int = 30) -> list[Said]:
    """Actions with observations of random words."""
    dice = random.Random(seed)
    return [(f"cmd {dice.choice(VOCABULARY)}", " ".join(dice.choices(VOCABULARY, k=words))) for _ in range(turns)]


def make(
    name: str,
    turns: Sequence[Said],
    *,
    world: str = "box",
    domain: DomainName = "terminal",
    seed: int | None = 0,
    labels: Sequence[str | None] | None = None,
    initial: str = "$",
) -> Trajectory:
    told = labels or [None] * len(turns)
    return Trajectory(
        id=name,
        world=World(name=world, domain=domain),
        initial=Observation(text=initial),
        turns=tuple(
            Turn(action=action, observation=Observation(text=text), label=label)
            for (action, text), label in zip(turns, told, strict=True)
        ),
        ending=Ending(kind=EndingKind.COMPLETED),
        policy="explorer",
        origin=Origin(kind="real", source="test", version="1", licence="CC0-1.0", seed=seed),
    )


def text_record(name: str, text: str, source: str = "docs") -> TextRecord:
    return TextRecord(id=name, text=text, source=source, licence="CC0-1.0")


def write(path: Path, records: Iterable[Record]) -> Path:
    with JsonlWriter(path) as writer:
        for record in records:
            writer.write(record)
    return path


def read(path: Path) -> list[Record]:
    return [read_record(line) for line in path.read_bytes().splitlines()]


def ids(path: Path) -> list[str]:
    return [record.id for record in read(path)]


def trajectories(path: Path) -> list[Trajectory]:
    return [record for record in read(path) if isinstance(record, Trajectory)]
