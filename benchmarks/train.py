"""Tokens per second and peak memory of our training step, against TRL's SFTTrainer on the same rows.

    python benchmarks/train.py [--steps 6] [--repeat 3] [--rows 4] [--length 1024] [--data FILE]
                               [--precision float32|bfloat16] [--json]

The model is the embedded one, dequantised, with a LoRA of rank 16 on all linear layers. Rows are trajectories with
their masks, cut to one length, so that nobody pads: those of a file, or made up from a seed. Each side is a process of
its own, in turns with the others, on the same batches; its first step is not counted, and the median of the others
counts. The first losses are compared: a side that computed something else is an error.

| side | is |
| --- | --- |
| ours | the loop of `worldlm train cpt` |
| trl | `SFTTrainer` with its defaults, given ids and labels |
| trl, no checkpointing | the same without recomputing activations, which is TRL's default |

Peak memory is that of the whole process.
"""

import argparse
import importlib
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from masks import made_up
from worldlm.core.jsonl import read_trajectories
from worldlm.core.types import Trajectory
from worldlm.data.masks import mask
from worldlm.data.tokenizers import HuggingFaceTokenizer
from worldlm.domains import get_domain
from worldlm.models.profiles import get_profile
from worldlm.models.weights import obtain

if TYPE_CHECKING:
    from worldlm.train.examples import TrainingSet
    from worldlm.train.settings import Run

SIDES = ("ours", "trl", "trl, no checkpointing")
RATE = 1e-3
CONTEXT = 4096
"""Tokens of an example before it is cut."""
TOLERANCE = 0.02
"""By which first losses may differ: sums in bfloat16 depend on their order."""


def make_rows(trajectories: Sequence[Trajectory], wanted: int, length: int) -> tuple[Any, Any]:
    """Token ids and masks, (wanted, length) each."""
    profile = get_profile("embedded").model_copy(update={"context": max(CONTEXT, 2 * length)})
    tokenizer = HuggingFaceTokenizer.load(obtain())
    ids, masks = [], []
    for trajectory in trajectories:
        for example in mask(trajectory, get_domain(trajectory.world.domain), profile, tokenizer).examples:
            if len(example.ids) >= length and any(example.mask[:length]):
                ids.append(example.ids[:length])
                masks.append(example.mask[:length])
        if len(ids) >= wanted:
            return np.array(ids[:wanted], np.int32), np.array(masks[:wanted], np.bool_)
    raise SystemExit(f"only {len(ids)} rows of {length} tokens, and {wanted} are wanted: give more data, or --length")


def set_of(ids: Any, masks: Any) -> "TrainingSet":
    """The rows as our loop takes them."""
    from worldlm.train.examples import Row, TrainingSet  # with torch: parsing arguments needs none

    pairs = enumerate(zip(ids, masks, strict=True))
    return TrainingSet.of_rows(Row(one, trained, "terminal", str(number)) for number, (one, trained) in pairs)


def run_of(rows: int, length: int, precision: str) -> "Run":
    """Settings of steps of so many rows."""
    from worldlm.train.settings import Run

    return Run.model_validate(
        {
            "name": "benchmark",
            "stage": "cpt",
            "base": "embedded",
            "data": {"files": ["rows"], "replay": {"share": 0}},
            "optimiser": {"learning_rate": RATE},
            "schedule": {"kind": "constant", "warmup": 0},
            "batches": {"tokens": rows * length, "micro_batches": 1},
            "every": {"save": 10**6, "sample_tokens": 8},
            "precision": precision,
        }
    )


def ours(ids: Any, masks: Any, rows: int, precision: str) -> dict[str, Any]:
    """The steps of our loop."""
    import torch

    from worldlm.train.base import attach, load_base
    from worldlm.train.events import Event
    from worldlm.train.loop import Job, train

    run = run_of(rows, ids.shape[1], precision)
    base = load_base(str(obtain()), dtype=getattr(torch, precision))
    told: list[Event] = []
    with tempfile.TemporaryDirectory() as out:
        model = attach(base, run.lora, seed=0)
        job = Job(run, get_profile("embedded"), base, model, set_of(ids, masks), None, {}, Path(out))
        train(job, told.append)
    taken = [event.figures for event in told if event.kind == "step"]
    return {
        "seconds": [each["step_tokens"] / each["tokens_per_second"] for each in taken],
        "losses": [each["loss"] for each in taken],
    }


