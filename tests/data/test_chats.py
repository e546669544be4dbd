"""Formats of calls with their results: OpenAI chat, tau-bench, BFCL, SWE-agent, mini-SWE-agent, OpenHands."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.kit import pairs, read, read_one, told
from tests.data.samples import BFCL, CHAT, MINI, MINI_1, OPENHANDS, OPENHANDS_1, SWE, TAU, TAU_2, trajectory
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.text import canonical_json
from worldlm.core.types import Observation, Tool, ToolCall, Turn, World
from worldlm.data.formats import ReadOptions, RecordError, WriteOptions, get_format
from worldlm.data.formats.chat import tool_result
from worldlm.data.formats.format import Reading, call_arguments
from worldlm.data.report import Losses
from worldlm.domains.domain import format_tool_call

WEATHER = '{"arguments":{"city":"Rom"},"name":"weather"}'
STRICT = ReadOptions(strict=True)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
arguments = st.dictionaries(
    text, st.none() | st.booleans() | st.integers(-9, 9) | text | st.lists(text, max_size=2), max_size=3
)


def chat(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"messages": list(messages)}


def call(given: Any, name: str = "weather", call_id: str | None = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": given}}


def said(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(content: Any, call_id: str | None = "c1") -> dict[str, Any]:
    return {"role": "tool", "content": content, **({"tool_call_id": call_id} if call_id else {})}


# OpenAI chat.


def test_a_call_and_its_result_are_a_turn() -> None:
    made, losses = read_one(CHAT)
    assert pairs(made) == [(WEATHER, "21")]
    assert made.world.context == "The agent was asked:\nWeather?"
    assert [tool.name for tool in made.world.tools] == ["weather"]
    assert told(losses)["the agent's system prompt"] == 1
    assert told(losses)["what the agent says without a call"] == 1


def test_a_bare_list_of_messages_is_a_conversation_too() -> None:
    assert pairs(read_one(CHAT["messages"])[0]) == [(WEATHER, "21")]


@pytest.mark.parametrize(
    "given", ['{"city": "Rom"}', {"city": "Rom"}, json.dumps('{"city": "Rom"}'), ' {"city":\n"Rom"} ']
)
def test_arguments_have_one_form_however_they_came(given: Any) -> None:
    made, _ = read_one(chat(said(call(given)), result("21"), said(call(given)), result("22")))
    assert pairs(made) == [(WEATHER, "21"), (WEATHER, "22")]


@pytest.mark.parametrize("given", ["", None, {}, "{}"])
def test_no_arguments_are_an_empty_mapping(given: Any) -> None:
    made, _ = read_one(chat(said(call(given)), result("21")))
    assert pairs(made) == [('{"arguments":{},"name":"weather"}', "21")]


def test_arguments_that_are_no_json_are_an_invalid_action() -> None:
    made, losses = read_one(chat(said(call('{"city": ')), result("bad arguments")))
    (turn,) = made.turns
    assert (turn.outcome, turn.observation, turn.detail) == (Outcome.INVALID_ACTION, None, "bad arguments")
    assert told(losses)["a call whose arguments are not JSON is an invalid action"] == 1


@given(arguments)
def test_arguments_survive_being_encoded_again_and_again(given: dict[str, Any]) -> None:
    reading = Reading("here", "x", "1")
    once, twice = json.dumps(given), json.dumps(json.dumps(given))
    assert call_arguments(given, reading) == call_arguments(once, reading) == call_arguments(twice, reading) == given


def test_several_calls_get_the_results_that_name_them() -> None:
    calls = said(call({}, "a", "1"), call({}, "b", "2"))
    made, _ = read_one(chat(calls, result("of b", "2"), result("of a", "1")))
    assert [seen for _, seen in pairs(made)] == ["of a", "of b"]


def test_a_call_id_that_is_used_again_means_the_call_before() -> None:
    made, _ = read_one(chat(said(call({}, "a")), result("1"), said(call({}, "b")), result("2")))
    assert [seen for _, seen in pairs(made)] == ["1", "2"]


def test_results_without_ids_go_by_their_place_unless_strict() -> None:
    value = chat(said(call({}, "a"), call({}, "b")), result("1", None), result("2", None))
    made, losses = read_one(value)
    assert [seen for _, seen in pairs(made)] == ["1", "2"]
    assert told(losses)["a result without an id goes to the call at its place"] == 2
    with pytest.raises(RecordError, match=r"messages\[0\]: a result without tool_call_id"):
        read(value, STRICT)


def test_what_lacks_its_other_half_is_counted() -> None:
    _, losses = read_one(chat(result("of nothing"), said(call({}, "a")), result("1"), said(call({}, "b"))))
    assert told(losses)["a result without a call"] == 1
    assert told(losses)["a call without a result"] == 1
    with pytest.raises(RecordError, match=r"messages\[0\]: a result without a call"):
        read(chat(result("x"), said(call({})), result("1")), STRICT)
    with pytest.raises(RecordError, match="there is no call with the id 'other'"):
        read(chat(said(call({})), result("1"), result("2", "other")), STRICT)


def test_a_conversation_without_calls_holds_no_turn() -> None:
    with pytest.raises(RecordError, match="no tool call"):
        read(chat({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}))


def test_a_result_that_python_printed_is_the_result_it_was() -> None:
    reading = Reading("here", "x", "1")
    shown = "meta=None content=[TextContent(type='text', text=\"it's\\nso\", annotations=None)] isError=True"
    assert tool_result(shown, reading) == Observation(text="it's\nso", is_error=True)
    for odd in ("meta=None content=[open('x')] isError=False", "meta=None content=[] isError=Maybe", "plain"):
        assert tool_result(odd, reading) == Observation(text=odd)


@given(st.lists(st.tuples(text.filter(bool), arguments, text), min_size=1, max_size=4))
def test_calls_survive_the_round_trip(turns: list[tuple[str, dict[str, Any], str]]) -> None:
    ours = trajectory().model_copy(
        update={
            "world": World(name="w", domain="mcp", context="Here.", tools=(Tool(name="a", description="b"),)),
            "turns": tuple(
                Turn(action=format_tool_call(ToolCall(name=name, arguments=given)), observation=Observation(text=seen))
                for name, given, seen in turns
            ),
        }
    )
    write = get_format("openai-chat").write
    assert write is not None
    (piece,) = write([ours], WriteOptions(), Losses())
    again, _ = read_one(json.loads(json.dumps(piece.value)), STRICT)
    assert pairs(again) == pairs(ours)
    assert again.world.tools == ours.world.tools
    for message in piece.value["messages"]:
        for made in message.get("tool_calls", []):
            assert isinstance(made["function"]["arguments"], str)


def test_what_chat_cannot_hold_is_said() -> None:
    losses = Losses()
    write = get_format("openai-chat").write
    assert write is not None
    failed = Turn(action="x", observation=None, outcome=Outcome.CUT_OFF)
    ours = trajectory()
    assert len(list(write([ours.model_copy(update={"turns": (*ours.turns, failed)})], WriteOptions(), losses))) == 1
    assert told(losses)["the mark that a result is an error"] == 1
    assert told(losses)["a turn without an observation (cut_off)"] == 1


# tau-bench.


def test_talk_with_the_simulated_user_is_a_call() -> None:
    made, losses = read_one(TAU)
    respond = canonical_json({"name": "respond", "arguments": {"content": "Who are you?"}})
    assert pairs(made) == [(respond, "Mia."), (WEATHER, "21"), (WEATHER, "21")]
    assert [turn.label for turn in made.turns] == ["respond", None, None]
    assert made.initial == Observation(text="A flight, please.")
    assert made.world.context == "Be kind."
    assert {"key reward", "what the agent says without a call"} <= set(told(losses))


def test_the_second_tau_bench() -> None:
    made, losses = read_one(TAU_2)
    assert [seen for _, seen in pairs(made)] == ["dead", "It works."]
    assert told(losses)["a call that the simulated user makes, and its result"] == 2
    assert made.origin.version == "2"


# BFCL.


def test_executed_calls_are_turns_and_state_is_hidden() -> None:
    made, losses = read_one(BFCL)
    assert pairs(made) == [
        ('{"arguments":{"folder":"docs"},"name":"cd"}', '{"cwd": "docs"}'),
        ('{"arguments":{},"name":"ls"}', "[]"),
    ]
    assert made.world.hidden_state == {"Files": {"root": ["docs"]}}
    assert made.world.context == "The agent was asked:\nGo to docs."
    assert told(losses)["the state of the API classes after a turn"] == 1


@pytest.mark.parametrize(
    ("decoded", "message"),
    [(["cd('docs')"], "1 calls and 2 results"), (["cd()", "import os"], None), (["cd('docs')", "ls()"], None)],
)
def test_calls_that_are_no_plain_calls(decoded: list[str], message: str | None) -> None:
    value = copy.deepcopy(BFCL)
    value["inference_log"][1]["step_0"][1]["model_response_decoded"] = decoded
    if message:
        with pytest.raises(RecordError, match=message):
            read(value)
        return
    made, losses = read_one(value)
    plain = decoded[1] == "ls()"
    assert len(made.turns) == (2 if plain else 1)
    assert ("arguments by position are named arg1, arg2, …" in told(losses)) == plain
    assert ("a call that is no plain Python call" in told(losses)) != plain


def test_a_single_turn_result_executes_nothing() -> None:
    with pytest.raises(RecordError, match="single-turn"):
        read({"id": "simple_0", "result": "f()", "latency": 1.0})


# SWE-agent and mini-SWE-agent.


def test_a_step_of_swe_agent_is_a_call_of_its_shell() -> None:
    made, losses = read_one(SWE)
    assert pairs(made)[0] == ('{"arguments":{"command":"ls\\n"},"name":"bash"}', "a.py")
    assert made.turns[0].raw_action == "ls\n"
    assert made.world.context == "The agent was asked:\nMend the file."
    assert made.ending.kind is EndingKind.COMPLETED
    assert told(losses)["key trajectory[].thought"] == 1


def test_a_step_of_swe_agent_in_a_terminal_is_typed() -> None:
    made, losses = read_one(SWE, ReadOptions(domain="terminal"))
    assert pairs(made)[0][0] == '[{"duration":1.0,"keystrokes":"ls\\n"}]'
    assert told(losses)["the observation is the command's output alone: no echo, no prompt"] == 1


def test_the_newer_swe_agent() -> None:
    value = copy.deepcopy(SWE)
    value["trajectory"][0]["state"] = {"working_dir": "/"}
    value["info"]["exit_status"] = "exit_cost"
    made, _ = read_one(value)
    assert made.origin.version == "1"
    assert made.ending.kind is EndingKind.FAILED
    assert made.ending.detail == "exit_cost"


@pytest.mark.parametrize("action", ["", " \n"])
def test_a_step_without_an_action_is_no_turn(action: str) -> None:
    value = copy.deepcopy(SWE)
    value["trajectory"][0]["action"] = action
    made, losses = read_one(value)
    assert len(made.turns) == 1
    assert told(losses)["a step without an action"] == 1


def test_commands_of_mini_swe_agent_get_their_outputs() -> None:
    made, _ = read_one(MINI)
    assert pairs(made) == [
        ('{"arguments":{"command":"ls"},"name":"bash"}', "a.py"),
        ('{"arguments":{"command":"pwd"},"name":"bash"}', "/app"),
    ]
    assert made.policy == "mini-SWE-agent 2.4.6"


def test_the_first_mini_swe_agent_has_the_command_in_a_block() -> None:
    made, losses = read_one(MINI_1)
    assert pairs(made) == [('{"arguments":{"command":"ls -l"},"name":"bash"}', "<output>a.py</output>")]
    assert told(losses)["a reply that is not one command"] == 1
    assert made.ending.kind is EndingKind.FAILED


# OpenHands.


def test_events_are_paired_by_their_cause() -> None:
    made, losses = read_one(OPENHANDS)
    assert pairs(made) == [('{"arguments":{"command":"ls"},"name":"run"}', "a.py\n[exit 0]")]
    assert made.world.context == "The agent was asked:\nMend it."
    assert told(losses)["an event of type 'finish': it does nothing to the environment"] == 1


def test_events_of_an_evaluation() -> None:
    made, losses = read_one({"instance_id": "x__y-1", "history": OPENHANDS, "test_result": {}})
    assert made.id == "openhands-x__y-1"
    assert told(losses)["key test_result"] == 1


def test_events_of_the_sdk() -> None:
    made, _ = read_one(OPENHANDS_1)
    assert pairs(made) == [('{"arguments":{"command":"ls"},"name":"terminal"}', "a.py")]
    assert made.world.context == "The agent was asked:\nMend it."
    failed = {"id": "e2", "kind": "AgentErrorEvent", "source": "agent", "tool_call_id": "c1", "error": "no such tool"}
    (turn,) = read_one([*OPENHANDS_1[:2], failed])[0].turns
    assert turn.observation == Observation(text="no such tool", is_error=True)


def test_an_action_without_an_observation_is_counted() -> None:
    unanswered = {"id": 9, "source": "agent", "action": "run", "args": {"command": "sleep"}}
    _, losses = read_one([*OPENHANDS, unanswered])
    assert told(losses)["an action without an observation"] == 1
    with pytest.raises(RecordError, match="no turn"):
        read([OPENHANDS[0], unanswered])
