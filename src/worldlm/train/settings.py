"""The settings of a training run, as a YAML file holds them: one file is one run.

Every key has a default but what the run is about: its name, stage, base and data. Unknown keys are errors. Sizes are in
tokens of the base's own tokenizer.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from worldlm.core.errors import nearest
from worldlm.core.types import DOMAIN_NAMES, Text, Value

Stage: TypeAlias = Literal["cpt", "sft"]
Packing: TypeAlias = Literal["none", "mask", "flash"]
Targets: TypeAlias = Literal["kept", "observations", "all"]


class Replay(Value):
    """General and professional text beside the trajectories, so that what the base knows is not forgotten."""

    share: float = Field(default=0.1, ge=0, lt=1)
    """Of all tokens of the run."""
    texts: tuple[Text, ...] = ()
    """Files of text records (`worldlm.text/1`), each with the same part. What is short of its part is repeated."""


class Data(Value):
    """What is trained, and in which order."""

    files: tuple[Text, ...] = Field(min_length=1)
    """Files of trajectories."""
    validation: tuple[Text, ...] = ()
    """Files of trajectories or texts whose loss is measured by domain (a text's domain is the name of its file)."""
    validation_rows: int = Field(default=64, ge=1)
    """How many rows of each domain are measured."""
    replay: Replay = Replay()
    targets: Targets | None = None
    """Which tokens of a trajectory are trained: the observations of turns that their class keeps (CPT's default), all
    observations that can be trained (SFT's), or every token but the first."""
    masks: Text | None = None
    """A file with classes and keep ratios in place of the package's own."""
    temperature: float = Field(default=1.0, gt=0)
    """A domain's share is its tokens to the power 1/temperature: above 1, small domains are seen more often."""
    weights: Mapping[Text, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """By which a domain's share is multiplied, beside the others'; one that is not named has 1."""
    row_tokens: int | None = Field(default=None, ge=512)
    """Of a row, at most, where that is to be less than the profile's context: long rows take long, and the model may be
    asked with more than it was trained with."""
    curriculum: Literal["none", "length"] = "none"
    """`length`: in the first epoch short rows before long ones, in bands."""
    bands: int = Field(default=4, ge=1)
    """How many bands a curriculum has; each is in random order."""
    epochs: int = Field(default=1, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    """Where the run ends if the epochs hold more."""
    max_unfit: float = Field(default=0.1, ge=0, le=1)
    """The share of turns, of those that were to be trained, that may be lost because they do not fit."""


class Lora(Value):
    """The low-rank adapter (arXiv 2106.09685) that is trained."""

    rank: int = Field(default=16, ge=1)
    alpha: int = Field(default=32, ge=1)
    """What it adds is scaled by alpha/rank."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    modules: Literal["all-linear"] | tuple[Text, ...] = "all-linear"
    """Linear layers by name; `all-linear` is all but the head."""
    parameters: tuple[Text, ...] = ()
    """Parameters that are no linear layers: the fused experts of a mixture (`mlp.experts.gate_up_proj`, …)."""

    @model_validator(mode="after")
    def _can_be_exported(self) -> "Lora":
        names = [*([] if self.modules == "all-linear" else self.modules), *self.parameters]
        for name in names:
            if name.rpartition(".")[2] in ("lm_head", "embed_tokens", "wte", "output"):
                raise ValueError(f"{name!r} cannot be exported as an adapter; name layers between embedding and head")
        if self.parameters and self.dropout:
            raise ValueError("'dropout' must be 0 where 'parameters' are trained")
        return self


class Optimiser(Value):
    """AdamW (arXiv 1711.05101)."""

    learning_rate: float = Field(default=1e-3, gt=0)
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    clip: float = Field(default=1.0, gt=0)
    """The largest gradient norm; what is above is scaled down to it."""
    skips: int = Field(default=3, ge=1)
    """How many steps in a row may have a loss or a gradient that is not finite. They change nothing."""


class Schedule(Value):
    """The learning rate over the steps of the whole run."""

    kind: Literal["constant", "linear", "cosine"] = "cosine"
    warmup: float = Field(default=0.03, ge=0, lt=1)
    """The part of the steps in which it rises from 0."""
    floor: float = Field(default=0.1, ge=0, le=1)
    """Where it ends, as a part of the highest."""


class Batches(Value):
    """How rows become steps."""

    tokens: int = Field(default=4096, ge=1)
    """Of a micro-batch, padding counted. A row that is longer has one of its own."""
    micro_batches: int = Field(default=2, ge=1)
    """Of a step, over all processes together: so a run is the same on one process as on several."""
    packing: Packing = "none"
    """`none`: rows side by side, padded, those of like length together. `mask`: rows behind each other, kept apart by a
    mask. `flash`: likewise by FlashAttention's variable lengths, on a GPU."""
    window: int = Field(default=512, ge=1)
    """Rows among which those of like length are put together."""


class Intervals(Value):
    """After how many steps something is done. The end of a run does all of it."""

    save: int = Field(default=50, ge=1)
    validate_: int = Field(default=50, ge=1, alias="validate")
    sample_tokens: int = Field(default=48, ge=8)
    """Tokens that are generated after a save, to see whether the model still speaks."""


class Run(Value):
    """A training run."""

    name: Text = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    stage: Stage
    base: Text
    """A folder of a model, a GGUF file, a name on a model hub, or `embedded`."""
    init_from: Text | None = None
    """The adapter of an earlier stage to go on from: a run's folder, or its `adapter/`."""
    profile: Text = "embedded"
    """How the model will be asked (see `worldlm models list`)."""
    thinking: bool | None = None
    """In place of the profile's: whether it thinks first. Turns without thinking are then not trained."""
    state: Literal["full", "delta"] | None = None
    """In place of the profile's: screens whole, or as deltas."""
    context: int | None = Field(default=None, ge=512)
    """In place of the profile's: tokens of a row, at most, and of a prompt with its answer."""
    max_tokens: int | None = Field(default=None, ge=1)
    """In place of the profile's: tokens of an answer, at most, once the model is asked."""
    data: Data
    lora: Lora = Lora()
    """Of a new adapter; with `init_from` it must be what that one has."""
    optimiser: Optimiser = Optimiser()
    schedule: Schedule = Schedule()
    batches: Batches = Batches()
    every: Intervals = Intervals()
    precision: Literal["bfloat16", "float32"] = "bfloat16"
    """Of the base and of products; the adapter and its optimiser are float32."""
    checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, a third more time."""
    router_weight: float | None = Field(default=None, ge=0)
    """Of the loss that balances a mixture's experts; None: what the base's configuration says."""
    seed: int = 0

    @property
    def targets(self) -> Targets:
        """Which tokens of a trajectory are trained."""
        return self.data.targets or ("kept" if self.stage == "cpt" else "observations")

    @model_validator(mode="after")
    def _weighs_what_there_is(self) -> "Run":
        for name in self.data.weights:
            if name not in DOMAIN_NAMES:
                raise ValueError(f"'data.weights' names no domain with {name!r}; {nearest(name, DOMAIN_NAMES)}")
        return self

    @model_validator(mode="after")
    def _fits_its_stage(self) -> "Run":
        if self.stage == "cpt" and self.thinking:
            raise ValueError("'thinking' belongs to the stage sft: continual pre-training has none")
        if self.data.replay.share and not self.data.replay.texts and self.stage == "cpt":
            raise ValueError("'data.replay.texts' names no file; name some, or set 'data.replay.share' to 0")
        return self


__all__ = [
    "Batches",
    "Data",
    "Intervals",
    "Lora",
    "Optimiser",
    "Packing",
    "Replay",
    "Run",
    "Schedule",
    "Stage",
    "Targets",
]
