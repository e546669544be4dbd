"""An index over documents or turns, and the readers that make documents out of files."""

from worldlm.retrieval.document import Document, Unreadable
from worldlm.retrieval.index import Hit, Index
from worldlm.retrieval.library import Library, Source, Stopped, cache_folder, memory_library, open_library
from worldlm.retrieval.readers import read_file, read_path

__all__ = [
    "Document",
    "Hit",
    "Index",
    "Library",
    "Source",
    "Stopped",
    "Unreadable",
    "cache_folder",
    "memory_library",
    "open_library",
    "read_file",
    "read_path",
]
