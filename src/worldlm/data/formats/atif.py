"""ATIF, the Agent Trajectory Interchange Format, versions 1.0 to 1.8 (Harbor, RFC 0001).

A file is an object with `schema_version`, `agent` and `steps`. A turn is a call of an agent's step with the result that
names it (`source_call_id`). Strict reading keeps the rules of the format: steps numbered from 1, no key that the format
does not have, agent's fields on agent's steps, results that name a call of their step. Lenient reading uses what it
can: a result that names no call stays as a plain observation, of the step's one call, or of the call at its place, or
of what the agent said.

What we write holds our trajectory under `extra.worldlm`, so that reading it gives the same trajectory again.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from worldlm.core.errors import ActionError
from worldlm.core.jsonl import describe, parse_trajectory
from worldlm.core.text import canonical_json
from worldlm.core.types import DomainName, Observation, Tool, ToolCall, Trajectory, Turn
from worldlm.data.formats.chat import content_text, read_tools, tool_result
from worldlm.data.formats.format import (
    Format,
    Reading,
    RecordError,
    Source,
    WriteOptions,
    Written,
    asked,
    call_arguments,
    invalid_turn,
    make_trajectory,
    make_turn,
    make_world,
    parse,
    seen_tools,
    slug,
)
from worldlm.data.report import Losses
from worldlm.domains import get_domain

VERSIONS = tuple(f"ATIF-v1.{minor}" for minor in range(9))
NEWEST = VERSIONS[-1]
SAY = "message"
"""The call that an agent's words are written as, where the environment answered them."""
_KEYS = "bash_command"
_DONE = "mark_task_complete"


class ToolCallRecord(Source):
    """A call."""

    tool_call_id: str | None = None
    function_name: str
    arguments: Any = None
    extra: dict[str, Any] | None = None


class ResultRecord(Source):
    """A result."""

    source_call_id: str | None = None
    content: str | list[Any] | None = None
    subagent_trajectory_ref: list[Any] | None = None
    extra: dict[str, Any] | None = None


class ObservationRecord(Source):
    """The results of a step."""

    results: list[ResultRecord] = Field(default_factory=list)


class StepRecord(Source):
    """A step."""

    step_id: int | None = None
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    message: str | list[Any] | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallRecord] | None = None
    observation: ObservationRecord | None = None
    metrics: dict[str, Any] | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = None
    extra: dict[str, Any] | None = None


class AgentRecord(Source):
    """Who acted."""

    name: str = ""
    version: str = ""
    model_name: str | None = None
    tool_definitions: list[Any] | None = None
    extra: dict[str, Any] | None = None


class Document(Source):
    """A file."""

    schema_version: str
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: AgentRecord
    steps: list[StepRecord] = Field(min_length=1)
    notes: str | None = None
    final_metrics: dict[str, Any] | None = None
    continued_trajectory_ref: str | None = None
    subagent_trajectories: list[Any] | None = None
    extra: dict[str, Any] | None = None


# The strict form: the same keys and no others, with those that the format requires.


_STRICT = ConfigDict(extra="forbid")


class _StrictPart(Source):
    model_config = _STRICT
    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _text_or_source(self) -> "_StrictPart":
        if (self.text is None) == (self.type == "text") or (self.source is None) != (self.type == "text"):
            raise ValueError("a text part has 'text', another one has 'source'")
        return self


class _StrictMetrics(Source):
    model_config = _STRICT
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: dict[str, Any] | None = None


class _StrictTotals(Source):
    model_config = _STRICT
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = None
    extra: dict[str, Any] | None = None


class _StrictCall(ToolCallRecord):
    model_config = _STRICT
    tool_call_id: str
    arguments: dict[str, Any]


class _StrictResult(ResultRecord):
    model_config = _STRICT
    content: str | list[_StrictPart] | None = None


class _StrictObservation(ObservationRecord):
    model_config = _STRICT
    results: list[_StrictResult]  # type: ignore[assignment]


class _StrictStep(StepRecord):
    model_config = _STRICT
    step_id: int = Field(ge=1)
    timestamp: datetime | None = None  # type: ignore[assignment]
    message: str | list[_StrictPart]
    metrics: _StrictMetrics | None = None  # type: ignore[assignment]
    tool_calls: list[_StrictCall] | None = None  # type: ignore[assignment]
    observation: _StrictObservation | None = None


