"""The judging verbs of `worldlm bench`: scores, choices between two answers, and the audit of the judges."""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from worldlm.bench.choices import ChoiceResults, check_results, count_choices, write_choice_results
from worldlm.bench.choosing import ChoiceProtocol, Choosing, choose_all, pair_up
from worldlm.bench.infer import Prediction
from worldlm.bench.judging import Judging, judge_all, predictions
from worldlm.bench.results import JudgingSettings, write_whole
from worldlm.bench.running import Report
from worldlm.bench.runs import Manifest, RunFile, plan, read_manifest
from worldlm.bench.samples import Sample, benchmark_digest
from worldlm.cli.bench_run import at_once, told_when_stopped
from worldlm.cli.build import ModelOptions, build_model, closing
from worldlm.cli.console import note, progress, show, show_json, show_rows
from worldlm.cli.signals import run as run_async
from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.protocols import Model
from worldlm.core.text import derive_seed, number_of
from worldlm.core.types import Sampling
from worldlm.domains import DOMAINS, get_domain
from worldlm.judge.audit import AuditReport
from worldlm.judge.audit import audit as audit_judges
from worldlm.judge.calibration import CalibrationItem, load_calibration
from worldlm.judge.rubric import JudgeSettings
from worldlm.models import CachedModel
from worldlm.models.adapters import NO_ADAPTER

