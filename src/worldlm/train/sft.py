"""Supervised fine-tuning: a world model learns to think before it answers, or to answer in another form.

Under a profile that thinks, a turn with thinking is an example of its own: prompts show earlier answers without the
thoughts that led to them, as when the model is asked (`data.masks`). Thinking and answer are both trained. Under one
that does not, the stage trains every observation rather than those that their class keeps, whole or as deltas.
"""

from pathlib import Path

import torch
from accelerate import PartialState

from worldlm.core.errors import InputError
from worldlm.core.types import Profile
from worldlm.train.base import adapter, load_base
from worldlm.train.batches import plan
from worldlm.train.events import Emit
from worldlm.train.examples import Inspect, Tell, sets
from worldlm.train.loop import Job, Limits, Result, train
from worldlm.train.settings import Run


def sft(
    run: Run,
    profile: Profile,
    base: str,
    out: Path,
    emit: Emit,
    *,
    inspect: Inspect,
    tell: Tell | None = None,
    resume: bool = False,
    limits: Limits | None = None,
) -> Result:
    """Fine-tune an adapter on the turns of a run, into its folder `out`.

    It goes on from `run.init_from` where that names the adapter of an earlier stage. The rest is as in `cpt.cpt`.
    """
    if run.stage != "sft":
        raise InputError(f"{run.name} is a run of the stage {run.stage}; start it with worldlm train {run.stage}")
    model = load_base(base, dtype=getattr(torch, run.precision), packing=run.batches.packing)

    # Rows: one for each turn that has thinking, or whole trajectories where none is wanted.
    with PartialState(cpu=not torch.cuda.is_available()).main_process_first():
        rows, validation, files = sets(run, profile, model.tokenizer, model.digest, out / "rows", tell)
    inspect([rows[number] for number in plan(rows, run)[0].micro_batches[0]], model.tokenizer)

    # The adapter of the stage before, or a new one.
    adapted = adapter(model, run)

    job = Job(run, profile, model, adapted, rows, validation, files, out)
    return train(job, emit, resume=resume, limits=limits)


__all__ = ["sft"]
