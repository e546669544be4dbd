"""SWE: a seeded coding agent. It looks round, reads, changes, tests, mends, commits, and errs now and then.

A chain is one piece of work: what it does next depends on what came back (an old text that is not unique is widened, a
test that fails is mended, a merge that conflicts is resolved). The agent knows the repository only from what its tools
told it.
"""

import re
from collections.abc import Callable, Generator, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

from worldlm.core.types import Observation, ToolCall, Turn, World
from worldlm.domains.swe import SWE, parse_shell_result, repository_state, resolve
from worldlm.rollout.explorers.explorer import Act, Behaviour

T = TypeVar("T")
Work = Generator[Act, Turn, T]

CHAINS = (14, 26)
"""Pieces of work in an episode, at least and at most."""
TEST_SECONDS = 30
"""For tests of code that was just broken, and may not end."""

NOUNS = (
    "batch",
    "cache",
    "chunk",
    "entry",
    "field",
    "group",
    "index",
    "label",
    "marker",
    "node",
    "offset",
    "page",
    "parcel",
    "queue",
    "record",
    "scale",
    "score",
    "slot",
    "span",
    "table",
    "token",
    "total",
    "window",
    "zone",
)
VERBS = ("add", "check", "collect", "count", "drop", "fold", "join", "limit", "merge", "pick", "scan", "shift", "split")
TASKS = (
    "read the code of {symbol}",
    "reproduce the failure",
    "write a test for {symbol}",
    "handle the empty case",
    "rename {symbol}",
    "update the changelog",
    "run the whole suite",
    "tidy {module}",
    "check the edge cases",
)
MESSAGES = ("Fix {symbol}", "Add {noun} helper", "Tidy {module}", "Cover {symbol} with a test", "Note the {noun}")

# What reads the repository through the shell: a family, and ways to write it.
SHELL: dict[str, tuple[str, ...]] = {
    "ls": ("ls", "ls -a {folder}", "ls -1 {folder} | head -n {n}", "ls {folder}/*.py"),
    "pwd": ("pwd", "pwd && ls | wc -l"),
    "cat": ("cat {small}", "cat -n {file} | sed -n '{line},{more}p'", "cat {file} | wc -c"),
    "head": ("head -n {n} {file}", "head -c {bytes} {file}", "head -n 1 {file} {other}"),
    "tail": ("tail -n {n} {file}", "tail -n +{line} {file} | head -n {n}"),
    "sed-print": ("sed -n '{line},{more}p' {file}", "sed -n '/^def {symbol}/,/^def /p' {file} | head -n {n}"),
    "sed-rewrite": ("sed 's/{symbol}/{noun}_{symbol}/g' {file} | grep -n {noun}_ | head -n {n}",),
    "wc": ("wc -l {file}", "wc -l {folder}/*.py", "wc -w {small}", "find . -name '*.py' | xargs wc -l | tail -n 1"),
    "grep": ("grep -n '{symbol}' {file}", "grep -rn 'import {word}' --include='*.py' . | head -n {n}"),
    "grep-count": ("grep -c 'def ' {file}", "grep -rc 'return' {folder} | grep -v ':0' | head -n {n}"),
    "grep-files": ("grep -rl '{symbol}' --include='*.py' .", "grep -rL 'import' --include='*.py' {folder}"),
    "grep-context": ("grep -n -A {few} 'def {symbol}' {file}", "grep -n -B {few} 'raise ' {file} | head -n {n}"),
    "find": ("find . -name '*{stem}*' -not -path './.git/*'", "find {folder} -maxdepth 1 -type f | sort"),
    "find-size": (
        "find . -name '*.py' -size +{few}k | sort",
        "find . -type d -not -path './.git*' | sort | head -n {n}",
    ),
    "sort-uniq": ("grep -rhoE '^(import|from) \\w+' --include='*.py' . | sort | uniq -c | sort -rn | head -n {n}",),
    "awk": ("awk 'length > {width}' {file} | head -n {few}", "awk '/^def /{{n++}} END {{print n+0}}' {file}"),
    "cut-tr": ("grep -h '^def ' {file} | cut -d'(' -f1 | tr a-z A-Z | head -n {n}",),
    "xargs": ("ls {folder}/*.py | xargs -n 1 basename | sort | head -n {n}", "echo {symbol} {noun} | xargs -n 1 echo"),
    "diff": ("diff {file} {other} | head -n {n}", "diff -q {file} {other}", "diff <(sort {file}) {file} | wc -l"),
    "stat": ("stat -c '%n %s %A' {file}", "test -x {file} && echo yes || echo no", "du -b {file}"),
    "checksum": ("md5sum {file}", "sha256sum {small}", "cksum {file} {other}"),
    "loop": ('for f in {folder}/*.py; do echo "$f $(wc -l <"$f")"; done | head -n {n}',),
    "arithmetic": ("echo $(({n} * {few}))", "seq {few} {n} | paste -sd+ | bc", "printf '%05d\\n' {n}"),
    "variables": ('X={symbol}; echo "${{X^^}} ${{#X}}"', "echo ${{HOME}} ${{USER}}", "export A={n}; bash -c 'echo $A'"),
    "which": ("which python git", "command -v pytest || echo no", "type ls"),
    "git-status": ("git status", "git status --short", "git status -sb"),
    "git-log": ("git log --oneline", "git log -n {few} --stat", "git log --format='%an %ad %s' --date=iso"),
    "git-show": ("git show --stat", "git show HEAD:{file} | head -n {n}", "git show -s --format=%B"),
    "git-diff": ("git diff", "git diff --stat", "git diff --name-only", "git diff HEAD -- {file}"),
    "git-blame": ("git blame -L {line},+{few} {file}", "git blame -s -L {line},+{few} {file}"),
    "git-grep": ("git grep -n '{symbol}' | head -n {n}", "git grep -c '{word}'", "git grep -l {symbol} -- '*.py'"),
    "git-files": ("git ls-files {folder}", "git ls-files | wc -l", "git ls-files '*.md' '*.toml'"),
    "git-refs": ("git branch -a", "git rev-parse --abbrev-ref HEAD", "git rev-parse --short HEAD", "git tag"),
    "git-config": ("git config user.name", "git config --list --local", "git remote -v"),
    "python-import": (
        "python -c 'import {package}; print({package}.__name__)'",
        "python -c 'import {package} as p; print(len(dir(p)))'",
    ),
    "python-inspect": (
        "python -c 'import ast; print(len(ast.parse(open(\"{file}\").read()).body))'",
        "python -c 'import ast; print(ast.get_docstring(ast.parse(open(\"{file}\").read())))'",
    ),
    "python-eval": ("python -c 'print(sum(range({n})))'", "python -c 'print(sorted(\"{symbol}\"))'"),
    "python-text": (
        "python -c 'print(len(open(\"{file}\").read().split()))'",
        "python -m tokenize {file} | head -n {n}",
    ),
    "python-version": ("python --version", "python -c 'import sys; print(sys.version_info[:2])'"),
    "compile": ("python -m py_compile {file} && echo fine", "python -m compileall -q {folder} && echo fine"),
    "collect": ("python -m pytest --collect-only -q {test_file} | head -n {n}",),
    "toml": ('python -c \'import tomllib; print(sorted(tomllib.load(open("pyproject.toml", "rb"))))\'',),
    "archive": (
        "git archive HEAD {folder} | tar -t | head -n {n}",
        "tar -czf /tmp/{noun}.tgz {folder} && tar -tzf /tmp/{noun}.tgz | wc -l",
    ),
}

