"""Seeded explorers, one file or folder a domain: each offers `behave`, a `Behave`."""

from importlib import import_module

from worldlm.core.types import DomainName
from worldlm.rollout.explorers.explorer import Act, Behave, Behaviour, Explorer

__all__ = ["Act", "Behave", "Behaviour", "Explorer", "make_explorer"]


def make_explorer(domain: DomainName, seed: int) -> Explorer:
    """The domain's explorer for one episode."""
    # Each domain's tables are large, and an episode needs one domain's.
    module = import_module(f"worldlm.rollout.explorers.{_MODULES.get(domain, domain)}")
    return Explorer(f"explorer:{domain}", module.behave, seed)


_MODULES: dict[str, str] = {"os": "desktop"}
