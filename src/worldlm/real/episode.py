"""What every real environment keeps of an episode, and the answers that take no environment."""

from worldlm.core.errors import ActionError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import Limits, Step, ToolCall, Turn, World
from worldlm.domains.domain import Domain

_OVER = "the episode is over; reset to start a new one"


class Episode:
    """The turns of an episode, and whether it is over. `reset` begins a new one."""

    def __init__(self, domain: Domain, limits: Limits):
        self.turns: list[Turn] = []
        self.over = False
        self._domain = domain
        self._limit = limits.turns

    def read(self, action: str, world: World) -> ToolCall | Step:
        """The call that an action is; or the step that answers it: it does not parse, or the harness answers."""
        if self.over:
            return Step(observation=None, outcome=Outcome.INVALID_ACTION, detail=_OVER, terminated=True)
        try:
            call = self._domain.parse_action(action, world)
        except ActionError as error:
            return Step(observation=None, outcome=Outcome.INVALID_ACTION, detail=str(error))
        answered = self._domain.harness(world, self.turns, call)
        if answered is None:
            return call
        return self.finish(action, Step(observation=answered.observation, terminated=answered.terminated))

    def finish(self, action: str, step: Step) -> Step:
        """Take a step that has an observation as the next turn; the last that the limit allows is `truncated`."""
        self.turns.append(step.turn(action))
        self.over = step.terminated
        if self._limit and len(self.turns) >= self._limit and not step.terminated:
            step = step.model_copy(update={"truncated": True})
        return step
