"""MCP: results of the protocol as observations and back, schemas, and what a broken answer becomes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.core.errors import ActionError
from worldlm.core.text import canonical_json
from worldlm.core.types import Observation, Profile, Tool, ToolCall, World
from worldlm.domains import get_domain
from worldlm.domains.mcp import MCP, observation_result, result_observation
from worldlm.simulate import SimulatedEnvironment, load_world
from worldlm.testing import ScriptedModel, check_environment

WORLD = load_world("mcp-issues")
COMMENT: dict[str, Any] = {
    "id": 40,
    "issue": "LAMP-2",
    "author": "mara",
    "body": "Yes.",
    "created": "2026-04-14T09:01:00Z",
}
PLAIN = ToolCall(name="get_issue", arguments={"key": "LAMP-2"})
SHAPED = ToolCall(name="add_comment", arguments={"key": "LAMP-2", "body": "Yes."})

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.text(max_size=5), JSON, max_size=3)
BLOCK = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=8)}),
    st.fixed_dictionaries({"type": st.just("image"), "data": st.just("iVBO"), "mimeType": st.just("image/png")}),
    st.fixed_dictionaries({"type": st.just("resource"), "resource": OBJECT}),
    st.fixed_dictionaries({"type": st.just("resource_link"), "uri": st.just("a:b"), "name": st.text(max_size=4)}),
)


@st.composite
def results(draw: st.DrawFn) -> dict[str, Any]:
    """A `CallToolResult`."""
    result: dict[str, Any] = {"content": draw(st.lists(BLOCK, max_size=3))}
    if draw(st.booleans()):
        result["structuredContent"] = draw(OBJECT)
    if draw(st.booleans()):
        result["isError"] = True
    return result


# Text that a careless reader would take for a result, or for a broken one.
TRICKY = st.one_of(
    st.text(),
    JSON.map(json.dumps),
    results().map(canonical_json),
    results().map(lambda result: canonical_json(result)[:-3]),
    results().map(lambda result: json.dumps({**result, "title": "a document"})),
    st.sampled_from(
        ['{"content":[{"type":"text"}]}', '{"content":[{"type":"text"', '{"isError": true', '{"structuredContent":[1]}']
    ),
)


def read(text: str, call: ToolCall = PLAIN) -> Observation:
    return MCP.read_observation(WORLD, call, text)


def failed(observation: Observation, call: ToolCall) -> list[str]:
    return [check.rule for check in MCP.check(WORLD, [], call, observation) if not check.passed]


# Actions.


@given(st.sampled_from(WORLD.tools), OBJECT)
def test_a_call_survives_its_text(tool: Tool, arguments: dict[str, Any]) -> None:
    call = ToolCall(name=tool.name, arguments=arguments)
    assert MCP.parse_action(MCP.format_action(call), WORLD) == call


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("get_issue LAMP-2", "not valid JSON"),
        ('{"name": "get_issue", "input": {}}', "unknown key 'input'"),
        ('{"name": 7}', "no 'name'"),
        ('{"name": "get_issue", "arguments": [1]}', "'arguments' must be an object, not an array"),
        ("null", "not null"),
    ],
)
def test_an_action_that_does_not_parse_is_told_why(text: str, words: str) -> None:
    with pytest.raises(ActionError, match=words):
        MCP.parse_action(text, WORLD)


def test_wrong_arguments_are_for_the_server_to_answer() -> None:
    call = MCP.parse_action('{"name": "get_issue", "arguments": {"id": 3}}', WORLD)
    assert MCP.harness(WORLD, [], call) is None


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("list_issues project=LAMP page=2", {"project": "LAMP", "page": 2}),
        ("list_issues project=7", {"project": "7"}),
        ("list_issues", {}),
        ('list_issues {"project": "LAMP"}', {"project": "LAMP"}),
        ('{"name": "list_issues", "arguments": {"project": "LAMP"}}', {"project": "LAMP"}),
        ("list_issues project='LAMP lighter' label=\"a b\"", {"project": "LAMP lighter", "label": "a b"}),
    ],
)
def test_a_line_becomes_a_call(line: str, arguments: dict[str, Any]) -> None:
    call = ToolCall(name="list_issues", arguments=arguments)
    assert MCP.parse_action(MCP.from_line(line, WORLD), WORLD) == call


# Observations.


@given(TRICKY)
def test_plain_text_survives_history(text: str) -> None:
    observation = Observation(text=text)
    assert read(MCP.write_observation(observation)) == observation


@given(TRICKY, OBJECT | st.none(), st.booleans())
def test_structure_and_errors_survive_history(text: str, structured: dict[str, Any] | None, is_error: bool) -> None:
    observation = Observation(text=text, structured=structured, is_error=is_error)
    written = MCP.write_observation(observation)
    assert read(written) == observation
    if structured is not None or is_error:
        assert read(written, SHAPED) == observation


@given(results())
def test_a_result_survives_as_an_observation(result: dict[str, Any]) -> None:
    observation = result_observation(result)
    assert result_observation(observation_result(observation)) == observation
    assert read(MCP.write_observation(observation)) == observation
    assert observation.structured == result.get("structuredContent")
    assert observation.is_error == result.get("isError", False)


def test_a_single_text_block_is_its_text_and_anything_else_is_the_result() -> None:
    block = {"type": "text", "text": "hello"}
    assert result_observation({"content": [block]}) == Observation(text="hello")
    assert MCP.write_observation(Observation(text="hello")) == "hello"
    two = {"content": [block, block], "isError": True}
    assert result_observation(two) == Observation(text=canonical_json(two), is_error=True)
    assert result_observation({"content": []}).text == '{"content":[]}'
    error = Observation(text="Issue LAMP-99 not found", is_error=True)
    assert MCP.write_observation(error) == (
        '{"content":[{"text":"Issue LAMP-99 not found","type":"text"}],"isError":true}'
    )


def test_an_answer_of_a_tool_with_an_output_schema_is_its_structured_content() -> None:
    text = json.dumps(COMMENT)
    assert read(text, SHAPED) == Observation(text=text, structured=COMMENT)
    assert read(text, PLAIN) == Observation(text=text)
    assert read("[1, 2]", SHAPED).structured == {"result": [1, 2]}
    assert read("no such issue", SHAPED) == Observation(text="no such issue")
    assert result_observation({"content": [], "structuredContent": [1]}).structured == {"result": [1]}
    assert result_observation({"structuredContent": {"b": 1}}) == Observation(text='{"b":1}', structured={"b": 1})


def test_valid_json_is_never_repaired() -> None:
    document = '{"content": [{"type": "paragraph", "text": "{a: 1, note: fine}"}], "title": "x"}'
    assert read(document) == Observation(text=document)
    result = {"content": [{"type": "text", "text": "{a: 1, note: 'fine',}"}], "isError": True}
    assert read(json.dumps(result)).text == "{a: 1, note: 'fine',}"


@pytest.mark.parametrize(
    "text",
    [
        '{"content": [{"type": "text", "text": "gone"}], "isError": true',
        '{"content": [{"type": "text", "text": "gone",}], "isError": true,}',
        "{'content': [{'type': 'text', 'text': 'gone'}], 'isError': true}",
        '\n{"content": [{"type": "text", "text": "gone"}] "isError": true}\n',
    ],
)
def test_a_broken_result_is_repaired(text: str) -> None:
    assert read(text) == Observation(text="gone", is_error=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"content":[{"type":"text"}]}', r"content\[0\]: a block of type 'text' needs 'text'"),
        ('{"content":[{"type":"video"}]}', "no block type 'video'"),
        ('{"content":[],"isError":"yes"}', "'isError' must be true or false, not a string"),
        ('{"content": [{"type"', "begins like a result and is not JSON"),
        ('{"isError": tru', "begins like a result"),
        ('{"content": [{"type": "image", "data": NaN}]}', r"content\[0\]"),
    ],
)
def test_an_answer_that_is_no_result_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(text)


# Rules.


def test_structured_content_is_held_to_the_output_schema() -> None:
    text = json.dumps(COMMENT)
    assert failed(Observation(text=text, structured=COMMENT), SHAPED) == []
    assert failed(Observation(text=text), SHAPED) == ["output_schema"]
    assert failed(Observation(text="x", structured={**COMMENT, "id": "40"}), SHAPED) == ["output_schema"]
    assert failed(Observation(text="Issue not found", is_error=True), SHAPED) == []
    checks = MCP.check(WORLD, [], SHAPED, Observation(text="x", structured={"id": "40"}))
    assert "id: '40' is not of type 'integer'" in checks[0].message or "required" in checks[0].message


def test_the_text_agrees_with_the_structured_content() -> None:
    assert failed(Observation(text=json.dumps({**COMMENT, "id": 41}), structured=COMMENT), SHAPED) == ["text_agrees"]
    assert failed(Observation(text="Comment 40 was added.", structured=COMMENT), SHAPED) == []
    assert failed(Observation(text='{"a": 1}', structured={"content": '{"a": 1}'}), PLAIN) == []  # a file that is JSON


def test_arguments_that_break_the_schema_need_an_error() -> None:
    fine, error = Observation(text="{}"), Observation(text="key: required", is_error=True)
    for arguments in ({}, {"key": "nonsense"}, {"key": "LAMP-2", "verbose": True}):
        call = ToolCall(name="get_issue", arguments=arguments)
        assert failed(fine, call) == ["validation_error"]
        assert failed(error, call) == []
    assert failed(Observation(text=" ", is_error=True), ToolCall(name="get_issue", arguments={})) == ["error_text"]
    # A server may take "2" for 2.
    page = ToolCall(name="list_issues", arguments={"project": "LAMP", "page": "2"})
    assert failed(Observation(text="", structured={"issues": [], "page": 2, "total": 0}), page) == []


@given(st.sampled_from(WORLD.tools), OBJECT, TRICKY, OBJECT | st.none(), st.booleans())
def test_rules_take_any_call_and_any_answer(
    tool: Tool, arguments: dict[str, Any], text: str, structured: dict[str, Any] | None, is_error: bool
) -> None:
    observation = Observation(text=text, structured=structured, is_error=is_error)
    MCP.check(WORLD, [], ToolCall(name=tool.name, arguments=arguments), observation)


# Worlds.


def world(*tools: dict[str, Any]) -> World:
    return World.model_validate({"name": "w", "domain": "mcp", "tools": tools})


def test_a_tool_that_is_not_there_is_for_the_server_to_refuse() -> None:
    call = MCP.parse_action('{"name": "get_isue"}', WORLD)
    assert call == ToolCall(name="get_isue")
    assert failed(Observation(text="{}"), call) == ["unknown_tool"]
    assert failed(Observation(text="Error: Unknown tool: get_isue"), call) == []
    assert failed(Observation(text="Unknown tool: get_isue", is_error=True), call) == []


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"server": {"comand": ["x"]}}, "unknown key 'initial_state.server.comand'; did you mean 'command'"),
        ({"server": {"command": ["x"]}, "file": {}}, "unknown key 'initial_state.file'; did you mean 'files'"),
        ({"server": {}}, "give one of command, url and package, not none of them"),
        ({"server": {"command": ["x"], "url": "http://x"}}, "not command and url"),
        ({"server": {"command": ["x"], "headers": {"a": "b"}}}, "'headers' does not go with 'command'"),
        ({"server": {"url": "notaurl"}}, "url must be an address of http or https, not 'notaurl'"),
        ({"server": {"url": "http://x"}, "setup": ["true"]}, "files and setup are made in the sandbox"),
    ],
)
def test_what_is_wrong_with_a_real_server_is_named(state: dict[str, Any], words: str) -> None:
    (problem,) = MCP.problems(World(name="w", domain="mcp", initial_state=state))
    assert words in problem


def test_a_real_server_tells_its_tools_itself() -> None:
    assert MCP.problems(World(name="w", domain="mcp", initial_state={"server": {"command": ["x"]}})) == []


def test_what_a_world_lacks_is_named() -> None:
    assert MCP.problems(world()) == ["tools is empty: an MCP world needs the server's tools with their schemas"]
    assert MCP.problems(world({"name": "a"}, {"name": "a"})) == ["tools[1] (a): there is an earlier tool of this name"]
    (problem,) = MCP.problems(
        world({"name": "a", "parameters": {"type": "object", "properties": {"x": {"type": "int"}}}})
    )
    assert problem.startswith("tools[0] (a).parameters: not a JSON Schema: properties.x.type")
    (problem,) = MCP.problems(world({"name": "a", "output_schema": {"type": "array"}}))
    assert problem == "tools[0] (a).output_schema: the schema must have type: object"


@pytest.mark.parametrize("name", ["mcp-issues", "mcp-orders"])
def test_a_shipped_server_has_tools_and_data(name: str) -> None:
    shipped = load_world(name)
    assert MCP.problems(shipped) == []
    assert len(MCP.tools(shipped)) >= 10
    assert any(tool.output_schema for tool in shipped.tools)
    first = MCP.initial_observation(shipped).text
    assert first.startswith(f"Connected to {name}. Tools: {shipped.tools[0].name}, ")
    assert isinstance(shipped.hidden_state, dict)


def test_the_data_of_the_issue_tracker_is_sound() -> None:
    data = WORLD.hidden_state
    assert isinstance(data, dict)
    columns = data["issue_columns"].split("|")
    issues = [dict(zip(columns, row.split("|"), strict=True)) for row in data["issues"]]
    keys = {issue["key"] for issue in issues}
    people = {user["name"] for user in data["users"]}
    assert len(keys) == len(issues) == 15
    for issue in issues:
        project, number = issue["key"].split("-")
        assert set(filter(None, issue["labels"].split(","))) <= set(data["labels"][project])
        assert int(number) < data["next"][project]
        assert {issue["reporter"], issue["assignee"] or "mara"} <= people
        assert (issue["blocked_by"] or issue["key"]) in keys
        assert issue["created"] <= issue["updated"]
    assert set(data["descriptions"]) | {comment["issue"] for comment in data["comments"]} <= keys


def test_the_books_of_the_shop_add_up() -> None:
    data = load_world("mcp-orders").hidden_state
    assert isinstance(data, dict)
    prices = {row.split("|")[0]: float(row.split("|")[3]) for row in data["products"]}
    customers = {customer["id"] for customer in data["customers"]}
    for row in data["orders"]:
        number, customer, status, _, lines, shipping, voucher, paid, refunded = row.split("|")
        assert customer in customers
        total = 0.0
        for line in lines.split(", "):
            item, price = line.split("@")
            sku, quantity = item.split("x")
            assert float(price) == prices[sku]
            total += int(quantity) * float(price)
        assert float(shipping) == (4.5 if total < 60 else 0), number
        total = total * (0.9 if voucher else 1) + float(shipping)
        if status not in ("new", "cancelled"):
            assert float(paid) == pytest.approx(total), number
        assert float(refunded) <= float(paid)


@pytest.mark.anyio
async def test_a_simulated_server_keeps_the_contract() -> None:
    answers = ['{"projects": []}', '{"content": [{"type": "text", "text": "Issue X not found"}], "isError": true}']
    model = ScriptedModel(lambda messages, sampling: answers[len(messages[-1].content) % 2])

    def make() -> SimulatedEnvironment:
        return SimulatedEnvironment(WORLD, get_domain("mcp"), model, Profile(name="test", answer_tag=False))

    calls = ["list_projects", "get_issue key=LAMP-2", "search_issues text=sync", "list_users"]
    actions = [MCP.from_line(line, WORLD) for line in calls]
    await check_environment(make, actions, invalid_action="list_projects")


@pytest.mark.anyio
async def test_an_error_stands_in_the_history_as_an_error() -> None:
    model = ScriptedModel(['{"content": [{"type": "text", "text": "gone"}], "isError": true}', "fine"])
    environment = SimulatedEnvironment(WORLD, get_domain("mcp"), model, Profile(name="test", answer_tag=False))
    await environment.reset()
    step = await environment.step(MCP.from_line("get_issue key=LAMP-99", WORLD))
    assert step.observation == Observation(text="gone", is_error=True)
    await environment.step(MCP.from_line("get_issue key=LAMP-2", WORLD))
    messages, _ = model.requests[-1]
    assert messages[2].content == '{"content":[{"text":"gone","type":"text"}],"isError":true}'
