"""What follows in a repository: from files that were read and written, and from commands by the terminal's tables."""

import re
from collections.abc import Iterator

from worldlm.core.errors import InputError
from worldlm.domains.swe import (
    ShellResult,
    line_count,
    parse_shell_result,
    repository_state,
    resolve,
)
from worldlm.train.derivations.calls import (
    CALL_KINDS,
    CallScene,
    arguments,
    call_scenes,
    load,
    stands,
)
from worldlm.train.derivations.claims import Book, Claim, Kind, Rule, are, claim, count_of, rows
from worldlm.train.derivations.forms import SILENT, WRONG, fails, failure_of, fits, form_of, refusal_of, refuses
from worldlm.train.derivations.shell import parse

MOST_FILES = 2
"""Files of which one derivation tells where they come from."""


def shell_result(scene: CallScene) -> ShellResult | None:
    """The result of a command; None where the answer is none."""
    if scene.call is None or scene.call.name != "run_shell_command":
        return None
    try:
        return parse_shell_result(scene.truth)
    except ValueError:
        return None


def _text(scene: CallScene, name: str) -> str:
    return str(scene.call.arguments.get(name, "")) if scene.call else ""


def _rows(text: str) -> list[str]:
    return text.rstrip("\n").split("\n") if text.strip("\n") else []


def _absolute(scene: CallScene, path: str) -> str:
    try:
        return resolve(repository_state(scene.world), path)
    except InputError:
        return ""


def _touched(scene: CallScene, path: str, turn: str, tools: tuple[str, ...]) -> bool:
    """Whether that turn was a call of one of these tools for the path, and did not fail."""
    earlier = scene.turn(turn)
    if earlier is None or earlier.observation is None or earlier.observation.text.startswith("Error: "):
        return False
    call = load(earlier.action)
    if not isinstance(call, dict) or call.get("name") not in tools or not isinstance(call.get("arguments"), dict):
        return False
    given = call["arguments"].get("file_path")
    return isinstance(given, str) and bool(path) and _absolute(scene, given) == _absolute(scene, path) != ""


def _written(scene: CallScene, path: str, turn: str) -> bool:
    return _touched(scene, path, turn, ("write_file", "edit"))


def _read(scene: CallScene, path: str, turn: str) -> bool:
    return _touched(scene, path, turn, ("read_file",))


def _seen(scene: CallScene, path: str, turn: str) -> bool:
    """Whether that answer holds the path, as it was given or absolute."""
    earlier = scene.turn(turn)
    text = earlier.observation.text if earlier and earlier.observation else ""
    return bool(path.strip("./")) and (stands(path, text) or stands(_absolute(scene, path), text))


def _unseen(scene: CallScene, path: str) -> bool:
    base = path.rpartition("/")[2]
    known = [str(scene.world.initial_state), scene.world.initial_observation or ""]
    for turn in scene.turns:
        known += (turn.action, turn.observation.text if turn.observation else "")
    return bool(base) and base in scene.action and not any(base in text for text in known)


def _lines_listed(scene: CallScene, path: str, count: str) -> bool:
    """The initial state tells the lines of each file: `src/x.py (120)`."""
    state = str(scene.world.initial_state)
    return path in scene.action and re.search(rf"(^|\\n|\n){re.escape(path)} \({count_of(count)}\)", state) is not None


def _asked_lines(scene: CallScene, first: str, last: str) -> bool:
    return re.match(rf"\[lines {re.escape(first)}-{re.escape(last)} of \d+\]\n", scene.truth) is not None


def _content_lines(scene: CallScene, count: str) -> bool:
    content = _text(scene, "content") if scene.call and scene.call.name == "write_file" else _text(scene, "new_string")
    return bool(content) and line_count(content) == count_of(count)


def _says(scene: CallScene, verb: str) -> bool:
    return verb in ("Created", "Overwrote", "Edited") and scene.truth.startswith(f"{verb} ")


def _old_seen(scene: CallScene, turn: str) -> bool:
    """What is to be replaced stood in an answer, or in what was written."""
    old, earlier = _text(scene, "old_string"), scene.turn(turn)
    if not old or earlier is None:
        return False
    seen = earlier.observation.text if earlier.observation else ""
    given = str(_past(earlier.action))
    return old in seen or old in given


def _past(action: str) -> str:
    """An action with its escapes undone, so that texts in it can be found."""
    return action.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\").replace("\\t", "\t")


def _replacements(scene: CallScene, count: str) -> bool:
    return scene.truth.startswith("Edited ") and scene.truth.endswith(f": {count}.") and "replacement" in count


def _exit(scene: CallScene, status: str, word: str) -> bool:
    result = shell_result(scene)
    return result is not None and str(result.exit_code) == status and word == ("succeeds" if status == "0" else "fails")


def _printed(scene: CallScene, where: str, count: str) -> bool:
    result = shell_result(scene)
    text = "" if result is None else {"stdout": result.stdout, "stderr": result.stderr}.get(where, "")
    return result is not None and len(_rows(text)) > 0 and are(len(_rows(text))) == count


