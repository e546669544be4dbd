"""Readers: each kind of file, and what becomes of those that cannot be read."""

import datetime
import gzip
import json
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.retrieval import Document, Unreadable, read_path
from worldlm.retrieval.dictionary import Entry, decode_number, encode_number, read_dictionary
from worldlm.retrieval.document import parse_date
from worldlm.retrieval.html import read_html
from worldlm.retrieval.python_library import read_python_library

BASE = "https://site.example/"
DAY = datetime.date(2024, 2, 29)


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(path, (1709208000, 1709208000))  # 2024-02-29 12:00 UTC
    return path


def only(path: Path) -> Document:
    (document,) = read_path(path, BASE)
    assert isinstance(document, Document), document
    return document


# Kinds.


@pytest.mark.parametrize(
    ("name", "content", "title", "text", "day"),
    [
        ("a.txt", "Tide tables\n\nHigh at noon.\n", "Tide tables", "Tide tables\n\nHigh at noon.", DAY),
        ("a.txt", "x" * 200, "a", "x" * 200, DAY),
        ("a.txt.gz", gzip.compress(b"Packed\n", mtime=0), "Packed", "Packed", DAY),
        ("b.md", "# Fares #\n\nSee [more](c.md).\n", "Fares", "See [more](c.md).", DAY),
        (
            "b.md",
            "---\ntitle: Fares\ndate: 2027-03-03\n---\n# Other\nText",
            "Fares",
            "# Other\nText",
            datetime.date(2027, 3, 3),
        ),
        ("b.md", "no heading", "b", "no heading", DAY),
        ("c.rst", "=====\nPiers\n=====\n\nThere are two.\n", "Piers", "There are two.", DAY),
        ("c.rst", "Piers\n-----\nThere are two.\n", "Piers", "There are two.", DAY),
        ("d.html", "<title>Isle</title><h1>Isle</h1><p>A <b>rock</b>.</p>", "Isle", "A **rock**.", DAY),
    ],
)
def test_a_file_becomes_a_document(
    tmp_path: Path, name: str, content: str | bytes, title: str, text: str, day: datetime.date
) -> None:
    document = only(write(tmp_path / name, content))
    assert document == Document(BASE + name.removesuffix(".gz"), title, text, day)


def test_html_is_markdown_without_what_stands_round_it() -> None:
    page = read_html(
        b"""<html><head><title> Harbour  guide </title><meta name="date" content="2021-09-09"><style>p{}</style></head>
        <body><nav>Menu</nav><div class="navheader">Prev</div><script>x()</script>
        <h1>Guide</h1><p>See <a href="../fares.html#day" title="t">fares</a>, <a href="#x">below</a>.</p>
        <table><tr><th>Ship</th></tr><tr><td>Petrel</td></tr></table>
        <pre>one
  two</pre></body></html>""",
        "https://site.example/guide/index.html",
    )
    assert (page.title, page.date) == ("Harbour guide", datetime.date(2021, 9, 9))
    assert page.text.startswith("# Guide\n\nSee [fares](https://site.example/fares.html#day), below.")
    assert "| Ship |" in page.text
    assert "one\n  two" in page.text
    for gone in ("Menu", "Prev", "x()", "p{}"):
        assert gone not in page.text


def test_html_in_another_encoding() -> None:
    page = read_html('<meta charset="iso-8859-1"><title>Fähre</title><p>über'.encode("latin-1"), BASE)
    assert (page.title, page.text) == ("Fähre", "über")