# One operator or word of a line for another: most break something.
MUTATIONS = (
    (" == ", " != "),
    (" != ", " == "),
    (" < ", " <= "),
    (" > ", " >= "),
    (" <= ", " < "),
    (" >= ", " > "),
    (" + ", " - "),
    (" - ", " + "),
    (" * ", " + "),
    (" and ", " or "),
    (" or ", " and "),
    ("True", "False"),
    ("False", "True"),
    (" is None", " is not None"),
    (" is not None", " is None"),
    (" not in ", " in "),
    ("if not ", "if "),
    (" 1", " 2"),
    (" 0", " 1"),
    ("[0]", "[-1]"),
    ("return ", "return not "),
    ("self.", "self._"),
)


# One process whatever the time that the server takes, so that process ids do not depend on it.
ASK_WHEN_THERE = """\
python - <<'END'
import time, urllib.request
for _ in range(100):
    try:
        print(urllib.request.urlopen("http://127.0.0.1:{port}/").status)
        break
    except OSError:
        time.sleep(0.1)
END"""


class Snippet(NamedTuple):
    """A function with a mistake to make in it, and what it must give."""

    code: str
    right: str
    wrong: str
    cases: tuple[tuple[str, str], ...]


SNIPPETS = (
    Snippet(
        "return max({a}, min(value, {b}))",
        "min(value, {b})",
        "min(value, {a})",
        (("{b} + 5", "{b}"), ("{a} - 1", "{a}")),
    ),
    Snippet(
        "return [value[i : i + {a}] for i in range(0, len(value), {a})]",
        "i + {a}]",
        "i + 1]",
        (("list(range({b}))", "[list(range({b}))[i : i + {a}] for i in range(0, {b}, {a})]"), ("[]", "[]")),
    ),
    Snippet("return sum(x * {a} for x in value)", "x * {a}", "x + {a}", (("[1, 2, 3]", "6 * {a}"), ("[]", "0"))),
    Snippet(
        "return sorted(set(value), reverse=True)", ", reverse=True", "", (("[3, 1, 3, 2]", "[3, 2, 1]"), ("''", "[]"))
    ),
    Snippet(
        "return ' '.join(word.capitalize() for word in value.split())",
        "capitalize",
        "upper",
        (("'{noun} of {verb}'", "'{noun} of {verb}'.title()"), ("''", "''")),
    ),
    Snippet(
        "return {{key: len(key) for key in value if key}}",
        " if key",
        "",
        (("['{noun}', '']", "{{'{noun}': len('{noun}')}}"), ("[]", "{{}}")),
    ),
    Snippet(
        "return value[-{a} :] + value[: -{a}]",
        "value[: -{a}]",
        "value[:{a}]",
        (("list(range({b}))", "list(range({b} - {a}, {b})) + list(range({b} - {a}))"),),
    ),
    Snippet(
        "return None if not value else sum(value) / len(value)",
        "None if not value else ",
        "",
        (("[1, 2, 3]", "2"), ("[]", "None")),
    ),
    Snippet(
        "return value % {a} == 0 and value != 0",
        " and value != 0",
        "",
        (("{a} * {b}", "True"), ("0", "False"), ("{a} + 1", "False")),
    ),
    Snippet(
        "return value.strip().lower().replace(' ', '-')",
        ".lower()",
        "",
        (("' {noun} {verb} '.upper()", "'{noun}-{verb}'"), ("'  '", "''")),
    ),
    Snippet(
        "return [x for pair in zip(value, value[1:]) for x in [pair[1] - pair[0]]]",
        "pair[1] - pair[0]",
        "pair[0] - pair[1]",
        (("[1, {a}, {b}]", "[{a} - 1, {b} - {a}]"), ("[7]", "[]")),
    ),
    Snippet(
        "return {{v: k for k, v in value.items()}}",
        "v: k for",
        "k: v for",
        (("{{'{noun}': {a}}}", "{{{a}: '{noun}'}}"), ("{{}}", "{{}}")),
    ),
)


