"""An explorer of a desktop: writes, calculates, keeps files in order, fills sheets, and looks at what came of it.

It finds its way by the tree alone: it clicks where a node is, takes the dialog in front as the one to answer, and goes
back (Escape, Cancel) from what it does not know. Chains carry their names and numbers from one application to the
next: a file that code has written is opened in the editor, saved under another name, and renamed in the file manager.
"""

import re
from collections.abc import Callable, Generator, Sequence
from random import Random

from worldlm.core.types import Observation, Turn, World
from worldlm.domains.desktop import HEADERS
from worldlm.domains.tree import Node, Tree, TreeError, read_outline, size
from worldlm.rollout.explorers.explorer import Act, Behaviour

ODD = 0.14
"""How often something odd is tried before an action."""
_TURNS = (24, 44)
"""Between how many turns an episode takes."""
_DIALOGS = frozenset({"alert", "color chooser", "dialog", "file chooser", "font chooser", "window"})
_WORDS = tuple(
    """
    anchor apple autumn bread bridge candle carrot cedar clock cloud copper corner cotton dinner door engine evening
    feather field finger flour forest garden glass hammer harbour honey island jacket kettle ladder lemon letter
    market meadow mirror morning mountain needle notebook orange paper pencil pepper pillow planet pocket quarter
    rabbit railway river rocket saddle salt season shadow silver soap spring stone sugar table ticket timber tunnel
    umbrella valley velvet village violin wagon water whistle winter yellow
    """.split()  # noqa: SIM905
)
_FOLDERS = ("archive", "drafts", "letters", "old", "photos", "plans", "private", "projects", "reports", "Work 2026")
_ENDINGS = (".txt", ".md", ".csv", ".log", ".ini", "")
_FUNCTIONS = ("SUM", "AVERAGE", "MIN", "MAX", "COUNT", "PRODUCT", "STDEV", "MEDIAN")
_Chain = Generator[Act, Turn, None]
_Did = Generator[Act, Turn, bool]


def behave(random: Random, world: World, initial: Observation) -> Behaviour:
    """Chains in whatever applications are there, and a claim at the end."""
    desk = _Desk(random, world, initial)
    turns = random.randint(*_TURNS)
    while desk.turns < turns:
        yield from desk.choose()(desk)
        yield from _go_back(desk)
    yield from desk.act("FAIL" if random.random() < 0.1 else "DONE", "end")


