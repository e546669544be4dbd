"""Files to documents: text, Markdown, reStructuredText, HTML, manual pages, JSON lines, DICT dictionaries.

Any of them may be compressed (`.gz`). A file that cannot be read is an `Unreadable` among the documents, and the
others go on. The text of a document is Markdown, or as near to it as its source was.
"""

import gzip
import json
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import yaml

from worldlm.core.text import clean_text
from worldlm.retrieval.dictionary import read_dictionary
from worldlm.retrieval.document import Document, Unreadable, parse_date
from worldlm.retrieval.html import HtmlPage, read_html

MAX_BYTES = 32 << 20
"""A file larger than this, unpacked, is not read (a dictionary or JSON lines may be of any size)."""
TITLE_CHARS = 120
"""A first line longer than this is no title."""
MAN_SECONDS = 20.0

Found = Iterator[Document | Unreadable]


def read_path(path: Path, base: str, pattern: str = "*") -> Found:
    """The documents of a file, or of the files of a folder and of those below it, in the order of their names.

    `base` is the address under which they stand: a file's is `base` and its path in the folder. Of a folder only files
    are read whose name fits `pattern` (`*.html`) and whose kind is known; symbolic links are passed over.
    """
    if path.is_file():
        yield from read_file(path, base, path.name)
        return
    for file in files_of(path, pattern):
        yield from read_file(file, base, file.relative_to(path).as_posix())


def files_of(path: Path, pattern: str = "*") -> list[Path]:
    """The files that `read_path` reads: sorted, so that an order is the same everywhere."""
    if path.is_file():
        return [path]
    files = [file for file in path.rglob(pattern) if _reader(file.name) and file.is_file() and not file.is_symlink()]
    return sorted(files, key=lambda file: file.relative_to(path).parts)


def read_file(path: Path, base: str, name: str) -> Found:
    """The documents of one file, which stands under `base` as `name` (a relative path)."""
    reader = _reader(path.name)
    if reader is None:
        yield Unreadable(name, f"no reader for this kind of file; known: {', '.join(sorted(_READERS))}, .1 to .9")
        return
    try:
        yield from reader(path, base, name.removesuffix(".gz"))
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        yield Unreadable(name, " ".join(words.split())[:200] or type(error).__name__)


def address(base: str, name: str) -> str:
    """Where a relative path stands under `base`."""
    return base + quote(name)


# The kinds.


def _html(path: Path, base: str, name: str) -> Found:
    url = address(base, name)
    page = read_html(_bytes(path), url)
    yield _page(page, url, name, page.date or _changed(path))


def _man(path: Path, base: str, name: str) -> Found:
    data = _bytes(path)
    if re.match(rb"(?:[.']\\\".*\n|\s)*\.so\s", data):
        return  # another name of another page
    if shutil.which("mandoc") is None:
        raise ValueError("manual pages need the program mandoc: apt-get install mandoc")
    command = ["mandoc", "-T", "html", "-O", "fragment"]
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=MAN_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"mandoc took longer than {MAN_SECONDS:g} s") from error
    if not done.stdout.strip():
        raise ValueError("mandoc made nothing of it")
    stem, _, section = PurePosixPath(name).name.rpartition(".")
    page = read_html(done.stdout, address(base, name), f"{stem}({section})")
    yield _page(page, address(base, name), name, page.date or _changed(path))


def _markdown(path: Path, base: str, name: str) -> Found:
    text, head = _front_matter(_text(path))
    heading = re.match(r"\s*#[ \t]+([^\n]+?)[ \t#]*(?:\n|$)", text)
    title = str(head.get("title") or (heading[1] if heading else ""))
    if heading and " ".join(heading[1].split()) == " ".join(title.split()):
        text = text[heading.end() :]
    day = parse_date(str(head.get("date", "")))
    yield _page(HtmlPage(title, text, day), address(base, name), name, day or _changed(path))


def _rest(path: Path, base: str, name: str) -> Found:
    """The text as it stands, without its title."""
    text = _text(path)
    heading = re.search(r"^(?:([^\w\s])\1{2,}[ \t]*\n)?[ \t]*(\S[^\n]*)\n([^\w\s])\3{2,}[ \t]*$\n?", text, re.MULTILINE)
    title = heading[2] if heading else _first_line(text)
    if heading and not text[: heading.start()].strip():
        text = text[heading.end() :]
    yield _page(HtmlPage(title, text, None), address(base, name), name, _changed(path))


