"""What a build plays: the episodes of each side, and those of the tests again under other surroundings.

A seed belongs to one of the worlds of a domain, and a hash of both says on which side it is. So the sides are known
before anything is played, and what is held out of training is never played there.
"""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import anyio

from worldlm.cli.collect import Acting, Episode, exploring, plan_episodes, play, real_worlds, try_out
from worldlm.cli.console import progress, waiting
from worldlm.cli.data_build_stages import Stages, key_of
from worldlm.cli.signals import Signals, run
from worldlm.core.errors import InputError, SetupError, WorldlmError, nearest
from worldlm.core.jsonl import JsonlWriter, read_trajectories
from worldlm.core.types import DomainName, Trajectory, World
from worldlm.data.realturns.recipe import Recipe
from worldlm.data.steps.splits import Part, holds_out, side
from worldlm.real import make_environment
from worldlm.real.surroundings import PLACED, other_surroundings
from worldlm.rollout import Summary, is_done, replay
from worldlm.rollout.explorers import action_kinds

TRAINING, PART_A, PART_B = "training", "test-a", "test-b"
"""The sides: training (with validation), and what each test part is chosen from."""

FIGURES = ("recorded", "turns", "failed_turns", "unchanged_share", "unstable_turns", "families", "odd_share")
"""What is told of the episodes of a side."""

Wanted = list[tuple[World, int]]
"""Worlds with the seeds from which they are played."""
Sides = Mapping[str, Mapping[DomainName, Wanted]]
Advance = Callable[[], None]
Piece = Callable[[Advance], Awaitable[None]]
"""Something to be played, which tells of each episode."""


def sides_of(recipe: Recipe) -> dict[str, dict[DomainName, Wanted]]:
    """The episodes of each side. Raises InputError for a held-out kind that there is not, and for an empty part."""
    sides: dict[str, dict[DomainName, Wanted]] = {TRAINING: {}, PART_A: {}, PART_B: {}}
    for domain in recipe.domains:
        for name, wanted in _sides(recipe, domain).items():
            sides[name][domain] = wanted
    parts = {side(place, seed, recipe.split) for wanted in sides[TRAINING].values() for place, seed in wanted}
    for part in (Part.TRAIN, *([Part.VALIDATION] if recipe.split.validation else [])):
        if part not in parts:
            raise InputError(
                f"the part {part.value} would be empty: give more episodes, other shares in 'split', or another seed"
            )
    return sides


def _sides(recipe: Recipe, domain: DomainName) -> dict[str, Wanted]:
    worlds = real_worlds(domain)
    kinds = recipe.split.held_out.get(domain)
    for pattern in kinds.worlds if kinds else ():
        if not any(fnmatchcase(place.name, pattern) for place in worlds):
            hint = nearest(pattern, [place.name for place in worlds])
            raise InputError(f"split.held_out.{domain}: no world is called {pattern!r}; {hint}")
    without = held_labels(recipe, domain)
    held = [place for place in worlds if holds_out(place, recipe.split)]
    others = [place for place in worlds if not holds_out(place, recipe.split)]
    if not others:
        raise InputError(f"split.held_out.{domain}: every world is held out; leave one to train in")
    if kinds and not (held or without):
        raise InputError(f"split.held_out.{domain}: name worlds or labels; words alone cannot be kept out of playing")
    sides: dict[str, Wanted] = {TRAINING: [], PART_A: [], PART_B: []}
    share = recipe.domains[domain]
    room = {TRAINING: share.episodes, PART_A: share.tests, PART_B: share.held_out}

    def take(name: str, place: World, seed: int) -> bool:
        if len(sides[name]) >= room[name]:
            return False
        sides[name].append((place, seed))
        return True

    for seed in count(recipe.seed):
        place = others[seed % len(others)]
        if side(place, seed, recipe.split) is not Part.TEST_A:
            take(TRAINING, place, seed)
        elif not take(PART_A, place, seed) and not held:
            take(PART_B, place, seed)
        if held and side(place := held[seed % len(held)], seed, recipe.split) is Part.TEST_A:
            take(PART_B, place, seed)
        if all(len(sides[name]) == most for name, most in room.items()):
            return sides
    raise AssertionError("a side has episodes without end")


