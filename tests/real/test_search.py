"""A real search over a small folder, over pages of a world, and over what the machine carries."""

import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from worldlm.core.errors import InputError, SetupError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Environment, HasOrigin, Resume, Snapshot
from worldlm.core.types import Limits, Observation, World
from worldlm.domains.search import NOTHING, PAGE_CHARS, SEARCH, is_date, parse_results, parse_searches
from worldlm.real import make_environment, world_files
from worldlm.real.search import SearchEnvironment
from worldlm.retrieval import Document
from worldlm.retrieval.collections import COLLECTIONS
from worldlm.simulate import load_world
from worldlm.testing import check_environment

pytestmark = pytest.mark.anyio
PAGES = {
    "ferries.md": "---\ndate: 2021-09-09\n---\n# Ferries of the isles\n\nThe ferry runs daily. It carries 61 people.\n",
    "guide/fares.html": "<title>Fares</title><p>A day ticket for the <a href='../ferries.md'>ferry</a> is four crowns.",
    "log.txt": "Log book\n\n" + "Fog and rain over the sound.\n" * 900 + "Then the Petrel sank.\n",
    "news.jsonl": '{"url": "https://news.example/1", "title":"New ferry","text":"It sails.","date":"2024-05-01"}\n{\n',
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDLM_HOME", str(tmp_path_factory.getbasetemp() / "worldlm-home"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in PAGES.items():
        path = tmp_path / "Isles" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        os.utime(path, (1709208000, 1709208000))
    return tmp_path / "Isles"


def world_of(folder: Path, **more: Any) -> World:
    state = {"documents": [str(folder)]}
    return World.model_validate({"name": "isles", "domain": "search", "initial_state": state, **more})


def call(name: str, /, **arguments: Any) -> str:
    return json.dumps({"name": name, "arguments": arguments})


@asynccontextmanager
async def opened(world: World) -> AsyncIterator[SearchEnvironment]:
    environment = SearchEnvironment(world)
    try:
        await environment.reset()
        yield environment
    finally:
        await environment.close()


async def said(environment: SearchEnvironment, name: str, /, **arguments: Any) -> str:
    step = await environment.step(call(name, **arguments))
    assert step.outcome is Outcome.OK, step.detail
    assert step.observation is not None
    return step.observation.text


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


# What it is.


async def test_it_keeps_the_contract_of_an_environment(folder: Path) -> None:
    actions = [
        call("web_search", query="ferry"),
        call("dict_memory", action="add", key="a", value="b"),
        call("web_extractor", url="https://isles.example/ferries.md"),
        call("dict_memory", action="get", key="a"),
        call("web_search", queries=["fares", "zzz"]),
    ]
    found = await check_environment(
        lambda: SearchEnvironment(world_of(folder)), actions, invalid_action='{"name": "search", "arguments": {}}'
    )
    assert found.agreement == 1.0
    assert set(found.skipped) == {"streaming"}


async def test_it_is_what_its_protocols_say_and_is_made_by_its_domain(folder: Path) -> None:
    environment = make_environment(world_of(folder))
    for protocol in (Environment, HasOrigin, Snapshot, Resume):
        assert isinstance(environment, protocol)
    assert isinstance(environment, SearchEnvironment)
    assert environment.origin.kind == "real"
    assert environment.origin.version.startswith("tantivy ")
    assert await environment.reset() == Observation(text="Ready. Tools: web_search, web_extractor, dict_memory")
    await environment.close()


async def test_the_world_tells_of_the_documents_and_nothing_of_this_machine(folder: Path) -> None:
    async with opened(world_of(folder)) as environment:
        assert environment.world.initial_state == {
            "documents": [{"name": "isles", "url": "https://isles.example/", "pages": 4}]
        }
        assert str(folder.parent) not in environment.world.model_dump_json()
        assert environment.problems == (
            "isles: news.jsonl:2: Expecting property name enclosed in double quotes: line 2 column 1 (char 2)",
        )
    assert str(folder.parent) not in SearchEnvironment(world_of(folder)).world.model_dump_json()


# Answers.


async def test_results_look_like_this(folder: Path) -> None:
    async with opened(world_of(folder)) as environment:
        assert await said(environment, "web_search", query="ferry") == (
            "[1] https://isles.example/ferries.md\nTitle: Ferries of the isles\n"
            "Snippet: The ferry runs daily. It carries 61 people.\nDate: Sep 9, 2021\n\n"
            "[2] https://news.example/1\nTitle: New ferry\nSnippet: It sails.\nDate: May 1, 2024\n\n"
            "[3] https://isles.example/guide/fares.html\nTitle: Fares\n"
            "Snippet: A day ticket for the ferry is four crowns.\nDate: Feb 29, 2024"
        )
        assert await said(environment, "web_search", query="zeppelin") == NOTHING
        assert await said(environment, "web_search", queries=["zeppelin", "sails"]) == (
            f"## Results for: zeppelin\n\n{NOTHING}\n\n## Results for: sails\n\n"
            "[1] https://news.example/1\nTitle: New ferry\nSnippet: It sails.\nDate: May 1, 2024"
        )


async def test_a_page_is_read_and_its_links_lead_on(folder: Path) -> None:
    async with opened(world_of(folder)) as environment:
        text = await said(environment, "web_extractor", url="https://isles.example/guide/fares.html#prices")
        assert text == ("# Fares\n\nA day ticket for the [ferry](https://isles.example/ferries.md) is four crowns.")
        text = await said(environment, "web_extractor", url="https://isles.example/ferries.md")
        assert text == "# Ferries of the isles\n\nThe ferry runs daily. It carries 61 people."


async def test_a_long_page_is_cut_and_says_so(folder: Path) -> None:
    async with opened(world_of(folder)) as environment:
        text = await said(environment, "web_extractor", url="https://isles.example/log.txt")
        shown, _, mark = text.rpartition("\n\n")
        assert len(shown) <= PAGE_CHARS
        assert shown.endswith("Fog and rain over the sound.")
        assert re.fullmatch(rf"\[Cut: characters 1–{len(shown):,} of 26,\d{{3}} are shown\]", mark)


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("web_extractor", {"url": "https://isles.example/none"}, "Error: page not found: https://isles.example/none"),
        (
            "web_extractor",
            {"url": "ferries"},
            "Error: wrong arguments for web_extractor: url: 'ferries' is not a web address",
        ),
        ("web_search", {"query": ""}, "Error: wrong arguments for web_search: query: '' should be non-empty"),
        ("web_search", {"query": "a", "queries": ["b"]}, "Error: wrong arguments for web_search: it takes either"),
        ("dict_memory", {"action": "get", "key": "x"}, 'Error: "x" is not in the memory'),
    ],
)
async def test_what_fails_is_one_line(folder: Path, name: str, arguments: dict[str, Any], answer: str) -> None:
    async with opened(world_of(folder)) as environment:
        text = await said(environment, name, **arguments)
        assert text.startswith(answer)
        assert "\n" not in text


