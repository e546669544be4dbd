"""From a file of predictions or of scores to `Results`: nothing is asked, so figures can be made anew at any time."""

import heapq
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from worldlm.bench.averages import DRAWS, LEVEL, MIN_COVERAGE, table
from worldlm.bench.infer import Prediction, read_prediction
from worldlm.bench.judging import Judgement, public_grades, read_judgement
from worldlm.bench.results import (
    METRIC_NAMES,
    Example,
    Failure,
    JudgingSettings,
    Metric,
    MetricName,
    Results,
    SampleResult,
)
from worldlm.bench.runs import NOT_THERE, Manifest, Planned, last_samples, read_manifest
from worldlm.bench.samples import Sample, benchmark_digest
from worldlm.core.errors import InputError
from worldlm.core.outcomes import Outcome
from worldlm.core.text import number_of
from worldlm.core.types import NO_USAGE
from worldlm.domains import get_domain
from worldlm.judge.blend import SHARE, blend
from worldlm.judge.panel import Panel, same_family
from worldlm.judge.score import DIMENSIONS, percent
from worldlm.judge.verifiers import VERSION, verify

WORST = 3
"""Samples of each domain that are kept with their texts."""

_DEFINITIONS: dict[MetricName, str] = {
    "rules": "how much of the prediction is as in the real observation, by the rules of its domain; 100: all of it",
    "rubric": "mean of five grades (1–5) from a judge that sees history, action, real observation and prediction, "
    "as (mean - 1) / 4 x 100",
    "blend": f"{1 - SHARE:g} x rubric + {SHARE:g} x rules; rubric alone where no program can check the content",
}
_AVERAGES = (
    "headline: mean of domain means; a model's failure counts as 0, what failed through nobody's fault of the model's "
    "is left out and lowers the coverage"
)


def score(
    path: Path,
    *,
    name: str | None = None,
    min_coverage: float = MIN_COVERAGE,
    worst: int = WORST,
    draws: int = DRAWS,
    seed: int = 0,
    version: str = "",
) -> Results:
    """The results of a file of scores, or of predictions (which are scored by rules on the way).

    The plan is that of the manifest beside the file; without one, the samples in the file. Raises InputError that
    names file, line and key.
    """
    manifest = read_manifest(path)
    if manifest and manifest.judging and manifest.judging.protocol != "rubric":
        raise InputError(f"{path} holds choices ({manifest.judging.protocol}), not scores; `bench score` counts them")
    collected = _Collected(manifest, worst)
    for sample, prediction, judgement in scored_lines(path):
        collected.add(sample, prediction, judgement)
    collected.add_missing()
    if not collected.results:
        raise InputError(f"{path} holds no sample")
    infer, judging = manifest.infer if manifest else None, _judging(manifest, collected)
    wanted = {"rules": judging.rules, "rubric": judging.rubric, "blend": judging.rules and judging.judges}
    metrics = [_metric(each, judging) for each in METRIC_NAMES if wanted[each]]
    tables = [table(collected.results, each, min_coverage=min_coverage, draws=draws, seed=seed) for each in metrics]
    identity = benchmark_digest((each.id, each.digest) for each in collected.planned)
    return Results(
        name=name or (infer.model if infer else path.stem),
        benchmark=manifest.benchmark if manifest else str(path),
        benchmark_digest=manifest.benchmark_digest if manifest else identity,
        version=version,
        infer=infer,
        judging=judging,
        tables=tuple(tables),
        samples=tuple(collected.results),
        worst=tuple(collected.examples()),
        failures=tuple(collected.failures),
        predicting=collected.predicting,
        judging_usage=collected.judging_usage,
        wall_seconds=manifest.wall_seconds if manifest else {},
        bootstrap={
            "draws": draws,
            "seed": seed,
            "level": LEVEL,
            "resampled": "trajectories within each domain",
            "averages": _AVERAGES,
        },
        warnings=tuple(_warnings(collected, manifest)),
    )


def _judging(manifest: Manifest | None, collected: "_Collected") -> JudgingSettings:
    """How the file was scored; without a manifest that says so, by rules here, and by whoever's grades it holds."""
    if manifest and manifest.judging:
        return manifest.judging
    return JudgingSettings(rules=VERSION, rubric="of the file" if collected.has("rubric") else None)


