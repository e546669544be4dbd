"""The models that have a name, and how `--model` is read and built."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from worldlm.core.adapters import TrainedFor
from worldlm.core.errors import InputError, SetupError, nearest, user_path
from worldlm.core.protocols import Model
from worldlm.core.types import Observation, Profile
from worldlm.models import adapters, weights
from worldlm.models.embedded import EmbeddedModel
from worldlm.models.openai import OpenAIModel, endpoint
from worldlm.models.profiles import get_profile
from worldlm.models.replay import ReplayModel

Kind = Literal["embedded", "openai", "replay", "hf"]

FORMS = "embedded, embedded:FILE.gguf, replay:FILE, openai:NAME@URL, hf:PATH, or a name from `worldlm models list`"


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A line of `worldlm models list`."""

    name: str
    kind: Kind
    summary: str
    where: str
    """What has to be there: a file, or a server with a model of this name."""
    licence: str
    profile: str
    adapter: Path | None = None
    """Where its own adapter lies when there is one: it is taken by default."""

    @property
    def trained_for(self) -> TrainedFor | None:
        """What its own adapter was trained for; None when it has none."""
        return adapters.read_trained_for(self.adapter) if self.adapter and self.adapter.is_file() else None

    @property
    def present(self) -> bool | None:
        """Whether it can be used at once; None where a server decides that."""
        if self.kind != "embedded":
            return None
        try:
            return weights.find() is not None
        except SetupError:
            return False


