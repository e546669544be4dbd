"""The seven domains, as values."""

from worldlm.core.errors import InputError, nearest
from worldlm.core.types import Profile
from worldlm.domains.android import ANDROID
from worldlm.domains.desktop import OS
from worldlm.domains.domain import Domain, HarnessReply
from worldlm.domains.mcp import MCP
from worldlm.domains.render import prompt_hash
from worldlm.domains.search import SEARCH
from worldlm.domains.swe import SWE
from worldlm.domains.terminal import TERMINAL
from worldlm.domains.web import WEB

DOMAINS: dict[str, Domain] = {domain.name: domain for domain in (TERMINAL, SWE, MCP, SEARCH, WEB, ANDROID, OS)}


def get_domain(name: str) -> Domain:
    """The domain of that name. Raises InputError with the nearest valid name."""
    try:
        return DOMAINS[name]
    except KeyError:
        raise InputError(f"there is no domain {name!r}; {nearest(name, DOMAINS)}") from None


def prompt_hashes(profile: Profile) -> dict[str, str]:
    """The prompt hash of every domain under a profile: what a model of that profile was trained with."""
    return {name: prompt_hash(domain, profile) for name, domain in DOMAINS.items()}


__all__ = ["DOMAINS", "Domain", "HarnessReply", "get_domain", "prompt_hashes"]
