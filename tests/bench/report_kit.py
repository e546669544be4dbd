"""Results to report: seven domains, every content class, failures of every kind, texts of every sort."""

import random
from collections.abc import Sequence
from functools import cache

from worldlm.bench.averages import table
from worldlm.bench.choices import DEFINITIONS, ChoiceResults, ChoiceRow, Pair, Pick, Position, SampleChoice
from worldlm.bench.choosing import ChoiceProtocol
from worldlm.bench.results import (
    Estimate,
    Example,
    Failure,
    InferSettings,
    JudgingSettings,
    Metric,
    MetricName,
    Results,
    SampleResult,
)
from worldlm.core.outcomes import Outcome
from worldlm.core.types import DOMAIN_NAMES, DomainName, Sampling, Usage
from worldlm.judge.agreement import wilson
from worldlm.judge.score import DIMENSIONS

CONTENTS = ("deterministic", "pre-existing", "metadata")
REAL = """user@box:~/shop$ python3 -m shop.report --month 11
Reading 214 orders …
warning: 2 orders have no customer
month    orders    total
2026-11     212  8,914.20
wrote report/2026-11.csv
user@box:~/shop$"""
PREDICTED = """user@box:~/shop$ python3 -m shop.report --month 11
Reading 250 orders …
month    orders    total
2026-11     250  9,120.00
wrote report/2026-11.csv
done
user@box:~/shop$"""


def example(
    predicted: str | None = PREDICTED, *, real: str = REAL, name: str = "terminal/7", **more: object
) -> Example:
    told = {
        "id": name,
        "domain": "terminal",
        "turn": 3,
        "turns": 9,
        "action": '[{"keystrokes": "python3 -m shop.report --month 11\\n", "duration": 2.0}]',
        "real": real,
        "predicted": predicted,
    }
    return Example.model_validate({**told, **more})


def tree(lines: int, changed: Sequence[int] = ()) -> str:
    """An accessibility tree, wrong in some lines."""
    return "\n".join(
        f"  [a{number}] {'button' if number in changed else 'link'} 'Item {number}', clickable"
        for number in range(lines)
    )


@cache
def results(
    name: str = "qwen-agentworld-35b@localhost",
    *,
    skill: float = 60.0,
    metrics: tuple[MetricName, ...] = ("rules", "rubric", "blend"),
    domains: tuple[DomainName, ...] = DOMAIN_NAMES,
    per_domain: int = 24,
    failing: bool = True,
    lost: float = 0.03,
) -> Results:
    """A run whose numbers are drawn with a seed of its name."""
    rng = random.Random(name)
    samples, failures = list[SampleResult](), list[Failure]()
    for domain in domains:
        level = skill + rng.uniform(-18, 18)
        for number in range(per_domain):
            drawn = rng.random()
            outcome = (
                Outcome.MODEL_FAILED
                if drawn < 0.04
                else Outcome.CUT_OFF
                if drawn < 0.06
                else Outcome.INFRASTRUCTURE_FAILED
                if drawn < 0.06 + lost
                else Outcome.OK
            )
            outcome = outcome if failing else Outcome.OK
            turn = 1 + number % 18
            value = min(100.0, max(0.0, rng.gauss(level - turn, 15)))
            key = f"{domain}/{number}"
            told = {
                "id": key,
                "domain": domain,
                "trajectory": f"{domain}-{number // 3}",
                "turn": turn,
                "length": int(rng.lognormvariate(6.5, 1.2)),
                "content": CONTENTS[number % 3],
                "outcome": outcome,
            }
            if outcome.is_ok:
                told |= {
                    "values": {each: min(100.0, value + 3 * place) for place, each in enumerate(metrics)},
                    "dimensions": {each: min(100.0, value + 4 * place) for place, each in enumerate(DIMENSIONS)},
                    "parts": {"echo": 100.0, "deterministic spans": value, "free spans": value / 2},
                    "exact": value > 85,
                }
            else:
                detail = {
                    Outcome.MODEL_FAILED: "the reply holds no answer",
                    Outcome.CUT_OFF: "the thinking never closed",
                }.get(outcome, f"HTTP 503: the server is busy (request {number})")
                told["detail"] = detail
                failures.append(Failure(id=key, domain=domain, stage="predict", outcome=outcome, detail=detail))
            samples.append(SampleResult.model_validate(told))
    about = {
        "rules": "how much of the prediction is as in the real observation, by the rules of its domain",
        "rubric": "mean of five grades from a judge, as (mean - 1) / 4 x 100",
        "blend": "0.9 x rubric + 0.1 x rules",
    }
    tables = [
        table(
            samples,
            Metric(
                name=each,
                version=f"{each}/1",
                definition=about[each],
                dimensions=DIMENSIONS if each == "rubric" else (),
            ),
            draws=50,
        )
        for each in metrics
    ]
    examples = (
        example(
            values={"rules": 41.5, "rubric": 35.0},
            dimensions=dict.fromkeys(DIMENSIONS, 35.0),
            parts={"echo": 100.0, "deterministic spans": 22.0},
            content="deterministic",
            strengths="The prompt and the layout of the table are right.",
            weaknesses="The number of orders is made up, and the warning is missing.",
        ),
        example(
            tree(120, (40, 41)),
            real=tree(124),
            name="web/12",
            domain="web",
            action='click("a17")',
            values={"rules": 62.0},
        ),
        example("", real="Success\n", name="android/3", domain="android", values={"rules": 0.0}),
    )
    return Results(
        name=name,
        benchmark="realturns-a",
        benchmark_digest="0123456789abcdef",
        version="0.1.0",
        infer=InferSettings(
            model=name,
            prompt="own",
            profile="qwen-agentworld",
            prompt_hashes={"terminal": "aa11", "web": "bb22"},
            sampling=Sampling(temperature=0.6, max_tokens=32_768),
            context=262_144,
        ),
        judging=JudgingSettings(
            rules="verifiers/2",
            rubric="rubric/1 77aa",
            judges=("judge-70b@localhost",),
            sampling=Sampling(temperature=0),
        ),
        tables=tuple(tables),
        samples=tuple(samples),
        worst=examples,
        failures=tuple(failures),
        predicting=Usage(
            calls=len(samples),
            prompt_tokens=812_345,
            cached_tokens=402_000,
            completion_tokens=91_234,
            seconds=611.4,
            cost_usd=1.2345,
        ),
        judging_usage=Usage(calls=len(samples), prompt_tokens=1_912_345, completion_tokens=201_000, seconds=811.0),
        wall_seconds={"infer": 44.2, "judge": 61.0},
        bootstrap={"draws": 50, "seed": 0, "resampled": "trajectories within each domain", "level": 0.95},
        warnings=("3 samples asked without the oldest turns, which did not fit the context",),
    )


