"""A language model as an environment: world + domain + model + profile."""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

import anyio
from pydantic import JsonValue, ValidationError

from worldlm.core.errors import ActionError, InputError
from worldlm.core.jsonl import describe
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import CountsTokens, Model, StreamsCompletion
from worldlm.core.text import derive_seed, digest, estimate_tokens
from worldlm.core.types import (
    NO_USAGE,
    Completion,
    Delta,
    Observation,
    Origin,
    Profile,
    Sampling,
    Simulator,
    Step,
    ToolCall,
    Turn,
    World,
)
from worldlm.domains.domain import Domain
from worldlm.domains.render import Conversation, asks_deltas, prompt_hash
from worldlm.domains.reply import Reply, ReplyStream, read_reply, whole_state

_GONE = "the episode was closed, or another one begun, while this step ran"
_WHOLE = "\n\n(Write the whole observation, not a delta.)"
_OVER = "the episode is over; reset to start a new one"


class SimulatedEnvironment:
    """Satisfies `Environment`, `Snapshot`, `Resume`, `Streams` and `HasOrigin`.

    The model is shared and is not closed with the environment. Steps of one environment run one at a
    time; any number of environments may share a model.
    """

    def __init__(self, world: World, domain: Domain, model: Model, profile: Profile):
        if domain.name != world.domain:
            raise InputError(f"world {world.name!r} is of domain {world.domain!r}, not {domain.name!r}")
        self._world = world
        self._view = world.agent_view()
        self._domain = domain
        self._model = model
        self._profile = profile
        self._count = model.count_tokens if isinstance(model, CountsTokens) else estimate_tokens
        self._lock = anyio.Lock(fast_acquire=True)
        self._limit = world.limits.turns or domain.limits.turns
        self._conversation: Conversation | None = None
        self._initial: Observation | None = None
        self._started = world
        self._turns: list[Turn] = []
        self._seed = world.seed
        self._chain = ""
        self._terminated = False

    # What it is.

    @property
    def world(self) -> World:
        """The agent's view of the world."""
        return self._view

    @property
    def origin(self) -> Origin:
        """Simulated, by which model under which profile and prompt."""
        simulator = Simulator(
            model=self._model.name,
            profile=self._profile.name,
            prompt_hash=prompt_hash(self._domain, self._profile),
            sampling=self._profile.sampling,
        )
        return Origin(kind="simulated", source=self._world.name, seed=self._seed, simulator=simulator)

    @property
    def initial(self) -> Observation | None:
        """The first observation of this episode; None before `reset`."""
        return self._initial

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns so far, failed ones not among them."""
        return tuple(self._turns)

    @property
    def missing(self) -> int:
        """How many of the oldest turns the model is no longer shown: they do not fit its context."""
        return self._conversation.missing if self._conversation else 0

    # Environment.

    async def reset(self, seed: int | None = None) -> Observation:
        """Start an episode; the first observation comes from the world, not from the model."""
        initial = self._domain.initial_observation(self._world)
        self._begin(initial, self._world.seed if seed is None else seed)
        return initial

    async def step(self, action: str) -> Step:
        """Predict the observation after `action`."""
        step: Step | None = None
        async with self._lock, aclosing(self._step(action, streaming=False)) as items:
            # To its end: a generator that is left before it would wait for the event loop to be finished off.
            async for item in items:
                if isinstance(item, Step):
                    step = item
        assert step is not None
        return step

    async def stream(self, action: str) -> AsyncIterator[Delta | Step]:
        """Like `step`, with the observation and the thinking as they come."""
        async with self._lock, aclosing(self._step(action, streaming=True)) as items:
            async for item in items:
                yield item

    async def close(self) -> None:
        """Forget the episode. A step that is running then ends as CANCELLED."""
        self._conversation = None

    # Snapshot, Resume, fork.

    async def snapshot(self) -> dict[str, JsonValue]:
        """The episode so far, as JSON."""
        self._require_reset()
        assert self._initial is not None
        return {
            "world": self._world.name,
            "initial": self._initial.model_dump(mode="json"),
            "turns": [turn.model_dump(mode="json") for turn in self._turns],
            "seed": self._seed,
            "terminated": self._terminated,
        }

    async def restore(self, snapshot: dict[str, JsonValue]) -> None:
        """Go back to a snapshot of this world. Raises InputError for anything else."""
        try:
            if (name := snapshot["world"]) != self._world.name:
                raise InputError(f"this is a snapshot of world {name!r}, and not of {self._world.name!r}")
            initial = Observation.model_validate(snapshot["initial"])
            turns = [Turn.model_validate(turn) for turn in _as_list(snapshot["turns"])]
            seed = int(str(snapshot["seed"]))
        except (KeyError, TypeError, ValueError) as error:
            words = describe(error) if isinstance(error, ValidationError) else str(error)
            raise InputError(f"this is not a snapshot of a simulated environment: {words}") from error
        await self.resume(initial, turns, seed)
        self._terminated = bool(snapshot.get("terminated"))

    async def resume(self, initial: Observation, turns: Sequence[Turn], seed: int | None = None) -> None:
        """Start from a given history. Turns without an observation are left out: the model never saw them."""
        self._begin(initial, self._world.seed if seed is None else seed)
        for turn in turns:
            if turn.observation is not None:
                self._append(turn, turn.observation)

    async def fork(self, turn: int | None = None) -> "SimulatedEnvironment":
        """A new environment that continues from after `turn` turns (all of them by default).

        After the last turn of an episode that is over, it is over there as well.
        """
        self._require_reset()
        assert self._initial is not None
        if turn is not None and not 0 <= turn <= len(self._turns):
            raise InputError(f"cannot fork at turn {turn}: the session has turns 0 to {len(self._turns)}")
        branch = SimulatedEnvironment(self._world, self._domain, self._model, self._profile)
        await branch.resume(self._initial, self._turns[:turn], self._seed)
        branch._terminated = self._terminated and len(branch._turns) == len(self._turns)
        return branch

    # How a step is made.

    def _begin(self, initial: Observation, seed: int) -> None:
        self._conversation = Conversation(self._domain, self._world, self._profile, initial, self._count)
        self._initial = initial
        # Rules and harness look back to the first observation, which on `resume` need not be the world's.
        self._started = self._world.model_copy(update={"initial_observation": initial.text})
        self._turns = []
        self._seed = seed
        self._chain = digest(self._world.name, initial.text)
        self._terminated = False

    def _append(self, turn: Turn, observation: Observation) -> None:
        assert self._conversation is not None
        self._conversation.append(turn.action, observation)
        self._turns.append(turn)
        self._chain = digest(self._chain, turn.action, observation.text)

    def _require_reset(self) -> Conversation:
        if self._conversation is None:
            raise InputError("the environment has not been reset (or is closed): call reset first")
        return self._conversation

    async def _step(self, action: str, *, streaming: bool) -> AsyncGenerator[Delta | Step, None]:
        conversation = self._require_reset()
        if self._terminated:
            yield Step(observation=None, outcome=Outcome.INVALID_ACTION, detail=_OVER, terminated=True)
            return
        try:
            call = self._domain.parse_action(action, self._world)
        except ActionError as error:
            yield Step(observation=None, outcome=Outcome.INVALID_ACTION, detail=str(error))
            return
        answered = self._domain.harness(self._started, self._turns, call)
        if answered is not None:
            yield self._finish(action, Step(observation=answered.observation, terminated=answered.terminated))
            return
        usage, reply = NO_USAGE, Reply(None, Outcome.MODEL_FAILED)
        deltas, asked = asks_deltas(self._domain, self._profile), action
        for attempt in range(self._profile.attempts):
            messages = conversation.messages(asked)
            if messages is None:
                reply = Reply(None, Outcome.INFRASTRUCTURE_FAILED, detail="the action does not fit the context")
                break
            sampling = self._sampling(action, attempt)
            completion = Completion(outcome=Outcome.INFRASTRUCTURE_FAILED)
            started = time.perf_counter()
            if streaming and isinstance(self._model, StreamsCompletion):
                preview = ReplyStream()
                async for item in self._model.stream(messages, sampling):
                    if isinstance(item, Completion):
                        completion = item
                    elif shown := _visible(preview.feed(item), thinking_only=deltas):
                        yield shown
            else:
                completion = await self._model.complete(messages, sampling)
            seconds = time.perf_counter() - started
            usage += completion.usage.model_copy(update={"seconds": seconds, "calls": 1})
            if self._conversation is not conversation:  # reset, restored or closed meanwhile: not this history's turn
                yield Step(observation=None, outcome=Outcome.CANCELLED, detail=_GONE, usage=usage)
                return
            if completion.finish == "context_overflow":
                reply = Reply(None, Outcome.INFRASTRUCTURE_FAILED, detail=completion.detail)
                if conversation.tighten():
                    continue
                break
            reply = read_reply(completion)
            if deltas and reply.text is not None:
                reply = whole_state(reply, self._states(), len(messages) // 2 - 1)
                if reply.text is None and asked == action:
                    asked += _WHOLE  # once
                    continue
            if reply.text is not None:
                reply, observation = self._observe(call, reply)
                if observation is not None:
                    checks = self._domain.check(self._started, self._turns, call, observation)
                    violations = tuple(c for c in checks if not c.passed)
                    step = Step(observation=observation, thinking=reply.thinking, violations=violations, usage=usage)
                    yield self._finish(action, step)
                    return
            # A model that decides the same way each time would only fail the same way again.
            if reply.outcome is not Outcome.MODEL_FAILED or sampling.temperature == 0:
                break
        yield Step(
            observation=None,
            outcome=reply.outcome,
            detail=reply.detail or f"the model gave no answer ({reply.outcome.value})",
            thinking=reply.thinking,
            usage=usage,
        )

    def _states(self) -> list[str]:
        assert self._initial is not None
        seen = [self._initial, *(turn.observation for turn in self._turns)]
        return [self._domain.write_observation(observation) for observation in seen if observation is not None]

    def _observe(self, call: ToolCall, reply: Reply) -> tuple[Reply, Observation | None]:
        assert reply.text is not None
        try:
            return reply, self._domain.read_observation(self._world, call, reply.text)
        except ValueError as error:
            return Reply(None, Outcome.MODEL_FAILED, reply.thinking, f"not an observation: {error}"), None

    def _finish(self, action: str, step: Step) -> Step:
        assert step.observation is not None
        self._append(step.turn(action), step.observation)
        self._terminated = step.terminated
        if self._limit is not None and len(self._turns) >= self._limit and not step.terminated:
            step = step.model_copy(update={"truncated": True})
        return step

    def _sampling(self, action: str, attempt: int) -> Sampling:
        seed = derive_seed(str(self._seed), self._chain, action, str(attempt))
        return self._profile.sampling.model_copy(update={"seed": seed})


def _visible(delta: Delta, *, thinking_only: bool) -> Delta | None:
    shown = Delta(thinking=delta.thinking) if thinking_only else delta
    return shown if shown.text or shown.thinking else None


def _as_list(value: JsonValue) -> list[JsonValue]:
    if not isinstance(value, list):
        raise ValueError("'turns' is not a list")  # noqa: TRY004
    return value


__all__ = ["SimulatedEnvironment"]
