"""What came of a collection: counts, speed and cost, and how far it agrees with an earlier one."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.text import digest
from worldlm.core.types import Observation, Trajectory

ODD = "/odd"
"""What stands behind the label of an action that is wrong or odd on purpose."""


@dataclass
class Agreement:
    """Two collections beside each other, episode by episode and turn by turn."""

    turns: int = 0
    """Turns that stand in both, at the same place of the same episode."""
    actions: int = 0
    """Of these, with the same action."""
    observations: int = 0
    """Of those with the same action, with the same observation or failure."""

    def add(self, earlier: "Record", trajectory: Trajectory) -> None:
        """Count an episode that was collected before."""
        for (action, answer), (new_action, new_answer) in zip(earlier, record_of(trajectory), strict=False):
            self.turns += 1
            self.actions += action == new_action
            self.observations += (action, answer) == (new_action, new_answer)


Record = Sequence[tuple[str, str]]
"""An episode in short: for each turn the digests of its action and of what came of it."""


def record_of(trajectory: Trajectory) -> Record:
    """An episode in short."""
    return [
        (digest(turn.action), digest(turn.outcome.value, turn.observation.text if turn.observation else ""))
        for turn in trajectory.turns
    ]


def records(trajectories: Iterable[Trajectory]) -> dict[str, Record]:
    """Episodes in short, by id."""
    return {trajectory.id: record_of(trajectory) for trajectory in trajectories}


@dataclass
class Summary:
    """Counts over the episodes of one domain, added one at a time. Nothing of an episode is kept."""

    planned: int = 0
    already: int = 0
    """Episodes that stood in the file before."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Worlds that could not be started, with why."""
    earlier: Mapping[str, Record] | None = None
    """An earlier collection, to agree with."""
    endings: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    """Turns by outcome."""
    labels: Counter[str] = field(default_factory=Counter)
    """Turns by what the policy calls their action."""
    good: int = 0
    last_failure: str | None = None
    unchanged: int = 0
    """Observations that equal the one before."""
    unstable: int = 0
    """Turns whose observation was still changing when it was taken (they failed the check `stable`)."""
    cost_usd: float = 0.0
    seconds: float = 0.0
    """Of the whole collection."""
    agreement: Agreement = field(default_factory=Agreement)
    _actions: set[str] = field(default_factory=set)
    _step_seconds: list[float] = field(default_factory=list)

    def add(self, trajectory: Trajectory) -> None:
        """Count an episode."""
        self.endings[trajectory.ending.kind.value] += 1
        if is_done(trajectory):
            self.good += 1
        else:
            self.last_failure = trajectory.ending.detail
        before: Observation | None = trajectory.initial
        for turn in trajectory.turns:
            self.outcomes[turn.outcome.value] += 1
            if turn.label:
                self.labels[turn.label] += 1
            self._actions.add(digest(turn.action))
            self._step_seconds.append(turn.usage.seconds)
            self.cost_usd += turn.usage.cost_usd
            self.unstable += any(check.rule == "stable" for check in turn.violations)
            if turn.observation is not None:
                self.unchanged += before is not None and turn.observation.text == before.text
                before = turn.observation
        if self.earlier and trajectory.id in self.earlier:
            self.agreement.add(self.earlier[trajectory.id], trajectory)

    @property
    def turns(self) -> int:
        """Turns in all."""
        return self.outcomes.total()

    @property
    def failures(self) -> dict[str, int]:
        """Turns that have no observation, by outcome."""
        return {kind: count for kind, count in self.outcomes.items() if kind != Outcome.OK}

    def figures(self) -> dict[str, Any]:
        """All of it as a JSON object. Shares lie in [0, 1]; None where there is nothing to take a share of."""
        turns, observed = self.turns, self.outcomes[Outcome.OK.value]
        labelled = self.labels.total()
        families = Counter[str]()
        for label, count in self.labels.items():
            families[label.removesuffix(ODD)] += count
        odd = sum(count for label, count in self.labels.items() if label.endswith(ODD))
        figures: dict[str, Any] = {
            "planned": self.planned,
            "already_there": self.already,
            "left_out": dict(self.left_out),
            "recorded": self.endings.total(),
            "endings": dict(self.endings),
            "turns": turns,
            "failed_turns": self.failures,
            "failed_share": _share(turns - observed, turns),
            "unchanged_share": _share(self.unchanged, observed),
            "unstable_turns": self.unstable,
            "distinct_actions": len(self._actions),
            "families": len(families),
            "odd_share": _share(odd, labelled),
            "turns_by_family": dict(sorted(families.items())),
            "seconds": self.seconds,
            "turns_per_second": turns / self.seconds if self.seconds else None,
            "step_seconds_p50": median(self._step_seconds) if self._step_seconds else None,
            "step_seconds_p95": quantiles(self._step_seconds, n=20, method="inclusive")[-1]
            if len(self._step_seconds) > 1
            else None,
            "cost_usd": self.cost_usd,
        }
        if self.earlier is not None:
            figures["compared_turns"] = self.agreement.turns
            figures["same_action_share"] = _share(self.agreement.actions, self.agreement.turns)
            figures["same_observation_share"] = _share(self.agreement.observations, self.agreement.actions)
        return figures


def is_done(trajectory: Trajectory) -> bool:
    """Whether an episode need not be run again: it was not cancelled, and nothing but the policy failed."""
    ending = trajectory.ending
    faults = (Outcome.INFRASTRUCTURE_FAILED, Outcome.TIMED_OUT, Outcome.CANCELLED)
    # A time limit with words came from a step that did not answer; that of the whole episode has none.
    broke = ending.kind is EndingKind.FAILED or (ending.kind is EndingKind.TIME_LIMIT and ending.detail is not None)
    return ending.kind is not EndingKind.CANCELLED and not (broke and ending.outcome in faults)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
