"""What a run of a benchmark comes to: one frozen value, one JSON file, everything by which two runs are compared.

Every figure is on 0–100 and stands beside the number of samples that it is the mean of. A sample *counts* when it was
scored, or when the model failed to answer it (`CUT_OFF`, `MODEL_FAILED`): then it counts at the floor, 0. What failed
through nobody's fault of the model's (a server, a judge, a budget) counts in no mean and lowers the coverage.
"""

import contextlib
import os
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.jsonl import describe, obstacle
from worldlm.core.outcomes import Outcome
from worldlm.core.types import NO_USAGE, DomainName, Json, Sampling, Text, Usage, Value

MetricName: TypeAlias = Literal["rules", "rubric", "blend"]
"""Scored by rules against the reference; by a judge's rubric; by both, blended."""
METRIC_NAMES: tuple[MetricName, ...] = ("rules", "rubric", "blend")

Stage: TypeAlias = Literal["predict", "rules", "rubric", "choice"]
"""Where a sample failed."""

JudgeProtocol: TypeAlias = Literal["rubric", "turing", "pairwise"]
"""What a judge is asked: to grade a prediction, to tell it from the real answer, to choose between two."""


class Estimate(Value):
    """A mean on 0–100 with its 95 % bootstrap interval."""

    mean: float | None
    """None where there is nothing to take a mean of, or where it is withheld."""
    low: float | None = None
    high: float | None = None
    """The interval; None where there is no mean, or fewer than two trajectories."""
    count: int
    """Samples (for the mean of domain means: samples of all domains) that it stands on."""


class Slice(Value):
    """A part of the samples: a domain, a content class, a range of turns or of lengths."""

    name: Text
    planned: int
    """Samples that the benchmark has here."""
    scored: int
    floored: int
    """Model's failures: they count at the floor."""
    floor: Estimate
    """Over the samples that count: scored ones, and the model's failures at 0."""
    answered: Estimate
    """Over the scored samples alone."""
    dimensions: dict[str, Estimate] = Field(default_factory=dict)
    """Of a metric with dimensions: each of them, failures at 0."""
    exact: float | None = None
    """Of the counted samples: the share, in [0, 1], that is the reference exactly (of rules only)."""

    @property
    def counted(self) -> int:
        """Samples that count."""
        return self.scored + self.floored

    @property
    def coverage(self) -> float:
        """The share of the planned samples that counts, in [0, 1]."""
        return self.counted / self.planned if self.planned else 0.0


class Metric(Value):
    """What a number means: part of every result, because two definitions of one name do not compare."""

    name: MetricName
    version: Text
    definition: Text
    dimensions: tuple[Text, ...] = ()


class Table(Value):
    """All figures by one metric."""

    metric: Metric
    overall: Slice
    """All samples as one: `floor` is the mean over samples, `answered` the same without the model's failures."""
    headline: Estimate
    """The mean of the domain means, the model's failures at the floor. Withheld (None) where `withheld` says why."""
    headline_answered: Estimate
    """The mean of the domain means without the model's failures."""
    withheld: Text | None = None
    """Why there is no headline: a domain of which nothing counts, or a coverage that is too low."""
    domains: tuple[Slice, ...]
    contents: tuple[Slice, ...] = ()
    """By content class; empty where the benchmark says none."""
    turns: tuple[Slice, ...] = ()
    """By the number of the turn that was predicted."""
    lengths: tuple[Slice, ...] = ()
    """By the length of the real observation, in characters."""


class SampleResult(Value):
    """One sample of the benchmark: where it stands, and how it came out. No texts."""

    id: Text
    """`TASK/ID`: unique within a benchmark. (A task is a domain, perhaps with a prefix.)"""
    domain: DomainName
    trajectory: Text
    """Samples of one trajectory are resampled together by the bootstrap."""
    turn: int
    """From 1."""
    length: int
    """Characters of the real observation."""
    content: Text | None = None
    """Content class: deterministic, pre-existing or metadata."""
    outcome: Outcome
    """Of the prediction. A sample that was never asked is INFRASTRUCTURE_FAILED, with that detail."""
    detail: Text | None = None
    values: dict[MetricName, float] = Field(default_factory=dict)
    """0–100, by the metrics that scored it."""
    outcomes: dict[MetricName, Outcome] = Field(default_factory=dict)
    """How scoring came out where it did not score (JUDGE_FAILED, say)."""
    dimensions: dict[str, float] = Field(default_factory=dict)
    """The rubric's dimensions, 0–100."""
    parts: dict[str, float] = Field(default_factory=dict)
    """What the rules looked at, 0–100."""
    exact: bool | None = None
    missing: int = 0
    """Oldest turns that the model was not shown, because they did not fit its context."""


