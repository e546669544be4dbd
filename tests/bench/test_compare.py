"""Two runs beside each other, and the public way."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.kit import foreign, screen, write
from tests.bench.test_judging import JUDGED, gen
from worldlm.bench.compare import compare
from worldlm.bench.public import read_reply_public, score_public
from worldlm.bench.results import Results, read_results, write_results
from worldlm.bench.scoring import score
from worldlm.core.errors import InputError
from worldlm.core.outcomes import Outcome


def run(path: Path, words: dict[int, str | None], name: str) -> Results:
    records = [foreign(n) | {"gen": screen(f"r{n}t3") if word == "right" else word} for n, word in words.items()]
    return score(write(path, records), name=name, min_coverage=0.0)


def test_wins_ties_losses_and_the_difference(tmp_path: Path) -> None:
    first = run(tmp_path / "a.jsonl", {0: "right", 1: "no", 2: "no", 3: "right", 4: ""}, "first")
    second = run(tmp_path / "b.jsonl", {0: "right", 1: "right", 2: "right", 3: "no", 4: "right", 5: "right"}, "second")
    compared = compare(first, second)
    row = compared.overall
    assert (row.samples, row.wins, row.ties, row.losses) == (5, 3, 1, 1)
    assert row.win_rate.mean == 70
    assert row.difference.mean == pytest.approx(row.second - row.first)
    assert (compared.only_first, compared.only_second, compared.neither) == (0, 1, 0)
    assert compared.better is not None
    assert any("left out" in warning for warning in compared.warnings)
    back = compare(second, first).overall
    assert (back.wins, back.losses) == (row.losses, row.wins)
    assert back.difference.mean == pytest.approx(-(row.difference.mean or 0))


def test_a_run_against_itself_is_a_tie(tmp_path: Path) -> None:
    one = run(tmp_path / "a.jsonl", {0: "right", 1: "no", 2: "no"}, "one")
    row = compare(one, one).overall
    assert (row.ties, row.wins, row.losses, row.difference.mean, row.win_rate.mean) == (3, 0, 0, 0, 50)
    assert (row.difference.low, row.difference.high) == (0, 0)


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    one = run(tmp_path / "a.jsonl", {0: "right"}, "one")
    other = run(tmp_path / "b.jsonl", {1: "right"}, "other")
    lost = run(tmp_path / "c.jsonl", {0: None}, "lost")
    for pair in ((one, other), (one, lost)):
        with pytest.raises(InputError, match="share no sample"):
            compare(*pair)
    with pytest.raises(InputError, match="one was not scored by rubric; one has rules"):
        compare(one, one, "rubric")
    table = one.tables[0]
    older = table.model_copy(update={"metric": table.metric.model_copy(update={"version": "verifiers/0"})})
    with pytest.raises(InputError, match="two versions of rules"):
        compare(one, one.model_copy(update={"tables": (older,)}))


def test_a_model_s_failures_lose_and_others_are_left_out(tmp_path: Path) -> None:
    first = run(tmp_path / "a.jsonl", {0: "right", 1: "right", 2: "right"}, "first")
    second = run(tmp_path / "b.jsonl", {0: "<think>", 1: None, 2: "right"}, "second")
    assert [each.outcome for each in second.samples] == [Outcome.CUT_OFF, Outcome.INFRASTRUCTURE_FAILED, Outcome.OK]
    row = compare(first, second).overall
    assert (row.samples, row.losses, row.ties) == (2, 1, 1)


def test_result_files_survive_the_round_trip_and_broken_ones_are_named(tmp_path: Path) -> None:
    one = run(tmp_path / "a.jsonl", {0: "right", 1: "no"}, "one")
    write_results(one, tmp_path / "r" / "results.json")
    assert read_results(tmp_path / "r" / "results.json") == one
    (tmp_path / "x.json").write_text('{"schema": "worldlm.bench-results/1"}')
    with pytest.raises(InputError, match=r"x\.json is no result"):
        read_results(tmp_path / "x.json")
    with pytest.raises(InputError, match="cannot read"):
        read_results(tmp_path / "y.json")


# The public way.


@pytest.mark.parametrize(
    ("gen", "read"),
    [
        ("<think>a</think><predicted_observation>b</predicted_observation>", "b"),
        (
            "<predicted_observation>draft</predicted_observation> no: <predicted_observation>b</predicted_observation>",
            "b",
        ),
        ("<think>never <predicted_observation>draft</predicted_observation>", "draft"),
        ("<predicted_observation>cat: <think>x</think>y</predicted_observation>", "cat: y"),
        ("only text", "only text"),
        ("<predicted_observation>cut", "cut"),
    ],
)
def test_replies_as_the_public_script_reads_them(gen: str, read: str) -> None:
    assert read_reply_public(gen) == read


@given(st.text())
def test_reading_the_public_way_never_fails(gen: str) -> None:
    assert read_reply_public(gen) == read_reply_public(gen).strip()


def test_the_public_mean_is_over_samples_and_drops_failures(tmp_path: Path) -> None:
    five = dict.fromkeys(("total_score", "format", "factuality", "consistency", "realism", "quality"), 5)
    one = dict.fromkeys(five, 1)
    records = [
        gen(0) | five | {"failed": 0.0},
        *(gen(n) | one | {"failed": 0.0, "task": "mcp", "id": n} for n in range(9)),
        gen(20) | {"failed": 1.0, "error_message": "no verdict"},
    ]
    path = write(tmp_path / "s.jsonl", records)
    public = score_public(path)
    assert public.overall.percent == pytest.approx(10)
    assert (public.overall.total, public.overall.dropped) == (1.4, 1)
    table = score(path, min_coverage=0.0).table("rubric")
    assert table is not None
    assert table.headline.mean == 50
    with pytest.raises(InputError, match="grade is 1 to 5"):
        score_public(write(tmp_path / "bad.jsonl", [gen(0) | JUDGED | {"format": "5"}]))
