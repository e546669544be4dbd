"""Choosing between two answers: what the Turing test and the pairwise comparison share.

Which answer is shown first is drawn from the seed for each question and sample, and kept with the choice, so that a
judge's liking for a position can be measured. What needs no judge (a failed prediction, two equal texts) is decided by
rule and not sent.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from worldlm.core.protocols import Model
from worldlm.core.text import derive_seed
from worldlm.core.types import Text, Value
from worldlm.judge.agreement import wilson
from worldlm.judge.asking import JudgeSettings, ask, read_prompt, told
from worldlm.judge.question import Question
from worldlm.judge.score import Ruling
from worldlm.judge.verdicts import CHOICE_FORMAT, read_choice

TIE = "tie"
Position: TypeAlias = Literal["first", "second"]


class Choice(Ruling):
    """What became of one choice. Where the judged model gave nothing to choose, it lost."""

    chosen: Text | None = None
    """Name of the chosen answer, or `tie`."""
    first: Text | None = None
    """Name of the answer that was shown first; None where no judge was asked."""

    @property
    def decision(self) -> str | None:
        """The chosen answer."""
        return self.chosen

    @property
    def picked(self) -> Position | None:
        """The position that the judge picked; None for a tie, and where no judge was asked."""
        if self.chosen in (None, TIE) or self.first is None:
            return None
        return "first" if self.chosen == self.first else "second"


async def choose(
    question: Question,
    answers: Mapping[str, str],
    model: Model,
    settings: JudgeSettings,
    *,
    prompt: str,
    beside: Mapping[str, str] | None = None,
    sample: int = 0,
    swap: bool = False,
) -> Choice:
    """Let `model` choose between two `answers` (name to text), under the system prompt in the file `prompt`.

    `beside` are further texts that the judge is shown first (the reference). `swap` turns the drawn order round.
    """
    one, other = answers
    if answers[one] == answers[other]:
        return Choice(chosen=TIE, detail="the two answers are the same")
    key = (question.world.name, str(len(question.history)), question.action, question.truth.text)
    drawn = derive_seed("order", str(settings.seed), str(sample), *key) % 2 == 1
    names = (other, one) if drawn != swap else (one, other)
    shown = {**(beside or {}), "first": answers[names[0]], "second": answers[names[1]]}
    answer, material = await ask(
        model,
        settings,
        question,
        shown,
        system=read_prompt(prompt),
        closing=read_prompt("choice.txt"),
        form=CHOICE_FORMAT,
        read=lambda reply, material: read_choice(reply, material.code, quotable=material.quotable),
        sample=sample,
    )
    chosen = {"first": names[0], "second": names[1], "tie": TIE, None: None}[answer.value]
    return Choice(chosen=chosen, first=names[0], **told(answer, material, model))


class Tally(Value):
    """Many choices, counted for one of the two answers."""

    name: Text
    """The answer that is counted for."""
    planned: int
    won: int
    tied: int
    lost: int
    """Failures of the judged model among them."""
    missing: dict[str, int]
    """Choices that were not made, by outcome: not the judged model's doing."""
    first_picks: int
    """Of the decided choices that a judge made: how often it picked what it was shown first."""
    picks: int

    @property
    def judged(self) -> int:
        """Choices that count."""
        return self.won + self.tied + self.lost

    @property
    def rate(self) -> float | None:
        """Share won, a tie as one half: 0–1. In a Turing test 0.5 cannot be told from the real environment."""
        return (self.won + self.tied / 2) / self.judged if self.judged else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The rate's 95 % interval (Wilson)."""
        return wilson(self.won + self.tied / 2, self.judged)

    @property
    def first_share(self) -> float | None:
        """Share of picks that fell on what was shown first. The order is drawn, so a fair judge comes out at 0.5."""
        return self.first_picks / self.picks if self.picks else None

    @property
    def first_interval(self) -> tuple[float, float] | None:
        """The first share's 95 % interval (Wilson)."""
        return wilson(self.first_picks, self.picks)

    @property
    def position_bias(self) -> bool:
        """Whether the interval of the first share leaves out 0.5."""
        interval = self.first_interval
        return interval is not None and not interval[0] <= 0.5 <= interval[1]


def tally(choices: Iterable[Choice], name: str) -> Tally:
    """Count choices for the answer `name` (`predicted` in a Turing test, `challenger` in a pairwise comparison)."""
    made = list(choices)
    counted = [choice for choice in made if choice.outcome.is_ok]
    failed = [choice for choice in made if choice.outcome.is_models_fault]
    missing = Counter(c.outcome.value for c in made if not c.outcome.is_ok and not c.outcome.is_models_fault)
    picked = [choice.picked for choice in counted if choice.picked is not None]
    won, tied = (sum(choice.chosen == wanted for choice in counted) for wanted in (name, TIE))
    return Tally(
        name=name,
        planned=len(made),
        won=won,
        tied=tied,
        lost=len(counted) - won - tied + len(failed),
        missing=dict(missing),
        first_picks=picked.count("first"),
        picks=len(picked),
    )


__all__ = ["TIE", "Choice", "Tally", "choose", "tally"]
