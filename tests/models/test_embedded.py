"""The embedded engine itself: llama.cpp in this process, with the default weights."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.models.adapter_files import write_adapter
from worldlm.core.errors import SetupError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Closes, CountsTokens, Model, StreamsCompletion
from worldlm.core.text import goes_round
from worldlm.core.types import Completion, Delta, Message, Sampling
from worldlm.models import EmbeddedModel, OpenAIModel, weights

pytestmark = pytest.mark.anyio

GREEDY = Sampling(temperature=0.0, max_tokens=24)
SYSTEM = Message(role="system", content="You are a Linux terminal. Answer with what the terminal prints. " * 4)


def path_of_weights() -> Path:
    try:
        path = weights.find()
    except SetupError as error:
        pytest.skip(str(error))
    if path is None:
        pytest.skip("the embedded weights are absent: run `worldlm models pull`")
    return path


@pytest.fixture(scope="module")
def engine() -> Iterator[EmbeddedModel]:
    model = EmbeddedModel(path_of_weights(), slots=4, context=1024, threads=1, label="smol")
    yield model
    asyncio.run(model.close())


@pytest.fixture(scope="module")
def deterministic() -> Iterator[EmbeddedModel]:
    model = EmbeddedModel(path_of_weights(), context=1024, threads=1, label="smol", deterministic=True)
    yield model
    asyncio.run(model.close())


COUNT = [Message(role="user", content="Count from 1 to 1000.")]
LONG = Sampling(temperature=0.0, max_tokens=100)


class Watched:
    """Stands before the engine and counts what goes through."""

    def __init__(self, engine: Any):
        self._engine = engine
        self._lock = threading.Lock()
        self._running = self.peak = self.finished = 0
        self.kept: list[dict[str, Any]] = []

    @property
    def chunks(self) -> int:
        return len(self.kept)

    async def at_least(self, chunks: int) -> None:
        for _ in range(6000):
            if self.chunks >= chunks:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{self.chunks} chunks came, not {chunks}")

    def handle_chat_completions(self, body: object, take: Callable[[dict[str, Any]], bool]) -> None:
        def count(chunk: dict[str, Any]) -> bool:
            self.kept.append(chunk)
            return take(chunk)

        with self._lock:
            self._running += 1
            self.peak = max(self.peak, self._running)
        try:
            self._engine.handle_chat_completions(body, count)
        finally:
            with self._lock:
                self._running -= 1
                self.finished += 1


@contextmanager
def watched(model: EmbeddedModel) -> Iterator[Watched]:
    model.load()
    engine = model._server
    model._server = watcher = Watched(engine)
    try:
        yield watcher
    finally:
        model._server = engine


def ask(text: str) -> list[Message]:
    return [SYSTEM, Message(role="user", content=text)]


async def test_an_answer_with_its_usage(engine: EmbeddedModel) -> None:
    completion = await engine.complete(ask("ls"), GREEDY)
    assert completion.outcome is Outcome.OK
    assert completion.text
    assert completion.finish in ("stop", "length")
    assert completion.model == "smol"
    usage = completion.usage
    assert usage.calls == 1
    assert usage.prompt_tokens > engine.count_tokens(SYSTEM.content)
    assert 0 < usage.completion_tokens <= 24
    assert usage.seconds > 0


async def test_the_length_limit_is_told(engine: EmbeddedModel) -> None:
    completion = await engine.complete(ask("Count from 1 to 1000."), Sampling(temperature=0.0, max_tokens=3))
    assert completion.finish == "length"
    assert completion.usage.completion_tokens == 3


async def test_a_reply_that_goes_round_is_cut_off_sooner_with_its_usage(engine: EmbeddedModel) -> None:
    messages = ask("Repeat for ever, on one line: " + "tick tock " * 60)
    sampling = Sampling(temperature=0.0, max_tokens=700)
    completion = await engine.complete(messages, sampling)
    streamed = [piece async for piece in engine.stream(messages, sampling)]
    assert goes_round(completion.text)
    assert not goes_round(completion.text[: -len(" tick tock")])
    assert (completion.finish, completion.outcome) == ("length", Outcome.OK)
    usage = completion.usage
    assert 200 <= usage.completion_tokens < 600
    assert usage.prompt_tokens > engine.count_tokens(messages[1].content)
    assert isinstance(streamed[-1], Completion)
    assert (streamed[-1].text, streamed[-1].finish) == (completion.text, "length")
    assert streamed[-1].usage.cached_tokens > 0


async def test_a_stop_sequence_ends_the_reply(engine: EmbeddedModel) -> None:
    whole = await engine.complete(ask("Say: alpha beta gamma"), GREEDY)
    stop = whole.text[4:7]
    cut = await engine.complete(ask("Say: alpha beta gamma"), GREEDY.model_copy(update={"stop": (stop,)}))
    assert (cut.finish, stop in cut.text) == ("stop", False)
    assert whole.text.startswith(cut.text)


async def test_streaming_gives_the_same(deterministic: EmbeddedModel) -> None:
    whole = await deterministic.complete(ask("pwd"), GREEDY)
    items = [item async for item in deterministic.stream(ask("pwd"), GREEDY)]
    assert isinstance(items[-1], Completion)
    assert items[-1].text == whole.text == "".join(item.text for item in items if isinstance(item, Delta))
    assert len(items) > 2


async def test_the_second_turn_reuses_the_first(engine: EmbeddedModel) -> None:
    first = await engine.complete(ask("echo prefix"), GREEDY)
    second = await engine.complete(
        [*ask("echo prefix"), Message(role="assistant", content=first.text), Message(role="user", content="pwd")],
        GREEDY,
    )
    assert second.usage.cached_tokens >= first.usage.prompt_tokens - 1 > 0


async def test_requests_run_in_parallel(engine: EmbeddedModel) -> None:
    with watched(engine) as seen:
        completions = await asyncio.gather(*(engine.complete(ask(f"echo {n}"), GREEDY) for n in range(6)))
    assert [completion.outcome for completion in completions] == [Outcome.OK] * 6
    assert seen.peak == 4


async def test_deterministic_mode_repeats_itself(deterministic: EmbeddedModel) -> None:
    sampling = Sampling(temperature=1.0, max_tokens=24, seed=1)
    first = await deterministic.complete(ask("ls -la"), sampling)
    await deterministic.complete(ask("something else entirely"), GREEDY)
    again = await asyncio.gather(
        *(deterministic.complete(ask("ls -la"), sampling.model_copy(update={"seed": seed})) for seed in range(3))
    )
    assert {completion.text for completion in again} == {first.text}
    assert all(completion.usage.cached_tokens == 0 for completion in again)


async def test_its_own_http_server_says_the_same(deterministic: EmbeddedModel) -> None:
    remote = OpenAIModel("smol", deterministic.url, deterministic.api_key)
    for text in ("ls", "cat /etc/hostname"):
        here = await deterministic.complete(ask(text), GREEDY)
        there = await remote.complete(ask(text), GREEDY)
        *_, streamed = [item async for item in remote.stream(ask(text), GREEDY)]
        assert isinstance(streamed, Completion)
        assert here.text == there.text == streamed.text
        assert here.usage.prompt_tokens == there.usage.prompt_tokens == streamed.usage.prompt_tokens
    assert await remote.list_models() == ["smol"]
    overflow = await remote.complete(ask("word " * 3000), GREEDY)
    assert overflow.finish == "context_overflow"
    await remote.close()


async def test_its_http_server_lets_nobody_else_in(deterministic: EmbeddedModel) -> None:
    stranger = OpenAIModel("smol", deterministic.url, "a-guess")
    completion = await stranger.complete(ask("ls"), GREEDY)
    await stranger.close()
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert "WORLDLM_API_KEY" in (completion.detail or "")


async def test_a_prompt_that_is_too_long(engine: EmbeddedModel) -> None:
    completion = await engine.complete(ask("word " * 3000), GREEDY)
    assert completion.finish == "context_overflow"
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert "1024" in (completion.detail or "")
    *_, streamed = [item async for item in engine.stream(ask("word " * 3000), GREEDY)]
    assert isinstance(streamed, Completion)
    assert streamed.finish == "context_overflow"


async def test_cancelling_stops_the_generation(deterministic: EmbeddedModel) -> None:
    with watched(deterministic) as whole:
        await deterministic.complete(COUNT, LONG)
    with watched(deterministic) as seen:
        task = asyncio.create_task(deterministic.complete(COUNT, LONG))
        await seen.at_least(5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # There is one slot: this runs when the cancelled call has let go of it.
        await deterministic.complete(ask("ls"), Sampling(temperature=0.0, max_tokens=1))
    assert seen.finished == 2
    assert seen.chunks < whole.chunks / 2


async def test_cancelling_stops_the_reading_of_a_prompt() -> None:
    model = EmbeddedModel(path_of_weights(), context=4096, threads=1, deterministic=True)
    model.load()
    long = ask("a b c d e f g h " * 220)
    with watched(model) as seen:
        task = asyncio.create_task(model.complete(long, GREEDY))
        await seen.at_least(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await model.complete(ask("ls"), Sampling(temperature=0.0, max_tokens=1))
    prompts = [chunk["prompt_progress"] for chunk in seen.kept if "prompt_progress" in chunk]
    read = [progress["processed"] for progress in prompts if progress["total"] > 1500]
    await model.close()
    assert seen.finished == 2
    assert max(read) < prompts[0]["total"]


async def test_leaving_a_stream_stops_the_generation(engine: EmbeddedModel) -> None:
    stream = engine.stream(COUNT, LONG)
    async for _ in stream:
        break
    await stream.aclose()  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    assert not engine._running


async def test_closing_ends_running_calls_and_the_engine_comes_back() -> None:
    model = EmbeddedModel(path_of_weights(), slots=1, context=1024, threads=1)
    with watched(model) as seen:
        tasks = [asyncio.create_task(model.complete(COUNT, LONG)) for _ in range(2)]
        await seen.at_least(1)
        await model.close()
    assert {completion.outcome for completion in await asyncio.gather(*tasks)} == {Outcome.CANCELLED}
    assert (await model.complete(ask("ls"), GREEDY)).outcome is Outcome.OK
    await model.close()
    await model.close()


async def test_counting_tokens(engine: EmbeddedModel) -> None:
    assert engine.count_tokens("") == 0
    assert engine.count_tokens("hello world") == 2
    assert engine.count_tokens("hello world " * 50) > 90
    assert engine.count_tokens("日本語 😀\n") > 3
    assert engine.count_tokens("<|im_end|>") >= 1
    empty = await engine.complete([Message(role="system", content=""), Message(role="user", content="")], GREEDY)
    text = "a line of text with some words in it\n" * 3
    longer = await engine.complete([Message(role="system", content=""), Message(role="user", content=text)], GREEDY)
    difference = longer.usage.prompt_tokens - empty.usage.prompt_tokens
    assert abs(difference - engine.count_tokens(text)) <= 1


def test_no_hidden_system_prompt(engine: EmbeddedModel) -> None:
    connection = engine._connection()
    body = json.dumps({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": " U "}]})
    connection.request("POST", "/apply-template", body, engine._headers)
    prompt = json.loads(connection.getresponse().read())["prompt"]
    assert prompt == "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n U <|im_end|>\n<|im_start|>assistant\n"


async def test_an_adapter_changes_what_is_said_and_the_name(deterministic: EmbeddedModel, tmp_path: Path) -> None:
    base = await deterministic.complete(ask("ls"), GREEDY)
    texts, names = [], []
    for strength in (0.0, 0.5):
        adapter = write_adapter(tmp_path / f"adapter{strength}.gguf", strength)
        model = EmbeddedModel(
            path_of_weights(), lora=adapter, context=1024, threads=1, label="smol", deterministic=True
        )
        completion = await model.complete(ask("ls"), GREEDY)
        assert completion.outcome is Outcome.OK, completion.detail
        texts.append(completion.text)
        names.append(model.name)
        await model.close()
        assert completion.model == f"smol+adapter{strength}"
    assert texts[0] == base.text
    assert texts[1] != base.text
    assert len({deterministic.name, *names}) == 3


def test_the_likeliest_next_tokens(engine: EmbeddedModel) -> None:
    ids = engine._post("/tokenize", {"content": "The capital of France is"})["tokens"]
    found = engine.likeliest(ids, 50)
    assert len(found) == 50
    assert all(value <= 0 for value in found.values())
    first = max(found, key=lambda token: found[token])
    assert engine._post("/detokenize", {"tokens": [first]})["content"] == " Paris"
    again = engine.likeliest([*ids, first], 3)
    assert again != found
    assert engine.likeliest(ids, 50) == pytest.approx(found, abs=0.05)
    with pytest.raises(SetupError, match="no probabilities"):
        engine.likeliest(ids * 10_000, 1)


def test_name_and_powers(engine: EmbeddedModel, deterministic: EmbeddedModel) -> None:
    assert engine.name == f"smol@{weights.EMBEDDED.sha256[:12]}"
    assert deterministic.name == engine.name + "/deterministic"
    for power in (Model, StreamsCompletion, CountsTokens, Closes):
        assert isinstance(engine, power)


def test_a_missing_file_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="worldlm models pull"):
        EmbeddedModel(tmp_path / "none.gguf")


def test_a_file_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"PK\x03\x04")
    with pytest.raises(SetupError, match="not a GGUF file"):
        EmbeddedModel(tmp_path / "x.gguf")


async def test_a_damaged_file(tmp_path: Path) -> None:
    damaged = tmp_path / "x.gguf"
    damaged.write_bytes(b"GGUF" + os.urandom(10_000))
    model = EmbeddedModel(damaged, slots=1, context=512, threads=1)
    with pytest.raises(SetupError, match=r"cannot load .*x\.gguf"):
        model.load()
    completion = await model.complete(ask("ls"), GREEDY)
    assert completion.outcome is Outcome.INFRASTRUCTURE_FAILED
    assert "x.gguf" in (completion.detail or "")
    await model.close()


def test_it_is_silent() -> None:
    program = (
        "import asyncio, sys; from pathlib import Path; from worldlm.models import EmbeddedModel\n"
        "from worldlm.core.types import Message, Sampling\n"
        "model = EmbeddedModel(Path(sys.argv[1]), slots=1, context=512, threads=1)\n"
        "async def main():\n"
        "    await model.complete([Message(role='user', content='ls')], Sampling(max_tokens=2))\n"
        "    await model.close()\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(path_of_weights())], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
