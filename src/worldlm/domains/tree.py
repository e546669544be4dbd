"""The trees that GUI observations are made of, read from their text.

Two spellings, one type. An *outline* (web, os) is header lines and then one node a line,
indented by a tab a level:

    Key: value
    [id] role 'name' (x,y WxH) value='text', key=value, state, state

Only the role is required. A string is a Python string literal in either kind of quotes. A key and its value stand
after a space or a comma; a bare word after a comma is a state, and so is `key=True` (`key=False` is not).

A *hierarchy* (android) is XML: the attributes of `<hierarchy>` are the header, its elements are `<node>` (nested)
and `<toast>`; `bounds="[x1,y1][x2,y2]"`; `state` lists states. uiautomator's `clickable="true"` counts as a state too.

Reading is strict about what a rule is decided on (names, ids, numbers, nesting) and lenient about what no
reader would stumble over: either quotes, spaces for tabs if used throughout, blank lines, space at line ends.
"""

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from xml.etree import ElementTree

from worldlm.core.types import Check

_STRING = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_HEAD = re.compile(
    r"(?:\[(?P<id>[^\]\s]+)\] )?"
    r"(?P<role>[A-Za-z][\w-]*(?: [A-Za-z][\w-]*)*?)(?=\s*$| ['\"(]|,| [\w-]+=)"
    rf"(?: (?P<name>{_STRING}))?"
    r"(?: \((?P<box>-?\d{1,6},-?\d{1,6} -?\d{1,6}x-?\d{1,6})\))?"
)
_ATTRIBUTE = re.compile(
    rf"(?:, ?| (?=[\w-]+=))(?P<key>[A-Za-z][\w-]*)(?:=(?P<value>{_STRING}|\([^)]*\)|\[[^\]]*\]|[^,\s]*))?"
)
_BOUNDS = re.compile(r"\[(-?\d{1,6}),(-?\d{1,6})\]\[(-?\d{1,6}),(-?\d{1,6})\]")
MAX_DEPTH = 200
"""Levels that a tree may have; real ones have some dozens."""
_STATES = ("checkable", "checked", "clickable", "focused", "scrollable", "long-clickable", "password", "selected")