SCRIPTS = {
    "sh": """\
#!/bin/bash
set -eu
count=0
for name in "$@"; do
  test -e "$name" || { echo "no $name" >&2; exit 2; }
  count=$((count + 1))
done
echo "$count found"
""",
    "py": """\
#!/usr/bin/env python
import sys
from pathlib import Path

for name in sys.argv[1:]:
    print(name, len(Path(name).read_text().splitlines()))
""",
}


class Match(NamedTuple):
    """A row of a search."""

    file: str
    line: int
    text: str


def matches(text: str) -> list[Match]:
    """The rows of a search's result."""
    rows = (re.fullmatch(r"(.+?):(\d+): (.*)", row) for row in text.split("\n")[1:])
    return [Match(row[1], int(row[2]), row[3]) for row in rows if row]


class Agent:
    """What the agent knows, and short ways to act."""

    def __init__(self, random: Random, root: str):
        self.random = random
        self.root = root
        self.files: list[str] = []
        """Python files of the package, relative to the repository."""
        self.defs: list[Match] = []
        self.tests: list[Match] = []
        self.texts: list[str] = []
        """Other files at the top."""
        self.todos: list[dict[str, str]] = []
        self.made = 0
        self.shown = ""
        """The last file that was read, and its lines."""

    # Acting.

    def use(self, label: str, tool: str, **arguments: Any) -> Work[str]:
        """Call a tool; the text of its result."""
        turn = yield Act(SWE.format_action(ToolCall(name=tool, arguments=arguments)), label)
        return turn.observation.text if turn.observation else ""

    def run(self, label: str, command: str, **arguments: Any) -> Work[str]:
        """Run a command; what it printed, and its exit code last."""
        if self.random.random() < 0.2:
            arguments.setdefault("description", label.replace("/odd", "").replace("-", " "))
        text = yield from self.use(label, "run_shell_command", command=command, **arguments)
        try:
            result = parse_shell_result(text)
        except ValueError:
            return text
        return f"{result.stdout}\n{result.stderr}\n{result.exit_code}"

    def edit(self, label: str, path: str, old: str, new: str, **arguments: Any) -> Work[str]:
        """Edit a file."""
        return (yield from self.use(label, "edit", file_path=path, old_string=old, new_string=new, **arguments))

    def read(self, label: str, path: str, **arguments: int) -> Work[list[str]]:
        """Read a file; its lines as shown."""
        text = yield from self.use(label, "read_file", file_path=path, **arguments)
        lines = text.split("\n")
        if lines[0].startswith(("Error: ", "(empty file)")):
            return []
        return lines[1:] if re.match(r"\[lines \d+-\d+ of \d+\]$", lines[0]) else lines

    # Choosing.

    def file(self) -> str:
        """A Python file."""
        return self.random.choice(self.files or ["setup.py"])

    def text(self) -> str:
        """A small file of another kind."""
        return self.random.choice(self.texts or ["README.md"])

    def definition(self) -> Match:
        """A function of the package."""
        return self.random.choice(self.defs or [Match(self.file(), 1, "def main():")])

    def name(self) -> str:
        """A name for something new."""
        return f"{self.random.choice(VERBS)}_{self.random.choice(NOUNS)}"

    def path(self, relative: str) -> str:
        """A path as agents write it: mostly absolute."""
        return relative if self.random.random() < 0.4 else f"{self.root}/{relative}"

    def fill(self, template: str) -> str:
        """A template with what is known put in."""
        random, definition = self.random, self.definition()
        line = random.randint(1, 60)
        file = definition.file if random.random() < 0.5 else self.file()
        package = re.sub(r"^src/", "", file).split("/")[0].removesuffix(".py")
        return template.format(
            file=file,
            other=self.file(),
            small=self.text(),
            folder=file.rpartition("/")[0] or ".",
            stem=file.rpartition("/")[2].removesuffix(".py"),
            module=file.rpartition("/")[2],
            package=package,
            symbol=symbol(definition.text),
            test_file=random.choice(self.tests).file if self.tests else "tests",
            word=random.choice(("re", "os", "sys", "typing", "collections", "functools", "itertools", "pytest")),
            noun=random.choice(NOUNS),
            verb=random.choice(VERBS),
            line=line,
            more=line + random.randint(3, 25),
            n=random.randint(3, 40),
            few=random.randint(1, 8),
            bytes=random.randint(20, 400),
            width=random.randint(79, 110),
        )


def symbol(text: str) -> str:
    """The name that a line defines."""
    found = re.search(r"(?:def|class)\s+(\w+)", text)
    return found[1] if found else "main"


# Pieces of work.


def look_round(agent: Agent) -> Work[None]:
    """Find out what there is. Everything later builds on it."""
    random = agent.random
    text = yield from agent.use("list", "list_directory", path=random.choice([".", agent.root]))
    names = text.split("\n")[1:]
    agent.texts = [name for name in names if "." in name and not name.endswith(("/", ".py", ".lock"))]
    text = yield from agent.use("glob", "glob", pattern="**/*.py")
    paths = [path.removeprefix(agent.root + "/") for path in text.split("\n")[1:]]
    agent.files = [path for path in paths if not re.search(r"(^|/)(tests?|testing|docs|examples|benchmarks?)/", path)]
    if random.random() < 0.5 and agent.texts:
        yield from agent.read("read-part", agent.path(agent.text()), limit=random.randint(10, 60))
    folders = [folder for folder in ("src", "tests", "test", "testing") if f"{folder}/" in names]
    text = yield from agent.use("search", "search_file_content", pattern=r"^\s*def test_\w+", include="test*.py")
    agent.tests = matches(text)
    source = {"path": "src"} if "src" in folders else {}
    text = yield from agent.use("search", "search_file_content", pattern=r"^def [a-z]\w+\(", include="*.py", **source)
    found = [match._replace(file=f"src/{match.file}") if source else match for match in matches(text)]
    agent.defs = [match for match in found if match.file in agent.files]


