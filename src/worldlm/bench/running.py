"""The one loop that asks many samples: bounded, in an order that a prefix cache likes, stopped where it is no use."""

from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import anyio

from worldlm.core.errors import WorldlmError
from worldlm.core.outcomes import Outcome

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
                f"stopped: no answer for {self._streak} {self._what} in a row; the last: "
                f"{detail or 'no detail given'}; run it again to go on"
            )
