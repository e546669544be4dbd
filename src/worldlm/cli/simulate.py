"""`worldlm simulate`: act in a world that a language model plays."""

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from worldlm.cli.build import ModelOptions, build_model, closing
from worldlm.cli.console import note, out, progress, show, show_beside, show_json, waiting
from worldlm.cli.interactive import Repl, failure_line
from worldlm.cli.lines import standard_input
from worldlm.cli.session import Session
from worldlm.cli.signals import Signals, run
from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.jsonl import JsonlWriter, read_trajectories
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import NO_USAGE, Ending, Origin, Trajectory, Turn, Usage, World
from worldlm.domains import get_domain
from worldlm.rollout import RolloutLimits, ScriptPolicy, read_script, run_episode
from worldlm.rollout.compare import MEASURE, Agreement, ComparedTurn, agreement, check_script, compare
from worldlm.simulate import SimulatedEnvironment, load_world

GIVE_UP = 3
"""Turns in a row that nobody answered (a server that is down, a budget that is spent), after which a run stops."""

app = typer.Typer(rich_markup_mode=None)


@app.command()
def simulate(
    world: Annotated[str, typer.Argument(metavar="WORLD", help="A shipped world, a domain, or a world's YAML file.")],
    model: Annotated[
        str,
        typer.Option(
            "--model", "-m", help="embedded, replay:FILE, openai:NAME@URL, hf:PATH, or a name from `models list`."
        ),
    ] = "embedded",
    script: Annotated[Path | None, typer.Option(help="Play the actions of this file, one a line.")] = None,
    compare_with: Annotated[
        Path | None,
        typer.Option("--compare", metavar="REAL.jsonl", help="Predict each turn of these recordings, and compare."),
    ] = None,
    free: Annotated[
        bool, typer.Option("--free", help="With --compare: go on from the model's own answers, not the real history.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Seed of the episode (the world's by default).")] = None,
    output: Annotated[
        Path | None, typer.Option("--out", metavar="TRAJ.jsonl", help="Append the episode to this file.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never download.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Report as one JSON object.")] = False,
    profile: Annotated[str | None, typer.Option(help="How the model is asked; see `models list`.")] = None,
    lora: Annotated[
        Path | None, typer.Option(help="A LoRA adapter (GGUF) for the embedded model; none: no adapter.")
    ] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Temperature 0, one request at a time, no prefix reuse.")
    ] = False,
    cache: Annotated[Path | None, typer.Option(help="Keep answers in this file: same question, same answer.")] = None,
    record: Annotated[Path | None, typer.Option(help="Record model calls here, for --model replay:FILE.")] = None,
    budget_tokens: Annotated[int | None, typer.Option(min=1, help="Stop after this many tokens.")] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, help="With --compare: turns that are predicted at the same time.")
    ] = 1,
    deadline: Annotated[float, typer.Option(min=0.1, help="Seconds for one model call, with all its tries.")] = 600.0,
) -> None:
    """Act in a world that a language model plays.

    By hand without --script and --compare: each line of the terminal, or of stdin, is an action.
    """
    if as_json and script is None and compare_with is None:
        raise InputError("--json reports on --script or --compare; a session by hand is kept with --out")
    if free and compare_with is None:
        raise InputError("--free belongs to --compare")
    if concurrency > 1 and (free or deterministic or compare_with is None):
        raise InputError(
            "--concurrency belongs to --compare; turns that follow from each other (--free), and those of "
            "--deterministic, are predicted one after another"
        )
    if output and compare_with and not free:
        raise InputError(
            "--out needs --free here: turns predicted from the real history are not an episode; use --json"
        )
    options = ModelOptions(
        spec=model,
        profile=profile,
        lora=lora,
        deterministic=deterministic,
        offline=offline,
        deadline=deadline,
        cache=cache,
        record=record,
        slots=concurrency,
        budget_tokens=budget_tokens,
    )
    place = load_world(world)
    domain = get_domain(place.domain)
    actions = read_script(script, domain, place) if script else None
    recordings = _recordings(compare_with, actions, place) if compare_with else []
    with ExitStack() as stack:
        writer = stack.enter_context(JsonlWriter(output)) if output else None
        chosen, how = build_model(options, domain)
        environments = [SimulatedEnvironment(place, domain, chosen, how) for _ in range(concurrency)]
        environment = environments[0]

        async def work(signals: Signals) -> None:
            async with closing(chosen):
                if compare_with:
                    await _compare(environments, recordings, seed, free, as_json, writer)
                elif actions is not None:
                    await _play(environment, actions, seed, as_json, writer)
                else:
                    with waiting("loading"):
                        await environment.reset(seed)
                    await Repl(Session(environment), place, domain, standard_input(), signals).run(writer)

        run(work)


# By script.