def survey(agent: Agent) -> Work[None]:
    """Look at a few things through the shell."""
    for _ in range(agent.random.randint(2, 4)):
        label = agent.random.choice(list(SHELL))
        yield from agent.run(label, agent.fill(agent.random.choice(SHELL[label])))


def study(agent: Agent) -> Work[None]:
    """Find a function, read it, and see who uses it."""
    random, definition = agent.random, agent.definition()
    name = symbol(definition.text)
    yield from agent.use("search", "search_file_content", pattern=rf"\b{name}\b", include="*.py")
    yield from agent.read(
        "read-part", agent.path(definition.file), offset=max(0, definition.line - random.randint(1, 4)),
        limit=random.randint(8, 50),
    )  # fmt: skip
    if random.random() < 0.5:
        stem = definition.file.rpartition("/")[2].removesuffix(".py")
        yield from agent.use("glob", "glob", pattern=random.choice([f"**/*{stem}*", f"**/test_{stem}*.py"]))
    if random.random() < 0.4:
        folder = definition.file.rpartition("/")[0] or "."
        yield from agent.use("search", "search_file_content", pattern=rf"{name}\(", path=folder)
    if random.random() < 0.3:
        yield from agent.read("read", agent.path(agent.text()))


def plan(agent: Agent) -> Work[None]:
    """Write or go on with the to-do list."""
    random = agent.random
    if not agent.todos or random.random() < 0.3:
        chosen = random.sample(TASKS, random.randint(2, 5))
        agent.todos = [{"content": agent.fill(task), "status": "pending"} for task in chosen]
    else:
        waiting = [item for item in agent.todos if item["status"] != "completed"]
        for item, status in zip(waiting, ("completed", "in_progress"), strict=False):
            item["status"] = status
        if not waiting:
            agent.todos = []
    yield from agent.use("todo", "todo_write", todos=[dict(item) for item in agent.todos])


def focused(agent: Agent, file: str) -> str | None:
    """A command that runs one test that may have to do with a file."""
    stem = file.rpartition("/")[2].removesuffix(".py").strip("_")
    near = [test for test in agent.tests if stem in test.file] or agent.tests
    if not near:
        return None
    test = agent.random.choice(near)
    name = symbol(test.text)
    forms = [f"{test.file} -k {name}", f"{test.file} -k {name} --tb=short", f"{test.file} -k {name} -x --tb=line"]
    if not test.text.startswith(" "):
        forms += [f"{test.file}::{name}", f"{test.file}::{name} -vv"]
    return f"python -m pytest -q {agent.random.choice(forms)}"


def change(agent: Agent) -> Work[None]:
    """Change one line of a function, look at what that did, and mend it."""
    random, definition = agent.random, agent.definition()
    path = agent.path(definition.file)
    shown = yield from agent.read("read-part", path, offset=definition.line - 1, limit=random.randint(12, 60))
    options = [
        (number, old, new)
        for number, line in enumerate(shown)
        for old, new in MUTATIONS
        if number and old in line and not line.lstrip().startswith(("#", '"', ">>>"))
    ]
    if not options:
        return
    number, old, new = random.choice(options)
    before, after = shown[number], shown[number].replace(old, new, 1)
    text = yield from agent.edit("edit", path, before, after)
    if "occurs" in text:  # not unique: take the lines round it in
        first = max(0, number - random.randint(1, 3))
        last = number + random.randint(2, 4)
        before = "\n".join(shown[first:last])
        after = "\n".join([*shown[first:number], after, *shown[number + 1 : last]])
        text = yield from agent.edit("edit-widened", path, before, after)
    if text.startswith("Error"):
        return
    if random.random() < 0.7:
        yield from agent.run(
            "git-diff", random.choice(["git diff", "git diff --stat", f"git diff -U1 {definition.file}"])
        )
    command = focused(agent, definition.file)
    told = (yield from agent.run("test", command, timeout=TEST_SECONDS)) if command else ""
    if "failed" in told and random.random() < 0.4:
        yield from agent.run("test-last-failed", "python -m pytest -q --lf --tb=line", timeout=TEST_SECONDS)
    undo = random.random()
    if undo < 0.5:
        yield from agent.edit("edit-back", path, after, before)
    elif undo < 0.8:
        yield from agent.run(
            "git-restore", random.choice(["git checkout -- {}", "git restore {}"]).format(definition.file)
        )
    else:
        yield from stash(agent)
        yield from agent.run("git-restore", "git checkout -- .")
    if command and random.random() < 0.5:
        yield from agent.run("test", command, timeout=TEST_SECONDS)
    yield from agent.run("git-status", "git status --short")


def stash(agent: Agent) -> Work[None]:
    """Put the changes away and take them back."""
    yield from agent.run("git-stash", "git stash")
    yield from agent.run("git-status", "git status --short")
    yield from agent.run("git-stash", agent.random.choice(["git stash list", "git stash show"]))
    yield from agent.run("git-stash", "git stash pop")


def break_syntax(agent: Agent) -> Work[None]:
    """Make a slip of the pen, meet its message, and mend it."""
    random, definition = agent.random, agent.definition()
    path, line = agent.path(definition.file), definition.text
    slip = random.choice([line.replace("(", "((", 1), line.replace("def ", "dfe ", 1), line.replace("(", "[", 1)])
    text = yield from agent.edit("edit-slip/odd", path, line, slip)
    if text.startswith("Error"):
        return
    file = definition.file
    commands = {
        "compile": f"python -m py_compile {file}",
        "python-inspect": f"python -c 'import ast; ast.parse(open(\"{file}\").read())'",
    }
    label = random.choice(list(commands))
    yield from agent.run(label, commands[label])
    if random.random() < 0.3 and (command := focused(agent, file)):
        yield from agent.run("test", command + " 2>&1 | tail -n 12")
    yield from agent.read("read-part", path, offset=max(0, definition.line - 2), limit=4)
    yield from agent.edit("edit-back", path, slip, line)
    yield from agent.run(label, commands[label])


