"""Cache, budget, recording: what they do, and that they claim no powers that the wrapped model lacks."""

import asyncio
import json
import logging
import multiprocessing
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.core.errors import InputError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Closes, CountsTokens, Model, StreamsCompletion
from worldlm.core.types import NO_USAGE, Completion, Delta, Message, Sampling, Usage
from worldlm.models import BudgetModel, CachedModel, ModelWrapper, RecordingModel, ReplayModel
from worldlm.models.wrappers import request_key
from worldlm.testing import ScriptedModel

pytestmark = pytest.mark.anyio

SAMPLING = Sampling(temperature=0.6, max_tokens=64, seed=1)
COST = Usage(calls=1, prompt_tokens=10, completion_tokens=5, cost_usd=0.25, seconds=1.0)


def ask(text: str) -> list[Message]:
    return [Message(role="system", content="s"), Message(role="user", content=text)]


def counter(**fields: object) -> ScriptedModel:
    """A model whose answers tell how often it was called."""
    numbers = iter(range(1000))
    return ScriptedModel(
        lambda messages, sampling: Completion.model_validate(
            {"text": f"answer {next(numbers)}", "usage": COST, "model": "m", **fields}
        )
    )


class Plain:
    """A model without further powers."""

    name = "plain"

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        return Completion(text="plain")


class Able(ScriptedModel):
    """A model with all powers."""

    closed = 0

    def count_tokens(self, text: str) -> int:
        return len(text)

    async def close(self) -> None:
        self.closed += 1


WRAPPERS: dict[str, Callable[[Model, Path], ModelWrapper]] = {
    "wrapper": lambda model, folder: ModelWrapper(model),
    "cached": lambda model, folder: CachedModel(model, folder / "cache.db"),
    "budget": lambda model, folder: BudgetModel(model, tokens=1000),
    "recording": lambda model, folder: RecordingModel(model, folder / "calls.jsonl"),
}
each_wrapper = pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)


async def streamed(model: Model) -> tuple[str, Completion]:
    assert isinstance(model, StreamsCompletion)
    items = [item async for item in model.stream(ask("x"), SAMPLING)]
    assert isinstance(items[-1], Completion)
    return "".join(item.text for item in items if isinstance(item, Delta)), items[-1]


@each_wrapper
async def test_a_wrapper_has_the_powers_of_what_it_wraps(
    wrap: Callable[[Model, Path], ModelWrapper], tmp_path: Path
) -> None:
    able = Able(["some longer answer"])
    model = wrap(able, tmp_path)
    for power in (Model, StreamsCompletion, CountsTokens, Closes):
        assert isinstance(model, power)
    assert model.name == "scripted"
    assert model.count_tokens("four") == 4
    text, completion = await streamed(model)
    assert text == completion.text == "some longer answer"
    await model.close()
    await model.close()
    assert able.closed == 2


@each_wrapper
async def test_a_wrapper_claims_no_other_powers(wrap: Callable[[Model, Path], ModelWrapper], tmp_path: Path) -> None:
    model = wrap(Plain(), tmp_path)
    assert isinstance(model, Model)
    assert not isinstance(model, StreamsCompletion)
    assert not isinstance(model, CountsTokens)
    assert (await model.complete(ask("x"), SAMPLING)).text == "plain"
    await model.close()


@each_wrapper
async def test_wrappers_nest_and_pass_failures_on(wrap: Callable[[Model, Path], ModelWrapper], tmp_path: Path) -> None:
    failure = Completion(finish="error", outcome=Outcome.TIMED_OUT, detail="too late")
    model = wrap(BudgetModel(ScriptedModel([failure])), tmp_path)
    assert await model.complete(ask("x"), SAMPLING) == failure
    await model.close()


@each_wrapper
async def test_leaving_a_stream_early_closes_the_inner_one(
    wrap: Callable[[Model, Path], ModelWrapper], tmp_path: Path
) -> None:
    class Endless(Plain):
        open = 0

        async def stream(self, messages: Sequence[Message], sampling: Sampling) -> AsyncIterator[Delta | Completion]:
            self.open += 1
            try:
                while True:
                    yield Delta(text="x")
            finally:
                self.open -= 1

    inner = Endless()
    model = wrap(inner, tmp_path)
    stream = model.stream(ask("x"), SAMPLING)
    async for _ in stream:
        break
    assert inner.open == 1
    await stream.aclose()  # type: ignore[attr-defined]
    assert inner.open == 0
    await model.close()


# The cache.


async def test_a_hit_is_the_same_answer_and_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cache.db"
    inner = counter()
    model = CachedModel(inner, path)
    first = await model.complete(ask("ls"), SAMPLING)
    again = await model.complete(ask("ls"), SAMPLING)
    await model.close()
    reopened = CachedModel(counter(), path)
    later = await reopened.complete(ask("ls"), SAMPLING)
    assert first.usage == COST
    assert (again.text, again.usage, again.model) == (first.text, NO_USAGE, "m")
    assert later == again
    assert (model.hits, model.misses, reopened.hits, len(inner.requests)) == (1, 1, 1, 1)
    await reopened.close()


