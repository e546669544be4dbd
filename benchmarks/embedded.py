"""Speed of the embedded engine: our class against bare llama.cpp, against transformers, and turn 2 against turn 1.

    python benchmarks/embedded.py [--tokens 128] [--repeat 5] [--threads N] [--model FILE.gguf] [--json]

Both sides of a ratio are measured in turns in the same run, and the median counts: a busy machine slows
both. `transformers` is measured when it and torch can be imported.
"""

import argparse
import asyncio
import importlib.metadata
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from worldlm.core.types import Completion, Delta, Message, Sampling
from worldlm.models import EmbeddedModel, weights

CONTEXT = 4096
SLOTS = 4
SYSTEM = "You are a Linux terminal. Answer with what the terminal prints, and nothing else.\n" + "\n".join(
    f"/home/user/project/src/module_{n}.py holds {n * 37 % 100 + 10} lines and was changed on 2026-01-{n % 28 + 1:02}"
    for n in range(40)
)
COUNT = "Count from 1 to 1000, one number a line."


def request(number: int) -> list[Message]:
    """A request of its own, so that no prefix beyond the system message is shared."""
    return [Message(role="system", content=f"Session {number}."), Message(role="user", content=COUNT)]


class Raw:
    """llama.cpp as its binding gives it, with the settings that `EmbeddedModel` uses."""

    def __init__(self, path: Path, threads: int):
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_parallel = SLOTS
        params.n_ctx = CONTEXT * SLOTS
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.fit_params = False
        params.warmup = False
        params.verbosity = -1
        self._server = xllamacpp.Server(params)

    def tokens_per_second(self, number: int, tokens: int) -> float:
        messages = [{"role": message.role, "content": message.content} for message in request(number)]
        started = time.perf_counter()
        reply = self._server.handle_chat_completions(
            {"messages": messages, "max_tokens": tokens, "temperature": 0.0, "seed": 1}
        )
        return float(reply["usage"]["completion_tokens"]) / (time.perf_counter() - started)


async def tokens_per_second(model: EmbeddedModel, numbers: Sequence[int], tokens: int) -> float:
    """Of all these requests, made at the same time."""
    sampling = Sampling(temperature=0.0, max_tokens=tokens, seed=1)
    started = time.perf_counter()
    completions = await asyncio.gather(*(model.complete(request(number), sampling) for number in numbers))
    return sum(done.usage.completion_tokens for done in completions) / (time.perf_counter() - started)


async def first_token(model: EmbeddedModel, messages: Sequence[Message]) -> tuple[float, Completion]:
    """Seconds to the first piece of text, and the completion."""
    started = time.perf_counter()
    seconds: float | None = None
    async for item in model.stream(messages, Sampling(temperature=0.0, max_tokens=24)):
        if isinstance(item, Delta) and seconds is None:
            seconds = time.perf_counter() - started
        if isinstance(item, Completion):
            return seconds if seconds is not None else time.perf_counter() - started, item
    raise AssertionError("a stream ends in a completion")


async def two_turns(model: EmbeddedModel, number: int) -> dict[str, float]:
    messages = [Message(role="system", content=f"Session {number}.\n{SYSTEM}"), Message(role="user", content="ls -la")]
    first, completion = await first_token(model, messages)
    messages += [Message(role="assistant", content=completion.text), Message(role="user", content="pwd")]
    second, reply = await first_token(model, messages)
    return {
        "first_s": first,
        "second_s": second,
        "second_prompt_tokens": reply.usage.prompt_tokens,
        "second_cached_tokens": reply.usage.cached_tokens,
    }


