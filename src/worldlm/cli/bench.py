"""`worldlm bench`: measure a world model, step by step or all at once."""

import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from worldlm.bench.averages import MIN_COVERAGE
from worldlm.bench.build import BuildPlan, build
from worldlm.bench.choices import (
    ChoiceResults,
    check_results,
    count_choices,
    is_choices,
    read_any_results,
    write_choice_results,
)
from worldlm.bench.choosing import CHOICE_PROTOCOLS
from worldlm.bench.compare import compare
from worldlm.bench.infer import (
    Predictor,
    default_words,
    environment_predictor,
    infer,
    model_predictor,
)
from worldlm.bench.judging import read_judgement
from worldlm.bench.public import score_public
from worldlm.bench.results import (
    METRIC_NAMES,
    Results,
    read_results,
    write_results,
)
from worldlm.bench.running import Report
from worldlm.bench.runs import Manifest, RunFile, check_plan, last_samples, plan, read_manifest
from worldlm.bench.samples import Sample, benchmark_digest, load_samples
from worldlm.bench.scoring import WORST, score
from worldlm.cli.bench_judge import AUDIT, QUESTIONS, JudgeOptions, audit, choose_file, judge_file, results_path
from worldlm.cli.bench_report import asked, asked_json, show_choices, show_comparison, show_public, show_results
from worldlm.cli.bench_run import at_once, told_when_stopped
from worldlm.cli.build import ModelOptions, build_model, closing
from worldlm.cli.console import note, progress, show, show_json
from worldlm.cli.signals import run as run_async
from worldlm.core.errors import InputError, WorldlmError, nearest
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Environment, Model
from worldlm.core.text import number_of
from worldlm.core.types import DOMAIN_NAMES, Profile, Trajectory, World
from worldlm.data import LossReport, ReadOptions, import_trajectories
from worldlm.domains import get_domain
from worldlm.simulate import SimulatedEnvironment

app = typer.Typer(rich_markup_mode=None, help="Measure a world model on single turns of real trajectories.")

PREDICTIONS, SCORES, RESULTS, REPORT = "predictions.jsonl", "scores.jsonl", "results.json", "report.html"
"""What `bench run` writes into its folder."""
Prompt = Literal["own", "sample", "environment"]

_Benchmark = Annotated[
    str, typer.Argument(metavar="BENCHMARK", help="A file or folder of samples, or realturns-a, realturns-b.")
]
_Model = Annotated[
    str, typer.Option("--model", "-m", help="embedded, replay:FILE, openai:NAME@URL, or a name from `models list`.")
]
_Profile = Annotated[str | None, typer.Option(help="How the model is asked; see `models list`.")]
_Prompt = Annotated[
    str | None,
    typer.Option(
        help="own: our prompts; sample: the samples' own messages; environment: a simulated session. By default own "
        "where the samples bring their worlds, else sample."
    ),
]
_Domain = Annotated[list[str] | None, typer.Option(help="Only samples of this domain; may be given again.")]
_Limit = Annotated[int | None, typer.Option(min=1, help="At most so many samples of each domain.")]
_Ids = Annotated[list[str] | None, typer.Option("--id", help="Only this sample (TASK/ID); may be given again.")]
_Concurrency = Annotated[int | None, typer.Option(min=1, max=1024, help="Samples that are asked at the same time.")]
_Seed = Annotated[int, typer.Option(help="Seed of the sampling: each sample's is derived from it.")]
_MaxTokens = Annotated[int | None, typer.Option(min=1, help="The longest reply, in place of the profile's.")]
_Deterministic = Annotated[
    bool, typer.Option("--deterministic", help="Temperature 0; embedded: one request at a time, no prefix reuse.")
]
_Lora = Annotated[Path | None, typer.Option(help="A LoRA adapter (GGUF) for the embedded model; none: no adapter.")]
_Keep = Annotated[
    bool,
    typer.Option(
        "--retry-failed/--keep-failed",
        help="Ask again what failed through no fault of the model's; the model's own failures stand.",
    ),
]
_Offline = Annotated[bool, typer.Option("--offline", help="Never download.")]
_Cache = Annotated[Path | None, typer.Option(help="Keep answers in this file: same question, same answer.")]
_Record = Annotated[Path | None, typer.Option(help="Record model calls here, for --model replay:FILE.")]
_Budget = Annotated[int | None, typer.Option(min=1, help="Stop after this many tokens.")]
_Deadline = Annotated[float, typer.Option(min=0.1, help="Seconds for one model call, with all its tries.")]
_Judge = Annotated[
    list[str] | None,
    typer.Option("--judge", help="A judging model, as in --model; may be given again. Without: rules alone."),
]
_Rules = Annotated[bool, typer.Option("--rules/--no-rules", help="Score by rules as well.")]
_Repeats = Annotated[int, typer.Option(min=1, max=32, help="Verdicts of each judge on each prediction.")]
_JudgeTemperature = Annotated[float, typer.Option(min=0, help="Temperature of the judges.")]
_JudgeContext = Annotated[int, typer.Option(min=4096, help="Tokens that a judge's prompt and reply may fill.")]
_Structured = Annotated[
    bool,
    typer.Option(
        "--structured/--no-structured",
        help="Ask judges' servers for verdicts by a JSON schema; one that refuses is asked without.",
    ),
]
_MinCoverage = Annotated[
    float, typer.Option(min=0, max=1, help="Coverage of each domain below which there is no headline.")
]
_Name = Annotated[str | None, typer.Option(help="What the run is called in tables (the model's name by default).")]
_Worst = Annotated[int, typer.Option(min=0, help="Of each domain, the samples that are kept with their texts.")]
_Json = Annotated[bool, typer.Option("--json", help="Report as one JSON object.")]


