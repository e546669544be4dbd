"""Spans of a text that nobody can know before: of them only the form counts.

Times, dates, durations, ids of processes, hashes, random ids and memory addresses are *free*, unless what they say
stands in what is known already (the world, the history, the action): a commit that was shown two turns ago must be
named right.
"""

import re
from collections.abc import Iterator

from worldlm.core.text import canonical_json
from worldlm.judge.question import Question

LOOK_BACK = 200
"""Turns in which a span is looked up."""

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?"
_FREE = re.compile(
    r"(?P<uuid>\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b)"
    rf"|(?P<time>\b\d{{4}}-\d\d-\d\d(?:[T ]{_CLOCK}(?: ?Z\b| ?[+-]\d\d:?\d\d)?)?"
    rf"|\b{_DAY},? (?:\d{{1,2}} {_MONTH}|{_MONTH} +\d{{1,2}})(?: \d{{4}})?,? {_CLOCK}"
    r"(?: [A-Z]{3,4}| [+-]\d{4})?(?: \d{4})?"
    rf"|\b{_MONTH} +\d{{1,2}} +(?:{_CLOCK}|\d{{4}})"
    rf"|\b{_CLOCK}\b(?! *[A-Za-z_])(?<=:\d\d))"
    r"|(?P<address>\b0x[0-9a-fA-F]{6,16}\b)"
    r"|(?P<hash>\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}\b)"
    r"|(?P<duration>\b\d+\.\d+ ?(?:ms|s|sec|secs|seconds)\b)"
    r"|(?P<process>(?<=\[\d\] )\d{2,7}\b|(?i:(?<=\bpid )|(?<=\bpid=)|(?<=\bpid: ))\d{1,7}\b)"
    r"|(?P<temporary>(?<=/)tmp[.\w]{6,12}\b)"
)
_HINT = re.compile(r"\d\d|\d\.\d|[a-f]\d|\d[a-f]|/tmp|pid", re.IGNORECASE)


class Spans:
    """The free spans of texts that answer one question."""

    def __init__(self, question: Question):
        self._question = question
        self._known: str | None = None

    def find(self, text: str) -> Iterator[re.Match[str]]:
        """The free spans of a text; the name of the matching group says of what kind each is."""
        return (match for match in _FREE.finditer(text) if not self._is_known(match[0]))

    def mask(self, text: str) -> str:
        """The text with the name of its kind in place of each free span."""
        # Most lines have no digit, and then no span: looking for one first is several times as fast.
        lines = text.split("\n")
        return "\n".join(_FREE.sub(self._name, line) if _HINT.search(line) else line for line in lines)

    def _name(self, match: re.Match[str]) -> str:
        return match[0] if self._is_known(match[0]) else f"‹{match.lastgroup}›"

    def _is_known(self, span: str) -> bool:
        if self._known is None:
            self._known = known_text(self._question)
        return span in self._known


def known_text(question: Question) -> str:
    """All that is known before the answer, as one text."""
    world = question.world
    state = world.initial_state if isinstance(world.initial_state, str) else canonical_json(world.initial_state)
    parts = [question.action, world.context, state, world.initial_observation or ""]
    if question.initial is not None:
        parts.append(question.initial.text)
    for turn in question.history[-LOOK_BACK:]:
        parts.append(turn.action)
        if turn.observation is not None:
            parts.append(turn.observation.text)
    return "\n".join(parts)


__all__ = ["LOOK_BACK", "Spans", "known_text"]
