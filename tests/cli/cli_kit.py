"""What the tests of the command line share: a world, and what a run of the program gave."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WORLD = """\
schema: worldlm.world/1
name: box
domain: terminal
summary: A small box.
context: A plain machine.
initial_state:
  user: user
  host: box
  files:
    notes.txt: "hello\\n"
"""


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Stdout, which must hold one JSON value on one line and nothing else."""
        assert self.out.count("\n") == 1, self.out
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line of stderr."""
        assert self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        return self.err.rstrip("\n")


Cli = Callable[..., Result]
