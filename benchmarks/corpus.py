"""The corpus steps over made-up records with planted duplicates and leaks: records a second, and peak memory.

A step's memory must not grow with the corpus: compare the sizes. Each step runs in a process of its own, so that its
peak is its own (with several workers: that of the largest). Seconds of processor time tell more than those that passed
where a machine does other things too.
"""

import argparse
import json
import multiprocessing
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from worldlm.core.jsonl import dump_line
from worldlm.core.outcomes import EndingKind
from worldlm.core.types import Ending, Observation, Origin, Trajectory, Turn, World
from worldlm.data.steps.decontaminate import Leaks
from worldlm.data.steps.dedup import Duplicates
from worldlm.data.steps.mixture import Recipe
from worldlm.data.steps.pipeline import Execution
from worldlm.data.steps.quality import Rules
from worldlm.data.steps.records import read_record
from worldlm.data.steps.run import filter_quality, mix_sources, remove_duplicates, remove_leaks, split
from worldlm.data.steps.splits import SplitPlan

WORDS = [f"word{number}" for number in range(20_000)]
TURNS = 4
WORDS_A_TURN = 60
TESTS = 200
"""Records of the test set; one training record in 100 holds a turn of one of them."""


def record(name: str, seed: int, tail: str = "", leak: Turn | None = None) -> Trajectory:
    """A trajectory whose content `seed` decides, but for a `tail` and a turn of the test set."""
    dice = random.Random(seed)
    turns = [
        Turn(
            action=f"cat {dice.choice(WORDS)}",
            observation=Observation(text=" ".join(dice.choices(WORDS, k=WORDS_A_TURN))),
        )
        for _ in range(TURNS)
    ]
    last = turns[-1].observation
    if tail and last:
        turns[-1] = turns[-1].model_copy(update={"observation": Observation(text=f"{last.text} {tail}")})
    return Trajectory(
        id=name,
        world=World(name="box", domain="terminal"),
        initial=Observation(text="$"),
        turns=(*turns, leak) if leak else tuple(turns),
        ending=Ending(kind=EndingKind.COMPLETED),
        policy="benchmark",
        origin=Origin(kind="real", source="benchmark", licence="CC0-1.0", seed=seed),
    )


def make(folder: Path, records: int) -> None:
    """`train.jsonl` (8 in 10 new, 1 the same as another, 1 nearly the same) and `test.jsonl`."""
    tests = [record(f"test{number}", -1 - number) for number in range(TESTS)]
    (folder / "test.jsonl").write_text("".join(dump_line(each) + "\n" for each in tests))
    with (folder / "train.jsonl").open("w") as file:
        for number in range(records):
            kind, base = number % 10, number // 10 * 10
            leak = tests[number // 100 % TESTS].turns[0] if number % 100 == 5 else None
            one = record(f"r{number}", base if kind > 7 else number, "tail" if kind == 9 else "", leak)
            file.write(dump_line(one) + "\n")


Step = Callable[[Path, Execution], dict[str, int]]


def _dedup(folder: Path, execution: Execution) -> dict[str, int]:
    return remove_duplicates([folder / "train.jsonl"], folder / "unique.jsonl", Duplicates(), execution).written


def _filter(folder: Path, execution: Execution) -> dict[str, int]:
    return filter_quality([folder / "train.jsonl"], folder / "kept.jsonl", Rules(), execution).written


def _decontaminate(folder: Path, execution: Execution) -> dict[str, int]:
    def tests() -> Any:
        return map(read_record, (folder / "test.jsonl").read_bytes().splitlines())

    return remove_leaks([folder / "train.jsonl"], tests, folder / "clean.jsonl", Leaks(mode="drop"), execution).written


def _split(folder: Path, execution: Execution) -> dict[str, int]:
    return split([folder / "train.jsonl"], folder / "parts", SplitPlan(), execution).written


def _mix(folder: Path, execution: Execution) -> dict[str, int]:
    recipe = Recipe.model_validate(
        {"sources": {"train": {"path": ".", "weight": 9}, "test": {"path": ".", "weight": 1}}}
    )
    sources = {name: [folder / f"{name}.jsonl"] for name in recipe.sources}
    return mix_sources(recipe, sources, folder / "mixed.jsonl", execution).written


STEPS: dict[str, Step] = {
    "dedup": _dedup,
    "filter": _filter,
    "decontaminate": _decontaminate,
    "split": _split,
    "mix": _mix,
}


def _measure(name: str, folder: Path, workers: int, sink: Any) -> None:
    started = time.perf_counter()
    written = STEPS[name](folder, Execution(workers))
    seconds = time.perf_counter() - started
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    sink.put(
        {
            "step": name,
            "seconds": seconds,
            "cpu_seconds": sum(each.ru_utime + each.ru_stime for each in used),
            "peak_mib": max(each.ru_maxrss for each in used) / 1024,
            "written": sum(written.values()),
        }
    )


def measure(records: int, workers: int, steps: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row a step, as each is done."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, records)
        for step in steps:
            sink = context.SimpleQueue()
            process = context.Process(target=_measure, args=(step, folder, workers, sink))
            process.start()
            process.join()
            if process.exitcode:
                raise SystemExit(f"{step} failed")
            row = sink.get()
            rate = {"records_per_second": records / row["seconds"]}
            yield {"records": records, "workers": workers, **row, **rate}


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[25_000, 50_000, 100_000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", choices=STEPS, nargs="+", default=list(STEPS))
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for records in arguments.records:
        for row in measure(records, arguments.workers, arguments.steps):
            rows.append(row)
            if not arguments.json:
                cells = (f"{value:.1f}" if isinstance(value, float) else str(value) for value in row.values())
                print("  ".join(f"{key}={cell}" for key, cell in zip(row, cells, strict=True)), flush=True)
    if arguments.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
