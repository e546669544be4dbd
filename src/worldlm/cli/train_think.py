"""`worldlm train think`: trajectories with thinking, sampled from a model or derived by a program."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from worldlm.cli.bench_run import at_once, told_when_stopped
from worldlm.cli.build import ModelOptions, build_model, closing
from worldlm.cli.console import note, progress, show, show_json, show_rows
from worldlm.cli.data_report import MAX_BAD
from worldlm.cli.data_report import judge as judge_reading
from worldlm.cli.signals import run as run_async
from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.jsonl import JsonlWriter
from worldlm.core.protocols import Model
from worldlm.core.types import NO_USAGE, Profile, Trajectory
from worldlm.data.exporting import refuse_existing
from worldlm.data.formats import ReadOptions
from worldlm.data.importing import import_trajectories
from worldlm.data.report import LossReport
from worldlm.data.settings import read_settings, settings
from worldlm.domains import DOMAINS
from worldlm.judge.question import Question
from worldlm.judge.rubric import RUBRIC_VERSION, JudgeSettings
from worldlm.judge.rubric import judge as judge_rubric
from worldlm.judge.score import Verdict
from worldlm.train.derivations import MOST_TOKENS
from worldlm.train.think import (
    Coverage,
    Judge,
    Retention,
    Sampler,
    ThinkSettings,
    Trace,
    Traces,
    derived,
    sample_thinking,
    with_thinking,
)

SHOWN_FALSE = 5
"""False claims that an error shows."""
ROOM = 2048
"""Tokens of an answer, where the profile says nothing of it."""

_Input = Annotated[Path, typer.Argument(metavar="IN", help="Trajectories: a file, or a folder of files.")]
_Output = Annotated[Path, typer.Argument(metavar="OUT", help="The trajectories with thinking; a rerun goes on.")]
_Config = Annotated[
    Path | None, typer.Option("--config", help="Settings of the sampling, as YAML; an option is used in their place.")
]
_Programmatic = Annotated[
    bool, typer.Option("--programmatic", help="Derive the thinking by a program; no model is asked.")
]
_Model = Annotated[
    str, typer.Option("--model", "-m", help="embedded, replay:FILE, openai:NAME@URL, or a name from `models list`.")
]
_Profile = Annotated[str | None, typer.Option(help="How the model is asked; thinking is asked for in any case.")]
_Lora = Annotated[Path | None, typer.Option(help="A LoRA adapter (GGUF) for the embedded model.")]
_Judge = Annotated[
    str | None, typer.Option("--judge", help="A model that grades by the rubric, as in --model. Without: rules alone.")
]
_Samples = Annotated[int | None, typer.Option(min=1, max=64, help="Replies to each turn (4).")]
_Threshold = Annotated[float | None, typer.Option(min=0, max=100, help="The score from which on a reply is good (80).")]
_Keep = Annotated[str | None, typer.Option(help="Of each turn the best thinking, or all that is good: best, all.")]
_Temperature = Annotated[float | None, typer.Option(min=0, help="Temperature of the samples (0.8).")]
_MostTokens = Annotated[
    int | None, typer.Option(min=1, help=f"Tokens of a thinking, at most (512; derived: {MOST_TOKENS}).")
]
_Copied = Annotated[
    int | None, typer.Option(min=0, help="Characters of new lines of the answer that a thinking may hold whole (80).")
]
_Domain = Annotated[list[str] | None, typer.Option(help="Only turns of this domain; may be given again.")]
_Seed = Annotated[int | None, typer.Option(help="Seed of the sampling: each sample's is derived from it.")]
_Concurrency = Annotated[int | None, typer.Option(min=1, max=1024, help="Calls that run at the same time.")]
_Offline = Annotated[bool, typer.Option("--offline", help="Never download.")]
_Cache = Annotated[Path | None, typer.Option(help="Keep answers in this file: same question, same answer.")]
_Record = Annotated[Path | None, typer.Option(help="Record model calls here, for --model replay:FILE.")]
_Budget = Annotated[int | None, typer.Option(min=1, help="Stop after this many tokens.")]
_Deadline = Annotated[float, typer.Option(min=0.1, help="Seconds for one model call, with all its tries.")]
_MaxBad = Annotated[float, typer.Option(min=0, max=1, help="The share of bad records above which the exit code is 1.")]
_Json = Annotated[bool, typer.Option("--json", help="Report as one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add the verb to the application of `worldlm train`."""
    app.command("think")(think)


