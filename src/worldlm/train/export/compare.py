"""Whether an exported model says what the trained one says, and not what the base says.

The trained model answers each prompt greedily. Along that answer, token by token, four distributions are compared: of
the trained model and of its base (in torch, float32), and of the exported model and of *its* base, as the program
computes them that will run it. The measure is the root mean square of differences of log-probabilities, over the tokens
that the trained model finds likeliest.

- The *shift* is what training did: trained against base. Without any, there is nothing to export.
- The *arithmetic* is how differently the two programs compute the same weights: base against base. llama.cpp rounds
  activations to 8 bits; torch against torch it is 0.
- The *difference* is exported against trained.
- The *unexplained* part of it is what is left when the arithmetic is taken off. The roundings of two runs are
  independent, so squares are subtracted: √(difference² − (1.1 · arithmetic)²), a tenth for chance. An adapter that is
  not applied leaves all of the shift unexplained, one whose rows are in another order a third of it or more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from worldlm.core.errors import WorldlmError

ANSWER = 16
"""Tokens of each answer that are compared."""
LIKELIEST = 10
"""Tokens at each place whose log-probabilities are compared."""
SEEN = 200
"""Of how many tokens a program that lists the likeliest is asked. What is not among them counts as the last one."""
UNEXPLAINED = 0.25
"""The largest unexplained part of the difference, as a part of the shift."""
CHANCE = 1.1
"""What the arithmetic may be on other weights than the base's, as a multiple."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A prompt with the trained model's greedy answer behind it."""

    ids: tuple[int, ...]
    start: int
    """Where the answer begins. Each of its tokens is predicted from all before it."""
    said: Tensor
    """(tokens of the answer, vocabulary): the trained model's log-probabilities, float32, on the CPU."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What a comparison may show."""

    difference: float
    """The largest difference (nats)."""
    agreement: float
    """The least share of places with the same likeliest token."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Root mean squares of differences of log-probabilities, in nats."""

    prompts: int
    places: int
    agreement: float
    """The share of places at which exported and trained model find the same token likeliest."""
    difference: float
    shift: float
    arithmetic: float
    unexplained: float
    applied: bool
    """Whether the exported model says anything else than its base."""

    def check(self, tolerance: Tolerance, cure: str = "") -> None:
        """Raises WorldlmError unless the exported model says what the trained one does; `cure` is what may help."""
        if self.shift == 0:
            problem = "the adapter changes nothing of what the base says: there is no training in it"
        elif not self.applied:
            problem = "the exported model says exactly what its base says: the adapter is not in effect"
        elif self.unexplained > UNEXPLAINED * self.shift:
            problem = "the exported model does not follow the trained one: what training changed is lost or other there"
        elif self.difference > tolerance.difference:
            problem = f"the exported model differs from the trained one by more than {tolerance.difference} nats"
        elif self.agreement < tolerance.agreement:
            problem = (
                f"the exported model's likeliest token is the trained one's at {self.agreement:.0%} of {self.places} "
                f"places only, and {tolerance.agreement:.0%} are wanted"
            )
        else:
            return
        raise WorldlmError(
            f"{problem} (difference {self.difference:.2g}, of it unexplained {self.unexplained:.2g}, shift by training "
            f"{self.shift:.2g}, arithmetic {self.arithmetic:.2g} nats); nothing is written{cure}"
        )


def answers(model: Any, prompts: Sequence[Sequence[int]], end_of_turn: int, length: int = ANSWER) -> list[Answer]:
    """What a model of transformers answers to prompts of token ids: up to `length` tokens each, and at least one."""
    out = []
    for prompt in prompts:
        ids = torch.tensor([list(prompt)], device=model.device)
        made = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=length,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            eos_token_id=end_of_turn,
            pad_token_id=end_of_turn,
            output_logits=True,
            return_dict_in_generate=True,
        )
        said = torch.cat(made.logits).float().log_softmax(-1).cpu()
        out.append(Answer(tuple(made.sequences[0].tolist()), len(prompt), said))
    return out


def log_probabilities(model: Any, answers: Sequence[Answer]) -> Tensor:
    """(places, vocabulary), float32, on the CPU: of the answers' tokens, each given all before it."""
    rows = []
    with torch.inference_mode():
        for one in answers:
            ids = torch.tensor([one.ids[:-1]], device=model.device)
            logits = model(input_ids=ids, use_cache=False, logits_to_keep=len(one.said)).logits
            rows.append(logits[0].float().log_softmax(-1).cpu())
    return torch.cat(rows)


def listed(likeliest: Sequence[Mapping[int, float]], vocabulary: int) -> Tensor:
    """(places, vocabulary) out of the likeliest tokens of each place; the others count as the last of them."""
    rows = torch.tensor([min(row.values()) for row in likeliest])[:, None].repeat(1, vocabulary)
    for at, row in enumerate(likeliest):
        rows[at, list(row)] = torch.tensor(list(row.values()))
    return rows


def compare(
    answers: Sequence[Answer], base: Tensor, exported: Tensor, exported_base: Tensor | None = None
) -> Comparison:
    """What the trained model said with what others say in its place: log-probabilities (places, vocabulary).

    Without `exported_base` the exported model runs in the same program as the trained one, and shares its base.
    Raises WorldlmError when something is not finite.
    """
    trained = torch.cat([one.said for one in answers])
    for what, rows in (("trained", trained), ("exported", exported)):
        if not rows.isfinite().all():
            raise WorldlmError(f"the {what} model gives log-probabilities that are not finite; nothing is written")
    likeliest = trained.topk(min(LIKELIEST, trained.shape[-1])).indices
    t, b, e = (each.gather(-1, likeliest) for each in (trained, base, exported))
    f = b if exported_base is None else exported_base.gather(-1, likeliest)

    def size(difference: Tensor) -> float:
        return float(difference.square().mean().sqrt())

    difference, arithmetic = size(e - t), size(f - b)
    return Comparison(
        prompts=len(answers),
        places=len(trained),
        agreement=float((exported.argmax(-1) == trained.argmax(-1)).float().mean()),
        difference=difference,
        shift=size(t - b),
        arithmetic=arithmetic,
        unexplained=max(0.0, difference**2 - (CHANCE * arithmetic) ** 2) ** 0.5,
        applied=not torch.equal(e, f),
    )
