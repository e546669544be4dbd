"""Mixtures: how much of each source, which records of it, and in what order.

The share of a source is its weight to the power 1/temperature, over the sum of all: a temperature above 1 gives small
sources more. Without weights a source weighs what it holds. All is measured in characters of text, because records
differ in length by orders of magnitude. Which records are taken, and their order, follow from the seed alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray
from pydantic import Field, model_validator

from worldlm.core.errors import InputError
from worldlm.core.types import Text, Value
from worldlm.data.steps.ngrams import scramble


class Ingredient(Value):
    """One source of a mixture: either records, or documents."""

    path: Text | None = None
    """A file of records, or a folder of them."""
    documents: Text | None = None
    """A file or folder of documents (HTML, Markdown, manual pages, dictionaries, …), or the name of a collection."""
    weight: float | None = Field(default=None, gt=0)
    licence: Text = ""
    """Of the documents."""

    @model_validator(mode="after")
    def _has_one(self) -> "Ingredient":
        if (self.path is None) == (self.documents is None):
            raise ValueError("a source has either a 'path' of records or 'documents'")
        return self


class Recipe(Value):
    """A mixture."""

    sources: Mapping[Text, Ingredient] = Field(min_length=1)
    seed: int = 0
    temperature: float = Field(default=1.0, gt=0)
    total: int | None = Field(default=None, ge=1)
    """Characters of the whole; None: as many as can be had without repeating a source more than `repeat` times."""
    repeat: float = Field(default=1.0, gt=0)
    """How often a source may be gone through, at most."""

    @model_validator(mode="after")
    def _weighs_all_or_none(self) -> "Recipe":
        without = [name for name, source in self.sources.items() if source.weight is None]
        if without and len(without) < len(self.sources):
            raise ValueError(f"source {without[0]!r} has no 'weight', and others have one: give all a weight, or none")
        return self


def shares(recipe: Recipe, sizes: Mapping[str, int]) -> dict[str, float]:
    """The share of each source. They sum to 1."""
    powers = {
        name: (source.weight or sizes[name]) ** (1 / recipe.temperature) for name, source in recipe.sources.items()
    }
    whole = sum(powers.values())
    return {name: power / whole for name, power in powers.items()}


def quotas(recipe: Recipe, sizes: Mapping[str, int]) -> dict[str, int]:
    """How many characters of each source are taken.

    Raises InputError when a source holds nothing, or less than its part of the total.
    """
    if empty := [name for name in recipe.sources if not sizes[name]]:
        raise InputError(f"source {empty[0]!r} holds nothing; leave it out, or name another path")
    parts = shares(recipe, sizes)
    most = {name: recipe.repeat * sizes[name] / part for name, part in parts.items()}
    scarce = min(most, key=lambda name: most[name])
    total = most[scarce] if recipe.total is None else recipe.total
    if total > most[scarce] + 1:
        raise InputError(
            f"{total:.0f} characters need {parts[scarce] * total:.0f} of source {scarce!r}, which has {sizes[scarce]}; "
            f"ask for {most[scarce]:.0f} in all at most, give it less weight, or raise 'repeat' above {recipe.repeat:g}"
        )
    return {name: round(part * total) for name, part in parts.items()}


def _order(count: int, *key: object) -> NDArray[np.intp]:
    """The numbers below `count` in an order that `key` alone decides."""
    start = np.uint64(xxhash.xxh3_64_intdigest(":".join(map(str, key))))
    return np.argsort(scramble(np.arange(count, dtype=np.uint64) + start), kind="stable")


def choose(sizes: NDArray[np.int64], quota: int, seed: int, name: str) -> NDArray[np.intp]:
    """The numbers of the records of a source that are taken: whole rounds of all, and a sample that fills the quota.

    What is taken is not longer than the quota, but for one record where none is as short.
    """
    rounds, left = divmod(quota, int(sizes.sum()))
    order = _order(len(sizes), seed, name)
    fitting = int(np.searchsorted(np.cumsum(sizes[order]), left, side="right"))
    if not rounds and not fitting:
        fitting = 1
    return np.concatenate([*[np.arange(len(sizes))] * rounds, order[:fitting]])


@dataclass(frozen=True, slots=True)
class Choice:
    """The records of a mixture, in its order."""

    source: NDArray[np.int64]
    """The number of each record's source."""
    record: NDArray[np.int64]
    """Its number in the source."""


def mix(recipe: Recipe, sizes: Mapping[str, NDArray[np.int64]]) -> Choice:
    """Which records of each source are taken, and in what order. `sizes`: the characters of each record of a source."""
    wanted = quotas(recipe, {name: int(each.sum()) for name, each in sizes.items()})
    names: Sequence[str] = list(recipe.sources)
    taken = [choose(sizes[name], wanted[name], recipe.seed, name) for name in names]
    source = np.repeat(np.arange(len(names)), [len(each) for each in taken])
    record = np.concatenate(taken)
    order = _order(len(record), recipe.seed, "order")
    return Choice(source[order].astype(np.int64), record[order].astype(np.int64))


__all__ = ["Choice", "Ingredient", "Recipe", "choose", "mix", "quotas", "shares"]
