"""Programs that keep the terminal: Python and its prompt, editors and pagers; and the keys of the line editor."""
# ruff: noqa: E501  (a row of a table is a line)

import operator
from collections.abc import Callable
from functools import partial

from worldlm.rollout.explorers.terminal.known import TEXTS, Known
from worldlm.rollout.explorers.terminal.scene import Family, Make, Move, Scene, has, has_here, heredoc, owns, writable
from worldlm.rollout.explorers.terminal.words import phrase

_HAS_TEXT = has(*TEXTS)
_HAS_PY = has("py")
_HAS_CSV = has("csv")
START = 0.6
"""Seconds that a program gets to draw its first screen."""
LOOK = 0.2
"""Seconds that it gets to answer a key."""


def _list(s: Scene) -> str:
    return repr([s.n(1, 99) for _ in range(s.n(3, 5))])


# Python.


def _expression(s: Scene) -> str:
    return s.pick(
        f"{s.n(2, 99)} ** {s.n(2, 9)} % {s.n(3, 99)}",
        f"sorted({_list(s)}, reverse={s.pick('True', 'False')})",
        f"'{s.noun()} {s.noun()}'.title().split()",
        f"sum({_list(s)}) / {s.n(2, 9)}",
        f"'{s.noun()}'[::-1], len('{s.noun()}')",
        f"[x * {s.n(2, 5)} for x in {_list(s)} if x > {s.n(5, 50)}]",
        f"{{w: len(w) for w in ('{s.noun()}', '{s.noun()}')}}",
        f"divmod({s.n(50, 999)}, {s.n(2, 9)}), round({s.n(1, 99)} / {s.n(2, 9)}, 2)",
        f"'{s.noun()},{s.noun()}'.partition(',')",
        f"max({_list(s)}, key=lambda x: x % {s.n(2, 9)})",
        f"'{s.noun()}'.replace('a', '{s.n(1, 9)}').upper()",
        f"list(zip('{s.noun()[:3]}', range({s.n(1, 9)}, 99)))",
        f"{s.n(2, 99)} in {_list(s)}",
        f"f'{{{s.n(1, 999)}:0{s.n(4, 8)}d}} {{{s.n(1, 99)} / 7:.3f}}'",
        f"hex({s.n(10, 9999)}), bin({s.n(3, 60)}), chr({s.n(65, 90)})",
    )


def _error(s: Scene) -> str:
    return s.pick(
        f"{s.n(1, 9)} / 0",
        f"int('{s.noun()}')",
        f"{s.noun()}",
        f"[{s.n(1, 9)}][{s.n(1, 9)}]",
        f"{{'{s.noun()}': 1}}['{s.noun()}{s.n(1, 9)}']",
        f"'{s.noun()}' + {s.n(1, 9)}",
        f"open('{s.noun()}.txt')",
        f"import {s.noun()}{s.n(1, 9)}",
        f"None.{s.noun()}()",
        f"print('{s.noun()}'",
        f"assert {s.n(1, 4)} > {s.n(5, 9)}, '{s.noun()}'",
        f"len({s.n(1, 99)})",
        "def f(:",
    )


def _command(s: Scene) -> str:
    return f'python3 -c "print({_expression(s)})"'


def _command_error(s: Scene) -> str:
    return f'python3 -c "{_error(s)}"'


def _stdin(s: Scene) -> str:
    lines = f"data = {_list(s)}\nfor i, x in enumerate(data):\n    print(i, x {s.pick('+', '*', '%')} {s.n(2, 9)})\n"
    return f"python3 - <<'EOF'\n{lines}EOF"


def _csv(s: Scene) -> str:
    body = s.pick(
        "print(len(rows), rows[0])",
        "print(sum(float(row[3]) for row in rows[1:]))",
        "print(sorted({row[1] for row in rows[1:]}))",
        "print(max(rows[1:], key=lambda row: float(row[3])))",
        "print(*(row[2] for row in rows[1:4]), sep=' | ')",
    )
    return f"python3 -c \"import csv; rows = list(csv.reader(open('{s.file('csv')}'))); {body}\""


