"""What all tests share."""

import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

# Workers share the processors: threads that wait for each other while others compute are many times slower than one.
# (OpenMP, and with it PyTorch and llama.cpp, read this when they are loaded; programs that tests start have it too.)
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_THREAD_LIMIT", "1")

# What a shell starts in the background ignores SIGINT, and so would all that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW = (
    "train/test_loop.py",
    "simulate/test_embedded.py",
    "train/test_distributed.py",
    "real/test_web.py",
    "real/test_web_browsergym.py",
    "test_docs.py",
    "cli/test_cli_data_build.py",
    "cli/test_cli_collect.py",
    "train/test_cpt.py",
    "models/test_embedded.py",
    "real/test_search.py",
    "bench/test_inspect.py",
    "train/",
)
"""Begun first, so that no worker is left alone with one of them at the end. (`--no-loadscope-reorder` keeps it so.)"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        name = item.nodeid.removeprefix("tests/")
        return next((number for number, start in enumerate(SLOW) if name.startswith(start)), len(SLOW))

    items.sort(key=place)


# Time limits of single examples measure the machine, not the code.
settings.register_profile("worldlm", deadline=None)
settings.load_profile("worldlm")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With WORLDLM_NO_SKIPS=1 a test that skips for want of a program fails: there, all are installed.

    A test that wants the user's own recordings (WORLDLM_RECORDINGS), or a Python with Harbor, BrowserGym or Inspect
    in it (WORLDLM_HARBOR_PYTHON, …), may still skip.
    """
    report = yield
    if report.skipped and os.environ.get("WORLDLM_NO_SKIPS") == "1" and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        peers = (f"WORLDLM_{name}_PYTHON" for name in ("HARBOR", "BROWSERGYM", "INSPECT"))
        if not any(name in reason for name in ("WORLDLM_RECORDINGS", *peers)):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} skipped, and WORLDLM_NO_SKIPS=1 allows no skips: {reason}"
    return report
