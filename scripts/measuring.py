"""What both drivers measure of an adapter beside its benchmarks: what it forgets, and its exact answers."""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anyio
import torch

from worldlm.bench.results import Results, read_results
from worldlm.bench.samples import load_samples
from worldlm.core.types import Sampling
from worldlm.data.content import ContentClass
from worldlm.domains.terminal import at_prompt
from worldlm.judge.question import Question
from worldlm.models import EmbeddedModel, weights
from worldlm.train.base import attach_from, load_base
from worldlm.train.card import Share
from worldlm.train.examples import Row
from worldlm.train.forgetting import (
    Forgetting,
    Reply,
    TextForgetting,
    TextLoss,
    follow,
    following,
    held_out_texts,
    text_forgetting,
    text_losses,
    text_rows,
)

TEXT_TOKENS = 20_000
"""Of each kind of held-out text."""
CONTEXT = 2048
"""Tokens of an instruction with its reply, and to spare."""


def forgotten_text(adapter: Path, texts: Sequence[Path], tokens: int = TEXT_TOKENS) -> dict[str, TextForgetting]:
    """Perplexity on the held-out documents of each file, of the embedded base without and with an adapter."""
    base = load_base(str(weights.obtain()), dtype=torch.bfloat16)
    model = attach_from(base, adapter)
    found = {}
    for file in texts:
        rows = text_rows(held_out_texts(file), base.tokenizer.encode, most=tokens)
        before, after = (_losses(model, rows, plain=plain) for plain in (True, False))
        found[file.stem] = text_forgetting(before, after)
    return found


def _losses(model: Any, rows: Sequence[Row], *, plain: bool) -> list[TextLoss]:
    with model.disable_adapter() if plain else nullcontext():
        return text_losses(model, rows)


def followed(lora: Path | None) -> list[Reply]:
    """How the embedded model, with an adapter as llama.cpp runs it, follows instructions."""

    async def ask() -> list[Reply]:
        model = EmbeddedModel(weights.obtain(), lora=lora, slots=1, context=CONTEXT, deterministic=True)
        try:
            return await follow(model, sampling=Sampling(temperature=0.0, max_tokens=256))
        finally:
            await model.close()

    return anyio.run(ask)


def forgetting(adapter: Path, lora: Path, texts: Sequence[Path], before: Sequence[Reply]) -> Forgetting:
    """All that an adapter forgets, given how the base follows instructions."""
    return Forgetting(texts=forgotten_text(adapter, texts), instructions=following(before, followed(lora)))


def exact_shares(benchmark: str, results: Results) -> dict[str, Share]:
    """Exact answers among the terminal turns that print something."""
    exact = {each.id: bool(each.exact) for each in results.samples}
    printing = [each for each in load_samples(benchmark, domains=["terminal"]) if prints(each.question)]
    groups = {
        "terminal turns with output": printing,
        "deterministic terminal turns with output": [
            each for each in printing if each.content is ContentClass.DETERMINISTIC
        ],
    }
    return {name: _share([exact[each.key] for each in group if each.key in exact]) for name, group in groups.items()}


def _share(exact: Sequence[bool]) -> Share:
    return Share(right=sum(exact), of=len(exact))


def prints(question: Question) -> bool:
    """Whether anything stands between what was typed and the prompt that waits."""
    text = question.truth.text
    try:
        typed = sum(keys["keystrokes"].count("\n") for keys in json.loads(question.action))
    except (ValueError, LookupError, TypeError, AttributeError):
        return False
    lines = text.split("\n")
    shown = lines[typed : len(lines) - at_prompt(text)]
    return any(line.strip() for line in shown)


def reply_tokens(results: Results) -> float:
    """Tokens of a reply, the mean over the calls."""
    return results.predicting.completion_tokens / max(1, results.predicting.calls)


def results_of(folder: Path) -> Results:
    """The results of `worldlm bench run` in a folder."""
    return read_results(folder / "results.json")
