"""What a model should have replied: the environment reads it as the recorded state, whatever the context holds."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.data.sessions import session, turn
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Observation, Profile, Sampling, Trajectory
from worldlm.data import LossReport, ReadOptions, import_trajectories
from worldlm.data.targets import Target, targets
from worldlm.domains import get_domain
from worldlm.domains.delta import is_delta, read_delta
from worldlm.simulate import SimulatedEnvironment
from worldlm.testing import ScriptedModel

DELTAS = Profile(name="deltas", state="delta", sampling=Sampling(temperature=0, max_tokens=600), context=100_000)
GUI = {"web", "android", "os"}


def page(rows: Sequence[str], first: int = 1) -> str:
    lines = [f"\t[{number}] button '{row}', clickable" for number, row in enumerate(rows, first)]
    return "\n".join(["URL: http://shop.example/", "Tabs: *0 'Shop'", "RootWebArea 'Shop', focused", *lines])


def browse(screens: Sequence[str]) -> Trajectory:
    turns = [turn(f'click("{number}")', screen) for number, screen in enumerate(screens[1:], 1)]
    return session(turns, "web", screens[0], initial_observation=screens[0])


def made(trajectory: Trajectory, profile: Profile) -> list[Target]:
    return list(targets(trajectory, get_domain(trajectory.world.domain), profile))


async def play(trajectory: Trajectory, profile: Profile) -> None:
    """Play a trajectory with its targets for replies: nothing else is asked, and it comes out again."""
    found = made(trajectory, profile)
    model = ScriptedModel([target.reply() for target in found])
    environment = SimulatedEnvironment(trajectory.world, get_domain(trajectory.world.domain), model, profile)
    await environment.reset()
    for target in found:
        expected = trajectory.turns[target.turn - 1]
        step = await environment.step(expected.action)
        assert step.outcome is Outcome.OK, step.detail
        assert step.usage.calls == 1
        assert expected.observation is not None
        assert step.observation == expected.observation
        assert tuple(model.requests[-1][0]) == target.prompt


ROWS = st.lists(st.sampled_from(["Buy", "Sell", "Help", "About", "Terms", "Back"]), min_size=1, max_size=12)


@pytest.mark.anyio
@pytest.mark.parametrize("context", [100_000, 3000])
@pytest.mark.parametrize("tag", [False, True])
async def test_the_environment_reads_them_as_the_recorded_states(context: int, tag: bool) -> None:
    rows = [f"Order {number}" for number in range(20)]
    screens = [page(rows[: 20 - n % 3] + ["New"] * (n % 4), 1 + n % 5) for n in range(30)]
    profile = DELTAS.model_copy(update={"context": context, "answer_tag": tag})
    await play(browse(screens), profile)
    found = made(browse(screens), profile)
    assert (found[-1].missing > 0) is (context < 100_000)
    assert all(len(target.bases) == target.turn - target.missing for target in found)
    assert sum(is_delta(target.answer()) for target in found) > 20


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.builds(page, ROWS, st.integers(1, 9)), min_size=2, max_size=8))
@pytest.mark.anyio
async def test_any_session_comes_out_again(screens: list[str]) -> None:
    await play(browse(screens), DELTAS)


def test_going_back_is_one_line_while_the_state_is_in_the_context_and_whole_after_that() -> None:
    first, other = page([f"Order {n}" for n in range(60)]), page([f"Author {n}" for n in range(60)])
    trajectory = browse([page(["Start"]), first, *[other] * 4, first])
    assert made(trajectory, DELTAS)[-1].answer() == "@back 5"
    tight = DELTAS.model_copy(update={"context": 5200})
    assert made(trajectory, tight)[-1].answer() == first


def test_whole_states_where_no_deltas_are_asked_for() -> None:
    screens = [page(["Buy", "Sell"]), page(["Buy", "Sell"])]
    (whole,) = made(browse(screens), DELTAS.model_copy(update={"state": "full"}))
    assert (whole.answer(), whole.bases) == (screens[1], ())
    (text,) = made(session([turn("ls", "ann@box:~$ ls\nann@box:~$")]), DELTAS)
    assert text.answer() == "ann@box:~$ ls\nann@box:~$"


def test_thinking_comes_before_the_answer_and_is_not_shown_later() -> None:
    trajectory = browse([page(["Buy"]), page(["Buy", "Sell"])])
    thought = trajectory.turns[0].model_copy(update={"thinking": "A second button.\n"})
    trajectory = trajectory.model_copy(update={"turns": (thought,)})
    (target,) = made(trajectory, DELTAS.model_copy(update={"thinking": True}))
    assert target.reply().startswith("<think>\nA second button.\n</think>\n\n<predicted_observation>@back 1\n")
    assert target.shown() == f"<predicted_observation>{target.state}</predicted_observation>"
    (plain,) = made(trajectory, DELTAS)
    assert plain.reply().startswith("<predicted_observation>@back 1\n")


def test_turns_without_an_observation_have_none_and_an_action_may_not_fit() -> None:
    trajectory = browse([page(["Buy"]), page(["Buy"]), page(["Sell"])])
    failed = turn('click("2")', None)
    long = turn("x" * 400_000, page(["Help"]))
    trajectory = trajectory.model_copy(update={"turns": (trajectory.turns[0], failed, long, trajectory.turns[1])})
    found = made(trajectory, DELTAS)
    assert [target.turn for target in found] == [1, 3, 4]
    assert [target.prompt is None for target in found] == [False, True, False]
    assert made(trajectory.model_copy(update={"initial": None}), DELTAS) == []


@pytest.mark.skipif("WORLDLM_RECORDINGS" not in os.environ, reason="WORLDLM_RECORDINGS names no recordings")
def test_deltas_of_recorded_screens_lose_nothing() -> None:
    count = 0
    for path in sorted(Path(os.environ["WORLDLM_RECORDINGS"]).glob("*.jsonl")):
        for trajectory in import_trajectories(path, None, ReadOptions(), LossReport()):
            if trajectory.world.domain not in GUI:
                continue
            for target in made(trajectory, DELTAS.model_copy(update={"context": 10_000_000})):
                answer = target.answer()
                assert (read_delta(answer, target.bases) if is_delta(answer) else answer) == target.state
                count += 1
    assert count


def test_screens_that_look_like_deltas_are_told_apart() -> None:
    odd = Observation(text="@back 1\nRootWebArea 'Shop'")
    trajectory = session([turn("noop()", odd.text)], "web", page(["Buy"]))
    (target,) = made(trajectory, DELTAS)
    assert read_delta(target.answer(), target.bases) == odd.text