# build


@app.command("build")
def build_command(
    sources: Annotated[list[Path], typer.Argument(metavar="IN...", help="Trajectories: files or folders.")],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The folder of the benchmark.")],
    per_domain: Annotated[int, typer.Option(min=1, help="Samples of a domain, at most.")] = 100,
    per_trajectory: Annotated[int, typer.Option(min=1, help="Samples of one trajectory, at most.")] = 3,
    replays: Annotated[
        list[Path] | None,
        typer.Option(help="The same actions played again elsewhere, for content classes; may be given again."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides between turns that are equal otherwise.")] = 0,
    as_json: _Json = False,
) -> None:
    """Make a benchmark from trajectories: turns spread over position in the session and content class."""
    trajectories = [trajectory for source in sources for trajectory in _trajectories(source)]
    again: dict[str, list[Trajectory]] = {}
    for source in replays or ():
        for trajectory in _trajectories(source):
            again.setdefault(trajectory.id, []).append(trajectory)
    options = BuildPlan(per_domain=per_domain, per_trajectory=per_trajectory, seed=seed)
    report = build(trajectories, output, options, replays=again or None)
    if as_json:
        show_json(
            {
                "samples": report.samples,
                "cells": {domain: dict(sorted(cells.items())) for domain, cells in report.cells.items()},
                "files": report.files,
                "left_out": dict(report.left_out),
            }
        )
        return
    for domain, cells in report.cells.items():
        spread = ", ".join(f"{name} {count}" for name, count in sorted(cells.items()))
        show(f"{output / f'{domain}_test.jsonl'}: {number_of(report.samples[domain], 'sample')} ({spread})")
    if report.left_out:
        note("turns left out: " + ", ".join(f"{why} {count}" for why, count in report.left_out.most_common()))


def _trajectories(source: Path) -> list[Trajectory]:
    report = LossReport()
    found = list(import_trajectories(source, None, ReadOptions(), report))
    problems = [problem for file in report.files for problem in file.problems]
    if problems:
        more = f" (and {report.bad - 1} more)" if report.bad > 1 else ""
        raise InputError(f"{problems[0]}{more}; mend or remove what is wrong")
    return found


# infer


@app.command("infer")
def infer_command(
    benchmark: _Benchmark,
    output: Annotated[Path, typer.Argument(metavar="OUT.jsonl", help="The predictions; a rerun goes on with them.")],
    model: _Model = "embedded",
    profile: _Profile = None,
    lora: _Lora = None,
    prompt: _Prompt = None,
    domain: _Domain = None,
    limit: _Limit = None,
    ids: _Ids = None,
    concurrency: _Concurrency = None,
    seed: _Seed = 0,
    max_tokens: _MaxTokens = None,
    deterministic: _Deterministic = False,
    retry_failed: _Keep = True,
    offline: _Offline = False,
    cache: _Cache = None,
    record: _Record = None,
    budget_tokens: _Budget = None,
    deadline: _Deadline = 600.0,
    as_json: _Json = False,
) -> None:
    """Ask a model about every sample. Each finished one is one flushed line; a rerun asks only what is missing."""
    samples = load_samples(benchmark, domains=domain or (), limit=limit, ids=ids or ())
    options = ModelOptions(
        spec=model,
        profile=profile,
        lora=lora,
        deterministic=deterministic,
        offline=offline,
        deadline=deadline,
        cache=cache,
        record=record,
        budget_tokens=budget_tokens,
    )
    report = _infer(
        benchmark,
        samples,
        output,
        options,
        _words(prompt, samples),
        concurrency,
        seed,
        max_tokens,
        retry_failed,
        as_json,
    )
    if as_json:
        show_json({"file": str(output), **asked_json(report)})
    else:
        show(f"{output}: {asked(report)}")


def _words(prompt: str | None, samples: Sequence[Sample]) -> Prompt:
    known = ("own", "sample", "environment")
    if prompt is None:
        return default_words(samples)
    if prompt not in known:
        raise InputError(f"--prompt {prompt!r}; {nearest(prompt, known)}")
    return cast(Prompt, prompt)


def _infer(
    benchmark: str,
    samples: Sequence[Sample],
    output: Path,
    options: ModelOptions,
    prompt: Prompt,
    concurrency: int | None,
    seed: int,
    max_tokens: int | None,
    retry_failed: bool,
    as_json: bool,
) -> Report:
    requests, options = at_once(options, concurrency)
    domains = {sample.domain for sample in samples}
    chosen, how = build_model(options, get_domain(domains.pop() if len(domains) == 1 else "mcp"))
    if max_tokens is not None:
        how = how.model_copy(update={"sampling": how.sampling.model_copy(update={"max_tokens": max_tokens})})
    predictor = _predictor(chosen, how, prompt, seed)
    manifest = Manifest(
        version=metadata.version("worldlm"),
        benchmark=benchmark,
        benchmark_digest=benchmark_digest((sample.key, sample.digest) for sample in samples),
        infer=predictor.settings,
        planned=plan(samples),
    )

    async def work(signals: object) -> Report:
        async with closing(chosen):
            with (
                RunFile(output, "prediction", manifest, retry_failed=retry_failed) as file,
                told_when_stopped(output),
                progress("predicting", _left(samples, file), hidden=as_json) as advance,
            ):
                return await infer(
                    samples, predictor, file, concurrency=requests, on_done=lambda sample, prediction: advance()
                )

    return run_async(work)


def _left(samples: Sequence[Sample], file: RunFile) -> int:
    return sum(not file.is_finished(sample.key, sample.digest) for sample in samples)


def _predictor(model: Model, profile: Profile, prompt: Prompt, seed: int) -> Predictor:
    if prompt != "environment":
        return model_predictor(model, profile, prompt, seed=seed)

    def make(world: World) -> Environment:
        return SimulatedEnvironment(world, get_domain(world.domain), model, profile)

    made = environment_predictor(make, name=model.name, about=profile.name, seed=seed)
    like = model_predictor(model, profile, "own", seed=seed).settings
    settings = like.model_copy(update={"prompt": "environment"})
    return Predictor(settings, made.predict)


# judge


@app.command("judge")
def judge_command(
    source: Annotated[
        Path | None, typer.Argument(metavar="PREDICTIONS.jsonl", help="Predictions, of `bench infer` or of others.")
    ] = None,
    output: Annotated[
        Path | None, typer.Argument(metavar="OUT.jsonl", help="The scores or choices; a rerun goes on with them.")
    ] = None,
    judge: _Judge = None,
    protocol: Annotated[
        str,
        typer.Option(
            help="rubric: grades; turing: which of the real and the predicted answer is real; pairwise: which of two "
            "runs' predictions is better."
        ),
    ] = "rubric",
    against: Annotated[
        Path | None, typer.Option(metavar="OTHER.jsonl", help="With --protocol pairwise: the other predictions.")
    ] = None,
    rules: _Rules = True,
    structured: _Structured = True,
    repeats: _Repeats = 1,
    temperature: _JudgeTemperature = 0.0,
    context: _JudgeContext = 65_536,
    seed: Annotated[
        int, typer.Option(help="Of the judges' sampling, of the order of two answers, and of the audit's questions.")
    ] = 0,
    auditing: Annotated[
        bool,
        typer.Option("--audit", help="Measure the judges themselves, on the calibration set; no files are needed."),
    ] = False,
    domain: Annotated[
        list[str] | None, typer.Option(help="With --audit: only this domain; may be given again.")
    ] = None,
    questions: Annotated[int, typer.Option(min=1, help="With --audit: questions of each domain, at most.")] = QUESTIONS,
    bases: Annotated[
        int, typer.Option(min=1, help="With --audit: faulty predictions of each domain that attacks are tried on.")
    ] = 3,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="RESULTS.json",
            help="Where the result goes: of an audit audit.json, of a turing test or a comparison beside OUT.",
        ),
    ] = None,
    concurrency: _Concurrency = None,
    retry_failed: _Keep = True,
    offline: _Offline = False,
    cache: _Cache = None,
    budget_tokens: _Budget = None,
    deadline: _Deadline = 600.0,
    as_json: _Json = False,
) -> None:
    """Score predictions: by rules, and by the rubric where a judge is given; or let a judge choose between two answers.

    With --audit: measure the judges.
    """
    wanted = JudgeOptions(
        specs=judge or (),
        rules=rules,
        repeats=repeats,
        temperature=temperature,
        context=context,
        structured=structured,
        seed=seed,
        offline=offline,
        cache=cache,
        budget_tokens=budget_tokens,
        deadline=deadline,
    )
    known = ("rubric", *CHOICE_PROTOCOLS)
    if protocol not in known:
        raise InputError(f"--protocol {protocol!r}; {nearest(protocol, known)}")
    if auditing:
        if source is not None or output is not None or protocol != "rubric" or against is not None:
            raise InputError("--audit takes no files and no protocol: it measures judges on the calibration set")
        audit(wanted, out or AUDIT, domain or DOMAIN_NAMES, questions, bases, concurrency, as_json)
        return
    if source is None or output is None:
        raise InputError("name the predictions and the file for the scores: worldlm bench judge PREDICTIONS OUT")
    chosen = next((name for name in CHOICE_PROTOCOLS if name == protocol), None)
    if chosen is None:
        if against is not None or out is not None:
            raise InputError("--against and --out go with --protocol turing or pairwise; `bench score` averages scores")
        report = judge_file(source, output, wanted, concurrency, retry_failed, as_json)
        if as_json:
            show_json({"file": str(output), **asked_json(report)})
        else:
            show(f"{output}: {asked(report)}")
        _raise_if_unusable(output, report)
        return
    report, results = choose_file(source, output, chosen, against, out, wanted, concurrency, retry_failed, as_json)
    if not as_json:
        note(f"{output}: {asked(report)}; {out or results_path(output)}")
    show_choices(results, as_json, report)
    _raise_if_withheld(results.withheld, chosen)


