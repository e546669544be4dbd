"""An adapter as a folder that vLLM loads beside its base (`--enable-lora`), in peft's format.

What vLLM reads there: `adapter_config.json` (r, lora_alpha, use_rslora, target_modules) and pairs of linear layers in
`adapter_model.safetensors`. It has one rank and one alpha for the whole adapter, and a rank up to `--max-lora-rank`.
Source: vLLM's documentation of LoRA adapters, and `vllm/lora/peft_helper.py`.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from worldlm.core.errors import InputError, WorldlmError
from worldlm.train.checkpoint import ADAPTER, ADAPTER_CONFIG, CARD
from worldlm.train.export.adapter import MERGE, Adapter, Trained
from worldlm.train.export.compare import Answer, Tolerance, compare, log_probabilities
from worldlm.train.export.output import Exported, refuse_output, size_of, whole

TOLERANCE = Tolerance(difference=0.0001, agreement=1.0)
"""It is the same arithmetic on the same numbers."""
RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""What `--max-lora-rank` may be."""


def refuse_for_vllm(adapter: Adapter) -> None:
    """Raises InputError unless vLLM can serve the adapter as it is."""
    adapter.refuse_extras()
    for key in ("rank_pattern", "alpha_pattern"):
        if adapter.config.get(key):
            raise InputError(
                f"the adapter {adapter.folder} has layers with a rank or alpha of their own ({key}), which vLLM does "
                f"not know; {MERGE}"
            )
    if adapter.config["r"] > RANKS[-1]:
        raise InputError(
            f"the adapter {adapter.folder} has rank {adapter.config['r']}, and vLLM serves up to {RANKS[-1]}; {MERGE}"
        )


def export_vllm(trained: Trained, out: Path, base: str, answers: Sequence[Answer]) -> Exported:
    """Write the folder `out`; `base` is what vLLM is to load as the base: a folder, or a name on a hub.

    Raises InputError when vLLM cannot serve it, WorldlmError when what was written does not say what was trained.
    """
    adapter = trained.adapter
    refuse_output(out)
    refuse_for_vllm(adapter)
    of_base = trained.of_base(answers)
    config = {**adapter.config, "base_model_name_or_path": base, "inference_mode": True}
    with whole(out) as path:
        path.mkdir()
        shutil.copy(adapter.folder / ADAPTER, path / ADAPTER)
        shutil.copy(adapter.folder / CARD, path / CARD)
        (path / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")
        result = trained.model.load_adapter(str(path), "exported")
        if missing := [name for name in (*result.missing_keys, *result.unexpected_keys) if "lora" in name]:
            raise WorldlmError(f"{len(missing)} tensors of the adapter were not written: {missing[0]}")
        trained.model.set_adapter("exported")
        comparison = compare(answers, of_base, log_probabilities(trained.model, answers))
        comparison.check(TOLERANCE)
    rank = next(rank for rank in RANKS if rank >= adapter.config["r"])
    notes = [f"vllm serve {base} --enable-lora --max-lora-rank {rank} --lora-modules {adapter.card.run}={out}"]
    return Exported(out, size_of(out), len(adapter.modules), comparison, tuple(notes))


__all__ = ["RANKS", "export_vllm", "refuse_for_vllm"]
