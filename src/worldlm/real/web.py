"""A real browser: Chromium in a sandbox, driven through Playwright, read as BrowserGym reads it.

The browser, its driver and the server of a local site run in one sandbox each episode; nothing of them exists on the
host, and there is no network unless the world asks for it. What a world's `initial_state` holds, a mapping:

    site: miniwob           MiniWoB's pages; `task: click-checkboxes`, or `tasks: […]`, of which the seed picks one
    site: django            Django's admin; `app: bookshop` or `tracker`; `login: false` starts at the login page
    folder: PATH            a folder of static pages
    url: https://…          any page; needs `network: true`
    start: PATH             for the first three: the page to start on
    dialogs: dismiss        dialogs of a page are dismissed (by default they are accepted)

A local site lives in a time of its own: it stands still but for the second that each step takes, and its random
numbers come from the seed. So what happens depends on the actions, and not on how fast they come. A page of the
network has the real time; it is read when two looks at it agree. Either is read after some seconds even when it has not
settled; the failed check `stable` in the step's `violations` then says so.

An episode on MiniWoB is over when its page says so. The goal stands in the world's context.
"""

import asyncio
import importlib.util
import math
import sys
import time
from functools import cache
from importlib import metadata, resources
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from worldlm.core.errors import InputError, SetupError, nearest, user_path
from worldlm.core.outcomes import Outcome
from worldlm.core.text import derive_seed
from worldlm.core.types import Check, Limits, Observation, Origin, Step, Usage, Value, World
from worldlm.domains.domain import read_state
from worldlm.domains.files import FileState
from worldlm.domains.web import WEB
from worldlm.real import sites
from worldlm.real.episode import Episode
from worldlm.real.sandbox import Bind, Plan, program_plan
from worldlm.real.worker import Worker, WorkerError

START_SECONDS = 120.0
"""How long the browser and the site may take to start."""
STARTS = 3
"""How often a browser is started that does not come up."""
PORT = 8000
"""Of a local site, inside."""
MAX_FOLDER = 64 << 20
"""Bytes that a folder of pages may have."""
LIMITS = Limits(processes=1024, disk_mib=1024)
"""What a browser gets where the world says nothing. (Chromium has some hundred threads.)"""
CHROMIUM = (
    "/usr/lib/chromium/chromium",
    "/usr/lib/chromium-browser/chromium-browser",
    "/usr/lib64/chromium-browser/chromium-browser",
)
"""Where distributions keep it."""
_PYTHON = "/opt/python/bin/python3"
_FONTS = b"""<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>/usr/share/fonts</dir><cachedir>/tmp/fonts</cachedir></fontconfig>"""
# A task starts by itself, without a limit of time, and what MiniWoB shows to people beside the task is not shown.
_MINIWOB = """(() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync("#query { visibility: hidden !important } "
        + "#reward-display, #click-canvas, #sync-task-cover { display: none !important }");
    document.adoptedStyleSheets = [sheet];
    // Later than what the page itself does when it has loaded.
    window.addEventListener("load", () => setTimeout(() => {
        if (typeof core === "undefined") return;
        Math.seedrandom(SEED);
        core.EPISODE_MAX_TIME = 1e9;
        core.startEpisodeReal();
        core.clearTimer();
    }, 0));
})();"""
_MINIWOB_GOAL = "(() => { const said = core.getUtterance(); return said.utterance ?? said; })()"
_MINIWOB_DONE = "typeof WOB_DONE_GLOBAL !== 'undefined' && WOB_DONE_GLOBAL"


class WebState(Value):
    """What `World.initial_state` holds for a real browser."""

    site: Literal["miniwob", "django"] | None = None
    task: str | None = Field(default=None, pattern=r"^[a-z0-9-]+$")
    tasks: tuple[str, ...] = ()
    app: Literal["bookshop", "tracker"] = "bookshop"
    login: bool = True
    folder: str | None = None
    url: str | None = None
    start: str = ""
    network: bool = False
    dialogs: Literal["accept", "dismiss"] = "accept"

    @model_validator(mode="after")
    def _one_place(self) -> "WebState":
        if sum(place is not None for place in (self.site, self.folder, self.url)) != 1:
            raise ValueError("say one of site, folder and url")
        if self.site == "miniwob" and not (self.task or self.tasks):
            raise ValueError("say task or tasks of MiniWoB (click-checkboxes, email-inbox, …)")
        if self.url is not None and not self.network:
            raise ValueError("a url is on the network: write network: true beside it")
        if self.url is not None and urlsplit(self.url).scheme not in ("http", "https"):
            raise ValueError(f"url must be an address of http or https, not {self.url!r}")
        return self


