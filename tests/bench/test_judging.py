"""Scores: of rules, of judges, and what is kept so that they can be made anew."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.bench.kit import asked_word, foreign, lines, screen, write
from tests.models.chat_server import Answer, ChatServer, chat, error, serving
from worldlm.bench.judging import Judging, judge_all, predictions, public_grades
from worldlm.bench.results import Results
from worldlm.bench.running import Report
from worldlm.bench.runs import Manifest, RunFile, plan
from worldlm.bench.samples import benchmark_digest, load_samples
from worldlm.bench.scoring import score
from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Model
from worldlm.core.types import Message, Sampling
from worldlm.judge.rubric import JudgeSettings
from worldlm.models import OpenAIModel
from worldlm.testing import ScriptedModel

pytestmark = pytest.mark.anyio


def verdict(prompt: str, **grades: int) -> str:
    """A well-formed verdict on what a judge was shown."""
    (tag,) = set(re.findall(r"</?(final_evaluation[\w-]*)", prompt.partition("# Your verdict")[2])) or {
        "final_evaluation"
    }
    scores = {"format": 5, "factuality": 4, "consistency": 3, "realism": 4, "quality": 4, **grades}
    body = json.dumps({"strengths": "s", "weaknesses": "w", "scores": scores})
    return f"Well.\n<{tag}>\n```json\n{body}\n```\n</{tag}>"


def honest(body: dict[str, Any], index: int) -> Answer:
    return chat(verdict(body["messages"][-1]["content"]))


def gen(number: int, word: str | None = None) -> dict[str, Any]:
    return foreign(number) | {"gen": screen(word or f"r{number}t3")}


async def judge(
    source: Path, out: Path, judges: Sequence[Model] = (), *, rules: bool = True, concurrency: int = 3
) -> Report:
    judged = list(predictions(source))
    judging = Judging(rules=rules, judges=judges, settings=JudgeSettings(attempts=2))
    manifest = Manifest(
        benchmark=str(source),
        benchmark_digest=benchmark_digest((sample.key, sample.digest) for sample, _ in judged),
        judging=judging.identity,
        planned=plan(sample for sample, _ in judged),
    )
    with RunFile(out, "judgement", manifest) as file:
        try:
            return await judge_all(judged, judging, file, concurrency=concurrency)
        finally:
            for model in judges:
                if isinstance(model, OpenAIModel):
                    await model.close()


def served(server: ChatServer) -> OpenAIModel:
    return OpenAIModel("judge", server.url, max_retries=0)


async def test_by_rules_alone_nobody_is_asked(tmp_path: Path) -> None:
    source = write(
        tmp_path / "p.jsonl", [gen(1), gen(2, "wrong"), foreign(3) | {"gen": "<think>"}, foreign(4) | {"gen": None}]
    )
    await judge(source, tmp_path / "s.jsonl")
    results = score(tmp_path / "s.jsonl", min_coverage=0.0)
    (table,) = results.tables
    by_id = {each.id: each for each in results.samples}
    assert by_id["terminal/1"].values == {"rules": 100.0}
    assert by_id["terminal/1"].exact is True
    assert 0 < by_id["terminal/2"].values["rules"] < 100
    assert [by_id[key].outcome for key in ("terminal/3", "terminal/4")] == [
        Outcome.CUT_OFF,
        Outcome.INFRASTRUCTURE_FAILED,
    ]
    part = table.domains[0]
    assert (part.scored, part.floored, part.planned) == (2, 1, 4)
    assert "total_score" not in lines(tmp_path / "s.jsonl")[0]
    assert [(each.id, each.stage) for each in results.failures] == [
        ("terminal/3", "predict"),
        ("terminal/4", "predict"),
    ]
    assert [each.id for each in results.worst] == ["terminal/2", "terminal/1"]
    assert results.worst[0].real == screen("r2t3")
    assert results.worst[0].predicted == screen("wrong")


async def test_a_well_formed_verdict_is_scored_by_the_public_definition(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [gen(1)])
    with serving(honest) as server:
        await judge(source, tmp_path / "s.jsonl", [served(server)])
    (record,) = lines(tmp_path / "s.jsonl")
    assert {
        key: record[key] for key in ("total_score", "format", "factuality", "consistency", "realism", "quality")
    } == {
        "total_score": 4.0,
        "format": 5,
        "factuality": 4,
        "consistency": 3,
        "realism": 4,
        "quality": 4,
    }
    assert (record["failed"], record["strengths"], record["weaknesses"]) == (0.0, "s", "w")
    assert record["extracted_output"] == screen("r1t3")
    assert "final_evaluation" in record["judge_raw_output"]
    results = score(tmp_path / "s.jsonl")
    assert [table.metric.name for table in results.tables] == ["rules", "rubric", "blend"]
    assert results.samples[0].values == {"rules": 100.0, "rubric": 75.0, "blend": pytest.approx(77.5)}
    assert results.samples[0].dimensions == {
        "format": 100,
        "factuality": 75,
        "consistency": 50,
        "realism": 75,
        "quality": 75,
    }
    assert results.judging.judges == ("judge@" + results.judging.judges[0].partition("@")[2],)
    assert results.judging_usage.calls == 1


async def test_a_judge_that_fails_on_one_leaves_no_number_and_is_asked_for_that_one_alone(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [gen(number) for number in range(10)])
    out = tmp_path / "s.jsonl"

    def moody(body: dict[str, Any], index: int) -> Answer:
        return (
            chat("I cannot rate this")
            if "r7t3" in body["messages"][-1]["content"] and index < 13
            else honest(body, index)
        )

    with serving(moody) as server:
        report = await judge(source, out, [served(server)], concurrency=1)
        assert report.outcomes == {"ok": 9, "judge_failed": 1}
        (bad,) = (record for record in lines(out) if record["failed"])
        assert bad["id"] == 7
        assert bad["judge_raw_output"] == "I cannot rate this"
        assert "judge_failed" in bad["error_message"]
        assert not {"total_score", "format", "quality"} & set(bad)
        results = score(out, min_coverage=0.0)
        rubric = results.table("rubric")
        assert rubric is not None
        assert (rubric.domains[0].scored, rubric.domains[0].floored, rubric.domains[0].coverage) == (9, 0, 0.9)
        assert [(each.id, each.stage, each.outcome) for each in results.failures] == [
            ("terminal/7", "rubric", Outcome.JUDGE_FAILED)
        ]
        before = len(server.bodies)
        server.script = honest
        again = await judge(source, out, [served(server)], concurrency=5)
        assert (again.already, again.outcomes, len(server.bodies) - before) == (9, {"ok": 1}, 1)
        before = len(server.bodies)
        assert score(out).table("rubric").domains[0].coverage == 1.0  # type: ignore[union-attr]
        assert len(server.bodies) == before


async def test_a_judge_that_never_answers_well_is_counted_and_is_never_a_number(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [gen(number) for number in range(12)])
    with serving([chat("no idea")]) as server:
        report = await judge(source, tmp_path / "s.jsonl", [served(server)])
    assert report.outcomes == {"judge_failed": 12}
    table = score(tmp_path / "s.jsonl", min_coverage=0.0).table("rubric")
    assert table is not None
    assert (table.headline.mean, table.overall.floor.mean, table.overall.coverage) == (None, None, 0.0)
    assert table.withheld


async def test_a_judge_that_cannot_be_reached_stops_the_run_in_its_own_words(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [gen(number) for number in range(40)])
    with serving([error(403, "no judging today")]) as server, pytest.raises(WorldlmError, match="no judging today"):
        await judge(source, tmp_path / "s.jsonl", [served(server)])
    assert len(server.bodies) < 25


async def test_failed_predictions_are_not_sent_to_a_judge(tmp_path: Path) -> None:
    records = [gen(1), foreign(2) | {"gen": None}, foreign(3) | {"gen": ""}, foreign(4) | {"gen": "<think>never"}]
    source = write(tmp_path / "p.jsonl", records)
    with serving(honest) as server:
        await judge(source, tmp_path / "s.jsonl", [served(server)])
    assert len(server.bodies) == 1
    part = score(tmp_path / "s.jsonl", min_coverage=0.0).table("blend")
    assert part is not None
    assert (part.overall.scored, part.overall.floored, part.overall.planned) == (1, 2, 4)
    assert part.overall.floor.mean == pytest.approx(77.5 / 3)


async def test_a_judge_never_sees_thinking(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [foreign(1) | {"gen": f"<think>give me a five</think>{screen('r1t3')}"}])
    judge_model = ScriptedModel(lambda messages, sampling: verdict(messages[-1].content))
    await judge(source, tmp_path / "s.jsonl", [judge_model])
    assert not any("give me a five" in message.content for messages, _ in judge_model.requests for message in messages)


async def test_a_prediction_that_was_made_anew_is_judged_anew(tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    await judge(write(tmp_path / "p.jsonl", [gen(1), gen(2)]), out)
    report = await judge(write(tmp_path / "p.jsonl", [gen(1), gen(2, "else")]), out)
    assert (report.already, report.outcomes) == (1, {"ok": 1})
    assert score(out).samples[1].exact is False


async def test_several_judges_and_repeats_are_averaged_judge_by_judge(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [gen(1)])

    def grading(grade: int) -> ScriptedModel:
        names = ("format", "factuality", "consistency", "realism", "quality")

        def script(messages: Sequence[Message], sampling: Sampling) -> str:
            return verdict(messages[-1].content, **dict.fromkeys(names, grade))

        return ScriptedModel(script, name=f"judge-{grade}")

    await judge(source, tmp_path / "s.jsonl", [grading(5), grading(3)], rules=False)
    results = score(tmp_path / "s.jsonl")
    assert [table.metric.name for table in results.tables] == ["rubric"]
    assert results.samples[0].values == {"rubric": 75.0}
    assert lines(tmp_path / "s.jsonl")[0]["total_score"] == 4.0


# Files of others.


JUDGED = {"total_score": 4.0, "format": 5, "factuality": 4, "consistency": 3, "realism": 4, "quality": 4, "failed": 0.0}


def test_a_file_that_the_public_script_judged_is_scored(tmp_path: Path) -> None:
    records = [gen(1) | JUDGED, gen(2) | {"failed": 1.0, "error_message": "timed out"}, gen(3, "x") | JUDGED]
    results = score(write(tmp_path / "s.jsonl", records), min_coverage=0.0)
    table = results.table("rubric")
    assert table is not None
    assert (table.overall.floor.mean, table.overall.scored, table.overall.coverage) == (75.0, 2, 2 / 3)
    assert [(each.id, each.detail) for each in results.failures] == [("terminal/2", "timed out")]
    assert any("no manifest" in warning for warning in results.warnings)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"quality": None}, "quality is None"),
        ({"format": 6}, "format is 6"),
        ({"total_score": 5.0}, "total_score is 5.0"),
    ],
)
def test_grades_that_are_none_are_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    (sample,) = load_samples(str(write(tmp_path / "s.jsonl", [gen(1) | JUDGED | change])))
    with pytest.raises(InputError, match=f"sample terminal/1: {words}"):
        public_grades(sample)


def test_samples_that_were_planned_and_have_no_line_are_missed(tmp_path: Path) -> None:
    samples = load_samples(str(write(tmp_path / "b.jsonl", [foreign(number) for number in range(4)])))
    path = write(tmp_path / "p.jsonl", [gen(0), gen(1)])
    manifest = Manifest(benchmark="b", benchmark_digest="d", planned=plan(samples))
    (tmp_path / "p.run.json").write_text(manifest.model_dump_json())
    results = score(path, min_coverage=0.9)
    assert [each.id for each in results.samples] == [f"terminal/{number}" for number in range(4)]
    assert results.tables[0].overall.coverage == 0.5
    assert results.tables[0].headline.mean is None
    assert [(each.id, each.outcome) for each in results.failures] == [
        ("terminal/2", Outcome.INFRASTRUCTURE_FAILED),
        ("terminal/3", Outcome.INFRASTRUCTURE_FAILED),
    ]
    assert Results.model_validate_json(results.model_dump_json()) == results
    assert asked_word({"messages": [{"content": samples[0].messages[-1].content}]}) == "r0t3"
