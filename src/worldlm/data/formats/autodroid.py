"""AutoDroid: screens as simplified HTML, and the exploration graphs (UTG, YAML) that list them in order.

A record of a graph has the screen (`State`), the id of the element that was chosen on it (`Choice`, −1 for none) and
what was typed (`Input`); the next record's screen is what came of it. On a screen each element has an id, which becomes
the index of its node. There are no bounds, and neither package, activity nor size of the screen: the domain's rules
ask for them, and a screen goes without. The element `go back` is AutoDroid's own: choosing it is `navigate_back`.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from worldlm.core.text import canonical_json
from worldlm.core.types import Observation, Trajectory
from worldlm.data.formats.droidbot import android_trajectories
from worldlm.data.formats.format import Format, Reading, Shot, Source, parse

SOURCE = "AutoDroid"
BACK = "go back"
_ELEMENT = re.compile(
    r"<(?P<kind>\w+) id=(?P<id>\d+)(?: text='(?P<label>.*?)')?(?: checked=(?P<checked>True|False))? ?>"
    r"(?P<text>.*?)</(?P=kind)>\s*",
    re.DOTALL,
)
_KINDS = {
    "button": ("Button", "clickable"),
    "checkbox": ("CheckBox", "clickable checkable"),
    "input": ("EditText", "clickable editable"),
    "p": ("TextView", ""),
}
_ESCAPES = {'"': "&quot;", "\n": "&#10;", "\t": "&#9;", "\r": "&#13;"}


class Record(Source):
    """A record of a graph."""

    Choice: int
    Input: str | None = None
    State: str


class Graph(Source):
    """A graph."""

    records: list[Record]
    task_name: str | None = None


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a screen."""

    kind: str
    number: int
    text: str
    label: str
    checked: bool | None


def sniff(value: Any) -> str | None:
    """`records` with `State` and `Choice`."""
    records = value.get("records") if isinstance(value, dict) else None
    if (
        isinstance(records, list)
        and records
        and all(isinstance(r, dict) and {"State", "Choice"} <= set(r) for r in records)
    ):
        return "utg"
    return None


def read(value: Any, reading: Reading) -> list[Trajectory]:
    """The unbroken parts of a graph."""
    graph = parse(Graph, value, reading)
    shots = list(_shots(graph.records, reading))
    return android_trajectories(reading, graph.task_name or "utg", shots, "", SOURCE, SOURCE)


def _shots(records: list[Record], reading: Reading) -> Iterator[Shot]:
    action: str | None = None
    raw: str | None = None
    for index, record in enumerate(records):
        where = f"records[{index}]"
        yield Shot(action, read_screen(record.State, reading, where), raw)
        typed = record.Input if record.Input not in (None, "null") else None
        raw = f"{record.Choice} {typed}" if typed is not None else str(record.Choice)
        action = choice_action(record.State, record.Choice, typed)
        if action is None and record.Choice >= 0:
            reading.dropped("a choice that is no element of its screen: the recording breaks", where)
    if action is not None:
        reading.dropped("the last action: the screen that came of it is not there", raw or "")


def read_elements(text: str) -> list[Element]:
    """The elements of a screen. Raises ValueError for a text that is none."""
    elements = []
    position = 0
    text = text.strip()
    while position < len(text):
        match = _ELEMENT.match(text, position)
        if match is None:
            raise ValueError(f"character {position} begins no element")
        checked = None if match["checked"] is None else match["checked"] == "True"
        elements.append(
            Element(match["kind"], int(match["id"]), _plain(match["text"]), _plain(match["label"] or ""), checked)
        )
        position = match.end()
    if not elements:
        raise ValueError("no element")
    return elements


def _plain(text: str) -> str:
    return html.unescape(text.replace("<br>", "\n"))


def read_screen(text: str, reading: Reading, where: object) -> Observation | None:
    """A screen as one of the android domain, with the source's text beside it; None (and told) where it is none."""
    try:
        elements = read_elements(text)
    except ValueError as error:
        reading.dropped(f"a screen that cannot be read: the recording breaks ({error})", where)
        return None
    reading.changed(
        "a screen is written as the domain has it, without bounds, package, activity and size (the text is kept)",
        where,
    )
    rows = [_row(element) for element in elements if element.text != BACK]
    return Observation(text="\n".join(["<hierarchy>", *rows, "</hierarchy>"]), raw=text)


def _row(element: Element) -> str:
    kind, states = _KINDS.get(element.kind, ("View", "clickable"))
    states = f"{states} checked" if element.checked else states
    given = {
        "index": str(element.number),
        "class": kind,
        "text": element.text,
        "content-desc": element.label if element.label != element.text else "",
        "state": states,
    }
    return "  <node" + "".join(f' {key}="{escape(value, _ESCAPES)}"' for key, value in given.items() if value) + "/>"


def choice_action(screen: str, number: int, typed: str | None) -> str | None:
    """What choosing an element does, as an action; None where the screen has no such element."""
    try:
        chosen = next((element for element in read_elements(screen) if element.number == number), None)
    except ValueError:
        return None
    if chosen is None:
        return None
    if chosen.text == BACK:
        return canonical_json({"action_type": "navigate_back"})
    if typed is not None:
        return canonical_json({"action_type": "input_text", "index": number, "text": typed})
    return canonical_json({"action_type": "click", "index": number})


AUTODROID = Format(
    name="autodroid",
    summary="AutoDroid's exploration graphs (utg.yaml)",
    versions=("utg",),
    sniff=sniff,
    read=read,
)
