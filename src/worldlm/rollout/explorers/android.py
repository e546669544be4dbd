"""An explorer of Android apps: opens, fills in, toggles, scrolls, leaves, comes back and looks again.

It knows an app by its screens alone. Chains carry what they did from one screen to the next: a form is saved, mended
where it was refused and looked for; a switch is flipped, looked at again from outside and flipped back. It keeps off
what cannot be undone (`_KEEP_OFF`).
"""

import re
from collections import Counter
from collections.abc import Callable, Generator
from random import Random

from worldlm.core.text import canonical_json
from worldlm.core.types import Observation, Turn, World
from worldlm.domains.tree import Node, Tree, TreeError, read_hierarchy, size
from worldlm.rollout.explorers.explorer import Act, Behaviour

ODD = 0.17
"""How often something odd is tried before an action."""
_TURNS = (20, 45)
"""Between how many turns an episode takes."""
_KEEP_OFF = re.compile(
    r"\b(factory|erase|uninstall|reset|buy|pay|purchase|call|dial|send|sign out|log out|power off|emergency)\b"
    r"|debugging|airplane|developer|screen lock|encrypt",
    re.IGNORECASE,
)
_CONFIRM = re.compile(r"\b(save|ok|done|add|create|apply|next|continue|search|set|yes)\b", re.IGNORECASE)
_MAKE = re.compile(r"\b(new|add|create|compose)\b", re.IGNORECASE)
_REMOVE = re.compile(r"\b(delete|remove|discard|trash)\b", re.IGNORECASE)
_Chain = Generator[Act, Turn, None]


def behave(random: Random, world: World, initial: Observation) -> Behaviour:
    """Chains of actions, chosen by what the screen offers, and a claim at the end."""
    hand = _Hand(random, world, initial)
    turns = random.randint(*_TURNS)
    while hand.turns < turns:
        yield from hand.next_chain()
    yield from _say_goodbye(hand)


class _Hand:
    """What does the actions of an episode, and remembers."""

    def __init__(self, random: Random, world: World, initial: Observation):
        state = world.initial_state if isinstance(world.initial_state, dict) else {}
        self.random = random
        self.turns = 0
        self.seen: Counter[str] = Counter()
        """How often a control was used."""
        self.typed: list[str] = []
        self.screen = Tree({}, [])
        self.text = ""
        self._look(initial)
        apps = state.get("apps")
        self.apps = sorted(apps) if isinstance(apps, dict) else []
        self.package = str(state.get("package") or self.screen.header.get("package", ""))

    def _look(self, observation: Observation | None) -> None:
        if observation is None:
            return
        self.text = observation.text
        try:
            self.screen = read_hierarchy(observation.text)
        except TreeError:  # not ours to judge: there is nothing on it that we could use
            self.screen = Tree({}, [])

    def do(self, name: str, /, **arguments: object) -> Generator[Act, Turn, bool]:
        """One action, perhaps after an odd one that changes nothing; whether the screen is another one then."""
        if self.random.random() < ODD:
            action, family = _odd(self)
            yield from self._act(action, f"{family}/odd")
        return (yield from self._act(canonical_json({"action_type": name, **arguments}), name))

    def _act(self, action: str, label: str) -> Generator[Act, Turn, bool]:
        before = self.text
        turn = yield Act(action, label)
        self.turns += 1
        self._look(turn.observation)
        return self.text != before

    def next_chain(self) -> _Chain:
        """What to do next, of what this screen allows."""
        if self.screen.header.get("window") and self.random.random() < 0.9:
            return _answer_window(self)
        if self.package and self.screen.header.get("package") != self.package:
            return _come_back(self)
        possible = [(weight, chain) for weight, fits, chain in _CHAINS if fits(self)]
        weights, chains = zip(*possible, strict=True)
        chosen: Callable[[_Hand], _Chain] = self.random.choices(chains, weights)[0]
        return chosen(self)

    # What is on the screen.

    def usable(self, state: str) -> list[Node]:
        """Nodes with a state that can be acted on, and that do no lasting harm."""
        return [
            node
            for node in self.screen.nodes()
            if state in node.states and node.id and "disabled" not in node.states and not _KEEP_OFF.search(_words(node))
        ]

    def controls(self) -> list[Node]:
        """What can be tapped and is no field."""
        return [node for node in self.usable("clickable") if "editable" not in node.states]

    def key(self, node: Node) -> str:
        """What a control is called from one visit to the next."""
        where = self.screen.header.get("activity", ""), self.screen.header.get("window", "")
        return canonical_json([*where, node.role, node.attributes.get("resource-id", ""), _words(node)])

    def pick(self, nodes: list[Node]) -> Node:
        """One of them, sooner one that was seldom used, or that makes something."""
        weights = [(3 if _MAKE.search(_words(node)) else 1) / (1 + self.seen[self.key(node)]) ** 2 for node in nodes]
        node = self.random.choices(nodes, weights)[0]
        self.seen[self.key(node)] += 1
        return node

    def find(self, key: str) -> Node | None:
        """A control that was used before, where it is on this screen."""
        return next((node for node in self.controls() if self.key(node) == key), None)


