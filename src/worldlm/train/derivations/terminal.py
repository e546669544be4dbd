"""What follows in a terminal from what was typed and shown before.

The claims are about the shell (its folder, files and variables, as far as `shell.Shell` follows them) and about the
rows that a command prints: how they relate to a file that is known, which failure they tell, what their program prints.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from worldlm.core.errors import ActionError, InputError
from worldlm.core.types import Observation, Trajectory, World
from worldlm.domains.files import FileState, file_state
from worldlm.domains.terminal import COLUMNS, at_prompt, control_key, parse_action
from worldlm.train.derivations.claims import Book, Claim, Kind, Rule, are, claim, count_of, number, rows
from worldlm.train.derivations.forms import (
    SILENT,
    WRONG,
    fails,
    failure_of,
    fits,
    form_of,
    nothing_of,
    refusal_of,
    refuses,
)
from worldlm.train.derivations.shell import Command, File, Shell, parse

_PROMPT = re.compile(r"(?P<user>[\w.-]+)@[\w.-]+:(?P<folder>[^\n]*)[$#]")
MOST_NAMES = 3
"""Files of which one derivation tells where they come from."""
MOST_PLACES = 5
"""Lines that are named one by one."""


@dataclass(frozen=True)
class TerminalScene:
    """A turn of a terminal."""

    shell: Shell
    state: FileState
    earlier: Sequence[str]
    """What was typed in each turn before, from the first; empty for one that typed nothing."""
    screens: Sequence[str]
    """What was shown first, and after each turn before."""
    keys: tuple[str, ...]
    truth: str

    def answered(self, observation: Observation) -> "TerminalScene":
        """The same turn, if this had been the answer."""
        return replace(self, truth=observation.text)

    @property
    def typed(self) -> str:
        """All keys that were pressed, as one text."""
        return "".join(self.keys)

    @cached_property
    def control(self) -> bool:
        """Whether a control key is among them."""
        return any(control_key(key) for key in self.keys)

    @cached_property
    def waits(self) -> bool:
        """Whether a prompt waited for the keys."""
        return at_prompt(self.screens[-1])

    @property
    def line(self) -> str:
        """The command line that was typed at a prompt (with its here-document); empty for anything else."""
        plain = self.waits and not self.control and self.typed.endswith("\n")
        return self.typed.rstrip("\n") if plain else ""

    @property
    def harmless(self) -> bool:
        """Whether keys that are no command line leave every file as it is."""
        if self.waits and not self.typed.strip():
            return True
        pager = (found := running(self)) is not None and found.values["program"] in PAGERS
        return pager or all(key in ("", "C-c", "C-l", "C-u") for key in self.keys)

    @cached_property
    def commands(self) -> list[Command]:
        """Its simple commands; empty where it is more than that."""
        return (parse(self.line) or []) if self.line and "\n" not in self.line else []

    @cached_property
    def folder(self) -> str:
        """The folder that the last prompt names."""
        return folder_of(self.screens[-1], self.state.home)

    @cached_property
    def printed(self) -> list[str] | None:
        """The rows between echo and prompt; None where these cannot be told apart."""
        return printed_rows(self.screens[-1], self.line, self.truth)

    @property
    def said(self) -> str:
        """What was printed, and all of a screen that shows more."""
        return self.truth if self.printed is None else "\n".join(self.printed)

    @property
    def silent(self) -> bool:
        """Whether a command printed nothing."""
        return self.printed == []

    def source(self, name: str) -> File | None:
        """What is known of a file, by the name that was typed."""
        return self.shell.files.get(self.shell.path(name, self.folder))

    def lines(self, name: str, *, fresh: bool = True) -> list[str] | None:
        """The lines of a file that is known; not `fresh`: as they were when it was last seen or written.

        What has to be the same as all that is printed need not be fresh: what is printed confirms it.
        """
        path = self.shell.path(name, self.folder)
        known = self.shell.files.get(path)
        content = self.shell.content(path) if fresh or known is None else known.content
        return None if content is None else content.removesuffix("\n").split("\n")


def folder_of(screen: str, home: str) -> str:
    """The folder that the prompt on the last line names; empty where none waits."""
    match = _PROMPT.search(screen.rstrip("\n").rpartition("\n")[2].rstrip())
    if match is None:
        return ""
    folder = match["folder"]
    return home + folder[1:] if folder.startswith("~") else folder


def printed_rows(before: str, line: str, screen: str) -> list[str] | None:
    """The rows of a screen between the echo of a line (wrapped as the screen is wide) and the prompt."""
    shown = screen.split("\n")
    prompt = before.rstrip("\n").rpartition("\n")[2].rstrip()
    if not line or not at_prompt(screen):
        return None
    typed, *more = line.split("\n")
    echo = [*_wrapped(f"{prompt} {typed}"), *(row for each in more for row in _wrapped(f"> {each}"))]
    if [row.rstrip() for row in shown[: len(echo)]] != [row.rstrip() for row in echo]:
        return None
    return shown[len(echo) : -1]


def _wrapped(text: str) -> list[str]:
    return [text[at : at + COLUMNS] for at in range(0, len(text), COLUMNS)] or [""]


PAGERS = ("less", "more", "man", "top", "watch", "htop", "sleep", "yes", "ping", "tail")
"""Programs that have the terminal and change no file."""


def takes_it(line: str) -> str | None:
    """The program that has the terminal after a line that is one command or pipeline; None for any other line."""
    commands = parse(line.split("\n")[0]) or []
    alone = commands and all(command.before == "|" for command in commands[1:])
    return (commands[-1].program or None) if alone else None


def running(scene: TerminalScene) -> Claim | None:
    """The program that has the terminal, and since when."""
    if scene.waits:
        return None
    for at in range(len(scene.earlier), 0, -1):
        if at_prompt(scene.screens[at - 1]) and not at_prompt(scene.screens[at]):
            typed, last = scene.earlier[at - 1], scene.screens[at].rpartition("\n")[2].strip()
            program = takes_it(typed) if "\n" in typed and last != ">" else None
            return claim("runs", program=program, turn=at) if program else None
    return None


def scenes(trajectory: Trajectory) -> Iterator[tuple[int, TerminalScene]]:
    """The turns of a terminal session."""
    world, initial = trajectory.world, trajectory.initial
    try:
        state = file_state(world)
    except InputError:
        return
    if initial is None:
        return
    shell = Shell(state.home)
    for path, entry in state.files.items():
        shell.files[state.absolute(path)] = File(0, entry.content)
    earlier: list[str] = []
    screens = [initial.text]
    for turn_number, turn in enumerate(trajectory.turns, 1):
        keys = _keys(turn.action, world)
        if turn.observation is not None:
            scene = TerminalScene(shell, state, earlier, screens, keys, turn.observation.text)
            yield turn_number, scene
            if scene.line:
                shell.follow(scene.line, scene.folder, scene.printed or [], turn_number)
            elif not scene.harmless:
                shell.stale = turn_number
            screens.append(turn.observation.text)
        else:
            screens.append(screens[-1])
        earlier.append("".join(keys))


def _keys(action: str, world: World) -> tuple[str, ...]:
    try:
        return tuple(key["keystrokes"] for key in parse_action(action, world).arguments["keys"])
    except ActionError:
        return ()


# What holds. Each takes the scene and the gaps of its sentence.


def _typed_at(scene: TerminalScene, turn: str) -> str:
    at = number(turn)
    return scene.earlier[at - 1] if 1 <= at <= len(scene.earlier) else ""


def _named(scene: TerminalScene, name: str) -> bool:
    return name in scene.typed


def _wrote(scene: TerminalScene, name: str, turn: str) -> bool:
    """The turn typed the file's name behind what writes: `>`, tee, cp, mv, touch, sed -i and the like."""
    known = scene.source(name)
    if known is None or known.turn != number(turn):
        return False
    base = re.escape(posixpath.basename(name))
    writer = r"(>\s*|\b(tee|cp|mv|touch|ln|sed|sort|install|split|tar|dd|truncate|gzip|gunzip|chmod)\b[^\n;|&]*[\s/])"
    writes = rf"{writer}['\"]?[^\s'\"]*{base}['\"]?(?=[\s;|&)]|$)"
    return re.search(writes, _typed_at(scene, turn)) is not None


