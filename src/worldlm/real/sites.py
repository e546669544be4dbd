"""Sites that a real browser is shown: which there are, what they need, and where they come from.

A site's packages come from the configured package index by `pip install`, wheels alone (nothing of theirs runs on the
host), once, into `$WORLDLM_HOME/sites` (else `$XDG_CACHE_HOME/worldlm/sites`, else `~/.cache/worldlm/sites`); a folder
that is brought there by hand is as good.
"""

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

from worldlm.core.cache import cache_home, once
from worldlm.core.errors import SetupError
from worldlm.real.packages import run_installer

FETCH_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Packages:
    """Packages that lie together in one folder of the cache."""

    name: str
    requirements: tuple[str, ...]
    licence: str


MINIWOB = Packages("miniwob-1.1.0", ("miniwob==1.1.0",), "MIT")
DJANGO = Packages("django-5.2.19", ("django==5.2.19", "asgiref==3.13.0", "sqlparse==0.6.1"), "BSD-3-Clause")
APPS = ("bookshop", "tracker")
"""The Django sites."""


def location(packages: Packages) -> Path:
    """Where they lie when they are there."""
    return cache_home() / "sites" / packages.name


def obtain(packages: Packages) -> Path:
    """Their folder, fetched first when it is not here. Blocks. Raises SetupError with the cure."""
    return once(location(packages), lambda work: _fetch(packages, work))


def _fetch(packages: Packages, work: Path) -> Path:
    wanted = " ".join(packages.requirements)
    by_hand = f"`pip install --no-deps --target {location(packages)} {wanted}`"
    if importlib.util.find_spec("pip") is None:
        raise SetupError(f"{wanted} is not here and this Python has no pip: run `python -m ensurepip`, or {by_hand}")
    site = work / "site"
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-input"]
    command += ["--no-deps", "--only-binary", ":all:", "--target", str(site), *packages.requirements]
    cure = f"check the network and pip's index, or run elsewhere: {by_hand}"
    failure = f"could not get {wanted}"
    run_installer(command, failure=failure, cure=cure, seconds=FETCH_SECONDS, temporary=work)
    return site
