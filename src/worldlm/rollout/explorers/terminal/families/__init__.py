"""The table of command families, in parts by what the commands are about."""

from worldlm.rollout.explorers.terminal.families.files import ARCHIVING, FILES, PERMISSIONS
from worldlm.rollout.explorers.terminal.families.git import GIT
from worldlm.rollout.explorers.terminal.families.programs import EDITORS, KEYS, PYTHON
from worldlm.rollout.explorers.terminal.families.shell import LOOPS, PIPES, PROCESSES, SCRIPTS, SHELL, SYSTEM
from worldlm.rollout.explorers.terminal.families.text import SEARCH, TEXT, WRITING
from worldlm.rollout.explorers.terminal.scene import Family

FAMILIES: tuple[Family, ...] = (
    *FILES,
    *WRITING,
    *TEXT,
    *SEARCH,
    *PIPES,
    *LOOPS,
    *SCRIPTS,
    *SHELL,
    *PROCESSES,
    *PERMISSIONS,
    *ARCHIVING,
    *GIT,
    *PYTHON,
    *EDITORS,
    *KEYS,
    *SYSTEM,
)
"""Every kind of command, one a row."""
