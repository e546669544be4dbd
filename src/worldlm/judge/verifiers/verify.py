"""One call for every domain."""

from collections.abc import Callable, Mapping, Sequence

from worldlm.core.types import DomainName, Observation
from worldlm.judge.question import Question
from worldlm.judge.verifiers.mcp import compare_results
from worldlm.judge.verifiers.screens import compare_android, compare_os, compare_web
from worldlm.judge.verifiers.search import compare_search
from worldlm.judge.verifiers.spans import Spans
from worldlm.judge.verifiers.swe import compare_swe
from worldlm.judge.verifiers.terminal import compare_terminal
from worldlm.judge.verifiers.verification import Part, Verification, summarise

COMPARE: Mapping[DomainName, Callable[[Question, Observation, Spans], Sequence[Part]]] = {
    "terminal": compare_terminal,
    "swe": compare_swe,
    "mcp": compare_results,
    "search": compare_search,
    "web": compare_web,
    "android": compare_android,
    "os": compare_os,
}


ANSWERED = Part(name="answered", weight=0.02, value=1)
"""That there is an answer at all: what a wrong one is worth more than none."""


def verify(question: Question, predicted: Observation) -> Verification:
    """How much of `predicted` is as in the question's truth, on 0–100. Never raises, whatever the texts.

    100 is the reference (or what says the same), 0 no answer: an empty prediction where the truth is not empty, and
    text where nothing came. An answer that has nothing right gets 1 to 4: the less is compared, the more. What the
    reference does not hold can only cost.
    """
    truth = question.truth
    said = (predicted.text, predicted.structured, predicted.is_error)
    if said == (truth.text, truth.structured, truth.is_error):
        return Verification(value=100.0, exact=True, normalised=True)
    if _is_empty(predicted) or _is_empty(truth):
        same = _is_empty(predicted) and _is_empty(truth) and predicted.is_error == truth.is_error
        return Verification(value=100.0 if same else 0.0, exact=False, normalised=same)
    question = question.model_copy(update={"truth": _plain(truth)})
    parts = COMPARE[question.domain](question, _plain(predicted), Spans(question))
    return summarise([*parts, ANSWERED], exact=False)


def _plain(observation: Observation) -> Observation:
    """With one kind of line break."""
    if "\r" not in observation.text:
        return observation
    return observation.model_copy(update={"text": observation.text.replace("\r\n", "\n")})


def _is_empty(observation: Observation) -> bool:
    return not observation.text.strip() and observation.structured is None


__all__ = ["COMPARE", "verify"]
