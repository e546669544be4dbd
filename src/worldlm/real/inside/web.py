"""Inside a browser's sandbox: Chromium under Playwright; does one action at a time and reads the page.

Reads a line of JSON an order and answers each with one. The first order is `{"server", "url", …}` (see `Browser`) and
starts everything; each further one is `{"name", "arguments"}`, an action. An answer has `text` (the page as the agent
sees it), `done` (by the page's own word), `note` (why the page may not be what it will be); the first one has
`version` and `goal` too. `{"failed": why}` is the last answer there is: the browser, its driver or the site is gone.

What the page is read from: the browser's accessibility tree, and its snapshot of the document, which says which nodes
are elements and which of them have handlers of clicks. Nothing is written into the page for it.
"""

import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import (
    BrowserContext,
    CDPSession,
    Dialog,
    ElementHandle,
    Error,
    Page,
    Request,
    sync_playwright,
)
from playwright.sync_api import (
    TimeoutError as NotReadyError,
)

ACTION_MS = 500
"""For an element to become ready for an action, as in BrowserGym."""
PATIENT_MS = 10 * ACTION_MS
"""For one of which the browser has not yet said that it is not ready: then it is the machine that is slow."""
UNREADY = (
    "element is not",
    "intercepts pointer events",
    "outside of the viewport",
    "did not find some options",
    "option being selected is not enabled",
)
"""What the browser says of an element that is not ready."""
LOAD_MS = 10_000
"""For a page to load."""
SETTLE_SECONDS = 5.0
"""After which a page that is still loading something is read as it is."""
PAGE_MS = 500
"""Of the page's own time that pass in each half of a step, where that time is ours."""
LOOK_SECONDS = 0.1
"""Between two looks at a page whose time is not ours: when they agree, it has settled."""
START = "2026-01-15T09:00:00Z"
"""The page's time at the start, where that time is ours."""
LINES = 4_000
"""Nodes of a page that are shown."""
SCHEMES = ("http", "https", "about", "data", "blob")
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--disable-site-isolation-trials",  # all frames of a page in one process, so that one session reads them
    "--font-render-hinting=none",
)
_RANDOM = """(() => {
    let state = SEED >>> 0;
    Math.random = () => {
        state = (state + 0x6D2B79F5) >>> 0;
        let mixed = Math.imul(state ^ (state >>> 15), state | 1);
        mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
        return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
})();"""

IGNORED_PROPERTIES = frozenset({"editable", "readonly", "level", "settable", "multiline", "invalid", "focusable"})
BARE_PROPERTIES = frozenset({"required", "focused", "atomic"})
"""Shown by name alone, and only when true."""
LAYOUT_ROLES = frozenset({"InlineTextBox", "LineBreak"})
"""How text is broken into lines: no element and no text of its own."""


class GoneError(Exception):
    """The browser, its driver or the site is gone."""


