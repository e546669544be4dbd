"""Terminal: the echoed command line, what was printed, the kind of failure, the prompt.

| part | weight | what |
| --- | --- | --- |
| `echo` | 0.25 | the first line, from what was typed on |
| `output` | 0.4, and 0.2 where nothing was printed | the rows between echo and prompt |
| `failure` | 0.15 | the kinds of failure, where the truth reports any |
| `prompt` | 0.1 | the last line: the same prompt (half for another one) |
| `form` | 0.05 | whether a prompt waits or not, rows of a screen, no control characters |

A screen that answers another command is right by chance where it is right: with a wrong echo all else counts down to
three tenths.
"""

import json
from collections.abc import Sequence

from worldlm.core.types import Observation
from worldlm.domains.terminal import ROWS, at_prompt
from worldlm.judge.question import Question
from worldlm.judge.verifiers.failures import compare_failures
from worldlm.judge.verifiers.rows import likeness, line_likeness, text_rows
from worldlm.judge.verifiers.spans import Spans
from worldlm.judge.verifiers.verification import Part

ANOTHER = 0.3
"""What all else is worth under the echo of something else."""
ANOTHER_PROMPT, MISPLACED = 0.5, 0.25
"""What a prompt is worth that is not the one, and a right line in a wrong place (echo and prompt)."""


def compare_terminal(question: Question, predicted: Observation, spans: Spans) -> Sequence[Part]:
    """The parts of a screen."""
    truth, said = (spans.mask(_tidy(text)) for text in (question.truth.text, predicted.text))
    due, told = at_prompt(truth), at_prompt(said)
    true_lines, lines = truth.split("\n"), said.split("\n")
    parts, share = [], 1.0
    typed = spans.mask(_first_typed(question.action)).rstrip()
    if typed and typed in true_lines[0] and len(true_lines) > due:
        echo, rest = _echo(true_lines[0], typed, lines, alone=told and len(lines) == 1)
        parts.append(Part(name="echo", weight=0.25, value=echo))
        share = ANOTHER + (1 - ANOTHER) * echo
        true_lines, lines = true_lines[1:], rest
    prompt = 0.0
    if due:
        prompt, lines = _prompt(true_lines[-1], lines, told=told)
        true_lines = true_lines[:-1]
    output, printed = text_rows("\n".join(true_lines)), text_rows("\n".join(lines))
    failure, worth = compare_failures("\n".join(true_lines), "\n".join(lines))
    if due:
        parts.append(Part(name="prompt", weight=0.1, value=share * worth * prompt))
    parts.append(Part(name="output", weight=0.4 if output else 0.2, value=share * worth * likeness(output, printed)))
    parts += [part.model_copy(update={"value": share * part.value}) for part in failure]
    form = due == told and (not _breaks_screen(predicted.text) or _breaks_screen(question.truth.text))
    parts.append(Part(name="form", weight=0.05, value=share * worth * form))
    return parts


def _echo(due: str, typed: str, lines: list[str], *, alone: bool) -> tuple[float, list[str]]:
    """How right the echo is, and the lines that are none (`alone`: the one line is the prompt that waits).

    It counts less where something stands before it.
    """
    if alone:
        return 0.0, lines
    if due == lines[0]:
        return 1.0, lines[1:]
    prompt = due[: due.index(typed)]
    values = [
        0.1 * line_likeness(due, line) + 0.85 * line_likeness(typed, line.removeprefix(prompt))
        if at == 0 or line.startswith(prompt)
        else 0.0
        for at, line in enumerate(lines)
    ]
    if values[0] or lines[0].startswith(prompt):
        return values[0], lines[1:] if lines[0].startswith(prompt) else lines
    best = max(range(len(lines)), key=lambda at: values[at])
    if not values[best]:
        return 0.0, lines
    return MISPLACED * values[best], lines[:best] + lines[best + 1 :]


def _prompt(due: str, lines: list[str], *, told: bool) -> tuple[float, list[str]]:
    """How right the prompt is, and the lines that are none: the right one counts less where something follows it."""
    if due in lines:
        at = len(lines) - 1 - lines[::-1].index(due)
        return (1.0 if at == len(lines) - 1 else MISPLACED), lines[:at] + lines[at + 1 :]
    return (ANOTHER_PROMPT, lines[:-1]) if told else (0.0, lines)


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.replace("\r\n", "\n").strip("\n").split("\n"))


def _breaks_screen(text: str) -> bool:
    return text.count("\n") > ROWS + 1 or "\x1b" in text


def _first_typed(action: str) -> str:
    """The first line that is typed; empty where the action is none, or types none."""
    try:
        keys = json.loads(action)
        return str(keys[0]["keystrokes"]).split("\n", 1)[0] if keys else ""
    except (ValueError, RecursionError, LookupError, TypeError):
        return ""