def web_state(world: World) -> WebState:
    """The web state of a world. Raises InputError that names the key."""
    if isinstance(world.initial_state, str):
        raise InputError(
            f"world {world.name!r}: a real browser needs initial_state with site, folder or url; "
            "text is for a simulated one"
        )
    return read_state(world, WebState)


class Site(NamedTuple):
    """A place for one episode."""

    order: dict[str, Any]
    """What the program inside is told (see inside/web.py)."""
    binds: tuple[Bind, ...]
    files: dict[str, bytes]
    name: str
    state: dict[str, Any]
    """The world's initial state as a trajectory shows it."""
    source: str
    licence: str


class WebEnvironment:
    """Satisfies `Environment` and `HasOrigin`. Steps run one at a time."""

    def __init__(self, world: World):
        """Cheap: nothing starts before `reset`. Raises InputError for a world that is none of a real browser."""
        if world.domain != "web":
            raise InputError(f"world {world.name!r} is of domain {world.domain!r}, not 'web'")
        self._world = world
        self._state = web_state(world)
        given = world.limits.model_dump(exclude_none=True)
        defaults = WEB.limits.model_dump(exclude_none=True) | LIMITS.model_dump(exclude_none=True)
        self._limits = Limits(**(defaults | given))
        self._view = world.agent_view().model_copy(update={"initial_state": _shown(self._state)})
        self._origin = Origin(kind="real", source="Chromium under Playwright", version=_playwright_version())
        self._lock = asyncio.Lock()
        self._worker: Worker | None = None
        self._episode = Episode(WEB, self._limits)
        self._screen = ""

    @property
    def world(self) -> World:
        """The agent's view of the world; after `reset` with the task that was picked, and its goal."""
        return self._view

    @property
    def origin(self) -> Origin:
        """Real: which browser and which site."""
        return self._origin

    async def reset(self, seed: int | None = None) -> Observation:
        """Start a browser on the world's page.

        A browser that does not come up is started again, a few times. Raises SetupError when something is missing or
        it still does not come up, InputError when the world's page cannot be had.
        """
        if self._worker is not None:
            self._worker.kill()  # a step that is under way ends by this
        async with self._lock:
            await self._end()
            chosen = self._world.seed if seed is None else seed
            site = await asyncio.to_thread(make_site, self._world, self._state, chosen)
            plan = _plan(site, self._limits, network=self._state.network)
            answer = await self._start(plan, site)
            context = self._world.context
            if answer["goal"]:
                context = f"{context.rstrip()}\nGoal: {answer['goal']}".lstrip()
            self._view = self._world.agent_view().model_copy(
                update={"name": site.name, "initial_state": site.state, "context": context}
            )
            version = f"Chromium {answer['version']}, {_playwright_version()}"
            source = f"Chromium under Playwright, {site.source}"
            self._origin = Origin(kind="real", source=source, version=version, licence=site.licence)
            self._episode = Episode(WEB, self._limits)
            self._screen = answer["text"]
            return Observation(text=self._screen)

    async def _start(self, plan: Plan, site: Site) -> dict[str, Any]:
        why = ""
        for _ in range(STARTS):
            worker = self._worker = await Worker.start(plan, self._limits, "a real browser")
            try:
                answer = await worker.ask(site.order, START_SECONDS)
            except WorkerError as error:
                why = str(error)
                await self._end()
                if error.outcome in (Outcome.CANCELLED, Outcome.TIMED_OUT):  # a page that hangs will hang again
                    break
                continue
            except BaseException:
                await asyncio.shield(self._end())
                raise
            if "failed" not in answer:
                return answer
            why = answer["failed"]
            await self._end()
            if "net::ERR" in why:
                raise SetupError(f"world {self._world.name!r}: its page cannot be opened: {why}")
        raise SetupError(f"the browser did not start: {why}")

    async def step(self, action: str) -> Step:
        """Do the action, wait until the page has settled, and look."""
        async with self._lock:
            worker = self._worker
            if worker is None and not self._episode.over:
                raise InputError("the environment has not been reset (or is closed): call reset first")
            call = self._episode.read(action, self._view.model_copy(update={"initial_observation": self._screen}))
            if isinstance(call, Step):
                return call
            assert worker is not None
            started = time.monotonic()
            try:
                order = {"name": call.name, "arguments": call.arguments}
                answer = await worker.ask(order, self._limits.step_seconds or math.inf)
            except WorkerError as error:
                return await self._failed(error.outcome, str(error))
            except BaseException:
                # What the action did is not known: there is no way back to before the step.
                self._worker = None
                await asyncio.shield(worker.close())
                raise
            if "failed" in answer:
                return await self._failed(Outcome.INFRASTRUCTURE_FAILED, answer["failed"])
            return self._episode.finish(
                action,
                Step(
                    observation=Observation(text=answer["text"]),
                    violations=(Check(rule="stable", passed=False, message=answer["note"]),) if answer["note"] else (),
                    terminated=answer["done"],
                    usage=Usage(seconds=time.monotonic() - started),
                ),
            )

    async def close(self) -> None:
        """End the browser and everything with it, and wait until it is gone."""
        if self._worker is not None:
            self._worker.kill()
        await asyncio.shield(self._end())

    async def _failed(self, outcome: Outcome, why: str) -> Step:
        self._episode.over = True
        await asyncio.shield(self._end())
        return Step(observation=None, outcome=outcome, detail=why, truncated=outcome is not Outcome.CANCELLED)

    async def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.close()


