"""What kind of failure a text reports, if any."""

import re

from worldlm.judge.verifiers.verification import Part

KINDS: dict[str, tuple[str, ...]] = {
    "command": ("command not found",),
    "missing": ("No such file or directory", "does not exist", "not found", "Not found", "did not match any"),
    "permission": ("Permission denied", "Operation not permitted", "ccess denied"),
    "exists": ("File exists", "already exists"),
    "folder": ("Is a directory", "Not a directory", "Directory not empty"),
    "usage": ("invalid option", "unrecognized option", "unrecognized arguments", "\nusage: ", "missing operand"),
    "syntax": ("syntax error", "unexpected EOF", "unexpected end of file"),
    "unknown": ("nknown tool", "nknown command", "nknown option", "nknown argument", "invalid choice", "nvalid input"),
    "fatal": ("\nfatal: ", "\nerror: ", "\nError", "\nERROR", '"error": "', "'error': '"),
    "traceback": ("\nTraceback (most recent call last)",),
    "timeout": ("timed out",),
}
"""Kinds of failure, each with the words that tell it (of which one that begins with `\\n` begins a line)."""
_EXCEPTION = re.compile(r"\b(?!Error\b)[A-Z][A-Za-z]*(?:Error|Exception)\b(?=:|$|\()", re.MULTILINE)
LOOKED_AT = 8_000
"""Characters from either end of a text that are looked at."""
FALSE_ALARM = 0.7
"""What all else is worth in a prediction that reports a failure where there was none."""
WEIGHT = 0.15


def failures(text: str) -> frozenset[str]:
    """The kinds of failure that a text reports: those of the table, and names of exceptions."""
    text = "\n" + text if len(text) <= 2 * LOOKED_AT else f"\n{text[:LOOKED_AT]}\n{text[-LOOKED_AT:]}"
    found = {kind for kind, signs in KINDS.items() if any(sign in text for sign in signs)}
    if "command" in found:
        found.discard("missing")
    if "Error" in text or "Exception" in text:
        found.update(_EXCEPTION.findall(text))
    return frozenset(found)


def compare_failures(truth: str, predicted: str) -> tuple[list[Part], float]:
    """A part for the kinds of failure, where the truth reports any; and what all else is worth."""
    due, told = failures(truth), failures(predicted)
    if not due:
        return [], FALSE_ALARM if told else 1.0
    return [Part(name="failure", weight=WEIGHT, value=len(due & told) / len(due | told))], 1.0


__all__ = ["compare_failures", "failures"]
