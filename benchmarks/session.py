"""Steps per second and memory of a long simulated session whose model costs nothing.

A scripted model answers at once, so what is measured is ours: parsing, rendering, checks, seeds, the
record of the turn. The peer in the same run is the least that anything could do: the same model asked
directly with a prompt of the same number of messages.
"""

import argparse
import gc
import json
import time
import tracemalloc
from collections.abc import Sequence

import anyio

from worldlm.core.types import Completion, Message, Profile, Sampling, World
from worldlm.domains import get_domain
from worldlm.simulate import SimulatedEnvironment
from worldlm.testing import ScriptedModel

WORLD = World(name="bench", domain="terminal", initial_state={"files": {"a.txt": "alpha\n"}})
ANSWER = "user@box:~$ echo 123456\n123456\nuser@box:~$"


class FlatModel(ScriptedModel):
    """A scripted model that keeps no requests (a session of 10,000 turns would keep them all)."""

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """The same answer each time."""
        completion = await super().complete(messages, sampling)
        self.requests.clear()
        return completion


async def session(turns: int, context: int) -> tuple[float, float]:
    """Seconds, and KiB kept a turn, of one session."""
    domain = get_domain("terminal")
    profile = Profile(
        name="bench", prompt="compact", answer_tag=False, context=context, sampling=Sampling(max_tokens=256)
    )
    world = WORLD.model_copy(update={"limits": WORLD.limits.model_copy(update={"turns": turns + 1})})
    environment = SimulatedEnvironment(world, domain, FlatModel(lambda messages, sampling: ANSWER), profile)
    actions = [domain.from_line(f"echo {n}", world) for n in range(turns)]
    await environment.reset()
    started = time.perf_counter()
    for action in actions:
        step = await environment.step(action)
        assert step.observation is not None
    seconds = time.perf_counter() - started

    await environment.reset()
    tracemalloc.start()
    for action in actions[: turns // 10]:
        await environment.step(action)
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return seconds, kept / 1024 / (turns // 10)


async def bare(turns: int, messages: int) -> float:
    """Seconds that the model alone takes."""
    model = FlatModel(lambda messages, sampling: ANSWER)
    prompt = [Message(role="user", content="x")] * messages
    started = time.perf_counter()
    for _ in range(turns):
        await model.complete(prompt, Sampling())
    return time.perf_counter() - started


async def measure(turns: int) -> dict[str, float]:
    """All figures."""
    long, kib = await session(turns, 8192)
    short, _ = await session(turns // 10, 8192)
    unlimited, _ = await session(turns, 10_000_000)
    alone = await bare(turns, 100)
    return {
        "turns": turns,
        "steps_per_second": turns / long,
        "steps_per_second_of_a_tenth": turns / 10 / short,
        "steps_per_second_without_a_context_limit": turns / unlimited,
        "model_alone_per_second": turns / alone,
        "kib_per_turn": kib,
    }


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = anyio.run(measure, arguments.turns)
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name.replace('_', ' '):45} {value:12,.1f}")


if __name__ == "__main__":
    main()