class _Desk:
    """What does the actions of an episode, and remembers."""

    def __init__(self, random: Random, world: World, initial: Observation):
        state = world.initial_state if isinstance(world.initial_state, dict) else {}
        self.random = random
        self.turns = 0
        self.screen = Tree({}, [])
        self.text = ""
        self._look(initial)
        self.home = f"/home/{state.get('user', 'user')}"
        self.files = sorted(str(path) for path in state.get("files", {}) if not str(path).endswith("/"))
        """Paths of text files, relative to home, as far as we know."""

    # Sight.

    def _look(self, observation: Observation | None) -> None:
        if observation is None:
            return
        self.text = observation.text
        try:
            self.screen = read_outline(observation.text, HEADERS, empty=True)
        except TreeError:  # not ours to judge: there is nothing on it that we could use
            self.screen = Tree({}, [])

    @property
    def size(self) -> tuple[int, int]:
        """Of the screen, in pixels."""
        return size(self.screen.header.get("Screen", "")) or (1280, 800)

    @property
    def front(self) -> Node:
        """The active window; a node without anything when there is none."""
        windows = [window for app in self.screen.roots for window in app.children]
        return next((window for window in reversed(windows) if "active" in window.states), Node("none"))

    @property
    def application(self) -> str:
        """The name of the active window's application."""
        apps = [app for app in self.screen.roots if any("active" in window.states for window in app.children)]
        return apps[-1].name.lower() if apps else ""

    @property
    def dialog(self) -> Node | None:
        """The active window if it is one that asks something, or a menu."""
        return self.front if self.front.role in _DIALOGS else None

    def nodes(self, role: str = "", name: str = "") -> list[Node]:
        """The nodes of the active window with a place, of a role, with a name that matches."""
        found = Tree({}, [self.front]).nodes()
        return [n for n in found if n.box and role in ("", n.role) and re.search(name, n.name)]

    # Acts.

    def act(self, code: str, label: str) -> _Did:
        """One action; whether the screen is another one then."""
        before = self.text
        turn = yield Act(code, label)
        self.turns += 1
        self._look(turn.observation)
        return self.text != before

    def do(self, label: str, *lines: str) -> _Did:
        """A block of code, perhaps after an odd one."""
        if self.random.random() < ODD:
            yield from _odd(self)
        style = self.random.random()
        if style < 0.15:
            lines = ("import pyautogui", *lines)
        elif style < 0.25:
            lines = ("import pyautogui", "import time", *lines, f"time.sleep({self.random.choice((0.1, 0.2, 0.3))})")
        return (yield from self.act("\n".join(lines), label))

    def keys(self, label: str, *keys: str) -> _Did:
        """A key, or several together."""
        return (yield from self.do(label, self.press(*keys)))

    def press(self, *keys: str) -> str:
        """Code that presses a key, or several together, in one of the ways there are."""
        if len(keys) == 1:
            return f"pyautogui.press({keys[0]!r})"
        if len(keys) == 2 and self.random.random() < 0.12:
            first, second = keys
            return f"with pyautogui.hold({first!r}):\n    pyautogui.press({second!r})"
        return f"pyautogui.hotkey({', '.join(map(repr, keys))})"

    def type(self, text: str) -> str:
        """Code that types."""
        interval = self.random.choice(("", "", "", ", interval=0.01"))
        return f"pyautogui.{self.random.choice(('write', 'typewrite'))}({text!r}{interval})"

    def click(self, label: str, node: Node | None, how: str = "click") -> _Did:
        """A click in the middle of a node; nothing when there is none."""
        if node is None or node.box is None:
            return False
        x, y = node.box.x + node.box.width // 2, node.box.y + node.box.height // 2
        code = f"pyautogui.{how}({x}, {y})"
        if how == "click" and self.random.random() < 0.15:
            code = f"pyautogui.moveTo({x}, {y})\npyautogui.click()"
        return (yield from self.do(label, code))

    def answer(self, label: str, name: str) -> _Did:
        """A click on a button of the dialog in front."""
        return (yield from self.click(label, first(self.nodes("push button", name))))

    def menu(self, label: str, menu: str, item: str) -> _Did:
        """Open a menu and take an item of it."""
        if not (yield from self.click(f"{label}/menu", first(self.nodes("menu", f"^{menu}$")))):
            return False
        entry = first([n for n in self.nodes(name=f"^{item}") if n.role.endswith("menu item")])
        return (yield from self.click(label, entry))

    # Words.

    def words(self, least: int, most: int) -> str:
        """Some words."""
        return " ".join(self.random.choice(_WORDS) for _ in range(self.random.randint(least, most)))

    def number(self) -> str:
        """A number as people type it."""
        kind = self.random.random()
        if kind < 0.25:
            return f"{self.random.randint(0, 99)}.{self.random.randint(1, 99)}"
        return str(self.random.randint(0, 9 if kind < 0.5 else 2000))

    def new_name(self) -> str:
        """A name for a text file."""
        return self.random.choice(_WORDS) + self.random.choice(_ENDINGS)

    def known_file(self) -> str:
        """A text file that is there, as far as we know."""
        return self.random.choice(self.files) if self.files else "notes.txt"

    def choose(self) -> Callable[["_Desk"], _Chain]:
        """A chain that suits what is in front."""
        chains = next((chains for name, chains in _CHAINS.items() if name in self.application), _EMPTY)
        if len(self.screen.roots) > 1 and self.random.random() < 0.15:
            return _switch
        return self.random.choice(_CODE if self.random.random() < 0.14 else chains)


def first(nodes: Sequence[Node]) -> Node | None:
    """The first, or None."""
    return nodes[0] if nodes else None


# Any application.


def _go_back(desk: _Desk) -> _Chain:
    """Leave what is open: menus, dialogs, questions."""
    for _ in range(4):
        if desk.dialog is None and not any("selected" in menu.states for menu in desk.nodes("menu")):
            return
        if desk.random.random() < 0.3 and (yield from desk.answer("desk/cancel", "^(Cancel|Close|No)$")):
            continue
        yield from desk.keys("desk/cancel", "esc")


def _switch(desk: _Desk) -> _Chain:
    """To another window, by keys or by a click on it."""
    others = [w for app in desk.screen.roots for w in app.children if w.box and "active" not in w.states]
    if others and desk.random.random() < 0.5:
        box = others[0].box
        assert box is not None
        x = desk.random.choice((box.x + 12, box.x + box.width - 12))
        yield from desk.do("desk/raise", f"pyautogui.click({x}, {box.y + desk.random.choice((10, box.height - 8))})")
        return
    for _ in range(desk.random.randint(1, 2)):
        yield from desk.keys("desk/switch", "alt", "tab")


def _look_into_menus(desk: _Desk) -> _Chain:
    menus = desk.nodes("menu")
    if not menus:
        return
    if desk.random.random() < 0.5:
        yield from desk.click("desk/menu", desk.random.choice(menus))
    else:
        menu = desk.random.choice(menus)
        yield from desk.keys("desk/menu", "alt", menu.name[:1].lower() or "f")
    for _ in range(desk.random.randint(1, 3)):
        yield from desk.keys("desk/menu", desk.random.choice(("down", "right", "left", "up")))


