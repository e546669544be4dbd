"""The nouns: what an agent does, what comes back, and what is kept of it. All are frozen values."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from worldlm.core.outcomes import EndingKind, Outcome
from worldlm.core.text import clean_json, clean_text

DomainName: TypeAlias = Literal["terminal", "swe", "mcp", "search", "web", "android", "os"]
DOMAIN_NAMES: tuple[DomainName, ...] = ("terminal", "swe", "mcp", "search", "web", "android", "os")

TRAJECTORY_SCHEMA = "worldlm.trajectory/1"
WORLD_SCHEMA = "worldlm.world/1"

Text: TypeAlias = Annotated[str, BeforeValidator(lambda value: clean_text(value) if isinstance(value, str) else value)]
"""Text that can be stored: lone surrogates are replaced on the way in."""
Json: TypeAlias = Annotated[JsonValue, BeforeValidator(clean_json)]
JsonObject: TypeAlias = Annotated[dict[str, Any], BeforeValidator(clean_json)]


class Value(BaseModel):
    """Base of the nouns: frozen; an unknown key is an error, and so is a number that JSON does not have."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Observation(Value):
    """What an environment answered.

    `text` is the raw payload in the domain's wire format (described on the domain's page of the documentation).
    """

    text: Text
    structured: Json | None = None
    """MCP structured content, when there is any."""
    is_error: bool = False
    """MCP's `isError`: the tool ran into an error. Still an ordinary observation."""
    raw: Text | None = None
    """The bytes as they came, decoded, where `text` is a rendering of them that loses something."""


class Usage(Value):
    """What a step or a call took. Sums with `+`."""

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """The part of `prompt_tokens` that a prefix cache spared."""
    completion_tokens: int = 0
    seconds: float = 0.0
    cost_usd: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            seconds=self.seconds + other.seconds,
            cost_usd=self.cost_usd + other.cost_usd,
        )


NO_USAGE = Usage()


class Check(Value):
    """One rule applied to a predicted observation."""

    rule: Text
    passed: bool
    message: Text = ""


class Turn(Value):
    """An action with what came of it. `observation` is None exactly when `outcome` is not OK."""

    action: Text
    raw_action: Text | None = None
    """The action as its source wrote it, where `action` is a translation of that (imported trajectories)."""
    observation: Observation | None
    outcome: Outcome = Outcome.OK
    detail: Text | None = None
    """On a failure: what went wrong, in words (for INVALID_ACTION, the words that the agent was given)."""
    thinking: Text | None = None
    violations: tuple[Check, ...] = ()
    """The rule checks that the observation failed."""
    label: Text | None = None
    """What the policy calls this kind of action (a command family, a tool, and `/odd` behind it where the action is
    wrong or odd on purpose): for counts, and for holding whole kinds out of training."""
    usage: Usage = NO_USAGE


class Step(Value):
    """What `Environment.step` returns. `observation` is None exactly when `outcome` is not OK."""

    observation: Observation | None
    outcome: Outcome = Outcome.OK
    detail: Text | None = None
    terminated: bool = False
    """The episode is over, by the environment's own word."""
    truncated: bool = False
    """The episode was ended by a limit (never: the reply was cut off)."""
    thinking: Text | None = None
    violations: tuple[Check, ...] = ()
    usage: Usage = NO_USAGE

    def turn(self, action: str, label: str | None = None) -> Turn:
        """This step as a `Turn`."""
        return Turn(
            action=action,
            label=label,
            observation=self.observation,
            outcome=self.outcome,
            detail=self.detail,
            thinking=self.thinking,
            violations=self.violations,
            usage=self.usage,
        )


class Tool(Value):
    """A tool that an agent may call, as MCP and OpenAI describe it."""

    name: Text
    description: Text = ""
    parameters: JsonObject = Field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON Schema of the arguments."""
    output_schema: JsonObject | None = None
    """JSON Schema of the structured result (MCP `outputSchema`)."""


class ToolCall(Value):
    """An action, parsed: every domain's action grammar maps to and from it."""

    name: Text
    arguments: JsonObject = Field(default_factory=dict)


class Limits(Value):
    """What an episode may use. Seconds, MiB, counts. None: the environment's default."""

    turns: int | None = Field(default=None, ge=1)
    step_seconds: float | None = Field(default=None, gt=0)
    episode_seconds: float | None = Field(default=None, gt=0)
    memory_mib: int | None = Field(default=None, ge=16)
    disk_mib: int | None = Field(default=None, ge=1)
    processes: int | None = Field(default=None, ge=4)
    output_kib: int | None = Field(default=None, ge=1)
    """Terminal output that one step may produce before the command is interrupted."""


class Control(Value):
    """What the operator tells the simulator. The agent never sees it."""

    instructions: tuple[Text, ...] = ()


