"""Sources of documents, and an index of them that is built once and kept.

An index lies in a folder of the cache whose name is a digest of its sources: which files, how long, how old, read by
which version. It is built in a folder beside it and then renamed, under a lock, so that of several processes one
builds and the others wait, and one that is killed leaves nothing that is taken for an index.
"""

import fcntl
import json
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from worldlm.core.cache import cache_home
from worldlm.core.errors import InputError, SetupError
from worldlm.core.text import clean_text, digest
from worldlm.retrieval.document import Document, Unreadable
from worldlm.retrieval.index import Index, engine_version
from worldlm.retrieval.python_library import python_sources, read_python_library
from worldlm.retrieval.readers import Found, files_of, read_path

FORMAT = "1"
"""Changes when readers or the index would give something else for the same files."""
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Source:
    """Where documents come from."""

    name: str
    url: str
    """The address under which they stand; ends in `/`."""
    path: Path | None = None
    """A file or a folder; None: what the running Python carries."""
    pattern: str = "*"
    """The names of the files of a folder that are read."""

    def files(self) -> Sequence[Path]:
        """Every file of the source."""
        return files_of(self.path, self.pattern) if self.path else python_sources()

    def read(self) -> Found:
        """Its documents."""
        return read_path(self.path, self.url, self.pattern) if self.path else read_python_library(self.url)


@dataclass(frozen=True, slots=True)
class Library:
    """An index of several sources, with what is known of how it came to be."""

    index: Index
    counts: dict[str, int]
    """Documents, by the source's name."""
    problems: tuple[str, ...]
    """Documents that could not be read, one line each."""


class Stopped(Exception):  # noqa: N818
    """Building an index was given up because it was asked for."""


def open_library(sources: Sequence[Source], cache: Path, stop: threading.Event | None = None) -> Library:
    """The index of `sources`, built first where `cache` does not hold it.

    Raises InputError for a source that is not there, SetupError when nothing in it can be read or the cache cannot be
    written, and Stopped when `stop` is set.
    """
    stop = stop or threading.Event()
    key = _key(sources)
    place = cache / key
    try:
        if not _is_built(place):
            cache.mkdir(parents=True, exist_ok=True)
            _sweep(cache)
            with _locked(cache / f"{key}.lock", stop):
                if not _is_built(place):
                    _build(sources, place, stop)
    except OSError as error:
        raise SetupError(f"cannot keep an index in {cache}: {error.strerror or error}; set WORLDLM_HOME") from error
    about = json.loads((place / "about.json").read_text("utf-8"))
    return Library(Index.open(place / "index"), about["counts"], tuple(about["problems"]))


def cache_folder() -> Path:
    """Where indexes are kept."""
    return cache_home() / "indexes"


def memory_library(name: str, documents: Sequence[Document]) -> Library:
    """An index in memory, for a few documents."""
    return Library(Index.build(documents), {name: len(documents)}, ())


def _key(sources: Sequence[Source]) -> str:
    parts = [FORMAT, engine_version()]
    for source in sources:
        if source.path and not source.path.exists():
            raise InputError(f"documents {source.name!r}: there is no file or folder {source.path}")
        parts += [source.name, source.url, source.pattern, "" if source.path else sys.version]
        for file in source.files():
            status = file.stat()
            parts.append(f"{file} {status.st_size} {status.st_mtime_ns}")
    return digest(*parts)[:24]


def _is_built(place: Path) -> bool:
    return (place / "about.json").is_file()


def _build(sources: Sequence[Source], place: Path, stop: threading.Event) -> None:
    work = place.with_name(f"{place.name}.tmp")
    shutil.rmtree(work, ignore_errors=True)
    counts: Counter[str] = Counter()
    problems: list[str] = []

    def documents() -> Iterator[Document]:
        seen: set[str] = set()
        for source in sources:
            for found in source.read():
                if stop.is_set():
                    raise Stopped
                if isinstance(found, Document) and found.url in seen:
                    found = Unreadable(found.url, "an earlier document has this address")
                if isinstance(found, Unreadable):
                    problems.append(f"{source.name}: {found}")
                else:
                    seen.add(found.url)
                    counts[source.name] += 1
                    yield found

    try:
        Index.build(documents(), work / "index")
        _require_all(sources, counts, problems)
        about = {"counts": dict(counts), "problems": [clean_text(line) for line in problems]}
        (work / "about.json").write_text(json.dumps(about, ensure_ascii=False), "utf-8")
        work.replace(place)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _require_all(sources: Sequence[Source], counts: Mapping[str, int], problems: Sequence[str]) -> None:
    """Raises SetupError when a source gave nothing."""
    for source in sources:
        if not counts.get(source.name):
            why = next((f"; {problem}" for problem in problems if problem.startswith(f"{source.name}: ")), "")
            raise SetupError(f"documents {source.name!r}: there is nothing that can be read{why}")


@contextmanager
def _locked(path: Path, stop: threading.Event) -> Iterator[None]:
    """Hold the lock of a file; it goes when the process does."""
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if stop.is_set():
                    raise Stopped from None
                time.sleep(POLL_SECONDS)
        yield


def _sweep(cache: Path) -> None:
    """Remove what builders that were killed have left."""
    for work in cache.glob("*.tmp"):
        lock = work.with_suffix(".lock")
        with lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(work, ignore_errors=True)


__all__ = ["Library", "Source", "Stopped", "cache_folder", "memory_library", "open_library"]
