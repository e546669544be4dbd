"""`worldlm collect`: record trajectories of a real environment."""

import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from worldlm.cli.build import ModelOptions, build_model, closing
from worldlm.cli.console import progress, show, show_json
from worldlm.cli.signals import Signals, run
from worldlm.core.errors import InputError, WorldlmError, nearest
from worldlm.core.jsonl import JsonlWriter, read_trajectories
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.protocols import Model, Policy
from worldlm.core.text import canonical_json, digest
from worldlm.core.types import DOMAIN_NAMES, Trajectory, World
from worldlm.domains import Domain, get_domain
from worldlm.real.terminal import TerminalEnvironment
from worldlm.rollout import Job, ModelPolicy, RolloutLimits, ScriptPolicy, read_script, run_episodes
from worldlm.simulate import load_world

app = typer.Typer(rich_markup_mode=None)
TURNS = 100
"""Turns that an episode of a model may take, when nobody says."""


@app.command()
def collect(
    domain: Annotated[str, typer.Argument(metavar="DOMAIN", help="The kind of environment: terminal.")],
    policy: Annotated[str, typer.Option(help="What acts: script:FILE or model:M (M as in `simulate --model`).")],
    output: Annotated[Path, typer.Option("--out", metavar="TRAJ.jsonl", help="Append the episodes to this file.")],
    world: Annotated[str | None, typer.Option(help="World to start in (the domain's first by default).")] = None,
    episodes: Annotated[int, typer.Option(min=1, help="How many.")] = 1,
    concurrency: Annotated[int, typer.Option(min=1, help="How many at once.")] = 4,
    turns: Annotated[
        int | None, typer.Option(min=1, help="Turns that an episode may take (100, or the whole script, by default).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first episode; each further one takes the next.")] = 0,
    instruction: Annotated[str | None, typer.Option(help="What a model policy is to do.")] = None,
    profile: Annotated[str | None, typer.Option(help="How a model policy is asked; see `models list`.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Leave out the episodes that the file holds.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Never download.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Report as one JSON object.")] = False,
) -> None:
    """Record trajectories of a real environment: each finished episode is one line of the file."""
    if domain not in DOMAIN_NAMES:
        raise InputError(f"there is no domain {domain!r}; {nearest(domain, DOMAIN_NAMES)}")
    if domain != "terminal":
        raise InputError(f"only the domain terminal can be collected in this version, not {domain}")
    place = load_world(world or domain)
    kind = get_domain(place.domain)
    TerminalEnvironment(place)  # a world of another domain is refused before anything starts
    kind_of_policy, _, source = policy.partition(":")
    actions: list[str] = []
    options = None
    if kind_of_policy == "script" and source:
        actions = read_script(Path(source), kind, place)
        # A script may press on whatever comes back; its last turn is not cut off by a limit of its own length.
        most = len(actions) + 1 if turns is None or turns >= len(actions) else turns
        limits = RolloutLimits(turns=most, invalid_actions=len(actions) + 1)
        settings = canonical_json(actions[:most])
    elif kind_of_policy == "model" and source:
        if instruction is None:
            raise InputError("a model policy needs something to do: --instruction TEXT")
        turns = TURNS if turns is None else turns
        limits = RolloutLimits(turns=turns)
        options = ModelOptions(source, profile, offline=offline, slots=min(concurrency, episodes))
        settings = canonical_json([source, profile, instruction, turns])
    else:
        raise InputError(f"--policy {policy!r} is neither script:FILE nor model:M")
    prefix = f"{place.name}-{digest(canonical_json(place.model_dump(mode='json')), settings)[:8]}"

    with ExitStack() as stack:
        writer = stack.enter_context(JsonlWriter(output))
        plan = _plan(output, prefix, seed, episodes, resume)
        summary = Summary(planned=episodes, already=episodes - len(plan))

        model, make_policy = _policy(options, kind, actions, instruction or "")

        async def work(signals: Signals) -> None:
            async with closing(model):
                await _collect(place, make_policy, limits, plan, concurrency, writer, summary)

        started = time.perf_counter()
        try:
            run(work)
        finally:
            summary.seconds = time.perf_counter() - started
            if summary.endings or not plan:
                _report(summary, output, as_json)
    if summary.endings and not summary.good:
        raise WorldlmError(f"no episode worked; the last: {summary.last_failure or 'no reason given'}")