async def test_streams_are_cached_too(tmp_path: Path) -> None:
    model = CachedModel(counter(), tmp_path / "cache.db")
    text, first = await streamed(model)
    again, second = await streamed(model)
    assert text == again == first.text == second.text == "answer 0"
    assert second.usage == NO_USAGE
    assert (await model.complete(ask("x"), SAMPLING)).text == "answer 0"
    await model.close()


@pytest.mark.parametrize("change", ["seed", "temperature", "messages", "model"])
async def test_whatever_can_change_an_answer_is_in_the_key(change: str, tmp_path: Path) -> None:
    inner = counter()
    model = CachedModel(inner, tmp_path / "cache.db")
    await model.complete(ask("ls"), SAMPLING)
    sampling, messages = SAMPLING, ask("ls")
    if change == "seed":
        sampling = SAMPLING.model_copy(update={"seed": 2})
    elif change == "temperature":
        sampling = SAMPLING.model_copy(update={"temperature": 0.7})
    elif change == "messages":
        messages = ask("ls ")
    else:
        inner.name = "other"
    assert (await model.complete(messages, sampling)).text == "answer 1"
    await model.close()


texts = st.text(max_size=6)
conversations = st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), texts), max_size=4)


@given(conversations, conversations)
def test_keys_of_different_requests_differ(one: list[tuple[str, str]], other: list[tuple[str, str]]) -> None:
    keys = [
        request_key([Message.model_validate({"role": role, "content": text}) for role, text in talk], SAMPLING)
        for talk in (one, other)
    ]
    assert (keys[0] == keys[1]) == (one == other)


@pytest.mark.parametrize(
    "fields",
    [
        {"outcome": Outcome.INFRASTRUCTURE_FAILED, "finish": "error"},
        {"outcome": Outcome.MODEL_FAILED, "finish": "refused"},
        {"finish": "length"},
    ],
)
async def test_only_whole_good_answers_are_kept(fields: dict[str, object], tmp_path: Path) -> None:
    model = CachedModel(counter(**fields), tmp_path / "cache.db")
    assert [(await model.complete(ask("ls"), SAMPLING)).text for _ in range(2)] == ["answer 0", "answer 1"]
    await model.close()


async def test_equal_requests_at_once_make_one_call(tmp_path: Path) -> None:
    inner = ScriptedModel(lambda messages, sampling: f"call {len(inner.requests)}", delay=0.05)
    model = CachedModel(inner, tmp_path / "cache.db")
    completions = await asyncio.gather(*(model.complete(ask("ls"), SAMPLING) for _ in range(8)))
    assert {completion.text for completion in completions} == {"call 1"}
    assert len(inner.requests) == 1
    await model.close()


async def test_when_the_first_of_equal_requests_is_cancelled_the_next_takes_over(tmp_path: Path) -> None:
    inner = ScriptedModel(lambda messages, sampling: "answer", delay=0.1)
    model = CachedModel(inner, tmp_path / "cache.db")
    first = asyncio.create_task(model.complete(ask("ls"), SAMPLING))
    await asyncio.sleep(0.05)
    second = asyncio.create_task(model.complete(ask("ls"), SAMPLING))
    await asyncio.sleep(0.01)
    first.cancel()
    assert (await second).text == "answer"
    await asyncio.gather(first, return_exceptions=True)
    await model.close()


def _fill(path: str, process: int) -> None:
    async def run() -> list[str]:
        model = CachedModel(
            ScriptedModel(lambda messages, sampling: f"{messages[-1].content} by {process}"), Path(path)
        )
        answers = [(await model.complete(ask(str(number)), SAMPLING)).text for number in range(60)]
        await model.close()
        return answers

    Path(f"{path}.{process}.json").write_text(json.dumps(asyncio.run(run())))


