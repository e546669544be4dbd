"""Inspect runs our benchmark: what it asks, and the figures it comes to, are those of `worldlm bench run`.

inspect_ai pins an older fsspec than ours, so it needs an environment of its own with this package in it, whose Python
the variable WORLDLM_INSPECT_PYTHON names:

    python -m venv inspect && inspect/bin/pip install inspect_ai==0.3.285 -e .
    WORLDLM_INSPECT_PYTHON=$PWD/inspect/bin/python pytest tests/bench/test_inspect.py

Both sides ask the same server on loopback.
"""

import json
import math
import os
import re
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.bench.kit import asked_word, foreign, manifest_of, own, screen, write
from tests.models.chat_server import Answer, Script, chat, error, serving
from worldlm.bench.infer import default_words, infer, model_predictor
from worldlm.bench.judging import Judging, judge_all, predictions
from worldlm.bench.results import Results
from worldlm.bench.runs import RunFile
from worldlm.bench.samples import load_samples
from worldlm.bench.scoring import score
from worldlm.core.types import Profile, Sampling
from worldlm.models.openai import OpenAIModel

PYTHON = os.environ.get("WORLDLM_INSPECT_PYTHON", "")
PROFILE = Profile(name="inspect", thinking=True, context=262_144, sampling=Sampling(temperature=0.6, max_tokens=32_768))
GRADES = {"format": 5, "factuality": 2, "consistency": 4, "realism": 3, "quality": 3}


# The other side: runs the task for each job, all in one process (it takes long to load).
THEIRS = """
import json, sys
from inspect_ai import eval
jobs, logs, out = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
found = {}
for name, (args, options) in jobs.items():
    try:
        log = eval("worldlm/agentworldbench", model=f"openai-api/{name}/served", task_args=args, log_dir=logs,
                   log_format="json", display="none", max_retries=0, **options)[0]
        found[name] = {"log": log.location}
    except Exception as error:
        found[name] = {"log": None, "said": f"{type(error).__name__}: {error}"}
open(out, "w").write(json.dumps(found))
"""


@dataclass(frozen=True)
class Job:
    """One run of the task."""

    benchmark: Path
    url: str
    args: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """Both sides of a run."""

    theirs: dict[str, Any]
    """The log."""
    asked: list[dict[str, Any]]
    """The requests that inspect made."""
    ours: Results | None = None
    our_asked: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Every run of this module, by name. Skips, and says why, where there is no other side."""
    if not PYTHON:
        pytest.skip("needs inspect_ai in an environment of its own: see WORLDLM_INSPECT_PYTHON in this file")
    folder = tmp_path_factory.mktemp("inspect")

    def benchmark(name: str, samples: list[dict[str, Any]]) -> Path:
        return write(folder / name / "terminal_test.jsonl", samples)

    scripts: dict[str, Script] = {
        "foreign": mixed,
        "own": mixed,
        "mute": mute,
        "down": lambda body, index: error(403, "this key has no credit left"),
        "gap": lambda body, index: error(403, "not this one") if asked_word(body) == "r2t3" else mixed(body, index),
        "broken": mixed,
    }
    with ExitStack() as stack:
        servers = {name: stack.enter_context(serving(script)) for name, script in scripts.items()}
        url = {name: server.url for name, server in servers.items()}
        jobs = {
            name: Job(
                benchmark(name, [make(number, 1 + number % 3) for number in range(9)]),
                url[name],
                {"judge": f"openai-api/{name}/served"},
            )
            for name, make in (("foreign", foreign), ("own", own))
        }
        jobs["mute"] = Job(
            benchmark("mute", [foreign(number) for number in range(3)]),
            url["mute"],
            {"judge": "openai-api/mute/served"},
        )
        jobs["down"] = Job(benchmark("down", [foreign(number) for number in range(3)]), url["down"])
        jobs["gap"] = Job(
            benchmark("gap", [foreign(number) for number in range(12)]), url["gap"], {}, {"fail_on_error": False}
        )
        jobs["broken"] = Job(benchmark("broken", [foreign(0), {**foreign(1), "turn_idx": 9}]), url["broken"])
        ours = {name: anyio.run(bench_run, folder / name, jobs[name]) for name in ("foreign", "own")}
        our_asked = {name: list(server.bodies) for name, server in servers.items()}
        for server in servers.values():
            server.bodies.clear()
        logs = inspect(jobs, folder)
        return {name: Run(logs[name], list(servers[name].bodies), ours.get(name), our_asked[name]) for name in scripts}


def whole(answer: Answer) -> Answer:
    """An answer with the sum of tokens, which inspect wants."""
    return Answer({**answer.body, "usage": {**answer.body["usage"], "total_tokens": 15}}, answer.status)


def mixed(body: dict[str, Any], index: int) -> Answer:
    """Right, half right, wrong, cut off or empty, by the word that is asked for; and a judge."""
    asked = body["messages"][-1]["content"]
    if "# Your verdict" in asked:
        return whole(chat(verdict(asked)))
    word = asked_word(body)
    kind = sum(word.encode()) % 5
    text = screen(word)
    return whole(
        (
            chat(f"<think>An echo.</think><predicted_observation>{text}</predicted_observation>"),
            chat(f"<predicted_observation>{text.replace(word, 'other')}</predicted_observation>"),
            chat("<predicted_observation>bash: echo: command not found</predicted_observation>"),
            chat("<think>It goes on and", finish="length"),
            chat(f"<predicted_observation>{text[: len(text) // 2]}</predicted_observation>"),
        )[kind]
    )


def mute(body: dict[str, Any], index: int) -> Answer:
    """Predictions, and a judge that gives no verdict."""
    if "# Your verdict" in body["messages"][-1]["content"]:
        return whole(chat("I would rather not say."))
    return mixed(body, index)


def verdict(asked: str) -> str:
    """What a judge says, in the form that it is asked for."""
    code = re.findall(r"<final_evaluation-(\w+)>", asked)[-1]
    said = {"code": code, "strengths": "The prompt.", "weaknesses": "The rest.", "scores": GRADES}
    return f"<final_evaluation-{code}>\n{json.dumps(said)}\n</final_evaluation-{code}>"


def inspect(jobs: dict[str, Job], folder: Path) -> dict[str, dict[str, Any]]:
    """Let inspect run these; of each the log, or what it says."""
    env = {**os.environ, "HOME": str(folder)}
    for name, job in jobs.items():
        env |= {f"{name.upper()}_BASE_URL": job.url, f"{name.upper()}_API_KEY": "none"}
    told = {name: [{"benchmark": str(job.benchmark), **job.args}, job.options] for name, job in jobs.items()}
    out = folder / "out.json"
    started = [PYTHON, "-c", THEIRS, json.dumps(told), str(folder / "logs"), str(out)]
    done = subprocess.run(started, env=env, cwd=folder, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, dict[str, Any]] = json.loads(out.read_text())
    return {name: json.loads(Path(each["log"]).read_text()) if each["log"] else each for name, each in found.items()}


def figures(log: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Of each scorer, its figures."""
    return {
        each["name"]: {name: metric["value"] for name, metric in each["metrics"].items()}
        for each in log["results"]["scores"]
    }


