"""What is forgotten: perplexity on held-out text, and instructions whose keeping rules check."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs torch: pip install 'worldlm[train]'")

import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.train.kit import tiny_llama
from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.jsonl import JsonlWriter
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Completion, Message, Sampling
from worldlm.data.steps.records import TextRecord
from worldlm.testing import ScriptedModel
from worldlm.train.examples import HELD_OUT, Row, is_held_out
from worldlm.train.forgetting import (
    Instruction,
    Rules,
    TextLoss,
    follow,
    following,
    held_out_texts,
    instructions,
    text_forgetting,
    text_losses,
    text_rows,
)


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_llama()


def encode(text: str) -> list[int]:
    return list(text.encode())


def document(text: str) -> TextRecord:
    return TextRecord(id=f"made-up/{text}", text=text, source="made up")


def rows(*texts: str) -> list[Row]:
    return text_rows(map(document, texts), encode, most=10_000)


# Text.


def test_a_fixed_part_of_the_documents_is_held_out() -> None:
    held = [number for number in range(4000) if is_held_out(f"general/{number}")]
    assert abs(len(held) / 4000 - HELD_OUT) < 0.02
    assert [number for number in range(200) if is_held_out(f"general/{number}")] == [n for n in held if n < 200]


def test_the_held_out_documents_of_a_file_are_read(tmp_path: Path) -> None:
    file = tmp_path / "general.jsonl"
    with JsonlWriter(file) as writer:
        for number in range(300):
            writer.write(TextRecord(id=f"doc-{number}", text=f"Text {number}.", source="made up"))
    held = [f"Text {number}." for number in range(300) if is_held_out(f"doc-{number}")]
    assert held
    assert [each.text for each in held_out_texts(file)] == held
    file.write_text('{"schema": "worldlm.text/1", "id": "x"}\n')
    with pytest.raises(InputError, match=r"general\.jsonl:1: .*text"):
        list(held_out_texts(file))


def test_rows_end_where_enough_is_taken() -> None:
    texts = [document(text) for text in ("abcdef", "x", "ghij", "klmnop")]
    assert [bytes(row.ids.tolist()) for row in text_rows(texts, encode, most=9, longest=4)] == [b"abcd", b"ghij"]
    with pytest.raises(InputError, match="no held-out document"):
        text_rows(texts[1:2], encode, most=9)


def test_losses_are_those_of_transformers(model: Any) -> None:
    measured = rows("a short one", "a somewhat longer document than that", "tiny", "z" * 90)
    for row, loss in zip(measured, text_losses(model, measured), strict=True):
        ids = torch.tensor([row.ids.tolist()])
        expected = model(input_ids=ids, labels=ids).loss.item()  # a mean over all tokens but the first
        assert loss.tokens == len(row.ids) - 1
        assert loss.nats / loss.tokens == pytest.approx(expected, rel=1e-5)


def test_measuring_leaves_a_model_in_its_mode(model: Any) -> None:
    model.train()
    text_losses(model, rows("abc"))
    assert model.training
    model.eval()


def test_a_loss_that_is_no_number_is_refused(model: Any) -> None:
    weight = model.lm_head.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight.fill_(float("nan"))
    try:
        with pytest.raises(WorldlmError, match="not finite"):
            text_losses(model, rows("abc"))
    finally:
        with torch.no_grad():
            weight.copy_(kept)


def test_perplexity_by_hand() -> None:
    before = [TextLoss(2.0, 2), TextLoss(6.0, 4)]
    after = [TextLoss(4.0, 2), TextLoss(6.0, 4)]
    found = text_forgetting(before, after)
    assert (found.documents, found.tokens) == (2, 6)
    assert found.before.mean == pytest.approx(math.exp(8 / 6))
    assert found.after.mean == pytest.approx(math.exp(10 / 6))
    assert found.ratio.mean == pytest.approx(math.exp(2 / 6))
    # Drawn with replacement: the first document twice, or the second.
    assert found.ratio.low == pytest.approx(1.0)
    assert found.ratio.high == pytest.approx(math.exp(1))
    with pytest.raises(InputError, match="different documents"):
        text_forgetting(before, after[:1])


def test_one_document_has_no_interval() -> None:
    found = text_forgetting([TextLoss(2.0, 2)], [TextLoss(2.0, 2)])
    assert (found.ratio.mean, found.ratio.low, found.ratio.high) == (1.0, None, None)


@given(st.lists(st.tuples(st.floats(0.1, 50), st.integers(1, 20)), min_size=1, max_size=20))
def test_nothing_is_forgotten_by_the_same_model(losses: list[tuple[float, int]]) -> None:
    same = [TextLoss(nats * tokens, tokens) for nats, tokens in losses]
    ratio = text_forgetting(same, same).ratio
    assert {ratio.mean, ratio.low, ratio.high} <= {1.0, None}


# Instructions.


@pytest.mark.parametrize(
    ("rules", "kept", "broken"),
    [
        ({"words": {"min": 2, "max": 3}}, ["one two", "a b c"], ["one", "a b c d"]),
        (
            {"sentences": {"min": 2, "max": 2}},
            ["It rains. It pours!", 'He said "no." Why?'],
            ["It is 3.5 long.", "A. B. C."],
        ),
        ({"lines": {"min": 2, "max": 2}}, ["a\nb", "a\n\nb\n"], ["a", "a\nb\nc"]),
        ({"paragraphs": {"min": 2, "max": 2}}, ["a\nb\n\nc", "a\n \nc"], ["a\nb"]),
        ({"bullets": {"min": 2, "max": 2}}, ["- a\n- b", "Fruits:\n- a\n - b"], ["* a\n* b", "- a"]),
        ({"numbered": {"min": 2, "max": 2}}, ["1. a\n2. b", "Steps:\n\n1. a\nso\n2. b"], ["2. a\n1. b", "1) a\n2) b"]),
        ({"items": {"min": 3, "max": 3}}, ["a, b, c", "a,b,c."], ["a, b", "a b c"]),
        ({"includes": ["boat", "Key"]}, ["Boat and key.", "key boat"], ["boats and keys", "key"]),
        ({"excludes": ["good", ","]}, ["goods", "fine"], ["Good", "fine, well"]),
        ({"times": {"blue": 2}}, ["blue Blue", "a blue, blue sky"], ["blue", "bluer blue"]),
        ({"case": "upper"}, ["FIRE! 3 PEOPLE"], ["Fire", "123"]),
        ({"case": "lower"}, ["a rabbit."], ["A rabbit.", "..."]),
        ({"starts": "Dear Anna,"}, ["Dear Anna, hello", "\nDear Anna,"], ["Hello", "dear anna,"]),
        ({"ends": "?"}, ["What?", "What? \n"], ["What? I ask."]),
        ({"exact": "STOP"}, ["STOP", " STOP.\n"], ["stop", "STOP!", "STOP STOP"]),
        ({"pattern": "[0-2][0-9]:[0-5][0-9]"}, ["08:15", "23:00\n"], ["8:15", "08:15 sharp"]),
        ({"number": 42}, ["42", "17 + 25 = 42.", "42.0"], ["24", "none", "42 or 43"]),
        ({"number": 1000}, ["1,000", "1000"], ["1,00", "10 00"]),
        (
            {"json": {"type": "object", "required": ["a"], "additionalProperties": False, "properties": {"a": {}}}},
            ['{"a": 1}', '```json\n{"a": 1}\n```'],
            ['{"b": 1}', "{'a': 1}", 'Sure: {"a": 1}', "[1]", "[" * 100_000],
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_rules_by_hand(rules: dict[str, Any], kept: list[str], broken: list[str]) -> None:
    (name,) = rules
    for reply in kept:
        assert Rules.model_validate(rules).check(reply) == {name: True}, reply
    for reply in [*broken, "", " \n"]:
        assert Rules.model_validate(rules).check(reply) == {name: False}, reply


def test_the_shipped_instructions_are_many_and_all_have_rules() -> None:
    asked = instructions()
    assert len(asked) >= 40
    assert len({one.id for one in asked}) == len({one.prompt for one in asked}) == len(asked)
    for one in asked:
        assert one.rules.check("x"), one.id
    used = {name for one in asked for name in one.rules.check("x")}
    assert used == {name.rstrip("_") for name in Rules.model_fields}


@given(st.text(max_size=60))
def test_any_reply_can_be_checked(reply: str) -> None:
    for one in instructions():
        assert set(one.rules.check(reply).values()) <= {True, False}


ASKED = [
    Instruction(id="shout", prompt="Shout.", rules=Rules(case="upper")),
    Instruction(id="count", prompt="1 + 1 =", rules=Rules(number=2)),
    Instruction(id="short", prompt="Be brief.", rules=Rules.model_validate({"words": {"max": 2}, "case": "lower"})),
]
SAID = {"Shout.": "HEY", "1 + 1 =": "It is 2", "Be brief.": "all right"}


def says(replies: dict[str, str | Completion]) -> ScriptedModel:
    def script(messages: Sequence[Message], sampling: Sampling) -> str | Completion:
        (message,) = messages
        return replies[message.content]

    return ScriptedModel(script)


@pytest.mark.anyio
async def test_two_models_are_compared_prompt_by_prompt() -> None:
    before = await follow(says({**SAID, "1 + 1 =": "3"}), ASKED, concurrency=2)
    after = await follow(says({**SAID, "Be brief.": "NO"}), ASKED)
    assert [reply.followed for reply in before] == [True, False, True]
    assert [reply.followed for reply in after] == [True, True, False]
    found = following(before, after)
    assert (found.prompts, found.failed) == (3, 0)
    assert found.before.mean == found.after.mean == pytest.approx(200 / 3)
    assert found.difference.mean == pytest.approx(0)
    assert found.difference.low is not None
    assert found.difference.low < 0
    assert found.rules == {"case": (100.0, 50.0), "number": (0.0, 100.0), "words": (100.0, 100.0)}


@pytest.mark.anyio
async def test_failures_are_no_replies() -> None:
    """The model's own failure follows nothing; somebody else's counts nowhere, and is counted."""
    broken = Completion(outcome=Outcome.INFRASTRUCTURE_FAILED, detail="no server")
    mute = Completion(outcome=Outcome.MODEL_FAILED, detail="no answer")
    before = await follow(says(dict(SAID)), ASKED)
    after = await follow(says({**SAID, "Shout.": broken, "1 + 1 =": mute}), ASKED)
    assert [reply.followed for reply in after] == [None, False, True]
    found = following(before, after)
    assert (found.prompts, found.failed, found.before.mean, found.after.mean) == (2, 1, 100.0, 50.0)
    assert found.rules["number"] == (100.0, 0.0)
    nothing = await follow(says(dict.fromkeys(SAID, broken)), ASKED)
    with pytest.raises(InputError, match="no server"):
        following(before, nothing)
    with pytest.raises(InputError, match="different instructions"):
        following(before[:1], after)
