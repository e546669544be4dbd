import subprocess
import sys
from pathlib import Path

import pytest

from worldlm.core.jsonl import read_trajectories
from worldlm.simulate import shipped_worlds

EXAMPLE = Path(__file__).parents[2] / "examples" / "quickstart.py"


@pytest.mark.skipif("terminal" not in {w.domain for w in shipped_worlds().values()}, reason="no terminal world")
def test_the_example_runs(model: str, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE), model]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "branch with 1 of 2 turns" in done.stdout
    (trajectory,) = read_trajectories(tmp_path / "quickstart.jsonl").items
    assert len(trajectory.turns) == 3
