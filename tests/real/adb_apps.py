"""Apps of the stand-in phone: what their screens hold, what a touch does, and how uiautomator would dump them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol
from xml.sax.saxutils import quoteattr

WIDTH, HEIGHT = 1080, 2400
PACKAGE = "dev.tern.notes"
CLOCK = "dev.tern.clock"
LAUNCHER = "com.android.launcher3"


# Views.


@dataclass
class View:
    """One element of a screen: how it is dumped, and what touching it does."""

    kind: str
    box: tuple[int, int, int, int]
    text: str = ""
    desc: str = ""
    id: str = ""
    flags: frozenset[str] = frozenset()
    tap: Callable[[], object] | None = None
    press: Callable[[], object] | None = None
    children: list["View"] = field(default_factory=list)

    def at(self, x: int, y: int) -> Iterator["View"]:
        """What lies under a point, topmost first."""
        for child in reversed(self.children):
            yield from child.at(x, y)
        left, top, right, bottom = self.box
        if left <= x < right and top <= y < bottom:
            yield self


_FLAGS = (
    *("checkable", "checked", "clickable", "enabled", "focusable", "focused"),
    *("scrollable", "long-clickable", "password", "selected"),
)


def dump(view: View, package: str, index: int = 0) -> str:
    """A view as uiautomator writes it."""
    flags = set(view.flags) | ({"clickable", "focusable"} if view.tap else set())
    flags |= {"long-clickable"} if view.press else set()
    flags ^= {"enabled"} if "disabled" not in flags else set()
    kind = view.kind if "." in view.kind else f"android.widget.{view.kind}"
    name = f"{package}:id/{view.id}" if view.id else ""
    left, top, right, bottom = view.box
    given = {"index": str(index), "text": view.text, "resource-id": name, "class": kind, "package": package}
    given["content-desc"] = view.desc
    given |= {flag: "true" if flag in flags else "false" for flag in _FLAGS}
    given["bounds"] = f"[{left},{top}][{right},{bottom}]"
    head = "".join(f" {key}={quoteattr(value, {chr(10): '&#10;'})}" for key, value in given.items())
    inner = "".join(dump(child, package, number) for number, child in enumerate(view.children))
    return f"<node{head}>{inner}</node>" if inner else f"<node{head} />"


# Apps.


class System(Protocol):
    """What an app needs of its phone."""

    field: str | None
    keyboard: bool

    def enter_field(self, name: str) -> None: ...
    def leave_field(self) -> None: ...
    def toast(self, text: str) -> None: ...
    def start(self, package: str) -> None: ...


class App:
    """An app: a stack of screens, each a function to its view."""

    package: str
    label: str
    version = "3.2.1"

    def __init__(self, phone: System):
        self.phone = phone
        self.stack: list[str] = []
        self.popup: str | None = None
        self.fields: dict[str, str] = {}
        self.clear()
        self.entry = self.activity

    def clear(self) -> None:
        """Forget all data."""

    def view(self) -> View:
        """What is on the screen."""
        screens: dict[str, Callable[[], list[View]]] = self.screens()
        return View("FrameLayout", (0, 0, WIDTH, HEIGHT), children=screens[self.stack[-1]]())

    def screens(self) -> dict[str, Callable[[], list[View]]]:
        """Every screen, by name."""
        raise NotImplementedError

    def popups(self) -> dict[str, Callable[[], View]]:
        """Every dialog and menu, by name."""
        return {}

    def window(self) -> View | None:
        """A dialog or menu in front."""
        return self.popups()[self.popup]() if self.popup else None

    @property
    def activity(self) -> str:
        return f".{self.stack[-1].capitalize()}Activity"

    def go(self, screen: str) -> None:
        self.popup = None
        self.stack.append(screen)
        self.phone.leave_field()

    def back(self) -> bool:
        """Whether there was something to go back from."""
        self.phone.leave_field()
        if self.popup:
            self.popup = None
            return True
        if len(self.stack) > 1:
            self.stack.pop()
            return True
        return False

    def show(self, popup: str | None) -> None:
        self.popup = popup

    def entered(self, name: str) -> None:
        """Enter was pressed in a field."""

    def edit(self, name: str, hint: str, box: tuple[int, int, int, int]) -> View:
        """A text field."""
        focused = {"focused"} if self.phone.field == name else set()
        text = self.fields.get(name, "")
        return View(
            *("EditText", box, text or hint, "", name, frozenset({"long-clickable"} | focused)),
            tap=lambda: self.phone.enter_field(name),
        )

    def button(self, text: str, box: tuple[int, int, int, int], tap: Callable[[], object], id: str = "") -> View:  # noqa: A002
        return View("Button", box, text, id=id, tap=tap)

    def icon(self, desc: str, left: int, tap: Callable[[], object]) -> View:
        return View("ImageButton", (left, 96, left + 120, 216), desc=desc, tap=tap)

    def title(self, text: str) -> View:
        return View("TextView", (48, 110, 600, 200), text)

    def row(self, top: int, title: str, summary: str, tap: Callable[[], object] | None, *extra: View) -> View:
        """A list's row: a layout that takes the tap, with texts in it."""
        texts = [View("TextView", (48, top + 20, 800, top + 80), title, id="title")]
        if summary:
            texts.append(View("TextView", (48, top + 84, 800, top + 140), summary, id="summary"))
        return View("LinearLayout", (0, top, WIDTH, top + 160), tap=tap, children=[*texts, *extra])

    def dialog(self, title: str, rows: list[View]) -> View:
        """A window of its own, smaller than the screen."""
        head = View("TextView", (120, 840, 960, 920), title, id="alertTitle")
        return View("FrameLayout", (70, 800, 1010, 1600), children=[head, *rows])


