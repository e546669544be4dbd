import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.cli_kit import Cli
from tests.cli.shell_server import ShellServer
from worldlm.core.errors import SetupError
from worldlm.core.jsonl import JsonlWriter, read_trajectories
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.models import PROFILES, get_profile, weights

Start = Callable[..., "subprocess.Popen[str]"]


# By script.


def test_script_prints_each_turn_and_keeps_the_trajectory(
    cli: Cli, world: Path, script: Path, model: str, tmp_path: Path
) -> None:
    out = tmp_path / "t.jsonl"
    result = cli("simulate", world, "-m", model, "--script", script, "--out", out, "--seed", 5)
    assert (result.code, result.err) == (0, "")
    assert "user@box:~$ pwd\n/home/user\nuser@box:~$\n" in result.out
    assert "2 turns (ok 2); completed; 14 tokens" in result.out.splitlines()[-1]
    (trajectory,) = read_trajectories(out).items
    assert [turn.outcome for turn in trajectory.turns] == [Outcome.OK] * 2
    assert trajectory.origin.kind == "simulated"
    assert trajectory.origin.seed == 5
    assert trajectory.origin.simulator
    assert trajectory.origin.simulator.profile == "full"


def test_script_as_json(cli: Cli, world: Path, script: Path, model: str) -> None:
    report = cli("simulate", world, "-m", model, "--script", script, "--json", "--profile", "compact").json
    assert [turn["observation"]["text"].split("\n")[1] for turn in report["turns"]] == ["/home/user", "hi"]
    assert report["world"] == "box"
    assert report["profile"] == "compact"
    assert report["outcomes"] == {"ok": 2}
    assert report["tokens"] == 14
    assert report["prompt_hash"]


def test_a_failed_turn_is_shown_and_the_script_goes_on(cli: Cli, world: Path, model: str, tmp_path: Path) -> None:
    script = tmp_path / "s.jsonl"
    actions = ['{"keys": 1}', '[{"keystrokes": "silent\\n"}]', '[{"keystrokes": "pwd\\n"}]']
    script.write_text("".join(json.dumps(action) + "\n" for action in actions))
    result = cli("simulate", world, "-m", model, "--script", script)
    assert result.code == 0
    assert "[invalid_action] the action must be an array" in result.out
    assert "[model_failed] the reply holds no answer" in result.out
    assert "/home/user" in result.out
    assert "invalid_action 1, model_failed 1, ok 1" in result.out


def test_unreachable_server_is_one_line_with_its_url(cli: Cli, world: Path, script: Path) -> None:
    url = "http://127.0.0.1:9/v1"
    result = cli("simulate", world, "-m", f"openai:x@{url}", "--script", script, "--deadline", 0.2, "--json")
    assert result.code == 1
    assert url in result.error
    assert result.json["outcomes"].keys() <= {"timed_out", "infrastructure_failed"}


def test_a_script_of_invalid_actions_is_wrong_input(cli: Cli, world: Path, model: str, tmp_path: Path) -> None:
    script = tmp_path / "s.jsonl"
    script.write_text('"no json"\n')
    result = cli("simulate", world, "-m", model, "--script", script)
    assert result.code == 2
    assert "not valid JSON" in result.error


def test_out_that_another_process_writes_is_refused_before_anything_runs(
    cli: Cli, world: Path, script: Path, model: str, server: ShellServer, tmp_path: Path
) -> None:
    out = tmp_path / "busy.jsonl"
    with JsonlWriter(out):
        result = cli("simulate", world, "-m", model, "--script", script, "--out", out)
    assert result.code == 2
    assert "being written already" in result.error
    assert server.requests == []


def test_cache_answers_again_and_a_recording_replays(
    cli: Cli, world: Path, script: Path, model: str, server: ShellServer, tmp_path: Path
) -> None:
    cache, calls = tmp_path / "cache.sqlite", tmp_path / "calls.jsonl"
    base = ("simulate", world, "--script", script, "--json")
    first = cli(*base, "-m", model, "--cache", cache, "--record", calls).json
    again = cli(*base, "-m", model, "--cache", cache).json
    assert len(server.requests) == 2
    replayed = cli(*base, "-m", f"replay:{calls}", "--profile", "full").json
    assert len(server.requests) == 2
    texts = [[turn["observation"]["text"] for turn in report["turns"]] for report in (first, again, replayed)]
    assert texts[0] == texts[1] == texts[2]


