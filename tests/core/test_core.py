"""Values: frozen, strict, summed, hashed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from worldlm.bench.samples import load_samples
from worldlm.core.errors import nearest
from worldlm.core.outcomes import Outcome
from worldlm.core.text import (
    COPIES,
    LONGEST_ROUND,
    ROUNDS_LENGTH,
    canonical_json,
    clean_json,
    clean_text,
    derive_seed,
    digest,
    goes_round,
)
from worldlm.core.types import Control, Observation, Tool, Usage, World

any_text = st.text(alphabet=st.characters(exclude_categories=[]))


@given(any_text)
def test_clean_text_can_be_encoded_and_keeps_the_rest(text: str) -> None:
    clean = clean_text(text)
    clean.encode()
    assert len(clean) == len(text)
    assert all(a == b or 0xD800 <= ord(a) <= 0xDFFF for a, b in zip(text, clean, strict=True))


def test_clean_json_reaches_keys_and_depth() -> None:
    assert clean_json({"\ud800": ["a\udfff", {"x": 1.5}]}) == {"\ufffd": ["a\ufffd", {"x": 1.5}]}


@given(st.dictionaries(st.text(), st.integers() | st.text()))
def test_canonical_json_does_not_depend_on_order(value: dict[str, int | str]) -> None:
    assert canonical_json(value) == canonical_json(dict(reversed(value.items())))
    assert json.loads(canonical_json(value)) == value


def test_canonical_json_refuses_what_is_not_json() -> None:
    with pytest.raises(ValueError, match="is not a number that JSON has"):
        canonical_json({"x": float("nan")})


@given(st.lists(st.text()), st.lists(st.text()))
def test_digests_do_not_collide_by_regrouping(left: list[str], right: list[str]) -> None:
    assert (digest(*left) == digest(*right)) == (left == right)


@given(st.text(), st.text("ab \n", min_size=1, max_size=LONGEST_ROUND), st.integers(0, LONGEST_ROUND))
def test_a_text_that_repeats_its_end_goes_round(before: str, block: str, cut: int) -> None:
    copies = max(COPIES, -(-ROUNDS_LENGTH // len(block)))
    assert goes_round(before + block * copies)
    assert goes_round(before + block * copies + block[: cut % len(block)])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "=" * (ROUNDS_LENGTH - 1),
        "a different line " + "x" * 300 + "\n" + ("-" * 79 + "\n") * 12,
        "\n".join(f"line {number} of the same kind" for number in range(200)),
        "".join(f"{number:04}" for number in range(1000)) * (COPIES - 1),
        "tick tock " * 200 + "the end",
    ],
)
def test_other_texts_do_not(text: str) -> None:
    assert not goes_round(text)


def test_no_real_observation_goes_round() -> None:
    seen = 0
    for part in ("realturns-a", "realturns-b"):
        for sample in load_samples(part):
            text = sample.question.truth.text
            seen += 1
            assert not any(goes_round(text[:end]) for end in range(ROUNDS_LENGTH, len(text) + 1, 10)), sample.key
    assert seen > 1000


def test_seeds_fit_a_sampler() -> None:
    seeds = {derive_seed("a", str(n)) for n in range(200)}
    assert len(seeds) == 200
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_values_are_frozen_and_strict() -> None:
    observation = Observation(text="x")
    with pytest.raises(ValidationError):
        observation.text = "y"
    with pytest.raises(ValidationError, match="extra"):
        Observation.model_validate({"text": "x", "reward": 1})


def test_usage_adds_up() -> None:
    one = Usage(calls=1, prompt_tokens=10, cached_tokens=4, completion_tokens=3, seconds=0.5, cost_usd=0.1)
    assert one + one + Usage() == Usage(
        calls=2, prompt_tokens=20, cached_tokens=8, completion_tokens=6, seconds=1.0, cost_usd=0.2
    )


def test_the_agents_view_hides_state_and_control() -> None:
    world = World(
        name="w",
        domain="mcp",
        hidden_state={"rows": [1]},
        control=Control(instructions=("fail",)),
        tools=(Tool(name="t"),),
    )
    view = world.agent_view()
    assert (view.hidden_state, view.control, view.tools) == (None, None, world.tools)
    assert World.model_validate(world.model_dump()) == world


def test_only_an_answer_is_ok() -> None:
    assert [o for o in Outcome if o.is_ok] == [Outcome.OK]
    assert [o for o in Outcome if o.is_models_fault] == [Outcome.CUT_OFF, Outcome.MODEL_FAILED]


def test_hints_name_the_nearest_or_what_is_known() -> None:
    assert nearest("terminel", ["terminal", "web"]) == "did you mean 'terminal'?"
    assert nearest("zzz", ["terminal", "web"]) == "known: terminal, web"
    assert nearest("x", []) == "none is known"
