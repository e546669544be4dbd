"""The one loop in which a policy acts in an environment and leaves a trajectory.

Every ending is recorded, and a failed episode is a record like any other: who reads the file sees what
was tried, how far it came and whose fault it was. The environment is closed on every ending.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import anyio

from worldlm.core.errors import InputError, PolicyError, WorldlmError
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.protocols import Environment, HasLabel, HasOrigin, Policy
from worldlm.core.text import digest
from worldlm.core.types import NO_USAGE, Ending, Observation, Origin, Step, Trajectory, Turn, Usage, World

EnvironmentFactory = Callable[[], Environment]
"""Makes an environment, cheaply: what takes time or may fail belongs to its `reset`."""
CLOSE_SECONDS = 10.0
"""How long closing an environment may take before it is given up."""


@dataclass(frozen=True, slots=True)
class RolloutLimits:
    """What one episode may use, beside the environment's own limits."""

    turns: int = 100
    seconds: float = math.inf
    step_attempts: int = 1
    """How often a step is tried that failed through no fault of the policy or the model."""
    invalid_actions: int = 10
    """Invalid actions in a row that end the episode."""
    failed_steps: int = 1
    """Steps in a row at which the model failed, and that end the episode (a script may want to go on)."""
    broken_steps: int = 1
    """Steps in a row that failed by nobody's answer (infrastructure, time-outs), and that end the episode."""


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to run. Jobs of a `group` share a seed and must start from the same first observation."""

    id: str
    environment: EnvironmentFactory
    policy: Policy
    seed: int | None = None
    group: str | None = None
    limits: RolloutLimits = field(default_factory=RolloutLimits)


async def run_episode(
    policy: Policy,
    environment: Environment,
    *,
    id: str | None = None,  # noqa: A002
    seed: int | None = None,
    group: str | None = None,
    limits: RolloutLimits | None = None,
    on_turn: Callable[[Turn], None] | None = None,
    record: Callable[[Trajectory], None] | None = None,
    check_start: Callable[[Observation], str | None] | None = None,
) -> Trajectory:
    """Run one episode and close the environment, on every ending.

    `on_turn` sees each turn as it happens. `record` gets the trajectory on every ending, being cancelled
    among them (`CancelledError` then goes on). `check_start` may refuse the first observation with a reason.
    Raises InputError (a world that cannot be started as asked); every other failure is the trajectory's ending.
    """
    episode = _Episode(policy, environment, limits or RolloutLimits(), on_turn, check_start)
    ending = Ending(kind=EndingKind.CANCELLED, outcome=Outcome.CANCELLED)
    refused = False
    try:
        ending = await episode.run(seed)
    except InputError:
        refused = True
        raise
    finally:
        with anyio.move_on_after(CLOSE_SECONDS, shield=True):
            try:
                await environment.close()
            except Exception as error:
                words = f"closing the environment failed: {type(error).__name__}: {error}"
                ending = ending.model_copy(update={"detail": "; ".join(filter(None, (ending.detail, words)))})
        if record and not refused:
            record(episode.trajectory(id, group, seed, ending))
    return episode.trajectory(id, group, seed, ending)


class _Episode:
    """The state of one run of the loop."""

    def __init__(
        self,
        policy: Policy,
        environment: Environment,
        limits: RolloutLimits,
        on_turn: Callable[[Turn], None] | None,
        check_start: Callable[[Observation], str | None] | None,
    ):
        self.policy = policy
        self.environment = environment
        self.limits = limits
        self.on_turn = on_turn
        self.check_start = check_start
        self.invalid = self.failed = self.broken = 0
        self.world: World = environment.world
        self.initial: Observation | None = None
        self.turns: list[Turn] = []
        self.origin = environment.origin if isinstance(environment, HasOrigin) else Origin(kind="real")

    async def run(self, seed: int | None) -> Ending:
        deadline = time.monotonic() + self.limits.seconds
        try:
            self.initial = await self.environment.reset(seed)
            # What only a start can tell (the tools of a server, the version of a program) is in them now.
            self.world = self.environment.world
            if isinstance(self.environment, HasOrigin):
                self.origin = self.environment.origin
            if self.check_start and (reason := self.check_start(self.initial)):
                return Ending(kind=EndingKind.FAILED, outcome=Outcome.INFRASTRUCTURE_FAILED, detail=reason)
            while True:
                if len(self.turns) >= self.limits.turns:
                    return Ending(kind=EndingKind.TURN_LIMIT)
                with anyio.move_on_after(deadline - time.monotonic()) as scope:
                    step = await self._turn(self.initial)
                if scope.cancelled_caught:
                    return Ending(kind=EndingKind.TIME_LIMIT, outcome=Outcome.TIMED_OUT)
                if step is None:
                    return Ending(kind=EndingKind.COMPLETED)
                if ending := self._ends(step):
                    return ending
        except PolicyError as error:
            return Ending(kind=EndingKind.FAILED, outcome=Outcome.MODEL_FAILED, detail=f"policy: {error}")
        except InputError:
            raise
        except WorldlmError as error:
            return Ending(kind=EndingKind.FAILED, outcome=Outcome.INFRASTRUCTURE_FAILED, detail=str(error))
        except Exception as error:
            detail = f"{type(error).__name__}: {error}"
            return Ending(kind=EndingKind.FAILED, outcome=Outcome.INFRASTRUCTURE_FAILED, detail=detail)

    def _ends(self, step: Step) -> Ending | None:
        if step.terminated:
            return Ending(kind=EndingKind.TERMINATED, outcome=step.outcome, detail=step.detail)
        if step.truncated and step.outcome is Outcome.OK:
            return Ending(kind=EndingKind.TURN_LIMIT)
        if step.truncated:  # the environment is gone with this step
            kind = EndingKind.TIME_LIMIT if step.outcome is Outcome.TIMED_OUT else EndingKind.FAILED
            return Ending(kind=kind, outcome=step.outcome, detail=step.detail)
        if step.outcome is Outcome.BUDGET_EXHAUSTED:
            return Ending(kind=EndingKind.BUDGET, outcome=step.outcome, detail=step.detail)
        if step.outcome is Outcome.OK:
            self.invalid = self.failed = self.broken = 0
        elif step.outcome is Outcome.INVALID_ACTION:
            self.invalid += 1
            if self.invalid >= self.limits.invalid_actions:
                detail = f"{self.invalid} invalid actions in a row; the last: {step.detail}"
                return Ending(kind=EndingKind.FAILED, outcome=step.outcome, detail=detail)
        elif step.outcome.is_models_fault:
            self.failed += 1
            if self.failed >= self.limits.failed_steps:
                return Ending(kind=EndingKind.FAILED, outcome=step.outcome, detail=step.detail)
        else:
            self.broken += 1
            if self.broken >= self.limits.broken_steps:
                return Ending(kind=EndingKind.FAILED, outcome=step.outcome, detail=step.detail)
        return None

    async def _turn(self, initial: Observation) -> Step | None:
        action = await self.policy.act(self.world, initial, self.turns)
        if action is None:
            return None
        usage = NO_USAGE
        for _ in range(self.limits.step_attempts):
            started = time.perf_counter()
            step = await self.environment.step(action)
            usage += step.usage
            if not step.usage.seconds:  # the environment does not say how long it took
                usage += Usage(seconds=time.perf_counter() - started)
            if step.outcome not in (Outcome.INFRASTRUCTURE_FAILED, Outcome.TIMED_OUT):
                break
        label = self.policy.label if isinstance(self.policy, HasLabel) else None
        turn = step.model_copy(update={"usage": usage}).turn(action, label)
        self.turns.append(turn)
        if self.on_turn:
            self.on_turn(turn)
        return step

    def trajectory(self, name: str | None, group: str | None, seed: int | None, ending: Ending) -> Trajectory:
        usage = NO_USAGE
        for turn in self.turns:
            usage += turn.usage
        origin = self.origin
        if origin.seed is None:  # without it nobody could play the episode again
            origin = origin.model_copy(update={"seed": seed})
        fallback = digest(self.world.name, self.policy.name, str(seed), *(turn.action for turn in self.turns))[:16]
        return Trajectory(
            id=name or fallback,
            world=self.world,
            initial=self.initial,
            turns=tuple(self.turns),
            ending=ending,
            policy=self.policy.name,
            group=group,
            origin=origin,
            usage=usage,
        )


def group_jobs(
    name: str, environment: EnvironmentFactory, policies: Sequence[Policy], seed: int, limits: RolloutLimits
) -> list[Job]:
    """One group: a job for each policy, all from one seed and held to one first observation."""
    return [Job(f"{name}-{index}", environment, policy, seed, name, limits) for index, policy in enumerate(policies)]


async def run_episodes(
    jobs: Iterable[Job],
    record: Callable[[Trajectory], None],
    *,
    concurrency: int = 4,
    stop_after: int | None = 8,
) -> None:
    """Run jobs, at most `concurrency` at once, and hand each trajectory to `record` when it ends.

    Each episode is isolated: one that fails, is a record, and the
    others go on. When the first `stop_after` episodes all failed on infrastructure, nothing works, and a
    WorldlmError carries the last failure's words instead of failing the rest one by one; None never stops.
    When this call is cancelled, the episodes that were running are recorded as cancelled.
    """
    queue = iter(jobs)
    starts: dict[str, str] = {}
    failed_from_start: list[str] | None = []
    refusal: WorldlmError | None = None

    def done(trajectory: Trajectory) -> None:
        nonlocal failed_from_start
        record(trajectory)
        if trajectory.ending.outcome is not Outcome.INFRASTRUCTURE_FAILED:
            failed_from_start = None
        elif failed_from_start is not None:
            failed_from_start.append(trajectory.ending.detail or "no reason given")

    def nothing_works() -> bool:
        return bool(stop_after and failed_from_start and len(failed_from_start) >= stop_after)

    async def worker(scope: anyio.CancelScope) -> None:
        nonlocal refusal
        for job in queue:
            try:
                await _run(job, done, starts)
            except WorldlmError as error:  # a world that cannot be started, a record that cannot be kept
                refusal = refusal or error
                scope.cancel()
            if nothing_works():
                return

    async with anyio.create_task_group() as group:
        for _ in range(max(1, concurrency)):
            group.start_soon(worker, group.cancel_scope)
    if refusal:
        raise refusal
    if nothing_works():
        assert failed_from_start
        raise WorldlmError(f"the first {len(failed_from_start)} episodes all failed; the last: {failed_from_start[-1]}")


async def _run(job: Job, done: Callable[[Trajectory], None], starts: dict[str, str]) -> None:
    def check_start(initial: Observation) -> str | None:
        if job.group is None or starts.setdefault(job.group, initial.text) == initial.text:
            return None
        return f"group {job.group!r}: the first observation differs from that of the group's first member"

    await run_episode(
        job.policy,
        job.environment(),
        id=job.id,
        seed=job.seed,
        group=job.group,
        limits=job.limits,
        record=done,
        check_start=check_start,
    )
