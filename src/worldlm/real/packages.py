"""Running pip, uv and npm: they end when we do, and say in one line what went wrong."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from worldlm.core.errors import SetupError


def run_installer(
    command: Sequence[str], *, failure: str, cure: str, seconds: float, temporary: Path | None = None
) -> None:
    """Run an installer. Blocks.

    `temporary`: the folder for its temporary files. Raises SetupError: the `failure`, the installer's own words, the
    cure.
    """
    ends_with_us = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
    environment: Mapping[str, str] = {**os.environ, **({"TMPDIR": str(temporary)} if temporary else {})}
    try:
        done = subprocess.run(
            [*ends_with_us, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SetupError(f"{failure}: it took more than {seconds:g} s; {cure}") from None
    if done.returncode:
        raise SetupError(f"{failure}: {last_error(done.stderr or done.stdout, done.returncode)}; {cure}")


def last_error(output: str, code: int) -> str:
    """The line of an installer's output that tells most."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    marked = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    named = [line for line in lines if "error" in line.lower()]
    return (marked or named or lines or [f"it ended with {code}"])[-1]
