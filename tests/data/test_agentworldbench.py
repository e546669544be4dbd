"""Samples of AgentWorldBench: texts in and out, byte for byte."""

import copy
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.data.kit import pairs, read_one, told
from tests.data.samples import AWB, SHELL, trajectory
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Observation, Turn
from worldlm.data.content import ContentClass
from worldlm.data.formats import RecordError, WriteOptions, get_format
from worldlm.data.formats.agentworldbench import (
    make_sample,
    unwrap_action,
    unwrap_observation,
    wrap_action,
    wrap_observation,
)
from worldlm.data.report import Losses
from worldlm.domains import DOMAINS

FORMAT = get_format("agentworldbench")
text = st.text(st.characters(exclude_categories=["Cs"]))
tricky = st.lists(
    st.sampled_from(
        [
            "### Turn 1\n",
            "**Current State:**\n",
            "**Action:**\n",
            "```json\n",
            "\n```",
            "\n\n",
            "x",
            "**Environment Observation:**\n",
        ]
    ),
    max_size=8,
).map("".join)
any_text = text | tricky


def written(made: Any, options: WriteOptions | None = None) -> list[Any]:
    assert FORMAT.write is not None
    return list(FORMAT.write(made, options or WriteOptions(), Losses()))


def test_a_sample_is_raw_payloads() -> None:
    made, losses = read_one(AWB)
    assert made.world.domain == "terminal"
    assert made.world.context == "You are a terminal."
    assert made.initial == Observation(text=SHELL)
    assert pairs(made) == [
        ('[\n  {\n    "keystrokes": "ls\\n"\n  }\n]', f"{SHELL} ls\na.txt\n{SHELL}"),
        ('[{"keystrokes": "pwd\\n", "duration": 1.0}]', f"{SHELL} pwd\n/home/user\n{SHELL}"),
    ]
    assert all(turn.raw_action is None for turn in made.turns)
    assert made.origin.source == "AgentWorldBench"
    assert made.origin.licence == "unknown"
    assert told(losses) == {"the source names no licence: it is given as unknown": 1}
    for turn in made.turns:
        DOMAINS["terminal"].parse_action(turn.action, made.world)


def test_a_sample_survives_the_round_trip() -> None:
    made, _ = read_one(AWB)
    (piece,) = written([made])
    assert piece.file == "terminal_test.jsonl"
    assert piece.value == AWB


@given(action=any_text, state=st.none() | any_text)
def test_wrapping_an_action_loses_nothing(action: str, state: str | None) -> None:
    wrapped = wrap_action(3, action, state)
    assert unwrap_action(wrapped, state) == (action, state)


@given(any_text)
def test_unwrapping_gives_only_what_wraps_to_the_same(wrapped: str) -> None:
    try:
        action, state = unwrap_action(wrapped)
    except ValueError:
        return
    number = int(wrapped[len("### Turn ") :].partition("\n")[0])
    assert wrap_action(number, action, state) == wrapped


@given(any_text)
def test_wrapping_an_observation_loses_nothing(observed: str) -> None:
    assert unwrap_observation(wrap_observation(observed)) == observed


@st.composite
def samples(draw: st.DrawFn) -> dict[str, Any]:
    """Any sample that is none of the errors: texts in any wrapping, or in none."""
    count = draw(st.integers(1, 4))
    wrapped = st.builds(wrap_action, st.integers(0, 4), any_text, st.none() | any_text)
    prompt = draw(st.lists(any_text | wrapped, min_size=count, max_size=count))
    seen = draw(st.integers(1, count))
    response = draw(st.lists(any_text | any_text.map(wrap_observation), min_size=seen, max_size=seen))
    turn = draw(st.integers(1, seen))
    return {
        "task": draw(st.sampled_from(["", "held/", "a#1@2/"])) + draw(st.sampled_from(sorted(DOMAINS))),
        "id": draw(st.integers(-5, 10**9)),
        "system_str": draw(any_text),
        "prompt": prompt,
        "response": response,
        "current_prompt": prompt[turn - 1],
        "turn_idx": turn,
        "total_turns": draw(st.integers(count, count + 3)),
    }


@given(samples())
def test_any_sample_survives_the_round_trip(sample: dict[str, Any]) -> None:
    made, _ = read_one(sample)
    assert [piece.value for piece in written([made])] == [sample]
    assert written([type(made).model_validate_json(made.model_dump_json())])[0].value == sample


@given(actions=st.lists(st.tuples(any_text, any_text), min_size=1, max_size=3), first=any_text)
def test_our_own_payloads_survive_the_round_trip(actions: list[tuple[str, str]], first: str) -> None:
    # A first screen that itself holds an action in a fence cannot be told from the action.
    assume("**Action:**" not in first)
    ours = trajectory()
    turns = tuple(Turn(action=action, observation=Observation(text=seen)) for action, seen in actions)
    world = ours.world.model_copy(update={"domain": "swe", "initial_state": ""})
    ours = ours.model_copy(update={"world": world, "turns": turns, "initial": Observation(text=first)})
    (piece,) = written([ours])
    again, _ = read_one(piece.value)
    assert pairs(again) == actions
    assert again.initial == Observation(text=first)