def _showed(scene: TerminalScene, name: str, turn: str) -> bool:
    at = number(turn)
    lines = scene.lines(name, fresh=False)
    if lines is None or not 1 <= at < len(scene.screens) or posixpath.basename(name) not in _typed_at(scene, turn):
        return False
    return "\n".join(lines) in scene.screens[at]


def _initial(scene: TerminalScene, name: str) -> bool:
    return scene.shell.path(name, scene.folder) in {scene.state.absolute(path) for path in scene.state.files}


def _unseen(scene: TerminalScene, name: str) -> bool:
    base = posixpath.basename(name.rstrip("/"))
    known = [*scene.state.files, *scene.state.setup, *scene.earlier, *scene.screens]
    return bool(base) and not any(base in text for text in known)


def _set(scene: TerminalScene, name: str, value: str, turn: str) -> bool:
    return (
        re.search(rf"\b{re.escape(name)}=", _typed_at(scene, turn)) is not None
        and scene.shell.variables.get(name, ("", 0)) == (value, number(turn))
        and value in _typed_at(scene, turn)
    )


def _printed(scene: TerminalScene, count: str) -> bool:
    return scene.printed is not None and are(len(scene.printed)) == count


def _same(scene: TerminalScene, name: str, count: str) -> bool:
    lines = scene.lines(name, fresh=False)
    return bool(lines) and scene.printed == lines and len(lines or ()) == count_of(count)


