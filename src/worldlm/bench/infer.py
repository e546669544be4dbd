"""Predictions: every sample of a benchmark asked of a model, or of an environment that can start from a history.

*Which messages.* `own`: our domain's prompt under the model's profile, rendered from the world, the real turns before
and the action, as a simulated session would be. `sample`: the messages that the sample itself brings, unchanged, as
AgentWorldBench's own script sends them. A foreign sample holds its world only as a system prompt that already says how
to answer, so a second prompt of ours round it would contradict it: such files are asked by `sample`. Our own samples
bring the world as data, and are asked by `own`: in the words for which a model was trained, small prompts for small
models, deltas where the profile asks for them.

A prediction costs one answered call, whatever the profile's `attempts` say: a second throw would measure best-of-two.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import anyio

from worldlm.bench.results import InferSettings
from worldlm.bench.running import Report, run_samples
from worldlm.bench.runs import Done, RunFile, line_done, with_ours
from worldlm.bench.samples import Sample, predicted_observation
from worldlm.core.errors import InputError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import CountsTokens, Environment, Model, Resume
from worldlm.core.text import derive_seed, estimate_tokens
from worldlm.core.types import (
    NO_USAGE,
    Completion,
    Message,
    Observation,
    Profile,
    Sampling,
    Text,
    Usage,
    World,
)
from worldlm.data.formats.agentworldbench import unwrap_observation
from worldlm.domains import DOMAINS, get_domain
from worldlm.domains.render import MESSAGE_OVERHEAD, Conversation, asks_deltas, prompt_hash
from worldlm.domains.reply import Reply, read_reply, whole_state

Words = Literal["own", "sample"]


class Prediction(Done):
    """What a model, or an environment, made of one sample. `observation` is None exactly when `outcome` is not OK."""

    outcome: Outcome = Outcome.OK
    observation: Observation | None = None
    gen: Text | None = None
    """The reply as it came; None where there was none. On disk it stands where the public format has it."""
    thinking: Text | None = None
    """Reasoning that the server returned apart from the reply."""
    missing: int = 0
    """Oldest turns that the model was not shown, because they did not fit its context."""
    usage: Usage = NO_USAGE
    model: Text = ""
    """The name that the server gave for what answered."""
    of_sample: bool = False
    """The failure is this one sample's (it does not fit the context): others may well go through."""


@dataclass(frozen=True, slots=True)
class Predictor:
    """Something that predicts, and the settings that identify it."""

    settings: InferSettings
    predict: Callable[[Sample], Awaitable[Prediction]]
    """What it raises is that one sample's failure."""


def default_words(samples: Sequence[Sample]) -> Words:
    """Which messages suit a benchmark: ours where every sample brings its world, else the samples'."""
    return "own" if all(sample.brings_world for sample in samples) else "sample"


# What a model is sent.


class Prompt(Protocol):
    """Messages that ask for one turn, and less of them when they are too long."""

    @property
    def missing(self) -> int:
        """How many of the oldest turns are not in them."""
        ...

    def messages(self) -> list[Message] | None:
        """The messages; None when even without any history they do not fit."""
        ...

    def tighten(self) -> bool:
        """Leave out older turns. False: there is nothing left to leave out."""
        ...

    def read(self, completion: Completion) -> Reply:
        """The answer to them."""
        ...