class _StrictAgent(AgentRecord):
    model_config = _STRICT
    name: str
    version: str


class _StrictDocument(Document):
    model_config = _STRICT
    agent: _StrictAgent
    final_metrics: _StrictTotals | None = None  # type: ignore[assignment]
    steps: list[_StrictStep] = Field(min_length=1)  # type: ignore[assignment]


_AGENT_ONLY = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")


def breach(value: Any) -> str | None:
    """The first rule of the format that a file breaks, with its key; None when it keeps them."""
    try:
        found = _StrictDocument.model_validate(value)
    except ValidationError as error:
        return describe(error)
    minor = VERSIONS.index(found.schema_version) if found.schema_version in VERSIONS else None
    if minor is None:
        return f"schema_version: {found.schema_version!r} is not known; known: {VERSIONS[0]} to {NEWEST}"
    if minor < 7 and not found.session_id:
        return f"session_id: {found.schema_version} needs it"
    for index, step in enumerate(found.steps):
        key = f"steps.{index}"
        if step.step_id != index + 1:
            return f"{key}.step_id: {step.step_id}, and the steps are numbered from 1, so it must be {index + 1}"
        if step.source != "agent":
            for name in _AGENT_ONLY:
                if getattr(step, name) is not None:
                    return f"{key}.{name}: only an agent's step has it, and this one's source is {step.source!r}"
        if step.llm_call_count == 0 and (step.metrics is not None or step.reasoning_content is not None):
            return f"{key}: llm_call_count is 0, so there can be neither metrics nor reasoning_content"
        ids = {call.tool_call_id for call in step.tool_calls or ()}
        for number, result in enumerate(step.observation.results if step.observation else ()):
            if result.source_call_id is not None and result.source_call_id not in ids:
                return (
                    f"{key}.observation.results.{number}.source_call_id: the step has no call {result.source_call_id!r}"
                )
    for index, child in enumerate(found.subagent_trajectories or ()):
        if problem := breach(child):
            return f"subagent_trajectories.{index}.{problem}"
        if not child.get("trajectory_id"):
            return f"subagent_trajectories.{index}.trajectory_id: an embedded trajectory needs it"
    return None


def sniff(value: Any) -> str | None:
    """The `schema_version`, where it begins with ATIF."""
    version = value.get("schema_version") if isinstance(value, dict) else None
    return version if isinstance(version, str) and version.startswith("ATIF") else None


def read(value: Any, reading: Reading) -> list[Trajectory]:
    """The trajectory of a file, and those of subagents that are embedded in it."""
    if reading.options.strict and (problem := breach(value)):
        raise RecordError(problem)
    found = parse(Document, value, reading)
    ours = (found.extra or {}).get("worldlm")
    if ours is not None:
        return [_restored(found, ours)]
    group = found.trajectory_id or found.session_id
    return _trajectories(found, reading, group if found.subagent_trajectories else None)


def _trajectories(found: Document, reading: Reading, group: str | None) -> list[Trajectory]:
    key = found.trajectory_id or found.session_id
    calls = [ToolCall(name=call.function_name) for step in found.steps for call in step.tool_calls or ()]
    domain = reading.options.domain or _domain(found.steps)
    task, opened = _opening(found.steps, reading)
    tools: tuple[Tool, ...] = ()
    if domain != "terminal":
        described = found.agent.tool_definitions
        tools = read_tools(described, reading) if described else seen_tools(calls, reading)
    world = make_world(reading, key or found.agent.name or "run", domain, asked(task), tools=tools)
    turns: list[Turn] = []
    for index, step in enumerate(found.steps):
        where = f"steps[{index}]"
        if step.is_copied_context:
            reading.dropped("a step that is copied from an earlier file", where)
        elif step.source == "agent":
            turns += _step_turns(step, reading, world, where)
        elif index >= opened:
            if step.message:
                reading.dropped(f"a message of the {step.source} in the middle", where)
            if step.observation and step.observation.results:
                reading.dropped(f"an observation that follows no action (a step of the {step.source})", where)
    for index, step in enumerate(found.steps):
        for name in ("reasoning_content", "metrics", "extra"):
            if getattr(step, name):
                reading.dropped(f"key steps[].{name}", f"steps[{index}]")
    for name in ("notes", "continued_trajectory_ref", "extra"):
        if getattr(found, name):
            reading.dropped(f"key {name}")
    made: list[Trajectory] = []
    if turns:
        policy = " ".join(part for part in (found.agent.name, found.agent.version) if part)
        if found.agent.model_name:
            policy = f"{policy} ({found.agent.model_name})"
        made.append(make_trajectory(reading, key, world, None, turns, policy=policy, group=group))
    for child in found.subagent_trajectories or ():
        made += _trajectories(parse(Document, child, reading, "subagent_trajectories[]"), reading, group)
    if not made:
        raise RecordError("steps: no action of the agent with an observation, so there is no turn")
    return made


