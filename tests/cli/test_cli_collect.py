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


def test_an_explorer_goes_over_worlds_and_the_same_seeds_agree(cli: Cli, tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    base = (
        "collect",
        "terminal",
        "--world",
        "terminal-data",
        "--world",
        "terminal-notes",
        "--episodes",
        3,
        "--turns",
        6,
    )
    report = cli(*base, "--out", first, "--seed", 5, "--json").json
    assert (report["recorded"], report["failed_turns"]) == (3, {})
    assert report["distinct_actions"] > 9
    assert sum(report["turns_by_family"].values()) == report["turns"]
    names = [trajectory.world.name for trajectory in read_trajectories(first).items]
    assert sorted(names) == ["terminal-data", "terminal-notes", "terminal-notes"]

    again = cli(*base, "--out", second, "--seed", 5, "--agree", first, "--json").json
    assert again["compared_turns"] == again["turns"] == report["turns"]
    assert again["same_action_share"] > 0.9
    assert again["same_observation_share"] > 0.8
    other = cli(*base, "--out", second, "--seed", 50, "--agree", first)
    assert "0 turns in both" in other.out


def test_two_collections_cannot_write_one_file(
    cli: Cli, start: Callable[..., "subprocess.Popen[str]"], world: Path, tmp_path: Path
) -> None:
    out, script = tmp_path / "real.jsonl", tmp_path / "script.txt"
    script.write_text('[{"keystrokes": "sleep 30\\n", "duration": 40}]\n')
    base = ("collect", "terminal", "--world", world, "--policy", f"script:{script}", "--out", out)
    process = start(*base)
    deadline = time.monotonic() + 30
    while not out.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.2)
    refused = cli(*base, "--seed", 9)
    assert (refused.code, "is being written already" in refused.error) == (2, True)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


def test_a_world_whose_set_up_fails_is_counted_and_the_others_go_on(cli: Cli, tmp_path: Path) -> None:
    for name, setup in (("good", "true"), ("bad", "false")):
        state = f"{{setup: ['{setup}'], files: {{a.py: ''}}}}"
        text = f"name: {name}\ndomain: swe\ncontext: A folder.\ninitial_state: {state}\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    out = tmp_path / "real.jsonl"
    worlds = ("--world", tmp_path / "bad.yaml", "--world", tmp_path / "good.yaml")
    report = cli("collect", "swe", *worlds, "--episodes", 4, "--turns", 3, "--out", out, "--json").json
    assert report["recorded"] == 4
    assert report["endings"]["failed"] == 2
    failed = [t for t in read_trajectories(out).items if t.ending.kind is EndingKind.FAILED]
    assert all(t.initial is None and t.ending.detail for t in failed)
    assert {t.world.name for t in failed} == {"bad"}


@pytest.mark.timeout(1200)  # on a new machine servers, repositories, sites and documents are fetched first
def test_all_domains_in_one_command(cli: Cli, tmp_path: Path) -> None:
    report = cli("collect", "all", "--episodes", 1, "--turns", 2, "--out", tmp_path / "all", "--json").json
    assert set(report["domains"]) | set(report["left_out"]) == {
        *("terminal", "swe", "mcp", "search", "web", "android", "os")
    }
    for name, figures in report["domains"].items():
        assert figures["recorded"] == 1, name
        assert (tmp_path / "all" / f"{name}.jsonl").exists()
    assert "adb" in report["left_out"]["android"]
    assert "terminal" in report["domains"]


def test_a_world_that_is_wrong_at_its_first_start_is_one_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "name: a\ndomain: terminal\ncontext: A folder.\ninitial_state: {files: {x: '', x/y: ''}}\n"
    )
    result = cli("collect", "terminal", "--world", tmp_path / "a.yaml", "--out", tmp_path / "out.jsonl")
    assert (result.code, result.out) == (2, "")
    assert "both a file and a folder" in result.error
    (tmp_path / "b.yaml").write_text(
        "name: b\ndomain: terminal\ncontext: A folder.\ninitial_state: {mtime: yesterday}\n"
    )
    result = cli("collect", "terminal", "--world", tmp_path / "b.yaml", "--out", tmp_path / "out.jsonl")
    assert result.code == 2
    assert "mtime" in result.error


def test_a_start_that_fails_now_and_then_takes_nobody_with_it(cli: Cli, tmp_path: Path) -> None:
    # Whether the set-up works depends on a random number of the machine.
    state = "{setup: ['test $((RANDOM % 2)) = 0'], files: {a.txt: ''}}"
    (tmp_path / "a.yaml").write_text(f"name: a\ndomain: terminal\ncontext: A folder.\ninitial_state: {state}\n")
    (tmp_path / "b.yaml").write_text("name: b\ndomain: terminal\ncontext: A folder.\ninitial_state: {files: {}}\n")
    out = tmp_path / "out.jsonl"
    worlds = ("--world", tmp_path / "a.yaml", "--world", tmp_path / "b.yaml")
    report = cli("collect", "terminal", *worlds, "--episodes", 16, "--turns", 2, "--out", out, "--json").json
    assert report["recorded"] == 16
    assert report["endings"].get("turn_limit", 0) >= 8
    assert set(report["endings"]) <= {"turn_limit", "failed", "completed"}


def test_an_earlier_collection_that_lacks_a_domain_is_no_error(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    missing = cli("collect", "terminal", "--episodes", 1, "--out", out, "--agree", tmp_path / "none.jsonl")
    assert (missing.code, "none.jsonl" in missing.error) == (2, True)
