"""The formats in which others write trajectories down: one file each, and one table."""

from typing import Any

from worldlm.core.errors import InputError, nearest
from worldlm.data.formats.agentworldbench import AGENTWORLDBENCH
from worldlm.data.formats.atif import ATIF
from worldlm.data.formats.autodroid import AUTODROID
from worldlm.data.formats.bfcl import BFCL
from worldlm.data.formats.droidbot import DROIDBOT
from worldlm.data.formats.format import Format, Reading, ReadOptions, RecordError, WriteOptions, Written
from worldlm.data.formats.mini_swe_agent import MINI_SWE_AGENT
from worldlm.data.formats.miniwob import MINIWOB
from worldlm.data.formats.openai_chat import OPENAI_CHAT
from worldlm.data.formats.openhands import OPENHANDS
from worldlm.data.formats.recordings import RECORDINGS
from worldlm.data.formats.swe_agent import SWE_AGENT
from worldlm.data.formats.tau_bench import TAU_BENCH
from worldlm.data.formats.worldlm import WORLDLM

FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        WORLDLM,
        AGENTWORLDBENCH,
        ATIF,
        RECORDINGS,
        SWE_AGENT,
        MINI_SWE_AGENT,
        OPENHANDS,
        TAU_BENCH,
        BFCL,
        DROIDBOT,
        AUTODROID,
        MINIWOB,
        OPENAI_CHAT,
    )
}
"""In the order in which a record is tried: the most particular first."""


def get_format(name: str) -> Format:
    """The format of that name. Raises InputError with the nearest."""
    if name not in FORMATS:
        raise InputError(f"there is no format {name!r}; {nearest(name, FORMATS)}")
    return FORMATS[name]


def sniff_value(value: Any) -> tuple[Format, str] | None:
    """Format and version of a record; None where it is of no known format. The version may be an unknown one."""
    for each in FORMATS.values():
        version = each.sniff(value)
        if version is not None:
            return each, version
    return None


__all__ = [
    "FORMATS",
    "Format",
    "ReadOptions",
    "Reading",
    "RecordError",
    "WriteOptions",
    "Written",
    "get_format",
    "sniff_value",
]