def test_manual_pages(tmp_path: Path) -> None:
    if shutil.which("mandoc") is None:
        pytest.skip("needs system programs: apt-get install mandoc")
    head = '.TH FERRY 1 "2023-02-05" "Isles" "User Commands"\n'
    source = f"{head}.SH NAME\nferry \\- cross the sound\n.SH OPTIONS\n.B \\-v\nwave\n"
    write(tmp_path / "man1" / "ferry.1.gz", gzip.compress(source.encode()))
    write(tmp_path / "man1" / "boat.1", ".so man1/ferry.1\n")
    document = only(tmp_path)
    assert (document.url, document.title) == (f"{BASE}man1/ferry.1", "ferry(1)")
    assert document.date == datetime.date(2023, 2, 5)
    assert "# NAME\n\nferry - cross the sound" in document.text
    assert "**-v**" in document.text


def test_manual_pages_without_the_program_say_what_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worldlm.retrieval.readers.shutil.which", lambda name: None)
    write(tmp_path / "ferry.1", ".TH FERRY 1\n")
    assert [str(found) for found in read_path(tmp_path, BASE)] == [
        "ferry.1: manual pages need the program mandoc: apt-get install mandoc"
    ]


def test_json_lines(tmp_path: Path) -> None:
    lines = [
        {"url": "https://a.example/1", "title": "One\n two", "text": "first", "date": "Mar 3, 2027"},
        {"title": "Two", "text": "second"},
        {"title": "Three"},
        {"title": "Four", "text": "x", "date": "soon"},
        {"title": "Five", "text": "x", "url": "five"},
        [],
    ]
    path = write(tmp_path / "pages.jsonl", "\n".join(map(json.dumps, lines)) + "\n\n{broken\n")
    found = list(read_path(path, BASE))
    assert found[:2] == [
        Document("https://a.example/1", "One two", "first", datetime.date(2027, 3, 3)),
        Document(f"{BASE}pages/2", "Two", "second", None),
    ]
    problems = [str(item) for item in found[2:]]
    assert [problem.split(":")[1] for problem in problems] == ["3", "4", "5", "6", "8"]
    assert "'text' is missing" in problems[0]
    assert "'soon' is not a date; write YYYY-MM-DD" in problems[1]
    assert "'five' is not a web address" in problems[2]


def test_a_folder_is_read_in_order_and_what_fails_is_reported(tmp_path: Path) -> None:
    write(tmp_path / "b.txt", "B")
    write(tmp_path / "a" / "z y.txt", "A")
    write(tmp_path / "bad.txt", b"\xff\xfe\x00")
    write(tmp_path / "torn.txt.gz", gzip.compress(b"torn" * 100)[:-9])
    write(tmp_path / "fake.html.gz", b"not packed")
    write(tmp_path / "picture.png", b"\x89PNG")
    (tmp_path / "link.txt").symlink_to(tmp_path / "b.txt")
    found = list(read_path(tmp_path, BASE))
    assert [item.url for item in found if isinstance(item, Document)] == [f"{BASE}a/z%20y.txt", f"{BASE}b.txt"]
    bad = {item.place: item.reason for item in found if isinstance(item, Unreadable)}
    assert set(bad) == {"bad.txt", "torn.txt.gz", "fake.html.gz"}
    assert bad["bad.txt"] == "not UTF-8 text (byte 0)"
    assert [item.url for item in read_path(tmp_path, BASE, "z*.txt") if isinstance(item, Document)] == [
        f"{BASE}a/z%20y.txt"
    ]


def test_a_file_of_another_kind_is_said_to_be(tmp_path: Path) -> None:
    (found,) = read_path(write(tmp_path / "a.pdf", b"%PDF"), BASE)
    assert "no reader for this kind of file" in str(found)


# Dictionaries.


def dictionary(folder: Path, entries: list[tuple[str, str]], packed: bool = True) -> Path:
    """Write a DICT dictionary as `dictfmt` would."""
    data, index = b"", []
    for headword, text in entries:
        body = text.encode()
        index.append(f"{headword}\t{encode_number(len(data))}\t{encode_number(len(body))}\n")
        data += body
    write(folder / "sea.index", "".join(sorted(index)))
    return write(folder / ("sea.dict.dz" if packed else "sea.dict"), gzip.compress(data) if packed else data)


