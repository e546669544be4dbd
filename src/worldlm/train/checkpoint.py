"""What a run stops and goes on with, as a folder.

`adapter_model.safetensors` and `adapter_config.json` are the adapter as peft writes it, in float32; `worldlm.json` says
what it was trained for (`AdapterCard`); `optimiser.safetensors` holds the two moments that AdamW keeps of each trained
parameter, in bfloat16, under `first/NAME` and `second/NAME`; `state.json` is the place in the run with all that decides
how it goes on (`State`). An adapter by itself is such a folder without the last two.

A folder is written beside the old one and put in its place when it is whole, so whoever is killed, or has no room left,
still has the old one. A run that goes on is the same as one that was never stopped, because the running moments are
rounded at each save to what was written.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from worldlm.core.adapters import ADAPTER_CARD, TrainedFor
from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.jsonl import describe
from worldlm.core.types import JsonObject, Text, Value

ADAPTER = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
CARD = ADAPTER_CARD
OPTIMISER = "optimiser.safetensors"
STATE = "state.json"


class AdapterCard(TrainedFor):
    """What an adapter was trained for, and how: who loads it for something else is refused."""

    schema_: Text = "worldlm.adapter/1"
    step: int
    domains: tuple[Text, ...]
    """The domains of its training set."""
    settings: JsonObject
    """The run's settings (`settings.Run`)."""
    version: Text
    """Of this package."""


class State(Value):
    """The place in a run, and all that decides how it goes on."""

    schema_: Text = "worldlm.train-state/1"
    step: int
    """Steps taken."""
    updates: int
    """Of them those that changed the adapter."""
    tokens: int
    targets: int
    seconds: float
    """Of all slices so far."""
    best: float | None
    """The lowest validation loss so far."""
    best_step: int | None
    settings: JsonObject
    files: dict[Text, Text]
    """Hex SHA-256 of each file of data."""
    rows: Text
    """`TrainingSet.digest`: what is trained, whatever the files are called."""
    base_digest: Text
    version: Text
    """Of this package and of torch, transformers and peft."""
    seed: int


# Writing.


def write(
    folder: Path,
    tensors: Mapping[str, Tensor],
    config: Any,
    card: AdapterCard,
    state: State | None = None,
    moments: Mapping[str, Tensor] | None = None,
) -> int:
    """Put a checkpoint, or with neither `state` nor `moments` an adapter, in the place of `folder`; its bytes.

    `config` is the `peft.PeftConfig`. Raises WorldlmError when a number is not finite, when nothing was trained (each
    adapter's second matrix is still zero), or when it cannot be written: what was in `folder` is then still there.
    """
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise WorldlmError(f"{name} of the adapter is not finite, so it was not saved; what was saved before stays")
    if not any(bool(tensor.any()) for name, tensor in tensors.items() if "lora_B" in name):
        raise WorldlmError("nothing was trained: the adapter changes no layer, so it was not saved")
    draft, previous = folder.with_name(f".{folder.name}.partial"), folder.with_name(f".{folder.name}.previous")
    recover(folder)
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, draft / ADAPTER)
        config.save_pretrained(draft)
        (draft / CARD).write_text(card.model_dump_json(indent=1) + "\n", "utf-8")
        if moments is not None:
            save_file({name: tensor.contiguous() for name, tensor in moments.items()}, draft / OPTIMISER)
        if state is not None:
            (draft / STATE).write_text(state.model_dump_json(indent=1) + "\n", "utf-8")
        size = sum(_settle(path) for path in draft.iterdir())
        if folder.exists():
            folder.rename(previous)
        draft.rename(folder)
        _settle(folder.parent)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        kept = " (the one before is still there)" if recover(folder) else ""
        raise WorldlmError(f"cannot write the checkpoint {folder}: {reason}; free some space{kept}") from error
    shutil.rmtree(previous, ignore_errors=True)
    return size