def _context_menu(desk: _Desk) -> _Chain:
    target = [n for role in ("text", "table cell", "table") for n in desk.nodes(role)]
    if target and (yield from desk.click("desk/context-menu", desk.random.choice(target), "rightClick")):
        yield from desk.keys("desk/context-menu", desk.random.choice(("down", "up", "esc")))


def _window_keys(desk: _Desk) -> _Chain:
    yield from desk.keys("desk/maximize", "alt", "f10")
    yield from desk.do("desk/scroll", f"pyautogui.scroll({desk.random.choice((-5, -3, 3, 5))}, 640, 400)")
    yield from desk.keys("desk/maximize", "alt", "f10")


def _drag_window(desk: _Desk) -> _Chain:
    box = desk.front.box
    if box is None:
        return
    x, y = box.x + box.width // 3, box.y + 8
    dx, dy = desk.random.randint(-120, 120), desk.random.randint(-60, 60)
    yield from desk.do(
        "desk/drag", f"pyautogui.moveTo({x}, {y})", f"pyautogui.dragRel({dx}, {dy}, duration=0.2, button='left')"
    )


def _wait(desk: _Desk) -> _Chain:
    yield from desk.act("WAIT", "desk/wait")


def _close_window(desk: _Desk) -> _Chain:
    """Close it; where it asks, one of the three answers."""
    yield from desk.keys("desk/close", "alt", "f4")
    if desk.dialog is not None:
        yield from desk.answer("desk/close", desk.random.choice(("^Cancel", "^Don.t Save", "^Save")))


def _start(desk: _Desk) -> _Chain:
    """Start an application from code."""
    command = desk.random.choice((["mousepad", "--disable-server", desk.known_file()], ["galculator"], ["thunar"]))
    yield from desk.do(
        "code/start",
        "import subprocess",
        f"subprocess.Popen({command!r}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)",
        "time.sleep(2)",
    )
    if not desk.screen.roots:
        yield from desk.act("WAIT", "desk/wait")


# The text editor.


def _write(desk: _Desk) -> _Chain:
    where = desk.random.choice((("ctrl", "end"), ("ctrl", "home"), ("end",), ("down",)))
    yield from desk.keys("text/move", *where)
    for _ in range(desk.random.randint(1, 3)):
        end = desk.random.choice(("\n", "\n", "", " "))
        yield from desk.do(
            "text/type", desk.type(desk.words(1, 6).capitalize() + desk.random.choice((".", ",", "", " -")) + end)
        )
    if desk.random.random() < 0.5:
        yield from desk.keys("text/save", "ctrl", "s")
        if desk.dialog is not None:
            yield from _name_in_dialog(desk, "text/save-as")


def _name_in_dialog(desk: _Desk, label: str) -> _Chain:
    """Give a name in a file chooser that saves; where it exists already, say what is to be done."""
    name = desk.new_name() if desk.random.random() < 0.7 else desk.known_file().rpartition("/")[2]
    yield from desk.keys(label, "ctrl", "a")
    yield from desk.do(label, desk.type(name))
    if desk.random.random() < 0.5:
        yield from desk.keys(label, "enter")
    else:
        yield from desk.answer(label, "^Save$")
    if desk.dialog is not None and (yield from desk.answer(f"{label}/exists", "^(Replace|Cancel|Keep)")):
        return
    if name not in desk.files:
        desk.files.append(name)


def _save_as(desk: _Desk) -> _Chain:
    if desk.random.random() < 0.5:
        yield from desk.keys("text/save-as", "ctrl", "shift", "s")
    else:
        yield from desk.menu("text/save-as", "File", "Save As")
    if desk.dialog is not None:
        yield from _name_in_dialog(desk, "text/save-as")


def _open_file(desk: _Desk) -> _Chain:
    yield from desk.keys("text/open", "ctrl", "o")
    name = desk.known_file() if desk.random.random() < 0.8 else "missing.txt"
    yield from desk.keys("text/open", "ctrl", "l")
    yield from desk.do("text/open", desk.type(name))
    yield from desk.keys("text/open", "enter")


def _replace(desk: _Desk) -> _Chain:
    shown = max((n.value for n in desk.nodes("text")), key=len, default="")
    known = re.findall(r"[A-Za-z]{3,}", shown)
    old = desk.random.choice(known) if known and desk.random.random() < 0.85 else desk.random.choice(_WORDS)
    if desk.random.random() < 0.5:
        yield from desk.keys("text/replace", "ctrl", "r")
    else:
        yield from desk.menu("text/replace", "Search", "Find and Replace")
    yield from desk.do("text/replace", desk.type(old))
    yield from desk.do("text/replace", "pyautogui.press('tab')", desk.type(desk.random.choice(_WORDS)))
    if desk.random.random() < 0.4:
        box = first(desk.nodes("check box", desk.random.choice(("Match case", "whole word", "Regular"))))
        yield from desk.click("text/replace-option", box)
    if desk.random.random() < 0.5:
        yield from desk.click("text/replace-option", first(desk.nodes("check box", "Replace all")))
    yield from desk.answer("text/replace", "^Replace")
    yield from desk.answer("text/replace", "^Close$")
    if desk.random.random() < 0.4:
        yield from desk.keys("text/undo", "ctrl", "z")