class TreeError(ValueError):
    """A text that is no tree. The message names the line and what is wrong in it."""


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node is on the screen, in pixels from its top left corner."""

    x: int
    y: int
    width: int
    height: int

    def holds(self, x: int, y: int) -> bool:
        """Whether a point lies in it."""
        return self.x <= x < self.x + self.width and self.y <= y < self.y + self.height


@dataclass(frozen=True, slots=True)
class Node:
    """One element. `name` is what it is called on the screen; `""` when it has no name."""

    role: str
    name: str = ""
    id: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    states: frozenset[str] = frozenset()
    box: Box | None = None
    children: list["Node"] = field(default_factory=list)

    @property
    def value(self) -> str:
        """The `value` attribute, `""` without one."""
        return self.attributes.get("value", "")


@dataclass(frozen=True, slots=True)
class Tree:
    """A header and the nodes under it."""

    header: Mapping[str, str]
    roots: list[Node]

    def nodes(self) -> Iterator[Node]:
        """Every node, parents before children, in the order of the text."""
        waiting = list(reversed(self.roots))
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def find(self, node_id: str) -> Node | None:
        """The first node with this id."""
        return next((node for node in self.nodes() if node.id == node_id), None)

    def same_nodes(self, other: "Tree") -> bool:
        """Whether both show the same nodes, whatever the headers say. Toasts do not count."""
        ours, theirs = ([node for node in tree.roots if node.role != "toast"] for tree in (self, other))
        return ours == theirs


def read_outline(text: str, headers: Sequence[str], *, empty: bool = False) -> Tree:
    """An outline whose header lines may be those of `headers`; `empty`: with or without nodes. Raises TreeError."""
    header: dict[str, str] = {}
    roots: list[Node] = []
    path: list[Node] = []
    unit = ""
    for number, line in enumerate(text.split("\n"), 1):
        body = line.rstrip()
        if not body:
            continue
        key, colon, rest = body.partition(":")
        if not roots and colon and key in headers:
            if key in header:
                raise TreeError(f"line {number}: a second {key!r} line")
            header[key] = rest.strip()
            continue
        content = body.lstrip()
        indent = body[: len(body) - len(content)]
        unit = unit or ("\t" if indent.startswith("\t") else indent)
        depth = len(indent) // len(unit) if indent else 0
        if indent != unit * depth:
            raise TreeError(f"line {number}: the indentation is not a multiple of the first one; use a tab a level")
        if depth > len(path):
            raise TreeError(f"line {number}: indented by {depth} levels under a node of level {len(path) - 1}")
        if depth >= MAX_DEPTH:
            raise TreeError(f"line {number}: more than {MAX_DEPTH} levels")
        node = _read_line(content, number)
        del path[depth:]
        (path[-1].children if path else roots).append(node)
        path.append(node)
    if not roots and not (empty and header):
        raise TreeError("there is no node")
    return Tree(header, roots)


def _read_line(text: str, number: int) -> Node:
    head = _HEAD.match(text)
    if head is None:
        raise TreeError(f"line {number}: not a node ([id] role 'name', …): {_short(text)}")
    attributes: dict[str, str] = {}
    states: set[str] = set()
    position = head.end()
    while position < len(text):
        match = _ATTRIBUTE.match(text, position)
        if match is None:
            raise TreeError(f"line {number}: not understood from column {position + 1} on: {_short(text[position:])}")
        key, value = match["key"], match["value"]
        if value is None or value in ("True", "true"):
            states.add(key)
        elif value not in ("False", "false"):
            attributes[key] = _string(value, number) if value[:1] in "'\"" else value
        position = match.end()
    name = _string(head["name"], number) if head["name"] else ""
    box = Box(*map(int, re.findall(r"-?\d+", head["box"]))) if head["box"] else None
    return Node(head["role"], name, head["id"], attributes, frozenset(states), box)


def _string(literal: str, number: int) -> str:
    if not literal:
        return ""
    try:
        return string_literal(literal)
    except ValueError as error:
        raise TreeError(f"line {number}: {_short(literal)} is not a string: {error}") from error


def read_hierarchy(text: str) -> Tree:
    """A view hierarchy. Raises TreeError."""
    if "<!DOCTYPE" in text:
        raise TreeError("a hierarchy has no document type")
    try:
        root = ElementTree.fromstring(text.strip())
    except ElementTree.ParseError as error:
        line, column = error.position
        what = str(error).partition(":")[0]
        raise TreeError(f"line {line}, column {column + 1}: not well-formed XML: {what}") from error
    if root.tag != "hierarchy":
        raise TreeError(f"the outermost element is <{root.tag}>; it must be <hierarchy>")
    roots: list[Node] = []
    waiting = [(element, roots, 1) for element in reversed(root)]
    while waiting:
        element, siblings, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise TreeError(f"more than {MAX_DEPTH} levels")
        node = _read_element(element)
        siblings.append(node)
        waiting.extend((child, node.children, depth + 1) for child in reversed(element))
    return Tree(dict(root.attrib), roots)


def _read_element(element: ElementTree.Element) -> Node:
    attributes = dict(element.attrib)
    if element.tag == "toast":
        return Node("toast", attributes.get("text", ""), attributes=attributes)
    if element.tag != "node":
        raise TreeError(f"unknown element <{element.tag}>; a hierarchy is made of <node> and <toast>")
    role = attributes.get("class")
    if not role:
        raise TreeError(f"a <node> without class: {_short(str(attributes))}")
    states = set(attributes.get("state", "").split())
    states |= {name.replace("-", "_") for name in _STATES if attributes.get(name) == "true"}
    if attributes.get("enabled") == "false":
        states.add("disabled")
    box = None
    if "bounds" in attributes:
        match = _BOUNDS.fullmatch(attributes["bounds"])
        if match is None:
            raise TreeError(f"bounds must read [x1,y1][x2,y2], not {_short(attributes['bounds'])}")
        left, top, right, bottom = map(int, match.groups())
        box = Box(left, top, right - left, bottom - top)
    name = attributes.get("text") or attributes.get("content-desc", "")
    return Node(role, name, attributes.get("index"), attributes, frozenset(states), box)


def string_literal(literal: str) -> str:
    """The string that a Python literal spells. Raises ValueError."""
    if "\\" not in literal:
        return literal[1:-1]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in a page's text is no news to our user
            return str(ast.literal_eval(literal))
    except SyntaxError as error:
        raise ValueError(error.msg) from error


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"


# Rules that hold for every kind of tree.


def unique_ids(tree: Tree) -> Check:
    """No two nodes have one id."""
    twice = [name for name, count in Counter(node.id for node in tree.nodes() if node.id).items() if count > 1]
    return Check(rule="unique_ids", passed=not twice, message=f"ids used more than once: {', '.join(twice[:5])}")


def one_focused(tree: Tree, *, apart_from: str = "") -> Check:
    """At most one node has the focus (not counting nodes of the role `apart_from`)."""
    count = sum("focused" in node.states and node.role != apart_from for node in tree.nodes())
    return Check(rule="one_focused", passed=count <= 1, message=f"{count} nodes are focused; at most one can be")


def on_screen(tree: Tree, width: int, height: int, *, wholly: bool) -> Check:
    """Boxes have no negative size and lie on the screen, `wholly` or in part (a hidden node's box may be empty)."""
    for node in tree.nodes():
        box = node.box
        if box is None:
            continue
        inside = box.x >= 0 and box.y >= 0 and box.x + box.width <= width and box.y + box.height <= height
        touches = box.x < width and box.y < height and box.x + box.width >= 0 and box.y + box.height >= 0
        if box.width < 0 or box.height < 0 or not (inside if wholly else touches):
            what = f"{node.role} {node.name!r} at {box.x},{box.y} of {box.width}x{box.height}"
            return Check(rule="on_screen", passed=False, message=f"{_short(what)}: not on a {width}x{height} screen")
    return Check(rule="on_screen", passed=True)


def size(text: str) -> tuple[int, int] | None:
    """Width and height of a `1080x2400`."""
    match = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    return (int(match[1]), int(match[2])) if match else None


__all__ = [
    "Box",
    "Node",
    "Tree",
    "TreeError",
    "on_screen",
    "one_focused",
    "read_hierarchy",
    "read_outline",
    "size",
    "string_literal",
    "unique_ids",
]
