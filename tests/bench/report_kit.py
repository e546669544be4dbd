"""Results to report: seven domains, every content class, failures of every kind, texts of every sort."""

import random
from collections.abc import Sequence
from functools import cache

from worldlm.bench.averages import table
from worldlm.bench.results import (
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
            rules="verifiers/1",
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
        warnings=("3 samples were asked without their oldest turns, which did not fit the context",),
    )
