"""What a turn's observation is made of: which of it follows from what is known, and which is chance.

The classes are those of AgentWorldBench: *deterministic* content must match exactly, *pre-existing* content (what is
there and was never shown) must be plausible and well formed, runtime *metadata* (times, process ids, ids) must be in
range. They are told from replays of the same actions under another clock, process ids and host name.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import Any

from rapidfuzz.distance import Levenshtein

from worldlm.core.errors import InputError
from worldlm.core.types import Observation, Trajectory, Turn, Value, World

UNKNOWN_WORDS = 3
"""Different words that nothing before has told, from which on an observation is pre-existing content …"""
UNKNOWN_SHARE = 0.02
"""… where what is unknown is also this share of its words."""
PASSAGE_WORDS = 10
"""Words of one line, no three of which stood in this order before: with such a passage, one unknown word is enough."""
COMMON_WORLDS = 2
"""Worlds in whose observations a word, or three in a row, occur that belong to the language of the environments."""
DEPARTED_CHARS = 400
"""An observation of this length …"""
DEPARTED_SHARE = 0.5
"""… of which a replay has less than this share shows that the replay is in another state."""


class ContentClass(StrEnum):
    """What a turn's observation is, as far as a world model can know."""

    DETERMINISTIC = "deterministic"
    """It follows from the world, the history and the action."""
    PRE_EXISTING = "pre-existing"
    """The same in every replay, but it shows what nothing before has told."""
    METADATA = "metadata"
    """It differs between replays: times, process ids, ids, measured durations."""


class Unclassed(StrEnum):
    """Why a turn has no class."""

    NO_OBSERVATION = "no_observation"
    """The turn itself has none."""
    NO_REPLAY = "no_replay"
    """There is no replay to compare with."""
    DEPARTED = "departed"
    """From this turn on a replay is somewhere else: it ended or failed, its action named what differs between
    the two (a process id, the id of a commit), or it shows something else altogether."""


class Content(Value):
    """What is known of one turn's observation."""

    kind: ContentClass | None
    """None: see `why`."""
    why: Unclassed | None = None
    free: tuple[tuple[int, int], ...] = ()
    """Ranges [start, end) of characters of the observation's text that differ between replays, in order and apart. An
    empty range: a replay has something there that the turn has not."""
    unknown: float = 0.0
    """Share of the words of the observation that are unknown or stand in an unknown passage, in [0, 1]."""


Span = tuple[int, int]


def contents(
    trajectory: Trajectory, replays: Sequence[Trajectory], common: Collection[str] = frozenset()
) -> list[Content]:
    """What each turn's observation is, one entry a turn.

    `common`: the language of the environments, which tells nothing of one world (`common_language`). Without it the
    messages of programs count as unknown. Raises InputError for a replay of other actions.
    """
    for replay in replays:
        _check_actions(trajectory, replay)
    known = {*common, *_told(trajectory.world, trajectory.initial)}
    chance: set[str] = set()  # words that stood in a free range
    departed = _starts_elsewhere(trajectory, replays)
    found = []
    for index, turn in enumerate(trajectory.turns):
        twins = [replay.turns[index] if index < len(replay.turns) else None for replay in replays]
        departed = departed or _departs(turn, twins, chance & set(_TOKEN.findall(turn.action)))
        known.update(_language(turn.action))
        content = _content(turn, twins, known, departed=departed)
        found.append(content)
        if turn.observation is not None:
            text = turn.observation.text
            told = (token for start, end in content.free for token in _TOKEN.findall(text[start:end]))
            chance.update(token for token in told if len(token) > 1)
            known.update(_language(text))
    return found


def content_classes(
    trajectory: Trajectory, replays: Sequence[Trajectory], common: Collection[str] = frozenset()
) -> list[ContentClass | None]:
    """The class of each turn; None where there is no observation, or a replay departed. See `contents`."""
    return [content.kind for content in contents(trajectory, replays, common)]


def common_language(trajectories: Iterable[Trajectory], worlds: int = COMMON_WORLDS) -> frozenset[str]:
    """The words, and runs of three words, that occur in the observations of at least so many worlds.

    What programs say everywhere ("No such file or directory") a model can have learnt; what stands in one world
    alone it cannot. Give it training trajectories of the domain.
    """
    seen: dict[str, set[str]] = {}
    for trajectory in trajectories:
        name = trajectory.world.name
        for turn in trajectory.turns:
            for part in _language(turn.observation.text) if turn.observation is not None else ():
                names = seen.setdefault(part, set())
                if len(names) < worlds:
                    names.add(name)
    return frozenset(part for part, names in seen.items() if len(names) >= worlds)


