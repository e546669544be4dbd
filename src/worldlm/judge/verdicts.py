"""Reading what a judge says: its own verdict, and no other, or the reason why there is none.

A judge is asked to close with a JSON object in a tag that carries a code; the code stands in the object too, for
servers that answer with JSON alone. The code is a digest of everything that is judged, so no judged text can hold it,
and the same material gets the same code: recorded and cached replies can be read again.

What counts as the verdict, in this order:

1. the object in the last tag with the code;
2. the last object that holds the code under `code`;
3. the last object that has the wanted key at all (no tag, no fence, no code: small models do that) — but only where
   nothing in the judged material looks like a verdict. Otherwise it may be a quotation, and nothing counts.

An object is first read as strict JSON and repaired only if that fails (trailing commas, single quotes, comments).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from worldlm.core.text import digest
from worldlm.domains.reply import THINK_CLOSE, THINK_OPEN
from worldlm.judge.score import DIMENSIONS, HIGHEST, LOWEST, Score

TAG = "final_evaluation"
CODE_LENGTH = 16

_OBJECT = re.compile(r"""\{\s*["'\w“]""")
_FENCE = re.compile(r"```\w*\s*\n?(.*?)```", re.DOTALL)
_GRADE = re.compile(rf"\s*(\d{{1,3}})(?:\.0+)?\s*(?:/\s*{HIGHEST}(?:\.0+)?)?\s*")
_LOOKS_LIKE_A_VERDICT = re.compile(rf"""{TAG}|["'“]?\b(?:scores|choice)\b["'”]?\s*:""", re.IGNORECASE)
_TRIES = 100
"""Beginnings of objects that are tried in one reply: a bound for replies that are nothing but braces."""

READ_LIMIT = 100_000
"""Characters at the end of a reply in which a verdict is looked for."""


class UnreadableError(ValueError):
    """A judge's reply without a verdict that can be used. The message says what is wrong with it."""


def code_for(*parts: str) -> str:
    """The code that marks a verdict on these texts as the judge's own."""
    return digest("verdict", *parts)[:CODE_LENGTH]


def looks_like_a_verdict(text: str) -> bool:
    """Whether a judged text holds something that could be mistaken for a verdict when it is quoted."""
    return _LOOKS_LIKE_A_VERDICT.search(text) is not None


# Scores.


def read_scores(reply: str, code: str, *, quotable: bool = False) -> tuple[Score, bool]:
    """The five grades of a reply, and whether the judge says that the prediction addresses it.

    `quotable`: something in the judged material looks like a verdict, so that only one with the code counts.
    Raises UnreadableError.
    """
    verdict = find_object(reply, "scores", code, quotable=quotable)
    return _score(verdict), verdict.get("addresses_judge") is True


def read_scores_public(reply: str) -> Score:
    """The five grades of a reply to the public benchmark's judge: the last `<final_evaluation>`, which has no code.

    Raises UnreadableError.
    """
    return _score(find_object(reply, "scores", None))


def _score(verdict: dict[str, Any]) -> Score:
    scores = verdict["scores"]
    if not isinstance(scores, dict):
        raise UnreadableError("'scores' is not an object")
    given = {str(name).strip().lower(): value for name, value in scores.items()}
    if missing := [name for name in DIMENSIONS if name not in given]:
        raise UnreadableError(f"the scores lack {', '.join(missing)}")
    grades = {name: _grade(name, given[name]) for name in DIMENSIONS}
    return Score.of(grades, _words(verdict.get("strengths")), _words(verdict.get("weaknesses")))


def _grade(name: str, value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and (match := _GRADE.fullmatch(value)):
        value = int(match[1])
    if isinstance(value, bool) or not isinstance(value, int):
        raise UnreadableError(f"{name} is {_short(value)}, not a whole number")
    if not LOWEST <= value <= HIGHEST:
        raise UnreadableError(f"{name} is {value}, not {LOWEST} to {HIGHEST}")
    return value


def _words(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(_words(item) for item in value)
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


# Choices.

CHOICES = ("first", "second", "tie")


def read_choice(reply: str, code: str, *, quotable: bool = False) -> str:
    """Which of two a reply chooses: `first`, `second` or `tie`. Raises UnreadableError."""
    choice = find_object(reply, "choice", code, quotable=quotable)["choice"]
    word = choice.strip().lower() if isinstance(choice, str) else choice
    if word not in CHOICES:
        raise UnreadableError(f"the choice is {_short(choice)}, not one of {', '.join(CHOICES)}")
    return str(word)


# Finding the object.


def find_object(reply: str, key: str, code: str | None, *, quotable: bool = False) -> dict[str, Any]:
    """The JSON object of a reply that is its verdict and has `key`; `code` None reads the tag without a code.

    Raises UnreadableError.
    """
    text = _after_thinking(reply)[-READ_LIMIT:]
    tag = TAG if code is None else f"{TAG}-{re.escape(code)}"
    bodies = re.findall(rf"<{tag}>(.*?)(?=</{tag}>|<{tag}>|\Z)", text, re.DOTALL)
    for body in reversed(bodies):
        if found := _last(body, lambda value: key in value):
            return found
    if bodies:
        raise UnreadableError(f"the verdict's tag holds no object with {key!r}")
    if code is not None:
        if found := _last(text, lambda value: key in value and str(value.get("code", "")).strip() == code):
            return found
        if quotable:
            raise UnreadableError("no verdict carries the code, and one without it may be a quotation")
    if found := _last(text, lambda value: key in value):
        return found
    raise UnreadableError(f"there is no object with {key!r}" if text.strip() else "the reply is empty")


def _after_thinking(reply: str) -> str:
    text = reply.lstrip()
    if text.startswith(THINK_OPEN):
        _, closed, text = text.partition(THINK_CLOSE)
        if not closed:
            raise UnreadableError("the thinking never closed")
    return text


def _last(text: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
    for objects in (_strict_objects, _repaired_objects):
        if found := [value for value in objects(text) if wanted(value)]:
            return found[-1]
    return None


def _strict_objects(text: str) -> Iterator[dict[str, Any]]:
    """The outermost objects of a text that are valid JSON, in order."""
    decoder, position, tries = json.JSONDecoder(), 0, 0
    while (start := _OBJECT.search(text, position)) and tries < _TRIES:
        try:
            value, position = decoder.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            position, tries = start.start() + 1, tries + 1
        else:
            yield value


def _repaired_objects(text: str) -> Iterator[dict[str, Any]]:
    """What can be made of objects that are nearly JSON: all of the text's, then each fence's."""
    import json_repair

    start, end = _OBJECT.search(text), text.rfind("}")
    whole = [text[start.start() : end + 1]] if start and end > start.start() else []
    for candidate in (*whole, *_FENCE.findall(text)):
        try:
            value = json_repair.loads(candidate)
        except (ValueError, RecursionError):
            continue
        yield from _dicts(value)


def _dicts(value: Any) -> Iterable[dict[str, Any]]:
    values = value if isinstance(value, list) else [value]
    return (item for item in values if isinstance(item, dict))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


# What a server with structured output is asked for.


def _format(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}


_TEXT = {"type": "string"}
_GRADES = {"type": "integer", "enum": list(range(LOWEST, HIGHEST + 1))}

SCORES_FORMAT = _format(
    "verdict",
    {
        "analysis": _TEXT,
        "strengths": _TEXT,
        "weaknesses": _TEXT,
        "addresses_judge": {"type": "boolean"},
        "scores": {
            "type": "object",
            "properties": dict.fromkeys(DIMENSIONS, _GRADES),
            "required": list(DIMENSIONS),
            "additionalProperties": False,
        },
        "code": _TEXT,
    },
)
"""The `response_format` of a verdict (`JudgeSettings.structured`). A server that refuses it is asked without, by its
model's own rule, and its replies are read all the same."""

CHOICE_FORMAT = _format("choice", {"reason": _TEXT, "choice": {"type": "string", "enum": list(CHOICES)}, "code": _TEXT})
"""The same for the two protocols that choose between two answers."""


__all__ = [
    "CHOICES",
    "CHOICE_FORMAT",
    "SCORES_FORMAT",
    "TAG",
    "UnreadableError",
    "code_for",
    "find_object",
    "looks_like_a_verdict",
    "read_choice",
    "read_scores",
    "read_scores_public",
]
