"""Trajectories for the tests of cleaning, classes, masks and figures."""

from collections.abc import Sequence
from typing import Any

from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.text import canonical_json
from worldlm.core.types import Check, DomainName, Ending, Observation, Origin, Trajectory, Turn, World

PROMPT = "ann@box:~$"


def typed(line: str) -> str:
    """The action that types a line into a terminal."""
    return canonical_json([{"keystrokes": line + "\n", "duration": 1.0}])


def turn(action: str, text: str | None, **fields: Any) -> Turn:
    """A turn; without a text one that failed."""
    if text is None:
        return Turn(action=action, observation=None, outcome=Outcome.TIMED_OUT, detail="too slow", **fields)
    return Turn(action=action, observation=Observation(text=text), **fields)


def shell(line: str, output: str = "", **fields: Any) -> Turn:
    """A command with what a terminal shows of it."""
    shown = [f"{PROMPT} {line}", *([output] if output else []), PROMPT]
    return turn(typed(line), "\n".join(shown), **fields)


def session(turns: Sequence[Turn], domain: DomainName = "terminal", initial: str = PROMPT, **world: Any) -> Trajectory:
    """A trajectory."""
    return Trajectory(
        id="one",
        world=World(
            name="box", domain=domain, **{"initial_state": {"user": "ann"} if domain == "terminal" else "", **world}
        ),
        initial=Observation(text=initial),
        turns=tuple(turns),
        ending=Ending(kind=EndingKind.COMPLETED),
        policy="test",
        origin=Origin(kind="recorded", source="test", licence="CC0-1.0"),
    )


UNSTABLE = (Check(rule="stable", passed=False, message="still changing"),)
