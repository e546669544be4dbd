"""Source distributions: fetched once from the configured package index, kept by name and version, read in memory.

An archive lies in `$WORLDLM_HOME/sdists` (else `$XDG_CACHE_HOME/worldlm/sdists`, else `~/.cache/worldlm/sdists`) as
`NAME-VERSION.tar.gz`; one that is brought there by hand is as good. It comes by `pip download`, so that whatever pip is
told (indexes, folders, certificates, proxies, constraints) holds here too.

`pip download` goes on to ask a source distribution for its metadata, which runs the project's code. That must not
happen on the host: pip is ended, by an audit hook in its own process, at the moment when it opens the whole archive to
read it; and it never comes to start a Python program.
"""

import hashlib
import importlib.util
import lzma
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import threading
import zlib
from email.parser import Parser
from pathlib import Path
from typing import Any

from worldlm.core.cache import cache_home, once
from worldlm.core.errors import InputError, SetupError
from worldlm.real.packages import last_error

FETCH_SECONDS = 300.0
MAX_ARCHIVE = 64 << 20
"""Bytes that an archive may have, and its files together."""
MAX_FILES = 5_000

_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)==(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*)"
)
_FETCHED = 86
"""How `_pip_download` ends when the archive is where it should be."""


def parse_requirement(text: str) -> tuple[str, str]:
    """`NAME==VERSION`, its name as package indexes normalise it. Raises InputError."""
    match = _REQUIREMENT.fullmatch(text.strip())
    if match is None:
        raise InputError(f"a source distribution is named NAME==VERSION (more-itertools==10.8.0), not {text!r}")
    return _normal(match["name"]), match["version"]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def location(requirement: str) -> Path:
    """Where its archive lies when it is there."""
    name, version = parse_requirement(requirement)
    return cache_home() / "sdists" / f"{name}-{version}.tar.gz"


def obtain(requirement: str, sha256: str | None = None) -> Path:
    """The archive of `NAME==VERSION`, fetched first when it is not here. Blocks.

    `sha256`: what it must be; without it, whatever the index gave. Several at once do no harm: one fetches, the others
    wait. Raises InputError for what is no requirement, SetupError, with the cure, when it cannot be had or is another.
    """
    path = once(location(requirement), lambda work: _fetch(requirement, location(requirement), work))
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if sha256 is not None and found != sha256.lower():
        raise SetupError(
            f"{path} is not the {requirement} that the world was made with: its SHA-256 is {found[:12]}…, not "
            f"{sha256[:12]}…; delete the file to fetch it again, or correct initial_state.sha256"
        )
    return path


def _fetch(requirement: str, path: Path, work: Path) -> Path:
    """Bring the archive that belongs at `path` into the folder `work`."""
    if importlib.util.find_spec("pip") is None:
        raise SetupError(
            f"{requirement} is not here and this Python has no pip: run `python -m ensurepip`, "
            f"or put its .tar.gz at {path}"
        )
    fresh = work / "archive"
    wanted = _normal(path.name.removesuffix(".tar.gz"))
    command = [sys.executable, "-m", "worldlm.real.sdists", wanted, requirement, str(fresh)]
    problem = _run(command, {**os.environ, "TMPDIR": str(work)})
    if problem:
        raise SetupError(
            f"could not download the source distribution {requirement}: {problem}; check its name and version, the "
            f"network and pip's index, or put its .tar.gz at {path}"
        )
    if fresh.stat().st_size > MAX_ARCHIVE:
        raise SetupError(f"{requirement} has {fresh.stat().st_size >> 20} MiB; at most {MAX_ARCHIVE >> 20} are taken")
    return fresh


def _run(command: list[str], environment: dict[str, str]) -> str:
    """Run the fetch; the last line of what went wrong, or ''. It ends when we do: its input is a pipe of ours."""
    life, lifeline = os.pipe()
    try:
        done = subprocess.run(
            command,
            stdin=life,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            timeout=FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {FETCH_SECONDS:g} s"
    finally:
        os.close(life)
        os.close(lifeline)
    if done.returncode == _FETCHED:
        return ""
    return last_error(done.stdout.decode(errors="replace"), done.returncode)


def _pip_download(wanted: str, requirement: str, target: str) -> None:
    """Be `pip download`, until there is an archive whose normal name is `wanted`: that is copied to `target`."""
    waiting = True

    def watch(event: str, args: tuple[Any, ...]) -> None:
        nonlocal waiting
        if event == "open" and waiting and isinstance(args[0], str) and str(args[1]).startswith("r"):
            name = os.path.basename(args[0])  # noqa: PTH119
            if name.endswith(".tar.gz") and _normal(name.removesuffix(".tar.gz")) == wanted:
                waiting = False  # the copy opens it too
                shutil.copyfile(args[0], target)
                os._exit(_FETCHED)
        elif event == "subprocess.Popen" and sys.executable in (args[0], *args[1][:1]):
            os.write(2, b"ERROR: the index has no .tar.gz of it\n")
            os._exit(1)

    def end_with_our_starter() -> None:
        os.read(0, 1)
        os._exit(1)

    threading.Thread(target=end_with_our_starter, daemon=True).start()
    sys.addaudithook(watch)
    sys.argv = ["pip", "--disable-pip-version-check", "download", "--quiet", "--no-input", "--no-deps"]
    sys.argv += ["--no-cache-dir", "--no-binary", ":all:", "--no-build-isolation"]
    sys.argv += ["--dest", str(Path(target).parent), requirement]
    runpy.run_module("pip", run_name="__main__")


def unpack(path: Path) -> dict[str, bytes]:
    """The files of an archive by their path within its one top folder, in the archive's order.

    A link within the archive becomes a copy. Nothing is written or run. Raises SetupError for an archive that is
    damaged, reaches outside its folder or holds more than MAX_FILES files or MAX_ARCHIVE bytes.
    """
    files: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(path, "r:*") as tar:
            for member in tar:
                inside = tarfile.data_filter(member, "/nowhere").name
                if member.isdir():
                    continue
                total += max(member.size, 0)
                if total > MAX_ARCHIVE or len(files) >= MAX_FILES:
                    raise SetupError(f"{path} holds more than {MAX_FILES:,} files or {MAX_ARCHIVE >> 20} MiB")
                stream = tar.extractfile(member)
                name = inside.partition("/")[2]
                if stream is not None and name:
                    files[name] = stream.read(MAX_ARCHIVE + 1)
    except (tarfile.TarError, KeyError, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise SetupError(f"{path} does not unpack: {error}; delete it to fetch it again") from error
    if not files:
        raise SetupError(f"{path} does not unpack: it holds no files; delete it to fetch it again")
    return files


def licence(files: dict[str, bytes]) -> str:
    """The licence that a source distribution states of itself, in a few words, or ''."""
    head = Parser().parsestr(files.get("PKG-INFO", b"").decode("utf-8", "replace"), headersonly=True)
    told = str(head["License-Expression"] or head["License"] or "").strip()
    if told and "\n" not in told and len(told) <= 80:
        return told
    named = [text.rpartition(" :: ")[2] for text in head.get_all("Classifier", []) if text.startswith("License :: ")]
    return ", ".join(named)


if __name__ == "__main__":
    _pip_download(*sys.argv[1:])
