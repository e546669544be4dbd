"""A language model plays a terminal, and a policy acts in it.

Run: python examples/quickstart.py [MODEL]   (MODEL as in `worldlm simulate --model`; `embedded` by default)
"""

import asyncio
import sys
from pathlib import Path

from worldlm import JsonlWriter, SimulatedEnvironment, get_domain, load_world
from worldlm.core.protocols import Closes
from worldlm.models import build
from worldlm.rollout import ScriptPolicy, run_episode


async def main(spec: str) -> None:
    """Play the world with the model that `spec` says."""
    world = load_world("terminal")  # a shipped world, a domain's name, or the path of a YAML file
    domain = get_domain(world.domain)
    model, profile = build(spec)
    environment = SimulatedEnvironment(world, domain, model, profile)

    # Step by step. What goes wrong is a value: an outcome and its words, never an empty observation.
    print((await environment.reset(seed=7)).text)
    for line in ("pwd", "ls -l"):
        step = await environment.step(domain.from_line(line, world))
        print(step.observation.text if step.observation else f"[{step.outcome.value}] {step.detail}")

    # Back to after the first turn, on a branch of its own: the session above is not touched.
    branch = await environment.fork(min(1, len(environment.turns)))
    print(f"branch with {len(branch.turns)} of {len(environment.turns)} turns")

    # A policy in the loop leaves a trajectory: one line of JSON with the world, the turns and who played.
    script = [domain.from_line(line, world) for line in ("whoami", "echo hello > note.txt", "cat note.txt")]
    trajectory = await run_episode(ScriptPolicy(script), environment, seed=7)
    with JsonlWriter(Path("quickstart.jsonl")) as file:
        file.write(trajectory)
    outcomes = ", ".join(turn.outcome.value for turn in trajectory.turns)
    print(f"{len(trajectory.turns)} turns ({outcomes}); {trajectory.ending.kind.value}; written to quickstart.jsonl")

    if isinstance(model, Closes):
        await model.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "embedded"))
