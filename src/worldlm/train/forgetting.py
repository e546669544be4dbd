"""What a model forgets while it learns to be a world: general text, and following instructions.

*Text*: perplexity on documents of the collections that training replays, of which it never sees a part
(`examples.is_held_out`).
*Instructions*: prompts of our own (`instructions.yaml`) whose constraints a program can check, as Zhou et al. do
(arXiv 2311.07911, "strict": the reply as it stands). A prompt counts as followed when all of its rules hold; an empty
reply follows nothing.

Both are measured of the base and of the base with an adapter, on the same items, so the difference is paired. Intervals
are 95 %, by a bootstrap over documents, and over prompts.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import anyio
import jsonschema
import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, field_validator

from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Model
from worldlm.core.text import derive_seed
from worldlm.core.types import Message, Sampling, Text, Value
from worldlm.data.classes import Bounds
from worldlm.data.settings import read_settings
from worldlm.data.steps.records import TextRecord, corpus_files, read_record, read_shard
from worldlm.train.batches import batch_of
from worldlm.train.examples import Row, is_held_out
from worldlm.train.loss import TargetLoss

DRAWS = 1000
SAMPLING = Sampling(temperature=0.0, max_tokens=256)
"""How instructions are answered."""


class Estimate(Value):
    """A figure with its 95 % bootstrap interval; None where there is nothing to draw from."""

    mean: float | None
    low: float | None = None
    high: float | None = None


# Text.


class TextForgetting(Value):
    """Perplexity on held-out text, before and after."""

    documents: int
    tokens: int
    """That are predicted: all but the first of each document."""
    before: Estimate
    after: Estimate
    ratio: Estimate
    """After by before: above 1, something was forgotten."""


@dataclass(frozen=True, slots=True)
class TextLoss:
    """What a document costs a model."""

    nats: float
    """Summed over its predicted tokens."""
    tokens: int


def held_out_texts(file: Path) -> Iterator[TextRecord]:
    """The held-out documents of a file of texts. Raises InputError for a line that is no text."""
    for line in read_shard(corpus_files([file]), 0, 1):
        try:
            record = read_record(line.data)
        except ValueError as error:
            raise InputError(f"{line.place}: {error}") from error
        if not isinstance(record, TextRecord):
            raise InputError(f"{line.place}: a trajectory, and texts are wanted")
        if is_held_out(record.id):
            yield record


def text_rows(
    texts: Iterable[TextRecord], encode: Callable[[str], Sequence[int]], *, most: int, longest: int = 512
) -> list[Row]:
    """Rows of documents, each up to `longest` tokens, until there would be more than `most` tokens in all.

    Documents of fewer than two tokens predict nothing and are passed over. Raises InputError when none is left.
    """
    rows: list[Row] = []
    left = most
    for text in texts:
        ids = encode(text.text)[:longest]
        if left < len(ids):
            break
        if len(ids) > 1:
            rows.append(Row.of_text(ids, "text", text.id))
            left -= len(ids)
    if not rows:
        raise InputError("no held-out document: forgetting cannot be measured; give more or longer texts")
    return rows


@torch.inference_mode()
def text_losses(model: Any, rows: Sequence[Row]) -> list[TextLoss]:
    """The loss of each row, in their order, under a causal language model of transformers, with or without an adapter.

    Raises WorldlmError for a loss that is not finite.
    """
    loss = TargetLoss(model)
    was_training = model.training
    model.eval()
    try:
        nats = [float(loss(batch_of([row]).to(model.device)).loss) for row in rows]
    finally:
        model.train(was_training)
    if not np.isfinite(nats).all():
        raise WorldlmError("the loss on held-out text is not finite: the adapter is broken")
    return [TextLoss(value, row.trained) for value, row in zip(nats, rows, strict=True)]


def text_forgetting(before: Sequence[TextLoss], after: Sequence[TextLoss], *, seed: int = 0) -> TextForgetting:
    """Perplexities of two models on the same documents."""
    tokens = np.array([loss.tokens for loss in before], dtype=float)
    if not np.array_equal(tokens, [loss.tokens for loss in after]):
        raise InputError("the two models were measured on different documents")
    nats = np.array([[loss.nats for loss in losses] for losses in (before, after)])
    whole, drawn = _sums(np.vstack([nats, tokens]), seed, "text")

    def perplexity(sums: NDArray[np.float64], row: int) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.exp(sums[row] / sums[2])
        return found

    def estimate(figure: Any) -> Estimate:
        return _estimate(float(figure(whole)), figure(drawn))

    return TextForgetting(
        documents=len(before),
        tokens=int(tokens.sum()),
        before=estimate(lambda sums: perplexity(sums, 0)),
        after=estimate(lambda sums: perplexity(sums, 1)),
        ratio=estimate(lambda sums: perplexity(sums, 1) / perplexity(sums, 0)),
    )


def _sums(columns: NDArray[np.float64], seed: int, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums over all items, and of draws of as many with replacement: shapes (columns,) and (columns, draws)."""
    items = columns.shape[1]
    rng = np.random.default_rng(derive_seed("forgetting", name, str(seed)))
    drawn = rng.integers(items, size=(DRAWS, items)) if items > 1 else np.zeros((0, items), dtype=int)
    return columns.sum(1), columns[:, drawn].sum(2)