def pair(predicted: str = PREDICTED, *, real: str = REAL, name: str = "terminal/7", **more: object) -> Pair:
    told = {
        "id": name,
        "domain": "terminal",
        "turn": 3,
        "turns": 9,
        "action": '[{"keystrokes": "python3 -m shop.report --month 11\\n", "duration": 2.0}]',
        "real": real,
        "predicted": predicted,
        "value": 0.0,
        "picks": (Pick(judge="judge-70b", first="predicted", chosen="real", reason="Only one warns of the orders."),),
    }
    return Pair.model_validate({**told, **more})


def choices(
    protocol: ChoiceProtocol = "turing", name: str = "qwen-agentworld-35b@localhost", **more: object
) -> ChoiceResults:
    """Choices in two domains by two judges, of which the second goes by position."""
    turing = protocol == "turing"
    counted = "predicted" if turing else "challenger"
    against = None if turing else "base@localhost"
    rows = (row("terminal", 24, 6, 12), row("web", 30, 10, 6))
    first = {"real": 30, "predicted": 26} if turing else {"baseline": 30, "challenger": 26}
    other = None if turing else REAL.replace("214", "9")
    telling = (
        pair(content="deterministic", other=other),
        pair(tree(120, (40, 41)), real=tree(124), name="web/12", domain="web", other=other, value=25.0),
        pair(REAL + "\n", name="web/3", domain="web", other=other, value=100.0),
    )
    told = {
        "name": name,
        "protocol": protocol,
        "definition": DEFINITIONS[protocol],
        "benchmark": "realturns-a",
        "benchmark_digest": "0123456789abcdef",
        "version": "0.1.0",
        "infer": None,
        "judging": JudgingSettings(
            protocol=protocol, against=against, wording="aa77", judges=("judge-70b", "judge-9b"), repeats=2
        ),
        "headline": Estimate(mean=37.5, low=28.25, high=46.75, count=44),
        "overall": row("all", 54, 16, 18),
        "domains": rows,
        "positions": (position("judge-70b", first, 27), position("judge-9b", first, 52)),
        "samples": (
            SampleChoice(
                id="terminal/7",
                domain="terminal",
                trajectory="t",
                value=0.0,
                outcome=Outcome.OK,
                first=("predicted", counted),
                chosen=("real", counted),
            ),
        ),
        "telling": telling,
        "failures": (
            Failure(
                id="web/5", domain="web", stage="choice", outcome=Outcome.JUDGE_FAILED, detail="the reply is no choice"
            ),
        ),
        "usage": Usage(calls=112, prompt_tokens=400_321, completion_tokens=10_000, seconds=98.0),
        "wall_seconds": {"judge": 12.5},
        "bootstrap": {"draws": 1000, "seed": 0, "level": 0.95},
        "warnings": ("4 choices made on a part of the material, which did not fit the context",),
    }
    return ChoiceResults.model_validate({**told, **more})


def row(name: str, planned: int, won: int, lost: int) -> ChoiceRow:
    counted = planned - 2
    rate = Estimate(mean=100 * won / counted, low=100 * won / counted - 9, high=100 * won / counted + 9, count=counted)
    return ChoiceRow(
        name=name,
        planned=planned,
        counted=counted,
        won=won,
        tied=counted - won - lost,
        lost=lost,
        by_rule=3,
        missing={"judge_failed": 2},
        rate=rate,
    )


def position(judge: str, first: dict[str, int], picked: int) -> Position:
    picks = sum(first.values())
    low, high = wilson(picked, picks) or (0.0, 1.0)
    return Position(
        judge=judge,
        shown_first=first,
        picks=picks,
        first_picks=picked,
        first_share=picked / picks,
        low=low,
        high=high,
        biased=low > 0.5,
    )
