"""What a step lowers: targets only, each the same, wherever it stands."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'worldlm[train]'")

import torch
from torch import Tensor, nn
from transformers import GraniteConfig, GraniteForCausalLM

from tests.train.kit import MOE_LORA, rows_of, tiny_llama, tiny_moe
from worldlm.core.errors import InputError
from worldlm.train import loss
from worldlm.train.base import attach, load_base, trained
from worldlm.train.batches import batch_of
from worldlm.train.loss import TargetLoss, check_head, check_packing, router_weight
from worldlm.train.settings import Lora


@pytest.fixture
def module() -> TargetLoss:
    return TargetLoss(tiny_llama())


def gradients(module: nn.Module) -> dict[str, Tensor]:
    found = {name: each.grad.clone() for name, each in module.named_parameters() if each.grad is not None}
    module.zero_grad()
    return found


def close(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return set(ours) == set(theirs) and all(torch.allclose(ours[n], theirs[n], atol=1e-5, rtol=1e-4) for n in ours)


def test_the_loss_is_the_one_over_all_logits(module: TargetLoss) -> None:
    batch = batch_of(rows_of(12, 9, 7))
    labels = torch.where(batch.targets, batch.ids, -100)
    theirs = module.model(input_ids=batch.ids, attention_mask=batch.attention, labels=labels).loss
    theirs = theirs * int(batch.targets.sum())
    theirs.backward()
    expected = gradients(module)
    ours = module(batch).loss
    ours.backward()
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    assert close(gradients(module), expected)


def test_what_is_masked_has_exactly_no_gradient(module: TargetLoss) -> None:
    batch = batch_of(rows_of(12, 9))
    held: list[Tensor] = []

    def hold(_: Any, __: Any, output: Tensor) -> None:
        output.retain_grad()
        held.append(output)

    module.model.model.norm.register_forward_hook(hold)
    module(batch).loss.backward()
    gradient = held[0].grad
    assert gradient is not None
    asked = torch.zeros_like(batch.targets)
    asked[:, :-1] = batch.targets[:, 1:]
    assert bool((gradient[~asked] == 0).all())
    assert bool((gradient[asked] != 0).any(-1).all())


def test_what_stands_behind_a_row_changes_nothing(module: TargetLoss) -> None:
    batch = batch_of(rows_of(12, 7))
    one = module(batch).loss
    batch.ids[batch.rows < 0] = 99
    assert module(batch).loss.item() == pytest.approx(one.item(), abs=1e-6)


def test_the_token_that_ends_a_turn_and_pads_is_trained_where_it_is_a_target(module: TargetLoss) -> None:
    (row,) = rows_of(10)
    row.ids[-1] = 256
    logits = module.model(input_ids=torch.tensor([row.ids.tolist()])).logits[0].log_softmax(-1)
    expected = -sum(logits[at - 1, row.ids[at]].item() for at in range(10) if row.mask[at])
    assert module(batch_of([row])).loss.item() == pytest.approx(expected, rel=1e-5)


def test_packed_rows_are_as_rows_apart(module: TargetLoss) -> None:
    rows = rows_of(12, 7, 9)
    apart = torch.stack([module(batch_of([row])).loss for row in rows]).sum()
    torch.autograd.backward(apart)
    expected = gradients(module)
    packed = module(batch_of(rows, packed=True)).loss
    packed.backward()
    assert packed.item() == pytest.approx(apart.item(), rel=1e-5)
    assert close(gradients(module), expected)


def test_a_change_of_one_packed_row_does_not_reach_the_next(module: TargetLoss) -> None:
    rows = rows_of(8, 6)
    batch = batch_of(rows, packed=True)
    states = module.model.model(input_ids=batch.ids, position_ids=batch.positions, use_cache=False).last_hidden_state
    batch.ids[0, :8] = 5
    other = module.model.model(input_ids=batch.ids, position_ids=batch.positions, use_cache=False).last_hidden_state
    assert torch.equal(states[0, 8:], other[0, 8:])


def test_a_blank_batch_weighs_nothing(module: TargetLoss) -> None:
    found = module(batch_of(rows_of(8, 6)).blank()).loss
    found.backward()
    assert found.item() == 0
    assert all(not bool(each.any()) for each in gradients(module).values())


def test_many_targets_are_the_same_in_parts(module: TargetLoss, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of(rows_of(30, 20, trained=8))
    whole = module(batch).loss
    whole.backward()
    expected = gradients(module)
    monkeypatch.setattr(loss, "CHUNK", 4)
    parts = module(batch).loss
    parts.backward()
    assert parts.item() == pytest.approx(whole.item(), rel=1e-5)
    assert close(gradients(module), expected)


def test_a_model_that_does_more_to_its_logits_is_refused() -> None:
    torch.manual_seed(0)
    config = GraniteConfig(
        vocab_size=260, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, logits_scaling=8.0, pad_token_id=256, bos_token_id=256, eos_token_id=256,
    )  # fmt: skip
    with pytest.raises(InputError, match="GraniteForCausalLM does more to its logits"):
        check_head(TargetLoss(GraniteForCausalLM(config)), rows_of(8)[0])
    check_head(TargetLoss(tiny_llama()), rows_of(8)[0])


# A mixture of experts, half of it with linear attention.


def test_packing_is_refused_where_rows_would_see_each_other(module: TargetLoss) -> None:
    first, second = rows_of(12, 9)
    check_packing(module, first, second)
    with pytest.raises(InputError, match="packed rows of Qwen3_5MoeForCausalLM see each other"):
        check_packing(TargetLoss(tiny_moe()), first, second)


def test_the_router_is_balanced_as_the_model_itself_does_it() -> None:
    model = tiny_moe()
    batch = batch_of(rows_of(12, 9))
    theirs = model(input_ids=batch.ids, attention_mask=batch.attention, output_router_logits=True).aux_loss
    ours = TargetLoss(model, router=True)(batch).router
    assert ours is not None
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
    assert router_weight(model, None) == model.config.router_aux_loss_coef
    assert router_weight(model, 0.5) == 0.5
    assert router_weight(tiny_llama(), None) == 0
    with pytest.raises(InputError, match="has no router"):
        router_weight(tiny_llama(), 0.1)


def test_gradients_reach_the_experts(moe: Path) -> None:
    base = load_base(str(moe), dtype=torch.float32)
    model = attach(base, Lora.model_validate(MOE_LORA), seed=0)
    module = TargetLoss(model, router=True)
    optimiser = torch.optim.AdamW(trained(module).values(), lr=1e-2)
    losses = []
    for _ in range(3):
        sums = module(batch_of(rows_of(14, 9)))
        (sums.loss + sums.router).backward()
        optimiser.step()
        losses.append(sums.loss.item())
        reached = {name: bool(each.grad is not None and each.grad.any()) for name, each in trained(module).items()}
        optimiser.zero_grad()
    experts = [name for name in reached if "experts" in name]
    assert len(experts) == 2 * 2 * 2
    assert all(reached.values())
    assert losses[-1] < losses[0]