def _sqlite(s: Scene) -> str:
    table, rows = s.noun(), [(s.noun(), s.n(1, 90)) for _ in range(s.n(3, 4))]
    query = s.pick(
        f"select * from {table} order by n desc",
        f"select count(*), sum(n) from {table}",
        f"select name from {table} where n > {s.n(10, 60)}",
        f"select max(n) from {table}s",
    )
    return (
        f"python3 - <<'EOF'\nimport sqlite3\ndb = sqlite3.connect(':memory:')\n"
        f"db.execute('create table {table} (name text, n integer)')\n"
        f"db.executemany('insert into {table} values (?, ?)', {rows!r})\n"
        f"for row in db.execute('{query}'):\n    print(*row)\nEOF"
    )


def _sqlite_file(s: Scene) -> Move:
    path = s.new("db")
    line = (
        f"python3 -c \"import sqlite3; db = sqlite3.connect('{s.show(path)}'); db.execute('create table if not exists t (id integer primary key, w text)'); "
        f"db.execute('insert into t (w) values (?)', ['{s.noun()}']); db.commit(); print(db.execute('select * from t').fetchall())\""
    )
    return Move(line, (lambda k: k.add(path, "db"),))


def _module(s: Scene) -> Move:
    """A module and its test, in one command; every other time the test fails."""
    name, a, b = f"{s.noun()}_{s.noun()}", s.n(2, 30), s.n(2, 9)
    sign = s.pick(*_SIGNS)
    wrong = s.chance(0.5)
    code = f"def combine(a, b):\n    return a {s.pick('-', '+') if wrong else sign} b\n"
    test = (
        f"import unittest\nfrom {name} import combine\n\nclass Test(unittest.TestCase):\n    def test_combine(self):\n"
        f"        self.assertEqual(combine({a}, {b}), {_SIGNS[sign](a, b)})\n"
    )
    module, tests = f"{s.k.cwd}/{name}.py", f"{s.k.cwd}/test_{name}.py"
    return Move(
        heredoc(f"{name}.py", code) + "\n" + heredoc(f"test_{name}.py", test),
        (
            lambda k: k.add(module, "py", code, repair=f"s/return a . b/return a {sign} b/" if wrong else None),
            lambda k: k.add(tests, "py", test),
        ),
    )


