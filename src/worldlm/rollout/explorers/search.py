"""An explorer that looks things up as agents do.

It searches, reads snippets, opens results, takes words out of pages for the next query, compares, keeps notes,
comes back to pages and queries of before, and makes mistakes on purpose. What it asks comes out of what it has seen;
only its first queries are of general words and of the world's own context.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator
from random import Random
from typing import Any, TypeVar
from urllib.parse import urldefrag, urlsplit

from worldlm.core.text import canonical_json
from worldlm.core.types import Observation, Turn, World
from worldlm.domains.search import SearchResult, parse_searches
from worldlm.rollout.explorers.explorer import Act, Behaviour

T = TypeVar("T")
Doing = Generator[Act, Turn, T]

GOALS = (4, 9)
"""How many goals an episode has."""
ODD = 0.1
"""How often something odd is done between two sensible actions (some goals have oddities of their own)."""

# Words to start from, before anything has been seen.
_GENERAL: tuple[str, ...] = tuple(
    """
    access address array backup binary branch buffer cache character class clock code color command compression copy
    date default delete device directory error event exception expression file format function gold group hash heat
    history image index input integer iterator key language law library light limit list lock log loop memory
    message metal method module money name network number object operator option output package parser password path
    pattern permission power process protocol query queue random record release repository return rule schedule
    search security sequence server session shell signal socket sort source stack storage string structure system
    table tag template test text thread time token tree type unit update user value variable version water window
    word
    """.split()  # noqa: SIM905
)
_STOP = frozenset(
    """
    about above after again also although always another because been before being below between both cannot could
    does doing done during each either else even every example first following from given have having here however
    into itself just like made make many more most much must need never note only other otherwise over page same see
    should since some such than that their them then there therefore these they this those through thus under until
    upon used using very want well were what when where whether which while will with within without would your http
    https html docs library reference return returns
    """.split()  # noqa: SIM905
)
_WORD = re.compile(r"[^\W\d_][\w'-]{3,24}")
_LINK = re.compile(r"\]\(<?(https?://[^)\s>]+)>?\)")
_BRACED = re.compile(r"\{([A-Za-z][\w .+-]{2,30})\}")
_CODE = re.compile(r"`([A-Za-z_][\w.]{2,40})(?:\([^`]*\))?`")
_SENTENCE = re.compile(r"[A-Z][^.!?\n]{30,160}[.!?](?=\s|$)")

# How a query is put. {a} and {b} are words or names that were seen.
_QUESTIONS = (
    "what is {a}", "what does {a} mean", "how does {a} work", "how do I use {a}", "how to change {a}", "who wrote {a}",
    "when was {a} introduced", "why is {a} needed", "where is {a} defined", "which {a} should I choose",
    "what is the difference between {a} and {b}", "is {a} the same as {b}", "can {a} be used with {b}",
    "what happens to {a} when {b} fails", "how is {a} related to {b}", "does {a} need {b}",
    "explain {a} in simple words", "list all kinds of {a}", "give an example of {a} with {b}",
    "how many {a} are there", "what replaced {a}", "is there a limit on {a}",
)  # fmt: skip
_FOREIGN = (
    "was ist {a}", "wie funktioniert {a}", "Unterschied zwischen {a} und {b}", "qu'est-ce que {a}",
    "comment utiliser {a}", "différence entre {a} et {b}", "qué es {a}", "cómo usar {a} con {b}", "cos'è {a}",
    "o que é {a}", "wat is {a}", "vad är {a}", "что такое {a}", "как работает {a}", "{a} とは", "{a} 使い方",
    "什么是 {a}", "{a} 和 {b} 的区别", "ما هو {a}", "{a} nedir", "{a} 사용법",
)  # fmt: skip
_SUFFIXES = ("example", "examples", "tutorial", "syntax", "definition", "options", "meaning", "history", "vs", "list")


class _Mind:
    """What has been seen and done so far."""

    def __init__(self, random: Random, world: World):
        self.random = random
        self.results: dict[str, SearchResult] = {}
        """Every result that was shown, by address."""
        self.pages: dict[str, str] = {}
        """Every page that was read, by address."""
        self.queries: list[str] = []
        self.notes: dict[str, str] = {}
        """What the memory holds."""
        self.words: Counter[str] = Counter(_words(world.context))
        """How often each word was seen: rare ones tell more."""
        self.vocabulary = sorted(self.words)
        """The same words, in the order in which they were seen."""
        self.start = list(self.vocabulary) or list(_GENERAL)

    # Words to ask with.

    def topic(self) -> str:
        """Something to ask about: mostly out of what was seen."""
        choose = self.random.random()
        if choose < 0.35 and self.results:
            title = self.result().title
            return re.split(r" — |: | - ", title)[0][:60].strip() or title[:60]
        if choose < 0.6 and self.words:
            return self.rare()
        if choose < 0.7:
            return self.random.choice(self.start)
        return self.random.choice(_GENERAL)

    def rare(self) -> str:
        """A word that was seen seldom."""
        some = [self.random.choice(self.vocabulary or _GENERAL) for _ in range(4)]
        return min(some, key=lambda word: (self.words[word], word))

    def result(self) -> SearchResult:
        """One of the results that were shown, rather a late one."""
        urls = list(self.results)
        return self.results[self.random.choice(urls[-30:])]

    def page(self) -> str | None:
        """The address of a page that was read."""
        return self.random.choice(list(self.pages)) if self.pages else None

    def terms(self, text: str, count: int) -> list[str]:
        """The most telling words and names of a text, seldom seen ones first."""
        names = [*_BRACED.findall(text), *_CODE.findall(text)]
        words = Counter(_words(text))
        telling = sorted(words, key=lambda word: (self.words[word] - words[word], -words[word], word))[: 3 * count]
        pool = list(dict.fromkeys([*names[: 2 * count], *telling]))
        return self.random.sample(pool, min(count, len(pool)))

    def see(self, text: str) -> None:
        """Count the words of a text."""
        words = Counter(_words(text))
        self.vocabulary += [word for word in words if word not in self.words]
        self.words.update(words)


def _words(text: str) -> list[str]:
    found = _WORD.findall(re.sub(r"https?://\S+", " ", text))
    return [word for word in found if word.casefold() not in _STOP]


def behave(random: Random, world: World, initial: Observation) -> Behaviour:
    """Some goals, one after another."""
    mind = _Mind(random, world)
    yield from _research(mind)  # there is nothing to come back to before something was found
    for _ in range(random.randint(*GOALS) - 1):
        goal = random.choices(list(_GOALS), list(_GOALS.values()))[0]
        yield from goal(mind)


# Actions.


def _do(mind: _Mind, name: str, arguments: dict[str, Any], label: str) -> Doing[str]:
    """One sensible call, sometimes after an odd one; the text of its answer."""
    if mind.random.random() < ODD:
        yield from _odd(mind)
    turn = yield Act(canonical_json({"name": name, "arguments": arguments}), label)
    return turn.observation.text if turn.observation else ""


def _search(mind: _Mind, queries: list[str], kind: str) -> Doing[list[SearchResult]]:
    """Search for one query or several; all results, in order."""
    several = len(queries) > 1 or mind.random.random() < 0.05
    arguments: dict[str, Any] = {"queries": queries} if several else {"query": queries[0]}
    text = yield from _do(mind, "web_search", arguments, f"web_search.{kind}")
    mind.queries += [query for query in queries if query not in mind.queries]
    return _noted(mind, text, queries)


def _noted(mind: _Mind, text: str, queries: list[str]) -> list[SearchResult]:
    try:
        results = [result for found in parse_searches(text, queries) for result in found]
    except ValueError:  # an error of the engine's
        return []
    for result in results:
        mind.results[result.url] = result
        mind.see(f"{result.title} {result.snippet}")
    return results


def _open(mind: _Mind, url: str, kind: str) -> Doing[str]:
    """Read a page; its text, or nothing when there is none."""
    text = yield from _do(mind, "web_extractor", {"url": url}, f"web_extractor.{kind}")
    if text.startswith("Error: "):
        return ""
    if url not in mind.pages:
        mind.see(text[:6000])
    mind.pages[url] = text
    return text


def _note(mind: _Mind, action: str, key: str | None = None, value: str | None = None) -> Doing[str]:
    """Use the memory, and keep count of what it holds."""
    arguments = {"action": action, "key": key, "value": value}
    given = {name: argument for name, argument in arguments.items() if argument is not None}
    label = f"dict_memory.{'list' if key is None else action}"
    text = yield from _do(mind, "dict_memory", given, label)
    if not text.startswith("Error: "):
        if action in ("add", "update") and key is not None and value is not None:
            mind.notes[key] = value
        elif action == "remove" and key is not None:
            mind.notes.pop(key, None)
    return text


def _keep(mind: _Mind, key: str, value: str) -> Doing[None]:
    """Note something: added where the key is new, changed where it is not; at times the wrong one is tried first."""
    known = key in mind.notes
    if mind.random.random() < 0.1:
        wrong = "add" if known else "update"
        text = {"name": "dict_memory", "arguments": {"action": wrong, "key": key, "value": value}}
        yield Act(canonical_json(text), f"dict_memory.{wrong}/odd")
    yield from _note(mind, "update" if known else "add", key, value)


# Queries.


def _query(mind: _Mind, topic: str, other: str) -> tuple[str, str]:
    """A query about a topic, of one of the kinds; with the kind."""
    kinds = list(_KINDS)
    kind = mind.random.choices(kinds, [_KINDS[name][0] for name in kinds])[0]
    return kind, " ".join(_KINDS[kind][1](mind.random, topic, other).split()) or topic


def _typo(random: Random, text: str) -> str:
    """The text with one slip of the keyboard in it."""
    if len(text) < 4:
        return text + text[-1:]
    at = random.randrange(1, len(text) - 1)
    slips = (
        text[:at] + text[at + 1] + text[at] + text[at + 2 :],
        text[:at] + text[at + 1 :],
        text[:at] + text[at] + text[at:],
        text[:at] + random.choice("abcdefghijklmnopqrstuvwxyz") + text[at + 1 :],
    )
    return random.choice(slips)


def _fill(random: Random, forms: tuple[str, ...], a: str, b: str) -> str:
    return random.choice(forms).replace("{a}", a).replace("{b}", b)


def _case(random: Random, text: str) -> str:
    return random.choice((text.upper(), text.title(), text.swapcase()))


_Put = Callable[[Random, str, str], str]
# Weight, and how the query is put from a topic and another one.
_KINDS: dict[str, tuple[int, _Put]] = {
    "word": (3, lambda random, a, b: a),
    "keywords": (5, lambda random, a, b: f"{a} {b}"),
    "suffix": (3, lambda random, a, b: f"{a} {random.choice(_SUFFIXES)}"),
    "question": (6, lambda random, a, b: _fill(random, _QUESTIONS, a, b) + random.choice(("", "?", "?"))),
    "phrase": (2, lambda random, a, b: f'"{a}"'),
    "phrase_and_word": (2, lambda random, a, b: f'"{a}" {b}'),
    "foreign": (2, lambda random, a, b: _fill(random, _FOREIGN, a, b)),
    "case": (1, lambda random, a, b: _case(random, f"{a} {b}")),
    "typo": (2, lambda random, a, b: f"{_typo(random, a)} {b}" if random.random() < 0.5 else _typo(random, a)),
    "operators": (1, lambda random, a, b: random.choice((f"{a} -{b}", f"+{a} {b}", f"{a} AND {b}", f"{a} OR {b}"))),
    "site": (1, lambda random, a, b: f"site:{random.choice(('docs.example', 'example.org'))} {a}"),
    "marks": (1, lambda random, a, b: random.choice((f"{a}()", f"({a}) [{b}]", f"{a}: {b}!", f"{a}*", f"<{a}/>"))),
    "year": (1, lambda random, a, b: f"{a} {random.randint(1970, 2027)}"),
}


# Goals: what an agent is after.


def _research(mind: _Mind) -> Doing[None]:
    """Search, read, refine by what was read, keep a note, and ask the first query again."""
    topic = mind.topic()
    kind, query = _query(mind, topic, mind.topic())
    found = yield from _search(mind, [query], kind)
    if not found:
        kind, query = "word", topic
        found = yield from _search(mind, [query], kind)
    for _ in range(mind.random.randint(1, 3)):
        if not found:
            break
        chosen = mind.random.choice(found[:5])
        text = yield from _open(mind, chosen.url, "result")
        terms = mind.terms(text, 2)
        if len(terms) < 2:
            break
        if mind.random.random() < 0.6:
            yield from _keep(mind, _key(chosen.title), _fact(mind, text))
        refined = mind.random.choice((("refined", f"{topic} {terms[0]}"), ("refined", " ".join(terms)), None))
        kind, words = refined or _query(mind, *terms)
        found = yield from _search(mind, [words], kind)
    if mind.random.random() < 0.5:
        yield from _search(mind, [query], "again")


def _compare(mind: _Mind) -> Doing[None]:
    """Several queries in one call, the best page of each, and a note on both."""
    topics = list(dict.fromkeys(mind.topic() for _ in range(mind.random.randint(2, 4))))
    form = mind.random.choice(("{a}", "what is {a}", "{a} definition", '"{a}"', "{a} example"))
    queries = [form.replace("{a}", topic) for topic in topics]
    found = yield from _search(mind, queries, "several")
    urls = list(dict.fromkeys(result.url for result in found))
    for url in mind.random.sample(urls, min(2, len(urls))):
        text = yield from _open(mind, url, "result")
        if text:
            yield from _keep(mind, _key(mind.results[url].title), _fact(mind, text))
    if mind.notes:
        yield from _note(mind, "get", mind.random.choice(list(mind.notes)))


def _follow_links(mind: _Mind) -> Doing[None]:
    """From page to page by their links, and back."""
    url = mind.page()
    if url is None:
        return
    start = url
    text = mind.pages[url]
    for _ in range(mind.random.randint(2, 4)):
        host = urlsplit(url).hostname
        links = [link for link in dict.fromkeys(_LINK.findall(text)) if urlsplit(link).hostname == host]
        links = [link for link in links if urldefrag(link).url != url]
        names = _BRACED.findall(text)
        if links:
            url = mind.random.choice(links)
            text = yield from _open(mind, url, "link")
        elif names:
            name = mind.random.choice(names)
            found = yield from _search(mind, [name], "name")
            if not found:
                break
            url = found[0].url
            text = yield from _open(mind, url, "result")
        else:
            break
        if not text:
            break
    yield from _open(mind, start, "again")


def _verify(mind: _Mind) -> Doing[None]:
    """Look for a sentence of a page in quotes, and read where else it stands."""
    url = mind.page()
    sentences = _SENTENCE.findall(mind.pages[url]) if url else []
    if not sentences:
        yield from _research(mind)
        return
    words = mind.random.choice(sentences).split()
    length = min(len(words), mind.random.randint(4, 9))
    at = mind.random.randrange(len(words) - length + 1)
    part = " ".join(words[at : at + length]).replace('"', "")
    found = yield from _search(mind, [f'"{part}"'], "quote")
    if not found:
        found = yield from _search(mind, [part], "sentence")
    if found:
        yield from _open(mind, found[-1].url, "result")


def _correct_spelling(mind: _Mind) -> Doing[None]:
    """A misspelt word, then the right one."""
    word = mind.rare()
    found = yield from _search(mind, [_typo(mind.random, word)], "typo")
    if not found:
        found = yield from _search(mind, [word], "corrected")
    if found and mind.random.random() < 0.5:
        yield from _open(mind, found[0].url, "result")


def _keep_books(mind: _Mind) -> Doing[None]:
    """The memory: what is in it, change it, take away, look again."""
    yield from _note(mind, "get")
    for key in mind.random.sample(list(mind.notes), min(2, len(mind.notes))):
        value = yield from _note(mind, "get", key)
        step = mind.random.random()
        if step < 0.4 and value:
            more = mind.random.choice((f"{value[:200]} (checked)", f"see also: {mind.topic()}", mind.topic()))
            yield from _note(mind, "update", key, more)
            yield from _note(mind, "get", key)
        elif step < 0.7:
            yield from _note(mind, "remove", key)
            if mind.random.random() < 0.5:
                text = {"action": mind.random.choice(("get", "remove", "update")), "key": key}
                if text["action"] == "update":
                    text["value"] = "gone?"
                action = canonical_json({"name": "dict_memory", "arguments": text})
                yield Act(action, f"dict_memory.{text['action']}/odd")
    plan = mind.random.choice(("todo", "plan", "question", "sources", "answer", "next step"))
    yield from _keep(mind, plan, _plan(mind))
    yield from _note(mind, "get")


def _come_back(mind: _Mind) -> Doing[None]:
    """A page and a query of before, and whether they say the same."""
    url = mind.page()
    if url:
        yield from _open(mind, url, "again")
    if mind.queries:
        found = yield from _search(mind, [mind.random.choice(mind.queries)], "again")
        unread = [result.url for result in found if result.url not in mind.pages]
        if unread:
            yield from _open(mind, unread[0], "result")


def _read_on(mind: _Mind) -> Doing[None]:
    """Results that were shown before and not read yet."""
    unread = [url for url in mind.results if url not in mind.pages]
    for url in mind.random.sample(unread, min(len(unread), mind.random.randint(1, 3))):
        text = yield from _open(mind, url, "result")
        if text and mind.random.random() < 0.4:
            yield from _keep(mind, _key(mind.results[url].title), _fact(mind, text))


def _survey(mind: _Mind) -> Doing[None]:
    """The same thing asked in several ways."""
    topic, other = mind.topic(), mind.topic()
    for _ in range(mind.random.randint(2, 4)):
        kind, query = _query(mind, topic, other)
        yield from _search(mind, [query], kind)


_GOALS: dict[Callable[[_Mind], Doing[None]], int] = {
    _research: 5,
    _compare: 3,
    _follow_links: 3,
    _verify: 2,
    _correct_spelling: 1,
    _keep_books: 2,
    _come_back: 2,
    _read_on: 2,
    _survey: 4,
}


def _key(title: str) -> str:
    """A short name for a note."""
    words = re.findall(r"\w+", title)
    return " ".join(words[:3]).lower() or "note"


def _fact(mind: _Mind, text: str) -> str:
    """A sentence of a page, or its beginning."""
    body = text.split("\n", 1)[-1]
    sentences = _SENTENCE.findall(body)
    found = mind.random.choice(sentences) if sentences else " ".join(body.split())[:120]
    return found.strip() or text[:80]


def _plan(mind: _Mind) -> str:
    return mind.random.choice(
        (
            f"find out about {mind.topic()}",
            f"1. {mind.topic()}\n2. {mind.topic()}\n3. compare",
            canonical_json({"seen": len(mind.pages), "topic": mind.topic()}),
            f"{len(mind.results)} results, {len(mind.pages)} pages read",
        )
    )


# Odd actions: what goes wrong when an agent acts.


def _odd(mind: _Mind) -> Doing[None]:
    """One wrong or odd action."""
    label, make = mind.random.choice(_ODD)
    yield Act(make(mind), f"{label}/odd")


def _call(name: str, /, **arguments: Any) -> str:
    return canonical_json({"name": name, "arguments": arguments})


def _wrong_url(mind: _Mind) -> str:
    url = mind.result().url if mind.results else "https://docs.example/index"
    parts = urlsplit(url)
    return mind.random.choice(
        (
            f"{url}-old", f"{url}/", f"{url}?page=2", url.replace("https", "http"), f"https://www.{url[8:]}",
            f"{parts.scheme}://{parts.netloc}/", url.upper(), url[:-1], f"{parts.scheme}://{parts.netloc}/missing.html",
            f"https://example.org/{mind.topic().replace(' ', '-')}", f"{url}#top",
            f"https://en.wikipedia.org/wiki/{mind.topic().replace(' ', '_')}",
        )
    )  # fmt: skip


def _no_url(mind: _Mind) -> str:
    url = mind.result().url if mind.results else "https://docs.example/index"
    return mind.random.choice((mind.topic(), url.removeprefix("https://"), f"ftp://{url[8:]}", "", "[1]", f"<{url}>"))


def _nonsense(mind: _Mind) -> str:
    letters = "".join(mind.random.choice("bcdfghjklmnpqrstvwxz") for _ in range(mind.random.randint(5, 12)))
    return mind.random.choice(
        (letters, f"{letters} {letters[::-1]}", " ", "???", "…", "-", '""', "🙂🙃", letters.upper())
    )


def _bad_json(mind: _Mind) -> str:
    whole = _call("web_search", query=mind.topic())
    return mind.random.choice(
        (whole[:-1], f"search {mind.topic()}", whole.replace('"', "'"), f"{whole}\n{whole}", "[]")
    )


def _unknown_tool(mind: _Mind) -> str:
    name = mind.random.choice(("search", "websearch", "web_extract", "open_url", "memory", "fetch", "web_search_v2"))
    return _call(name, query=mind.topic())


_ODD: tuple[tuple[str, Callable[[_Mind], str]], ...] = (
    ("web_extractor.wrong_url", lambda mind: _call("web_extractor", url=_wrong_url(mind))),
    ("web_extractor.wrong_url", lambda mind: _call("web_extractor", url=_wrong_url(mind))),
    ("web_extractor.no_url", lambda mind: _call("web_extractor", url=_no_url(mind))),
    ("web_extractor.arguments", lambda mind: _call("web_extractor", **mind.random.choice(_BAD_EXTRACTOR))),
    ("web_search.nonsense", lambda mind: _call("web_search", query=_nonsense(mind))),
    ("web_search.nonsense", lambda mind: _call("web_search", query=_nonsense(mind))),
    ("web_search.arguments", lambda mind: _call("web_search", **mind.random.choice(_BAD_SEARCH), q=mind.topic())),
    ("web_search.arguments", lambda mind: _call("web_search", **mind.random.choice(_BAD_SEARCH))),
    ("web_search.both", lambda mind: _call("web_search", query=mind.topic(), queries=[mind.topic()])),
    ("dict_memory.missing", lambda mind: _call("dict_memory", action="get", key=mind.topic())),
    ("dict_memory.missing", lambda mind: _call("dict_memory", action="remove", key=mind.topic())),
    ("dict_memory.missing", lambda mind: _call("dict_memory", action="update", key=mind.topic(), value="x")),
    ("dict_memory.arguments", lambda mind: _call("dict_memory", **mind.random.choice(_BAD_MEMORY))),
    ("unknown_tool", _unknown_tool),
    ("bad_json", _bad_json),
)
_BAD_EXTRACTOR: tuple[dict[str, Any], ...] = (
    {}, {"url": None}, {"url": 1}, {"urls": ["https://docs.example/"]}, {"url": ["https://docs.example/"]},
    {"url": "https://docs.example/", "page": 2},
)  # fmt: skip
_BAD_SEARCH: tuple[dict[str, Any], ...] = (
    {}, {"query": ""}, {"query": 7}, {"query": None}, {"query": ["file"]}, {"queries": []}, {"queries": "file"},
    {"queries": ["file", ""]}, {"queries": ["file", 3]}, {"query": "file", "count": 5}, {"query": {"text": "file"}},
    {"Query": "file"},
)  # fmt: skip
_BAD_MEMORY: tuple[dict[str, Any], ...] = (
    {}, {"action": "add"}, {"action": "add", "key": "a"}, {"action": "delete", "key": "a"}, {"action": "update"},
    {"key": "a"}, {"action": "add", "key": 1, "value": "x"}, {"action": "add", "key": "a", "value": 5},
    {"action": "add", "key": "a", "value": ""}, {"action": "remove"}, {"action": "GET", "key": "a"},
    {"action": "list"}, {"action": "get", "name": "a"}, {"action": "clear"},
)  # fmt: skip
