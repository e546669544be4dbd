"""Records for the tests of training."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.data.sessions import session, shell
from worldlm.core.types import Trajectory

COMMANDS = ("uname", "cat notes.txt", "wc -l notes.txt", "date", "id -un", "ls -la /srv", "echo one two")


def sessions(number: int, *, turns: int = 3, thinking: str | None = None) -> list[Trajectory]:
    """Terminal sessions of differing lengths."""
    found = []
    for n in range(number):
        lines = [COMMANDS[(n + at) % len(COMMANDS)] for at in range(turns + n % 2)]
        said = [shell(line, f"{line[::-1]} {n}" * (1 + n % 3), thinking=thinking) for line in lines]
        found.append(session(said).model_copy(update={"id": f"session-{n}"}))
    return found


def write_lines(path: Path, values: Sequence[Any]) -> Path:
    """A file of records."""
    dumped = [value if isinstance(value, dict) else value.model_dump(mode="json") for value in values]
    path.write_text("".join(json.dumps(value) + "\n" for value in dumped), "utf-8")
    return path


def texts(number: int) -> list[dict[str, Any]]:
    """Text records."""
    words = "the quick brown fox jumps over the lazy dog and runs away from there".split()  # noqa: SIM905
    return [
        {
            "schema": "worldlm.text/1",
            "id": f"text-{n}",
            "text": " ".join(words[(n * 3 + at) % len(words)] for at in range(40)),
            "source": "made up",
            "licence": "CC0-1.0",
        }
        for n in range(number)
    ]