def _find(desk: _Desk) -> _Chain:
    yield from desk.keys("text/find", "ctrl", "f")
    yield from desk.do("text/find", desk.type(desk.random.choice(_WORDS)[: desk.random.randint(2, 6)]))
    yield from desk.keys("text/find", desk.random.choice(("enter", "f3")))
    yield from desk.keys("text/find", "esc")


def _clipboard(desk: _Desk) -> _Chain:
    take = desk.random.choice((("ctrl", "a"), ("shift", "end"), ("shift", "down"), ("ctrl", "shift", "right")))
    yield from desk.keys("text/select", *take)
    yield from desk.keys("text/clipboard", "ctrl", desk.random.choice("ccx"))
    yield from desk.keys("text/move", *desk.random.choice((("ctrl", "end"), ("right",), ("ctrl", "home"))))
    yield from desk.keys("text/clipboard", "ctrl", "v")
    for _ in range(desk.random.randint(0, 3)):
        yield from desk.keys("text/undo", "ctrl", desk.random.choice("zzy"))


def _edit_lines(desk: _Desk) -> _Chain:
    entry = desk.random.choice(("Delete Line", "Duplicate Line", "Increase Indent", "Select All", "Undo"))
    yield from desk.menu("text/lines", "Edit", entry)
    if desk.random.random() < 0.5:
        yield from desk.keys("text/delete", desk.random.choice(("backspace", "delete", "enter", "tab")))


def _view(desk: _Desk) -> _Chain:
    menu, entry = desk.random.choice(
        (
            ("View", "Line Numbers"),
            ("View", "Statusbar"),
            ("View", "Toolbar"),
            ("Document", "Word Wrap"),
            ("Document", "Viewer Mode"),
        )
    )
    for _ in range(desk.random.randint(1, 2)):
        yield from desk.menu("text/view", menu, entry)


def _tabs(desk: _Desk) -> _Chain:
    yield from desk.keys("text/new", "ctrl", "n")
    yield from desk.do("text/type", desk.type(desk.words(2, 5)))
    yield from desk.click("text/tab", first(desk.nodes("page tab")))
    yield from desk.keys("text/tab", "ctrl", desk.random.choice(("pageup", "pagedown")))
    yield from desk.keys("text/close-tab", "ctrl", "w")
    if desk.dialog is not None:
        yield from desk.answer("text/close-tab", desk.random.choice(("^Don.t Save", "^Don.t Save", "^Cancel", "^Save")))


def _go_to(desk: _Desk) -> _Chain:
    yield from desk.menu("text/go-to", "Search", "Go to")
    yield from desk.do("text/go-to", desk.type(str(desk.random.randint(1, 12))), "pyautogui.press('enter')")
    yield from desk.keys("text/select", "shift", "end")
    yield from desk.do("text/type", desk.type(desk.words(1, 3)))


# The calculator.


def _sum_by_clicks(desk: _Desk) -> _Chain:
    keys = desk.number() + desk.random.choice("+-*/") + desk.number() + "="
    for key in keys[-8:]:
        yield from desk.click("calculator/click", first(desk.nodes("toggle button", f"^{re.escape(key)}$")))


def _sum_by_keys(desk: _Desk) -> _Chain:
    terms = [desk.number()]
    for _ in range(desk.random.randint(1, 4)):
        terms += [desk.random.choice("+-*/"), desk.number()]
    text = "".join(terms)
    if desk.random.random() < 0.2:
        text = f"({text})*{desk.random.randint(2, 9)}"
    yield from desk.do("calculator/type", desk.type(text))
    yield from desk.keys("calculator/result", desk.random.choice(("enter", "=")))
    for _ in range(desk.random.randint(0, 2)):
        yield from desk.do("calculator/go-on", desk.type(desk.random.choice("+-*/") + desk.number() + "="))


def _divide_by_zero(desk: _Desk) -> _Chain:
    yield from desk.do("calculator/error/odd", desk.type(f"{desk.number()}/0="))
    yield from desk.click("calculator/clear", first(desk.nodes("toggle button", "^AC$")))


