"""Web, Android and OS: trees on a screen, as a whole and as the change from the screen before.

A tree is its nodes in the order of its text, each with its depth: from that sequence the tree can be told. How alike
two trees are is measured on the sequences (matched rows, `rows`), which is fast for thousands of nodes. Against the
exact edit distance of trees (Zhang and Shasha, 1989) it is an approximation: a node that is left out with its
children moving up costs some of the children's depth as well, and a subtree that moves is one removed and one added.

| part | weight | what |
| --- | --- | --- |
| `screen` | 0.2 | header lines and nodes of the whole screen |
| `change` | 0.6 | F1 of what changed since the screen before: nodes that went and nodes that came |
| `change_precision`, `change_recall` | 0 | what F1 is made of |
| `place` | 0.1 | address and tabs, package and activity, and the like, where they changed |
| `focus` | 0.05 | the focused node, where it changed |
| `form` | 0.05 | it can be read, and keeps the rules of a screen that the real one keeps |

The last screen again is right where nothing changed, and earns no `change`, `place` or `focus` where something did.
Where nothing changed, `change` is 1 / (1 + nodes that were changed wrongly), with weight 0.4, and `screen` weighs 0.4.

Ids of nodes that are new in a page (web) are free as long as each is used once; the numbers of nodes (android) follow
from their order and are not compared.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from xml.sax.saxutils import unescape

from rapidfuzz.distance import Indel

from worldlm.core.types import Observation
from worldlm.domains import android, desktop, web
from worldlm.domains.gui import Screens
from worldlm.domains.tree import Node, TreeError, read_outline
from worldlm.judge.question import Question
from worldlm.judge.verifiers.rows import (
    MOST_ROWS,
    NOT_EQUAL,
    Row,
    align,
    earned,
    likeness,
    make_row,
    weigh,
    words,
)
from worldlm.judge.verifiers.spans import Spans
from worldlm.judge.verifiers.verification import Part

HEADER_WEIGHT = 12.0
"""What a header line weighs; a node weighs as much as it has words."""

SAME_NODE = 0.6
"""The least that a node that came must earn (`rows`): four fifths of it alike."""


@dataclass(frozen=True, slots=True)
class _Style:
    """How the screens of a domain are read."""

    screens: Screens
    rows: Callable[[str, frozenset[str]], list[Row]]
    """The rows of a text (any text), given the ids of the screen before."""
    ids: re.Pattern[str] | None = None
    """What finds the ids in a text, where those count."""
    place: tuple[str, ...] = ()
    """The header keys that say where one is."""


def _compare(style: _Style, question: Question, predicted: Observation) -> list[Part]:
    before = question.before.text if question.before is not None else ""
    known = frozenset(style.ids.findall(before)) if style.ids else frozenset[str]()
    base, truth, said = (style.rows(text, known) for text in (before, question.truth.text, predicted.text))
    parts = [Part(name="form", weight=0.05, value=_form(style.screens, question.truth.text, predicted.text))]
    true_change, change = _Change.of(base, truth), _Change.of(base, said)
    if true_change.is_empty:
        value = 1 / (1 + len(change.went) + len(change.came))
        return [
            Part(name="screen", weight=0.4, value=likeness(truth, said)),
            Part(name="change", weight=0.4, value=value),
            *parts,
        ]
    hit = true_change.hit(change, base)
    due, told = true_change.weight(base), change.weight(base)
    same = [row.key for row in truth] == [row.key for row in said]
    f1, precision, recall = (
        1.0 if same else min(value, NOT_EQUAL)
        for value in (2 * hit / (due + told), hit / told if told else 0.0, hit / due)
    )
    parts += [
        Part(name="screen", weight=0.2, value=likeness(truth, said)),
        Part(name="change", weight=0.6, value=f1),
        Part(name="change_precision", weight=0, value=precision),
        Part(name="change_recall", weight=0, value=recall),
    ]
    for name, weight, of in (("place", 0.1, lambda rows: _place(rows, style.place)), ("focus", 0.05, _focus)):
        due_rows = of(truth)
        if due_rows and due_rows != of(base):
            parts.append(Part(name=name, weight=weight, value=likeness(due_rows, of(said))))
    return parts


@dataclass(frozen=True, slots=True)
class _Change:
    """Which rows of a base went, and which came."""

    went: frozenset[int]
    came: list[Row]

    @classmethod
    def of(cls, base: Sequence[Row], new: Sequence[Row]) -> "_Change":
        went: set[int] = set()
        came: list[Row] = []
        for step in Indel.opcodes([row.key for row in base[:MOST_ROWS]], [row.key for row in new[:MOST_ROWS]]):
            if step.tag == "delete":
                went.update(range(step.src_start, step.src_end))
            elif step.tag == "insert":
                came += new[step.dest_start : step.dest_end]
        return cls(frozenset(went), came + list(new[MOST_ROWS:]))

    @property
    def is_empty(self) -> bool:
        return not self.went and not self.came

    def weight(self, base: Sequence[Row]) -> float:
        return weigh([base[index] for index in self.went]) + weigh(self.came)

    def hit(self, predicted: "_Change", base: Sequence[Row]) -> float:
        """The weight of what went and came in both.

        Clearing the screen is no half of showing another one: what went counts in the proportion in which what was
        to come in its place has come or, where nothing was to come, what was to stay has stayed.
        """
        went = weigh([base[index] for index in self.went & predicted.went])
        if not self.came:
            due = [index for index in range(len(base)) if index not in self.went]
            stayed = weigh([base[index] for index in due if index not in predicted.went])
            return went * stayed / weigh([base[index] for index in due]) if due else went
        # One node that came wrongly is not another one that should have come, though all nodes have words in common.
        matches = [match for match in align(self.came, predicted.came) if match.credit >= SAME_NODE]
        came = earned(self.came, predicted.came, matches) / 2
        return came + went * min(1.0, came / weigh(self.came))


def _form(screens: Screens, truth: str, said: str) -> float:
    """Whether it can be read as far as the real one can. All or nothing: else a fault might pay for another."""
    real = _rules(screens, truth)
    if real is None:
        return 1.0
    kept = _rules(screens, said)
    return float(kept is not None and all(passed or not real.get(name, True) for name, passed in kept.items()))


def _rules(screens: Screens, text: str) -> Mapping[str, bool] | None:
    try:
        return {check.rule: check.passed for check in screens.alone(screens.read(text))}
    except (TreeError, RecursionError):
        return None


def _place(rows: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    return [row for row in rows if row.loose.startswith("header ") and row.loose[7:] in keys]


def _focus(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if "focused" in row.tokens]


# Rows of an outline (web, os).


def _outline_rows(headers: tuple[str, ...]) -> Callable[[str, frozenset[str]], list[Row]]:
    @lru_cache(maxsize=1 << 15)
    def short_row(line: str, id_known: bool) -> Row:
        return make(line, id_known)

    def make(line: str, id_known: bool) -> Row:
        body = line.strip()
        key, colon, rest = body.partition(":")
        if colon and key in headers and line[:1] == key[:1]:
            return make_row(f"{key}: {rest.strip()}", (key, *words(rest)), f"header {key}", HEADER_WEIGHT)
        depth = len(line) - len(line.lstrip())
        try:
            node = read_outline(body, ()).roots[0]
        except TreeError:
            return make_row(f"{depth} {body}", words(body), body)
        return _node_row(depth, node, node.id if id_known or node.id is None else "new")

    def rows(text: str, known: frozenset[str]) -> list[Row]:
        used: set[str] = set()
        found = []
        for line in text.split("\n"):
            if not line.strip():
                continue
            match = _ID.match(line)
            free = match is not None and match[1] not in known and match[1] not in used
            if match is not None:
                used.add(match[1])
            found.append(make(line, not free) if len(line) > 400 else short_row(line.rstrip(), not free))
        return found

    return rows


_ID = re.compile(r"[ \t]*\[([^\]\s]+)\]")


def _node_row(depth: int, node: Node, node_id: str | None) -> Row:
    attributes = [f"{key}={value}" for key, value in sorted(node.attributes.items()) if key != "value"]
    states = sorted(node.states)
    box = [f"({node.box.x},{node.box.y} {node.box.width}x{node.box.height})"] if node.box else []
    name, value = words(node.name), words(node.value)
    tokens = (str(depth), node.role, *name, *value, *attributes, *states, *box, node_id or "")
    key = repr((depth, node.role, node.name, node.value, attributes, states, box, node_id))
    return make_row(key, tokens, f"{node.role} {node.name}")


# Rows of a hierarchy (android).

_ELEMENT = re.compile(r"<(?P<close>/)?(?P<tag>[\w.-]+)(?P<attributes>(?:[^<>\"']|\"[^\"]*\"|'[^']*')*?)(?P<empty>/)?>")
_ATTRIBUTE = re.compile(r"([\w:.-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_QUOTES = {"&quot;": '"', "&#10;": "\n", "&#9;": "\t", "&#13;": "\r", "&apos;": "'"}
_HEADER = ("package", "activity", "window", "screen", "keyboard", "error")


def _hierarchy_rows(text: str, known: frozenset[str]) -> list[Row]:
    found: list[Row] = []
    depth = position = 0
    for match in _ELEMENT.finditer(text):
        found += _stray(text[position : match.start()])
        position = match.end()
        if match["close"]:
            depth = max(0, depth - 1)
            continue
        attributes = match["attributes"]
        found += _header(attributes) if match["tag"] == "hierarchy" else [_element(depth, match["tag"], attributes)]
        depth += not match["empty"]
    return found + _stray(text[position:])


def _stray(text: str) -> list[Row]:
    """What stands between elements: nothing, as a rule."""
    return [make_row(line, words(line), line) for line in map(str.strip, text.split("\n")) if line]


def _header(attributes: str) -> list[Row]:
    """Each attribute of the hierarchy is a header line."""
    return [
        make_row(f"{key}: {value}", (key, *words(value)), f"header {key}", HEADER_WEIGHT)
        for key, value in sorted(_attributes(attributes).items())
    ]


def _attributes(text: str) -> dict[str, str]:
    return {key: unescape(one or other, _QUOTES) for key, one, other in _ATTRIBUTE.findall(text)}


@lru_cache(maxsize=1 << 15)
def _element(depth: int, tag: str, attributes: str) -> Row:
    given = _attributes(attributes)
    given.pop("index", None)
    role = given.pop("class", tag)
    states = sorted(given.pop("state", "").split())
    bounds = [given.pop("bounds")] if "bounds" in given else []
    name = given.get("text") or given.get("content-desc") or given.get("hint", "")
    rest = [token for key, value in sorted(given.items()) for token in (key, *words(value))]
    key = repr((depth, tag, role, sorted(given.items()), states, bounds))
    return make_row(key, (str(depth), role, *rest, *states, *bounds), f"{role} {name}")


_WEB = _Style(
    web.SCREENS,
    _outline_rows(web.HEADERS),
    re.compile(r"^[ \t]*\[([^\]\s]+)\]", re.MULTILINE),
    ("URL", "Tabs"),
)
_ANDROID = _Style(android.SCREENS, _hierarchy_rows, None, ("package", "activity", "window"))
_OS = _Style(desktop.SCREENS, _outline_rows(desktop.HEADERS), None, ("Error",))


def compare_web(question: Question, predicted: Observation, spans: Spans) -> Sequence[Part]:
    """The parts of a page."""
    return _compare(_WEB, question, predicted)


def compare_android(question: Question, predicted: Observation, spans: Spans) -> Sequence[Part]:
    """The parts of a phone's screen."""
    return _compare(_ANDROID, question, predicted)


def compare_os(question: Question, predicted: Observation, spans: Spans) -> Sequence[Part]:
    """The parts of a desktop."""
    return _compare(_OS, question, predicted)
