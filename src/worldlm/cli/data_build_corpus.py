"""What a build makes of what was played: test parts, training, validation, texts, the mixture and the card."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from worldlm.cli.console import note, progress, waiting
from worldlm.cli.data_build_play import PART_A, PART_B, TRAINING, Plays
from worldlm.cli.data_build_stages import Stages, plain, records, told, whole
from worldlm.cli.texts import text_records
from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.jsonl import JsonlWriter
from worldlm.core.text import digest
from worldlm.core.types import DomainName, Trajectory
from worldlm.data.cleaning import Cleaning, Scrubber, clean
from worldlm.data.content import common_language
from worldlm.data.realturns import TEST_PARTS
from worldlm.data.realturns.card import card_figures, render_card
from worldlm.data.realturns.choosing import Candidate, Seen, candidates, choose, with_contents
from worldlm.data.realturns.parts import asked_turns, write_part
from worldlm.data.realturns.recipe import Recipe
from worldlm.data.report import Losses
from worldlm.data.steps import run as steps
from worldlm.data.steps.mixture import Ingredient
from worldlm.data.steps.mixture import Recipe as Mixture
from worldlm.data.steps.quality import refine
from worldlm.data.steps.records import TextRecord
from worldlm.data.steps.splits import Part, assign, held_turns
from worldlm.retrieval import Source
from worldlm.retrieval.collections import COLLECTIONS, collection_sources, collection_version

TestFiles = Mapping[str, Sequence[Path]]
"""The files of each test part."""
SIDES = {"a": PART_A, "b": PART_B}


def documents_of(recipe: Recipe) -> dict[str, list[Source]]:
    """The collections of a recipe, by kind. Raises InputError, SetupError for one that cannot be had."""
    found: dict[str, list[Source]] = {}
    for source in collection_sources(list(recipe.texts)):
        found.setdefault(recipe.texts[source.name].kind, []).append(source)
    return found


def build(
    stages: Stages, recipe: Recipe, plays: Plays, brought: TestFiles | None, documents: Mapping[str, Sequence[Source]]
) -> dict[str, Any]:
    """Everything, to the card. `brought`: the test parts, where they are not to be chosen."""
    plays.collect()
    cleaned = clean_side(stages, recipe, plays, TRAINING)
    kept, unique, apart = (stages.path("between", f"{name}.jsonl") for name in ("kept", "unique", "apart"))
    losses = {
        "filter": stages.run(
            "filter",
            plain(recipe.rules),
            [cleaned],
            [kept],
            lambda: told(steps.filter_quality([cleaned], kept, recipe.rules, stages.execution)),
        ),
        "dedup": stages.run(
            "dedup",
            plain(recipe.duplicates),
            [kept],
            [unique],
            lambda: told(steps.remove_duplicates([kept], unique, recipe.duplicates, stages.execution)),
        ),
    }
    tests = brought or choose_tests(stages, recipe, plays, unique)
    losses["decontaminate"] = decontaminate(stages, recipe, "decontaminate", unique, tests, apart)
    parts = part(stages, recipe, apart)
    texts = {kind: text(stages, recipe, kind, sources, tests, losses) for kind, sources in sorted(documents.items())}
    mix(stages, recipe, {"trajectories": parts["train"], **texts})
    return card(stages, recipe, parts, tests, losses)


# Cleaning.


def cleaner(recipe: Recipe) -> Cleaning:
    """What cleans, with counts of its own."""
    settings = recipe.cleaning
    scrubber = Scrubber(settings.key.encode(), frozenset(settings.leave))
    return Cleaning(scrubber=scrubber, max_tokens=settings.max_tokens)


def clean_side(stages: Stages, recipe: Recipe, plays: Plays, side: str) -> Path:
    """The episodes of a side that are done, cleaned, in the order of the recipe."""
    output = stages.path("between", f"{side}.jsonl")
    wanted = {domain: [seed for _, seed in each] for domain, each in plays.sides[side].items() if each}

    def work() -> dict[str, Any]:
        figures: dict[str, Any] = {}
        with whole(output) as [writer], progress("cleaning", None, hidden=stages.hidden) as advance:
            for domain in wanted:
                cleaning = cleaner(recipe)
                for trajectory in plays.episodes(side, domain):
                    writer.write(clean(trajectory, cleaning))
                    advance()
                counts = {"observations": cleaning.observations, "cut": cleaning.cut}
                figures[domain] = {**counts, "losses": cleaning.losses.to_json()}
        return figures

    inputs = [plays.file(side, domain) for domain in wanted]
    stages.run(f"clean {side}", [plain(recipe.cleaning), wanted], inputs, [output], work, shows=True)
    return output


# The test parts.

Pools = dict[tuple[str, DomainName], list[Candidate]]
"""Candidates by test part and domain."""


def choose_tests(stages: Stages, recipe: Recipe, plays: Plays, unique: Path) -> TestFiles:
    """Choose the test parts and write them: turns that training does not show, each with its content class."""
    cleaned = {part: clean_side(stages, recipe, plays, side) for part, side in SIDES.items()}
    settings = [plain(each) for each in (recipe.tests, recipe.rules, recipe.split, recipe.leaks)]
    files = {part: stages.path(f"test-{part}") for part in TEST_PARTS}

    def work() -> dict[str, Any]:
        with waiting("looking for turns to ask about"):
            seen = Seen.of(lambda: records(unique), recipe.leaks)
        why: dict[str, Counter[str]] = {}
        pools = {
            (part, domain): choose(
                pool, _wanted(recipe, part, spare=True), 2 * recipe.tests.per_trajectory, recipe.tests
            )
            for part, path in cleaned.items()
            for domain, pool in _pool(recipe, part, path, seen, why).items()
        }
        lengths: dict[str, int] = {}
        for each in (each for pool in pools.values() for each in pool):
            lengths[each.trajectory.id] = max(lengths.get(each.trajectory.id, 0), each.turn + 1)
        again = plays.again(lengths)
        replays: dict[str, Counter[str]] = {}
        written: dict[str, list[str]] = {part: [] for part in TEST_PARTS}
        for domain in recipe.domains:
            common, cleaning = common_language(_of_domain(unique, domain)), cleaner(recipe)
            for part in TEST_PARTS:
                path = files[part] / f"{domain}_test.jsonl.xz"
                path.unlink(missing_ok=True)
                pool = pools.get((part, domain), [])
                twins = {
                    name: [clean(twin, cleaning) for twin in again.get(name, ())]
                    for name in {each.trajectory.id for each in pool}
                }
                found = with_contents(pool, twins, common, replays.setdefault(domain, Counter()))
                chosen = choose(found, _wanted(recipe, part), recipe.tests.per_trajectory, recipe.tests)
                if chosen:
                    write_part(chosen, part, path)
                    written[part].append(path.name)
        if not written["a"]:
            raise InputError("test part A is empty: give more episodes to 'tests', or ask less of a turn in 'tests'")
        counts = {name: dict(each.most_common()) for name, each in why.items()}
        return {"written": written, "replays": {name: dict(each) for name, each in replays.items()}, "refused": counts}

    name, inputs = "tests", [unique, *cleaned.values()]
    before = stages.figures(name)["written"] if name in stages.done else {}
    outputs = [files[part] / path for part, paths in before.items() for path in paths]
    done = stages.run(name, settings, inputs, outputs, work, shows=True)
    return {part: [files[part] / path for path in paths] for part, paths in done["written"].items()}


def _wanted(recipe: Recipe, part: str, *, spare: bool = False) -> int:
    wanted = recipe.tests.part_a if part == "a" else recipe.tests.part_b
    return math.ceil(wanted * recipe.tests.spare) if spare else wanted


def _pool(
    recipe: Recipe, part: str, cleaned: Path, seen: Seen, why: dict[str, Counter[str]]
) -> dict[DomainName, list[Candidate]]:
    """The candidates by domain; `why` counts the turns that are none, by part and domain."""
    found: dict[DomainName, list[Candidate]] = {}
    for record in records(cleaned) if cleaned.stat().st_size else ():
        kept = refine(record, recipe.rules, Losses())
        if not isinstance(kept, Trajectory):
            continue
        turns = [number for number, _ in held_turns(kept, recipe.split)] if part == "b" else None
        domain = kept.world.domain
        losses = why.setdefault(f"test-{part} {domain}", Counter())
        found.setdefault(domain, []).extend(candidates(kept, turns, recipe.tests, seen, losses))
    return found


def _of_domain(path: Path, domain: DomainName) -> Iterator[Trajectory]:
    for record in records(path):
        if isinstance(record, Trajectory) and record.world.domain == domain:
            yield record


# Training.


def decontaminate(
    stages: Stages, recipe: Recipe, name: str, source: Path, tests: TestFiles, output: Path
) -> dict[str, Any]:
    """Take out of records what the tests ask for."""
    asked = [path for part in TEST_PARTS for path in tests[part]]
    leaks = recipe.leaks
    done: dict[str, Any] = stages.run(
        name,
        plain(leaks),
        [source, *asked],
        [output],
        lambda: told(steps.remove_leaks([source], lambda: asked_turns(asked), output, leaks, stages.execution)),
    )
    return done


def part(stages: Stages, recipe: Recipe, source: Path) -> dict[str, Path]:
    """Training and validation. Raises InputError for an empty part, WorldlmError where what is held out was played."""
    names = [Part.TRAIN, *([Part.VALIDATION] if recipe.split.validation else [])]
    outputs = [stages.path(f"{name.value}.jsonl") for name in names]

    def work() -> dict[str, int]:
        losses = Losses()
        counts: Counter[str] = Counter()
        with whole(*outputs) as writers:
            by_part = dict(zip(names, writers, strict=True))
            for record in records(source):
                assigned = assign(record, recipe.split, losses)
                if losses.reasons or assigned is None or assigned[0] not in by_part:
                    raise WorldlmError(f"{record.id} shows what is held out, and its explorer was to leave that out")
                by_part[assigned[0]].write(record)
                counts[assigned[0].value] += 1
            for name in names:
                if not counts[name.value]:
                    raise InputError(f"the part {name.value} is empty: give more episodes, or other shares")
        return dict(counts)

    stages.run("part", plain(recipe.split), [source], outputs, work)
    return {name.value: path for name, path in zip(names, outputs, strict=True)}


def text(
    stages: Stages,
    recipe: Recipe,
    kind: str,
    sources: Sequence[Source],
    tests: TestFiles,
    losses: dict[str, Any],
) -> Path:
    """The texts of a kind, without what the tests ask for."""
    read, output = stages.path("between", f"{kind}.jsonl"), stages.path("text", f"{kind}.jsonl")

    def work() -> dict[str, Any]:
        with whole(read) as [writer]:
            return {source.name: _take(recipe, source, writer) for source in sources}

    settings = [[source.name, collection_version(source.name), plain(recipe.texts[source.name])] for source in sources]
    stages.run(f"read {kind}", [recipe.seed, settings], [], [read], work)
    losses[f"decontaminate {kind}"] = decontaminate(stages, recipe, f"decontaminate {kind}", read, tests, output)
    return output


def _take(recipe: Recipe, source: Source, writer: JsonlWriter) -> dict[str, int]:
    """Write documents of a collection, as many as the recipe says, in a seeded order."""
    most = recipe.texts[source.name].characters
    found: dict[str, TextRecord] = {}
    licence = COLLECTIONS[source.name].licence
    for record in text_records(source, licence, lambda problem: note(f"source {source.name!r}: {problem}")):
        found.setdefault(digest(str(recipe.seed), record.id), record)
    documents = characters = 0
    for _, record in sorted(found.items(), key=lambda item: item[0]):
        if characters + len(record.text) <= most:
            writer.write(record)
            documents += 1
            characters += len(record.text)
    if not documents:
        raise InputError(f"texts.{source.name}: no document can be read that is not longer than {most} characters")
    return {"documents": documents, "characters": characters}


def mix(stages: Stages, recipe: Recipe, sources: Mapping[str, Path]) -> None:
    """The mixture of training trajectories and texts."""
    mixture = Mixture(
        sources={name: Ingredient(path=path.name, weight=recipe.weights[name]) for name, path in sources.items()},
        seed=recipe.seed,
    )
    output = stages.path("mixed.jsonl")
    paths = {name: [path] for name, path in sources.items()}
    stages.run(
        "mix",
        plain(mixture),
        list(sources.values()),
        [output],
        lambda: told(steps.mix_sources(mixture, paths, output, stages.execution)),
    )


# The card.


def card(
    stages: Stages, recipe: Recipe, parts: Mapping[str, Path], tests: TestFiles, losses: Mapping[str, Any]
) -> dict[str, Any]:
    """Count everything, and write the card."""
    asked = [path for part in TEST_PARTS for path in tests[part]]
    outputs = [stages.path("card.json"), stages.path("card.md")]
    cleaned = stages.figures(f"clean {TRAINING}")
    texts = {
        name: {
            "kind": source.kind,
            "licence": COLLECTIONS[name].licence,
            "version": collection_version(name),
            **stages.figures(f"read {source.kind}")[name],
        }
        for name, source in recipe.texts.items()
    }
    chosen = stages.done.get("tests", {}).get("figures", {})
    mine = bool(tests["a"]) and tests["a"][0].parent == stages.path("test-a")

    def work() -> dict[str, Any]:
        figures = card_figures(
            recipe,
            parts,
            tests,
            cut={
                domain: each["cut"] / each["observations"] for domain, each in cleaned.items() if each["observations"]
            },
            common=[run["words"] for run in losses["decontaminate"]["figures"]["common_runs"]],
        )
        figures |= {
            "texts": texts,
            "replays": chosen["replays"] if mine else {},
            "losses": {name: each["losses"] for name, each in losses.items()},
            "played": {
                name.removeprefix("play "): line["figures"]
                for name, line in stages.done.items()
                if name.startswith("play ")
            },
        }
        outputs[0].write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n", "utf-8")
        outputs[1].write_text(f"# {recipe.name}\n\n{render_card(figures)}", "utf-8")
        return figures

    figures: dict[str, Any] = stages.run("card", plain(recipe), [*parts.values(), *asked], outputs, work)
    return figures
