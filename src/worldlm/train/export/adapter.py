"""An adapter's folder as peft writes it, and what of it can be carried over to another program."""

import json
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peft import LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from torch import Tensor

from worldlm.core.errors import InputError
from worldlm.core.types import JsonObject
from worldlm.train.base import Base, adapter_folder, load_adapter
from worldlm.train.checkpoint import ADAPTER, ADAPTER_CONFIG, AdapterCard, read_card, read_tensors
from worldlm.train.export.compare import ANSWER, Answer, answers, log_probabilities

MERGE = "merge it instead: worldlm export merged ADAPTER OUT"
EXTRAS = {
    "modules_to_save": "has whole modules that were trained beside its pairs",
    "target_parameters": "was trained on fused experts",
    "use_dora": "has the magnitudes of DoRA",
    "lora_bias": "has biases",
    "trainable_token_indices": "has embeddings of single tokens",
    "layer_replication": "repeats layers",
    "alora_invocation_tokens": "begins to act at certain tokens",
    "fan_in_fan_out": "is of transposed layers",
}
"""Settings of peft under which an adapter is more, or other, than a pair of matrices for each linear layer."""
HEADS = ("lm_head", "embed_tokens", "embed_in", "embed_out", "wte", "word_embeddings", "output")
"""What embeddings and heads are called: often one matrix, of which only one use would be changed."""
_PAIR = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<side>[AB])\.weight")


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter's folder, read."""

    folder: Path
    config: JsonObject
    """`adapter_config.json`."""
    tensors: tuple[str, ...]
    """The names in its file of weights."""
    card: AdapterCard
    """What it was trained for."""

    @property
    def modules(self) -> list[str]:
        """The linear layers that have a pair."""
        return sorted({match["module"] for name in self.tensors if (match := _PAIR.fullmatch(name))})

    def refuse_extras(self) -> None:
        """Raises InputError unless the adapter is a pair of matrices for each of some linear layers, and no more."""
        said = None
        for key, words in EXTRAS.items():
            if self.config.get(key):
                said = f"{words} ({key})"
        if self.config.get("bias", "none") != "none":
            said = "has biases (bias)"
        if head := next((name for name in self.modules if name.rpartition(".")[2] in HEADS), None):
            said = f"was trained on the embeddings or the head ({head})"
        sides = [match.groups() for name in self.tensors if (match := _PAIR.fullmatch(name))]
        if not said and len(sides) < len(self.tensors):
            other = next(name for name in self.tensors if not _PAIR.fullmatch(name))
            said = f"holds tensors that are none of a pair, like {other}"
        if not said and len(sides) != 2 * len(self.modules):
            said = "holds one half of a pair without the other"
        if said:
            raise InputError(f"the adapter {self.folder} {said}, which a file of pairs cannot carry; {MERGE}")


@dataclass(frozen=True, slots=True)
class Trained:
    """An adapter on its base, in float32, ready to answer."""

    adapter: Adapter
    base: Base
    model: Any
    """peft's model."""

    def answers(self, prompts: Sequence[Sequence[int]], length: int = ANSWER) -> list[Answer]:
        """Its greedy answers to prompts of token ids, `length` tokens at most."""
        return answers(self.model.get_base_model(), prompts, self.base.tokenizer.end_of_turn, length)

    def of_base(self, answers: Sequence[Answer]) -> Tensor:
        """Log-probabilities (places, vocabulary) of the base alone, in the place of the answers."""
        with self.model.disable_adapter():
            return log_probabilities(self.model, answers)


def read_adapter(folder: Path) -> Adapter:
    """The adapter in a folder, or in the folder of a run.

    Raises InputError when there is none, when it is no LoRA, or when its weights are not finite or were never trained.
    """
    place = adapter_folder(folder)
    config = json.loads((place / ADAPTER_CONFIG).read_text("utf-8"))
    if config.get("peft_type") != "LORA":
        raise InputError(f"the adapter {place} is of the kind {config.get('peft_type')}; only LORA can be exported")
    tensors = read_tensors(place / ADAPTER)
    if name := next((name for name, tensor in tensors.items() if not tensor.isfinite().all()), None):
        raise InputError(
            f"the adapter {place} is broken: {name} holds values that are not finite; take an earlier save"
        )
    if not any(tensor.any() for name, tensor in tensors.items() if "lora_A" not in name):
        raise InputError(f"the adapter {place} was never trained: all that it would add is zero")
    return Adapter(place, config, tuple(tensors), read_card(place))


def load_trained(adapter: Adapter, base: Base) -> Trained:
    """The adapter on its base. Raises InputError when it is of another base, or does not fit."""
    if adapter.card.base_digest != base.digest:
        raise InputError(
            f"the adapter {adapter.folder} was trained for {adapter.card.base} ({adapter.card.base_digest[:12]}…) and "
            f"not for {base.name} ({base.digest[:12]}…): name that base with --base"
        )
    config = LoraConfig.from_pretrained(str(adapter.folder))
    config.base_model_name_or_path = None  # the digest tells whether it is the right base, and peft goes by the name
    try:
        with warnings.catch_warnings():
            # peft asks transformers by names that are to go; that is for the two to settle. Of one matrix for head and
            # embeddings it warns where either is trained: it is parted when it is merged, and refused elsewhere.
            warnings.simplefilter("ignore", FutureWarning)
            warnings.filterwarnings("ignore", "Model has `tie_word_embeddings=True`")
            model = get_peft_model(base.model, config)
    except (ValueError, KeyError) as error:
        said = " ".join(str(error).split())[:300]
        raise InputError(f"the adapter {adapter.folder} does not fit the base {base.name}: {said}") from error
    load_adapter(model, read_tensors(adapter.folder / ADAPTER), str(adapter.folder))
    model.eval().requires_grad_(False)
    return Trained(adapter, base, model)


def lora_layers(model: Any) -> dict[str, Any]:
    """The layers of peft by the name of the module that each stands for."""
    modules = model.get_base_model().named_modules()
    return {name: module for name, module in modules if isinstance(module, LoraLayer)}


__all__ = ["MERGE", "Adapter", "Trained", "load_trained", "lora_layers", "read_adapter"]