def _no_output(scene: CallScene) -> bool:
    result = shell_result(scene)
    return result is not None and not result.stdout and not result.stderr


def _output_rows(scene: CallScene) -> list[str] | None:
    result = shell_result(scene)
    return None if result is None else [*_rows(result.stdout), *_rows(result.stderr)]


def _form(scene: CallScene, sentence: str) -> bool:
    result = shell_result(scene)
    return result is not None and fits(f"{sentence}.", _text(scene, "command"), _rows(result.stdout))


def _tests(scene: CallScene, result: str) -> bool:
    found = shell_result(scene)
    said = re.search(r"(\d+ (?:passed|failed|error)[^\n]*?) in [\d.]+s", found.stdout) if found else None
    unit = re.search(r"^(OK|FAILED)\b", found.stderr, re.MULTILINE) if found else None
    return (said is not None and said[1] == result) or (unit is not None and unit[1] == result)


def _raised(scene: CallScene, error: str) -> bool:
    found = shell_result(scene)
    last = _rows(found.stderr)[-1:] if found else []
    return (
        bool(last)
        and "Traceback" in (found.stderr if found else "")
        and re.match(rf"([\w.]+\.)?{re.escape(error)}\b", last[0]) is not None
    )


def _counted(scene: CallScene, count: str) -> bool:
    return matches_of(scene.truth) == count


def matches_of(text: str) -> str | None:
    """How much a search or a glob found, in words: `3 lines`, `1 file`."""
    found = re.match(r"(\d+) (match|file)", text)
    return rows(int(found[1]), {"match": "line", "file": "file"}[found[2]]) if found else None


KINDS: dict[str, Kind[CallScene]] = {
    **CALL_KINDS,
    # What is known before.
    "written": Kind(
        "{path} was written at turn {turn}.", lambda s, path, turn: path in s.action and _written(s, path, turn)
    ),
    "read": Kind("{path} was read at turn {turn}.", lambda s, path, turn: path in s.action and _read(s, path, turn)),
    "seen": Kind(
        "{path} was named in the answer of turn {turn}.",
        lambda s, path, turn: path in s.action and _seen(s, path, turn),
    ),
    "unseen": Kind("Nothing called {path} was seen before.", _unseen),
    "lines_listed": Kind("{path} has {count} at the start.", _lines_listed),
    "old_seen": Kind("What is replaced was seen at turn {turn}.", _old_seen),
    "content": Kind("The new text has {count}.", _content_lines),
    "form": Kind("{sentence}.", _form),
    "quiet": Kind(
        "{program} prints nothing when all is well.",
        lambda s, program: _no_output(s) and program in SILENT and program in _text(s, "command").split(),
    ),
    # The answer.
    "says": Kind(
        "The file is {verb}.",
        lambda s, verb: _says(s, {"created": "Created", "overwritten": "Overwrote", "edited": "Edited"}.get(verb, "")),
        "answer",
    ),
    "replacements": Kind("It is edited: {count}.", _replacements, "answer"),
    "asked": Kind("Lines {first} to {last} are shown.", _asked_lines, "answer"),
    "whole": Kind(
        "The whole file is shown: {count}.",
        lambda s, count: (
            bool(s.call and s.call.name == "read_file")
            and not s.truth.startswith(("Error: ", "[lines "))
            and line_count(s.truth) == count_of(count)
        ),
        "answer",
    ),
    "listing": Kind(
        "Folders come first, then files: {count}.",
        lambda s, count: (
            bool(s.call and s.call.name == "list_directory") and s.truth.count("\n") == count_of(count, "name")
        ),
        "answer",
    ),
    "matches": Kind("Found: {count}.", _counted, "answer"),
    "none": Kind("Nothing matches.", lambda s: s.truth.startswith(("No matches for ", "No files match ")), "answer"),
    "refuses": Kind(
        "The tool refuses with one line.", lambda s: s.truth.startswith("Error: ") and "\n" not in s.truth, "answer"
    ),
    "not_there": Kind(
        "The text to replace does not occur.",
        lambda s: s.truth.startswith("Error: old_string does not occur"),
        "answer",
    ),
    "occurs": Kind(
        "The text to replace occurs {times}.",
        lambda s, times: s.truth.startswith(f"Error: old_string occurs {times} "),
        "answer",
    ),
    "no_output": Kind("It prints nothing.", _no_output, "answer"),
    "exit": Kind("It {word} with exit code {status}.", _exit, "answer", {"word": ("succeeds", "fails")}),
    "printed": Kind("On {where} {count} printed.", _printed, "answer", {"where": ("stdout", "stderr")}),
    "fails": Kind(
        "{name} {what}.",
        lambda s, name, what: name in _text(s, "command") and fails(name, what, _output_rows(s) or []),
        "answer",
        {"what": WRONG},
    ),
    "refused": Kind("{what}.", lambda s, what: refuses(what, _output_rows(s) or []), "answer"),
    "tests": Kind("The tests end with {result}.", _tests, "answer"),
    "raised": Kind("{error} ends the program.", _raised, "answer"),
    "background": Kind(
        "It goes on in the background.", lambda s: bool((r := shell_result(s)) and r.background_pids), "answer"
    ),
    "signal": Kind(
        "A signal ends it: {signal}.", lambda s, signal: bool((r := shell_result(s)) and r.signal == signal), "answer"
    ),
    "stopped": Kind(
        "An error is told instead of an exit code.", lambda s: bool((r := shell_result(s)) and r.error), "answer"
    ),
}
"""All that can be said of a repository."""