# One turn.


def _content(turn: Turn, twins: Sequence[Turn | None], known: set[str], *, departed: bool) -> Content:
    if turn.observation is None:
        return Content(kind=None, why=Unclassed.NO_OBSERVATION)
    strange, unknown, has_passage = _unknown(turn.observation.text, known)
    if not twins or departed:
        why = Unclassed.DEPARTED if departed else Unclassed.NO_REPLAY
        return Content(kind=None, why=why, unknown=unknown)
    others = [twin.observation for twin in twins if twin is not None and twin.observation is not None]
    free = free_spans(turn.observation, others)
    if free or any(_rest(other) != _rest(turn.observation) for other in others):
        return Content(kind=ContentClass.METADATA, free=free, unknown=unknown)
    is_new = unknown >= UNKNOWN_SHARE and len(strange) >= (1 if has_passage else UNKNOWN_WORDS)
    return Content(kind=ContentClass.PRE_EXISTING if is_new else ContentClass.DETERMINISTIC, unknown=unknown)


def _rest(observation: Observation) -> object:
    return observation.structured, observation.is_error


# Where replays go astray.


def _check_actions(trajectory: Trajectory, replay: Trajectory) -> None:
    for number, (turn, twin) in enumerate(zip(trajectory.turns, replay.turns, strict=False), 1):
        if turn.action != twin.action:
            raise InputError(
                f"{replay.id!r} is no replay of {trajectory.id!r}: they differ at turn {number}, "
                f"{twin.action[:60]!r} against {turn.action[:60]!r}"
            )


def _starts_elsewhere(trajectory: Trajectory, replays: Sequence[Trajectory]) -> bool:
    """Whether a replay did not start, or on something else altogether."""
    start = trajectory.initial
    return any(
        (replay.initial is None) != (start is None)
        or (start is not None and replay.initial is not None and _is_other(start.text, replay.initial.text))
        for replay in replays
    )


def _departs(turn: Turn, twins: Sequence[Turn | None], named: set[str]) -> bool:
    """Whether one of the twins is somewhere else from this turn on; `named`: words of the action that are chance."""
    for twin in twins:
        if twin is None or twin.outcome is not turn.outcome:
            return True
        if turn.observation is None or twin.observation is None:
            continue
        text, other = turn.observation.text, twin.observation.text
        if turn.observation.is_error != twin.observation.is_error or (named and text != other):
            return True
        if _is_other(text, other):
            return True
    return False


def _is_other(text: str, other: str) -> bool:
    if text == other or min(len(text), len(other)) < DEPARTED_CHARS:
        return False
    free = sum(end - start for start, end in _difference(text, other))
    return len(text) - free < DEPARTED_SHARE * max(len(text), len(other))


# What differs.

_TOKEN = re.compile(r"\w+(?:\.\d+)?")
_PIECE = re.compile(r"\w+(?:\.\d+)?|\n|[^\S\n]+|[^\w\s]")
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?"
_TIME = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?"
_YEAR = r"(?:,? +\d{4}\b)?"
_ZONE = r"(?:Z| ?[+-]\d\d:?\d\d| ?UTC| ?GMT)"
_STAMP = re.compile(
    rf"\d{{4}}-\d\d-\d\d(?:[T ]{_TIME}{_ZONE}?)?"
    rf"|(?:{_DAY} +)?(?:\d{{1,2}} +{_MONTH}|{_MONTH} +\d{{1,2}}){_YEAR}(?: +{_TIME}{_ZONE}?)?{_YEAR}"
    rf"|{_TIME}{_ZONE}?"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)
"""Dates, times and UUIDs: where a part of one differs, all of it is chance."""


def free_spans(observation: Observation, others: Sequence[Observation]) -> tuple[Span, ...]:
    """Ranges [start, end) of an observation's text that differ in one of the `others`, in order and apart.

    Whole words and numbers differ, whole dates, times and UUIDs. An empty range: there is something in one of
    the others.
    """
    text = observation.text
    spans = [span for other in {other.text for other in others} for span in _difference(text, other)]
    if not spans:
        return ()
    stamps = [match.span() for match in _STAMP.finditer(text)]
    return tuple(_joined(_widened(spans, stamps)))


