"""DICT dictionaries (RFC 2229's files, as `dictd` has them): `NAME.dict.dz` or `NAME.dict`, and `NAME.index`.

A line of the index is a headword, an offset and a length, with tabs between them; numbers are in base 64. Entries
whose headword begins with `00database` or `00-database` are about the dictionary and not of it.
"""

import gzip
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from worldlm.retrieval.document import Unreadable

_DIGITS = {
    character: value
    for value, character in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}

_NO_LETTER = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """What a dictionary says of a headword."""

    headword: str
    """As the index has it."""
    title: str
    """As the entry itself writes the headword."""
    text: str
    """Without that line."""


def decode_number(text: str) -> int:
    """A number of an index. Raises ValueError."""
    number = 0
    for character in text:
        if character not in _DIGITS:
            raise ValueError(f"{text!r} is not a number of a dictionary's index")
        number = number * 64 + _DIGITS[character]
    return number


def encode_number(number: int) -> str:
    """`number`, which is not negative, as an index writes it."""
    digits = list(_DIGITS)
    text = digits[number % 64]
    while number := number // 64:
        text = digits[number % 64] + text
    return text


def read_dictionary(path: Path) -> Iterator[Entry | Unreadable]:
    """The entries of a dictionary, by headword; several of one headword are one, with an empty line between them.

    Raises OSError or ValueError when the dictionary as a whole cannot be read.
    """
    name = path.name.removesuffix(".dz").removesuffix(".dict")
    index = path.with_name(f"{name}.index")
    if not index.is_file():
        raise ValueError(f"{index.name}, the dictionary's index, is missing")
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".dz" else path.read_bytes()
    places: dict[str, list[tuple[int, int]]] = {}
    taken: set[tuple[int, int]] = set()
    for number, line in enumerate(index.read_bytes().split(b"\n"), 1):
        if not line or line.startswith((b"00database", b"00-database")):
            continue
        try:
            headword, offset, length, *_ = line.decode().split("\t")
            place = decode_number(offset), decode_number(length)
        except ValueError as error:
            yield Unreadable(f"{index.name}:{number}", str(error))
            continue
        if sum(place) > len(data):
            yield Unreadable(f"{index.name}:{number}", "it points behind the end of the dictionary")
        elif place not in taken and headword.strip():  # further headwords of an entry are not entries
            taken.add(place)
            places.setdefault(headword, []).append(place)
    for headword, found in places.items():
        bodies = [data[offset : offset + length].decode("utf-8", "replace") for offset, length in found]
        title, first = _split(headword, bodies[0])
        texts = [first, *(_split(headword, body)[1] for body in bodies[1:])]
        yield Entry(headword, title, "\n\n".join(text for text in texts if text) or title)


def _split(headword: str, body: str) -> tuple[str, str]:
    """Title and text: an entry's first line is its title where it is the headword in the entry's own spelling."""
    line, _, rest = body.strip("\n").partition("\n")
    title = line.strip()
    if title == headword or (title and _letters(title) == _letters(headword)):
        return title, textwrap.dedent(rest).strip()
    return headword, textwrap.dedent(body).strip()


def _letters(text: str) -> str:
    return _NO_LETTER.sub("", text.casefold()) or text


__all__ = ["Entry", "decode_number", "encode_number", "read_dictionary"]
