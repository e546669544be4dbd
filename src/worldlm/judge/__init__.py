"""Judging a predicted observation against the real one: by rules, by a rubric, and by both."""

from worldlm.judge.blend import Blended, blend
from worldlm.judge.question import Question
from worldlm.judge.score import DIMENSIONS, FLOOR, Score, Verdict
from worldlm.judge.verifiers import Part, Verification, verify

__all__ = [
    "DIMENSIONS",
    "FLOOR",
    "Blended",
    "Part",
    "Question",
    "Score",
    "Verdict",
    "Verification",
    "blend",
    "verify",
]
