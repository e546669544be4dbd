"""A real step beside a simulated one, by domain: time, tokens and cost.

For each domain an explorer acts in one real world. The embedded model then plays the same world: it is given the
real history up to each of the last turns and predicts that turn's observation. A domain that cannot be had on this
machine is named with the reason.
"""

import argparse
import time
from statistics import mean, median

import anyio

from worldlm.core.errors import WorldlmError
from worldlm.core.types import DOMAIN_NAMES, DomainName, Trajectory, World
from worldlm.domains import get_domain
from worldlm.models import build
from worldlm.real import make_environment, world_files
from worldlm.rollout import RolloutLimits, run_episode
from worldlm.rollout.explorers import make_explorer
from worldlm.simulate import SimulatedEnvironment, load_world

WORLDS: dict[DomainName, str] = {
    "terminal": "terminal-data",
    "swe": "swe-toolz",
    "mcp": "mcp-time",
    "search": "search-python",
    "web": "web-miniwob-click",
    "android": "android-device-settings",
    "os": "os-calculator",
}


async def real(world: World, domain: DomainName, turns: int) -> tuple[float, Trajectory]:
    """Seconds that the start takes, and the episode."""
    started = time.perf_counter()
    environment = make_environment(world)
    try:
        await environment.reset(0)
    finally:
        start = time.perf_counter() - started
        await environment.close()
    limits = RolloutLimits(turns=turns, invalid_actions=turns + 1)
    trajectory = await run_episode(make_explorer(domain, 0), make_environment(world), seed=0, limits=limits)
    if not trajectory.turns or trajectory.initial is None:
        raise WorldlmError(trajectory.ending.detail or "no turn was taken")
    return start, trajectory


async def main(turns: int, predicted: int, tokens: int, price: float) -> None:
    model, profile = build("embedded")
    profile = profile.model_copy(update={"sampling": profile.sampling.model_copy(update={"max_tokens": tokens})})
    print(
        "| domain | real: start | real step, median (s) | simulated step, median (s) | prompt | of it cached | reply |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    hosted = []
    for name in DOMAIN_NAMES:
        try:
            start, trajectory = await real(load_world(str(world_files()[WORLDS[name]])), name, turns)
        except WorldlmError as error:
            print(f"| {name} | not on this machine: {error} | | | | | |")
            continue
        assert trajectory.initial is not None
        environment = SimulatedEnvironment(trajectory.world, get_domain(name), model, profile)
        done = [turn for turn in trajectory.turns if turn.observation is not None]
        steps = []
        try:
            for at in range(max(0, len(done) - predicted), len(done)):
                await environment.resume(trajectory.initial, done[:at], seed=0)
                steps.append(await environment.step(done[at].action))
        except WorldlmError as error:
            print(f"| {name} | {start:.2f} | {median(t.usage.seconds for t in done):.3f} | {error} | | | |")
            continue
        used = [step.usage for step in steps if step.usage.calls]
        hosted += used
        print(
            f"| {name} | {start:.2f} | {median(t.usage.seconds for t in done):.3f} "
            f"| {median(u.seconds for u in used):.2f} | {mean(u.prompt_tokens for u in used):.0f} "
            f"| {mean(u.cached_tokens for u in used):.0f} | {mean(u.completion_tokens for u in used):.0f} |"
        )
    if hosted:
        tokens_each = mean(u.prompt_tokens + u.completion_tokens for u in hosted)
        print(f"\nReal steps and embedded ones cost no money. At ${price:g} a million tokens a hosted model would take")
        print(f"${tokens_each * price / 1e6:.5f} a simulated step ({tokens_each:.0f} tokens on average).")
    await model.close()  # type: ignore[attr-defined]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10, help="turns of the real episode")
    parser.add_argument("--predicted", type=int, default=4, help="of its last turns, how many are predicted")
    parser.add_argument("--tokens", type=int, default=96, help="the longest reply")
    parser.add_argument("--price", type=float, default=0.3, help="USD a million tokens, for the last line")
    given = parser.parse_args()
    anyio.run(main, given.turns, given.predicted, given.tokens, given.price)