def _estimate(mean: float, drawn: NDArray[np.float64]) -> Estimate:
    if not drawn.size:
        return Estimate(mean=mean)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(mean=mean, low=float(low), high=float(high))


# Instructions.


class Rules(Value):
    """What a reply must be; what is not named may be as it likes. Words are runs between spaces."""

    words: Bounds | None = None
    sentences: Bounds | None = None
    """Ended by `.`, `!` or `?`."""
    lines: Bounds | None = None
    """That are not blank."""
    paragraphs: Bounds | None = None
    """Parted by blank lines."""
    bullets: Bounds | None = None
    """Lines that begin with `- `."""
    numbered: Bounds | None = None
    """Lines that begin with a number and a dot, counting up from 1."""
    items: Bounds | None = None
    """Parted by commas."""
    includes: tuple[Text, ...] = ()
    """Words, in any case."""
    excludes: tuple[Text, ...] = ()
    """Words, in any case, or signs."""
    times: Mapping[Text, int] = Field(default_factory=dict)
    """How often words stand there, in any case."""
    case: Literal["upper", "lower"] | None = None
    """Of every letter that has one; there must be such a letter."""
    starts: Text | None = None
    ends: Text | None = None
    exact: Text | None = None
    """The reply, but for spaces around it and a full stop at its end."""
    pattern: Text | None = None
    """A regular expression of the whole reply."""
    number: float | None = None
    """The last number of the reply."""
    json_: dict[str, Any] | None = Field(default=None, alias="json")
    """A JSON Schema; the reply is JSON, perhaps in one code fence."""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from error
        return value

    def check(self, reply: str) -> dict[str, bool]:
        """Each rule by name, and whether it holds. Of an empty reply none does."""
        text = reply.strip()
        wanted = {name: getattr(self, name) for name in _CHECKS}
        return {
            name.rstrip("_"): bool(text) and _CHECKS[name](text, value)
            for name, value in wanted.items()
            if value not in (None, (), {})
        }


def _word(word: str) -> re.Pattern[str]:
    edge = r"\b" if word[0].isalnum() and word[-1].isalnum() else ""
    return re.compile(f"{edge}{re.escape(word)}{edge}", re.IGNORECASE)


def _numbers_up(text: str) -> int:
    """Lines `1.`, `2.`, … in order; -1 where they count otherwise."""
    numbers = [int(number) for number in re.findall(r"^[ \t]*(\d{1,9})\. ", text, re.MULTILINE)]
    return len(numbers) if numbers == list(range(1, len(numbers) + 1)) else -1


def _is_case(text: str, case: str) -> bool:
    return text.isupper() if case == "upper" else text.islower()


def _is_number(text: str, number: float) -> bool:
    found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
    return bool(found) and float(found[-1].replace(",", "")) == number


def _is_json(text: str, schema: dict[str, Any]) -> bool:
    fenced = re.fullmatch(r"```(?:json)?\n(.*)\n```", text, re.DOTALL)
    try:
        value = json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return False
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


_CHECKS: dict[str, Any] = {
    "words": lambda text, bounds: bounds.hold(len(text.split())),
    "sentences": lambda text, bounds: bounds.hold(len(re.findall(r"[.!?]+[\"')]*(?=\s|$)", text))),
    "lines": lambda text, bounds: bounds.hold(sum(bool(line.strip()) for line in text.split("\n"))),
    "paragraphs": lambda text, bounds: bounds.hold(len(re.split(r"\n\s*\n", text))),
    "bullets": lambda text, bounds: bounds.hold(len(re.findall(r"^[ \t]*- ", text, re.MULTILINE))),
    "numbered": lambda text, bounds: bounds.hold(_numbers_up(text)),
    "items": lambda text, bounds: bounds.hold(sum(bool(item.strip()) for item in text.split(","))),
    "includes": lambda text, words: all(_word(word).search(text) for word in words),
    "excludes": lambda text, words: not any(_word(word).search(text) for word in words),
    "times": lambda text, times: all(len(_word(word).findall(text)) == count for word, count in times.items()),
    "case": _is_case,
    "starts": str.startswith,
    "ends": str.endswith,
    "exact": lambda text, wanted: text.removesuffix(".") == wanted.removesuffix("."),
    "pattern": lambda text, pattern: re.fullmatch(pattern, text) is not None,
    "number": _is_number,
    "json_": _is_json,
}