def _shown(state: WebState) -> dict[str, Any]:
    """A state without what it says of this machine."""
    shown = state.model_dump(mode="json", exclude_defaults=True)
    if state.folder is not None:
        shown["folder"] = Path(state.folder).name
    return shown


def make_site(world: World, state: WebState, seed: int) -> Site:
    """What an episode starts from; fetches a site's packages first. Blocks.

    Raises InputError for a task, a page or a folder that is not there, SetupError for packages that cannot be had.
    """
    name, shown = world.name, _shown(state)
    order: dict[str, Any] = {
        "server": None,
        "hosts": "",
        "executable": chromium(),
        "viewport": [1280, 720],
        "seed": None if state.url is not None else seed,
        "cookies": [],
        "script": "",
        "goal": "",
        "done": "",
        "accept": state.dialogs == "accept",
    }
    if state.url is not None:
        order["url"] = state.url
        return Site(order, (), {}, name, shown, urlsplit(state.url).hostname or "", "")
    serve = [_PYTHON, "/opt/worldlm/web_site.py"]
    files = {"/opt/worldlm/web_site.py": _inside("web_site.py")}
    binds: tuple[Bind, ...]
    if state.site == "miniwob":
        folder = sites.obtain(sites.MINIWOB) / "miniwob" / "html"
        task = _pick_task(world, state, seed, folder / "miniwob")
        host, path = "miniwob.example", f"miniwob/{task}.html"
        order |= {"viewport": [332, 214], "goal": _MINIWOB_GOAL, "done": _MINIWOB_DONE}
        order["script"] = _MINIWOB.replace("SEED", str(seed))
        order["server"] = [*serve, "static", str(PORT), "/opt/site"]
        binds = (Bind(folder, "/opt/site"),)
        name = f"{world.name}.{task}" if state.task is None else world.name
        shown = {key: value for key, value in shown.items() if key != "tasks"} | {"task": task}
        source, licence = sites.MINIWOB.name, sites.MINIWOB.licence
    elif state.site == "django":
        app = state.app
        host, path = f"{app}.example", state.start.lstrip("/") or "admin/"
        if state.login:
            session = {"name": "sessionid", "value": _SESSION, "url": f"http://{host}/"}
            order["cookies"] = [session]
        order["server"] = [*serve, "django", str(PORT), app, str(seed)]
        binds = tuple(
            Bind(folder, f"/opt/packages/{folder.name}")
            for folder in (sites.obtain(sites.DJANGO) / package for package in ("django", "asgiref", "sqlparse"))
        )
        files["/opt/worldlm/web_site_urls.py"] = _inside("web_site_urls.py")
        files |= {
            f"/opt/worldlm/{app}/{part}.py": _inside(f"{app}/{part}.py")
            for part in ("__init__", "admin", "models", "records")
        }
        source, licence = sites.DJANGO.name, sites.DJANGO.licence
    else:
        folder = user_path(state.folder or "").resolve()
        host, path = "site.example", state.start.lstrip("/")
        order["server"] = [*serve, "static", str(PORT), "/opt/site"]
        binds, source, licence = (), f"the folder {folder.name}", ""
        files |= _pages(world, folder)
    order["url"] = f"http://{host}/{path}"
    # The site has a name, as sites have; no other name leads anywhere.
    order["hosts"] = f"MAP {host} 127.0.0.1:{PORT}" + ("" if state.network else ", MAP * ~NOTFOUND")
    return Site(order, binds, files, name, shown, source, licence)