def _ends(scene: TerminalScene, end: str, some: str, name: str, count: str) -> bool:
    lines, many = scene.lines(name), number(some)
    if not lines or scene.printed is None or len(lines) != count_of(count) or not 0 < many <= len(lines):
        return False
    return scene.printed == (lines[:many] if end == "first" else lines[-many:])


def _reverse(scene: TerminalScene, name: str, count: str) -> bool:
    lines = scene.lines(name, fresh=False)
    return bool(lines) and scene.printed == (lines or [])[::-1] and len(lines or ()) == count_of(count)


def _reordered(scene: TerminalScene, name: str, count: str) -> bool:
    lines = scene.lines(name, fresh=False)
    return bool(lines) and Counter(scene.printed) == Counter(lines) and len(lines or ()) == count_of(count)


def _places(scene: TerminalScene, places: str, name: str, count: str) -> bool:
    lines = scene.lines(name)
    if not lines or not scene.printed or len(lines) != count_of(count):
        return False
    wanted = [number(place) for place in re.split(", | and ", places)]
    return all(1 <= at <= len(lines) for at in wanted) and [lines[at - 1] for at in wanted] == scene.printed


def _chosen(scene: TerminalScene, some: str, name: str, count: str) -> bool:
    lines = scene.lines(name)
    if not lines or not scene.printed or len(scene.printed) != number(some) or len(lines) != count_of(count):
        return False
    waiting = iter(lines)
    return all(any(line == row for line in waiting) for row in scene.printed)


def _counted(scene: TerminalScene, name: str, words: str) -> bool:
    lines = scene.lines(name, fresh=False)
    if not lines or not scene.printed or not re.match(r"wc( -[lwc]+)* \S+$", scene.line):
        return False
    content = "\n".join(lines) + "\n"
    told = re.match(r" *(\d+(?: +\d+)*)", scene.printed[0])
    found = re.fullmatch(r"(.+) lines?, (.+) words? and (.+) bytes?", words)
    true = [content.count("\n"), len(content.split()), len(content.encode())]
    if found is None or told is None or [number(each) for each in found.groups()] != true:
        return False
    return set(map(int, told[1].split())) <= set(true)


