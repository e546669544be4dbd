from pathlib import Path

import pytest

from tests.cli.cli_kit import Cli


def test_list_names_models_and_profiles(cli: Cli) -> None:
    result = cli("models", "list")
    assert result.code == 0
    for word in ("embedded", "qwen-agentworld", "Profiles"):
        assert word in result.out


def test_list_as_json(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORLDLM_HOME", str(tmp_path))
    report = cli("models", "list", "--json").json
    embedded = next(model for model in report["models"] if model["name"] == "embedded")
    assert embedded["present"] is False
    assert {"embedded", "full", "qwen-agentworld"} <= {profile["name"] for profile in report["profiles"]}


def test_pull_from_a_file_that_is_something_else(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORLDLM_HOME", str(tmp_path))
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF and no more")
    result = cli("models", "pull", "--from", other)
    assert result.code == 1
    assert "SHA-256" in result.error
    assert result.out == ""


def test_offline_without_weights_says_how_to_get_them(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, world: Path, script: Path
) -> None:
    monkeypatch.setenv("WORLDLM_HOME", str(tmp_path))
    result = cli("simulate", world, "--script", script, "--offline")
    assert result.code == 1
    assert "worldlm models pull" in result.error
    assert result.out == ""