def _settle(path: Path) -> int:
    """Have the disk hold a file or folder; its bytes."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


def recover(folder: Path) -> bool:
    """Whether there is a whole checkpoint in `folder`. One whose writer was killed at the last moment is put there."""
    previous = folder.with_name(f".{folder.name}.previous")
    if not folder.exists() and previous.exists():
        previous.rename(folder)
    return (folder / CARD).is_file()


# Reading.


def read_card(folder: Path) -> AdapterCard:
    """What an adapter is for. Raises InputError when there is none of ours."""
    try:
        return AdapterCard.model_validate_json((folder / CARD).read_bytes())
    except OSError as error:
        raise InputError(
            f"there is no adapter of worldlm in {folder} ({CARD}: {error.strerror or error}); name a run's folder, or "
            "its adapter/"
        ) from error
    except ValidationError as error:
        raise InputError(f"{folder / CARD}: {describe(error)}") from error


def read_state(folder: Path) -> State:
    """The place in its run that a checkpoint holds. Raises InputError when it holds none."""
    try:
        return State.model_validate_json((folder / STATE).read_bytes())
    except OSError as error:
        raise InputError(
            f"there is no checkpoint in {folder} ({STATE}: {error.strerror or error}); start the run without --resume"
        ) from error
    except ValidationError as error:
        raise InputError(f"{folder / STATE}: {describe(error)}") from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file. Raises InputError for a damaged one."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(f"cannot read {path}: {error}; it is damaged, go on from another checkpoint") from error


def differences(then: State, now: State) -> list[str]:
    """What of a run that goes on is not as it was, one line each; nothing where the rest will be the same."""
    found = [
        f"setting {key}: {_told(before)} then, {_told(after)} now"
        for key, before, after in _unequal(then.settings, now.settings)
    ]
    if then.rows != now.rows:
        names = sorted(set(then.files.items()) ^ set(now.files.items()))
        files = ", ".join(dict.fromkeys(name for name, _ in names)) or "the same files, read otherwise"
        found.append(f"data: {files}")
    if then.base_digest != now.base_digest:
        found.append(f"base: {then.base_digest[:12]} then, {now.base_digest[:12]} now")
    return found


def _unequal(then: Any, now: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*then, *now]):
            yield from _unequal(then.get(key), now.get(key), f"{at}.{key}" if at else key)
    elif then != now:
        yield at, then, now


def _told(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


# AdamW's moments, by the names of parameters.


def round_moments(optimiser: torch.optim.Optimizer) -> None:
    """Round the running moments to what a checkpoint holds."""
    for kept in optimiser.state.values():
        for name in _MOMENTS.values():
            kept[name].copy_(kept[name].to(torch.bfloat16))


def moments(optimiser: torch.optim.Optimizer, names: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The moments of named parameters, whole and in bfloat16; of a parameter that was never updated, none.

    Every process of a run has to ask.
    """
    return {
        f"{key}/{name}": whole(optimiser.state[parameter][moment]).to(torch.bfloat16)
        for name, parameter in names.items()
        if parameter in optimiser.state
        for key, moment in _MOMENTS.items()
    }


def restore_moments(
    optimiser: torch.optim.Optimizer, names: Mapping[str, Tensor], held: Mapping[str, Tensor], updates: int
) -> None:
    """Give an optimiser the moments of a checkpoint, after so many updates. Raises InputError when one is not there."""
    if not updates:
        return
    for name, parameter in names.items():
        kept: dict[str, Tensor] = {"step": torch.tensor(float(updates))}
        for key, moment in _MOMENTS.items():
            if f"{key}/{name}" not in held:
                raise InputError(f"the checkpoint has no moments of {name}; it is of another adapter")
            kept[moment] = torch.zeros_like(parameter, dtype=torch.float32)
            fill(kept[moment], held[f"{key}/{name}"])
        optimiser.state[parameter] = kept


_MOMENTS = {"first": "exp_avg", "second": "exp_avg_sq"}


def whole(tensor: Tensor) -> Tensor:
    """A tensor that may be sharded over processes, whole and on the CPU."""
    full = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return full.detach().to("cpu")


def fill(tensor: Tensor, value: Tensor) -> None:
    """Write a whole value into a tensor that may be sharded over processes."""
    with torch.no_grad():
        if hasattr(tensor, "device_mesh"):
            from torch.distributed.tensor import distribute_tensor

            sharded: Any = tensor
            whole_value = value.to(tensor.device, tensor.dtype)
            tensor.copy_(distribute_tensor(whole_value, sharded.device_mesh, sharded.placements))
        else:
            tensor.copy_(value)


__all__ = [
    "ADAPTER",
    "ADAPTER_CONFIG",
    "CARD",
    "OPTIMISER",
    "STATE",
    "AdapterCard",
    "State",
    "differences",
    "fill",
    "moments",
    "read_card",
    "read_state",
    "read_tensors",
    "recover",
    "restore_moments",
    "round_moments",
    "whole",
    "write",
]