def _difference(text: str, other: str) -> Iterator[Span]:
    """What of `text` is not in `other`: by lines first, then by words in the lines that differ."""
    if text == other:
        return
    lines, theirs = text.splitlines(keepends=True), other.splitlines(keepends=True)
    line_at = [0, *accumulate(map(len, lines))]
    for start, end, their_start, their_end in _blocks(lines, theirs):
        pieces = _PIECE.findall("".join(lines[start:end]))
        piece_at = [line_at[start] + at for at in (0, *accumulate(map(len, pieces)))]
        for left, right, _, _ in _blocks(pieces, _PIECE.findall("".join(theirs[their_start:their_end]))):
            yield piece_at[left], piece_at[right]


def _blocks(ours: list[str], theirs: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """The runs in which two sequences differ: where they are in the one and in the other."""
    block: tuple[int, int, int, int] | None = None
    for step in Levenshtein.opcodes(ours, theirs):
        if step.tag == "equal":
            if block:
                yield block
            block = None
        else:
            start, _, their_start, _ = block or (step.src_start, 0, step.dest_start, 0)
            block = (start, step.src_end, their_start, step.dest_end)
    if block:
        yield block


def _widened(spans: Iterable[Span], stamps: Sequence[Span]) -> Iterator[Span]:
    for start, end in spans:
        touched = [stamp for stamp in stamps if stamp[0] < max(end, start + 1) and start < stamp[1]]
        yield min([start, *(stamp[0] for stamp in touched)]), max([end, *(stamp[1] for stamp in touched)])


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    last: Span | None = None
    for start, end in sorted(spans):
        if last and start <= last[1]:
            last = (last[0], max(last[1], end))
            continue
        if last:
            yield last
        last = (start, end)
    if last:
        yield last


# What is known.

_WORD = re.compile(r"[^\W\d_]{2,}")
_NO_WORDS = re.compile(
    r"\\[nrt]|\b(?=[a-f]*\d)[0-9a-f]{7,}\b|\b(?=\w*\d)(?=\w*[a-z])(?=\w*[A-Z])[\w+/-]{16,}", re.ASCII
)
"""Escapes of quoted text, hexadecimal ids, and binary data as text."""


def _lines(text: str) -> Iterator[list[str]]:
    """The words of each line, in small letters. Numbers and ids, which may be computed, are none."""
    for line in text.splitlines():
        yield _WORD.findall(_NO_WORDS.sub(" ", line).lower())


def _language(text: str) -> Iterator[str]:
    """The words of a text, and each three that follow one another in a line."""
    for words in _lines(text):
        yield from words
        yield from map(" ".join, zip(words, words[1:], words[2:], strict=False))


def _told(world: World, initial: Observation | None) -> Iterator[str]:
    """The language that a world model is shown before the first action."""
    for value in (world.context, world.initial_observation, initial.text if initial else None):
        yield from _language(value or "")
    for tool in world.tools or ():
        yield from _told_by(tool.model_dump(mode="json"))
    yield from _told_by(world.initial_state)


def _told_by(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _language(value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _language(key)
            yield from _told_by(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _told_by(inner)


def _unknown(text: str, known: set[str]) -> tuple[set[str], float, bool]:
    """The unknown words of a text; the share that is unknown; whether a whole passage is."""
    strange: set[str] = set()
    total = unknown = 0
    has_passage = False
    for words in _lines(text):
        marked = [word not in known for word in words]
        strange.update(word for word, mark in zip(words, marked, strict=True) if mark)
        run = 0  # of words that end here, no three of which are known
        for index, three in enumerate(zip(words, words[1:], words[2:], strict=False)):
            run = 0 if " ".join(three) in known else (run or 2) + 1
            if run >= PASSAGE_WORDS:
                has_passage = True
                marked[index + 3 - run : index + 3] = [True] * run
        total += len(words)
        unknown += sum(marked)
    return strange, unknown / total if total else 0.0, has_passage


__all__ = [
    "Content",
    "ContentClass",
    "Unclassed",
    "common_language",
    "content_classes",
    "contents",
    "free_spans",
]
