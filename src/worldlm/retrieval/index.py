"""An index over documents: words by BM25, quoted phrases, and the passage that matched.

A query is words, and phrases in double quotes; there is no other syntax, so that whatever an agent writes is
searched for. Words are compared in lower case, without accents and by their English stem. At least half of a
query's words must be found in a document, and every phrase; a word counts double in a title.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worldlm.core.errors import InputError, SetupError
from worldlm.retrieval.document import Document
from worldlm.retrieval.plain import plain_text

if TYPE_CHECKING:
    import tantivy

SNIPPET_CHARS = 240
"""Characters of a snippet at most, without the marks of what was left out."""
HEAP_BYTES = 1_000_000_000
"""What building may hold in memory; only what is needed is taken. Within it an index is one segment, whose order of
documents, and so the order of equal scores, is that in which they came."""
TITLE_WEIGHT = 2.0
LONGEST_WORD = 80
"""Bytes; longer words are not indexed."""
MOST_WORDS = 64
"""Words of a query that are looked for; what stands behind them is passed over."""

# Words that say nothing about what is looked for, unless the query has no others.
_STOP = frozenset(
    """
    a an and are as at be but by can could did do does for from had has have how i if in into is it its me my no not
    of on or our shall should so such that the their then there these they this to was we were what when where which
    who whom whose why will with would you your
    """.split()  # noqa: SIM905
)
_WORD = re.compile(r"\w")
_PHRASE = re.compile(r'"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that a query found."""

    document: Document
    snippet: str
    """One line out of the document, from the passage that matched; `…` stands where the text goes on."""
    score: float
    """BM25; comparable within one query."""


