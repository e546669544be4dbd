import pytest
from pydantic import ValidationError

from tests.judge.judges import choice, mute, position_biased, question, scripted, shown
from worldlm.core.outcomes import Outcome
from worldlm.judge.asking import JudgeSettings
from worldlm.judge.choosing import Choice, tally
from worldlm.judge.turing import PREDICTED, REAL, turing, turing_hash

pytestmark = pytest.mark.anyio

TRUTH = question().truth.text


def detective(prompt: str) -> str:
    return choice(prompt, "first" if shown(prompt, "first") == TRUTH else "second")


async def test_the_order_is_drawn_for_each_sample_and_the_same_again_for_the_same_seed() -> None:
    async def orders(seed: int) -> list[str | None]:
        return [
            (await turing(question(), "4", scripted(detective), JudgeSettings(seed=seed), sample=n)).first
            for n in range(40)
        ]

    one = await orders(1)
    assert one == await orders(1)
    assert one != await orders(2)
    assert 8 < one.count(REAL) < 32


async def test_the_judges_pick_is_named_whatever_the_order() -> None:
    for sample in range(6):
        for swap in (False, True):
            model = scripted(detective)
            found = await turing(question(), "4 notes.txt", model, sample=sample, swap=swap)
            prompt = model.requests[0][0][-1].content
            assert found.chosen == REAL
            assert (found.first == REAL) == (shown(prompt, "first") == TRUTH)
            assert found.picked == ("first" if found.first == REAL else "second")
    straight, swapped = [await turing(question(), "4", scripted(detective), swap=swap) for swap in (False, True)]
    assert straight.first != swapped.first


async def test_neither_answer_is_called_a_reference() -> None:
    model = scripted(detective)
    await turing(question(), "4", model)
    prompt = model.requests[0][0][-1].content
    assert "<reference" not in prompt
    assert "<prediction" not in prompt


async def test_what_needs_no_judge_is_not_sent() -> None:
    model = scripted(detective)
    same = await turing(question(), TRUTH, model)
    empty = await turing(question(), " \n", model)
    assert (same.chosen, same.picked, same.judge) == ("tie", None, "")
    assert (empty.outcome, empty.chosen) == (Outcome.MODEL_FAILED, None)
    assert model.requests == []


async def test_a_judge_that_does_not_choose_is_typed() -> None:
    found = await turing(question(), "4", scripted(mute))
    assert (found.outcome, found.chosen, found.raw) == (Outcome.JUDGE_FAILED, None, "I cannot rate this.")


async def test_a_liking_for_a_position_shows_in_the_tally() -> None:
    fair = [await turing(question(), f"{n}", scripted(detective), sample=n) for n in range(60)]
    biased = [await turing(question(), f"{n}", scripted(position_biased), sample=n) for n in range(60)]
    assert not tally(fair, PREDICTED).position_bias
    assert tally(biased, PREDICTED).first_share == 1
    assert tally(biased, PREDICTED).position_bias
    assert tally(fair, PREDICTED).rate == 0
    assert 0.3 < (tally(biased, PREDICTED).rate or 0) < 0.7


def test_the_tally_counts_failures_of_the_model_and_leaves_out_the_judges() -> None:
    choices = [
        Choice(chosen=PREDICTED, first=REAL),
        Choice(chosen="tie", first=REAL),
        Choice(chosen=REAL, first=REAL),
        Choice(outcome=Outcome.CUT_OFF, detail="cut"),
        Choice(outcome=Outcome.JUDGE_FAILED, detail="no"),
        Choice(outcome=Outcome.TIMED_OUT, detail="late"),
    ]
    counted = tally(choices, PREDICTED)
    assert (counted.planned, counted.judged, counted.won, counted.tied, counted.lost) == (6, 4, 1, 1, 2)
    assert counted.missing == {"judge_failed": 1, "timed_out": 1}
    assert counted.rate == 1.5 / 4
    assert (counted.first_picks, counted.picks) == (1, 2)
    nothing = tally([], PREDICTED)
    assert (nothing.rate, nothing.interval, nothing.first_share, nothing.position_bias) == (None, None, None, False)


def test_a_choice_is_made_or_says_why_not() -> None:
    for broken in ({}, {"outcome": "judge_failed"}, {"outcome": "timed_out", "chosen": "tie", "detail": "x"}):
        with pytest.raises(ValidationError):
            Choice.model_validate(broken)


def test_the_wording_is_hashed() -> None:
    assert len(turing_hash()) == 16