def _parted(scene: TerminalScene, name: str, count: str) -> bool:
    lines = scene.lines(name)
    cut = len(scene.commands) == 1 and scene.commands[0].program == "cut"
    if not cut or not lines or not scene.printed or len(lines) != count_of(count) or len(scene.printed) != len(lines):
        return False
    pairs = list(zip(scene.printed, lines, strict=True))
    return all(row.strip() in line for row, line in pairs) and any(row != line for row, line in pairs)


def _matching(scene: TerminalScene, some: str, name: str, count: str) -> bool:
    lines = scene.lines(name)
    if not lines or len(lines) != count_of(count) or scene.printed != [some]:
        return False
    command = scene.commands[0] if len(scene.commands) == 1 else None
    options = "".join(word.text for word in command.words[1:] if word.text.startswith("-")) if command else ""
    counts = command is not None and command.program == "grep" and "c" in options and "o" not in options
    return counts and 0 <= number(some) <= len(lines)


def _status(scene: TerminalScene, status: str, word: str) -> bool:
    row = scene.printed[-1] if scene.printed else ""
    told = re.search(r"(?:^|[ =:])(\d{1,3})$", row)
    return "$?" in scene.line and told is not None and told[1] == status and word == _WORD[status == "0"]


_WORD = {True: "succeeded", False: "failed"}


def _echoes(scene: TerminalScene, word: str) -> bool:
    command = scene.commands[0] if len(scene.commands) == 1 else None
    if command is None or command.program != "echo" or scene.printed is None or command.redirects:
        return False
    texts = [scene.shell.expand(each) for each in command.words[1:]]
    if any(text is None for text in texts) or (texts[:1] and str(texts[0]).startswith("-")):
        return False
    made = " ".join(str(text) for text in texts)
    return "\n".join(scene.printed) == "\n".join(_wrapped(made)) and len(texts) == count_of(word, "word")


def _redirected(scene: TerminalScene, name: str) -> bool:
    target = re.search(rf">\|?\s*['\"]?{re.escape(name)}['\"]?(\s|;|$)", scene.line)
    return scene.silent and target is not None


def _goes(scene: TerminalScene, folder: str) -> bool:
    return scene.line != "" and folder_of(scene.truth, scene.state.home) == folder != scene.folder


def _background(scene: TerminalScene, job: str) -> bool:
    return bool(scene.printed) and re.match(rf"\[{re.escape(job)}\] \d+$", (scene.printed or [""])[0]) is not None


def _runs(scene: TerminalScene, program: str, turn: str) -> bool:
    at = number(turn)
    since = scene.screens[at:] if 1 <= at < len(scene.screens) else []
    return bool(since) and not any(map(at_prompt, since)) and takes_it(_typed_at(scene, turn)) == program


def _has_terminal(scene: TerminalScene, program: str) -> bool:
    found = running(scene)
    return found is not None and found.values["program"] == program


def _document(scene: TerminalScene, count: str) -> bool:
    typed = scene.line.split("\n")
    echoed = "\n".join(f"> {row}".rstrip() for row in typed[1:-1])
    return "<<" in typed[0] and len(typed) - 2 == count_of(count) and f"\n{echoed}\n" in scene.truth


def _last_row(scene: TerminalScene) -> str:
    return scene.truth.rstrip("\n").rpartition("\n")[2].rstrip()


def _new_here(scene: TerminalScene, name: str, turn: str) -> bool:
    path = scene.shell.path(name, scene.folder)
    known = scene.shell.files.get(path) or scene.shell.files.get(f"{path}/")
    told = any(re.search(rf"(^|[\s/]){re.escape(name)}([\s/@*]|$)", row) for row in scene.printed or ())
    told &= all(argument in (".", "./") for argument in scene.commands[0].arguments) if scene.commands else False
    return known is not None and 0 < known.turn == number(turn) and told and name in _typed_at(scene, turn)


