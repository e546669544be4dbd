"""Search: a search engine, a page reader and a small memory.

An action is one call, `{"name": tool, "arguments": {…}}`. Every observation is text in these exact forms, for
a simulated and for a real index alike.

`web_search`: at most ten results, blocks of four lines with an empty line between them. `Date` is `Mon D, YYYY`
or `N/A`. Several queries are answered in order, each under a heading. Nothing found: `No results found.`

    ## Results for: harbour tariffs

    [1] https://example.org/tariffs
    Title: Harbour tariffs
    Snippet: What each class of ship pays …
    Date: Mar 3, 2027

`web_extractor`: the page as Markdown; its first line is `# ` and the title that results give for this address. Of
a page of more than 16,000 characters that many are given, up to the end of a line, and the last line says so:

    [Cut: characters 1–15,871 of 45,310 are shown]

`dict_memory` is answered by the harness, exactly, from what was stored before: `Added "key".`, `Updated "key".`,
`Removed "key".`, or the stored value as it stands; a `get` without a key lists the keys (`Keys: "a", "b"`, or
`The memory is empty.`).

Whatever fails is one line that begins with `Error: `.

A world may hold its index in `hidden_state.pages`, a list of `{url, title, date, text}`; then titles and dates of
these pages are checked against it. Or `initial_state.documents` says what a real index is made of, as a list of

- the name of a collection (`python`, `foldoc`, `git`, …; one that is not there says how to get it),
- the path of a file or folder, which has a `/` in it or begins with `.` or `~`,
- a mapping: `path`, `name`, `url` (the address under which its files stand; `https://NAME.example/` by default) and
  `files` (which files of a folder: `*.md`); `pages`, how many there are, is filled in when the environment starts.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator

from worldlm.core.errors import ActionError, InputError
from worldlm.core.jsonl import describe
from worldlm.core.text import canonical_json
from worldlm.core.types import Check, Limits, Observation, Text, Tool, ToolCall, Turn, Value, World
from worldlm.domains.domain import (
    Domain,
    HarnessReply,
    bad_arguments,
    call_from_line,
    format_tool_call,
    observation_text,
    parse_tool_call,
    read_state,
    state_text,
    text_observation,
)

MAX_RESULTS = 10
"""Results that one query gives at most."""
NOTHING = "No results found."
PAGE_CHARS = 16_000
"""Characters of a page that are given at most."""
LOOK_BACK = 200
"""Turns that a rule looks back for what was said of a page."""

TOOLS: tuple[Tool, ...] = (
    Tool(
        name="web_search",
        description="Search the web. Give one query, or several to be answered one after the other.",
        parameters={
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "description": "What to look for"},
                "queries": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1},
                    "minItems": 1,
                    "description": "Several things to look for, in place of 'query'",
                },
            },
            "additionalProperties": False,
        },
    ),
    Tool(
        name="web_extractor",
        description="Read a page as Markdown.",
        parameters={
            "type": "object",
            "properties": {"url": {"type": "string", "description": "The page's address, http:// or https://"}},
            "required": ["url"],
            "additionalProperties": False,
        },
    ),
    Tool(
        name="dict_memory",
        description="Keep notes by key for the length of this session. 'get' without a key lists the keys.",
        parameters={
            "type": "object",
            "properties": {
                "action": {"enum": ["add", "update", "get", "remove"], "description": "What to do"},
                "key": {"type": "string", "description": "The name of the note"},
                "value": {"type": "string", "minLength": 1, "description": "The note, for add and update"},
            },
            "required": ["action"],
            "additionalProperties": False,
        },
    ),
)
"""The tools of a world that defines none."""

_BY_NAME = {tool.name: tool for tool in TOOLS}


# The forms of results.


class SearchResult(Value):
    """One result. Title, snippet and date are one line each."""

    url: Text = Field(pattern=r"^\S+$")
    title: Text = Field(pattern=r"^[^\n]+$")
    snippet: Text = Field(pattern=r"^[^\n]+$")
    date: Text = Field(default="N/A", pattern=r"^[^\n]+$")
    """`Mon D, YYYY` or `N/A`."""


class Page(Value):
    """A page of a world's index."""

    url: Text = Field(pattern=r"^https?://\S+$")
    title: Text = Field(pattern=r"^[^\n]+$")
    date: Text = "N/A"
    text: Text = ""