async def test_the_memory_keeps_until_reset(folder: Path) -> None:
    async with opened(world_of(folder)) as environment:
        assert await said(environment, "dict_memory", action="add", key="ship", value="Petrel") == 'Added "ship".'
        assert await said(environment, "dict_memory", action="get") == 'Keys: "ship"'
        await environment.reset()
        assert await said(environment, "dict_memory", action="get") == "The memory is empty."


async def test_the_last_turn_of_a_limit_is_truncated(folder: Path) -> None:
    async with opened(world_of(folder, limits={"turns": 2})) as environment:
        steps = [await environment.step(call("dict_memory", action="get")) for _ in range(2)]
        assert [step.truncated for step in steps] == [False, True]


async def test_a_search_that_takes_too_long_is_timed_out(folder: Path) -> None:
    world = world_of(folder, limits=Limits(step_seconds=1e-4).model_dump(exclude_none=True))
    async with opened(world) as environment:
        step = await environment.step(call("web_search", queries=["ferry"] * 2000))
        assert (step.outcome, step.observation) == (Outcome.TIMED_OUT, None)
        assert "took longer than 0.0001 s" in str(step.detail)


async def test_closing_ends_a_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(path: Path, base: str, pattern: str) -> Any:
        number = 0
        while True:
            number += 1
            yield Document(f"{base}{number}", "x", "y")

    monkeypatch.setattr("worldlm.retrieval.library.read_path", endless)
    environment = SearchEnvironment(world_of(folder))

    async def close_soon() -> None:
        await anyio.sleep(0.1)
        await environment.close()

    async with anyio.create_task_group() as group:
        group.start_soon(close_soon)
        with pytest.raises(SetupError, match="closed while it started"):
            await environment.reset()
    with anyio.move_on_after(0.1) as scope:
        await environment.reset()
    assert scope.cancelled_caught


# Worlds.


