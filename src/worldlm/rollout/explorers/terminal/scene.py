"""The values of which the tables consist, and the hand that picks arguments."""

import posixpath
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from worldlm.rollout.explorers.terminal.known import TEXTS, Known
from worldlm.rollout.explorers.terminal.words import CONTENTS, NOUNS, noun, python_script, shell_script

Effect = Callable[[Known], object]
Need = Callable[[Known], bool]
Keys = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Move:
    """What is typed, and what it changes if nothing goes wrong."""

    text: str = ""
    """A command line (or several), without the last Return."""
    effects: tuple[Effect, ...] = ()
    opens: str | None = None
    """The program that has the terminal afterwards, where it is not the shell."""
    keys: Keys | None = None
    """Keystrokes with the seconds to wait, in place of `text` and Return."""


Make = Callable[["Scene"], Move | str]


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of command: a row of a table."""

    kind: str
    """Its group: files, text, git, …"""
    name: str
    """Its label."""
    make: Make
    """Generates one, with its arguments."""
    needs: tuple[Need, ...] = ()
    """What must be known to hold."""
    changes: bool = False
    """Whether it is meant to change the state of the machine, or of the shell."""
    odd: tuple[Make, ...] = ()
    """Ways to get it wrong beyond the slips that all commands share."""
    program: str | None = None
    """The program into which it is typed; None: the shell."""
    opens: str | None = None
    """The program that it may leave in the terminal."""
    always_odd: bool = False
    """Whether the whole kind is wrong or odd on purpose."""
    seconds: float = 2.0
    """How long to wait at most. (A prompt ends the waiting at once.)"""

    def fits(self, known: Known) -> bool:
        """Whether it can be typed now."""
        return known.program == self.program and all(need(known) for need in self.needs)


# Needs.


def has(*kinds: str, count: int = 1) -> Need:
    """Files of these kinds are known."""
    return lambda k: len(k.paths(*kinds)) >= count


def has_here(*kinds: str, count: int = 1) -> Need:
    """Files of these kinds are known in the working folder."""
    return lambda k: len(k.here(*kinds)) >= count


def owns(*kinds: str, count: int = 1) -> Need:
    """Files of these kinds are known that can be changed."""
    return lambda k: sum(k.can_write(path) for path in k.paths(*(kinds or TEXTS))) >= count


def writable(k: Known) -> bool:
    """Files can be made in the working folder."""
    return k.can_write(k.cwd)


def subfolder(k: Known) -> bool:
    """There is a folder in the working folder."""
    return any(posixpath.dirname(path) == k.cwd for path in k.folders)


class Scene:
    """Random numbers and the known state: all that a generator of commands may use."""

    def __init__(self, random: Random, known: Known):
        self.r = random
        self.k = known

    def n(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return self.r.randint(low, high)

    def pick(self, *options: str) -> str:
        """One of these."""
        return self.r.choice(options)

    def chance(self, share: float) -> bool:
        """True in `share` of the cases."""
        return self.r.random() < share

    def noun(self) -> str:
        """Some noun."""
        return noun(self.r)

    # Names.

    def show(self, path: str) -> str:
        """A path as a person here would write it."""
        cwd = self.k.cwd
        if path == cwd:
            return "."
        if path.startswith(cwd.rstrip("/") + "/"):
            return shlex.quote(posixpath.relpath(path, cwd))
        if path.startswith(posixpath.dirname(cwd) + "/") and posixpath.dirname(cwd) != "/":
            return shlex.quote(posixpath.relpath(path, cwd))
        if path.startswith(self.k.home + "/"):
            return "~" + shlex.quote(path[len(self.k.home) :])
        return "~" if path == self.k.home else shlex.quote(path)

    def prefer_recent(self, options: Sequence[str]) -> str:
        """One of the paths: rather one in the working folder, and rather one of the last."""
        here = [path for path in options if path.startswith(self.k.cwd + "/")]
        if here and self.chance(0.85):
            options = here
        return options[-1] if self.chance(0.5) else self.r.choice(options[-3:] if self.chance(0.6) else options)

    def path(self, *kinds: str) -> str:
        """A known file of these kinds, absolute."""
        return self.prefer_recent(self.k.paths(*(kinds or TEXTS)))

    def file(self, *kinds: str) -> str:
        """A known file of these kinds, as it is written here."""
        return self.show(self.path(*kinds))

    def files(self, count: int, *kinds: str) -> list[str]:
        """Different known files, as they are written here."""
        paths = self.k.paths(*(kinds or TEXTS))[-8:]
        return [self.show(path) for path in self.r.sample(paths, min(count, len(paths)))]

    def own(self, *kinds: str) -> str:
        """A file that can be changed, absolute. (`needs` says that there is one.)"""
        return self.prefer_recent([path for path in self.k.paths(*(kinds or TEXTS)) if self.k.can_write(path)])

    def folder_path(self) -> str:
        """A known folder, absolute."""
        return self.prefer_recent(list(self.k.folders))

    def subfolder(self) -> str:
        """A folder in the working folder, absolute."""
        return self.r.choice([path for path in self.k.folders if posixpath.dirname(path) == self.k.cwd][-4:])

    def new(self, kind: str, folder: str | None = None) -> str:
        """A path where nothing is known to be, in the working folder, absolute."""
        suffix = {"list": "txt", "num": "txt", "tgz": "tar.gz", "dir": ""}.get(kind, kind)
        if kind == "ini":
            suffix = self.pick("ini", "conf", "cfg")
        while True:
            one, two = self.noun(), self.noun()
            name = self.pick(one, one, one, f"{one}_{two}", f"{one}-{self.n(1, 9)}", f"{two}{self.n(10, 99)}")
            path = posixpath.join(folder or self.k.cwd, f"{name}.{suffix}" if suffix else name)
            if path not in self.k.files and path not in self.k.folders:
                return path

    def absent(self, suffix: str = "txt") -> str:
        """The name of a file that is not there."""
        if self.k.paths(*TEXTS) and self.chance(0.5):
            return slip(self.r, self.file())
        return f"{self.pick('missing', 'old', 'no', 'tmp')}_{self.noun()}.{suffix}"

    # Contents.

    def content(self, kind: str) -> str:
        """New content of this kind."""
        return CONTENTS[kind](self.r)

    def text(self, path: str) -> str:
        """What the file holds, as far as it is known."""
        return self.k.files[path].content or ""

    def word_in(self, path: str) -> str:
        """A word that stands in the file (when its content is known), and now and then one that does not."""
        found = re.findall(r"[A-Za-z]{3,12}", self.text(path))
        return self.r.choice(found) if found and self.chance(0.85) else self.noun()

    def program(self, kind: str) -> tuple[str, str | None]:
        """A new program in `sh` or `py`, with what repairs it."""
        return shell_script(self.r) if kind == "sh" else python_script(self.r)

    def column(self) -> int:
        """The number of a column of a CSV file."""
        return self.n(1, 4)


def heredoc(path: str, content: str, mark: str = "EOF") -> str:
    """The lines that write `content` to a file, for a shell."""
    return f"cat > {path} <<'{mark}'\n{content}{mark}"


def slip(r: Random, word: str) -> str:
    """The word with a slip of the finger: two letters swapped, one lost or one doubled."""
    places = [i for i in range(len(word) - 1) if word[i].isalpha() and word[i + 1].isalpha() and word[i] != word[i + 1]]
    if not places:
        return word + r.choice(NOUNS)[0]
    i = r.choice(places)
    return r.choice(
        (word[:i] + word[i + 1] + word[i] + word[i + 2 :], word[:i] + word[i + 1 :], word[: i + 1] + word[i:])
    )
