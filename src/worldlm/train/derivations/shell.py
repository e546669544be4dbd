"""A shell session as far as it can be followed from what was typed: commands, files, variables.

No shell is imitated: a line is split into its commands, and of a few commands it is known what they leave. What is
followed here may be incomplete or wrong (a script may do anything). It only proposes; what is said of a turn is checked
against the turn.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"[ \t]*(?:(?P<comment>#.*)|(?P<operator>\d?>&\d|&>>?|\d?>>|\d?>\|?|<<<|<<-?|<|&&|\|\||;|\||&|\n)"
    r"|(?P<word>(?:'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|[^\s;|&<>()'\"\\])+))",
    re.DOTALL,
)
_PIECE = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)|([^'\"\\]+)", re.DOTALL)
_BLOCKS = frozenset(
    (
        "for",
        "while",
        "until",
        "if",
        "case",
        "select",
        "function",
        "{",
        "(",
        "[[",
        "do",
        "then",
        "else",
        "time",
        "coproc",
        "!",
    )
)
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+|\?))")
_ASSIGNMENT = re.compile(r"(?:export )?([A-Za-z_]\w*)=(.*)", re.DOTALL)


_SUCCEED = frozenset(
    ("echo", "printf", "cat", "touch", "mkdir", "rm", "cp", "mv", "cd", "export", "tee", "sleep", "true")
)
"""Programs that fail with words, if at all."""
_TO_NOWHERE = re.compile(r"\d?>>?\s*/dev/(null|stdout|stderr)|\d?>&\d|\d>>?\s*&\d")
_CHANGES = re.compile(
    r">|(?<![\w./-])("
    r"rm|rmdir|mv|cp|tee|touch|ln|dd|truncate|install|patch|tar|unzip|zip|gzip|gunzip|bash|sh|source|python3?|perl|make|"
    r"xargs|eval|exec|split|csplit|vim?|nano|ed|ex|rename|unlink|shred|mkfifo|sqlite3|awk .*>|shuf .*-o|sort .*-\w*o|"
    r"sed .*(-\w*i|--in-place)|find .*-(delete|exec|ok|fprint)|"
    r"git( -\S+( \S+)?)* (checkout|switch|restore|stash|merge|reset|pull|rebase|revert|cherry-pick|clean|rm|mv|apply|"
    r"am|clone|bisect|worktree|archive|bundle|commit .*hook))\b|(^|[\s;&|(])\.{0,2}/|(^|[;&|])\s*\.\s|`"
)
_HARMLESS_PYTHON = re.compile(r"python3? (--?[vV]\w*|-c (?!.*(open|write|Path|os\.|shutil|subprocess)).*)$", re.DOTALL)


def changes_files(text: str) -> bool:
    """Whether a command line may change files."""
    text = _TO_NOWHERE.sub("", text)
    return _CHANGES.search(text) is not None and not _HARMLESS_PYTHON.match(text)


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command line, without its quotes."""

    text: str
    plain: bool
    """Nothing in it is replaced by the shell: no variable, no pattern, no command."""
    expands: bool
    """Variables are the only thing that is replaced."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where a command reads from or writes to."""

    operator: str
    target: str


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()
    before: str = ""
    """The operator before it; `|` where it reads what the one before wrote."""

    @property
    def text(self) -> str:
        """Its words and redirects, as one text."""
        redirects = [f"{each.operator}{each.target}" for each in self.redirects]
        return " ".join([*(word.text for word in self.words), *redirects])

    @property
    def program(self) -> str:
        """Its first word."""
        return self.words[0].text if self.words else ""

    @property
    def arguments(self) -> list[str]:
        """Its words after the first, options left out."""
        return [word.text for word in self.words[1:] if not word.text.startswith("-")]

    @property
    def written(self) -> Redirect | None:
        """Where its output goes, if to a file."""
        return next((each for each in self.redirects if each.operator.lstrip("1").startswith((">", "&>"))), None)


def parse(line: str) -> list[Command] | None:
    """The commands of a line, in order; None for what is more than simple commands (blocks, functions, open quotes)."""
    commands: list[Command] = []
    words: list[Word] = []
    redirects: list[Redirect] = []
    before, waiting, at = "", "", 0
    line = line.rstrip()
    while at < len(line):
        token = _TOKEN.match(line, at)
        if token is None or token.end() == at:
            return None
        at = token.end()
        if token["comment"] is not None:
            continue
        if token["word"] is not None:
            word = _word(token["word"])
            if waiting:
                redirects.append(Redirect(waiting, word.text))
                waiting = ""
            else:
                words.append(word)
            continue
        operator = token["operator"]
        if waiting:
            return None
        if "&" in operator and operator[-1:].isdigit():
            redirects.append(Redirect(operator, ""))
        elif operator[-1] in "<>|-" and operator not in ("|", "||"):
            waiting = operator
        else:
            if not words and not redirects and operator != "\n":
                return None
            if words or redirects:
                commands.append(Command(tuple(words), tuple(redirects), before))
            words, redirects, before = [], [], operator
    if waiting:
        return None
    if words or redirects:
        commands.append(Command(tuple(words), tuple(redirects), before))
    if any(command.program in _BLOCKS for command in commands):
        return None
    return commands


