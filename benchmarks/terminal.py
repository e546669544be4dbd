"""Steps per second of the real terminal, against one tmux process a command, in the same run.

The rival types with `tmux send-keys` and looks with `tmux capture-pane`, a process each, until the next prompt
stands on a screen that it can tell from the last one; that is how most tools drive tmux. It runs a plain bash without
any sandbox.

    python benchmarks/terminal.py [--steps N] [--json]
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from worldlm.core.types import World
from worldlm.domains.terminal import COLUMNS, ROWS
from worldlm.real.sandbox import require_programs
from worldlm.real.terminal import TerminalEnvironment

WORLD = World(name="benchmark", domain="terminal", initial_state={"user": "user", "host": "box"})


def command(number: int) -> str:
    """A quick command whose answer is told from all others."""
    return f"echo $(({number} * 7919))"


def rate(seconds: list[float]) -> dict[str, float]:
    """Steps per second, and the median step in milliseconds."""
    return {
        "steps_per_second": round(len(seconds) / sum(seconds), 1),
        "median_ms": round(statistics.median(seconds) * 1000, 2),
    }


async def ours(steps: int) -> dict[str, float]:
    """Our environment: sandbox, control mode, prompt marks."""
    environment = TerminalEnvironment(WORLD)
    started = time.perf_counter()
    await environment.reset()
    reset = time.perf_counter() - started
    took = []
    for number in range(steps):
        action = json.dumps([{"keystrokes": command(number) + "\n", "duration": 5}])
        started = time.perf_counter()
        step = await environment.step(action)
        took.append(time.perf_counter() - started)
        assert step.observation is not None
        assert f"\n{number * 7919}\n" in step.observation.text
    started = time.perf_counter()
    await environment.close()
    return rate(took) | {
        "reset_ms": round(reset * 1000, 1),
        "close_ms": round((time.perf_counter() - started) * 1000, 1),
    }


@contextmanager
def plain_tmux() -> Iterator[list[str]]:
    """A tmux server with a plain bash in it; the start of each command to it."""
    with tempfile.TemporaryDirectory() as folder:
        tmux = ["tmux", "-S", str(Path(folder, "socket")), "-f", "/dev/null"]
        shell = "env PS1='user@box:~$ ' bash --norc --noprofile"
        subprocess.run([*tmux, "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), shell], check=True)
        try:
            yield tmux
        finally:
            subprocess.run([*tmux, "kill-server"], check=True)


def one_process_a_command(steps: int) -> dict[str, float]:
    """The usual way: a tmux process to type, and one for each look."""
    took = []
    with plain_tmux() as tmux:
        for number in range(steps):
            subprocess.run([*tmux, "send-keys", "C-l"], check=True)
            started = time.perf_counter()
            subprocess.run([*tmux, "send-keys", command(number), "Enter"], check=True)
            while True:
                looked = subprocess.run([*tmux, "capture-pane", "-p"], check=True, capture_output=True, text=True)
                rows = looked.stdout.rstrip().split("\n")
                if str(number * 7919) in rows and rows[-1].rstrip().endswith("$"):
                    break
                if time.perf_counter() - started > 5:
                    raise TimeoutError(f"no answer to command {number}")
            took.append(time.perf_counter() - started)
    return rate(took)


def main() -> None:
    """Run both and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    require_programs()
    found = {
        "ours": asyncio.run(ours(options.steps)),
        "one_process_a_command": one_process_a_command(max(20, options.steps // 10)),
    }
    if options.json:
        print(json.dumps(found))
        return
    for name, figures in found.items():
        print(f"{name:24}" + "  ".join(f"{key} {value:g}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
