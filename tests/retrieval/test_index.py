"""The index: what is found, in which order, and that a snippet is of its document."""

import datetime
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldlm.core.errors import InputError, SetupError
from worldlm.retrieval import Document, Index
from worldlm.retrieval.index import SNIPPET_CHARS
from worldlm.retrieval.plain import plain_text

FERRIES = (
    Document("u/tariffs", "Harbour tariffs", "What each class of ship pays. A ferry pays four crowns.", None),
    Document(
        "u/ferries", "Ferries of the isles", "The ferry runs daily. It carries 61 people.", datetime.date(2021, 9, 9)
    ),
    Document("u/museum", "Museum", "The SS Petrel struck a rock. Café, open daily.", None),
    Document(
        "u/long", "Log book", "Fog and rain. " * 200 + "Then the Petrel sank off Marrock. " + "Calm again. " * 200
    ),
)
WORDS = st.lists(st.sampled_from(["ferry", "fog", "rock", "tariff", "isle", "daily"]), max_size=12).map(" ".join)
DOCUMENTS = st.lists(st.tuples(WORDS, WORDS), max_size=12).map(
    lambda pairs: [Document(f"u/{i}", title or "-", text, None) for i, (title, text) in enumerate(pairs)]
)


def found(query: str, count: int = 10) -> list[str]:
    return [hit.document.url for hit in Index.build(FERRIES).search(query, count)]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


@pytest.mark.parametrize(
    ("query", "urls"),
    [
        ("ferries", ["u/ferries", "u/tariffs"]),  # a word counts double in a title
        ("FERRY", ["u/ferries", "u/tariffs"]),
        ("what does the ferry pay?", ["u/tariffs", "u/ferries"]),
        ("cafe", ["u/museum"]),
        ('"struck a rock"', ["u/museum"]),
        ('"rock a struck"', []),
        ('"petrel" marrock', ["u/long", "u/museum"]),
        ("petrel zzz", ["u/museum", "u/long"]),  # half of the words must be there
        ("petrel zzz yyy", []),
        ("zzz", []),
        ("", []),
        (" ?! ", []),
        ('""', []),
        ("the", ["u/museum", "u/ferries", "u/long"]),  # a stop word counts where there is no other
        ("title:ferries AND text:*", []),  # no syntax: these are words
    ],
)
def test_what_a_query_finds(query: str, urls: list[str]) -> None:
    assert sorted(found(query)) == sorted(urls)
    assert found(query, 1) == found(query)[:1]


def test_the_best_is_first() -> None:
    assert found("ferries")[0] == "u/ferries"


def test_documents_come_back_as_they_were() -> None:
    index = Index.build(FERRIES)
    assert len(index) == 4
    for document in FERRIES:
        assert index.get(document.url) == document
    assert index.get("u/none") is None
    assert index.search("ferries daily")[0].document == FERRIES[1]


def test_a_snippet_is_the_passage_that_matched() -> None:
    hit = Index.build(FERRIES).search("marrock")[0]
    assert "sank off Marrock" in hit.snippet
    assert hit.snippet.startswith("… ")
    assert hit.snippet.endswith(" …")
    assert len(hit.snippet) <= SNIPPET_CHARS + 4
    assert Index.build(FERRIES).search("museum")[0].snippet == "The SS Petrel struck a rock. Café, open daily."


def test_a_snippet_cuts_no_word_and_joins_none() -> None:
    wrapped = "\n".join(f"word{number}" for number in range(300))
    snippet = Index.build([Document("u", "Lines", wrapped)]).search("word150")[0].snippet
    assert set(words(snippet)) <= set(words(wrapped))
    text = " ".join(f"some_long_name_{number} = other_value_{number};" for number in range(200))
    snippet = Index.build([Document("u", "Names", text)]).search("value 77")[0].snippet
    assert set(words(snippet)) <= set(words(text))


def test_a_document_without_text_has_its_title_for_a_snippet() -> None:
    assert Index.build([Document("u", "Empty shelf", "")]).search("shelf")[0].snippet == "Empty shelf"


def test_two_documents_of_one_address_are_refused() -> None:
    with pytest.raises(InputError, match="two documents have the address u/1"):
        Index.build([Document("u/1", "a", "b"), Document("u/1", "c", "d")])


def test_an_index_in_a_folder_opens_again(tmp_path: Path) -> None:
    built = Index.build(FERRIES, tmp_path / "index")
    assert Index.open(tmp_path / "index").search("ferries") == built.search("ferries")
    with pytest.raises(InputError, match="holds no index"):
        Index.open(tmp_path)


def test_equal_documents_stand_in_the_order_of_building() -> None:
    same = [Document(f"u/{number}", "Fog", "fog over the harbour") for number in range(500)]
    index = Index.build(same)
    assert [hit.document.url for hit in index.search("fog", 20)] == [f"u/{number}" for number in range(20)]


def test_threads_search_one_index() -> None:
    index = Index.build(FERRIES)
    expected = index.search("ferry daily")
    answers: list[object] = []
    threads = [threading.Thread(target=lambda: answers.append(index.search("ferry daily"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected] * 8


@settings(max_examples=40)
@given(DOCUMENTS, st.text(max_size=30) | WORDS)
def test_any_query_over_any_documents(documents: list[Document], query: str) -> None:
    index, again = Index.build(documents), Index.build(documents)
    hits = index.search(query, 5)
    assert hits == again.search(query, 5)
    assert len(hits) <= 5
    assert len({hit.document.url for hit in hits}) == len(hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        assert hit.snippet.strip()
        assert "\n" not in hit.snippet
        assert set(words(hit.snippet)) <= set(words(hit.document.text) + words(hit.document.title))


@settings(max_examples=40)
@given(st.text(max_size=60))
def test_any_text_can_be_a_document(text: str) -> None:
    document = Document("https://a.example/", "Title", text)
    index = Index.build([document])
    assert index.get(document.url) == document
    for word in text.split():
        index.search(word)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tantivy", None)
    with pytest.raises(SetupError, match=r"pip install 'worldlm\[real\]'"):
        Index.build([])


# Markdown to words.


@pytest.mark.parametrize(
    ("markdown", "plain"),
    [
        ("## A *b* and **c** and `d_e`", "A b and c and d_e"),
        ('[Text](https://a.example/x "title") here', "Text here"),
        ("![alt](pic/a.html) [b](#part)", "alt b"),
        ("the[name](https://a.example/)s", "the name s"),
        ("get_**file**_contents", "get_**file**_contents"),
        ("handlers[name](event)", "handlers[name](event)"),
        ("a*b*c f(**kwargs)", "a*b*c f(kwargs)"),
        ("- one\n* two\n> three\n---\n```python\nx = 1\n```", "one\ntwo\nthree\n\n\nx = 1"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a b \n\n 1 2"),
    ],
)
def test_marks_go_and_words_stay(markdown: str, plain: str) -> None:
    assert plain_text(markdown) == plain


@given(st.text(st.sampled_from('ab *`#|-[]()>_\n."/:')))
def test_words_are_those_of_the_markdown_in_their_order(markdown: str) -> None:
    rest = iter(words(markdown))
    assert all(word in rest for word in words(plain_text(markdown)))
