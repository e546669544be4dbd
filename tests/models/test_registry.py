"""What `--model` says, and what is built from it."""

from pathlib import Path

import pytest

from worldlm.core.errors import InputError, SetupError
from worldlm.models import (
    MODELS,
    PROFILES,
    EmbeddedModel,
    ModelSpec,
    OpenAIModel,
    ReplayModel,
    build,
    get_profile,
    parse_spec,
)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("embedded", ModelSpec("embedded", "", "embedded")),
        ("embedded:some/x.gguf", ModelSpec("embedded", "some/x.gguf", "embedded")),
        ("replay:a:b.jsonl", ModelSpec("replay", "a:b.jsonl", "replay")),
        ("hf:folder", ModelSpec("hf", "folder", "full")),
        ("openai:m@http://h:1/v1", ModelSpec("openai", "m", "full", "http://h:1/v1")),
        ("openai:org/m:7b@v2@https://h", ModelSpec("openai", "org/m:7b@v2", "full", "https://h/v1")),
        (
            "qwen-agentworld@http://h:8000",
            ModelSpec("openai", "Qwen/Qwen-AgentWorld-35B-A3B", "qwen-agentworld", "http://h:8000/v1"),
        ),
    ],
)
def test_specs(text: str, spec: ModelSpec) -> None:
    assert parse_spec(text) == spec


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("embeded", "'embedded'"),
        ("qwen-agentworlds@http://h", "'qwen-agentworld'"),
        ("", "openai:NAME@URL"),
        ("qwen-agentworld", "qwen-agentworld@http://127.0.0.1:8000/v1"),
        ("embedded@http://h", "takes no URL"),
        ("openai:m", "openai:my-model@http"),
        ("openai", "openai:my-model@http"),
        ("openai:@http://h", "openai:my-model@http"),
        ("replay:", "replay:FILE"),
        ("hf:", "hf:PATH"),
        ("embedded:", "embedded:FILE"),
        ("transformers:x", "a model is"),
    ],
)
def test_specs_that_are_none(text: str, hint: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_spec(text)
    assert hint in str(raised.value)
    assert "\n" not in str(raised.value)


def test_every_named_model_has_its_profile() -> None:
    for name, model in MODELS.items():
        assert model.name == name
        assert get_profile(model.profile).name == model.profile
        assert model.licence


def test_profiles() -> None:
    for name, profile in PROFILES.items():
        assert profile.name == name
        assert (profile.sampling.max_tokens or 0) < profile.context
    with pytest.raises(InputError, match="'embedded'"):
        get_profile("embeded")
    qwen = get_profile("qwen-agentworld")
    assert (qwen.thinking, qwen.answer_tag, qwen.prompt) == (True, True, "full")
    assert (qwen.sampling.temperature, qwen.sampling.max_tokens, qwen.context) == (0.6, 32_768, 262_144)


def test_build_a_server() -> None:
    model, profile = build("openai:m@http://127.0.0.1:1", api_key="k", deterministic=True)
    assert isinstance(model, OpenAIModel)
    assert profile.sampling.temperature == 0
    assert build("openai:m@http://127.0.0.1:1", profile="compact")[1] == get_profile("compact")


def test_build_an_embedded_model_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF, or what begins like it")
    for text in (f"embedded:{path}", f"hf:{path}", f"hf:{tmp_path}"):
        model, profile = build(text, deterministic=True)
        assert isinstance(model, EmbeddedModel)
        assert (model.weights, model.slots, model.context) == (path, 1, profile.context)
        assert model.name.startswith("x@")
        assert model.name.endswith("/deterministic")
    adapted, _ = build(f"embedded:{path}", lora=path)
    assert adapted.name.count("x@") == 2


def test_build_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDLM_HOME", str(tmp_path))
    assert MODELS["embedded"].present is False
    assert MODELS["qwen-agentworld"].present is None
    with pytest.raises(SetupError, match="--offline"):
        build("embedded", offline=True)
    with pytest.raises(InputError, match="there is no"):
        build(f"embedded:{tmp_path}/none.gguf")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(SetupError, match="vllm serve"):
        build(f"hf:{tmp_path}")
    with pytest.raises(InputError, match="cannot read"):
        build(f"replay:{tmp_path}/none.jsonl")
    with pytest.raises(InputError, match="adapter"):
        build("openai:m@http://127.0.0.1:1", lora=tmp_path)
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    with pytest.raises(InputError, match=r"a\.gguf, b\.gguf"):
        build(f"hf:{tmp_path}")


def test_build_a_replay(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(
        '{"schema":"worldlm.call/1","model":"m","messages":[],"sampling":{},"completion":{"text":"a"}}\n'
    )
    model, profile = build(f"replay:{tmp_path}/x.jsonl")
    assert isinstance(model, ReplayModel)
    assert profile.name == "replay"
