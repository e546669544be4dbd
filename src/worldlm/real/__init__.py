"""Real environments, one file a domain, and the worlds in which trajectories are collected."""

from importlib import import_module, resources
from pathlib import Path

from worldlm.core.protocols import Environment
from worldlm.core.types import DomainName, World
from worldlm.real.surroundings import HERE, PLACED, Elsewhere, Surroundings, host_of, other_surroundings

_CLASSES: dict[DomainName, tuple[str, str]] = {
    "terminal": ("terminal", "TerminalEnvironment"),
    "swe": ("swe", "SweEnvironment"),
    "mcp": ("mcp", "McpEnvironment"),
    "search": ("search", "SearchEnvironment"),
    "web": ("web", "WebEnvironment"),
    "android": ("android", "AndroidEnvironment"),
    "os": ("desktop", "DesktopEnvironment"),
}


def make_environment(world: World, around: Surroundings | None = None) -> Environment:
    """The real environment of a world's domain. Cheap: nothing starts before `reset`.

    `around`: the same world under another clock, process ids and host name, in the domains that can be put elsewhere
    (`surroundings.PLACED`); in the others it changes nothing. Observations go by the world's own host name.

    Raises InputError where the world does not say what the domain needs, SetupError when a library or a program is
    missing.
    """
    module, name = _CLASSES[world.domain]
    kind = getattr(import_module(f"worldlm.real.{module}"), name)
    if around is None or around == HERE or world.domain not in PLACED:
        made = kind(world)
    else:
        made = Elsewhere(kind(world, around), around, host_of(world))
    assert isinstance(made, Environment)
    return made


def world_files() -> dict[str, Path]:
    """The worlds of the package that are real, by name. A file is `NAME.yaml`, and its name begins with its domain."""
    folder = resources.files("worldlm.real") / "worlds"
    files = [Path(str(entry)) for entry in folder.iterdir() if entry.name.endswith(".yaml")]
    return {path.stem: path for path in sorted(files)}


__all__ = ["Surroundings", "make_environment", "other_surroundings", "world_files"]
