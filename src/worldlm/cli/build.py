"""The model of a verb, chosen from what was typed and what the environment holds."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from worldlm.cli.console import note, transfer
from worldlm.core.protocols import Closes, Model
from worldlm.core.types import Profile
from worldlm.domains import Domain, prompt_hashes
from worldlm.models import BudgetModel, CachedModel, RecordingModel, build, parse_spec


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which model, and what is put round it. None is the model's own choice."""

    spec: str
    profile: str | None = None
    lora: Path | None = None
    """An adapter, or `models.adapters.NO_ADAPTER`: where nobody plays a world, the shipped one is out of place."""
    deterministic: bool = False
    offline: bool = False
    deadline: float = 600.0
    """Seconds that one call may take, with all its tries."""
    slots: int = 1
    """Requests that an embedded model runs at the same time."""
    cache: Path | None = None
    record: Path | None = None
    budget_tokens: int | None = None


def build_model(options: ModelOptions, domain: Domain) -> tuple[Model, Profile]:
    """The model and how to ask it. Fetches the embedded weights when they are missing, and says so.

    Blocks, so that Ctrl-C ends a download; call it before any asynchronous work.
    """
    spec = parse_spec(options.spec)
    with transfer(lambda: note("The embedded model's weights are not here yet: fetching them, once.")) as progress:
        model, profile = build(
            spec,
            profile=options.profile,
            api_key=os.environ.get("WORLDLM_API_KEY") or os.environ.get("OPENAI_API_KEY"),
            offline=options.offline,
            deterministic=options.deterministic,
            lora=options.lora,
            slots=options.slots,
            deadline_s=options.deadline,
            progress=progress,
            write_observation=domain.write_observation,
            prompt_hashes=prompt_hashes,
        )
    # From the inside out: what the cache answers costs nothing, and a recording holds every answer.
    if options.budget_tokens is not None:
        model = BudgetModel(model, tokens=options.budget_tokens)
    if options.cache is not None:
        model = CachedModel(model, options.cache)
    if options.record is not None:
        model = RecordingModel(model, options.record)
    return model, profile


@asynccontextmanager
async def closing(model: Model | None) -> AsyncIterator[None]:
    """Close a model at the end, if there is one and it holds anything."""
    try:
        yield
    finally:
        if isinstance(model, Closes):
            await model.close()
