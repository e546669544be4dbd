"""What real observations are made of, by domain: episodes of explorers, played again in other surroundings.

Prints the share of turns by content class, how many turns have no class, how many observations were the same in every
replay, how much of those that differ is free, and what a replay takes beside the episode. `--language` names an earlier
collection (a folder with DOMAIN.jsonl) from which the language of the environments is taken; without it the episodes
themselves stand in. `--show N` prints N turns of each class.
"""

import argparse
import time
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from statistics import mean

import anyio

from worldlm.core.errors import WorldlmError
from worldlm.core.jsonl import read_trajectories
from worldlm.core.types import DOMAIN_NAMES, DomainName, Trajectory, Turn, World
from worldlm.data.content import Content, common_language, contents
from worldlm.real import make_environment, other_surroundings, world_files
from worldlm.rollout import RolloutLimits, replay, run_episode
from worldlm.rollout.explorers import make_explorer
from worldlm.simulate import load_world

Played = tuple[Trajectory, list[Trajectory]]


async def play(world: World, seed: int, turns: int) -> tuple[Played, float, float]:
    """An episode and its replays, with the seconds that the one and each of the others took."""
    limits = RolloutLimits(turns=turns, invalid_actions=turns + 1)
    started = time.perf_counter()
    episode = await run_episode(
        make_explorer(world.domain, seed), make_environment(world), seed=seed, limits=limits, id=f"{world.name}-{seed}"
    )
    if not episode.turns:
        raise WorldlmError(episode.ending.detail or "no turn was taken")
    between = time.perf_counter()
    replays = [await replay(episode, make_environment(world, around)) for around in other_surroundings(world)]
    return (episode, replays), between - started, (time.perf_counter() - between) / len(replays)


def show(name: DomainName, turns: list[tuple[Turn, Content]], number: int) -> None:
    """Some turns of each class."""
    by_class = defaultdict(list)
    for turn, content in turns:
        by_class[content.kind or content.why].append((turn, content))
    for kind, found in by_class.items():
        for turn, content in Random(0).sample(found, min(number, len(found))):
            text = turn.observation.text if turn.observation else ""
            free = [text[start:end] for start, end in content.free][:12]
            print(f"\n== {name}: {kind}, unknown {content.unknown:.2f}\n-> {turn.action[:300]}\n{text[:700]}")
            if free:
                print(f"   free: {free}")


async def main(given: argparse.Namespace) -> None:
    print(
        "| domain | turns | deterministic | pre-existing | metadata | no observation | departed | same in all | free |"
        " episode (s) | replay (s) |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in given.domains or DOMAIN_NAMES:
        worlds = [load_world(str(path)) for key, path in world_files().items() if key.startswith(f"{name}-")]
        played: list[Played] = []
        times: list[tuple[float, float]] = []
        why = ""
        for number in range(given.episodes):
            seed = given.seed + number
            try:
                both, *seconds = await play(worlds[seed % len(worlds)], seed, given.turns)
            except WorldlmError as error:
                why = str(error)
                continue
            played.append(both)
            times.append((seconds[0], seconds[1]))
        if not played:
            print(f"| {name} | not on this machine: {why} | | | | | | | | | |")
            continue
        file = given.language / f"{name}.jsonl" if given.language else None
        known = read_trajectories(file).items if file and file.exists() else [one for one, _ in played]
        common = common_language(known)
        turns = [
            pair for one, replays in played for pair in zip(one.turns, contents(one, replays, common), strict=True)
        ]
        counts = Counter(str(content.kind or content.why) for _, content in turns)
        shares = [
            f"{counts[kind] / len(turns):.1%}"
            for kind in ("deterministic", "pre-existing", "metadata", "no_observation", "departed")
        ]
        classed = [(turn, content) for turn, content in turns if content.kind]
        same = sum(content.kind != "metadata" for _, content in classed) / len(classed) if classed else 0
        loose = [
            sum(end - start for start, end in content.free) / max(1, len(turn.observation.text))
            for turn, content in classed
            if content.free and turn.observation
        ]
        print(
            f"| {name} | {len(turns)} | {' | '.join(shares)} | {same:.1%} | {mean(loose):.1%} "
            if loose
            else f"| {name} | {len(turns)} | {' | '.join(shares)} | {same:.1%} | - ",
            end="",
        )
        print(f"| {mean(t for t, _ in times):.1f} | {mean(t for _, t in times):.1f} |", flush=True)
        if given.show:
            show(name, turns, given.show)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("domains", nargs="*", choices=[*DOMAIN_NAMES, []], help="all by default")
    parser.add_argument("--episodes", type=int, default=3, help="of each domain, each in the next of its worlds")
    parser.add_argument("--turns", type=int, default=16, help="of an episode, at most")
    parser.add_argument("--seed", type=int, default=1000, help="of the first episode")
    parser.add_argument("--language", type=Path, help="a folder of trajectories, one DOMAIN.jsonl a domain")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N turns of each class")
    anyio.run(main, parser.parse_args())
