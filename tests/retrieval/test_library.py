"""Libraries: an index is built once, by one process, whole or not at all."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from worldlm.core.errors import InputError, SetupError
from worldlm.retrieval import Document, Source, Stopped, cache_folder, memory_library, open_library
from worldlm.retrieval import library as library_module
from worldlm.retrieval.collections import COLLECTIONS, collection_sources


@pytest.fixture
def source(tmp_path: Path) -> Source:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number:02}.md").write_text(f"# Page {number}\n\nIt tells of ship {number}.\n")
    return Source("docs", "https://docs.example/", folder)


def test_it_is_built_once(source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_library([source], tmp_path / "cache")
    assert (first.counts, first.problems) == ({"docs": 30}, ())
    monkeypatch.setattr(library_module, "_build", lambda *_: pytest.fail("built again"))
    again = open_library([source], tmp_path / "cache")
    assert again.index.search("ship 7") == first.index.search("ship 7")


def test_a_changed_file_is_read_again(source: Source, tmp_path: Path) -> None:
    open_library([source], tmp_path / "cache")
    assert source.path is not None
    (source.path / "07.md").write_text("# Page 7\n\nNow of a submarine.\n")
    assert open_library([source], tmp_path / "cache").index.search("submarine")


def test_what_cannot_be_read_is_told_also_later(source: Source, tmp_path: Path) -> None:
    assert source.path is not None
    (source.path / "bad.txt").write_bytes(b"\xff")
    for _ in range(2):
        library = open_library([source], tmp_path / "cache")
        assert library.problems == ("docs: bad.txt: not UTF-8 text (byte 0)",)
        assert library.counts == {"docs": 30}


def test_an_address_that_comes_twice_counts_once(source: Source, tmp_path: Path) -> None:
    more = Source("more", "https://docs.example/", source.path, "0[0-4].md")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "x.txt").write_text("x")
    third = Source("own", "https://own.example/", tmp_path / "own")
    with pytest.raises(
        SetupError, match=r"documents 'more': there is nothing that can be read; more: .*earlier document"
    ):
        open_library([source, more, third], tmp_path / "cache")


def test_nothing_to_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    with pytest.raises(SetupError, match=r"documents 'd': there is nothing that can be read; d: bad.txt: not UTF-8"):
        open_library([Source("d", "https://d.example/", tmp_path)], tmp_path / "cache")
    with pytest.raises(InputError, match="documents 'd': there is no file or folder /nowhere"):
        open_library([Source("d", "https://d.example/", Path("/nowhere"))], tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*.tmp"))


def test_a_cache_that_cannot_be_written(source: Source, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(SetupError, match=r"cannot keep an index in .*; set WORLDLM_HOME"):
        open_library([source], tmp_path / "cache")


def test_building_stops_when_asked(source: Source, tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        open_library([source], tmp_path / "cache", stop)
    assert not [path for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"]


class Slow(Source):
    """A source that takes its time."""

    def read(self) -> Iterator[Document]:
        for number in range(40):
            time.sleep(0.01)
            yield Document(f"{self.url}{number}", f"Page {number}", "slow")


def _open_slow(cache: Path, folder: Path, answers: "multiprocessing.Queue[tuple[int, list[str]]]") -> None:
    library = open_library([Slow("slow", "https://slow.example/", folder)], cache)
    answers.put((library.counts["slow"], [hit.document.url for hit in library.index.search("slow")]))


def test_two_processes_at_once(source: Source, tmp_path: Path) -> None:
    assert source.path is not None
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[tuple[int, list[str]]] = context.Queue()
    arguments = (tmp_path / "cache", source.path, answers)
    processes = [context.Process(target=_open_slow, args=arguments) for _ in range(3)]
    for process in processes:
        process.start()
    found = [answers.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert found[0][0] == 40
    assert found == [found[0]] * 3
    assert len(list((tmp_path / "cache").glob("*/about.json"))) == 1


def test_one_that_was_killed_leaves_nothing_that_counts(source: Source, tmp_path: Path) -> None:
    assert source.path is not None
    cache = tmp_path / "cache"
    context = multiprocessing.get_context("spawn")
    answers: multiprocessing.Queue[tuple[int, list[str]]] = context.Queue()
    process = context.Process(target=_open_slow, args=(cache, source.path, answers))
    process.start()
    while not list(cache.glob("*.tmp")):
        assert process.is_alive()
        time.sleep(0.005)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    assert list(cache.glob("*.tmp"))
    open_library([source], cache)  # another index: what was left is swept away all the same
    assert not list(cache.glob("*.tmp"))


def test_a_library_in_memory() -> None:
    library = memory_library("pages", [Document("https://a.example/", "A", "about it")])
    assert library.counts == {"pages": 1}
    assert library.index.search("about it")


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDLM_HOME", "/h")
    assert cache_folder() == Path("/h/indexes")
    monkeypatch.delenv("WORLDLM_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert cache_folder() == Path("/c/worldlm/indexes")


# Collections.


def test_an_unknown_collection_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no collection of documents 'foldok'; did you mean 'foldoc'\?"):
        collection_sources(["python", "foldok"])


def test_missing_packages_are_named_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worldlm.retrieval.collections.Path.glob", lambda self, pattern: iter(()))
    with pytest.raises(SetupError, match=r"'foldoc', 'git' are not installed: apt-get install dict-foldoc git-doc$"):
        collection_sources(["python", "foldoc", "git"])


@pytest.mark.parametrize("name", COLLECTIONS)
def test_addresses_of_collections(name: str) -> None:
    url = COLLECTIONS[name].url
    assert url.startswith("https://")
    assert url.endswith("/")
    assert url.split("/")[2].endswith(".example")
