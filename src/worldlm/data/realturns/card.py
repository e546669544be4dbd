"""The data card: a build's figures as Markdown.

`python -m worldlm.data.realturns.card CARD.json PAGE.md` puts it between the marks of a page.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from worldlm.core.errors import InputError
from worldlm.core.types import Trajectory
from worldlm.data.classes import TURN_CLASSES
from worldlm.data.content import ContentClass
from worldlm.data.markdown import Cells, marks, put_between, table
from worldlm.data.realturns.parts import asked_turns, overlap, part_figures
from worldlm.data.realturns.recipe import Recipe
from worldlm.data.stats import NO_LANGUAGE, Stats
from worldlm.data.steps.records import corpus_files, read_record, read_shard
from worldlm.data.steps.splits import Part
from worldlm.domains import get_domain

BEGIN, END = marks("card")


def render_card(card: Mapping[str, Any]) -> str:
    """The card, without a heading of its own."""
    domains = list(card["domains"])
    parts = [name for name in ("train", "validation", "test-a", "test-b") if name in card["parts"]]
    sections = [
        "Turns by domain and part:",
        table(
            ["domain", *parts],
            [
                [domain, *(_count(card["parts"][part].get(domain, {}).get("turns")) for part in parts)]
                for domain in domains
            ]
            + [["all", *(_count(sum(each["turns"] for each in card["parts"][part].values())) for part in parts)]],
        ),
        "Trajectories by domain and part:",
        table(
            ["domain", *parts],
            [
                [domain, *(_count(card["parts"][part].get(domain, {}).get("trajectories")) for part in parts)]
                for domain in domains
            ],
        ),
        "Training, turn classes as shares of the turns with an observation, and tokens of an observation:",
        table(
            ["domain", *TURN_CLASSES, "trained by default", "median", "p90", "cut", "failed turns"],
            [_classes(domain, card["domains"][domain]) for domain in domains],
        ),
        "Tests, content classes:",
        table(
            ["domain", "part", *ContentClass, "kinds of actions", "worlds"],
            [
                [
                    domain,
                    part.removeprefix("test-").upper(),
                    *(_count(mine["content"].get(kind)) for kind in ContentClass),
                    _count(mine["kinds_of_actions"]),
                    _count(len(mine["worlds"])),
                ]
                for domain in domains
                for part in parts
                if part.startswith("test") and (mine := card["parts"][part].get(domain))
            ],
        ),
    ]
    if played := card.get("replays"):
        sections += [
            "Reproducibility: turns of the test side, played again three times under another clock, with other process "
            "ids and another host name:",
            table(
                ["domain", "turns", "same in all replays", "differ", "a replay departed"],
                [_replayed(domain, played[domain]) for domain in domains if domain in played],
            ),
        ]
    sections += [
        "Sources and licences of the trajectories:",
        table(
            ["domain", "source", "licence", "trajectories"],
            [
                [domain, source["source"], source["licence"] or "not stated", _count(source["trajectories"])]
                for domain in domains
                for source in card["domains"][domain]["sources"]
            ],
        ),
    ]
    if card["texts"]:
        sections += [
            "Texts:",
            table(
                ["collection", "kind", "version", "licence", "documents", "characters"],
                [
                    [
                        name,
                        text["kind"],
                        text["version"] or "not stated",
                        text["licence"],
                        _count(text["documents"]),
                        _count(text["characters"]),
                    ]
                    for name, text in card["texts"].items()
                ],
            ),
        ]
    if card["held_out"]:
        rows = [[domain, ", ".join(f"`{kind}`" for kind in kinds)] for domain, kinds in card["held_out"].items()]
        sections += ["Held out of training, for part B:", table(["domain", "kinds"], rows)]
    gap = card["overlap"]
    sections.append(
        f"Overlap: of {_count(gap['test_runs'])} runs of {gap['words']} words in the asked turns, "
        f"{_count(gap['runs_in_training'])} stand in training, and {_count(gap['common_runs'])} that are common "
        f"({gap['common']})."
    )
    if card["shortfalls"]:
        sections.append("Short of the recipe: " + "; ".join(card["shortfalls"]) + ".")
    return "\n\n".join(sections) + "\n"


def card_figures(
    recipe: Recipe,
    parts: Mapping[str, Path],
    tests: Mapping[str, Sequence[Path]],
    *,
    cut: Mapping[str, float],
    common: Sequence[str],
) -> dict[str, Any]:
    """What the files of a data set hold: its card, as far as the files tell it.

    `parts`: the files of training and validation; `cut`: by domain, the share of observations that were cut; `common`:
    the runs of words that decontamination passed over.
    """
    asked = [path for part in tests.values() for path in part]
    stats = Stats(language=lambda _: NO_LANGUAGE)
    sources: dict[str, Counter[tuple[str, str]]] = {}
    counted: dict[str, dict[str, Any]] = {}
    for part, path in parts.items():
        for trajectory in _trajectories(path):
            domain, origin = trajectory.world.domain, trajectory.origin
            mine = counted.setdefault(part, {}).setdefault(domain, {"trajectories": 0, "turns": 0})
            mine["trajectories"] += 1
            mine["turns"] += len(trajectory.turns)
            name = f"{origin.source} {origin.version}".strip()
            sources.setdefault(domain, Counter())[name, origin.licence] += 1
            if part == Part.TRAIN:
                stats.add(trajectory, get_domain(domain))
    counted |= {f"test-{part}": part_figures(files) for part, files in tests.items() if files}
    leaks = recipe.leaks
    gap = overlap(
        lambda: (each for path in parts.values() for each in _trajectories(path)),
        lambda: asked_turns(asked),
        leaks,
        common,
    )
    most = f"in at least {leaks.common} training records"
    most += f" and {leaks.common_share:.0%} of them" if leaks.common_share else ""
    return {
        "name": recipe.name,
        "domains": {
            domain: _domain(kind.figures(), cut.get(domain), sources[domain]) for domain, kind in stats.domains.items()
        },
        "parts": counted,
        "held_out": {
            domain: [*kinds.worlds, *kinds.labels, *kinds.words] for domain, kinds in recipe.split.held_out.items()
        },
        "overlap": {**gap, "words": leaks.n, "common": most if leaks.common else "none are"},
        "shortfalls": list(_shortfalls(recipe, counted)),
    }


def _trajectories(path: Path) -> Iterator[Trajectory]:
    for line in read_shard(corpus_files([path]), 0, 1):
        record = read_record(line.data)
        if isinstance(record, Trajectory):
            yield record


def _domain(figures: Mapping[str, Any], cut: float | None, sources: Counter[tuple[str, str]]) -> dict[str, Any]:
    kept = ("class_shares", "trained_share", "observation_tokens", "action_tokens")
    return {
        **{key: figures[key] for key in kept},
        "failed_share": sum(figures["failed_turns"].values()) / figures["turns"] if figures["turns"] else None,
        "cut_share": cut,
        "sources": [
            {"source": source, "licence": licence, "trajectories": number}
            for (source, licence), number in sorted(sources.items())
        ],
    }


def _shortfalls(recipe: Recipe, counted: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Where there is less than the recipe wants."""
    turns = sum(each["turns"] for each in counted[Part.TRAIN].values())
    if turns < recipe.least_turns:
        yield f"{turns:,} training turns, and {recipe.least_turns:,} are wanted"
    wanted = [("test-a", domain, recipe.tests.least_a) for domain in recipe.domains]
    wanted += [("test-b", domain, recipe.tests.least_b) for domain in recipe.split.held_out]
    for part, domain, least in wanted:
        mine = counted.get(part, {}).get(domain, {}).get("turns", 0)
        if mine < least:
            yield f"{part} asks of {mine} turns in {domain}, and {least} are wanted"


