"""Averages: the published ones, failures that cannot hide, intervals."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.bench.averages import bin_of, headline, interval, resample, table
from worldlm.bench.results import Metric, SampleResult, Table
from worldlm.core.outcomes import Outcome
from worldlm.core.types import DOMAIN_NAMES, DomainName

RULES = Metric(name="rules", version="1", definition="a test")
RUBRIC = Metric(name="rubric", version="1", definition="a test", dimensions=("format", "quality"))
LOST, FAILED = Outcome.INFRASTRUCTURE_FAILED, Outcome.MODEL_FAILED


def result(
    number: int,
    value: float | None = None,
    *,
    domain: DomainName = "terminal",
    outcome: Outcome = Outcome.OK,
    trajectory: str | None = None,
    turn: int = 1,
    content: str | None = None,
    length: int = 10,
) -> SampleResult:
    return SampleResult(
        id=f"{domain}/{number}",
        domain=domain,
        trajectory=trajectory or str(number),
        turn=turn,
        length=length,
        content=content,
        outcome=outcome,
        values={} if value is None else {"rules": value, "rubric": value},
        dimensions={} if value is None else {"format": value, "quality": value / 2},
    )


def made(results: Sequence[SampleResult], **options: float) -> Table:
    return table(results, RULES, draws=50, **options)  # type: ignore[arg-type]


def test_the_headline_is_the_mean_of_domain_means_and_the_published_one() -> None:
    # Qwen-AgentWorld-35B-A3B in the public report: seven domains and the overall.
    row = (64.79, 36.69, 53.96, 65.63, 58.17, 49.55, 65.92)
    assert headline(dict(zip(("mcp", "search", "terminal", "swe", "android", "web", "os"), row, strict=True))) == (
        pytest.approx(56.39, abs=0.005)
    )
    results = [
        result(number, value, domain=domain)
        for number, (domain, value) in enumerate(zip(DOMAIN_NAMES, row, strict=True))
    ]
    assert made(results).headline.mean == pytest.approx(56.39, abs=0.005)
    with pytest.raises(ValueError, match="no domain"):
        headline({})


def test_the_headline_formula_gives_the_published_overall() -> None:
    folder = os.environ.get("WORLDLM_RECORDINGS")
    if not folder:
        pytest.skip("needs WORLDLM_RECORDINGS, with agentworldbench_published.tsv in it")
    path = Path(folder) / "agentworldbench_published.tsv"
    if not path.exists():
        pytest.skip("WORLDLM_RECORDINGS holds no agentworldbench_published.tsv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) == 14
    off = {
        row["model"]: mean
        for row in rows
        if abs((mean := headline({name: float(row[name]) for name in DOMAIN_NAMES})) - float(row["overall"])) > 0.0101
    }
    # One row is not consistent in itself: its columns give another mean than is printed beside them.
    assert list(off) == ["Qwen-AgentWorld-397B-A17B"]
    assert off["Qwen-AgentWorld-397B-A17B"] == pytest.approx(58.76, abs=0.005)


def test_domains_of_different_size_weigh_the_same_and_both_means_are_there() -> None:
    results = [result(0, 100.0), *(result(number, 0.0, domain="mcp") for number in range(9))]
    figures = made(results)
    assert figures.headline.mean == 50
    assert figures.overall.floor.mean == 10


def test_a_model_s_failures_count_at_the_floor() -> None:
    results = [
        *(result(number, 60.0) for number in range(5)),
        *(result(number, outcome=FAILED) for number in range(5, 10)),
    ]
    part = made(results).domains[0]
    assert (part.floor.mean, part.answered.mean) == (30, 60)
    assert (part.planned, part.scored, part.floored, part.coverage) == (10, 5, 5, 1.0)
    everything_failed = made([result(number, outcome=FAILED) for number in range(3)])
    assert everything_failed.headline.mean == 0
    assert everything_failed.domains[0].answered.mean is None


def test_what_is_nobody_s_fault_counts_nowhere_and_lowers_the_coverage() -> None:
    results = [result(0, 60.0), *(result(number, outcome=LOST) for number in range(1, 4))]
    figures = made(results)
    part = figures.domains[0]
    assert (part.floor.mean, part.coverage, part.counted, part.planned) == (60, 0.25, 1, 4)
    assert figures.headline.mean is None
    assert "25.0% (1 of 4" in (figures.withheld or "")
    assert made(results, min_coverage=0.0).headline.mean == 60


def test_a_domain_of_which_nothing_counts_leaves_no_headline_whatever_the_threshold() -> None:
    results = [result(0, 60.0), result(0, outcome=LOST, domain="web")]
    figures = made(results, min_coverage=0.0)
    assert figures.headline.mean is None
    assert "nothing of web counts" in (figures.withheld or "")
    assert figures.headline_answered.mean is None


def test_a_judge_s_failure_is_of_its_metric_alone() -> None:
    judged = result(0, 60.0).model_copy(
        update={"values": {"rules": 60.0}, "outcomes": {"rubric": Outcome.JUDGE_FAILED}}
    )
    empty = result(1, 0.0).model_copy(update={"values": {"rules": 0.0}, "outcomes": {"rubric": FAILED}})
    both = [judged, empty]
    assert table(both, RULES, draws=10).domains[0].counted == 2
    by_rubric = table(both, RUBRIC, draws=10, min_coverage=0).domains[0]
    assert (by_rubric.counted, by_rubric.floored, by_rubric.floor.mean) == (1, 1, 0)


def test_dimensions_are_means_too_with_failures_at_the_floor() -> None:
    part = table([result(0, 80.0), result(1, outcome=FAILED)], RUBRIC, draws=10).domains[0]
    assert {name: each.mean for name, each in part.dimensions.items()} == {"format": 40, "quality": 20}


def test_slices_by_content_turn_and_length() -> None:
    results = [
        result(0, 10.0, content="deterministic", turn=1, length=100),
        result(1, 20.0, content="metadata", turn=3, length=5000),
        result(2, 30.0, content="deterministic", turn=40, length=300),
    ]
    figures = made(results)
    assert [(part.name, part.floor.mean) for part in figures.contents] == [("deterministic", 20), ("metadata", 20)]
    assert [(part.name, part.floor.mean) for part in figures.turns] == [("1", 10), ("2–3", 20), ("16+", 30)]
    assert [(part.name, part.planned) for part in figures.lengths] == [("0–199", 1), ("200–999", 1), ("4000+", 1)]


def test_bins_have_no_gap_and_no_overlap() -> None:
    names = [bin_of(number, (1, 2, 4, 8, 16)) for number in range(1, 40)]
    assert list(dict.fromkeys(names)) == ["1", "2–3", "4–7", "8–15", "16+"]
    assert names == sorted(names, key=lambda name: int(name.split("–")[0].rstrip("+")))


values = st.lists(
    st.tuples(
        st.sampled_from(DOMAIN_NAMES),
        st.floats(0, 100) | st.sampled_from([FAILED, LOST]),
        st.sampled_from(["a", "b", "c", "d"]),
    ),
    min_size=1,
    max_size=25,
)


@given(values)
def test_laws_of_the_means(rows: list[tuple[DomainName, float | Outcome, str]]) -> None:
    results = [
        result(number, domain=domain, outcome=value, trajectory=run)
        if isinstance(value, Outcome)
        else result(number, value, domain=domain, trajectory=run)
        for number, (domain, value, run) in enumerate(rows)
    ]
    figures = made(results, min_coverage=0.0)
    for part in (figures.overall, *figures.domains, *figures.turns):
        assert 0 <= part.coverage <= 1
        assert part.floor.count == part.counted
        for each in (part.floor, part.answered):
            if each.low is not None and each.high is not None:
                assert each.mean is not None
                assert -1e-9 <= each.low <= each.high <= 100 + 1e-9
        if part.floor.mean is not None and part.answered.mean is not None:
            assert part.floor.mean <= part.answered.mean + 1e-9
    means = [part.floor.mean for part in figures.domains]
    if None not in means:
        assert figures.headline.mean == pytest.approx(fmean(mean for mean in means if mean is not None))
    assert sum(part.planned for part in figures.domains) == len(results)
    assert made(results, min_coverage=0.0) == figures


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    import random

    rng = random.Random(3)
    hits = 0
    for trial in range(200):
        drawn = [rng.gauss(50, 10) for _ in range(40)]
        means = [row[0] / row[1] for row in resample([drawn, [1.0] * 40], 200, str(trial))]
        low, high = interval(means)
        assert low is not None
        assert high is not None
        hits += low <= 50 <= high
    assert 0.88 <= hits / 200 <= 0.99


def test_turns_of_one_trajectory_are_drawn_together() -> None:
    lone = [result(number, 100.0 * (number % 2)) for number in range(40)]
    tied = [
        each.model_copy(update={"trajectory": f"run-{number % 2}-{number // 20}"}) for number, each in enumerate(lone)
    ]
    wide, narrow = (table(each, RULES, draws=400).domains[0].floor for each in (tied, lone))
    assert None not in (wide.low, wide.high, narrow.low, narrow.high)
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)  # type: ignore[operator]


def test_one_trajectory_has_no_interval() -> None:
    part = made([result(0, 10.0, trajectory="a"), result(1, 90.0, trajectory="a")]).domains[0].floor
    assert (part.mean, part.low, part.high) == (50, None, None)