def think(
    source: _Input,
    output: _Output,
    config: _Config = None,
    programmatic: _Programmatic = False,
    model: _Model = "embedded",
    profile: _Profile = None,
    lora: _Lora = None,
    judge: _Judge = None,
    samples: _Samples = None,
    threshold: _Threshold = None,
    keep: _Keep = None,
    temperature: _Temperature = None,
    most_tokens: _MostTokens = None,
    copied_characters: _Copied = None,
    domain: _Domain = None,
    seed: _Seed = None,
    concurrency: _Concurrency = None,
    offline: _Offline = False,
    cache: _Cache = None,
    record: _Record = None,
    budget_tokens: _Budget = None,
    deadline: _Deadline = 600.0,
    max_bad: _MaxBad = MAX_BAD,
    as_json: _Json = False,
) -> None:
    """Write trajectories whose turns have thinking: the best of several samples by rules or a judge, or derived."""
    given = {
        "samples": samples,
        "threshold": threshold,
        "keep": keep,
        "temperature": temperature,
        "most_tokens": most_tokens,
        "copied_characters": copied_characters,
        "domains": domain or None,
        "seed": seed,
    }
    wanted = _settings(config, {name: value for name, value in given.items() if value is not None})
    if source.resolve() == output.resolve():
        raise InputError(f"{source} is what is read; give the trajectories with thinking a file of their own")
    if programmatic:
        refuse_existing(output)
        _derive(source, output, wanted, most_tokens or MOST_TOKENS, max_bad, as_json)
        return
    options = ModelOptions(
        spec=model,
        profile=profile,
        lora=lora,
        offline=offline,
        deadline=deadline,
        cache=cache,
        record=record,
        budget_tokens=budget_tokens,
    )
    _sample(source, output, wanted, options, judge, concurrency, max_bad, as_json)


def _settings(config: Path | None, given: Mapping[str, Any]) -> ThinkSettings:
    return (
        settings(given, ThinkSettings, "the options") if config is None else read_settings(config, ThinkSettings, given)
    )


# Without a model.


def _derive(source: Path, output: Path, wanted: ThinkSettings, most_tokens: int, max_bad: float, as_json: bool) -> None:
    report = LossReport()
    coverage: dict[str, Coverage] = {}
    with _whole(output) as writer, progress("deriving", None, hidden=as_json) as advance:
        for trajectory in import_trajectories(source, None, ReadOptions(), report):
            if (name := trajectory.world.domain) in wanted.domains:
                trajectory = derived(trajectory, coverage.setdefault(name, Coverage()), most_tokens)
            writer.write(trajectory)
            advance()
        judge_reading(report, max_bad)
        if false := [place for each in coverage.values() for place in each.false]:
            more = f" (and {len(false) - SHOWN_FALSE} more)" if len(false) > SHOWN_FALSE else ""
            raise WorldlmError(f"false claims, nothing is written: {'; '.join(false[:SHOWN_FALSE])}{more}")
    figures = {name: coverage[name].figures() for name in DOMAINS if name in coverage}
    if as_json:
        show_json({"file": str(output), "bad": report.bad, "domains": figures})
        return
    _problems(report)
    show_rows(
        [
            ("domain", "turns", "derived", "coverage", "tokens", "claims", "false", "refuted"),
            *(
                (
                    name,
                    str(found["turns"]),
                    str(found["derived"]),
                    _percent(found["coverage"]),
                    _number(found["mean_tokens"]),
                    str(found["claims"]),
                    str(found["false_claims"]),
                    _percent(found["refuted_by_another"]),
                )
                for name, found in figures.items()
            ),
        ]
    )
    show(f"{output}: {report.trajectories} trajectories")


# With a model.


def traces_path(output: Path) -> Path:
    """Where the samples of a run are kept: `think.traces.jsonl` beside `think.jsonl`."""
    return output.with_name(output.name.removesuffix(".jsonl") + ".traces.jsonl")


def _sample(
    source: Path,
    output: Path,
    wanted: ThinkSettings,
    options: ModelOptions,
    judge: str | None,
    concurrency: int | None,
    max_bad: float,
    as_json: bool,
) -> None:
    if not traces_path(output).exists():
        refuse_existing(output)
    reading = LossReport()
    for _ in import_trajectories(source, None, ReadOptions(), reading):
        pass  # a file that cannot be read says so before anything is paid for
    judge_reading(reading, max_bad)
    requests, options = at_once(options, concurrency)
    model, how = build_model(options, DOMAINS["mcp"])  # (a domain matters to replays alone)
    grader = None if judge is None else build_model(_judging(options, judge), DOMAINS["mcp"])[0]
    identity = "" if grader is None else f"{grader.name} {JudgeSettings().model_dump_json()} {RUBRIC_VERSION}"
    grade = None if grader is None else _judge(grader)
    sampler = Sampler(model, _thinking(how, wanted), wanted, grade, identity)

    async def work(signals: object) -> int:
        async with closing(model), closing(grader):
            with told_when_stopped(traces_path(output)), progress("sampling", None, hidden=as_json) as advance:
                return await sample_thinking(
                    import_trajectories(source, None, ReadOptions(), LossReport()),
                    sampler,
                    traces,
                    concurrency=requests,
                    on_done=lambda trace: advance(),
                    on_unfit=note,
                )

    traces = Traces(traces_path(output), sampler)
    try:
        asked = run_async(work)
    finally:
        traces.close()
    found = _finished(source, sampler, traces)
    written = _write(source, output, found)
    _report(output, reading, found, written, asked, as_json)


