import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.cli_kit import Cli
from worldlm.core.jsonl import read_trajectories
from worldlm.core.outcomes import EndingKind

MISSING = [name for name in ("bwrap", "tmux") if shutil.which(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs the programs {' and '.join(MISSING)}")


def test_each_episode_is_a_line_and_resume_adds_what_is_missing(
    cli: Cli, world: Path, script: Path, tmp_path: Path
) -> None:
    out = tmp_path / "real.jsonl"
    base = ("collect", "terminal", "--world", world, "--policy", f"script:{script}", "--out", out)
    result = cli(*base, "--episodes", 2)
    assert (result.code, result.err) == (0, "")
    assert "2 of 2 episodes recorded" in result.out
    for trajectory in read_trajectories(out).items:
        assert trajectory.origin.kind == "real"
        assert trajectory.turns[1].observation
        assert trajectory.turns[1].observation.text.splitlines()[1] == "hi"

    clash = cli(*base, "--episodes", 2)
    assert clash.code == 2
    assert "--resume" in clash.error

    report = cli(*base, "--episodes", 5, "--resume", "--json").json
    assert (report["already_there"], report["recorded"], report["turns"]) == (2, 3, 6)
    assert report["endings"] == {"completed": 3}
    ids = [trajectory.id for trajectory in read_trajectories(out).items]
    assert len(set(ids)) == 5

    nothing = cli(*base, "--episodes", 5, "--resume", "--json").json
    assert (nothing["already_there"], nothing["recorded"]) == (5, 0)


def test_an_interrupted_episode_is_recorded_and_run_again_on_resume(
    cli: Cli, start: Callable[..., "subprocess.Popen[str]"], world: Path, tmp_path: Path
) -> None:
    out, script = tmp_path / "real.jsonl", tmp_path / "script.txt"
    script.write_text('pwd\n[{"keystrokes": "sleep 4.371\\n", "duration": 5}]\n')
    base = ("collect", "terminal", "--world", world, "--policy", f"script:{script}", "--out", out)
    process = start(*base, "--episodes", 1)
    deadline = time.monotonic() + 30
    while "sleep 4.371" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    printed, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
    assert "cancelled 1" in printed
    (trajectory,) = read_trajectories(out).items
    assert trajectory.ending.kind is EndingKind.CANCELLED

    report = cli(*base, "--episodes", 1, "--resume", "--json").json
    assert report["endings"] == {"completed": 1}
    first, second = read_trajectories(out).items
    assert second.id == f"{first.id}.2"
    assert cli(*base, "--episodes", 1, "--resume", "--json").json["already_there"] == 1


def test_a_model_policy_acts_with_an_instruction(cli: Cli, world: Path, model: str, tmp_path: Path) -> None:
    out = tmp_path / "real.jsonl"
    base = ("collect", "terminal", "--world", world, "--policy", f"model:{model}", "--out", out)
    assert "--instruction" in cli(*base).error
    result = cli(*base, "--instruction", "look around", "--turns", 2, "--json")
    report = result.json
    assert report["recorded"] == 1
    (trajectory,) = read_trajectories(out).items
    assert trajectory.policy.startswith("model:shell@")


@pytest.mark.parametrize("policy", ["scrpt:x", "script:", "model", "random"])
def test_an_unknown_policy_is_wrong_usage(cli: Cli, world: Path, tmp_path: Path, policy: str) -> None:
    result = cli("collect", "terminal", "--world", world, "--policy", policy, "--out", tmp_path / "x.jsonl")
    assert result.code == 2
    assert "none of explorer, script:FILE, solutions:SERVER, model:M" in result.error
