"""What the verbs of `worldlm bench` that ask models share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from worldlm.cli.build import ModelOptions
from worldlm.cli.console import note
from worldlm.core.errors import WorldlmError
from worldlm.models import parse_spec

CONCURRENCY, SLOTS = 16, 4
"""Requests at once: to a server, and to a model in this process."""


def at_once(options: ModelOptions, concurrency: int | None) -> tuple[int, ModelOptions]:
    """How many requests run at once; a model in this process gets as many slots."""
    embedded = parse_spec(options.spec).kind == "embedded"
    requests = concurrency or (SLOTS if embedded else CONCURRENCY)
    return requests, replace(options, slots=requests) if embedded else options


@contextmanager
def told_when_stopped(output: Path) -> Iterator[None]:
    """Says, when a signal ends a run, that nothing is lost."""
    whole = False
    try:
        yield
        whole = True
    except WorldlmError:
        whole = True  # it says so itself
        raise
    finally:
        if not whole:
            note(f"stopped; what is finished is in {output}, and the same command goes on from there")
