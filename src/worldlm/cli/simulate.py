"""`worldlm simulate`: act in a world that a language model plays."""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from worldlm.cli.build import ModelOptions, opened
from worldlm.cli.console import note, out, progress, show, show_beside, show_json
from worldlm.cli.interactive import Repl, failure_line
from worldlm.cli.lines import standard_input
from worldlm.cli.session import Session
from worldlm.cli.signals import Signals, run
from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.jsonl import JsonlWriter, read_trajectories
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import NO_USAGE, Ending, Origin, Trajectory, Turn, Usage, World
from worldlm.domains import Domain, get_domain
from worldlm.rollout import RolloutLimits, ScriptPolicy, read_script, rollout
from worldlm.rollout.compare import MEASURE, Agreement, ComparedTurn, agreement, check_script, compare
from worldlm.simulate import SimulatedEnvironment, load_world

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
    lora: Annotated[Path | None, typer.Option(help="A LoRA adapter (GGUF) for the embedded model.")] = None,
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="Temperature 0, one request at a time, no prefix reuse.")
    ] = False,
    cache: Annotated[Path | None, typer.Option(help="Keep answers in this file: same question, same answer.")] = None,
    record: Annotated[Path | None, typer.Option(help="Record model calls here, for --model replay:FILE.")] = None,
    budget_tokens: Annotated[int | None, typer.Option(min=1, help="Stop after this many tokens.")] = None,
    budget_usd: Annotated[float | None, typer.Option(min=0, help="Stop after this much money.")] = None,
) -> None:
    """Act in a world that a language model plays.

    By hand without --script and --compare: each line of the terminal, or of stdin, is an action.
    """
    if as_json and script is None and compare_with is None:
        raise InputError("--json reports on --script or --compare; a session by hand is kept with --out")
    if free and compare_with is None:
        raise InputError("--free belongs to --compare")
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
        cache=cache,
        record=record,
        budget_tokens=budget_tokens,
        budget_usd=budget_usd,
    )
    place = load_world(world)
    domain = get_domain(place.domain)
    actions = read_script(script, domain, place) if script else None
    recordings = _recordings(compare_with, actions, place) if compare_with else []
    with ExitStack() as stack:
        writer = stack.enter_context(JsonlWriter(output)) if output else None

        async def work(signals: Signals) -> int:
            async with opened(options) as (chosen, how):
                environment = SimulatedEnvironment(place, domain, chosen, how)
                if compare_with:
                    return await _compare(environment, recordings, seed, free, as_json, writer)
                if actions is not None:
                    return await _play(environment, actions, seed, as_json, writer)
                await _by_hand(environment, place, domain, seed, signals, writer)
                return 0

        code = run(work)
    raise typer.Exit(code)
