"""From a world and its history to the messages of one model call, incrementally.

One place builds context, for the simulator and for whoever judges it. The rule for a history that
outgrows the context: the system message (world, tools, initial state, control, first observation) and
the newest turns stay; the oldest turns go, several at a time, so that the prefix of the prompt, and with
it a server's prefix cache, holds for many turns; the first message that remains says which turns are
missing.
"""

from collections.abc import Callable

from worldlm.core.errors import InputError
from worldlm.core.text import canonical_json, digest, estimate_tokens
from worldlm.core.types import Message, Observation, Profile, World
from worldlm.domains.domain import Domain, read_prompt
from worldlm.domains.reply import ANSWER_CLOSE, ANSWER_OPEN

MESSAGE_OVERHEAD = 8
"""Tokens that a chat template puts around one message, on the safe side."""
KEEP = 0.6
"""Share of the history's room that stays filled after old turns went."""


def system_message(domain: Domain, world: World, profile: Profile, initial: Observation) -> str:
    """The system message of a session: prompt, world, tools, states, control, first observation, output rules."""
    sections = [domain.prompt(profile.prompt), *world_sections(domain, world, initial), output_rules(domain, profile)]
    return "\n\n".join(section for section in sections if section)


def world_sections(domain: Domain, world: World, initial: Observation | None) -> list[str]:
    """What is known of a world before the first action, for whoever predicts in it and for whoever judges that."""
    sections = [
        _section("World", world.context),
        _section("Tools", "\n".join(_tool_line(tool.model_dump()) for tool in world.tools)),
        _section("Initial state", domain.render_state(world)),
        _section("Hidden state (never shown as such)", _as_text(world.hidden_state)),
        _section("Control", "\n".join(f"- {line}" for line in world.control.instructions) if world.control else ""),
        _section("First observation", domain.write_observation(initial) if initial else ""),
    ]
    return [section for section in sections if section]


def output_rules(domain: Domain, profile: Profile) -> str:
    """What a reply must look like under this profile."""
    names = [
        *(["output.think.txt"] if profile.thinking else []),
        "output.tag.txt" if profile.answer_tag else "output.plain.txt",
        *(["output.delta.txt"] if asks_deltas(domain, profile) else []),
    ]
    return "\n".join(read_prompt(name) for name in names)


def asks_deltas(domain: Domain, profile: Profile) -> bool:
    """Whether a state may be answered as a delta."""
    return domain.deltas and profile.state == "delta"


def prompt_hash(domain: Domain, profile: Profile) -> str:
    """Identifies the wording under which a model was trained or a result was made (not the world)."""
    return digest(domain.name, domain.prompt(profile.prompt), output_rules(domain, profile))[:16]


def _tool_line(tool: dict[str, object]) -> str:
    return canonical_json({key: value for key, value in tool.items() if value not in (None, "")})


def _as_text(state: object) -> str:
    if state is None or isinstance(state, str):
        return state or ""
    return canonical_json(state)


def _section(title: str, body: str) -> str:
    return f"# {title}\n{body.strip()}" if body.strip() else ""


class Conversation:
    """The messages of one session. Appending a turn and asking for the next prompt do not depend on its length."""

    def __init__(
        self,
        domain: Domain,
        world: World,
        profile: Profile,
        initial: Observation,
        count_tokens: Callable[[str], int] = estimate_tokens,
    ):
        """Raises InputError when the world alone does not fit the profile's context."""
        self._domain = domain
        self._profile = profile
        self._count = count_tokens
        self._system = Message(role="system", content=system_message(domain, world, profile, initial))
        self._head_cost = self._cost(self._system.content)
        reply = profile.sampling.max_tokens or profile.context // 4
        self._budget = profile.context - min(reply, profile.context // 2)
        self._window: list[Message] = []
        self._costs: list[int] = []
        self._shown_cost = 0
        self.turns = 0
        """Turns appended so far."""
        if self._head_cost > self._budget:
            raise InputError(
                f"world {world.name!r} takes {self._head_cost} tokens and the profile {profile.name!r} leaves "
                f"{self._budget} for it; use a model with a larger context, or shorten the world"
            )

    @property
    def missing(self) -> int:
        """How many of the oldest turns the model is not shown."""
        return self.turns - len(self._costs)

    def append(self, action: str, observation: Observation) -> None:
        """Add a finished turn."""
        self._drop(self._surplus(self._cost(action)))
        answer = self._domain.write_observation(observation)
        if self._profile.answer_tag:
            answer = f"{ANSWER_OPEN}{answer}{ANSWER_CLOSE}"
        cost = self._cost(action) + self._cost(answer)
        self._window += (Message(role="user", content=action), Message(role="assistant", content=answer))
        self._costs.append(cost)
        self._shown_cost += cost
        self.turns += 1

    def messages(self, action: str) -> list[Message] | None:
        """The prompt that asks for the observation after `action`; None when that action cannot fit at all.

        It changes nothing: the same history and action give the same prompt, however often a step failed.
        """
        cost = self._cost(action)
        if self._head_cost + cost > self._budget:
            return None
        gone = self._surplus(cost)
        shown = [*self._window[2 * gone :], Message(role="user", content=action)]
        if missing := self.missing + gone:
            marker = f"[Turns 1 to {missing} are not shown: they no longer fit.]\n\n"
            shown[0] = Message(role="user", content=marker + shown[0].content)
        return [self._system, *shown]

    def tighten(self) -> bool:
        """Give less room to the history (the server said that the prompt is too long). False: nothing left to drop."""
        if not self._costs:
            return False
        self._budget = max(self._head_cost, int(self._budget * 0.75))
        self._drop(max(1, len(self._costs) // 3))
        return True

    def _surplus(self, action_cost: int) -> int:
        """How many of the oldest shown turns have to go before an action of this cost."""
        room = self._budget - self._head_cost - action_cost
        if self._shown_cost <= room:
            return 0
        gone, left = 0, self._shown_cost
        while gone < len(self._costs) and left > room * KEEP:
            left -= self._costs[gone]
            gone += 1
        return gone

    def _drop(self, gone: int) -> None:
        self._shown_cost -= sum(self._costs[:gone])
        del self._costs[:gone]
        del self._window[: 2 * gone]

    def _cost(self, text: str) -> int:
        return self._count(text) + MESSAGE_OVERHEAD
