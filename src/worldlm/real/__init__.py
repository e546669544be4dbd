"""Real environments, one file a domain, and the worlds in which trajectories are collected."""

from importlib import import_module, resources
from pathlib import Path

from worldlm.core.protocols import Environment
from worldlm.core.types import DomainName, World

_CLASSES: dict[DomainName, tuple[str, str]] = {
    "terminal": ("terminal", "TerminalEnvironment"),
    "swe": ("swe", "SweEnvironment"),
    "mcp": ("mcp", "McpEnvironment"),
    "search": ("search", "SearchEnvironment"),
    "web": ("web", "WebEnvironment"),
    "android": ("android", "AndroidEnvironment"),
    "os": ("desktop", "DesktopEnvironment"),
}


def make_environment(world: World) -> Environment:
    """The real environment of a world's domain. Cheap: nothing starts before `reset`.

    Raises InputError where the world does not say what the domain needs, SetupError when a library or a program is
    missing.
    """
    module, name = _CLASSES[world.domain]
    made = getattr(import_module(f"worldlm.real.{module}"), name)(world)
    assert isinstance(made, Environment)
    return made


def world_files() -> dict[str, Path]:
    """The worlds of the package that are real, by name. A file is `NAME.yaml`, and its name begins with its domain."""
    folder = resources.files("worldlm.real") / "worlds"
    files = [Path(str(entry)) for entry in folder.iterdir() if entry.name.endswith(".yaml")]
    return {path.stem: path for path in sorted(files)}