def test_which_turns_become_samples_is_the_users_choice() -> None:
    ours = trajectory()
    assert [piece.value["turn_idx"] for piece in written([ours])] == [2]
    every = [piece.value for piece in written([ours, ours], WriteOptions(every_turn=True))]
    assert [(sample["id"], sample["turn_idx"]) for sample in every] == [(1, 1), (2, 2), (3, 1), (4, 2)]
    assert {sample["task"] for sample in every} == {"mcp"}
    assert every[0]["current_prompt"] == every[0]["prompt"][0]
    assert "stock" in every[0]["system_str"]


def test_what_has_no_observation_is_no_turn_of_a_sample() -> None:
    ours = trajectory()
    failed = Turn(action="x", observation=None, outcome=Outcome.TIMED_OUT)
    losses = Losses()
    assert FORMAT.write is not None
    (piece,) = FORMAT.write([ours.model_copy(update={"turns": (failed, *ours.turns)})], WriteOptions(), losses)
    assert len(piece.value["prompt"]) == 2
    assert "a turn without an observation (timed_out)" in told(losses)
    assert list(FORMAT.write([ours.model_copy(update={"turns": (failed,)})], WriteOptions(), losses)) == []


def changed(**more: Any) -> dict[str, Any]:
    return {**copy.deepcopy(AWB), **more}


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (changed(turn_idx=3), "sample held/terminal/7: turn_idx: 3, and total_turns is 2"),
        (changed(current_prompt="other"), r"sample held/terminal/7: current_prompt: it differs from prompt\[1\]"),
        (changed(task="held/chess"), "sample held/chess/7: task: 'held/chess' names no domain"),
        (changed(response=["a"]), "sample held/terminal/7: response: 1 texts, and turn_idx is 2"),
        (changed(response=["a", "b", "c"]), "sample held/terminal/7: response: 3 texts, and prompt has 2"),
        (changed(prompt=[]), "sample held/terminal/7: prompt"),
        (changed(id="x"), "sample held/terminal/x: id"),
        (
            {key: value for key, value in AWB.items() if key != "turn_idx"},
            "sample held/terminal/7: turn_idx: Field required",
        ),
    ],
)
def test_a_wrong_sample_is_named_with_its_key(sample: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        read_one(sample)


def test_a_bare_text_is_a_list_of_one() -> None:
    sample = changed(prompt=AWB["prompt"][1], response=AWB["response"][1], turn_idx=1, total_turns=1)
    made, losses = read_one(sample)
    assert len(made.turns) == 1
    assert told(losses)["prompt is one text: it becomes a list of one"] == 1


def test_what_a_judge_added_is_counted_as_dropped() -> None:
    _, losses = read_one(changed(gen="…", total_score=4.0))
    assert {"key gen", "key total_score"} <= set(told(losses))


# What is ours beside the public keys.


@pytest.mark.parametrize(
    "extra",
    [
        {"content": "deterministic"},
        {"trajectory": "terminal-notes-17", "label": "tar-list/odd"},
        {"content": "pre-existing", "label": "ls"},
    ],
)
def test_what_we_know_of_a_sample_comes_back(extra: dict[str, str]) -> None:
    sample = {**AWB, "worldlm": extra}
    made, _ = read_one(sample)
    assert made.turns[1].label == extra.get("label")
    assert [each.value for each in written([made])] == [sample]


def test_a_sample_of_ours_is_read_as_it_was_in_its_world() -> None:
    ours = trajectory()
    sample = make_sample(ours, 0, 5, ContentClass.METADATA, "held-out")
    assert (sample["task"], sample["id"], sample["turn_idx"], sample["total_turns"]) == ("held-out/mcp", 5, 1, 1)
    made, losses = read_one(sample)
    assert (made.world, made.initial, made.actions) == (ours.world, ours.initial, ours.actions[:1])
    assert [each.value for each in written([made])] == [sample]
    assert not [row for row in losses.to_json() if "world" in row["reason"]]


def test_a_world_that_does_not_tell_the_system_prompt_is_not_used() -> None:
    sample = {**make_sample(trajectory(), 0, 5), "system_str": "Another prompt."}
    made, losses = read_one(sample)
    assert made.world.context == "Another prompt."
    assert "a world that does not tell the sample's system prompt" in [row["reason"] for row in losses.to_json()]


def test_a_turn_without_an_observation_makes_no_sample() -> None:
    ours = trajectory()
    failed = Turn(action="[]", observation=None, outcome=Outcome.MODEL_FAILED)
    with pytest.raises(ValueError, match="no observation"):
        make_sample(ours.model_copy(update={"turns": (failed,)}), 0, 1)


@pytest.mark.parametrize(
    ("extra", "words"),
    [({"content": "odd"}, "worldlm.content"), ({"world": {"name": "x"}}, "worldlm.world"), (7, "worldlm")],
)
def test_a_wrong_key_of_ours_is_named(extra: Any, words: str) -> None:
    with pytest.raises(RecordError, match=f"sample held/terminal/7: {words}"):
        read_one({**AWB, "worldlm": extra})
