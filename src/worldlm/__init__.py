"""Language world models: a language model plays the environment that your agent acts in.

The names below are the public ones; each is imported when it is first used, so that `import worldlm`
is quick and loads nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worldlm.core.errors import ActionError, ConformanceError, InputError, PolicyError, SetupError, WorldlmError
    from worldlm.core.jsonl import JsonlWriter, read_trajectories
    from worldlm.core.outcomes import EndingKind, Outcome
    from worldlm.core.protocols import Environment, Model, Policy, Resume, Snapshot, Streams
    from worldlm.core.types import (
        Completion,
        Message,
        Observation,
        Profile,
        Sampling,
        Step,
        Tool,
        ToolCall,
        Trajectory,
        Turn,
        Usage,
        World,
    )
    from worldlm.domains import Domain, get_domain
    from worldlm.rollout import ModelPolicy, RolloutLimits, ScriptPolicy, run_episode, run_episodes
    from worldlm.simulate import SimulatedEnvironment, load_world

_HOMES = {
    "worldlm.core.errors": (
        "ActionError",
        "ConformanceError",
        "InputError",
        "PolicyError",
        "SetupError",
        "WorldlmError",
    ),
    "worldlm.core.jsonl": ("JsonlWriter", "read_trajectories"),
    "worldlm.core.outcomes": ("EndingKind", "Outcome"),
    "worldlm.core.protocols": ("Environment", "Model", "Policy", "Resume", "Snapshot", "Streams"),
    "worldlm.core.types": (
        "Completion",
        "Message",
        "Observation",
        "Profile",
        "Sampling",
        "Step",
        "Tool",
        "ToolCall",
        "Trajectory",
        "Turn",
        "Usage",
        "World",
    ),
    "worldlm.domains": ("Domain", "get_domain"),
    "worldlm.rollout": ("ModelPolicy", "RolloutLimits", "ScriptPolicy", "run_episode", "run_episodes"),
    "worldlm.simulate": ("SimulatedEnvironment", "load_world"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = [
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


def __getattr__(name: str) -> Any:
    """Import a public name from the room that holds it."""
    if name not in _HOME:
        raise AttributeError(f"module 'worldlm' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
