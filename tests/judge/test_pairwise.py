import pytest

from tests.judge.judges import honest, mute, position_biased, question, scripted, shown
from worldlm.core.outcomes import Outcome
from worldlm.judge.choosing import TIE
from worldlm.judge.pairwise import BASELINE, CHALLENGER, pairwise, pairwise_hash, tally
from worldlm.judge.turing import turing_hash

pytestmark = pytest.mark.anyio

GOOD, BAD = "3 notes.txt\nann@box:~$", "bash: wc: command not found"


async def test_the_better_prediction_is_chosen_in_either_order() -> None:
    for swap in (False, True):
        model = scripted(honest)
        assert (await pairwise(question(), GOOD, BAD, model, swap=swap)).chosen == CHALLENGER
        assert (await pairwise(question(), BAD, GOOD, model, swap=swap)).chosen == BASELINE
        assert shown(model.requests[0][0][-1].content, "reference") == question().truth.text


@pytest.mark.parametrize(
    ("challenger", "baseline", "chosen"),
    [(None, BAD, BASELINE), ("", BAD, BASELINE), (BAD, None, CHALLENGER), (None, " ", TIE), (BAD, BAD, TIE)],
)
async def test_failures_and_equals_are_decided_without_a_judge(
    challenger: str | None, baseline: str | None, chosen: str
) -> None:
    model = scripted(honest)
    found = await pairwise(question(), challenger, baseline, model)
    assert (found.chosen, found.first, found.picked) == (chosen, None, None)
    assert found.detail
    assert model.requests == []


async def test_an_empty_answer_can_be_the_right_one() -> None:
    found = await pairwise(question(""), "", "noise", scripted(honest))
    assert found.chosen == CHALLENGER


async def test_a_judge_that_does_not_choose_is_missing_in_the_win_rate() -> None:
    made = [await pairwise(question(), GOOD, BAD, scripted(judge)) for judge in (honest, mute)]
    assert made[1].outcome is Outcome.JUDGE_FAILED
    counted = tally(made, CHALLENGER)
    assert (counted.planned, counted.judged, counted.rate) == (2, 1, 1)
    assert counted.missing == {"judge_failed": 1}


async def test_position_bias_is_reported() -> None:
    made = [await pairwise(question(), GOOD, f"{BAD} {n}", scripted(position_biased), sample=n) for n in range(30)]
    counted = tally(made, CHALLENGER)
    assert (counted.first_share, counted.position_bias) == (1, True)


def test_the_wordings_differ() -> None:
    assert pairwise_hash() != turing_hash()
