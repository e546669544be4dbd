"""From a trained adapter to what other programs run: a GGUF adapter, merged weights, a folder for vLLM.

Each export is written beside its place, compared with the trained model on real prompts (`compare`), and put there only
when the comparison holds and every tensor that was expected is in it.
"""

from worldlm.train.export.adapter import Adapter, Trained, load_trained, read_adapter
from worldlm.train.export.compare import Answer, Comparison, Tolerance
from worldlm.train.export.gguf_lora import Engine, export_gguf_lora
from worldlm.train.export.gguf_lora import check_output as check_gguf_output
from worldlm.train.export.merged import TYPES, export_merged, own_type
from worldlm.train.export.output import Exported, refuse_output
from worldlm.train.export.vllm import export_vllm, refuse_for_vllm

__all__ = [
    "TYPES",
    "Adapter",
    "Answer",
    "Comparison",
    "Engine",
    "Exported",
    "Tolerance",
    "Trained",
    "check_gguf_output",
    "export_gguf_lora",
    "export_merged",
    "export_vllm",
    "load_trained",
    "own_type",
    "read_adapter",
    "refuse_for_vllm",
    "refuse_output",
]
