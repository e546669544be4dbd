"""`worldlm data clean`, `mask`, `show-mask` and `stats`."""

import json
from pathlib import Path

import pytest

from tests.cli.cli_kit import Cli
from tests.data.sessions import UNSTABLE, session, shell, turn, typed
from worldlm.core.jsonl import JsonlWriter, read_trajectories
from worldlm.core.types import Trajectory
from worldlm.data.tokenizers import ByteTokenizer

TRAJECTORY = session(
    [
        shell("cat notes.txt", "jane@corp.com wrote\x07 these words here"),
        shell("top", "moving", violations=UNSTABLE),
        turn(typed("sleep 99"), None),
    ]
)


def write(path: Path, *trajectories: Trajectory) -> Path:
    with JsonlWriter(path) as writer:
        for trajectory in trajectories:
            writer.write(trajectory)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "in.jsonl", TRAJECTORY)


def test_clean(cli: Cli, file: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    result = cli("data", "clean", file, target, "--key", "k", "--max-tokens", 30)
    assert result.code == 0
    assert "e-mail: a stand-in of the same form" in result.out
    assert "rendered as a screen shows it" in result.out
    (done,) = read_trajectories(target).items
    assert "jane" not in done.model_dump_json()
    again = cli("data", "clean", file, tmp_path / "two.jsonl", "--key", "k", "--max-tokens", 30, "--json")
    assert again.json["written"] == {str(tmp_path / "two.jsonl"): 1}
    assert again.json["cut_share"] == 0.0
    assert (tmp_path / "two.jsonl").read_bytes() == target.read_bytes()

    left = cli("data", "clean", file, tmp_path / "three.jsonl", "--no-scrub", "--no-render", "--max-tokens", 0)
    assert left.code == 0
    assert read_trajectories(tmp_path / "three.jsonl").items == [TRAJECTORY]
    assert cli("data", "clean", file, tmp_path / "x.jsonl", "--leave", "emial").error == (
        "worldlm: --leave 'emial': there is no such kind; did you mean 'e-mail'?"
    )
    assert "is there already" in cli("data", "clean", file, target).error
    assert cli("data", "clean", tmp_path / "none", tmp_path / "x.jsonl").code == 2


def test_mask(cli: Cli, file: Path, tmp_path: Path) -> None:
    plain, full = tmp_path / "plain.jsonl", tmp_path / "full.jsonl"
    result = cli("data", "mask", file, plain)
    assert result.code == 0
    assert f"{plain}: 1 of 3 turns are trained" in result.out
    record = json.loads(plain.read_text())
    assert [each["trained"] for each in record["turns"]] == [True, False, False]
    assert record["turns"][2]["why"] == "failed (timed_out)"
    assert record["examples"] == []

    result = cli("data", "mask", file, full, "--tokenizer", "bytes", "--json")
    assert (result.json["trained_turns"], result.json["examples"]) == (1, 1)
    (example,) = json.loads(full.read_text())["examples"]
    assert result.json["trained_tokens"] == sum(example["mask"])
    (span,) = example["spans"]
    observation = TRAJECTORY.turns[0].observation
    assert observation is not None
    assert ByteTokenizer().decode(example["ids"][span["start"] : span["end"]]) == f"{observation.text}<|im_end|>"


def test_a_mask_that_trains_nothing_leaves_no_file(cli: Cli, tmp_path: Path) -> None:
    file = write(
        tmp_path / "in.jsonl", session([turn(typed("sleep 99"), None), shell("top", "x", violations=UNSTABLE)])
    )
    result = cli("data", "mask", file, tmp_path / "out.jsonl")
    assert result.code == 2
    assert result.error == (
        "worldlm: none of 2 turns is trained: 1 failed (timed_out); 1 still changing when it was taken; "
        "nothing is written"
    )
    assert not (tmp_path / "out.jsonl").exists()


def test_a_world_that_does_not_fit_is_named_and_the_others_go_on(cli: Cli, file: Path, tmp_path: Path) -> None:
    big = session(TRAJECTORY.turns, context="words " * 3000).model_copy(update={"id": "big"})
    both = write(tmp_path / "both.jsonl", TRAJECTORY, big)
    result = cli("data", "mask", both, tmp_path / "out.jsonl", "--tokenizer", "bytes", "--max-bad", 0.5)
    assert result.code == 0
    assert "big: world 'box' takes" in result.err
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 1


def test_where_no_world_fits_each_is_named_and_nothing_is_said_to_be_written(cli: Cli, tmp_path: Path) -> None:
    big = [
        session(TRAJECTORY.turns, context="words " * 3000).model_copy(update={"id": name}) for name in ("one", "two")
    ]
    result = cli("data", "mask", write(tmp_path / "b.jsonl", *big), tmp_path / "out.jsonl", "--tokenizer", "bytes")
    assert result.code == 1
    assert "one: world 'box' takes" in result.err
    assert "two: world 'box' takes" in result.err
    assert "nothing is written" in result.err
    assert not (tmp_path / "out.jsonl").exists()


def test_a_page_of_plots_replaces_no_recording(cli: Cli, file: Path, tmp_path: Path) -> None:
    before, other = file.read_bytes(), tmp_path / "other.jsonl"
    other.write_bytes(before)
    for path, said in (
        (file, "it is read"),
        (other, "it is there already"),
        (tmp_path, "it is a folder"),
        (tmp_path / "none" / "x.html", "there is no folder"),
    ):
        result = cli("data", "stats", file, "--plots", path)
        assert (result.code, said in result.error) == (2, True)
    assert file.read_bytes() == other.read_bytes() == before


def test_what_cannot_be_read_leaves_no_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    for verb in (("import", "auto"), ("clean",)):
        result = cli("data", *verb, tmp_path / "empty.jsonl", tmp_path / "out.jsonl")
        assert result.code == 1
        assert not (tmp_path / "out.jsonl").exists()


def test_wrong_options(cli: Cli, file: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    (tmp_path / "c.yaml").write_text("sede: 1\n")
    assert "did you mean 'seed'" in cli("data", "mask", file, target, "--config", tmp_path / "c.yaml").error
    assert "there is no profile 'full-ish'" in cli("data", "mask", file, target, "--profile", "full-ish").error
    assert cli("data", "mask", file, target, "--tokenizer", tmp_path / "none").code != 0
    assert not target.exists()


@pytest.mark.parametrize("verb", ["clean", "mask", "show-mask", "stats"])
def test_a_tokenizer_that_is_none_is_one_line_that_names_the_option(
    cli: Cli, file: Path, tmp_path: Path, verb: str
) -> None:
    (tmp_path / "folder").mkdir()
    target = tmp_path / "out.jsonl"
    outputs = [target] if verb in ("clean", "mask") else []
    for name in ("nowhere", "folder", file.name):
        result = cli("data", verb, file, *outputs, "--tokenizer", tmp_path / name)
        assert result.code == 2
        assert result.error.startswith("worldlm: --tokenizer: ")
        assert str(tmp_path / name) in result.error
        assert (result.out, target.exists()) == ("", False)


def test_show_mask(cli: Cli, file: Path) -> None:
    shown = cli("data", "show-mask", file)
    assert shown.code == 0
    lines = shown.out.split("\n")
    assert lines[0] == "=== one (terminal)"
    assert lines[1].startswith("--- turn 1: ")
    assert "+ ann@box:~$ cat notes.txt" in lines
    assert "  moving" in lines
    assert any(line.startswith("--- turn 2: ") and "still changing" in line for line in lines)
    assert "--- turn 3: no observation, failed (timed_out)" in lines

    exact = cli("data", "show-mask", file, "--exact").out
    assert "<|im_start|>assistant\n[+" in exact
    assert exact.count("<|im_end|> +]") == 1
    assert "--- turn 3 is not trained: failed (timed_out)" in exact
    assert "there is no trajectory 'two'" in cli("data", "show-mask", file, "--trajectory", "two").error


def test_stats(cli: Cli, file: Path, tmp_path: Path) -> None:
    pytest.importorskip("py3langid", reason="needs py3langid: pip install 'worldlm[data]'")
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'worldlm[report]'")
    page = tmp_path / "page.html"
    shown = cli("data", "stats", file, "--plots", page)
    assert shown.code == 0
    assert "terminal" in shown.out.split("\n")[0]
    assert page.read_text().startswith("<!doctype html>")
    figures = cli("data", "stats", file, "--tokenizer", "bytes", "--json").json
    observation = TRAJECTORY.turns[0].observation
    assert observation is not None
    assert figures["observation_tokens"]["most"] == len(observation.text)
    assert figures["domains"]["terminal"]["turns"] == 3
    assert cli("data", "stats", tmp_path / "none").code == 2
