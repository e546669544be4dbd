"""The settings of a run: what is refused, and what the stage decides."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from worldlm.core.errors import InputError
from worldlm.data.settings import read_settings
from worldlm.train.settings import Run

LEAST: dict[str, Any] = {
    "name": "one",
    "stage": "cpt",
    "base": "embedded",
    "data": {"files": ["train.jsonl"], "replay": {"share": 0}},
}


def read(folder: Path, **given: Any) -> Run:
    path = folder / "run.yaml"
    path.write_text(yaml.safe_dump({**LEAST, **given}), "utf-8")
    return read_settings(path, Run)


def test_what_a_run_is_about_suffices(tmp_path: Path) -> None:
    run = read(tmp_path)
    assert (run.targets, run.lora.rank, run.batches.packing) == ("kept", 16, "none")
    assert read(tmp_path, stage="sft").targets == "observations"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"lerning_rate": 1}, "there is no setting lerning_rate"),
        ({"lora": {"rnak": 8}}, "there is no setting lora.rnak; did you mean 'rank'?"),
        ({"lora": {"modules": ["q_proj", "lm_head"]}}, "'lm_head' cannot be exported"),
        ({"lora": {"modules": ["model.embed_tokens"]}}, "'model.embed_tokens' cannot be exported"),
        ({"lora": {"parameters": ["mlp.experts.down_proj"], "dropout": 0.1}}, "'dropout' must be 0"),
        ({"thinking": True}, "'thinking' belongs to the stage sft"),
        ({"data": {"files": ["train.jsonl"]}}, "'data.replay.texts' names no file"),
        ({"data": {"files": []}}, "data.files"),
        ({"data": {**LEAST["data"], "weights": {"terminl": 2}}}, "did you mean 'terminal'?"),
        ({"data": {**LEAST["data"], "weights": {"terminal": 0}}}, "data.weights.terminal"),
        ({"data": {**LEAST["data"], "weights": {"terminal": float("nan")}}}, "data.weights.terminal"),
        ({"stage": "rl"}, "stage"),
        ({"optimiser": {"learning_rate": float("nan")}}, "optimiser.learning_rate"),
        ({"name": "../elsewhere"}, "name"),
    ],
)
def test_a_wrong_setting_is_named(given: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read(tmp_path, **given)
    assert told in str(refused.value)
    assert "run.yaml" in str(refused.value)


def test_settings_written_as_they_are_used_are_read_as_they_were(tmp_path: Path) -> None:
    run = read(tmp_path, every={"validate": 7})
    path = tmp_path / "again.yaml"
    path.write_text(yaml.safe_dump(run.model_dump(mode="json", by_alias=True)), "utf-8")
    assert read_settings(path, Run) == run