KINDS: dict[str, Kind[TerminalScene]] = {
    # What is known before.
    "folder": Kind("The shell is in {folder}.", lambda scene, folder: folder == scene.folder != ""),
    "wrote": Kind(
        "Turn {turn} made or changed {name}.", lambda s, name, turn: _named(s, name) and _wrote(s, name, turn)
    ),
    "showed": Kind("Turn {turn} showed {name}.", lambda s, name, turn: _named(s, name) and _showed(s, name, turn)),
    "initial": Kind("{name} was there at the start.", lambda s, name: _named(s, name) and _initial(s, name)),
    "unseen": Kind("Nothing called {name} was seen before.", lambda s, name: _named(s, name) and _unseen(s, name)),
    "set": Kind(
        "{name} was set to {value} at turn {turn}.", lambda s, **gaps: _named(s, gaps["name"]) and _set(s, **gaps)
    ),
    "runs": Kind("{program} has the terminal since turn {turn}.", _runs),
    "form": Kind("{sentence}.", lambda s, sentence: s.printed is not None and fits(f"{sentence}.", s.line, s.printed)),
    # The answer.
    "nothing": Kind("Nothing is printed, and the prompt returns.", lambda s: s.silent, "answer"),
    "quiet": Kind(
        "{program} prints nothing when all is well.",
        lambda s, program: (
            s.silent and program in SILENT and re.search(rf"(^|[\s;&|(]){re.escape(program)}(\s|$)", s.line) is not None
        ),
    ),
    "means": Kind(
        "{what}.", lambda s, what: s.silent and len(s.commands) == 1 and nothing_of(s.line) == what, "answer"
    ),
    "redirected": Kind("The output goes to {name}, so nothing is printed.", _redirected, "answer"),
    "assigned": Kind(
        "An assignment prints nothing.",
        lambda s: s.silent and bool(re.match(r"(export |declare |readonly |local )?\w+=", s.line)),
        "answer",
    ),
    "rows": Kind("So {count} printed.", _printed, "answer"),
    "fails": Kind(
        "{name} {what}: it fails.",
        lambda s, name, what: _named(s, name) and s.printed is not None and fails(name, what, s.printed),
        "answer",
        {"what": WRONG},
    ),
    "refused": Kind("{what}: it fails.", lambda s, what: s.printed is not None and refuses(what, s.printed), "answer"),
    "same": Kind("The {count} of {name} are printed as they are.", _same, "answer"),
    "ends": Kind(
        "The {end} {some} of the {count} of {name} are printed.",
        lambda s, end, **gaps: end in ("first", "last") and _ends(s, end, **gaps),
        "answer",
    ),
    "reverse": Kind("The {count} of {name} are printed, the last one first.", _reverse, "answer"),
    "reordered": Kind("The {count} of {name} are printed in another order.", _reordered, "answer"),
    "places": Kind("Of the {count} of {name}, number {places} are printed.", _places, "answer"),
    "chosen": Kind("{some} of the {count} of {name} are printed.", _chosen, "answer"),
    "counted": Kind("{name} has {words}.", _counted, "answer"),
    "parted": Kind("A part of each of the {count} of {name} is printed.", _parted, "answer"),
    "matching": Kind("grep counts {some} of the {count} of {name}.", _matching, "answer"),
    "status": Kind("The status is {status}: the command {word}.", _status, "answer", {"word": tuple(_WORD.values())}),
    "echoes": Kind("echo prints its {word} with a space between.", _echoes, "answer"),
    "goes": Kind("The prompt changes to {folder}.", _goes, "answer"),
    "stays": Kind(
        "The folder stays {folder}.", lambda s, folder: folder_of(s.truth, s.state.home) == folder == s.folder != ""
    ),
    "home": Kind("~ stands for {home}.", lambda s, home: home == s.state.home and "~" in s.screens[-1]),
    "new": Kind("{name}, of turn {turn}, is among them.", _new_here, "answer"),
    "background": Kind("It runs in the background as job {job}.", _background, "answer"),
    "document": Kind("The here-document's {count} are echoed, each after >.", _document, "answer"),
    "open": Kind(
        "The command is not complete, so > waits for more.", lambda s: s.waits and _last_row(s) == ">", "answer"
    ),
    "unsent": Kind(
        "No newline was typed, so the line only stands there.",
        lambda s: (
            s.waits
            and not s.control
            and "\n" not in s.typed
            and bool(s.typed)
            and _last_row(s).endswith(s.typed.rstrip())
        ),
        "answer",
    ),
    "interrupt": Kind(
        "C-c breaks off, and a prompt returns.", lambda s: "C-c" in s.keys and at_prompt(s.truth), "answer"
    ),
    "clear": Kind(
        "The screen is cleared but for the prompt.",
        lambda s: ("C-l" in s.keys or "clear" in s.typed) and "\n" not in s.truth and at_prompt(s.truth),
        "answer",
    ),
    "idle": Kind("Nothing happens: the screen stays as it is.", lambda s: s.truth == s.screens[-1], "answer"),
    "returns": Kind(
        "{program} ends, and the prompt returns.",
        lambda s, program: (
            _has_terminal(s, program) and at_prompt(s.truth) and "Stopped" not in s.truth and "C-z" not in s.keys
        ),
        "answer",
    ),
    "keeps": Kind(
        "{program} keeps the terminal: no prompt returns.",
        lambda s, program: _has_terminal(s, program) and not at_prompt(s.truth),
        "answer",
    ),
    "begins": Kind(
        "{program} takes the terminal: no prompt returns.",
        lambda s, program: (
            s.line != "" and takes_it(s.line) == program and not at_prompt(s.truth) and _last_row(s) != ">"
        ),
        "answer",
    ),
    "scrolled": Kind(
        "Only the last 40 of {count} fit on the screen.",
        lambda s, count: (
            s.truth.startswith("[") and f" of {count_of(count, 'row')} are shown]" in s.truth.split("\n")[0]
        ),
        "answer",
    ),
}
"""All that can be said of a terminal."""


