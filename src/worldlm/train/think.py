"""Thinking for fine-tuning: sampled from a model and kept where its answer is right, or derived by a program.

*Rejection sampling* (Qwen-AgentWorld report, SFT stage): each turn of a trajectory is asked several times, under a
profile that thinks, in the very prompt that training and simulation use. Each reply is read by `domains.reply` and its
answer scored against the real one, by rules (`judge.verifiers`) and, where a judge is given, by rubric and rules
together. Thinking is kept where the score reaches the threshold and `refusal` has nothing against it. What becomes of
a turn is one flushed line (`Traces`), so that a run that was stopped goes on.

*Derivations* (`train.derivations`) need no model.

Either way the observation stays the real one; a turn for which nothing is kept has no thinking, and is not trained on
by fine-tuning.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
from pydantic import ConfigDict, Field

from worldlm.core.errors import ActionError, InputError, WorldlmError
from worldlm.core.jsonl import JsonlWriter, read_jsonl
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import CountsTokens, Model
from worldlm.core.text import canonical_json, derive_seed, digest, estimate_tokens
from worldlm.core.types import (
    DOMAIN_NAMES,
    NO_USAGE,
    Completion,
    DomainName,
    Observation,
    Profile,
    Text,
    Trajectory,
    Usage,
    Value,
)
from worldlm.data.targets import Target, targets
from worldlm.domains import get_domain
from worldlm.domains.delta import DeltaError, is_delta, read_delta
from worldlm.domains.domain import Domain
from worldlm.domains.render import prompt_hash
from worldlm.domains.reply import ANSWER_OPEN, THINK_CLOSE, THINK_OPEN, read_reply
from worldlm.judge.blend import blend
from worldlm.judge.question import Question
from worldlm.judge.score import DIMENSIONS, Verdict
from worldlm.judge.verdicts import looks_like_a_verdict
from worldlm.judge.verifiers import VERSION, verify
from worldlm.train.derivations import MOST_TOKENS, derivations, false_claims, refutations

Judge: TypeAlias = Callable[[Question, str], Awaitable[Verdict]]
"""Grades the predicted observation, given as text, of a question."""
Fate: TypeAlias = Literal[
    "kept", "not_best", "below", "empty", "long", "copies", "praises", "marked", "no_answer", "failed"
]
"""What became of a sample: kept; good, but not the best; below the threshold; refused (`refusal`); no usable answer;
or not answered or not judged, through no fault of the model's."""
REFUSED: tuple[Fate, ...] = ("empty", "long", "copies", "praises", "marked")
GIVE_UP = 8
"""Failures of the service in a row after which a run stops."""
_SERVICE = (Outcome.INFRASTRUCTURE_FAILED, Outcome.TIMED_OUT)


class ThinkSettings(Value):
    """How thinking is sampled and what of it is kept."""

    samples: int = Field(default=4, ge=1, le=64)
    """Replies to each turn."""
    threshold: float = Field(default=80, ge=0, le=100)
    """The score from which on a reply is good."""
    keep: Literal["best", "all"] = "best"
    """`best`: of each turn the thinking with the best score. `all`: every good one; a trajectory is then written as
    often as its richest turn has some (ids `ID`, `ID/2`, …), each turn with its first, second, … one."""
    temperature: float | None = Field(default=0.8, ge=0)
    """None: the profile's."""
    most_tokens: int = Field(default=512, ge=1)
    """Tokens of thinking; longer thinking is refused."""
    copied_characters: int | None = Field(default=80, ge=0)
    """A thinking is refused when it holds, line by line, three quarters of what the answer has and the prompt has not,
    and these lines have more characters than this: the answer would be a copy. None: never."""
    domains: tuple[DomainName, ...] = DOMAIN_NAMES
    """Turns of others are left as they are."""
    seed: int = 0
    """Each sample's is derived from it."""


class Sample(Value):
    """One reply."""

    fate: Fate
    score: float | None = None
    """0–100; None where there was nothing to score, or the judge failed."""
    thinking: Text | None = None
    outcome: Outcome = Outcome.OK
    detail: Text | None = None
    """On a failure: what went wrong, in the server's words where it has some."""