def _words(node: Node) -> str:
    """What a node says, by itself or by what is in it."""
    own = node.name or node.attributes.get("hint", "")
    return own or next((words for child in node.children if (words := _words(child))), "")


# Chains. Each begins on the screen that is there, and leaves it as it happens to be.


def _open(hand: _Hand) -> _Chain:
    """Tap something; come back from where it led, and perhaps look at it again."""
    node = hand.pick(hand.controls())
    key, window = hand.key(node), hand.screen.header.get("window")
    moved = yield from hand.do("click", index=_index(node))
    if not moved or hand.screen.header.get("window") != window:
        return
    if hand.usable("editable") and hand.random.random() < 0.75:
        yield from _fill_in(hand)
        return
    if hand.usable("checkable") and hand.random.random() < 0.4:
        yield from _toggle(hand)
        return
    if hand.random.random() < 0.5:
        return
    yield from hand.do("navigate_back")
    again = hand.find(key)
    if again is not None and hand.random.random() < 0.35:
        yield from hand.do("click", index=_index(again))


def _fill_in(hand: _Hand) -> _Chain:
    """Type into some fields and confirm; mend what was refused; look for what was typed."""
    count = len(hand.usable("editable"))
    skipped = int(count > 1 and hand.random.random() < 0.35)
    for number in range(skipped, min(count, skipped + hand.random.randint(1, 3))):
        yield from _type(hand, number)
    if hand.random.random() < 0.2:
        yield from hand.do("keyboard_enter")
    if hand.screen.header.get("keyboard") == "shown" and hand.random.random() < 0.6:
        yield from hand.do("navigate_back")
    form = hand.screen.header.get("activity")
    confirmed = hand.random.random() < 0.8 and (yield from _confirm(hand))
    if confirmed and skipped and hand.screen.header.get("activity") == form and hand.usable("editable"):
        yield from _type(hand, 0)
        yield from _confirm(hand)
    if not confirmed:
        yield from hand.do("navigate_back")
    made = [node for node in hand.controls() if hand.typed and _words(node) == hand.typed[-1]]
    if made and hand.random.random() < 0.5:
        yield from hand.do("click", index=_index(made[0]))


def _type(hand: _Hand, number: int) -> _Chain:
    """Type into a field, given by its place among the fields: the keyboard moves what it covers."""
    fields = hand.usable("editable")
    if number >= len(fields):
        return
    field, text = fields[number], _text(hand, fields[number])
    hand.typed.append(text)
    if hand.random.random() < 0.25:
        yield from hand.do("click", index=_index(field))
        yield from hand.do("input_text", text=text)
    else:
        yield from hand.do("input_text", index=_index(field), text=text)


def _confirm(hand: _Hand) -> Generator[Act, Turn, bool]:
    """Press what confirms; whether there was such a thing."""
    buttons = [node for node in hand.controls() if _CONFIRM.search(_words(node))]
    if buttons:
        yield from hand.do("click", index=_index(hand.pick(buttons)))
    return bool(buttons)


def _toggle(hand: _Hand) -> _Chain:
    """Flip a switch, look at it again from outside, and flip it back."""
    nodes = hand.usable("checkable")
    node = hand.pick(nodes)
    number, count = nodes.index(node), len(nodes)
    yield from hand.do("click", index=_index(node))
    if hand.random.random() < 0.4:
        yield from hand.do("navigate_home")
        yield from hand.do("open_app", app_name=_app(hand))
    nodes = hand.usable("checkable")
    if len(nodes) == count and hand.random.random() < 0.6:
        yield from hand.do("click", index=_index(nodes[number]))