# The rules.


def where(scene: TerminalScene, names: Iterable[str]) -> Iterator[Claim]:
    """Where the files that are named come from."""
    told = 0
    for name in dict.fromkeys(names):
        known = scene.source(name)
        if told == MOST_NAMES or known is None or not name:
            continue
        kind = "initial" if not known.turn else "showed" if known.shown else "wrote"
        found = claim(kind, name=name) if not known.turn else claim(kind, name=name, turn=known.turn)
        if KINDS[kind].holds(scene, **found.values):
            told += 1
            yield found


def _names(scene: TerminalScene) -> list[str]:
    """Files that the line names and that are known, apart from those that it writes."""
    found = []
    for command in scene.commands:
        found += [word.text for word in command.words[1:] if word.plain]
        found += [each.target for each in command.redirects if each.operator == "<"]
    return [name for name in found if name and scene.source(name) is not None]


def failure(scene: TerminalScene) -> Iterator[Claim]:
    """A row tells what is wrong."""
    if not scene.printed:
        return
    if found := failure_of(scene.printed, scene.line):
        name, what = found
        if "not there" in what and KINDS["unseen"].holds(scene, name=name):
            yield claim("unseen", name=name)
        yield claim("fails", name=name, what=what)
    elif refused := refusal_of(scene.printed):
        yield claim("refused", what=refused)
    else:
        return
    yield from _status_claims(scene) if "$?" in scene.line else _rows(scene)


def _rows(scene: TerminalScene) -> Iterator[Claim]:
    if scene.printed:
        yield claim("rows", count=are(len(scene.printed)))