def test_many_processes_agree(tmp_path: Path) -> None:
    path = str(tmp_path / "cache.db")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_fill, args=(path, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    answers = [json.loads(Path(f"{path}.{number}.json").read_text()) for number in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert [text.split()[0] for text in answers[0]] == [str(number) for number in range(60)]


def test_a_file_that_is_no_cache(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to look at " * 50)
    with pytest.raises(InputError, match="text as a cache"):
        CachedModel(Plain(), tmp_path / "text")
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("CREATE TABLE other (x)")
    connection.commit()
    connection.close()
    with pytest.raises(InputError, match=r"other\.db as a cache: it is another database"):
        CachedModel(Plain(), tmp_path / "other.db")


async def test_a_cache_that_breaks_costs_no_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "cache.db"
    model = CachedModel(counter(), path)
    await model.complete(ask("ls"), SAMPLING)
    with sqlite3.connect(path) as other:
        other.execute("DROP TABLE completions")
    other.close()
    with caplog.at_level(logging.WARNING):
        texts = [(await model.complete(ask("ls"), SAMPLING)).text for _ in range(2)]
    assert texts == ["answer 1", "answer 2"]
    assert len(caplog.records) == 1
    await model.close()


# The budget.


@pytest.mark.parametrize(
    ("limits", "calls"), [({"tokens": 40}, 3), ({"cost_usd": 0.5}, 2), ({"tokens": 0}, 0), ({}, 9)]
)
async def test_a_spent_budget_refuses(limits: dict[str, float], calls: int) -> None:
    inner = counter()
    model = BudgetModel(inner, **limits)  # type: ignore[arg-type]
    outcomes = [(await model.complete(ask("x"), SAMPLING)).outcome for _ in range(9)]
    assert outcomes == [Outcome.OK] * calls + [Outcome.BUDGET_EXHAUSTED] * (9 - calls)
    assert len(inner.requests) == calls
    assert model.spent.calls == calls


async def test_time_is_a_budget_too() -> None:
    model = BudgetModel(counter(), seconds=0.05)
    assert (await model.complete(ask("x"), SAMPLING)).outcome is Outcome.OK
    await asyncio.sleep(0.06)
    completion = await model.complete(ask("x"), SAMPLING)
    assert completion.outcome is Outcome.BUDGET_EXHAUSTED
    assert "0.05 seconds" in (completion.detail or "")
    assert (await streamed(model))[1].outcome is Outcome.BUDGET_EXHAUSTED


async def test_calls_at_once_exceed_a_budget_by_those_in_flight_at_most() -> None:
    inner = ScriptedModel(lambda messages, sampling: Completion(text="x", usage=COST), delay=0.01)
    model = BudgetModel(inner, tokens=100)
    limit = asyncio.Semaphore(4)

    async def one() -> Outcome:
        async with limit:
            return (await model.complete(ask("x"), SAMPLING)).outcome

    outcomes = await asyncio.gather(*(one() for _ in range(40)))
    assert model.spent.prompt_tokens + model.spent.completion_tokens <= 100 + 4 * 15
    assert outcomes.count(Outcome.OK) == len(inner.requests)


async def test_hits_of_a_cache_cost_no_budget(tmp_path: Path) -> None:
    model = BudgetModel(CachedModel(counter(), tmp_path / "cache.db"), tokens=20)
    assert [(await model.complete(ask("x"), SAMPLING)).outcome for _ in range(5)] == [Outcome.OK] * 5
    await model.close()


# The recording.


async def test_a_recording_plays_back(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    failure = Completion(finish="error", outcome=Outcome.TIMED_OUT, detail="too late")
    model = RecordingModel(ScriptedModel(["one", failure, "two \ud83d"]), path)
    recorded = [await model.complete(ask(text), SAMPLING) for text in ("a", "b", "c")]
    await model.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["schema"] for line in lines] == ["worldlm.call/1"] * 3
    assert lines[0]["model"] == "scripted"
    replay = ReplayModel.load(path)
    played = [await replay.complete(ask(text), SAMPLING) for text in ("a", "b", "c")]
    assert [item.text for item in played] == [item.text for item in recorded] == ["one", "", "two \ufffd"]
    assert played[1].outcome is Outcome.TIMED_OUT


async def test_a_second_recorder_of_one_file_is_refused(tmp_path: Path) -> None:
    model = RecordingModel(Plain(), tmp_path / "calls.jsonl")
    with pytest.raises(InputError, match=r"calls\.jsonl"):
        RecordingModel(Plain(), tmp_path / "calls.jsonl")
    await model.close()


async def test_an_answer_that_cannot_be_recorded_is_given_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = RecordingModel(Plain(), tmp_path / "calls.jsonl")
    await model.close()
    assert (await model.complete(ask("x"), SAMPLING)).text == "plain"
    assert "a call is missing" in caplog.text


async def test_a_server_that_counts_no_tokens_does_not_outlast_the_budget() -> None:
    model = BudgetModel(counter(usage=Usage(calls=1)), tokens=100)
    outcomes = [(await model.complete(ask("x" * 150), SAMPLING)).outcome for _ in range(3)]
    assert outcomes == [Outcome.OK, Outcome.OK, Outcome.BUDGET_EXHAUSTED]


async def test_a_cache_does_not_mix_two_recordings_of_one_name(tmp_path: Path) -> None:
    answers = []
    for folder, answer in (("a", "one"), ("b", "two")):
        recording = RecordingModel(ScriptedModel([answer]), tmp_path / folder / "calls.jsonl")
        await recording.complete(ask("x"), SAMPLING)
        await recording.close()
        cached = CachedModel(ReplayModel.load(tmp_path / folder / "calls.jsonl"), tmp_path / "cache.db")
        answers.append((await cached.complete(ask("x"), SAMPLING)).text)
        await cached.close()
    assert answers == ["one", "two"]
