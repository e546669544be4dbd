"""The public script's way of reading and averaging, to compare with figures that were made so; used for nothing else.

It differs from ours: think tags go everywhere, inside the answer too; the last opening tag counts, so that a draft in
thinking that never closed is scored; failed samples leave the mean; the mean is over samples, whatever their domain.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from worldlm.bench.infer import observed
from worldlm.bench.judging import public_grades
from worldlm.bench.runs import last_samples
from worldlm.core.errors import InputError
from worldlm.core.types import DOMAIN_NAMES, Text, Value
from worldlm.domains.reply import ANSWER_CLOSE, ANSWER_OPEN, THINK_CLOSE, THINK_OPEN
from worldlm.judge.score import percent
from worldlm.judge.verifiers import VERSION, verify

_THINKING = re.compile(f"{re.escape(THINK_OPEN)}.*?{re.escape(THINK_CLOSE)}", re.DOTALL)
DEFINITION = "mean over samples, failed ones left out; replies read as the public script reads them"


def read_reply_public(gen: str) -> str:
    """A generation's answer as the public script takes it: without think tags, from the last opening tag on."""
    text = _THINKING.sub("", gen).replace(THINK_OPEN, "").replace(THINK_CLOSE, "")
    _, opened, rest = text.rpartition(ANSWER_OPEN)
    return (rest.partition(ANSWER_CLOSE)[0] if opened else text).strip()


class PublicMean(Value):
    """A mean as the public script makes it."""

    name: Text
    samples: int
    dropped: int
    """Failed ones: they are not in the mean."""
    total: float | None
    """The mean of the totals, 1–5, of a judged file; None without any."""
    percent: float | None
    """The same on 0–100."""
    rules: float | None
    """Beside it, by our verifiers on what `read_reply_public` reads, 0–100."""


class PublicScores(Value):
    """All figures of a file, the public way."""

    definition: Text = DEFINITION
    rules: Text = VERSION
    overall: PublicMean
    domains: tuple[PublicMean, ...]


def score_public(path: Path) -> PublicScores:
    """Score a file of predictions or of scores the public way. Raises InputError that names file, line and key."""
    rows: dict[str, list[tuple[float | None, float | None]]] = {}
    for sample in last_samples(path):
        grades = public_grades(sample)
        gen = sample.raw.get("gen")
        text = read_reply_public(gen) if isinstance(gen, str) else ""
        seen = observed(sample, text)[0] if text else None
        rules = verify(sample.question, seen).value if seen is not None else None
        rows.setdefault(sample.domain, []).append((fmean(grades.values()) if grades else None, rules))
    if not rows:
        raise InputError(f"{path} holds no sample")
    judged = any(total is not None for each in rows.values() for total, _ in each)
    everything = [row for each in rows.values() for row in each]
    return PublicScores(
        overall=_mean("all", everything, judged=judged),
        domains=tuple(_mean(name, rows[name], judged=judged) for name in DOMAIN_NAMES if name in rows),
    )


def _mean(name: str, rows: Sequence[tuple[float | None, float | None]], *, judged: bool) -> PublicMean:
    totals = [total for total, _ in rows if total is not None]
    rules = [value for _, value in rows if value is not None]
    total = fmean(totals) if totals else None
    return PublicMean(
        name=name,
        samples=len(rows),
        dropped=len(rows) - len(totals if judged else rules),
        total=total,
        percent=None if total is None else percent(total),
        rules=fmean(rules) if rules else None,
    )
