"""What is indexed: a document with an address, a title, a text and a date."""

import datetime
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """One document of an index."""

    url: str
    """Its address, or any other name; unique within an index."""
    title: str
    """One line."""
    text: str
    """Markdown, or plain text."""
    date: datetime.date | None = None
    """Of its last change, where it is known."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A document that could not be read: reported and counted, and the others go on."""

    place: str
    """File, and line or entry where there is one."""
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


_FORMATS = ("%Y-%m-%d", "%Y/%m/%d", "%b %d, %Y", "%B %d, %Y", "%d %B %Y", "%d %b %Y", "%Y-%m-%dT%H:%M:%S%z")


def parse_date(text: str) -> datetime.date | None:
    """A date as documents write it (ISO 8601, `March 3, 2027`, `3 March 2027`); None for anything else."""
    text = " ".join(text.split())
    for form in _FORMATS:
        try:
            return datetime.datetime.strptime(text, form).date()
        except ValueError:
            continue
    try:
        return datetime.datetime.fromisoformat(text).date()
    except ValueError:
        return None


__all__ = ["Document", "Unreadable", "parse_date"]
