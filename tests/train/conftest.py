"""Fixtures of the tests of training. What needs torch is imported when it is used."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from worldlm.train.settings import Run


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny base of two layers over bytes."""
    from tests.train.kit import save_base, tiny_llama

    return save_base(tmp_path_factory.mktemp("llama"), tiny_llama())


@pytest.fixture
def make_run(tmp_path: Path, llama: Path) -> "Callable[..., Run]":
    """Makes runs over a few sessions."""
    from tests.train.kit import run_maker

    return run_maker(tmp_path, llama)


@pytest.fixture(scope="session")
def moe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny mixture of experts, half of it with linear attention."""
    from tests.train.kit import save_base, tiny_moe

    return save_base(tmp_path_factory.mktemp("moe"), tiny_moe())
