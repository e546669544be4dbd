"""The model that an adapter is trained for, with its tokenizer, and the adapter that is attached to it."""

import hashlib
import warnings
from collections.abc import Mapping
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model, set_peft_model_state_dict
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.utils import logging

from worldlm.core.errors import InputError, nearest
from worldlm.data.tokenizers import HuggingFaceTokenizer
from worldlm.domains import prompt_hashes
from worldlm.train.checkpoint import ADAPTER, ADAPTER_CONFIG, CARD, read_card, read_tensors
from worldlm.train.settings import Lora, Packing, Run

ATTENTION: Mapping[Packing, str] = {"none": "sdpa", "mask": "sdpa", "flash": "flash_attention_2"}
"""How attention is computed under each kind of packing."""


@dataclass(frozen=True, slots=True)
class Base:
    """A base model."""

    name: str
    """The name of its file or folder, or on a hub."""
    digest: str
    """Hex SHA-256 of its GGUF file; of a folder over the names and bytes of its weights' files; of a model on a hub,
    its revision."""
    model: Any
    """A `transformers.PreTrainedModel` with a head."""
    tokenizer: HuggingFaceTokenizer


def load_base(where: str, *, dtype: torch.dtype, packing: Packing = "none") -> Base:
    """A base from a GGUF file (its weights as `dtype`), a folder as `save_pretrained` writes it, or a hub's name.

    Raises InputError when it cannot be read, SetupError when a package is missing.
    """
    path = Path(where).expanduser()
    local = path.exists()
    options: dict[str, Any] = {"dtype": dtype, "attn_implementation": ATTENTION[packing], "local_files_only": local}
    if path.is_file():
        # Left as they are stored, the weights would be modules of their own that hold no gradients.
        options |= {"gguf_file": path.name, "quantization_config": GgufConfig(dequantize=True)}
    elif not local and (where.startswith((".", "/", "~")) or where.count("/") > 1):
        raise InputError(f"there is no base {where}; name a folder of a model, a GGUF file, or a model on a hub")
    quiet = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with redirect_stderr(StringIO()):  # of a GGUF file transformers shows a bar that no setting turns off
            model = AutoModelForCausalLM.from_pretrained(
                str(path.parent if path.is_file() else path if local else where), **options
            )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise InputError(f"cannot load the base {where}: {' '.join(str(error).split())[:300]}") from error
    finally:
        if quiet:
            logging.enable_progress_bar()
    model.requires_grad_(False)
    tokenizer = (
        HuggingFaceTokenizer.load(path) if local else HuggingFaceTokenizer(AutoTokenizer.from_pretrained(where), where)
    )
    revision = str(getattr(model.config, "_commit_hash", None))
    return Base(
        path.stem if path.is_file() else path.name if local else where,
        _digest(path) if local else revision,
        model,
        tokenizer,
    )


def _digest(path: Path) -> str:
    if path.is_file():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    sha = hashlib.sha256()
    for weights in sorted(path.glob("*.safetensors")) or sorted(path.glob("*.bin")):
        with weights.open("rb") as file:
            sha.update(weights.name.encode() + hashlib.file_digest(file, "sha256").digest())
    return sha.hexdigest()


# The adapter.


def adapter(base: Base, run: Run) -> PeftModel:
    """The adapter that a run begins with: that of an earlier stage, or a new one. Raises as these two do."""
    if run.init_from is None:
        return attach(base, run.lora, run.seed)
    return attach_from(base, Path(run.init_from).expanduser(), run.lora)


def attach(base: Base, lora: Lora, seed: int) -> PeftModel:
    """A new adapter on a base, in float32, that changes nothing yet. Raises InputError for layers that are not there.

    The base's parameters are frozen, and its layers are changed in place: a base holds one adapter.
    """
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=lora.modules if lora.modules == "all-linear" else list(lora.modules),
        target_parameters=list(lora.parameters) or None,
        task_type="CAUSAL_LM",
    )
    _require(base, lora)
    torch.manual_seed(seed)
    return _checked(_attached(base, config))


