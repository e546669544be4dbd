"""What a format is, and what its reader is given beside the record: options, and where losses are told."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from worldlm.core.errors import ActionError
from worldlm.core.jsonl import describe
from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.text import canonical_json, digest
from worldlm.core.types import (
    DomainName,
    Ending,
    Observation,
    Origin,
    Tool,
    ToolCall,
    Trajectory,
    Turn,
    World,
)
from worldlm.data.report import Effect, Losses
from worldlm.domains import get_domain

UNKNOWN_LICENCE = "unknown"


class RecordError(ValueError):
    """A record that cannot be used. The message names the key and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How records are to be read."""

    strict: bool = False
    """Refuse what breaks the format's own rules (else: use what can be used, and say so)."""
    domain: DomainName | None = None
    """What kind of environment it was, where a format does not say (by default, what its reader takes it for)."""
    source: str | None = None
    """Where the recordings are from, where they do not say so themselves."""
    licence: str | None = None
    """Their licence, where they do not say so themselves."""


@dataclass(slots=True)
class Reading:
    """One record being read."""

    place: str
    format: str
    version: str
    options: ReadOptions = ReadOptions()
    losses: Losses = field(default_factory=Losses)

    def changed(self, why: str, where: object = "") -> None:
        """Something is kept in another form."""
        self.losses.changed(why, self._at(where))

    def verbatim(self, why: str, where: object = "") -> None:
        """Something is kept as the source wrote it, and that is not the domain's wire format."""
        self.losses.verbatim(why, self._at(where))

    def dropped(self, why: str, where: object = "") -> None:
        """Something is not kept."""
        self.losses.dropped(why, self._at(where))

    def _at(self, where: object) -> str:
        return f"{self.place}: {where}" if where != "" else self.place


@dataclass(frozen=True, slots=True)
class Written:
    """A piece of output: its file (in the output folder; `""` for the one output file) and its value."""

    file: str
    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How trajectories are to be written."""

    every_turn: bool = False
    """Where a record is about one turn: one for every turn (else: for the last)."""


@dataclass(frozen=True, slots=True)
class Format:
    """One way in which others write trajectories down."""

    name: str
    summary: str
    versions: tuple[str, ...]
    """The known ones; the first is what a record without a version is taken for."""
    sniff: Callable[[Any], str | None]
    """The version that a record has, None when it is of another format. It may be one that is not known."""
    read: Callable[[Any, Reading], list[Trajectory]]
    """A record's trajectories. Raises RecordError."""
    write: Callable[[Iterable[Trajectory], WriteOptions, Losses], Iterator[Written]] | None = None
    many_files: bool = False
    """Whether it is written as a folder of files."""


# What readers share.


class Source(BaseModel):
    """A piece of a record. A key that is not declared is not used, and counted as dropped."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)


S = TypeVar("S", bound=Source)


def parse(model: type[S], value: Any, reading: Reading, key: str = "") -> S:
    """A piece of a record as `model`; what it does not declare is counted. Raises RecordError that names the key."""
    try:
        found = model.model_validate(value)
    except ValidationError as error:
        where = f"{key}." if key else ""
        raise RecordError(where + describe(error)) from None
    for name in sorted(set(_undeclared(found, key))):
        reading.dropped(f"key {name}")
    return found


def _undeclared(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Source):
        for name, item in (value.model_extra or {}).items():
            if item not in (None, "", [], {}):
                yield f"{path}.{name}".lstrip(".")
        for name in type(value).model_fields:
            yield from _undeclared(getattr(value, name), f"{path}.{name}".lstrip("."))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _undeclared(item, f"{path}[]")


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as action text of the domains whose actions are calls."""
    return canonical_json({"name": name, "arguments": dict(arguments)})


def call_arguments(value: Any, reading: Reading, where: object = "") -> dict[str, Any] | None:
    """Arguments of a call in their one form, a mapping: formats write a mapping, or JSON of one in a string.

    None where they are a string that holds no mapping: then the call was no call.
    """
    for again in range(3):
        if isinstance(value, dict):
            if again > 1:
                reading.changed("arguments that were encoded twice are decoded", where)
            return value
        if value is None or value == "":
            return {}
        if not isinstance(value, str):
            return None
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return None