class Index:
    """Documents that can be searched. Safe to search from several threads."""

    def __init__(self, inner: "tantivy.Index"):
        """Of an index that has been built: see `build` and `open`."""
        tantivy = load_tantivy()
        self._analyzer = _analyzer()
        inner.register_tokenizer("words", self._analyzer)
        inner.reload()
        self._schema = inner.schema
        self._searcher = inner.searcher()
        self._query = tantivy.Query
        self._occur = tantivy.Occur
        self._snippets = tantivy.SnippetGenerator

    @classmethod
    def build(cls, documents: Iterable[Document], folder: Path | None = None) -> "Index":
        """An index of `documents`, in memory, or in `folder`, which is made and must be empty.

        Raises InputError when two documents have one address.
        """
        tantivy = load_tantivy()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        inner = tantivy.Index(_schema(), str(folder) if folder else None)
        inner.register_tokenizer("words", _analyzer())
        seen: set[str] = set()
        with inner.writer(HEAP_BYTES, 1) as writer:  # one thread: see HEAP_BYTES
            for document in documents:
                if document.url in seen:
                    raise InputError(f"two documents have the address {document.url}")
                seen.add(document.url)
                writer.add_document(
                    tantivy.Document(
                        url=[document.url],
                        title=[document.title],
                        plain=[plain_text(document.text)],
                        text=[document.text.encode()],
                        date=[document.date.isoformat().encode() if document.date else b""],
                    )
                )
        return cls(inner)

    @classmethod
    def open(cls, folder: Path) -> "Index":
        """The index that was built in `folder`. Raises InputError when there is none that this version can read."""
        tantivy = load_tantivy()
        try:
            return cls(tantivy.Index.open(str(folder)))
        except ValueError as error:
            raise InputError(f"{folder} holds no index that can be read; delete it ({error})") from error

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def search(self, query: str, count: int = 10) -> list[Hit]:
        """The `count` best documents for `query`, best first; equal scores in the order of building."""
        asked = self._parse(query)
        if asked is None or count < 1:
            return []
        generator = self._snippets.create(self._searcher, asked, self._schema, "plain")
        generator.set_max_num_chars(SNIPPET_CHARS)
        hits = []
        for score, address in self._searcher.search(asked, count, count=False).hits:
            found = self._searcher.doc(address)
            hits.append(Hit(_document(found), _snippet(found, generator.snippet_from_doc(found)), float(score)))
        return hits

    def get(self, url: str) -> Document | None:
        """The document with this very address."""
        hits = self._searcher.search(self._query.term_query(self._schema, "url", url), 1, count=False).hits
        return _document(self._searcher.doc(hits[0][1])) if hits else None

    def _parse(self, query: str) -> "tantivy.Query | None":
        """The query; None when it holds no word."""
        phrases = [self._analyzer.analyze(text)[:MOST_WORDS] for text in _PHRASE.findall(query)]
        words = self._words(_PHRASE.sub(" ", query)) + [words[0] for words in phrases if len(words) == 1]
        parts = [(self._occur.Must, self._phrase(words)) for words in phrases if len(words) > 1]
        if words:
            wanted = [(self._occur.Should, self._word(word)) for word in dict.fromkeys(words)]
            some = self._query.boolean_query(wanted, minimum_number_should_match=(len(wanted) + 1) // 2)
            parts.append((self._occur.Must, some))
        return self._query.boolean_query(parts) if parts else None

    def _words(self, text: str) -> list[str]:
        telling = " ".join(word for word in text.split() if word.casefold().strip("?!.,;:'") not in _STOP)
        return (self._analyzer.analyze(telling) or self._analyzer.analyze(text))[:MOST_WORDS]

    def _word(self, word: str) -> "tantivy.Query":
        title = self._query.boost_query(self._query.term_query(self._schema, "title", word), TITLE_WEIGHT)
        return self._either(title, self._query.term_query(self._schema, "plain", word))

    def _phrase(self, words: list[str]) -> "tantivy.Query":
        title = self._query.boost_query(self._query.phrase_query(self._schema, "title", list(words)), TITLE_WEIGHT)
        return self._either(title, self._query.phrase_query(self._schema, "plain", list(words)))

    def _either(self, title: "tantivy.Query", text: "tantivy.Query") -> "tantivy.Query":
        either: tantivy.Query = self._query.boolean_query([(self._occur.Should, title), (self._occur.Should, text)])
        return either


def _schema() -> "tantivy.Schema":
    builder: tantivy.SchemaBuilder = load_tantivy().SchemaBuilder()
    builder.add_text_field("url", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("title", stored=True, tokenizer_name="words")
    builder.add_text_field("plain", stored=True, tokenizer_name="words")
    builder.add_bytes_field("text", stored=True)
    builder.add_bytes_field("date", stored=True)
    return builder.build()


def _analyzer() -> "tantivy.TextAnalyzer":
    library = load_tantivy()
    builder: tantivy.TextAnalyzerBuilder = library.TextAnalyzerBuilder(library.Tokenizer.simple())
    steps = (
        library.Filter.remove_long(LONGEST_WORD),
        library.Filter.lowercase(),
        library.Filter.ascii_fold(),
        library.Filter.stemmer("english"),
    )
    for step in steps:
        builder = builder.filter(step)
    return builder.build()


def _document(found: "tantivy.Document") -> Document:
    def text(field: str) -> str:
        value: Any = found.get_first(field)
        return value if isinstance(value, str) else bytes(value or b"").decode()

    day = text("date")
    return Document(text("url"), text("title"), text("text"), date.fromisoformat(day) if day else None)


def _snippet(found: "tantivy.Document", matched: "tantivy.Snippet") -> str:
    """One line; from the beginning of the text where only the title matched."""
    text: Any = found.get_first("plain") or ""
    if matched.fragment().strip():
        data, span = text.encode(), matched.fragment_range()  # of bytes
        before, fragment, after = (
            part.decode() for part in (data[: span.start], data[span.start : span.end], data[span.end :])
        )
        fragment, before, after = _whole_words(fragment, before, after)
    else:
        fragment = _beginning(text)
        before, after = "", text[len(fragment) :]
    # What is left out is marked where it holds a word; a closing bracket is not worth a mark.
    fragment = ("… " if _WORD.search(before) else before) + fragment + (" …" if _WORD.search(after) else after)
    return " ".join(fragment.split()) or str(found.get_first("title"))


def _whole_words(fragment: str, before: str, after: str) -> tuple[str, str, str]:
    """The fragment with the rest of words that it cuts (to the engine `snake_case` is two words)."""
    head, tail = re.search(r"\w+\Z", before), re.match(r"\w+", after)
    if head and re.match(r"\w", fragment):
        fragment, before = head[0] + fragment, before[: head.start()]
    if tail and re.search(r"\w\Z", fragment):
        fragment, after = fragment + tail[0], after[tail.end() :]
    return fragment, before, after


def _beginning(text: str) -> str:
    """As many whole words as a snippet has room for."""
    if len(text) <= SNIPPET_CHARS:
        return text
    cut = text[: SNIPPET_CHARS + 1]
    return cut.rsplit(None, 1)[0] if len(cut.split(None, 1)) > 1 else cut[:SNIPPET_CHARS]


def engine_version() -> str:
    """Which engine, and which version of it."""
    load_tantivy()
    return f"tantivy {metadata.version('tantivy')}"


def load_tantivy() -> Any:
    """The library. Raises SetupError that says how to install it."""
    try:
        import tantivy
    except ImportError as error:
        raise SetupError("an index needs the library tantivy: pip install 'worldlm[real]'") from error
    return tantivy


__all__ = ["SNIPPET_CHARS", "Hit", "Index", "engine_version"]