def transformers_tokens_per_second(path: Path, tokens: int, threads: int) -> float:
    """Greedy decoding of the same weights by `transformers.generate`, dequantised, on the processor."""
    import torch  # type: ignore[import-not-found,unused-ignore]
    import transformers  # type: ignore[import-not-found,unused-ignore]

    torch.set_num_threads(threads)
    config: dict[str, Any] = {}
    if hasattr(transformers, "GgufConfig"):
        config["quantization_config"] = transformers.GgufConfig(dequantize=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    model = transformers.AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, **config)
    chat = [{"role": message.role, "content": message.content} for message in request(0)]
    prompt = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    inputs = tokenizer(prompt, return_tensors="pt")
    started = time.perf_counter()
    out = model.generate(**inputs, max_new_tokens=tokens, do_sample=False)
    return float(out.shape[1] - inputs["input_ids"].shape[1]) / (time.perf_counter() - started)


async def measure(path: Path, tokens: int, repeat: int, threads: int | None) -> dict[str, Any]:
    model = EmbeddedModel(path, slots=SLOTS, context=CONTEXT, threads=threads)
    used = model.threads
    started = time.perf_counter()
    model.load()
    load_s = time.perf_counter() - started
    raw = Raw(path, used)
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(repeat):
        ours.append(await tokens_per_second(model, [number], tokens))
        theirs.append(await asyncio.to_thread(raw.tokens_per_second, number, tokens))
    parallel = [await tokens_per_second(model, range(100 + 4 * n, 104 + 4 * n), tokens) for n in range(repeat)]
    turns = [await two_turns(model, 1000 + number) for number in range(repeat)]
    texts = [f"line {number} of some terminal output, /usr/share/doc/{number}" for number in range(2000)]
    started = time.perf_counter()
    for text in texts:
        model.count_tokens(text)
    counts = len(texts) / (time.perf_counter() - started)
    await model.close()
    return {
        "weights": path.name,
        "xllamacpp": importlib.metadata.version("xllamacpp"),
        "threads": used,
        "tokens": tokens,
        "repeat": repeat,
        "load_s": load_s,
        "embedded_tokens_per_s": statistics.median(ours),
        "raw_tokens_per_s": statistics.median(theirs),
        "ratio_to_raw": statistics.median(mine / bare for mine, bare in zip(ours, theirs, strict=True)),
        "four_in_parallel_tokens_per_s": statistics.median(parallel),
        "first_turn_first_token_s": statistics.median(turn["first_s"] for turn in turns),
        "second_turn_first_token_s": statistics.median(turn["second_s"] for turn in turns),
        "second_turn_prompt_tokens": turns[-1]["second_prompt_tokens"],
        "second_turn_cached_tokens": turns[-1]["second_cached_tokens"],
        "token_counts_per_s": counts,
        **against_transformers(path, tokens, used, statistics.median(ours)),
    }


def against_transformers(path: Path, tokens: int, threads: int, ours: float) -> dict[str, Any]:
    missing = [name for name in ("torch", "transformers", "gguf") if importlib.util.find_spec(name) is None]
    if missing:
        how = f"not measured: install {', '.join(missing)} in this environment and run again"
        return {"transformers_tokens_per_s": None, "transformers": how}
    rate = transformers_tokens_per_second(path, tokens, threads)
    return {
        "transformers_tokens_per_s": rate,
        "transformers": importlib.metadata.version("transformers"),
        "ratio_to_transformers": ours / rate,
    }


def show(result: dict[str, Any]) -> None:
    table = Table(title=f"{result['weights']}, {result['threads']} threads, median of {result['repeat']}")
    table.add_column("what")
    table.add_column("figure", justify="right")
    for key, value in result.items():
        table.add_row(key.replace("_", " "), f"{value:.3g}" if isinstance(value, float) else str(value))
    Console().print(table)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=128, help="tokens to generate a request")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, help="of llama.cpp (default: as the package chooses)")
    parser.add_argument("--model", type=Path, help="a GGUF file (default: the embedded weights)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args(argv)
    path = arguments.model or weights.find()
    if path is None:
        print("the embedded weights are absent: run `worldlm models pull`", file=sys.stderr)
        return 1
    result = asyncio.run(measure(path, arguments.tokens, arguments.repeat, arguments.threads))
    if arguments.json:
        print(json.dumps(result))
    else:
        show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
