"""Train, export and measure the adapter that is shipped for the embedded model, and write its card.

    python scripts/train_embedded.py [--minutes N] [--out out/embedded] [--data out/realturns] [--configs configs]

Stage after stage: continual pre-training, thinking derived for fine-tuning, fine-tuning, export to GGUF, a benchmark of
the validation split by which one stage is chosen, the test parts (each asked once of each stage), forgetting, the card.
With `--minutes` as much is done as fits, and the exit code is 3 where something is left: the same command goes on.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from pydantic import JsonValue

from measuring import exact_shares, followed, forgetting, results_of
from slices import Slices, main, write_json
from worldlm.cli.console import show
from worldlm.core.errors import InputError
from worldlm.core.types import Value
from worldlm.data.settings import read_settings
from worldlm.models import weights
from worldlm.models.adapters import read_trained_for
from worldlm.train.card import Measured, ModelCard, Score, measured, read_card, render_card, stage_run
from worldlm.train.checkpoint import ADAPTER, read_tensors
from worldlm.train.forgetting import Forgetting, Reply
from worldlm.train.settings import Run

STAGES = ("cpt", "sft")
TESTS = ("realturns-a", "realturns-b")
CHOICE_TURNS = 40
"""Of a domain, in the benchmark of the validation split."""


def work(slices: Slices, data: Path, configs: Path, tests: Sequence[str], limit: int | None) -> None:
    """All stages."""
    for needed in (data / "train.jsonl", data / "validation.jsonl"):
        if not needed.is_file():
            raise InputError(f"there is no {needed}: `make data` builds it, or name the data set's folder with --data")
    files = {stage: configs / f"embedded-{stage}.yaml" for stage in STAGES}
    runs = {stage: read_settings(file, Run) for stage, file in files.items()}
    texts = [Path(name) for name in runs["cpt"].data.replay.texts]

    slices.train(files["cpt"], runs["cpt"], slices.path("cpt"))
    source, thinking = data / "train.jsonl", slices.path("thinking.jsonl")
    slices.command("thinking", ["train", "think", source, thinking, "--programmatic"], [source], [thinking])
    slices.train(files["sft"], runs["sft"], slices.path("sft"))

    loras = {stage: slices.path(f"{stage}.gguf") for stage in STAGES}
    for stage, lora in loras.items():
        adapter = slices.path(stage, "adapter")
        slices.command(f"export-{stage}", ["export", "gguf-lora", adapter, lora], [adapter], [lora])

    choice = slices.path("validation")
    build = ["bench", "build", data / "validation.jsonl", choice, "--per-domain", CHOICE_TURNS]
    slices.command("validation", build, [data / "validation.jsonl"], [choice])
    for stage, lora in loras.items():
        ask(slices, str(choice), stage, lora, [choice, lora], limit)
    for benchmark in tests:
        ask(slices, benchmark, "base", None, [], limit)
        for stage, lora in loras.items():
            ask(slices, benchmark, stage, lora, [lora], limit)

    before = slices.path("followed-base.json")
    slices.stage("followed-base", {}, [], [before], lambda: write_json(before, dumped(followed(None))))
    for stage, lora in loras.items():
        adapter, out = slices.path(stage, "adapter"), slices.path(f"forgetting-{stage}.json")

        def measure(adapter: Path = adapter, lora: Path = lora, out: Path = out) -> None:
            write_json(out, forgetting(adapter, lora, texts, replies(before)).model_dump(mode="json"))

        slices.stage(
            f"forgetting-{stage}", [str(text) for text in texts], [adapter, lora, *texts, before], [out], measure
        )

    write_card(slices, loras, tests)


def ask(
    slices: Slices, benchmark: str, stage: str, lora: Path | None, inputs: Sequence[Path], limit: int | None
) -> None:
    """Ask a stage a benchmark, into the folder `bench/BENCHMARK-STAGE`."""
    out = asked(slices, benchmark, stage)
    words: list[object] = ["bench", "run", benchmark, out, "--model", "embedded", "--lora", lora or "none"]
    words += ["--name", stage, "--min-coverage", 0]
    words += ["--limit", limit] if limit else []
    slices.command(out.name, words, inputs, [out], goes_on=True)


def asked(slices: Slices, benchmark: str, stage: str) -> Path:
    """Where a stage's answers to a benchmark lie."""
    return slices.path("bench", f"{Path(benchmark).name}-{stage}")


