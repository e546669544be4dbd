"""Long observations, cut in the middle: head and tail stay, and a marker between says how much is shown of how much.

The marker has one form everywhere, so that a model trained on such data learns what it means:

    [cut: 37 of 1204 lines and 2951 of 61877 characters are shown]
"""

import re
from collections.abc import Callable

MARKER = re.compile(r"^\[cut: (\d+) of (\d+) lines and (\d+) of (\d+) characters are shown\]$", re.MULTILINE)
"""The marker: a line of its own. Lines shown, lines in all, characters shown, characters in all."""


def cut(text: str, most: int, count: Callable[[str], int]) -> str:
    """`text`, or as much of its head and its tail as makes `most` tokens (by `count`) with the marker.

    It is cut between lines, unless much of what may stay is one line. A text that fits is returned as it is,
    and so is one where the marker alone would be more than `most`.
    """
    if len(text.encode("utf-8", "replace")) <= most or count(text) <= most:  # a token is a byte at least
        return text
    low, high = 0, len(text)
    while low < high:  # the most characters that fit
        middle = (low + high + 1) // 2
        if count(_keep(text, middle)) <= most:
            low = middle
        else:
            high = middle - 1
    return _keep(text, low) if low else text


def _keep(text: str, size: int) -> str:
    """At most `size` characters of a text, half of them from its end, with the marker between."""
    head, tail = text[: (size + 1) // 2], text[len(text) - size // 2 :]
    at = head.rfind("\n") + 1
    head = head[:at] if at * 2 > len(head) else head
    at = tail.find("\n")
    tail = tail[at + 1 :] if 0 <= at < len(tail) / 2 else tail
    between = "" if not head or head.endswith("\n") else "\n"
    shown = len(head) + len(tail)
    lines = sum(len(part.splitlines()) for part in (head, tail))
    marker = f"[cut: {lines} of {len(text.splitlines())} lines and {shown} of {len(text)} characters are shown]"
    return f"{head}{between}{marker}" + (f"\n{tail}" if tail else "")