def _status_claims(scene: TerminalScene) -> Iterator[Claim]:
    told = re.search(r"(?:^|[ =:])(\d{1,3})$", scene.printed[-1]) if scene.printed else None
    if told:
        yield claim("status", status=told[1], word=_WORD[told[1] == "0"])


def status(scene: TerminalScene) -> Iterator[Claim]:
    """`$?` is shown."""
    if "$?" in scene.line:
        yield from where(scene, _names(scene))
        yield from _status_claims(scene)


def relation(scene: TerminalScene) -> Iterator[Claim]:
    """The rows are lines of a file that is known, or count them."""
    names = [name for name in _names(scene) if scene.lines(name, fresh=False)]
    if not scene.printed or len(set(names)) != 1:
        return
    name, lines, printed = names[0], scene.lines(names[0], fresh=False) or [], scene.printed
    gaps = {"name": name, "count": rows(len(lines))}
    some = len(printed)
    content = "\n".join(lines) + "\n"
    words = f"{rows(len(lines))}, {rows(len(content.split()), 'word')} and {rows(len(content.encode()), 'byte')}"
    tries = [
        claim("same", **gaps),
        claim("ends", end="first", some=some, **gaps),
        claim("ends", end="last", some=some, **gaps),
        claim("reverse", **gaps),
        claim("reordered", **gaps),
        *([claim("places", places=places, **gaps)] if (places := _places_of(printed, lines)) else []),
        claim("chosen", some=some, **gaps),
        claim("counted", name=name, words=words),
        claim("matching", some=printed[0], **gaps),
        claim("parted", **gaps),
    ]
    found = next((each for each in tries if KINDS[each.kind].holds(scene, **each.values)), None)
    if found is not None:
        yield from where(scene, [name])
        yield found


def _places_of(printed: Sequence[str], lines: Sequence[str]) -> str:
    """At which lines the rows stand, in order; empty where they do not, or are too many."""
    found, start = [], 0
    for row in printed:
        try:
            start = lines.index(row, start) + 1
        except ValueError:
            return ""
        found.append(str(start))
    return ", ".join(found) if 1 < len(found) <= MOST_PLACES else ""


def echo(scene: TerminalScene) -> Iterator[Claim]:
    """`echo` of words and variables that are known."""
    if len(scene.commands) == 1 and scene.commands[0].program == "echo" and scene.printed:
        words = [word.text for word in scene.commands[0].words[1:] if not word.plain]
        used = re.findall(r"\$\{?(\w+)", " ".join(words))
        yield from (
            claim("set", name=name, value=value, turn=turn)
            for name in dict.fromkeys(used)
            for value, turn in [scene.shell.variables.get(name, ("", 0))]
            if turn
        )
        yield claim("echoes", word=rows(len(scene.commands[0].words) - 1, "word"))


def folders(scene: TerminalScene) -> Iterator[Claim]:
    """`cd`, `pwd` and what else is about the folder."""
    if not scene.line or scene.printed is None:
        return
    if (after := folder_of(scene.truth, scene.state.home)) != scene.folder:
        yield claim("folder", folder=scene.folder)
        yield claim("goes", folder=after)
        yield from _rows(scene)
    elif scene.line.startswith("pwd"):
        yield claim("folder", folder=scene.folder)
        if "~" in scene.screens[-1]:
            yield claim("home", home=scene.state.home)
        yield from _rows(scene)


def listing(scene: TerminalScene) -> Iterator[Claim]:
    """`ls` and `find`: what of the names the session made."""
    if not scene.printed or not re.match(r"(ls|find|tree|du|stat)\b", scene.line):
        return
    yield claim("folder", folder=scene.folder)
    if said := form_of(scene.line, scene.printed):
        yield claim("form", sentence=said.removesuffix("."))
    told = 0
    for path, known in sorted(scene.shell.files.items(), key=lambda item: -item[1].turn):
        name = posixpath.basename(path.rstrip("/"))
        found = known.turn and not known.shown and path.rstrip("/") == scene.shell.path(name, scene.folder)
        if told < MOST_NAMES and found and _new_here(scene, name, str(known.turn)):
            told += 1
            yield claim("new", name=name, turn=known.turn)
    yield from _rows(scene)


