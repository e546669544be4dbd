"""Policies: a script, and a language model with the domain's tools."""

from collections.abc import Sequence
from pathlib import Path

from worldlm.core.errors import InputError, PolicyError
from worldlm.core.jsonl import read_jsonl
from worldlm.core.protocols import Model
from worldlm.core.text import canonical_json, derive_seed, estimate_tokens
from worldlm.core.types import Message, Observation, Profile, Turn, World
from worldlm.domains.domain import Domain, read_prompt
from worldlm.domains.reply import read_reply


class ScriptPolicy:
    """Plays a list of actions, whatever comes back."""

    def __init__(self, actions: Sequence[str], name: str = "script"):
        self.name = name
        self._actions = list(actions)

    async def act(self, world: World, initial: Observation, turns: Sequence[Turn]) -> str | None:
        """The action at the position that the number of turns gives."""
        return self._actions[len(turns)] if len(turns) < len(self._actions) else None


def read_script(path: Path, domain: Domain, world: World) -> list[str]:
    """A script file to actions.

    In a text file a line is an action, or the domain's shorthand for one, and a line that starts with `#` is a
    comment. In a `.jsonl` file each line is an action as a JSON string, verbatim (for actions of several lines).
    Raises InputError when the file cannot be read or holds no action.
    """
    if path.suffix == ".jsonl":
        actions = read_jsonl(path, _action).items
    else:
        try:
            text = path.read_text("utf-8-sig")
        except OSError as error:
            raise InputError(f"cannot read script {path}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"script {path} is not UTF-8 text (byte {error.start})") from error
        # Only a line feed ends a line: an action may hold the other characters that `splitlines` splits at.
        lines = [
            line.removesuffix("\r") for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")
        ]
        actions = [domain.from_line(line, world) for line in lines]
    if not actions:
        raise InputError(f"script {path} holds no action; write one a line")
    return actions


def _action(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"an action is a JSON string, not {type(value).__name__}")  # noqa: TRY004
    return value


class ModelPolicy:
    """A language model that works on an instruction, through the text of actions.

    The model is told the domain's tools and answers with one action, or with DONE when it has finished.
    Of the history it sees the first observation and as many of the newest turns as fit the profile's context.
    """

    def __init__(self, model: Model, domain: Domain, profile: Profile, instruction: str):
        self.name = f"model:{model.name}"
        self._model = model
        self._domain = domain
        self._profile = profile
        self._instruction = instruction

    async def act(self, world: World, initial: Observation, turns: Sequence[Turn]) -> str | None:
        """One action. Raises PolicyError when the model gives none."""
        seed = derive_seed(self._instruction, *(turn.action for turn in turns[-8:]), str(len(turns)))
        sampling = self._profile.sampling.model_copy(update={"seed": seed})
        completion = await self._model.complete(self._messages(world, initial, turns), sampling)
        reply = read_reply(completion)
        if reply.text is None:
            raise PolicyError(f"{self.name}: {reply.detail or reply.outcome.value}")
        action = _unfence(reply.text)
        return None if action in ("", "DONE") else action

    def _messages(self, world: World, initial: Observation, turns: Sequence[Turn]) -> list[Message]:
        tools = "\n".join(canonical_json(tool.model_dump(exclude_none=True)) for tool in self._domain.tools(world))
        system = read_prompt("agent.txt").format(
            instruction=self._instruction, context=world.context, tools=tools, domain=self._domain.summary
        )
        room = self._profile.context - (self._profile.sampling.max_tokens or self._profile.context // 4)
        room -= estimate_tokens(system) + estimate_tokens(initial.text)
        newest: list[Message] = []
        for turn in reversed(turns):
            answer = turn.observation.text if turn.observation else f"[{turn.outcome.value}] {turn.detail or ''}"
            room -= estimate_tokens(turn.action) + estimate_tokens(answer)
            if room < 0:
                break
            newest += (Message(role="user", content=answer), Message(role="assistant", content=turn.action))
        missing = len(turns) - len(newest) // 2
        first = initial.text + (f"\n\n[Turns 1 to {missing} are not shown.]" if missing else "")
        return [
            Message(role="system", content=system),
            Message(role="user", content=first or "(ready)"),
            *reversed(newest),
        ]


def _unfence(text: str) -> str:
    """An action without the code fence that chat models like to put round it."""
    stripped = text.strip()
    lines = stripped.split("\n")
    if len(lines) > 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        return "\n".join(lines[1:-1])
    return stripped
