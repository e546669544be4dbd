"""What is exported says what was trained, or is not there."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'worldlm[train]'")
pytest.importorskip("peft", reason="needs peft: pip install 'worldlm[train]'")
pytest.importorskip("gguf", reason="needs gguf: pip install 'worldlm[train]'")

import gguf
import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.modeling_gguf_pytorch_utils import LlamaTensorProcessor

from tests.train.export_kit import loaded, random_adapter, smol_adapter
from worldlm.cli.export import llama_cpp, shipped_prompts
from worldlm.core.errors import InputError, WorldlmError
from worldlm.models import weights
from worldlm.models.adapters import read_metadata, read_trained_for
from worldlm.train.base import load_base
from worldlm.train.export import (
    Answer,
    Trained,
    check_gguf_output,
    export_gguf_lora,
    export_merged,
    export_vllm,
    load_trained,
    read_adapter,
    refuse_for_vllm,
)
from worldlm.train.export.compare import answers, compare, listed, log_probabilities
from worldlm.train.export.gguf_lora import TOLERANCE, Pair, interleave, order_of, pairs, write_gguf
from worldlm.train.export.merged import TOLERANCES, TYPES, merge, own_type
from worldlm.train.export.vllm import TOLERANCE as VLLM_TOLERANCE

BYTES = [list(f"prompt number {n}, with some text behind it".encode()) for n in range(5)]


def answered(trained: Trained) -> list[Answer]:
    return trained.answers(BYTES, length=8)


def logits(model: Any) -> torch.Tensor:
    with torch.inference_mode():
        found: torch.Tensor = model(input_ids=torch.tensor([BYTES[0]])).logits.float()
        return found


def nothing_but(folder: Path, *names: str) -> bool:
    return sorted(path.name for path in folder.iterdir()) == sorted(names)


# Merged weights.


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_merged_model_says_what_was_trained(llama: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    adapter = random_adapter(tmp_path / "adapter", llama, std=0.2)
    trained = loaded(adapter, llama)
    with trained.model.disable_adapter():
        of_base = logits(trained.model)
    said = logits(trained.model)
    exported = export_merged(trained, tmp_path / "merged", dtype, answered(trained))
    assert exported.tensors == 14
    assert exported.comparison.shift > 100 * exported.comparison.difference if dtype == torch.float32 else True
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype="auto")
    assert again.dtype == dtype
    shift, difference = said - of_base, logits(again.float()) - said
    assert shift.abs().max() > 0.2
    assert difference.norm() < (1e-4 if dtype == torch.float32 else 0.1) * shift.norm()
    assert AutoTokenizer.from_pretrained(tmp_path / "merged").chat_template
    assert json.loads((tmp_path / "merged" / "worldlm.json").read_text())["run"] == "random"
    assert nothing_but(tmp_path, "adapter", "merged")


@pytest.mark.parametrize(
    "config",
    [{"target_modules": ["lm_head", "q_proj"]}, {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}],
)
def test_a_trained_head_is_merged_beside_embeddings_that_stay(
    llama: Path, tmp_path: Path, config: dict[str, Any]
) -> None:
    """The tiny model has one matrix for both."""
    adapter = random_adapter(tmp_path / "adapter", llama, std=0.2, ensure_weight_tying=False, **config)
    trained = loaded(adapter, llama)
    said = logits(trained.model)
    table = trained.model.get_base_model().get_input_embeddings().weight.clone()
    forced = answered(trained)
    with pytest.raises(InputError, match=r"worldlm export merged"):
        export_vllm(trained, tmp_path / "vllm", str(llama), forced)
    with pytest.raises(InputError, match=r"worldlm export merged"):
        trained.adapter.refuse_extras()
    export_merged(trained, tmp_path / "merged", torch.float32, forced)
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype=torch.float32)
    assert torch.equal(cast(torch.Tensor, again.get_input_embeddings().weight), table)
    assert (logits(again) - said).abs().max() < 1e-4
    assert nothing_but(tmp_path, "adapter", "merged")


EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]


def test_fused_experts_are_merged_and_not_left_out(moe: Path, tmp_path: Path) -> None:
    adapter = random_adapter(
        tmp_path / "adapter", moe, std=2.0, target_modules=["q_proj"], target_parameters=EXPERTS, lora_dropout=0.0
    )
    trained = loaded(adapter, moe)
    said = logits(trained.model)
    forced = answered(trained)
    for refused in (
        lambda: check_and_write(trained, tmp_path / "x.gguf", forced),
        lambda: export_vllm(trained, tmp_path / "vllm", str(moe), forced),
    ):
        with pytest.raises(InputError, match=r"fused experts.*worldlm export merged"):
            refused()
    exported = export_merged(trained, tmp_path / "merged", torch.float32, forced)
    assert exported.comparison.shift > 0.2
    assert exported.tensors == 5  # two parameters in each of two layers, and one query projection
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype=torch.float32)
    assert (logits(again) - said).abs().max() < 1e-3
    assert nothing_but(tmp_path, "adapter", "merged")


def check_and_write(trained: Trained, out: Path, forced: Sequence[Answer]) -> None:
    export_gguf_lora(trained, out, out, forced, lambda adapter: pytest.fail("it is refused before any work"))


def test_a_merge_that_rounding_undoes_is_refused_by_name(llama: Path, tmp_path: Path) -> None:
    adapter = random_adapter(tmp_path / "adapter", llama, std=1e-6)
    trained = loaded(adapter, llama)
    with pytest.raises(WorldlmError, match=r"(does not follow the trained|weights stay as they were).*--dtype float32"):
        export_merged(trained, tmp_path / "merged", torch.bfloat16, answered(trained))
    assert nothing_but(tmp_path, "adapter")


def test_a_weight_that_stays_as_it_was_is_named(llama: Path, tmp_path: Path) -> None:
    adapter = random_adapter(tmp_path / "adapter", llama, std=0.2, target_modules=["q_proj", "v_proj"])
    tensors = load_file(adapter / "adapter_model.safetensors")
    lost = "base_model.model.model.layers.1.self_attn.v_proj.lora_A.weight"
    save_file({**tensors, lost: torch.zeros_like(tensors[lost])}, adapter / "adapter_model.safetensors")
    trained = loaded(adapter, llama)
    with pytest.raises(WorldlmError, match=r"1 of 4 weights stay .*layers\.1\.self_attn\.v_proj\.weight"):
        export_merged(trained, tmp_path / "merged", torch.float32, answered(trained))
    assert nothing_but(tmp_path, "adapter")


def test_the_type_of_merged_weights_is_the_bases_own(llama: Path, tmp_path: Path) -> None:
    assert own_type(str(llama)) == torch.float32
    AutoModelForCausalLM.from_pretrained(llama).half().save_pretrained(tmp_path / "half")
    assert own_type(str(tmp_path / "half")) == torch.float16


# vLLM.


def test_a_folder_for_vllm_is_pefts_with_the_base_named(llama: Path, tmp_path: Path) -> None:
    adapter = random_adapter(tmp_path / "adapter", llama, std=0.2, r=12)
    trained = loaded(adapter, llama)
    said = logits(trained.model)
    exported = export_vllm(trained, tmp_path / "vllm", "some/base", answered(trained))
    config = json.loads((tmp_path / "vllm" / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["r"], config["modules_to_save"]) == ("some/base", 12, None)
    assert "--max-lora-rank 16" in exported.notes[0]
    assert "--lora-modules random=" in exported.notes[0]
    again = loaded(tmp_path / "vllm", llama)
    assert torch.equal(logits(again.model), said)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"rank_pattern": {"q_proj": 2}}, "rank_pattern"),
        ({"alpha_pattern": {"q_proj": 2}}, "alpha_pattern"),
        ({"use_dora": True}, "DoRA"),
        ({"bias": "all"}, "bias"),
        ({"r": 600}, "rank 600"),
    ],
)
def test_what_vllm_cannot_serve_is_refused_with_the_cure(
    llama: Path, tmp_path: Path, config: dict[str, Any], said: str
) -> None:
    adapter = random_adapter(tmp_path / "adapter", llama, std=0.2, **{"target_modules": ["q_proj"], **config})
    with pytest.raises(InputError, match=rf"{said}.*worldlm export merged"):
        refuse_for_vllm(read_adapter(adapter))


# What is refused before any work.


def test_adapters_that_are_none_are_refused(llama: Path, tmp_path: Path) -> None:
    adapter = random_adapter(tmp_path / "run" / "adapter", llama, std=0.2)
    assert read_adapter(tmp_path / "run").folder == adapter
    whole = load_file(adapter / "adapter_model.safetensors")
    last = sorted(whole)[-1]
    changes: list[tuple[Callable[[str, torch.Tensor], torch.Tensor], str]] = [
        (lambda name, tensor: tensor * float("nan") if name == last else tensor, f"{last} holds values"),
        (lambda name, tensor: tensor if "lora_A" in name else tensor * 0, "never trained"),
    ]
    for change, words in changes:
        save_file({name: change(name, tensor) for name, tensor in whole.items()}, adapter / "adapter_model.safetensors")
        with pytest.raises(InputError, match=words.replace(".", r"\.")):
            read_adapter(adapter)
    config = adapter / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "peft_type": "IA3"}))
    with pytest.raises(InputError, match="IA3"):
        read_adapter(adapter)
    with pytest.raises(InputError, match="there is no adapter"):
        read_adapter(llama)


def test_tensors_that_a_file_of_pairs_would_lose_are_refused(llama: Path, tmp_path: Path) -> None:
    adapter = random_adapter(tmp_path / "adapter", llama, std=0.2)
    whole = load_file(adapter / "adapter_model.safetensors")
    first = sorted(whole)[0]
    for tensors, words in (
        ({**whole, "base_model.model.model.norm.weight": torch.ones(32)}, r"norm\.weight"),
        ({name: tensor for name, tensor in whole.items() if name != first}, "one half of a pair"),
    ):
        save_file(tensors, adapter / "adapter_model.safetensors")
        with pytest.raises(InputError, match=rf"{words}.*worldlm export merged"):
            read_adapter(adapter).refuse_extras()


def test_another_base_and_an_output_that_is_there_are_refused(llama: Path, moe: Path, tmp_path: Path) -> None:
    adapter = random_adapter(tmp_path / "adapter", llama, std=0.2)
    with pytest.raises(InputError, match=rf"trained for {llama.name} .*not for {moe.name} .*--base"):
        load_trained(read_adapter(adapter), load_base(str(moe), dtype=torch.float32))
    trained = loaded(adapter, llama)
    (tmp_path / "there").mkdir()
    exports: list[Callable[[Path], object]] = [
        lambda out: export_merged(trained, out, torch.float32, []),
        lambda out: export_vllm(trained, out, "b", []),
    ]
    for export in exports:
        with pytest.raises(InputError, match="there already"):
            export(tmp_path / "there")
        with pytest.raises(InputError, match="no folder"):
            export(tmp_path / "none" / "out")
    with pytest.raises(InputError, match=r"must end in \.gguf"):
        check_gguf_output(tmp_path / "out.bin")


# The comparison.


def rows(seed: int, places: int = 20, vocabulary: int = 50) -> torch.Tensor:
    return torch.randn(places, vocabulary, generator=torch.Generator().manual_seed(seed)).log_softmax(-1)


def said(rows: torch.Tensor) -> list[Answer]:
    return [Answer((1, 2), 1, part) for part in rows.chunk(5)]


def test_a_comparison_tells_trained_from_base() -> None:
    base, change, noise = rows(0), 0.5 * rows(1), 0.02 * rows(2)
    trained = (base + change).log_softmax(-1)
    theirs = (base + noise).log_softmax(-1)
    good = compare(said(trained), base, (theirs + change).log_softmax(-1), theirs)
    good.check(TOLERANCE)
    assert (good.prompts, good.places) == (5, 20)
    assert good.unexplained < 0.1 * good.shift
    assert good.arithmetic == pytest.approx(good.difference, rel=0.1)
    for exported, of_base, words in (
        (theirs, theirs, "not in effect"),
        (base, None, "not in effect"),
        ((theirs + 0.3 * change).log_softmax(-1), theirs, "does not follow"),  # a part of it only
        ((theirs - change).log_softmax(-1), theirs, "does not follow"),
        ((theirs + change.roll(1, -1)).log_softmax(-1), theirs, "does not follow"),
    ):
        with pytest.raises(WorldlmError, match=words):
            compare(said(trained), base, exported, of_base).check(TOLERANCE)
    with pytest.raises(WorldlmError, match="no training"):
        compare(said(base), base, theirs, theirs).check(TOLERANCE)
    with pytest.raises(WorldlmError, match="by more than"):
        compare(said(trained), base, trained + 1, base + 1).check(TOLERANCE)
    with pytest.raises(WorldlmError, match="10% of 20 places"):
        replace(good, agreement=0.1).check(TOLERANCE)
    with pytest.raises(WorldlmError, match="not finite"):
        compare(said(trained), base, trained * float("nan"), base)


def test_likeliest_tokens_stand_where_they_belong() -> None:
    table = listed([{2: -0.1, 0: -3.0}, {1: -0.5}], 4)
    assert torch.equal(table, torch.tensor([[-3.0, -3.0, -0.1, -3.0], [-0.5, -0.5, -0.5, -0.5]]))


def test_answers_are_greedy_and_predicted_from_all_before(llama: Path) -> None:
    model = load_base(str(llama), dtype=torch.float32).model
    given = answers(model, BYTES, end_of_turn=256, length=6)
    table = log_probabilities(model, given)
    assert [one.ids[: one.start] for one in given] == [tuple(prompt) for prompt in BYTES]
    assert table.argmax(-1).tolist() == [token for one in given for token in one.ids[one.start :]]
    torch.testing.assert_close(torch.cat([one.said for one in given]), table, atol=1e-5, rtol=0)


# GGUF.


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 3))
def test_interleaving_is_what_a_reader_of_gguf_undoes(heads: int, half: int, columns: int) -> None:
    weight = np.arange(heads * 2 * half * columns, dtype=np.float32).reshape(-1, columns)
    stored = interleave(weight, heads)
    reader = LlamaTensorProcessor({"num_attention_heads": heads, "num_key_value_heads": heads})
    assert np.array_equal(reader.process(stored, "blk.0.attn_q.weight").weights, weight)


def test_interleaving_by_hand() -> None:
    rows = np.arange(8, dtype=np.float32)[:, None]
    assert interleave(rows, 2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_the_order_of_rows_is_read_off_the_weights() -> None:
    weight = np.random.default_rng(0).normal(size=(24, 5)).astype(np.float32)
    adapter = np.arange(24, dtype=np.float32)[:, None]
    for heads in (None, 3, 6):
        stored = weight if heads is None else interleave(weight, heads)
        order = order_of(weight, stored.astype(np.float16).astype(np.float32), {3, 6})
        assert order is not None
        assert np.array_equal(order(adapter), adapter if heads is None else interleave(adapter, heads))
    assert order_of(weight, weight[::-1], {3, 6}) is None
    assert order_of(weight, weight[:12], {3, 6}) is None


@pytest.fixture(scope="module")
def smol() -> Path:
    """The weights of the embedded model."""
    path = weights.find()
    if path is None:
        pytest.skip("needs the embedded model's weights: worldlm models pull")
    return path


@pytest.fixture(scope="module")
def trained_smol(smol: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = smol_adapter(tmp_path_factory.mktemp("smol") / "adapter", weights.EMBEDDED.sha256, std=0.01)
    return loaded(folder, smol)


@pytest.fixture(scope="module")
def answers_of_smol(trained_smol: Trained) -> list[Answer]:
    """To the ends of five domains' prompts."""
    tokenizer = trained_smol.base.tokenizer
    asked = shipped_prompts(trained_smol.adapter.card.profile, tokenizer.count)
    return trained_smol.answers([tokenizer.apply(messages, prompt=True)[-100:] for messages in asked], length=5)


