"""How long `worldlm --help` and `import worldlm` take, beside a bare interpreter (the least there is)."""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path


def median_ms(command: list[str], runs: int) -> float:
    """Median wall time of a command in milliseconds, after one run that fills the file cache."""
    times = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times[1:])


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    script = Path(sys.executable).parent / "worldlm"
    worldlm = str(script) if script.exists() else shutil.which("worldlm") or sys.exit("worldlm is not installed")
    commands = {
        "bare interpreter": [sys.executable, "-c", "pass"],
        "import pydantic": [sys.executable, "-c", "import pydantic.main"],
        "import worldlm": [sys.executable, "-c", "import worldlm"],
        "import worldlm.core.types": [sys.executable, "-c", "import worldlm.core.types"],
        "worldlm --help": [worldlm, "--help"],
        "worldlm worlds list": [worldlm, "worlds", "list"],
    }
    figures = {name: median_ms(command, arguments.runs) for name, command in commands.items()}
    if arguments.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:28} {value:8.0f} ms")


if __name__ == "__main__":
    main()
