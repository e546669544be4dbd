"""MCP: a result as the leaves of its JSON, or as the rows of its text.

| part | weight | what |
| --- | --- | --- |
| `values` | 0.6 | leaves: path with value; a string of several lines is a leaf a line |
| `keys` | 0.15 | the paths alone, with the types of what is there |
| `structured` | 0.2 | the leaves of the structured content, where the truth has any |
| `failure` | 0.15 | the kinds of failure, where the truth reports any |
| `error` | 0.2 | `isError`, where the truth has it |
| `form` | 0.05 | valid JSON, where the truth is JSON |

Spelling of JSON (order of keys, spaces, indentation) does not count. Where other text stands around JSON, the first
value counts. Broken JSON is compared as text, row by row, and counts two fifths of that; so is text in place of JSON.
A prediction that says `isError` where there was no error counts half.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from worldlm.core.types import Observation
from worldlm.judge.question import Question
from worldlm.judge.verifiers.failures import compare_failures
from worldlm.judge.verifiers.rows import Row, likeness, make_row, text_rows, words
from worldlm.judge.verifiers.spans import Spans
from worldlm.judge.verifiers.verification import Part

FALSE_ERROR = 0.5
"""What all is worth in a prediction that says `isError` where there was no error."""
UNASKED = 0.9
"""The same, of one with structured content where there was none."""
AROUND = 0.95
"""What keys and values are worth in JSON with other text around it."""
BROKEN = 0.4
"""The same, in JSON that cannot be read: whoever called the tool cannot read it either."""


def compare_results(question: Question, predicted: Observation, spans: Spans) -> Sequence[Part]:
    """The parts of a tool's result."""
    truth = question.truth
    real = _load(truth.text)
    strict = _load(predicted.text)
    failure, worth = compare_failures(truth.text, predicted.text)
    worth *= FALSE_ERROR if predicted.is_error and not truth.is_error else 1.0
    worth *= UNASKED if predicted.structured is not None and truth.structured is None else 1.0
    parts = []
    if real is None:
        rows, told = text_rows(spans.mask(truth.text)), text_rows(spans.mask(predicted.text))
        parts.append(Part(name="values", weight=0.75, value=worth * likeness(rows, told)))
    else:
        said = strict or _first_value(predicted.text)
        if said:
            ours, theirs = list(leaves(real[0], spans)), list(leaves(said[0], spans))
            values, keys = likeness(ours, theirs), _keys(ours, theirs)
        else:
            rows, told = text_rows(spans.mask(truth.text)), text_rows(spans.mask(predicted.text))
            values = keys = likeness(rows, told)
        # JSON with something around it is not the reference.
        most = worth if strict else worth * (AROUND if said else BROKEN)
        parts.append(Part(name="values", weight=0.6, value=most * values))
        parts.append(Part(name="keys", weight=0.15, value=most * keys))
        parts.append(Part(name="form", weight=0.05, value=worth * (strict is not None)))
    if truth.structured is not None:
        told = [] if predicted.structured is None else list(leaves(predicted.structured, spans))
        alike = likeness(list(leaves(truth.structured, spans)), told)
        parts.append(Part(name="structured", weight=0.2, value=worth * alike))
    if truth.is_error:
        parts.append(Part(name="error", weight=0.2, value=predicted.is_error))
    return parts + failure


def _load(text: str) -> tuple[Any] | None:
    """The object or array that a text is; None for anything else (a bare word or number is text)."""
    if text.strip()[:1] not in ("{", "["):
        return None
    try:
        return (json.loads(text),)
    except (ValueError, RecursionError):
        return None


def _first_value(text: str) -> tuple[Any] | None:
    """The first object or array in a text that has more than that.

    Nothing is repaired: what stands behind broken JSON could mend it, and so gain by being there.
    """
    begin = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if begin < 0:
        return None
    try:
        return (json.JSONDecoder().raw_decode(text, begin)[0],)
    except (ValueError, RecursionError):
        return None


_KINDS = {bool: "truth", int: "number", float: "number", type(None): "null", str: "text"}


def leaves(value: Any, spans: Spans) -> Iterator[Row]:
    """The leaves of a JSON value in the order of its keys, as rows. The places in an array are not told apart."""
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, Row):
            yield item
            continue
        if isinstance(item, str) and (inner := _load(item)) is not None:
            yield _leaf(path, "JSON", "text")
            item = inner[0]
        if isinstance(item, dict) and item:
            waiting.extend((f"{path}[{key!r}]", item[key]) for key in sorted(item, reverse=True))
        elif isinstance(item, list) and item:
            for element in reversed(item):
                waiting.append((f"{path}[]", element))
                if isinstance(element, dict | list):  # two objects are not one with the keys of both
                    waiting.append(("", make_row(f"{path}[]", (path, "element"), f"{path}[]", 0.5)))
        elif isinstance(item, str):
            for line in spans.mask(item).split("\n"):
                yield _leaf(path, line, "text")
        elif isinstance(item, dict | list):
            yield _leaf(path, "{}" if isinstance(item, dict) else "[]", "empty")
        else:
            whole = isinstance(item, float) and item.is_integer()
            yield _leaf(path, json.dumps(int(item) if whole else item), _KINDS.get(type(item), "text"))


def _leaf(path: str, value: str, kind: str) -> Row:
    value = value.rstrip()
    return make_row(f"{path}={kind}:{value}", (path, kind, *words(value)), path)


def _keys(truth: Sequence[Row], predicted: Sequence[Row]) -> float:
    def keys(rows: Sequence[Row]) -> list[Row]:
        return [make_row(f"{row.loose}:{row.tokens[1]}", (row.loose,), row.loose, 1.0) for row in rows]

    return likeness(keys(truth), keys(predicted))