def test_budget_ends_the_episode(cli: Cli, world: Path, script: Path, model: str) -> None:
    report = cli("simulate", world, "-m", model, "--script", script, "--budget-tokens", 50, "--json").json
    assert report["outcomes"] == {"ok": 1, "budget_exhausted": 1}
    assert report["ending"]["kind"] == "budget"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_in_a_step_writes_what_was_done(
    start: Start, world: Path, model: str, server: ShellServer, tmp_path: Path, number: int, code: int
) -> None:
    script, out = tmp_path / "s.txt", tmp_path / "t.jsonl"
    script.write_text("pwd\nslow\n")
    process = start("simulate", world, "-m", model, "--script", script, "--out", out)
    server.wait_for_request(2)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, "")
    (trajectory,) = read_trajectories(out).items
    assert len(trajectory.turns) == 1
    assert trajectory.ending.kind is EndingKind.CANCELLED


# Against a recording.


@pytest.fixture
def recording(cli: Cli, world: Path, model: str, server: ShellServer, tmp_path: Path) -> Path:
    script, out = tmp_path / "recorded.txt", tmp_path / "real.jsonl"
    script.write_text("pwd\nseed\n[1]\n")
    cli("simulate", world, "-m", model, "--script", script, "--out", out)
    (trajectory,) = read_trajectories(out).items
    action = trajectory.turns[2].action
    end = trajectory.turns[2].model_copy(update={"action": "[]"})
    changed = trajectory.model_copy(update={"turns": (*trajectory.turns[:2], end, trajectory.turns[2])})
    assert action != "[]"
    out.unlink()
    with JsonlWriter(out) as writer:
        writer.write(changed)
    server.requests.clear()
    return out


def test_compare_predicts_each_turn_from_the_real_history(
    cli: Cli, world: Path, model: str, recording: Path, server: ShellServer
) -> None:
    result = cli("simulate", world, "-m", model, "--compare", recording, "--seed", 99, "--json")
    assert (result.code, result.err) == (0, "")
    report = result.json
    assert report["history"] == "real"
    assert [row["exact"] for row in report["turns"]] == [True, False, False, True]
    assert [row["by_harness"] for row in report["turns"]] == [False, False, True, False]
    totals = report["totals"]
    assert (totals["answered"], totals["exact"], totals["by_harness"], totals["coverage"]) == (3, 2, 1, 1.0)
    assert 0.6 < totals["similarity"] < 1
    # The model saw the recording's answers, not its own.
    real = read_trajectories(recording).items[0].turns[1].observation
    assert real
    assert real.text in server.requests[-1]["messages"][-4]["content"] + server.requests[-1]["messages"][-3]["content"]


def test_turns_compared_at_the_same_time_are_the_same(cli: Cli, world: Path, model: str, recording: Path) -> None:
    one, four = (
        cli("simulate", world, "-m", model, "--compare", recording, "--concurrency", number, "--json").json
        for number in (1, 4)
    )
    assert [row["predicted"] for row in four["turns"]] == [row["predicted"] for row in one["turns"]]
    for more in (["--free", "--compare", recording], ["--deterministic", "--compare", recording], []):
        result = cli("simulate", world, "-m", model, "--concurrency", 2, *more)
        assert result.code == 2
        assert "--concurrency belongs to --compare" in result.error


def test_compare_in_words(cli: Cli, world: Path, model: str, recording: Path) -> None:
    result = cli("simulate", world, "-m", model, "--compare", recording, "--seed", 99)
    assert result.code == 0
    assert "--- real\nuser@box:~$ pwd\n" in result.out
    assert "--- predicted\n" in result.out
    assert "3 turns predicted from the real history: mean similarity" in result.out
    assert "exact 2 of 3, coverage 100%; 1 more answered by the harness" in result.out
    assert "model shell@http" in result.out


def test_compare_counts_failures_at_zero(cli: Cli, world: Path, model: str, recording: Path, tmp_path: Path) -> None:
    (trajectory,) = read_trajectories(recording).items
    silent = trajectory.turns[0].model_copy(update={"action": '[{"keystrokes": "silent\\n"}]'})
    path = tmp_path / "silent.jsonl"
    with JsonlWriter(path) as writer:
        writer.write(trajectory.model_copy(update={"turns": (trajectory.turns[0], silent)}))
    totals = cli("simulate", world, "-m", model, "--compare", path, "--json").json["totals"]
    assert totals["failed"] == {"model_failed": 1}
    assert (totals["similarity"], totals["similarity_answered"], totals["coverage"]) == (0.5, 1.0, 0.5)


