"""The one loop that asks many samples: bounded, in an order that a prefix cache likes, stopped where it is no use."""

import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

import anyio.lowlevel

from worldlm.bench.runs import RunFile
from worldlm.bench.samples import Sample
from worldlm.core.errors import WorldlmError
from worldlm.core.outcomes import Outcome
from worldlm.core.text import number_of
from worldlm.core.types import NO_USAGE, Usage

T = TypeVar("T")
R = TypeVar("R")

GIVE_UP = 8
"""Failures of the service in a row (a server that is down, a key that is refused) after which a run stops."""
_SERVICE = (Outcome.INFRASTRUCTURE_FAILED, Outcome.TIMED_OUT)


class Line(Generic[T]):
    """What waits, by group: whoever asks goes on with his group, else gets a new one, else helps out in the longest."""

    def __init__(self, items: Iterable[T], group_of: Callable[[T], Hashable]):
        groups: dict[Hashable, deque[T]] = {}
        for item in items:
            groups.setdefault(group_of(item), deque()).append(item)
        self._new = deque(groups.values())
        self._begun: list[deque[T]] = []

    def take(self, mine: "deque[T] | None") -> "tuple[deque[T], T] | None":
        """The next item with its group; None when nothing waits. `mine` is the group of whoever asks."""
        if not mine:
            if self._new:
                mine = self._new.popleft()
                self._begun.append(mine)
            else:
                self._begun = [group for group in self._begun if group]
                mine = max(self._begun, key=len, default=None)
        return (mine, mine.popleft()) if mine else None


async def run_grouped(
    items: Sequence[T],
    work: Callable[[T], Awaitable[R]],
    done: Callable[[T, R], None],
    *,
    group_of: Callable[[T], Hashable],
    concurrency: int,
) -> None:
    """Do `work` on every item, `concurrency` at a time; `done` is called with each result as soon as it is there.

    Items of one group are begun in their order, and by one worker as long as there are other groups for the rest.
    A WorldlmError stops everything and is raised; what was finished has been handed over by then.
    """
    line = Line(items, group_of)
    stopped: list[WorldlmError] = []
    async with anyio.create_task_group() as group:

        async def worker() -> None:
            mine: deque[T] | None = None
            while (taken := line.take(mine)) is not None:
                mine, item = taken
                try:
                    done(item, await work(item))  # directly after: nothing that was paid for is lost to a signal
                except WorldlmError as error:
                    stopped.append(error)
                    group.cancel_scope.cancel()
                    return

        for _ in range(min(concurrency, len(items))):
            group.start_soon(worker)
            await anyio.lowlevel.checkpoint()  # all at once, the first request would go out after the last was made
    if stopped:
        raise stopped[0]


class Watch:
    """Tells when to stop: the budget is spent, or what is asked answers nobody."""

    def __init__(self, what: str, todo: int, *, already: int):
        """`already`: of how many there is an answer from before, so that the service is known to work."""
        self._what = what
        self._most = GIVE_UP if already else min(GIVE_UP, todo)
        self._streak = 0

    def see(self, outcome: Outcome, detail: str | None, *, of_service: bool = True) -> None:
        """Take note of a result. Raises WorldlmError, with the server's own words, when going on is of no use.

        `of_service` is False for a failure that is this one sample's (it does not fit the context, say).
        """
        if outcome is Outcome.BUDGET_EXHAUSTED:
            raise WorldlmError(f"stopped: {detail or 'the budget is spent'}; run it again to go on where it stopped")
        if outcome not in _SERVICE:
            self._streak = 0
        elif of_service:
            self._streak += 1
        if self._streak == self._most:
            raise WorldlmError(
                f"stopped: no answer for {number_of(self._streak, self._what)} in a row; the last: "
                f"{detail or 'no detail given'}; run it again to go on"
            )


class _Result(Protocol):
    """What came of one sample: a `runs.Done`, and what it took."""

    @property
    def outcome(self) -> Outcome: ...

    @property
    def detail(self) -> str | None: ...

    @property
    def usage(self) -> Usage: ...

    @property
    def of_sample(self) -> bool:
        """Whether the failure is this one sample's, so that others may well go through."""
        ...


S = TypeVar("S", bound=_Result)


@dataclass
class Report:
    """What a run did."""

    planned: int
    already: int = 0
    """Finished before."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Of the samples that were asked now."""
    usage: Usage = NO_USAGE
    seconds: float = 0.0


def beginning(sample: Sample) -> tuple[str, str]:
    """Samples with the same have prompts that begin alike: with a system prompt, or with the world that it tells of."""
    return sample.domain, str(sample.raw["system_str"])


def in_order(samples: Sequence[Sample]) -> list[Sample]:
    """Samples whose prompts begin alike together; among them by trajectory, and within one by turn."""
    world: dict[Hashable, int] = {}
    run: dict[str, int] = {}
    for index, sample in enumerate(samples):
        world.setdefault(beginning(sample), index)
        run.setdefault(sample.trajectory, index)
    return sorted(samples, key=lambda sample: (world[beginning(sample)], run[sample.trajectory], sample.turn))


async def run_samples(
    samples: Sequence[Sample],
    file: RunFile,
    kind: Callable[..., S],
    *,
    verb: Literal["infer", "judge"],
    work: Callable[[Sample], Awaitable[S]],
    record: Callable[[Sample, S], dict[str, Any]],
    digest_of: Callable[[Sample], str] = lambda sample: sample.digest,
    asks: Callable[[Sample], bool] = lambda sample: True,
    concurrency: int,
    on_done: Callable[[Sample, S], None] | None = None,
) -> Report:
    """Do `work` for every sample that `file` does not hold as finished, `concurrency` at a time.

    Each is one flushed line (`record`). Samples of one world go one after another, those of a trajectory by turn, so
    that a server's prefix cache pays. What `work` raises is that one sample's failure, a `kind`. `asks` tells whether a
    service is asked about a sample at all. Raises WorldlmError with the service's own words when nothing is answered
    any more, and when the budget is spent: what was answered is in the file.
    """
    todo = [sample for sample in in_order(samples) if not file.is_finished(sample.key, digest_of(sample))]
    report = Report(planned=len(samples), already=len(samples) - len(todo))
    watch = Watch("sample" if verb == "infer" else "prediction", len(todo), already=report.already)

    async def isolated(sample: Sample) -> S:
        try:
            return await work(sample)
        except Exception as error:  # one sample, one failure: the others go on
            words = str(error) if isinstance(error, WorldlmError) else f"{type(error).__name__}: {error}"
            return kind(digest=digest_of(sample), outcome=Outcome.INFRASTRUCTURE_FAILED, detail=words)

    def done(sample: Sample, result: S) -> None:
        asked = asks(sample)
        if result.outcome is not Outcome.BUDGET_EXHAUSTED or not asked:
            file.add(record(sample, result))
            report.outcomes[result.outcome.value] += 1
            report.usage += result.usage
            if on_done:
                on_done(sample, result)
        if asked:
            watch.see(result.outcome, result.detail, of_service=not result.of_sample)

    started = time.perf_counter()
    try:
        await run_grouped(todo, isolated, done, group_of=beginning, concurrency=concurrency)
    finally:
        report.seconds = time.perf_counter() - started
        if todo:
            file.add_seconds(verb, report.seconds)
    return report