@pytest.mark.parametrize("packed", [True, False])
def test_entries_of_a_dictionary(tmp_path: Path, packed: bool) -> None:
    entries = [
        ("00databaseinfo", "about"),
        ("bow wave", "Bow Wave\n    water before a {ship}\n    that runs\n"),
        ("buoy", "a mark\n"),
        ("buoy", "buoy\n  to keep afloat\n"),
    ]
    found = list(read_path(dictionary(tmp_path, entries, packed), "https://dictionary.example/"))
    assert found == [
        Document("https://dictionary.example/sea/bow%20wave", "Bow Wave", "water before a {ship}\nthat runs"),
        Document("https://dictionary.example/sea/buoy", "buoy", "a mark\n\nto keep afloat"),
    ]


def test_a_broken_index_loses_its_own_lines_alone(tmp_path: Path) -> None:
    path = dictionary(tmp_path, [("buoy", "a mark\n")])
    with (tmp_path / "sea.index").open("a") as index:
        index.write("far\t////\tB\nodd\t?\tB\nshort\n")
    found = list(read_dictionary(path))
    assert [item for item in found if isinstance(item, Entry)] == [Entry("buoy", "buoy", "a mark")]
    assert [item.place for item in found if isinstance(item, Unreadable)] == [
        "sea.index:2",
        "sea.index:3",
        "sea.index:4",
    ]


def test_a_dictionary_without_its_index(tmp_path: Path) -> None:
    path = dictionary(tmp_path, [("buoy", "a mark\n")])
    (tmp_path / "sea.index").unlink()
    (found,) = read_path(path, BASE)
    assert str(found) == "sea.dict.dz: sea.index, the dictionary's index, is missing"


@given(st.integers(0, 2**40))
def test_numbers_of_an_index(number: int) -> None:
    assert decode_number(encode_number(number)) == number


@given(
    st.dictionaries(
        st.text("abc xyz", min_size=1, max_size=6).filter(str.strip), st.text("pq \n", max_size=20), max_size=6
    )
)
def test_a_dictionary_holds_what_was_written(entries: dict[str, str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        # A place of no length may be two entries' at once.
        path = dictionary(Path(folder), [(headword, f"= {text}") for headword, text in entries.items()])
        found = list(read_dictionary(path))
    assert {entry.headword: " ".join(entry.text.split()) for entry in found if isinstance(entry, Entry)} == {
        headword: " ".join(f"= {text}".split()) for headword, text in entries.items()
    }


# Dates, and the Python library.


@given(st.dates())
def test_dates_are_read(day: datetime.date) -> None:
    assert parse_date(day.isoformat()) == day
    assert parse_date(f"{day.isoformat()}T10:00:00+00:00") == day
    assert parse_date(f"{day:%B} {day.day}, {day.year:04}") == day


@pytest.mark.parametrize("text", ["", "soon", "2027-13-01", "N/A", "12"])
def test_other_texts_are_no_dates(text: str) -> None:
    assert parse_date(text) is None


@pytest.mark.long
def test_the_python_library_is_documented_and_names_no_path() -> None:
    found = list(read_python_library("https://docs.example/python/"))
    documents = {item.url: item for item in found if isinstance(item, Document)}
    assert [item for item in found if isinstance(item, Unreadable)] == []
    assert len(documents) > 500
    json_page = documents["https://docs.example/python/library/json"]
    assert "### `dumps(obj, *, skipkeys=False" in json_page.text
    assert (
        "class json.decoder.JSONDecoder"
        in documents["https://docs.example/python/library/json.decoder/JSONDecoder"].title
    )
    assert (
        documents["https://docs.example/python/reference/comparisons"].title
        == "Comparisons — Python language reference"
    )
    assert "https://docs.example/python/library/builtins/str" in documents
    for item in documents.values():
        assert item.title
        assert item.title == " ".join(item.title.split())
        assert str(Path(os.__file__).parent) not in item.text
