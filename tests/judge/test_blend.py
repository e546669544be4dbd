"""Nine tenths of the rubric, one tenth of the rules, and no number where there is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.core.outcomes import Outcome
from worldlm.judge.blend import blend
from worldlm.judge.score import Score, Verdict
from worldlm.judge.verifiers import Verification

CHECKED = Verification(value=40.0, exact=False, normalised=False)


def verdict(grade: int) -> Verdict:
    return Verdict(score=Score.even(grade))


def test_the_default_is_nine_to_one() -> None:
    blended = blend(verdict(4), CHECKED)
    assert blended.value == pytest.approx(0.9 * 75 + 0.1 * 40)
    assert (blended.rubric, blended.verification, blended.outcome) == (75, 40, Outcome.OK)


@pytest.mark.parametrize(
    ("content", "checked"), [("deterministic", True), ("metadata", True), (None, True), ("pre-existing", False)]
)
def test_rules_have_a_part_only_where_the_content_can_be_checked(content: str | None, checked: bool) -> None:
    blended = blend(verdict(3), CHECKED, content=content)
    assert blended.value == pytest.approx(0.9 * 50 + 0.1 * 40 if checked else 50)
    assert (blended.verification is not None) is checked


def test_without_a_verification_the_rubric_stands_alone() -> None:
    assert blend(verdict(5)).value == 100


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_failure_is_the_floor_or_nothing_and_never_the_rules_number(outcome: Outcome) -> None:
    if outcome.is_ok:
        return
    blended = blend(Verdict(outcome=outcome, detail="why"), CHECKED)
    assert blended.value == (0 if outcome.is_models_fault else None)
    assert (blended.outcome, blended.verification, blended.detail) == (outcome, None, "why")


@given(st.integers(1, 5), st.floats(0, 100), st.floats(0, 1))
def test_a_blend_lies_between_its_parts(grade: int, value: float, share: float) -> None:
    one = verdict(grade)
    rules = Verification(value=value, exact=False, normalised=False)
    blended = blend(one, rules, share=share)
    assert one.score is not None
    assert blended.value is not None
    low, high = sorted((one.score.percent, value))
    assert low - 1e-9 <= blended.value <= high + 1e-9


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        blend(verdict(3), CHECKED, share=share)
