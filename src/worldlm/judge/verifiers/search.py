"""Search: blocks of results, pages, and the answers of a memory.

| results | weight | what |
| --- | --- | --- |
| `addresses` | 0.3 | the addresses, in order (some credit for another page of the same host) |
| `titles` | 0.15 | of the results with the right address, else of the same rank |
| `snippets` | 0.2 | text overlap of the same pairs |
| `dates` | 0.05 | of the same pairs (half for another date of the right form) |
| `count` | 0.05 | how many results |
| `rows` | 0.2 | all rows, those that belong to no result included |
| `form` | 0.05 | blocks of four lines, numbered in order, and no other lines but headings |

Count, dates and form come cheap where the addresses are wrong: then they count down to a tenth. A page, a notice or
the memory's answer is a text (`head`, `text`, `failure`, as of a tool's result in swe).
"""

import re
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from rapidfuzz.distance import Indel

from worldlm.core.types import Observation
from worldlm.domains.search import is_date
from worldlm.judge.question import Question
from worldlm.judge.verifiers.rows import (
    NEARLY,
    Row,
    align,
    likeness,
    line_likeness,
    make_row,
    text_rows,
    words,
)
from worldlm.judge.verifiers.spans import Spans
from worldlm.judge.verifiers.swe import compare_text
from worldlm.judge.verifiers.verification import Part

CHEAP = 0.1
"""What count, dates and form are worth where no address is right."""
_HEAD = re.compile(r"^\[(\d{1,3})\] (\S+)[^\S\n]*$", re.MULTILINE)
_FIELD = re.compile(r"^(Title|Snippet|Date): (.*)$", re.MULTILINE)
_HEADING = "## Results for: "


class _Result(NamedTuple):
    address: str
    title: str
    snippet: str
    date: str
    whole: bool
    """Whether the block is four lines in their order."""


def compare_search(question: Question, predicted: Observation, spans: Spans) -> Sequence[Part]:
    """The parts of an answer of the search engine."""
    ours = _results(question.truth.text)
    if not ours:
        return compare_text(spans.mask(question.truth.text), spans.mask(predicted.text))
    theirs = _results(predicted.text)
    left, right = [_address(item) for item in ours], [_address(item) for item in theirs]
    addresses = likeness(left, right)
    pairs = _pairs(left, right, len(ours), len(theirs))
    most = max(len(ours), len(theirs))
    share = CHEAP + (1 - CHEAP) * addresses
    titles = sum(line_likeness(ours[i].title, theirs[j].title) for i, j in pairs) / most
    snippets = sum(_overlap(ours[i].snippet, theirs[j].snippet) for i, j in pairs) / most
    dates = sum(_same_date(ours[i].date, theirs[j].date) for i, j in pairs) / most
    whole = sum(item.whole for item in theirs) / most
    stray = max(0, _stray(predicted.text) - _stray(question.truth.text))
    return [
        Part(name="addresses", weight=0.3, value=addresses),
        Part(name="titles", weight=0.15, value=min(titles, 1.0)),
        Part(name="snippets", weight=0.2, value=min(snippets, 1.0)),
        Part(name="dates", weight=0.05, value=share * min(dates, 1.0)),
        Part(name="count", weight=0.05, value=share * min(len(ours), len(theirs)) / most),
        Part(name="rows", weight=0.2, value=likeness(text_rows(question.truth.text), text_rows(predicted.text))),
        Part(name="form", weight=0.05, value=share * whole / (1 + stray)),
    ]


def _results(text: str) -> list[_Result]:
    """The results that a text states, as far as it states any."""
    heads = list(_HEAD.finditer(text))
    found = []
    expected = 0
    for index, head in enumerate(heads):
        body = text[head.end() : heads[index + 1].start() if index + 1 < len(heads) else len(text)]
        body = body.partition(f"\n{_HEADING}")[0].strip("\n")
        fields: dict[str, str] = {}
        for name, value in _FIELD.findall(body):
            fields.setdefault(name, value.rstrip())
        number = int(head[1])
        expected = 1 if number == 1 else expected + 1
        whole = number == expected and list(fields) == ["Title", "Snippet", "Date"] and body.count("\n") == 2
        title, snippet, day = (fields.get(name, "") for name in ("Title", "Snippet", "Date"))
        found.append(_Result(head[2], title, snippet, day, whole))
    return found


def _address(item: _Result) -> Row:
    host = _host(item.address)
    # An address is right or wrong; the same host is worth a little.
    return make_row(item.address, (host, *(item.address,) * 2), host, 1.0)


def _host(address: str) -> str:
    try:
        return urlsplit(address).hostname or address
    except ValueError:
        return address


def _pairs(left: Sequence[Row], right: Sequence[Row], ours: int, theirs: int) -> list[tuple[int, int]]:
    """Results with one address, then those of one rank that have no partner."""
    pairs = [(match.truth, match.predicted) for match in align(left, right) if match.credit == 1]
    taken, given = {i for i, _ in pairs}, {j for _, j in pairs}
    return pairs + [(i, i) for i in range(min(ours, theirs)) if i not in taken and i not in given]


def _overlap(truth: str, said: str) -> float:
    if truth == said:
        return 1.0
    return float(NEARLY * Indel.normalized_similarity(words(truth), words(said)) ** 2)


def _same_date(truth: str, said: str) -> float:
    if truth == said:
        return 1.0
    return 0.5 if is_date(truth) and is_date(said) else 0.0


def _stray(text: str) -> int:
    """Rows that belong to no result and are no heading."""
    lines = [line for line in text.split("\n") if line.strip()]
    return sum(not (_HEAD.match(line) or _FIELD.match(line) or line.startswith(_HEADING)) for line in lines)