@pytest.mark.long
def test_llama_cpp_says_what_was_trained_and_a_wrong_order_of_rows_is_seen(
    trained_smol: Trained, answers_of_smol: list[Answer], smol: Path, tmp_path: Path
) -> None:
    """The whole way, on the real base: nine query and three key heads, whose rows GGUF stores in another order."""
    engine = llama_cpp(smol, 128)
    out = tmp_path / "adapter.gguf"
    exported = export_gguf_lora(trained_smol, out, smol, answers_of_smol, engine)
    print(exported)
    seen = exported.comparison
    assert (exported.tensors, seen.prompts) == (210, 5)
    assert seen.unexplained < 0.1 * seen.shift
    assert nothing_but(tmp_path, "adapter.gguf")

    reader = gguf.GGUFReader(out)
    assert {tensor.tensor_type for tensor in reader.tensors} == {gguf.GGMLQuantizationType.F16}
    assert len(reader.tensors) == 420
    metadata = read_metadata(out)
    assert (metadata["general.type"], metadata["adapter.type"], metadata["adapter.lora.alpha"]) == (
        "adapter",
        "lora",
        16,
    )
    told, card = read_trained_for(out), trained_smol.adapter.card
    assert told is not None
    assert told.model_dump() == {name: getattr(card, name) for name in type(told).model_fields} | {
        "profile": card.profile.model_dump()
    }

    # The same pairs with rows as transformers has them: llama.cpp loads them without a word.
    wrong = [undone(pair) for pair in pairs(trained_smol, gguf.GGUFReader(smol), alpha=16.0)]
    write_gguf(tmp_path / "wrong.gguf", "llama", 16.0, wrong, card)
    with pytest.raises(WorldlmError, match="does not follow"):
        export_gguf_lora(
            trained_smol,
            tmp_path / "x.gguf",
            smol,
            answers_of_smol,
            lambda adapter: engine(adapter and tmp_path / "wrong.gguf"),
        )
    assert nothing_but(tmp_path, "adapter.gguf", "wrong.gguf")


