"""Reading a reply: thinking apart, the answer untouched, or a typed failure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.core.outcomes import Outcome
from worldlm.core.types import Completion, Delta
from worldlm.domains.reply import ANSWER_CLOSE, ANSWER_OPEN, ReplyStream, read_reply

OPEN, CLOSE = ANSWER_OPEN, ANSWER_CLOSE


def read(text: str, **fields: object) -> tuple[Outcome, str | None, str | None]:
    reply = read_reply(Completion.model_validate({"text": text, **fields}))
    assert (reply.text is None) == (reply.outcome is not Outcome.OK)
    assert reply.text is not None or reply.detail
    return reply.outcome, reply.text, reply.thinking


CASES = {
    "tagged": (f"{OPEN}a{CLOSE}", "a", None),
    "untagged": ("a\nb", "a\nb", None),
    "thinking and tag": (f"<think>t</think>\n{OPEN}a{CLOSE}", "a", "t"),
    "thinking without tag": ("<think>t</think>\n\na", "a", "t"),
    "several blocks": (f"<think>t</think>\n<think>u</think>{OPEN}a{CLOSE}", "a", "t\nu"),
    "the template opened the tag": (f"t</think>{OPEN}a{CLOSE}", "a", "t"),
    "the template opened the tag, no answer tag": ("t</think>a", "a", "t"),
    "a draft in thinking that the template opened": (f"{OPEN}draft{CLOSE} no</think>{OPEN}a{CLOSE}", "a", None),
    "a draft in a think block": (f"<think>{OPEN}draft{CLOSE}</think>{OPEN}a{CLOSE}", "a", None),
    "words before thinking": (f"Well. <think>{OPEN}d{CLOSE}</think>{OPEN}a{CLOSE}", "a", None),
    "think tags inside the answer": (
        f"{OPEN}cat t.txt\n<think>x</think>\n$ {CLOSE}",
        "cat t.txt\n<think>x</think>\n$ ",
        None,
    ),
    "a lone closing tag inside the answer": (f"{OPEN}a</think>b{CLOSE}", "a</think>b", None),
    "thinking, then a lone closing tag inside the answer": (
        f"<think>t</think>{OPEN}a</think>b{CLOSE}",
        "a</think>b",
        "t",
    ),
    "think tags in an untagged answer": ("$ cat t\n<think>x</think>", "$ cat t\n<think>x</think>", None),
    "the tag's own name inside the answer": (f"{OPEN}a {OPEN}b{CLOSE} c{CLOSE}", f"a {OPEN}b{CLOSE} c", None),
    "space inside the tag stays": (f"{OPEN}\n a \n{CLOSE}", "\n a \n", None),
    "an empty answer, said so": (f"{OPEN}{CLOSE}", "", None),
    "prose around the tag": (f"Sure:\n{OPEN}a{CLOSE}\nDone.", "a", None),
    "a stop sequence took the closing tag": (f"{OPEN}a", "a", None),
}


@pytest.mark.parametrize(("text", "answer", "thinking"), CASES.values(), ids=list(CASES))
def test_answers(text: str, answer: str, thinking: str | None) -> None:
    outcome, got, thought = read(text)
    assert (outcome, got) == (Outcome.OK, answer)
    if thinking is not None:
        assert thought == thinking


@pytest.mark.parametrize(
    ("text", "fields", "outcome"),
    [
        (f"<think>t {OPEN}draft{CLOSE} still thinking", {}, Outcome.CUT_OFF),
        (f"<think>t</think><think>again {OPEN}draft{CLOSE}", {}, Outcome.CUT_OFF),
        (f"Well. <think>t {OPEN}draft{CLOSE}", {}, Outcome.CUT_OFF),
        ("<think>t", {"finish": "length"}, Outcome.CUT_OFF),
        (f"{OPEN}half", {"finish": "length"}, Outcome.CUT_OFF),
        ("half", {"finish": "length"}, Outcome.CUT_OFF),
        ("", {"finish": "length", "thinking": "t"}, Outcome.CUT_OFF),
        ("", {}, Outcome.MODEL_FAILED),
        ("  \n", {}, Outcome.MODEL_FAILED),
        ("<think>t</think>", {}, Outcome.MODEL_FAILED),
        ("", {"thinking": "t"}, Outcome.MODEL_FAILED),
        ("Error: 500", {"outcome": "infrastructure_failed", "detail": "HTTP 500"}, Outcome.INFRASTRUCTURE_FAILED),
    ],
)
def test_failures_are_typed(text: str, fields: dict[str, object], outcome: Outcome) -> None:
    assert read(text, **fields)[0] is outcome


@pytest.mark.parametrize("start", ["", "<think>", OPEN])
def test_a_reply_that_went_round_is_told(start: str) -> None:
    cut = Completion(text=start + "and again " * 120, finish="length")
    assert "repeats itself" in (read_reply(cut).detail or "")
    assert "repeats itself" not in (read_reply(Completion(text=start + "once", finish="length")).detail or "")


def test_a_finished_answer_survives_rambling_into_the_limit() -> None:
    assert read(f"{OPEN}a{CLOSE} and on and on", finish="length")[:2] == (Outcome.OK, "a")


def test_thinking_apart_and_inside_are_joined() -> None:
    assert read(f"<think>b</think>{OPEN}x{CLOSE}", thinking="a") == (Outcome.OK, "x", "a\nb")


# No part of a text may complete a tag together with its neighbour.
plain = st.text(alphabet=st.characters(exclude_characters="<>", exclude_categories=["Cs"]))
anything = st.one_of(st.text(), st.lists(st.sampled_from([OPEN, "<think>", "</think>", "a", "\n"])).map("".join))


@given(answer=anything, thinking=plain)
def test_what_stands_in_the_tag_is_never_touched(answer: str, thinking: str) -> None:
    outcome, got, _ = read(f"<think>{thinking}</think>{OPEN}{answer}{CLOSE}")
    assert (outcome, got) == (Outcome.OK, answer)


@given(text=anything)
def test_any_text_is_read_without_an_exception(text: str) -> None:
    read(text)


@given(answer=plain, thinking=st.one_of(st.none(), plain), tag=st.booleans(), data=st.data())
def test_a_stream_previews_what_the_reader_reads(
    answer: str, thinking: str | None, tag: bool, data: st.DataObject
) -> None:
    if not tag and not answer.strip():
        return
    body = f"{OPEN}{answer}{CLOSE}" if tag else answer
    text = body if thinking is None else f"<think>{thinking}</think>{body}"
    stream, shown, thought = ReplyStream(), "", ""
    while text:
        cut = data.draw(st.integers(1, len(text)))
        delta = stream.feed(Delta(text=text[:cut]))
        shown, thought, text = shown + delta.text, thought + delta.thinking, text[cut:]
    assert shown.strip() == answer.strip()
    assert thought == (thinking or "")
