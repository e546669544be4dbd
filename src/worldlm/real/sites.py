"""Sites that a real browser is shown: which there are, what they need, and where they come from.

A site's packages come from the configured package index by `pip install`, wheels alone (nothing of theirs runs on the
host), once, into `$WORLDLM_HOME/sites` (else `$XDG_CACHE_HOME/worldlm/sites`, else `~/.cache/worldlm/sites`); a folder
that is brought there by hand is as good.
"""

import contextlib
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from worldlm.core.errors import SetupError, user_path

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
    home = os.environ.get("WORLDLM_HOME")
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return (user_path(home) if home else user_path(cache) / "worldlm") / "sites" / packages.name


def obtain(packages: Packages) -> Path:
    """Their folder, fetched first when it is not here. Blocks.

    Several at once do no harm: one fetches, the others wait. Raises SetupError with the cure.
    """
    path = location(packages)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_dir():
            with _alone(path.with_name(".lock")):
                if not path.is_dir():
                    _fetch(packages, path)
    except OSError as error:
        raise SetupError(
            f"cannot store {path.name} under {path.parent}: {error.strerror or error}; "
            "make room or set WORLDLM_HOME to another folder"
        ) from error
    return path


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(packages: Packages, path: Path) -> None:
    """Bring the packages to `path`; whole, or not at all. The caller holds its lock."""
    wanted = " ".join(packages.requirements)
    by_hand = f"`pip install --no-deps --target {path} {wanted}`"
    if importlib.util.find_spec("pip") is None:
        raise SetupError(f"{wanted} is not here and this Python has no pip: run `python -m ensurepip`, or {by_hand}")
    for left_over in path.parent.glob(".partial-*"):  # of a fetch that was killed
        shutil.rmtree(left_over, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=path.parent) as folder:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-input"]
        command += ["--no-deps", "--only-binary", ":all:", "--target", f"{folder}/site", *packages.requirements]
        try:
            done = subprocess.run(
                ["setpriv", "--pdeathsig", "KILL", *command] if shutil.which("setpriv") else command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env={**os.environ, "TMPDIR": folder},
                timeout=FETCH_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SetupError(f"pip did not bring {wanted} within {FETCH_SECONDS:g} s: check the network") from None
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
            why = (errors or lines or [f"pip ended with {done.returncode}"])[-1].strip()
            raise SetupError(
                f"could not get {wanted}: {why}; check the network and pip's index, or run elsewhere: {by_hand}"
            )
        Path(folder, "site").replace(path)
