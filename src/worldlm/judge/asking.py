"""Asking a judge: what it is shown, how that is kept apart from what it is told, and how often it is asked again.

*Context*: the judge is shown what the world model was shown (`domains.render.world_sections`, and every earlier turn
that has an observation), then the action, then the answers to be judged. Everything shown stands in tags that carry a
code which is a digest of it, so that no text can close its own tag.

*Length*: what fits is shown whole. Otherwise the room that the judge's context leaves is shared out by `WEIGHTS` (what
one part does not need goes to the others). A text that gets too little loses its middle, and a mark says how much; of
the history the newest turns stay, whole, and the first line says which are missing. What was shortened stands in
`Material.shortened`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Generic, TypeVar

from pydantic import Field

from worldlm.core.errors import InputError
from worldlm.core.outcomes import Outcome
from worldlm.core.protocols import CountsTokens, Model
from worldlm.core.text import derive_seed, digest, estimate_tokens
from worldlm.core.types import NO_USAGE, Completion, JsonObject, Message, Sampling, Usage, Value, history_turns
from worldlm.domains import get_domain
from worldlm.domains.render import world_sections
from worldlm.judge.question import Question
from worldlm.judge.verdicts import UnreadableError, code_for, looks_like_a_verdict

T = TypeVar("T")
Count = Callable[[str], int]

HISTORY = "history"
WEIGHTS = {"world": 2, "action": 1, HISTORY: 2}
"""Of the parts that do not fit; every answer has the weight `ANSWER_WEIGHT`."""
ANSWER_WEIGHT = 2
OVERHEAD = 512
"""Tokens kept free for tags, marks, chat template and a correction."""
LEAST_ROOM = 1024


class JudgeSettings(Value):
    """How a judge is asked."""

    sampling: Sampling = Sampling(temperature=0.0, max_tokens=4096)
    """The seed of a call is derived from `seed`, from what is judged and from the number of the sample."""
    context: int = Field(default=65_536, ge=4096)
    """Tokens that prompt and reply may fill together. Longer material is shortened, by the rule above."""
    attempts: int = Field(default=3, ge=1, le=8)
    """Calls for one verdict: after a reply that cannot be read the judge is asked again, with the reason."""
    structured: bool = False
    """Whether verdicts are asked for by a JSON schema. Replies are read the same way, with or without."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Material:
    """What a judge is shown of one question."""

    text: str
    code: str
    """Marks the verdict on this material as the judge's own."""
    quotable: bool
    """Whether something in it looks like a verdict."""
    shortened: tuple[str, ...]
    """What the judge is shown only in part, in words."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What came of asking; `value` is None exactly when `outcome` is not OK."""

    value: T | None
    outcome: Outcome
    detail: str | None
    raw: str | None
    """The last reply that was not empty."""
    served: str
    """What the server called the model that gave the last reply."""
    usage: Usage


@cache
def read_prompt(name: str) -> str:
    """A prompt file of this room."""
    return (resources.files("worldlm.judge") / "prompts" / name).read_text("utf-8").strip()


def show(question: Question, answers: Mapping[str, str], room: int, count: Count, salt: str = "") -> Material:
    """What the judge is shown: the question, then `answers` (name of the tag to text), within `room` tokens.

    `salt` makes another code of the same material (another sample of the same judge).
    """
    domain = get_domain(question.domain)
    world = "\n\n".join(world_sections(domain, question.world, question.initial))
    turns = [
        (turn.action, domain.write_observation(turn.observation))
        for turn in history_turns(question.history)
        if turn.observation is not None
    ]
    # The world's tags depend on nothing that follows, so that one trajectory's questions share a prompt's beginning.
    outer = digest("world", world)[:8]
    code = code_for(salt, world, *(text for turn in turns for text in turn), question.action, *answers.values())
    shortened: list[str] = []

    def fit(name: str, text: str, tokens: int) -> str:
        kept = shorten(text, tokens, count)
        if kept != text:
            shortened.append(f"{name} ({len(text)} characters)")
        return kept

    shown = [
        f"{_tagged('action', outer, action, turn=n)}\n{_tagged('answer', outer, answer, turn=n)}"
        for n, (action, answer) in enumerate(turns, 1)
    ]
    costs = [count(turn) for turn in shown]
    needs = {name: count(text) for name, text in (("world", world), ("action", question.action), *answers.items())}
    room_of = allot({**needs, HISTORY: sum(costs)}, room)
    head = _tagged("world", outer, fit("world", world, room_of["world"])) if world else ""
    tail = [_tagged("action", code, fit("action", question.action, room_of["action"]))]
    tail += [
        _tagged(name, code, fit(name, text, room_of[name]), characters=len(text)) for name, text in answers.items()
    ]
    kept: list[str] = []
    left = room_of[HISTORY]
    while len(kept) < len(shown) and (left := left - costs[-1 - len(kept)]) >= 0:
        kept.append(shown[-1 - len(kept)])
    if missing := len(shown) - len(kept):
        shortened.append(f"history ({missing} of {len(shown)} turns)")
    parts = [
        *(["# The world", head] if head else []),
        "# What happened so far" if shown else "# Nothing happened so far",
        *([f"[Turns 1 to {missing} are not shown: they no longer fit.]"] if missing else []),
        *reversed(kept),
        "# The action and what answers it",
        *tail,
    ]
    judged = (question.action, *answers.values(), world, *(text for turn in turns for text in turn))
    return Material("\n\n".join(parts), code, any(map(looks_like_a_verdict, judged)), tuple(shortened))


