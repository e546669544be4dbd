"""Long work in stages that may be stopped: each is done once, and left alone where it was done just so.

A stage that runs when the time is up is stopped as by Ctrl-C, which loses nothing: the same command goes on from there.
"""

import contextlib
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldlm.cli.console import note
from worldlm.core.errors import WorldlmError
from worldlm.core.text import canonical_json, digest
from worldlm.train.checkpoint import read_state
from worldlm.train.report import METRICS, read_events
from worldlm.train.settings import Run

STOPPED = 3
"""The exit code where the time is up and work is left."""
GRACE = 900.0
"""Seconds that a command has to stop in: training finishes its step, measures and saves."""
AGAIN = 20.0
"""Seconds until a command that saves as it goes is interrupted again."""


class OutOfTime(Exception):  # noqa: N818
    """The time is up; what is done stays done."""


@dataclass
class Slices:
    """A folder of work, and the time that this slice of it may take."""

    folder: Path
    deadline: float | None
    """By `time.monotonic`; None for no end."""

    @classmethod
    def of(cls, folder: Path, minutes: float | None) -> "Slices":
        """From now on."""
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, None if minutes is None else time.monotonic() + 60 * minutes)

    def path(self, *parts: str) -> Path:
        """A path in the folder."""
        return self.folder.joinpath(*parts)

    @property
    def left(self) -> float | None:
        """Seconds. Raises OutOfTime when there are none."""
        if self.deadline is None:
            return None
        if (seconds := self.deadline - time.monotonic()) <= 0:
            raise OutOfTime
        return seconds

    def command(
        self,
        name: str,
        arguments: Sequence[object],
        inputs: Sequence[Path],
        outputs: Sequence[Path],
        *,
        goes_on: bool = False,
    ) -> None:
        """Run `worldlm ARGUMENTS`, which makes `outputs` of `inputs`, unless that was done.

        `goes_on`: it takes up what an interrupted one left in its outputs.
        """
        words = [str(word) for word in arguments]
        self.stage(name, words, inputs, outputs, lambda: self._run(words), goes_on=goes_on)

    def stage(
        self,
        name: str,
        settings: Any,
        inputs: Sequence[Path],
        outputs: Sequence[Path],
        work: Callable[[], None],
        *,
        goes_on: bool = False,
    ) -> None:
        """Do `work`, unless it was done with the same settings and inputs, and its outputs are there."""
        key = digest(canonical_json(settings), *(_stat(path) for path in inputs))
        begun, done = self.path(".stages", f"{name}.begun"), self.path(".stages", f"{name}.done")
        if _reads(done, key) and all(path.exists() for path in outputs):
            return
        _ = self.left
        if not (goes_on and _reads(begun, key)):
            for path in outputs:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        begun.parent.mkdir(exist_ok=True)
        begun.write_text(key)
        started = time.monotonic()
        note(f"{name} …")
        work()
        done.write_text(key)
        note(f"{name}: {time.monotonic() - started:.0f} s")

    def train(self, config: Path, run: Run, out: Path) -> None:
        """`worldlm train`, to its end; a run that was stopped goes on."""
        if is_finished(out, run):
            return
        words = ["train", run.stage, "--config", str(config), "--out", str(out)]
        words += ["--resume"] if (out / "checkpoints" / "last").exists() else []
        if (seconds := self.left) is not None:
            words += ["--minutes", f"{seconds / 60:.2f}"]
        self._run(words, stops_itself=True)
        if not is_finished(out, run):
            raise OutOfTime

    def _run(self, words: Sequence[str], *, stops_itself: bool = False) -> None:
        """Raises OutOfTime when it had to be stopped, WorldlmError when it failed (and has said why)."""
        seconds = self.left
        note(f"$ worldlm {' '.join(words)}")
        # In a session of its own, so that Ctrl-C reaches it once, through us: a second one would end it without saving.
        command = [sys.executable, "-m", "worldlm.cli.main", *words]
        process = subprocess.Popen(command, stdout=sys.stderr, start_new_session=True)
        try:
            code = process.wait(None if seconds is None or stops_itself else seconds)
        except subprocess.TimeoutExpired:
            raise OutOfTime from None
        finally:
            interrupt(process, GRACE if stops_itself else AGAIN)
        if code:
            raise WorldlmError(f"worldlm {' '.join(words)} ended with {code}")


def interrupt(process: "subprocess.Popen[bytes]", again: float) -> None:
    """Ctrl-C until it ends, every `again` seconds, and after `GRACE` by force.

    One is not enough: Python drops an interrupt that arrives in a callback from C, as when modules are being imported.
    """
    end = time.monotonic() + GRACE
    while process.poll() is None:
        if time.monotonic() < end:
            process.send_signal(signal.SIGINT)
        else:
            process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(again)


def is_finished(folder: Path, run: Run) -> bool:
    """Whether the run was trained to its end in a folder, with these settings."""
    if not (folder / "adapter").is_dir():
        return False
    last = read_events(folder / METRICS)[-1]
    settings = read_state(folder / "checkpoints" / "last").settings
    return last.texts.get("why") == "finished" and settings == run.model_dump(mode="json", by_alias=True)


def write_json(path: Path, value: Any) -> None:
    """A file of one JSON value, whole or not at all."""
    draft = path.with_name(f".{path.name}.draft")
    draft.parent.mkdir(parents=True, exist_ok=True)
    draft.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", "utf-8")
    draft.replace(path)


def _reads(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text() == text


def _stat(path: Path) -> str:
    """A file, or the files of a folder, as they are."""
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    return " ".join(f"{each} {each.stat().st_size} {each.stat().st_mtime_ns}" for each in files)


def main(work: Callable[[], None]) -> int:
    """Do `work`; the exit code. Errors are one line on stderr; SIGTERM is as Ctrl-C."""
    # What a shell starts in the background ignores SIGINT, and so would every command that is to be stopped by it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        work()
    except OutOfTime:
        note("The time is up; the same command goes on from here.")
        return STOPPED
    except WorldlmError as error:
        print(f"{Path(sys.argv[0]).name}: {' '.join(str(error).split())}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0
