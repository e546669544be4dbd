"""`worldlm data build`: a small data set, from real machines to the card."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.cli_kit import Cli
from worldlm.core.jsonl import read_trajectories
from worldlm.data.realturns.parts import read_part
from worldlm.data.steps.records import read_record
from worldlm.real.surroundings import other_surroundings
from worldlm.simulate import load_world

MISSING = [name for name in ("bwrap", "tmux") if shutil.which(name) is None]
plays = pytest.mark.skipif(bool(MISSING), reason=f"needs the programs {' and '.join(MISSING)}")

TINY: dict[str, Any] = {
    "name": "Tiny",
    "seed": 6,  # there are few episodes, and each part has some of them
    "domains": {"terminal": {"episodes": 7, "turns": 8, "concurrency": 2, "tests": 2, "held_out": 4}},
    "split": {"test": 0.3, "validation": 0.2, "held_out": {"terminal": {"labels": ["git-*", "heredoc-*", "echo*"]}}},
    "leaks": {"common": 3},
    "tests": {"part_a": 6, "part_b": 3, "least_a": 1, "least_b": 1, "spare": 1.2},
    "least_turns": 10,
    "texts": {"python": {"kind": "professional", "characters": 60000}},
    "weights": {"trajectories": 4, "professional": 1},
}


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(TINY))
    return path


def changed(path: Path, **parts: Any) -> Path:
    path.write_text(yaml.safe_dump({**TINY, **parts}))
    return path


def stages(out: Path) -> list[str]:
    return [json.loads(line)["stage"] for line in (out / "build.jsonl").read_text().splitlines()]


def needs_another_clock() -> None:
    around = other_surroundings(load_world("terminal"))[0]
    try:
        around.variables()
    except Exception as error:  # the words say what to install
        pytest.skip(str(error))


@plays
@pytest.mark.timeout(600)  # of real episodes and their replays, beside other tests
def test_a_build_from_playing_to_the_card(cli: Cli, recipe: Path, tmp_path: Path) -> None:
    needs_another_clock()
    out = tmp_path / "out"
    result = cli("data", "build", out, "--config", recipe, "--json")
    assert (result.code, result.err) == (0, "")
    card = result.json
    assert card == json.loads((out / "card.json").read_text())
    assert (out / "card.md").read_text().startswith("# Tiny\n")

    # Every part holds what it should, and nothing of another.
    train, validation = (read_trajectories(out / f"{part}.jsonl").items for part in ("train", "validation"))
    assert (len(train) + len(validation), bool(train), bool(validation)) == (7, True, True)
    assert card["parts"]["train"]["terminal"]["turns"] == sum(len(each.turns) for each in train) > 10
    labels = {turn.label or "" for each in [*train, *validation] for turn in each.turns}
    assert not [label for label in labels if label.startswith(("git-", "heredoc-", "echo"))]
    assert card["overlap"]["runs_in_training"] == 0
    assert card["shortfalls"] == []
    for part, least in (("a", 3), ("b", 1)):
        samples = list(read_part([out / f"test-{part}" / "terminal_test.jsonl.xz"]))
        assert len(samples) == card["parts"][f"test-{part}"]["terminal"]["turns"] >= least
        for sample, trajectory in samples:
            assert sample["worldlm"]["content"] in ("deterministic", "pre-existing", "metadata")
            held = str(trajectory.turns[-1].label).startswith(("git-", "heredoc-", "echo"))
            assert held == (part == "b")
    seeds = {each.origin.seed for each in [*train, *validation]}
    assert len(seeds) == 7
    mixed = [read_record(line) for line in (out / "mixed.jsonl").read_bytes().splitlines()]
    assert {type(each).__name__ for each in mixed} == {"Trajectory", "TextRecord"}
    assert sum(card["replays"]["terminal"].values()) >= 6

    # What is done is left alone, whatever is asked again.
    before = stages(out)
    again = cli("data", "build", out, "--config", recipe, "--json")
    assert (again.code, again.json) == (0, card)
    assert stages(out) == before

    # Another setting of a late step leaves the early ones alone; nothing is played again.
    result = cli("data", "build", out, "--config", changed(recipe, weights={"trajectories": 1, "professional": 1}))
    assert (result.code, result.err) == (0, "")
    assert stages(out)[len(before) :] == ["mix", "card"]
    assert "training: " in result.out


@plays
@pytest.mark.timeout(600)  # of real episodes and their replays, beside other tests
def test_a_build_that_was_killed_goes_on(
    cli: Cli, start: Callable[..., "subprocess.Popen[str]"], recipe: Path, tmp_path: Path
) -> None:
    needs_another_clock()
    out = tmp_path / "out"
    few = {"terminal": {**TINY["domains"]["terminal"], "tests": 1, "held_out": 1}}
    changed(recipe, domains=few, texts={}, weights={"trajectories": 1})
    played = out / "played" / "training" / "terminal.jsonl"
    process = start("data", "build", out, "--config", recipe)
    deadline = time.monotonic() + 100
    while not (played.exists() and played.read_bytes().count(b"\n") >= 2):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    first = [each.id for each in read_trajectories(played, lenient=True).items]
    assert "play training terminal" not in stages(out)
    result = cli("data", "build", out, "--config", recipe)
    assert (result.code, result.err) == (0, "")
    after = [each.id for each in read_trajectories(played).items]
    assert after[: len(first)] == first
    assert len(after) == len(set(after)) == 7
    assert (
        len(read_trajectories(out / "train.jsonl").items) + len(read_trajectories(out / "validation.jsonl").items) == 7
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seeed": 1}, "there is no setting seeed; did you mean 'seed'"),
        (
            {"split": {"held_out": {"terminal": {"labels": ["git-*", "tarr-list"]}}}},
            "split.held_out.terminal.labels: no kind is called 'tarr-list'; did you mean 'tar-list'",
        ),
        (
            {"split": {"held_out": {"terminal": {"worlds": ["terminal-nots"]}}}},
            "no world is called 'terminal-nots'; did you mean 'terminal-notes'",
        ),
        ({"split": {"held_out": {"terminal": {"worlds": ["terminal-*"]}}}}, "every world is held out"),
        ({"split": {**TINY["split"], "validation": 0.0001}}, "the part validation would be empty: give more episodes"),
        ({"split": {"held_out": {"terminal": {"words": ["tar"]}}}}, "words alone cannot be kept out"),
        (
            {
                "texts": {"pythn": {"kind": "professional", "characters": 9}},
            },
            "no collection of documents 'pythn'; did you mean 'python'",
        ),
        (
            {
                "domains": {"mcp": {**TINY["domains"]["terminal"], "held_out": 1}},
                "split": {"held_out": {"mcp": {"labels": ["time.*"]}}},
            },
            "the explorer of mcp cannot leave out kinds of actions; hold out worlds there",
        ),
    ],
)
def test_a_wrong_recipe_is_refused_before_anything_is_played(
    cli: Cli, recipe: Path, tmp_path: Path, change: Any, words: str
) -> None:
    out = tmp_path / "out"
    result = cli("data", "build", out, "--config", changed(recipe, **change))
    assert (result.code, result.out) == (2, "")
    assert words in result.error
    assert not out.exists()


def test_a_file_is_no_folder(cli: Cli, recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    result = cli("data", "build", tmp_path / "out", "--config", recipe)
    assert result.code == 2
    assert "is a file" in result.error
    assert (tmp_path / "out").read_text() == "mine"
