"""Where the package keeps what it fetches or builds once, and how several processes share it."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from worldlm.core.errors import SetupError, user_path


def cache_home() -> Path:
    """`$WORLDLM_HOME`, else `$XDG_CACHE_HOME/worldlm`, else `~/.cache/worldlm`."""
    if told := os.environ.get("WORLDLM_HOME"):
        return user_path(told)
    return user_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "worldlm"


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold the lock of a file; waits for it. It goes when the process does."""
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def once(path: Path, make: Callable[[Path], Path]) -> Path:
    """`path`, made first where it is not there: whole, or not at all.

    `make` is given an empty folder and returns what in it becomes `path`. Several processes at once do no harm: one
    works, the others wait; what one that was killed has left is removed. Raises SetupError when it cannot be kept.
    """
    if path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone(path.with_name(f"{path.name}.lock")):
            if not path.exists():
                work = path.with_name(f".{path.name}.partial")
                shutil.rmtree(work, ignore_errors=True)
                work.mkdir()
                try:
                    make(work).replace(path)
                finally:
                    shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise SetupError(
            f"cannot store {path.name} under {path.parent}: {error.strerror or error}; "
            "make room or set WORLDLM_HOME to another folder"
        ) from error
    return path
