"""A model that answers out of a file: recorded calls, or recorded trajectories.

*Recorded calls* (`RecordingModel` writes them) are found by the exact request: messages, sampling and
seed. Of several calls with one request the last good one counts, else the last.

*Trajectories* are found by what was done. The user messages of a request are the actions so far, the
oldest perhaps missing; the last one is to be answered. A recorded turn answers when its action equals
the last user message and the turns before it have the actions of the messages before. (Whoever shortens a
history marks it in the first message that remains: so a first user message that *is* an action is that
of a first turn, and one that only *ends* with an action is that of a later turn.) Where several turns
fit, the one counts whose earlier observations stand in the assistant messages, then the one whose first
observation stands in the system message, then the first of the file.

A request that fits nothing is a MODEL_FAILED completion that names the file and the nearest action.
"""

import difflib
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from worldlm.core.errors import InputError
from worldlm.core.jsonl import read_jsonl, read_trajectories
from worldlm.core.outcomes import Outcome
from worldlm.core.types import (
    TRAJECTORY_SCHEMA,
    Completion,
    Message,
    Observation,
    Sampling,
    Trajectory,
    Turn,
    Usage,
    history_turns,
)
from worldlm.models.wire import failed
from worldlm.models.wrappers import CALL_SCHEMA, RecordedCall, request_key

ANSWER = ("<predicted_observation>", "</predicted_observation>")
"""Round every answer out of a trajectory, so that the observation comes out byte for byte, an empty one too."""

WriteObservation = Callable[[Observation], str]


class ReplayModel:
    """Satisfies `Model`. Make one with `ReplayModel.load`."""

    def __init__(self, name: str, source: "_Source"):
        self.name = name
        self._source = source

    @classmethod
    def load(cls, path: Path, *, write_observation: WriteObservation | None = None) -> "ReplayModel":
        """Read a file of recorded calls, or of trajectories.

        `write_observation` turns an observation into the text of an answer, as its domain writes it (by
        default, the observation's text). Raises InputError for a file that is neither, or has a bad line.
        """
        schema = _schema(path)
        source: _Source
        if schema == CALL_SCHEMA:
            calls = read_jsonl(path, RecordedCall.model_validate).items
            source = _Calls(path, calls)
        elif schema == TRAJECTORY_SCHEMA:
            source = _Trajectories(path, read_trajectories(path).items, write_observation or (lambda seen: seen.text))
        else:
            raise InputError(
                f"{path}: holds neither recorded calls ({CALL_SCHEMA}) nor trajectories ({TRAJECTORY_SCHEMA})"
            )
        # What the file says is a part of the name: a cache of another recording's answers must not serve it.
        return cls(f"replay:{path.name}@{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}", source)

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """What was recorded."""
        found = self._source.find(messages, sampling)
        if isinstance(found, str):
            return failed(Outcome.MODEL_FAILED, found, model=self.name)
        return found.model_copy(update={"usage": Usage(calls=1), "model": found.model or self.name})


class _Source(Protocol):
    def find(self, messages: Sequence[Message], sampling: Sampling) -> Completion | str:
        """The answer, or why there is none."""
        ...


def _schema(path: Path) -> str | None:
    """The schema that the first line of a file names."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            first = next((line for line in file if line.strip()), "")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return None
    return value.get("schema") if isinstance(value, dict) else None


class _Calls:
    def __init__(self, path: Path, calls: Sequence[RecordedCall]):
        self._path = path
        self._kept: dict[str, Completion] = {}
        for call in calls:
            key = request_key(call.messages, call.sampling)
            if call.completion.outcome is Outcome.OK or not self._is_good(key):
                self._kept[key] = call.completion
        self._actions = {call.messages[-1].content for call in calls if call.messages}

    def _is_good(self, key: str) -> bool:
        return key in self._kept and self._kept[key].outcome is Outcome.OK

    def find(self, messages: Sequence[Message], sampling: Sampling) -> Completion | str:
        found = self._kept.get(request_key(messages, sampling))
        asked = messages[-1].content if messages else ""
        return found or f"{self._path} holds no such call; {_nearest_action(asked, self._actions)}"


@dataclass(frozen=True, slots=True)
class _Place:
    """A turn of a trajectory: `turns[index]` is what would be answered."""

    initial: str
    turns: Sequence[Turn]
    index: int


class _Trajectories:
    def __init__(self, path: Path, trajectories: Sequence[Trajectory], write: WriteObservation):
        self._path = path
        self._write = write
        self._places: dict[str, list[_Place]] = {}
        for trajectory in trajectories:
            turns = history_turns(trajectory.turns)
            initial = trajectory.initial.text if trajectory.initial else ""
            for index, turn in enumerate(turns):
                self._places.setdefault(turn.action, []).append(_Place(initial, turns, index))

    def find(self, messages: Sequence[Message], sampling: Sampling) -> Completion | str:
        actions = [message.content for message in messages if message.role == "user"]
        if not actions:
            return f"{self._path}: the request holds no action"
        answers = [message.content for message in messages if message.role == "assistant"]
        system = "\n".join(message.content for message in messages if message.role == "system")
        fitting = [place for place in self._candidates(actions) if _follows(place, actions)]
        if not fitting:
            near = _nearest_action(actions[-1], self._places)
            return f"{self._path} holds no turn like this one after the {len(actions) - 1} before; {near}"
        best = max(fitting, key=lambda place: self._likeness(place, answers, system))
        turn = best.turns[best.index]
        assert turn.observation is not None
        text = self._write(turn.observation)
        return Completion(text=f"{ANSWER[0]}{text}{ANSWER[1]}", thinking=turn.thinking)

    def _candidates(self, actions: Sequence[str]) -> list[_Place]:
        if len(actions) > 1:
            return self._places.get(actions[-1], [])
        marked = [known for known in self._places if actions[0].endswith(known)]
        return [place for known in marked for place in self._places[known]]

    def _likeness(self, place: _Place, answers: Sequence[str], system: str) -> tuple[int, bool]:
        earlier = place.turns[: place.index]
        pairs = zip(reversed(earlier), reversed(answers), strict=False)
        same = sum(turn.observation is not None and self._write(turn.observation) in answer for turn, answer in pairs)
        return same, bool(place.initial) and place.initial in system


def _follows(place: _Place, actions: Sequence[str]) -> bool:
    """Whether the turns up to `place` have these actions."""
    first = place.index - len(actions) + 1
    if first < 0:
        return False
    recorded = [turn.action for turn in place.turns[first : place.index + 1]]
    if recorded[1:] != list(actions[1:]):
        return False
    return actions[0] == recorded[0] if first == 0 else actions[0] != recorded[0] and actions[0].endswith(recorded[0])


def _nearest_action(asked: str, known: "Sequence[str] | set[str] | dict[str, list[_Place]]") -> str:
    close = difflib.get_close_matches(asked, list(known), n=1, cutoff=0.0)
    return f"the nearest recorded action is {close[0]!r}" if close else "it holds no actions at all"
