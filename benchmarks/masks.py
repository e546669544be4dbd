"""Turns per second a core of classing, masking, cleaning and scrubbing, on sessions of the shipped explorer's size.

Without `--data` the sessions are made up: a terminal whose commands print some hundred characters. With it they are
those of a trajectory file. Masks are made with the byte tokenizer, or with a model's own (`--tokenizer`). The peer of
masking is that tokenizer alone, over each action and observation once: the least that anything could do.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from worldlm.core.jsonl import read_trajectories
from worldlm.core.outcomes import EndingKind
from worldlm.core.text import canonical_json, estimate_tokens
from worldlm.core.types import Ending, Observation, Origin, Profile, Sampling, Trajectory, Turn, World
from worldlm.data.classes import label_turns
from worldlm.data.cleaning import MAX_TOKENS, Cleaning, Scrubber, clean
from worldlm.data.masks import mask
from worldlm.data.tokenizers import ByteTokenizer, ChatTokenizer, HuggingFaceTokenizer
from worldlm.domains import get_domain

WORDS = ["alpha", "delta", "river", "harbour", "lamp", "table", "error", "warning", "total", "file", "user", "value"]


def made_up(sessions: int, turns: int) -> list[Trajectory]:
    """Terminal sessions of random words, the same each time."""
    dice = random.Random(0)
    made = []
    for number in range(sessions):
        done = []
        for _ in range(turns):
            line = " ".join(dice.choices(WORDS, k=4))
            lines = [" ".join(dice.choices(WORDS, k=8)) for _ in range(dice.randrange(12))]
            text = "\n".join([f"ann@box:~$ {line}", *lines, "ann@box:~$"])
            action = canonical_json([{"keystrokes": line + "\n", "duration": 1.0}])
            done.append(Turn(action=action, observation=Observation(text=text)))
        made.append(
            Trajectory(
                id=f"made-up-{number}",
                world=World(name="bench", domain="terminal", initial_state={"user": "ann"}),
                initial=Observation(text="ann@box:~$"),
                turns=tuple(done),
                ending=Ending(kind=EndingKind.COMPLETED),
                policy="bench",
                origin=Origin(kind="real"),
            )
        )
    return made


def per_second(work: Callable[[Trajectory], object], trajectories: Sequence[Trajectory]) -> float:
    """Turns a second of this process's own time."""
    started = time.process_time()
    for trajectory in trajectories:
        work(trajectory)
    return sum(len(each.turns) for each in trajectories) / (time.process_time() - started)


def measure(trajectories: Sequence[Trajectory], tokenizer: ChatTokenizer, context: int) -> dict[str, float]:
    """All figures."""
    profile = Profile(
        name="bench", prompt="compact", answer_tag=False, context=context, sampling=Sampling(max_tokens=context // 4)
    )
    cutting = Cleaning(render=False, max_tokens=MAX_TOKENS, count=estimate_tokens)
    cut = [clean(each, cutting) for each in trajectories]
    examples = 0

    def masked(trajectory: Trajectory) -> None:
        nonlocal examples
        examples += len(mask(trajectory, get_domain(trajectory.world.domain), profile, tokenizer).examples)

    def counted(trajectory: Trajectory) -> None:
        for turn in trajectory.turns:
            tokenizer.count(turn.action)
            tokenizer.count(turn.observation.text if turn.observation else "")

    def scrubbed(trajectory: Trajectory) -> None:
        clean(trajectory, Cleaning(render=False, scrubber=Scrubber(b"bench"), max_tokens=None))

    return {
        "turns": sum(len(each.turns) for each in trajectories),
        "tokenizing_turns_per_second": per_second(counted, cut),
        "classing_turns_per_second": per_second(
            lambda each: label_turns(each, get_domain(each.world.domain)), trajectories
        ),
        "masking_turns_per_second": per_second(masked, cut),
        "examples": examples,
        "cutting_turns_per_second": per_second(lambda each: clean(each, cutting), trajectories),
        "scrubbing_turns_per_second": per_second(scrubbed, trajectories),
        "share_of_observations_cut": cutting.cut_share or 0.0,
    }


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a trajectory file")
    parser.add_argument("--tokenizer", type=Path, help="a folder of a model's tokenizer, or a GGUF file")
    parser.add_argument("--sessions", type=int, default=50)
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--context", type=int, default=6000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.data:
        trajectories = read_trajectories(arguments.data).items
    else:
        trajectories = made_up(arguments.sessions, arguments.turns)
    # A byte is about a third of a token.
    tokenizer = HuggingFaceTokenizer.load(arguments.tokenizer) if arguments.tokenizer else ByteTokenizer()
    context = arguments.context * (1 if arguments.tokenizer else 3)
    figures = measure(trajectories, tokenizer, context)
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(
            f"{name.replace('_', ' '):40} {value:12,.3f}"
            if value < 1
            else f"{name.replace('_', ' '):40} {value:12,.0f}"
        )


if __name__ == "__main__":
    main()
