"""The explorer of MCP servers: seeded, for any server, in chains, and told by what it has seen."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from worldlm.core.types import Observation, Tool, Turn, World
from worldlm.rollout.explorers.mcp import Agent, Seen, behave, chain_of_verbs, key_of, listed
from worldlm.rollout.explorers.mcp.tables import CHAINS, VALUES


def tool(name: str, required: Sequence[str] = (), **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Tool(name=name, parameters=schema)


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
NOTES = World(
    name="mcp-notes",
    domain="mcp",
    tools=(
        tool("list_notes"),
        tool("create_note", ["title"], title=TEXT, stars={"type": "integer", "minimum": 1, "maximum": 5}),
        tool("get_note", ["note_id"], note_id=NUMBER),
        tool("update_note", ["note_id", "title"], note_id=NUMBER, title=TEXT),
        tool("delete_note", ["note_id"], note_id=NUMBER),
    ),
)


class Notes:
    """What a server of notes would answer."""

    def __init__(self) -> None:
        self.notes: dict[int, str] = {}
        self.next = 100

    def answer(self, action: str) -> Observation:
        call = json.loads(action)
        name, arguments = call["name"], call["arguments"]
        note = arguments.get("note_id")
        if name == "create_note" and isinstance(arguments.get("title"), str):
            self.notes[self.next] = arguments["title"]
            self.next += 1
            return Observation(text=json.dumps({"note_id": self.next - 1}))
        if name == "list_notes":
            return Observation(text=json.dumps([{"note_id": key, "title": text} for key, text in self.notes.items()]))
        if not isinstance(note, int) or note not in self.notes:
            return Observation(text="no such note", is_error=True)
        text = self.notes.pop(note) if name == "delete_note" else self.notes[note]
        return Observation(text=json.dumps({"note_id": note, "title": text}))


def play(world: World, seed: int, limit: int = 400) -> list[Turn]:
    server, turns = Notes(), []
    running = behave(Random(seed), world, Observation(text=""))
    act = next(running)
    for _ in range(limit):
        turns.append(Turn(action=act.action, observation=server.answer(act.action), label=act.label))
        try:
            act = running.send(turns[-1])
        except StopIteration:
            break
    return turns


def test_one_seed_gives_the_same_actions_and_another_gives_others() -> None:
    assert play(NOTES, 1) == play(NOTES, 1)
    assert [turn.action for turn in play(NOTES, 1)] != [turn.action for turn in play(NOTES, 2)]


def test_ids_that_were_seen_are_used_until_they_are_gone() -> None:
    turns = [turn for seed in range(10) for turn in play(NOTES, seed)]
    plain = [turn for turn in turns if turn.label and not turn.label.endswith("/odd")]
    odd = 1 - len(plain) / len(turns)
    assert 0.1 < odd < 0.2
    used = [turn for turn in plain if turn.label in ("notes.get_note", "notes.update_note", "notes.delete_note")]
    found = [turn for turn in used if turn.observation and not turn.observation.is_error]
    assert len(found) > len(used) / 3
    assert len(found) < len(used)  # what was deleted is read again
    assert {turn.label for turn in plain} == {f"notes.{tool.name}" for tool in NOTES.tools}


def test_odd_calls_are_of_every_kind() -> None:
    odd = [
        json.loads(turn.action) for seed in range(20) for turn in play(NOTES, seed) if str(turn.label).endswith("/odd")
    ]
    names = {tool.name for tool in NOTES.tools}
    assert any(call["name"] not in names for call in odd)
    assert any(set(call["arguments"]) - {"title", "stars", "note_id"} for call in odd)
    assert any(isinstance(call["arguments"].get("note_id"), list) for call in odd)
    assert any(call["name"] == "get_note" and not call["arguments"] for call in odd)


SCALAR = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "enum": ["red", "blue"]},
        {"type": "string", "format": "date"},
        {"type": "integer", "minimum": 3, "maximum": 9},
        {"type": "number", "minimum": -1, "maximum": 1},
        {"type": "boolean"},
        {"const": 7},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"type": ["string", "null"]},
        {"$ref": "#/$defs/Colour"},
    ]
)
NESTED = st.recursive(
    SCALAR,
    lambda inner: st.one_of(
        st.builds(lambda item, low: {"type": "array", "items": item, "minItems": low}, inner, st.integers(0, 2)),
        st.dictionaries(st.sampled_from("abcd"), inner, min_size=1, max_size=3).map(
            lambda found: {"type": "object", "properties": found, "required": list(found)[:1]}
        ),
    ),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["name", "size", "when", "parts"]), NESTED, min_size=1), st.integers(0, 99))
def test_arguments_keep_the_schema(properties: dict[str, Any], seed: int) -> None:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "$defs": {"Colour": {"type": "string", "enum": ["red", "blue"]}},
    }
    world = World(name="w", domain="mcp", tools=(Tool(name="make", parameters=schema),))
    arguments = Agent(Random(seed), world).arguments("make", {})
    Draft202012Validator(schema).validate(arguments)


def test_values_are_remembered_by_their_key() -> None:
    seen = Seen("Customers:\n  email: a@x.org, b@x.org\n")
    assert seen.of("email") == ["a@x.org", "b@x.org"]
    seen.learn(
        "list", Observation(text='{"orders": [{"orderId": 4}, {"orderId": 7}], "cards": {"c_1": {"kind": "visa"}}}')
    )
    assert seen.of("order_id") == [4, 7]
    assert seen.of("card_id") == ["c_1"]
    seen.learn("query", Observation(text="[{'name': 'rope', 'price': 2.5}]"))  # as some servers print it
    assert seen.of("names") == ["rope"]
    seen.learn("log", Observation(text="commit " + "a1" * 20))
    assert seen.of("sha") == ["a1" * 20]


@pytest.mark.parametrize(
    ("name", "key"), [("order_id", "orderid"), ("orderIds", "orderid"), ("entries", "entry"), ("status", "status")]
)
def test_one_spelling_for_a_key(name: str, key: str) -> None:
    assert key_of(name) == key


def test_values_are_read_out_of_a_description() -> None:
    assert listed('The mode. [Enum]: ["engage", "release"]') == ["engage", "release"]
    assert listed("The class. Options are: economy, business, first.") == ["economy", "business", "first"]
    assert listed("Any text.") == []


def test_a_chain_of_verbs_stays_with_one_thing() -> None:
    names = ["list_notes", "create_note", "delete_note", "get_weather", "list_cities"]
    for seed in range(20):
        steps = [name for name, _ in chain_of_verbs(Random(seed), names)]
        assert steps
        things = {"note" in name for name in steps}
        assert len(things) == 1


def test_every_name_of_a_table_can_be_filled() -> None:
    agent = Agent(Random(0), World(name="w", domain="mcp", tools=NOTES.tools))
    names = {step for chain in CHAINS for step, _ in chain}
    assert len(names) > 120
    for chain in CHAINS:
        drawn: dict[str, Any] = {}
        for _, templates in chain:
            for template in templates.values():
                agent.fill(template, drawn)
        for name in drawn:
            assert name.rstrip("0123456789") in VALUES, name


def test_a_server_without_tools_gives_nothing_to_do() -> None:
    assert list(behave(Random(0), World(name="w", domain="mcp"), Observation(text=""))) == []