def trl(ids: Any, masks: Any, rows: int, precision: str, *, checkpointing: bool | None) -> dict[str, Any]:
    """The steps of TRL's trainer; `checkpointing` None is its default."""
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import TrainerCallback

    from worldlm.train.base import load_base

    trl = importlib.import_module("trl")  # an extra of its own, so types are not always there
    labels = np.where(masks, ids, -100)
    data = Dataset.from_dict({"input_ids": ids.tolist(), "labels": labels.tolist()})
    base = load_base(str(obtain()), dtype=getattr(torch, precision))
    seconds: list[float] = []
    losses: list[float] = []

    class Watch(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.began = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            seconds.append(time.perf_counter() - self.began)

        def on_log(self, *_: Any, logs: dict[str, Any] | None = None, **__: Any) -> None:
            if logs and "loss" in logs:
                losses.append(float(logs["loss"]))

    with tempfile.TemporaryDirectory() as out:
        settings: dict[str, Any] = {} if checkpointing is None else {"gradient_checkpointing": checkpointing}
        config = trl.SFTConfig(
            output_dir=out,
            max_steps=len(ids) // rows,
            per_device_train_batch_size=rows,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            max_length=None,  # rows have one length as it is
            shuffle_dataset=False,
            use_cpu=not torch.cuda.is_available(),
            bf16=precision == "bfloat16",
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **settings,
        )
        lora = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
        tokenizer = base.tokenizer._tokenizer
        trainer = trl.SFTTrainer(
            model=base.model,
            args=config,
            train_dataset=data,
            processing_class=tokenizer,
            peft_config=lora,
            callbacks=[Watch()],
        )
        trainer._get_train_sampler = lambda *_: torch.utils.data.SequentialSampler(trainer.train_dataset)
        trainer.train()
    return {"seconds": seconds, "losses": losses}


def child(side: str, file: Path, rows: int, precision: str) -> dict[str, Any]:
    """One side's figures, in this process."""
    held = np.load(file)
    ids, masks, order = held["ids"], held["masks"], held["order"]
    if side == "ours":  # it puts the rows in this order by itself
        found = ours(ids, masks, rows, precision)
    else:
        found = trl(ids[order], masks[order], rows, precision, checkpointing=False if "no" in side else None)
    return {**found, "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def has_trl() -> bool:
    """Whether there is somebody to be compared with."""
    return all(importlib.util.find_spec(name) for name in ("trl", "datasets"))


def measure(arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    """All sides, in turns."""
    from worldlm.train.batches import plan

    rows, length = arguments.rows, arguments.length
    wanted = rows * (arguments.steps + 1)
    trajectories = read_trajectories(arguments.data).items if arguments.data else made_up(2 * wanted, 40)
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in (SIDES if has_trl() else SIDES[:1])}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.npz"
        ids, masks = make_rows(trajectories, wanted, length)
        steps = plan(set_of(ids, masks), run_of(rows, length, arguments.precision))
        order = [row for step in steps for batch in step.micro_batches for row in batch]
        np.savez(file, ids=ids, masks=masks, order=order)
        for _ in range(arguments.repeat):
            for side in found:
                command = [sys.executable, __file__, "--side", side, "--file", str(file), "--rows", str(rows)]
                command += ["--precision", arguments.precision]
                done = subprocess.run(
                    command, capture_output=True, text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"}, check=False
                )
                if done.returncode:
                    raise SystemExit(f"{side} failed:\n{done.stderr[-3000:]}")
                found[side].append(json.loads(done.stdout.splitlines()[-1]))
    first = {side: runs[0]["losses"][0] for side, runs in found.items()}
    if max(first.values()) - min(first.values()) > TOLERANCE * min(first.values()):
        raise SystemExit(f"the sides do not compute the same: first losses {first}")
    tokens = rows * length
    return {
        side: {
            "tokens_per_second": tokens / statistics.median(each for run in runs for each in run["seconds"][1:]),
            "seconds_a_step": statistics.median(each for run in runs for each in run["seconds"][1:]),
            "peak_gib": max(run["peak_mib"] for run in runs) / 1024,
            "first_loss": first[side],
            "last_loss": runs[0]["losses"][-1],
            "trained_share": float(masks.mean()),
        }
        for side, runs in found.items()
    }


def show(found: dict[str, dict[str, float]]) -> None:
    """Print a table."""
    mine = found["ours"]["tokens_per_second"]
    print("| side | tokens/s | ours is | s a step | peak GiB | first loss | last loss |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for side, figures in found.items():
        print(
            f"| {side} | {figures['tokens_per_second']:.0f} | {mine / figures['tokens_per_second']:.2f} × "
            f"| {figures['seconds_a_step']:.1f} | {figures['peak_gib']:.1f} | {figures['first_loss']:.4f} "
            f"| {figures['last_loss']:.4f} |"
        )
    print(f"\n{found['ours']['trained_share']:.1%} of the tokens are targets.")


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6, help="of each process, beside the first")
    parser.add_argument("--repeat", type=int, default=3, help="processes of each side")
    parser.add_argument("--rows", type=int, default=4, help="of a step")
    parser.add_argument("--length", type=int, default=1024, help="tokens of a row")
    parser.add_argument("--data", type=Path, help="a trajectory file")
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        default="float32",
        help="of the base and of products; processors that do not multiply in bfloat16 are far slower in it",
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(child(arguments.side, arguments.file, arguments.rows, arguments.precision)))
        return
    if not importlib.util.find_spec("peft"):
        print("not measured: training needs pip install 'worldlm[train]'", file=sys.stderr)
        return
    found = measure(arguments)
    print(json.dumps(found)) if arguments.json else show(found)
    if not has_trl():
        print("TRL was not measured: pip install trl", file=sys.stderr)


if __name__ == "__main__":
    main()