def _buttons(desk: _Desk) -> _Chain:
    yield from desk.do("calculator/type", desk.type(desk.number()))
    for name in ("^sqrt$", r"^\+/-$", "^MS$", "^C$", "^MR$", r"^M\+$", "^%$", "^=$", "^<-$"):
        if desk.random.random() < 0.45:
            yield from desk.click("calculator/button", first(desk.nodes("toggle button", name)))


def _calculator_view(desk: _Desk) -> _Chain:
    menu, entry = desk.random.choice(
        (
            ("View", "Basic Mode"),
            ("View", "Scientific Mode"),
            ("View", "Display Control"),
            ("Calculator", "Number"),
            ("Edit", "Copy"),
            ("View", "Paper Mode"),
        )
    )
    yield from desk.menu("calculator/view", menu, entry)


def _copy_result(desk: _Desk) -> _Chain:
    yield from desk.keys("calculator/copy", "ctrl", "c")
    yield from _switch(desk)
    if "mousepad" in desk.application:
        yield from desk.keys("text/clipboard", "ctrl", "v")


# The file manager.


def _cell(desk: _Desk, name: str = "") -> Node | None:
    """A row's first cell; any when there is no `name`."""
    names = [
        n
        for n in desk.nodes("table cell")
        if n.box and not re.fullmatch(r"[\d.,]+ \w+|.* document|folder|.*file.*", n.name)
    ]
    if name:
        return first([n for n in names if n.name == name])
    return desk.random.choice(names) if names else None


def _select(desk: _Desk) -> Generator[Act, Turn, Node | None]:
    cell = _cell(desk)
    yield from desk.click("files/select", cell)
    return cell


def _walk(desk: _Desk) -> _Chain:
    if (yield from desk.click("files/open", _cell(desk), "doubleClick")) and "mousepad" in desk.application:
        return
    for _ in range(desk.random.randint(1, 2)):
        way = desk.random.choice((("alt", "up"), ("alt", "left"), ("alt", "right"), ("alt", "home"), ("f5",)))
        yield from desk.keys("files/walk", *way)


def _new_folder(desk: _Desk) -> _Chain:
    if desk.random.random() < 0.6:
        yield from desk.keys("files/new-folder", "ctrl", "shift", "n")
    else:
        yield from desk.menu("files/new-folder", "File", "Create Folder")
    name = desk.random.choice(_FOLDERS)
    yield from desk.do("files/new-folder", desk.press("ctrl", "a"), desk.type(name))
    yield from desk.answer("files/new-folder", desk.random.choice(("^Create$", "^Create$", "^Create$", "^Cancel$")))
    if desk.dialog is not None:
        yield from desk.keys("files/exists", "enter")
    elif desk.random.random() < 0.5:
        yield from desk.click("files/open", _cell(desk, name), "doubleClick")
        yield from _new_file(desk)


def _new_file(desk: _Desk) -> _Chain:
    """By code, into a folder; the manager shows it once it has looked again."""
    shown = first([n for n in desk.nodes("text") if n.value.startswith("/")])
    folder = (shown.value if shown else desk.home).rstrip("/") or desk.home
    name = desk.new_name()
    yield from desk.do(
        "code/write-file", f"with open({f'{folder}/{name}'!r}, 'w') as file:\n    file.write({desk.words(2, 9)!r})"
    )
    yield from desk.keys("files/reload", "f5")
    if f"{folder}/".startswith(desk.home + "/"):
        desk.files.append(f"{folder}/{name}".removeprefix(desk.home + "/"))


def _rename(desk: _Desk) -> _Chain:
    if (yield from _select(desk)) is None:
        return
    yield from desk.keys("files/rename", "f2")
    yield from desk.do("files/rename", desk.press("ctrl", "a"), desk.type(desk.new_name()))
    yield from desk.keys("files/rename", desk.random.choice(("enter", "enter", "enter", "esc")))


def _copy_file(desk: _Desk) -> _Chain:
    if (yield from _select(desk)) is None:
        return
    yield from desk.keys("files/copy", "ctrl", desk.random.choice("ccx"))
    if desk.random.random() < 0.6:
        yield from desk.click("files/open", _cell(desk), "doubleClick")
    yield from desk.keys("files/paste", "ctrl", "v")
    if desk.dialog is not None:
        yield from desk.answer("files/paste", "^(Skip|Replace|Rename|OK|Close)")


def _delete(desk: _Desk) -> _Chain:
    if (yield from _select(desk)) is None:
        return
    yield from desk.keys("files/delete", *desk.random.choice((("delete",), ("shift", "delete"))))
    yield from desk.answer("files/delete", desk.random.choice(("^Delete$", "^Delete$", "^Cancel$")))


def _location(desk: _Desk) -> _Chain:
    places = ("", "/Documents", "/nowhere", "/..", "/.config")
    yield from desk.keys("files/location", "ctrl", "l")
    yield from desk.do("files/location", desk.press("ctrl", "a"), desk.type(desk.home + desk.random.choice(places)))
    yield from desk.keys("files/location", "enter")
    if desk.dialog is not None:
        yield from desk.keys("files/location", "esc")
    yield from desk.keys("files/walk", "alt", "home")


