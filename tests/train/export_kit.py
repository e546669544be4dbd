"""Adapters for the tests of exporting: of random weights, as training would have left them."""

import warnings
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict

from worldlm.core.types import DOMAIN_NAMES, Profile
from worldlm.domains import prompt_hashes
from worldlm.models.profiles import get_profile
from worldlm.train.base import load_base
from worldlm.train.checkpoint import AdapterCard, write
from worldlm.train.export import Trained, load_trained, read_adapter

SMOL = {"hidden": 576, "heads": 576, "kv": 192, "inner": 1536, "layers": 30}
"""The sizes of SmolLM2-135M: nine query heads and three key heads of 64."""


def card(base: str, digest: str, where: str, profile: Profile | None = None) -> AdapterCard:
    """What an adapter says that it was trained for."""
    profile = profile or get_profile("embedded")
    return AdapterCard(
        base=base,
        base_digest=digest,
        profile=profile,
        prompts=prompt_hashes(profile),
        run="random",
        stage="sft",
        settings_digest="0" * 64,
        step=1,
        domains=DOMAIN_NAMES,
        settings={"base": where},
        version="0",
    )


def random_adapter(
    folder: Path, base: Path, std: float, profile: Profile | None = None, seed: int = 1, **config: Any
) -> Path:
    """An adapter for the base in a folder: what peft attaches, its second matrices of this standard deviation."""
    loaded = load_base(str(base), dtype=torch.float32)
    settings = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "task_type": "CAUSAL_LM", **config}
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names in transformers that are to go, and of tied weights
        model = get_peft_model(loaded.model, LoraConfig(**settings))
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and "lora_A" not in name:
                parameter.data += std * torch.randn_like(parameter)
        tensors = get_peft_model_state_dict(model)
    write(folder, tensors, model.peft_config["default"], card(loaded.name, loaded.digest, str(base), profile))
    return folder


def smol_adapter(folder: Path, digest: str, std: float, seed: int = 1) -> Path:
    """An adapter of all linear layers of the embedded model, without loading that; most in its queries and keys."""
    torch.manual_seed(seed)
    s = SMOL
    shapes = {
        "self_attn.q_proj": (s["hidden"], s["heads"]),
        "self_attn.k_proj": (s["hidden"], s["kv"]),
        "self_attn.v_proj": (s["hidden"], s["kv"]),
        "self_attn.o_proj": (s["heads"], s["hidden"]),
        "mlp.gate_proj": (s["hidden"], s["inner"]),
        "mlp.up_proj": (s["hidden"], s["inner"]),
        "mlp.down_proj": (s["inner"], s["hidden"]),
    }
    tensors: dict[str, torch.Tensor] = {}
    for layer in range(s["layers"]):
        for name, (inputs, outputs) in shapes.items():
            stem = f"base_model.model.model.layers.{layer}.{name}"
            tensors[f"{stem}.lora_A.weight"] = torch.randn(8, inputs) / inputs**0.5
            much = 5 if name.endswith(("q_proj", "k_proj")) else 1
            tensors[f"{stem}.lora_B.weight"] = much * std * torch.randn(outputs, 8)
    modules = [name.split(".")[1] for name in shapes]
    config = LoraConfig(r=8, lora_alpha=16, target_modules=modules, task_type="CAUSAL_LM")
    write(folder, tensors, config, card("SmolLM2-135M-Instruct.Q4_1", digest, "embedded"))
    return folder


def loaded(folder: Path, base: Path) -> Trained:
    """The adapter of a folder on its base."""
    return load_trained(read_adapter(folder), load_base(str(base), dtype=torch.float32))