def main() -> None:
    """Serve orders until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints must not come between the answers
    try:
        browser = Browser(json.loads(sys.stdin.readline()))
        answers.write(json.dumps(browser.start()) + "\n")
        for line in sys.stdin:
            order = json.loads(line)
            answers.write(json.dumps(browser.step(order["name"], order["arguments"])) + "\n")
    except (GoneError, Error) as error:
        answers.write(json.dumps({"failed": " / ".join(str(error).split("\n"))[:2000]}) + "\n")


def first_line(error: Exception) -> str:
    """What an error says, without the log of the call."""
    return str(error).split("\n", 1)[0].strip() or type(error).__name__


class Browser:
    """A browser with one window of tabs.

    An order to start has: `server` (the command of the site's server, which prints a line when it is ready, or null),
    `url` (where to start), `hosts` (Chromium's rules of names, or ""), `executable`, `viewport` [width, height], `seed`
    (of the page's random numbers and time; null: both are real), `cookies`, `script` (run in each new document),
    `goal` and `done` (expressions for the page, or ""), `accept` (whether dialogs are accepted).
    """

    def __init__(self, order: dict[str, Any]):
        self.order = order
        self.site = subprocess.Popen(order["server"], stdout=subprocess.PIPE) if order["server"] else None
        self.driver = sync_playwright().start()
        hosts = [f"--host-resolver-rules={order['hosts']}"] if order["hosts"] else []
        self.browser = self.driver.chromium.launch(executable_path=order["executable"], args=[*FLAGS, *hosts])
        self.context = self._context()
        self.targets = self.browser.new_browser_cdp_session()
        self.front: list[Page] = []  # by when they were last in front
        self.behind = False  # whether a tab that opens now opens behind
        self.sessions: dict[Page, CDPSession] = {}
        self.numbers: dict[Page, dict[int, Numbers]] = {}
        self.elements: dict[str, int] = {}  # of the page that was read last: bid to node
        self.requests: set[Request] = set()
        self.dialogs: list[str] = []
        self.crashed = False
        self.context.on("page", self._opened)
        self.context.on("dialog", self._dialog)
        self.context.on("request", self._requested)
        self.context.on("requestfinished", self._answered)
        self.context.on("requestfailed", self._answered)

    def _context(self) -> BrowserContext:
        order = self.order
        width, height = order["viewport"]
        context = self.browser.new_context(
            viewport={"width": width, "height": height}, locale="en-US", timezone_id="UTC", accept_downloads=False
        )
        context.set_default_timeout(LOAD_MS)
        if order["seed"] is not None:
            context.clock.install(time=START)
            context.clock.pause_at(START)
            context.add_init_script(_RANDOM.replace("SEED", str(order["seed"] % 2**32)))
        if order["script"]:
            context.add_init_script(order["script"])
        if order["cookies"]:
            context.add_cookies(order["cookies"])
        return context

    def start(self) -> dict[str, Any]:
        """Open the first page."""
        if self.site is not None and self.site.stdout is not None and not self.site.stdout.readline():
            raise GoneError("the site's server did not start")
        page = self.context.new_page()
        with contextlib.suppress(NotReadyError):  # what never ends loading is looked at as it is
            page.goto(self.order["url"])
        answer = self.look()
        goal = self.order["goal"] and self.page.evaluate(self.order["goal"])
        return {**answer, "version": self.browser.version, "goal": goal}

    def step(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Do an action and look. An action that fails is shown as BrowserGym shows it: the error, and the page."""
        page, told = self.page, ""
        held = {"Control", "ControlOrMeta", "Meta"} & set(arguments.get("modifiers", ()))
        self.behind = bool(held) or arguments.get("button") == "middle"
        try:
            ACTIONS[name](self, page, **arguments)
        except (Error, ValueError) as error:
            if not page.is_closed():  # else it closed itself, and the action has done its work
                told = f"{type(error).__name__}: {first_line(error)}".replace("ElementHandle.", "Locator.")
                told = told.replace(f"Timeout {PATIENT_MS}ms", f"Timeout {ACTION_MS}ms")
        return self.look(told)

    # Tabs.

    @property
    def page(self) -> Page:
        """The tab in front: the last one that was, of those that are open."""
        while self.front and self.front[-1].is_closed():
            self.front.pop()
        if not self.front:
            if self.crashed or not self.browser.is_connected():
                raise GoneError("the browser has crashed")
            self.context.new_page()
        return self.front[-1]

    def bring(self, page: Page) -> None:
        """Put a tab in front."""
        if page in self.front:
            self.front.remove(page)
        self.front.append(page)
        page.bring_to_front()

    def _opened(self, page: Page) -> None:
        page.on("crash", self._crash)
        page.on("close", self._closed)
        self.front.insert(len(self.front) - 1 if self.behind else len(self.front), page)

    def _closed(self, page: Page) -> None:
        self.requests.clear()  # nobody tells what became of its own

    def _crash(self, page: Page) -> None:
        self.crashed = True

    def _dialog(self, dialog: Dialog) -> None:
        done = "accepted" if self.order["accept"] else "dismissed"
        self.dialogs.append(f"{dialog.type} {dialog.message!r} {done}")
        if self.order["accept"]:
            dialog.accept(dialog.default_value)
        else:
            dialog.dismiss()

    def _requested(self, request: Request) -> None:
        if request.resource_type not in ("eventsource", "websocket", "media"):  # these need not come to an end
            self.requests.add(request)

    def _answered(self, request: Request) -> None:
        self.requests.discard(request)

    # Reading.

    def look(self, error: str = "") -> dict[str, Any]:
        """What the agent sees, once the page has settled."""
        note = self._settle()
        lines, done = self._read()
        if self.order["seed"] is None:
            end = time.monotonic() + SETTLE_SECONDS
            before: list[str] = []
            while lines != before and time.monotonic() < end:
                self.page.wait_for_timeout(LOOK_SECONDS * 1000)
                before, (lines, done) = lines, self._read()
            if lines != before:
                note = f"the page had not settled after {SETTLE_SECONDS:g} s"
        if len(lines) > LINES:
            note = f"the page has {len(lines)} nodes, of which {LINES} are shown"
        shown = [self._title(page) for page in self.context.pages]
        active = self.context.pages.index(self.page)
        heads = [
            f"URL: {self.page.url}",
            "Tabs: " + ", ".join(f"{'*' * (n == active)}{n} {title!r}" for n, title in enumerate(shown)),
            *([f"Error: {error}"] if error else ()),
            *([f"Dialog: {', '.join(self.dialogs)}"] if self.dialogs else ()),
        ]
        self.dialogs.clear()
        return {"text": "\n".join(heads + lines[:LINES]), "done": done, "note": note}

    def _title(self, page: Page) -> str:
        try:
            return page.title().strip()
        except Error:
            return ""

    def _settle(self) -> str:
        """Wait until nothing loads; let the page's time pass, where it is ours. Why it did not settle, or ''."""
        end = time.monotonic() + SETTLE_SECONDS
        halves = 2 if self.order["seed"] is not None else 0
        quiet = self._quiet(end)
        for _ in range(halves):
            try:
                self.context.clock.run_for(PAGE_MS)
            except Error:
                self._check()
            quiet = self._quiet(end)
        if not quiet:
            self.requests.clear()
        return "" if quiet else f"the page was still loading after {SETTLE_SECONDS:g} s"

    def _quiet(self, end: float) -> bool:
        looks = 0
        while looks < 2:
            looks = 0 if self._busy() else looks + 1
            if time.monotonic() > end:
                return False
            if looks == 0:
                self.page.wait_for_timeout(5)
        return True

    def _busy(self) -> bool:
        if self.crashed:
            raise GoneError("the page has crashed")
        try:
            ready = self.page.evaluate("document.readyState") == "complete"
        except Error:  # it is on its way to another document
            self._check()
            return True
        return bool(self.requests) or not ready or self._opening()

    def _opening(self) -> bool:
        """Whether the browser has a tab of which the driver has not told yet, or the other way round."""
        found = self.targets.send("Target.getTargets")["targetInfos"]
        pages = [each for each in found if each["type"] == "page"]
        return len(pages) != len(self.context.pages)

    def _check(self) -> None:
        if self.crashed or not self.browser.is_connected():
            raise GoneError("the browser has crashed")
        if self.site is not None and self.site.poll() is not None:
            raise GoneError("the site's server has ended")

    def session(self, page: Page) -> CDPSession:
        """The page's own channel to the browser."""
        if page not in self.sessions:
            session = self.context.new_cdp_session(page)
            session.send("DOM.enable")
            session.send("Accessibility.enable")  # else each reading builds the tree anew
            self.sessions[page] = session
        return self.sessions[page]

    def _read(self) -> tuple[list[str], bool]:
        for _ in range(3):
            page = self.page
            try:
                session = self.session(page)
                document = Snapshot(session.send("DOMSnapshot.captureSnapshot", {"computedStyles": []}))
                trees = {frame: session.send(*_TREE(frame))["nodes"] for frame in document.frames}
                done = bool(self.order["done"]) and bool(page.evaluate(self.order["done"]))
            except Error:  # it is on its way to another document, or closed itself
                self._check()
                self._quiet(time.monotonic() + SETTLE_SECONDS)
                continue
            bids = document.number(self.numbers.setdefault(page, {}))
            self.elements = {bid: node for node, bid in bids.items()}
            return list(outline(document, trees, bids)), done
        raise GoneError("the page could not be read: it changed each time")

    def element(self, page: Page, bid: str) -> ElementHandle:
        """The element of a bid. Raises ValueError, in BrowserGym's words."""
        missing = ValueError(f'Could not find element with bid "{bid}"')
        if bid not in self.elements:
            raise missing
        session = self.session(page)
        try:
            found = session.send("DOM.resolveNode", {"backendNodeId": self.elements[bid]})["object"]["objectId"]
            lend = "function() { this.ownerDocument.defaultView.__lent = this.isConnected ? this : null; }"
            session.send("Runtime.callFunctionOn", {"objectId": found, "functionDeclaration": lend})
        except Error:
            raise missing from None
        take = "() => { const lent = window.__lent ?? null; delete window.__lent; return lent; }"
        for frame in page.frames:
            handle = frame.evaluate_handle(take).as_element()
            if handle is not None:
                return handle
        raise missing


def _TREE(frame: str) -> tuple[str, dict[str, Any]]:  # noqa: N802
    return "Accessibility.getFullAXTree", {"frameId": frame}


class Numbers:
    """The bids of one document: numbers in the order in which its elements were first seen, letters for its frames."""

    def __init__(self) -> None:
        self.bids: dict[int, str] = {}
        self.elements = itertools.count()
        self.frames = itertools.count()

    def of(self, node: int, prefix: str, *, frame: bool) -> str:
        """The bid of a node, a new one if it has none."""
        if node not in self.bids:
            self.bids[node] = prefix + (letters(next(self.frames)) if frame else str(next(self.elements)))
        return self.bids[node]


def letters(number: int) -> str:
    """A … z, aA … zZ."""
    letter = chr(ord("a") + number % 26)
    return letter if number < 26 else letters(number // 26 - 1) + letter.upper()


class Snapshot:
    """Documents of a page, the main one first: which nodes are elements, and which answer to clicks."""

    def __init__(self, answer: dict[str, Any]):
        texts = answer["strings"]
        self.documents = [document["nodes"] for document in answer["documents"]]
        self.frames = [texts[document["frameId"]] for document in answer["documents"]]
        self.clickable: set[int] = set()
        self.inside: dict[int, str] = {}
        """An iframe's node to the frame in it."""
        self.parents: dict[int, int] = {}
        """The number of a document to the node that it is in."""
        self._names = [[texts[name] for name in nodes["nodeName"]] for nodes in self.documents]
        self._texts = texts
        for nodes in self.documents:
            ids = nodes["backendNodeId"]
            self.clickable |= {ids[index] for index in nodes["isClickable"]["index"]}
            content = nodes["contentDocumentIndex"]
            for index, number in zip(content["index"], content["value"], strict=True):
                self.inside[ids[index]] = self.frames[number]
                self.parents[number] = ids[index]

    def number(self, known: dict[int, Numbers]) -> dict[int, str]:
        """The bid of each element that has one: the HTML elements that a page's author wrote, and `svg`."""
        bids: dict[int, str] = {}
        for number, nodes in enumerate(self.documents):
            prefix = bids.get(self.parents[number], "") if number in self.parents else ""
            if number and not prefix:
                continue
            ids = nodes["backendNodeId"]
            numbers = known.setdefault(ids[0], Numbers())
            for index in self._authored(nodes, self._names[number]):
                frame = self._names[number][index] in ("IFRAME", "FRAME")
                bids[ids[index]] = numbers.of(ids[index], prefix, frame=frame)
        return bids

    def _authored(self, nodes: dict[str, Any], names: list[str]) -> Iterator[int]:
        shadow = nodes.get("shadowRootType", {"index": [], "value": []})
        apart = {
            i for i, kind in zip(shadow["index"], shadow["value"], strict=True) if self._texts[kind] == "user-agent"
        }
        apart |= set(nodes["pseudoType"]["index"])
        for index, name in enumerate(names):
            parent = nodes["parentIndex"][index]
            if index in apart or parent in apart or (parent >= 0 and names[parent] == "TEMPLATE"):
                apart.add(index)
            elif nodes["nodeType"][index] == 1 and (name.isupper() or name == "svg"):
                yield index


def outline(document: Snapshot, trees: dict[str, list[dict[str, Any]]], bids: dict[int, str]) -> Iterator[str]:
    """The page's tree as lines, by the rules of BrowserGym's text.

    Left out, with their children in their place: nodes without a name of any kind, generic ones without a property,
    text that its parent's name holds. Other than BrowserGym: a generic node that answers to clicks is shown, so that
    it can be clicked; the lines of which a text consists, and blank texts, are not.
    """
    nodes = {frame: {node["nodeId"]: node for node in tree} for frame, tree in trees.items()}
    main = document.frames[0]
    waiting = [(main, trees[main][0], 0, "")]
    while waiting:
        frame, node, depth, above = waiting.pop()
        role = node["role"]["value"]
        name = str(node.get("name", {}).get("value", ""))
        bid = bids.get(node.get("backendDOMNodeId", -1))
        line = describe(node, role, name, None if role == "StaticText" else bid, document, above)
        if line:
            yield "\t" * depth + line
            depth += 1
        if role in LAYOUT_ROLES:
            continue
        inner = document.inside.get(node.get("backendDOMNodeId", -1), "")
        if trees.get(inner):
            waiting.append((inner, trees[inner][0], depth, name))
        children = [nodes[frame][child] for child in node["childIds"] if child in nodes[frame]]
        shown = name if "name" in node else ""
        waiting.extend((frame, child, depth, shown) for child in reversed(children))


def describe(node: dict[str, Any], role: str, name: str, bid: str | None, document: Snapshot, above: str) -> str:
    """A node's line, or '' when it is not shown."""
    if role in LAYOUT_ROLES or "name" not in node:
        return ""
    if role == "StaticText" and (not name.strip() or name in above):
        return ""
    properties = (
        []
        if role == "RootWebArea"
        else ["clickable"] * (bid is not None and node["backendDOMNodeId"] in document.clickable)
    )
    for entry in node.get("properties", ()):
        key, value = entry["name"], entry["value"].get("value")
        if key in IGNORED_PROPERTIES or "value" not in entry["value"] or (role == "RootWebArea" and key == "url"):
            continue
        if key not in BARE_PROPERTIES:
            properties.append(f"{key}={value!r}")
        elif value:
            properties.append(key)
    if role == "generic" and not properties:
        return ""
    head = f"[{bid}] {role}" if bid is not None else role
    if name or role != "generic":
        head += f" {name.strip()!r}"
    if "value" in node.get("value", {}):
        head += f" value={node['value']['value']!r}"
    return ", ".join([head, *properties])


# Actions, by name.


def patiently(act: Callable[..., object]) -> None:
    """Do an action on an element within its time, which a slow machine does not use up."""
    try:
        act(timeout=ACTION_MS)
    except NotReadyError as error:
        if any(reason in str(error) for reason in UNREADY):
            raise
        if "performing" not in str(error):  # else it was done, and its end took long
            act(timeout=PATIENT_MS)


def _noop(browser: Browser, page: Page, wait_ms: float = 1000) -> None:
    if browser.order["seed"] is not None:
        browser.context.clock.run_for(round(wait_ms))
    else:
        page.wait_for_timeout(wait_ms)


def _mouse(browser: Browser, page: Page, x: float, y: float, does: str, **options: Any) -> None:
    page.mouse.move(x, y)
    getattr(page.mouse, does)(**options)


def _mouse_click(browser: Browser, page: Page, x: float, y: float, button: Any = "left") -> None:
    page.mouse.click(x, y, button=button)


def _mouse_dblclick(browser: Browser, page: Page, x: float, y: float, button: Any = "left") -> None:
    page.mouse.dblclick(x, y, button=button)


def _click(browser: Browser, page: Page, bid: str, button: Any = "left", modifiers: Any = ()) -> None:
    patiently(partial(browser.element(page, bid).click, button=button, modifiers=list(modifiers)))


def _select(browser: Browser, page: Page, bid: str, options: Any) -> None:
    patiently(partial(browser.element(page, bid).select_option, options))


def _tab_focus(browser: Browser, page: Page, index: int) -> None:
    pages = browser.context.pages
    if index >= len(pages):
        raise ValueError(f"there is no tab {index}: {len(pages)} are open")
    browser.bring(pages[index])


def _goto(browser: Browser, page: Page, url: str) -> None:
    scheme = urlsplit(url).scheme
    if scheme and scheme not in SCHEMES:  # the sandbox's own files and the browser's own pages are no part of a world
        raise Error(f"Page.goto: net::ERR_BLOCKED_BY_ADMINISTRATOR at {url}")
    page.goto(url)


ACTIONS: dict[str, Callable[..., object]] = {
    "noop": _noop,
    "mouse_move": lambda browser, page, x, y: page.mouse.move(x, y),
    "mouse_click": _mouse_click,
    "mouse_dblclick": _mouse_dblclick,
    "mouse_down": lambda browser, page, x, y, button="left": _mouse(browser, page, x, y, "down", button=button),
    "mouse_up": lambda browser, page, x, y, button="left": _mouse(browser, page, x, y, "up", button=button),
    "scroll": lambda browser, page, delta_x, delta_y: page.mouse.wheel(delta_x, delta_y),
    "click": _click,
    "keyboard_press": lambda browser, page, key: page.keyboard.press(key),
    "keyboard_type": lambda browser, page, text: page.keyboard.type(text),
    "fill": lambda browser, page, bid, value: patiently(partial(browser.element(page, bid).fill, value)),
    "hover": lambda browser, page, bid: patiently(browser.element(page, bid).hover),
    "select_option": _select,
    "tab_focus": _tab_focus,
    "new_tab": lambda browser, page: browser.bring(browser.context.new_page()),
    "tab_close": lambda browser, page: page.close(),
    "go_back": lambda browser, page: page.go_back(),
    "go_forward": lambda browser, page: page.go_forward(),
    "goto": _goto,
}

if __name__ == "__main__":
    main()
