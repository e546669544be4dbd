"""Continual pre-training: a base learns what environments answer, from whole trajectories without thinking.

The method is that of the report on Qwen-AgentWorld (arXiv 2606.24597): all turns stand in the context, and the loss is
on the observations of those that their class keeps (`data.classes`). General and professional text is replayed beside
them, and an adapter is trained in place of the weights: both keep what the base knew.
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


def cpt(
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
    """Train an adapter on the trajectories of a run, into its folder `out`.

    `base` is where the base lies (a folder, a GGUF file, or a name on a hub), and `profile` how the model will be
    asked. `inspect` is shown the rows of the first batch before anything is trained.
    Raises InputError before the first step for what cannot work, WorldlmError when the run has to end.
    """
    if run.stage != "cpt":
        raise InputError(f"{run.name} is a run of the stage {run.stage}; start it with worldlm train {run.stage}")
    if profile.thinking:
        raise InputError(
            f"the profile {profile.name} thinks, and continual pre-training has no thinking; choose another"
        )
    model = load_base(base, dtype=getattr(torch, run.precision), packing=run.batches.packing)

    # Rows: whole trajectories under the profile's prompts, and the text that is replayed.
    with PartialState(cpu=not torch.cuda.is_available()).main_process_first():
        rows, validation, files = sets(run, profile, model.tokenizer, model.digest, out / "rows", tell)
    inspect([rows[number] for number in plan(rows, run)[0].micro_batches[0]], model.tokenizer)

    # An adapter of the base, new or from an earlier run.
    adapted = adapter(model, run)

    job = Job(run, profile, model, adapted, rows, validation, files, out)
    return train(job, emit, resume=resume, limits=limits)


__all__ = ["cpt"]
