"""AgentWorldBench as an `inspect_ai` task: its providers, logs and viewer over our samples, prompts and scores.

    inspect eval worldlm/agentworldbench --model openai/NAME -T benchmark=FOLDER

What is asked and how a reply is read is `bench.infer`, what it is worth `bench.judging`, and the figures are those of
`bench.averages`: the same predictions get the same numbers as from `worldlm bench run`. Inspect is the model's client
and keeps the log. (This module is imported by inspect_ai, which it needs: `pip install 'worldlm[inspect]'`.)
"""

from collections.abc import Sequence
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset
from inspect_ai.dataset import Sample as InspectSample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentReasoning,
    GenerateConfig,
    ModelOutput,
    get_model,
)
from inspect_ai.model import Model as InspectModel
from inspect_ai.scorer import Metric as InspectMetric
from inspect_ai.scorer import SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import LimitExceededError

from worldlm.bench.averages import counted, table
from worldlm.bench.infer import PROMPTS, Prediction, Words, default_words, model_predictor
from worldlm.bench.judging import Judgement, Judging, score_one
from worldlm.bench.results import Metric, MetricName, SampleResult
from worldlm.bench.runs import Planned
from worldlm.bench.samples import Sample, load_samples, parse_record
from worldlm.bench.scoring import sample_result
from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.outcomes import Outcome
from worldlm.core.text import estimate_tokens
from worldlm.core.types import Completion, DomainName, Finish, Message, Profile, Sampling, Usage
from worldlm.domains import get_domain
from worldlm.judge.score import DIMENSIONS

PREDICTION, JUDGEMENT = "prediction", "judgement"
"""Where a sample's store holds ours."""
FINISHES: dict[str, Finish] = {
    "stop": "stop",
    "max_tokens": "length",
    "model_length": "context_overflow",
    "content_filter": "refused",
}
REASONS = {
    Outcome.CUT_OFF: "invalid_response_format",
    Outcome.MODEL_FAILED: "invalid_response_format",
    Outcome.JUDGE_FAILED: "grader_failed",
}
"""Outcomes in inspect's own words, where it has some."""
NAN = float("nan")


@task
def agentworldbench(
    benchmark: str = "realturns-a",
    prompt: Words | None = None,
    size: str = "full",
    thinking: bool = True,
    answer_tag: bool = True,
    context: int = 262_144,
    seed: int = 0,
    domains: str | list[str] = "",
    limit: int | None = None,
    judge: str | list[str] = "",
) -> Task:
    """Predict single turns of real trajectories, scored by rules and, where a judge is named, by its rubric.

    `benchmark`: a file or folder of samples, or `realturns-a`, `realturns-b`. `prompt`, `size`, `thinking`,
    `answer_tag`, `context`: whose messages are sent, and how ours are worded (see `worldlm bench infer`). `domains` and
    `limit` choose samples, `limit` so many of each domain: both change what is planned, and inspect's own `--limit`
    does not. `judge`: one or several models, as inspect names them. Temperature and length of replies are inspect's own
    options (0.6 and 32,768 by default, as AgentWorldBench asks).
    """
    samples = load_samples(benchmark, domains=_names(domains), limit=limit)
    words = prompt or default_words(samples)
    profile = Profile.model_validate(
        {"name": "inspect", "prompt": size, "thinking": thinking, "answer_tag": answer_tag, "context": context}
    )
    judges = _names(judge)
    planned: dict[str, int] = {}
    for sample in samples:
        planned[sample.domain] = planned.get(sample.domain, 0) + 1
    scorers = [rules(judges), *([rubric(judges), blend(judges)] if judges else [])]
    return Task(
        dataset=MemoryDataset([_inspect_sample(each, planned, words, profile) for each in samples], name=benchmark),
        solver=predict(words, profile.model_dump(mode="json"), seed),
        scorer=scorers,
        config=GenerateConfig(temperature=0.6, max_tokens=32_768),
    )


def _names(value: str | Sequence[str]) -> list[str]:
    return [each.strip() for each in (value.split(",") if isinstance(value, str) else value) if each.strip()]


