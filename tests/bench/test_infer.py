"""Predictions: what is asked, how much at once, what is kept of it, and what a further run asks."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.bench.kit import action, asked_word, foreign, lines, loaded, manifest_of, own, perfect, screen, write
from tests.models.chat_server import Answer, ChatServer, error, serving
from worldlm.bench.infer import (
    Prediction,
    Predictor,
    default_words,
    environment_predictor,
    infer,
    model_predictor,
    read_prediction,
)
from worldlm.bench.judging import Judging, score_one
from worldlm.bench.running import GIVE_UP, Report
from worldlm.bench.runs import RunFile, manifest_path, read_manifest
from worldlm.bench.samples import Sample, load_samples
from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Closes, Model
from worldlm.core.types import Completion, Message, Observation, Profile, Sampling, World
from worldlm.domains import get_domain
from worldlm.domains.delta import write_delta
from worldlm.models import BudgetModel, OpenAIModel
from worldlm.simulate import SimulatedEnvironment
from worldlm.testing import ScriptedModel, ToyEnvironment

pytestmark = pytest.mark.anyio

FULL = Profile(name="test", sampling=Sampling(temperature=0.6, max_tokens=512), context=32_768)


def served(server: ChatServer, **more: Any) -> OpenAIModel:
    return OpenAIModel("served", server.url, max_retries=0, **more)


async def ask(
    samples: Sequence[Sample],
    model: Model | Predictor,
    out: Path,
    *,
    concurrency: int = 4,
    profile: Profile = FULL,
    retry_failed: bool = True,
) -> Report:
    predictor = model if isinstance(model, Predictor) else model_predictor(model, profile, default_words(samples))
    manifest = manifest_of(samples, predictor.settings)
    with RunFile(out, "prediction", manifest, retry_failed=retry_failed) as file:
        try:
            return await infer(samples, predictor, file, concurrency=concurrency)
        finally:
            if isinstance(model, Closes):
                await model.close()


def kept(out: Path) -> dict[str, Prediction]:
    """The last prediction of each sample."""
    return {sample.key: read_prediction(sample) for sample in map_records(out)}


def map_records(out: Path) -> list[Sample]:
    from worldlm.bench.samples import parse_record

    return [parse_record(record) for record in lines(out)]


# What is asked.


@pytest.mark.parametrize("make", [foreign, own])
async def test_the_model_sees_every_earlier_turn_and_so_does_the_judge(
    tmp_path: Path, make: Callable[..., Any]
) -> None:
    samples = loaded(tmp_path / "b.jsonl", [make(1, 3)])
    model, judge = ScriptedModel([screen("r1t3")]), ScriptedModel(["no verdict"])
    await ask(samples, model, tmp_path / "out.jsonl")
    (messages, _) = model.requests[0]
    assert [message.role for message in messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    for number, place in ((1, 1), (2, 3)):
        assert action(f"r1t{number}") in messages[place].content
        assert screen(f"r1t{number}") in messages[place + 1].content
    assert action("r1t3") in messages[-1].content
    assert not any(screen("r1t3") in message.content for message in messages)

    await score_one(samples[0], kept(tmp_path / "out.jsonl")["terminal/1"], Judging(judges=[judge]))
    shown = judge.requests[0][0][-1].content
    for text in (action("r1t1"), screen("r1t1"), action("r1t2"), screen("r1t2"), action("r1t3"), screen("r1t3")):
        assert text in shown


async def test_foreign_samples_are_asked_in_their_own_words_and_ours_in_ours(tmp_path: Path) -> None:
    theirs, mine = loaded(tmp_path / "a.jsonl", [foreign(1)]), loaded(tmp_path / "b.jsonl", [own(1)])
    model = ScriptedModel(lambda messages, sampling: screen("x"))
    await ask(theirs, model, tmp_path / "a.out.jsonl")
    await ask(mine, model, tmp_path / "b.out.jsonl")
    (first, _), (second, _) = model.requests
    assert first == theirs[0].messages
    domain = get_domain("terminal")
    assert second[0].content.startswith(domain.prompt("full"))
    assert "A plain machine." in second[0].content
    assert second[1].content == action("r1t1")


async def test_each_sample_has_a_seed_of_its_own_whatever_the_order(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(number) for number in range(6)])
    seeds = []
    for concurrency in (1, 6):
        model = ScriptedModel(lambda messages, sampling: screen("x"))
        await ask(samples, model, tmp_path / f"{concurrency}.jsonl", concurrency=concurrency)
        seeds.append({messages[0].content: sampling.seed for messages, sampling in model.requests})
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0].values())) == 6


async def test_one_trajectory_s_samples_are_asked_together_and_in_order(tmp_path: Path) -> None:
    mixed = [
        foreign(number, turn, run=run) for number, (turn, run) in enumerate([(3, 1), (1, 2), (1, 1), (2, 2), (2, 1)])
    ]
    samples = loaded(tmp_path / "b.jsonl", mixed)
    model = ScriptedModel(lambda messages, sampling: screen("x"))
    await ask(samples, model, tmp_path / "out.jsonl", concurrency=1)
    said = [(messages[0].content[-2], len(messages) // 2) for messages, _ in model.requests]
    assert said == [("1", 1), ("1", 2), ("1", 3), ("2", 1), ("2", 2)]


async def test_samples_of_one_world_are_asked_together(tmp_path: Path) -> None:
    records = []
    for number in range(12):
        record = foreign(number)
        record["system_str"] = f"You are the terminal of world {number % 2}."
        records.append(record)
    samples = loaded(tmp_path / "b.jsonl", records)
    model = ScriptedModel(lambda messages, sampling: screen("x"))
    await ask(samples, model, tmp_path / "out.jsonl", concurrency=1)
    assert len({sample.trajectory for sample in samples}) == 12
    assert [messages[0].content[-2] for messages, _ in model.requests] == ["0"] * 6 + ["1"] * 6


async def test_a_history_that_does_not_fit_loses_its_oldest_turns_and_says_so(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(1, 6, 6)])
    small = Profile(name="small", sampling=Sampling(max_tokens=16), context=512)
    model = ScriptedModel(
        [Completion(finish="context_overflow", outcome=Outcome.INFRASTRUCTURE_FAILED), screen("r1t6")]
    )
    await ask(samples, model, tmp_path / "out.jsonl", profile=small)
    (before, _), (after, _) = model.requests
    assert len(after) < len(before)
    assert after[-1] == samples[0].messages[-1]
    prediction = kept(tmp_path / "out.jsonl")["terminal/1"]
    assert prediction.outcome is Outcome.OK
    assert prediction.missing == 6 - len(after) // 2
    assert f"Turns 1 to {prediction.missing} are not shown" in after[1].content


@pytest.mark.parametrize("make", [foreign, own])
async def test_samples_that_do_not_fit_are_failures_of_their_own_and_stop_nothing(
    tmp_path: Path, make: Callable[..., Any]
) -> None:
    long = "x" * 4000
    samples = loaded(tmp_path / "b.jsonl", [make(1)])
    records = [make(number) for number in range(GIVE_UP + 2)]
    for record in records:
        record["system_str"] = record["system_str"] + long
        if "worldlm" in record:
            record["worldlm"]["world"]["context"] = long
    samples = loaded(tmp_path / "b.jsonl", records)
    model = ScriptedModel([])
    report = await ask(samples, model, tmp_path / "out.jsonl", profile=FULL.model_copy(update={"context": 1024}))
    assert model.requests == []
    assert report.outcomes == {"infrastructure_failed": len(samples)}
    assert "1024" in (kept(tmp_path / "out.jsonl")["terminal/0"].detail or "") or make is own


# What comes back.


REPLIES: dict[str, tuple[Completion, Outcome]] = {
    "an answer": (Completion(text="<think>hm</think><predicted_observation>x</predicted_observation>"), Outcome.OK),
    "without a tag": (Completion(text="x"), Outcome.OK),
    "thinking that never closes": (Completion(text="<think>x <predicted_observation>y"), Outcome.CUT_OFF),
    "cut off": (Completion(text="<predicted_observation>x", finish="length"), Outcome.CUT_OFF),
    "nothing": (Completion(text=" \n"), Outcome.MODEL_FAILED),
    "refused": (Completion(outcome=Outcome.MODEL_FAILED, finish="refused", detail="no"), Outcome.MODEL_FAILED),
    "no server": (Completion(outcome=Outcome.INFRASTRUCTURE_FAILED, finish="error"), Outcome.INFRASTRUCTURE_FAILED),
    "late": (Completion(outcome=Outcome.TIMED_OUT, finish="error", detail="600 s"), Outcome.TIMED_OUT),
}


@pytest.mark.parametrize(("reply", "outcome"), REPLIES.values(), ids=list(REPLIES))
async def test_every_reply_is_an_answer_or_a_typed_failure(tmp_path: Path, reply: Completion, outcome: Outcome) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(1), foreign(2)])
    model = ScriptedModel(lambda messages, sampling: reply if "run 1" in messages[0].content else "fine")
    await ask(samples, model, tmp_path / "out.jsonl", concurrency=1)
    prediction = kept(tmp_path / "out.jsonl")["terminal/1"]
    assert prediction.outcome is outcome
    assert (prediction.observation is None) == (outcome is not Outcome.OK)
    assert prediction.observation is None or prediction.observation.text == "x"
    assert prediction.gen == (reply.text or None)
    assert prediction.observation is not None or prediction.detail


async def test_the_heading_of_the_public_format_is_no_part_of_an_answer(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(1)])
    text = f"<predicted_observation>\n**Environment Observation:**\n{screen('r1t3')}</predicted_observation>"
    await ask(samples, ScriptedModel([text]), tmp_path / "out.jsonl")
    assert kept(tmp_path / "out.jsonl")["terminal/1"].observation == Observation(text=screen("r1t3"))


async def test_predictions_of_others_are_read_by_our_rules(tmp_path: Path) -> None:
    gens = ["<think>a</think>b", None, "", "<think>a"]
    records = [foreign(number) | {"gen": gen} for number, gen in enumerate(gens)]
    read = [read_prediction(sample) for sample in load_samples(str(write(tmp_path / "p.jsonl", records)))]
    assert [prediction.outcome for prediction in read] == [
        Outcome.OK,
        Outcome.INFRASTRUCTURE_FAILED,
        Outcome.MODEL_FAILED,
        Outcome.CUT_OFF,
    ]
    assert read[0].observation == Observation(text="b")
    (sample,) = loaded(tmp_path / "s.jsonl", [foreign(1)])
    with pytest.raises(InputError, match="sample terminal/1 has no 'gen'"):
        read_prediction(sample)


async def test_a_delta_is_decoded_against_what_the_model_was_shown(tmp_path: Path) -> None:
    world = World(name="page", domain="web", context="A page.")
    tree = ["RootWebArea 'Shop'", *(f"\t[{n}] button 'Item {n}'" for n in range(30))]
    pages = ["\n".join([*tree, f"\t[99] StaticText 'Total {total}'"]) for total in range(3)]
    from tests.bench.kit import session
    from worldlm.core.types import Turn
    from worldlm.data.formats.agentworldbench import make_sample

    turns = tuple(Turn(action="noop()", observation=Observation(text=page)) for page in pages[1:])
    made = session("s", []).model_copy(update={"world": world, "initial": Observation(text=pages[0]), "turns": turns})
    samples = loaded(tmp_path / "b.jsonl", [make_sample(made, 1, 1)])
    delta = Profile(name="delta", state="delta", sampling=Sampling(max_tokens=64))
    reply = f"<predicted_observation>{write_delta(pages[2], pages[1], 1)}</predicted_observation>"
    await ask(samples, ScriptedModel([reply]), tmp_path / "out.jsonl", profile=delta)
    assert kept(tmp_path / "out.jsonl")["web/1"].observation == Observation(text=pages[2])
    broken = "<predicted_observation>@back 9\n- nothing</predicted_observation>"
    await ask(samples, ScriptedModel([broken]), tmp_path / "broken.jsonl", profile=delta)
    assert kept(tmp_path / "broken.jsonl")["web/1"].outcome is Outcome.MODEL_FAILED


# How much at once, and what is kept.


async def test_as_many_run_at_once_as_is_said_and_no_more(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(number, 1 + number % 3, run=number // 3) for number in range(60)])

    def slow(body: dict[str, Any], index: int) -> Answer:
        return Answer(perfect(body, index).body, delay=0.15)

    with serving(slow) as server:
        report = await ask(samples, served(server), tmp_path / "out.jsonl", concurrency=20)
    assert server.peak == 20
    assert report.outcomes == {"ok": 60}
    assert all(
        record["gen"] and record["worldlm"]["prediction"]["outcome"] == "ok" for record in lines(tmp_path / "out.jsonl")
    )


async def test_a_finished_sample_is_a_flushed_line_at_once(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(number) for number in range(5)])
    out = tmp_path / "out.jsonl"
    seen = []

    def look(messages: Sequence[Message], sampling: Sampling) -> str:
        seen.append(len(out.read_bytes().splitlines()))
        return "x"

    await ask(samples, ScriptedModel(look), out, concurrency=1)
    assert seen == [0, 1, 2, 3, 4]


async def test_a_stopped_run_keeps_what_was_finished_and_goes_on_with_another_concurrency(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(number) for number in range(20)])
    out = tmp_path / "out.jsonl"
    asked: list[str] = []

    async def predict(sample: Sample) -> Prediction:
        if len(asked) >= 8:
            await anyio.sleep_forever()
        asked.append(sample.key)
        return Prediction(digest=sample.digest, observation=Observation(text="x"), gen="x")

    predictor = model_predictor(ScriptedModel([]), FULL, "sample")
    with anyio.move_on_after(0.3):
        await ask(samples, Predictor(predictor.settings, predict), out, concurrency=3)
    first = [record["id"] for record in lines(out)]
    assert len(first) == 8
    model = ScriptedModel(lambda messages, sampling: "x")
    report = await ask(samples, model, out, concurrency=9)
    assert report.already == 8
    assert sorted(record["id"] for record in lines(out)) == list(range(20))


async def test_more_samples_are_topped_up(tmp_path: Path) -> None:
    path = write(tmp_path / "b.jsonl", [foreign(number) for number in range(10)])
    model = ScriptedModel(lambda messages, sampling: "x")
    out = tmp_path / "out.jsonl"
    await ask(load_samples(str(path), limit=5), model, out)
    report = await ask(load_samples(str(path), limit=10), model, out)
    assert (report.already, report.outcomes.total(), len(model.requests)) == (5, 5, 10)
    manifest = read_manifest(out)
    assert manifest is not None
    assert len(manifest.planned) == 10


async def test_other_settings_are_refused_and_what_differs_is_named(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(1)])
    out = tmp_path / "out.jsonl"
    await ask(samples, ScriptedModel(["x"]), out)
    before = out.read_bytes()
    with pytest.raises(InputError, match=r"other settings \(model: 'scripted' there, 'other' now"):
        await ask(samples, ScriptedModel(["x"], name="other"), out)
    with pytest.raises(InputError, match="sampling"):
        await ask(
            samples, ScriptedModel(["x"]), out, profile=FULL.model_copy(update={"sampling": Sampling(max_tokens=9)})
        )
    manifest_path(out).unlink()
    with pytest.raises(InputError, match=r"out\.jsonl:1: .*not made with these settings"):
        await ask(samples, ScriptedModel(["x"], name="other"), out)
    assert out.read_bytes() == before


async def test_a_sample_that_was_changed_is_asked_again(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    model = ScriptedModel(lambda messages, sampling: "x")
    await ask(loaded(tmp_path / "b.jsonl", [foreign(1), foreign(2)]), model, out)
    changed = foreign(2)
    changed["response"][2] = "other"
    report = await ask(loaded(tmp_path / "b.jsonl", [foreign(1), changed]), model, out)
    assert (report.already, report.outcomes.total()) == (1, 1)


async def test_half_a_line_of_a_killed_run_is_moved_aside(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(1), foreign(2)])
    out = tmp_path / "out.jsonl"
    model = ScriptedModel(lambda messages, sampling: "x")
    await ask(samples[:1], model, out)
    with out.open("a") as file:
        file.write('{"task": "terminal", "id": 2, "gen": "hal')
    report = await ask(samples, model, out)
    assert report.outcomes == {"ok": 1}
    assert [record["id"] for record in lines(out)] == [1, 2]


# What goes wrong.


async def test_a_failed_call_is_a_failure_and_never_text_and_a_rerun_asks_for_it_alone(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(number) for number in range(10)])
    out = tmp_path / "out.jsonl"

    def flaky(body: dict[str, Any], index: int) -> Answer:
        return error(500, "the GPU fell off") if asked_word(body)[1] in "258" and index < 10 else perfect(body, index)

    with serving(flaky) as server:
        report = await ask(samples, served(server), out, concurrency=2)
        assert report.outcomes == {"ok": 7, "infrastructure_failed": 3}
        failed = [record for record in lines(out) if record["worldlm"]["prediction"]["outcome"] != "ok"]
        assert [record["gen"] for record in failed] == [None] * 3
        assert all("the GPU fell off" in record["worldlm"]["prediction"]["detail"] for record in failed)
        again = await ask(samples, served(server), out, concurrency=2)
        assert (again.already, again.outcomes) == (7, {"ok": 3})
        assert len(server.bodies) == 13
        none = await ask(samples, served(server), out)
        assert none.already == 10
    assert {prediction.outcome for prediction in kept(out).values()} == {Outcome.OK}


async def test_failures_may_be_kept_and_the_model_s_own_are_never_asked_again(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(number) for number in range(3)])
    out = tmp_path / "out.jsonl"
    late = Completion(outcome=Outcome.TIMED_OUT, finish="error", detail="late")
    replies: dict[str, str | Completion] = {"0": "x", "1": "", "2": late}
    model = ScriptedModel(lambda messages, sampling: replies[messages[0].content[-2]])
    await ask(samples, model, out)
    assert (await ask(samples, model, out, retry_failed=False)).already == 3
    report = await ask(samples, model, out)
    assert (report.already, report.outcomes) == (2, {"timed_out": 1})  # one that never comes does not stop the others


async def test_a_run_that_nobody_answers_stops_early_with_the_server_s_words(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(number) for number in range(50)])
    with (
        serving([error(401, "your key has expired")]) as server,
        pytest.raises(WorldlmError, match="your key has expired"),
    ):
        await ask(samples, served(server), tmp_path / "out.jsonl", concurrency=4)
    assert len(server.bodies) < 20
    for few in (1, 3):
        with serving([error(401, "your key has expired")]) as server, pytest.raises(WorldlmError, match="has expired"):
            await ask(samples[:few], served(server), tmp_path / f"{few}.jsonl", concurrency=4)


async def test_a_server_that_goes_down_half_way_stops_the_run_and_keeps_the_half(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(number) for number in range(60)])
    out = tmp_path / "out.jsonl"

    def dies(body: dict[str, Any], index: int) -> Answer:
        return perfect(body, index) if index < 30 else error(503, "out of memory")

    with serving(dies) as server:
        with pytest.raises(WorldlmError, match="out of memory"):
            await ask(samples, served(server), out, concurrency=2)
        server.script = perfect
        report = await ask(samples, served(server), out, concurrency=2)
    assert report.already == 30
    assert sum(prediction.outcome is Outcome.OK for prediction in kept(out).values()) == 60


async def test_a_spent_budget_stops_the_run_and_is_no_result(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(number) for number in range(10)])
    out = tmp_path / "out.jsonl"
    with serving(perfect) as server:
        with pytest.raises(WorldlmError, match=r"the budget is spent.*run it again"):
            await ask(samples, BudgetModel(served(server), tokens=60), out, concurrency=1)
        assert [record["worldlm"]["prediction"]["outcome"] for record in lines(out)] == ["ok"] * 4
        report = await ask(samples, served(server), out)
    assert (report.already, report.outcomes) == (4, {"ok": 6})


async def test_one_sample_that_breaks_something_leaves_the_others_alone(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(number) for number in range(5)])

    def script(messages: Sequence[Message], sampling: Sampling) -> str:
        if "run 3" in messages[0].content:
            raise RuntimeError("a bug")
        return "x"

    report = await ask(samples, ScriptedModel(script), tmp_path / "out.jsonl")
    assert report.outcomes == {"ok": 4, "infrastructure_failed": 1}
    assert kept(tmp_path / "out.jsonl")["terminal/3"].detail == "RuntimeError: a bug"


async def test_two_runs_do_not_write_one_file(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(1)])
    settings = model_predictor(ScriptedModel([]), FULL, "sample").settings
    manifest = manifest_of(samples, settings)
    with RunFile(tmp_path / "out.jsonl", "prediction", manifest), pytest.raises(InputError, match="written already"):
        RunFile(tmp_path / "out.jsonl", "prediction", manifest)


# Environments.


async def test_an_environment_is_resumed_with_the_real_history(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [own(1), own(2)])
    model = ScriptedModel(lambda messages, sampling: screen("r1t3"))

    def make(world: World) -> SimulatedEnvironment:
        return SimulatedEnvironment(world, get_domain(world.domain), model, FULL)

    await ask(samples, environment_predictor(make, name="simulated"), tmp_path / "e.jsonl", concurrency=1)
    direct = ScriptedModel(lambda messages, sampling: screen("r1t3"))
    await ask(samples, direct, tmp_path / "m.jsonl", concurrency=1)
    assert [messages for messages, _ in model.requests] == [messages for messages, _ in direct.requests]
    ours, theirs = kept(tmp_path / "e.jsonl"), kept(tmp_path / "m.jsonl")
    assert {key: value.observation for key, value in ours.items()} == {
        key: value.observation for key, value in theirs.items()
    }


async def test_environments_are_closed_and_those_that_cannot_resume_are_said(tmp_path: Path) -> None:
    samples = loaded(tmp_path / "b.jsonl", [foreign(1), foreign(2)])
    open_sessions: set[ToyEnvironment] = set()

    class NoResume:
        def __init__(self) -> None:
            self.world = samples[0].question.world
            self.closed = 0

        async def reset(self, seed: int | None = None) -> Observation:
            raise NotImplementedError

        async def step(self, action: str) -> Any:
            raise NotImplementedError

        async def close(self) -> None:
            self.closed += 1

    made: list[NoResume] = []

    def make(world: World) -> NoResume:
        made.append(NoResume())
        return made[-1]

    with pytest.raises(WorldlmError, match="NoResume cannot start from a given history"):
        await ask(samples, environment_predictor(make, name="n"), tmp_path / "n.jsonl")
    assert made
    assert all(each.closed for each in made)
    predictor = environment_predictor(lambda world: ToyEnvironment(open_sessions=open_sessions), name="toy")
    with pytest.raises(WorldlmError, match="no answer for"):
        await ask(samples, predictor, tmp_path / "toy.jsonl")
    assert not open_sessions