MODELS: dict[str, NamedModel] = {
    model.name: model
    for model in (
        NamedModel(
            name="embedded",
            kind="embedded",
            summary="SmolLM2-135M-Instruct, 4 bits, in this process: small, fast, no key and no server",
            where=weights.EMBEDDED.filename,
            licence=weights.EMBEDDED.licence,
            profile="embedded",
            adapter=adapters.SHIPPED,
        ),
        NamedModel(
            name="qwen-agentworld",
            kind="openai",
            summary="Qwen-AgentWorld-35B-A3B, a language world model, behind vLLM, SGLang or llama.cpp",
            where="Qwen/Qwen-AgentWorld-35B-A3B",
            licence="Apache-2.0",
            profile="qwen-agentworld",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What `--model` says, read."""

    kind: Kind
    target: str
    """The model's name on its server, or a path; '' for the default weights."""
    profile: str
    url: str = ""


def parse_spec(text: str) -> ModelSpec:
    """Read a `--model`. Raises InputError that names the forms, or the nearest name."""
    head, colon, rest = text.strip().partition(":")
    if head == "replay" and colon:
        return ModelSpec("replay", _needed(rest, "replay:FILE"), "replay")
    if head == "hf" and colon:
        return ModelSpec("hf", _needed(rest, "hf:PATH"), "full")
    if head == "embedded" and colon:
        return ModelSpec("embedded", _needed(rest, "embedded:FILE.gguf"), "embedded")
    if head == "openai":
        name, url = _at_url(rest)
        if not (name and url):
            raise InputError(
                f"--model {text!r} is not openai:NAME@URL, like openai:my-model@http://127.0.0.1:8000/v1 "
                "or openai:gpt-5.4@https://api.openai.com/v1"
            )
        return ModelSpec("openai", name, "full", endpoint(url))
    name, url = _at_url(text.strip())
    known = MODELS.get(name)
    if known is None:
        raise InputError(f"there is no model {text!r}; {nearest(name, MODELS)}; a model is {FORMS}")
    if known.kind == "embedded":
        if url:
            raise InputError(f"model {name!r} runs in this process and takes no URL")
        return ModelSpec("embedded", "", known.profile)
    if not url:
        raise InputError(
            f"model {name!r} needs a server: serve {known.where} (vLLM, SGLang, llama.cpp) and say "
            f"{name}@URL, like {name}@http://127.0.0.1:8000/v1"
        )
    return ModelSpec("openai", known.where, known.profile, endpoint(url))


def _at_url(text: str) -> tuple[str, str]:
    """`NAME@URL` apart; NAME may itself hold `@`, `/` and `:`."""
    match = re.fullmatch(r"(.+)@(https?://.+)", text, re.DOTALL)
    return (match[1], match[2]) if match else (text, "")


def _needed(path: str, form: str) -> str:
    if not path:
        raise InputError(f"a path is missing: {form}")
    return path


def build(
    spec: str | ModelSpec,
    *,
    profile: str | None = None,
    api_key: str | None = None,
    offline: bool = False,
    deterministic: bool = False,
    lora: Path | None = None,
    slots: int = 4,
    threads: int | None = None,
    concurrency: int | None = None,
    deadline_s: float = 600.0,
    progress: weights.Progress | None = None,
    write_observation: Callable[[Observation], str] | None = None,
    prompt_hashes: Callable[[Profile], Mapping[str, str]] | None = None,
) -> tuple[Model, Profile]:
    """The model that `spec` says, and the profile with which to ask it.

    `profile` names another than the model's own. `deterministic` asks for temperature 0 (and, of an embedded
    model, for its deterministic mode). `lora`, `slots` and `threads` are for embedded models, `api_key`,
    `concurrency` and `deadline_s` for servers, `write_observation` for replays of trajectories.
    Missing weights of the default model are fetched, unless `offline`.

    `lora` is an adapter in GGUF, or `adapters.NO_ADAPTER`; without it the default model takes the shipped one, where
    there is one. An adapter that says what it was trained for brings its profile, and must fit the base, the profile
    and the prompts (`prompt_hashes` gives those of now).
    Raises InputError, or SetupError with the cure.
    """
    if isinstance(spec, str):
        spec = parse_spec(spec)
    adapter = _adapter(spec, lora)
    trained = adapters.read_trained_for(adapter) if adapter else None
    chosen = get_profile(profile or spec.profile)
    if adapter and trained:
        chosen = adapters.profile_of(adapter, trained, profile, prompt_hashes)
    if deterministic:
        sampling = chosen.sampling.model_copy(update={"temperature": 0.0})
        chosen = chosen.model_copy(update={"sampling": sampling})
    if spec.kind == "replay":
        return ReplayModel.load(user_path(spec.target), write_observation=write_observation), chosen
    if spec.kind == "openai":
        server = OpenAIModel(spec.target, spec.url, api_key, concurrency=concurrency, deadline_s=deadline_s)
        return server, chosen
    if spec.target:
        path, label = _gguf(user_path(spec.target)), None
    else:
        path, label = weights.obtain(offline=offline, progress=progress), weights.EMBEDDED.name
    if adapter and trained:
        adapters.check_base(adapter, trained, path, weights.file_sha256(path))
    embedded = EmbeddedModel(
        path,
        lora=adapter,
        label=label,
        slots=slots,
        context=chosen.context,
        threads=threads,
        deterministic=deterministic,
    )
    return embedded, chosen


def _adapter(spec: ModelSpec, lora: Path | None) -> Path | None:
    """The adapter that was asked for, else the model's own where there is one."""
    if lora == adapters.NO_ADAPTER:
        return None
    if lora is None:
        own = MODELS["embedded"].adapter if spec.kind == "embedded" and not spec.target else None
        return own if own and own.is_file() else None
    if spec.kind in ("openai", "replay"):
        raise InputError("an adapter (--lora) goes with an embedded model; a server loads its adapters itself")
    if not lora.is_file():
        raise InputError(f"there is no adapter {lora}; give a LoRA adapter in GGUF, or none for the base alone")
    return lora


def _gguf(path: Path) -> Path:
    """The path, if weights can be run from it here."""
    if path.is_dir():
        inside = sorted(path.glob("*.gguf"))
        if len(inside) == 1:
            return inside[0]
        if inside:
            names = ", ".join(file.name for file in inside[:5])
            raise InputError(f"{path} holds several GGUF files; name one: {names}")
        if (path / "config.json").is_file():
            raise SetupError(
                f"{path} holds weights for transformers, which this version does not run itself: serve it "
                f"(`vllm serve {path}`) and say openai:NAME@URL, or convert it to GGUF"
            )
    if not path.exists():
        raise InputError(f"there is no {path}; give a GGUF file, or 'embedded' for the default weights")
    return path