def _domain(steps: Sequence[StepRecord]) -> DomainName:
    """What kind of environment it was: a terminal when all that is done is typing keys."""
    calls = [call for step in steps for call in step.tool_calls or ()]
    typed = [call for call in calls if call.function_name == _KEYS]
    keys = all(isinstance(call.arguments, dict) and "keystrokes" in call.arguments for call in typed)
    return "terminal" if typed and keys and all(call.function_name in (_KEYS, _DONE) for call in calls) else "mcp"


def _opening(steps: Sequence[StepRecord], reading: Reading) -> tuple[str | None, int]:
    """What the user asked before the agent's first step, and the number of that step."""
    task = None
    for index, step in enumerate(steps):
        if step.source == "agent":
            return task, index
        text = content_text(step.message, reading, f"steps[{index}]")
        if step.source == "system" and text:
            reading.dropped("the agent's system prompt", f"steps[{index}]")
        elif step.source == "user" and text:
            task = f"{task}\n\n{text}" if task else text
        if step.observation and step.observation.results:
            reading.dropped(f"an observation that follows no action (a step of the {step.source})", f"steps[{index}]")
    return task, len(steps)


def _step_turns(step: StepRecord, reading: Reading, world: Any, where: str) -> list[Turn]:
    calls = step.tool_calls or []
    results = list(step.observation.results) if step.observation else []
    if step.message and (calls or not results):
        reading.dropped("what the agent says", where)
    for result in results:
        if result.subagent_trajectory_ref:
            reading.dropped("a reference to a subagent's trajectory", where)
    if world.domain == "terminal":
        return _typed(step, results, reading, world, where)
    if not calls:
        return [_said(step, result, reading, world, where) for result in results]
    turns = []
    for position, call in enumerate(calls):
        found = _result_of(position, calls, results, reading, where)
        if found is None:
            reading.dropped("a call without a result", f"{where} {call.function_name}")
            continue
        text = content_text(found.content, reading, where)
        arguments = call_arguments(call.arguments, reading, where)
        if arguments is None:
            reading.changed("a call whose arguments are not JSON is an invalid action", where)
            turns.append(invalid_turn(call.function_name, str(call.arguments), text))
            continue
        made = ToolCall(name=call.function_name, arguments=arguments)
        turns.append(make_turn(reading, world, made, tool_result(text, reading, where), where))
    for _ in results:
        reading.dropped("a result that belongs to no call of its step", where)
    return turns


def _result_of(
    position: int, calls: Sequence[ToolCallRecord], results: list[ResultRecord], reading: Reading, where: str
) -> ResultRecord | None:
    """The result of a call, taken out of `results`: the one that names it, else one that names none."""
    ids = {call.tool_call_id for call in calls}
    for result in results:
        if result.source_call_id is not None and result.source_call_id == calls[position].tool_call_id:
            results.remove(result)
            return result
    free = [result for result in results if result.source_call_id not in ids or result.source_call_id is None]
    # One result for all of several calls came when the last of them was done.
    if not free or len(free) < len(calls) - position:
        return None
    results.remove(free[0])
    reading.changed("a result that names no call is the plain observation of the call at its place", where)
    return free[0]


def _said(step: StepRecord, result: ResultRecord, reading: Reading, world: Any, where: str) -> Turn:
    """What came of an agent's words, where there was no call."""
    reading.changed(f"words of the agent that the environment answered are a call of `{SAY}`", where)
    call = ToolCall(name=SAY, arguments={"content": content_text(step.message, reading, where)})
    turn = make_turn(reading, world, call, Observation(text=content_text(result.content, reading, where)), where)
    return turn.model_copy(update={"label": SAY})