async def test_pages_of_a_world_are_searched_and_stay_hidden() -> None:
    async with opened(load_world("search-ferries")) as environment:
        assert environment.world.hidden_state is None
        results = parse_results(await said(environment, "web_search", query="SS Petrel"))
        assert results[0].url == "https://ansteymuseum.example/ships/petrel"
        assert results[0].date == "Sep 9, 2021"
        page = await said(environment, "web_extractor", url=results[0].url)
        assert page.startswith(f"# {results[0].title}\n\n")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"domain": "mcp"}, "is of domain 'mcp', not 'search'"),
        (
            {"initial_state": {"document": ["python"]}},
            "unknown key 'initial_state.document'; did you mean 'documents'?",
        ),
        (
            {"initial_state": {"documents": [{"pth": "."}]}},
            "unknown key 'initial_state.documents.0.pth'; did you mean 'path'?",
        ),
        ({"initial_state": {"documents": []}}, "initial_state.documents"),
        (
            {"initial_state": {"documents": [{"url": "https://a.example/"}]}},
            "it has neither 'name' (of a collection) nor 'path'",
        ),
        (
            {"initial_state": {"documents": ["pithon"]}},
            "no collection of documents 'pithon'; did you mean 'python'? (a path has a '/' in it)",
        ),
        (
            {"initial_state": {"documents": ["./a", "/b/a"]}},
            "two entries of documents are called 'a'; give one a 'name'",
        ),
        ({"initial_state": ""}, "hidden_state is empty"),
        ({"initial_state": "", "hidden_state": "Some ferries."}, "has nothing to search"),
        ({"tools": [{"name": "find"}]}, "a real search has its own three"),
    ],
)
def test_a_wrong_world_is_refused_with_the_cure(changes: dict[str, Any], words: str) -> None:
    world = World.model_validate({**world_of(Path("/x")).model_dump(mode="json"), **changes})
    with pytest.raises(InputError) as caught:
        SearchEnvironment(world)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="documents 'none': there is no file or folder"):
        await SearchEnvironment(world_of(tmp_path / "none")).reset()


async def test_names_and_addresses_can_be_chosen(folder: Path) -> None:
    entry = {"path": str(folder), "name": "sea", "url": "https://sea.example/docs/", "files": "*.md"}
    async with opened(world_of(folder, initial_state={"documents": [entry]})) as environment:
        results = parse_results(await said(environment, "web_search", query="ferries"))
        assert [result.url for result in results] == ["https://sea.example/docs/ferries.md"]


# The shipped worlds.


def shipped() -> list[str]:
    return [name for name in world_files() if name.startswith("search-")]


def available(name: str) -> World:
    """A shipped world; skips, and names the packages, where its documents are not installed."""
    world = load_world(str(world_files()[name]))
    assert isinstance(world.initial_state, dict)
    kinds = [COLLECTIONS[document] for document in world.initial_state["documents"]]
    missing = [kind.package for kind in kinds if kind.package and kind.find() is None]
    if missing:
        pytest.skip(f"needs documents: apt-get install {' '.join(map(str, missing))}")
    return world


def test_one_shipped_world_needs_no_package() -> None:
    world = load_world(str(world_files()["search-python"]))
    assert world.initial_state == {"documents": ["python"]}
    assert COLLECTIONS["python"].package is None


BIG = ("search-computing", "search-postgresql", "search-python", "search-words")
"""Worlds whose index takes long to build."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in BIG else []) for name in shipped()]
)
async def test_pages_agree_with_the_results_that_point_to_them(name: str) -> None:
    """Every word of a snippet stands on the page; title and date are the page's; the domain's rules hold."""
    async with opened(available(name)) as environment:
        turns = []
        queries = ["memory", "how to delete a file", '"as well as" order', "number of words in the language", "qwzx"]
        for query in queries:
            action = call("web_search", query=query)
            step = await environment.step(action)
            turns.append(step.turn(action))
            assert step.observation is not None
            for result in parse_searches(step.observation.text, [query])[0]:
                document = environment.document(result.url)
                assert document is not None
                assert is_date(result.date)
                assert result.title == document.title
                assert words(result.snippet) <= words(f"{document.title} {document.text}")
                action = call("web_extractor", url=result.url)
                step = await environment.step(action)
                turns.append(step.turn(action))
                assert step.observation is not None
                assert step.observation.text.startswith(f"# {result.title}\n")
        for index, turn in enumerate(turns):
            assert turn.observation is not None
            asked = SEARCH.parse_action(turn.action, environment.world)
            checks = SEARCH.check(environment.world, turns[:index], asked, turn.observation)
            assert [check for check in checks if not check.passed] == []
        assert turns[-1].observation == Observation(text=NOTHING)
        assert environment.problems == ()
        assert "/usr/" not in environment.world.model_dump_json()