def held_labels(recipe: Recipe, domain: DomainName) -> frozenset[str]:
    """What the explorer of a domain must not do, so that training loses nothing to what is held out.

    Raises InputError for a label that it does not know, or cannot leave out.
    """
    kinds = recipe.split.held_out.get(domain)
    if not kinds or not kinds.labels:
        return frozenset()
    place = f"split.held_out.{domain}.labels"
    known = action_kinds(domain)
    if not known:
        raise InputError(f"{place}: the explorer of {domain} cannot leave out kinds of actions; hold out worlds there")
    for pattern in kinds.labels:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise InputError(f"{place}: no kind is called {pattern!r}; {nearest(pattern, known)}")
    return frozenset(name for name in known if any(fnmatchcase(name, pattern) for pattern in kinds.labels))


def require_surroundings(recipe: Recipe) -> None:
    """Raises SetupError where the tests' turns could not be played again under other surroundings."""
    for domain in recipe.domains:
        if domain in PLACED:
            for around in other_surroundings(real_worlds(domain)[0]):
                around.variables()


class Again(NamedTuple):
    """A trajectory to be played again."""

    trajectory: Trajectory
    """As far as it is asked about."""
    world: World
    number: int
    """Which of the other surroundings."""
    name: str
    """Its id."""


@dataclass
class Plays:
    """What is played for a build, in files under `played/`."""

    recipe: Recipe
    stages: Stages
    sides: Sides

    def file(self, name: str, domain: DomainName) -> Path:
        """Where the episodes of a side (or the replays) lie."""
        return self.stages.path("played", name, f"{domain}.jsonl")

    def acting(self, name: str, domain: DomainName) -> Acting:
        """What acts in the episodes of a side: only for part B it may do what is held out."""
        without = frozenset[str]() if name == PART_B else held_labels(self.recipe, domain)
        return exploring(domain, self.recipe.domains[domain].turns, without)

    def collect(self) -> None:
        """Play the episodes that are missing. Raises SetupError for a world that cannot be started here."""
        lanes: list[list[Piece]] = []
        worlds: dict[DomainName, dict[str, World]] = {}
        missing = 0
        for names in self.recipe.lane_list():
            lanes.append([])
            for name in self.sides:
                for domain in names:
                    wanted = self.sides[name][domain]
                    acting, path = self.acting(name, domain), self.file(name, domain)
                    stage = f"play {name} {domain}"
                    key = key_of(stage, [acting.settings, [[place.name, seed] for place, seed in wanted]])
                    if not wanted or self.stages.is_done(stage, key, [path]):
                        continue
                    plan, _ = plan_episodes(path, wanted, acting.settings, resume=True)
                    missing += len(plan)
                    worlds.setdefault(domain, {}).update({each.world.name: each.world for each in plan})
                    lanes[-1].append(partial(self._play, name, domain, plan, stage, key))
        self._try_out(worlds)
        self._beside("playing", missing, lanes)

    async def _play(
        self, name: str, domain: DomainName, plan: Sequence[Episode], stage: str, key: str, advance: Advance
    ) -> None:
        acting = self.acting(name, domain)
        started = time.perf_counter()
        with JsonlWriter(self.file(name, domain)) as writer:

            def record(trajectory: Trajectory) -> None:
                writer.write(trajectory)
                advance()

            _, policy = acting.start()
            await play(plan, policy, acting.limits, self.recipe.domains[domain].concurrency, record)
        summary = Summary()
        for trajectory in self.episodes(name, domain):
            summary.add(trajectory)
        told = {key: value for key, value in summary.figures().items() if key in FIGURES}
        self.stages.finish(stage, key, told, time.perf_counter() - started)

    def _try_out(self, worlds: Mapping[DomainName, Mapping[str, World]]) -> None:
        """Start each world once. What is fetched or built once is there afterwards."""

        async def work(signals: Signals) -> dict[str, str]:
            refused: dict[str, str] = {}
            for domain, mine in worlds.items():
                refused |= await try_out(list(mine.values()), self.recipe.domains[domain].concurrency)
            return refused

        if not worlds:
            return
        with waiting("starting each world once"):
            refused = run(work)
        if refused:
            name, why = next(iter(refused.items()))
            more = f" ({len(refused) - 1} more worlds cannot be started either)" if len(refused) > 1 else ""
            raise SetupError(f"world {name} cannot be started: {why}{more}; or give a recipe without its domain")

    def _beside(self, what: str, episodes: int, lanes: Sequence[Sequence[Piece]]) -> None:
        """Play the lanes beside each other, and in each one piece after another. Raises the first error there is."""
        failed: list[WorldlmError] = []

        async def go(lane: Sequence[Piece], advance: Advance, scope: anyio.CancelScope) -> None:
            try:
                for piece in lane:
                    await piece(advance)
            except WorldlmError as error:
                failed.append(error)
                scope.cancel()

        async def work(signals: Signals) -> None:
            with progress(what, episodes, hidden=self.stages.hidden) as advance:
                async with anyio.create_task_group() as group:
                    for lane in lanes:
                        group.start_soon(go, lane, advance, group.cancel_scope)

        if any(lanes):
            run(work)
        if failed:
            raise failed[0]

    def episodes(self, name: str, domain: DomainName) -> Iterator[Trajectory]:
        """The episodes of a side that are done, as they were played, in the order of the recipe."""
        path, wanted = self.file(name, domain), self.sides[name][domain]
        if wanted:
            _, ids = plan_episodes(path, wanted, self.acting(name, domain).settings, resume=True)
            found = {each.origin.seed: each for each in read_trajectories(path).items if each.id in ids}
            yield from (found[seed] for _, seed in wanted if seed in found)

    def again(self, lengths: Mapping[str, int]) -> dict[str, list[Trajectory]]:
        """Replays of the first so many turns of these episodes of the test sides, by the ids of both.

        Those that were played before are not played again.
        """
        found: dict[str, list[Trajectory]] = {}
        lanes: list[list[Piece]] = []
        missing = 0
        for names in self.recipe.lane_list():
            lanes.append([])
            for domain in names:
                path = self.file("again", domain)
                there = {each.id: each for each in (read_trajectories(path).items if path.is_file() else ())}
                jobs = []
                for job in self._jobs(domain, lengths):
                    if job.name in there:
                        found.setdefault(job.trajectory.id, []).append(there[job.name])
                    else:
                        jobs.append(job)
                missing += len(jobs)
                if jobs:
                    lanes[-1].append(partial(self._play_again, domain, jobs, path, found))
        self._beside("playing again", missing, lanes)
        return found

    def _jobs(self, domain: DomainName, lengths: Mapping[str, int]) -> Iterator[Again]:
        for name in (PART_A, PART_B):
            places = {seed: place for place, seed in self.sides[name][domain]}
            for played in self.episodes(name, domain):
                if (turns := lengths.get(played.id, 0)) and played.origin.seed in places:
                    place = places[played.origin.seed]
                    short = played.model_copy(update={"turns": played.turns[:turns]})
                    for number in range(len(other_surroundings(place))):
                        yield Again(short, place, number, f"{played.id}.{turns}.{number}")

    async def _play_again(
        self,
        domain: DomainName,
        jobs: Sequence[Again],
        path: Path,
        found: dict[str, list[Trajectory]],
        advance: Advance,
    ) -> None:
        queue = iter(jobs)
        failed: list[WorldlmError] = []
        with JsonlWriter(path) as writer:

            async def worker(scope: anyio.CancelScope) -> None:
                try:
                    for job in queue:
                        environment = make_environment(job.world, other_surroundings(job.world)[job.number])
                        played = await replay(job.trajectory, environment, name=job.name)
                        if is_done(played):
                            writer.write(played)
                        found.setdefault(job.trajectory.id, []).append(played)
                        advance()
                except WorldlmError as error:
                    failed.append(error)
                    scope.cancel()

            async with anyio.create_task_group() as group:
                for _ in range(self.recipe.domains[domain].concurrency):
                    group.start_soon(worker, group.cancel_scope)
        if failed:
            raise failed[0]


__all__ = ["PART_A", "PART_B", "TRAINING", "Plays", "Sides", "held_labels", "require_surroundings", "sides_of"]
