"""The drivers under scripts/: stages that are done once, and may be stopped."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch", reason="training needs torch: pip install 'worldlm[train]'")
pytest.importorskip("tensorboard", reason="reports need tensorboard: pip install 'worldlm[train]'")

from worldlm.core.errors import InputError

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture(scope="module")
def slices() -> Iterator[ModuleType]:
    sys.path.insert(0, str(SCRIPTS))
    try:
        import slices

        yield slices
    finally:
        sys.path.remove(str(SCRIPTS))


def test_a_stage_is_done_once_for_its_settings_and_inputs(slices: ModuleType, tmp_path: Path) -> None:
    work = slices.Slices.of(tmp_path / "out", None)
    source, made = tmp_path / "source", work.path("made")
    source.write_text("1")
    done: list[str] = []

    def stage(settings: object) -> None:
        def make() -> None:
            assert not made.exists(), "what was made otherwise is taken away first"
            made.write_text(source.read_text())
            done.append(made.read_text())

        work.stage("making", settings, [source], [made], make)

    for _ in range(3):
        stage("a")
    assert done == ["1"]
    stage("b")
    assert done == ["1", "1"]
    source.write_text("22")
    stage("b")
    assert done == ["1", "1", "22"]
    made.unlink()
    stage("b")
    assert done == ["1", "1", "22", "22"]


@pytest.mark.parametrize("goes_on", [True, False])
def test_what_was_interrupted_is_taken_up_where_that_is_possible(
    slices: ModuleType, tmp_path: Path, goes_on: bool
) -> None:
    work = slices.Slices.of(tmp_path, None)
    made = work.path("made")
    seen: list[list[str]] = []

    def make() -> None:
        seen.append(sorted(each.name for each in made.iterdir()) if made.exists() else [])
        made.mkdir(exist_ok=True)
        (made / str(len(seen))).touch()
        if len(seen) < 3:
            raise slices.OutOfTime

    for settings in ("a", "a", "a", "b"):
        try:
            work.stage("making", settings, [], [made], make, goes_on=goes_on)
        except slices.OutOfTime:
            continue
    assert seen == ([[], ["1"], ["1", "2"], []] if goes_on else [[], [], [], []])


def test_when_the_time_is_up_nothing_is_begun(slices: ModuleType, tmp_path: Path) -> None:
    work = slices.Slices.of(tmp_path, 0)
    with pytest.raises(slices.OutOfTime):
        work.stage("making", {}, [], [tmp_path / "made"], lambda: pytest.fail("it was begun"))


def test_a_command_is_stopped_when_the_time_is_up(slices: ModuleType, tmp_path: Path) -> None:
    work = slices.Slices(tmp_path, time.monotonic() + 1)
    fifo = tmp_path / "script"
    os.mkfifo(fifo)  # a script that never begins
    with pytest.raises(slices.OutOfTime):
        work.command("waiting", ["simulate", "terminal", "--model", "replay:/dev/null", "--script", fifo], [], [])


def test_what_a_shell_started_in_the_background_stops_its_commands_too(slices: ModuleType, tmp_path: Path) -> None:
    fifo = tmp_path / "script"
    os.mkfifo(fifo)  # a script that never begins
    words = ["simulate", "terminal", "--model", "replay:/dev/null", "--script", str(fifo)]
    driver = tmp_path / "driver.py"
    driver.write_text(
        f"import sys, pathlib\nsys.path.insert(0, {str(SCRIPTS)!r})\nfrom slices import Slices, main\n"
        f"work = Slices.of(pathlib.Path({str(tmp_path)!r}), 1 / 60)\n"
        f"sys.exit(main(lambda: work.command('waiting', {words!r}, [], [])))\n"
    )
    background = ["sh", "-c", 'trap "" INT; exec "$0" "$@"', sys.executable, str(driver)]  # as `&` has it in a script
    assert subprocess.run(background, check=False, timeout=150).returncode == slices.STOPPED


def test_an_interrupt_that_got_lost_is_sent_again(slices: ModuleType) -> None:
    program = (
        "import signal, sys, time\n"
        "seen = []\n"
        "def handler(*_):\n"
        "    seen.append(1)\n"
        "    if len(seen) == 3: sys.exit(7)\n"
        "signal.signal(signal.SIGINT, handler)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.1)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        slices.interrupt(process, 0.5)
        assert process.returncode == 7


def test_a_command_that_fails_has_said_why(
    slices: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    work = slices.Slices.of(tmp_path, None)
    with pytest.raises(slices.WorldlmError, match="worldlm worlds shwo ended with 2"):
        work.command("odd", ["worlds", "shwo"], [], [])
    assert "shwo" in capfd.readouterr().err


def test_without_data_it_is_said_how_to_get_it(slices: ModuleType, tmp_path: Path) -> None:
    import train_embedded

    work = slices.Slices.of(tmp_path / "out", None)
    with pytest.raises(InputError, match=r"no .*train\.jsonl: `make data` builds it"):
        train_embedded.work(work, tmp_path, SCRIPTS.parent / "configs", [], None)
