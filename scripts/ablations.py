"""Short runs that differ in one thing, each measured on the same turns, and one table of them all.

    python scripts/ablations.py [configs/ablations/*.yaml] [--minutes N] [--out out/ablations] [--page PAGE.md]

Each file asks a question (`worldlm.train.ablations`). With `--minutes` as much is done as fits, and the exit code is 3
where something is left: the same command goes on. The table is printed, and kept as `table.md` and `table.json`.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import anyio
import yaml

from measuring import forgotten_text, reply_tokens, results_of
from slices import Slices, main, write_json
from worldlm.bench.samples import load_samples
from worldlm.cli.collect import Episode, exploring, play, real_worlds
from worldlm.cli.console import progress, show
from worldlm.core.jsonl import JsonlWriter
from worldlm.core.types import Trajectory
from worldlm.data.markdown import put_between
from worldlm.data.realturns import RECIPE
from worldlm.data.realturns.recipe import Recipe
from worldlm.data.settings import read_settings
from worldlm.data.steps.records import TextRecord, corpus_files, read_record, read_shard
from worldlm.data.steps.splits import Part, side
from worldlm.rollout.explorers import action_kinds
from worldlm.train.ablations import Ablation, Row, chosen_families, chosen_turns, render_rows, run_of
from worldlm.train.card import measured, stage_run
from worldlm.train.forgetting import Estimate, TextForgetting
from worldlm.train.settings import Run

EPISODES, TURNS, CONCURRENCY = 80, 32, 4
"""Of the sessions that are played for a row."""
TEXT_TOKENS = 10_000
"""Of held-out text on which forgetting is measured."""


def work(slices: Slices, files: Sequence[Path], page: Path | None) -> None:
    """Every row of every question, and the table."""
    rows = []
    for file in files:
        ablation = read_settings(file, Ablation)
        benchmark = slices.path("benchmarks", f"{file.stem}.jsonl")
        slices.stage(
            f"benchmark-{file.stem}",
            ablation.model_dump(mode="json", include={"benchmark", "turns", "domains"}),
            [],
            [benchmark],
            partial(write_benchmark, ablation, benchmark),
        )
        for name in ablation.rows:
            rows.append(a_row(slices, ablation, name, benchmark))
            write_json(slices.path("table.json"), [row.model_dump(mode="json") for row in rows])
    text = render_rows(rows)
    slices.path("table.md").write_text(text, "utf-8")
    if page is not None:
        page.write_text(put_between(page.read_text("utf-8"), "ablations", text), "utf-8")
    show(text)


def a_row(slices: Slices, ablation: Ablation, name: str, benchmark: Path) -> Row:
    """Train, export and measure one row."""
    run = run_of(ablation, name, data_of(slices, ablation, name))
    place = slices.path("runs", run.name)
    config = place.with_suffix(".yaml")
    config.parent.mkdir(exist_ok=True)
    config.write_text(yaml.safe_dump(run.model_dump(mode="json", by_alias=True), sort_keys=False), "utf-8")
    slices.train(config, run, place)
    lora, adapter = place.with_suffix(".gguf"), place / "adapter"
    slices.command(f"export-{run.name}", ["export", "gguf-lora", adapter, lora], [adapter], [lora])
    asked = slices.path("bench", f"{run.name}-{benchmark.stem}")
    words = ["bench", "run", benchmark, asked, "--model", "embedded", "--lora", lora, "--min-coverage", 0]
    slices.command(asked.name, words, [benchmark, lora], [asked], goes_on=True)
    trained, results = stage_run(place), results_of(asked)
    return Row(
        question=ablation.question,
        name=name,
        seed=run.seed,
        tokens=trained.tokens,
        targets=trained.targets,
        score=measured(name, ablation.benchmark, asked / "results.json").headline,
        reply_tokens=reply_tokens(results),
        text=text_of(slices, ablation, run, adapter),
    )


def text_of(slices: Slices, ablation: Ablation, run: Run, adapter: Path) -> Estimate | None:
    """Perplexity on the first of the shared run's texts, by the base's; None where it replays none."""
    shared = read_settings(Path(ablation.run), Run).data.replay.texts
    if not shared:
        return None
    file, out = Path(shared[0]), slices.path("runs", f"{run.name}-text.json")

    def measure() -> None:
        (found,) = forgotten_text(adapter, [file], TEXT_TOKENS).values()
        write_json(out, found.model_dump(mode="json"))

    slices.stage(f"text-{run.name}", TEXT_TOKENS, [adapter, file], [out], measure)
    return TextForgetting.model_validate_json(out.read_bytes()).ratio


# Data.


def data_of(slices: Slices, ablation: Ablation, name: str) -> list[Path]:
    """The files of a row, where they are not those of its settings."""
    families = ablation.rows[name].families
    if families is not None:
        out = slices.path("data", f"families-{families}.jsonl")
        slices.stage(out.stem, [families, EPISODES, TURNS], [], [out], lambda: play_families(families, out))
        return [out]
    files = [Path(file) for file in run_of(ablation, name).data.files]
    if ablation.domains:
        out = slices.path("data", f"{'-'.join(ablation.domains)}.jsonl")
        only = list(ablation.domains)
        slices.stage(out.stem, only, files, [out], partial(write_domains, files, only, out))
        files = [out]
    if ablation.thinking:
        (source,) = files
        out = slices.path("data", f"{source.stem}-thinking.jsonl")
        slices.command(out.stem, ["train", "think", source, out, "--programmatic"], [source], [out])
        files = [out]
    return files if ablation.domains or ablation.thinking else []


def write_domains(sources: Sequence[Path], domains: Sequence[str], out: Path) -> None:
    """The trajectories of some domains."""
    with JsonlWriter(out) as writer:
        for line in read_shard(corpus_files(sources), 0, 1):
            record = read_record(line.data)
            if not isinstance(record, TextRecord) and record.world.domain in domains:
                writer.write(record)


def play_families(families: int, out: Path) -> None:
    """Real terminal sessions of so many families, none of them held out, in worlds and seeds of the training side."""
    recipe = read_settings(RECIPE, Recipe)
    held = recipe.split.held_out["terminal"].labels
    known = {kind for kind in action_kinds("terminal") if not any(fnmatchcase(kind, pattern) for pattern in held)}
    chosen = set(chosen_families(known, families))
    acting = exploring("terminal", TURNS, action_kinds("terminal") - chosen)
    _, policy = acting.start()
    worlds = real_worlds("terminal")
    plan: list[Episode] = []
    seed = 0
    while len(plan) < EPISODES:
        place = worlds[seed % len(worlds)]
        if side(place, seed, recipe.split) is Part.TRAIN:
            plan.append(Episode(f"families-{families}-{seed}", place, seed))
        seed += 1
    with JsonlWriter(out) as writer, progress("playing", len(plan)) as advance:

        def record(trajectory: Trajectory) -> None:
            writer.write(trajectory)
            advance()

        anyio.run(play, plan, policy, acting.limits, CONCURRENCY, record)


def write_benchmark(ablation: Ablation, out: Path) -> None:
    """A fixed part of a benchmark."""
    samples = {sample.key: sample for sample in load_samples(ablation.benchmark, domains=ablation.domains)}
    keys = chosen_turns({key: sample.domain for key, sample in samples.items()}, ablation.turns)
    out.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(samples[key].raw, ensure_ascii=False) for key in samples if key in set(keys)]
    out.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", help="questions (default: all of configs/ablations)")
    parser.add_argument("--minutes", type=float, help="of work, at most")
    parser.add_argument("--out", type=Path, default=Path("out/ablations"))
    parser.add_argument("--page", type=Path, help="a page of Markdown into which the table is put")
    given = parser.parse_args()
    questions = given.files or sorted(Path("configs/ablations").glob("*.yaml"))
    sys.exit(main(lambda: work(Slices.of(given.out, given.minutes), questions, given.page)))
