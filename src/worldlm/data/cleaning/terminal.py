"""Terminal output as a screen shows it: what control sequences do is done, and they are gone."""

import re

from worldlm.core.errors import SetupError
from worldlm.domains.terminal import COLUMNS, ROWS

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Strings to the terminal's own devices, which pyte does not know and would print.
_STRINGS = re.compile(r"\x1b[P_^X].*?(?:\x1b\\|\x9c|\Z)|\x1b\].*?(?:\x07|\x1b\\|\x9c|\Z)", re.DOTALL)
# Colours and underlines of the newer spelling, private modes of keyboards, and other sequences pyte does not know.
_STYLES = re.compile(r"\x1b\[[<=>?]?[\d;:]*[ !\"$'*]?[mutq]")
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])")
MAX_COLUMNS = 4096


def has_control(text: str) -> bool:
    """Whether there are control characters other than line breaks and tabs."""
    return _CONTROL.search(text) is not None


def count_control(text: str) -> int:
    """How many control characters there are, line breaks and tabs not counted."""
    return len(_CONTROL.findall(text))


def render_terminal(text: str) -> str:
    """The screen, and what scrolled off it, after a terminal was sent `text`.

    Text without control characters is returned as it is. Where more than colours and titles was sent, spaces at the
    ends of lines go, too: on a screen nobody can tell them from what was never written. Nothing wraps: the screen is as
    wide as the longest line. Raises SetupError when `pyte` is not installed.
    """
    if not has_control(text):
        return text
    text = text.replace("\r\n", "\n")
    if not has_control(text):
        return text
    text = _STYLES.sub("", _STRINGS.sub("", text))
    if has_control(text):
        text = _play(text)
    return _CONTROL.sub("", text)


def _play(text: str) -> str:
    try:
        import pyte
    except ImportError:
        raise SetupError("rendering terminal output needs pyte; pip install 'worldlm[data]'") from None
    lines = text.split("\n")
    # A screen tall enough that nothing scrolls off: 24-line programs address it from its top all the same.
    columns = min(max(COLUMNS, *(len(line) for line in lines)) + 1, MAX_COLUMNS)
    rows = max(ROWS, len(lines) + sum(len(line) // columns for line in lines))
    screen = pyte.Screen(columns, rows)
    screen.set_mode(pyte.modes.LNM)
    try:
        pyte.Stream(screen).feed(text)
    except (TypeError, ValueError, IndexError, KeyError):  # pyte trips over some sequences with odd parameters
        return _SEQUENCES.sub("", text)
    shown = [
        "".join(screen.buffer[row][column].data for column in range(max(screen.buffer[row], default=-1) + 1)).rstrip()
        for row in range(rows)
    ]
    last = max((number for number, line in enumerate(shown) if line), default=-1)
    return "\n".join(shown[: max(last, screen.cursor.y) + 1])
