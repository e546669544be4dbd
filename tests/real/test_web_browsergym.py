"""What we read of a page beside what BrowserGym reads of it.

BrowserGym pins an old Playwright, so it needs a virtual environment of its own, whose Python the variable
WORLDLM_BROWSERGYM_PYTHON names:

    python -m venv browsergym && browsergym/bin/pip install browsergym-core==0.14.3
    WORLDLM_BROWSERGYM_PYTHON=$PWD/browsergym/bin/python pytest tests/real/test_web_browsergym.py

Both read the same pages with the same Chromium. Every line must agree (depth, role, name, value, properties, and the
bid), but for what differs on purpose: we leave out the lines that a text is broken into, blank texts and the root's
address; we show generic nodes that answer to clicks, and give no bid to the inner parts of a browser's own widgets.
And BrowserGym writes its bids into the page's ARIA attributes, which brings up what a browser otherwise leaves out of
the tree: the groups of a table's rows, and the label round a checkbox or a radio button, which repeats its name (both
are left out here), and images without a text and paragraphs of links (the share that does not agree).
"""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from worldlm.core.types import World
from worldlm.real import web
from worldlm.real.web import WebEnvironment

pytestmark = pytest.mark.anyio
PYTHON = os.environ.get("WORLDLM_BROWSERGYM_PYTHON", "")
TASKS = """click-button click-checkboxes click-option choose-list click-menu click-tab-2 click-collapsible enter-date
enter-text login-user navigate-tree read-table search-engine social-media email-inbox use-autocomplete click-link
book-flight-nodelay form-sequence-2 daily-calendar"""
ADMIN = "admin/ admin/bookshop/book/ admin/bookshop/book/add/ admin/bookshop/order/3/change/ admin/bookshop/customer/"
# The other side: prints, for each page, the text of BrowserGym's tree.
THEIRS = """
import json, sys
from playwright.sync_api import sync_playwright
from browsergym.core import observation as o
from browsergym.utils.obs import flatten_axtree_to_str
executable, pages = sys.argv[1], json.loads(sys.argv[2])
with sync_playwright() as driver:
    driver.selectors.set_test_id_attribute("bid")
    browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
    texts = []
    for url, script, cookies, (width, height) in pages:
        context = browser.new_context(
            viewport={"width": width, "height": height}, locale="en-US", timezone_id="UTC")
        context.add_init_script(script)
        context.add_cookies(cookies)
        page = context.new_page()
        page.goto(url)
        page.wait_for_timeout(300)
        o._pre_extract(page)
        document, tree = o.extract_dom_snapshot(page), o.extract_merged_axtree(page)
        extra = o.extract_dom_extra_properties(document, 1.0)
        texts.append(flatten_axtree_to_str(tree, extra, with_clickable=True))
        context.close()
    print(json.dumps(texts))
"""


@pytest.fixture
def needed() -> None:
    """Skip, and say why, where there is no other side."""
    if not PYTHON:
        pytest.skip("needs browsergym-core in an environment of its own: see WORLDLM_BROWSERGYM_PYTHON in this file")