def _inspect_sample(sample: Sample, planned: dict[str, int], words: Words, profile: Profile) -> InspectSample:
    try:
        messages = PROMPTS[words](sample, profile, estimate_tokens).messages()
    except InputError:
        messages = None  # it does not fit: the solver says so
    return InspectSample(
        id=sample.key,
        input=[_chat_message(each) for each in messages] if messages else sample.action,
        target=get_domain(sample.domain).write_observation(sample.question.truth),
        metadata={
            "domain": sample.domain,
            "turn": sample.turn,
            "content": sample.content.value if sample.content else None,
            "trajectory": sample.trajectory,
            "planned": planned,
            "sample": sample.raw,
        },
    )


def _chat_message(message: Message) -> ChatMessage:
    kinds = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
    made: ChatMessage = kinds[message.role](content=message.content)
    return made


# Asking.


class Asked:
    """One of inspect's models as ours. It keeps the last output, for the log."""

    def __init__(self, model: InspectModel):
        self._model = model
        self.output: ModelOutput | None = None

    @property
    def name(self) -> str:
        """As inspect names it."""
        return str(self._model)

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Ask through inspect, which retries as it is told. What still fails is a failure of the service.

        Raises what inspect itself stops a sample with: cancellation and its limits.
        """
        config = GenerateConfig(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            max_tokens=sampling.max_tokens,
            seed=sampling.seed,
            stop_seqs=list(sampling.stop) or None,
        )
        try:
            output = await self._model.generate([_chat_message(each) for each in messages], config=config)
        except LimitExceededError:
            raise
        except Exception as error:  # whatever a provider raises
            detail = f"{type(error).__name__}: {error}"
            return Completion(finish="error", outcome=Outcome.INFRASTRUCTURE_FAILED, detail=detail, model=self.name)
        self.output = output
        return _completion(output)


def _completion(output: ModelOutput) -> Completion:
    if output.error or not output.choices:
        detail = output.error or "the server sent no choice"
        return Completion(finish="error", outcome=Outcome.INFRASTRUCTURE_FAILED, detail=detail, model=output.model)
    finish, usage = FINISHES.get(output.stop_reason, "stop"), output.usage
    failed: dict[str, Any] = {}
    if finish == "refused":
        failed = {"outcome": Outcome.MODEL_FAILED, "detail": "the provider withheld the reply"}
    elif finish == "context_overflow":
        failed = {"outcome": Outcome.INFRASTRUCTURE_FAILED, "detail": output.completion or "the prompt is too long"}
    content = output.message.content
    pieces = content if isinstance(content, list) else []
    thoughts = [each.reasoning for each in pieces if isinstance(each, ContentReasoning)]
    return Completion(
        text="" if failed else output.completion,
        thinking="\n".join(thoughts) or None,
        finish=finish,
        usage=Usage(
            calls=1,
            prompt_tokens=usage.input_tokens + (usage.input_tokens_cache_read or 0) if usage else 0,
            cached_tokens=(usage.input_tokens_cache_read or 0) if usage else 0,
            completion_tokens=usage.output_tokens if usage else 0,
            seconds=output.time or 0.0,
            cost_usd=(usage.total_cost or 0.0) if usage else 0.0,
        ),
        model=output.model,
        **failed,
    )


@solver
def predict(words: Words, profile: dict[str, Any], seed: int = 0) -> Solver:
    """Ask as `worldlm bench infer` does, and keep the prediction in the sample's store."""
    asked_as = Profile.model_validate(profile)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        model = Asked(get_model())
        sample = parse_record(state.metadata["sample"])
        prediction = await model_predictor(model, asked_as, words, seed=seed).predict(sample)
        _raise_for_service(prediction.outcome, prediction.detail, of_sample=prediction.of_sample)
        state.store.set(PREDICTION, prediction.model_dump(mode="json"))
        if model.output is not None and model.output.choices:
            state.output = model.output
            state.messages.append(model.output.message)
        return state

    return solve


def _raise_for_service(outcome: Outcome, detail: str | None, *, of_sample: bool = False) -> None:
    """A failure of a server is an error of the sample to inspect, which stops, goes on or tries again as it is told."""
    if not (outcome.is_ok or outcome.is_models_fault or outcome is Outcome.JUDGE_FAILED or of_sample):
        raise WorldlmError(f"{outcome.value}: {detail}")


# Scoring.


