"""What all explorers share: how one is made, and what it can be told to leave out."""

import pytest

from worldlm.core.errors import InputError
from worldlm.core.types import DOMAIN_NAMES, DomainName
from worldlm.rollout.explorers import action_kinds, make_explorer


@pytest.mark.parametrize("domain", DOMAIN_NAMES)
def test_every_domain_has_an_explorer(domain: DomainName) -> None:
    assert make_explorer(domain, 3).name == f"explorer:{domain}"


def test_the_terminal_can_leave_families_out() -> None:
    assert {"ls", "tar-create"} <= action_kinds("terminal")
    assert make_explorer("terminal", 3, {"ls", "tar-create"}).name == "explorer:terminal"
    with pytest.raises(InputError, match="no command family is called 'lz'"):
        make_explorer("terminal", 3, {"lz"})


@pytest.mark.parametrize("domain", [name for name in DOMAIN_NAMES if name != "terminal"])
def test_others_say_that_they_cannot(domain: DomainName) -> None:
    assert not action_kinds(domain)
    with pytest.raises(InputError, match=f"the explorer of {domain} cannot leave out"):
        make_explorer(domain, 3, {"ls"})
