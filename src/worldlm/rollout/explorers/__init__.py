"""Seeded explorers, one file or folder a domain: each offers `behave`, a `Behave`."""

from collections.abc import Set
from importlib import import_module

from worldlm.core.errors import InputError
from worldlm.core.types import DomainName
from worldlm.rollout.explorers.explorer import Act, Behave, Behaviour, Explorer

__all__ = ["Act", "Behave", "Behaviour", "Explorer", "action_kinds", "make_explorer"]


def make_explorer(domain: DomainName, seed: int, without: Set[str] = frozenset()) -> Explorer:
    """The domain's explorer for one episode, which never does what is named in `without` (labels of actions).

    Raises InputError where the domain's explorer cannot leave out what is named.
    """
    # Each domain's tables are large, and an episode needs one domain's.
    module = import_module(f"worldlm.rollout.explorers.{_MODULES.get(domain, domain)}")
    behave = module.behave
    if without:
        if not hasattr(module, "make_behave"):
            raise InputError(f"the explorer of {domain} cannot leave out kinds of actions; hold out worlds there")
        try:
            behave = module.make_behave(without)
        except ValueError as error:
            raise InputError(str(error)) from error
    return Explorer(f"explorer:{domain}", behave, seed)


def action_kinds(domain: DomainName) -> frozenset[str]:
    """The labels that the domain's explorer can leave out; empty where it cannot leave out any."""
    module = import_module(f"worldlm.rollout.explorers.{_MODULES.get(domain, domain)}")
    return frozenset(family.name for family in getattr(module, "FAMILIES", ()))


_MODULES: dict[str, str] = {"os": "desktop"}
