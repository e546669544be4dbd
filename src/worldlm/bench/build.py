"""A benchmark from trajectories: some of their turns, spread over position in the session and content class.

A turn can be asked about when its observation is whole: not blank, not still changing when it was taken, and an
environment's own (what the harness answers measures nothing). Of a domain's turns the next one is always taken from
the cell (third of the trajectory, content class) of which least was taken, and in it from the trajectory of which
least was taken; which of equals, a digest decides. Content classes come from replays: without any, none is told.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field

from worldlm.core.errors import ActionError, InputError
from worldlm.core.jsonl import JsonlWriter
from worldlm.core.text import digest
from worldlm.core.types import DomainName, Trajectory, Turn, Value
from worldlm.data.content import ContentClass, common_language, content_classes
from worldlm.data.exporting import refuse_existing
from worldlm.data.formats.agentworldbench import make_sample
from worldlm.data.steps.quality import is_unstable
from worldlm.domains import get_domain

POSITIONS = ("early", "middle", "late")
Cell = tuple[str, ContentClass | None]


class BuildPlan(Value):
    """How many turns are chosen, and of how many kinds."""

    per_domain: int = Field(default=100, ge=1)
    """Samples of a domain, at most."""
    per_trajectory: int = Field(default=3, ge=1)
    """Samples of one trajectory, at most."""
    seed: int = 0
    """Decides between turns that are equal otherwise."""


@dataclass
class BuildReport:
    """What was chosen, and why other turns could not be."""

    samples: dict[DomainName, int] = field(default_factory=dict)
    cells: dict[DomainName, Counter[str]] = field(default_factory=dict)
    """By domain: samples by position and content class (`early deterministic`)."""
    files: dict[str, int] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    """Turns that cannot be asked about, by reason."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    trajectory: Trajectory
    turn: int
    cell: Cell
    rank: str


def build(
    trajectories: Sequence[Trajectory],
    output: Path,
    plan: BuildPlan = BuildPlan(),  # noqa: B008 (frozen)
    *,
    replays: Mapping[str, Sequence[Trajectory]] | None = None,
) -> BuildReport:
    """Choose turns and write them as `OUTPUT/DOMAIN_test.jsonl` in the public format, with what we know beside it.

    `replays` holds, by the id of a trajectory, the same actions played again elsewhere: they tell content classes.
    Raises InputError when nothing can be asked about, for a replay of other actions, and for a file that is there.
    """
    report = BuildReport()
    by_domain: dict[DomainName, list[Trajectory]] = {}
    for trajectory in trajectories:
        by_domain.setdefault(trajectory.world.domain, []).append(trajectory)
    chosen: dict[DomainName, list[_Candidate]] = {}
    for domain, mine in by_domain.items():
        pool = list(_candidates(mine, plan, replays or {}, report.left_out))
        if picked := choose(pool, plan):
            chosen[domain] = picked
    if not chosen:
        why = ", ".join(f"{reason} {count}" for reason, count in report.left_out.most_common())
        raise InputError(f"there is no turn to ask about ({why or 'no trajectory has a turn'})")
    for domain in chosen:
        refuse_existing(output / f"{domain}_test.jsonl")
    with ExitStack() as stack:
        for domain, picked in chosen.items():
            path = output / f"{domain}_test.jsonl"
            writer = stack.enter_context(JsonlWriter(path))
            for number, one in enumerate(picked, 1):
                writer.write(make_sample(one.trajectory, one.turn, number, one.cell[1]))
            report.samples[domain] = report.files[str(path)] = len(picked)
            report.cells[domain] = Counter(f"{position} {kind or 'unclassed'}" for position, kind in _cells(picked))
    return report


def choose(pool: Sequence[_Candidate], plan: BuildPlan) -> list[_Candidate]:
    """Some of the candidates, in the order of the pool. It depends on the pool and the plan alone."""
    waiting: dict[Cell, list[_Candidate]] = {}
    for one in sorted(pool, key=lambda each: each.rank):
        waiting.setdefault(one.cell, []).append(one)
    taken: Counter[Cell] = Counter()
    of: Counter[str] = Counter()
    picked: list[_Candidate] = []
    while waiting and len(picked) < plan.per_domain:
        cell = min(waiting, key=lambda each: (taken[each], each[0], each[1] or ""))
        able = [one for one in waiting[cell] if of[one.trajectory.id] < plan.per_trajectory]
        if not able:
            del waiting[cell]
            continue
        one = min(able, key=lambda each: of[each.trajectory.id])
        waiting[cell] = [each for each in able if each is not one]
        taken[cell] += 1
        of[one.trajectory.id] += 1
        picked.append(one)
    place = {id(one): index for index, one in enumerate(pool)}
    return sorted(picked, key=lambda one: place[id(one)])


def _cells(candidates: Iterable[_Candidate]) -> Iterator[Cell]:
    return (one.cell for one in candidates)


def _candidates(
    trajectories: Sequence[Trajectory],
    plan: BuildPlan,
    replays: Mapping[str, Sequence[Trajectory]],
    left_out: Counter[str],
) -> Iterator[_Candidate]:
    common = common_language(trajectories) if replays else frozenset()
    for trajectory in trajectories:
        played = replays.get(trajectory.id, ())
        kinds = content_classes(trajectory, played, common) if played else [None] * len(trajectory.turns)
        for index, turn in enumerate(trajectory.turns):
            if why := _refusal(trajectory, index, turn):
                left_out[why] += 1
            elif played and kinds[index] is None:
                left_out["a replay departed before it"] += 1
            else:
                position = POSITIONS[3 * index // len(trajectory.turns)]
                rank = digest(str(plan.seed), trajectory.id, str(index))
                yield _Candidate(trajectory, index, (position, kinds[index]), rank)


def _refusal(trajectory: Trajectory, index: int, turn: Turn) -> str | None:
    """Why a turn cannot be asked about."""
    domain = get_domain(trajectory.world.domain)
    if turn.observation is None:
        return "no observation"
    if not domain.write_observation(turn.observation).strip():
        return "a blank observation"
    if is_unstable(turn):
        return "still changing when it was taken"
    try:
        call = domain.parse_action(turn.action, trajectory.world)
    except ActionError:
        return None  # an action of others, in their own words
    started = trajectory.world
    if trajectory.initial is not None:
        started = started.model_copy(update={"initial_observation": trajectory.initial.text})
    if domain.harness(started, trajectory.turns[:index], call) is not None:
        return "answered by the harness"
    return None