def _scroll(hand: _Hand) -> _Chain:
    """Go down a list until it ends, and up again."""
    lists = hand.usable("scrollable")
    target: dict[str, int] = {"index": _index(hand.pick(lists))} if lists and hand.random.random() < 0.6 else {}
    ways = [("scroll", "down", "up"), ("scroll", "down", "up"), ("swipe", "up", "down"), ("swipe", "left", "right")]
    name, there, back = hand.random.choice(ways)
    for _ in range(hand.random.randint(1, 3)):
        if not (yield from hand.do(name, direction=there, **target)):
            break
    if hand.random.random() < 0.6:
        yield from hand.do(name, direction=back, **target)


def _press(hand: _Hand) -> _Chain:
    """Press something long: what comes of it is the next chain's."""
    node = hand.pick(hand.usable("long_clickable"))
    moved = yield from hand.do("long_press", index=_index(node))
    removers = [node for node in hand.controls() if _REMOVE.search(_words(node))]
    if moved and removers and hand.random.random() < 0.5:
        yield from hand.do("click", index=_index(removers[0]))
    elif moved and hand.random.random() < 0.5:
        yield from hand.do("navigate_back")


def _answer_window(hand: _Hand) -> _Chain:
    """A dialog or a menu: choose, or leave it."""
    controls = hand.controls()
    if hand.usable("editable") and hand.random.random() < 0.6:
        yield from _fill_in(hand)
    elif controls and hand.random.random() < 0.8:
        yield from hand.do("click", index=_index(hand.pick(controls)))
    else:
        yield from hand.do("navigate_back")


def _leave_and_return(hand: _Hand) -> _Chain:
    """Home, perhaps another app, and back to where it was left."""
    yield from hand.do("navigate_home")
    others = [app for app in hand.apps if app != _app(hand)]
    if others and hand.random.random() < 0.4:
        yield from hand.do("open_app", app_name=hand.random.choice(others))
    yield from _come_back(hand)


def _come_back(hand: _Hand) -> _Chain:
    """To the app: by its name, by its icon, or by Back."""
    name = _app(hand)
    icon = next((node for node in hand.controls() if _words(node) == name), None)
    if icon is not None and hand.random.random() < 0.5:
        yield from hand.do("click", index=_index(icon))
    elif hand.random.random() < 0.15:
        yield from hand.do("navigate_back")
    else:
        yield from hand.do("open_app", app_name=name)


def _back(hand: _Hand) -> _Chain:
    yield from hand.do("navigate_back")


def _wait(hand: _Hand) -> _Chain:
    yield from hand.do("wait")


def _touch(hand: _Hand) -> _Chain:
    """By coordinates: a control, or some point where there may be nothing."""
    x, y = _somewhere(hand)
    controls = [node for node in hand.controls() if node.box is not None]
    if controls and hand.random.random() < 0.6:
        box = hand.pick(controls).box
        assert box is not None
        x, y = box.x + box.width // 2, box.y + box.height // 2
    if hand.random.random() < 0.2:
        yield from hand.do("swipe", x=x, y=y, x2=x, y2=max(0, y - 400))
    elif any(node.box and node.box.holds(x, y) and _KEEP_OFF.search(_words(node)) for node in hand.screen.nodes()):
        yield from hand.do("navigate_back")
    else:
        yield from hand.do("click", x=x, y=y)


def _say_goodbye(hand: _Hand) -> _Chain:
    """Answer with something that can be read, now and then; and end."""
    words = [words for node in hand.screen.nodes() if (words := node.name)]
    if words and hand.random.random() < 0.5:
        yield from hand.do("answer", text=hand.random.choice(words))
    goal = "complete" if hand.random.random() < 0.8 else "infeasible"
    yield from hand.do("status", goal_status=goal)


_CHAINS: tuple[tuple[float, Callable[[_Hand], bool], Callable[[_Hand], _Chain]], ...] = (
    (8, lambda hand: bool(hand.controls()), _open),
    (7, lambda hand: bool(hand.usable("editable")), _fill_in),
    (5, lambda hand: bool(hand.usable("checkable")), _toggle),
    (4, lambda hand: bool(hand.usable("scrollable")), _scroll),
    (0.5, lambda hand: True, _scroll),
    (3, lambda hand: bool(hand.usable("long_clickable")), _press),
    (1.5, lambda hand: bool(hand.package), _leave_and_return),
    (1.5, lambda hand: True, _back),
    (1.5, lambda hand: True, _touch),
    (0.5, lambda hand: True, _wait),
)