QUESTIONS = 6
"""Of each domain: what an audit asks about unless told otherwise."""
PATIENCE = 24
"""Verdicts of a judge of which at least one must be usable for its audit to go on."""
AUDIT = Path("audit.json")
_ABOUT_FORMAT = re.compile(r"response.?format|json.?schema|structured.output|grammar|guided", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """The judges of a verb, as they were asked for."""

    specs: Sequence[str]
    rules: bool = True
    repeats: int = 1
    temperature: float = 0.0
    context: int = 65_536
    structured: bool = True
    seed: int = 0
    offline: bool = False
    cache: Path | None = None
    budget_tokens: int | None = None
    deadline: float = 600.0

    @property
    def settings(self) -> JudgeSettings:
        """How they are asked."""
        sampling = Sampling(temperature=self.temperature, max_tokens=min(4096, self.context // 2))
        return JudgeSettings(sampling=sampling, context=self.context, structured=self.structured, seed=self.seed)

    def build(self, concurrency: int | None, cache: Path | None = None) -> tuple[list[Model], int]:
        """The models, and how many predictions are judged at once. `cache`: where no other was named."""
        if len(set(self.specs)) < len(self.specs):
            raise InputError("--judge names one model twice; --repeats asks one judge several times")
        models, least = [], []
        for spec in self.specs:
            options = ModelOptions(
                spec=spec,
                lora=NO_ADAPTER,
                offline=self.offline,
                cache=self.cache or cache,
                budget_tokens=self.budget_tokens,
                deadline=self.deadline,
            )
            requests, options = at_once(options, concurrency)
            models.append(build_model(options, DOMAINS["mcp"])[0])  # (a domain matters to replays alone)
            least.append(requests)
        return models, min(least, default=concurrency or 1)


@asynccontextmanager
async def _closing(models: Sequence[Model]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for model in models:
            await stack.enter_async_context(closing(model))
        yield


@contextmanager
def _told_of_formats(wanted: JudgeOptions, where: str) -> Iterator[None]:
    """Says how to go without a schema when a server's words are about one."""
    try:
        yield
    except WorldlmError as error:
        if not (wanted.structured and _ABOUT_FORMAT.search(str(error))):
            raise
        raise WorldlmError(f"{error}; --no-structured asks judges for plain text{where}") from error


# Scores.


def judge_file(
    source: Path, output: Path, wanted: JudgeOptions, concurrency: int | None, retry_failed: bool, as_json: bool
) -> Report:
    """Score predictions, by rules and by judges.

    Raises InputError for judges or files that cannot be, and WorldlmError when nothing is answered any more.
    """
    if not wanted.rules and not wanted.specs:
        raise InputError("--no-rules needs a --judge: nothing would be scored")
    judged = _predictions(source, output)
    models, requests = wanted.build(concurrency)
    judging = Judging(
        rules=wanted.rules,
        judges=models,
        settings=wanted.settings,
        repeats=wanted.repeats,
    )
    manifest = _manifest(source, judged, judging.identity)

    async def work(signals: object) -> Report:
        async with _closing(models):
            with (
                RunFile(output, "judgement", manifest, retry_failed=retry_failed) as file,
                told_when_stopped(output),
                progress("judging", len(judged) - file.finished, hidden=as_json) as advance,
            ):
                return await judge_all(judged, judging, file, concurrency=requests, on_done=lambda *done: advance())

    with _told_of_formats(wanted, ", into another file"):
        return run_async(work)


def _predictions(source: Path, output: Path) -> list[tuple[Sample, Prediction]]:
    if source.resolve() == output.resolve():
        raise InputError(f"{source} holds the predictions; give the scores a file of their own")
    judged = list(predictions(source))
    if not judged:
        raise InputError(f"{source} holds no prediction; `worldlm bench infer` makes some")
    return judged


def _manifest(source: Path, judged: Sequence[tuple[Sample, Prediction]], judging: JudgingSettings) -> Manifest:
    earlier = read_manifest(source)
    if earlier is not None:
        return earlier.model_copy(update={"judging": judging})
    note(f"{source} has no manifest beside it: samples that were planned and never asked cannot be counted")
    samples = [sample for sample, _ in judged]
    return Manifest(
        version=metadata.version("worldlm"),
        benchmark=str(source),
        benchmark_digest=benchmark_digest((sample.key, sample.digest) for sample in samples),
        judging=judging,
        planned=plan(samples),
    )


# Choices.


def choose_file(
    source: Path,
    output: Path,
    protocol: ChoiceProtocol,
    against: Path | None,
    out: Path | None,
    wanted: JudgeOptions,
    concurrency: int | None,
    retry_failed: bool,
    as_json: bool,
) -> tuple[Report, ChoiceResults]:
    """Put predictions to a Turing test or a pairwise comparison, and count. Raises as `judge_file`."""
    if not wanted.specs:
        raise InputError(f"--protocol {protocol} needs a --judge")
    if (against is not None) != (protocol == "pairwise"):
        raise InputError("--protocol pairwise, and no other, needs --against OTHER_PREDICTIONS")
    judged = _predictions(source, output)
    others = None if against is None else pair_up(judged, _predictions(against, output))
    if others is not None and (lacking := len(judged) - len(others)):
        note(
            f"{against} has no prediction of {lacking} of {number_of(len(judged), 'sample')}: no judge is asked about "
            f"them, and they lower the coverage; predict them there, too, and run this again"
        )
    models, requests = wanted.build(concurrency)
    choosing = Choosing(
        protocol=protocol,
        judges=models,
        settings=wanted.settings,
        repeats=wanted.repeats,
        against=None if against is None else _called(against),
    )
    manifest = _manifest(source, judged, choosing.identity)
    check_results(out or results_path(output), manifest.benchmark, manifest.planned)

    async def work(signals: object) -> Report:
        async with _closing(models):
            with (
                RunFile(output, "choice", manifest, retry_failed=retry_failed) as file,
                told_when_stopped(output),
                progress(
                    protocol, len(judged if others is None else others) - file.finished, hidden=as_json
                ) as advance,
            ):
                return await choose_all(
                    judged, choosing, file, others=others, concurrency=requests, on_done=lambda *done: advance()
                )

    with _told_of_formats(wanted, ", into another file"):
        report = run_async(work)
    results = count_choices(output, version=metadata.version("worldlm"))
    write_choice_results(results, out or results_path(output))
    return report, results


def _called(predicted: Path) -> str:
    manifest = read_manifest(predicted)
    return manifest.infer.model if manifest and manifest.infer else predicted.name


def results_path(output: Path) -> Path:
    """Where the result of a file of choices stands unless told otherwise."""
    return output.with_name(f"{output.name.removesuffix('.jsonl')}.results.json")


# The audit.


def audit(
    wanted: JudgeOptions,
    out: Path,
    domains: Sequence[str],
    questions: int,
    bases: int,
    concurrency: int | None,
    as_json: bool,
) -> None:
    """Measure judges on a stated part of the calibration set, and say what came of it. Raises as `judge_file`."""
    if not wanted.specs:
        raise InputError("--audit needs a --judge to measure")
    items, selection = _selected(domains, questions, wanted.seed)
    replies = wanted.cache or out.with_name(f"{out.name.removesuffix('.json')}.replies.sqlite")
    models, requests = wanted.build(concurrency, replies)
    if not as_json:
        note(f"auditing on {selection}")

    async def work(signals: object) -> AuditReport:
        async with _closing(models):
            with told_when_stopped(replies), ExitStack() as stack:
                bars: list[Callable[[], None]] = []

                def told(done: int, planned: int) -> None:
                    if not bars:  # only now it is known how many there are
                        bars.append(stack.enter_context(progress("auditing", planned, hidden=as_json)))
                    bars[0]()

                return await audit_judges(
                    items,
                    models,
                    wanted.settings,
                    samples=max(2, wanted.repeats),
                    bases=bases,
                    concurrency=requests,
                    patience=PATIENCE,
                    selection=selection,
                    progress=told,
                )

    with _told_of_formats(wanted, ""):
        report = run_async(work)
    write_whole(report, out)
    if as_json:
        show_json(report.model_dump(mode="json"))
        return
    rows = report.rows()
    show_rows([tuple(rows[0]), *(tuple(row.values()) for row in rows)])
    for finding in report.findings:
        show(finding)
    kept = sum(model.hits for model in models if isinstance(model, CachedModel))
    calls = sum(audited.usage.calls for audited in report.judges)
    told = f"{number_of(calls, 'call')}, {number_of(kept, 'reply', 'replies')} there already"
    note(f"{out}; {told}, in {replies} (delete it to ask anew)")


def _selected(domains: Sequence[str], questions: int, seed: int) -> tuple[list[CalibrationItem], str]:
    """The items of so many questions of each domain, and which they are, in words.

    They are drawn by the seed, so that more questions are the same ones and further ones.
    """
    items: list[CalibrationItem] = []
    counts = []
    for name in dict.fromkeys(domains):
        found = load_calibration(get_domain(name).name)
        groups = sorted({item.group for item in found}, key=lambda group: derive_seed("audit", str(seed), group))
        chosen = set(groups[:questions])
        items += [item for item in found if item.group in chosen]
        counts.append(f"{name} {len(chosen)} of {len(groups)}")
    return items, f"{', '.join(counts)} questions, drawn by seed {seed}"
