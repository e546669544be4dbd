r"""AgentWorldBench: samples, each of which asks for the observation of one turn of a real trajectory.

One JSON lines file a domain, `DOMAIN_test.jsonl`. `prompt` and `response` hold the action and the observation of every
turn, wrapped; the first action may show the state that it is done in:

    ### Turn 1
    **Current State:**
    user@box:~$

    **Action:**
    ```json
    [{"keystrokes": "ls\n", "duration": 1.0}]
    ```

    **Environment Observation:**
    user@box:~$ ls
    …

What we know of a sample beyond the public keys stands under one key, `worldlm`: the content class of the asked turn,
the trajectory that it is from, what its policy called the action, and the world as data. A sample with its world is
read as a trajectory in that world, where the world tells the sample's system prompt to the letter.

Inside, actions and observations are what is wrapped, byte for byte. A text that is not wrapped in just this way is kept
whole beside it (`Turn.raw_action`, `Observation.raw`), so that reading and writing give the sample's texts again.
A sample is one trajectory; its id says which turn was asked for.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import Field, StrictInt, field_validator

from worldlm.core.outcomes import Outcome
from worldlm.core.types import DOMAIN_NAMES, DomainName, Observation, Profile, Trajectory, Turn, World
from worldlm.data.content import ContentClass
from worldlm.data.formats.format import (
    Format,
    Reading,
    RecordError,
    Source,
    WriteOptions,
    Written,
    make_trajectory,
    parse,
    slug,
)
from worldlm.data.report import Losses
from worldlm.domains import get_domain
from worldlm.domains.render import system_message

SOURCE = "AgentWorldBench"
RESPONSE_HEAD = "**Environment Observation:**\n"
STATE_HEAD = "**Current State:**\n"
ACTION_HEAD = "**Action:**\n"
PROFILE = Profile(name="agentworldbench", thinking=True)
"""How our own trajectories' system prompts are written."""
MISSING = "the source holds no observation for this turn"

_ACTION = re.compile(r"\*\*Action:\*\*\n```(?P<fence>\w*)\n(?P<action>.*)\n```", re.DOTALL)
_HEAD = re.compile(r"### Turn \d+\n")
_LOOSE = re.compile(r".*?\*\*Action:\*\*\s*```\w*\n(?P<action>.*?)\n?```\s*", re.DOTALL)
_ID = re.compile(
    r"(?P<task>.*)#(?P<id>-?\d+)@(?P<turn>\d+)/(?P<total>\d+)(?::(?P<content>[a-z-]+))?(?:-\d+)?", re.DOTALL
)


class Extra(Source):
    """What the key `worldlm` of a sample holds."""

    content: ContentClass | None = None
    """What the asked turn's observation is made of."""
    trajectory: str | None = None
    """The id of the trajectory of which the sample is a part."""
    label: str | None = None
    """What the policy called the asked action."""
    world: World | None = None

    def to_json(self) -> dict[str, Any]:
        """As a JSON object, without what is not known."""
        told = {name: getattr(self, name) for name in ("content", "trajectory", "label")}
        known = {name: str(value) for name, value in told.items() if value is not None}
        return known if self.world is None else {**known, "world": self.world.model_dump(mode="json")}