def _typed(step: StepRecord, results: Sequence[ResultRecord], reading: Reading, world: Any, where: str) -> list[Turn]:
    """A step in a terminal: all keys of the step are one action, and its results one observation."""
    calls = step.tool_calls or []
    if not calls or not results:
        if calls or results:
            reading.dropped("a call without a result" if calls else "a result without a call", where)
        return []
    keys: list[dict[str, Any]] = []
    for call in calls:
        if call.function_name == _DONE:
            if len(calls) > 1:
                reading.dropped("a claim of completion beside keys", where)
            continue
        arguments = call_arguments(call.arguments, reading, where) or {}
        duration = arguments.get("duration", 1.0)
        keys.append({"keystrokes": str(arguments.get("keystrokes", "")), "duration": duration})
    text = "\n".join(content_text(result.content, reading, where) for result in results)
    if len(results) > 1:
        reading.changed("several results of a step in a terminal are one observation", where)
    return [
        make_turn(reading, world, ToolCall(name="terminal", arguments={"keys": keys}), Observation(text=text), where)
    ]


# Writing, and reading again what was written.


def write(trajectories: Iterable[Trajectory], options: WriteOptions, losses: Losses) -> Iterator[Written]:
    """One file a trajectory, of the newest version. Nothing is lost: what ATIF has no key for is under `extra`."""
    names: dict[str, int] = {}
    for trajectory in trajectories:
        name = slug(trajectory.id)
        names[name] = names.get(name, 0) + 1
        number = f"-{names[name]}" if names[name] > 1 else ""
        yield Written(f"{name}{number}.json", document(trajectory))


def document(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as an ATIF file."""
    world, domain = trajectory.world, get_domain(trajectory.world.domain)
    first = trajectory.initial.text if trajectory.initial else ""
    opening = "\n\n".join(part for part in (world.context, first) if part)
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": opening}]
    for number, turn in enumerate(trajectory.turns, 1):
        try:
            call = domain.parse_action(turn.action, world)
        except ActionError:
            call = None
        made = call or ToolCall(name="action", arguments={"text": turn.action})
        call_id = f"call_{number}"
        kept = turn.model_dump(mode="json", exclude={"observation": {"text"}}, exclude_defaults=True)
        if call is not None and domain.format_action(call) == turn.action:
            kept.pop("action")
        step: dict[str, Any] = {
            "step_id": number + 1,
            "source": "agent",
            "message": "",
            "tool_calls": [{"tool_call_id": call_id, "function_name": made.name, "arguments": made.arguments}],
            "extra": {"worldlm": kept},
        }
        told = turn.observation.text if turn.observation else turn.detail
        if told is not None:
            step["observation"] = {"results": [{"source_call_id": call_id, "content": told}]}
        steps.append(step)
    kept = trajectory.model_dump(mode="json", exclude={"turns"})
    tools = [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
        for t in domain.tools(world)
    ]
    agent: dict[str, Any] = {"name": trajectory.policy or "unknown", "version": "unknown"}
    if tools:
        agent["tool_definitions"] = tools
    return {
        "schema_version": NEWEST,
        "session_id": trajectory.id,
        "trajectory_id": trajectory.id,
        "agent": agent,
        "steps": steps,
        "final_metrics": {"total_steps": len(steps)},
        "extra": {"worldlm": kept},
    }


def _restored(found: Document, ours: Any) -> Trajectory:
    """Our own trajectory, from a file that we wrote."""
    try:
        turns = [_restored_turn(step, ours) for step in found.steps if step.source == "agent"]
        return parse_trajectory({**ours, "turns": turns})
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        said = describe(error) if isinstance(error, ValidationError) else canonical_json(str(error))
        raise RecordError(f"extra.worldlm: not as we write it: {said}") from None


def _restored_turn(step: StepRecord, ours: dict[str, Any]) -> dict[str, Any]:
    kept = dict((step.extra or {})["worldlm"])
    call = (step.tool_calls or [])[0]
    if "action" not in kept:
        domain = get_domain(ours["world"]["domain"])
        kept["action"] = domain.format_action(ToolCall(name=call.function_name, arguments=call.arguments))
    if kept.get("outcome", "ok") == "ok":
        results = step.observation.results if step.observation else []
        kept["observation"] = {**(kept.get("observation") or {}), "text": results[0].content}
    else:
        kept["observation"] = None
    return kept


ATIF = Format(
    name="atif",
    summary="Agent Trajectory Interchange Format; a JSON file a trajectory",
    versions=VERSIONS,
    sniff=sniff,
    read=read,
    write=write,
    many_files=True,
)