class DocumentSource(Value):
    """Documents that a real index is made of: a collection by its name, or a file or folder by its path."""

    name: Text = Field(default="", pattern=r"^[a-z0-9._-]*$")
    path: Text | None = None
    url: Text | None = Field(default=None, pattern=r"^https?://\S+/$")
    files: Text | None = Field(default=None, min_length=1)
    pages: int | None = None

    @model_validator(mode="after")
    def _has_a_name(self) -> "DocumentSource":
        if not self.name and not self.path:
            raise ValueError("it has neither 'name' (of a collection) nor 'path' (of a file or folder)")
        return self


class SearchState(Value):
    """What `World.initial_state` holds in this domain when it is a mapping."""

    documents: tuple[DocumentSource, ...] = Field(default=(), min_length=1)

    @field_validator("documents", mode="before")
    @classmethod
    def _short_form(cls, documents: object) -> object:
        entries = documents if isinstance(documents, list | tuple) else [documents]
        return [_source(entry) if isinstance(entry, str) else entry for entry in entries]


def _source(text: str) -> dict[str, str]:
    return {"path": text} if "/" in text or text.startswith((".", "~")) else {"name": text}


def search_state(world: World) -> SearchState | None:
    """What a real index of this world is made of; None where the world does not say.

    Raises InputError that names the key.
    """
    if not isinstance(world.initial_state, Mapping) or not world.initial_state:
        return None
    return read_state(world, SearchState)


_BLOCK = re.compile(r"\[([1-9]\d{0,2})\] (\S+)\nTitle: ([^\n]+)\nSnippet: ([^\n]+)\nDate: ([^\n]+)")
_FIELDS = ("[N] URL", "Title: …", "Snippet: …", "Date: …")


def format_results(results: Sequence[SearchResult]) -> str:
    """The blocks of one query's results; `parse_results` gives them back."""
    if not results:
        return NOTHING
    return "\n\n".join(
        f"[{number}] {item.url}\nTitle: {item.title}\nSnippet: {item.snippet}\nDate: {item.date}"
        for number, item in enumerate(results, 1)
    )


def parse_results(text: str) -> list[SearchResult]:
    """The results that a text states. Raises ValueError that names the block that is wrong."""
    if text == NOTHING:
        return []
    results = []
    for number, block in enumerate(text.split("\n\n"), 1):
        match = _BLOCK.fullmatch(block)
        if match is None:
            raise ValueError(f"block {number} is not the four lines {', '.join(map(repr, _FIELDS))}")
        if int(match[1]) != number:
            raise ValueError(f"block {number} has the number [{match[1]}]")
        results.append(SearchResult(url=match[2], title=match[3], snippet=match[4], date=match[5]))
    return results


def format_searches(searches: Sequence[tuple[str, Sequence[SearchResult]]]) -> str:
    """The answer to several queries, each with its results; one alone has no heading."""
    if len(searches) == 1:
        return format_results(searches[0][1])
    return "\n\n".join(f"{heading(query)}\n\n{format_results(results)}" for query, results in searches)


def parse_searches(text: str, queries: Sequence[str]) -> list[list[SearchResult]]:
    """The results for each of these queries. Raises ValueError that names what is wrong."""
    if len(queries) == 1:
        return [parse_results(text)]
    found = []
    for number, query in enumerate(queries):
        head = heading(query) + "\n\n"
        if not text.startswith(head):
            raise ValueError(f"the heading {heading(query)!r} with an empty line after it is missing")
        body = text[len(head) :]
        more = number + 1 < len(queries)
        # The next heading stands where a block begins; a block never begins so.
        end = body.find(f"\n\n{heading(queries[number + 1])}\n\n") if more else len(body)
        if end < 0:
            raise ValueError(f"the heading {heading(queries[number + 1])!r} with empty lines around it is missing")
        found.append(parse_results(body[:end]))
        text = body[end + 2 :]
    return found


