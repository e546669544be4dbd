"""Cleaning: trajectories in, trajectories out, and what was changed is counted."""

from worldlm.data.cleaning.cleaning import MAX_TOKENS, Cleaning, clean, cut_long, render, scrub
from worldlm.data.cleaning.cut import MARKER, cut
from worldlm.data.cleaning.scrub import KINDS, Scrubber
from worldlm.data.cleaning.terminal import has_control, render_terminal

__all__ = [
    "KINDS",
    "MARKER",
    "MAX_TOKENS",
    "Cleaning",
    "Scrubber",
    "clean",
    "cut",
    "cut_long",
    "has_control",
    "render",
    "render_terminal",
    "scrub",
]
