"""What a step lowers: the summed cross-entropy of the targets, and of a mixture of experts the balance of its router.

Most tokens of a row are no targets, and a vocabulary is large: so the head is applied at targets only. Sums are divided
by the number of targets of the whole step, over all processes and micro-batches (`loop`), so a target weighs the same
wherever it stands.
"""

import sys
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from worldlm.core.errors import InputError
from worldlm.train.batches import Batch, batch_of
from worldlm.train.examples import Row

CHUNK = 2048
"""Targets whose logits are held at once; of more, the logits are computed again in the backward pass."""


class Sums(NamedTuple):
    """The loss of a batch."""

    loss: Tensor
    """() float32: nats, summed over the batch's targets."""
    router: Tensor | None
    """() float32: the balance of experts (1 is even), a mean over tokens and layers; None without a router."""


class TargetLoss(nn.Module):
    """A causal language model, or a peft model around one, as a module that computes the loss of a batch."""

    def __init__(self, model: Any, *, reduced: bool = False, router: bool = False, flash: bool = False):
        """`reduced`: products in bfloat16, whatever the adapter's weights are; sums stay float32."""
        super().__init__()
        self.model = model
        self.reduced = reduced
        self.router = router
        self.flash = flash
        self._no_split_modules = self.causal._no_split_modules  # by which accelerate cuts a model into shards

    @property
    def causal(self) -> Any:
        """The model with its head."""
        return self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.parameters()).device

    def autocast(self) -> torch.autocast:
        """The precision of products."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.reduced)

    def forward(self, batch: Batch) -> Sums:
        """The sums over a batch. One without targets has a loss of 0, with gradients of 0."""
        with self.autocast():
            return self._sums(batch)

    def _sums(self, batch: Batch) -> Sums:
        causal = self.causal
        options: dict[str, Any] = {"output_router_logits": True} if self.router else {}
        if self.flash and batch.packed:
            starts = batch.starts
            longest = int(starts.diff().max())
            options |= {"cu_seq_lens_q": starts, "cu_seq_lens_k": starts}
            options |= {"max_length_q": longest, "max_length_k": longest}
        # A row is padded behind its end, where a causal model never looks; a mask that says so would only keep it from
        # the faster attention without one. Packed rows are told apart by their positions.
        out = causal.base_model(
            input_ids=batch.ids,
            position_ids=batch.positions if batch.packed else None,
            use_cache=False,
            **options,
        )
        chosen = batch.targets[:, 1:]
        hidden, expected = out.last_hidden_state[:, :-1][chosen], batch.ids[:, 1:][chosen]
        return Sums(self._cross_entropy(hidden, expected), self._balance(out, batch) if self.router else None)

    def _cross_entropy(self, hidden: Tensor, expected: Tensor) -> Tensor:
        head = self.causal.get_output_embeddings()

        def part(states: Tensor, ids: Tensor) -> Tensor:
            return functional.cross_entropy(head(states).float(), ids, reduction="sum")

        if len(hidden) <= CHUNK:
            return part(hidden, expected)
        pairs = zip(torch.split(hidden, CHUNK), torch.split(expected, CHUNK), strict=True)
        return torch.stack([checkpoint(part, *pair, use_reentrant=False) for pair in pairs]).sum()

    def _balance(self, out: Any, batch: Batch) -> Tensor:
        """The load-balancing loss of the model's own module (Switch Transformers, arXiv 2101.03961, equation 4)."""
        config = self.causal.config
        balance = sys.modules[type(self.causal).__module__].load_balancing_loss_func
        attention = batch.attention
        found: Tensor = balance(out.router_logits, config.num_experts, config.num_experts_per_tok, attention)
        return found.float()


def router_weight(model: Any, wanted: float | None) -> float:
    """The weight of the router's loss: what is wanted, else the model's own; 0 where it has no router.

    Raises InputError when one is wanted that the model does not have.
    """
    config = model.config
    has = hasattr(config, "num_experts_per_tok") and hasattr(
        sys.modules[type(model).__module__], "load_balancing_loss_func"
    )
    if not has:
        if wanted:
            raise InputError(
                f"router_weight is {wanted}, and the base {type(model).__name__} has no router; leave it out"
            )
        return 0.0
    return float(getattr(config, "router_aux_loss_coef", 0.0) if wanted is None else wanted)


# Before the first step.


@torch.no_grad()
def check_head(module: TargetLoss, row: Row) -> None:
    """Raises InputError for a model whose logits are not its head applied to its last hidden states."""
    causal, ids = module.causal, torch.tensor([row.ids[:16].tolist()], device=module.device)
    with module.autocast():
        hidden = causal.base_model(input_ids=ids, use_cache=False).last_hidden_state
        ours = causal.get_output_embeddings()(hidden).float()
        theirs = causal(input_ids=ids, use_cache=False).logits.float()
    if not torch.allclose(ours, theirs, rtol=0.05, atol=0.05 * float(theirs.abs().max())):
        raise InputError(f"{type(causal).__name__} does more to its logits than its head does; choose another base")


@torch.no_grad()
def check_packing(module: TargetLoss, first: Row, second: Row) -> None:
    """Raises InputError for a model in which a row sees the one that stands before it."""
    batch = batch_of([first, second], packed=True).to(module.device)
    batch.targets[:, : len(first.ids)] = False
    one = float(module(batch).loss)
    batch.ids[:, : len(first.ids)] = batch.ids[:, : len(first.ids)].flip(1)
    other = float(module(batch).loss)
    if abs(one - other) > (5e-3 if module.reduced else 1e-4) * abs(one):
        raise InputError(
            f"packed rows of {type(module.causal).__name__} see each other (the loss of one is {one:.5g} or "
            f"{other:.5g} by what stands before it); set batches.packing: none"
        )


__all__ = ["CHUNK", "Sums", "TargetLoss", "check_head", "check_packing", "router_weight"]
