"""The benchmark's own speed: `worldlm bench infer` against a server that answers in 100 ms, beside a sequential loop.

The server is a process of its own on loopback. The ideal time is that of the rounds that are needed (samples divided by
concurrency, rounded up), each of one latency. Both loops send the same messages through the same client; the
sequential one asks a part of the samples, and its time for all is in proportion.
"""

import argparse
import asyncio
import json
import math
import multiprocessing
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import anyio

from worldlm.bench.infer import infer, model_predictor
from worldlm.bench.runs import Manifest, RunFile, plan
from worldlm.bench.samples import Sample, parse_record
from worldlm.core.types import Message, Profile, Sampling
from worldlm.data.formats.agentworldbench import wrap_action, wrap_observation
from worldlm.models import OpenAIModel

PROFILE = Profile(name="benchmark", sampling=Sampling(temperature=0.6, max_tokens=512), context=32_768)


def serve(pipe: Connection, latency: float) -> None:
    """A server that answers every request after `latency` seconds, however many there are."""
    message = {"role": "assistant", "content": "<predicted_observation>fine</predicted_observation>"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": 100, "completion_tokens": 5}
    body = json.dumps({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                asked = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.lower().split(b": ", 1) for line in asked.split(b"\r\n")[1:-2])
                await reader.readexactly(int(fields[b"content-length"]))
                await asyncio.sleep(latency)
                writer.write(head + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])
        async with server:
            await server.serve_forever()

    asyncio.run(run())


def samples(count: int, turns: int = 4) -> list[Sample]:
    """Samples in the public format: the turns of sessions of a terminal."""
    made = []
    for number in range(count):
        run, turn = divmod(number, turns)
        prompt = [
            wrap_action(each, json.dumps([{"keystrokes": f"echo {run}-{each}\n"}])) for each in range(1, turns + 1)
        ]
        record: dict[str, Any] = {
            "task": "terminal",
            "id": number,
            "system_str": f"You are the terminal of session {run}.",
            "prompt": prompt,
            "response": [wrap_observation(f"$ echo {run}-{each}\n{run}-{each}\n$") for each in range(1, turns + 1)],
            "current_prompt": prompt[turn],
            "turn_idx": turn + 1,
            "total_turns": turns,
        }
        made.append(parse_record(record))
    return made


async def ours(url: str, asked: Sequence[Sample], concurrency: int, folder: Path) -> tuple[float, float]:
    """Seconds of a run as `worldlm bench infer` does it, a flushed line a sample; and of processor time a sample."""
    model = OpenAIModel("served", url)
    predictor = model_predictor(model, PROFILE, "sample")
    manifest = Manifest(benchmark="made", benchmark_digest="made", infer=predictor.settings, planned=plan(asked))
    await model.complete(asked[0].messages, PROFILE.sampling)  # what is loaded once
    with RunFile(folder / f"{len(asked)}-{concurrency}.jsonl", "prediction", manifest) as file:
        started = time.process_time()
        report = await infer(asked, predictor, file, concurrency=concurrency)
        cost = (time.process_time() - started) / len(asked)
    await model.close()
    assert report.outcomes == {"ok": len(asked)}, report.outcomes
    return report.seconds, cost


async def sequential(url: str, asked: Sequence[Sample]) -> float:
    """Seconds of a loop that sends one request after another."""
    model = OpenAIModel("served", url)
    await model.complete(asked[0].messages, PROFILE.sampling)
    started = time.perf_counter()
    for sample in asked:
        await model.complete(sample.messages, PROFILE.sampling)
    seconds = time.perf_counter() - started
    await model.close()
    return seconds


async def client_cost(url: str) -> float:
    """Seconds of processor time that one request takes in the client alone."""
    model = OpenAIModel("served", url)
    messages = [Message(role="user", content="hello")]
    await model.complete(messages, PROFILE.sampling)
    started = time.process_time()
    await asyncio.gather(*(model.complete(messages, PROFILE.sampling) for _ in range(20)))
    seconds = (time.process_time() - started) / 20
    await model.close()
    return seconds


def main(count: int, concurrency: int, latency: float, part: int) -> None:
    """Print the table."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there, latency), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{here.recv()}/v1"
    try:
        asked = samples(count)
        with tempfile.TemporaryDirectory() as folder:
            seconds, whole = anyio.run(ours, url, asked, concurrency, Path(folder))
        one_by_one = anyio.run(sequential, url, asked[:part]) * count / part
        client = anyio.run(client_cost, url)
    finally:
        server.terminate()
        server.join()
    ideal = math.ceil(count / concurrency) * latency
    print(f"{count} samples, {1000 * latency:.0f} ms an answer, concurrency {concurrency}\n")
    print("| loop | seconds | times the ideal |\n| --- | --- | --- |")
    print(f"| ideal | {ideal:.2f} | 1.00 |")
    print(f"| `bench infer` | {seconds:.2f} | {seconds / ideal:.2f} |")
    print(f"| one after another (from {part} samples) | {one_by_one:.2f} | {one_by_one / ideal:.2f} |")
    print(f"\n{one_by_one / seconds:.0f} times as fast as one after another; ", end="")
    print(
        f"a sample takes {1000 * whole:.1f} ms of processor time, a request in the client alone {1000 * client:.1f} ms."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.1, help="seconds until the server answers")
    parser.add_argument("--part", type=int, default=20, help="samples that the sequential loop asks")
    given = parser.parse_args()
    main(given.samples, given.concurrency, given.latency, given.part)
