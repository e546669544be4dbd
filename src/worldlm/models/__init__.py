"""Language models behind one async call, wrappers round them, and profiles that say how to ask them."""

from worldlm.models.embedded import EmbeddedModel
from worldlm.models.openai import OpenAIModel
from worldlm.models.profiles import PROFILES, get_profile
from worldlm.models.registry import MODELS, ModelSpec, NamedModel, build, parse_spec
from worldlm.models.replay import ReplayModel
from worldlm.models.wire import Price
from worldlm.models.wrappers import BudgetModel, CachedModel, ModelWrapper, RecordedCall, RecordingModel

__all__ = [
    "MODELS",
    "PROFILES",
    "BudgetModel",
    "CachedModel",
    "EmbeddedModel",
    "ModelSpec",
    "ModelWrapper",
    "NamedModel",
    "OpenAIModel",
    "Price",
    "RecordedCall",
    "RecordingModel",
    "ReplayModel",
    "build",
    "get_profile",
    "parse_spec",
]