@contextmanager
def served(site: web.Site) -> Iterator[str]:
    """A site's server outside of its sandbox, for the other side: its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    inside = Path(web.__file__).parent / "inside"
    packages = [str(bind.host.parent) for bind in site.binds if bind.inside.startswith("/opt/packages")]
    folders = {bind.inside: str(bind.host) for bind in site.binds}
    words = [folders.get(word, word) for word in site.order["server"][2:]]
    command = [sys.executable, str(inside / "web_site.py"), words[0], str(port), *words[2:]]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": ":".join([*packages, str(inside)]), "TMPDIR": folder}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                yield f"http://127.0.0.1:{port}/"
            finally:
                process.kill()


@pytest.mark.parametrize(
    ("state", "paths"),
    [
        ({"site": "miniwob", "task": "click-test"}, [f"miniwob/{task}.html" for task in TASKS.split()]),
        pytest.param({"site": "django", "app": "bookshop"}, ADMIN.split(), marks=pytest.mark.long),
    ],
    ids=["miniwob", "django"],
)
async def test_both_read_the_same(needed: None, state: dict[str, str], paths: list[str]) -> None:
    world = World(name="x", domain="web", initial_state=state, seed=1)
    site = web.make_site(world, web.web_state(world), 1)
    base = "/".join(site.order["url"].split("/")[:3]) + "/"
    with served(site) as address:
        cookies = [cookie | {"url": address} for cookie in site.order["cookies"]]
        pages = [(address + path, site.order["script"], cookies, site.order["viewport"]) for path in paths]
        theirs = [text.replace(address, base) for text in await asyncio.to_thread(_their_texts, pages)]
    environment = WebEnvironment(world)
    try:
        await environment.reset()
        ours = []
        for path in paths:
            step = await environment.step(f'goto("{base}{path}")')
            assert step.observation is not None
            ours.append(step.observation.text)
    finally:
        await environment.close()
    shares = {path: _agreement(our, their) for path, our, their in zip(paths, ours, theirs, strict=True)}
    differ = {path: round(share, 3) for path, share in shares.items() if share < 1}
    print(f"lines that agree: {sum(shares.values()) / len(shares):.4f}; pages that differ: {differ}")
    assert sum(shares.values()) / len(shares) > 0.98, differ
    assert min(shares.values()) > 0.95, differ


def _their_texts(pages: Sequence[tuple[object, ...]]) -> list[str]:
    command = [PYTHON, "-c", THEIRS, web.chromium(), json.dumps(pages)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    texts: list[str] = json.loads(done.stdout)
    return texts


def _agreement(ours: str, theirs: str) -> float:
    one, other = _our_lines(ours), _their_lines(theirs)
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def _our_lines(text: str) -> list[str]:
    """The tree's lines, without the generic nodes that are there because they answer to clicks."""
    lines = [line for line in text.split("\n") if not re.match(r"(URL|Tabs): ", line)]
    return _common(_without(lines, re.compile(r"\[\w+\] generic( '.*')?, clickable"), lift=True))


def _their_lines(text: str) -> list[str]:
    lines = re.sub(r"(\ARootWebArea .*?), url='[^\n]*'", r"\1", text).split("\n")
    lines = _without(lines, re.compile(r"InlineTextBox .*|StaticText ''"), lift=False)
    seen: set[str] = set()
    own = []
    for line in lines:  # the parts of a widget carry its bid, and answer to the clicks that it answers to
        bid = re.match(r"\t*\[(\w+)\] ", line)
        if bid and bid[1] in seen:
            line = line.replace(f"[{bid[1]}] ", "", 1).replace(", clickable", "", 1)
        own.append(line)
        seen |= {bid[1]} if bid else set()
    return _common(own)


def _common(lines: list[str]) -> list[str]:
    """Lines without the groups of rows, and without labels with the text that repeats a tick's name."""
    lines = _without(lines, re.compile(r"\[\w+\] (rowgroup|LabelText) ''(, clickable)?"), lift=True)
    ticks = {match[1] for line in lines if (match := re.match(r"\t*\[\w+\] (?:checkbox|radio) ('.*?'),", line))}
    return [line for line in lines if line.strip().removeprefix("StaticText ") not in ticks]


def _without(lines: list[str], gone: re.Pattern[str], *, lift: bool) -> list[str]:
    """Lines without some nodes; what is under one of them moves up, or goes with it."""
    kept: list[str] = []
    above: list[int] = []  # depths of the nodes that are gone and that this line is under
    for line in lines:
        depth = len(line) - len(line.lstrip("\t"))
        above = [there for there in above if there < depth]
        if gone.fullmatch(line.lstrip("\t")):
            above.append(depth)
        elif lift or not above:
            kept.append(line[len(above) :])
    return kept
