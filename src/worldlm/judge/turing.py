"""The Turing test: a judge is shown the real answer and the predicted one, and says which is real."""

from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Model
from worldlm.domains import get_domain
from worldlm.judge.asking import JudgeSettings, prompt_digest, read_prompt
from worldlm.judge.choosing import Choice, Tally, choose, tally
from worldlm.judge.question import Question
from worldlm.judge.rubric import EMPTY

REAL, PREDICTED = "real", "predicted"


async def turing(
    question: Question,
    predicted: str,
    model: Model,
    settings: JudgeSettings = JudgeSettings(),  # noqa: B008 (frozen)
    *,
    sample: int = 0,
    swap: bool = False,
) -> Choice:
    """Let `model` say which of two observations is the real one. `chosen` is `real`, `predicted` or `tie`.

    A prediction that is the real observation is a tie, and an empty one the model's failure: no judge is asked. Count
    with `tally(choices, PREDICTED)`: the share of predictions that pass for real.
    """
    truth = get_domain(question.domain).write_observation(question.truth)
    if not predicted.strip() and truth.strip():
        return Choice(outcome=Outcome.MODEL_FAILED, detail=EMPTY)
    return await choose(
        question,
        {REAL: truth, PREDICTED: predicted},
        model,
        settings,
        prompt="turing.txt",
        sample=sample,
        swap=swap,
    )


def turing_hash() -> str:
    """Identifies the wording."""
    return prompt_digest(read_prompt("turing.txt"), read_prompt("choice.txt"))


__all__ = ["PREDICTED", "REAL", "Choice", "Tally", "tally", "turing", "turing_hash"]
