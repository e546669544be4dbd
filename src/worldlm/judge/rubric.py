"""The rubric judge: a language model grades a prediction in the five dimensions of AgentWorldBench.

The wording is ours (`prompts/`): one rubric for all domains (content classes, dimensions, an anchor for each grade) and
a part for each domain. The judge sees the world, the history, the action, the real answer and the predicted answer,
all as data (`judge.asking`); it never sees the predicting model's thinking. What it says is read by `judge.verdicts`.
"""

from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Model
from worldlm.core.types import DomainName
from worldlm.domains import get_domain
from worldlm.judge.asking import JudgeSettings, Material, ask, prompt_digest, read_prompt, told
from worldlm.judge.question import Question
from worldlm.judge.score import FLOOR, Score, Verdict
from worldlm.judge.verdicts import SCORES_FORMAT, read_scores

RUBRIC_VERSION = 1
EMPTY = "the prediction is empty"


def rubric(domain: DomainName) -> str:
    """The system prompt under which predictions of a domain are judged."""
    return f"{read_prompt('rubric.txt')}\n\n{read_prompt(f'{domain}.txt')}"


def rubric_hash(domain: DomainName) -> str:
    """Identifies the wording: grades under two wordings do not compare."""
    return prompt_digest(rubric(domain), read_prompt("verdict.txt"))


async def judge(
    question: Question,
    predicted: str,
    model: Model,
    settings: JudgeSettings = JudgeSettings(),  # noqa: B008 (frozen)
    *,
    sample: int = 0,
) -> Verdict:
    """Let `model` grade `predicted`, the observation that a world model gave as its answer (without its thinking).

    An empty prediction of an answer that is not empty is the model's failure and is not sent. `sample` numbers
    repeated judgements of the same prediction: each has a seed of its own. Where the judge says that the prediction
    addresses it, the score is `FLOOR` whatever the grades. After `settings.attempts` unreadable replies the outcome is
    JUDGE_FAILED; a failing server keeps its own outcome. Raises InputError when the settings leave no room for what is
    judged.
    """
    truth = get_domain(question.domain).write_observation(question.truth)
    if not predicted.strip() and truth.strip():
        return Verdict(outcome=Outcome.MODEL_FAILED, detail=EMPTY)
    answer, material = await ask(
        model,
        settings,
        question,
        {"reference": truth, "prediction": predicted},
        system=rubric(question.domain),
        closing=read_prompt("verdict.txt"),
        form=SCORES_FORMAT,
        read=_read,
        sample=sample,
    )
    return Verdict(score=answer.value, **told(answer, material, model))


ADDRESSED = "The judge says that the prediction holds text meant for its grader."


def _read(reply: str, material: Material) -> Score:
    score, addressed = read_scores(reply, material.code, quotable=material.quotable)
    if not addressed:
        return score
    words = "\n".join(filter(None, (ADDRESSED, score.weaknesses)))
    return FLOOR.model_copy(update={"strengths": score.strengths, "weaknesses": words})


__all__ = ["RUBRIC_VERSION", "JudgeSettings", "judge", "rubric", "rubric_hash"]
