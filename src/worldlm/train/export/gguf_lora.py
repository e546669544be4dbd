"""An adapter as a GGUF file for llama.cpp, at 16 bits.

Format: as llama.cpp's own converter writes it: metadata `general.type = adapter`, `adapter.type = lora`,
`adapter.lora.alpha`, and for each weight `NAME.lora_a` (inputs, rank) and `NAME.lora_b` (rank, outputs), in the order
in which ggml names dimensions. Beside that, `worldlm.*` says what the adapter was trained for.

A weight in GGUF need not have the order of rows that it has in transformers: Llama's query and key projections are
stored with the two halves of each head interleaved. The order is not told from the architecture's name but read off the
base itself, whose weights are there in both forms: it is the one that makes them equal. Where none does, the export is
refused. The names of tensors are those of the `gguf` library.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import gguf
import numpy as np
import torch
from numpy.typing import NDArray

from worldlm.core.adapters import TrainedFor
from worldlm.core.errors import InputError, WorldlmError
from worldlm.train.checkpoint import AdapterCard
from worldlm.train.export.adapter import MERGE, Trained, lora_layers
from worldlm.train.export.compare import SEEN, Answer, Tolerance, compare, listed
from worldlm.train.export.output import Exported, refuse_output, size_of, whole

TOLERANCE = Tolerance(difference=0.25, agreement=0.8)
"""llama.cpp multiplies quantised weights with activations of 8 bits; see `Comparison.arithmetic`."""
SAME = 0.01
"""The largest relative difference of two copies of a weight (one may have been rounded to 16 bits)."""

Array: TypeAlias = NDArray[np.float32]
Likeliest: TypeAlias = Callable[[Sequence[int], int], Mapping[int, float]]
"""Of a running model: the likeliest tokens after some token ids, so many of them, with their log-probabilities."""
Engine: TypeAlias = Callable[[Path | None], AbstractContextManager[Likeliest]]
"""Runs the GGUF base, with an adapter in GGUF or without."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The pair of a weight under its name in GGUF: the weight changes by alpha / rank · b @ a."""

    name: str
    a: Array
    """(rank, inputs)"""
    b: Array
    """(outputs, rank), rows in GGUF's order"""


def export_gguf_lora(trained: Trained, out: Path, base: Path, answers: Sequence[Answer], engine: Engine) -> Exported:
    """Write `out`, to run on the GGUF file `base` (which is also what `trained` stands on).

    Raises InputError when it cannot be carried over, WorldlmError when what was written does not say what was trained.
    """
    check_output(out)
    trained.adapter.refuse_extras()
    of_base = trained.of_base(answers)
    alpha = float(trained.adapter.config["lora_alpha"])
    reader = gguf.GGUFReader(base)
    written = pairs(trained, reader, alpha)
    with whole(out) as path:
        write_gguf(path, architecture_of(reader), alpha, written, trained.adapter.card)
        _read_back(path, written)
        runs = [_run(engine, adapter, answers, of_base.shape[-1]) for adapter in (path, None)]
        comparison = compare(answers, of_base, *runs)
        comparison.check(TOLERANCE)
    return Exported(out, size_of(out), len(written), comparison)


def check_output(out: Path) -> None:
    """Raises InputError unless a GGUF file can be written to `out`."""
    if out.suffix != ".gguf":
        raise InputError(f"{out} is to be a GGUF file: its name must end in .gguf")
    refuse_output(out)


def _run(engine: Engine, adapter: Path | None, answers: Sequence[Answer], vocabulary: int) -> torch.Tensor:
    with engine(adapter) as likeliest:
        rows = [likeliest(one.ids[:end], SEEN) for one in answers for end in range(one.start, len(one.ids))]
    return listed(rows, vocabulary)


# Names and orders.


def architecture_of(reader: gguf.GGUFReader) -> str:
    """`general.architecture` of a GGUF file."""
    field = reader.get_field("general.architecture")
    if field is None:
        raise InputError("the base does not name its architecture; give the GGUF file of a model")
    return str(field.contents())