def dumped(values: Sequence[Value]) -> list[JsonValue]:
    """Values as JSON."""
    return [value.model_dump(mode="json") for value in values]


def replies(path: Path) -> list[Reply]:
    """Replies out of a file."""
    return [Reply.model_validate(each) for each in json.loads(path.read_bytes())]


def write_card(slices: Slices, loras: dict[str, Path], tests: Sequence[str]) -> None:
    """The card, and beside it the adapter that is to be shipped."""
    choice = {stage: headline(asked(slices, "validation", stage)) for stage in loras}
    best = max(choice, key=lambda stage: choice[stage].mean or 0.0)
    shipped = slices.path("embedded.gguf")
    shutil.copyfile(loras[best], shipped)
    trained = read_trained_for(shipped)
    assert trained is not None
    found: list[Measured] = []
    for benchmark in tests:
        for stage in ("base", *loras):
            folder = asked(slices, benchmark, stage)
            exact = exact_shares(benchmark, results_of(folder))
            found.append(measured(stage, benchmark, folder / "results.json", exact))
    runs = tuple(stage_run(slices.path(stage)) for stage in loras)
    stages = STAGES[: STAGES.index(best) + 1]
    card = ModelCard(
        name="embedded",
        licence="Apache-2.0",
        base=trained.base,
        base_licence=weights.EMBEDDED.licence,
        base_digest=trained.base_digest,
        file=shipped.name,
        bytes=shipped.stat().st_size,
        sha256=hashlib.sha256(shipped.read_bytes()).hexdigest(),
        stage=best,
        parameters=parameters(slices.path(best, "adapter")),
        machine=machine(),
        data="RealTurns, training part (Apache-2.0; sources and their licences on its page)",
        stages=runs,
        choice=choice,
        results=tuple(found),
        forgetting={
            stage: Forgetting.model_validate_json(slices.path(f"forgetting-{stage}.json").read_bytes())
            for stage in loras
        },
    )
    write_json(slices.path("card.json"), card.model_dump(mode="json", by_alias=True))
    text = f"# {shipped.name}\n\n{render_card(read_card(slices.path('card.json')))}"
    slices.path("card.md").write_text(text, "utf-8")
    show(f"{shipped}: stage {best}, after {' and '.join(stages)}; the card: {slices.path('card.md')}")


def headline(folder: Path) -> Score:
    """The mean of the domain means of a benchmark's results."""
    return measured("", "", folder / "results.json").headline


def parameters(adapter: Path) -> int:
    """How many numbers an adapter has."""
    return sum(tensor.numel() for tensor in read_tensors(adapter / ADAPTER).values())


def machine() -> str:
    """What this is run on, in words."""
    if torch.cuda.is_available():
        return f"{torch.cuda.device_count()} × {torch.cuda.get_device_name()}"
    return f"{len(os.sched_getaffinity(0))} CPU cores ({platform.machine()})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, help="of work, at most")
    parser.add_argument("--out", type=Path, default=Path("out/embedded"))
    parser.add_argument("--data", type=Path, default=Path("out/realturns"))
    parser.add_argument("--configs", type=Path, default=Path("configs"), help="the folder of embedded-{cpt,sft}.yaml")
    parser.add_argument("--test", action="append", help=f"a benchmark (default: {', '.join(TESTS)})")
    parser.add_argument("--limit", type=int, help="turns of a domain in each benchmark, at most: for a trial")
    given = parser.parse_args()
    sys.exit(
        main(
            lambda: work(
                Slices.of(given.out, given.minutes), given.data, given.configs, given.test or TESTS, given.limit
            )
        )
    )
