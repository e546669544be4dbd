"""Adapters in GGUF for the tests, byte by byte."""

import array
import math
import struct
from collections.abc import Mapping
from pathlib import Path

from worldlm.core.adapters import TrainedFor
from worldlm.core.types import Profile
from worldlm.domains import prompt_hashes
from worldlm.models import get_profile

STEM = "blk.0.attn_output.weight"
RANK, WIDTH = 4, 576
"""Of an adapter of one matrix of the embedded model."""


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def string(key: str, value: str) -> bytes:
    return text(key) + struct.pack("<I", 8) + text(value)


def texts(key: str, values: tuple[str, ...]) -> bytes:
    return text(key) + struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))


def number(key: str, kind: int, code: str, value: float) -> bytes:
    return text(key) + struct.pack(f"<I{code}", kind, value)


def numbers(key: str, values: tuple[int, ...]) -> bytes:
    return text(key) + struct.pack(f"<IIQ{len(values)}i", 9, 5, len(values), *values)


def write_adapter(path: Path, strength: float, told: Mapping[str, str] | None = None) -> Path:
    """A LoRA adapter for one matrix of the embedded model, with these texts beside what llama.cpp wants."""
    settings = [
        string("general.type", "adapter"),
        string("general.architecture", "llama"),
        texts("general.tags", ("one", "two")),
        string("adapter.type", "lora"),
        number("adapter.lora.alpha", 6, "f", RANK),
        number("test.small", 0, "B", 7),
        number("test.large", 10, "Q", 2**40),
        number("test.yes", 7, "?", True),
        numbers("test.numbers", (1, -2, 3)),
        *(string(key, value) for key, value in (told or {}).items()),
    ]
    down = array.array("f", [math.sin(n) for n in range(WIDTH * RANK)])
    up = array.array("f", [strength * math.cos(n) for n in range(RANK * WIDTH)])
    tensors = text(f"{STEM}.lora_a") + struct.pack("<IQQIQ", 2, WIDTH, RANK, 0, 0)
    tensors += text(f"{STEM}.lora_b") + struct.pack("<IQQIQ", 2, RANK, WIDTH, 0, 4 * len(down))
    head = b"GGUF" + struct.pack("<IQQ", 3, 2, len(settings)) + b"".join(settings) + tensors
    path.write_bytes(head + bytes(-len(head) % 32) + down.tobytes() + up.tobytes())
    return path


def trained_for(digest: str, profile: Profile | None = None) -> TrainedFor:
    """What an adapter says that was trained with the prompts of now."""
    profile = profile or get_profile("embedded")
    return TrainedFor(
        base="the-base",
        base_digest=digest,
        profile=profile,
        prompts=prompt_hashes(profile),
        run="worlds-1",
        stage="sft",
        settings_digest="5" * 64,
    )
