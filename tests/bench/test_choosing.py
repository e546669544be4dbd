"""The Turing test and the pairwise comparison over files of predictions."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.bench.kit import foreign, lines, screen, write
from tests.bench.test_judging import gen, served
from tests.judge.judges import choice, code_of, honest, mute, on_a_server, position_biased, shown
from tests.models.chat_server import Answer, ChatServer, chat, error, serving
from worldlm.bench.choices import ChoiceResults, count_choices
from worldlm.bench.choosing import ChoiceProtocol, Choosing, choose_all, pair_up
from worldlm.bench.judging import predictions
from worldlm.bench.running import Report
from worldlm.bench.runs import Manifest, RunFile, plan
from worldlm.bench.samples import benchmark_digest
from worldlm.bench.scoring import score
from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Closes, Model
from worldlm.judge.agreement import wilson
from worldlm.judge.rubric import JudgeSettings, judge
from worldlm.judge.turing import PREDICTED, REAL
from worldlm.judge.verdicts import CHOICE_FORMAT, SCORES_FORMAT
from worldlm.models import OpenAIModel

pytestmark = pytest.mark.anyio


def wrong(number: int, **more: Any) -> dict[str, Any]:
    """A prediction that differs from the real observation."""
    return foreign(number) | {"gen": screen(f"x{number}")} | more


async def choose(
    source: Path,
    out: Path,
    judges: Sequence[Model],
    *,
    against: Path | None = None,
    repeats: int = 1,
    seed: int = 0,
    concurrency: int = 3,
    structured: bool = False,
) -> Report:
    judged = list(predictions(source))
    protocol: ChoiceProtocol = "turing" if against is None else "pairwise"
    settings = JudgeSettings(attempts=2, seed=seed, structured=structured)
    choosing = Choosing(
        protocol, judges, settings=settings, repeats=repeats, against=against.name if against is not None else None
    )
    manifest = Manifest(
        benchmark=str(source),
        benchmark_digest=benchmark_digest((sample.key, sample.digest) for sample, _ in judged),
        judging=choosing.identity,
        planned=plan(sample for sample, _ in judged),
    )
    others = None if against is None else pair_up(judged, predictions(against))
    with RunFile(out, "choice", manifest) as file:
        try:
            return await choose_all(judged, choosing, file, others=others, concurrency=concurrency)
        finally:
            for model in judges:
                if isinstance(model, Closes):
                    await model.close()


def knowing(prompt: str) -> str:
    """Tells real from predicted: what is wrong in these tests has an x in it."""
    return choice(prompt, "second" if "echo x" in shown(prompt, "first") else "first")


async def turing(tmp_path: Path, character: Any, count: int = 20, **more: Any) -> tuple[ChoiceResults, ChatServer]:
    source = write(tmp_path / "p.jsonl", [wrong(number) for number in range(count)])
    with serving(on_a_server(character)) as server:
        await choose(source, tmp_path / "t.jsonl", [served(server)], **more)
    return count_choices(tmp_path / "t.jsonl"), server


async def test_a_judge_that_knows_the_real_one_leaves_no_prediction_standing(tmp_path: Path) -> None:
    results, server = await turing(tmp_path, knowing)
    assert len(server.bodies) == 20
    (row,) = results.domains
    assert (row.name, row.planned, row.counted, row.won, row.tied, row.lost) == ("terminal", 20, 20, 0, 0, 20)
    assert (row.rate.mean, results.headline.mean) == (0.0, 0.0)
    bounds = wilson(0, 20)  # twenty trajectories that all came out alike: to draw them again tells nothing
    assert bounds is not None
    assert row.rate.low == 0.0
    assert row.rate.high == pytest.approx(100 * bounds[1])
    (position,) = results.positions
    assert position.picks == 20
    assert not position.biased
    assert sum(position.shown_first.values()) == 20
    assert set(position.shown_first) == {REAL, PREDICTED}  # the order is drawn


async def test_a_judge_that_goes_by_position_is_found_out_and_the_rate_is_near_a_half(tmp_path: Path) -> None:
    results, _ = await turing(tmp_path, position_biased, 40)
    (position,) = results.positions
    assert (position.first_share, position.biased) == (1.0, True)
    assert results.headline.mean == pytest.approx(100 * position.shown_first[PREDICTED] / 40)
    assert results.headline.low is not None
    assert results.headline.high is not None
    assert results.headline.low < 50 < results.headline.high


async def test_the_order_is_drawn_by_the_seed_for_each_sample_and_kept(tmp_path: Path) -> None:
    orders = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        (tmp_path / name).mkdir()
        results, _ = await turing(tmp_path / name, knowing, seed=seed, concurrency=1 if name == "a" else 8)
        orders.append([sample.first for sample in results.samples])
        by_line = {f"{line['task']}/{line['id']}": line for line in lines(tmp_path / name / "t.jsonl")}
        kept = [by_line[sample.id]["worldlm"]["choice"]["choices"][0]["first"] for sample in results.samples]
        assert [(first,) for first in kept] == orders[-1]
    assert orders[0] == orders[1] != orders[2]


async def test_what_needs_no_judge_is_not_sent_and_counts(tmp_path: Path) -> None:
    records = [gen(1), wrong(2), foreign(3) | {"gen": ""}, foreign(4) | {"gen": "<think>never"}]
    source = write(tmp_path / "p.jsonl", [*records, foreign(5) | {"gen": None}])
    with serving(on_a_server(knowing)) as server:
        await choose(source, tmp_path / "t.jsonl", [served(server)])
    assert len(server.bodies) == 1
    results = count_choices(tmp_path / "t.jsonl", min_coverage=0.5)
    row = results.overall
    assert (row.planned, row.counted, row.won, row.tied, row.lost, row.by_rule) == (5, 4, 0, 1, 3, 3)
    assert row.rate.mean == 12.5
    assert row.missing == {"infrastructure_failed": 1}
    assert {each.id: (each.stage, each.outcome) for each in results.failures} == {
        "terminal/3": ("predict", Outcome.MODEL_FAILED),
        "terminal/4": ("predict", Outcome.CUT_OFF),
        "terminal/5": ("predict", Outcome.INFRASTRUCTURE_FAILED),
    }
    withheld = count_choices(tmp_path / "t.jsonl")
    assert withheld.headline.mean is None
    assert "4 of 5" in str(withheld.withheld)


async def test_a_comparison_counts_who_is_better(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [gen(0), gen(1), wrong(2), wrong(3), gen(4), foreign(5) | {"gen": ""}])
    other = [wrong(0), wrong(1), gen(2), wrong(3), foreign(4) | {"gen": "<think>"}, foreign(5) | {"gen": ""}]
    against = write(tmp_path / "o.jsonl", [*other, wrong(77)])
    with serving(on_a_server(honest)) as server:
        await choose(source, tmp_path / "c.jsonl", [served(server)], against=against)
    assert len(server.bodies) == 3
    results = count_choices(tmp_path / "c.jsonl")
    row = results.overall
    assert (row.won, row.tied, row.lost, row.by_rule) == (3, 2, 1, 3)
    assert row.rate.mean == pytest.approx(100 * 4 / 6)
    assert (results.protocol, results.judging.against) == ("pairwise", "o.jsonl")
    assert results.failures == ()


async def test_some_pairs_are_kept_with_their_texts_and_the_judge_s_reason(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [*(wrong(n) for n in range(6)), gen(6), gen(7), gen(8), wrong(9)])
    others = [*(gen(n) for n in range(6)), wrong(6), wrong(7), foreign(8) | {"gen": ""}, wrong(9)]
    with serving(on_a_server(honest)) as server:
        await choose(source, tmp_path / "c.jsonl", [served(server)], against=write(tmp_path / "o.jsonl", others))
    results = count_choices(tmp_path / "c.jsonl", telling=2)
    # Two that were lost and two that were won; no judge was asked about the last two.
    assert [pair.value for pair in results.telling] == [0.0, 0.0, 100.0, 100.0]
    assert {pair.id for pair in results.telling[2:]} == {"terminal/6", "terminal/7"}
    for pair in results.telling:
        number = pair.id.rpartition("/")[2]
        texts = [screen(f"r{number}t3"), screen(f"x{number}")]
        assert pair.real == texts[0]
        assert [pair.predicted, pair.other] == (texts[::-1] if pair.value == 0 else texts)
        (pick,) = pair.picks
        assert (pick.judge, pick.reason) == (results.judging.judges[0], "r")
        assert pick.chosen == ("challenger" if pair.value else "baseline")
        assert pick.first in ("challenger", "baseline")
        assert f"echo r{number}t3" in pair.action
    assert count_choices(tmp_path / "c.jsonl", telling=2) == results
    assert count_choices(tmp_path / "c.jsonl", telling=0).telling == ()
    assert len(count_choices(tmp_path / "c.jsonl", telling=99).telling) == 8


async def test_what_the_other_run_lacks_is_missing_and_never_a_win(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [gen(0), gen(1), gen(2)])
    against = write(tmp_path / "o.jsonl", [wrong(0), foreign(1) | {"gen": None}])
    with serving(on_a_server(honest)) as server:
        await choose(source, tmp_path / "c.jsonl", [served(server)], against=against)
    results = count_choices(tmp_path / "c.jsonl", min_coverage=0.0)
    assert (results.overall.won, results.overall.counted, results.overall.planned) == (1, 1, 3)
    assert results.overall.missing == {"infrastructure_failed": 1, "not_in_other": 1}
    assert [each.outcome for each in results.samples] == ["ok", "infrastructure_failed", "not_in_other"]
    assert [(each.id, each.detail) for each in results.failures] == [("terminal/1", "the file holds no reply")]
    assert "1 sample not judged, which lowers the coverage: not predicted by o.jsonl" in results.warnings
    assert ChoiceResults.model_validate_json(results.model_dump_json()) == results


async def test_what_the_other_run_has_by_now_is_judged_by_a_rerun(tmp_path: Path) -> None:
    source, out = write(tmp_path / "p.jsonl", [gen(0), gen(1)]), tmp_path / "c.jsonl"
    with serving(on_a_server(honest)) as server:
        for others, outcomes, missing in (
            ([wrong(0)], {"ok": 1}, {"not_in_other": 1}),
            ([wrong(0), wrong(1)], {"ok": 1}, {}),
            ([wrong(0)], {}, {"not_in_other": 1}),
        ):
            report = await choose(source, out, [served(server)], against=write(tmp_path / "o.jsonl", others))
            assert report.outcomes == outcomes
            assert count_choices(out).overall.missing == missing


def test_files_that_do_not_belong_together_are_refused_before_any_call(tmp_path: Path) -> None:
    judged = list(predictions(write(tmp_path / "p.jsonl", [gen(1)])))
    with pytest.raises(InputError, match="share no sample"):
        pair_up(judged, predictions(write(tmp_path / "o.jsonl", [gen(2)])))
    changed = wrong(1) | {"system_str": "Another machine."}
    with pytest.raises(InputError, match=r"o\.jsonl:1: sample terminal/1 is not the one at .*p\.jsonl:1: their"):
        pair_up(judged, predictions(write(tmp_path / "o.jsonl", [changed])))


# The guarantees of a run.


async def test_a_failure_is_one_samples_and_a_rerun_asks_for_it_alone(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [wrong(number) for number in range(10)])
    out = tmp_path / "t.jsonl"

    def moody(body: dict[str, Any], index: int) -> Answer:
        prompt = body["messages"][-1]["content"]
        return chat("I cannot tell" if "echo r7t3" in prompt else knowing(prompt))

    with serving(moody) as server:
        report = await choose(source, out, [served(server)])
        assert report.outcomes == {"ok": 9, "judge_failed": 1}
        results = count_choices(out, min_coverage=0.0)
        assert (results.overall.counted, results.overall.missing) == (9, {"judge_failed": 1})
        assert [(each.id, each.stage) for each in results.failures] == [("terminal/7", "choice")]
        (failed,) = (line for line in lines(out) if line["id"] == 7)
        assert failed["worldlm"]["choice"]["choices"][0]["raw"] == "I cannot tell"
        before = len(server.bodies)
        server.script = on_a_server(knowing)
        again = await choose(source, out, [served(server)], concurrency=7)
    assert (again.already, again.outcomes, len(server.bodies) - before) == (9, {"ok": 1}, 1)
    assert count_choices(out).overall.counted == 10


async def test_a_changed_side_is_judged_anew_and_other_settings_are_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [gen(0), gen(1)])
    out = tmp_path / "c.jsonl"
    with serving(on_a_server(honest)) as server:
        model = served(server)
        await choose(source, out, [model], against=write(tmp_path / "o.jsonl", [wrong(0), wrong(1)]))
        changed = write(tmp_path / "o.jsonl", [wrong(0), foreign(1) | {"gen": screen("other")}])
        report = await choose(source, out, [model], against=changed)
        assert (report.already, report.outcomes) == (1, {"ok": 1})
        with pytest.raises(InputError, match="seed: 0 there, 5 now"):
            await choose(source, out, [model], against=changed, seed=5)
        with pytest.raises(InputError, match="protocol: 'pairwise' there, 'turing' now"):
            await choose(source, out, [model])
    with pytest.raises(InputError, match="holds choices"):
        score(out)


async def test_a_judge_that_never_answers_well_is_counted_and_is_never_a_rate(tmp_path: Path) -> None:
    results, _ = await turing(tmp_path, mute, 12)
    assert (results.headline.mean, results.overall.rate.mean, results.overall.coverage) == (None, None, 0.0)
    assert results.overall.missing == {"judge_failed": 12}
    assert results.withheld == "nothing of terminal counts: 12 samples, none judged"
    assert results.positions[0].first_share is None


async def test_a_judge_that_cannot_be_reached_stops_the_run_in_its_own_words(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [wrong(number) for number in range(40)])
    with serving([error(403, "no judging today")]) as server, pytest.raises(WorldlmError, match="no judging today"):
        await choose(source, tmp_path / "t.jsonl", [served(server)])
    assert len(server.bodies) < 25
    results = count_choices(tmp_path / "t.jsonl")
    assert results.overall.coverage == 0.0
    assert results.overall.missing == {"infrastructure_failed": 40}


async def test_several_judges_and_repeats_weigh_the_same_and_positions_stand_apart(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [wrong(number) for number in range(6)])
    with serving(on_a_server(knowing)) as one, serving(on_a_server(position_biased)) as other:
        await choose(source, tmp_path / "t.jsonl", [served(one), served(other)], repeats=4)
        assert (len(one.bodies), len(other.bodies)) == (24, 24)
    results = count_choices(tmp_path / "t.jsonl")
    assert [(position.picks, position.first_share == 1) for position in results.positions] == [(24, False), (24, True)]
    assert results.overall.won + results.overall.lost == 48
    assert results.overall.rate.mean == pytest.approx(50 * results.positions[1].shown_first[PREDICTED] / 24)
    assert ChoiceResults.model_validate_json(results.model_dump_json()) == results


async def test_no_judge_or_two_of_one_name_are_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "p.jsonl", [wrong(0)])
    model = OpenAIModel("judge", "http://127.0.0.1:9/v1")
    for judges in ([], [model, model]):
        with pytest.raises(InputError, match="different names"):
            await choose(source, tmp_path / "t.jsonl", judges)


def test_a_file_of_scores_is_no_file_of_choices(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no choices"):
        count_choices(write(tmp_path / "s.jsonl", [gen(1)]))


# Structured output.


async def test_each_protocol_asks_in_its_own_format(tmp_path: Path) -> None:
    def strict(body: dict[str, Any], index: int) -> Answer:
        prompt = body["messages"][-1]["content"]
        told: dict[str, Any] = {"code": code_of(prompt)}
        if body["response_format"] == CHOICE_FORMAT:
            return chat(json.dumps(told | {"reason": "", "choice": "tie"}))
        names = SCORES_FORMAT["json_schema"]["schema"]["properties"]["scores"]["required"]
        return chat(json.dumps(told | {"scores": dict.fromkeys(names, 3)}))

    source = write(tmp_path / "p.jsonl", [wrong(0), wrong(1)])
    ((sample, _), _) = predictions(source)
    with serving(strict) as server:
        model = OpenAIModel("judge", server.url, max_retries=0)
        verdict = await judge(sample.question, "$", model, JudgeSettings(structured=True))
        await choose(source, tmp_path / "t.jsonl", [model], structured=True)
        others = write(tmp_path / "o.jsonl", [gen(0), gen(1)])
        await choose(source, tmp_path / "c.jsonl", [model], against=others, structured=True)
    assert verdict.score is not None
    assert verdict.score.total == 3
    assert verdict.judge == model.name
    for name in ("t", "c"):
        results = count_choices(tmp_path / f"{name}.jsonl")
        assert (results.overall.tied, results.judging.judges) == (2, (model.name,))


async def test_a_server_that_refuses_the_format_is_asked_plainly_and_read_all_the_same(tmp_path: Path) -> None:
    def refusing(body: dict[str, Any], index: int) -> Answer:
        if "response_format" in body:
            return error(400, "response_format json_schema is not supported by this model", param="response_format")
        return chat(knowing(body["messages"][-1]["content"]))

    source = write(tmp_path / "p.jsonl", [wrong(number) for number in range(12)])
    with serving(refusing) as server:
        model = OpenAIModel("judge", server.url, max_retries=0)
        report = await choose(source, tmp_path / "t.jsonl", [model], concurrency=4, structured=True)
    assert report.outcomes == {"ok": 12}
    assert len(server.bodies) <= 12 + 4  # learned once
    assert count_choices(tmp_path / "t.jsonl").headline.mean == 0.0