# Arguments.


def _index(node: Node) -> int:
    return int(node.id or 0)


def _app(hand: _Hand) -> str:
    """The app's name: as the world calls it, else its package."""
    return next((app for app in hand.apps if app.casefold() in hand.package.casefold().split(".")), hand.package)


def _somewhere(hand: _Hand) -> tuple[int, int]:
    width, height = size(hand.screen.header.get("screen", "")) or (1080, 2400)
    return hand.random.randrange(width), hand.random.randrange(height // 20, height * 19 // 20)


_NOUNS = ("Groceries", "Ferry", "Invoice", "Book club", "Garden", "Dentist", "Recipe", "Train", "Birthday", "Meeting")
_DETAILS = (
    "2 lemons & rye bread",
    "07:40, platform 2",
    "due 27 March",
    "100% wool",
    "ask Ines",
    "ring at 9 (a.m.)",
    "#14",
)
_NAMES = ("Ines Duarte", "Rui Melo", "Anna-Lena Vogt", "Tom O'Hara", "Li Wei")


def _text(hand: _Hand, field: Node) -> str:
    """Something that suits a field, as far as its name tells."""
    random = hand.random
    kind = f"{field.attributes.get('hint', '')} {field.attributes.get('resource-id', '')} {field.name}".casefold()
    if "mail" in kind:
        return random.choice(_NAMES).split()[0].lower().replace("'", "") + "@example.org"
    if re.search(r"phone|number|amount|pin|code|minutes|hours", kind):
        return str(random.randrange(10, 10_000))
    if "search" in kind or "query" in kind:
        return random.choice([*hand.typed[-3:], *_NOUNS]).split()[0][: random.randint(3, 12)]
    if "name" in kind or "contact" in kind:
        return random.choice(_NAMES)
    if "title" in kind:
        return f"{random.choice(_NOUNS)} {random.randrange(1, 100)}"
    return f"{random.choice(_NOUNS)}: {random.choice(_DETAILS)}"


def _odd(hand: _Hand) -> tuple[str, str]:
    """Something wrong that leaves the screen as it is, and the kind of action that it is."""
    random = hand.random
    width, height = size(hand.screen.header.get("screen", "")) or (1080, 2400)
    beyond = 1 + max((_index(node) for node in hand.screen.nodes() if node.id), default=0) + random.randrange(40)
    off: dict[str, object] = {"x": width + random.randrange(900), "y": random.randrange(height)}
    wrong: list[tuple[str, dict[str, object]]] = [
        ("click", {"index": beyond}),
        ("click", {"x": random.randrange(width), "y": height + random.randrange(400)}),
        ("click", off),
        ("long_press", {"index": beyond}),
        ("long_press", off),
        ("input_text", {"index": beyond, "text": random.choice(_NOUNS)}),
        ("scroll", {"direction": random.choice(("up", "down", "left", "right")), "index": beyond}),
        ("swipe", {**off, "x2": 10, "y2": 10}),
        ("open_app", {"app_name": random.choice(("Maps 2", "Notez", "Tax Office", "Snake", "org.example.none"))}),
    ]
    if hand.screen.header.get("keyboard") == "hidden" and not any("focused" in n.states for n in hand.screen.nodes()):
        wrong += [("input_text", {"text": random.choice(_DETAILS)})] * 2
    if random.random() < 0.12:
        return random.choice(_MALFORMED)
    name, arguments = random.choice(wrong)
    return canonical_json({"action_type": name, **arguments}), name


_MALFORMED = (
    ('{"action_type": "tap", "index": 1}', "click"),
    ('{"action_type": "click"}', "click"),
    ('{"action_type": "click", "index": "Save"}', "click"),
    ('{"action_type": "scroll", "direction": "sideways"}', "scroll"),
    ('{"action_type": "open_app", "name": "Notes"}', "open_app"),
    ('{"action_type": "status", "goal_status": "done"}', "status"),
    ("click 3", "click"),
)