def scored_lines(path: Path) -> Iterator[tuple[Sample, Prediction, Judgement | None]]:
    """Each sample of a file with its prediction and, where it was judged, the judgement."""
    for sample in last_samples(path):
        yield sample, read_prediction(sample), read_judgement(sample)


def _metric(name: MetricName, judging: JudgingSettings) -> Metric:
    versions = {"rules": judging.rules, "rubric": judging.rubric, "blend": f"{judging.rubric} + {judging.rules}"}
    dimensions = DIMENSIONS if name == "rubric" else ()
    return Metric(name=name, version=versions[name] or "", definition=_DEFINITIONS[name], dimensions=dimensions)


class _Collected:
    """The lines of a file, taken in one at a time; of the texts only those of the worst samples are kept."""

    def __init__(self, manifest: Manifest | None, worst: int):
        self._plan = {each.id: each for each in manifest.planned} if manifest else None
        self._judged = manifest is not None and manifest.judging is not None
        self._most = worst
        self._worst: dict[str, list[tuple[float, int, Example]]] = {}
        self.planned: list[Planned] = []
        self.results: list[SampleResult] = []
        self.failures: list[Failure] = []
        self.predicting = self.judging_usage = NO_USAGE
        self.shortened = self.in_part = 0

    def has(self, metric: MetricName) -> bool:
        """Whether any sample has a value by this metric."""
        return any(metric in result.values for result in self.results)

    def add(self, sample: Sample, prediction: Prediction, judgement: Judgement | None) -> None:
        """Take in a line; one that is not of the plan, or of a sample as it was before, is left out."""
        planned = Planned.of(sample)
        if self._plan is not None and (sample.key not in self._plan or self._plan[sample.key].digest != planned.digest):
            return
        self.planned.append(planned)
        result = sample_result(planned, prediction, judgement, sample, judged=self._judged)
        self.results.append(result)
        self.predicting += prediction.usage
        self.shortened += prediction.missing > 0
        panel = judgement.panel if judgement else None
        if panel is not None:
            self.judging_usage += panel.usage
            self.in_part += any(verdict.score and verdict.detail for verdict in panel.verdicts)
        self._fail(result, judgement, sample.raw.get("error_message"))
        self._keep(sample, prediction, result, panel)

    def add_missing(self) -> None:
        """Count what was planned and has no line."""
        there = {result.id for result in self.results}
        for planned in (self._plan or {}).values():
            if planned.id not in there:
                self.planned.append(planned)
                made = _head(planned, outcome=Outcome.INFRASTRUCTURE_FAILED, detail=NOT_THERE)
                self.results.append(made)
                self._fail(made, None)
        if self._plan is not None:
            order = {key: place for place, key in enumerate(self._plan)}
            self.results.sort(key=lambda result: order[result.id])

    def examples(self) -> list[Example]:
        """The worst samples of each domain, lowest first."""
        return [
            example
            for kept in self._worst.values()
            for _, _, example in sorted(kept, key=lambda row: (-row[0], -row[1]))
        ]

    def _fail(self, result: SampleResult, judgement: Judgement | None, told: object = None) -> None:
        if not result.outcome.is_ok:
            failure = Failure(
                id=result.id,
                domain=result.domain,
                stage="predict",
                outcome=result.outcome,
                detail=result.detail or "",
            )
            self.failures.append(failure)
        elif "rubric" in result.outcomes:
            detail = (judgement.detail if judgement else str(told or "")) or ""
            failed = result.outcomes["rubric"]
            self.failures.append(
                Failure(id=result.id, domain=result.domain, stage="rubric", outcome=failed, detail=detail)
            )

    def _keep(self, sample: Sample, prediction: Prediction, result: SampleResult, panel: Panel | None) -> None:
        value = next((result.values[name] for name in reversed(METRIC_NAMES) if name in result.values), None)
        if value is None or prediction.observation is None or not self._most:
            return
        kept = self._worst.setdefault(result.domain, [])
        rank = (-value, -len(self.results))  # a heap of the lowest: its first is the highest of them
        if len(kept) == self._most and rank <= kept[0][:2]:
            return
        row = (*rank, _example(sample, prediction, result, panel))
        if len(kept) < self._most:
            heapq.heappush(kept, row)
        else:
            heapq.heapreplace(kept, row)


