"""The test parts as files: written, and read again as what training must not hold."""

import lzma
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from worldlm.core.jsonl import dump_line, iter_jsonl
from worldlm.core.types import Trajectory
from worldlm.data.formats import Reading
from worldlm.data.formats.agentworldbench import make_sample, parse_sample, trajectory_of
from worldlm.data.realturns.choosing import Candidate
from worldlm.data.steps.decontaminate import Leaks, occurrences, reference
from worldlm.data.steps.ngrams import ngram_hashes, words
from worldlm.data.steps.records import Record

HELD_OUT = "held-out"
"""What stands before the domain in the task of a sample of part B, so that no two samples have one name."""


def write_part(chosen: Sequence[Candidate], part: str, path: Path) -> None:
    """The samples of a domain in a file of lines of JSON, compressed, the same bytes for the same samples."""
    prefix = HELD_OUT if part == "b" else ""
    lines = [
        dump_line(make_sample(each.session, each.turn - each.start, number, each.content, prefix)) + "\n"
        for number, each in enumerate(chosen, 1)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    # The window of this preset holds a whole file: samples repeat their worlds and each other's histories.
    path.write_bytes(lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))


def read_part(files: Iterable[Path]) -> Iterator[tuple[dict[str, Any], Trajectory]]:
    """Each sample, with the trajectory that it is: history, and the asked turn last. Raises InputError."""
    for path in files:
        for _, read in iter_jsonl(path, _read_sample):
            yield read


def _read_sample(value: Any) -> tuple[dict[str, Any], Trajectory]:
    reading = Reading("", "agentworldbench", "1")
    return value, trajectory_of(parse_sample(value, reading), reading)


def asked_turns(files: Iterable[Path]) -> Iterator[Trajectory]:
    """The asked turns alone: what a test set keeps to itself. (Its histories are played in worlds of training.)"""
    for sample, trajectory in read_part(files):
        turn = sample["turn_idx"] - 1
        yield trajectory.model_copy(update={"turns": trajectory.turns[turn : turn + 1]})


def part_figures(files: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """By domain: turns, trajectories, and turns by content class, position in the session, and world."""
    figures: dict[str, dict[str, Any]] = {}
    for sample, trajectory in read_part(files):
        mine = figures.setdefault(
            trajectory.world.domain,
            {"turns": 0, "trajectories": set(), "content": Counter(), "labels": set(), "worlds": Counter()},
        )
        extra = sample.get("worldlm", {})
        mine["turns"] += 1
        mine["trajectories"].add(extra.get("trajectory"))
        mine["labels"].add(str(extra.get("label", "")).removesuffix("/odd"))
        mine["content"][extra.get("content", "unknown")] += 1
        mine["worlds"][trajectory.world.name] += 1
    return {
        domain: {
            "turns": mine["turns"],
            "trajectories": len(mine["trajectories"]),
            "kinds_of_actions": len(mine["labels"]),
            "content": dict(sorted(mine["content"].items())),
            "worlds": dict(sorted(mine["worlds"].items())),
        }
        for domain, mine in sorted(figures.items())
    }


def overlap(
    records: Callable[[], Iterable[Record]],
    tests: Callable[[], Iterable[Record]],
    leaks: Leaks,
    common: Sequence[str],
) -> dict[str, int]:
    """How many of the test set's runs of words stand in training, but for the common ones (given by their words)."""
    known = reference(tests(), leaks).hashes
    _, counts = occurrences(records(), known, leaks)
    passed = [ngram_hashes(words(text), leaks.n) for text in common]
    is_common = np.isin(known, np.concatenate(passed)) if passed else np.zeros(len(known), np.bool_)
    return {
        "test_runs": len(known),
        "common_runs": int(np.count_nonzero(is_common)),
        "runs_in_training": int(np.count_nonzero((counts > 0) & ~is_common)),
    }