# score


@app.command("score")
def score_command(
    source: Annotated[
        Path, typer.Argument(metavar="SCORES.jsonl", help="Scores; predictions are scored by rules on the way.")
    ],
    output: Annotated[Path | None, typer.Option("--out", metavar="RESULTS.json", help="Write the result file.")] = None,
    public: Annotated[
        bool, typer.Option("--public", help="The public script's way: mean over samples, failures dropped.")
    ] = False,
    name: _Name = None,
    min_coverage: _MinCoverage = MIN_COVERAGE,
    worst: _Worst = WORST,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    as_json: _Json = False,
) -> None:
    """Average scores: by domain, with failures counted, coverage and intervals. Nothing is asked."""
    if public:
        if output is not None:
            raise InputError("--public writes no result file: its figures are for comparison; use --json")
        show_public(score_public(source), as_json)
        return
    if is_choices(source):
        counted = count_choices(
            source,
            name=name,
            min_coverage=min_coverage,
            telling=worst,
            seed=seed,
            version=metadata.version("worldlm"),
        )
        if output is not None:
            check_results(output, counted.benchmark, counted.samples)
            write_choice_results(counted, output)
        show_choices(counted, as_json)
        _raise_if_withheld(counted.withheld, counted.protocol)
        return
    results = score(
        source,
        name=name,
        min_coverage=min_coverage,
        worst=worst,
        seed=seed,
        version=metadata.version("worldlm"),
    )
    if output is not None:
        check_results(output, results.benchmark, results.samples)
        write_results(results, output)
    show_results(results, as_json)
    _raise_if_any_withheld(results)


