"""Small questions about training, each answered by short runs that differ in one thing.

A file of questions (`configs/ablations/*.yaml`) names the run that all its rows share, what each row has in its place,
and the benchmark on which a fixed part of the turns is asked. Equal rows of several questions are one run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from worldlm.core.errors import InputError
from worldlm.core.text import canonical_json, digest
from worldlm.core.types import DomainName, JsonObject, Text, Value
from worldlm.data.markdown import table
from worldlm.data.settings import YAML_ERRORS, settings, yaml_problem
from worldlm.train.card import Score
from worldlm.train.forgetting import Estimate
from worldlm.train.settings import Run


class Variant(Value):
    """A row of the table: a run."""

    settings: JsonObject = Field(default_factory=dict)
    """What it has in place of the shared run's settings, nested as these are."""
    families: int | None = Field(default=None, ge=1)
    """Its sessions are played anew, with so many families of terminal commands and no others."""


class Ablation(Value):
    """A question."""

    question: Text
    run: Text
    """The file of settings that all rows share."""
    benchmark: Text = "realturns-a"
    turns: int = Field(default=200, ge=1)
    """That are asked: the same for every row."""
    domains: tuple[DomainName, ...] = ()
    """All that is trained and asked; none: all there is."""
    thinking: bool = False
    """Whether thinking is derived for what is trained, by a program."""
    rows: Mapping[Text, Variant] = Field(min_length=1)


class Row(Value):
    """What came of a variant."""

    question: Text
    name: Text
    seed: int
    tokens: int
    """Read in training."""
    targets: int
    """Of them, those that were trained."""
    score: Score
    reply_tokens: float
    """Of a reply, the mean."""
    text: Estimate | None
    """Perplexity on held-out general text, by the base's."""


def run_of(ablation: Ablation, name: str, files: Sequence[Path] = ()) -> Run:
    """The run of a row; `files` stand in the place of its data.

    Its name is the same for equal settings. Raises InputError that names the key that is wrong.
    """
    path = Path(ablation.run)
    try:
        shared = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    except YAML_ERRORS as error:
        raise InputError(f"{path} is {yaml_problem(error)}") from error
    if not isinstance(shared, dict):
        raise InputError(f"{path} holds no mapping")
    value = merged(shared, ablation.rows[name].settings)
    if files:
        value = merged(value, {"data": {"files": [str(file) for file in files]}})
    value |= {"name": f"run-{digest(canonical_json({**value, 'name': None}))[:10]}"}
    return settings(value, Run, f"{path} with {ablation.question!r}, {name!r}")


def merged(value: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping with another over it, mappings in both likewise."""
    nested = {
        key: merged(value[key], each)
        for key, each in over.items()
        if isinstance(each, Mapping) and isinstance(value.get(key), Mapping)
    }
    return {**value, **over, **nested}


def chosen_families(known: Iterable[str], wanted: int, seed: int = 0) -> list[str]:
    """So many of the families, in an order that hangs on names and seed: more of them hold the fewer.

    Raises InputError where there are not so many.
    """
    ordered = sorted(known, key=lambda name: digest("family", str(seed), name))
    if wanted > len(ordered):
        raise InputError(f"{wanted} families are wanted, and there are {len(ordered)}")
    return ordered[:wanted]


def chosen_turns(keys: Mapping[str, str], wanted: int, seed: int = 0) -> list[str]:
    """Keys of the turns that are asked, of `keys` with the domain of each: as evenly over domains as may be.

    The same for the same keys, in whatever order.
    """
    left: dict[str, list[str]] = {}
    for key in sorted(keys, key=lambda key: digest("turn", str(seed), key), reverse=True):
        left.setdefault(keys[key], []).append(key)
    chosen: list[str] = []
    while len(chosen) < wanted and any(left.values()):
        for domain in sorted(left):
            if left[domain] and len(chosen) < wanted:
                chosen.append(left[domain].pop())
    return chosen


def render_rows(rows: Sequence[Row]) -> str:
    """All rows as one Markdown table."""
    head = ["question", "", "seed", "tokens read", "targets", "score", "tokens of a reply", "general text"]
    return table(head, _cells(rows)) + "\n"


def _cells(rows: Sequence[Row]) -> Iterator[Sequence[object]]:
    before = None
    for row in rows:
        score, text = row.score, row.text
        between = "" if score.low is None else f" [{score.low:.1f}, {score.high:.1f}]"
        yield (
            row.question if row.question != before else "",
            row.name,
            row.seed,
            f"{row.tokens:,}",
            f"{row.targets:,}",
            "–" if score.mean is None else f"{score.mean:.1f}{between} of {score.count}",
            f"{row.reply_tokens:.0f}",
            "–" if text is None or text.mean is None else f"× {text.mean:.3f}",
        )
        before = row.question


__all__ = [
    "Ablation",
    "Row",
    "Variant",
    "chosen_families",
    "chosen_turns",
    "merged",
    "render_rows",
    "run_of",
]
