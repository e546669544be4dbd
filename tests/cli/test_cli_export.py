"""`worldlm export`, and the adapter that the other verbs then load."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cli_kit import Cli
from tests.models.adapter_files import trained_for, write_adapter
from worldlm.cli.build import ModelOptions, build_model
from worldlm.domains import get_domain, prompt_hashes
from worldlm.models import MODELS, build, get_profile, weights

# Without the libraries of training.


def test_models_list_shows_the_shipped_adapter(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "embedded.gguf"
    monkeypatch.setitem(MODELS, "embedded", replace(MODELS["embedded"], adapter=path))
    models = {model["name"]: model for model in cli("models", "list", "--json").json["models"]}
    assert models["embedded"]["adapter"] is None
    write_adapter(path, 0.1, trained_for(weights.EMBEDDED.sha256).to_metadata())
    models = {model["name"]: model for model in cli("models", "list", "--json").json["models"]}
    assert models["embedded"]["adapter"]["run"] == "worlds-1"
    assert models["qwen-agentworld"]["adapter"] is None
    assert "with our adapter worlds-1 (sft, profile embedded)" in cli("models", "list").out


def test_simulating_with_an_adapter_for_something_else(cli: Cli, world: Path, script: Path, tmp_path: Path) -> None:
    if weights.find() is None:
        pytest.skip("needs the embedded model's weights: worldlm models pull")
    fitting = trained_for(weights.EMBEDDED.sha256)
    for trained, arguments, said in (
        (trained_for("ab" * 32), (), "trained for the-base"),
        (fitting, ("--profile", "full"), "leave --profile away"),
        (fitting.model_copy(update={"prompts": {"terminal": "0" * 16}}), (), "other prompts"),
    ):
        path = write_adapter(tmp_path / "a.gguf", 0.1, trained.to_metadata())
        result = cli("simulate", world, "--script", script, "--lora", path, "--offline", *arguments)
        assert result.code == 2
        assert said in result.error
    path = write_adapter(tmp_path / "a.gguf", 0.1, fitting.to_metadata())
    script.write_text("true\n")
    result = cli("simulate", world, "--script", script, "--lora", path, "--offline", "--json")
    assert result.code == 0
    assert "+a@" in result.json["model"]


def test_the_word_none_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if weights.find() is None:
        pytest.skip("needs the embedded model's weights: worldlm models pull")
    shipped = write_adapter(tmp_path / "embedded.gguf", 0.1, trained_for(weights.EMBEDDED.sha256).to_metadata())
    monkeypatch.setitem(MODELS, "embedded", replace(MODELS["embedded"], adapter=shipped))
    domain = get_domain("terminal")
    for lora, named in ((None, "+embedded@"), (Path("none"), "")):
        model, _ = build_model(ModelOptions("embedded", lora=lora, offline=True), domain)
        assert (named in model.name) if named else ("+" not in model.name)


# With them.


@pytest.fixture
def base(tmp_path: Path) -> Path:
    pytest.importorskip("torch", reason="needs torch: pip install 'worldlm[train]'")
    pytest.importorskip("peft", reason="needs peft: pip install 'worldlm[train]'")
    from transformers.utils import logging

    from tests.train.kit import save_base, tiny_llama

    logging.disable_progress_bar()  # of making the base, so that what is captured is the program's own
    try:
        return save_base(tmp_path / "base", tiny_llama())
    finally:
        logging.enable_progress_bar()


@pytest.fixture
def adapter(base: Path, tmp_path: Path) -> Path:
    from tests.train.export_kit import random_adapter

    profile = get_profile("embedded").model_copy(update={"context": 4096})
    return random_adapter(tmp_path / "adapter", base, std=0.2, profile=profile)


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    from tests.train.records import sessions, write_lines

    return write_lines(tmp_path / "real.jsonl", sessions(3))


@pytest.mark.parametrize(("verb", "dtype"), [("merged", "float32"), ("vllm", None)])
def test_a_folder_is_exported_and_told_of(
    cli: Cli, adapter: Path, recordings: Path, tmp_path: Path, verb: str, dtype: str | None
) -> None:
    out = tmp_path / "out"
    more = ["--dtype", dtype] if dtype else []
    report = cli("export", verb, adapter, out, "--prompts", recordings, "--json", *more).json
    assert report["path"] == str(out)
    assert report["tensors"] == 14
    assert report["comparison"]["prompts"] >= 5
    assert report["comparison"]["applied"] is True
    assert report["comparison"]["difference"] < 0.001 < report["comparison"]["shift"]
    assert (out / "worldlm.json").is_file()
    result = cli("export", verb, adapter, tmp_path / "again", "--prompts", recordings, *more)
    assert result.code == 0
    assert "compared with the trained model at" in result.out
    result = cli("export", verb, adapter, out, "--prompts", recordings)
    assert result.code == 2
    assert "there already" in result.error


def change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_what_cannot_be_exported_is_refused_in_one_line(
    cli: Cli, adapter: Path, base: Path, recordings: Path, tmp_path: Path
) -> None:
    def refused(*arguments: object) -> str:
        before = sorted(tmp_path.iterdir())
        result = cli("export", *arguments)
        assert result.code == 2
        assert result.out == ""
        assert sorted(tmp_path.iterdir()) == before
        return result.error

    out = tmp_path / "out"
    assert "must end in .gguf" in refused("gguf-lora", adapter, out)
    assert "--base" in refused("gguf-lora", adapter, tmp_path / "out.gguf")
    assert "'float32'" in refused("merged", adapter, out, "--dtype", "float23")
    assert "there is no adapter" in refused("merged", base, out)
    assert "--prompts" in refused("merged", adapter, out)  # a token a byte: the shipped worlds do not fit
    one = tmp_path / "one.jsonl"
    one.write_text(recordings.read_text().splitlines()[0] + "\n")
    assert "5 are wanted" in refused("vllm", adapter, out, "--prompts", one)
    assert "there is no base" in refused("vllm", adapter, out, "--base", "./none")
    config = adapter / "adapter_config.json"
    change(config, modules_to_save=["lm_head"])
    assert "worldlm export merged" in refused("gguf-lora", adapter, tmp_path / "out.gguf")
    assert "worldlm export merged" in refused("vllm", adapter, out)
    change(config, modules_to_save=None, target_parameters=["mlp.experts.down_proj"])
    assert "fused experts" in refused("gguf-lora", adapter, tmp_path / "out.gguf")
    change(adapter / "worldlm.json", settings={"base": "/nowhere/base"})
    change(config, target_parameters=None)
    assert "--base" in refused("vllm", adapter, out)


@pytest.mark.long
def test_an_adapter_for_llama_cpp_from_the_command_line(cli: Cli, tmp_path: Path) -> None:
    """On the real base, through the program that will run it."""
    pytest.importorskip("torch", reason="needs torch: pip install 'worldlm[train]'")
    pytest.importorskip("peft", reason="needs peft: pip install 'worldlm[train]'")
    if weights.find() is None:
        pytest.skip("needs the embedded model's weights: worldlm models pull")
    from tests.train.export_kit import smol_adapter
    from tests.train.records import sessions, write_lines

    recordings = write_lines(tmp_path / "real.jsonl", sessions(2))
    adapter = smol_adapter(tmp_path / "adapter", weights.EMBEDDED.sha256, std=0.01)
    out = tmp_path / "random.gguf"
    report = cli("export", "gguf-lora", adapter, out, "--prompts", recordings, "--offline", "--json").json
    print(report)
    assert (report["tensors"], report["bytes"]) == (210, out.stat().st_size)
    assert report["comparison"]["unexplained"] < 0.1 * report["comparison"]["shift"]
    assert build(f"embedded:{weights.location()}", lora=out, prompt_hashes=prompt_hashes)[1] == get_profile("embedded")
