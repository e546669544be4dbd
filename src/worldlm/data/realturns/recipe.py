"""The recipe of a data set of real turns: what is played, what is held out, what is cut, and what is asked."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_validator, model_validator

from worldlm.core.errors import nearest
from worldlm.core.types import DomainName, Text, Value
from worldlm.data.cleaning import KINDS, MAX_TOKENS
from worldlm.data.content import ContentClass
from worldlm.data.steps.decontaminate import Leaks
from worldlm.data.steps.dedup import Duplicates
from worldlm.data.steps.quality import Rules
from worldlm.data.steps.splits import SplitPlan


class Share(Value):
    """How much of a domain is played by its explorer."""

    episodes: int = Field(ge=1)
    """Of the training side and the validation side together."""
    turns: int = Field(ge=2)
    """That an episode may take."""
    concurrency: int = Field(default=1, ge=1, le=64)
    """Episodes at once."""
    tests: int = Field(ge=1)
    """Episodes of the test side, without anything that is held out: for test part A."""
    held_out: int = Field(default=0, ge=0)
    """Episodes of the test side in which held-out kinds are free, for part B: in the held-out worlds, where there are
    some, else in the domain's others."""


class Cleaning(Value):
    """How observations are cleaned."""

    max_tokens: int = Field(default=MAX_TOKENS, ge=100)
    """Tokens of an observation above which it is cut head and tail."""
    key: Text = "realturns"
    """Stand-ins for secrets and personal data are drawn by it, so that each build draws the same."""
    leave: tuple[Text, ...] = ("home name", "token")
    """Kinds that stay as they are: the users of the worlds and their passwords are invented."""

    @field_validator("leave")
    @classmethod
    def _are_kinds(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for kind in value:
            if kind not in KINDS:
                raise ValueError(f"there is no kind {kind!r}; {nearest(kind, KINDS)}")
        return value


class Asking(Value):
    """What the test parts ask."""

    part_a: int = Field(default=150, ge=1)
    """Turns of a domain that are wanted in part A."""
    part_b: int = Field(default=60, ge=0)
    """The same for part B, of a domain that holds something out."""
    least_a: int = Field(default=100, ge=1)
    """With fewer the build says so."""
    least_b: int = Field(default=50, ge=0)
    per_trajectory: int = Field(default=3, ge=1)
    """Turns that one trajectory may give, at most."""
    spare: float = Field(default=1.4, ge=1)
    """So many times the wanted turns are played again: some differ, some depart, and classes are unlike in number."""
    context: int = Field(default=7500, ge=500)
    """Tokens of a sample with its history and its answer, by the estimate (which is rather too high): it fits a model
    with 8,192."""
    positions: tuple[int, int] = (3, 8)
    """Turns up to the first number are early, up to the second in the middle, and the rest are late."""
    licences: tuple[Text, ...] | None = None
    """Patterns of the licences under which a world's contents may be passed on with a test part (each of those that a
    trajectory names must fit; one that names none is our own); None takes all."""
    classes: Mapping[ContentClass, float] = Field(
        default_factory=lambda: {
            ContentClass.DETERMINISTIC: 0.6,
            ContentClass.PRE_EXISTING: 0.3,
            ContentClass.METADATA: 0.1,
        }
    )
    """The share of each content class, as far as it can be had."""

    @model_validator(mode="after")
    def _is_possible(self) -> "Asking":
        if not 0 < self.positions[0] < self.positions[1]:
            raise ValueError(f"positions {list(self.positions)} must rise")
        if set(self.classes) != set(ContentClass) or min(self.classes.values()) <= 0:
            raise ValueError(f"classes needs a share above 0 for each of {', '.join(ContentClass)}")
        return self


class TextSource(Value):
    """A collection of documents that training reads beside trajectories."""

    kind: Literal["general", "professional"]
    characters: int = Field(ge=1)
    """That are taken of it, at most: whole documents, in a seeded order."""


class Recipe(Value):
    """A whole data set."""

    name: Text = "RealTurns"
    seed: int = Field(default=0, ge=0)
    """Seeds of episodes count up from it."""
    domains: Mapping[DomainName, Share] = Field(min_length=1)
    lanes: tuple[tuple[DomainName, ...], ...] = ()
    """Domains that are played one after another, and beside the other lanes; who is in none is in the first."""
    split: SplitPlan = SplitPlan()
    cleaning: Cleaning = Cleaning()
    rules: Rules = Rules()
    duplicates: Duplicates = Duplicates()
    leaks: Leaks = Leaks()
    tests: Asking = Asking()
    least_turns: int = Field(default=1, ge=1)
    """Of the training part; with fewer the build says so."""
    texts: Mapping[Text, TextSource] = Field(default_factory=dict)
    """Collections by name (`worldlm.retrieval.collections`)."""
    weights: Mapping[Text, float] = Field(default_factory=lambda: {"trajectories": 1.0})
    """Of `trajectories` and of each kind of texts in the mixture, in characters."""

    @model_validator(mode="after")
    def _hangs_together(self) -> "Recipe":
        known = set(self.domains)
        if strange := set(self.split.held_out) - known:
            raise ValueError(f"split.held_out.{min(strange)}: no such domain is played")
        for name, share in self.domains.items():
            if share.held_out and name not in self.split.held_out:
                raise ValueError(f"domains.{name}.held_out: split.held_out holds nothing of {name} out")
            if name in self.split.held_out and not share.held_out:
                raise ValueError(f"domains.{name}.held_out: part B needs episodes, or split.held_out no {name}")
        placed = [name for lane in self.lanes for name in lane]
        if strange := set(placed) - known:
            raise ValueError(f"lanes: {min(strange)} is not played")
        if len(placed) > len(set(placed)):
            raise ValueError("lanes: a domain stands twice")
        kinds = {"trajectories", *(source.kind for source in self.texts.values())}
        if kinds != set(self.weights):
            raise ValueError(f"weights: give one to each of {', '.join(sorted(kinds))}, which is what there is")
        if min(self.weights.values()) <= 0:
            raise ValueError("weights: a weight is above 0")
        return self

    def lane_list(self) -> list[list[DomainName]]:
        """The domains of each lane."""
        lanes: list[list[DomainName]] = [list(lane) for lane in self.lanes] or [[]]
        placed = {name for lane in lanes for name in lane}
        lanes[0] = [name for name in self.domains if name not in placed] + lanes[0]
        return [lane for lane in lanes if lane]


__all__ = ["Asking", "Cleaning", "Recipe", "Share", "TextSource"]
