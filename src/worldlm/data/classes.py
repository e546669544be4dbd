"""Which turns are trained: four ratios put each in one of seven classes, and a part of each class is kept.

The ratios compare what the agent says with what comes back. They are those of the report on Qwen-AgentWorld
(arXiv 2606.24597, continual pre-training); thresholds, most keep ratios and the texts that are compared are our own.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import Field, field_validator

from worldlm.core.errors import ActionError
from worldlm.core.outcomes import Outcome
from worldlm.core.text import digest
from worldlm.core.types import Trajectory, Turn, Value
from worldlm.data.settings import read_settings
from worldlm.domains.domain import Domain

TurnClass: TypeAlias = Literal["retrieval", "expansion", "action", "transform", "boilerplate", "echo", "other"]
TURN_CLASSES: tuple[TurnClass, ...] = (
    "retrieval",
    "expansion",
    "action",
    "transform",
    "boilerplate",
    "echo",
    "other",
)

_WORD = re.compile(r"\w+")


def words(text: str) -> frozenset[str]:
    """The word types of a text: its runs of letters, digits and underscores, of any script, lower-cased."""
    return frozenset(_WORD.findall(text.lower()))


@dataclass(frozen=True, slots=True)
class Features:
    """How an observation relates to the action before it. A ratio of nothing is 0."""

    overlap: float
    """The part of the action's words that the observation has: |Wact ∩ Wobs| / |Wact|."""
    novelty: float
    """The part of the observation's words that the action lacks: |Wobs \\ Wact| / |Wobs|."""
    jaccard: float
    """|Wact ∩ Wobs| / |Wact ∪ Wobs|."""
    length: float
    """|obs| / |act|, in characters."""


def features(action: str, observation: str) -> Features:
    """The four ratios of two texts."""
    acts, observed = words(action), words(observation)
    shared = len(acts & observed)
    return Features(
        overlap=_ratio(shared, len(acts)),
        novelty=_ratio(len(observed) - shared, len(observed)),
        jaccard=_ratio(shared, len(acts | observed)),
        length=_ratio(len(observation), len(action)),
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def said(action: str) -> str:
    """What an action says without its wire format: the values in it, one a line, and what is typed as it is typed.

    Names of arguments, quotes and escapes are the same in each action of a kind: they would count as words that no
    observation repeats (and `"ls\\n"` as one word more). An action that is no JSON stands as it is.
    """
    try:
        value = json.loads(action)
    except (ValueError, RecursionError):
        return action
    if not isinstance(value, dict | list):
        return action
    if isinstance(value, list) and all(isinstance(keys, dict) and "keystrokes" in keys for keys in value):
        return "".join(str(keys["keystrokes"]) for keys in value)
    return "\n".join(_values(value))


def _values(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _values(item)]
    if isinstance(value, list):
        return [text for item in value for text in _values(item)]
    if value is None:
        return []
    return [value if isinstance(value, str) else json.dumps(value)]


# The configuration.


class Bounds(Value):
    """Where a ratio must lie, both ends included."""

    min: float = 0.0
    max: float | None = None

    def hold(self, ratio: float) -> bool:
        """Whether `ratio` lies there."""
        return self.min <= ratio and (self.max is None or ratio <= self.max)


class ClassRule(Value):
    """A class: the bounds of its turns' ratios, and the part of them that is trained."""

    name: TurnClass
    keep: float = Field(ge=0, le=1)
    overlap: Bounds = Bounds()
    novelty: Bounds = Bounds()
    jaccard: Bounds = Bounds()
    length: Bounds = Bounds()

    def holds(self, ratios: Features) -> bool:
        """Whether a turn with these ratios is of this class."""
        return (
            self.overlap.hold(ratios.overlap)
            and self.novelty.hold(ratios.novelty)
            and self.jaccard.hold(ratios.jaccard)
            and self.length.hold(ratios.length)
        )


class MaskConfig(Value):
    """What is trained: the classes in the order in which they are tried, and how turns are drawn from them."""

    seed: int = 0
    """Another seed keeps other turns."""
    per_turn: bool = False
    """One example for each trained turn, for chat templates that write a message differently when others follow it."""
    classes: tuple[ClassRule, ...]

    @field_validator("classes")
    @classmethod
    def _are_complete(cls, rules: tuple[ClassRule, ...]) -> tuple[ClassRule, ...]:
        names = [rule.name for rule in rules]
        if missing := [name for name in TURN_CLASSES if name not in names]:
            raise ValueError(f"there is no class {missing[0]!r}; each of {', '.join(TURN_CLASSES)} is needed")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"the class {twice!r} stands there twice")
        if rules[-1] != ClassRule(name="other", keep=rules[-1].keep):
            raise ValueError("the last class is 'other', and it has no bounds: it takes what is left")
        return rules

    def classify(self, ratios: Features) -> ClassRule:
        """The class of a turn."""
        return next(rule for rule in self.classes if rule.holds(ratios))


