import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cli_kit import Cli
from tests.data.samples import ATIF, CHAT, SWE, trajectory
from worldlm.core.jsonl import JsonlWriter, read_trajectories
from worldlm.data import FORMATS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two good files and a cut-off one."""
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.traj").write_text(json.dumps(SWE))
    (source / "b.json").write_text(json.dumps(CHAT))
    (source / "c.traj").write_text(json.dumps(SWE, indent=1)[:150])
    return source


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    path = tmp_path / "ours.jsonl"
    with JsonlWriter(path) as writer:
        writer.write(trajectory())
    return path


def test_import_writes_trajectories_and_says_what_was_lost(cli: Cli, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    result = cli("data", "import", "auto", folder, out, "--max-bad", "0.5")
    assert result.code == 0
    assert len(read_trajectories(out).items) == 2
    assert result.err.startswith(f"{folder / 'c.traj'}: not JSON: ")
    rows = result.out.splitlines()
    assert rows[0].split() == ["effect", "count", "what", "for", "example"]
    assert any(row.startswith("dropped") and "the agent's system prompt" in row for row in rows)
    assert rows[-2:] == [f"{out}: 2 records", "2 trajectories, 3 turns; 1 bad records"]


def test_import_as_json(cli: Cli, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    report = cli("data", "import", "auto", folder, out, "--max-bad", "1", "--json", "--licence", "MIT").json
    assert (report["trajectories"], report["turns"], report["bad"]) == (2, 3, 1)
    assert report["bad_share"] == pytest.approx(1 / 3, abs=1e-4)
    assert [file["format"] for file in report["files"]] == ["swe-agent", "openai-chat", None]
    assert report["written"] == {str(out): 2}
    assert {one.origin.licence for one in read_trajectories(out).items} == {"MIT"}


def test_too_many_bad_records_are_a_failure_and_the_good_ones_are_kept(cli: Cli, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    result = cli("data", "import", "auto", folder, out)
    assert result.code == 1
    said = result.err.splitlines()[-1]
    assert said == (
        "worldlm: 33.3% of the records could not be used, and --max-bad allows 10.0%; the others are written"
    )
    assert len(read_trajectories(out).items) == 2


def test_an_import_that_finds_nothing_is_a_failure(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear all,\n")
    result = cli("data", "import", "auto", path, tmp_path / "out.jsonl")
    assert result.code == 1
    assert "no trajectory was found that can be used: " in result.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("aitf", "IN", "OUT"), "there is no format 'aitf'; did you mean 'atif'?"),
        (("auto", "NONE", "OUT"), "there is no file or folder"),
        (("auto", "IN", "THERE"), "is there already"),
        (("auto", "IN", "OUT", "--domain", "termnal"), "there is no domain 'termnal'; did you mean 'terminal'?"),
    ],
)
def test_wrong_use_of_import(cli: Cli, folder: Path, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    there = tmp_path / "there.jsonl"
    there.write_text("{}\n")
    paths = {"IN": folder, "OUT": tmp_path / "out.jsonl", "THERE": there, "NONE": tmp_path / "none"}
    result = cli("data", "import", *(paths.get(word, word) for word in arguments))
    assert result.code == 2
    assert message in result.error
    assert not paths["OUT"].exists()


def test_strict_import_refuses_what_breaks_a_rule(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**ATIF, "colour": "red"}))
    assert cli("data", "import", "atif", path, tmp_path / "one.jsonl").code == 0
    result = cli("data", "import", "atif", path, tmp_path / "two.jsonl", "--strict")
    assert result.code == 1
    assert "colour: Extra inputs are not permitted" in result.err


@pytest.mark.parametrize("name", [name for name, each in FORMATS.items() if each.write])
def test_export_to_every_format_that_can_be_written(cli: Cli, ours: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    report = cli("data", "export", name, ours, out, "--json").json
    assert sum(report["written"].values()) == 1
    assert report["trajectories"] == 1
    assert bool(report["losses"]) == (name in ("agentworldbench", "openai-chat"))
    assert cli("data", "check", out).code == 0


def test_export_says_what_the_format_cannot_hold(cli: Cli, ours: Path, tmp_path: Path) -> None:
    result = cli("data", "export", "openai-chat", ours, tmp_path / "out.jsonl")
    assert result.code == 0
    assert "the mark that a result is an error" in result.out


def test_export_of_every_turn(cli: Cli, ours: Path, tmp_path: Path) -> None:
    out = tmp_path / "bench"
    report = cli("data", "export", "agentworldbench", ours, out, "--turns", "all", "--json").json
    assert report["written"] == {str(out / "mcp_test.jsonl"): 2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("miniwob",), "there is no writer for 'miniwob'; these can be written: "),
        (("atif", "--turns", "some"), "--turns 'some': it is last or all"),
    ],
)
def test_wrong_use_of_export(cli: Cli, ours: Path, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    result = cli("data", "export", arguments[0], ours, tmp_path / "out", *arguments[1:])
    assert result.code == 2
    assert message in result.error


def _line(value: Any) -> str:
    return json.dumps(value) + "\n"


def test_check_names_line_and_key(cli: Cli, ours: Path, tmp_path: Path) -> None:
    bad = trajectory().model_dump(mode="json")
    bad["turns"][1]["colour"] = "red"
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(_line(trajectory().model_dump(mode="json")) + _line(bad) + "{\n")
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps({**ATIF, "steps": [{**ATIF["steps"][0], "step_id": 5}]}))
    result = cli("data", "check", ours, wrong, broken, tmp_path / "none")
    assert result.code == 2
    assert result.out == f"{ours}: OK (worldlm worldlm.trajectory/1; 1 trajectories, 2 turns)\n"
    first, second, third, fourth = result.err.splitlines()
    assert first == f"{wrong}:2: turns.1.colour: Extra inputs are not permitted"
    assert second.startswith(f"{wrong}:3: not JSON: ")
    assert third == f"{broken}: steps.0.step_id: 5, and the steps are numbered from 1, so it must be 1"
    assert fourth == f"there is no file or folder {tmp_path / 'none'}"


def test_check_as_json(cli: Cli, ours: Path, folder: Path) -> None:
    result = cli("data", "check", ours, folder, "--json")
    assert result.code == 2
    assert [row["ok"] for row in result.json] == [True, True, True, False]


def test_formats_are_listed(cli: Cli) -> None:
    assert [line.split()[0] for line in cli("data", "formats").out.splitlines()] == list(FORMATS)
    assert [row["name"] for row in cli("data", "formats", "--json").json] == list(FORMATS)
