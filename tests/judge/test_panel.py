import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judge.judges import flattering, honest, mute, question, scripted, verdict
from worldlm.core.errors import InputError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Sampling
from worldlm.judge.agreement import ranks, spearman, weighted_kappa, wilson
from worldlm.judge.asking import JudgeSettings
from worldlm.judge.panel import agreement, judge_panel, same_family
from worldlm.judge.score import DIMENSIONS, Score

pytestmark = pytest.mark.anyio

some_grades = st.lists(st.integers(1, 5), min_size=2, max_size=30)


async def test_a_panel_is_the_mean_of_its_judges_however_many_samples_each_gave() -> None:
    replies = iter([1, 2, 3])

    def wavering(prompt: str) -> str:
        return verdict(prompt, [next(replies)] * 5)

    panel = await judge_panel(question(), "p", [scripted(wavering)], samples=3)
    assert (panel.outcome, panel.total, panel.percent) == (Outcome.OK, 2, 25)
    assert panel.spread == pytest.approx((2 / 3) ** 0.5)
    assert panel.usage.calls == 3

    calls: list[int] = []

    def once(prompt: str) -> str:
        calls.append(1)
        return verdict(prompt, [1] * 5) if len(calls) == 1 else "no"

    panel = await judge_panel(
        question(), "p", [scripted(once, "once"), scripted(flattering)], JudgeSettings(attempts=1), samples=3
    )
    assert panel.total == 3  # (1 + 5) / 2, and not (1 + 5 + 5 + 5) / 4
    assert panel.grades == dict.fromkeys(DIMENSIONS, 3)
    assert panel.detail is not None
    assert panel.detail.startswith("missing 2 of 6 verdicts: no usable verdict")


async def test_repeats_are_asked_with_seeds_of_their_own() -> None:
    model = scripted(honest)
    await judge_panel(question(), "p", [model], JudgeSettings(sampling=Sampling(temperature=0.7)), samples=3)
    assert len({sampling.seed for _, sampling in model.requests}) == 3
    assert {sampling.temperature for _, sampling in model.requests} == {0.7}


async def test_without_any_score_a_panel_says_why() -> None:
    panel = await judge_panel(question(), "p", [scripted(mute)], samples=2)
    assert (panel.outcome, panel.total, panel.percent, panel.spread) == (Outcome.JUDGE_FAILED, None, None, None)
    panel = await judge_panel(question(), "", [scripted(honest)], samples=2)
    assert panel.outcome is Outcome.MODEL_FAILED


async def test_what_makes_no_panel_is_refused() -> None:
    for models in ([], [scripted(honest), scripted(honest)]):
        with pytest.raises(InputError):
            await judge_panel(question(), "p", models)
    small = JudgeSettings(context=4096, sampling=Sampling(max_tokens=4000))
    with pytest.raises(InputError, match="larger context"):
        await judge_panel(question(), "p", [scripted(honest)], small, samples=2)


# Agreement.


def test_the_statistics_agree_with_known_values() -> None:
    assert spearman([1, 2, 3, 4, 5], [5, 6, 7, 8, 7]) == pytest.approx(0.8207826817)
    assert weighted_kappa([1, 2, 3, 4, 5], [1, 2, 3, 5, 4]) == pytest.approx(0.9)
    assert wilson(5, 10) == pytest.approx((0.236593, 0.763407), abs=1e-6)
    assert wilson(0, 10) == pytest.approx((0, 0.277533), abs=1e-6)
    assert wilson(0, 0) is None
    assert ranks([3, 1, 3, 2]) == [3.5, 1, 3.5, 2]


@given(some_grades)
def test_a_rater_agrees_with_himself(grades: list[int]) -> None:
    expected = None if len(set(grades)) == 1 else pytest.approx(1)
    assert weighted_kappa(grades, grades) == expected
    assert spearman(grades, grades) == expected
    assert spearman(grades, [-grade for grade in grades]) == (None if expected is None else pytest.approx(-1))


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), max_size=30))
def test_agreement_is_symmetrical_and_at_most_one(pairs: list[tuple[int, int]]) -> None:
    left, right = [one for one, _ in pairs], [other for _, other in pairs]
    for measure in (weighted_kappa, spearman):
        there, back = measure(left, right), measure(right, left)
        assert there is None if back is None else there == pytest.approx(back)
        assert there is None or there <= 1 + 1e-9


def test_agreement_of_two_judges_leaves_out_what_one_did_not_score() -> None:
    pairs = [(Score.even(1), Score.even(2)), (Score.even(5), Score.even(5)), (None, Score.even(3)), (None, None)]
    found = agreement(pairs)
    assert (found.items, found.same, found.near) == (2, 0.5, 1)
    assert found.spearman == pytest.approx(1)
    assert set(found.kappa) == set(DIMENSIONS)
    assert agreement([]).items == 0
    assert agreement([]).same is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("qwen3-32b@http://x/v1", "Qwen/Qwen3.5-35B-A3B@http://y/v1#ab", True),
        ("gpt-5.4@https://x/v1", "Qwen/Qwen3.5@http://y/v1", False),
        ("1234", "1234", False),
    ],
)
def test_a_judge_of_the_models_own_family_is_told(one: str, other: str, same: bool) -> None:
    assert same_family(one, other) is same
