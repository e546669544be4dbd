"""Search: calls, result blocks, agreement of pages with results, and a memory that forgets nothing."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.core.errors import ActionError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Control, Observation, Profile, ToolCall, Turn
from worldlm.domains import get_domain
from worldlm.domains.search import (
    NOTHING,
    PAGE_CHARS,
    SEARCH,
    TOOLS,
    DocumentSource,
    SearchResult,
    format_date,
    format_page,
    format_results,
    format_searches,
    is_date,
    parse_results,
    parse_searches,
    search_state,
    world_pages,
)
from worldlm.simulate import SimulatedEnvironment, load_world
from worldlm.testing import ScriptedModel, check_environment

WORLD = load_world("search-ferries")
NO_INDEX = WORLD.model_copy(update={"hidden_state": "Some pages about ferries."})
PETREL = "https://ansteymuseum.example/ships/petrel"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(
    st.sampled_from(["query", "queries", "url", "action", "key", "value"]) | st.text(max_size=3),
    st.sampled_from(["add", "get", "https://a.example/", ["x", "y"]]) | JSON,
    max_size=4,
)
LINE = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=20)
RESULT = st.builds(
    SearchResult,
    url=st.integers(0, 99).map(lambda number: f"https://site{number}.example/page"),
    title=LINE,
    snippet=LINE,
    date=st.sampled_from(["N/A", "Mar 3, 2027"]),
)


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name=name, arguments=arguments)


def turn(asked: ToolCall, answer: str) -> Turn:
    return Turn(action=SEARCH.format_action(asked), observation=Observation(text=answer))


def failed(answer: str, asked: ToolCall, turns: Sequence[Turn] = (), world: Any = NO_INDEX) -> list[str]:
    return [check.rule for check in SEARCH.check(world, turns, asked, Observation(text=answer)) if not check.passed]


def result(url: str = "https://a.example/", title: str = "A", date: str = "N/A") -> SearchResult:
    return SearchResult(url=url, title=title, snippet="About it …", date=date)


# Actions.


@given(st.sampled_from(TOOLS), ARGUMENTS)
def test_a_call_survives_its_text(tool: Any, arguments: dict[str, Any]) -> None:
    asked = ToolCall(name=tool.name, arguments=arguments)
    assert SEARCH.parse_action(SEARCH.format_action(asked), WORLD) == asked


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ferries", "not valid JSON"),
        ('{"name": "websearch", "arguments": {}}', "no tool 'websearch'; did you mean 'web_search'"),
        ('{"name": "web_search", "arguments": {}, "id": 1}', "unknown key 'id'"),
        ('"web_search"', "must be an object .*, not a string"),
    ],
)
def test_an_action_that_does_not_parse_is_told_why(text: str, words: str) -> None:
    with pytest.raises(ActionError, match=words):
        SEARCH.parse_action(text, WORLD)


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("hollin isles ferry", call("web_search", query="hollin isles ferry")),
        ("what's new = good?", call("web_search", query="what's new = good?")),
        (f" {PETREL} ", call("web_extractor", url=PETREL)),
        (
            "dict_memory action=add key=ship value='SS Petrel'",
            call("dict_memory", action="add", key="ship", value="SS Petrel"),
        ),
        ('web_search {"queries": ["a", "b"]}', call("web_search", queries=["a", "b"])),
        ('web_search queries=["a"]', call("web_search", queries="[a]")),
        ('{"name": "web_search", "arguments": {"query": "x"}}', call("web_search", query="x")),
    ],
)
def test_a_line_becomes_a_call(line: str, asked: ToolCall) -> None:
    assert SEARCH.parse_action(SEARCH.from_line(line, WORLD), WORLD) == asked


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (call("web_search"), "it takes either 'query' or 'queries'"),
        (call("web_search", query="a", queries=["b"]), "it takes either 'query' or 'queries'"),
        (call("web_search", quary="a"), "'quary' is not a parameter; did you mean 'query'?"),
        (call("web_search", queries=[]), "queries: [] should be non-empty"),
        (call("web_extractor", url="ferries"), "url: 'ferries' is not a web address (http://… or https://…)"),
        (call("web_extractor", url="http://[half"), "url: 'http://[half' is not a web address (http://… or https://…)"),
        (call("dict_memory", action="drop"), "action: 'drop' is not one of ['add', 'update', 'get', 'remove']"),
        (call("dict_memory", action="add", key="a"), "add needs 'value'"),
        (call("dict_memory", action="remove"), "remove needs 'key'"),
    ],
)
def test_wrong_arguments_are_an_ordinary_observation(asked: ToolCall, words: str) -> None:
    reply = SEARCH.harness(WORLD, [], asked)
    assert reply is not None
    assert reply.observation.text == f"Error: wrong arguments for {asked.name}: {words}"


# Results.


@given(st.lists(RESULT, max_size=10))
def test_results_survive_their_text(results: list[SearchResult]) -> None:
    assert parse_results(format_results(results)) == results


@given(st.lists(st.tuples(st.text(max_size=8), st.lists(RESULT, max_size=3)), min_size=1, max_size=4))
def test_several_searches_survive_their_text(searches: list[tuple[str, list[SearchResult]]]) -> None:
    text = format_searches(searches)
    assert parse_searches(text, [query for query, _ in searches]) == [results for _, results in searches]


def test_results_look_like_this() -> None:
    one = format_results([result(date="Mar 3, 2027"), result("https://b.example/", "B")])
    assert one == (
        "[1] https://a.example/\nTitle: A\nSnippet: About it …\nDate: Mar 3, 2027\n\n"
        "[2] https://b.example/\nTitle: B\nSnippet: About it …\nDate: N/A"
    )
    assert (
        format_searches([("x", []), ("y", [])]) == f"## Results for: x\n\n{NOTHING}\n\n## Results for: y\n\n{NOTHING}"
    )


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("N/A", True),
        ("Mar 3, 2027", True),
        ("Dec 31, 1926", True),
        ("Mar 03, 2027", False),
        ("March 3, 2027", False),
        ("Feb 30, 2027", False),
        ("2027-03-03", False),
        ("", False),
    ],
)
def test_dates(text: str, good: bool) -> None:
    assert is_date(text) is good


ASKED = call("web_search", query="ferry")
GOOD = format_results([result(), result("https://b.example/", "B", "Mar 3, 2027")])


@pytest.mark.parametrize(
    ("answer", "rules"),
    [
        (GOOD, []),
        (NOTHING, []),
        ("I found two pages.", ["result_blocks"]),
        (GOOD.replace("[2]", "[3]"), ["result_blocks"]),
        (GOOD.replace("Title: A\nSnippet: About it …", "Snippet: About it …\nTitle: A"), ["result_blocks"]),
        (GOOD.replace("\n\n", "\n"), ["result_blocks"]),
        (GOOD.replace("Date: N/A", "Date: yesterday"), ["result_dates"]),
        (GOOD.replace("https://a.example/", "a.example"), ["result_urls"]),
        (GOOD.replace("https://b.example/", "https://a.example/"), ["unique_urls", "page_agrees"]),
        (format_results([result(f"https://{n}.example/") for n in range(11)]), ["result_count"]),
        ("Error: the engine is down\nsorry", ["error_line"]),
        ("Error: the engine is down", []),
    ],
)
def test_result_rules(answer: str, rules: list[str]) -> None:
    assert failed(answer, ASKED) == rules


def test_several_queries_have_a_heading_each() -> None:
    asked = call("web_search", queries=["ferry", "fares"])
    answer = format_searches([("ferry", [result()]), ("fares", [result()])])
    assert failed(answer, asked) == []
    assert failed(GOOD, asked) == ["result_blocks"]
    assert failed(answer.replace("for: fares", "for: tickets"), asked) == ["result_blocks"]
    assert failed(format_searches([("ferry", [result()]), ("fares", [result(title="Z")])]), asked) == ["page_agrees"]


def test_a_page_agrees_with_the_results_that_pointed_to_it() -> None:
    searched = turn(ASKED, GOOD)
    read = call("web_extractor", url="https://a.example/")
    assert failed("# A\n\nText.", read, [searched]) == []
    assert failed("# Another\n\nText.", read, [searched]) == ["page_agrees"]
    assert failed("Text.", read, [searched]) == ["page_title"]
    assert failed("# Anything", call("web_extractor", url="https://c.example/"), [searched]) == []
    assert failed("Error: page not found: https://a.example/", read, [searched]) == ["page_exists"]
    faulty = NO_INDEX.model_copy(update={"control": Control(instructions=("Some pages do not load.",))})
    assert failed("Error: the page did not load: https://a.example/", read, [searched], faulty) == []


def test_results_agree_with_what_was_read_and_found_before() -> None:
    extracted = turn(call("web_extractor", url="https://a.example/"), "# First\n\nText.")
    assert failed(format_results([result(title="Second")]), ASKED, [extracted]) == ["page_agrees"]
    assert failed(format_results([result(title="First", date="May 1, 2020")]), ASKED, [extracted]) == []
    searched = turn(ASKED, GOOD)
    assert failed(format_results([result("https://b.example/", "B", "Mar 4, 2027")]), ASKED, [searched]) == [
        "page_agrees"
    ]
    assert failed("# Second", call("web_extractor", url="https://a.example/"), [extracted]) == ["page_agrees"]


def test_the_index_of_the_world_decides() -> None:
    page = world_pages(WORLD)[PETREL]
    right = format_results([result(page.url, page.title, page.date)])
    assert failed(right, ASKED, world=WORLD) == []
    assert failed(right.replace(page.date, "Sep 8, 2021"), ASKED, world=WORLD) == ["page_agrees"]
    read = call("web_extractor", url=PETREL)
    assert failed(f"# {page.title}\n\n{page.text}", read, world=WORLD) == []
    assert failed("# The Petrel", read, world=WORLD) == ["page_agrees"]
    assert failed(f"Error: page not found: {PETREL}", read, world=WORLD) == ["page_exists"]


@given(st.sampled_from(TOOLS), ARGUMENTS, st.sampled_from([GOOD, NOTHING, "# A", "Error: x"]) | st.text())
def test_rules_take_any_call_and_any_answer(tool: Any, arguments: dict[str, Any], answer: str) -> None:
    asked = ToolCall(name=tool.name, arguments=arguments)
    SEARCH.check(WORLD, [turn(asked, answer)], asked, Observation(text=answer))
    SEARCH.harness(WORLD, [turn(asked, answer)], asked)


# The memory.


def play(*calls: ToolCall) -> list[str]:
    """The answers of the memory to these calls, one after the other."""
    turns: list[Turn] = []
    for asked in calls:
        reply = SEARCH.harness(WORLD, turns, asked)
        assert reply is not None
        assert failed(reply.observation.text, asked, turns) == []
        turns.append(turn(asked, reply.observation.text))
    return [t.observation.text for t in turns if t.observation is not None]


def memory(action: str, *rest: str) -> ToolCall:
    return call("dict_memory", action=action, **dict(zip(("key", "value"), rest, strict=False)))


def test_the_memory_answers_exactly() -> None:
    assert play(
        memory("get"),
        memory("get", "ship"),
        memory("add", "ship", "SS Petrel,\nlost 1926"),
        memory("get", "ship"),
        memory("add", "ship", "another"),
        memory("update", "ship", "SS Auk"),
        memory("get", "ship"),
        memory("add", 'a "b"', "x"),
        memory("get"),
        memory("remove", "ship"),
        memory("remove", "ship"),
        memory("update", "ship", "x"),
        memory("get", 'a "b"'),
    ) == [
        "The memory is empty.",
        'Error: "ship" is not in the memory',
        'Added "ship".',
        "SS Petrel,\nlost 1926",
        'Error: "ship" is in the memory already; use update to change it',
        'Updated "ship".',
        "SS Auk",
        'Added "a \\"b\\"".',
        'Keys: "ship", "a \\"b\\""',
        'Removed "ship".',
        'Error: "ship" is not in the memory',
        'Error: "ship" is not in the memory',
        "x",
    ]


MEMORY_CALL = st.tuples(
    st.sampled_from(["add", "update", "remove", "get"]), st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"])
)


@given(st.lists(MEMORY_CALL, max_size=12))
def test_the_memory_is_a_dictionary(calls: list[tuple[str, str, str]]) -> None:
    model: dict[str, str] = {}
    for action, key, value in calls:
        if (action == "add" and key not in model) or (action == "update" and key in model):
            model[key] = value
        if action == "remove":
            model.pop(key, None)
    answers = play(
        *(memory(action, key, value) for action, key, value in calls), memory("get", "a"), memory("get", "b")
    )
    for key, answer in zip("ab", answers[-2:], strict=True):
        assert answer == model.get(key, f'Error: "{key}" is not in the memory')


def test_a_call_that_the_memory_did_not_answer_changed_nothing() -> None:
    turns = [
        turn(memory("add", "a", "1"), "Error: the memory is out of order"),
        Turn(action="dict_memory please", observation=Observation(text="?")),
        Turn(action=SEARCH.format_action(memory("add", "a", "1")), observation=None, outcome=Outcome.TIMED_OUT),
    ]
    reply = SEARCH.harness(WORLD, turns, memory("get", "a"))
    assert reply is not None
    assert reply.observation.text == 'Error: "a" is not in the memory'
    assert failed("1", memory("get", "a"), turns) == ["memory"]


# Worlds.


def test_what_a_world_lacks_is_named() -> None:
    def problems(hidden: Any) -> list[str]:
        return SEARCH.problems(WORLD.model_copy(update={"hidden_state": hidden}))

    page = {"url": "https://a.example/", "title": "A", "date": "N/A", "text": "x"}
    assert problems("Everything about ferries.") == []
    assert problems({"pages": [page]}) == []
    assert "hidden_state is empty" in problems(None)[0]
    assert "must be a list" in problems({"pages": {}})[0]
    assert problems({"pages": [page, page]}) == [
        "hidden_state.pages[1].url: an earlier page has the address https://a.example/"
    ]
    assert "hidden_state.pages[0].date" in problems({"pages": [{**page, "date": "2026-01-01"}]})[0]
    assert "hidden_state.pages[0]." in problems({"pages": [{**page, "titel": "x"}]})[0]
    assert "hidden_state.pages[0].url" in problems({"pages": [{**page, "url": "a.example"}]})[0]


@pytest.mark.parametrize(("name", "pages"), [("search-ferries", 19), ("search-phones", 26)])
def test_a_shipped_index_is_sound(name: str, pages: int) -> None:
    world = load_world(name)
    assert SEARCH.problems(world) == []
    assert len(world_pages(world)) == pages


@pytest.mark.anyio
async def test_a_simulated_engine_keeps_the_contract() -> None:
    model = ScriptedModel(lambda messages, sampling: NOTHING)

    def make() -> SimulatedEnvironment:
        return SimulatedEnvironment(WORLD, get_domain("search"), model, Profile(name="test", answer_tag=False))

    lines = ["petrel", "dict_memory action=add key=a value=b", "dict_memory action=get key=a", PETREL]
    actions = [SEARCH.from_line(line, WORLD) for line in lines]
    await check_environment(make, actions, invalid_action="petrel")


# Real documents, long pages, dates.


@given(st.dates())
def test_a_date_is_written_as_results_have_it(day: date) -> None:
    assert is_date(format_date(day))


def test_no_date_is_written_so() -> None:
    assert format_date(None) == "N/A"


@given(st.text(max_size=40), st.integers(0, 3))
def test_a_page_is_whole_or_says_how_much_of_it_is_shown(line: str, times: int) -> None:
    text = f"{line}\n" * (times * 8000 // (len(line) + 1))
    page = format_page("Title", text)
    whole = f"# Title\n\n{text}".rstrip()
    if len(whole) <= PAGE_CHARS:
        assert page == whole
        return
    shown, _, mark = page.rpartition("\n\n")
    assert whole.startswith(shown)
    assert len(shown) <= PAGE_CHARS
    assert mark == f"[Cut: characters 1–{len(shown):,} of {len(whole):,} are shown]"


def test_documents_of_a_world_have_short_forms() -> None:
    documents = ["foldoc", "./notes", "~/x.md", {"path": "a", "name": "b", "url": "https://b.example/"}]
    world = WORLD.model_copy(update={"initial_state": {"documents": documents}, "hidden_state": None})
    state = search_state(world)
    assert state is not None
    assert state.documents == (
        DocumentSource(name="foldoc"),
        DocumentSource(path="./notes"),
        DocumentSource(path="~/x.md"),
        DocumentSource(path="a", name="b", url="https://b.example/"),
    )
    assert SEARCH.problems(world) == []
    one = world.model_copy(update={"initial_state": {"documents": "./notes"}})
    assert search_state(one) == search_state(world.model_copy(update={"initial_state": {"documents": ["./notes"]}}))
    assert search_state(WORLD) is None
    wrong = world.model_copy(update={"initial_state": {"docments": []}})
    assert SEARCH.problems(wrong) == ["unknown key 'initial_state.docments'; did you mean 'documents'?"]
