"""Errors that are raised. (What a running environment answers is an `Outcome`, not an error.)"""

import difflib
from collections.abc import Iterable
from pathlib import Path


class WorldlmError(Exception):
    """Base of all errors of this package. `exit_code` is what the command line ends with."""

    exit_code = 1


class InputError(WorldlmError):
    """Wrong usage or bad input. The message names the place and the cure, in one line."""

    exit_code = 2


class SetupError(WorldlmError):
    """Something that has to be installed, downloaded or started is not there; the message says how."""


class ActionError(WorldlmError):
    """An action that does not parse. The message is meant for the agent that wrote it."""


class ConformanceError(WorldlmError):
    """An environment breaks the contract; the message lists every breach found."""


class PolicyError(WorldlmError):
    """A policy could not choose an action: its model failed, its script is broken."""


def user_path(text: str) -> Path:
    """A path as a person writes it, `~` among it. Raises InputError for a home that is not known."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise InputError(f"there is no home folder for {text!r}; write the whole path") from error


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint for an unknown `word`: the nearest of `known`, and all of them when there are few."""
    names = sorted(known)
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    if not names:
        return "none is known"
    shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"known: {shown}"
