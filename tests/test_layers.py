"""The rooms of the design: who may import whom, walking every import, those inside functions included."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import worldlm

PACKAGE = Path(worldlm.__file__).parent
EVERY_ROOM = {
    "core",
    "domains",
    "models",
    "retrieval",
    "simulate",
    "real",
    "rollout",
    "data",
    "judge",
    "train",
    "bench",
    "serve",
    "cli",
    "testing",
}
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "domains": {"core"},
    "models": {"core"},
    "retrieval": {"core"},
    "simulate": {"core", "domains", "retrieval"},
    "real": {"core", "domains", "retrieval"},
    "rollout": {"core", "domains"},
    "data": {"core", "domains"},
    "judge": {"core", "domains"},
    "train": {"core", "domains", "data", "judge", "rollout"},
    "bench": {"core", "domains", "data", "judge", "rollout"},
    "serve": {"core", "domains"},
    "cli": EVERY_ROOM - {"cli"},
    "testing": {"core"},
}
CORE_MAY_USE = {"pydantic", "pydantic_core"}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: a relative import"
            yield node.lineno, node.module or ""
            if node.module == "worldlm":
                for alias in node.names:
                    yield node.lineno, f"worldlm.{alias.name}"


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py" or path.parent != PACKAGE)


def test_every_file_lies_in_a_room_of_the_design() -> None:
    assert {room_of(path) for path in FILES} <= EVERY_ROOM


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(PACKAGE)) for path in FILES])
def test_imports_stay_within_the_table(path: Path) -> None:
    room = room_of(path)
    for line, module in imports(path):
        parts = module.split(".")
        if parts[0] == "worldlm":
            assert len(parts) > 1, f"{path}:{line} imports the package's front, not a room"
            allowed = MAY_IMPORT[room] | {room}
            assert parts[1] in allowed, f"{path}:{line}: {room} may not import {parts[1]}"
        elif room == "core":
            assert parts[0] in sys.stdlib_module_names | CORE_MAY_USE, f"{path}:{line}: core imports {parts[0]}"


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=150)


def test_importing_the_package_is_silent_and_loads_nothing_heavy(tmp_path: Path) -> None:
    heavy = ("torch", "transformers", "aiohttp", "xllamacpp", "prompt_toolkit", "typer", "rich", "jsonschema", "yaml")
    result = python(f"import sys, worldlm; print(sorted(set({heavy!r}) & set(sys.modules)))")
    assert (result.stdout, result.stderr) == ("[]\n", "")


def test_no_room_loads_torch() -> None:
    modules = [
        ".".join(("worldlm", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
        for path in FILES
        # What runs inside a sandbox is no module of ours: it needs what is installed there. Inspect imports its task.
        if room_of(path) not in ("train",) and "inside" not in path.parts and path.name != "inspect_task.py"
    ]
    code = f"import importlib, sys\nfor m in {modules!r}: importlib.import_module(m)\nprint('torch' in sys.modules)"
    result = python(code)
    assert (result.stdout, result.stderr) == ("False\n", "")


PUBLIC = [
    "ActionError",
    "Completion",
    "ConformanceError",
    "Domain",
    "EndingKind",
    "Environment",
    "InputError",
    "JsonlWriter",
    "Message",
    "Model",
    "ModelPolicy",
    "Observation",
    "Outcome",
    "Policy",
    "PolicyError",
    "Profile",
    "Resume",
    "RolloutLimits",
    "Sampling",
    "ScriptPolicy",
    "SetupError",
    "SimulatedEnvironment",
    "Snapshot",
    "Step",
    "Streams",
    "Tool",
    "ToolCall",
    "Trajectory",
    "Turn",
    "Usage",
    "World",
    "WorldlmError",
    "__version__",
    "get_domain",
    "load_world",
    "read_trajectories",
    "run_episode",
    "run_episodes",
]
PUBLIC_TESTING = ["Conformance", "ScriptedModel", "ToyEnvironment", "check_environment"]


def test_public_names_are_pinned() -> None:
    assert sorted(worldlm.__all__) == sorted(PUBLIC)
    assert dir(worldlm) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(worldlm, name) is not None
        assert not inspect.ismodule(getattr(worldlm, name)), f"{name} is hidden by a room of that name"
    with pytest.raises(AttributeError, match="no attribute 'Observatoin'"):
        _ = worldlm.Observatoin


def test_public_names_for_tests_are_pinned() -> None:
    import worldlm.testing

    assert sorted(worldlm.testing.__all__) == PUBLIC_TESTING


def test_public_names_do_not_depend_on_the_order_of_imports() -> None:
    """A room of the same name would replace a public function as soon as anything imported that room."""
    assert not set(PUBLIC) & EVERY_ROOM
