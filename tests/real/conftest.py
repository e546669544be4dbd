"""What the tests of real environments share."""

import shutil

import pytest

from worldlm.real.sandbox import PACKAGES


@pytest.fixture
def terminal_programs() -> None:
    """Skip, and name the packages, where a real terminal cannot run."""
    missing = {package for program, package in PACKAGES.items() if shutil.which(program) is None}
    if missing:
        pytest.skip(f"needs system programs: apt-get install {' '.join(sorted(missing))}")
