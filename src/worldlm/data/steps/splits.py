"""Training, validation and two test parts, cut so that nothing of a test is seen in training.

A trajectory's *group* is its world with its seed: the same start, and for a seeded policy the same scenario. A hash of
the group, and nothing else, decides its side, so a group never stands on two sides, never changes sides when the
corpus grows, and its side is known before it is played (`side`). Test part A are groups that training does not see, of
kinds that it does see. Test part B are kinds that training never sees: whole worlds, and the trajectories of the test
side in which an action of a held-out kind stands.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import Field, model_validator

from worldlm.core.text import digest
from worldlm.core.types import DomainName, Text, Trajectory, Turn, Value, World
from worldlm.data.report import Losses
from worldlm.data.steps.quality import cut
from worldlm.data.steps.records import Record, TextRecord

ODD = "/odd"
"""What stands behind the label of an action that is wrong or odd on purpose."""


class Part(StrEnum):
    """The parts of a split; the name of a part's file."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST_A = "test-a"
    TEST_B = "test-b"


class Kinds(Value):
    """Kinds of one domain that are held out. Worlds and labels are patterns, in which `*` stands for anything."""

    worlds: tuple[Text, ...] = ()
    """An MCP server, a repository, a group of tasks, an application: whatever has worlds of its own."""
    labels: tuple[Text, ...] = ()
    """What the policy calls its actions, without `/odd`: a command family, a tool, an application (`sheet/*`)."""
    words: tuple[Text, ...] = ()
    """Words that make a turn one of the kind, wherever they stand in its action (programs, for recordings that have no
    labels)."""


class SplitPlan(Value):
    """How a corpus is split."""

    seed: int = 0
    test: float = Field(default=0.1, gt=0, lt=1)
    """The share of the groups that is the test side."""
    validation: float = Field(default=0.02, ge=0, lt=1)
    """The share of the groups that is the validation side; 0: there is none."""
    test_by_domain: Mapping[DomainName, float] = Field(default_factory=dict)
    """Another share of the test side in a domain of few groups."""
    held_out: Mapping[DomainName, Kinds] = Field(default_factory=dict)
    """By domain, what test part B is made of. Empty: there is no part B."""
    mode: Literal["cut", "drop"] = "cut"
    """What becomes of a trajectory of the training side that holds a held-out kind: it is cut before its first turn of
    that kind, or left out."""

    @model_validator(mode="after")
    def _leaves_something(self) -> "SplitPlan":
        for share in (self.test, *self.test_by_domain.values()):
            if not 0 < share < 1 - self.validation:
                raise ValueError(
                    f"a test share of {share:g} and validation of {self.validation:g} leave nothing to train"
                )
        return self

    def parts(self) -> list[Part]:
        """The parts that must not come out empty."""
        optional = {Part.VALIDATION: bool(self.validation), Part.TEST_B: bool(self.held_out)}
        return [part for part in Part if optional.get(part, True)]


def group_key(trajectory: Trajectory) -> str:
    """What must stay on one side: world and seed; where there is no seed, world and group, or the trajectory alone."""
    seed = trajectory.origin.seed
    if seed is not None:
        return _seed_key(trajectory.world.name, seed)
    if trajectory.group is not None:
        return digest(trajectory.world.name, "group", trajectory.group)
    return digest(trajectory.world.name, "id", trajectory.id)


def _seed_key(world: str, seed: int) -> str:
    return digest(_stem(world), "seed", str(seed))


def side(world: World, seed: int, plan: SplitPlan) -> Part:
    """The side on which what is played in `world` from `seed` will be: TRAIN, VALIDATION or TEST_A.

    (In a held-out world it is test part B, whatever the side.)
    """
    return _side(_seed_key(world.name, seed), world.domain, plan)


def holds_out(world: World, plan: SplitPlan) -> bool:
    """Whether a world is held out as a whole."""
    return _held_world(world, plan) is not None


