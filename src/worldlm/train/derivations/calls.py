"""What follows for a tool call: from the tools, from the arguments, and from earlier calls and their results.

Shared by the domains whose actions are tool calls.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from worldlm.core.errors import ActionError
from worldlm.core.types import Observation, ToolCall, Trajectory, Turn, World
from worldlm.domains import get_domain
from worldlm.domains.domain import schema_problem
from worldlm.train.derivations.claims import Claim, Kind, claim, number, rows

LEAST_VALUE = 3
"""Characters from which on the value of an argument is looked up in what was said before."""
MOST_VALUES = 2
"""Values of which one derivation tells where they come from."""
MOST_KEYS = 6
"""Keys of an object that are named."""


@dataclass(frozen=True)
class CallScene:
    """A turn of a domain whose actions are tool calls."""

    world: World
    turns: Sequence[Turn]
    """Those before that have an observation."""
    numbers: Sequence[int]
    """Their numbers in the trajectory, from 1."""
    action: str
    call: ToolCall | None
    """None for an action that is none."""
    answer: Observation

    def answered(self, observation: Observation) -> "CallScene":
        """The same turn, if this had been the answer."""
        return replace(self, answer=observation)

    @property
    def truth(self) -> str:
        """The answer's text."""
        return self.answer.text

    @property
    def said(self) -> str:
        """The answer's text."""
        return self.answer.text

    def turn(self, text: str) -> Turn | None:
        """The earlier turn of a number that a claim names."""
        at = number(text)
        return self.turns[self.numbers.index(at)] if at in self.numbers else None

    def newest(self, holds: Callable[[Turn], bool]) -> int | None:
        """The number of the newest earlier turn of which something holds."""
        pairs = zip(reversed(self.numbers), reversed(self.turns), strict=True)
        return next((at for at, turn in pairs if holds(turn)), None)

    @property
    def schema(self) -> dict[str, Any] | None:
        """The schema of the tool's arguments; None where the tool is not known."""
        if self.call is None:
            return None
        tools = get_domain(self.world.domain).tools(self.world)
        return next((tool.parameters for tool in tools if tool.name == self.call.name), None)


def call_scenes(trajectory: Trajectory) -> Iterator[tuple[int, CallScene]]:
    """The turns of such a trajectory."""
    domain = get_domain(trajectory.world.domain)
    turns: list[Turn] = []
    numbers: list[int] = []
    for at, turn in enumerate(trajectory.turns, 1):
        if turn.observation is None:
            continue
        try:
            call = domain.parse_action(turn.action, trajectory.world)
        except ActionError:
            call = None
        yield at, CallScene(trajectory.world, turns, numbers, turn.action, call, turn.observation)
        turns.append(turn)
        numbers.append(at)


# What holds.


def _missing(scene: CallScene, argument: str, tool: str) -> bool:
    schema = scene.schema
    return (
        schema is not None
        and scene.call is not None
        and scene.call.name == tool
        and argument in schema.get("required", ())
        and argument not in scene.call.arguments
    )


def _unknown(scene: CallScene, argument: str, tool: str) -> bool:
    schema = scene.schema
    return (
        schema is not None
        and scene.call is not None
        and scene.call.name == tool
        and argument in scene.call.arguments
        and argument not in schema.get("properties", {})
    )


def _breaks(scene: CallScene, argument: str, kind: str) -> bool:
    schema, call = scene.schema, scene.call
    wanted = (schema or {}).get("properties", {}).get(argument)
    if call is None or not isinstance(wanted, dict) or argument not in call.arguments:
        return False
    return wanted.get("type") == kind and schema_problem(call.arguments[argument], {"type": kind}) is not None


def _accepted(scene: CallScene, tool: str) -> bool:
    return (
        scene.call is not None
        and scene.call.name == tool
        and scene.schema is not None
        and schema_problem(scene.call.arguments, scene.schema) is None
    )


def _no_tool(scene: CallScene, tool: str) -> bool:
    return scene.call is not None and scene.call.name == tool and scene.schema is None


def stands(value: str, text: str) -> bool:
    """Whether a value stands in a text, and not as a part of a longer word or number."""
    return value in text and re.search(rf"(?<![\w.-]){re.escape(value)}(?![\w-]|\.\d)", text) is not None