class Sample(Source):
    """A line. `prompt` and `response` may be one text: then there is one turn."""

    task: str
    id: int
    system_str: str
    prompt: list[str] = Field(min_length=1)
    response: list[str]
    current_prompt: str | None = None
    turn_idx: StrictInt = Field(ge=1)
    total_turns: StrictInt | None = None
    worldlm: Extra | None = None

    @field_validator("prompt", "response", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @property
    def domain(self) -> str:
        """The domain: the part of `task` after the last `/`."""
        return self.task.rpartition("/")[2]


# Wrapping.


def wrap_action(number: int, action: str, state: str | None = None) -> str:
    """The text of turn `number` (from 1): the action in its fence and, if given, the state before it."""
    shown = f"{STATE_HEAD}{state}\n\n" if state is not None else ""
    return f"### Turn {number}\n{shown}{ACTION_HEAD}```{_fence(action)}\n{action}\n```"


def unwrap_action(text: str, state: str | None = None) -> tuple[str, str | None]:
    """Action and state (None where there is none) of a text that `wrap_action` made.

    `state` is what the state is known to be, if it is: a state may itself hold what looks like an action. Raises
    ValueError for a text that is wrapped in another way.
    """
    head = _HEAD.match(text)
    if head is None:
        raise ValueError("the text does not begin with '### Turn N'")
    number = int(head[0][len("### Turn ") : -1])
    body = text[head.end() :]
    if not body.startswith(STATE_HEAD):
        found: tuple[str, str | None] | None = _action_in(body)
    else:
        rest = body[len(STATE_HEAD) :]
        if state is not None and rest.startswith(f"{state}\n\n{ACTION_HEAD}"):
            end = len(state)
        else:
            end = rest.find(f"\n\n{ACTION_HEAD}```")
        found = None
        if end >= 0 and (inner := _action_in(rest[end + 2 :])) is not None:
            found = inner[0], rest[:end]
    if found is None or wrap_action(number, *found) != text:
        raise ValueError("the action is not wrapped as '**Action:**' and a fence")
    return found


def _action_in(text: str) -> tuple[str, None] | None:
    match = _ACTION.fullmatch(text)
    return (match["action"], None) if match else None


def _fence(action: str) -> str:
    try:
        json.loads(action)
    except (ValueError, RecursionError):
        return "python"
    return "json"


def wrap_observation(text: str) -> str:
    """The text of a response."""
    return RESPONSE_HEAD + text


def unwrap_observation(text: str) -> str | None:
    """What a response wraps; None where it is wrapped in another way."""
    return text[len(RESPONSE_HEAD) :] if text.startswith(RESPONSE_HEAD) else None


# Reading.


def sniff(value: Any) -> str | None:
    """`task`, `prompt` and `response`."""
    return "1" if isinstance(value, dict) and {"task", "prompt", "response", "system_str"} <= set(value) else None


def naming(value: Any) -> str:
    """How a message about a line begins: with the sample's name, where it has one."""
    known = isinstance(value, dict) and {"task", "id"} <= value.keys()
    return f"sample {value['task']}/{value['id']}: " if known else ""


def parse_sample(value: Any, reading: Reading) -> Sample:
    """A line as a sample. Raises RecordError that names the sample and the key."""
    named = naming(value)
    try:
        sample = parse(Sample, value, reading)
    except RecordError as error:
        raise RecordError(f"{named}{error}") from None
    count = len(sample.prompt)
    if sample.domain not in DOMAIN_NAMES:
        raise RecordError(f"{named}task: {sample.task!r} names no domain; it is one of {', '.join(DOMAIN_NAMES)}")
    if sample.total_turns is not None and sample.turn_idx > sample.total_turns:
        raise RecordError(f"{named}turn_idx: {sample.turn_idx}, and total_turns is {sample.total_turns}")
    if sample.turn_idx > count:
        raise RecordError(f"{named}turn_idx: {sample.turn_idx}, and prompt has {count} turns")
    if len(sample.response) > count:
        raise RecordError(f"{named}response: {len(sample.response)} texts, and prompt has {count}")
    if sample.turn_idx > len(sample.response):
        raise RecordError(f"{named}response: {len(sample.response)} texts, and turn_idx is {sample.turn_idx}")
    if sample.current_prompt is not None and sample.current_prompt != sample.prompt[sample.turn_idx - 1]:
        raise RecordError(f"{named}current_prompt: it differs from prompt[{sample.turn_idx - 1}]")
    for key in ("prompt", "response"):
        if isinstance(value[key], str):
            reading.changed(f"{key} is one text: it becomes a list of one")
    return sample


def read(value: Any, reading: Reading) -> list[Trajectory]:
    """The trajectory of a sample."""
    return [trajectory_of(parse_sample(value, reading), reading)]


def trajectory_of(sample: Sample, reading: Reading) -> Trajectory:
    """A sample's trajectory: its system prompt is the context, the state before turn 1 the first observation."""
    domain: DomainName = sample.domain  # type: ignore[assignment]
    extra = sample.worldlm or Extra()
    world = _stand_in(sample.task, sample.id, domain, sample.system_str)
    if extra.world is not None:
        if extra.world.domain == domain and sample_system(extra.world) == sample.system_str:
            world = extra.world
        else:
            reading.dropped("a world that does not tell the sample's system prompt", "worldlm.world")
    initial: Observation | None = None
    turns: list[Turn] = []
    for index, text in enumerate(sample.prompt):
        where = f"prompt[{index}]"
        raw: str | None = None
        try:
            action, state = unwrap_action(text)
        except ValueError as error:
            match = _LOOSE.fullmatch(text)
            action, state, raw = (match["action"] if match else text), None, text
            reading.changed(f"{error}; the text is kept whole beside the action", where)
        if index == 0 and state is not None:
            initial = Observation(text=state)
        if raw is None and wrap_action(index + 1, action, (state or None) if index == 0 else None) != text:
            raw = text
            reading.changed(
                "a turn with another number, or with a state in the middle, is kept whole beside the action", where
            )
        if index < len(sample.response):
            turns.append(
                Turn(action=action, raw_action=raw, observation=_observed(sample.response[index], reading, index))
            )
        else:
            reading.dropped("a turn without an observation: nothing to predict", where)
            turns.append(
                Turn(
                    action=action,
                    raw_action=raw,
                    observation=None,
                    outcome=Outcome.INFRASTRUCTURE_FAILED,
                    detail=MISSING,
                )
            )
    total = sample.total_turns if sample.total_turns is not None else len(sample.prompt)
    if extra.label is not None:
        asked = sample.turn_idx - 1
        turns[asked] = turns[asked].model_copy(update={"label": extra.label})
    key = f"{sample.task}#{sample.id}@{sample.turn_idx}/{total}" + (f":{extra.content}" if extra.content else "")
    made = make_trajectory(reading, key, world, initial, turns, source=SOURCE, group=extra.trajectory)
    return made.model_copy(update={"id": key})


def _stand_in(task: str, number: int, domain: DomainName, system: str) -> World:
    """What stands for the world of a sample that tells only a system prompt."""
    return World(name=slug(f"agentworldbench-{task}-{number}"), domain=domain, context=system)


def sample_system(world: World) -> str:
    """The system prompt of a sample in a world of ours."""
    return system_message(get_domain(world.domain), world, PROFILE, Observation(text=""))


def _observed(text: str, reading: Reading, index: int) -> Observation:
    inner = unwrap_observation(text)
    if inner is not None:
        return Observation(text=inner)
    reading.changed("a response without its heading is kept whole beside the observation", f"response[{index}]")
    return Observation(text=text, raw=text)


# Writing.


def write(trajectories: Iterable[Trajectory], options: WriteOptions, losses: Losses) -> Iterator[Written]:
    """Samples, in a file of their domain. What was read from this format is written as it was."""
    numbers = dict.fromkeys(DOMAIN_NAMES, 0)
    for trajectory in trajectories:
        domain = trajectory.world.domain
        match = _ID.fullmatch(trajectory.id) if trajectory.origin.source == SOURCE else None
        if match is not None:
            yield Written(f"{domain}_test.jsonl", _same_sample(trajectory, match))
            continue
        texts = _texts(trajectory, losses)
        if not texts:
            losses.dropped("a trajectory without a turn that has an observation", trajectory.id)
            continue
        _tell_losses(trajectory, losses)
        system, prompt, response = _sides(trajectory, texts)
        for turn in range(1, len(texts) + 1) if options.every_turn else (len(texts),):
            numbers[domain] += 1
            sample = _sample(domain, numbers[domain], system, prompt, response, turn, len(texts))
            yield Written(f"{domain}_test.jsonl", sample)


def make_sample(
    trajectory: Trajectory, turn: int, number: int, content: ContentClass | None = None, prefix: str = ""
) -> dict[str, Any]:
    """The sample that asks for turn `turn` (from 0) of a trajectory of ours; its id is `number`.

    Its task is the domain, after `prefix/` if there is one.

    It holds what came before and the answer, and nothing of what came after. Raises ValueError for a turn that has no
    observation.
    """
    asked = trajectory.turns[turn]
    if asked.observation is None:
        raise ValueError(f"turn {turn} of trajectory {trajectory.id!r} has no observation")
    history = trajectory.model_copy(update={"turns": trajectory.turns[: turn + 1]})
    system, prompt, response = _sides(history, _texts(history, Losses()))
    task = f"{prefix}/{trajectory.world.domain}" if prefix else trajectory.world.domain
    sample = _sample(task, number, system, prompt, response, len(prompt), len(prompt))
    extra = Extra(content=content, trajectory=trajectory.id, label=asked.label, world=trajectory.world)
    return {**sample, "worldlm": extra.to_json()}


def _sides(trajectory: Trajectory, texts: Sequence[tuple[str, str]]) -> tuple[str, list[str], list[str]]:
    """The system prompt, and the texts of the actions and of the observations."""
    first = (trajectory.initial.text if trajectory.initial else "") or None
    prompt = [
        wrap_action(number, action, first if number == 1 else None) for number, (action, _) in enumerate(texts, 1)
    ]
    return sample_system(trajectory.world), prompt, [wrap_observation(text) for _, text in texts]


def _texts(trajectory: Trajectory, losses: Losses) -> list[tuple[str, str]]:
    """Action and observation of each turn that has one, as a model would be shown them."""
    domain = get_domain(trajectory.world.domain)
    texts = []
    for number, turn in enumerate(trajectory.turns, 1):
        if turn.observation is None:
            losses.dropped(f"a turn without an observation ({turn.outcome.value})", f"{trajectory.id}: turn {number}")
        else:
            texts.append((turn.action, domain.write_observation(turn.observation)))
    return texts


def _tell_losses(trajectory: Trajectory, losses: Losses) -> None:
    losses.dropped("origin, ending, usage and what else is not in the texts", trajectory.id)
    losses.changed("world, tools and states are the system prompt", trajectory.id)


def _same_sample(trajectory: Trajectory, match: re.Match[str]) -> dict[str, Any]:
    state = trajectory.initial.text if trajectory.initial and trajectory.initial.text else None
    prompt = [
        _or(turn.raw_action, wrap_action(number, turn.action, state if number == 1 else None))
        for number, turn in enumerate(trajectory.turns, 1)
    ]
    seen = [turn.observation for turn in trajectory.turns if turn.observation is not None]
    response = [_or(observation.raw, wrap_observation(observation.text)) for observation in seen]
    task, number, turn = match["task"], int(match["id"]), int(match["turn"])
    world = trajectory.world
    theirs = world == _stand_in(task, number, world.domain, world.context)
    system = world.context if theirs else sample_system(world)
    sample = _sample(task, number, system, prompt, response, turn, int(match["total"]))
    extra = Extra(
        content=ContentClass(match["content"]) if match["content"] else None,
        trajectory=trajectory.group,
        label=trajectory.turns[turn - 1].label,
        world=None if theirs else world,
    ).to_json()
    return {**sample, "worldlm": extra} if extra else sample


def _or(raw: str | None, wrapped: str) -> str:
    return wrapped if raw is None else raw


def _sample(
    task: str, number: int, system: str, prompt: Sequence[str], response: Sequence[str], turn: int, total: int
) -> dict[str, Any]:
    return {
        "task": task,
        "id": number,
        "system_str": system,
        "prompt": list(prompt),
        "response": list(response),
        "current_prompt": prompt[turn - 1],
        "turn_idx": turn,
        "total_turns": total,
    }


AGENTWORLDBENCH = Format(
    name="agentworldbench",
    summary="Samples of AgentWorldBench; a JSON lines file a domain",
    versions=("1",),
    sniff=sniff,
    read=read,
    write=write,
    many_files=True,
)