def _properties(desk: _Desk) -> _Chain:
    if (yield from _select(desk)) is None:
        return
    yield from desk.keys("files/properties", "alt", "enter")
    yield from desk.click("files/properties", first(desk.nodes("page tab", "Permissions")))
    yield from desk.keys("files/properties", "esc")


def _many(desk: _Desk) -> _Chain:
    yield from desk.keys("files/select-all", "ctrl", "a")
    yield from desk.keys("files/hidden", "ctrl", "h")
    yield from desk.keys("files/hidden", "ctrl", "h")


def _sort_files(desk: _Desk) -> _Chain:
    for _ in range(desk.random.randint(1, 2)):
        yield from desk.click(
            "files/sort", first(desk.nodes("table column header", desk.random.choice(("Name", "Size", "Type"))))
        )


# The spreadsheet.


def _address(desk: _Desk, rows: int = 12) -> str:
    return f"{desk.random.choice('ABCDE')}{desk.random.randint(1, rows)}"


def _go_to_cell(desk: _Desk, address: str) -> _Chain:
    box = first([n for n in desk.nodes("text") if re.fullmatch(r"[A-Z]+\d+(:[A-Z]+\d+)?", n.value)])
    if not (yield from desk.click("sheet/name-box", box)):
        return
    yield from desk.do("sheet/go-to", desk.press("ctrl", "a"), desk.type(address), "pyautogui.press('enter')")


def _enter_rows(desk: _Desk) -> _Chain:
    yield from _go_to_cell(desk, _address(desk, 8))
    for _ in range(desk.random.randint(1, 3)):
        row = [desk.random.choice(_WORDS).capitalize(), desk.number(), desk.number()][: desk.random.randint(1, 3)]
        yield from desk.do("sheet/enter", desk.type("\t".join(row)), "pyautogui.press('enter')")


def _formula(desk: _Desk) -> _Chain:
    yield from _go_to_cell(desk, _address(desk))
    low, high = sorted((desk.random.randint(1, 5), desk.random.randint(4, 9)))
    column = desk.random.choice("ABCD")
    formula = desk.random.choice(
        (
            f"={desk.random.choice(_FUNCTIONS)}({column}{low}:{column}{high})",
            f"={_address(desk)}{desk.random.choice('+-*/')}{_address(desk)}",
            f'=IF({_address(desk)}>{desk.number()};"high";"low")',
            f"=ROUND({_address(desk)}/{desk.random.randint(2, 9)};{desk.random.randint(0, 3)})",
            f'=CONCATENATE({_address(desk)};"-";{_address(desk)})',
            f"=SUMME({column}{low}:{column}{high})",
        )
    )
    yield from desk.do("sheet/formula", desk.type(formula), "pyautogui.press('enter')")
    if desk.random.random() < 0.3:
        yield from desk.keys("sheet/undo", "ctrl", desk.random.choice("zy"))


def _format(desk: _Desk) -> _Chain:
    yield from _go_to_cell(desk, f"A1:{_address(desk)}")
    way = desk.random.choice(
        (("ctrl", "b"), ("ctrl", "i"), ("ctrl", "shift", "4"), ("ctrl", "shift", "5"), ("ctrl", "e"))
    )
    yield from desk.keys("sheet/format", *way)


def _format_dialog(desk: _Desk) -> _Chain:
    yield from desk.keys("sheet/format-dialog", "ctrl", "1")
    yield from desk.click(
        "sheet/format-dialog", first(desk.nodes("page tab", desk.random.choice(("Font", "Alignment", "Borders"))))
    )
    yield from desk.answer("sheet/format-dialog", desk.random.choice(("^OK$", "^Cancel$")))


def _sheets(desk: _Desk) -> _Chain:
    if desk.random.random() < 0.5:
        yield from desk.answer("sheet/new-sheet", "^Add$")
    else:
        yield from desk.click("sheet/switch", desk.random.choice(desk.nodes("page tab") or [Node("none")]))
    yield from desk.keys("sheet/switch", "ctrl", desk.random.choice(("pageup", "pagedown")))


def _sort_rows(desk: _Desk) -> _Chain:
    yield from _go_to_cell(desk, "A1:C9")
    yield from desk.menu(
        "sheet/sort", "Data", desk.random.choice(("Sort Ascending", "Sort Descending", "Sort\\.\\.\\."))
    )
    if desk.dialog is not None:
        yield from desk.answer("sheet/sort", "^(OK|Extend|Current|Cancel)")