def silent(scene: TerminalScene) -> Iterator[Claim]:
    """Nothing is printed, and why."""
    if not scene.silent:
        return
    yield from where(scene, _names(scene))
    written = [each for command in scene.commands for each in command.redirects if ">" in each.operator and each.target]
    if written and _redirected(scene, written[-1].target):
        yield claim("redirected", name=written[-1].target)
        return
    if re.match(r"(export |declare |readonly |local )?\w+=", scene.line):
        yield claim("assigned")
        return
    quiet = next((command.program for command in scene.commands if command.program in SILENT), None)
    if quiet:
        yield claim("quiet", program=quiet)
    elif len(scene.commands) == 1 and (what := nothing_of(scene.line)):
        yield claim("means", what=what)
    yield claim("nothing")


def documents(scene: TerminalScene) -> Iterator[Claim]:
    """A here-document is echoed."""
    typed = scene.line.split("\n")
    if len(typed) > 2 and "<<" in typed[0]:
        yield claim("document", count=rows(len(typed) - 2))
        target = re.search(r">>?\s*([^\s<>]+)", typed[0])
        if target and scene.silent:
            yield claim("redirected", name=target[1])
        elif scene.printed:
            yield from _rows(scene)


def keys(scene: TerminalScene) -> Iterator[Claim]:
    """Keys that are no command line."""
    program = running(scene)
    if program and KINDS["runs"].holds(scene, **program.values):
        yield program
    if scene.truth == scene.screens[-1]:
        yield claim("idle")
    elif "C-c" in scene.keys:
        yield claim("interrupt")
    elif "C-l" in scene.keys or "clear" in scene.typed:
        yield claim("clear")
    elif program and at_prompt(scene.truth):
        yield claim("returns", program=program.values["program"])
    elif program:
        yield claim("keeps", program=program.values["program"])
    elif scene.waits and "\n" not in scene.typed:
        yield claim("unsent")


def takes(scene: TerminalScene) -> Iterator[Claim]:
    """A program takes the terminal, a line is not complete, or there is more than a screen holds."""
    if not scene.line:
        return
    first = scene.truth.split("\n")[0]
    if _last_row(scene) == ">":
        yield claim("open")
    elif match := re.match(r"\[\d+ earlier rows scrolled off; the last \d+ of (\d+) are shown\]", first):
        yield from where(scene, _names(scene))
        yield claim("scrolled", count=rows(int(match[1]), "row"))
    elif not at_prompt(scene.truth) and (program := takes_it(scene.line)):
        yield from where(scene, _names(scene))
        yield claim("begins", program=program)


def background(scene: TerminalScene) -> Iterator[Claim]:
    """A job is started."""
    if scene.printed and (match := re.match(r"\[(\d+)\] \d+$", scene.printed[0])):
        yield claim("background", job=match[1])
        yield from _rows(scene)


def program(scene: TerminalScene) -> Iterator[Claim]:
    """What the program prints when all is well, and how many rows it is."""
    if not scene.printed:
        return
    yield from where(scene, _names(scene))
    if said := form_of(scene.line, scene.printed):
        yield claim("form", sentence=said.removesuffix("."))
        yield from _rows(scene)


BOOK: Book[TerminalScene] = Book(
    scenes,
    KINDS,
    (
        Rule("document", documents),
        Rule("failure", failure),
        Rule("status", status),
        Rule("relation", relation),
        Rule("echo", echo),
        Rule("folder", folders),
        Rule("listing", listing),
        Rule("silent", silent),
        Rule("background", background),
        Rule("program", program),
        Rule("takes", takes),
        Rule("keys", keys),
    ),
)
"""What can be said of a terminal, and by which rules."""