def allot(needs: Mapping[str, int], room: int) -> dict[str, int]:
    """Tokens for each part: what it needs where all fit, else fair shares by weight (weighted max-min fairness)."""
    given: dict[str, int] = {}
    waiting = dict(needs)
    while waiting:
        weights = {name: WEIGHTS.get(name, ANSWER_WEIGHT) for name in waiting}
        unit = max(0, room - sum(given.values())) / sum(weights.values())
        content = {name: need for name, need in waiting.items() if need <= unit * weights[name]}
        if not content:
            return given | {name: int(unit * weight) for name, weight in weights.items()}
        given |= content
        waiting = {name: need for name, need in waiting.items() if name not in content}
    return given


def _tagged(name: str, code: str, text: str, **attributes: int) -> str:
    said = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<{name}-{code}{said}>\n{text}\n</{name}-{code}>"


def shorten(text: str, tokens: int, count: Count) -> str:
    """`text`, or its beginning and end with a mark between them, in at most `tokens` tokens (the mark included)."""
    whole = count(text)
    if whole <= tokens:
        return text
    keep = len(text) * tokens // whole
    while keep:
        mark = f"\n[… {len(text) - keep} characters are left out here …]\n"
        shown = text[: keep - keep // 2] + mark + text[len(text) - keep // 2 :]
        if count(shown) <= tokens:
            return shown
        keep = keep * 9 // 10
    return f"[… {len(text)} characters are left out here …]"


async def ask(
    model: Model,
    settings: JudgeSettings,
    question: Question,
    answers: Mapping[str, str],
    *,
    system: str,
    closing: str,
    form: JsonObject,
    read: Callable[[str, Material], T],
    sample: int = 0,
) -> tuple[Answer[T], Material]:
    """Ask `model` for a verdict on `answers`, at most `settings.attempts` times, and read it.

    `closing` is the prompt that says what a verdict looks like (`{code}` in it), and `form` the same as a
    `response_format`; `read` takes the reply and the material and raises UnreadableError. A prompt that the server
    finds too long is tried again in half the room.
    Raises InputError when the settings leave no room at all.
    """
    count = model.count_tokens if isinstance(model, CountsTokens) else estimate_tokens
    reply_tokens = settings.sampling.max_tokens or settings.context // 4
    room = settings.context - min(reply_tokens, settings.context // 2) - count(system) - count(closing) - OVERHEAD
    if room < LEAST_ROOM:
        raise InputError(
            f"a judge's context of {settings.context} tokens leaves {max(room, 0)} for what is judged; "
            "use a judge with a larger context, or lower its max_tokens"
        )
    salt = f"{settings.seed}/{sample}"
    sampling = settings.sampling.model_copy(update={"response_format": form if settings.structured else None})
    material = show(question, answers, room, count, salt)
    usage, raw, served, again = NO_USAGE, None, "", ""
    outcome, detail = Outcome.JUDGE_FAILED, ""
    for attempt in range(settings.attempts):
        due = closing.format(code=material.code)
        prompt = "\n\n".join(filter(None, (material.text, "# Your verdict", due, again)))
        completion = await model.complete(
            [Message(role="system", content=system), Message(role="user", content=prompt)],
            sampling.model_copy(update={"seed": derive_seed(salt, material.code, str(attempt))}),
        )
        usage += completion.usage
        raw, served = completion.text or raw, completion.model or served
        if completion.finish == "context_overflow" and room // 2 >= LEAST_ROOM:
            room //= 2
            material = show(question, answers, room, count, salt)
            detail = f"what is judged is too long for the judge: {completion.detail or 'its context overflowed'}"
            continue
        if not completion.outcome.is_ok and not completion.outcome.is_models_fault:
            outcome, detail = completion.outcome, f"the judge: {completion.detail or completion.outcome.value}"
            break
        try:
            value = read(_text(completion), material)
        except UnreadableError as error:
            detail = f"no usable verdict after {_times(attempt + 1)}: {error}"
            again = read_prompt("again.txt").format(reason=error)
        else:
            return Answer(value, Outcome.OK, None, raw, served, usage), material
    return Answer(None, outcome, detail, raw, served, usage), material


def _text(completion: Completion) -> str:
    """The text of a reply that is whole. Raises UnreadableError for any other.

    (A judge that refuses comes out as MODEL_FAILED: here that is the judge's failure, and never the judged model's.)
    """
    if not completion.outcome.is_ok:
        raise UnreadableError(completion.detail or f"the call came out as {completion.outcome.value}")
    if completion.finish == "length":
        raise UnreadableError("the reply hit the length limit")
    return completion.text


def _times(number: int) -> str:
    return "one call" if number == 1 else f"{number} calls"


def prompt_digest(*texts: str) -> str:
    """Identifies the wording under which a verdict was given."""
    return digest(*texts)[:16]


def told(answer: Answer[Any], material: Material, model: Model) -> dict[str, Any]:
    """What a ruling says beside its decision: among it, when the judge saw only a part of the material."""
    part = f"the judge was shown only a part of: {', '.join(material.shortened)}" if material.shortened else None
    return {
        "outcome": answer.outcome,
        "detail": answer.detail or part,
        "judge": model.name,
        "served": answer.served,
        "raw": answer.raw,
        "usage": answer.usage,
    }
