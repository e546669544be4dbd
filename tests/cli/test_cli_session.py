"""Sessions by hand: lines through a pipe, and keys at a terminal."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.cli_kit import Cli
from tests.cli.shell_server import ShellServer
from worldlm.core.jsonl import JsonlWriter, read_trajectories
from worldlm.core.outcomes import EndingKind
from worldlm.core.types import Turn

Start = Callable[..., "subprocess.Popen[str]"]


def test_lines_are_actions_and_stdout_holds_what_came_back(pipe: Cli, world: Path, model: str, tmp_path: Path) -> None:
    out = tmp_path / "t.jsonl"
    result = pipe("simulate", world, "-m", model, "--out", out, lines="pwd\necho hi")
    assert (result.code, result.err) == (0, "")
    assert result.out == "user@box:~$\nuser@box:~$ pwd\n/home/user\nuser@box:~$\nuser@box:~$ echo hi\nhi\nuser@box:~$\n"
    (trajectory,) = read_trajectories(out).items
    assert trajectory.policy == "person"
    assert trajectory.ending.kind is EndingKind.COMPLETED
    assert len(trajectory.turns) == 2


def test_lines_out_of_an_ordinary_file(world: Path, model: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("pwd\n")
    command = [sys.executable, "-m", "worldlm.cli.main", "simulate", str(world), "-m", model]
    with lines.open() as stdin:
        done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("/home/user\nuser@box:~$\n")


def test_undo_takes_back_a_turn_and_what_failed_after_it(pipe: Cli, world: Path, model: str, tmp_path: Path) -> None:
    out = tmp_path / "t.jsonl"
    result = pipe("simulate", world, "-m", model, "--out", out, lines="echo a\necho b\nsilent\n/undo\necho c\n/undo\n")
    assert "[model_failed] the reply holds no answer (nothing has changed" in result.out
    assert "[taken back: " in result.out
    (trajectory,) = read_trajectories(out).items
    assert [turn.action for turn in trajectory.turns] == ['[{"duration":1.0,"keystrokes":"echo a\\n"}]']


def test_undo_and_the_same_action_again_give_the_same(pipe: Cli, world: Path, model: str) -> None:
    result = pipe("simulate", world, "-m", model, lines="pwd\nseed\n/undo\nseed\n")
    seeds = [line for line in result.out.splitlines() if line.isdigit()]
    assert len(seeds) == 2
    assert seeds[0] == seeds[1]


def test_seed_goes_on_with_another(pipe: Cli, world: Path, model: str) -> None:
    result = pipe("simulate", world, "-m", model, "--seed", 3, lines="/seed\nseed\n/undo\n/seed 4\nseed\n")
    assert "seed 3\n" in result.out
    assert "seed 4\n" in result.out
    seeds = [line for line in result.out.splitlines() if line.isdigit()]
    assert seeds[0] != seeds[1]


def said_word(turn: Turn) -> str:
    assert turn.observation
    return turn.observation.text.split()[2]


def test_fork_keeps_numbered_branches_and_each_is_written(pipe: Cli, world: Path, model: str, tmp_path: Path) -> None:
    out = tmp_path / "t.jsonl"
    lines = "echo a\necho b\n/fork 1\necho c\n/branches\n/switch 1\n/fork\n/fork 9\n/switch 7\necho d\n"
    result = pipe("simulate", world, "-m", model, "--out", out, lines=lines)
    assert "* 2: 2 turns, from branch 1 after turn 1" in result.out
    assert "cannot fork at turn 9" in result.out
    assert "there is no branch 7; known: 1, 2, 3" in result.out
    said = {
        trajectory.id.rpartition("-")[2]: [said_word(turn) for turn in trajectory.turns]
        for trajectory in read_trajectories(out).items
    }
    assert said == {"1": ["a", "b"], "2": ["a", "c"], "3": ["a", "b", "d"]}
    assert len({trajectory.group for trajectory in read_trajectories(out).items}) == 1


def test_why_and_state(pipe: Cli, world: Path, model: str) -> None:
    result = pipe("simulate", world, "-m", model, lines="/why\nthink\n/why\nsilent\n/why\n/state\n")
    assert "[there is no turn yet]" in result.out
    assert "A command that is not known.\n" in result.out
    assert "1 model call, 100 prompt tokens" in result.out
    assert result.out.count("[model_failed]") == 2
    assert "turns    1 (0 no longer shown to the model), 1 failed steps" in result.out
    assert "--- /home/user/notes.txt (6 bytes)" in result.out


def test_an_invalid_action_is_explained_and_the_session_lives_on(pipe: Cli, world: Path, model: str) -> None:
    result = pipe("simulate", world, "-m", model, lines='[{"keystroke": "pwd"}]\npwd\n')
    assert "[invalid_action] element 0 has an unknown key 'keystroke'; did you mean 'keystrokes'?\n" in result.out
    assert "/home/user" in result.out


def test_unknown_commands_paths_and_double_slashes(pipe: Cli, world: Path, model: str) -> None:
    result = pipe("simulate", world, "-m", model, lines="/udno\n/bin/ls -l\n//help\n/help\n/quit\necho never\n")
    assert "there is no command /udno; did you mean 'undo'?" in result.out
    assert "user@box:~$ /bin/ls -l\n" in result.out
    assert "user@box:~$ /help\n" in result.out
    assert "/fork [N]" in result.out
    assert "never" not in result.out


def test_paste_reads_several_lines(pipe: Cli, world: Path, model: str) -> None:
    result = pipe("simulate", world, "-m", model, lines="/paste\necho a\nb\n/end\n/paste\necho c\n")
    assert "user@box:~$ echo a\nb\n" in result.out
    assert "user@box:~$ echo c\n" in result.out


def test_save(pipe: Cli, world: Path, model: str, tmp_path: Path) -> None:
    saved = tmp_path / "saved.jsonl"
    result = pipe("simulate", world, "-m", model, lines=f"pwd\n/save {saved}\n/save\n")
    assert "/save needs a file" in result.out
    assert len(read_trajectories(saved).items) == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_while_waiting_for_a_line_writes_the_trajectory(
    start: Start, world: Path, model: str, tmp_path: Path, number: int, code: int
) -> None:
    out = tmp_path / "t.jsonl"
    process = start("simulate", world, "-m", model, "--out", out)
    assert process.stdin
    assert process.stdout
    process.stdin.write("pwd\n")
    process.stdin.flush()
    while process.stdout.readline() != "/home/user\n":
        assert process.poll() is None
    assert process.stdout.readline() == "user@box:~$\n"
    process.send_signal(number)
    process.stdin.close()
    process.stdin = None
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (code, "")
    (trajectory,) = read_trajectories(out).items
    assert len(trajectory.turns) == 1
    assert trajectory.ending.kind is EndingKind.CANCELLED


def test_busy_out_is_refused(pipe: Cli, world: Path, model: str, tmp_path: Path) -> None:
    with JsonlWriter(tmp_path / "t.jsonl"):
        result = pipe("simulate", world, "-m", model, "--out", tmp_path / "t.jsonl", lines="pwd\n")
    assert result.code == 2
    assert "being written already" in result.error


# At a terminal.

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs the program tmux")


class Terminal:
    """A tmux of its own with one pane."""

    def __init__(self, folder: Path, command: str):
        self._socket = folder / "tmux.sock"
        self._env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "TERM": "xterm-256color"}
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "50", f"{command}; echo rc $?; sleep 60")

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", str(self._socket), *arguments]
        return subprocess.run(command, env=self._env, capture_output=True, text=True, check=True, timeout=30).stdout

    def keys(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-J").rstrip()

    def wait(self, text: str) -> str:
        """Until the screen ends with `text`."""
        deadline = time.monotonic() + 30
        while not (screen := self.screen()).endswith(text):
            assert time.monotonic() < deadline, f"{text!r} did not come:\n{screen}"
            time.sleep(0.05)
        return screen

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def terminal(tmp_path: Path, world: Path, model: str) -> Iterator[Terminal]:
    out = tmp_path / "t.jsonl"
    command = f"{sys.executable} -m worldlm.cli.main simulate {world} -m {model} --out {out}"
    terminal = Terminal(tmp_path, command)
    yield terminal
    terminal.close()


@needs_tmux
def test_a_session_at_a_terminal(terminal: Terminal, server: ShellServer, tmp_path: Path) -> None:
    terminal.wait("[1]>")
    terminal.keys("think", "Enter")
    screen = terminal.wait("[2]>")
    assert "A command that is not known.\nuser@box:~$ think\n" in screen
    # Alt-Enter makes an action of several lines.
    terminal.keys("echo a", "M-Enter", "echo b", "Enter")
    terminal.wait("[3]>")
    # Ctrl-C at the prompt clears the line; in a step it cancels the step, and only that.
    terminal.keys("half a li", "C-c")
    terminal.wait("Ctrl-D or /quit ends the session.\n[3]>")
    count = len(server.requests)
    terminal.keys("slow", "Enter")
    server.wait_for_request(count + 1)
    terminal.keys("C-c")
    terminal.wait("[cancelled: nothing has changed]\n[3]>")
    # What a simulated program prints does not steer the real terminal.
    terminal.keys("-l", "escape")  # a word, and not the key
    terminal.keys("Enter")
    assert "␛[31mred␛[0m" in terminal.wait("[4]>")
    # History comes back with the arrow.
    terminal.keys("Up", "Up", "Up", "Up", "Up")  # the last but two has two lines
    terminal.wait("[4]> think")
    terminal.keys("C-c")
    terminal.wait("[4]>")
    terminal.keys("/fork 1", "Enter")
    terminal.wait("[2:2]>")
    terminal.keys("C-d")
    terminal.wait("rc 0")
    trajectories = read_trajectories(tmp_path / "t.jsonl").items
    assert [len(trajectory.turns) for trajectory in trajectories] == [3, 1]
    assert "+think" in (tmp_path / "state" / "worldlm" / "history").read_text()


@needs_tmux
def test_sigterm_at_a_terminal_writes_the_trajectory(terminal: Terminal, tmp_path: Path) -> None:
    terminal.wait("[1]>")
    terminal.keys("pwd", "Enter")
    terminal.wait("[2]>")
    (shell,) = terminal._tmux("list-panes", "-F", "#{pane_pid}").split()
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", shell], capture_output=True, text=True, check=True)
    os.kill(int(children.stdout.split()[0]), signal.SIGTERM)
    terminal.wait("rc 143")
    (trajectory,) = read_trajectories(tmp_path / "t.jsonl").items
    assert len(trajectory.turns) == 1
    assert trajectory.ending.kind is EndingKind.CANCELLED
