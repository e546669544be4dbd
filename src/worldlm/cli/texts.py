"""Documents as the text records that training reads beside trajectories."""

from collections.abc import Callable, Iterator

from worldlm.core.text import clean_text
from worldlm.data.steps.records import TextRecord
from worldlm.retrieval import Document, Source


def text_records(source: Source, licence: str, tell: Callable[[str], None]) -> Iterator[TextRecord]:
    """A record for each document that is not empty; `tell` hears which could not be read, and why."""
    for document in source.read():
        if not isinstance(document, Document):
            tell(str(document))
        elif text := document.text.strip():
            whole = clean_text(f"{document.title}\n\n{text}")
            yield TextRecord(id=document.url, text=whole, source=source.name, licence=licence, url=document.url)