class Trace(Value):
    """What became of a turn: a line of a file of traces."""

    schema_: Literal["worldlm.thinking/1"] = Field(default="worldlm.thinking/1", alias="schema")
    trajectory: Text
    turn: int
    """Its number, from 1."""
    domain: DomainName
    settings: Text
    """Identifies the settings, the model and the prompts."""
    digest: Text
    """Identifies what was asked, and the real answer."""
    samples: tuple[Sample, ...]
    usage: Usage = NO_USAGE

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    @property
    def kept(self) -> tuple[str, ...]:
        """The thinking that was kept, best first."""
        good = [sample for sample in self.samples if sample.fate == "kept"]
        return tuple(sample.thinking or "" for sample in sorted(good, key=lambda sample: -(sample.score or 0)))

    @property
    def is_final(self) -> bool:
        """Whether nothing failed that may well go through another time."""
        return all(sample.fate != "failed" for sample in self.samples)


# What of a reply is refused.

_SELF_PRAISE = re.compile(
    r"\b(graders?|grading|(?:dear|the|to) (?:judges?|evaluators?)|rubric"
    r"|this (?:prediction|simulation|observation) (?:is|reproduces)"
    r"|faithful simulation|excellent work|full marks|perfect score|(?:highest|top|best) (?:grade|score|mark)s?"
    r"|final score|score: \d+|deserves? (?:a )?\d|points in every|every prediction|reference of this sample"
    r"|exact in every|agrees with the real|as a real system would|every value above is right"
    r"|found to be the same|your verdict|final_evaluation|prüfer\w*|bestnote|评分|裁判)\b"
    rf"|[\"'](?:{'|'.join(DIMENSIONS)})[\"']\s*:\s*[1-5]",
    re.IGNORECASE,
)


def addresses_grader(text: str, known: str = "") -> bool:
    """Whether a text praises itself, or speaks to whoever grades it.

    Words that are `known` (from the prompt, the real answer) may stand in it.
    """
    if looks_like_a_verdict(text) and not looks_like_a_verdict(known):
        return True
    plain = known.lower()
    return any(match[0].lower() not in plain for match in _SELF_PRAISE.finditer(text))


COPIED = 0.75
"""The part of what is new in an answer from which on a thinking that holds it is a copy."""


def copies(thinking: str, answer: str, prompt: str, most: int) -> bool:
    """Whether a thinking holds `COPIED` of the characters of the answer's lines that do not stand in the prompt.

    Only when it holds more than `most` characters of them. Space does not count.
    """
    shown = {" ".join(line.split()) for line in prompt.split("\n")}
    new = [flat for line in answer.split("\n") if (flat := " ".join(line.split())) and flat not in shown]
    thought = " ".join(thinking.split())
    held = sum(len(line) for line in new if line in thought)
    return held > most and held >= COPIED * sum(map(len, new))


def refusal(
    thinking: str | None,
    answer: str,
    question: Question,
    prompt: str,
    settings: ThinkSettings,
    count: Callable[[str], int],
) -> Fate | None:
    """Why a thinking is refused whatever its score; None where it is not."""
    if not thinking or not thinking.strip():
        return "empty"
    if any(tag in thinking for tag in (THINK_OPEN, THINK_CLOSE, ANSWER_OPEN)):
        return "marked"  # it could not be told from its answer again
    if count(thinking) > settings.most_tokens:
        return "long"
    known = f"{prompt}\n{question.action}\n{question.truth.text}"
    if addresses_grader(thinking, known) or addresses_grader(answer, known):
        return "praises"
    most = settings.copied_characters
    if most is not None and copies(thinking, answer, prompt, most):
        return "copies"
    return None


# Asking.


@dataclass(frozen=True, slots=True)
class Asked:
    """A turn that is to be asked."""

    trajectory: Trajectory
    target: Target
    digest: str