def held_world(trajectory: Trajectory, plan: SplitPlan) -> str | None:
    """The pattern of held-out worlds that the trajectory's world fits."""
    return _held_world(trajectory.world, plan)


def _held_world(world: World, plan: SplitPlan) -> str | None:
    return next(_worlds(world, plan.held_out.get(world.domain, Kinds())), None)


def _stem(world: str) -> str:
    """The world's name before a start chose one of its tasks: it is called `WORLD.TASK` then."""
    return world.partition(".")[0]


def held_turns(trajectory: Trajectory, plan: SplitPlan) -> Iterator[tuple[int, str]]:
    """The numbers (from 0) of the turns of a held-out kind, each with the label's pattern or the word that tells.

    In a held-out world it is every turn. These are the turns that test part B asks about.
    """
    kinds = plan.held_out.get(trajectory.world.domain, Kinds())
    world = held_world(trajectory, plan)
    for number, turn in enumerate(trajectory.turns):
        if kind := world or next(_kinds(turn, kinds), None):
            yield number, kind


def kinds_met(trajectory: Trajectory, plan: SplitPlan) -> set[str]:
    """Every pattern and word of the plan that tells a kind of this trajectory or of a turn of it."""
    kinds = plan.held_out.get(trajectory.world.domain, Kinds())
    return {*_worlds(trajectory.world, kinds), *(kind for turn in trajectory.turns for kind in _kinds(turn, kinds))}


def _worlds(world: World, kinds: Kinds) -> Iterator[str]:
    names = {world.name, _stem(world.name)}
    return (pattern for pattern in kinds.worlds if any(fnmatchcase(name, pattern) for name in names))


def _kinds(turn: Turn, kinds: Kinds) -> Iterator[str]:
    if label := (turn.label or "").removesuffix(ODD):
        yield from (pattern for pattern in kinds.labels if fnmatchcase(label, pattern))
    yield from (word for word in kinds.words if _says(turn.action, word))


def _says(action: str, word: str) -> bool:
    # Within JSON a line's end is written \n, which would stick to the word behind it.
    return re.search(rf"(?:(?<![\w-])|(?<=\\[nrt])){re.escape(word)}(?![\w-])", action) is not None


def assign(record: Record, plan: SplitPlan, losses: Losses) -> tuple[Part, Record] | None:
    """The part that a record belongs to, and what of it; None where it is left out. `losses` is told why.

    Texts are for training: they have no environment that could be held out.
    """
    if isinstance(record, TextRecord):
        return Part.TRAIN, record
    if held_world(record, plan):
        return Part.TEST_B, record
    here = _side(group_key(record), record.world.domain, plan)
    kinds = plan.held_out.get(record.world.domain, Kinds())
    if kinds.labels and any(turn.label is None for turn in record.turns) and not kinds.words:
        losses.verbatim("actions without a label, in a domain of which labels are held out", record.id)
    held = next(held_turns(record, plan), None)
    if held is None:
        return here, record
    number, kind = held
    place = f"{record.id} turn {number + 1} ({kind})"
    if here is Part.TEST_A:
        return Part.TEST_B, record
    if plan.mode == "drop" or number == 0:
        losses.dropped("a trajectory of the training side with a held-out kind", place)
        return None
    losses.changed("cut before a held-out kind", place)
    return here, cut(record, number, f"cut before turn {number + 1}, which is of a held-out kind")


def _side(group: str, domain: DomainName, plan: SplitPlan) -> Part:
    """The side of a group: a number in [0, 1) that its hash gives, against the shares."""
    point = int(digest(str(plan.seed), group)[:13], 16) / 16**13
    test = plan.test_by_domain.get(domain, plan.test)
    if point < test:
        return Part.TEST_A
    return Part.VALIDATION if point < test + plan.validation else Part.TRAIN


__all__ = [
    "Kinds",
    "Part",
    "SplitPlan",
    "assign",
    "group_key",
    "held_turns",
    "held_world",
    "holds_out",
    "kinds_met",
    "side",
]