def attach_from(base: Base, folder: Path, lora: Lora | None = None) -> PeftModel:
    """The adapter of an earlier stage on its base, to be trained further. `folder` is a run's, or that of its adapter.

    Raises InputError when it is for another base, was trained with prompts of another wording, or is not as `lora`
    says; None takes it as it is.
    """
    place = adapter_folder(folder)
    card = read_card(place)
    if card.base_digest != base.digest:
        raise InputError(
            f"{place} is an adapter for the base {card.base} ({card.base_digest[:12]}), not for {base.name} "
            f"({base.digest[:12]})"
        )
    now = prompt_hashes(card.profile)
    if changed := [name for name in card.domains if name in now and card.prompts.get(name) != now[name]]:
        raise InputError(
            f"{place} was trained with prompts of another wording ({', '.join(changed)}): train it anew, or use the "
            f"version of worldlm that it is from ({card.version})"
        )
    config = LoraConfig.from_pretrained(str(place))
    held = _lora_of(config)
    if lora is not None and (held.rank, held.alpha) != (lora.rank, lora.alpha):
        raise InputError(
            f"{place} has rank {held.rank} and alpha {held.alpha:g}, and the settings say {lora.rank} and "
            f"{lora.alpha:g}; say in 'lora' what it has"
        )
    config.inference_mode = False
    config.base_model_name_or_path = None  # peft would warn of a base that lies elsewhere
    model = _attached(base, config)
    load_adapter(model, read_tensors(place / ADAPTER), str(place))
    return _checked(model)


def _attached(base: Base, config: LoraConfig) -> PeftModel:
    try:
        with warnings.catch_warnings():
            # peft asks transformers by names that are to go; that is for the two to settle.
            warnings.simplefilter("ignore", FutureWarning)
            return get_peft_model(base.model, config)
    except ValueError as error:
        raise InputError(f"lora: {' '.join(str(error).split())[:300]}") from error


def adapter_folder(folder: Path) -> Path:
    """Where the adapter of a run lies: in `adapter/` when it is done; or in the folder itself.

    Raises InputError when there is none.
    """
    for place in (folder, folder / "adapter"):
        if all((place / name).is_file() for name in (ADAPTER, ADAPTER_CONFIG, CARD)):
            return place
    raise InputError(
        f"there is no adapter of worldlm in {folder}; name the folder of a run that is done, or of an adapter"
    )


def load_adapter(model: PeftModel, tensors: Mapping[str, Tensor], name: str) -> None:
    """Give an attached adapter its weights. Raises InputError when they are not those of this adapter."""
    try:
        found: Any = set_peft_model_state_dict(model, dict(tensors))
    except (RuntimeError, ValueError) as error:
        raise InputError(f"{name} does not fit this base: {' '.join(str(error).split())[:300]}") from error
    missing = [key for key in found.missing_keys if "lora_" in key]
    if missing or found.unexpected_keys:
        raise InputError(f"{name} does not fit this base: {[*missing, *found.unexpected_keys][0]}")


def trained(model: Any) -> dict[str, Tensor]:
    """The parameters that are trained, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _lora_of(config: LoraConfig) -> Lora:
    return Lora(rank=config.r, alpha=config.lora_alpha, parameters=tuple(config.target_parameters or ()))


def _require(base: Base, lora: Lora) -> None:
    """Raises InputError for a layer or parameter that the base does not have: peft passes over it."""
    modules = () if lora.modules == "all-linear" else lora.modules
    for key, wanted, known in (
        ("modules", modules, [name for name, _ in base.model.named_modules()]),
        ("parameters", lora.parameters, [name for name, _ in base.model.named_parameters()]),
    ):
        for name in wanted:
            if not any(f".{place}".endswith(f".{name}") for place in known):
                depth = name.count(".") + 1
                ends = {".".join(place.split(".")[-depth:]) for place in known}
                raise InputError(f"lora.{key}: the base {base.name} has no {name}; {nearest(name, ends)}")


def _checked(model: PeftModel) -> PeftModel:
    """The model, when nothing but adapters in exportable places is trained."""
    causal: Any = model.get_base_model()
    head = causal.get_output_embeddings()
    if any(parameter.requires_grad for parameter in head.parameters()) or model.modules_to_save:
        raise InputError("the head or whole modules would be trained, which no adapter can be exported with")
    return model


__all__ = [
    "ATTENTION",
    "Base",
    "adapter",
    "adapter_folder",
    "attach",
    "attach_from",
    "load_adapter",
    "load_base",
    "trained",
]
