"""`worldlm collect`: record trajectories of real environments."""

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import anyio
import typer

from worldlm.cli.build import ModelOptions, build_model, closing
from worldlm.cli.console import note, progress, show, show_json, show_rows, waiting
from worldlm.cli.signals import Signals, run
from worldlm.core.errors import InputError, SetupError, WorldlmError, nearest
from worldlm.core.jsonl import JsonlWriter, read_trajectories
from worldlm.core.protocols import Model, Policy
from worldlm.core.text import canonical_json, digest
from worldlm.core.types import DOMAIN_NAMES, DomainName, Trajectory, World
from worldlm.domains import get_domain
from worldlm.models.adapters import NO_ADAPTER
from worldlm.real import make_environment, world_files
from worldlm.real.servers import solutions
from worldlm.rollout import (
    Job,
    ModelPolicy,
    RolloutLimits,
    ScriptPolicy,
    Summary,
    is_done,
    read_script,
    records,
    run_episodes,
)
from worldlm.rollout.explorers import make_explorer
from worldlm.simulate import load_world, shipped_worlds

app = typer.Typer(rich_markup_mode=None)


class Size(NamedTuple):
    """How much of a domain `worldlm collect all` records, and how long an explorer's episode is."""

    episodes: int
    turns: int
    concurrency: int


SIZES: dict[DomainName, Size] = {
    "terminal": Size(264, 32, 4),
    "swe": Size(72, 24, 3),
    "mcp": Size(270, 20, 4),
    "search": Size(80, 20, 4),
    "web": Size(88, 40, 2),
    "android": Size(20, 20, 1),
    "os": Size(34, 24, 2),
}
ALL = "all"
MODEL_TURNS = 100
"""Turns that an episode of a model may take, when nobody says."""


