"""Tiny models and tokenizers, and small runs of them. Needs torch."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3_5MoeForCausalLM,
    Qwen3_5MoeTextConfig,
)

from tests.train.records import sessions, texts, write_lines
from worldlm.cli.train import profile_of
from worldlm.train.cpt import cpt
from worldlm.train.events import Event, Kind
from worldlm.train.examples import Row
from worldlm.train.loop import Limits, Result
from worldlm.train.settings import Run
from worldlm.train.sft import sft

# Tiny tensors are not worth a second thread, and threads that wait for each other are slow on a busy machine.
torch.set_num_threads(1)

STAGES = {"cpt": cpt, "sft": sft}

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer(template: str = CHATML) -> Any:
    """A token for each byte, and ChatML's two: as transformers has it. Padding is the end of a turn, as in SmolLM2."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
    )
    fast.chat_template = template
    return fast


def save_base(folder: Path, model: Any, template: str = CHATML) -> Path:
    """A base's folder."""
    model.save_pretrained(folder)
    byte_tokenizer(template).save_pretrained(folder)
    return folder


def tiny_llama() -> LlamaForCausalLM:
    """Two layers over bytes."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=260,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=256,
        pad_token_id=256,
    )
    return LlamaForCausalLM(config)


@dataclass
class Told:
    """What a run told."""

    events: list[Event]
    result: Result | None = None

    def of(self, kind: Kind) -> list[Event]:
        return [event for event in self.events if event.kind == kind]

    def losses(self) -> dict[int, float]:
        """The loss of each step, by its number."""
        return {event.step: event.figures["loss"] for event in self.of("step")}


def train_it(
    run: Run, out: Path, *, resume: bool = False, limits: Limits | None = None, told: Told | None = None
) -> Told:
    """Take a run, or a slice of one."""
    told = told or Told([])
    told.result = STAGES[run.stage](
        run,
        profile_of(run),
        run.base,
        out,
        told.events.append,
        inspect=lambda rows, tokenizer: None,
        resume=resume,
        limits=limits,
    )
    return told


def stop_after(steps: int) -> Limits:
    """What ends a slice after so many steps, as a signal does."""
    asked = count(1)
    return Limits(signalled=lambda: next(asked) >= steps)


MakeRun = Callable[..., Run]


def run_maker(folder: Path, base: Path) -> MakeRun:
    """Makes runs over sessions in a folder, with what a test says in place of their settings (`data` is merged)."""

    def make(**given: Any) -> Run:
        train, held = folder / "train.jsonl", folder / "validation.jsonl"
        general = folder / "general.jsonl"
        if not train.exists():
            write_lines(train, sessions(12))
            write_lines(held, sessions(3, turns=2))
            write_lines(general, texts(6))
        data = {"files": [str(train)], "replay": {"share": 0.1, "texts": [str(general)]}, **given.pop("data", {})}
        settings = {
            "name": "tiny",
            "stage": "cpt",
            "base": str(base),
            "context": 2048,
            "max_tokens": 256,
            "state": "full",
            "data": data,
            "lora": {"rank": 4, "alpha": 8},
            "optimiser": {"learning_rate": 0.01},
            "batches": {"tokens": 2048, "micro_batches": 2},
            "every": {"save": 1000, "validate": 1000, "sample_tokens": 8},
            "precision": "float32",
            **given,
        }
        return Run.model_validate(settings)

    return make


def rows_of(*lengths: int, trained: int = 3) -> list[Row]:
    """Rows of tokens that differ, of which some in the middle and the last are trained."""
    found = []
    for number, length in enumerate(lengths):
        ids = (np.arange(length) * (7 + number) + number) % 256
        mask = np.zeros(length, np.bool_)
        mask[length // 2 : length // 2 + trained] = True
        mask[-1] = True
        found.append(Row(ids.astype(np.int32), mask, "terminal", f"row-{number}"))
    return found


def tiny_moe() -> Any:
    """A mixture of experts of two layers, one with linear attention."""
    torch.manual_seed(0)
    config = Qwen3_5MoeTextConfig(
        vocab_size=260,
        hidden_size=64,
        num_hidden_layers=2,
        layer_types=["linear_attention", "full_attention"],
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
        num_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=4096,
        pad_token_id=256,
        bos_token_id=256,
        eos_token_id=256,
    )
    model = Qwen3_5MoeForCausalLM(config)
    for name, parameter in model.named_parameters():
        if name.endswith("mlp.gate.weight"):
            torch.nn.init.normal_(parameter, std=0.02)
    return model


MOE_LORA = {
    "rank": 4,
    "alpha": 8,
    "modules": ["q_proj", "k_proj", "v_proj", "o_proj", "in_proj_qkv", "in_proj_z", "out_proj"],
    "parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
}