class World(Value):
    """A description of an environment, as data: what a YAML file of a world holds."""

    schema_: Literal["worldlm.world/1"] = Field(default="worldlm.world/1", alias="schema")
    name: Text = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    domain: DomainName
    summary: Text = ""
    """One line for lists."""
    context: Text = ""
    """What this place is and what is known about it, for whoever plays or uses it."""
    tools: tuple[Tool, ...] = ()
    initial_state: Text | JsonObject = ""
    """Text, or a mapping whose keys the domain documents (a terminal's `files`, `user`, `cwd`, …)."""
    initial_observation: Text | None = None
    """The first observation; None where the domain derives it from the initial state."""
    hidden_state: Text | JsonObject | None = None
    """What is true and cannot be seen yet (database rows, pages). Only the simulator reads it."""
    control: Control | None = None
    engine: Text | None = None
    limits: Limits = Limits()
    seed: int = 0

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    def agent_view(self) -> "World":
        """This world without what the agent must not see: hidden state and control."""
        if self.hidden_state is None and self.control is None:
            return self
        return self.model_copy(update={"hidden_state": None, "control": None})


class Message(Value):
    """A chat message to a model."""

    role: Literal["system", "user", "assistant"]
    content: Text


class Sampling(Value):
    """How to sample one completion. None leaves the choice to the server."""

    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=1)
    seed: int | None = None
    stop: tuple[Text, ...] = ()
    response_format: JsonObject | None = None
    """The form of the reply, as OpenAI's protocol has it (a JSON schema). What cannot hold to one answers freely."""


Finish: TypeAlias = Literal["stop", "length", "context_overflow", "refused", "error"]


class Completion(Value):
    """A model's reply, or why there is none. Models return it; they do not raise on operation."""

    text: Text = ""
    thinking: Text | None = None
    """Reasoning that the server returned apart from the text."""
    finish: Finish = "stop"
    outcome: Outcome = Outcome.OK
    """OK also for `finish == "length"`: whether a cut-off text is usable is the reader's decision."""
    detail: Text | None = None
    usage: Usage = NO_USAGE
    model: Text = ""
    """The name that the server gave for what answered."""


class Delta(Value):
    """A piece of a reply while it streams."""

    text: Text = ""
    thinking: Text = ""


class Profile(Value):
    """How a given model is to be asked."""

    name: Text
    prompt: Literal["full", "compact"] = "full"
    answer_tag: bool = True
    """Ask for `<predicted_observation>` around the answer, and write history that way."""
    thinking: bool = False
    """Ask the model to think first. Reading a reply needs no flag: thinking is recognised."""
    state: Literal["full", "delta"] = "full"
    """Whether a screen is answered whole, or as a delta against an earlier one (in the domains that have deltas)."""
    sampling: Sampling = Sampling()
    context: int = Field(default=32_768, ge=512)
    """Tokens that prompt and reply may fill together."""
    attempts: int = Field(default=2, ge=1, le=8)
    """Model calls that one step may cost: the one bound there is."""


class Simulator(Value):
    """Who played the environment: stands in every result, because results of two simulators do not compare."""

    model: Text
    profile: Text
    prompt_hash: Text
    sampling: Sampling


class Origin(Value):
    """Where a trajectory came from."""

    kind: Literal["real", "simulated", "recorded"]
    source: Text = ""
    """The program or data set that made it."""
    version: Text = ""
    licence: Text = ""
    seed: int | None = None
    simulator: Simulator | None = None


class Ending(Value):
    """How an episode ended."""

    kind: EndingKind
    outcome: Outcome = Outcome.OK
    detail: Text | None = None


class Trajectory(Value):
    """A world, its first observation, its turns and how it ended. One line of JSON on disk."""

    schema_: Literal["worldlm.trajectory/1"] = Field(default="worldlm.trajectory/1", alias="schema")
    id: Text
    world: World
    initial: Observation | None
    """None when the environment could not even be reset."""
    turns: tuple[Turn, ...]
    ending: Ending
    policy: Text
    group: Text | None = None
    """Trajectories of one group started from the same state."""
    origin: Origin
    usage: Usage = NO_USAGE

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    @property
    def actions(self) -> list[str]:
        """The actions, in order: a script that plays this trajectory again."""
        return [turn.action for turn in self.turns]


def history_turns(turns: Sequence[Turn]) -> list[Turn]:
    """The turns that a model is shown: those that have an observation."""
    return [turn for turn in turns if turn.observation is not None]


__all__ = [
    "DOMAIN_NAMES",
    "NO_USAGE",
    "TRAJECTORY_SCHEMA",
    "WORLD_SCHEMA",
    "Check",
    "Completion",
    "Control",
    "Delta",
    "DomainName",
    "Ending",
    "Finish",
    "Json",
    "JsonObject",
    "Limits",
    "Message",
    "Observation",
    "Origin",
    "Profile",
    "Sampling",
    "Simulator",
    "Step",
    "Text",
    "Tool",
    "ToolCall",
    "Trajectory",
    "Turn",
    "Usage",
    "Value",
    "World",
    "history_turns",
]