@metric
def figures(name: MetricName) -> InspectMetric:
    """The figures of `worldlm bench score`: headline (not a number where it is withheld), means, coverage, domains."""

    def of(scores: list[SampleScore]) -> dict[str, float]:
        results = [SampleResult.model_validate((each.score.metadata or {})["result"]) for each in scores]
        planned = (scores[0].sample_metadata or {})["planned"] if scores else {}
        for domain, count in planned.items():
            lacking = count - sum(result.domain == domain for result in results)
            results += [_never_scored(domain, number) for number in range(lacking)]
        dimensions = DIMENSIONS if name == "rubric" else ()
        made = table(results, Metric(name=name, version="", definition="", dimensions=dimensions))
        told = {
            "headline": made.headline.mean,
            "headline_low": made.headline.low,
            "headline_high": made.headline.high,
            "headline_without_failures": made.headline_answered.mean,
            "samples": made.overall.floor.mean,
            "samples_without_failures": made.overall.answered.mean,
            "coverage": 100 * made.overall.coverage,
            **{each.name: each.floor.mean for each in made.domains},
            **{dimension: each.mean for dimension, each in made.overall.dimensions.items()},
        }
        return {key: NAN if value is None else value for key, value in told.items()}

    return of


def _never_scored(domain: DomainName, number: int) -> SampleResult:
    """In place of a planned sample that inspect hands to no metric: it lowers the coverage."""
    return SampleResult(
        id=f"unscored/{domain}/{number}",
        domain=domain,
        trajectory="",
        turn=1,
        length=0,
        outcome=Outcome.INFRASTRUCTURE_FAILED,
    )


@scorer(metrics=[figures("rules")])
def rules(judges: Sequence[str] = ()) -> Scorer:
    """How much of the prediction is as in the real observation, by the rules of its domain, on 0–100."""
    return _scorer("rules", judges)


@scorer(metrics=[figures("rubric")])
def rubric(judges: Sequence[str] = ()) -> Scorer:
    """The mean of a judge's five grades, on 0–100."""
    return _scorer("rubric", judges)


@scorer(metrics=[figures("blend")])
def blend(judges: Sequence[str] = ()) -> Scorer:
    """Rubric and rules as one number, on 0–100."""
    return _scorer("blend", judges)


def _scorer(name: MetricName, judges: Sequence[str]) -> Scorer:
    async def score(state: TaskState, target: Target) -> Score:
        sample = parse_record(state.metadata["sample"])
        told = state.store.get(PREDICTION)
        if told is None:
            return Score.unscored(reason="scoring_failed", explanation="the sample was stopped before it was asked")
        prediction = Prediction.model_validate(told)
        judgement = await _judgement(state, sample, prediction, judges)
        result = sample_result(Planned.of(sample), prediction, judgement, sample, judged=True)
        return _score(name, result, prediction, judgement)

    return score


async def _judgement(state: TaskState, sample: Sample, prediction: Prediction, judges: Sequence[str]) -> Judgement:
    """The scores of a prediction, made once for all metrics."""
    key = f"{JUDGEMENT}:{','.join(judges)}"
    if (told := state.store.get(key)) is not None:
        return Judgement.model_validate(told)
    made = await score_one(sample, prediction, Judging(judges=[Asked(get_model(judge)) for judge in judges]))
    if prediction.observation is not None:
        _raise_for_service(made.outcome, made.detail)
    state.store.set(key, made.model_dump(mode="json"))
    return made


def _score(name: MetricName, result: SampleResult, prediction: Prediction, judgement: Judgement) -> Score:
    """In inspect's form: the model's own failures at 0, what failed otherwise without a value."""
    answer = get_domain(result.domain).write_observation(prediction.observation) if prediction.observation else None
    outcome = result.outcomes.get(name, result.outcome)
    value, detail = counted(result, name), result.detail or judgement.detail
    told: dict[str, Any] = {
        "answer": answer,
        "explanation": _words(name, result, judgement) if outcome.is_ok else f"{outcome.value}: {detail}",
        "reason": None if outcome.is_ok else REASONS.get(outcome, outcome.value),
        "metadata": {"result": result.model_dump(mode="json")},
    }
    return Score.unscored(**told) if value is None else Score(value=value, **told)


def _words(name: MetricName, result: SampleResult, judgement: Judgement) -> str:
    """What the number is made of, for the viewer."""
    parts = {} if name == "rubric" else result.parts
    numbers = parts if name == "rules" else {**result.dimensions, **parts}
    lines = [f"{part}: {value:.0f}" for part, value in numbers.items()]
    verdicts = [verdict.score for verdict in judgement.verdicts if verdict.score] if name != "rules" else []
    return "\n".join([*lines, *(text for each in verdicts for text in (each.strengths, each.weaknesses) if text)])