def undone(pair: Pair) -> Pair:
    """Query and key rows as transformers has them."""
    heads = 9 if ".attn_q." in pair.name else 3 if ".attn_k." in pair.name else 0
    reader = LlamaTensorProcessor({"num_attention_heads": heads, "num_key_value_heads": heads})
    return replace(pair, b=reader.process(pair.b, "blk.0.attn_q.weight").weights) if heads else pair


@pytest.mark.long
def test_an_engine_without_the_adapter_is_seen_and_leaves_nothing(
    trained_smol: Trained, answers_of_smol: list[Answer], smol: Path, tmp_path: Path
) -> None:
    engine = llama_cpp(smol, 128)
    with pytest.raises(WorldlmError, match="not in effect"):
        export_gguf_lora(trained_smol, tmp_path / "x.gguf", smol, answers_of_smol, lambda adapter: engine(None))
    assert nothing_but(tmp_path)


@pytest.mark.long  # the real base takes half a minute to load
def test_a_layer_without_a_place_in_the_gguf_file_is_refused(trained_smol: Trained, smol: Path) -> None:
    name = "base_model.model.model.layers.30.self_attn.q_proj.lora_A.weight"
    more = replace(trained_smol.adapter, tensors=(*trained_smol.adapter.tensors, name))
    with pytest.raises(InputError, match=r"layers\.30\.self_attn\.q_proj"):
        pairs(replace(trained_smol, adapter=more), gguf.GGUFReader(smol), 16.0)


