"""SWE: the fields of a shell result, and the text of every other tool's result.

| shell result | weight | what |
| --- | --- | --- |
| `command` | 0.2 | what was run, as told back |
| `stdout` | 0.3, and 0.1 where it is empty | its rows |
| `stderr` | 0.2, and 0.05 where it is empty | its rows |
| `exit` | 0.2 | exit code, signal and error line: a third each |
| `failure` | 0.15 | the kinds of failure, where the truth reports any |
| `form` | 0.1 | all eight fields in their place, directory and background PIDs |

With another command all else counts down to three tenths. Any other result: `head` 0.2 (its first line), `text` 0.7
(all rows), and `failure`.
"""

import re
from collections.abc import Mapping, Sequence

from worldlm.core.types import Observation
from worldlm.domains.swe import SHELL_FIELDS
from worldlm.judge.question import Question
from worldlm.judge.verifiers.failures import compare_failures
from worldlm.judge.verifiers.rows import Row, likeness, line_likeness, text_rows
from worldlm.judge.verifiers.spans import Spans
from worldlm.judge.verifiers.verification import Part

ANOTHER = 0.3
"""What all else is worth in the result of another command."""
_LABELS = {name: re.compile(rf"^{name}: ?", re.MULTILINE) for name in SHELL_FIELDS}
_NUMBERS = re.compile(r"\d+")


def compare_swe(question: Question, predicted: Observation, spans: Spans) -> Sequence[Part]:
    """The parts of a tool's result."""
    truth, said = spans.mask(question.truth.text), spans.mask(predicted.text)
    fields = _fields(truth)
    return compare_text(truth, said) if len(fields) < len(SHELL_FIELDS) else _compare_shell(fields, said)


def _fields(text: str) -> dict[str, str]:
    """The fields of a shell result as far as they stand in their order, each to the next one's label."""
    labels: list[tuple[str, re.Match[str]]] = []
    position = 0
    for name in SHELL_FIELDS:
        match = _LABELS[name].search(text, position)
        if match is not None and (name != "Command" or match.start() == 0):
            labels.append((name, match))
            position = match.end()
    ends = [match.start() for _, match in labels[1:]] + [len(text)]
    return {name: text[label.end() : end].rstrip() for (name, label), end in zip(labels, ends, strict=False)}


def _compare_shell(truth: Mapping[str, str], text: str) -> list[Part]:
    said = _fields(text)
    command = line_likeness(truth["Command"], said.get("Command", ""))
    output, errors = _rows(truth["Stdout"]), _rows(truth["Stderr"])
    # A field that is missing is not an empty one.
    stdout = likeness(output, _rows(said["Stdout"])) if "Stdout" in said else 0.0
    stderr = likeness(errors, _rows(said["Stderr"])) if "Stderr" in said else 0.0
    failure, worth = compare_failures(
        f"{truth['Stdout']}\n{truth['Stderr']}", f"{said.get('Stdout', '')}\n{said.get('Stderr', '')}"
    )
    ending = [truth[name] == said.get(name) for name in ("Exit Code", "Signal", "Error")]
    same_pids = _NUMBERS.sub("0", truth["Background PIDs"]) == _NUMBERS.sub("0", said.get("Background PIDs", ""))
    shape = [list(said) == list(SHELL_FIELDS), same_pids, truth["Directory"] == said.get("Directory")]
    share = ANOTHER + (1 - ANOTHER) * command
    rest = [
        Part(name="stdout", weight=0.3 if output else 0.1, value=worth * stdout),
        Part(name="stderr", weight=0.2 if errors else 0.05, value=worth * stderr),
        Part(name="exit", weight=0.2, value=worth * sum(ending) / len(ending)),
        *failure,
        Part(name="form", weight=0.1, value=sum(shape) / len(shape)),
    ]
    return [
        Part(name="command", weight=0.2, value=command),
        *(part.model_copy(update={"value": share * part.value}) for part in rest),
    ]


def _rows(field: str) -> list[Row]:
    return text_rows("" if field == "(empty)" else field)


def compare_text(truth: str, said: str) -> list[Part]:
    """The parts of a result that is a text and no more."""
    failure, worth = compare_failures(truth, said)
    rows, told = text_rows(truth), text_rows(said)
    return [
        Part(name="head", weight=0.2, value=worth * line_likeness(rows[0].key, told[0].key)),
        Part(name="text", weight=0.7, value=worth * likeness(rows, told)),
        *failure,
    ]