def _thinking(how: Profile, wanted: ThinkSettings) -> Profile:
    """The profile, asking for thinking, with room for it."""
    if how.thinking:
        return how
    room = (how.sampling.max_tokens or ROOM) + wanted.most_tokens
    return how.model_copy(update={"thinking": True, "sampling": how.sampling.model_copy(update={"max_tokens": room})})


def _judging(options: ModelOptions, spec: str) -> ModelOptions:
    return ModelOptions(spec=spec, offline=options.offline, deadline=options.deadline, slots=options.slots)


def _judge(model: Model) -> Judge:
    async def grade(question: Question, predicted: str) -> Verdict:
        return await judge_rubric(question, predicted, model)

    return grade


def _finished(source: Path, sampler: Sampler, traces: Traces) -> dict[tuple[str, int], Trace]:
    """The traces of the turns that the input has now."""
    found = {}
    for trajectory in import_trajectories(source, None, ReadOptions(), LossReport()):
        try:
            for asked in sampler.turns(trajectory):
                key = (trajectory.id, asked.target.turn)
                if (trace := traces.found.get(key)) and trace.digest == asked.digest:
                    found[key] = trace
        except InputError:  # its world does not fit: it has no traces
            continue
    return found


def _write(source: Path, output: Path, found: Mapping[tuple[str, int], Trace]) -> int:
    written = 0
    with _whole(output) as writer:
        for trajectory in import_trajectories(source, None, ReadOptions(), LossReport()):
            for made in with_thinking(trajectory, _kept(trajectory, found)):
                writer.write(made)
                written += 1
    return written


def _kept(trajectory: Trajectory, found: Mapping[tuple[str, int], Trace]) -> Any:
    return lambda number: found[trajectory.id, number].kept if (trajectory.id, number) in found else ()


def _report(
    output: Path,
    reading: LossReport,
    found: Mapping[tuple[str, int], Trace],
    written: int,
    asked: int,
    as_json: bool,
) -> None:
    by_domain: dict[str, Retention] = {}
    everything, usage = Retention(), NO_USAGE
    for trace in found.values():
        by_domain.setdefault(trace.domain, Retention()).add(trace)
        everything.add(trace)
        usage += trace.usage
    figures = {name: by_domain[name].figures() for name in DOMAINS if name in by_domain}
    if as_json:
        show_json(
            {
                "file": str(output),
                "traces_file": str(traces_path(output)),
                "trajectories": written,
                "asked": asked,
                "already": len(found) - asked,
                "usage": usage.model_dump(mode="json"),
                "domains": figures,
                "all": everything.figures(),
            }
        )
        return
    _problems(reading)
    rows: list[tuple[str, ...]] = [("domain", "turns", "kept", "retention", "tokens", "samples")]
    for name, each in (*figures.items(), ("all", everything.figures())):
        fates = ", ".join(f"{fate.replace('_', ' ')} {count}" for fate, count in each["samples"].items())
        told = (str(each["turns"]), str(each["kept_turns"]), _percent(each["retention"]), _number(each["mean_tokens"]))
        rows.append((name, *told, fates))
    show_rows(rows)
    if failed := {kind: count for kind, count in everything.outcomes.items() if kind != "ok"}:
        note("failures: " + ", ".join(f"{kind} {count}" for kind, count in failed.items()))
    show(f"{output}: {written} trajectories; {everything.traces} turns have thinking from {usage.calls} calls")


# Both.


@contextmanager
def _whole(output: Path) -> Iterator[JsonlWriter]:
    """A writer whose file has its name only when all is written."""
    part = output.with_name(f".{output.name}.part")
    part.unlink(missing_ok=True)
    writer = JsonlWriter(part)
    try:
        yield writer
    except BaseException:
        writer.close()
        part.unlink(missing_ok=True)
        raise
    writer.close()
    part.replace(output)


def _problems(report: LossReport) -> None:
    for problem in (problem for file in report.files for problem in file.problems):
        note(problem)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
