import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.types import Ending, Observation, Origin, Step, Trajectory, Turn, World
from worldlm.rollout.compare import (
    MAX_CHARACTERS,
    ComparedTurn,
    agreement,
    check_script,
    compare,
    is_exact,
    similarity,
)
from worldlm.testing import ToyEnvironment

texts = st.text(alphabet="ab \n€", max_size=12)


def by_the_table(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
    return row[-1]


@given(texts, texts)
def test_similarity_is_the_share_of_characters_that_need_no_edit(a: str, b: str) -> None:
    left, right = ("\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n") for text in (a, b))
    longest = max(len(left), len(right)) or 1
    assert similarity(a, b) == pytest.approx(1 - by_the_table(left, right) / longest)


@given(texts, texts)
def test_similarity_is_symmetric_and_one_exactly_for_exact_texts(a: str, b: str) -> None:
    assert similarity(a, b) == similarity(b, a)
    assert 0 <= similarity(a, b) <= 1
    assert (similarity(a, b) == 1) == is_exact(a, b)


def test_trailing_blanks_do_not_count_and_others_do() -> None:
    assert is_exact("a  \nb\n\n", "a\nb")
    assert not is_exact(" a", "a")
    assert similarity("", "") == 1
    assert similarity("abcd", "") == 0
    assert similarity("abcd", "abxd") == 0.75


def test_long_texts_are_compared_over_their_beginning() -> None:
    assert similarity("a" * MAX_CHARACTERS + "b", "a" * MAX_CHARACTERS + "c") == 1


def recording(*pairs: tuple[str, str | None], world: str = "toy") -> Trajectory:
    turns = [
        Turn(action=action, observation=None, outcome=Outcome.INVALID_ACTION)
        if text is None
        else Turn(action=action, observation=Observation(text=text))
        for action, text in pairs
    ]
    return Trajectory(
        id="r",
        world=World(name=world, domain="terminal", initial_state="0"),
        initial=Observation(text="count is 0"),
        turns=tuple(turns),
        ending=Ending(kind=EndingKind.COMPLETED),
        policy="script",
        origin=Origin(kind="recorded"),
    )


@pytest.mark.anyio
async def test_each_turn_is_predicted_from_the_real_history() -> None:
    seen: list[ComparedTurn] = []
    real = recording(("add 1", "count is 1"), ("???", None), ("add 1", "count is 9"), ("boom", "count is 2"))
    rows = await compare(ToyEnvironment(), real, on_turn=seen.append)
    assert rows == seen
    assert [row.number for row in rows] == [1, 3, 4]
    assert [row.exact for row in rows] == [True, False, False]
    assert [row.similarity for row in rows] == [1, 0.9, 0]
    assert rows[2].step.outcome is Outcome.INFRASTRUCTURE_FAILED


@pytest.mark.anyio
@given(st.lists(st.integers(0, 3), max_size=8), st.integers(1, 4))
async def test_turns_predicted_at_the_same_time_are_told_in_order(waits: list[int], number: int) -> None:
    class Slow(ToyEnvironment):
        """Answers after a while."""

        running = most = 0

        async def step(self, action: str) -> Step:
            Slow.running += 1
            Slow.most = max(Slow.most, Slow.running)
            for _ in range(waits[int(action.removeprefix("add ")) - 1]):
                await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            Slow.running -= 1
            return await super().step(action)

    real = recording(*((f"add {place}", "count is 3") for place in range(1, len(waits) + 1)))
    one_by_one = await compare(ToyEnvironment(), real)
    seen: list[ComparedTurn] = []
    rows = await compare(Slow(), real, beside=[Slow() for _ in range(number - 1)], on_turn=seen.append)
    assert rows == seen == one_by_one
    assert Slow.most == min(number, len(waits))


@pytest.mark.anyio
async def test_what_a_row_refuses_ends_the_rest() -> None:
    def refuse(row: ComparedTurn) -> None:
        raise WorldlmError(f"enough after {row.number}")

    real = recording(("add 1", "count is 1"), ("add 1", "count is 2"))
    with pytest.raises(WorldlmError, match="enough after 1"):
        await compare(ToyEnvironment(), real, beside=[ToyEnvironment()], on_turn=refuse)
    with pytest.raises(InputError, match="one turn after another"):
        await compare(ToyEnvironment(), real, beside=[ToyEnvironment()], free=True)


@pytest.mark.anyio
async def test_running_free_goes_on_from_its_own_answers() -> None:
    class Forgetful(ToyEnvironment):
        """Loses the history that it is given; what it does itself it knows."""

        async def resume(self, initial: Observation, turns: object, seed: int | None = None) -> None:
            await self.reset(0)

    real = recording(("add 1", "count is 1"), ("add 1", "count is 2"))
    assert [row.exact for row in await compare(Forgetful(), real)] == [True, False]
    assert [row.exact for row in await compare(Forgetful(), real, free=True)] == [True, True]


@pytest.mark.anyio
async def test_another_world_is_refused() -> None:
    with pytest.raises(InputError, match="is of world 'other', not 'toy'"):
        await compare(ToyEnvironment(), recording(("get", "count is 0"), world="other"))


@pytest.mark.anyio
async def test_a_recording_that_never_started_is_refused() -> None:
    with pytest.raises(InputError, match="never started"):
        await compare(ToyEnvironment(), recording().model_copy(update={"initial": None}))


@pytest.mark.anyio
async def test_agreement_counts_failures_at_zero_and_names_them() -> None:
    real = recording(("add 1", "count is 1"), ("boom", "count is 2"))
    rows = await compare(ToyEnvironment(), real)
    # The toy asks no model: that is how turns look which the harness answered.
    assert agreement(rows).by_harness == 1
    asked = [
        ComparedTurn(
            row.trajectory,
            row.number,
            row.action,
            row.real,
            row.step.model_copy(update={"usage": row.step.usage.model_copy(update={"calls": 1})}),
            row.similarity,
            row.exact,
        )
        for row in rows
    ]
    total = agreement(asked)
    assert (total.turns, total.answered, total.exact, total.coverage) == (2, 1, 1, 0.5)
    assert (total.similarity, total.similarity_answered) == (0.5, 1.0)
    assert total.failed == {"infrastructure_failed": 1}


def test_agreement_over_nothing() -> None:
    assert agreement([]).similarity is None
    assert agreement([]).coverage == 0


def test_check_script_names_the_first_turn_that_differs() -> None:
    real = recording(("a", "1"), ("b", "2"))
    check_script(["a", "b"], real)
    with pytest.raises(InputError, match="at turn 2: c against b"):
        check_script(["a", "c"], real)
    with pytest.raises(InputError, match="has 1 turns and recording 'r' has 2: they differ at turn 2"):
        check_script(["a"], real)
