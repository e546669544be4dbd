"""How a browser is explored: with the goal that the world's context states, as an office works, and about any page.

Everything is read from the tree: what can be filled, chosen, checked, followed and pressed, and what it is called.
"""

import json
import re
from collections.abc import Generator, Iterator, Sequence
from random import Random

from worldlm.core.types import Observation, Turn, World
from worldlm.domains.tree import Node, Tree, TreeError, read_outline
from worldlm.domains.web import HEADERS
from worldlm.rollout.explorers.explorer import Act, Behaviour

Steps = Generator[Act, Turn, bool]
"""Acts; at the end, whether the page is as it was wanted."""

ODD = 0.14
"""Chance of something odd before an act."""
FIELDS = ("textbox", "searchbox", "spinbutton", "Date", "InputTime")
TICKS = ("checkbox", "radio", "switch", "menuitemcheckbox", "menuitemradio")
CHOICES = ("combobox", "listbox")
PRESSED = ("button", "link", "tab", "menuitem", "treeitem", "option", "generic", "listitem", "cell", "image")
SENDS = (
    "submit",
    "ok",
    "send",
    "search",
    "login",
    "log in",
    "save",
    "next",
    "go",
    "book",
    "order",
    "buy",
    "reply",
    "done",
)
FIRST = ("Alma", "Bela", "Cora", "Dina", "Emil", "Finn", "Gita", "Hiro", "Ivan", "Juno", "Kira", "Lars", "Mina", "Noel")
LAST = (
    "Adler",
    "Brandt",
    "Costa",
    "Duarte",
    "Engel",
    "Farkas",
    "Gruber",
    "Hansen",
    "Ito",
    "Jonsson",
    "Keller",
    "Lopez",
)
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "knoll", "lagoon", "meadow")
COUNTRIES = ("Chile", "Egypt", "Finland", "Iceland", "Kenya", "Peru", "Portugal", "Vietnam")
KEYS = (
    "Tab",
    "Tab",
    "Shift+Tab",
    "Enter",
    "Escape",
    "ArrowDown",
    "ArrowUp",
    "Home",
    "End",
    "PageDown",
    "Space",
    "Control+a",
    "Backspace",
    "Delete",
)
BAD_URLS = (
    "http://",
    "not an address",
    "http://nowhere.invalid/",
    "https://localhost:1/",
    "ftp://files.example/",
    "chrome://settings/",
    "http://exa mple/",
)
BROKEN = (
    'clik("12")',
    "click(12)",
    'click("12"',
    'fill("12")',
    'press("Enter")',
    "scroll(down)",
    'click("12"); noop()',
)


def behave(random: Random, world: World, initial: Observation) -> Behaviour:
    """An episode in a browser."""
    yield from Surfer(random, world, initial).episode()