def new_module(agent: Agent) -> Work[None]:
    """Write a function and its test, see the test fail, mend the function, commit."""
    random = agent.random
    agent.made += 1
    name, snippet = agent.name(), random.choice(SNIPPETS)
    a = random.randint(2, 5)
    values = {"a": a, "b": a + random.randint(2, 9), "noun": random.choice(NOUNS), "verb": random.choice(VERBS)}
    right, wrong, code = (text.format(**values) for text in (snippet.right, snippet.wrong, snippet.code))
    module = f"{name}{agent.made}"
    folder = random.choice(["", "scratch/", f"{agent.file().rpartition('/')[0]}/"]).replace("//", "/").lstrip("/")
    path = f"{folder}{module}.py"
    planted = code.replace(right, wrong, 1)
    doc = f'    """{name.replace("_", " ").capitalize()}."""\n' if random.random() < 0.6 else ""
    yield from agent.use(
        "write", "write_file", file_path=agent.path(path), content=f"def {name}(value):\n{doc}    {planted}\n"
    )
    cases = [
        f"    assert {name}({given.format(**values)}) == {wanted.format(**values)}\n" for given, wanted in snippet.cases
    ]
    test = f"{folder}test_{module}.py"
    tests = f"from {module} import {name}\n\n\ndef test_{name}():\n{''.join(cases)}"
    if random.random() < 0.7:
        yield from agent.use("write", "write_file", file_path=agent.path(test), content=tests)
    else:
        yield from agent.edit("edit-create", agent.path(test), "", tests)
    command = f"python -m pytest -q {test}" + random.choice(["", " --tb=short", " -vv"])
    told = yield from agent.run("test-new", command)
    if "Error" in told or "failed" in told:
        if random.random() < 0.5:
            yield from agent.read("read", agent.path(path))
        if wrong and wrong not in code:
            yield from agent.edit("edit-fix", agent.path(path), wrong, right)
        else:
            yield from agent.edit("edit-fix", agent.path(path), planted, code)
        yield from agent.run("test-new", command)
    if random.random() < 0.3:
        other = agent.name()
        count = 1 + tests.count(name)
        yield from agent.edit("edit-rename", agent.path(test), name, other, expected_replacements=count - 1)
        yield from agent.edit("edit-rename", agent.path(path), name, other)
        yield from agent.run("test-new", command)
    ending = random.random()
    if ending < 0.55:
        yield from commit(agent)
        if random.random() < 0.4:
            yield from undo_commit(agent)
    elif ending < 0.8:
        yield from agent.run("remove", f"rm {path} {test}")
        yield from agent.run("git-status", "git status --short")
    else:
        yield from agent.run("git-clean", "git clean -n")
        yield from agent.run("git-clean", "git clean -fdq && git status --short")


def commit(agent: Agent) -> Work[None]:
    """Commit what there is and look at it."""
    random = agent.random
    message = agent.fill(random.choice(MESSAGES))
    if random.random() < 0.5:
        yield from agent.run("git-add", random.choice(["git add -A", "git add .", "git add -A && git status --short"]))
        yield from agent.run("git-commit", f"git commit -m '{message}'")
    else:
        yield from agent.run("git-commit", f"git add -A && git commit -qm '{message}' && git log --oneline -n 3")
    if random.random() < 0.5:
        yield from agent.run("git-show", random.choice(["git show --stat", "git show --name-status --format=%s"]))
    if random.random() < 0.2:
        yield from agent.run("git-amend", f"git commit --amend -qm '{message} again' && git log -n 1 --format='%h %s'")


def undo_commit(agent: Agent) -> Work[None]:
    """Take the last commit back, one way or another."""
    way = agent.random.choice(["git reset --soft HEAD~1", "git reset --hard HEAD~1", "git revert --no-edit HEAD"])
    yield from agent.run("git-undo", way)
    yield from agent.run("git-status", "git status --short && git log --oneline -n 3")
    if "soft" in way:
        yield from agent.run("git-undo", "git reset -q && git status --short")
        yield from agent.run("git-clean", "git clean -fdq; git checkout -q . ; git status --short")


def branch(agent: Agent) -> Work[None]:
    """Two branches that change one line: merge, meet the conflict, resolve it."""
    random = agent.random
    name, file = f"{agent.random.choice(VERBS)}-{random.choice(NOUNS)}", f"{random.choice(NOUNS)}.txt"
    conflicts = random.random() < 0.5
    first, second, third = (f"{random.choice(NOUNS)} {random.randint(1, 99)}" for _ in range(3))
    yield from agent.use("write", "write_file", file_path=agent.path(file), content=f"{first}\nend\n")
    yield from agent.run("git-commit", f"git add {file} && git commit -qm 'Add {file}' && git rev-parse --short HEAD")
    yield from agent.run("git-switch", random.choice([f"git checkout -b {name}", f"git switch -c {name}"]))
    yield from agent.edit("edit", agent.path(file), first, second)
    yield from agent.run("git-commit", f"git commit -am 'Change {file}'")
    yield from agent.run("git-switch", random.choice(["git checkout main", "git switch main"]))
    if conflicts:
        yield from agent.edit("edit", agent.path(file), first, third)
        yield from agent.run("git-commit", f"git commit -qam 'Change {file} too'")
    told = yield from agent.run("git-merge", f"git merge {name} --no-edit")
    if "CONFLICT" in told:
        yield from agent.read("read", agent.path(file))
        if random.random() < 0.3:
            yield from agent.run("git-merge", "git merge --abort && git status --short")
        else:
            yield from agent.run("git-status", "git status --short")
            content = random.choice([f"{second}\nend\n", f"{second}\n{third}\nend\n"])
            yield from agent.use("write", "write_file", file_path=agent.path(file), content=content)
            yield from agent.run("git-commit", f"git commit -qam 'Merge {name}' && git log --oneline --graph -n 5")
    yield from agent.run(
        "git-branch", random.choice([f"git branch -d {name}", f"git branch -D {name}", "git branch -vv"])
    )