# The rules.


def origins(scene: CallScene, paths: list[str]) -> Iterator[Claim]:
    """Where files come from: written, read, or named in an answer; or never seen."""
    for path in list(dict.fromkeys(paths))[:MOST_FILES]:
        for kind in ("written", "read", "seen"):
            at = next((at for at in reversed(scene.numbers) if KINDS[kind].holds(scene, path=path, turn=str(at))), None)
            if at is not None:
                yield claim(kind, path=path, turn=at)
                break


def file(scene: CallScene) -> Iterator[Claim]:
    """A file tool: what is known of the file, and what the tool says."""
    if scene.call is None or scene.call.name == "run_shell_command":
        return
    name, truth = scene.call.name, scene.truth
    path = _text(scene, "file_path") or _text(scene, "path")
    if path:
        yield from origins(scene, [path])
        known = re.search(rf"(?:^|\\n|\n){re.escape(path)} \((\d+)\)", str(scene.world.initial_state))
        if known and name == "read_file":
            yield claim("lines_listed", path=path, count=rows(int(known[1])))
    if truth.startswith("Error: "):
        if path and _unseen(scene, path):
            yield claim("unseen", path=path)
        broken = [each for each in arguments(scene) if each.kind != "accepted"]
        yield from broken
        occurs = re.match(r"Error: old_string occurs (\d+ times?) ", truth)
        if occurs:
            yield claim("occurs", times=occurs[1])
        yield claim("not_there") if truth.startswith("Error: old_string does not occur") else claim("refuses")
    elif name == "write_file":
        yield claim("content", count=rows(line_count(_text(scene, "content"))))
        yield claim("says", verb="created" if truth.startswith("Created") else "overwritten")
    elif name == "edit":
        at = next((at for at in reversed(scene.numbers) if _old_seen(scene, str(at))), None)
        if at is not None:
            yield claim("old_seen", turn=at)
        done = re.search(r": (\d+ replacements?)\.$", truth)
        yield claim("replacements", count=done[1]) if done else claim("says", verb="created")
    elif name == "read_file":
        shown = re.match(r"\[lines (\d+)-(\d+) of \d+\]", truth)
        yield claim("asked", first=shown[1], last=shown[2]) if shown else claim("whole", count=rows(line_count(truth)))
    elif name == "list_directory":
        yield claim("listing", count=rows(truth.count("\n"), "name"))
    elif truth.startswith("No "):
        yield claim("none")
    elif count := matches_of(truth):
        yield claim("matches", count=count)


def command(scene: CallScene) -> Iterator[Claim]:
    """A command: which files it names, what fails, what its program prints, its exit code."""
    result = shell_result(scene)
    if result is None:
        return
    line = _text(scene, "command")
    commands = (parse(line) or []) if "\n" not in line else []
    names = [word.text for each in commands for word in each.words[1:] if word.plain and "." in word.text]
    yield from origins(scene, [name for name in names if name in scene.action and not name.startswith("-")])
    printed = [*_rows(result.stdout), *_rows(result.stderr)]
    failed = result.exit_code not in (0, None)
    if failed and (found := failure_of(printed, line)):
        yield claim("fails", name=found[0], what=found[1])
    elif failed and (
        raised := re.match(r"(?:[\w.]+\.)?(\w+)", _rows(result.stderr)[-1]) if "Traceback" in result.stderr else None
    ):
        yield claim("raised", error=raised[1])
    elif failed and (what := refusal_of(printed)):
        yield claim("refused", what=what)
    ended = re.search(r"(\d+ (?:passed|failed|error)[^\n]*?) in [\d.]+s", result.stdout)
    unit = re.search(r"^(OK|FAILED)\b", result.stderr, re.MULTILINE)
    if ended or unit:
        yield claim("tests", result=ended[1] if ended else unit[1] if unit else "")
    elif not failed and result.stdout and (said := form_of(line, _rows(result.stdout))):
        yield claim("form", sentence=said.removesuffix("."))
    if not printed:
        quiet = next((word for word in line.split() if word in SILENT), None)
        if quiet:
            yield claim("quiet", program=quiet)
        yield claim("no_output")
    for where, text in (("stdout", result.stdout), ("stderr", result.stderr)):
        if _rows(text):
            yield claim("printed", where=where, count=are(len(_rows(text))))
    if result.background_pids:
        yield claim("background")
    if result.signal:
        yield claim("signal", signal=result.signal)
    if result.error:
        yield claim("stopped")
    if result.exit_code is not None:
        yield claim("exit", word="fails" if result.exit_code else "succeeds", status=result.exit_code)


BOOK: Book[CallScene] = Book(call_scenes, KINDS, (Rule("file", file), Rule("command", command)))
"""What can be said of a repository and its tools."""
