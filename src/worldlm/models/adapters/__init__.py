"""LoRA adapters in GGUF: what a file says that it was trained for, and whether that fits.

Beside this module lies the adapter that is shipped, where there is one. An adapter that says nothing (of somebody
else's) is used unchecked. The metadata is read here and not by the `gguf` library, which brings numpy: running a model
needs neither.
"""

import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from worldlm.core.adapters import TrainedFor
from worldlm.core.errors import InputError
from worldlm.core.jsonl import describe
from worldlm.core.types import Profile

SHIPPED = Path(__file__).with_name("embedded.gguf")
"""The adapter of the package, for the embedded model; its card is the `.md` beside it."""
NO_ADAPTER = Path("none")
"""What `--lora` says for the base alone."""

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


def read_metadata(path: Path) -> dict[str, Any]:
    """The texts and numbers in the header of a GGUF file, by key. Lists are passed over.

    Format: the GGUF specification of ggml, versions 2 and 3, little-endian. A file of another kind or version has none.
    Raises InputError when it cannot be read or breaks off.
    """
    try:
        with path.open("rb") as file:
            magic, version = struct.unpack("<4sI", file.read(8))
            if magic != b"GGUF" or version not in (2, 3):
                return {}
            _, count = struct.unpack("<QQ", _read(file, 16))
            found = {_text(file): _value(file) for _ in range(count)}
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (EOFError, KeyError, OverflowError, ValueError, struct.error) as error:
        raise InputError(f"{path} is damaged: its metadata breaks off; export the adapter again") from error
    return {key: value for key, value in found.items() if value is not None}


def _read(file: BinaryIO, size: int) -> bytes:
    if size > 1 << 24:
        raise EOFError  # no text of an adapter is so long: the size is garbage
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _number(file: BinaryIO, code: str) -> Any:
    return struct.unpack(f"<{code}", _read(file, struct.calcsize(f"<{code}")))[0]


def _text(file: BinaryIO) -> str:
    return _read(file, _number(file, "Q")).decode("utf-8", "replace")


def _value(file: BinaryIO) -> Any:
    kind = _number(file, "I")
    if kind == _STRING:
        return _text(file)
    if kind != _ARRAY:
        return _number(file, _SCALARS[kind])
    inner, count = _number(file, "I"), _number(file, "Q")
    if inner == _STRING:
        for _ in range(count):
            _text(file)
    elif count:
        file.seek(struct.calcsize(f"<{_SCALARS[inner]}") * count - 1, os.SEEK_CUR)
        _read(file, 1)
    return None


def read_trained_for(path: Path) -> TrainedFor | None:
    """What an adapter says that it was trained for; None: it says nothing. Raises InputError when that is wrong."""
    try:
        return TrainedFor.from_metadata(read_metadata(path))
    except ValueError as error:
        said = describe(error) if isinstance(error, ValidationError) else str(error)
        raise InputError(
            f"what {path} says that it was trained for cannot be read ({said}): it is of another version of worldlm, "
            "or damaged; export it again"
        ) from error


def profile_of(
    path: Path,
    trained: TrainedFor,
    wanted: str | None,
    prompt_hashes: Callable[[Profile], Mapping[str, str]] | None,
) -> Profile:
    """The profile that an adapter was trained with.

    Raises InputError when another one is `wanted` (by name), or when its prompts have since become others.
    """
    profile = trained.profile
    if wanted not in (None, profile.name):
        raise InputError(
            f"the adapter {path.name} was trained for the profile {profile.name!r} and not for {wanted!r}: leave "
            "--profile away, or say --lora none for the base alone"
        )
    now = prompt_hashes(profile) if prompt_hashes else trained.prompts
    if others := [domain for domain, known in trained.prompts.items() if now.get(domain) != known]:
        raise InputError(
            f"the adapter {path.name} was trained with other prompts than those of this version ({', '.join(others)}): "
            "train it again, use the version of worldlm that it is of, or say --lora none for the base alone"
        )
    return profile


def check_base(path: Path, trained: TrainedFor, base: Path, digest: str) -> None:
    """Raises InputError unless an adapter was trained for a base, of which the SHA-256 is `digest`."""
    if trained.base_digest != digest:
        raise InputError(
            f"the adapter {path.name} was trained for {trained.base} (SHA-256 {trained.base_digest[:12]}…) and not for "
            f"{base.name} ({digest[:12]}…): name that base (--model embedded:FILE), another adapter, or --lora none"
        )


__all__ = ["NO_ADAPTER", "SHIPPED", "check_base", "profile_of", "read_metadata", "read_trained_for"]
