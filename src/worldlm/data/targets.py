"""What a model should have replied in each turn of a trajectory, beside the prompt that it would have been given.

Both are made by the functions that play the environment (`domains.render.Conversation`, `domains.delta`), so that what
is trained is what is asked for: a state whole or as the shortest delta, after thinking where the profile wants it, in
the answer tag where there is one. The base of a delta is among the states that the prompt shows.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from worldlm.core.text import estimate_tokens
from worldlm.core.types import Message, Profile, Trajectory
from worldlm.domains.delta import bases, shortest
from worldlm.domains.domain import Domain
from worldlm.domains.render import Conversation, asks_deltas
from worldlm.domains.reply import ANSWER_CLOSE, ANSWER_OPEN, THINK_CLOSE, THINK_OPEN


@dataclass(frozen=True, slots=True)
class Target:
    """A turn with an observation, as a question and its answer."""

    turn: int
    """Its number in the trajectory, from 1."""
    prompt: tuple[Message, ...] | None
    """None when its action does not fit the context."""
    missing: int
    """How many of the oldest turns with an observation the prompt does not show."""
    state: str
    """Its observation, whole, in the wire format."""
    bases: tuple[str, ...]
    """The earlier states that a delta may name, the last one last; none where the answer is to be the whole state."""
    thinking: str | None
    """What is to be thought before the answer."""
    tagged: bool

    def shown(self) -> str:
        """How the prompts of later turns show its answer: whole and without thinking."""
        return self._in_tag(self.state)

    def answer(self, count: Callable[[str], int] = estimate_tokens) -> str:
        """The state as it is to be answered: whole, or as the delta of fewest tokens by `count`."""
        return shortest(self.state, self.bases, count) if self.bases else self.state

    def reply(self, count: Callable[[str], int] = estimate_tokens) -> str:
        """All that the model should write: the thinking, if there is any, and the answer."""
        answer = self._in_tag(self.answer(count))
        return f"{THINK_OPEN}\n{self.thinking.strip()}\n{THINK_CLOSE}\n\n{answer}" if self.thinking else answer

    def _in_tag(self, text: str) -> str:
        return f"{ANSWER_OPEN}{text}{ANSWER_CLOSE}" if self.tagged else text


def targets(
    trajectory: Trajectory, domain: Domain, profile: Profile, count: Callable[[str], int] = estimate_tokens
) -> Iterator[Target]:
    """The targets of the turns that have an observation, in order. `count` is in tokens.

    A trajectory that could not be reset has none. Raises InputError when the world alone does not fit the profile's
    context.
    """
    if trajectory.initial is None:
        return
    conversation = Conversation(domain, trajectory.world, profile, trajectory.initial, count)
    deltas = asks_deltas(domain, profile)
    states = [domain.write_observation(trajectory.initial)]
    for number, turn in enumerate(trajectory.turns, 1):
        if turn.observation is None:
            continue
        prompt = conversation.messages(turn.action)
        shown = 0 if prompt is None else len(prompt) // 2 - 1
        state = domain.write_observation(turn.observation)
        yield Target(
            turn=number,
            prompt=None if prompt is None else tuple(prompt),
            missing=conversation.turns - shown,
            state=state,
            bases=tuple(bases(states, shown)) if deltas else (),
            thinking=turn.thinking if profile.thinking else None,
            tagged=profile.answer_tag,
        )
        conversation.append(turn.action, turn.observation)
        states.append(state)


__all__ = ["Target", "targets"]