def _policy(
    options: ModelOptions | None, domain: Domain, actions: list[str], instruction: str
) -> tuple[Model | None, Callable[[], Policy]]:
    """What makes the policies, and the model behind them, if there is one."""
    if options is None:
        return None, lambda: ScriptPolicy(actions)
    model, profile = build_model(options, domain)
    return model, lambda: ModelPolicy(model, domain, profile, instruction)


@dataclass
class Summary:
    """What came of a collection."""

    planned: int
    already: int
    """Episodes that the file held."""
    endings: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    """Turns by outcome."""
    good: int = 0
    last_failure: str | None = None
    seconds: float = 0.0

    def add(self, trajectory: Trajectory) -> None:
        """Count an episode."""
        self.endings[trajectory.ending.kind.value] += 1
        self.outcomes.update(turn.outcome.value for turn in trajectory.turns)
        if _is_done(trajectory):
            self.good += 1
        else:
            self.last_failure = trajectory.ending.detail


def _is_done(trajectory: Trajectory) -> bool:
    """Whether an episode need not be run again: it was not cancelled, and nothing but the policy failed."""
    ending = trajectory.ending
    faults = (Outcome.INFRASTRUCTURE_FAILED, Outcome.TIMED_OUT, Outcome.CANCELLED)
    return ending.kind is not EndingKind.CANCELLED and not (
        ending.kind is EndingKind.FAILED and ending.outcome in faults
    )


def _plan(path: Path, prefix: str, seed: int, episodes: int, resume: bool) -> list[tuple[str, int]]:
    """The episodes to run, as id and seed.

    An id is fixed by the world, the policy and the seed. On resume an episode that stands in the file is left out;
    one that was cancelled or failed through no fault of the policy is run again, under the id `ID.2` and so on.
    """
    tries: Counter[str] = Counter()
    done: set[str] = set()
    for trajectory in read_trajectories(path).items:
        name = re.sub(r"\.\d+$", "", trajectory.id) if trajectory.id.startswith(prefix) else trajectory.id
        tries[name] += 1
        if _is_done(trajectory):
            done.add(name)
    plan = []
    for number in range(seed, seed + episodes):
        name = f"{prefix}-{number}"
        if tries[name] and not resume:
            raise InputError(
                f"{path} already holds episode {name}; give --resume to go on with it, another --seed, or another file"
            )
        if name not in done:
            plan.append((f"{name}.{tries[name] + 1}" if tries[name] else name, number))
    return plan


async def _collect(
    world: World,
    policy: Callable[[], Policy],
    limits: RolloutLimits,
    plan: list[tuple[str, int]],
    concurrency: int,
    writer: JsonlWriter,
    summary: Summary,
) -> None:
    with progress(f"collecting {world.name}", len(plan)) as advance:

        def record(trajectory: Trajectory) -> None:
            writer.write(trajectory)
            summary.add(trajectory)
            advance()

        jobs = [Job(name, lambda: TerminalEnvironment(world), policy(), seed, None, limits) for name, seed in plan]
        await run_episodes(jobs, record, concurrency=concurrency)


def _report(summary: Summary, path: Path, as_json: bool) -> None:
    recorded, turns = summary.endings.total(), summary.outcomes.total()
    rate = turns / summary.seconds if summary.seconds else None
    failures = {kind: count for kind, count in summary.outcomes.items() if kind != Outcome.OK}
    if as_json:
        report: dict[str, Any] = {
            "file": str(path),
            "planned": summary.planned,
            "already_there": summary.already,
            "recorded": recorded,
            "endings": dict(summary.endings),
            "turns": turns,
            "failed_turns": failures,
            "seconds": summary.seconds,
            "turns_per_second": rate,
        }
        show_json(report)
        return
    endings = ", ".join(f"{kind} {count}" for kind, count in summary.endings.items()) or "none"
    failed = ", ".join(f"{kind} {count}" for kind, count in failures.items()) or "none"
    there = f" ({summary.already} were there already)" if summary.already else ""
    show(f"{recorded} of {summary.planned} episodes recorded in {path}{there}; endings: {endings}")
    show(f"{turns} turns in {summary.seconds:.1f} s ({rate or 0:.1f} turns/s); failed turns: {failed}")
