"""What the domains with a graphical interface share: their screens, and actions as calls of a table of tools."""

import ast
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from worldlm.core.errors import ActionError, InputError, nearest
from worldlm.core.text import canonical_json
from worldlm.core.types import Check, Observation, Tool, ToolCall, Turn, World
from worldlm.domains.domain import HarnessReply, last_text, schema_problem
from worldlm.domains.tree import Tree, TreeError

UNCHANGED = "(the screen is as it was)"
"""What the harness answers where no earlier screen is known."""


# Screens.


def first_screen(world: World) -> Observation:
    """The first observation: a GUI world states it. Raises InputError when it does not."""
    if not world.initial_observation:
        raise InputError(f"world {world.name!r} has no initial_observation: write the first screen there")
    return Observation(text=world.initial_observation.rstrip("\n"))


def screen_before(world: World, turns: Sequence[Turn]) -> str | None:
    """The screen on which an action is done; None when no earlier one is known."""
    if not world.initial_observation and all(turn.observation is None for turn in turns):
        return None
    return last_text(world, turns, first_screen)


def keep_screen(
    world: World, turns: Sequence[Turn], *, terminated: bool, error: re.Pattern[str] | None = None
) -> HarnessReply:
    """The harness heard it, and nothing on the screen changes; what an earlier action got wrong (`error`) is gone."""
    screen = screen_before(world, turns) or UNCHANGED
    if error is not None:
        screen = error.sub("", screen, count=1)
    return HarnessReply(Observation(text=screen), terminated=terminated)


@dataclass(frozen=True, slots=True)
class Screens:
    """How a domain reads its screens, and the rules that they keep."""

    read: Callable[[str], Tree]
    """Raises TreeError."""
    alone: Callable[[Tree], list[Check]]
    """The rules for one screen by itself."""
    after: Callable[[ToolCall, Tree, Tree], list[Check]]
    """The rules for a screen that follows another after an action; one that does not apply is left out."""

    def problems(self, world: World) -> list[str]:
        """A GUI world shows its first screen, which keeps the rules, and says what lies behind it."""
        if not world.initial_observation:
            return ["initial_observation is missing: write the first screen there, in the domain's format"]
        try:
            screen = self.read(world.initial_observation)
        except TreeError as error:
            return [f"initial_observation: {error}"]
        found = [f"initial_observation: {rule.message}" for rule in self.alone(screen) if not rule.passed]
        if not world.initial_state and not world.hidden_state:
            found.append("neither initial_state nor hidden_state: say what there is besides the first screen")
        return found

    def check(self, world: World, turns: Sequence[Turn], call: ToolCall, observation: Observation) -> tuple[Check, ...]:
        """The screen can be read, keeps the rules, and follows from the action as far as a rule can tell."""
        try:
            now = self.read(observation.text)
        except TreeError as error:
            return (Check(rule="tree", passed=False, message=str(error)),)
        checks = [Check(rule="tree", passed=True), *self.alone(now)]
        shown = screen_before(world, turns)
        try:
            return (*checks, *(self.after(call, self.read(shown), now) if shown is not None else ()))
        except TreeError:  # the screen before was none: nothing can be told from it
            return tuple(checks)


def state_text(world: World) -> str:
    """The initial state: text as it stands, a mapping as JSON."""
    state = world.initial_state
    return state if isinstance(state, str) else canonical_json(state)


# Actions.


def tool(name: str, description: str, required: Sequence[str] = (), /, **properties: dict[str, Any]) -> Tool:
    """A row of an action table: its arguments in order, with their JSON Schemas; one not `required` may be absent."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return Tool(name=name, description=description, parameters=schema)


def find_tool(name: str, table: Sequence[Tool]) -> Tool:
    """The row called `name`. Raises ActionError with the nearest name."""
    for row in table:
        if row.name == name:
            return row
    raise ActionError(f"there is no action {name!r}; {nearest(name, [row.name for row in table])}")


def check_arguments(row: Tool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments in their canonical form: whole numbers as int, and those that equal their default left out.

    Raises ActionError that names the action, the argument and what is wrong with it.
    """
    properties = row.parameters["properties"]
    for name in arguments:
        if name not in properties:
            known = nearest(name, properties) if properties else "it takes none"
            raise ActionError(f"{row.name} has no argument {name!r}; {known}")
    missing = [name for name in row.parameters["required"] if name not in arguments]
    if missing:
        raise ActionError(f"{row.name} needs {missing[0]!r}: {properties[missing[0]].get('description', 'a value')}")
    clean: dict[str, Any] = {}
    for name, value in arguments.items():
        schema = properties[name]
        problem = schema_problem({name: value}, {"properties": {name: schema}})
        if problem is not None:
            choices = schema.get("enum")
            hint = f"; {nearest(value, choices)}" if choices and isinstance(value, str) else ""
            raise ActionError(f"{row.name}: {problem}{hint}")
        value = int(value) if schema.get("type") == "integer" else value
        if "default" not in schema or value != schema["default"]:
            clean[name] = value
    return clean


# Python text: read, never run.


def parse_python(text: str) -> ast.Module:
    """The syntax tree of `text`. Raises ActionError that names line and column."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in somebody's string is no news to our user
            return ast.parse(text)
    except SyntaxError as error:
        raise ActionError(f"not valid Python: {error.msg} (line {error.lineno}, column {error.offset})") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ActionError(f"not valid Python: {str(error) or 'nested too deeply'}") from error


def no_fence(text: str, what: str) -> None:
    """Raises ActionError when `text` stands in a code fence."""
    if text.lstrip().startswith("```"):
        raise ActionError(f"the action is {what} as it stands: leave out the code fence (```)")
