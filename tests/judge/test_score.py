import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from worldlm.core.outcomes import Outcome
from worldlm.judge.score import DIMENSIONS, FLOOR, Score, Verdict, percent

grades = st.lists(st.integers(1, 5), min_size=5, max_size=5)


@given(grades)
def test_the_total_is_the_mean_of_five_and_the_percent_its_place_between_one_and_five(values: list[int]) -> None:
    score = Score.of(dict(zip(DIMENSIONS, values, strict=True)))
    assert score.total == pytest.approx(sum(values) / 5)
    assert score.percent == pytest.approx((sum(values) / 5 - 1) / 4 * 100)
    assert list(score.grades) == list(DIMENSIONS)
    assert Score.model_validate_json(score.model_dump_json()) == score


def test_the_ends_of_the_scale() -> None:
    assert (percent(1), percent(3), percent(5)) == (0, 50, 100)
    assert FLOOR.percent == 0
    assert Score.even(5).percent == 100


@pytest.mark.parametrize("grade", [0, 6, 2.5, "five", None])
def test_a_grade_is_a_whole_number_from_one_to_five(grade: object) -> None:
    with pytest.raises(ValidationError):
        Score.model_validate({**dict.fromkeys(DIMENSIONS, 3), "realism": grade})


def test_all_five_grades_are_required() -> None:
    with pytest.raises(ValidationError):
        Score.model_validate({"format": 5, "factuality": 1})


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_verdict_has_a_score_exactly_when_it_is_ok_and_otherwise_a_reason(outcome: Outcome) -> None:
    if outcome.is_ok:
        assert Verdict(score=Score.even(3)).counted == Score.even(3)
        with pytest.raises(ValidationError):
            Verdict()
        return
    with pytest.raises(ValidationError):
        Verdict(outcome=outcome, score=Score.even(3), detail="why")
    with pytest.raises(ValidationError):
        Verdict(outcome=outcome)
    verdict = Verdict(outcome=outcome, detail="why")
    # Only the model's own failures count, and they count at the floor: what a judge or a server does is missing.
    assert verdict.counted == (FLOOR if outcome in (Outcome.CUT_OFF, Outcome.MODEL_FAILED) else None)