class Sampler:
    """Samples thinking for turns, from one model under one profile."""

    def __init__(
        self, model: Model, profile: Profile, settings: ThinkSettings, judge: Judge | None = None, judged_by: str = ""
    ):
        """`judged_by` identifies the judge.

        Raises InputError for a profile that does not think, or that gives the same sample every time.
        """
        if not profile.thinking:
            raise InputError(f"the profile {profile.name!r} does not ask for thinking; use one that does")
        sampling = profile.sampling
        if settings.temperature is not None:
            sampling = sampling.model_copy(update={"temperature": settings.temperature})
        if settings.samples > 1 and sampling.temperature == 0:
            raise InputError(
                f"{settings.samples} samples at temperature 0 are all the same; set temperature, or samples: 1"
            )
        self.settings = settings
        self._model, self._profile, self._sampling, self._judge = model, profile, sampling, judge
        self._count = model.count_tokens if isinstance(model, CountsTokens) else estimate_tokens
        hashes = {name: prompt_hash(get_domain(name), profile) for name in settings.domains}
        told = [profile.model_dump(mode="json"), settings.model_dump(mode="json"), hashes, VERSION]
        self.key = digest(model.name, judged_by, canonical_json(told))[:16]
        """Identifies what can change a sample or its fate."""

    def turns(self, trajectory: Trajectory) -> Iterator[Asked]:
        """The turns of a trajectory that are to be asked: those that have an observation and no thinking yet.

        Raises InputError when the world alone does not fit the profile's context.
        """
        if trajectory.world.domain not in self.settings.domains:
            return
        domain = get_domain(trajectory.world.domain)
        for target in targets(trajectory, domain, self._profile, self._count):
            if target.prompt is not None and trajectory.turns[target.turn - 1].thinking is None:
                texts = [message.content for message in target.prompt]
                yield Asked(trajectory, target, digest(*texts, target.state)[:16])

    async def sample(self, asked: Asked) -> Trace:
        """Ask a turn as often as the settings say, one call at a time, and decide what is kept."""
        trajectory, target = asked.trajectory, asked.target
        question = Question.of(trajectory, target.turn - 1)
        found: list[Sample] = []
        usage = NO_USAGE
        for number in range(self.settings.samples):
            seed = derive_seed(str(self.settings.seed), trajectory.id, str(target.turn), asked.digest, str(number))
            completion = await self._model.complete(
                target.prompt or (), self._sampling.model_copy(update={"seed": seed})
            )
            usage += completion.usage
            sample, judging = await self._read(completion, question, target)
            usage += judging
            found.append(sample)
            if sample.outcome is Outcome.BUDGET_EXHAUSTED:
                break
        return Trace(
            trajectory=trajectory.id,
            turn=target.turn,
            domain=question.domain,
            settings=self.key,
            digest=asked.digest,
            samples=tuple(self._chosen(found)),
            usage=usage,
        )

    async def _read(self, completion: Completion, question: Question, target: Target) -> tuple[Sample, Usage]:
        """A reply with its score, and what judging took."""
        domain = get_domain(question.domain)
        if completion.finish == "context_overflow":  # another try would end the same way
            detail = completion.detail or "the prompt does not fit the model's context"
            return Sample(fate="no_answer", outcome=completion.outcome, detail=detail), NO_USAGE
        reply = read_reply(completion)
        text = reply.text
        if text is not None and target.bases and is_delta(text.strip("\n")):
            try:
                text = read_delta(text.strip("\n"), target.bases)
            except DeltaError as error:
                return _failed(Outcome.MODEL_FAILED, f"not a delta that applies: {error}", reply.thinking), NO_USAGE
        if text is None:
            return _failed(reply.outcome, reply.detail, reply.thinking), NO_USAGE
        try:
            predicted = _observation(domain, question, text)
        except ValueError as error:
            return _failed(Outcome.MODEL_FAILED, f"not an observation: {error}", reply.thinking), NO_USAGE
        prompt = "\n".join(message.content for message in target.prompt or ())
        refused = refusal(reply.thinking, text, question, prompt, self.settings, self._count)
        verification = verify(question, predicted)
        if refused is not None:
            return Sample(fate=refused, score=verification.value, thinking=reply.thinking), NO_USAGE
        score: float | None = verification.value
        usage = NO_USAGE
        if self._judge is not None:
            verdict = await self._judge(question, text)
            usage = verdict.usage
            blended = blend(verdict, verification)
            score = blended.value
            if score is None:
                failed = Sample(fate="failed", thinking=reply.thinking, outcome=verdict.outcome, detail=verdict.detail)
                return failed, usage
        good = score is not None and score >= self.settings.threshold
        return Sample(fate="kept" if good else "below", score=score, thinking=reply.thinking), usage

    def _chosen(self, found: Sequence[Sample]) -> Iterator[Sample]:
        """With only the best one kept, if that is what the settings say; no thinking is kept twice."""
        good = [(-(sample.score or 0), at) for at, sample in enumerate(found) if sample.fate == "kept"]
        seen = set[str]()
        kept: list[int] = []
        for _, at in sorted(good):
            thinking = found[at].thinking or ""
            if thinking not in seen and (self.settings.keep == "all" or not kept):
                kept.append(at)
            seen.add(thinking)
        for at, sample in enumerate(found):
            lost = sample.fate == "kept" and at not in kept
            yield sample.model_copy(update={"fate": "not_best"}) if lost else sample


def _failed(outcome: Outcome, detail: str | None, thinking: str | None) -> Sample:
    fate: Fate = "no_answer" if outcome.is_models_fault else "failed"
    return Sample(fate=fate, thinking=thinking, outcome=outcome, detail=detail or "no detail given")


