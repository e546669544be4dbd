"""An adapter merged into its base: a folder that transformers and vLLM load.

The sum is made in float32 and then rounded to the base's own type. Where an adapter changes the head or the
embeddings of a model that has one matrix for both, they are two afterwards.
"""

import hashlib
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from peft.utils import ModulesToSaveWrapper
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

from worldlm.core.errors import WorldlmError
from worldlm.train.checkpoint import CARD
from worldlm.train.export.adapter import HEADS, Trained, lora_layers
from worldlm.train.export.compare import Answer, Tolerance, compare, log_probabilities
from worldlm.train.export.output import Exported, refuse_output, size_of, whole

TOLERANCES = {
    torch.float32: Tolerance(difference=0.001, agreement=0.98),
    torch.bfloat16: Tolerance(difference=0.1, agreement=0.9),
    torch.float16: Tolerance(difference=0.02, agreement=0.95),
}
"""By the type in which the sums are stored."""
FINER = "where training changed little, a finer type holds more of it: --dtype float32"
TYPES = {str(dtype).removeprefix("torch."): dtype for dtype in TOLERANCES}


def own_type(where: str) -> torch.dtype:
    """The type in which a base is stored; bfloat16 for a GGUF file, whose blocks have none of their own."""
    path = Path(where).expanduser()
    kind = None if path.is_file() else AutoConfig.from_pretrained(str(path) if path.exists() else where).dtype
    return kind if kind in TOLERANCES else torch.bfloat16


def export_merged(trained: Trained, out: Path, dtype: torch.dtype, answers: Sequence[Answer]) -> Exported:
    """Write the merged model to the folder `out`. `trained` is in float32, and of no use afterwards.

    Raises WorldlmError when what was written does not say what was trained, or leaves a weight as it was.
    """
    refuse_output(out)
    of_base = trained.of_base(answers)
    model, changed = merge(trained, dtype)
    with whole(out) as path:
        _save(model, path, trained)
        marks = {name: _mark(tensor) for name, tensor in model.state_dict().items()}
        model.to("meta")  # a large model is not held twice
        with _no_progress():
            again = AutoModelForCausalLM.from_pretrained(str(path), dtype=dtype, local_files_only=True).eval()
        found = {name: _mark(tensor) for name, tensor in again.state_dict().items()}
        if lost := sorted(name for name in marks.keys() | found.keys() if marks.get(name) != found.get(name)):
            raise WorldlmError(f"{len(lost)} of {len(marks)} weights are not as they were written, like {lost[0]}")
        comparison = compare(answers, of_base, log_probabilities(again.float(), answers))
        comparison.check(TOLERANCES[dtype], "" if dtype == torch.float32 else f"; {FINER}")
    return Exported(out, size_of(out), len(changed), comparison, (f"the weights are {dtype}",))


def merge(trained: Trained, dtype: torch.dtype) -> tuple[Any, list[str]]:
    """The merged model in `dtype`, and the names of the weights that the adapter changes.

    Raises WorldlmError when one of them is the same as before when it is rounded.
    """
    wrapped = trained.model.get_base_model()
    before = {name: _mark(tensor.to(dtype)) for name, tensor in _targets(trained).items()}
    tied = _tied(wrapped)
    if tied and any(name.split(".")[-2] in HEADS for name in before):
        head = _inner(wrapped.get_output_embeddings())
        head.weight = torch.nn.Parameter(head.weight.detach().clone(), requires_grad=False)
    try:
        with warnings.catch_warnings():
            # Both tell what was just seen to: the head has a matrix of its own.
            warnings.filterwarnings("ignore", "Input and output embeddings are no longer tied")
            warnings.filterwarnings("ignore", "Model with `tie_word_embeddings=True`")
            model = trained.model.merge_and_unload(safe_merge=True)
    except ValueError as error:
        raise WorldlmError(f"cannot merge {trained.adapter.folder}: {' '.join(str(error).split())[:300]}") from error
    if tied and not _tied(model):
        model.config.tie_word_embeddings = model.config.get_text_config().tie_word_embeddings = False
    model.to(dtype)
    weights = model.state_dict()
    if kept := [name for name, mark in before.items() if _mark(weights[name]) == mark]:
        raise WorldlmError(
            f"{len(kept)} of {len(before)} weights stay as they were when they are rounded to {dtype}, like "
            f"{kept[0]}; {FINER}"
        )
    return model, list(before)


def _targets(trained: Trained) -> dict[str, Tensor]:
    """The weights that the adapter changes, by their names in the base, before it does."""
    found = {}
    for name, layer in lora_layers(trained.model).items():
        sides = [layer.lora_B, layer.lora_embedding_B]
        if any(parameter.any() for side in sides for parameter in side.parameters()):
            # Of fused experts each parameter is wrapped by itself, one wrapper in the other.
            parameter = getattr(layer, "parameter_name", "weight")
            plain = ".".join(part for part in name.split(".") if part != "base_layer")
            found[f"{plain}.{parameter}"] = getattr(_inner(layer), parameter)
    for name, module in trained.model.get_base_model().named_modules():
        if isinstance(module, ModulesToSaveWrapper):
            found |= {f"{name}.{key}": value for key, value in module.original_module.state_dict().items()}
    return found


def _inner(module: Any) -> Any:
    """What peft has wrapped."""
    while True:
        if isinstance(module, ModulesToSaveWrapper):
            module = module.original_module
        elif hasattr(module, "base_layer"):
            module = module.base_layer
        else:
            return module


def _tied(model: Any) -> bool:
    """Whether head and embeddings are one matrix."""
    head, table = (_inner(each) for each in (model.get_output_embeddings(), model.get_input_embeddings()))
    return head is not None and head.weight is table.weight


def _save(model: Any, path: Path, trained: Trained) -> None:
    with _no_progress():
        model.save_pretrained(path)
    trained.base.tokenizer.save(path)
    shutil.copy(trained.adapter.folder / CARD, path / CARD)


@contextmanager
def _no_progress() -> Iterator[None]:
    """Without transformers' bars, which are shown wherever stderr goes."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _mark(tensor: Tensor) -> bytes:
    """Identifies a tensor's values."""
    return hashlib.sha256(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()).digest()


__all__ = ["TOLERANCES", "TYPES", "export_merged", "merge", "own_type"]