async def bench_run(folder: Path, job: Job) -> Results:
    """What `bench run` does."""
    samples = load_samples(str(job.benchmark))
    model = OpenAIModel("served", job.url)
    try:
        predictor = model_predictor(model, PROFILE, default_words(samples))
        manifest = manifest_of(samples, predictor.settings)
        asked, scored = folder / "predictions.jsonl", folder / "scores.jsonl"
        with RunFile(asked, "prediction", manifest) as file:
            await infer(samples, predictor, file, concurrency=4)
        judging = Judging(judges=[model])
        with RunFile(scored, "judgement", manifest.model_copy(update={"judging": judging.identity})) as file:
            await judge_all(list(predictions(asked)), judging, file, concurrency=4)
    finally:
        await model.close()
    return score(scored)


def same(told: float, ours: float | None) -> bool:
    return math.isnan(told) if ours is None else told == pytest.approx(ours)


@pytest.mark.parametrize("words", ["foreign", "own"])
def test_the_same_messages_are_sent_with_the_same_seeds(runs: dict[str, Run], words: str) -> None:
    def questions(bodies: list[dict[str, Any]]) -> list[str]:
        return sorted(json.dumps([body["messages"], body["temperature"], body["seed"]]) for body in bodies)

    run = runs[words]
    assert len(run.asked) > 9  # judges are asked too
    assert questions(run.asked) == questions(run.our_asked)


@pytest.mark.parametrize("words", ["foreign", "own"])
def test_the_same_predictions_get_the_same_numbers(runs: dict[str, Run], words: str) -> None:
    log, ours = runs[words].theirs, runs[words].ours
    assert ours is not None
    found = figures(log)
    assert set(found) == {"rules", "rubric", "blend"}
    for table in ours.tables:
        told = found[table.metric.name]
        assert told["coverage"] == pytest.approx(100 * table.overall.coverage) == 100
        assert same(told["headline"], table.headline.mean)
        assert same(told["headline_without_failures"], table.headline_answered.mean)
        assert same(told["samples"], table.overall.floor.mean)
        assert same(told["samples_without_failures"], table.overall.answered.mean)
        assert same(told["terminal"], table.domains[0].floor.mean)
        for name, estimate in table.overall.dimensions.items():
            assert same(told[name], estimate.mean)
    # Sample by sample, with the model's failures at 0 and named.
    by_id = {sample.id: sample for sample in ours.samples}
    assert {sample.outcome.is_models_fault for sample in ours.samples} == {True, False}
    for sample in log["samples"]:
        mine = by_id[sample["id"]]
        for name, scored in sample["scores"].items():
            assert scored["value"] == pytest.approx(mine.values.get(name, 0.0))
            assert (scored.get("reason") == "invalid_response_format") == mine.outcome.is_models_fault


def test_a_judge_that_cannot_be_read_leaves_no_number(runs: dict[str, Run]) -> None:
    log = runs["mute"].theirs
    answered = [sample for sample in log["samples"] if sample["scores"]["rules"].get("reason") is None]
    assert answered
    assert all(sample["scores"]["rubric"].get("reason") == "grader_failed" for sample in answered)
    assert all(math.isnan(sample["scores"]["rubric"]["value"]) for sample in answered)
    found = figures(log)
    assert found["rules"]["coverage"] == 100
    assert found["rubric"]["coverage"] < 100


def test_a_server_that_fails_is_an_error_in_its_own_words(runs: dict[str, Run]) -> None:
    log = runs["down"].theirs
    assert log["status"] == "error"
    assert "this key has no credit left" in log["error"]["message"]


def test_a_lost_sample_lowers_the_coverage_and_is_no_zero(runs: dict[str, Run]) -> None:
    log = runs["gap"].theirs
    values = [sample["scores"]["rules"]["value"] for sample in log["samples"] if not sample.get("error")]
    assert len(values) == 11
    found = figures(log)["rules"]
    assert found["coverage"] == pytest.approx(100 * 11 / 12)
    assert found["samples"] == pytest.approx(sum(values) / 11)


def test_bad_input_is_named_before_anything_is_asked(runs: dict[str, Run]) -> None:
    assert "sample terminal/1: turn_idx: 9, and total_turns is 3" in runs["broken"].theirs["said"]
    assert runs["broken"].asked == []