def format_page(title: str, text: str) -> str:
    """A page as `web_extractor` gives it."""
    page = f"# {title}\n\n{text}".rstrip()
    if len(page) <= PAGE_CHARS:
        return page
    end = page.rfind("\n", PAGE_CHARS // 2, PAGE_CHARS)
    shown = page[: end if end > 0 else PAGE_CHARS].rstrip()
    return f"{shown}\n\n[Cut: characters 1–{len(shown):,} of {len(page):,} are shown]"


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def format_date(day: date | None) -> str:
    """A date as results give it: `Mon D, YYYY`, or `N/A`."""
    return f"{_MONTHS[day.month - 1]} {day.day}, {day.year:04}" if day else "N/A"


def heading(query: str) -> str:
    """What stands above the results of one of several queries."""
    return f"## Results for: {' '.join(query.split())}"


def is_date(text: str) -> bool:
    """Whether a text is a date as results give it: `Mon D, YYYY` or `N/A`."""
    if text == "N/A":
        return True
    if not re.fullmatch(r"[A-Z][a-z]{2} [1-9]\d?, \d{4}", text):
        return False
    try:
        datetime.strptime(text, "%b %d, %Y")
    except ValueError:
        return False
    return True


def is_address(text: str) -> bool:
    """Whether a text is an absolute http or https address."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not re.search(r"\s", text)


def queries_of(call: ToolCall) -> list[str]:
    """The queries of a `web_search`, in order."""
    arguments = call.arguments
    return [arguments["query"]] if "query" in arguments else list(arguments.get("queries", []))


def world_pages(world: World) -> dict[str, Page]:
    """The index in the world's hidden state, by address; empty where the world has none in that form.

    Raises pydantic's ValidationError for an entry that is no page.
    """
    state = world.hidden_state
    entries = state.get("pages", []) if isinstance(state, dict) else []
    pages = [Page.model_validate(entry) for entry in entries] if isinstance(entries, list) else []
    return {page.url: page for page in pages}


# The domain.


def tools(world: World) -> tuple[Tool, ...]:
    """The world's own tools, or search, extraction and memory."""
    return world.tools or TOOLS


def parse_action(text: str, world: World) -> ToolCall:
    """One call of a known tool."""
    return parse_tool_call(text, [tool.name for tool in tools(world)])


def from_line(line: str, world: World) -> str:
    """An address is read, `tool key=value` calls a tool, an object is an action, other words are searched for."""
    stripped = line.strip()
    if re.match(r"https?://", stripped):
        return canonical_json({"name": "web_extractor", "arguments": {"url": stripped}})
    if not stripped or stripped.startswith("{") or stripped.split(None, 1)[0] in [tool.name for tool in tools(world)]:
        return call_from_line(line, tools(world))
    return canonical_json({"name": "web_search", "arguments": {"query": stripped}})


def problems(world: World) -> list[str]:
    """A search world needs something to find: documents, or pages or a text about pages in its hidden state."""
    if not world.hidden_state:
        try:
            if search_state(world) is not None:
                return []
        except InputError as error:
            return [str(error)]
        return ["hidden_state is empty: a search world needs 'pages' (url, title, date, text), or a text about them"]
    if not isinstance(world.hidden_state, dict) or "pages" not in world.hidden_state:
        return []
    entries = world.hidden_state["pages"]
    if not isinstance(entries, list) or not entries:
        return ["hidden_state.pages must be a list of pages (url, title, date, text)"]
    found, urls = [], set()
    for index, entry in enumerate(entries):
        where = f"hidden_state.pages[{index}]"
        try:
            page = Page.model_validate(entry)
        except ValidationError as error:
            found.append(f"{where}.{describe(error)}")
            continue
        if not is_address(page.url):
            found.append(f"{where}.url: {page.url!r} is not a web address")
        if page.url in urls:
            found.append(f"{where}.url: an earlier page has the address {page.url}")
        if not is_date(page.date):
            found.append(f"{where}.date: {page.date!r} is neither 'Mon D, YYYY' nor 'N/A'")
        urls.add(page.url)
    return found


def initial_observation(world: World) -> Observation:
    """What stands ready, unless the world says otherwise."""
    names = ", ".join(tool.name for tool in tools(world))
    return Observation(text=world.initial_observation or f"Ready. Tools: {names}")


def harness(world: World, turns: Sequence[Turn], call: ToolCall) -> HarnessReply | None:
    """The memory, and wrong arguments to a default tool: their answers need no index."""
    if world.tools:
        return None
    if problem := argument_problem(call):
        return HarnessReply(Observation(text=f"Error: wrong arguments for {call.name}: {problem}"))
    if call.name != "dict_memory":
        return None
    _, text = _remember(_memory(turns), call)
    return HarnessReply(Observation(text=text))


def argument_problem(call: ToolCall) -> str | None:
    """What is wrong with the arguments of a call of a default tool, in words; None when nothing is."""
    if problem := bad_arguments(call, _BY_NAME[call.name]):
        return problem
    arguments = call.arguments
    if call.name == "web_search" and ("query" in arguments) == ("queries" in arguments):
        return "it takes either 'query' or 'queries'"
    if call.name == "web_extractor" and not is_address(arguments["url"]):
        return f"url: {arguments['url']!r} is not a web address (http://… or https://…)"
    if call.name == "dict_memory":
        if "key" not in arguments and arguments["action"] != "get":
            return f"{arguments['action']} needs 'key'"
        if "value" not in arguments and arguments["action"] in ("add", "update"):
            return f"{arguments['action']} needs 'value'"
    return None


def _remember(memory: dict[str, str], call: ToolCall) -> tuple[dict[str, str], str]:
    """The memory after a valid call of `dict_memory`, and the answer."""
    action, key, value = (call.arguments.get(name) for name in ("action", "key", "value"))
    if key is None:
        return memory, f"Keys: {', '.join(map(_quoted, memory))}" if memory else "The memory is empty."
    if action == "add":
        if key in memory:
            return memory, f"Error: {_quoted(key)} is in the memory already; use update to change it"
        return {**memory, key: str(value)}, f"Added {_quoted(key)}."
    if key not in memory:
        return memory, f"Error: {_quoted(key)} is not in the memory"
    if action == "update":
        return {**memory, key: str(value)}, f"Updated {_quoted(key)}."
    if action == "remove":
        return {k: v for k, v in memory.items() if k != key}, f"Removed {_quoted(key)}."
    return memory, memory[key]


def _memory(turns: Sequence[Turn]) -> dict[str, str]:
    """What the turns left in the memory. One whose answer was another than the memory's changed nothing."""
    memory: dict[str, str] = {}
    for turn in turns:
        if turn.observation is None or "dict_memory" not in turn.action:
            continue
        call = _past_call(turn.action)
        if call is None or call.name != "dict_memory":
            continue
        after, text = _remember(memory, call)
        if turn.observation.text == text:
            memory = after
    return memory


def _quoted(key: str) -> str:
    return canonical_json(key)


@lru_cache(maxsize=1024)
def _past_call(action: str) -> ToolCall | None:
    """The call that an action of a default tool was; None when it was none, or had wrong arguments."""
    try:
        call = parse_tool_call(action, tuple(_BY_NAME))
    except ActionError:
        return None
    return None if argument_problem(call) else call


def check(world: World, turns: Sequence[Turn], call: ToolCall, observation: Observation) -> tuple[Check, ...]:
    """The form of results and pages, and their agreement with the index and with what was said before.

    Only results of the default tools are checked: the forms of others are not known.
    """
    if world.tools or argument_problem(call):
        return ()
    text = observation.text
    if call.name == "dict_memory":
        expected = _remember(_memory(turns), call)[1]
        return (Check(rule="memory", passed=text == expected, message=f"the memory answers: {expected}"),)
    known = _known_pages(world, turns)
    if text.startswith("Error: "):
        checks = [Check(rule="error_line", passed="\n" not in text, message="an error is one line")]
        if call.name == "web_extractor" and call.arguments["url"] in known and world.control is None:
            checks.append(Check(rule="page_exists", passed=False, message="the address is known, so the page is there"))
        return tuple(checks)
    if call.name == "web_extractor":
        return _check_page(known, call.arguments["url"], text)
    return _check_results(known, queries_of(call), text)


def _check_results(known: dict[str, tuple[str, str | None]], queries: Sequence[str], text: str) -> tuple[Check, ...]:
    try:
        searches = parse_searches(text, queries)
    except ValueError as error:
        return (Check(rule="result_blocks", passed=False, message=str(error)),)
    results = [item for found in searches for item in found]
    most = max(map(len, searches))
    bad_dates = [item.date for item in results if not is_date(item.date)]
    bad_urls = [item.url for item in results if not is_address(item.url)]
    double = [item.url for found in searches for item in found if sum(item.url == other.url for other in found) > 1]
    said: dict[str, tuple[str, str | None]] = dict(known)
    quarrels = []
    for item in results:
        title, date = said.setdefault(item.url, (item.title, item.date))
        if item.title != title or (date is not None and item.date != date):
            quarrels.append(f"{item.url} is {title!r}" + (f" of {date}" if date else ""))
    return (
        Check(rule="result_blocks", passed=True),
        _check_none("result_count", [f"{most} results for a query"] if most > MAX_RESULTS else [], "at most ten"),
        _check_none("result_dates", bad_dates, "a date is 'Mon D, YYYY' or 'N/A'"),
        _check_none("result_urls", bad_urls, "not a web address"),
        _check_none("unique_urls", double, "a query gives each page once"),
        _check_none("page_agrees", quarrels, "title and date of a page do not change"),
    )


def _check_page(known: dict[str, tuple[str, str | None]], url: str, text: str) -> tuple[Check, ...]:
    first = text.split("\n", 1)[0]
    has_title = first.startswith("# ") and bool(first[2:].strip())
    checks = [Check(rule="page_title", passed=has_title, message="a page begins with a line '# ' and its title")]
    if has_title and url in known:
        checks.append(
            Check(
                rule="page_agrees",
                passed=first[2:] == known[url][0],
                message=f"this page's title is {known[url][0]!r}",
            )
        )
    return tuple(checks)


def _check_none(rule: str, faults: Sequence[str], message: str) -> Check:
    return Check(rule=rule, passed=not faults, message=f"{message}: {faults[0]}" if faults else "")


def _known_pages(world: World, turns: Sequence[Turn]) -> dict[str, tuple[str, str | None]]:
    """Title and, where it is known, date of each page: as the index has it, else as it was first said to be."""
    known: dict[str, tuple[str, str | None]] = {}
    state = world.hidden_state
    entries = state.get("pages") if isinstance(state, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("title"), str):
            known[str(entry.get("url"))] = (entry["title"], entry.get("date", "N/A"))
    for turn in turns[-LOOK_BACK:]:
        if turn.observation is None:
            continue
        for url, said_title, said_date in _said(turn.action, turn.observation.text):
            title, date = known.get(url, (said_title, None))
            known[url] = (title, date or said_date)
    return known


@lru_cache(maxsize=1024)
def _said(action: str, text: str) -> tuple[tuple[str, str, str | None], ...]:
    """Address, title and date (None where there is none) of the pages that a turn tells of."""
    call = _past_call(action)
    if call is not None and call.name == "web_extractor" and text.startswith("# "):
        return ((call.arguments["url"], text.split("\n", 1)[0][2:], None),)
    if call is None or call.name != "web_search":
        return ()
    try:
        searches = parse_searches(text, queries_of(call))
    except ValueError:
        return ()
    return tuple((item.url, item.title, item.date) for found in searches for item in found)


SEARCH = Domain(
    name="search",
    summary="A search engine, a page reader and a memory; one tool call in, its result out.",
    limits=Limits(turns=200, step_seconds=60, episode_seconds=3600),
    tools=tools,
    parse_action=parse_action,
    format_action=format_tool_call,
    from_line=from_line,
    problems=problems,
    initial_observation=initial_observation,
    render_state=state_text,
    read_observation=text_observation,
    write_observation=observation_text,
    check=check,
    harness=harness,
)