def script(agent: Agent) -> Work[None]:
    """Write a script, find that it cannot be run, make it so, and give it arguments good and bad."""
    random, name = agent.random, agent.name()
    file = f"scripts/{name}.sh" if random.random() < 0.6 else f"scripts/{name}.py"
    body = SCRIPTS[file[-2:]]
    yield from agent.use("write", "write_file", file_path=agent.path(file), content=body)
    told = yield from agent.run("script", f"./{file} {agent.text()}")
    if "denied" in told:
        yield from agent.run("chmod", f"chmod +x {file} && ls -l {file} | cut -c 1-10")
        yield from agent.run("script", f"./{file} {agent.text()} {agent.file()}")
    yield from agent.run("script/odd", f"./{file} {random.choice(NOUNS)}.missing")
    if random.random() < 0.5:
        yield from commit(agent)
    else:
        yield from agent.run("remove", f"rm -r {file.partition('/')[0]} && git status --short")


def data(agent: Agent) -> Work[None]:
    """Make a table or a document, compute from it, change it, compute again."""
    random = agent.random
    rows = [(random.choice(NOUNS), random.randint(1, 500)) for _ in range(random.randint(3, 9))]
    kind = random.choice(["csv", "json"])
    file = f"/tmp/{random.choice(NOUNS)}{random.randint(1, 99)}.{kind}"
    if kind == "csv":
        content = "name,value\n" + "".join(f"{name},{value}\n" for name, value in rows)
        command = random.choice(
            [
                f"awk -F, 'NR > 1 {{s += $2}} END {{print s}}' {file}",
                f"sort -t, -k2 -n {file} | tail -n 3",
                f"cut -d, -f1 {file} | sort | uniq -c",
                f'python -c \'import csv; print(max(csv.DictReader(open("{file}")), key=lambda r: int(r["value"])))\'',
            ]
        )
        old, new = f"{rows[0][0]},{rows[0][1]}", f"{rows[0][0]},{rows[0][1] + 1000}"
    else:
        content = "{\n" + ",\n".join(f'  "{name}{n}": {value}' for n, (name, value) in enumerate(rows)) + "\n}\n"
        command = random.choice(
            [
                f"python -m json.tool --compact {file}",
                f"python -c 'import json; print(sum(json.load(open(\"{file}\")).values()))'",
                f"python -m json.tool --sort-keys {file} | head -n 4",
            ]
        )
        old, new = f'"{rows[0][0]}0": {rows[0][1]}', f'"{rows[0][0]}0": {rows[0][1] + 1000}'
    yield from agent.use("write", "write_file", file_path=file, content=content)
    yield from agent.run(f"data-{kind}", command)
    if kind == "json" and random.random() < 0.4:
        broken = content.replace(",\n", "\n", 1)
        yield from agent.use("write", "write_file", file_path=file, content=broken)
        told = yield from agent.run("data-json/odd", command)
        if "rror" in told:
            yield from agent.use("write", "write_file", file_path=file, content=content)
    yield from agent.edit("edit", file, old, new)
    yield from agent.run(f"data-{kind}", command)


def serve(agent: Agent) -> Work[None]:
    """Start a server, ask it, end it, and find it gone."""
    random, port = agent.random, agent.random.randint(8000, 8999)
    folder = agent.file().rpartition("/")[0] or "."
    command = f"exec python -m http.server {port} --bind 127.0.0.1 --directory {folder}"
    text = yield from agent.use("serve", "run_shell_command", command=command, is_background=True)
    found = re.search(r"Background PIDs: (\d+)", text)
    pid = found[1] if found else "1"
    ask = f"python -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:{port}/{{}}\").status)'"
    yield from agent.run("serve-ask", ASK_WHEN_THERE.format(port=port))
    if random.random() < 0.6:
        yield from agent.run("serve-ask/odd", ask.format(f"{random.choice(NOUNS)}.missing") + " 2>&1 | tail -n 1")
    yield from agent.run(
        "processes", random.choice([f"ps -o args= -p {pid}", "ps -eo pid,args", f"cat /proc/{pid}/comm"])
    )
    yield from agent.run("kill", random.choice([f"kill {pid}", f"kill -9 {pid}", f"kill -TERM {pid}; sleep 0.2"]))
    yield from agent.run("processes", f"sleep 0.2; kill -0 {pid}; ps -eo args | grep -c '[h]ttp.server'")


def jobs(agent: Agent) -> Work[None]:
    """Leave something running behind a command, see it, end it."""
    seconds = agent.random.randint(200, 900)
    text = yield from agent.use("background", "run_shell_command", command=f"sleep {seconds} & echo started")
    found = re.search(r"Background PIDs: (\d+)", text)
    if found:
        yield from agent.run("processes", f"ps -o args= -p {found[1]}")
        yield from agent.run("kill", f"kill {found[1]} && sleep 0.1; kill -0 {found[1]}")


