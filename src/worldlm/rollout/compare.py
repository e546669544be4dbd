"""How near a predicted environment comes to a recorded one, turn by turn.

By default each turn is predicted from the *real* history: the recording's turns before it are what the
environment is resumed with, so that one wrong prediction does not spoil the next (a benchmark asks the same
way). Free running instead lets the environment go on from its own answers.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
from rapidfuzz.distance import Levenshtein

from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import Environment, Resume
from worldlm.core.types import Observation, Step, Trajectory

MEASURE = "1 - Levenshtein distance / length of the longer text, in characters"
MAX_CHARACTERS = 20_000
"""Texts are compared over this many characters at most."""


def similarity(a: str, b: str) -> float:
    """Edit similarity in [0, 1]: 1 - (insertions, deletions, substitutions) / length of the longer text.

    Blanks at the ends of lines and blank lines at the end do not count; two empty texts are equal (1).
    """
    left, right = _trim(a)[:MAX_CHARACTERS], _trim(b)[:MAX_CHARACTERS]
    return Levenshtein.normalized_similarity(left, right)


def is_exact(a: str, b: str) -> bool:
    """Whether two texts are equal but for blanks at the ends of lines and blank lines at the end."""
    return _trim(a) == _trim(b)


def _trim(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n")


@dataclass(frozen=True, slots=True)
class ComparedTurn:
    """One turn of a recording beside its prediction."""

    trajectory: str
    """Id of the recording."""
    number: int
    """1-based turn of the recording."""
    action: str
    real: str
    step: Step
    similarity: float
    """0 when the step failed: `step.outcome` says how."""
    exact: bool

    @property
    def by_harness(self) -> bool:
        """Whether the harness answered and no model was asked: such a turn measures nothing."""
        return self.step.outcome is Outcome.OK and self.step.usage.calls == 0


@dataclass(frozen=True, slots=True)
class Agreement:
    """What a comparison comes to. Turns that the harness answered are in none of the figures but `by_harness`."""

    turns: int
    answered: int
    """Turns that have a prediction; the others are in `failed`."""
    exact: int
    similarity: float | None
    """Mean over all turns, a failed one counted at 0; None without turns."""
    similarity_answered: float | None
    """Mean over the answered turns."""
    failed: dict[str, int]
    """Failed turns by outcome."""
    by_harness: int

    @property
    def coverage(self) -> float:
        """Share of the turns that have a prediction."""
        return self.answered / self.turns if self.turns else 0.0


def agreement(rows: Sequence[ComparedTurn]) -> Agreement:
    """Sum up the compared turns."""
    asked = [row for row in rows if not row.by_harness]
    answered = [row for row in asked if row.step.outcome is Outcome.OK]
    total = sum(row.similarity for row in answered)
    return Agreement(
        turns=len(asked),
        answered=len(answered),
        exact=sum(row.exact for row in answered),
        similarity=total / len(asked) if asked else None,
        similarity_answered=total / len(answered) if answered else None,
        failed=dict(Counter(row.step.outcome.value for row in asked if row.step.outcome is not Outcome.OK)),
        by_harness=len(rows) - len(asked),
    )


def check_script(script: Sequence[str], recording: Trajectory) -> None:
    """Raise InputError that names the first turn at which a script and a recording differ."""
    actions = recording.actions
    for number, (ours, theirs) in enumerate(zip(script, actions, strict=False), 1):
        if ours != theirs:
            raise InputError(
                f"the script and recording {recording.id!r} differ at turn {number}: {ours} against {theirs}; "
                "leave the script out to take the recording's actions"
            )
    if len(script) != len(actions):
        raise InputError(
            f"the script has {len(script)} turns and recording {recording.id!r} has {len(actions)}: "
            f"they differ at turn {min(len(script), len(actions)) + 1}"
        )


async def compare(
    environment: Environment,
    recording: Trajectory,
    *,
    beside: Sequence[Environment] = (),
    seed: int | None = None,
    free: bool = False,
    on_turn: Callable[[ComparedTurn], None] | None = None,
) -> list[ComparedTurn]:
    """Predict each turn of `recording` in `environment`, which must satisfy `Resume`.

    Turns of the recording without an observation (invalid or failed) have nothing to compare with: they are
    left out. With `free`, the environment goes on from its own answers. Otherwise no turn waits for another: further
    environments like the first one, given as `beside`, predict turns at the same time. `on_turn` sees each row as
    soon as all before it are there. Raises InputError for another world than the recording's, for a recording that
    never started, and for `free` with `beside`.
    """
    environments = (environment, *beside)
    if free and beside:
        raise InputError("an environment that goes on from its own answers predicts one turn after another")
    if recording.initial is None:
        raise InputError(f"recording {recording.id!r} has no first observation: it never started")
    for each in environments:
        if each.world.name != recording.world.name:
            raise InputError(
                f"recording {recording.id!r} is of world {recording.world.name!r}, not {each.world.name!r}; "
                f"compare it with that world"
            )
        if not isinstance(each, Resume):
            raise InputError(f"{type(each).__name__} cannot start from a given history, which a comparison needs")
    asked = [index for index, turn in enumerate(recording.turns) if turn.observation is not None]
    queue = iter(asked)
    found: dict[int, ComparedTurn] = {}
    rows: list[ComparedTurn] = []
    refusal: WorldlmError | None = None

    async def predict(environment: Environment, index: int, initial: Observation) -> ComparedTurn:
        turn = recording.turns[index]
        assert turn.observation is not None
        assert isinstance(environment, Resume)
        if not free or index == asked[0]:
            await environment.resume(initial, () if free else recording.turns[:index], seed)
        step = await environment.step(turn.action)
        return _row(recording.id, index + 1, turn.action, turn.observation, step)

    async def worker(environment: Environment, initial: Observation, scope: anyio.CancelScope) -> None:
        nonlocal refusal
        try:
            for index in queue:
                found[index] = await predict(environment, index, initial)
                while len(rows) < len(asked) and (row := found.get(asked[len(rows)])) is not None:
                    rows.append(row)
                    if on_turn:
                        on_turn(row)
        except WorldlmError as error:
            refusal = refusal or error
            scope.cancel()

    async with anyio.create_task_group() as group:
        for each in environments:
            group.start_soon(worker, each, recording.initial, group.cancel_scope)
    if refusal:
        raise refusal
    return rows


def _row(name: str, number: int, action: str, real: Observation, step: Step) -> ComparedTurn:
    predicted = step.observation.text if step.observation else None
    return ComparedTurn(
        trajectory=name,
        number=number,
        action=action,
        real=real.text,
        step=step,
        similarity=0.0 if predicted is None else similarity(real.text, predicted),
        exact=predicted is not None and is_exact(real.text, predicted),
    )