_SESSION = "a2f4c6e8b1d3f5a7c9e0b2d4f6a8c1e3"
"""The key of the session in which a Django site's administrator is logged in (see inside/web_site.py)."""


def _pages(world: World, folder: Path) -> dict[str, bytes]:
    """A folder's files as they are put into the sandbox: a copy, so that whoever may read them there can."""
    if not folder.is_dir():
        raise InputError(f"world {world.name!r}: initial_state.folder: there is no folder {folder}")
    pages: dict[str, bytes] = {}
    room = MAX_FOLDER
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            room -= path.stat().st_size
            if room < 0:
                raise InputError(f"world {world.name!r}: {folder} holds more than {MAX_FOLDER >> 20} MiB")
            pages[f"/opt/site/{path.relative_to(folder)}"] = path.read_bytes()
    if not pages:
        raise InputError(f"world {world.name!r}: {folder} holds no files")
    return pages


def chromium() -> str:
    """The browser's own program, which is another than the script that starts it for people. Raises SetupError."""
    for path in CHROMIUM:
        if Path(path).exists():
            return path
    raise SetupError("a real browser needs programs that are not installed: apt-get install chromium")


def _pick_task(world: World, state: WebState, seed: int, folder: Path) -> str:
    names = (state.task,) if state.task is not None else state.tasks
    known = {path.stem for path in folder.glob("*.html")}
    for name in names:
        if name not in known:
            raise InputError(f"world {world.name!r}: MiniWoB has no task {name!r}; {nearest(name, known)}")
    return Random(derive_seed("task", str(seed))).choice(names)


def _inside(name: str) -> bytes:
    return (resources.files("worldlm.real") / "inside" / name).read_bytes()


def _plan(site: Site, limits: Limits, *, network: bool) -> Plan:
    files = {"/opt/worldlm/web.py": _inside("web.py"), "/opt/worldlm/fonts.conf": _FONTS, **site.files}
    environment = {
        "PYTHONPATH": "/opt/packages",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "FONTCONFIG_FILE": "/opt/worldlm/fonts.conf",
        "TZ": "UTC",
    }
    return program_plan(
        [_PYTHON, "/opt/worldlm/web.py"],
        FileState(),
        limits,
        files=files,
        binds=(Bind(Path(sys.base_prefix), "/opt/python"), *_playwright(), *site.binds),
        environment=environment,
        network=network,
        first=False,
    )


@cache
def _playwright() -> tuple[Bind, ...]:
    """The packages that the program inside needs. Raises SetupError when they are missing."""
    binds = []
    for name in ("playwright", "greenlet"):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise SetupError(f"a real browser needs {name}: pip install 'worldlm[real]'")
        binds.append(Bind(Path(spec.origin).parent, f"/opt/packages/{name}"))
    return tuple(binds)


@cache
def _playwright_version() -> str:
    try:
        return f"Playwright {metadata.version('playwright')}"
    except metadata.PackageNotFoundError:
        return ""


__all__ = ["WebEnvironment", "WebState", "make_site", "web_state"]