def move(agent: Agent) -> Work[None]:
    """Rename a module, see what breaks, put it back."""
    random, file = agent.random, agent.file()
    if file.endswith("__init__.py"):
        return
    stem = file.rpartition("/")[2].removesuffix(".py")
    target = file.replace(f"{stem}.py", f"{stem}_{random.choice(NOUNS)}.py")
    yield from agent.run("git-move", f"git mv {file} {target} && git status --short")
    if command := focused(agent, file):
        yield from agent.run("test", command + " --tb=line 2>&1 | tail -n 8")
    yield from agent.use(
        "search", "search_file_content", pattern=rf"import.*\b{stem}\b|from.*\b{stem}\b", include="*.py"
    )
    back = random.choice([f"git mv {target} {file}", "git reset -q --hard"])
    yield from agent.run("git-move", f"{back} && git status --short")


def note(agent: Agent) -> Work[None]:
    """Append to a text of the repository, look, commit or drop it."""
    random, file = agent.random, agent.text()
    line = agent.fill(random.choice(["- {verb} the {noun}", "* {symbol}: {verb} {noun} {n}"]))
    yield from agent.run("append", f"echo '{line}' >> {file} && tail -n 2 {file}")
    yield from agent.run("git-diff", f"git diff -U0 {file}")
    yield from agent.use("search", "search_file_content", pattern=re.escape(line))
    if random.random() < 0.5:
        yield from commit(agent)
    else:
        yield from agent.run("git-restore", f"git checkout {file} && git status --short")


def copies(agent: Agent) -> Work[None]:
    """Copy a file, change the copy, compare, patch."""
    random, definition = agent.random, agent.definition()
    copy = f"/tmp/{random.choice(NOUNS)}.py"
    name, other = symbol(definition.text), agent.name()
    yield from agent.run("copy", f"cp {definition.file} {copy} && wc -l {copy}")
    yield from agent.run("sed-in-place", f"sed -i 's/\\b{name}\\b/{other}/g' {copy} && grep -c {other} {copy}")
    yield from agent.run("diff", f"diff {definition.file} {copy} | head -n {random.randint(5, 30)}")
    yield from agent.use("search", "search_file_content", pattern=other, path="/tmp")
    if random.random() < 0.4:
        patch = f"diff -u {definition.file} {copy} > /tmp/c.patch; git apply --stat /tmp/c.patch; wc -l < /tmp/c.patch"
        yield from agent.run("patch", patch)
    yield from agent.run("remove", f"rm {copy} && ls {copy}")


# Odd actions.

ODD_COMMANDS: dict[str, tuple[str, ...]] = {
    "typo": (
        "gti status",
        "pyhton -m pytest",
        "grpe {symbol} {file}",
        "sl -la",
        "cta {file}",
        "pytets -q",
        "mkae test",
    ),
    "no-such-file": ("cat {noun}/{noun}.py", "head -n 5 {file}.bak", "wc -l {noun}.txt {file}", "ls {noun}"),
    "wrong-option": ("ls --{noun}", "git log --{noun}", "python --{noun}", "grep --{noun} x {file}", "sort -Q {file}"),
    "exit-code": (
        "exit {few}",
        "false",
        "grep -q {noun}{noun} {file}; echo $?",
        "test -d {file}",
        "ls | grep {noun}{noun}",
    ),
    "git-error": (
        "git checkout {noun}",
        "git merge {noun}",
        "git commit -m empty",
        "git show {noun}",
        "git branch -d main",
    ),
    "git-usage": (
        "git stash pop",
        "git push",
        "git pull",
        "git rebase {noun}",
        "git cherry-pick {noun}",
        "git add {noun}.x",
    ),
    "python-error": (
        "python -c 'print({noun})'",
        "python -c '1 / 0'",
        "python -c 'import {noun}_{noun}'",
        "python -c '[][{n}]'",
        "python -c 'int(\"{noun}\")'",
        "python -c 'print((1)'",
        "python {noun}.py",
        "python -m {noun}",
    ),
    "test-none": (
        "python -m pytest -q {test_file} -k {noun}_{verb}_{noun}",
        "python -m pytest -q {noun}/test_{noun}.py",
    ),
    "shell-syntax": (
        "echo '{noun}",
        "if true; then echo {noun}",
        "for f in *; echo $f",
        "echo $(({n} / 0))",
        "( echo {noun}",
    ),
    "denied": (
        "touch /usr/{noun}",
        "cat /root/.{noun}",
        "mkdir /{noun}",
        "kill 1; echo $?",
        "chown root {file}",
        "rm -rf /usr/bin",
    ),
    "missing-tool": (
        "pip install {noun}",
        "curl http://example.org",
        "npm test",
        "cargo build",
        "docker ps",
        "sudo ls",
    ),
    "long-output": ("seq {n}00", "seq 1 {n}000", "cat {file} {other} {file}", "git show HEAD | head -n 900"),
    "long-line": ("python -c 'print(\"{noun}\" * {n}00)'", "head -c 40000 /dev/zero | tr '\\0' {few}"),
    "signal": (
        "kill -9 $$",
        "kill -TERM $$",
        "python -c 'import os; os.kill(os.getpid(), 11)'",
        "python -c 'import os; os.abort()'",
    ),
    "stderr": ("echo {noun} >&2", "echo {noun}; echo {verb} >&2; exit {few}", "ls {noun} {small} 2>&1 | cat"),
    "remove-missing": ("rm {noun}.py", "rmdir {noun}", "rm -r {noun}_{verb}", "mv {noun} {verb}", "cp {noun} /tmp"),
    "input": ("cat", 'read x; echo "[$x]"', "python -c 'input()'", "python -i < /dev/null"),
}


def odd_command(agent: Agent) -> Work[None]:
    """A command that fails, or behaves in a way that one must know."""
    label = agent.random.choice(list(ODD_COMMANDS))
    yield from agent.run(f"{label}/odd", agent.fill(agent.random.choice(ODD_COMMANDS[label])))