_SIGNS: dict[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _leave_python(s: Scene) -> Move:
    if s.k.seen.endswith("..."):  # in the middle of a block: out of that first
        return Move(keys=(("C-c", LOOK), ("C-d", 2.0)), opens="python")
    return Move(keys=((s.pick("C-d", "exit()\n", "quit()\n"), 2.0),), opens="python")


def _py(s: Scene) -> str:
    return s.show(s.k.paths("py")[-1] if s.chance(0.8) else s.path("py"))


def _has_tests(k: Known) -> bool:
    return any("/test_" in path for path in k.here("py"))


_Y = partial(Family, "python", seconds=5.0)
# fmt: off
PYTHON = (
    _Y("python-expression", _command, odd=(lambda s: f'python3 -c "print({_expression(s)}"', lambda s: f"python -c 'print({s.n(1, 9)})'")),
    _Y("python-error", _command_error, always_odd=True),
    _Y("python-run", lambda s: f"python3 {_py(s)}{s.pick('', '', f' {s.noun()}', f' {s.noun()} {s.n(1, 9)}')}", (_HAS_PY,), odd=(lambda s: f"python3 {s.absent('py')}", lambda s: f"python3 {s.file()} --x")),
    _Y("python-run-status", lambda s: f"python3 {_py(s)} > /dev/null 2>&1; echo $?", (_HAS_PY,)),
    _Y("python-last-error", lambda s: f"python3 {_py(s)} 2>&1 | tail -n {s.n(1, 3)}", (_HAS_PY,)),
    _Y("python-heredoc", _stdin),
    _Y("python-csv", _csv, (has_here("csv"),)),
    _Y("python-json", lambda s: f"python3 -m json.tool {s.pick('', '--sort-keys ', '--compact ', '--indent 1 ')}{s.file('json')}", (has("json"),), odd=(lambda s: f"python3 -m json.tool {s.file()}", lambda s: f"echo '{{\"{s.noun()}\": {s.n(1, 9)},}}' | python3 -m json.tool")),
    _Y("python-json-value", lambda s: f"python3 -c \"import json; d = json.load(open('{s.file('json')}')); print({s.pick('sorted(d)', 'len(d)', 'list(d.items())[0]', 'd.get(chr(110))', 'type(d).__name__')})\"", (has_here("json"),)),
    _Y("python-sqlite", _sqlite),
    _Y("python-sqlite-file", _sqlite_file, (writable,), True),
    _Y("python-module", _module, (writable,), True),
    _Y("python-unittest", lambda s: f"python3 -m unittest {s.pick('-q', '', '-v')} 2>&1 | {s.pick('tail -n 5', 'grep -v Ran', 'grep -c .')}".replace("  ", " "), (_has_tests,)),
    _Y("python-import", lambda s: f"python3 -c 'import {s.pick(*_modules(s.k))} as m; print(sorted(x for x in dir(m) if x[0] != \"_\"))'", (lambda k: bool(_modules(k)),)),
    _Y("python-compile", lambda s: f"python3 -m py_compile {_py(s)} && echo compiled", (_HAS_PY,), True),
    _Y("python-calendar", lambda s: f"python3 -m calendar {s.n(1990, 2040)} {s.n(1, 12)}", odd=(lambda s: f"python3 -m calendar {s.n(2000, 2030)} {s.n(13, 20)}",)),
    _Y("python-no-module", lambda s: f"python3 -m {s.pick('venvv', 'http.sever', 'nose', 'blackk', s.noun())}", always_odd=True),
    _Y("python-library", lambda s: "python3 -c " + s.pick(
        f"'import datetime as d; print(d.date({s.n(1990, 2030)}, {s.n(1, 12)}, {s.n(1, 28)}) + d.timedelta({s.n(1, 99)}))'",
        f"'import re; print(re.findall(r\"[aeiou].\", \"{phrase(s.r)}\"))'",
        f"'import math; print(math.gcd({s.n(10, 999)}, {s.n(10, 999)}), math.comb({s.n(5, 20)}, 3))'",
        f"'import random; random.seed({s.n(1, 99)}); print(random.sample(range(50), 4))'",
        f"'import textwrap; print(textwrap.fill(\"{phrase(s.r)} {phrase(s.r)}\", {s.n(8, 20)}))'",
        f"'import itertools as i; print(list(i.accumulate({_list(s)})))'",
        f"'import hashlib; print(hashlib.md5(b\"{s.noun()}\").hexdigest())'",
        f"'import statistics as st; print(st.median({_list(s)}), st.mean({_list(s)}))'",
        f"'import pathlib; print(sorted(p.name for p in pathlib.Path(\".\").iterdir())[:{s.n(2, 6)}])'",
    )),
    _Y("python-filter", lambda s: f"python3 -c 'import sys; print({s.pick('sum(1 for _ in sys.stdin)', 'max(sys.stdin, key=len).strip()', 'sorted(map(str.strip, sys.stdin))[0]', 'sys.stdin.readline().split()')})' < {s.file()}", (_HAS_TEXT,)),
    _Y("python-format", lambda s: f"python3 -m {s.pick('tokenize', 'ast', 'dis')} {_py(s)} | head -n {s.n(3, 8)}", (_HAS_PY,)),
    _Y("python-version", lambda s: s.pick("python3 --version", "python3 -V", "python3 -c 'import sys; print(sys.version_info[:2])'", "python3 -c 'import platform; print(platform.python_implementation())'")),
    _Y("python-repl", lambda s: Move(keys=((f"python3 {s.pick('', '-q')}".rstrip() + "\n", START),), opens="python"), opens="python"),
    _Y("python-repl-line", lambda s: _keys(f"{_expression(s)}\n", "python"), program="python", opens="python"),
    _Y("python-repl-assign", lambda s: _keys(s.pick(f"x = {s.n(1, 99)}\nx + {s.n(1, 9)}\n", f"w = '{s.noun()}'\nprint(w, len(w))\n", f"xs = {_list(s)}\nxs.append({s.n(1, 9)}); xs\n", f"a, b = {s.n(1, 9)}, {s.n(1, 9)}\na * b, a ** b\n"), "python"), program="python", opens="python"),
    _Y("python-repl-block", lambda s: _keys(s.pick(f"for i in range({s.n(2, 5)}):\n    print(i, i * {s.n(2, 9)})\n\n", f"def f(n):\n    return n + {s.n(1, 9)}\n\nf({s.n(1, 99)})\n", "with open('/etc/hostname') as f:\n    f.read()\n\n", f"if {s.n(1, 9)} > {s.n(1, 9)}:\n    '{s.noun()}'\nelse:\n    '{s.noun()}'\n\n"), "python"), program="python", opens="python"),
    _Y("python-repl-import", lambda s: _keys(s.pick("import os; os.getcwd()\n", "import math\nmath.pi\n", f"from collections import Counter\nCounter('{s.noun()}').most_common(2)\n", "import sys; sys.argv\n"), "python"), program="python", opens="python"),
    _Y("python-repl-error", lambda s: _keys(f"{_error(s)}\n", "python"), program="python", opens="python", always_odd=True),
    _Y("python-repl-interrupt", lambda s: Move(keys=(("C-c", LOOK),), opens="python"), program="python", opens="python"),
    _Y("python-repl-leave", _leave_python, program="python", opens="python"),
)
# fmt: on


def _modules(k: Known) -> list[str]:
    names = [path.rpartition("/")[2][:-3] for path in k.here("py")]
    return [name for name in names if name.isidentifier() and not name.startswith("test_")]


def _keys(keys: str, program: str | None = None) -> Move:
    return Move(keys=((keys, LOOK),), opens=program)


# Editors and pagers.


def _vim(s: Scene) -> Move:
    path = s.own() if s.chance(0.75) and s.k.paths(*TEXTS) and owns()(s.k) else s.new("txt")
    return Move(
        keys=((f"vim {s.pick('', '', '+3 ', '-R ')}{s.show(path)}\n", START),),
        opens="vim",
        effects=(lambda k: setattr(k, "editing", path),),
    )


def _saved(k: Known) -> None:
    if k.editing:
        k.touch(k.editing)


def _ex(s: Scene) -> str:
    return s.pick(
        f":%s/{s.noun()[:2]}/{s.noun()}/g",
        f":{s.n(1, 4)}d",
        ":set number",
        f":{s.n(1, 3)}m$",
        ":%sort",
        f":{s.n(1, 3)}t.",
        ":1,2join",
        f":g/{s.pick('e', 'a', '1')}/d",
        ":set list",
        f":r !echo {s.noun()}",
        ":%s/^/- /",
        f":{s.n(1, 9)}",
    )


_E = partial(Family, "editors", seconds=2.0)
# fmt: off
EDITORS = (
    _E("vim-open", _vim, (writable,), True, opens="vim"),
    _E("vim-insert", lambda s: Move(keys=((f"{s.pick('i', 'o', 'O', 'A', 'Go', 'ggO')}{phrase(s.r)}\x1b", 0.3),), opens="vim"), program="vim", opens="vim"),
    _E("vim-normal", lambda s: _keys(s.pick("dd", "yyp", "ggdG", "x", "3x", "dw", "J", "~", "G", "gg", "ddp", "yyGp", "D", "xp", "gUU", "u"), "vim"), program="vim", opens="vim"),
    _E("vim-command", lambda s: _keys(f"{_ex(s)}\n", "vim"), program="vim", opens="vim"),
    _E("vim-search", lambda s: _keys(f"/{s.pick(s.noun(), 'e', '[0-9]', 'the')}\n", "vim"), program="vim", opens="vim"),
    _E("vim-unknown", lambda s: _keys(s.pick(f":{s.noun()}\n", ":wz\n", ":q\n" if s.k.failed else ":nope\n", f":e!x {s.noun()} b\n"), "vim"), program="vim", opens="vim", always_odd=True),
    _E("vim-write", lambda s: Move(keys=((":w\n", LOOK),), effects=(_saved,), opens="vim"), program="vim", opens="vim", changes=True),
    _E("vim-write-quit", lambda s: Move(keys=((s.pick(":wq\n", ":x\n", "ZZ"), 1.0),), effects=(_saved,), opens="vim"), program="vim", changes=True),
    _E("vim-quit", lambda s: Move(keys=(("\x1b:q!\n", 1.0),)), program="vim"),
    _E("less-open", lambda s: Move(keys=((f"less {s.pick('', '-N ', '-S ', '+2 ')}{s.pick(s.file(), '/etc/services', s.file())}\n", START),), opens="less"), (_HAS_TEXT,), opens="less"),
    _E("less-long", lambda s: Move(keys=((f"{s.pick('seq 200', 'ls -R /usr/share/doc/bash', 'git help -a', 'set -o; seq 90')} | less\n", START),), opens="less"), opens="less"),
    _E("less-move", lambda s: _keys(s.pick(" ", "j", "jjj", "k", "G", "g", "d", "b", "5j", "10g"), "less"), program="less", opens="less"),
    _E("less-search", lambda s: _keys(f"{s.pick('/', '/', '?', '&')}{s.pick('1', 'e', s.noun(), '9')}\n", "less"), program="less", opens="less"),
    _E("less-quit", lambda s: Move(keys=(("q", 1.0),)), program="less"),
    _E("git-pager", lambda s: Move(keys=((f"git -c core.pager=less -c pager.log=true log{s.pick('', ' -p', ' --stat')}\n", START),), opens="less"), (lambda k: k.repo is not None and bool(k.repo.commits),), opens="less"),
)
# fmt: on


# Keys at the shell's prompt, and for whatever waits for more.


def _typed(*keys: str) -> Make:
    """These keystrokes, one after another; `{noun}`, `{file}` and `{part}` are filled in."""

    def make(s: Scene) -> Move:
        file = s.file() if s.k.paths(*TEXTS) else "x"
        words = {"noun": s.noun(), "file": file, "part": file[: max(1, len(file) // 2)]}
        filled = [key.format(**words) for key in keys]
        # No new prompt follows a search that is given up.
        return Move(keys=(*((key, 0.1) for key in filled[:-1]), (filled[-1], LOOK if filled[-1] == "C-g" else 1.0)))

    return make


_K = partial(Family, "keys")
# fmt: off
KEYS = (
    _K("key-enter", lambda s: Move(keys=(("\n", 1.0),))),
    _K("key-clear", lambda s: Move(keys=((s.pick("clear\n", "C-l"), 1.0),)), changes=True),
    _K("key-up", _typed("\x1b[A\n"), (lambda k: k.again,)),
    _K("key-complete", lambda s: s.r.choice((_typed("cat {part}\t\n"), _typed("wc -l {part}\t", "\n")))(s), (has_here(*TEXTS),)),
    _K("key-discard", lambda s: s.r.choice((_typed("rm {noun} {noun}", "C-u", "echo {noun}\n"), _typed("echo {noun} {noun}", "C-w", "{noun}\n"), _typed("ls {noun}", "C-c"), _typed("cho {noun}", "C-a", "e\n")))(s)),
    _K("key-reverse-search", lambda s: s.r.choice((_typed("C-r", "echo", "\n", "\n"), _typed("C-r", "ls", "C-c"), _typed("C-r", "{noun}", "C-g")))(s), (lambda k: k.lines > 3 and "sleep" not in k.seen,)),
    _K("key-continue", lambda s: s.pick(f"echo {s.noun()} \\\n  {s.noun()} \\\n  {s.noun()}", "ls . |\nwc -l", f"true &&\necho {s.noun()}", f"echo '{s.noun()}\n{s.noun()}'")),
    _K("key-wait", lambda s: Move(keys=(("", LOOK),)), (lambda k: k.lines > 0,)),
    _K("key-several", lambda s: Move(keys=tuple((line + "\n", 1.0) for line in (f"cd {s.pick('/tmp', '~', '/')}", "pwd", "cd -"))), changes=True),
    _K("several-lines", lambda s: s.r.choice((f"pwd\nls | wc -l\necho {s.noun()}", f"x={s.n(1, 99)}\necho $x\nunset x", f"echo {s.noun()}; echo {s.noun()} >&2"))),
    _K("forgotten-return", lambda s: Move(keys=((s.pick("pwd", "ls", f"echo {s.noun()}", "date", "whoami"), LOOK),), opens="typed"), opens="typed", always_odd=True),
    _K("key-return", lambda s: Move(keys=(("\n", 1.0),)), program="typed"),
    _K("unclosed-quote", lambda s: Move(keys=((f"echo {s.pick(chr(34), chr(39))}{phrase(s.r)}\n", LOOK),), opens="quote"), opens="quote", always_odd=True),
    _K("cat-waits", lambda s: Move(keys=((s.pick("cat", "sort", "wc -l", "tr a b", "bash -c cat", "uniq -c", "read x", "grep e") + "\n", LOOK),), opens="input"), opens="input", always_odd=True),
    _K("input-line", lambda s: Move(keys=((f"{phrase(s.r)}\n", LOOK),), opens="input"), program="input", opens="input"),
    _K("key-end-of-input", lambda s: Move(keys=(("C-d", 1.0),)), program="input"),
    _K("key-interrupt", lambda s: Move(keys=(("C-c", 1.0),)), program="quote"),
    _K("key-break", lambda s: Move(keys=(("C-c", 1.0),)), program="busy"),
    _K("claim-done", lambda s: Move(keys=()), program="end"),
    _K("key-quit", lambda s: Move(keys=(("q", LOOK),)), program="busy"),
)
# fmt: on