def make_turn(reading: Reading, world: World, call: ToolCall, observation: Observation, where: object = "") -> Turn:
    """A turn of `world`'s domain. Raises RecordError when the call is no action there."""
    domain = get_domain(world.domain)
    try:
        action = domain.format_action(call)
        domain.parse_action(action, world)
    except (ActionError, KeyError, TypeError) as error:
        raise RecordError(f"{where}: {call.name} is no action of the domain {world.domain!r}: {error}") from None
    return Turn(action=action, observation=observation)


def invalid_turn(name: str, arguments: str, told: str | None) -> Turn:
    """A call whose arguments are not JSON: no valid action, and what the agent was told of it."""
    return Turn(
        action=f'{{"name": {json.dumps(name)}, "arguments": {arguments}}}',
        observation=None,
        outcome=Outcome.INVALID_ACTION,
        detail=told or "the arguments are not JSON",
    )


def seen_tools(calls: Iterable[ToolCall], reading: Reading) -> tuple[Tool, ...]:
    """The tools that were called, for a source that does not describe them."""
    names = list(dict.fromkeys(call.name for call in calls))
    if names:
        reading.changed("the source describes no tools: those that were called are listed by name")
    return tuple(Tool(name=name, parameters={"type": "object"}) for name in names)


_NOT_IN_NAMES = re.compile(r"[^a-z0-9._-]+")


def slug(text: str) -> str:
    """A text as a world's name."""
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-._")[:80] or "world"


def asked(task: str | None) -> str:
    """A world's context that says what the agent was asked."""
    return f"The agent was asked:\n{task.strip()}" if task and task.strip() else ""


def make_world(reading: Reading, name: str, domain: DomainName, context: str = "", **more: Any) -> World:
    """A world for imported turns."""
    return World(name=slug(f"{reading.format}-{name}"), domain=domain, context=context, **more)


def make_trajectory(
    reading: Reading,
    key: str | None,
    world: World,
    initial: Observation | None,
    turns: Sequence[Turn],
    *,
    policy: str = "",
    ending: EndingKind = EndingKind.COMPLETED,
    detail: str | None = None,
    source: str | None = None,
    licence: str | None = None,
    group: str | None = None,
) -> Trajectory:
    """A trajectory of this record. Without a `key` of its own it is named by what was done."""
    known = licence or reading.options.licence
    if not known:
        reading.changed("the source names no licence: it is given as unknown")
    if initial is None:
        reading.changed("the source holds no first observation: an empty text stands for it")
    name = key or digest(*(turn.model_dump_json() for turn in turns))[:16]
    return Trajectory(
        id=f"{reading.format}-{name}",
        world=world,
        initial=initial if initial is not None else Observation(text=""),
        turns=tuple(turns),
        ending=Ending(kind=ending, detail=detail),
        policy=policy or "unknown",
        group=group,
        origin=Origin(
            kind="recorded",
            source=source or reading.options.source or reading.format,
            version=reading.version,
            licence=known or UNKNOWN_LICENCE,
        ),
    )


# Recordings of screens: what cannot be expressed breaks them, for what follows depends on it.


@dataclass(frozen=True, slots=True)
class Shot:
    """A screen, and the action that led to it (None where that cannot be told, or cannot be expressed)."""

    action: str | None
    screen: Observation | None
    """None where it cannot be read."""
    raw_action: str | None = None
    label: str | None = None


def segments(shots: Iterable[Shot], reading: Reading) -> list[tuple[Observation, list[Turn]]]:
    """First screen and turns of each unbroken part."""
    found: list[tuple[Observation, list[Turn]]] = []
    before: Observation | None = None
    for shot in shots:
        if shot.screen is None:
            before = None
        elif before is None or shot.action is None:
            if shot.action is not None:
                reading.dropped("an action on a screen that is not known", shot.raw_action or shot.action)
            before = shot.screen
            found.append((before, []))
        else:
            before = shot.screen
            turn = Turn(action=shot.action, raw_action=shot.raw_action, observation=before, label=shot.label)
            found[-1][1].append(turn)
    whole = [(first, turns) for first, turns in found if turns]
    if len(whole) < len(found):
        reading.losses.tell(
            Effect.DROPPED, "a screen that no action is known of", reading.place, len(found) - len(whole)
        )
    return whole


def part_key(key: str, index: int, parts: int) -> str:
    """The name of one of several parts of a recording."""
    return key if parts == 1 else f"{key}-part{index + 1}"