def _save_sheet(desk: _Desk) -> _Chain:
    yield from desk.keys("sheet/save", "ctrl", "s")
    if desk.front.role == "file chooser":
        yield from desk.do("sheet/save", desk.press("ctrl", "a"), desk.type(desk.random.choice(_WORDS)))
    if desk.dialog is not None:
        yield from desk.keys("sheet/save", "enter")
    if desk.dialog is not None:
        yield from desk.keys("sheet/save", desk.random.choice(("enter", "esc")))


def _clear_cells(desk: _Desk) -> _Chain:
    yield from _go_to_cell(desk, _address(desk))
    yield from desk.keys(
        "sheet/select", *desk.random.choice((("shift", "down"), ("ctrl", "shift", "down"), ("shift", "right")))
    )
    yield from desk.keys("sheet/clear", desk.random.choice(("delete", "backspace")))
    yield from _go_back(desk)
    yield from desk.keys("sheet/undo", "ctrl", "z")


def _copy_cells(desk: _Desk) -> _Chain:
    yield from _go_to_cell(desk, f"A1:{_address(desk, 4)}")
    yield from desk.keys("sheet/clipboard", "ctrl", desk.random.choice("ccx"))
    yield from _go_to_cell(desk, _address(desk))
    yield from desk.keys("sheet/clipboard", "ctrl", "v")


def _rows_and_columns(desk: _Desk) -> _Chain:
    cells = desk.nodes("table cell")
    yield from desk.click("sheet/select", desk.random.choice(cells) if cells else None)
    entry = desk.random.choice(("Insert Rows", "Insert Columns", "Delete Rows", "Delete Columns", "Rename Sheet"))
    yield from desk.menu("sheet/structure", "Sheet", entry)


# Plain code.


def _write_file(desk: _Desk) -> _Chain:
    name, lines = desk.new_name(), [desk.words(1, 5) for _ in range(desk.random.randint(1, 4))]
    code = desk.random.choice(
        (
            f"with open({name!r}, 'w') as file:\n    file.write({chr(10).join(lines) + chr(10)!r})",
            f"from pathlib import Path\nfile = Path({name!r})\nprint(file.write_text({chr(10).join(lines)!r}))",
            f"file = open(os.path.expanduser('~/{name}'), 'a')\nfor line in {lines!r}:\n    print(line, file=file)",
        )
    )
    yield from desk.do("code/write-file", code)
    desk.files.append(name)
    if "mousepad" in desk.application and desk.random.random() < 0.6:
        yield from desk.keys("text/open", "ctrl", "o")
        yield from desk.keys("text/open", "ctrl", "l")
        yield from desk.do("text/open", desk.type(name), "pyautogui.press('enter')")
    elif "thunar" in desk.application:
        yield from desk.keys("files/reload", "f5")


def _read_file(desk: _Desk) -> _Chain:
    name = desk.known_file()
    code = desk.random.choice(
        (
            f"print(open({name!r}).read())",
            f"for number, line in enumerate(open({name!r}), 1):\n    print(number, line.rstrip())",
            f"import subprocess\nprint(subprocess.run(['wc', {name!r}], capture_output=True, text=True).stdout)",
            f"import subprocess\nsubprocess.run(['sort', '-r', {name!r}])",
            f"text = open({name!r}).read()\nprint(len(text), len(text.split()), text.upper()[:60])",
        )
    )
    yield from desk.do("code/read-file", code)


def _change_file(desk: _Desk) -> _Chain:
    """A change behind the editor's back."""
    name = desk.known_file()
    yield from desk.do("code/append", f"with open({name!r}, 'a') as file:\n    print({desk.words(1, 4)!r}, file=file)")
    if "mousepad" in desk.application:
        yield from desk.keys("text/revert", "f5")
        if desk.dialog is not None:
            yield from desk.answer("text/revert", desk.random.choice(("Reload|Revert", "^Cancel")))
    yield from desk.do("code/read-file", f"print(open({name!r}).read()[-80:])")


def _list_files(desk: _Desk) -> _Chain:
    code = desk.random.choice(
        (
            "print(sorted(os.listdir('.')))",
            "print(os.getcwd(), sorted(os.listdir(os.path.expanduser('~/Documents'))))",
            "for root, folders, files in os.walk('Documents'):\n    folders.sort()\n    print(root, sorted(files))",
            "import glob\nprint(sorted(glob.glob('**/*.txt', recursive=True)))",
            "import subprocess\nprint(subprocess.check_output('ls -p', shell=True, text=True))",
        )
    )
    yield from desk.do("code/list", code)