def _raise_if_any_withheld(results: Results) -> None:
    for table in results.tables:
        _raise_if_withheld(table.withheld, table.metric.name)


def _raise_if_unusable(path: Path, report: Report) -> None:
    """An error where judges were asked and said nothing that can be used, so that no script takes it for done."""
    if report.outcomes and not set(report.outcomes) - {Outcome.JUDGE_FAILED.value}:
        details = (judgement.detail for judgement in map(read_judgement, last_samples(path)) if judgement is not None)
        why = next((detail for detail in details if detail), "no reason is given")
        raise WorldlmError(
            f"{path}: none of {number_of(report.outcomes.total(), 'verdict')} can be used; the first: {why}"
        )


def _raise_if_withheld(why: str | None, by: str) -> None:
    if why:
        raise WorldlmError(
            f"no headline by {by}: {why}; run it again to ask for what is missing, or say --min-coverage"
        )


# report


@app.command("report")
def report_command(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="RESULTS.json...", help="Result files of `bench score`, `run` and `judge --protocol`."),
    ],
    output: Annotated[Path, typer.Option("--out", metavar="REPORT.html", help="The page.")] = Path(REPORT),
) -> None:
    """Write one self-contained HTML page of one run, or of several beside each other: scores and choices."""
    _write_report([read_any_results(source) for source in sources], output)
    show(f"{output}: {number_of(len(sources), 'run')}")