def odd_folder(agent: Agent) -> Work[None]:
    """A command where there is no folder, or in one beside the repository."""
    folder = agent.random.choice([agent.random.choice(NOUNS), agent.text(), "/nowhere", "/tmp", "..", "/root"])
    yield from agent.run("directory/odd", agent.random.choice(["pwd", "ls", "git status"]), directory=folder)


def odd_time(agent: Agent) -> Work[None]:
    """A command that does not end in its time; what it started is gone afterwards."""
    command = agent.random.choice(["sleep {n}0", "echo {noun}; sleep {n}0", "while :; do :; done", "sleep {n}1 & wait"])
    yield from agent.run("timeout/odd", agent.fill(command), timeout=1)
    if agent.random.random() < 0.5:
        yield from agent.run("processes", "ps -eo args | grep -c '[s]leep'")


def odd_file(agent: Agent) -> Work[None]:
    """A file or a folder that is not what the tool takes."""
    random, noun = agent.random, agent.random.choice(NOUNS)
    file, folder = agent.file(), agent.file().rpartition("/")[0] or "."
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("read", "read_file", {"file_path": f"{agent.root}/{noun}.py"}),
        ("read", "read_file", {"file_path": folder}),
        ("read", "read_file", {"file_path": file.replace(".py", f"_{noun}.py")}),
        ("read-part", "read_file", {"file_path": file, "offset": random.randint(9000, 99999)}),
        ("write", "write_file", {"file_path": f"/usr/share/{noun}", "content": "x\n"}),
        ("write", "write_file", {"file_path": folder, "content": "x\n"}),
        ("write", "write_file", {"file_path": f"{file}/{noun}.py", "content": "x\n"}),
        ("list", "list_directory", {"path": f"{folder}/{noun}"}),
        ("list", "list_directory", {"path": file}),
        ("glob", "glob", {"pattern": f"**/*.{noun}"}),
        ("glob", "glob", {"pattern": "*.py", "path": f"{noun}/{noun}"}),
        (
            "search",
            "search_file_content",
            {"pattern": random.choice(["(", "[a-", "*x", "(?P<n", f"{noun}{{2,1}}"])},
        ),
        ("search", "search_file_content", {"pattern": f"{noun}_{noun}_{noun}"}),
        ("search", "search_file_content", {"pattern": noun, "path": f"{noun}/none"}),
        (
            "search-wide",
            "search_file_content",
            {"pattern": random.choice(["", ".", "e", "self"]), "include": "*.py"},
        ),
    ]
    label, tool, arguments = random.choice(calls)
    yield from agent.use(f"{label}/odd", tool, **arguments)


def odd_edit(agent: Agent) -> Work[None]:
    """An old text that is not there, or too often, or nothing."""
    random, definition = agent.random, agent.definition()
    line, path = definition.text, agent.path(definition.file)
    old, new = random.choice(
        [
            (line.replace("def ", "def  "), line),
            (line.rstrip(":") + " :", line),
            (line, line),
            ("", "x = 1\n"),
            ("    return ", "    return  "),
            ("self", "this"),
            (random.choice(NOUNS) * 2, "x"),
        ]
    )
    more = {"expected_replacements": random.randint(2, 5)} if random.random() < 0.3 else {}
    text = yield from agent.edit("edit/odd", path, old, new, **more)
    if text.startswith("Edited"):
        yield from agent.run("git-restore", f"git checkout {definition.file}")


def odd_arguments(agent: Agent) -> Work[None]:
    """A call that breaks its tool's schema, or is none at all."""
    random = agent.random
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": agent.file()}),
        ("read_file", {"file_path": agent.file(), "limit": 0}),
        ("read_file", {"file_path": agent.file(), "offset": "10"}),
        ("run_shell_command", {"cmd": "ls"}),
        ("run_shell_command", {"command": ["ls"]}),
        ("run_shell_command", {"command": "sleep 1", "timeout": 0}),
        ("edit", {"file_path": agent.file(), "old_string": "x"}),
        ("write_file", {"file_path": agent.file()}),
        ("glob", {}),
        ("search_file_content", {"query": "def"}),
        ("list_directory", {"dir": "."}),
        ("todo_write", {"todos": "none"}),
        ("todo_write", {"todos": [{"content": agent.fill("{verb} {noun}"), "status": "done"}]}),
        ("todo_write", {"todos": []}),
        ("open_file", {"path": agent.file()}),
        ("bash", {"command": "ls"}),
    ]
    tool, arguments = random.choice(calls)
    yield from agent.use("arguments/odd", tool, **arguments)


CHAIN_WEIGHTS: tuple[tuple[Callable[[Agent], Work[None]], int], ...] = (
    (survey, 10),
    (study, 5),
    (plan, 4),
    (change, 6),
    (break_syntax, 2),
    (new_module, 6),
    (branch, 2),
    (script, 2),
    (data, 4),
    (serve, 1),
    (jobs, 1),
    (move, 2),
    (note, 3),
    (copies, 3),
)
ODD_WEIGHTS: tuple[tuple[Callable[[Agent], Work[None]], int], ...] = (
    (odd_command, 12),
    (odd_file, 8),
    (odd_edit, 4),
    (odd_arguments, 3),
    (odd_folder, 2),
    (odd_time, 1),
)


def behave(random: Random, world: World, initial: Observation) -> Behaviour:
    """Look round, then one piece of work after another, with something odd between them now and then."""
    agent = Agent(random, resolve(repository_state(world)))
    yield from look_round(agent)
    for _ in range(random.randint(*CHAINS)):
        yield from drawn(random, CHAIN_WEIGHTS)(agent)
        if random.random() < 0.75:
            yield from drawn(random, ODD_WEIGHTS)(agent)
    yield from agent.run("git-log", "git log --oneline")


def drawn(random: Random, table: Sequence[tuple[T, int]]) -> T:
    """One of a table, by weight."""
    return random.choices([row[0] for row in table], [row[1] for row in table])[0]
