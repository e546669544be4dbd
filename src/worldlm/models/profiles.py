"""How given models are to be asked."""

from worldlm.core.errors import InputError, nearest
from worldlm.core.types import Profile, Sampling

_ALL = (
    Profile(
        name="embedded",
        prompt="compact",
        answer_tag=False,
        state="delta",
        sampling=Sampling(temperature=0.0, max_tokens=1024),
        context=8192,
    ),
    Profile(
        name="compact",
        prompt="compact",
        sampling=Sampling(temperature=0.0, max_tokens=2048),
        context=16_384,
    ),
    Profile(
        name="full",
        sampling=Sampling(temperature=0.6, max_tokens=4096),
        context=32_768,
    ),
    Profile(
        name="qwen-agentworld",
        thinking=True,
        sampling=Sampling(temperature=0.6, max_tokens=32_768),
        context=262_144,
    ),
    Profile(
        name="replay",
        sampling=Sampling(temperature=0.0, max_tokens=320),
        context=1_000_000_000,  # nothing is computed from it, so no history is ever left out
        attempts=1,
    ),
)

PROFILES: dict[str, Profile] = {profile.name: profile for profile in _ALL}
"""`embedded` for the small default model, `compact` for small models that keep to a tag, `full` for large
ones, `qwen-agentworld` for the released world models, `replay` for recordings."""


def get_profile(name: str) -> Profile:
    """The profile of that name. Raises InputError with the nearest valid name."""
    try:
        return PROFILES[name]
    except KeyError:
        raise InputError(f"there is no profile {name!r}; {nearest(name, PROFILES)}") from None