@app.command()
def collect(
    domain: Annotated[str, typer.Argument(metavar="DOMAIN|all", help="The kind of environment, or all kinds.")],
    output: Annotated[
        Path,
        typer.Option("--out", metavar="TRAJ.jsonl", help="Append the episodes to this file (all: to this folder)."),
    ],
    policy: Annotated[
        str,
        typer.Option(help="What acts: explorer, script:FILE, solutions:SERVER or model:M (as in `simulate --model`)."),
    ] = "explorer",
    world: Annotated[
        list[str] | None,
        typer.Option(help="World to start in; may be given again (the domain's real ones by default)."),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(min=1, help="How many (1 by default; all: what the domain's share is).")
    ] = None,
    concurrency: Annotated[int | None, typer.Option(min=1, max=64, help="How many at once.")] = None,
    turns: Annotated[
        int | None,
        typer.Option(
            min=1, help="Turns that an episode may take (a script's whole length, a model's 100, by default)."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first episode; each further one takes the next.")] = 0,
    instruction: Annotated[str | None, typer.Option(help="What a model policy is to do.")] = None,
    profile: Annotated[str | None, typer.Option(help="How a model policy is asked; see `models list`.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Leave out the episodes that the file holds.")] = False,
    agree: Annotated[
        Path | None, typer.Option(help="An earlier collection (all: folder): say how far this one agrees with it.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never download a model.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Report as one JSON object.")] = False,
) -> None:
    """Record trajectories of real environments: each finished episode is one line of the file.

    `all` goes through the domains one after another, each with its own share, and leaves out the ones that cannot be
    had on this machine, with the reason.
    """
    if domain != ALL and domain not in DOMAIN_NAMES:
        raise InputError(f"there is no domain {domain!r}; {nearest(domain, [*DOMAIN_NAMES, ALL])}")
    request = Request(policy, episodes, concurrency, turns, seed, instruction, profile, offline, resume)
    if domain != ALL:
        summary = _collect_domain(cast(DomainName, domain), world or [], request, output, agree, as_json)
        if summary.endings and not summary.good:
            raise WorldlmError(f"no episode worked; the last: {summary.last_failure or 'no reason given'}")
        return
    if world or policy != "explorer":
        raise InputError(
            "`collect all` goes over each domain's own worlds with its explorer: leave --world, --policy out"
        )
    if output.exists() and not output.is_dir():
        raise InputError(f"--out {output} is a file; `collect all` writes one file a domain into a folder")
    if agree is not None and not agree.is_dir():
        raise InputError(f"--agree {agree} is not a folder; with `all` it is the --out of an earlier collection")
    _collect_all(request, output, agree, as_json)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for, whatever the domain. None leaves it to the domain and the policy."""

    policy: str
    episodes: int | None
    concurrency: int | None
    turns: int | None
    seed: int
    instruction: str | None
    profile: str | None
    offline: bool
    resume: bool


def _collect_all(request: Request, output: Path, agree: Path | None, as_json: bool) -> None:
    done: dict[str, dict[str, Any]] = {}
    left_out: dict[str, str] = {}
    for domain, size in SIZES.items():
        sized = replace(request, episodes=request.episodes or size.episodes)
        before = agree / f"{domain}.jsonl" if agree else None
        earlier = before if before and before.exists() else None
        try:
            summary = _collect_domain(domain, [], sized, output / f"{domain}.jsonl", earlier, None)
        except WorldlmError as error:
            left_out[domain] = str(error)
            note(f"{domain}: left out: {error}")
            continue
        done[domain] = summary.figures()
    if as_json:
        show_json({"folder": str(output), "domains": done, "left_out": left_out})
    else:
        show_rows(_table(done))
        for name, why in {**left_out, **{w: y for f in done.values() for w, y in f["left_out"].items()}}.items():
            show(f"{name}: left out: {why}")
    if not any(figures["turns"] or figures["already_there"] for figures in done.values()):
        raise WorldlmError("nothing was collected")


def real_worlds(domain: DomainName, names: Sequence[str] = ()) -> list[World]:
    """The worlds that were named, or the domain's real ones.

    A world of the domain's own that only a model can play is of no use here, unless a real one can start from it too.
    """
    files = world_files()
    if not names:
        real = [load_world(str(path)) for name, path in files.items() if name.startswith(f"{domain}-")]
        return real or [load_world(domain)]
    known = [*files, *shipped_worlds()]
    worlds = []
    for name in names:
        if name not in known and not (name.endswith((".yaml", ".yml")) or "/" in name):
            raise InputError(f"there is no world {name!r}; {nearest(name, known)}")
        place = load_world(str(files[name])) if name in files else load_world(name)
        if place.domain != domain:
            raise InputError(f"world {place.name!r} is of domain {place.domain}, not {domain}")
        worlds.append(place)
    return worlds


class Acting(NamedTuple):
    """What acts in the episodes."""

    limits: RolloutLimits
    settings: str
    """What the ids of the episodes depend on, beside world and seed."""
    start: Callable[[], tuple[Model | None, Callable[[int], Policy]]]
    """Gives the model behind the policies, if there is one, and what makes the policy for an episode's seed."""


def _acting(domain: DomainName, worlds: Sequence[World], request: Request, concurrency: int) -> Acting:
    kind, _, source = request.policy.partition(":")
    turns = request.turns
    if request.policy == "explorer":
        return exploring(domain, turns or SIZES[domain].turns)
    if kind == "script" and source:
        actions = read_script(Path(source), get_domain(domain), worlds[0])
        # A script may press on whatever comes back; its last turn is not cut off by a limit of its own length.
        most = len(actions) + 1 if turns is None or turns >= len(actions) else turns
        limits = RolloutLimits(turns=most, invalid_actions=len(actions) + 1)
        return Acting(limits, canonical_json(actions[:most]), lambda: (None, lambda _: ScriptPolicy(actions)))
    if kind == "model" and source:
        if request.instruction is None:
            raise InputError("a model policy needs something to do: --instruction TEXT")
        instruction = request.instruction
        most = turns or MODEL_TURNS
        options = ModelOptions(source, request.profile, NO_ADAPTER, offline=request.offline, slots=concurrency)

        def start() -> tuple[Model, Callable[[int], Policy]]:
            model, profile = build_model(options, get_domain(domain))
            return model, lambda _: ModelPolicy(model, get_domain(domain), profile, instruction)

        return Acting(RolloutLimits(turns=most), canonical_json([source, request.profile, instruction, most]), start)
    raise InputError(f"--policy {request.policy!r} is none of explorer, script:FILE, solutions:SERVER, model:M")


def exploring(domain: DomainName, turns: int, without: Set[str] = frozenset()) -> Acting:
    """The domain's explorer, for episodes of at most `turns` turns in which nothing of `without` is done.

    Raises InputError where the explorer cannot leave that out.
    """
    make_explorer(domain, 0, without)
    limits = RolloutLimits(turns=turns, invalid_actions=turns + 1)
    settings = canonical_json(["explorer", turns, *([sorted(without)] if without else [])])
    return Acting(limits, settings, lambda: (None, lambda seed: make_explorer(domain, seed, without)))


def _solved(domain: DomainName, server: str, names: Sequence[str]) -> tuple[list[World], Acting]:
    """The tasks that a packaged MCP server brings with their solutions: the world of each, and what replays them."""
    if domain != "mcp" or names:
        raise InputError(
            "--policy solutions:SERVER is for `collect mcp`, in the worlds of the tasks: leave --world out"
        )
    tasks = list(solutions(server))
    policies = [ScriptPolicy(actions, f"solution:{task}") for _, actions, task in tasks]
    limits = RolloutLimits(turns=1 + max(len(actions) for _, actions, _ in tasks))
    settings = canonical_json(["solutions", server])
    worlds = [place for place, _, _ in tasks]
    return worlds, Acting(limits, settings, lambda: (None, lambda seed: policies[seed % len(policies)]))


class Episode(NamedTuple):
    """One to run. Its id is fixed by the world, the policy and the seed."""

    id: str
    world: World
    seed: int


def plan_episodes(
    path: Path, wanted: Sequence[tuple[World, int]], settings: str, *, resume: bool
) -> tuple[list[Episode], set[str]]:
    """The episodes to run of those that are wanted, worlds with seeds; and the ids in the file that are done.

    On resume an episode that stands in the file is left out; one that was cancelled or failed through no fault of the
    policy is run again, under the id `ID.2` and so on. Without it, raises InputError when one stands there.
    """
    places = {id(place): place for place, _ in wanted}
    prefixes = {
        key: f"{place.name}-{digest(canonical_json(place.model_dump(mode='json')), settings)[:8]}"
        for key, place in places.items()
    }
    ours = tuple(prefixes.values())
    tries: Counter[str] = Counter()
    done: dict[str, str] = {}
    for trajectory in read_trajectories(path).items if path.is_file() else ():
        name = re.sub(r"\.\d+$", "", trajectory.id) if trajectory.id.startswith(ours) else trajectory.id
        tries[name] += 1
        if is_done(trajectory):
            done[name] = trajectory.id
    plan: list[Episode] = []
    kept: set[str] = set()
    for place, seed in wanted:
        name = f"{prefixes[id(place)]}-{seed}"
        if tries[name] and not resume:
            raise InputError(
                f"{path} already holds episode {name}; give --resume to go on with it, another --seed, or another file"
            )
        if name in done:
            kept.add(done[name])
        else:
            again = f".{tries[name] + 1}" if tries[name] else ""
            plan.append(Episode(f"{name}{again}", place, seed))
    return plan, kept


def _plan(path: Path, worlds: Sequence[World], acting: Acting, request: Request) -> list[Episode]:
    """The episodes to run, each in the next of the worlds."""
    seeds = range(request.seed, request.seed + (request.episodes or 1))
    wanted = [(worlds[seed % len(worlds)], seed) for seed in seeds]
    return plan_episodes(path, wanted, acting.settings, resume=request.resume)[0]


def _collect_domain(
    domain: DomainName, names: Sequence[str], request: Request, output: Path, agree: Path | None, as_json: bool | None
) -> Summary:
    """Record one domain's episodes and report on them (`as_json` None: leave that to the caller)."""
    episodes = request.episodes or 1
    concurrency = request.concurrency or min(SIZES[domain].concurrency, episodes)
    kind, _, source = request.policy.partition(":")
    if kind == "solutions":
        worlds, acting = _solved(domain, source, names)
    else:
        worlds = real_worlds(domain, names)
        acting = _acting(domain, worlds, request, concurrency)
    for place in worlds:
        make_environment(place)  # a world that is no good is refused before anything starts
    earlier = records(read_trajectories(agree).items) if agree else None
    with ExitStack() as stack:
        writer = stack.enter_context(JsonlWriter(output))
        summary = Summary(planned=episodes, earlier=earlier)
        plan = _plan(output, worlds, acting, request)
        if plan and kind != "solutions":
            refused = _refused(worlds, concurrency, keep=bool(names))
            summary.left_out = refused if not names else {}
            worlds = [place for place in worlds if place.name not in summary.left_out]
            plan = _plan(output, worlds, acting, request)
        summary.already = episodes - len(plan)
        model, make_policy = acting.start()

        async def work(signals: Signals) -> None:
            async with closing(model):
                with progress(f"collecting {domain}", len(plan)) as advance:

                    def record(trajectory: Trajectory) -> None:
                        writer.write(trajectory)
                        summary.add(trajectory)
                        advance()

                    await play(plan, make_policy, acting.limits, concurrency, record)

        started = time.perf_counter()
        try:
            run(work)
        finally:
            summary.seconds = time.perf_counter() - started
            if as_json is not None and (summary.endings or not plan):
                _report(summary, output, as_json)
    return summary


def _refused(worlds: Sequence[World], concurrency: int, *, keep: bool) -> dict[str, str]:
    """The worlds that cannot be started here, with why. Raises SetupError when there is no other."""

    async def work(signals: Signals) -> dict[str, str]:
        return await try_out(worlds, concurrency)

    with waiting("starting each world once"):
        refused = run(work)
    if len(refused) == len({place.name for place in worlds}):
        raise SetupError(next(iter(refused.values())))
    if not keep:
        for name, why in refused.items():
            note(f"world {name} is left out: {why}")
    return refused


async def try_out(worlds: Sequence[World], concurrency: int) -> dict[str, str]:
    """Start an environment of each world and close it: which worlds cannot be started, and why.

    Besides, what is fetched or built once (packages, indexes) is there afterwards. Raises InputError for a wrong
    world.
    """
    refused: dict[str, str] = {}
    wrong: list[InputError] = []
    limiter = anyio.CapacityLimiter(concurrency)

    async def try_one(place: World) -> None:
        async with limiter:
            environment = make_environment(place)
            try:
                await environment.reset(place.seed)
            except SetupError as error:
                refused[place.name] = str(error)
            except InputError as error:
                wrong.append(error)
            finally:
                with anyio.CancelScope(shield=True):
                    await environment.close()

    async with anyio.create_task_group() as group:
        for place in worlds:
            group.start_soon(try_one, place)
    if wrong:
        raise wrong[0]
    return refused


async def play(
    plan: Sequence[Episode],
    policy: Callable[[int], Policy],
    limits: RolloutLimits,
    concurrency: int,
    record: Callable[[Trajectory], None],
) -> None:
    """Play episodes in real environments, and hand each to `record` when it ends."""
    jobs = (
        Job(episode.id, partial(make_environment, episode.world), policy(episode.seed), episode.seed, None, limits)
        for episode in plan
    )
    await run_episodes(jobs, record, concurrency=concurrency)


# What came of it.


def _report(summary: Summary, path: Path, as_json: bool) -> None:
    figures = summary.figures()
    if as_json:
        show_json({"file": str(path), **figures})
        return
    endings = ", ".join(f"{kind} {count}" for kind, count in summary.endings.items()) or "none"
    failed = ", ".join(f"{kind} {count}" for kind, count in summary.failures.items()) or "none"
    there = f" ({summary.already} were there already)" if summary.already else ""
    show(f"{summary.endings.total()} of {summary.planned} episodes recorded in {path}{there}; endings: {endings}")
    rate = figures["turns_per_second"] or 0
    show(f"{summary.turns} turns in {summary.seconds:.1f} s ({rate:.1f} turns/s); failed turns: {failed}")
    if summary.unstable:
        show(f"{summary.unstable} turns were still changing when they were looked at (check `stable`)")
    if summary.left_out:
        show(f"left out, because they cannot be started here: {', '.join(summary.left_out)}")
    if summary.turns:
        show(
            f"{figures['distinct_actions']} distinct actions of {figures['families']} families; unchanged observations "
            f"{_percent(figures['unchanged_share'])}; a step takes {_ms(figures['step_seconds_p50'])} ms (median), "
            f"{_ms(figures['step_seconds_p95'])} ms (95 %); cost ${figures['cost_usd']:.2f}"
        )
    if summary.earlier is not None:
        show(
            f"beside the earlier collection: {figures['compared_turns']} turns in both, same action "
            f"{_percent(figures['same_action_share'])}, same observation {_percent(figures['same_observation_share'])}"
        )


_COLUMNS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("episodes", lambda f: str(f["recorded"])),
    ("turns", lambda f: str(f["turns"])),
    ("turns/s", lambda f: f"{f['turns_per_second'] or 0:.1f}"),
    ("ms/step", lambda f: _ms(f["step_seconds_p50"])),
    ("p95", lambda f: _ms(f["step_seconds_p95"])),
    ("failed", lambda f: _percent(f["failed_share"])),
    ("unstable", lambda f: str(f["unstable_turns"])),
    ("unchanged", lambda f: _percent(f["unchanged_share"])),
    ("distinct", lambda f: str(f["distinct_actions"])),
    ("families", lambda f: str(f["families"])),
    ("odd", lambda f: _percent(f["odd_share"])),
    ("cost", lambda f: f"${f['cost_usd']:.2f}"),
    ("same action", lambda f: _percent(f.get("same_action_share"))),
    ("same obs.", lambda f: _percent(f.get("same_observation_share"))),
)


def _table(done: dict[str, dict[str, Any]]) -> list[tuple[str, ...]]:
    columns = [
        (name, cell)
        for name, cell in _COLUMNS
        if not name.startswith("same") or any("compared_turns" in f for f in done.values())
    ]
    return [
        ("domain", *(name for name, _ in columns)),
        *((domain, *(cell(figures) for _, cell in columns)) for domain, figures in done.items()),
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.3g}" if seconds < 1 else f"{1000 * seconds:.0f}"
