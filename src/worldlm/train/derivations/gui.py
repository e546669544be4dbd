"""What follows on a screen: which element is meant, and what of the screen changes.

For the domains whose observations are outlines of elements: web and os.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from worldlm.core.errors import ActionError
from worldlm.core.types import Observation, ToolCall, Trajectory
from worldlm.domains import desktop, get_domain, web
from worldlm.domains.gui import Screens
from worldlm.domains.tree import Node, Tree, TreeError
from worldlm.train.derivations.claims import Book, Claim, Kind, Rule, are, claim, number

MOST_CHANGES = 2
"""Changes that one derivation tells of."""
LONG_VALUE = 60
"""Characters from which on a name or value is not told."""


@dataclass(frozen=True)
class ScreenScene:
    """A turn on a screen."""

    read: Callable[[str], Tree]
    screens: Sequence[str]
    """What was shown first, and after each turn before (the same screen again after one that failed)."""
    call: ToolCall | None
    action: str
    truth: str

    def answered(self, observation: Observation) -> "ScreenScene":
        """The same turn, if this had been the answer."""
        return replace(self, truth=observation.text)

    @property
    def said(self) -> str:
        """The lines that are new."""
        before = set(self.screens[-1].split("\n"))
        return "\n".join(line for line in self.truth.split("\n") if line not in before)

    @cached_property
    def before(self) -> Tree | None:
        """The screen on which the action is done."""
        return self._tree(self.screens[-1])

    @cached_property
    def after(self) -> Tree | None:
        """The screen that follows."""
        return self._tree(self.truth)

    def _tree(self, text: str) -> Tree | None:
        try:
            return self.read(text)
        except TreeError:
            return None


def _scenes(screens: Screens) -> Callable[[Trajectory], Iterator[tuple[int, ScreenScene]]]:
    def scenes(trajectory: Trajectory) -> Iterator[tuple[int, ScreenScene]]:
        domain = get_domain(trajectory.world.domain)
        if trajectory.initial is None:
            return
        shown = [trajectory.initial.text]
        for at, turn in enumerate(trajectory.turns, 1):
            try:
                call = domain.parse_action(turn.action, trajectory.world)
            except ActionError:
                call = None
            if turn.observation is not None:
                yield at, ScreenScene(screens.read, shown, call, turn.action, turn.observation.text)
            shown.append(turn.observation.text if turn.observation else shown[-1])

    return scenes


def told(node: Node) -> str:
    """An element in words: its role and its name."""
    return f"{node.role} {node.name!r}" if node.name else node.role


# What holds.


def _element(scene: ScreenScene, bid: str, element: str) -> bool:
    node = scene.before.find(bid) if scene.before else None
    return bid in scene.action and node is not None and told(node) == element


def _absent(scene: ScreenScene, bid: str) -> bool:
    return f'"{bid}"' in scene.action.replace("'", '"') and scene.before is not None and scene.before.find(bid) is None


def element_at(tree: Tree, x: int, y: int) -> Node | None:
    """The last and innermost element whose box holds a point."""
    found = [node for node in tree.nodes() if node.box is not None and node.box.holds(x, y)]
    return found[-1] if found else None


def _at(scene: ScreenScene, x: str, y: str, element: str) -> bool:
    if scene.before is None or number(x) < 0 or number(y) < 0:
        return False
    node = element_at(scene.before, number(x), number(y))
    return re.search(rf"\b{x}, ?{y}\b", scene.action) is not None and node is not None and told(node) == element


def focused(tree: Tree | None) -> Node | None:
    """The element that has the focus."""
    return next((node for node in tree.nodes() if "focused" in node.states), None) if tree else None


def _focus(scene: ScreenScene, element: str) -> bool:
    node = focused(scene.before)
    return node is not None and told(node) == element


def _focus_moves(scene: ScreenScene, element: str) -> bool:
    node, old = focused(scene.after), focused(scene.before)
    return node is not None and told(node) == element and (old is None or (told(old), old.id) != (element, node.id))


def _tree_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if not re.match(r"[A-Z]\w+: ", line)]


def _stays(scene: ScreenScene) -> bool:
    return _tree_lines(scene.truth) == _tree_lines(scene.screens[-1])


def _values(tree: Tree) -> dict[str, tuple[str, ...]]:
    """The values by element, in the order of the screen."""
    found: dict[str, tuple[str, ...]] = {}
    for node in tree.nodes():
        if node.value or "value" in node.attributes:
            found[_key(node)] = (*found.get(_key(node), ()), node.value)
    return found


def _elements(tree: Tree) -> set[str]:
    return {_key(node) for node in tree.nodes()}


def _key(node: Node) -> str:
    return f"[{node.id}] {told(node)}" if node.id else told(node)


def _value_becomes(scene: ScreenScene, element: str, value: str) -> bool:
    if scene.before is None or scene.after is None:
        return False
    old, new = (_values(tree).get(element, ()) for tree in (scene.before, scene.after))
    changed = value in [repr(text) for text in new] and value not in [repr(text) for text in old]
    return changed and element in _elements(scene.before)


STATES = ("checked", "selected", "expanded", "active", "disabled", "pressed")


def _with_state(tree: Tree, state: str) -> Counter[str]:
    return Counter(
        _key(node) for node in tree.nodes() if state in node.states or node.attributes.get(state) in ("True", "true")
    )


def _state_comes(scene: ScreenScene, element: str, state: str) -> bool:
    if scene.before is None or scene.after is None or state not in STATES:
        return False
    more = _with_state(scene.after, state)[element] > _with_state(scene.before, state)[element]
    return more and element in _elements(scene.before)


def _state_goes(scene: ScreenScene, element: str, state: str) -> bool:
    if scene.before is None or scene.after is None or state not in STATES:
        return False
    fewer = _with_state(scene.after, state)[element] < _with_state(scene.before, state)[element]
    return fewer and element in _elements(scene.after)


def _windows(tree: Tree | None) -> Counter[str]:
    return Counter(told(node) for node in tree.nodes() if node.role in desktop.WINDOWS) if tree else Counter()


def _opens(scene: ScreenScene, window: str) -> bool:
    before, after = _windows(scene.before), _windows(scene.after)
    return after[window] > before[window] and after.total() > before.total()


def _closes(scene: ScreenScene, window: str) -> bool:
    before, after = _windows(scene.before), _windows(scene.after)
    return before[window] > after[window] and before.total() > after.total()


def _renamed(scene: ScreenScene, window: str) -> bool:
    """One window has another title, and the others are as they were."""
    before, after = _windows(scene.before), _windows(scene.after)
    new, old = after - before, before - after
    return list(new) == [window] and new.total() == old.total() == 1


def _changed(scene: ScreenScene) -> int:
    """Lines of the screen that were not there before."""
    return (Counter(scene.truth.split("\n")) - Counter(scene.screens[-1].split("\n"))).total()


def _header(tree: Tree | None, key: str) -> str:
    return tree.header.get(key, "") if tree else ""


def _address(scene: ScreenScene, url: str) -> bool:
    return _header(scene.after, "URL") == url != _header(scene.before, "URL")


def _same_address(scene: ScreenScene) -> bool:
    return bool(url := _header(scene.after, "URL")) and url == _header(scene.before, "URL")


def _root(tree: Tree | None) -> str:
    return tree.roots[0].name if tree and tree.roots else ""


def _title(scene: ScreenScene, title: str) -> bool:
    return _root(scene.after) == title != _root(scene.before)


def _shown_before(scene: ScreenScene, turn: str) -> bool:
    """The same address was shown after that turn (0: at the start)."""
    at = number(turn)
    if not 0 <= at < len(scene.screens) - 1:
        return False
    match = re.match(r"URL: (.*)", scene.screens[at])
    return match is not None and match[1] == _header(scene.after, "URL") != _header(scene.before, "URL")


def _like_then(scene: ScreenScene, turn: str) -> bool:
    at = number(turn)
    return 0 <= at < len(scene.screens) - 1 and _tree_lines(scene.screens[at]) == _tree_lines(scene.truth)


def _error(scene: ScreenScene, kind: str) -> bool:
    return _header(scene.after, "Error").split(":")[0] == kind != ""


def _tab(scene: ScreenScene, tab: str) -> bool:
    return re.search(rf"\*{re.escape(tab)} ", _header(scene.after, "Tabs")) is not None and not _same_tab(scene)


def _same_tab(scene: ScreenScene) -> bool:
    active = [re.search(r"\*(\d+) ", _header(tree, "Tabs")) for tree in (scene.before, scene.after)]
    return all(active) and len({match[1] for match in active if match}) == 1


def _fills(scene: ScreenScene, text: str) -> bool:
    return (
        scene.call is not None
        and scene.call.name in ("fill", "keyboard_type")
        and text in scene.call.arguments.values()
    )


KINDS: dict[str, Kind[ScreenScene]] = {
    "element": Kind("[{bid}] is {element}.", _element),
    "absent": Kind("There is no element [{bid}].", _absent),
    "at": Kind("At ({x}, {y}) is {element}.", _at),
    "focus": Kind("{element} has the focus.", _focus),
    "no_page": Kind("The screen has no element that can be told.", lambda s: s.before is None),
    "idle": Kind("Nothing changes.", lambda s: s.truth == s.screens[-1], "answer"),
    "stays": Kind("The elements stay as they are.", lambda s: _stays(s), "answer"),
    "error": Kind("An error is told: {kind}.", _error, "answer"),
    "output": Kind("What the code prints is told.", lambda s: _header(s.after, "Output") != "", "answer"),
    "dialog": Kind("The page opens a dialog.", lambda s: _header(s.after, "Dialog") != "", "answer"),
    "becomes": Kind("The value of {element} becomes {value}.", _value_becomes, "answer"),
    "focus_moves": Kind("The focus goes to {element}.", _focus_moves, "answer"),
    "focus_lost": Kind(
        "Nothing has the focus now.", lambda s: focused(s.before) is not None and focused(s.after) is None, "answer"
    ),
    "comes": Kind("{element} is {state} now.", _state_comes, "answer"),
    "goes": Kind("{element} is no longer {state}.", _state_goes, "answer"),
    "opens": Kind("A window opens: {window}.", _opens, "answer"),
    "renamed": Kind("A window has a new title: {window}.", _renamed, "answer"),
    "closes": Kind("A window closes: {window}.", _closes, "answer"),
    "address": Kind("The address becomes {url}.", _address, "answer"),
    "same_address": Kind("The address stays.", _same_address),
    "title": Kind("The page is called {title} now.", _title, "answer"),
    "shown": Kind("The address was open after turn {turn}.", _shown_before, "answer"),
    "like": Kind("The screen is that after turn {turn}.", _like_then, "answer"),
    "tab": Kind("Tab {tab} is in front now.", _tab, "answer"),
    "lines": Kind("In all {count} new.", lambda s, count: count == are(_changed(s)), "answer"),
}
"""All that can be said of a screen."""


# The rules.


def target(scene: ScreenScene) -> Iterator[Claim]:
    """Which element the action means."""
    arguments = scene.call.arguments if scene.call else {}
    bid = arguments.get("bid")
    if scene.before is None:
        return
    if isinstance(bid, str):
        node = scene.before.find(bid)
        yield claim("absent", bid=bid) if node is None else claim("element", bid=bid, element=told(node))
        return
    point = _point(scene)
    if point is not None and (node := element_at(scene.before, *point)) is not None and len(node.name) < LONG_VALUE:
        yield claim("at", x=point[0], y=point[1], element=told(node))
    elif re.search(r"press|hotkey|write|type|hold", scene.action) and (node := focused(scene.before)) is not None:
        yield claim("focus", element=told(node))


def _point(scene: ScreenScene) -> tuple[int, int] | None:
    """The last point that the action names."""
    found = None
    if scene.call is not None and scene.call.name == "python":
        try:
            tree = ast.parse(scene.action)
        except (SyntaxError, ValueError):
            return None
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and re.search(r"(click|Click|moveTo|dragTo)$", ast.unparse(node.func)):
                values = [each.value for each in node.args if isinstance(each, ast.Constant)]
                if len(values) >= 2 and all(type(value) is int for value in values[:2]):
                    found = (int(values[0]), int(values[1]))  # type: ignore[arg-type]
    elif scene.call is not None and {"x", "y"} <= set(scene.call.arguments):
        x, y = scene.call.arguments["x"], scene.call.arguments["y"]
        found = (x, y) if isinstance(x, int) and isinstance(y, int) else None
    return found


def headers(scene: ScreenScene) -> Iterator[Claim]:
    """Error, output, dialog, address, title, tab."""
    if error := _header(scene.after, "Error"):
        yield claim("error", kind=error.split(":")[0])
    for kind in ("output", "dialog"):
        if KINDS[kind].holds(scene):
            yield claim(kind)
    tab = re.search(r"\*(\d+) ", _header(scene.after, "Tabs"))
    if tab and _tab(scene, tab[1]):
        yield claim("tab", tab=tab[1])
    url = _header(scene.after, "URL")
    if url and url != _header(scene.before, "URL"):
        earlier = [at for at in range(len(scene.screens) - 2, -1, -1) if _shown_before(scene, str(at))]
        alike = next((at for at in earlier if _like_then(scene, str(at))), None)
        if alike is not None:
            yield claim("like", turn=alike)
            return
        yield claim("shown", turn=earlier[0]) if earlier else claim("address", url=url)
    if (title := _root(scene.after)) and _title(scene, title):
        yield claim("title", title=title)


def changes(scene: ScreenScene) -> Iterator[Claim]:
    """Values, states, focus and windows that change."""
    before, after = scene.before, scene.after
    if before is None or after is None:
        return
    for kind, windows in (
        ("opens", _windows(after) - _windows(before)),
        ("closes", _windows(before) - _windows(after)),
    ):
        for window in windows:
            if kind == "opens" and _renamed(scene, window):
                yield claim("renamed", window=window)
            elif KINDS[kind].holds(scene, window=window):
                yield claim(kind, window=window)
    old, shown = _values(before), _elements(before)
    for element, values in _values(after).items():
        for value in values:
            if element in shown and value not in old.get(element, ()) and len(value) < LONG_VALUE:
                yield claim("becomes", element=element, value=repr(value))
    for state in STATES:
        for element in _with_state(after, state):
            if _state_comes(scene, element, state):
                yield claim("comes", element=element, state=state)
    for state in STATES:
        for element in _with_state(before, state):
            if _state_goes(scene, element, state):
                yield claim("goes", element=element, state=state)
    node = focused(after)
    if node is not None and len(node.name) < LONG_VALUE and _focus_moves(scene, told(node)):
        yield claim("focus_moves", element=told(node))
    elif node is None and focused(before) is not None:
        yield claim("focus_lost")


def idle(scene: ScreenScene) -> Iterator[Claim]:
    """Nothing changes."""
    if scene.truth == scene.screens[-1]:
        yield from target(scene)
        yield claim("idle")


def kept(scene: ScreenScene) -> Iterator[Claim]:
    """The headers tell something, and the elements stay."""
    if _stays(scene):
        yield from target(scene)
        yield from headers(scene)
        yield claim("stays")


def changed(scene: ScreenScene) -> Iterator[Claim]:
    """What changes, and how much."""
    yield from target(scene)
    yield from headers(scene)
    told_of = 0
    if not _header(scene.after, "URL") or _same_address(scene):
        for each in changes(scene):
            if told_of < MOST_CHANGES:
                told_of += 1
                yield each
    yield claim("lines", count=are(_changed(scene)))


RULES = (Rule("idle", idle), Rule("kept", kept), Rule("changed", changed))

WEB_BOOK: Book[ScreenScene] = Book(_scenes(web.SCREENS), KINDS, RULES)
"""What can be said of a web page."""
OS_BOOK: Book[ScreenScene] = Book(_scenes(desktop.SCREENS), KINDS, RULES)
"""What can be said of a desktop."""
