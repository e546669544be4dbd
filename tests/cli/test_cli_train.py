"""`worldlm train`: settings in, a run's folder out."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'worldlm[train]'")
pytest.importorskip("tensorboard", reason="needs tensorboard: pip install 'worldlm[train]'")

import yaml

from tests.cli.cli_kit import Cli
from tests.train.kit import run_maker, save_base, tiny_llama


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_base(tmp_path_factory.mktemp("base"), tiny_llama())


@pytest.fixture
def config(base: Path, tmp_path: Path) -> Path:
    path = tmp_path / "settings.yaml"
    run = run_maker(tmp_path, base)()
    path.write_text(yaml.safe_dump(run.model_dump(mode="json", by_alias=True)), "utf-8")
    return path


def test_a_run_leaves_all_that_its_folder_should_hold(cli: Cli, config: Path, tmp_path: Path) -> None:
    done = cli("train", "cpt", "--config", config, "--out", tmp_path / "out")
    assert (done.code, done.out.startswith(f"{tmp_path}/out/adapter: the adapter after")) == (0, True)
    assert "tokens of the first batch are trained, in" in done.err
    there = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"run.yaml", "metrics.jsonl", "tensorboard", "checkpoints", "adapter", "report.html"} <= there
    assert yaml.safe_load((tmp_path / "out" / "run.yaml").read_text("utf-8"))["name"] == "tiny"
    card = json.loads((tmp_path / "out" / "adapter" / "worldlm.json").read_text("utf-8"))
    assert (card["stage"], card["profile"]["context"]) == ("cpt", 2048)


def test_a_run_goes_on_where_its_minutes_ended(cli: Cli, config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = cli("train", "cpt", "--config", config, "--out", out, "--minutes", "0", "--json")
    assert first.json == {"why": "minutes", "step": 1, "steps": first.json["steps"], "best": None, "folder": str(out)}
    refused = cli("train", "cpt", "--config", config, "--out", out)
    assert (refused.code, refused.error) == (
        2,
        f"worldlm: {out} holds a run already; go on with --resume, or name another folder with --out",
    )
    last = cli("train", "cpt", "--config", config, "--out", out, "--resume", "--json")
    assert (last.json["why"], last.json["step"]) == ("finished", first.json["steps"])
    steps = [json.loads(line)["step"] for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert steps == sorted(steps)
    assert {1, first.json["steps"]} <= set(steps)


def test_nothing_is_begun_with_wrong_input(cli: Cli, config: Path, tmp_path: Path) -> None:
    out, path = tmp_path / "out", tmp_path / "wrong.yaml"
    right = yaml.safe_load(config.read_text("utf-8"))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"lerning_rate": 1}, "there is no setting lerning_rate"),
        ({"profile": "embeded"}, "there is no profile 'embeded'; did you mean 'embedded'?"),
        ({"stage": "sft"}, "is a run of the stage sft: worldlm train sft"),
        ({"base": "/none"}, "there is no base /none"),
        ({"context": 600}, "raise 'context' above 600"),
        ({"init_from": "/none"}, "there is no adapter of worldlm in /none"),
    ]
    for given, told in cases:
        path.write_text(yaml.safe_dump({**right, **given}), "utf-8")
        refused = cli("train", "cpt", "--config", path, "--out", out)
        assert refused.code == 2, (given, refused)
        assert told in refused.err
        assert "Traceback" not in refused.err
        assert not (out / "checkpoints").exists()