def _observation(domain: Domain, question: Question, text: str) -> Observation:
    try:
        call = domain.parse_action(question.action, question.world)
    except ActionError:
        return Observation(text=text)
    return domain.read_observation(question.world, call, text)


# A run.


@dataclass
class Retention:
    """How much was kept, of one domain."""

    turns: int = 0
    """Turns of which a reply was scored."""
    kept_turns: int = 0
    samples: Counter[str] = field(default_factory=Counter)
    """By fate."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Of the samples."""
    tokens: int = 0
    """Of the thinking that is kept."""
    traces: int = 0
    """Thinking that is kept."""

    def add(self, trace: Trace, count: Callable[[str], int] = estimate_tokens) -> None:
        """Count a turn."""
        self.turns += any(sample.score is not None for sample in trace.samples)
        self.kept_turns += bool(trace.kept)
        self.traces += len(trace.kept)
        self.tokens += sum(map(count, trace.kept))
        self.samples.update(sample.fate for sample in trace.samples)
        self.outcomes.update(sample.outcome.value for sample in trace.samples)

    def figures(self) -> dict[str, Any]:
        """As JSON. `retention` is the share of turns with a scored reply of which thinking is kept."""
        passed = sum(self.samples[fate] for fate in ("kept", "not_best"))
        scored = self.samples.total() - self.samples["failed"] - self.samples["no_answer"]
        return {
            "turns": self.turns,
            "kept_turns": self.kept_turns,
            "retention": self.kept_turns / self.turns if self.turns else None,
            "good_samples": passed / scored if scored else None,
            "traces": self.traces,
            "mean_tokens": self.tokens / self.traces if self.traces else None,
            "samples": dict(self.samples.most_common()),
            "outcomes": dict(self.outcomes.most_common()),
        }


class Traces:
    """A file of traces, being written: one flushed line a turn. One that was written again counts in its last form."""

    def __init__(self, path: Path, sampler: Sampler):
        """Raises InputError when the file is of other settings, is no such file, or is being written already."""
        self._writer = JsonlWriter(path)  # first: it mends the end of the file
        self.found: dict[tuple[str, int], Trace] = {}
        """By trajectory and turn."""
        try:
            for trace in read_jsonl(path, Trace.model_validate).items:
                _same_settings(path, trace, sampler)
                self.found[trace.trajectory, trace.turn] = trace
        except BaseException:
            self._writer.close()
            raise

    def is_done(self, asked: Asked) -> bool:
        """Whether this turn, as it is now, need not be asked again."""
        trace = self.found.get((asked.trajectory.id, asked.target.turn))
        return trace is not None and trace.digest == asked.digest and trace.is_final

    def add(self, trace: Trace) -> None:
        """Write what became of a turn."""
        self._writer.write(trace)
        self.found[trace.trajectory, trace.turn] = trace

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


def _same_settings(path: Path, trace: Trace, sampler: Sampler) -> None:
    if trace.settings != sampler.key:
        raise InputError(
            f"{path} was made with other settings, another model or judge; choose another OUT, or the same ones"
        )


async def sample_thinking(
    trajectories: Iterable[Trajectory],
    sampler: Sampler,
    traces: Traces,
    *,
    concurrency: int,
    on_done: Callable[[Trace], None] = lambda trace: None,
    on_unfit: Callable[[str], None] = lambda words: None,
) -> int:
    """Sample thinking for every turn that `traces` does not hold, and give how many were asked now.

    `concurrency` calls run at once, the samples of one turn one after another, so that a server's prefix cache pays.
    `on_unfit` is told of each trajectory whose world does not fit the context; it is left as it is.
    Raises WorldlmError, with the server's own words, when nothing is answered any more or the budget is spent; what
    was finished is in the file.
    """
    waiting = _waiting(trajectories, sampler, traces, on_unfit)
    watch = _Watch()
    stopped: list[WorldlmError] = []
    done = 0
    async with anyio.create_task_group() as group:

        async def worker() -> None:
            nonlocal done
            try:
                for asked in waiting:
                    trace = await sampler.sample(asked)
                    if not any(sample.outcome is Outcome.BUDGET_EXHAUSTED for sample in trace.samples):
                        traces.add(trace)  # directly after: nothing that was paid for is lost to a signal
                        done += 1
                        on_done(trace)
                    watch.see(trace)
            except WorldlmError as error:
                stopped.append(error)
                group.cancel_scope.cancel()

        for _ in range(concurrency):
            group.start_soon(worker)
    if stopped:
        raise stopped[0]
    watch.end()
    return done