class OwnPrompt:
    """A sample's question in our words."""

    def __init__(self, sample: Sample, profile: Profile, count: Callable[[str], int]):
        """Raises InputError when the world alone does not fit the profile's context."""
        question, self._domain = sample.question, get_domain(sample.domain)
        initial = question.initial or Observation(text="")
        seen = [(turn.action, turn.observation) for turn in question.history if turn.observation is not None]
        self._conversation = Conversation(self._domain, question.world, profile, initial, count)
        for action, observation in seen:
            self._conversation.append(action, observation)
        self._action, self._turns = question.action, len(seen)
        self._states = [initial, *(observation for _, observation in seen)]
        self._deltas = asks_deltas(self._domain, profile)
        self.missing = 0

    def messages(self) -> list[Message] | None:
        """System message, the turns that fit, the action."""
        messages = self._conversation.messages(self._action)
        if messages is not None:
            self.missing = self._turns - (len(messages) // 2 - 1)
        return messages

    def tighten(self) -> bool:
        """Give less room to the history."""
        return self._conversation.tighten()

    def read(self, completion: Completion) -> Reply:
        """The answer; where it is a delta, the state that it stands for."""
        reply = read_reply(completion)
        if not self._deltas:
            return reply
        states = [self._domain.write_observation(seen) for seen in self._states]
        return whole_state(reply, states, self._turns - self.missing)


class SamplePrompt:
    """A sample's own messages. Of a history that is too long the oldest turns go, and the first message says so."""

    def __init__(self, sample: Sample, profile: Profile, count: Callable[[str], int]):
        self._messages = sample.messages
        self._costs = [count(message.content) + MESSAGE_OVERHEAD for message in self._messages]
        reply = profile.sampling.max_tokens or profile.context // 4
        self._room = profile.context - min(reply, profile.context // 2)
        self.missing = 0

    @property
    def _turns(self) -> int:
        return len(self._messages) // 2 - 1

    def messages(self) -> list[Message] | None:
        """System message, the turns that fit, the action: each text as it stands in the file."""
        while sum(self._costs) - sum(self._costs[1 : 1 + 2 * self.missing]) > self._room:
            if self.missing == self._turns:
                return None
            self.missing += 1
        head, shown = self._messages[0], self._messages[1 + 2 * self.missing :]
        if self.missing:
            marker = f"[Turns 1 to {self.missing} are not shown: they no longer fit.]\n\n"
            shown = [Message(role="user", content=marker + shown[0].content), *shown[1:]]
        return [head, *shown]

    def tighten(self) -> bool:
        """Leave out a third of the turns that are left."""
        left = self._turns - self.missing
        self.missing += max(1, left // 3) if left else 0
        return left > 0

    def read(self, completion: Completion) -> Reply:
        """The answer."""
        return read_reply(completion)


PROMPTS: dict[Words, Callable[[Sample, Profile, Callable[[str], int]], Prompt]] = {
    "own": OwnPrompt,
    "sample": SamplePrompt,
}


# Who predicts.


def model_predictor(model: Model, profile: Profile, words: Words, *, seed: int = 0) -> Predictor:
    """A model, asked under a profile. Each sample has a seed of its own, the same in whatever order they are asked."""
    hashes = {name: prompt_hash(domain, profile) for name, domain in DOMAINS.items()} if words == "own" else {}
    settings = InferSettings(
        model=model.name,
        prompt=words,
        profile=profile.name,
        prompt_hashes=hashes,
        sampling=profile.sampling,
        context=profile.context,
        seed=seed,
    )
    count = model.count_tokens if isinstance(model, CountsTokens) else estimate_tokens

    async def predict(sample: Sample) -> Prediction:
        try:
            prompt = PROMPTS[words](sample, profile, count)
        except InputError as error:
            return _failed(sample, Outcome.INFRASTRUCTURE_FAILED, str(error), of_sample=True)
        sampling = _seeded(profile.sampling, seed, sample)
        usage, messages = NO_USAGE, prompt.messages()
        while messages is not None:
            completion = await model.complete(messages, sampling)
            usage += completion.usage
            if completion.finish != "context_overflow" or not prompt.tighten():
                return _read(sample, completion, prompt, usage)
            messages = prompt.messages()
        detail = f"the sample does not fit a context of {profile.context} tokens, even without its history"
        return _failed(sample, Outcome.INFRASTRUCTURE_FAILED, detail, of_sample=True, usage=usage)

    return Predictor(settings, predict)


def environment_predictor(
    make: Callable[[World], Environment], *, name: str, seed: int = 0, about: str = ""
) -> Predictor:
    """An environment that satisfies `Resume`, a new one for each sample. `name` identifies it and its settings."""
    settings = InferSettings(model=name, prompt="environment", profile=about, seed=seed)

    async def predict(sample: Sample) -> Prediction:
        question = sample.question
        environment = make(question.world)
        try:
            if not isinstance(environment, Resume):
                raise InputError(
                    f"{type(environment).__name__} cannot start from a given history, which a benchmark needs"
                )
            initial = question.initial or Observation(text="")
            await environment.resume(initial, question.history, _seed(seed, sample))
            step = await environment.step(question.action)
        finally:
            with anyio.CancelScope(shield=True):
                await environment.close()
        if step.observation is None:
            return _failed(sample, step.outcome, step.detail, usage=step.usage)
        return Prediction(
            digest=sample.digest,
            observation=step.observation,
            gen=get_domain(question.domain).write_observation(step.observation),
            thinking=step.thinking,
            usage=step.usage,
        )

    return Predictor(settings, predict)


def _seed(seed: int, sample: Sample) -> int:
    return derive_seed(str(seed), sample.key, sample.digest)


def _seeded(sampling: Sampling, seed: int, sample: Sample) -> Sampling:
    return sampling.model_copy(update={"seed": _seed(seed, sample)})


def _failed(sample: Sample, outcome: Outcome, detail: str | None, **told: Any) -> Prediction:
    return Prediction(digest=sample.digest, outcome=outcome, detail=detail or "no detail given", **told)


def _read(sample: Sample, completion: Completion, prompt: Prompt, usage: Usage) -> Prediction:
    """A completion as a prediction."""
    return _answered(
        sample,
        prompt.read(completion),
        gen=completion.text or None,
        thinking=completion.thinking,
        missing=prompt.missing,
        usage=usage,
        model=completion.model,
        of_sample=completion.finish == "context_overflow",
    )


def _answered(sample: Sample, reply: Reply, **told: Any) -> Prediction:
    """A reply as a prediction; `told` is what else is known of it."""
    if reply.text is None:
        return _failed(sample, reply.outcome, reply.detail, **told)
    observation, detail = observed(sample, reply.text)
    if observation is None:
        return _failed(sample, Outcome.MODEL_FAILED, detail, **told)
    return Prediction(digest=sample.digest, observation=observation, **told)


def observed(sample: Sample, text: str) -> tuple[Observation | None, str]:
    """The observation that an answer is, or why it is none. The public format's heading is no part of it."""
    inner = unwrap_observation(text.lstrip("\n"))
    try:
        return predicted_observation(sample, text if inner is None else inner), ""
    except ValueError as error:
        return None, f"not an observation: {error}"


# A run.


async def infer(
    samples: Sequence[Sample],
    predictor: Predictor,
    file: RunFile,
    *,
    concurrency: int,
    on_done: Callable[[Sample, Prediction], None] | None = None,
) -> Report:
    """Ask every sample that `file` does not hold as finished: by the rules of `running.run_samples`."""
    return await run_samples(
        samples,
        file,
        Prediction,
        verb="infer",
        work=predictor.predict,
        record=prediction_record,
        concurrency=concurrency,
        on_done=on_done,
    )


def prediction_record(sample: Sample, prediction: Prediction) -> dict[str, Any]:
    """The line of a prediction: the public sample, `gen`, and what else is known under our key."""
    told = prediction.model_dump(mode="json", exclude={"gen"}, exclude_defaults=True)
    told["outcome"] = prediction.outcome.value
    return with_ours({**sample.raw, "gen": prediction.gen}, prediction=told)


def read_prediction(sample: Sample) -> Prediction:
    """The prediction that a line holds, ours or somebody else's (then `gen` is read by our rules).

    Raises InputError for a line without one.
    """
    prediction = line_done(sample.place, sample.raw, "prediction", Prediction)
    gen = sample.raw.get("gen")
    if prediction is not None:
        if prediction.digest != sample.digest:
            raise InputError(f"{sample.place}: sample {sample.key} is not what was asked: its texts were changed since")
        if gen is not None and not isinstance(gen, str):
            raise InputError(f"{sample.place}: sample {sample.key}: gen is {gen!r}, and a reply is a text or null")
        return prediction.model_copy(update={"gen": gen})
    if "gen" not in sample.raw:
        raise InputError(f"{sample.place}: sample {sample.key} has no 'gen': it is a sample, and no prediction")
    if not isinstance(gen, str):
        return _failed(sample, Outcome.INFRASTRUCTURE_FAILED, "the file holds no reply")
    return _answered(sample, read_reply(Completion(text=gen)), gen=gen)
