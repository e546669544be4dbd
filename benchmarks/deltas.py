"""Tokens that state deltas save against whole states, by domain: in all, median and 90th percentile of an answer.

The answers are those of training (`worldlm.data.targets`): the whole state, or the shortest delta whose base the
prompt shows under a context of `--context` tokens (all of a session by default). Each is read back and compared.
Terminals answer with what is new, and are measured to show what deltas would bring there. FILES are trajectory files or
recordings of any known format; without them some episodes are played in real worlds first. Tokens are those of the
embedded model, or of another one's tokenizer.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import anyio

from worldlm.core.errors import WorldlmError
from worldlm.core.types import DomainName, Profile, Sampling, Trajectory
from worldlm.data.formats import ReadOptions
from worldlm.data.importing import import_trajectories
from worldlm.data.report import LossReport
from worldlm.data.targets import targets
from worldlm.data.tokenizers import HuggingFaceTokenizer
from worldlm.domains import get_domain
from worldlm.domains.delta import is_delta, read_delta
from worldlm.models.embedded import EmbeddedModel
from worldlm.models.weights import obtain
from worldlm.real import make_environment, world_files
from worldlm.rollout import RolloutLimits, run_episode
from worldlm.rollout.explorers import make_explorer
from worldlm.simulate import load_world

WORLDS: list[tuple[DomainName, str]] = [
    ("web", "web-bookshop"),
    ("web", "web-tracker"),
    ("web", "web-miniwob-find"),
    ("os", "os-calculator"),
    ("os", "os-desk"),
    ("os", "os-sheet"),
    ("terminal", "terminal-data"),
]
MEASURED = ("web", "android", "os", "terminal")
GUI = "all of web, android, os"
UNBOUNDED = 1_000_000_000


@dataclass
class Answers:
    """Lengths in tokens, one for each turn."""

    whole: list[int] = field(default_factory=list)
    shortest: list[int] = field(default_factory=list)
    deltas: int = 0
    """How many of the shortest are deltas."""

    def figures(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "turns": len(self.whole),
            "whole": _spread(self.whole),
            "shortest": _spread(self.shortest),
            "times": sum(self.whole) / sum(self.shortest),
            "delta_share": self.deltas / len(self.whole),
        }


def _spread(values: Sequence[int]) -> dict[str, float]:
    p90 = quantiles(values, n=10, method="inclusive")[-1] if len(values) > 1 else values[0]
    return {"total": sum(values), "median": median(values), "p90": p90}


def measure(trajectories: Iterator[Trajectory], count: Callable[[str], int], context: int) -> dict[str, Answers]:
    """Answers by domain, and those of all graphical domains last."""
    found: dict[str, Answers] = {}
    profile = Profile(
        name="deltas", state="delta", context=context, sampling=Sampling(max_tokens=min(context // 4, 8192))
    )
    for trajectory in trajectories:
        name = trajectory.world.domain
        if name not in MEASURED:
            continue
        domain = get_domain(name)
        sinks = [found.setdefault(key, Answers()) for key in (name, *([GUI] if domain.deltas else []))]
        for target in targets(trajectory, replace(domain, deltas=True), profile, count):
            if target.prompt is None:
                continue
            answer = target.answer(count)
            delta = is_delta(answer)
            if (read_delta(answer, target.bases) if delta else answer) != target.state:
                raise SystemExit(f"{trajectory.id}, turn {target.turn}: the delta gives another state")
            for sink in sinks:
                sink.whole.append(count(target.state))
                sink.shortest.append(count(answer))
                sink.deltas += delta
    return {name: found[name] for name in (*MEASURED[:3], GUI, *MEASURED[3:]) if name in found and found[name].whole}


def recorded(paths: Sequence[Path]) -> Iterator[Trajectory]:
    """The trajectories of files and folders."""
    for path in paths:
        yield from import_trajectories(path, None, ReadOptions(), LossReport())


async def collected(episodes: int, turns: int) -> list[Trajectory]:
    """A small collection, the same worlds and seeds each time; a world that cannot be had here is named."""
    done = []
    for domain, name in WORLDS:
        try:
            world = load_world(str(world_files()[name]))
            for seed in range(episodes):
                environment = make_environment(world)
                limits = RolloutLimits(turns=turns, invalid_actions=turns + 1)
                trajectory = await run_episode(make_explorer(domain, seed), environment, seed=seed, limits=limits)
                if trajectory.initial is None:
                    print(f"{name} could not be started: {trajectory.ending.detail}")
                    break
                done.append(trajectory)
        except WorldlmError as error:
            print(f"{name} is not on this machine: {error}")
    return done


def show(found: dict[str, Answers]) -> None:
    """Print a table."""
    print("| domain | turns | whole: total | median | p90 | shortest: total | median | p90 | times less | deltas |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, answers in found.items():
        figures = answers.figures()
        cells = [f"{figures[kind][key]:,.0f}" for kind in ("whole", "shortest") for key in ("total", "median", "p90")]
        print(
            f"| {name} | {figures['turns']:,} | {' | '.join(cells)} "
            f"| {figures['times']:.2f} | {figures['delta_share']:.0%} |"
        )


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", help="trajectory files, recordings, or folders of them")
    parser.add_argument("--tokenizer", type=Path, help="another model's: its folder, or a GGUF file")
    parser.add_argument("--context", type=int, default=UNBOUNDED, help="tokens of prompt and reply together")
    parser.add_argument("--episodes", type=int, default=2, help="of each world, without FILES")
    parser.add_argument("--turns", type=int, default=30, help="of each episode, without FILES")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    count: Callable[[str], int] = (
        HuggingFaceTokenizer.load(arguments.tokenizer).count
        if arguments.tokenizer
        else EmbeddedModel(obtain(), slots=1).count_tokens
    )
    if arguments.files:
        trajectories = recorded(arguments.files)
    else:
        trajectories = iter(anyio.run(collected, arguments.episodes, arguments.turns))
    found = measure(trajectories, count, arguments.context)
    if arguments.json:
        print(json.dumps({name: answers.figures() for name, answers in found.items()}))
    else:
        show(found)


if __name__ == "__main__":
    main()
