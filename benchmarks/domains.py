"""All seven domains stepped by the embedded model: outcomes, rules kept, speed, and replay agreement.

Each domain's example script is played in its first shipped world: twice at the profile's temperature 0 and
twice at 0.8, four sessions at a time on the slots of one engine, and twice in deterministic mode (over fewer
turns: there every prompt is read from its start). The agreement of two runs is the share of calls in which the whole
prompt and the whole reply were the same, whether the reply was of use or not. It is 1 in deterministic mode, and
otherwise it is what it is.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Closes, Model
from worldlm.core.types import DOMAIN_NAMES, Completion, Message, Profile, Sampling, Trajectory
from worldlm.domains import get_domain
from worldlm.models import build
from worldlm.rollout import Job, RolloutLimits, ScriptPolicy, read_script, run_episodes
from worldlm.simulate import SimulatedEnvironment, load_world

EXAMPLES = Path(__file__).parent.parent / "examples"


def script_of(domain: str) -> Path:
    """The example script of a domain."""
    return EXAMPLES / "scripts" / f"{domain}.txt"


class Heard:
    """A model, and what it was asked and said: also where that came to no observation."""

    def __init__(self, model: Model):
        self.model = model
        self.name = model.name
        self.calls: list[tuple[tuple[Message, ...], str, str | None]] = []

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer as the model does."""
        completion = await self.model.complete(messages, sampling)
        self.calls.append((tuple(messages), completion.text, completion.thinking))
        return completion


class Played(NamedTuple):
    """A domain's session."""

    trajectory: Trajectory
    heard: Heard


async def play(model: Model, profile: Profile, turns: int, concurrency: int) -> dict[str, Played]:
    """One run over all domains."""
    jobs = []
    heard: dict[str, Heard] = {name: Heard(model) for name in DOMAIN_NAMES}
    for name in DOMAIN_NAMES:
        world, domain = load_world(name), get_domain(name)
        actions = read_script(script_of(name), domain, world)[:turns]

        def environment(world: Any = world, domain: Any = domain) -> SimulatedEnvironment:
            return SimulatedEnvironment(world, domain, heard[domain.name], profile)

        limits = RolloutLimits(turns=turns, failed_steps=turns + 1, invalid_actions=turns + 1)
        jobs.append(Job(name, environment, ScriptPolicy(actions), seed=0, limits=limits))
    done: dict[str, Played] = {}
    await run_episodes(jobs, lambda t: done.__setitem__(t.id, Played(t, heard[t.id])), concurrency=concurrency)
    return done


Runs = tuple[dict[str, Played], dict[str, Played]]


async def play_twice(
    turns: int, tokens: int, *, deterministic: bool, temperatures: tuple[float, ...] = (0.0,)
) -> list[Runs]:
    """Two runs at each temperature, all on one engine."""
    model, profile = build("embedded", deterministic=deterministic)
    concurrency = 1 if deterministic else 4
    runs = []
    try:
        for temperature in temperatures:
            sampling = profile.sampling.model_copy(update={"temperature": temperature, "max_tokens": tokens})
            asked = profile.model_copy(update={"sampling": sampling})
            one, other = [await play(model, asked, turns, concurrency) for _ in range(2)]
            runs.append((one, other))
    finally:
        if isinstance(model, Closes):
            await model.close()
    return runs


def agreement(one: Played, other: Played) -> float:
    """Share of the calls that came out alike."""
    calls, others = one.heard.calls, other.heard.calls
    alike = sum(a == b for a, b in zip(calls, others, strict=False))
    return alike / max(len(calls), len(others))


async def measure(turns: int, exact_turns: int, tokens: int) -> list[dict[str, Any]]:
    """A row a domain."""
    shared, sampled = await play_twice(turns, tokens, deterministic=False, temperatures=(0.0, 0.8))
    (exact,) = await play_twice(exact_turns, tokens, deterministic=True) if exact_turns else [None]
    rows = []
    for name in DOMAIN_NAMES:
        trajectory = shared[0][name].trajectory
        asked = [turn for turn in trajectory.turns if turn.usage.calls]
        kept = sum(turn.outcome is Outcome.OK and not turn.violations for turn in asked)
        rows.append(
            {
                "domain": name,
                "turns": len(trajectory.turns),
                "calls": len(shared[0][name].heard.calls),
                "outcomes": dict(Counter(turn.outcome.value for turn in trajectory.turns)),
                "all_rules_kept": kept / len(asked) if asked else None,
                "seconds_per_step": sum(turn.usage.seconds for turn in asked) / len(asked) if asked else None,
                "prompt_tokens_cached": trajectory.usage.cached_tokens / (trajectory.usage.prompt_tokens or 1),
                "agreement_deterministic": agreement(exact[0][name], exact[1][name]) if exact else None,
                "agreement_shared_slots": agreement(shared[0][name], shared[1][name]),
                "agreement_sampled": agreement(sampled[0][name], sampled[1][name]),
            }
        )
    return rows


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--exact-turns", type=int, default=1, help="turns in deterministic mode; 0: none")
    parser.add_argument("--tokens", type=int, default=96, help="longest reply")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = anyio.run(measure, arguments.turns, arguments.exact_turns, arguments.tokens)
    if arguments.json:
        print(json.dumps(rows))
        return
    for row in rows:
        cells = (f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values())
        print("  ".join(f"{key}={cell}" for key, cell in zip(row, cells, strict=True)))


if __name__ == "__main__":
    main()