def test_compare_running_free_keeps_its_episode(
    cli: Cli, world: Path, model: str, recording: Path, tmp_path: Path
) -> None:
    out = tmp_path / "free.jsonl"
    report = cli("simulate", world, "-m", model, "--compare", recording, "--free", "--out", out, "--json").json
    assert report["history"] == "predicted"
    (trajectory,) = read_trajectories(out).items
    assert trajectory.origin.kind == "simulated"
    assert [turn.action for turn in trajectory.turns] == [row["action"] for row in report["turns"]]


def test_compare_refuses_out_without_free(cli: Cli, world: Path, recording: Path, tmp_path: Path) -> None:
    result = cli("simulate", world, "--compare", recording, "--out", tmp_path / "x.jsonl")
    assert result.code == 2
    assert "--free" in result.error


def test_compare_with_another_script_names_the_turn(
    cli: Cli, world: Path, model: str, recording: Path, script: Path
) -> None:
    result = cli("simulate", world, "-m", model, "--compare", recording, "--script", script)
    assert result.code == 2
    assert "differ at turn 2" in result.error


def test_compare_with_another_world(cli: Cli, model: str, recording: Path) -> None:
    result = cli("simulate", "search", "-m", model, "--compare", recording)
    assert result.code == 2
    assert "is of world 'box'" in result.error


def test_compare_with_a_broken_file_names_file_and_line(cli: Cli, world: Path, model: str, recording: Path) -> None:
    with recording.open("a") as file:
        file.write('{"schema": "worldlm.traj')
    result = cli("simulate", world, "-m", model, "--compare", recording)
    assert result.code == 2
    assert f"{recording}:2: not JSON" in result.error


# The embedded model.


def _weights_present() -> bool:
    try:
        return weights.find() is not None
    except SetupError:
        return False


@pytest.mark.skipif(not _weights_present(), reason="the embedded weights are missing: run `worldlm models pull`")
@pytest.mark.timeout(900)  # on whatever processor there is
def test_the_embedded_model_plays(cli: Cli, world: Path, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = get_profile("embedded")
    short = profile.sampling.model_copy(update={"max_tokens": 24})
    monkeypatch.setitem(PROFILES, "embedded", profile.model_copy(update={"sampling": short}))
    result = cli("simulate", world, "--script", script, "--offline", "--deterministic", "--json")
    assert result.code == 0
    report = result.json
    assert len(report["turns"]) == 2
    assert report["profile"] == "embedded"
    assert report["tokens"] > 0
    assert sum(report["outcomes"].values()) == 2


def test_recordings_that_never_started_are_left_out_with_a_note(
    cli: Cli, world: Path, script: Path, model: str, tmp_path: Path
) -> None:
    real = tmp_path / "real.jsonl"
    assert cli("simulate", world, "-m", model, "--script", script, "--out", real).code == 0
    (good,) = read_trajectories(real).items
    with JsonlWriter(real) as writer:
        writer.write(good.model_copy(update={"id": "never", "initial": None, "turns": ()}))
    result = cli("simulate", world, "-m", model, "--compare", real)
    assert result.code == 0
    assert result.error == "1 of 2 recordings never started and are left out"
    assert "2 turns predicted" in result.out


@pytest.mark.parametrize("compare", [False, True])
def test_a_server_that_is_down_is_given_up_early(
    cli: Cli, world: Path, recording: Path, tmp_path: Path, compare: bool
) -> None:
    script, long = tmp_path / "long.txt", tmp_path / "long.jsonl"
    script.write_text("pwd\n" * 30)
    (trajectory,) = read_trajectories(recording).items
    with JsonlWriter(long) as writer:
        writer.write(trajectory.model_copy(update={"turns": trajectory.turns * 15}))
    options = ["--compare", long] if compare else ["--script", script]
    result = cli("simulate", world, *options, "-m", "openai:m@http://127.0.0.1:9", "--deadline", "0.2")
    assert result.code == 1
    failed = sum(line.startswith(("[timed_out]", "[infrastructure_failed]")) for line in result.out.splitlines())
    assert failed == 3
    assert "127.0.0.1:9" in result.error
