"""Samples of a benchmark: files in AgentWorldBench's format, checked before anything is asked.

What the public format has no place for stands under one key, `worldlm`: the content class of the turn, the id of the
trajectory and the world as data. A sample without it is as good; it is then asked by its own messages.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from worldlm.core.errors import ActionError, InputError, user_path
from worldlm.core.jsonl import COMPRESSED, iter_jsonl
from worldlm.core.text import canonical_json, digest, number_of
from worldlm.core.types import DomainName, Message, Observation, Text, ToolCall, Trajectory, Turn, Value, World
from worldlm.data.content import ContentClass
from worldlm.data.formats import Reading, RecordError
from worldlm.data.formats.agentworldbench import Extra, naming, parse_sample, sniff, trajectory_of
from worldlm.data.formats.agentworldbench import Sample as PublicSample
from worldlm.domains import Domain, get_domain
from worldlm.judge.question import Question

OURS = "worldlm"
"""The one key of a record under which everything stands that is not the public format's."""
PUBLIC_KEYS = ("task", "id", "system_str", "prompt", "response", "current_prompt", "turn_idx", "total_turns")
SUFFIXES = (".jsonl", *(f".jsonl{ending}" for ending in COMPRESSED))
PARTS = ("realturns-a", "realturns-b")
"""Benchmarks that the package brings."""


class Sample(Value):
    """One turn to predict."""

    raw: dict[str, Any]
    """The record of the public format, as it stands in the file."""
    task: Text
    """The domain, perhaps with a prefix: `web`, `held-out/web`."""
    id: int | str
    domain: DomainName
    turn: int
    """The turn to predict, from 1."""
    turns: int
    """Turns of the whole trajectory."""
    trajectory: Text
    """Samples of one trajectory have one history: they are asked together, and resampled together."""
    content: ContentClass | None = None
    world: World
    """The world as data; of a sample that brings none, a world that is its system prompt."""
    brings_world: bool = False
    action: Text
    """The raw payload of the action whose answer is to be predicted."""
    call: ToolCall | None = None
    """The action, parsed; None where it does not parse here (the action of a foreign sample need not)."""
    length: int
    """Characters of the real observation."""
    digest: Text
    """Identifies what is asked and what is true: a changed sample is another one."""
    place: Text = ""
    """File and line."""

    @property
    def key(self) -> str:
        """`TASK/ID`: unique within a benchmark."""
        return f"{self.task}/{self.id}"

    @property
    def question(self) -> Question:
        """History, action and truth, as raw payloads. (Made anew at each call: histories are long.)"""
        return _question(self.raw, self.world)

    @property
    def messages(self) -> list[Message]:
        """The sample's own messages, as AgentWorldBench asks: its system prompt, each earlier turn, the action."""
        prompt, response = _texts(self.raw["prompt"]), _texts(self.raw["response"])
        turns = zip(prompt[: self.turn - 1], response, strict=False)
        history = [
            message
            for action, seen in turns
            for message in (Message(role="user", content=action), Message(role="assistant", content=seen))
        ]
        return [
            Message(role="system", content=self.raw["system_str"]),
            *history,
            Message(role="user", content=prompt[self.turn - 1]),
        ]


def parse_record(value: Any, place: str = "") -> Sample:
    """A line of a benchmark, of predictions or of scores as the sample that it is of.

    Raises RecordError that names the sample and the key that is wrong.
    """
    if sniff(value) is None:
        there = value.keys() if isinstance(value, dict) else ()
        lacking = [key for key in ("task", "prompt", "response", "system_str") if key not in there]
        raise RecordError(f"{naming(value)}this is no sample of AgentWorldBench: it lacks {', '.join(lacking)}")
    public = parse_sample(value, Reading(place, "agentworldbench", "1"))
    named = naming(value)
    count, total = len(public.prompt), public.total_turns if public.total_turns is not None else len(public.prompt)
    if total < count:
        raise RecordError(f"{named}total_turns: {total}, and prompt has {number_of(count, 'turn')}")
    extras = public.worldlm or Extra()
    if extras.world and extras.world.domain != public.domain:
        raise RecordError(f"{named}{OURS}.world.domain: {extras.world.domain!r}, and task is {public.task!r}")
    try:
        question = _question(value, extras.world)
    except (InputError, ValueError) as error:
        raise RecordError(f"{named}{error}") from None
    first = digest(public.task, public.system_str, public.prompt[0], public.response[0])[:16]
    return Sample(
        raw=value,
        task=public.task,
        id=public.id,
        domain=question.domain,
        turn=public.turn_idx,
        turns=total,
        trajectory=extras.trajectory or first,
        content=extras.content,
        world=question.world,
        brings_world=extras.world is not None,
        action=question.action,
        call=_call(question),
        length=len(question.truth.text),
        digest=_digest(value, extras.world),
        place=place,
    )


def _call(question: Question) -> ToolCall | None:
    try:
        return get_domain(question.domain).parse_action(question.action, question.world)
    except ActionError:
        return None


