"""Bases and the adapters that are attached to them."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'worldlm[train]'")

import torch

from tests.train.kit import MOE_LORA, MakeRun, save_base, tiny_llama, train_it
from worldlm.core.errors import InputError
from worldlm.models.weights import find
from worldlm.train.base import adapter_folder, attach, attach_from, load_base, trained
from worldlm.train.checkpoint import CARD, read_card
from worldlm.train.settings import Lora

LORA = Lora(rank=4, alpha=8)
IDS = torch.tensor([[1, 2, 3, 4, 5, 6]])


def test_a_folder_is_a_base(llama: Path) -> None:
    base = load_base(str(llama), dtype=torch.bfloat16)
    assert base.name == llama.name
    assert len(base.digest) == 64
    assert base.model.dtype == torch.bfloat16
    assert not trained(base.model)
    assert base.tokenizer.decode(base.tokenizer.encode("é <|im_end|>")) == "é <|im_end|>"
    assert base.tokenizer.end_of_turn not in base.tokenizer.encode("é <|im_end|>")


def test_other_weights_are_another_base(llama: Path, tmp_path: Path) -> None:
    model = tiny_llama()
    with torch.no_grad():
        next(model.parameters()).add_(1)
    other = save_base(tmp_path / "other", model)
    digests = [load_base(str(folder), dtype=torch.float32).digest for folder in (llama, other, llama)]
    assert digests[0] == digests[2] != digests[1]


@pytest.mark.parametrize("where", ["./none", "/none/at/all", "~/none", "a/b/c.gguf"])
def test_a_base_that_is_not_there_is_named(where: str) -> None:
    with pytest.raises(InputError, match=f"there is no base {where}"):
        load_base(where, dtype=torch.float32)


def test_a_folder_that_is_no_base_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot load the base"):
        load_base(str(tmp_path), dtype=torch.float32)


def test_a_new_adapter_is_all_that_is_trained_and_changes_nothing(llama: Path) -> None:
    base = load_base(str(llama), dtype=torch.bfloat16)
    before = base.model(input_ids=IDS).logits
    model = attach(base, LORA, seed=0)
    assert torch.equal(model(input_ids=IDS).logits, before)
    names = trained(model)
    assert len(names) == 2 * 7 * 2
    assert all("lora_" in name and each.dtype == torch.float32 for name, each in names.items())
    assert not any("lm_head" in name or "embed" in name for name in names)


def test_the_seed_decides_how_an_adapter_begins(llama: Path) -> None:
    firsts = []
    for seed in (0, 1, 0):
        names = trained(attach(load_base(str(llama), dtype=torch.float32), LORA, seed=seed))
        firsts.append(next(each.detach().clone() for name, each in names.items() if "lora_A" in name))
    assert torch.equal(firsts[0], firsts[2])
    assert not torch.equal(firsts[0], firsts[1])


def test_layers_that_are_not_there_are_named(llama: Path, moe: Path) -> None:
    with pytest.raises(InputError, match=r"lora\.modules: the base .* has no q_prj; did you mean 'q_proj'\?"):
        attach(load_base(str(llama), dtype=torch.float32), Lora(modules=("v_proj", "q_prj")), seed=0)
    wrong = {**MOE_LORA, "parameters": ["mlp.experts.down_proj", "mlp.experts.up_proj"]}
    with pytest.raises(InputError, match=r"lora\.parameters: the base .* has no mlp\.experts\.up_proj; did you mean"):
        attach(load_base(str(moe), dtype=torch.float32), Lora.model_validate(wrong), seed=0)


@pytest.fixture
def done(make_run: MakeRun, tmp_path: Path) -> Path:
    """The folder of a run that is done."""
    train_it(make_run(), tmp_path / "done")
    return tmp_path / "done"


def test_a_stage_goes_on_from_the_adapter_of_another(
    done: Path, llama: Path, make_run: MakeRun, tmp_path: Path
) -> None:
    assert adapter_folder(done) == done / "adapter"
    model = attach_from(load_base(str(llama), dtype=torch.float32), done, LORA)
    assert len(trained(model)) == 2 * 7 * 2
    base = tiny_llama()
    assert not torch.allclose(model(input_ids=IDS).logits, base(input_ids=IDS).logits)
    # What it begins with is what the first stage ended with.
    held = [str(tmp_path / "validation.jsonl")]
    first = train_it(make_run(data={"validation": held}), tmp_path / "one")
    second = train_it(
        make_run(stage="sft", init_from=str(tmp_path / "one"), data={"validation": held, "targets": "kept"}),
        tmp_path / "two",
    )
    last = first.of("validation")[-1].figures["loss/terminal"]
    assert second.of("validation")[0].figures["loss/terminal"] == pytest.approx(last, abs=1e-5)


def test_an_adapter_for_something_else_is_refused(done: Path, llama: Path, tmp_path: Path) -> None:
    model = tiny_llama()
    with torch.no_grad():
        next(model.parameters()).add_(1)
    other = load_base(str(save_base(tmp_path / "other", model)), dtype=torch.float32)
    with pytest.raises(InputError, match=f"is an adapter for the base {llama.name} .* not for other"):
        attach_from(other, done)
    base = load_base(str(llama), dtype=torch.float32)
    with pytest.raises(InputError, match="has rank 4 and alpha 8, and the settings say 8 and 8"):
        attach_from(base, done, Lora(rank=8, alpha=8))
    card = read_card(done / "adapter")
    changed = card.model_copy(update={"prompts": {**card.prompts, "terminal": "0" * 16}})
    (done / "adapter" / CARD).write_text(changed.model_dump_json(), "utf-8")
    with pytest.raises(InputError, match=r"prompts of another wording \(terminal\)"):
        attach_from(base, done)
    with pytest.raises(InputError, match="there is no adapter of worldlm in"):
        attach_from(base, tmp_path)


@pytest.mark.long
def test_the_embedded_model_is_a_base_whose_checkpoint_is_small(capfd: pytest.CaptureFixture[str]) -> None:
    """40 MB for 4.9 million parameters: four bytes each for the adapter, two for each moment."""
    weights = find()
    if weights is None:
        pytest.skip("needs the embedded weights: worldlm models pull")
    base = load_base(str(weights), dtype=torch.bfloat16)
    assert capfd.readouterr() == ("", "")
    model = attach(base, Lora(), seed=0)
    assert base.digest == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    numbers = sum(each.numel() for each in trained(model).values())
    assert 4.8e6 < numbers < 5e6
    assert numbers * 8 + 5e5 < 40e6, "with what is said about it"
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits: Any = model(input_ids=torch.tensor([base.tokenizer.encode("The capital of France is")])).logits
    assert base.tokenizer.decode([int(logits[0, -1].argmax())]).strip() == "Paris"