class Notes(App):
    """Notes: a list, an editor, search, settings, an about page; a menu and three dialogs."""

    package, label = PACKAGE, "Notes"

    def screens(self) -> dict[str, Callable[[], list[View]]]:
        return {
            "notes": self.home,
            "editor": self.editor,
            "search": self.search,
            "settings": self.preferences,
            "about": self.about,
        }

    def popups(self) -> dict[str, Callable[[], View]]:
        return {"menu": self.menu, "delete": self.delete, "fonts": self.fonts}

    def clear(self) -> None:
        self.notes = [("Groceries", "oat milk\nrye bread"), ("Ferry", "07:40, platform 2"), ("Books", "The Salt Road")]
        self.settings = {"Dark theme": False, "Ask before deleting": True, "Sync": False, "Wi-Fi only": False}
        self.font = "Medium"
        self.opened: int | None = None
        self.selected: int | None = None
        self.pinned: set[str] = set()
        self.scrolled = 0
        self.stack, self.popup, self.fields = ["notes"], None, {}

    def sorted(self) -> list[tuple[str, str]]:
        return sorted(self.notes, key=lambda note: note[0] not in self.pinned)

    def open(self, index: int | None) -> None:
        self.opened = index
        title, body = self.sorted()[index] if index is not None else ("", "")
        self.fields |= {"note_title": title, "note_body": body}
        self.go("editor")

    def cards(self) -> View:
        cards = []
        for index, (title, body) in enumerate(self.sorted()[self.scrolled : self.scrolled + 6]):
            number, top = index + self.scrolled, 260 + index * 300
            texts = [View("TextView", (48, top + 20, 900, top + 90), title, id="note_name")]
            if first := body.split("\n")[0]:
                texts.append(View("TextView", (48, top + 100, 900, top + 160), first))
            if title in self.pinned:
                texts.append(View("ImageView", (950, top + 20, 1010, top + 80), desc="Pinned"))
            card = View("FrameLayout", (24, top, 1056, top + 280), children=texts)
            card.tap, card.press = partial(self.open, number), partial(self.select, number)
            card.flags = frozenset({"selected"} if number == self.selected else ())
            cards.append(card)
        many = frozenset({"scrollable"} if len(self.notes) > 6 else ())
        return View("androidx.recyclerview.widget.RecyclerView", (0, 240, WIDTH, 2160), flags=many, children=cards)

    def select(self, number: int) -> None:
        self.selected = number

    def home(self) -> list[View]:
        if self.selected is not None:
            bar = [
                self.icon("Close", 24, self.unselect),
                View("TextView", (180, 110, 600, 200), "1 selected"),
                self.icon("Delete", 936, self.ask_to_delete),
            ]
        else:
            bar = [
                self.title("Notes"),
                self.icon("Search", 816, lambda: self.go("search")),
                self.icon("More options", 936, lambda: self.show("menu")),
            ]
        none = View("TextView", (300, 1100, 800, 1200), "No notes yet")
        new = View("ImageButton", (888, 2216, 1032, 2360), desc="New note", tap=lambda: self.open(None))
        return [*bar, self.cards() if self.notes else none, new]

    def unselect(self) -> None:
        self.selected = None

    def back(self) -> bool:
        if self.selected is not None and not self.popup:
            self.selected = None
            return True
        return super().back()

    def ask_to_delete(self) -> None:
        if self.settings["Ask before deleting"]:
            self.show("delete")
        else:
            self.delete_selected()

    def delete_selected(self) -> None:
        assert self.selected is not None
        self.notes.remove(self.sorted()[self.selected])
        self.selected, self.popup, self.scrolled = None, None, 0
        self.phone.toast("Note deleted")

    def delete(self) -> View:
        return self.dialog(
            "Delete this note?",
            [
                self.button("Cancel", (500, 1440, 740, 1560), lambda: self.show(None), id="button2"),
                self.button("Delete", (760, 1440, 980, 1560), self.delete_selected, id="button1"),
            ],
        )

    def menu(self) -> View:
        rows = [("Sort by title", self.sort), ("Settings", lambda: self.go("settings")), ("About", self.about_opens)]
        items = [
            View("LinearLayout", (500, 200 + n * 140, 1060, 340 + n * 140), tap=tap, children=[
                View("TextView", (540, 230 + n * 140, 1020, 310 + n * 140), text)
            ])
            for n, (text, tap) in enumerate(rows)
        ]  # fmt: skip
        return View(
            "FrameLayout", (500, 200, 1060, 620), children=[View("ListView", (500, 200, 1060, 620), children=items)]
        )

    def sort(self) -> None:
        self.notes.sort()
        self.popup = None

    def about_opens(self) -> None:
        self.page = 0
        self.go("about")

    def about(self) -> list[View]:
        lines = [f"Line {n} of the licence" for n in range(self.page, self.page + 10)]
        texts = [View("TextView", (48, 300 + n * 180, 1000, 400 + n * 180), text) for n, text in enumerate(lines)]
        return [
            self.title("About"),
            View("ScrollView", (0, 240, WIDTH, 2200), flags=frozenset({"scrollable"}), children=texts),
        ]

    def editor(self) -> list[View]:
        return [
            self.icon("Navigate up", 24, self.back),
            self.button("Save", (840, 96, 1056, 216), self.save, id="save"),
            self.edit("note_title", "Title", (48, 260, 1032, 380)),
            self.edit("note_body", "Note", (48, 400, 1032, 1200)),
            View(
                *("CheckBox", (48, 1240, 400, 1340), "Pinned"),
                flags=frozenset({"checkable"} | ({"checked"} if self.fields["note_title"] in self.pinned else set())),
                tap=self.pin,
            ),
        ]

    def pin(self) -> None:
        self.pinned ^= {self.fields["note_title"]}

    def save(self) -> None:
        title, body = self.fields["note_title"], self.fields["note_body"]
        if not title.strip():
            self.phone.toast("A note needs a title")
            return
        if self.opened is not None:
            self.notes.remove(self.sorted()[self.opened])
        self.notes.insert(0, (title, body))
        self.phone.toast("Saved")
        self.back()

    def entered(self, name: str) -> None:
        if name == "note_title":
            self.phone.field = "note_body"
        elif name == "note_body":
            self.fields[name] += "\n"
        else:
            self.phone.keyboard = False

    def go(self, screen: str) -> None:
        super().go(screen)
        if screen == "search":
            self.fields["query"] = ""
            self.phone.enter_field("query")

    def search(self) -> list[View]:
        query = self.fields["query"].casefold()
        found = [note for note in self.sorted() if query and query in " ".join(note).casefold()]
        rows = [
            self.row(300 + n * 180, title, body.split("\n")[0], lambda: None)
            for n, (title, body) in enumerate(found[:5])
        ]
        none = [View("TextView", (48, 320, 900, 400), f"Nothing found for “{self.fields['query']}”")]
        return [self.edit("query", "Search notes", (48, 96, 900, 216)), *(rows or (none if query else []))]

    def preferences(self) -> list[View]:
        rows = []
        for n, (name, on) in enumerate(self.settings.items()):
            state = {"checkable"} | ({"checked"} if on else set())
            off = name == "Wi-Fi only" and not self.settings["Sync"]
            switch = View(
                "Switch",
                (900, 300 + n * 180, 1040, 400 + n * 180),
                flags=frozenset(state | ({"disabled"} if off else set())),
            )
            row = self.row(
                280 + n * 180, name, "On" if on else "Off", None if off else partial(self.flip, name), switch
            )
            row.flags = frozenset({"disabled"} if off else ())
            rows.append(row)
        return [*rows, self.row(280 + 4 * 180, "Font size", self.font, lambda: self.show("fonts"))]

    def flip(self, name: str) -> None:
        self.settings[name] = not self.settings[name]

    def fonts(self) -> View:
        choices = [
            View(
                *("CheckedTextView", (100, 940 + n * 140, 980, 1060 + n * 140), name),
                flags=frozenset({"checkable"} | ({"checked"} if name == self.font else set())),
                tap=partial(self.choose, name),
            )
            for n, name in enumerate(("Small", "Medium", "Large"))
        ]
        cancel = self.button("Cancel", (760, 1440, 980, 1560), lambda: self.show(None), id="button2")
        return self.dialog("Font size", [*choices, cancel])

    def choose(self, name: str) -> None:
        self.font, self.popup = name, None

    def scroll(self, down: bool) -> None:
        """Content moves by a page."""
        if self.stack[-1] == "about":
            self.page = min(30, self.page + 8) if down else max(0, self.page - 8)
        elif self.stack[-1] == "notes":
            most = max(0, len(self.notes) - 6)
            self.scrolled = min(most, self.scrolled + 4) if down else max(0, self.scrolled - 4)


