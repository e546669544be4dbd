"""The terminal's explorer: a table of command families, goals that chain them, and what is known of the machine."""

from worldlm.rollout.explorers.terminal.behaviour import behave, make_behave
from worldlm.rollout.explorers.terminal.families import FAMILIES
from worldlm.rollout.explorers.terminal.goals import GOALS
from worldlm.rollout.explorers.terminal.scene import Family

__all__ = ["FAMILIES", "GOALS", "Family", "behave", "make_behave"]