def _word(token: str) -> Word:
    text, plain, expands = "", True, True
    for single, double, escaped, bare in _PIECE.findall(token):
        if double:
            plain &= not re.search(r"[$`]", double)
            expands &= "`" not in double and "$(" not in double
            text += re.sub(r"\\([$`\"\\])", r"\1", double)
        elif bare:
            plain &= not re.search(r"[$`*?\[{~!]", bare)
            expands &= not re.search(r"[`*?\[~!]|\$\(|(?<!\$)\{", bare)
            text += bare
        else:
            text += single or escaped
    return Word(text, plain, expands)


# What a session leaves.


@dataclass(frozen=True, slots=True)
class File:
    """A file that is known."""

    turn: int
    """When it was written; 0 in the initial state."""
    content: str | None = None
    """None: it is there, and what it holds is not known."""
    shown: bool = False
    """A turn showed what it holds, and did not write it."""


@dataclass
class Shell:
    """What is known of a session before a turn."""

    home: str
    files: dict[str, File] = field(default_factory=dict)
    """By absolute path."""
    variables: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Value, and the turn that set it."""
    stale: int = -1
    """The last turn that may have changed files in ways that are not followed."""
    linked: set[str] = field(default_factory=set)
    """Names that may stand for a file of another name."""

    def content(self, path: str) -> str | None:
        """What a file holds now; None where it is not known."""
        known = self.files.get(path)
        return None if known is None or known.turn <= self.stale or path in self.linked else known.content

    def path(self, text: str, folder: str) -> str:
        """A path as it was typed in `folder`, made absolute."""
        if text == "~" or text.startswith("~/"):
            text = self.home + text[1:]
        return posixpath.normpath(posixpath.join(folder, text))

    def folders(self) -> set[str]:
        """The folders that the known files lie in."""
        found = set[str]()
        for path in self.files:
            while (path := posixpath.dirname(path)) not in found and path != "/":
                found.add(path)
        return found

    def expand(self, word: Word) -> str | None:
        """The text of a word with the variables that are known; None where it cannot be told."""
        if word.plain:
            return word.text
        names = [one or two for one, two in _VARIABLE.findall(word.text)]
        if not word.expands or any(name not in self.variables for name in names):
            return None
        return _VARIABLE.sub(lambda match: self.variables[match[1] or match[2]][0], word.text)

    def follow(self, typed: str, folder: str, printed: Sequence[str], turn: int) -> None:
        """Take note of a turn: what was typed at a prompt in `folder`, and the rows that were printed."""
        head, documents = _here_documents(typed)
        commands = parse(head)
        if commands is None or any(row.startswith(("bash: ", "-bash: ")) for row in printed):
            if changes_files(head):
                self.stale = turn
            return
        output: str | None = ""
        for number, command in enumerate(commands):
            before = commands[number - 1].program if number else ""
            if command.before == "||" or (command.before == "&&" and before not in _SUCCEED):
                # Whether it ran cannot be told.
                if any(changes_files(each.text) for each in commands[number:]):
                    self.stale = turn
                return
            output = self.output(command, output if command.before == "|" else "", folder, documents)
            alone = len(commands) == 1 and not command.redirects
            self._effect(command, output, folder, printed, turn, alone=alone)
            if command.program == "cd":
                if len(command.words) > 2 or not all(word.plain or word.text == "~" for word in command.words):
                    self.stale = turn
                    return
                folder = self.path(command.words[1].text, folder) if len(command.words) > 1 else self.home

    def output(self, command: Command, read: str | None, folder: str, documents: list[str]) -> str | None:
        """What a simple command writes, where that follows from the line; `read` is what it reads."""
        words = [self.expand(word) for word in command.words[1:]]
        if any(word is None for word in words):
            return None
        arguments = [word for word in words if word is not None]
        if command.program == "echo":
            return None if arguments[:1] and arguments[0].startswith("-") else " ".join(arguments) + "\n"
        if command.program == "printf" and arguments:
            return formatted(arguments[0], arguments[1:])
        if command.program == "cat" and not arguments and documents:
            return documents.pop(0)
        if command.program == "tee":
            return read
        if command.program == "cat" and len(arguments) == 1 and not arguments[0].startswith("-"):
            return self.content(self.path(arguments[0], folder))
        return None

    def _effect(
        self, command: Command, output: str | None, folder: str, printed: Sequence[str], turn: int, *, alone: bool
    ) -> None:
        """What a command leaves."""
        if target := command.written:
            if target.target != "/dev/null" and not target.operator.startswith("2"):
                self._write(self.path(target.target, folder), output, turn, more=">>" in target.operator)
            if command.program != "tee":
                return
        names = [self.path(name, folder) for name in command.arguments]
        options = {word.text for word in command.words[1:] if word.text.startswith("-")}
        if any(row.startswith(f"{command.program}: ") for row in printed):
            self.stale = turn if changes_files(command.text) else self.stale
            return
        if any(not word.plain for word in command.words[1:]) and changes_files(command.text):
            self.stale = turn
            return
        match command.program:
            case "touch":
                for name in names:
                    self.files.setdefault(name, File(turn))
            case "mkdir":
                for name in names:
                    self.files.setdefault(f"{name}/", File(turn))
            case "rm" | "rmdir" | "unlink":
                for name in names:
                    self._remove(name)
            case "cp" | "mv" if len(names) == 2 and options <= {"-v", "-p", "-f"}:
                self._copy(names[0], names[1], turn, moved=command.program == "mv")
            case "tee" if names:
                self._write(names[0], output, turn, more="-a" in options)
            case "export" | "declare" | "local" | "":
                self._assign(command.words[1:], turn)
            case "unset":
                for name in command.arguments:
                    self.variables.pop(name, None)
            case "ln":
                self.linked.update(names)
            case "sed" | "sort" | "truncate" | "gzip" | "gunzip" | "dd" if changes_files(command.text):
                for name in names:
                    if name in self.files:
                        self.files[name] = File(turn)
            case "cat" if alone and len(names) == 1 and not options and printed:
                content = "\n".join(printed) + "\n"
                if self.content(names[0]) != content:
                    self.files[names[0]] = File(turn, content, shown=True)
            case program if "=" in program:
                self._assign(command.words, turn)
            case _ if changes_files(command.text):
                self.stale = turn

    def _write(self, path: str, output: str | None, turn: int, *, more: bool) -> None:
        if more and path in self.files:
            old = self.content(path)
            output = old + output if old is not None and output is not None else None
        self.files[path] = File(turn, output)

    def _remove(self, path: str) -> None:
        for name in [name for name in self.files if name in (path, f"{path}/") or name.startswith(f"{path}/")]:
            del self.files[name]

    def _copy(self, source: str, target: str, turn: int, *, moved: bool) -> None:
        known = self.files.get(source)
        content = self.content(source)
        if f"{target}/" in self.files or target in self.folders():
            target = posixpath.join(target, posixpath.basename(source))
        if known is not None:
            self.files[target] = File(turn, content)
        if moved:
            self._remove(source)

    def _assign(self, words: Sequence[Word], turn: int) -> None:
        for word in words:
            match = _ASSIGNMENT.fullmatch(word.text)
            value = self.expand(word)
            if match and value is not None:
                self.variables[match[1]] = (value.partition("=")[2], turn)


def _here_documents(typed: str) -> tuple[str, list[str]]:
    """What was typed without its here-documents, and those whose words stand as they are."""
    lines = typed.rstrip("\n").split("\n")
    kept: list[str] = []
    documents: list[str] = []
    while lines:
        line = lines.pop(0)
        kept.append(line)
        match = re.search(r"<<-?\s*(['\"]?)(\w+)\1", line)
        if match and match[2] in lines:
            end = lines.index(match[2])
            body = "".join(f"{each}\n" for each in lines[:end])
            del lines[: end + 1]
            if match[1] or not re.search(r"[$`\\]", body):
                documents.append(body)
    return "\n".join(kept), documents


_FORM = re.compile(r"(?:[^\\%]|\\[nt\\\"r]|%[sd%])*", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "r": "\r"}


def formatted(form: str, arguments: Sequence[str]) -> str | None:
    """What `printf` makes of plain texts and whole numbers; None for any other form."""
    if not _FORM.fullmatch(form):
        return None
    waiting = iter(arguments)
    taken = list(_fill(form, waiting))
    while len(taken) and (rest := list(waiting)) and re.search(r"%[sd]", form.replace("%%", "")):
        waiting = iter(rest)
        taken += _fill(form, waiting)
    return "".join(taken)


def _fill(form: str, arguments: Iterator[str]) -> Iterator[str]:
    for text, escaped, directive in re.findall(r"([^\\%]+)|\\(.)|%(.)", form):
        if directive == "%":
            yield "%"
        elif directive:
            yield next(arguments, "" if directive == "s" else "0")
        else:
            yield text or _ESCAPES[escaped]


__all__ = ["Command", "File", "Redirect", "Shell", "Word", "changes_files", "formatted", "parse"]