def put_card(page: str, card: Mapping[str, Any]) -> str:
    """The page with the card between its marks. Raises InputError where it has none."""
    return put_between(page, "card", render_card(card))


def _classes(domain: str, mine: Mapping[str, Any]) -> Cells:
    tokens = mine["observation_tokens"]
    return [
        domain,
        *(_percent(mine["class_shares"][name]) for name in TURN_CLASSES),
        _percent(mine["trained_share"]),
        _count(tokens["median"]),
        _count(tokens["p90"]),
        _percent(mine["cut_share"]),
        _percent(mine["failed_share"]),
    ]


def _replayed(domain: str, mine: Mapping[str, int]) -> Cells:
    turns = sum(mine.values())
    same = mine.get(ContentClass.DETERMINISTIC, 0) + mine.get(ContentClass.PRE_EXISTING, 0)
    differ = mine.get(ContentClass.METADATA, 0)
    return [domain, _count(turns), *(_percent(part / turns) for part in (same, differ, turns - same - differ))]


def _count(number: float | None) -> str:
    return "–" if number is None else f"{number:,.0f}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def main(arguments: Sequence[str]) -> int:
    """Put the card of a build into a page."""
    try:
        card, page = (Path(name) for name in arguments)
        page.write_text(put_card(page.read_text("utf-8"), json.loads(card.read_text("utf-8"))), "utf-8")
    except (ValueError, OSError, InputError) as error:
        print(f"usage: python -m worldlm.data.realturns.card CARD.json PAGE.md ({error})", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