def _move_file(desk: _Desk) -> _Chain:
    name, other = desk.known_file(), desk.new_name()
    code = desk.random.choice(
        (
            f"import shutil\nshutil.copy({name!r}, {other!r})",
            f"os.rename({name!r}, {other!r})",
            f"os.makedirs('backup', exist_ok=True)\nimport shutil\nprint(shutil.move({name!r}, 'backup'))",
            f"os.remove({name!r})\nprint(os.path.exists({name!r}))",
        )
    )
    yield from desk.do("code/move-file", code)
    if "os.re" in code or "move" in code:
        desk.files = [known for known in desk.files if known != name]
    if "remove" not in code and "backup" not in code:
        desk.files.append(other)
    if "thunar" in desk.application:
        yield from desk.keys("files/reload", "f5")


def _ask_pyautogui(desk: _Desk) -> _Chain:
    code = desk.random.choice(
        (
            "print(pyautogui.size())",
            "pyautogui.moveTo(300, 200)\nprint(pyautogui.position())",
            "print(pyautogui.onScreen(1500, 20), pyautogui.isValidKey('enter'), pyautogui.PAUSE)",
            "pyautogui.move(40, 30)\nx, y = pyautogui.position()\nprint(x, y)",
        )
    )
    yield from desk.do("code/pyautogui", code)


# Odd ones.


def _odd(desk: _Desk) -> _Did:
    width, height = desk.size
    word = desk.random.choice(_WORDS)
    code, family = desk.random.choice(
        (
            (
                f"pyautogui.click({width - desk.random.randint(2, 9)}, {height - desk.random.randint(2, 9)})",
                "desk/click",
            ),
            (f"pyautogui.press({desk.random.choice(('retrun', 'Entr', 'crtl', 'page_down', 'escp'))!r})", "desk/key"),
            (f"pyautogui.click({desk.random.randint(1, 600)}, {desk.random.randint(1, 400)}", "code/syntax"),
            (f"print(open('{word}.txt').read())", "code/missing-file"),
            (f"{word}.click()", "code/unknown-name"),
            (
                f"pyautogui.{desk.random.choice(('clik', 'type', 'doubleclick', 'waitFor'))}(10, 20)",
                "code/unknown-function",
            ),
            (f"print({desk.random.randint(1, 99)} / 0)", "code/exception"),
            (f"int({word!r})", "code/exception"),
            ("pyautogui.hotkey('ctrl', 'alt', 'q')", "desk/key"),
            (f"Click the button {word}", "code/prose"),
            ("pyautogui.moveTo(0, 0)\npyautogui.click()\npyautogui.click(200, 200)", "desk/fail-safe"),
            (f"pyautogui.click('{word}.png')", "code/image"),
            (f"import subprocess\nsubprocess.run(['{word}', '--help'])", "code/missing-program"),
            (f"import {word}", "code/missing-module"),
            (f"os.makedirs('/usr/{word}')", "code/refused"),
            (
                "def go():\n    raise RuntimeError('the window\\nis not there')\n\nprint('looking')\ngo()",
                "code/exception",
            ),
            (f"os.system('cat {word}.log; false')", "code/shell"),
            (f"pyautogui.write({word + ' été ✓'!r})", "text/unicode"),
            ("import sys\nprint('giving up')\nsys.exit(3)", "code/exit"),
            ("pass", "code/nothing"),
        )
    )
    changed = yield from desk.act(code, f"{family}/odd")
    if family == "desk/fail-safe":
        # The pointer stands in the corner, and pyautogui refuses to go on until it has left it.
        yield from desk.act("pyautogui.FAILSAFE = False\npyautogui.moveTo(600, 400)", "desk/fail-safe")
    return changed


_EVERYWHERE = (_look_into_menus, _context_menu, _window_keys, _drag_window, _wait, _close_window)
_CODE = (_write_file, _read_file, _change_file, _list_files, _move_file, _ask_pyautogui)
_EMPTY = (_start, _switch)
_CHAINS: dict[str, tuple[Callable[[_Desk], _Chain], ...]] = {
    "mousepad": (
        *(_write, _write, _write, _save_as, _open_file, _replace, _replace, _find, _clipboard, _clipboard),
        *(_edit_lines, _edit_lines, _view, _tabs, _go_to),
        *_EVERYWHERE,
    ),
    "galculator": (
        *(_sum_by_clicks, _sum_by_clicks, _sum_by_keys, _sum_by_keys, _sum_by_keys, _divide_by_zero),
        *(_buttons, _buttons, _calculator_view, _copy_result),
        *_EVERYWHERE,
    ),
    "thunar": (
        *(_walk, _walk, _new_folder, _new_folder, _rename, _rename, _copy_file, _copy_file, _delete, _location),
        *(_properties, _many, _sort_files, _new_file),
        *_EVERYWHERE,
    ),
    "soffice": (
        *(_enter_rows, _enter_rows, _formula, _formula, _formula, _format, _format_dialog, _sheets, _sort_rows),
        *(_save_sheet, _clear_cells, _copy_cells, _rows_and_columns),
        *(_look_into_menus, _context_menu),
    ),
}