async def _play(
    environment: SimulatedEnvironment,
    actions: Sequence[str],
    seed: int | None,
    as_json: bool,
    writer: JsonlWriter | None,
) -> None:
    turns: list[Turn] = []

    def on_turn(turn: Turn) -> None:
        if not turns and not as_json and environment.initial:
            show(environment.initial.text)
        turns.append(turn)
        if not as_json:
            _show_turn(len(turns), turn)

    # A turn at which the model failed is shown, and the script goes on; a server that is down stays down.
    more = len(actions) + 1
    limits = RolloutLimits(turns=more, invalid_actions=more, failed_steps=more, broken_steps=GIVE_UP)
    started = time.perf_counter()
    trajectory = await run_episode(
        ScriptPolicy(actions),
        environment,
        seed=seed,
        limits=limits,
        on_turn=on_turn,
        record=writer.write if writer else None,
    )
    wall = time.perf_counter() - started
    outcomes = dict(Counter(turn.outcome.value for turn in trajectory.turns))
    if as_json:
        report = {
            **_head(trajectory.world, trajectory.origin),
            "turns": [_turn_json(number, turn) for number, turn in enumerate(trajectory.turns, 1)],
            "outcomes": outcomes,
            "ending": trajectory.ending.model_dump(mode="json"),
            **_cost_json(trajectory.usage, wall),
        }
        show_json(report)
    else:
        kinds = ", ".join(f"{kind} {count}" for kind, count in outcomes.items()) or "none"
        show(f"{len(trajectory.turns)} turns ({kinds}); {trajectory.ending.kind.value}; {_cost(trajectory.usage)}")
    _raise_if_nothing_worked([(turn.outcome, turn.detail) for turn in trajectory.turns], trajectory.ending)


def _show_turn(number: int, turn: Turn) -> None:
    show(f"[{number}] {turn.action}", "bold")
    if turn.observation:
        show(turn.observation.text)
    if failure := failure_line(turn):
        show(failure, "red")


def _turn_json(number: int, turn: Turn) -> dict[str, Any]:
    return {"turn": number, **turn.model_dump(mode="json")}


def _raise_if_nothing_worked(outcomes: Sequence[tuple[Outcome, str | None]], ending: Ending | None = None) -> None:
    """An error when no turn was answered and the model is not to blame (its failures are a result)."""
    if any(outcome is Outcome.OK or outcome.is_models_fault for outcome, _ in outcomes):
        return
    if outcomes and all(outcome is Outcome.INVALID_ACTION for outcome, _ in outcomes):
        raise InputError(f"no action is valid; the first: {outcomes[0][1]}")
    detail = outcomes[-1][1] if outcomes else ending.detail if ending else None
    if outcomes or (ending and ending.kind is EndingKind.FAILED):
        raise WorldlmError(f"no turn was answered; the last failure: {detail or 'no detail given'}")


def _give_up_if_broken(rows: Sequence[ComparedTurn]) -> None:
    newest = [row.step for row in rows if not row.by_harness][-GIVE_UP:]
    if len(newest) == GIVE_UP and not any(s.outcome is Outcome.OK or s.outcome.is_models_fault for s in newest):
        raise WorldlmError(f"{GIVE_UP} turns in a row were not answered; the last: {newest[-1].detail}")


# Against a recording.


def _recordings(path: Path, actions: Sequence[str] | None, world: World) -> list[Trajectory]:
    recordings = read_trajectories(path).items
    if not recordings:
        raise InputError(f"{path} holds no trajectory")
    for recording in recordings:
        if recording.world.name != world.name:
            raise InputError(
                f"{path}: recording {recording.id!r} is of world {recording.world.name!r}, not {world.name!r}; "
                "name that world instead"
            )
        if actions is not None:
            check_script(actions, recording)
    started = [recording for recording in recordings if recording.initial is not None]
    if not any(turn.observation for recording in started for turn in recording.turns):
        raise InputError(f"{path} holds no turn with an observation to compare with")
    if left_out := len(recordings) - len(started):
        note(f"{left_out} of {len(recordings)} recordings never started and are left out")
    return started