@pytest.mark.long  # the real base takes half a minute to load
def test_scalings_of_their_own_are_folded_into_the_pairs(trained_smol: Trained, smol: Path) -> None:
    plain = {pair.name: pair for pair in pairs(trained_smol, gguf.GGUFReader(smol), alpha=16.0)}
    for pair in pairs(trained_smol, gguf.GGUFReader(smol), alpha=32.0):
        np.testing.assert_allclose(pair.b, plain[pair.name].b / 2, rtol=1e-6)


def test_merging_needs_no_more_than_the_adapter_names(llama: Path, tmp_path: Path) -> None:
    adapter = random_adapter(tmp_path / "adapter", llama, std=0.2, target_modules=["q_proj"])
    _, changed = merge(loaded(adapter, llama), torch.float32)
    assert changed == [f"model.layers.{n}.self_attn.q_proj.weight" for n in (0, 1)]


def test_the_tolerances_are_those_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text("utf-8")
    told = {"`gguf-lora`": TOLERANCE, "`vllm`": VLLM_TOLERANCE}
    told |= {f"`merged`, {name}": TOLERANCES[dtype] for name, dtype in TYPES.items()}
    for what, tolerance in told.items():
        assert f"| {what} | {tolerance.difference:g} | {tolerance.agreement:.0%} |".replace("%", " %") in page