class Clock(App):
    """Alarms with switches."""

    package, label = CLOCK, "Clock"

    def screens(self) -> dict[str, Callable[[], list[View]]]:
        return {"alarms": self.alarms}

    def clear(self) -> None:
        self.on = {"06:30": True, "08:00": False}
        self.stack, self.popup, self.fields = ["alarms"], None, {}

    def alarms(self) -> list[View]:
        rows = [self.title("Alarm")]
        for number, (time, on) in enumerate(self.on.items()):
            top = 300 + number * 200
            rows.append(View("TextView", (48, top, 400, top + 100), time))
            flags = frozenset({"checkable"} | ({"checked"} if on else set()))
            rows.append(View("Switch", (900, top, 1040, top + 100), flags=flags, tap=partial(self.flip, time)))
        return rows

    def flip(self, time: str) -> None:
        self.on[time] = not self.on[time]


class Home(App):
    """The launcher: an icon for each app."""

    package, label = LAUNCHER, "Launcher"

    def screens(self) -> dict[str, Callable[[], list[View]]]:
        return {"launcher": self.icons}

    def clear(self) -> None:
        self.stack, self.popup, self.fields = ["launcher"], None, {}

    @property
    def activity(self) -> str:
        return ".uioverrides.QuickstepLauncher"

    def icons(self) -> list[View]:
        return [
            View(
                *("TextView", (60 + number * 250, 1900, 280 + number * 250, 2150), label),
                desc=label,
                tap=partial(self.phone.start, package),
                press=lambda: None,
            )
            for number, (label, package) in enumerate((("Notes", PACKAGE), ("Clock", CLOCK)))
        ]