async def _compare(
    environments: Sequence[SimulatedEnvironment],
    recordings: Sequence[Trajectory],
    seed: int | None,
    free: bool,
    as_json: bool,
    writer: JsonlWriter | None,
) -> None:
    environment, *beside = environments
    rows: list[ComparedTurn] = []
    total = sum(turn.observation is not None for recording in recordings for turn in recording.turns)
    started = time.perf_counter()
    # On a terminal the turns themselves show how far it is.
    with progress("predicting", total, hidden=out.is_terminal and not as_json) as advance:

        def on_turn(row: ComparedTurn) -> None:
            rows.append(row)
            advance()
            if not as_json:
                _show_compared(row)
            _give_up_if_broken(rows)

        for recording in recordings:
            start = len(rows)
            ending = Ending(kind=EndingKind.CANCELLED, outcome=Outcome.CANCELLED)
            try:
                await compare(environment, recording, beside=beside, seed=seed, free=free, on_turn=on_turn)
                ending = Ending(kind=EndingKind.COMPLETED)
            finally:
                if writer and rows[start:]:
                    writer.write(_played(environment, recording, rows[start:], ending))
    wall = time.perf_counter() - started
    usage = sum((row.step.usage for row in rows), NO_USAGE)
    totals = agreement(rows)
    if as_json:
        report = {
            **_head(environment.world, environment.origin),
            "history": "predicted" if free else "real",
            "measure": MEASURE,
            "turns": [_compared_json(row) for row in rows],
            "totals": {**asdict(totals), "coverage": totals.coverage},
            **_cost_json(usage, wall),
        }
        show_json(report)
    else:
        _show_agreement(totals, free)
        show(f"{_simulator(environment.origin)}; {_cost(usage, wall if beside else None)}")
    _raise_if_nothing_worked([(row.step.outcome, row.step.detail) for row in rows])


def _played(
    environment: SimulatedEnvironment, recording: Trajectory, rows: Sequence[ComparedTurn], ending: Ending
) -> Trajectory:
    """What the model played when it went on from its own answers."""
    return Trajectory(
        id=f"{recording.id}-predicted",
        world=environment.world,
        initial=environment.initial,
        turns=tuple(row.step.turn(row.action) for row in rows),
        ending=ending,
        policy="recording",
        group=recording.group,
        origin=environment.origin,
        usage=sum((row.step.usage for row in rows), NO_USAGE),
    )


def _show_compared(row: ComparedTurn) -> None:
    verdict = "exact" if row.exact else f"similarity {row.similarity:.3f}"
    by = ", by the harness: not counted" if row.by_harness else ""
    show(f"[{row.number}] {row.action}   ({verdict}{by})", "bold")
    predicted = row.step.observation.text if row.step.observation else failure_line(row.step) or ""
    show_beside("real", row.real, "predicted", predicted)


def _show_agreement(total: Agreement, free: bool) -> None:
    history = "its own history" if free else "the real history"
    if total.similarity is None:
        show(f"no turn was predicted by the model: the harness answered all {total.by_harness}")
        return
    failed = ", ".join(f"{kind} {count}" for kind, count in total.failed.items())
    answered = ""
    if failed:
        rest = "-" if total.similarity_answered is None else f"{total.similarity_answered:.3f}"
        answered = f" (failed turns at 0: {failed}; {rest} over the answered)"
    harness = f"; {total.by_harness} more answered by the harness" if total.by_harness else ""
    show(
        f"{total.turns} turns predicted from {history}: mean similarity {total.similarity:.3f}{answered}, "
        f"exact {total.exact} of {total.turns}, coverage {total.coverage:.0%}{harness}"
    )


def _compared_json(row: ComparedTurn) -> dict[str, Any]:
    return {
        "trajectory": row.trajectory,
        "turn": row.number,
        "action": row.action,
        "real": row.real,
        "predicted": row.step.observation.text if row.step.observation else None,
        "outcome": row.step.outcome.value,
        "detail": row.step.detail,
        "similarity": row.similarity,
        "exact": row.exact,
        "by_harness": row.by_harness,
        "violations": [check.model_dump(mode="json") for check in row.step.violations],
        "usage": row.step.usage.model_dump(mode="json"),
    }


# Who played, and what it cost.


def _head(world: World, origin: Origin) -> dict[str, Any]:
    assert origin.simulator is not None
    return {
        "world": world.name,
        "domain": world.domain,
        "seed": origin.seed,
        **origin.simulator.model_dump(mode="json"),
    }


def _simulator(origin: Origin) -> str:
    assert origin.simulator is not None
    simulator = origin.simulator
    return f"model {simulator.model}, profile {simulator.profile}, prompt {simulator.prompt_hash}, seed {origin.seed}"


def _cost(usage: Usage, seconds: float | None = None) -> str:
    """What was spent; `seconds` that passed, where calls ran at the same time."""
    seconds = usage.seconds if seconds is None else seconds
    rate = f" ({usage.completion_tokens / seconds:.0f} tokens/s)" if seconds else ""
    return f"{usage.completion_tokens} tokens after {usage.prompt_tokens} of prompts in {seconds:.1f} s{rate}"


def _cost_json(usage: Usage, wall_seconds: float) -> dict[str, Any]:
    return {
        "tokens": usage.completion_tokens,
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "calls": usage.calls,
        "cost_usd": usage.cost_usd,
        "seconds": usage.seconds,
        "wall_seconds": wall_seconds,
        "tokens_per_second": usage.completion_tokens / usage.seconds if usage.seconds else None,
    }