def _told(scene: CallScene, value: str, turn: str) -> bool:
    earlier = scene.turn(turn)
    seen = earlier.observation if earlier else None
    return value in scene.action and seen is not None and stands(value, seen.text)


def _given(scene: CallScene, value: str, turn: str) -> bool:
    earlier = scene.turn(turn)
    return value in scene.action and earlier is not None and stands(value, earlier.action)


def _never(scene: CallScene, value: str) -> bool:
    world = scene.world
    known = [world.context, str(world.initial_state), world.initial_observation or ""]
    for turn in scene.turns:
        known += (turn.action, turn.observation.text if turn.observation else "")
    return value in scene.action and not any(value in text for text in known)


def _again(scene: CallScene, turn: str) -> bool:
    earlier = scene.turn(turn)
    return earlier is not None and earlier.action == scene.action


def _same(scene: CallScene, turn: str) -> bool:
    earlier = scene.turn(turn)
    return earlier is not None and earlier.observation is not None and earlier.observation.text == scene.answer.text


def load(text: str) -> Any:
    """The JSON value that a text is; None for any other text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


ERRORS: dict[str, tuple[str, ...]] = {
    "something is not found": ("not found", "no such", "does not exist", "unknown", "doesn't exist", "not in the"),
    "something is there already": ("already", "exists"),
    "it is not allowed": ("denied", "not allowed", "not permitted", "outside allowed", "forbidden", "only select"),
    "an argument is missing": ("missing", "required"),
    "an argument is not valid": (
        "invalid",
        "must be",
        "not valid",
        "expected",
        "wrong arguments",
        "validation",
        "valid range",
    ),
    "it cannot be done now": ("cannot", "unable", "not authenticated", "not logged in", "insufficient", "not enough"),
    "the program itself fails": ("error during execution", "traceback", "exception", "error"),
}
"""What is wrong, and the words of which one tells it. The first that fits is meant."""
_SAYS_ERROR = re.compile(
    r"""^\s*(\{\s*["']error["']|[\w ]*error\b|input validation error|[\w.]+error:)""", re.IGNORECASE
)


def is_error(answer: Observation) -> bool:
    """Whether an answer reports a failure, by its flag or its first words."""
    return answer.is_error or _SAYS_ERROR.match(answer.text) is not None


def error_of(answer: Observation) -> str | None:
    """What is wrong, in the words of the table."""
    text = answer.text.lower()
    return next((what for what, signs in ERRORS.items() if any(sign in text for sign in signs)), None)


def _answers(scene: CallScene, form: str) -> bool:
    return form_of(scene.answer) == form


def form_of(answer: Observation) -> str:
    """In one sentence, what an answer that is no failure looks like."""
    value = load(answer.text)
    if isinstance(value, dict):
        names = list(value)
        shown = ", ".join(names[:MOST_KEYS]) + (", …" if len(names) > MOST_KEYS else "")
        return f"an object with {shown}" if names else "an empty object"
    if isinstance(value, list):
        return f"a list of {rows(len(value), 'item')}" if value else "an empty list"
    if not answer.text.strip():
        return "nothing"
    return f"a text of {rows(answer.text.count(chr(10)) + 1)}"


def _like(scene: CallScene, turn: str) -> bool:
    earlier = scene.turn(turn)
    if earlier is None or earlier.observation is None or scene.call is None:
        return False
    same_tool = f'"name":{json.dumps(scene.call.name)}' in earlier.action.replace('"name": ', '"name":')
    return same_tool and _shape(earlier.observation) == _shape(scene.answer) != ()


def _shape(answer: Observation) -> tuple[str, ...]:
    """The keys of an object, or of the first object of a list."""
    value = load(answer.text)
    value = value[0] if isinstance(value, list) and value else value
    return tuple(sorted(value)) if isinstance(value, dict) else ()


def _copied(scene: CallScene, argument: str) -> bool:
    value = scene.call.arguments.get(argument) if scene.call else None
    return isinstance(value, str) and len(value) >= LEAST_VALUE and value in scene.answer.text


CALL_KINDS: dict[str, Kind[CallScene]] = {
    "no_tool": Kind("There is no tool called {tool}.", _no_tool),
    "missing": Kind("{argument} is required by {tool} and missing.", _missing),
    "unknown": Kind("{argument} is no argument of {tool}.", _unknown),
    "breaks": Kind("{argument} has to be of type {kind}, and is not.", _breaks),
    "accepted": Kind("The arguments are as {tool} takes them.", _accepted),
    "told": Kind("{value} was told at turn {turn}.", _told),
    "given": Kind("{value} was given at turn {turn}.", _given),
    "never": Kind("{value} was never told before.", _never),
    "again": Kind("The same call was made at turn {turn}.", _again),
    "like": Kind("The answer has the keys of that of turn {turn}.", _like, "answer"),
    "same": Kind("The answer is that of turn {turn} again.", _same, "answer"),
    "copied": Kind("The answer repeats {argument}.", _copied, "answer"),
    "error": Kind(
        "It fails: {what}.", lambda scene, what: is_error(scene.answer) and error_of(scene.answer) == what, "answer"
    ),
    "answers": Kind(
        "The answer is {form}.", lambda scene, form: not is_error(scene.answer) and _answers(scene, form), "answer"
    ),
}
"""What can be said of any tool call."""


# The rules.


def arguments(scene: CallScene) -> Iterator[Claim]:
    """How the arguments agree with the tool's schema."""
    if scene.call is None:
        return
    tool = scene.call.name
    schema = scene.schema
    if schema is None:
        yield claim("no_tool", tool=tool)
        return
    properties = schema.get("properties", {})
    broken = [claim("missing", argument=name, tool=tool) for name in schema.get("required", ())]
    broken += [claim("unknown", argument=name, tool=tool) for name in scene.call.arguments]
    broken += [
        claim("breaks", argument=name, kind=wanted.get("type"))
        for name, wanted in properties.items()
        if isinstance(wanted, dict)
    ]
    held = [each for each in broken if CALL_KINDS[each.kind].holds(scene, **each.values)]
    if held:
        yield held[0]
    elif schema_problem(scene.call.arguments, schema) is None:
        yield claim("accepted", tool=tool)


def origins(scene: CallScene) -> Iterator[Claim]:
    """Where the values of the arguments come from."""
    told = 0
    for value in _values(scene.call.arguments if scene.call else {}):
        if told == MOST_VALUES or len(value) < LEAST_VALUE or len(value) > 60 or "\n" in value:
            continue
        heard = scene.newest(partial(_heard, value))
        given = scene.newest(partial(_said, value))
        found = None
        if heard is not None:
            found = claim("told", value=value, turn=heard)
        elif given is not None:
            found = claim("given", value=value, turn=given)
        elif is_error(scene.answer):
            found = claim("never", value=value)
        if found and CALL_KINDS[found.kind].holds(scene, **found.values):
            told += 1
            yield found


def _heard(value: str, turn: Turn) -> bool:
    return turn.observation is not None and stands(value, turn.observation.text)


def _said(value: str, turn: Turn) -> bool:
    return stands(value, turn.action)


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _values(inner)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def repeated(scene: CallScene) -> Iterator[Claim]:
    """The same call was made before."""
    earlier = scene.newest(lambda turn: turn.action == scene.action)
    if earlier is not None:
        yield claim("again", turn=earlier)
        yield from [claim("same", turn=earlier)] if _same(scene, str(earlier)) else outcome(scene)


def outcome(scene: CallScene) -> Iterator[Claim]:
    """What the answer is."""
    if is_error(scene.answer):
        yield claim("error", what=error_of(scene.answer) or "")
        return
    alike = next((at for at in reversed(scene.numbers) if _like(scene, str(at))), None)
    copied = [name for name in scene.call.arguments if _copied(scene, name)] if scene.call else []
    if copied:
        yield claim("copied", argument=copied[0])
    yield claim("answers", form=form_of(scene.answer)) if alike is None else claim("like", turn=alike)


def call(scene: CallScene) -> Iterator[Claim]:
    """Arguments, where they come from, and what the answer is."""
    yield from arguments(scene)
    yield from origins(scene)
    yield from outcome(scene)


__all__ = [
    "CALL_KINDS",
    "CallScene",
    "arguments",
    "call",
    "call_scenes",
    "error_of",
    "form_of",
    "is_error",
    "load",
    "origins",
    "outcome",
    "repeated",
    "stands",
]