def _head(planned: Planned, *, outcome: Outcome, detail: str | None) -> SampleResult:
    return SampleResult(
        id=planned.id,
        domain=planned.domain,
        trajectory=planned.trajectory,
        turn=planned.turn,
        length=planned.length,
        content=planned.content,
        outcome=outcome,
        detail=detail,
    )


def sample_result(
    planned: Planned, prediction: Prediction, judgement: Judgement | None, sample: Sample, *, judged: bool
) -> SampleResult:
    """A sample in the results. Where nobody `judged` the file, what has no judgement is scored by rules here."""
    made = _head(planned, outcome=prediction.outcome, detail=prediction.detail)
    if prediction.observation is None:
        return made
    grades = public_grades(sample) if judgement is None else None
    rules = judgement.rules if judgement else (verify(sample.question, prediction.observation) if not judged else None)
    panel = judgement.panel if judgement else None
    values: dict[MetricName, float] = {}
    outcomes: dict[MetricName, Outcome] = {}
    dimensions: dict[str, float] = {}
    if rules is not None:
        values["rules"] = rules.value
    if panel is not None and panel.grades is not None and panel.percent is not None:
        values["rubric"] = panel.percent
        dimensions = {name: percent(grade) for name, grade in panel.grades.items()}
        if rules is not None:
            values["blend"] = _blended(panel, judgement, planned.content)
    elif panel is not None:
        outcomes = {"rubric": panel.outcome, "blend": panel.outcome}
    elif grades is not None:
        values["rubric"] = percent(fmean(grades.values()))
        dimensions = {name: percent(grade) for name, grade in grades.items()}
    elif judgement is not None and not judgement.outcome.is_ok:
        outcomes = {"rubric": judgement.outcome, "blend": judgement.outcome}
    elif judgement is None and sample.raw.get("failed"):
        outcomes = {"rubric": Outcome.JUDGE_FAILED}
    told = {
        "values": values,
        "outcomes": outcomes,
        "dimensions": dimensions,
        "parts": {part.name: 100 * part.value for part in rules.parts} if rules else {},
        "exact": rules.exact if rules else None,
        "missing": prediction.missing,
    }
    return made.model_copy(update=told)


def _blended(panel: Panel, judgement: Judgement | None, content: str | None) -> float:
    """The blend of each verdict, averaged as the panel's grades are: every judge weighs the same."""
    by_judge: dict[str, list[float]] = {}
    for verdict in panel.verdicts:
        value = blend(verdict, judgement.rules if judgement else None, content=content).value
        if verdict.score is not None and value is not None:
            by_judge.setdefault(verdict.judge, []).append(value)
    return fmean(fmean(values) for values in by_judge.values())


def _example(sample: Sample, prediction: Prediction, result: SampleResult, panel: Panel | None) -> Example:
    question, seen = sample.question, prediction.observation
    write = get_domain(sample.domain).write_observation
    score = next((verdict.score for verdict in panel.verdicts if verdict.score), None) if panel else None
    return Example(
        id=result.id,
        domain=result.domain,
        turn=sample.turn,
        turns=sample.turns,
        content=result.content,
        action=question.action,
        real=write(question.truth),
        predicted=write(seen) if seen else None,
        values=result.values,
        dimensions=result.dimensions,
        parts=result.parts,
        strengths=score.strengths if score else str(sample.raw.get("strengths") or ""),
        weaknesses=score.weaknesses if score else str(sample.raw.get("weaknesses") or ""),
    )


def _warnings(collected: _Collected, manifest: Manifest | None) -> Iterator[str]:
    if manifest is None:
        yield "there is no manifest beside the file: samples that were planned and never asked cannot be counted"
    if collected.shortened:
        shortened = number_of(collected.shortened, "sample")
        yield f"{shortened} asked without the oldest turns, which did not fit the context"
    if collected.in_part:
        in_part = number_of(collected.in_part, "prediction")
        yield f"{in_part} judged on a part of the material, which did not fit the context"
    infer, judging = (manifest.infer, manifest.judging) if manifest else (None, None)
    for judge in judging.judges if judging and infer else ():
        if infer and same_family(judge, infer.model):
            yield f"the judge {judge} and the model {infer.model} seem to be of one family, which it may favour"