@cache
def default_config() -> MaskConfig:
    """The configuration of this package, `classes.yaml`."""
    return read_settings(Path(__file__).with_name("classes.yaml"), MaskConfig)


# The turns of a trajectory.


@dataclass(frozen=True, slots=True)
class TurnLabel:
    """What becomes of a turn in training."""

    turn: int
    """Its number in the trajectory, from 1."""
    trained: bool
    why: str
    turn_class: TurnClass | None = None
    """None where there is no observation."""
    ratios: Features | None = None


def label_turns(trajectory: Trajectory, domain: Domain, config: MaskConfig | None = None) -> list[TurnLabel]:
    """The class of each turn, whether its observation is trained, and why.

    Never trained are turns without an observation, observations that were still changing when they were taken (they
    failed the check `stable`), and what the harness answers in place of the environment. Of the others a part is
    kept by class, the same part in every process: it hangs on the seed, the trajectory's id and the turn's number.
    """
    config = config or default_config()
    return [_label(trajectory, number, turn, domain, config) for number, turn in enumerate(trajectory.turns, 1)]


def _label(trajectory: Trajectory, number: int, turn: Turn, domain: Domain, config: MaskConfig) -> TurnLabel:
    if turn.observation is None:
        return TurnLabel(number, trained=False, why=f"failed ({turn.outcome.value})")
    ratios = features(said(turn.action), domain.write_observation(turn.observation))
    rule = config.classify(ratios)
    if any(check.rule == "stable" and not check.passed for check in turn.violations):
        return TurnLabel(number, False, "still changing when it was taken", rule.name, ratios)
    if _is_harness(trajectory, trajectory.turns[: number - 1], turn, domain):
        return TurnLabel(number, False, "answered by the harness", rule.name, ratios)
    trained = chance(config.seed, trajectory.id, number) < rule.keep
    why = f"{'kept' if trained else 'not kept'} ({rule.keep:.0%} of {rule.name})"
    return TurnLabel(number, trained, why, rule.name, ratios)


def chance(seed: int, trajectory: str, turn: int) -> float:
    """A number in [0, 1) fixed by its arguments."""
    return int(digest("keep", str(seed), trajectory, str(turn))[:13], 16) / 16**13


def _is_harness(trajectory: Trajectory, before: Sequence[Turn], turn: Turn, domain: Domain) -> bool:
    if turn.outcome is not Outcome.OK or trajectory.initial is None:
        return False
    # The harness looks back to the first observation, which need not be the one that the world states.
    world = trajectory.world.model_copy(update={"initial_observation": trajectory.initial.text})
    try:
        call = domain.parse_action(turn.action, world)
    except ActionError:  # a recording may hold actions of another grammar
        return False
    seen = [each for each in before if each.observation is not None]
    return domain.harness(world, seen, call) is not None