def _waiting(
    trajectories: Iterable[Trajectory], sampler: Sampler, traces: Traces, on_unfit: Callable[[str], None]
) -> Iterator[Asked]:
    for trajectory in trajectories:
        try:
            yield from (asked for asked in sampler.turns(trajectory) if not traces.is_done(asked))
        except InputError as error:
            on_unfit(f"{trajectory.id}: {error}")


class _Watch:
    """Tells when going on is of no use."""

    def __init__(self) -> None:
        self._streak = 0
        self._answered = False
        self._last: str | None = None

    def see(self, trace: Trace) -> None:
        """Take note of a turn's samples.

        Raises WorldlmError when the service answers nobody, or the budget is spent.
        """
        for sample in trace.samples:
            if sample.outcome is Outcome.BUDGET_EXHAUSTED:
                words = sample.detail or "the budget is spent"
                raise WorldlmError(f"stopped: {words}; run it again to go on where it stopped")
            if sample.fate == "failed" and sample.outcome in _SERVICE:
                self._streak, self._last = self._streak + 1, sample.detail
            else:
                self._streak, self._answered = 0, True
        if self._streak >= GIVE_UP:
            self._stop()

    def end(self) -> None:
        """Raises WorldlmError when not one sample was answered."""
        if self._streak and not self._answered:
            self._stop()

    def _stop(self) -> None:
        raise WorldlmError(
            f"stopped: no answer for {self._streak} samples in a row; the last: {self._last or 'no detail given'}; "
            "run it again to go on"
        )


def with_thinking(trajectory: Trajectory, kept: Callable[[int], Sequence[str]]) -> Iterator[Trajectory]:
    """A trajectory with what was kept for its turns, by their numbers; more than once where a turn has more than one.

    A turn that has thinking already keeps it.
    """
    found = [tuple(kept(number)) if turn.thinking is None else () for number, turn in enumerate(trajectory.turns, 1)]
    for copy in range(max(1, *map(len, found), 1)):
        turns = tuple(
            turn.model_copy(update={"thinking": own[copy]})
            if copy < len(own)
            else turn
            if not copy
            else turn.model_copy(update={"thinking": None})
            for turn, own in zip(trajectory.turns, found, strict=True)
        )
        name = trajectory.id if not copy else f"{trajectory.id}/{copy + 1}"
        yield trajectory.model_copy(update={"id": name, "turns": turns})


# Without a model.


@dataclass
class Coverage:
    """What derivations tell of the turns of one domain."""

    turns: int = 0
    """Turns that have an observation and had no thinking."""
    derived: int = 0
    tokens: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    claims: int = 0
    """Sentences."""
    tried: int = 0
    """Derivations that were held against the answer of another turn."""
    refuted: int = 0
    """Of these, how many do not hold for it."""
    false: list[str] = field(default_factory=list)
    """The places of sentences that do not hold, with the sentence."""

    def figures(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "turns": self.turns,
            "derived": self.derived,
            "coverage": self.derived / self.turns if self.turns else None,
            "mean_tokens": self.tokens / self.derived if self.derived else None,
            "claims": self.claims,
            "false_claims": len(self.false),
            "refuted_by_another": self.refuted / self.tried if self.tried else None,
            "rules": dict(self.rules.most_common()),
        }


def derived(
    trajectory: Trajectory,
    coverage: Coverage,
    most_tokens: int = MOST_TOKENS,
    count: Callable[[str], int] = estimate_tokens,
) -> Trajectory:
    """A trajectory with a derivation as the thinking of each turn that has one and had none; `coverage` counts it."""
    found: dict[int, str] = {}
    for number, derivation in derivations(trajectory, most_tokens, count):
        if trajectory.turns[number - 1].thinking is not None:
            continue
        coverage.turns += 1
        if derivation is not None:
            found[number] = derivation.text
            coverage.derived += 1
            coverage.tokens += count(derivation.text)
            coverage.rules[derivation.rule] += 1
    made = next(with_thinking(trajectory, lambda number: [found[number]] if number in found else []))
    coverage.claims += sum(text.count("\n") + 1 for text in found.values())
    told = ((number, line) for number, line in false_claims(made) if number in found)
    coverage.false += [f"{trajectory.id}, turn {number}: {line}" for number, line in told]
    tried = [is_refuted for number, is_refuted in refutations(made) if number in found]
    coverage.tried += len(tried)
    coverage.refuted += sum(tried)
    return made


__all__ = [
    "Coverage",
    "Fate",
    "Judge",
    "Retention",
    "Sample",
    "Sampler",
    "ThinkSettings",
    "Trace",
    "Traces",
    "addresses_grader",
    "copies",
    "derived",
    "refusal",
    "sample_thinking",
    "with_thinking",
]