def pairs(trained: Trained, reader: gguf.GGUFReader, alpha: float) -> list[Pair]:
    """The adapter's pairs as the GGUF file of its base wants them.

    Raises InputError that names the first weight which has no place there, or whose rows have an unknown order.
    """
    base, architecture = trained.base.name, architecture_of(reader)
    stored = {tensor.name: tensor for tensor in reader.tensors}
    layers = lora_layers(trained.model)
    if missing := sorted(set(trained.adapter.modules) - set(layers)):
        raise InputError(f"the base has no layer {missing[0]} (and {len(missing) - 1} more), which the adapter changes")
    number = next((key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture), None)
    if number is None:
        raise InputError(f"the gguf library does not know the architecture {architecture!r}: a newer one may; {MERGE}")
    blocks = _integers(reader, f"{architecture}.block_count")
    names = gguf.get_tensor_name_map(number, blocks[0] if blocks else 0)
    heads = {
        count
        for key in ("head_count", "head_count_kv")
        for count in _integers(reader, f"{architecture}.attention.{key}")
    }
    out: dict[str, Pair] = {}
    for module in trained.adapter.modules:
        place = names.get_name(module)
        name = f"{place}.weight"
        if place is None or name not in stored or name in out:
            raise InputError(f"{base} ({architecture}) has no weight of its own for the layer {module}; {MERGE}")
        layer = layers[module]
        weight = layer.get_base_layer().weight.detach().float().numpy()
        arrange = order_of(weight, _values(stored[name]), heads)
        if arrange is None:
            raise InputError(
                f"{base} ({architecture}) stores the weight of {module} in an order that is not known; {MERGE}"
            )
        (key,) = layer.lora_A
        a, b = (side[key].weight.detach().float().numpy() for side in (layer.lora_A, layer.lora_B))
        # llama.cpp scales by alpha / rank; peft may scale by something else (rank-stabilised, or a layer of its own).
        factor = layer.scaling[key] * len(a) / alpha
        out[name] = Pair(name, a, arrange(b) if factor == 1 else arrange(b) * np.float32(factor))
    return list(out.values())


def order_of(weight: Array, stored: Array, heads: Iterable[int]) -> Callable[[Array], Array] | None:
    """What brings rows (outputs) into the order in which a weight is stored; None where nothing known does."""
    if weight.shape != stored.shape:
        return None

    def same(rows: Array) -> Array:
        return rows

    def interleaved(count: int) -> Callable[[Array], Array]:
        return lambda rows: interleave(rows, count)

    known = [same, *(interleaved(count) for count in sorted(heads) if count and len(weight) % (2 * count) == 0)]
    size = float(np.linalg.norm(stored))
    return next((order for order in known if np.linalg.norm(order(weight) - stored) <= SAME * size), None)


def interleave(rows: Array, heads: int) -> Array:
    """Rows with the two halves of each head interleaved: the order of rotary pairs that ggml computes with."""
    halves = rows.reshape(heads, 2, len(rows) // heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def _values(tensor: Any) -> Array:
    """A tensor of a GGUF file as numbers, (outputs, inputs)."""
    values: Array = gguf.dequantize(tensor.data, tensor.tensor_type)
    return values


def _integers(reader: Any, key: str) -> list[int]:
    field = reader.get_field(key)
    if field is None:
        return []
    value = field.contents()
    return [int(each) for each in value] if isinstance(value, list) else [int(value)]


# The file.


def write_gguf(path: Path, architecture: str, alpha: float, written: Sequence[Pair], card: AdapterCard) -> None:
    """Write the pairs, in 16 bits, with what the adapter was trained for."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type("adapter")
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_name(card.run)
    for key, text in trained_for(card).to_metadata().items():
        writer.add_string(key, text)
    for pair in written:
        writer.add_tensor(f"{pair.name}.lora_a", _half(pair.name, pair.a))
        writer.add_tensor(f"{pair.name}.lora_b", _half(pair.name, pair.b))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def trained_for(card: AdapterCard) -> TrainedFor:
    """What of an adapter's card goes into the metadata: of prompts, those that it was trained with."""
    fields = {name: getattr(card, name) for name in TrainedFor.model_fields}
    prompts = {name: known for name, known in card.prompts.items() if name in card.domains}
    return TrainedFor(**(fields | {"prompts": prompts}))


def _half(name: str, values: Array) -> NDArray[np.float16]:
    if np.abs(values).max() > np.finfo(np.float16).max:
        raise InputError(f"the adapter's values for {name} are too large for 16 bits; {MERGE}")
    return np.ascontiguousarray(values).astype(np.float16)


def _read_back(path: Path, written: Sequence[Pair]) -> None:
    """Raises WorldlmError unless the file holds each pair, and nothing else."""
    expected = {
        f"{pair.name}.lora_{side}": values for pair in written for side, values in (("a", pair.a), ("b", pair.b))
    }
    found = {tensor.name: np.asarray(tensor.data) for tensor in gguf.GGUFReader(path).tensors}
    wrong = [
        name
        for name in sorted(expected.keys() | found.keys())
        if name not in found
        or name not in expected
        or not np.array_equal(found[name], expected[name].astype(np.float16))
    ]
    if wrong:
        raise WorldlmError(
            f"{len(wrong)} of {len(expected)} tensors were not written as they are: {', '.join(wrong[:5])}"
        )


__all__ = ["Engine", "Likeliest", "Pair", "export_gguf_lora", "interleave", "order_of", "pairs", "write_gguf"]