def _digest(raw: Mapping[str, Any], world: World | None) -> str:
    public = {key: raw[key] for key in PUBLIC_KEYS if key in raw}
    return digest(canonical_json(public), canonical_json(world.model_dump(mode="json") if world else None))[:16]


def _texts(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _question(raw: Mapping[str, Any], world: World | None) -> Question:
    reading = Reading("", "agentworldbench", "1")
    public = PublicSample.model_validate(raw)
    trajectory = trajectory_of(public, reading)
    place = world or trajectory.world
    domain = get_domain(place.domain)
    upto = trajectory.turns[: public.turn_idx]
    turns = tuple(_domains_own(turn, domain, place) for turn in upto)
    return Question.of(_with(trajectory, place, turns), public.turn_idx - 1)


def _with(trajectory: Trajectory, world: World, turns: tuple[Turn, ...]) -> Trajectory:
    return trajectory.model_copy(update={"world": world, "turns": turns})


def _domains_own(turn: Turn, domain: Domain, world: World) -> Turn:
    """A turn whose observation is more than its text says (structured content), where that loses nothing."""
    seen = turn.observation
    if seen is None or seen.raw is not None:
        return turn
    try:
        read = domain.read_observation(world, domain.parse_action(turn.action, world), seen.text)
    except (ActionError, ValueError):
        return turn
    return turn.model_copy(update={"observation": read}) if domain.write_observation(read) == seen.text else turn


def predicted_observation(sample: Sample, text: str) -> Observation:
    """An answer's text as an observation of the sample's domain; the text alone where the action does not parse.

    Raises ValueError when it cannot be one.
    """
    if sample.call is None:
        return Observation(text=text)
    return get_domain(sample.domain).read_observation(sample.world, sample.call, text)


# Files.


def benchmark_files(source: str) -> list[Path]:
    """The files of a benchmark: a file, all of a folder, or one that the package brings (`realturns-a`).

    Raises InputError when there are none.
    """
    if source in PARTS:
        from worldlm.data.realturns import realturns_files

        return list(realturns_files(source.removeprefix("realturns-")))
    path = user_path(source)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f"there is no file or folder {source}; a benchmark is one, or {' or '.join(PARTS)}")
    files = sorted(file for file in path.rglob("*") if file.name.endswith(SUFFIXES) and not file.name.startswith("."))
    if not files:
        raise InputError(f"{path} holds no benchmark: no file in it ends in {', '.join(SUFFIXES)}")
    return files


def read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Place (`FILE:LINE`) and JSON value of each line of a file, compressed or not. Raises InputError."""
    return iter_jsonl(path, lambda value: value)


def load_samples(
    source: str, *, domains: Sequence[str] = (), limit: int | None = None, ids: Sequence[str] = ()
) -> list[Sample]:
    """The samples of a benchmark, in the order of its files; none is asked before all are sound.

    `domains` and `ids` (`TASK/ID`) choose some, `limit` the first so many of each domain. Raises InputError that names
    file, line, sample and key of the first that is wrong and says how many more there are.
    """
    samples: list[Sample] = []
    problems: list[str] = []
    for file in benchmark_files(source):
        for place, value in read_lines(file):
            try:
                samples.append(parse_record(value, place))
            except RecordError as error:
                problems.append(f"{place}: {error}")
    problems += _doubles(samples)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise InputError(f"{problems[0]}{more}; mend or remove what is wrong: nothing was asked")
    if not samples:
        raise InputError(f"{source} holds no sample; name a file or folder that does")
    return _chosen(samples, source, domains, limit, ids)


def _doubles(samples: Sequence[Sample]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for sample in samples:
        if sample.key in seen:
            yield f"{sample.place}: sample {sample.key} stands at {seen[sample.key]} already"
        else:
            seen[sample.key] = sample.place


def _chosen(
    samples: Sequence[Sample], source: str, domains: Sequence[str], limit: int | None, ids: Sequence[str]
) -> list[Sample]:
    for name in domains:
        get_domain(name)
    known = {sample.key for sample in samples}
    if unknown := [key for key in ids if key not in known]:
        raise InputError(f"{source} has no sample {unknown[0]!r}; ids are like {samples[0].key!r}")
    chosen, taken = [], dict[str, int]()
    for sample in samples:
        if (domains and sample.domain not in domains) or (ids and sample.key not in ids):
            continue
        taken[sample.domain] = taken.get(sample.domain, 0) + 1
        if limit is None or taken[sample.domain] <= limit:
            chosen.append(sample)
    if not chosen:
        raise InputError(f"{source} has no sample of {', '.join(domains)}")
    return chosen


def benchmark_digest(samples: Iterable[tuple[str, str]]) -> str:
    """Identifies a benchmark, given key and digest of each sample: the same samples, in whatever order and files."""
    return digest(*sorted(f"{key} {of_sample}" for key, of_sample in samples))[:16]