def _write_report(results: Sequence[Results | ChoiceResults], output: Path) -> None:
    from worldlm.bench.report import write_report

    write_report(results, output)


# run


@app.command("run")
def run_command(
    benchmark: _Benchmark,
    output: Annotated[Path, typer.Argument(metavar="FOLDER", help="Predictions, scores, results and report.")],
    model: _Model = "embedded",
    profile: _Profile = None,
    lora: _Lora = None,
    prompt: _Prompt = None,
    domain: _Domain = None,
    limit: _Limit = None,
    ids: _Ids = None,
    judge: _Judge = None,
    rules: _Rules = True,
    structured: _Structured = True,
    repeats: _Repeats = 1,
    temperature: Annotated[float, typer.Option("--judge-temperature", min=0, help="Temperature of the judges.")] = 0.0,
    context: Annotated[
        int, typer.Option("--judge-context", min=4096, help="Tokens that a judge's prompt and reply may fill.")
    ] = 65_536,
    concurrency: _Concurrency = None,
    seed: _Seed = 0,
    max_tokens: _MaxTokens = None,
    deterministic: _Deterministic = False,
    retry_failed: _Keep = True,
    name: _Name = None,
    min_coverage: _MinCoverage = MIN_COVERAGE,
    worst: _Worst = WORST,
    offline: _Offline = False,
    cache: _Cache = None,
    record: _Record = None,
    budget_tokens: _Budget = None,
    deadline: _Deadline = 600.0,
    as_json: _Json = False,
) -> None:
    """All of it: infer, judge, score and report, in one folder. A rerun goes on where this one stopped."""
    if not rules and not judge:
        raise InputError("--no-rules needs a --judge: nothing would be scored")
    wanted = JudgeOptions(
        specs=judge or (),
        rules=rules,
        repeats=repeats,
        temperature=temperature,
        context=context,
        structured=structured,
        seed=seed,
        offline=offline,
        budget_tokens=budget_tokens,
        deadline=deadline,
    )
    samples = load_samples(benchmark, domains=domain or (), limit=limit, ids=ids or ())
    options = ModelOptions(
        spec=model,
        profile=profile,
        lora=lora,
        deterministic=deterministic,
        offline=offline,
        deadline=deadline,
        cache=cache,
        record=record,
        budget_tokens=budget_tokens,
    )
    started = time.perf_counter()
    words = _words(prompt, samples)
    predicted, scored = output / PREDICTIONS, output / SCORES
    planned = plan(samples)
    check_results(output / RESULTS, benchmark, planned)
    for file in (predicted, scored):
        check_plan(file, read_manifest(file), benchmark, planned)
    inferred = _infer(
        benchmark, samples, predicted, options, words, concurrency, seed, max_tokens, retry_failed, as_json
    )
    if not as_json:
        note(f"{predicted}: {asked(inferred)}")
    judged = judge_file(predicted, scored, wanted, concurrency, retry_failed, as_json)
    if not as_json:
        note(f"{scored}: {asked(judged)}")
    results = score(scored, name=name, min_coverage=min_coverage, worst=worst, version=metadata.version("worldlm"))
    write_results(results, output / RESULTS)
    _write_report([results], output / REPORT)
    show_results(results, as_json)
    if not as_json:
        show(f"{output / RESULTS}, {output / REPORT}; {time.perf_counter() - started:.1f} s")
    _raise_if_any_withheld(results)


# compare


@app.command("compare")
def compare_command(
    first: Annotated[Path, typer.Argument(metavar="A.json", help="A result file.")],
    second: Annotated[Path, typer.Argument(metavar="B.json", help="Another of the same benchmark.")],
    metric: Annotated[
        str | None, typer.Option(help="rules, rubric or blend; by default the fullest that both have.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    as_json: _Json = False,
) -> None:
    """Compare two runs sample by sample: difference with a paired interval, wins, ties and losses."""
    if metric is not None and metric not in METRIC_NAMES:
        raise InputError(f"--metric {metric!r}; {nearest(metric, METRIC_NAMES)}")
    compared = compare(read_results(first), read_results(second), metric, seed=seed)
    if as_json:
        show_json(compared.model_dump(mode="json"))
        return
    show_comparison(compared)