class Surfer:
    """What is known while a browser is used: the page, and what was made."""

    def __init__(self, random: Random, world: World, initial: Observation):
        self.random = random
        self.world = world
        self.page = _read(initial.text) or Tree({}, [])
        self.home = self.page.header.get("URL", "")
        goal = re.search(r"^Goal: (.+)", world.context, re.MULTILINE | re.DOTALL)
        self.goal = goal[1] if goal else ""
        login = re.search(r"log\s+in\s+as\s+(\S+)\s+with\s+the\s+password\s+([^\s).,]+)", world.context, re.IGNORECASE)
        self.account = (login[1], login[2]) if login else ("user", "secret")
        self.made: list[str] = []
        self.seen: list[str] = []
        """Addresses, in the order in which they were first seen."""

    def episode(self) -> Behaviour:
        """The whole of it."""
        if self.goal:
            yield from self.puzzle()
        elif self.button("Log in") or self.button("LOG OUT"):
            yield from self.office()
        else:
            for _ in range(self.random.randrange(20, 45)):
                yield from self.wander()

    # One act, and what came of it.

    def do(self, action: str, label: str) -> Generator[Act, Turn, bool]:
        """Act; now and then something odd comes first. Whether the page took it."""
        if self.random.random() < ODD:
            yield from self.tell(*self.odd())
        return (yield from self.tell(action, label))

    def tell(self, action: str, label: str) -> Generator[Act, Turn, bool]:
        """Act, and look at what came of it."""
        turn = yield Act(action, label)
        page = _read(turn.observation.text) if turn.observation is not None else None
        if page is None:
            return False
        self.page = page
        url = page.header.get("URL", "")
        if url.startswith("http") and url not in self.seen:
            self.seen.append(url)
        return "Error" not in page.header

    def odd(self) -> tuple[str, str]:
        """Something that fails, or that nobody would do here."""
        random, nodes = self.random, [node for node in self.page.nodes() if node.id]
        presses = [node for node in nodes if node.role in ("button", "link", "heading", "checkbox")]
        disabled = [node for node in nodes if "disabled" in node.states]
        options = [
            (call("click", str(random.randrange(2000, 9999))), "click/odd"),
            (call("fill", random.choice("abcxyz") + str(random.randrange(99)), "text"), "fill/odd"),
            (call("tab_focus", random.randrange(3, 9)), "tab/odd"),
            (call("goto", random.choice(BAD_URLS)), "goto/odd"),
            (call("keyboard_press", random.choice(("Entr", "Ctrl+Q", "F25", "Control+"))), "key/odd"),
            (random.choice(BROKEN), "grammar/odd"),
            (call("mouse_click", random.randrange(1300, 3000), random.randrange(800, 3000)), "mouse/odd"),
        ]
        if presses:
            options += [(call("fill", random.choice(presses).id, "some text"), "fill/odd")] * 2
            options.append((call("select_option", random.choice(presses).id, "Blue"), "select/odd"))
        if disabled:
            options += [(call("click", random.choice(disabled).id), "click/odd")] * 3
        choices = [node for node in nodes if node.role in CHOICES and _options(node)]
        if choices:
            options.append((call("select_option", random.choice(choices).id, "No such thing"), "select/odd"))
        fields = [node for node in nodes if node.role in FIELDS]
        if fields:
            wrong = random.choice(("x" * 300, "<b>bold</b>", "'; --", "    ", "日本語 ✓"))
            options.append((call("fill", random.choice(fields).id, wrong), "fill/odd"))
        return random.choice(options)

    # What is on the page.

    def nodes(self, *roles: str) -> list[Node]:
        """Nodes with a bid, of these roles, that are not disabled."""
        return [n for n in self.page.nodes() if n.id and n.role in roles and "disabled" not in n.states]

    def named(self, role: str, name: str) -> Node | None:
        """The first such node whose name begins so."""
        return next((n for n in self.nodes(role) if n.name.lower().startswith(name.lower())), None)

    def button(self, name: str) -> Node | None:
        """A button by its name."""
        return self.named("button", name)

    def text(self) -> str:
        """All that can be read."""
        return "\n".join(node.name for node in self.page.nodes() if node.name)

    def press(self, node: Node | None, label: str) -> Steps:
        """Click, if it is there."""
        return (yield from self.do(call("click", node.id), label)) if node is not None and node.id else False

    # A goal in words (MiniWoB).

    def puzzle(self) -> Behaviour:
        """Try things that do not decide, then do what the goal names; sometimes wrongly."""
        for _ in range(self.random.randrange(4, 12)):
            yield from self.fiddle()
        told: list[tuple[str, str]] = []
        for _ in range(8):
            step = self.toward(told)
            if step is None:
                break
            told.append(step)
            yield from self.do(step[1], step[0])
        for _ in range(4):
            send = [n for n in self.nodes("button", "generic") if _label(n).lower().strip("!. ") in SENDS]
            send = send or self.nodes("button")
            if not send:
                break
            yield from self.press(self.random.choice(send), "submit")
        for _ in range(6):
            yield from self.wander()

    def toward(self, told: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
        """The next thing that the goal names and that was not done yet, as label and action."""
        goal, done = self.goal.lower(), {action for _, action in told}
        quoted = re.findall(r"\"([^\"]+)\"|'([^']+)'", self.goal)
        wanted = [one or other for one, other in quoted] + re.findall(r"\d[\d/:.,-]*\d|\d", self.goal)
        found: list[tuple[str, str]] = []
        parents = _parents(self.page)
        for node in self.page.nodes():
            if node.id is None or "disabled" in node.states:
                continue
            if node.role in FIELDS and wanted:
                found.append(("fill", call("fill", node.id, wanted[len(told) % len(wanted)])))
            elif node.role in CHOICES:
                found += [
                    ("select", call("select_option", node.id, name))
                    for name in _options(node)
                    if name and _in(name, goal)
                ]
            elif node.role in TICKS:
                if _in(_label(node) or _label(parents.get(node.id)), goal):
                    found.append(("check", call("click", node.id)))
            elif node.role in PRESSED and "clickable" in node.states | {"clickable" * (node.role != "generic")}:
                label = _label(node)
                if _in(label, goal) and label.lower().strip("!. ") not in SENDS:
                    found.append(("click", call("click", node.id)))
        fresh = [step for step in found if step[1] not in done]
        wrong = self.random.random() < 0.15
        return (self.random.choice(fresh) if wrong else fresh[0]) if fresh else None

    def fiddle(self) -> Steps:
        """Something that does not decide the task."""
        random = self.random
        fields, choices, ticks = self.nodes(*FIELDS), self.nodes(*CHOICES), self.nodes(*TICKS)
        kinds = ["hover", "scroll", "key", "mouse", "wait", "tab", "back", "tabs"]
        kinds += ["fill", "fill", "type"] * bool(fields) + ["select"] * 2 * bool(choices) + ["check"] * 2 * bool(ticks)
        kind = random.choice(kinds)
        if kind == "fill":
            field = random.choice(fields)
            return (yield from self.do(call("fill", field.id, self.value(field.name)), "fill"))
        if kind == "type":
            yield from self.press(random.choice(fields), "focus")
            return (yield from self.do(call("keyboard_type", random.choice(WORDS)), "type"))
        if kind == "select":
            return (yield from self.choose(random.choice(choices)))
        if kind == "check":
            return (yield from self.press(random.choice(ticks), "check"))
        if kind == "back" and len(self.seen) > 0:
            yield from self.do("go_back()", "back")
            return (yield from self.do("go_forward()", "forward"))
        if kind == "tabs":
            return (yield from self.other_tab())
        return (yield from self.idle(kind))

    def idle(self, kind: str) -> Steps:
        """Something that seldom changes the tree."""
        random = self.random
        if kind == "hover":
            nodes = self.nodes("button", "link", "generic", "textbox", "cell", "menuitem", "listitem", "image")
            if nodes:
                return (yield from self.do(call("hover", random.choice(nodes).id), "hover"))
        if kind == "scroll":
            return (yield from self.do(call("scroll", 0, random.choice((-300, 120, 200, 400, 800))), "scroll"))
        if kind == "mouse":
            x, y = random.randrange(10, 320), random.randrange(60, 210)
            name = random.choice(("mouse_move", "mouse_move", "mouse_dblclick", "mouse_click"))
            return (yield from self.do(call(name, x, y), "mouse"))
        if kind == "wait":
            return (yield from self.do(call("noop", random.choice((100, 500, 2000))), "wait"))
        return (yield from self.do(call("keyboard_press", random.choice(KEYS)), "key"))

    def other_tab(self) -> Steps:
        """Open a tab, go somewhere that was seen, and come back."""
        before = len(_tabs(self.page))
        if not (yield from self.do("new_tab()", "tab")):
            return False
        if self.seen and self.random.random() < 0.7:
            yield from self.do(call("goto", self.random.choice(self.seen)), "goto")
        if self.random.random() < 0.5:
            yield from self.do(call("tab_focus", max(0, before - 1)), "tab")
            yield from self.do(call("tab_focus", before), "tab")
        return (yield from self.do("tab_close()", "tab"))

    def choose(self, node: Node) -> Steps:
        """An option of a select element; one that asks while it is typed into is typed into."""
        options = [name for name in _options(node) if name.strip("- ")]
        if options:
            chosen: object = self.random.choice(options)
            if node.role == "listbox" and len(options) > 2 and self.random.random() < 0.3:
                chosen = self.random.sample(options, 2)
            return (yield from self.do(call("select_option", node.id, chosen), "select"))
        yield from self.press(node, "select")
        yield from self.do(call("keyboard_type", self.random.choice("aeo")), "type")
        found = self.nodes("option")
        return (yield from self.press(self.random.choice(found), "select")) if found else False

    def value(self, name: str) -> str:
        """What could stand in a field of this name."""
        random, name = self.random, name.lower()
        number = random.randrange(1, 90)
        table = {
            "isbn": _isbn(random),
            "mail": f"{random.choice(WORDS)}{number}@example.com",
            "http|web|url": f"https://www.{random.choice(WORDS)}.example/",
            "born": f"19{random.randrange(40, 99)}-0{random.randrange(1, 9)}-{random.randrange(10, 28)}",
            "time": f"{random.randrange(10, 23)}:{random.randrange(10, 59)}:00",
            "date|publish|join|start|due|shipped|placed": f"2025-0{random.randrange(1, 9)}-{random.randrange(10, 28)}",
            "end": f"2026-1{random.randrange(0, 2)}-{random.randrange(10, 28)}",
            "price": f"{number}.{random.randrange(10, 99)}",
            "stock|quantity|estimate|number|age|amount": str(number),
            "country": random.choice(COUNTRIES),
            "city": random.choice(("Ghent", "Porto", "Split", "Tartu")),
            "colour": f"#{random.randrange(16**6):06x}",
            "slug": f"{random.choice(WORDS)}-{number}",
            "key": "".join(random.sample("ABCDEFGHJKLMNPRSTUVW", 3)),
            "title": f"The {random.choice(WORDS)} {random.choice(WORDS)} {number}".title(),
            "name": f"{random.choice(FIRST)} {random.choice(LAST)} {number}",
            "user": self.account[0],
            "password": self.account[1],
        }
        words = f"{random.choice(WORDS)} {random.choice(WORDS)}"
        return next((value for names, value in table.items() if re.search(names, name)), words)

    def mistake(self, name: str) -> str:
        """What a field of this name must refuse, or ''."""
        table = {
            "isbn": "978-1-4028-9462",
            "mail": "nobody at home",
            "http|web|url": "no address",
            "born|date|publish|join|start|due|shipped|end": self.random.choice(
                ("31/02/2025", "tomorrow", "2025-13-01")
            ),
            "time": "25:71",
            "price": "-3",
            "stock|quantity|estimate": self.random.choice(("-4", "many", "1e9")),
            "colour": "red",
            "key": "a1",
            "slug": "two words!",
        }
        return next((value for names, value in table.items() if re.search(names, name.lower())), "")

    # An office: lists, forms, records (Django's admin, and what is like it).

    def office(self) -> Behaviour:
        """Work on some kinds of record, one after the other."""
        if self.button("Log in"):
            yield from self.log_in()
        kinds = self.kinds()
        self.random.shuffle(kinds)
        for kind in kinds[: self.random.randrange(2, 4)]:
            if (yield from self.open_list(kind)):
                yield from self.look_round(kind)
                yield from self.add(kind)
                yield from self.find_and_change(kind)
                if self.random.random() < 0.7:
                    yield from self.bulk()
            for _ in range(self.random.randrange(1, 4)):
                yield from self.wander()
        if self.random.random() < 0.2:
            yield from self.press(self.button("Log out"), "logout")
            yield from self.do(call("goto", self.random.choice(self.seen)), "goto")
            if self.button("Log in"):
                yield from self.log_in()

    def log_in(self) -> Steps:
        """With a wrong password first, sometimes."""
        user, secret = self.account
        for password in [self.random.choice(("letmein", "", secret.upper()))] * (self.random.random() < 0.6) + [secret]:
            fields = self.nodes("textbox")
            if len(fields) < 2:
                return True
            yield from self.do(call("fill", fields[0].id, user), "login")
            yield from self.do(call("fill", fields[1].id, password), "login")
            if self.random.random() < 0.3:
                yield from self.do(call("keyboard_press", "Enter"), "login")
            else:
                yield from self.press(self.button("Log in"), "login")
        return self.button("Log in") is None

    def kinds(self) -> list[str]:
        """The kinds of record that the page's rows lead to."""
        found = []
        for row in self.page.nodes():
            if row.role == "row" and any(_label(node) == "Add" for node in row.children):
                header = next((node for node in row.children if node.role == "rowheader"), None)
                if header is not None and header.name not in found:
                    found.append(header.name)
        return found

    def open_list(self, kind: str) -> Steps:
        """The list of a kind of record, from wherever we are."""
        link = next((node for node in self.nodes("link") if node.name == kind), None)
        if link is None:
            if not (yield from self.do(call("goto", self.home), "goto")):
                return False
            link = next((node for node in self.nodes("link") if node.name == kind), None)
        return (yield from self.press(link, "list"))

    def look_round(self, kind: str) -> Steps:
        """Search, sort, filter, turn pages, go back."""
        random = self.random
        for what in random.sample(("search", "sort", "filter", "page", "nothing"), 3):
            if what == "search":
                names = [node.name for node in self.nodes("rowheader", "link") if " " in node.name]
                word = random.choice((random.choice(names).split()[-1] if names else "a", "zzz", "a", "e"))
                yield from self.search(word)
            elif what == "sort":
                heads = [n for cell in self.nodes("columnheader") for n in cell.children if n.role == "link" and n.id]
                yield from self.press(random.choice(heads) if heads else None, "sort")
            elif what == "filter":
                links = [
                    n for n in self.nodes("link") if re.search(r"__(exact|gte|isnull|id)", n.attributes.get("url", ""))
                ]
                yield from self.press(random.choice(links) if links else None, "filter")
            elif what == "page":
                pages = [n for n in self.nodes("link") if re.fullmatch(r"\d+|Show all|›", n.name)]
                yield from self.press(random.choice(pages) if pages else None, "page")
            if random.random() < 0.3:
                yield from self.do("go_back()", "back")
                if random.random() < 0.4:
                    yield from self.do("go_forward()", "forward")
        return (yield from self.open_list(kind))

    def search(self, word: str) -> Steps:
        """By the search box of a list."""
        boxes = [n for n in self.nodes("searchbox", "textbox") if "filter" not in n.name.lower()]
        if not boxes:
            return False
        yield from self.do(call("fill", boxes[0].id, word), "search")
        if self.random.random() < 0.3:
            yield from self.press(boxes[0], "focus")
            return (yield from self.do(call("keyboard_press", "Enter"), "search"))
        return (yield from self.press(self.button("Search"), "search"))

    def add(self, kind: str) -> Steps:
        """A new record: fill the form, wrongly perhaps, save, read what is wrong, repair."""
        links = [
            n
            for n in self.nodes("link")
            if re.match(r"add ", n.name, re.IGNORECASE) and "/add/" in n.attributes.get("url", "")
        ]
        if not links or not (yield from self.press(links[-1], "add")):
            return False
        wrong = yield from self.fill_form(mistakes=2 if self.random.random() < 0.6 else 0)
        ways = ("Save", "Save", "Save", "Save and continue", "Save and add")
        yield from self.press(self.button(self.random.choice(ways)), "save")
        for _ in range(3):
            if "correct the error" not in self.text():
                break
            for name in wrong or [n.name for n in self.nodes(*FIELDS) if "required" in n.states and not n.value]:
                field = next((n for n in self.nodes(*FIELDS) if n.name == name), None)
                if field is not None:
                    yield from self.do(call("fill", field.id, self.value(name)), "repair")
            wrong = []
            yield from self.amend()
            yield from self.press(self.button("Save"), "save")
        return "successfully" in self.text()

    def amend(self) -> Steps:
        """What the page says of fields that depend on each other."""
        text = self.text()
        if "has no stock" in text and (field := self.named("spinbutton", "Stock")):
            return (yield from self.do(call("fill", field.id, "0"), "repair"))
        if "needs an assignee" in text and (field := self.named("combobox", "Assignee")):
            return (yield from self.choose(field))
        if "when it was shipped" in text and (field := self.named("textbox", "Shipped")):
            return (yield from self.do(call("fill", field.id, "2026-01-16"), "repair"))
        return False

    def fill_form(self, mistakes: int) -> Generator[Act, Turn, list[str]]:
        """Every field once; the names of those that were filled wrongly."""
        wrong: list[str] = []
        done: set[str] = set()
        while True:
            fields = [n for n in self.nodes(*FIELDS, *CHOICES, *TICKS) if n.id not in done and _of_form(n)]
            if not fields or len(done) > 16:
                return wrong
            node = fields[0]
            done.add(str(node.id))
            if node.role in TICKS:
                if self.random.random() < 0.3:
                    yield from self.press(node, "check")
            elif node.role in CHOICES:
                if node.name and ("required" in node.states or self.random.random() < 0.6):
                    yield from self.choose(node)
            elif "required" in node.states or self.random.random() < 0.6:
                mistaken = self.mistake(node.name)
                if len(wrong) < mistakes and (mistaken or "required" in node.states) and self.random.random() < 0.6:
                    wrong.append(node.name)
                    if mistaken:
                        yield from self.do(call("fill", node.id, mistaken), "fill")
                    continue
                value = self.value(node.name)
                if re.search("name|title", node.name.lower()):
                    self.made.append(value)
                yield from self.do(call("fill", node.id, value), "fill")

    def find_and_change(self, kind: str) -> Steps:
        """A record, the one that was made if there is one: open, change, see its history, delete it perhaps."""
        random = self.random
        yield from self.open_list(kind)
        if self.made and random.random() < 0.7:
            yield from self.search(self.made[-1])
        rows = [n for n in self.nodes("link") if re.search(r"/\d+/change/", n.attributes.get("url", ""))]
        if not rows or not (yield from self.press(random.choice(rows), "open")):
            return False
        fields = [n for n in self.nodes(*FIELDS) if n.value and _of_form(n)]
        if fields:
            field = random.choice(fields)
            yield from self.do(call("fill", field.id, self.value(field.name)), "change")
        ways = ("Save", "Save and continue", "Save and continue", "Save as new")
        yield from self.press(self.button(random.choice(ways)) or self.button("Save"), "save")
        yield from self.amend()
        if random.random() < 0.5 and (yield from self.press(self.named("link", "History"), "history")):
            yield from self.do("go_back()", "back")
        if random.random() < 0.6 and (yield from self.press(self.named("link", "Delete"), "delete")):
            if random.random() < 0.3:
                yield from self.press(self.named("link", "No, take me back") or self.button("No"), "delete")
            else:
                yield from self.press(self.button("Yes"), "delete")
        yield from self.open_list(kind)
        if self.made and random.random() < 0.5:
            yield from self.search(self.made[-1])
        return True

    def bulk(self) -> Steps:
        """An action on some rows of a list, or on none."""
        random = self.random
        action = self.named("combobox", "Action")
        if action is None:
            return False
        ticks = [n for n in self.nodes("checkbox") if n.name.startswith("Select this object")]
        for node in random.sample(ticks, min(len(ticks), random.randrange(0, 4))):
            yield from self.press(node, "check")
        action = self.named("combobox", "Action")
        if action is not None:
            yield from self.choose(action)
        yield from self.press(self.button("Run") or self.button("Go"), "bulk")
        if self.button("Yes"):
            yield from self.press(self.button("Yes"), "delete")
        return True

    # Any page.

    def wander(self) -> Steps:
        """One thing that the page offers."""
        random = self.random
        links, buttons, fields = self.nodes("link"), self.nodes("button", "tab", "menuitem"), self.nodes(*FIELDS)
        kinds = ["idle"] * 2 + ["back", "tabs", "link", "link", "behind"] * bool(links) + ["button"] * bool(buttons)
        kinds += ["fill", "fill", "enter"] * bool(fields) + ["select"] * bool(self.nodes(*CHOICES))
        kinds += ["check"] * bool(self.nodes(*TICKS)) + ["again", "home"] * bool(self.seen)
        kind = random.choice(kinds)
        if kind == "link":
            return (yield from self.press(random.choice(links), "link"))
        if kind == "behind":
            opened = call("click", random.choice(links).id, modifiers=["Control"])
            return (yield from self.do(opened, "tab")) and (yield from self.do("tab_close()", "tab"))
        if kind == "button":
            return (yield from self.press(random.choice(buttons), "button"))
        if kind in ("fill", "enter"):
            field = random.choice(fields)
            done = yield from self.do(call("fill", field.id, self.value(field.name)), "fill")
            return (yield from self.do(call("keyboard_press", "Enter"), "key")) if kind == "enter" else done
        if kind == "select":
            return (yield from self.choose(random.choice(self.nodes(*CHOICES))))
        if kind == "check":
            return (yield from self.press(random.choice(self.nodes(*TICKS)), "check"))
        if kind == "back":
            return (yield from self.do(random.choice(("go_back()", "go_back()", "go_forward()")), "back"))
        if kind == "tabs":
            return (yield from self.other_tab())
        if kind in ("again", "home"):
            url = random.choice(self.seen) if kind == "again" else self.home
            return (yield from self.do(call("goto", url), "goto"))
        if random.random() < 0.15:
            return (yield from self.do(call("send_msg_to_user", f"I am at {self.page.header.get('URL')}."), "message"))
        return (yield from self.idle(random.choice(("hover", "scroll", "mouse", "wait", "key"))))


def call(name: str, *values: object, **named: object) -> str:
    """An action as text."""
    parts = [json.dumps(value, ensure_ascii=False) for value in values]
    parts += [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in named.items()]
    return f"{name}({', '.join(parts)})"


def _read(text: str) -> Tree | None:
    try:
        return read_outline(text, HEADERS)
    except TreeError:
        return None


def _tabs(page: Tree) -> list[str]:
    return re.findall(r"(?:^|, )\*?\d+ ['\"]", page.header.get("Tabs", ""))


def _texts(node: Node) -> Iterator[str]:
    yield node.name
    for child in node.children:
        yield from _texts(child)


def _label(node: Node | None) -> str:
    """What a node is called: its name, or the text in it."""
    if node is None:
        return ""
    return node.name or " ".join(filter(None, _texts(node))).strip()


def _parents(page: Tree) -> dict[str, Node]:
    """By a node's bid, what it is in."""
    return {child.id: node for node in page.nodes() for child in node.children if child.id}


def _options(node: Node) -> list[str]:
    return [n.name for child in node.children for n in (child, *child.children) if n.role == "option"]


def _of_form(node: Node) -> bool:
    """Whether a field belongs to a record, and not to the page round it."""
    return not re.match(r"(filter|search|action|select this|select all|available|chosen)", node.name.lower())


def _in(name: str, goal: str) -> bool:
    """Whether a goal (in small letters) names it."""
    name = name.strip().lower()
    return bool(name) and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", goal) is not None


def _isbn(random: Random) -> str:
    digits = "978" + "".join(str(random.randrange(10)) for _ in range(9))
    return digits + str(-sum(int(d) * (1 + 2 * (n % 2)) for n, d in enumerate(digits)) % 10)
