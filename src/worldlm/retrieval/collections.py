"""Collections of documents that a name is enough for: Debian packages, and what the running Python carries."""

import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from worldlm.core.errors import InputError, SetupError, nearest
from worldlm.retrieval.library import Source


@dataclass(frozen=True, slots=True)
class Collection:
    """A set of documents that is in many places the same."""

    url: str
    licence: str
    path: str | None = None
    """Where its package puts it; a `*` stands for a version, of which the last counts."""
    package: str | None = None
    """The Debian package."""
    pattern: str = "*"

    def find(self) -> Path | None:
        """Where it lies on this machine; None where it is not installed."""
        if self.path is None:
            return None
        found = sorted(Path("/").glob(self.path.lstrip("/")), key=lambda path: (len(str(path)), str(path)))
        return found[-1] if found else None


def _dictionary(name: str, package: str, licence: str) -> Collection:
    return Collection("https://dictionary.example/", licence, f"/usr/share/dictd/{name}.dict.dz", package)


COLLECTIONS: dict[str, Collection] = {
    "python": Collection("https://docs.example/python/", "PSF-2.0"),
    "foldoc": _dictionary("foldoc", "dict-foldoc", "GFDL-1.1-or-later"),
    "jargon": _dictionary("jargon", "dict-jargon", "public domain"),
    "vera": _dictionary("vera", "dict-vera", "GFDL-1.1-or-later"),
    "devil": _dictionary("devil", "dict-devil", "public domain"),
    "elements": _dictionary("elements", "dict-elements", "public domain"),
    "gcide": _dictionary("gcide", "dict-gcide", "GPL-3.0-or-later"),
    "wordnet": _dictionary("wn", "dict-wn", "WordNet-3.0"),
    "debian-faq": Collection(
        "https://faq.example/debian/", "GPL-2.0-or-later", "/usr/share/doc/debian/FAQ", "debian-faq", "*.en.html"
    ),
    "debian-policy": Collection(
        "https://policy.example/debian/",
        "GPL-2.0-or-later",
        "/usr/share/doc/debian-policy",
        "debian-policy",
        "*.html",
    ),
    "git": Collection("https://docs.example/git/", "GPL-2.0", "/usr/share/doc/git-doc", "git-doc", "*.html"),
    "postgresql": Collection(
        "https://docs.example/postgresql/",
        "PostgreSQL",
        "/usr/share/doc/postgresql-doc-*/html",
        "postgresql-doc",
        "*.html",
    ),
}


def collection_sources(names: Sequence[str]) -> list[Source]:
    """The sources of these collections.

    Raises InputError for a name that is none, SetupError that says what to install for those that are not there.
    """
    for name in names:
        if name not in COLLECTIONS:
            raise InputError(f"there is no collection of documents {name!r}; {nearest(name, COLLECTIONS)}")
    chosen = {name: COLLECTIONS[name] for name in names}
    absent = {name: kind.package for name, kind in chosen.items() if kind.package and kind.find() is None}
    if absent:
        raise SetupError(
            f"documents {', '.join(map(repr, absent))} are not installed: "
            f"apt-get install {' '.join(map(str, absent.values()))}"
        )
    return [Source(name, kind.url, kind.find(), kind.pattern) for name, kind in chosen.items()]


@cache
def collection_version(name: str) -> str:
    """The package's version, where the package manager knows it; empty where it does not."""
    package = COLLECTIONS[name].package
    if package is None:
        return platform.python_version()
    if shutil.which("dpkg-query") is None:
        return ""
    form = "${db:Status-Abbrev}${Version}\n"
    pattern = f"{package}*" if "*" in (COLLECTIONS[name].path or "") else package
    done = subprocess.run(["dpkg-query", "-W", "-f", form, pattern], capture_output=True, text=True, check=False)
    found = [line.removeprefix("ii").strip() for line in done.stdout.splitlines() if line.startswith("ii")]
    return found[-1] if found else ""


__all__ = ["COLLECTIONS", "Collection", "collection_sources", "collection_version"]