def _plain(path: Path, base: str, name: str) -> Found:
    text = _text(path)
    yield _page(HtmlPage(_first_line(text), text, None), address(base, name), name, _changed(path))


def _json_lines(path: Path, base: str, name: str) -> Found:
    """Objects with `title`, `text` and, where they have them, `url` and `date`."""
    stem = name.rpartition(".")[0]
    with _open(path) as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield _record(json.loads(line), address(base, f"{stem}/{number}"))
                except (ValueError, RecursionError) as error:
                    yield Unreadable(f"{name}:{number}", str(error) or type(error).__name__)


def _record(value: Any, url: str) -> Document:
    if not isinstance(value, dict):
        raise ValueError("a line is an object with title and text")  # noqa: TRY004
    for key in ("title", "text"):
        if not isinstance(value.get(key), str):
            raise ValueError(f"{key!r} is missing, or not a string")  # noqa: TRY004
    day = value.get("date")
    if day is not None and (not isinstance(day, str) or parse_date(day) is None):
        raise ValueError(f"date {day!r} is not a date; write YYYY-MM-DD")
    url = value.get("url") or url
    if not isinstance(url, str) or not re.fullmatch(r"https?://\S+", url):
        raise ValueError(f"url {url!r} is not a web address (http://… or https://…)")
    title = _line(value["title"]) or url
    return Document(clean_text(url), title, clean_text(value["text"]).strip(), parse_date(day) if day else None)


def _dictionary(path: Path, base: str, name: str) -> Found:
    folder = address(base, name.partition(".dict")[0] + "/")
    for entry in read_dictionary(path):
        if isinstance(entry, Unreadable):
            yield Unreadable(f"{name}: {entry.place}", entry.reason)
        else:
            yield Document(folder + quote(entry.headword, safe=""), _line(entry.title), entry.text)


_READERS: dict[str, Callable[[Path, str, str], Found]] = {
    ".html": _html,
    ".htm": _html,
    ".xhtml": _html,
    ".md": _markdown,
    ".markdown": _markdown,
    ".rst": _rest,
    ".txt": _plain,
    ".jsonl": _json_lines,
    ".dict": _dictionary,
    ".dict.dz": _dictionary,
}
_MAN = re.compile(r"[^/]+\.[1-9][a-z0-9]*")


def _reader(name: str) -> Callable[[Path, str, str], Found] | None:
    """The reader for a file of this name."""
    name = name.lower().removesuffix(".gz")
    for suffix, reader in _READERS.items():
        if name.endswith(suffix) and name != suffix:
            return reader
    return _man if _MAN.fullmatch(name) else None


# What they share.


def _open(path: Path) -> Any:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _bytes(path: Path) -> bytes:
    with _open(path) as file:
        data: bytes = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"larger than {MAX_BYTES >> 20} MiB")
    return data


def _text(path: Path) -> str:
    data = _bytes(path)
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text (byte {error.start})") from error


def _changed(path: Path) -> date:
    """When the file was last changed, by UTC."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).date()


def _line(text: str) -> str:
    return " ".join(clean_text(text).split())


def _page(page: HtmlPage, url: str, name: str, day: date | None) -> Document:
    title = _line(page.title) or PurePosixPath(name).stem
    return Document(url, title, clean_text(page.text).strip(), day)


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.split("\n") if line.strip()), "")
    return line if len(line) <= TITLE_CHARS else ""


def _front_matter(text: str) -> tuple[str, dict[str, Any]]:
    """The text without the YAML block between `---` lines at its head, and that block."""
    match = re.match(r"---[ \t]*\n(.*?)\n---[ \t]*(?:\n|$)", text, re.DOTALL)
    if match is None:
        return text, {}
    try:
        head = yaml.safe_load(match[1])
    except (yaml.YAMLError, ValueError):
        return text, {}
    return (text[match.end() :], head) if isinstance(head, dict) else (text, {})


__all__ = ["Found", "files_of", "read_file", "read_path"]
