"""The pairwise comparison: which of two models' predictions of the same turn is the better one."""

from worldlm.core.protocols import Model
from worldlm.domains import get_domain
from worldlm.judge.asking import JudgeSettings, prompt_digest, read_prompt
from worldlm.judge.choosing import TIE, Choice, Tally, choose, tally
from worldlm.judge.question import Question

CHALLENGER, BASELINE = "challenger", "baseline"


async def pairwise(
    question: Question,
    challenger: str | None,
    baseline: str | None,
    model: Model,
    settings: JudgeSettings = JudgeSettings(),  # noqa: B008 (frozen)
    *,
    sample: int = 0,
    swap: bool = False,
) -> Choice:
    """Let `model` choose the better of two predictions, beside the real observation.

    `chosen` is `challenger`, `baseline` or `tie`. None or an empty text where the truth is not empty stands for a
    prediction that failed: it loses against one that did not, and two of them tie; no judge is asked. Neither is one
    about two equal predictions. Count with `tally(choices, CHALLENGER)`: the win rate.
    """
    truth = get_domain(question.domain).write_observation(question.truth)
    failed = [text is None or (not text.strip() and bool(truth.strip())) for text in (challenger, baseline)]
    if any(failed):
        chosen = TIE if all(failed) else BASELINE if failed[0] else CHALLENGER
        return Choice(chosen=chosen, detail="both predictions failed" if all(failed) else "the other prediction failed")
    return await choose(
        question,
        {CHALLENGER: challenger or "", BASELINE: baseline or ""},
        model,
        settings,
        prompt="pairwise.txt",
        beside={"reference": truth},
        sample=sample,
        swap=swap,
    )


def pairwise_hash() -> str:
    """Identifies the wording."""
    return prompt_digest(read_prompt("pairwise.txt"), read_prompt("choice.txt"))


__all__ = ["BASELINE", "CHALLENGER", "Choice", "Tally", "pairwise", "pairwise_hash", "tally"]
