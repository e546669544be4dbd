"""A real search engine over documents, with a page reader and a memory.

Nothing here is random: results, pages and the memory depend on the documents and on the actions alone.
"""

import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import monotonic
from urllib.parse import urldefrag

import anyio
from anyio import to_thread
from pydantic import JsonValue

from worldlm.core.errors import InputError, SetupError, nearest, user_path
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Limits, Observation, Origin, Step, ToolCall, Turn, Usage, World
from worldlm.domains.search import (
    MAX_RESULTS,
    SEARCH,
    DocumentSource,
    SearchResult,
    format_date,
    format_page,
    format_searches,
    queries_of,
    search_state,
    world_pages,
)
from worldlm.real.episode import Episode
from worldlm.retrieval import Document, Hit, Library, Source, Stopped, cache_folder, memory_library, open_library
from worldlm.retrieval.collections import COLLECTIONS, collection_sources, collection_version
from worldlm.retrieval.document import parse_date
from worldlm.retrieval.index import engine_version


class SearchEnvironment:
    """Satisfies `Environment`, `HasOrigin`, `Snapshot` and `Resume`.

    It searches the documents that `initial_state.documents` names, or the pages of `hidden_state.pages`.
    """

    def __init__(self, world: World):
        """Cheap: documents are read in `reset`. Raises InputError for a world of another domain or form."""
        if world.domain != "search":
            raise InputError(f"world {world.name!r} is of domain {world.domain!r}, not 'search'")
        if world.tools:
            raise InputError(f"world {world.name!r} has 'tools': a real search has its own three; leave the key out")
        if problems := SEARCH.problems(world):
            raise InputError(f"world {world.name!r}: {problems[0]}")
        state = search_state(world)
        self._documents = state.documents if state else ()
        if not self._documents and not world_pages(world):
            raise InputError(
                f"world {world.name!r} has nothing to search: it needs initial_state.documents, or hidden_state.pages"
            )
        for entry in self._documents:
            if entry.path is None and entry.name not in COLLECTIONS:
                raise InputError(
                    f"world {world.name!r}: there is no collection of documents {entry.name!r}; "
                    f"{nearest(entry.name, COLLECTIONS)} (a path has a '/' in it)"
                )
        names = [_name(entry) for entry in self._documents]
        if double := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"world {world.name!r}: two entries of documents are called {double!r}; give one a 'name'")
        self._world = world
        self._view = _view(world, self._documents, {})
        self._limits: Limits = SEARCH.limits.model_copy(update=world.limits.model_dump(exclude_none=True))
        self._lock = anyio.Lock()
        self._library: Library | None = None
        self._stop = threading.Event()
        self._episode = Episode(SEARCH, self._limits)

    @property
    def world(self) -> World:
        """The agent's view; after `reset` it says how many pages each source of documents has."""
        return self._view

    @property
    def origin(self) -> Origin:
        """Real: which engine over which documents, and their licences."""
        named = [entry.name for entry in self._documents if entry.path is None]
        versions = [f"{name} {collection_version(name)}".strip() for name in named]
        licences = list(dict.fromkeys(COLLECTIONS[name].licence for name in named))
        return Origin(
            kind="real",
            source="BM25 search (tantivy)",
            version=", ".join([engine_version(), *versions]),
            licence=", ".join(licences),
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """Documents that could not be read, one line each."""
        return self._library.problems if self._library else ()

    def document(self, url: str) -> Document | None:
        """The whole document behind an address, for whoever checks answers."""
        return self._library.index.get(url) if self._library else None

    async def reset(self, seed: int | None = None) -> Observation:
        """Read the documents, or take their index from the cache. (Nothing depends on the seed.)

        Raises SetupError when a library or documents are missing, or nothing can be read; InputError for a path that
        is not there.
        """
        async with self._lock:
            self._stop.set()
            self._stop = stop = threading.Event()
            self._library = None
            try:
                library = await to_thread.run_sync(partial(self._open, stop), abandon_on_cancel=True)
            except Stopped as error:
                raise SetupError("the environment was closed while it started") from error
            finally:
                stop.set()  # a thread that was abandoned ends by this
            self._library = library
            self._episode = Episode(SEARCH, self._limits)
            self._view = _view(self._world, self._documents, library.counts)
            return SEARCH.initial_observation(self._world)

    async def step(self, action: str) -> Step:
        """Answer one call."""
        async with self._lock:
            library = self._library
            if library is None:
                raise InputError("the environment has not been reset (or is closed): call reset first")
            call = self._episode.read(action, self._world)
            if isinstance(call, Step):
                return call
            started = monotonic()
            seconds = self._limits.step_seconds
            with anyio.move_on_after(seconds) as scope:
                text = await to_thread.run_sync(partial(_answer, library, call), abandon_on_cancel=True)
            if scope.cancelled_caught:
                detail = f"the search took longer than {seconds:g} s"
                return Step(observation=None, outcome=Outcome.TIMED_OUT, detail=detail)
            usage = Usage(seconds=monotonic() - started)
            return self._episode.finish(action, Step(observation=Observation(text=text), usage=usage))

    async def close(self) -> None:
        """Forget everything. The index stays in the cache."""
        self._stop.set()
        self._library = None
        self._episode = Episode(SEARCH, self._limits)

    async def snapshot(self) -> dict[str, JsonValue]:
        """The turns so far: what the memory holds follows from them."""
        return {"turns": [turn.model_dump(mode="json") for turn in self._episode.turns]}

    async def restore(self, snapshot: dict[str, JsonValue]) -> None:
        """Go back to the turns of `snapshot`."""
        turns = snapshot["turns"]
        assert isinstance(turns, list)
        self._episode.turns = [Turn.model_validate(turn) for turn in turns]

    async def resume(self, initial: Observation, turns: Sequence[Turn], seed: int | None = None) -> None:
        """Start, and take `turns` as what happened."""
        await self.reset(seed)
        self._episode.turns = list(turns)

    def _open(self, stop: threading.Event) -> Library:
        if self._documents:
            return open_library(_sources(self._documents), cache_folder(), stop)
        pages = world_pages(self._world).values()
        return memory_library("pages", [Document(p.url, p.title, p.text, parse_date(p.date)) for p in pages])


# Answers.


def _answer(library: Library, call: ToolCall) -> str:
    """What `web_search` or `web_extractor` gives; their arguments have been checked."""
    if call.name == "web_search":
        queries = queries_of(call)
        return format_searches([(query, [_result(hit) for hit in _search(library, query)]) for query in queries])
    url: str = call.arguments["url"]
    document = library.index.get(urldefrag(url).url)
    return f"Error: page not found: {url}" if document is None else format_page(document.title, document.text)


def _search(library: Library, query: str) -> list[Hit]:
    return library.index.search(query, MAX_RESULTS)


def _result(hit: Hit) -> SearchResult:
    document = hit.document
    return SearchResult(url=document.url, title=document.title, snippet=hit.snippet, date=format_date(document.date))


# Sources.


def _sources(documents: Sequence[DocumentSource]) -> list[Source]:
    """Raises SetupError that names every package that is missing."""
    packaged = {source.name: source for source in collection_sources([e.name for e in documents if e.path is None])}
    sources = []
    for entry in documents:
        if entry.path is not None:
            sources.append(Source(_name(entry), _url(entry), user_path(entry.path), entry.files or "*"))
        else:
            source = packaged[entry.name]
            sources.append(replace(source, url=_url(entry), pattern=entry.files or source.pattern))
    return sources


def _name(entry: DocumentSource) -> str:
    """A source's name; that of a path is its last part, as far as an address can hold it."""
    if entry.name or entry.path is None:
        return entry.name
    stem = user_path(entry.path).resolve().name.partition(".")[0]
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "documents"


def _url(entry: DocumentSource) -> str:
    return entry.url or (COLLECTIONS[entry.name].url if entry.path is None else f"https://{_name(entry)}.example/")


def _view(world: World, documents: Sequence[DocumentSource], counts: dict[str, int]) -> World:
    """The world without what the agent must not see, and without what is of this machine alone."""
    view = world.agent_view()
    if not documents:
        return view
    entries = [{"name": _name(entry), "url": _url(entry)} for entry in documents]
    known = [{**entry, "pages": counts[entry["name"]]} if entry["name"] in counts else entry for entry in entries]
    return view.model_copy(update={"initial_state": {"documents": known}})


__all__ = ["SearchEnvironment"]