class Example(Value):
    """A sample with its texts, to look at."""

    id: Text
    domain: DomainName
    turn: int
    turns: int
    """Turns of the trajectory."""
    content: Text | None = None
    action: Text
    real: Text
    predicted: Text | None
    """None where there is none: `outcome` says why."""
    outcome: Outcome = Outcome.OK
    detail: Text | None = None
    values: dict[MetricName, float] = Field(default_factory=dict)
    dimensions: dict[str, float] = Field(default_factory=dict)
    parts: dict[str, float] = Field(default_factory=dict)
    strengths: Text = ""
    weaknesses: Text = ""
    """In the judge's words."""


class Failure(Value):
    """A sample that was not predicted, or not scored, in words."""

    id: Text
    domain: DomainName
    stage: Stage
    outcome: Outcome
    detail: Text = ""


class InferSettings(Value):
    """Everything that can change a prediction: whoever asks again with the same settings may use the answer."""

    model: Text
    """Identifies weights and server."""
    prompt: Literal["own", "sample", "environment"]
    """Our prompts, the sample's own messages, or whatever an environment does itself."""
    profile: Text
    prompt_hashes: dict[str, str] = Field(default_factory=dict)
    """Of our own wording, by domain."""
    sampling: Sampling = Sampling()
    context: int | None = None
    """Tokens that prompt and reply may fill together."""
    seed: int = 0


class JudgingSettings(Value):
    """Everything that can change a score."""

    rules: Text | None = None
    """Version of the verifiers; None where they did not score."""
    rubric: Text | None = None
    """Version and hash of the rubric's wording; None where no judge scored."""
    protocol: JudgeProtocol = "rubric"
    wording: Text | None = None
    """Hash of the wording of the Turing test, or of the pairwise comparison."""
    against: Text | None = None
    """Of a pairwise comparison: what the predictions are compared with."""
    structured: bool = False
    """Whether servers were asked for verdicts by a JSON schema. One that refuses is asked without."""
    judges: tuple[Text, ...] = ()
    """Names of the judging models."""
    repeats: int = 1
    """Verdicts of each judge on each prediction."""
    sampling: Sampling = Sampling()
    context: int | None = None
    """Tokens that a judge's prompt and reply may fill together."""
    attempts: int | None = None
    """Calls that one verdict may take."""
    seed: int = 0


class Results(Value):
    """A run of a benchmark."""

    schema_: Literal["worldlm.bench-results/1"] = Field(default="worldlm.bench-results/1", alias="schema")
    name: Text
    """What the run is called in tables: the model's name, unless told otherwise."""
    benchmark: Text
    """The files or the name of the benchmark."""
    benchmark_digest: Text = ""
    """Over the samples: two runs compare where it is the same."""
    version: Text = ""
    """Of worldlm."""
    infer: InferSettings | None
    """None where the predictions are somebody else's."""
    judging: JudgingSettings
    tables: tuple[Table, ...]
    """One a metric, in the order of `METRIC_NAMES`."""
    samples: tuple[SampleResult, ...]
    worst: tuple[Example, ...] = ()
    """The samples with the lowest values of each domain, lowest first; failures are not among them."""
    failures: tuple[Failure, ...] = ()
    predicting: Usage = NO_USAGE
    judging_usage: Usage = NO_USAGE
    wall_seconds: dict[str, float] = Field(default_factory=dict)
    """Of each verb that was timed."""
    bootstrap: dict[str, Json] = Field(default_factory=dict)
    """How intervals were drawn: draws, seed, what is resampled, level."""
    warnings: tuple[Text, ...] = ()
    """What a reader should know: judge and model of one family, a history that was shortened, …"""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    def table(self, name: MetricName) -> Table | None:
        """The table of a metric, if the run has it."""
        return next((table for table in self.tables if table.metric.name == name), None)


def read_results(path: Path) -> Results:
    """The results of a file. Raises InputError that names the file and the key."""
    try:
        return Results.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; name a file of results") from error
    except ValidationError as error:
        raise InputError(
            f"{path} is no result of `worldlm bench score --out` or `bench run`: {describe(error)}; make it again with "
            "one of them"
        ) from error


def write_results(results: Results, path: Path) -> None:
    """Write a result file, whole or not at all. Raises WorldlmError when it cannot be kept."""
    write_whole(results, path)


def write_whole(value: BaseModel, path: Path) -> None:
    """Write a value as a JSON file, whole or not at all. Raises WorldlmError when it cannot be kept."""
    write_text_whole(value.model_dump_json(indent=1) + "\n", path)


def write_text_whole(text: str, path: Path) -> None:
    """Write a text file, whole or not at all.

    Raises InputError where none can be, and WorldlmError when it cannot be kept.
    """
    if why := obstacle(path):
        raise InputError(f"cannot write {path}: {why}")
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # its folder may be no folder at all
            partial.unlink(missing_ok=True)
        raise WorldlmError(
            f"cannot write {path}: {error.strerror or error}; free some space or choose another file"
        ) from error