class Instruction(Value):
    """A prompt with what a reply to it must be."""

    id: Text
    prompt: Text
    rules: Rules


class _Instructions(Value):
    instructions: tuple[Instruction, ...] = Field(min_length=1)


@cache
def instructions() -> tuple[Instruction, ...]:
    """The prompts of this package."""
    return read_settings(Path(__file__).with_name("instructions.yaml"), _Instructions).instructions


class Reply(Value):
    """What became of an instruction."""

    id: Text
    outcome: Outcome
    detail: Text | None
    text: Text
    checks: dict[Text, bool]
    """The rules by name, and whether they hold; none where there is no reply of the model's."""

    @property
    def followed(self) -> bool | None:
        """Whether all rules hold; None where nobody knows, for it failed through no fault of the model's."""
        if self.outcome.is_ok or self.outcome.is_models_fault:
            return bool(self.checks) and all(self.checks.values())
        return None


async def follow(
    model: Model, asked: Sequence[Instruction] | None = None, *, sampling: Sampling = SAMPLING, concurrency: int = 1
) -> list[Reply]:
    """Ask a model each instruction by itself, without a system message, and check the replies by their rules."""
    wanted = instructions() if asked is None else asked
    replies: dict[str, Reply] = {}
    room = anyio.CapacityLimiter(concurrency)

    async def ask(one: Instruction) -> None:
        async with room:
            done = await model.complete([Message(role="user", content=one.prompt)], sampling)
        checks = one.rules.check(done.text) if done.outcome.is_ok else {}
        replies[one.id] = Reply(id=one.id, outcome=done.outcome, detail=done.detail, text=done.text, checks=checks)

    async with anyio.create_task_group() as group:
        for one in wanted:
            group.start_soon(ask, one)
    return [replies[one.id] for one in wanted]


class Following(Value):
    """How many instructions are followed, before and after, in per cent."""

    prompts: int
    """That count in both."""
    failed: int
    """That do not, because something else than the model failed."""
    before: Estimate
    after: Estimate
    difference: Estimate
    rules: dict[str, tuple[float, float]]
    """By rule: per cent of the prompts with it in which it holds, before and after."""


def following(before: Sequence[Reply], after: Sequence[Reply], *, seed: int = 0) -> Following:
    """How two models follow the same instructions. Raises InputError where no prompt counts in both."""
    later = {reply.id: reply for reply in after}
    if later.keys() != {reply.id for reply in before}:
        raise InputError("the two models were asked different instructions")
    pairs = [(reply, later[reply.id]) for reply in before]
    known = [pair for pair in pairs if all(reply.followed is not None for reply in pair)]
    if not known:
        raise InputError(f"no instruction was answered: {pairs[0][0].detail or pairs[0][1].detail}")
    held = 100 * np.array([[float(pair[side].followed or False) for pair in known] for side in (0, 1)])
    whole, drawn = (sums / len(known) for sums in _sums(held, seed, "instructions"))
    names = dict.fromkeys(name for pair in known for reply in pair for name in reply.checks)
    return Following(
        prompts=len(known),
        failed=len(pairs) - len(known),
        before=_estimate(float(whole[0]), drawn[0]),
        after=_estimate(float(whole[1]), drawn[1]),
        difference=_estimate(float(whole[1] - whole[0]), drawn[1] - drawn[0]),
        rules={name: (_share(known, 0, name), _share(known, 1, name)) for name in sorted(names)},
    )


def _share(pairs: Sequence[tuple[Reply, Reply]], side: int, name: str) -> float:
    asked = [pair[side].checks.get(name, False) for pair in pairs if any(name in reply.checks for reply in pair)]
    return 100 * sum(asked) / len(asked)


class Forgetting(Value):
    """All that is measured of an adapter against its base."""

    texts: dict[str, TextForgetting]
    """By kind of text."""
    instructions: Following


__all__ = [
    "SAMPLING",
    "Estimate",
    "Following",
    "Forgetting",
    "Instruction",
    "Reply",
    "Rules",
    "TextForgetting",
    "TextLoss",
    "follow",
    "following",
    "held_out_texts",
    "instructions",
    "text_forgetting",
    "text_losses",
    "text_rows",
]
