"""The shell itself: pipes, loops, scripts, names, processes, and the machine round it."""
# ruff: noqa: E501  (a row of a table is a line)

from functools import partial

from worldlm.rollout.explorers.terminal.known import TEXTS, Known
from worldlm.rollout.explorers.terminal.scene import Effect, Family, Make, Move, Scene, has, has_here, owns, writable
from worldlm.rollout.explorers.terminal.words import CITIES, PEOPLE, phrase

_HAS_TEXT = has(*TEXTS)
_HAS_LOG = has("log")
_HAS_CSV = has("csv")


def _levels(s: Scene) -> str:
    return f"cut -d' ' -f{s.n(3, 4)} {s.file('log')} | sort | uniq -c | sort -rn"


def _redirected(line: str, kind: str = "txt") -> Make:
    """A line that writes to `{new}`; `{file}` and `{absent}` are filled in."""

    def make(s: Scene) -> Move:
        path = s.new(kind)
        filled = line.format(file=s.file(), absent=s.absent(), new=s.show(path), noun=s.noun())
        return Move(filled, (lambda k: k.add(path, kind),))

    return make


_I = partial(Family, "pipes")
# fmt: off
PIPES = (
    _I("top-words", lambda s: f"tr -cs A-Za-z '\\n' < {s.file()} | tr A-Z a-z | sort | uniq -c | sort -rn | head -n {s.n(2, 6)}", (_HAS_TEXT,)),
    _I("log-levels", _levels, (_HAS_LOG,)),
    _I("log-hours", lambda s: f"awk '{{ print substr($2, 1, {s.pick('2', '5')}) }}' {s.file('log')} | sort | uniq -c", (_HAS_LOG,)),
    _I("csv-top", lambda s: f"tail -n +2 {s.file('csv')} | sort -t, -k4 -rn | head -n {s.n(1, 4)} | cut -d, -f{s.pick('2', '2,4', '1,3')}", (_HAS_CSV,)),
    _I("count-files", lambda s: s.pick("ls | wc -l", "ls -A | wc -l", "find . -type f | wc -l", "ls -1 | head -n 3", "ls -l | tail -n +2 | wc -l")),
    _I("pipe-tee", _redirected("sort {file} | tee {new} | wc -l"), (_HAS_TEXT, writable), True),
    _I("redirect-output", _redirected("wc -l {file} > {new}; cat {new}"), (_HAS_TEXT, writable), True),
    _I("redirect-errors", _redirected("ls {file} {absent} 2> {new}; cat {new}"), (_HAS_TEXT, writable), True),
    _I("redirect-both", _redirected("cat {file} {absent} &> {new}; wc -l {new}"), (_HAS_TEXT, writable), True),
    _I("discard-errors", lambda s: f"ls {s.absent()} 2>/dev/null {s.pick('|| echo absent', '; echo $?', '&& echo there')}"),
    _I("errors-to-pipe", lambda s: f"ls {s.absent()} . 2>&1 | {s.pick('head -n 2', 'grep -c o', 'sort', 'wc -l')}"),
    _I("process-substitution", lambda s: f"diff <(ls) <(ls {s.show(s.folder_path())})"),
    _I("command-substitution", lambda s: s.pick(f'echo "$(wc -l < {s.file()}) lines"', f'echo "today: $(date -d {s.n(2020, 2030)}-0{s.n(1, 9)}-1{s.n(0, 9)} +%A)"', f"echo $(sort -u {s.file()} | head -n 3)", 'echo "in $(basename "$PWD")"'), (_HAS_TEXT,)),
    _I("here-string", lambda s: f"{s.pick('wc -w', 'tr a-z A-Z', 'rev', 'sed s/a/4/g')} <<< '{phrase(s.r)} {s.noun()}'"),
    _I("pipe-status", lambda s: f"{s.pick('true', 'false', 'ls /nowhere 2>/dev/null')} | {s.pick('true', 'false', 'cat')}; echo ${{PIPESTATUS[@]}}"),
    _I("exit-status", lambda s: f"{s.pick('true', 'false', f'ls {s.absent()}', f'grep -q {s.noun()} /etc/passwd', f'test -d {s.noun()}', f'(exit {s.n(2, 99)})')}; echo $?"),
    _I("and-or", lambda s: f"{s.pick('true', 'false', f'test -e {s.noun()}', '[ -d . ]')} && echo {s.noun()} || echo {s.noun()}"),
    _I("group", _redirected("{{ echo {noun}; head -n 2 {file}; }} > {new} && cat {new}"), (_HAS_TEXT, writable), True),
    _I("subshell", lambda s: f"(cd {s.pick('/', '/tmp', '/usr')} && pwd); pwd"),
    _I("input-redirect", lambda s: f"{s.pick('wc -l', 'sort', 'head -n 2', 'tail -n 1', 'cat -n')} < {s.file()}", (_HAS_TEXT,), odd=(lambda s: f"wc -l < {s.absent()}",)),
)
# fmt: on


# Loops and tests.


def _list(s: Scene, low: int = 2, high: int = 4) -> str:
    return " ".join(s.noun() for _ in range(s.n(low, high)))


def _for_files(s: Scene) -> str:
    suffix = s.r.choice(s.k.here(*TEXTS)).rpartition(".")[2]
    return f"for f in *.{suffix}; do {s.pick('wc -l $f', 'echo $f', 'head -n 1 $f', 'echo ${f%.*}', 'basename $f', 'stat -c %s $f')}; done"


def _for_lines(s: Scene) -> str:
    var = s.pick("i", "n", "x", "item", "word")
    return f"for {var} in {_list(s)}\ndo\n  {s.pick('echo', 'printf %s-')} ${var}\ndone"


def _case(s: Scene) -> str:
    word = s.pick(s.noun(), str(s.n(1, 20)), f"{s.noun()}.txt", f"{s.noun()}.csv")
    return f"case {word} in [0-9]*) echo number;; *.txt|*.csv) echo data;; {s.noun()[0]}*) echo {s.noun()};; *) echo other;; esac"


def _for_make_files(s: Scene) -> Move:
    name, count = s.noun(), s.n(2, 4)
    effects = tuple(partial(_made, f"{s.k.cwd}/{name}{i}.txt", f"{name} {i}\n") for i in range(1, count + 1))
    return Move(f'for i in {{1..{count}}}; do echo "{name} $i" > {name}$i.txt; done', effects)


def _made(path: str, content: str, k: Known) -> None:
    k.add(path, "txt", content)


_L = partial(Family, "loops")
# fmt: off
LOOPS = (
    _L("for-words", lambda s: f"for w in {_list(s)}; do echo " + s.pick("$w", '"<$w>"', "${#w} $w", "${w^}", "$w-$w") + "; done", odd=(lambda s: f"for w in {_list(s)}; echo $w; done", lambda s: f"for w in {_list(s)} do echo $w; done")),
    _L("for-files", _for_files, (has_here(*TEXTS),)),
    _L("for-sequence", lambda s: f"for i in $(seq {s.n(1, 3)} {s.n(4, 8)}); do echo {s.pick('$i', '$((i * i))', 'line $i', '$((i % 3))')}; done"),
    _L("for-braces", lambda s: f"for i in {{{s.n(1, 3)}..{s.n(4, 9)}}}; do " + s.pick('echo -n "$i "', "printf '%02d ' $i", "echo $((2 ** i))") + "; done; echo"),
    _L("for-make-files", _for_make_files, (writable,), True),
    _L("for-c-style", lambda s: f"for ((i = {s.n(0, 3)}; i < {s.n(4, 8)}; i{s.pick('++', ' += 2')})); do echo {s.pick('$i', 'n=$i', '$((i + 10))')}; done"),
    _L("for-lines", _for_lines),
    _L("while-count", lambda s: f"i={s.n(2, 5)}; while [ $i -gt 0 ]; do echo $i; i=$((i - 1)); done", odd=(lambda s: f"i={s.n(2, 5)}; while [ $i -gt 0 ] do echo $i; done", lambda s: "while [ 1 -gt 2; do echo; done")),
    _L("while-read", lambda s: f"while {s.pick('IFS=, read -r a b rest', 'read -r a b')}; do echo \"{s.pick('$b $a', '$a', '[$b]')}\"; done < {s.file('csv', 'log', 'txt', 'list')}", (has("csv", "log", "txt", "list"),)),
    _L("until", lambda s: f"n={s.n(1, 3)}; until [ $n -ge {s.n(4, 7)} ]; do echo {s.noun()} $n; ((n++)); done"),
    _L("nested-loop", lambda s: f"for a in {_list(s, 2, 3)}; do for b in {s.n(1, 4)} {s.n(5, 9)}; do echo $a$b; done; done"),
    _L("break-continue", lambda s: f"for i in 1 2 3 4 5 6; do [ $i -eq {s.n(2, 5)} ] && {s.pick('break', 'continue')}; echo $i; done"),
    _L("if-file", lambda s: f"if [ -{s.pick('f', 'd', 'e', 's', 'x')} {s.file() if s.chance(0.6) else s.noun()} ]; then echo yes; else echo no; fi", (_HAS_TEXT,), odd=(lambda s: f"if [-f {s.noun()}]; then echo yes; fi", lambda s: "if true; echo yes; fi")),
    _L("if-number", lambda s: f"if (({s.n(1, 50)} {s.pick('>', '<', '==', '>=')} {s.n(1, 50)})); then echo {s.noun()}; else echo {s.noun()}; fi"),
    _L("test-strings", lambda s: f"[[ {s.noun()} {s.pick('==', '!=', '<', '=~')} {s.pick(s.noun(), 'a*', '^[a-m]')} ]] && echo true || echo false"),
    _L("case", _case),
    _L("arithmetic", lambda s: s.pick(f"echo $(({s.n(2, 99)} * {s.n(2, 99)} + {s.n(1, 9)}))", f"echo $(({s.n(100, 999)} / {s.n(2, 9)})) $(({s.n(100, 999)} % {s.n(2, 9)}))", f"expr {s.n(2, 99)} \\* {s.n(2, 9)}", f"echo $((2 ** {s.n(3, 20)})) $((16#{s.n(10, 99)}))", f"let x={s.n(1, 9)}*{s.n(2, 9)}; echo $x"), odd=(lambda s: f"echo $(({s.n(1, 9)} / 0))", lambda s: f"expr {s.noun()} + {s.n(1, 9)}", lambda s: f"echo $(({s.n(1, 9)} +))")),
    _L("brace-expansion", lambda s: f"echo {s.pick(f'{s.noun()}_{{a,b,c}}', f'{{{s.n(1, 4)}..{s.n(5, 9)}}}', '{a..d}{1,2}', f'{{10..0..-{s.n(2, 3)}}}', f'{{01..0{s.n(4, 9)}}}')}"),
    _L("read-fields", lambda s: f"read -r a b <<< '{s.noun()} {phrase(s.r)}'; echo \"$b/$a\"", changes=True),
    _L("printf-format", lambda s: f"printf '{s.pick('%5.2f|%-8s|%03d', '%.1f %s %d', '%8.3f [%10s] %x', '%g %q %+d')}\\n' {s.n(1, 99)}.{s.n(0, 999)} {s.noun()} {s.n(1, 99)}", odd=(lambda s: f"printf '%d\\n' {s.noun()}",)),
    _L("seq", lambda s: f"seq {s.pick(f'{s.n(2, 9)}', f'-s, {s.n(1, 3)} {s.n(5, 15)}', f'-w {s.n(7, 9)} {s.n(10, 13)}', f'{s.n(5, 9)} -{s.n(1, 2)} 1', f'0 0.{s.n(2, 5)} 1')}"),
    _L("date-math", lambda s: f"date -u -d '{s.n(2020, 2027)}-{s.n(1, 12):02}-{s.n(1, 28):02} {s.pick('+', '-')}{s.n(1, 60)} {s.pick('days', 'weeks', 'months', 'hours')}' '+{s.pick('%F', '%F %A', '%j', '%d.%m.%Y %H:%M', '%s', '%G-W%V')}'", odd=(lambda s: f"date -d '2026-{s.n(13, 20)}-01'", lambda s: f"date -d {s.noun()}")),
    _L("factor", lambda s: f"factor {s.n(10, 9999)} {s.n(10, 9999)}", odd=(lambda s: f"factor {s.noun()}",)),
)
# fmt: on


# Scripts.


def _script(s: Scene, *kinds: str) -> str:
    return s.k.paths(*(kinds or ("sh",)))[-1] if s.chance(0.8) else s.path(*(kinds or ("sh",)))


def _run(s: Scene, arguments: str = "") -> str:
    shown = s.show(_script(s))
    return (shown if "/" in shown else f"./{shown}") + arguments


def _arguments(s: Scene) -> str:
    return s.pick(" start", " stop", f" {s.noun()}", f" {s.n(1, 9)} {s.n(1, 9)} {s.n(1, 9)}", f" {s.file()}", " --help")


def _broken(k: Known) -> bool:
    return any(file.repair and k.can_write(path) for path, file in k.files.items())


def _repair(s: Scene) -> Move:
    path = [p for p, f in s.k.files.items() if f.repair and s.k.can_write(p)][-1]

    def mended(k: Known) -> None:
        k.files[path].repair = None

    return Move(f"sed -i '{s.k.files[path].repair}' {s.show(path)}", (mended,))


def _short_script(s: Scene) -> Move:
    path = s.new("sh")
    body = s.pick(
        f"echo {phrase(s.r)}", "echo $#: $@", "ls | wc -l", f"exit {s.n(1, 9)}", "pwd; whoami", "echo ${1:-none}"
    )
    return Move(
        f"printf '#!/bin/bash\\n{body}\\n' > {s.show(path)} && chmod +x {s.show(path)}",
        (lambda k: k.add(path, "sh", f"#!/bin/bash\n{body}\n", executable=True),),
    )


def _script_output(s: Scene) -> Move:
    path = s.new("txt")
    line = f"bash {s.show(_script(s))} > {s.show(path)} 2>&1; {s.pick('cat', 'wc -l', 'tail -n 2')} {s.show(path)}"
    return Move(line, (lambda k: k.add(path, "txt"),))


def _source(s: Scene) -> Move:
    path = s.path("env")
    names = [line.partition("=")[0] for line in s.text(path).splitlines() if "=" in line] or ["HOME"]
    shown = s.show(path)
    name = s.r.choice(names)
    return Move(
        f"{s.pick('source', '.')} {shown if '/' in shown else './' + shown}; echo ${name}",
        (lambda k: k.variables.update(dict.fromkeys(names, "")),),
    )


_C = partial(Family, "scripts", seconds=3.0)
_HAS_SH = has("sh")
# fmt: off
SCRIPTS = (
    _C("script-short", _short_script, (writable,), True),
    _C("script-run", lambda s: _run(s), (_HAS_SH,), odd=(lambda s: f"./{s.noun()}.sh",)),
    _C("script-run-arguments", lambda s: _run(s, _arguments(s)), (_HAS_SH,)),
    _C("script-bash", lambda s: f"bash {s.show(_script(s))}{s.pick('', _arguments(s))}", (_HAS_SH,), odd=(lambda s: f"bash {s.absent('sh')}", lambda s: f"bash {s.file('csv', 'txt', 'log') if s.k.paths('csv', 'txt', 'log') else 'x'}")),
    _C("script-trace", lambda s: f"bash -x {s.show(_script(s))}", (_HAS_SH,)),
    _C("script-check", lambda s: f"bash -n {s.show(_script(s))} && echo ok", (_HAS_SH,)),
    _C("script-repair", _repair, (_broken,), True),
    _C("script-status", lambda s: f"bash {s.show(_script(s))}{s.pick('', _arguments(s))} > /dev/null; echo $?", (_HAS_SH,)),
    _C("script-variable", lambda s: f"{s.pick('LIMIT', 'NAME', 'COUNT')}={s.n(1, 20)} bash {s.show(_script(s))}", (_HAS_SH,)),
    _C("script-output", _script_output, (_HAS_SH, writable), True),
    _C("script-strict", lambda s: f"bash -eu {s.show(_script(s))}", (_HAS_SH,)),
    _C("bash-command", lambda s: "bash -c '" + s.pick("echo $0 $1", "echo $#", 'for a in "$@"; do echo $a; done', "exit $1") + f"' {s.noun()} {s.n(1, 9)} {s.noun()}"),
    _C("source-env", _source, (has("env"),), True),
)
# fmt: on


# Names and the line editor.


def _set(s: Scene, export: str = "") -> Move:
    name = s.pick("name", "city", "count", "COLOR", "STAGE", "LEVEL", "target", "total", "owner", "DATA_DIR")
    value = s.pick(s.noun(), str(s.n(1, 999)), f'"{phrase(s.r)}"', s.r.choice(PEOPLE), s.r.choice(CITIES), "$(pwd)")
    return Move(f"{export}{name}={value}", (lambda k: k.variables.update({name: value}),))


def _variable(s: Scene) -> str:
    return s.r.choice(list(s.k.variables))


def _has_variable(k: Known) -> bool:
    return bool(k.variables)


def _append_name(kind: str, name: str, k: Known) -> None:
    names: list[str] = getattr(k, kind)
    if name not in names:
        names.append(name)


def _function(s: Scene) -> Move:
    name = s.pick("greet", "twice", "count", "mk", "label", "sum", "show", "largest", "up")
    body = s.pick(
        'echo "hello $1"',
        "echo $(($1 * 2))",
        "ls -1 | wc -l",
        'mkdir -p "$1" && cd "$1"',
        'echo "[$*]"',
        "sort -n | tail -n 1",
        'local x=${1:-none}; echo "$x $#"',
        f"echo {s.noun()}; return {s.n(1, 9)}",
        'cd ".."; pwd',
    )
    lines = s.pick(f"{name}() {{ {body}; }}", f"function {name} {{\n  {body}\n}}")
    return Move(lines, (partial(_append_name, "functions", name),))


def _alias(s: Scene) -> Move:
    name, value = s.pick(
        "ll=ls -l", "la=ls -A", "gs=git status", "c=clear", "..=cd ..", "n=wc -l", "l1=ls -1", "h=history 3", "p=pwd"
    ).split("=")
    return Move(f"alias {name}='{value}'", (partial(_append_name, "aliases", name),))


def _array(s: Scene) -> Move:
    name = s.pick("items", "hosts", "days", "names", "parts")
    return Move(f"{name}=({_list(s, 3, 5)})", (partial(_append_name, "arrays", name),))


def _has_array(k: Known) -> bool:
    return bool(k.arrays)


def _array_show(s: Scene) -> str:
    name = s.r.choice(s.k.arrays)
    return "echo " + s.pick("${A[@]}", f"${{A[{s.n(0, 4)}]}}", "${#A[@]}", "${A[@]:1:2}", "${!A[@]}").replace("A", name)


def _array_append(s: Scene) -> str:
    name = s.r.choice(s.k.arrays)
    return f"{name}+=({s.noun()}); echo ${{#{name}[@]}}: ${{{name}[-1]}}"


def _expansion(s: Scene) -> str:
    name = _variable(s)
    form = s.pick(
        "${#V}", "${V^^}", "${V:0:3}", "${V/a/A}", "${V%e*}", "${V:-none}", "${V##*/}", "${V//o/0}", "[${V}]", "'$V'"
    )
    return "echo " + form.replace("V", name)


def _show_variable(s: Scene) -> str:
    name = _variable(s)
    return "echo " + s.pick(f"${name}", f'"${name}"', f'"{s.noun()}: ${name}"', f"${{{name}}}x", f"'${name}'")


def _again(k: Known) -> bool:
    return k.again


def _quoted(s: Scene) -> str:
    one, two = s.noun(), s.noun()
    return "echo " + s.pick(
        f'"$USER {one}"',
        f"'$USER {one}'",
        f"{one}   {two}",
        f'"{one}   {two}"',
        f"{one}\\ \\${two}",
        f"$'{one}\\n{two}'",
        f"{one}\\;{two}",
        f'"{one} \\"{two}\\""',
    )


def _unset(s: Scene) -> Move:
    name = _variable(s)
    return Move(f'unset {name}; echo "[${name}]"', (lambda k: k.variables.pop(name, None),))


def _deeper(k: Known) -> None:
    k.shells += 1


def _out(k: Known) -> None:
    k.shells -= 1


_H = partial(Family, "shell")
# fmt: off
SHELL = (
    _H("variable-set", _set, changes=True, odd=(lambda s: f"{s.noun()} = {s.n(1, 9)}", lambda s: f"{s.n(1, 9)}{s.noun()}={s.noun()}")),
    _H("variable-show", _show_variable, (_has_variable,)),
    _H("variable-expand", _expansion, (_has_variable,)),
    _H("variable-special", lambda s: f"echo {s.pick('$HOME', '$USER', '$SHELL', '$PATH', '$?', '$0', '$LANG', '$PWD', '$OLDPWD', '$SHLVL', '$BASH_VERSION', '$TERM')}"),
    _H("variable-unset", _unset, (_has_variable,), True),
    _H("variable-default", lambda s: f"echo ${{{s.pick('nothing', 'unset_one', 'NOPE')}{s.pick(':-', ':=', '-')}{s.noun()}}}", odd=(lambda s: f"echo ${{{s.noun()}:?must be set}}", lambda s: f"echo ${{{s.noun()} }}")),
    _H("export", lambda s: _set(s, "export "), changes=True),
    _H("env-grep", lambda s: f"{s.pick('env', 'printenv', 'export -p')} | grep {s.pick('-c ', '')}{s.pick('HOME', 'USER', 'LANG', 'STAGE', 'LEVEL', 'COLOR')}"),
    _H("printenv", lambda s: f"printenv {s.pick('HOME', 'USER', 'PATH', 'LANG', 'NOPE', 'SHELL')}"),
    _H("declare", lambda s: f"declare -p {_variable(s)}", (_has_variable,)),
    _H("readonly", lambda s: f"readonly {s.pick('LOCKED', 'FIXED')}_{s.n(1, 99)}={s.noun()}; readonly | grep -c =", changes=True),
    _H("read-only-denied", lambda s: f"readonly R{s.n(1, 99)}={s.noun()}; UID={s.n(0, 9)}", always_odd=True),
    _H("array-set", _array, changes=True),
    _H("array-show", _array_show, (_has_array,)),
    _H("array-append", _array_append, (_has_array,), True),
    _H("array-map", lambda s: f"declare -A m=([{s.noun()}]={s.n(1, 9)} [{s.noun()}]={s.n(1, 9)}); for k in \"${{!m[@]}}\"; do echo $k ${{m[$k]}}; done | sort", changes=True),
    _H("function-define", _function, changes=True, odd=(lambda s: f"{s.noun()}() {{ echo $1 }}; {s.noun()}", lambda s: f"function () {{ echo {s.noun()}; }}")),
    _H("function-call", lambda s: f"{s.r.choice(s.k.functions)} {s.pick(str(s.n(1, 30)), s.noun(), f'{s.noun()} {s.noun()}')} < /dev/null", (lambda k: bool(k.functions),), True),
    _H("function-show", lambda s: f"{s.pick('type', 'declare -f')} {s.r.choice(s.k.functions)}", (lambda k: bool(k.functions),)),
    _H("alias", _alias, changes=True),
    _H("alias-use", lambda s: s.r.choice(s.k.aliases), (lambda k: bool(k.aliases),)),
    _H("alias-list", lambda s: s.pick("alias", f"type {s.r.choice(s.k.aliases)}", f"unalias {s.r.choice(s.k.aliases)}"), (lambda k: bool(k.aliases),), odd=(lambda s: f"unalias {s.noun()}",)),
    _H("type", lambda s: f"type {s.pick('', '-t ', '-a ')}{s.pick('cd', 'ls', 'if', 'echo', 'grep', 'python3', 'test')}"),
    _H("help", lambda s: f"help -s {s.pick('cd', 'export', 'read', 'test', 'kill', 'wait', 'type', 'printf', 'umask')}", odd=(lambda s: f"help {s.noun()}",)),
    _H("program-help", lambda s: f"{s.pick('ls', 'cp', 'sort', 'head', 'cut', 'mkdir', 'tar', 'uniq', 'wc')} --help | {s.pick('head -n 5', 'head -n 12', 'wc -l', 'grep -m 3 -e -r')}"),
    _H("program-version", lambda s: f"{s.pick('bash', 'git', 'python3', 'grep', 'sed', 'tar', 'ls', 'find', 'sort', 'diff')} --version | head -n 1"),
    _H("history", lambda s: f"history {s.n(2, 6)}", (lambda k: k.lines > 5,)),
    _H("history-again", lambda s: s.pick("!!", "!!", f"!! | head -n {s.n(1, 3)}"), (_again,), odd=(lambda s: f"!{s.noun()}", lambda s: f"!{s.n(500, 900)}")),
    _H("set-option", lambda s: s.pick(f"set -u; echo $nope{s.n(1, 9)}; set +u", "set -o | grep noclobber", "set -f; echo *; set +f", f"set -x; echo {s.noun()}; set +x", f"set -- {_list(s)}; echo $# $2")),
    _H("noclobber", lambda s: f"set -C; echo {s.noun()} > {s.show(s.own())}; set +C", (owns(),), always_odd=True),
    _H("shopt", lambda s: f"shopt {s.pick('-s', '-u', '')} {s.pick('nullglob', 'dotglob', 'globstar', 'extglob')}".replace("  ", " "), changes=True),
    _H("glob", lambda s: f"echo {s.pick('*', '*.txt', '*.[ch]*', '?????.*', '[a-m]*', '*/', '.*', '*.{csv,log}')}"),
    _H("quoting", _quoted),
    _H("echo", lambda s: f"echo {s.pick('', '-n ', '-e ')}{s.pick(phrase(s.r), str(s.n(1, 9999)), s.noun())}"),
    _H("eval", lambda s: f"cmd='{s.pick('echo', 'printf %s')} {s.noun()}'; eval \"$cmd {s.noun()}\""),
    _H("trap", lambda s: f"bash -c 'trap \"echo {s.pick('bye', 'cleanup', s.noun())}\" EXIT; echo {s.noun()}{s.pick('', '; exit 3', '; false')}'"),
    _H("getopts", lambda s: f"bash -c 'while getopts \"ab:\" o; do echo \"$o=$OPTARG\"; done' x {s.pick('-a', f'-b {s.noun()}', f'-ab {s.noun()}', '-z', '-b')}"),
    _H("mapfile", lambda s: f"mapfile -t rows < {s.file()}; echo \"${{#rows[@]}}: ${{rows[{s.n(0, 3)}]}}\"", (_HAS_TEXT,), True),
    _H("bash-inside", lambda s: Move("bash", (_deeper,)), (lambda k: k.shells == 0,), True),
    _H("bash-leave", lambda s: Move(s.pick("exit", "exit 3", "exit"), (_out,)), (lambda k: k.shells > 0,), True),
    _H("comment", lambda s: f"# {phrase(s.r)}"),
    _H("no-such-command", lambda s: f"{s.pick('tree', 'rsync -a . /tmp', 'nano notes.txt', 'htop', 'sudo ls', 'ifconfig', 'jqq .', 'zsh', 'docker ps', 'npm install', 'pip3.9 list', 'systemctl status cron', 'apt-get update', 'cal', 'locate x', 'emacs', 'ack todo', 'fd txt', 'rg TODO', 'bat README.md', 'gawk 1', 'dc', 'telnet', 'ruby -v', 'cargo build', 'crontab -l')}", always_odd=True),
    _H("syntax-error", lambda s: s.pick(f"echo {s.noun()})", "if then fi", f"ls || && echo {s.noun()}", "done", "for f in *; do echo $f", "cat <<< ", f"{s.noun()} () echo", "} ", ";; ls", f"echo $({s.noun()}", "case x in", "& ls"), opens="quote", always_odd=True),
)
# fmt: on


# Processes.


def _has_job(k: Known) -> bool:
    return bool(k.jobs)


def _running(k: Known) -> bool:
    return "running" in k.jobs.values()


def _stopped(k: Known) -> bool:
    return "stopped" in k.jobs.values()


def _number(s: Scene, state: str | None = None) -> int:
    return s.r.choice([n for n, known in s.k.jobs.items() if state in (None, known)])


def _few_jobs(k: Known) -> bool:
    return len(k.jobs) < 4


def _forget(number: int) -> Effect:
    return lambda k: k.jobs.pop(number, None)


def _kill(s: Scene) -> Move:
    number = _number(s)
    signal = s.pick("", "", "-9 ", "-TERM ", "-HUP ")
    return Move(f"kill {signal}%{number}; wait %{number} 2>/dev/null; echo $?", (_forget(number),))


def _disown(s: Scene) -> Move:
    number = _number(s, "running")
    return Move(f"disown %{number}; jobs", (_forget(number),))


def _stop(s: Scene) -> Move:
    line = s.pick(f"sleep {s.n(30, 300)}", "cat", f"sleep {s.n(30, 300)}; echo {s.noun()}", "tail -f /dev/null")
    return Move(keys=((line + "\n", 0.1), ("C-z", 1.0)))


def _fg(s: Scene) -> Move:
    return Move(keys=((f"fg %{_number(s)}\n", 0.1), ("C-c", 1.0)))


def _background_output(s: Scene) -> Move:
    path = s.new("log")
    line = f"(for i in 1 2 3; do echo {s.noun()} $i; done; sleep 0.1) > {s.show(path)} & wait; cat {s.show(path)}"
    return Move(line, (lambda k: k.add(path, "log"),))


def _nohup(s: Scene) -> Move:
    path = s.new("txt")
    return Move(f"nohup echo {s.noun()} > {s.show(path)} 2>&1; cat {s.show(path)}", (lambda k: k.add(path, "txt"),))


_R = partial(Family, "processes", seconds=2.0)
# fmt: off
PROCESSES = (
    _R("background", lambda s: s.pick("sleep {} &", "nice sleep {} &", "nohup sleep {} > /dev/null 2>&1 &", "sleep {} > /dev/null &").format(s.n(60, 900)), (_few_jobs,), True),
    _R("background-output", _background_output, (_few_jobs, writable), True),
    _R("jobs", lambda s: s.pick("jobs", "jobs", "jobs -r", "jobs -s")),
    _R("jobs-long", lambda s: s.pick("jobs -l", "jobs -p | wc -l"), (_has_job,)),
    _R("kill-job", _kill, (_has_job,), True, odd=(lambda s: f"kill %{s.n(7, 20)}", lambda s: f"kill {s.n(40000, 90000)}", lambda s: f"kill -{s.noun().upper()} %1", lambda s: "kill")),
    _R("kill-all-jobs", lambda s: "kill $(jobs -p); wait 2>/dev/null; jobs", (_running,), True),
    _R("stop-key", _stop, (_few_jobs,), True),
    _R("bg", lambda s: f"bg %{_number(s, 'stopped')}", (_stopped,), True, odd=(lambda s: f"bg %{s.n(7, 20)}",)),
    _R("fg-interrupt", _fg, (_running,), True, odd=(lambda s: f"fg %{s.n(7, 20)}",)),
    _R("signal-job", lambda s: f"kill -{s.pick('STOP', 'CONT')} %{_number(s)}; sleep 0.1; jobs", (_has_job,), True),
    _R("wait-short", lambda s: f"(sleep 0.{s.n(1, 2)}; echo {s.noun()}) & wait", changes=True),
    _R("wait-status", lambda s: f"(exit {s.n(1, 99)}) & wait $!; echo \"status $?\""),
    _R("disown", _disown, (_running,), True),
    _R("ps", lambda s: s.pick("ps", "ps -o pid,comm", "ps -ef | head -n 4", "ps -e -o comm= | sort | uniq -c", "ps aux | wc -l", "ps -o stat,comm")),
    _R("pgrep", lambda s: f"pgrep {s.pick('-c', '-l', '-a', '-x')} {s.pick('sleep', 'bash', 'python3', 'vim', s.noun())}"),
    _R("pkill", lambda s: f"pkill {s.pick('', '-9 ')}sleep; sleep 0.1; jobs", (_running,), True, odd=(lambda s: f"pkill {s.noun()}; echo $?",)),
    _R("top-batch", lambda s: f"top -b -n 1 | {s.pick('head -n 2 | tail -n 1', 'sed -n 7p', 'grep -c bash', 'tail -n 3')}"),
    _R("timeout", lambda s: f"timeout 0.{s.n(1, 3)} {s.pick('sleep 9', 'cat', 'tail -f /dev/null', f'echo {s.noun()}', 'yes > /dev/null')}; echo $?"),
    _R("interrupt-sleep", lambda s: Move(keys=((f"{s.pick('sleep', 'sleep 5; sleep', 'time sleep')} {s.n(60, 900)}\n", 0.15), ("C-c", 1.0)))),
    _R("interrupt-loop", lambda s: Move(keys=((f"while true; do {s.pick('sleep 60', 'sleep 99; echo x', 'read -t 50')}; done\n", 0.15), ("C-c", 1.0)))),
    _R("nice", lambda s: f"nice -n {s.n(1, 19)} {s.pick('nice', f'bash -c nice; echo {s.noun()}')}"),
    _R("nohup", _nohup, (writable,), True),
    _R("time", lambda s: f"time {s.pick('true', 'sleep 0.1', f'seq {s.n(1000, 9000)} | tail -n 1')}"),
    _R("xargs-parallel", lambda s: f"printf '%s\\n' {_list(s, 3, 5)} | xargs -P {s.n(2, 3)} -I{{}} echo {{}} | sort"),
    _R("ulimit", lambda s: f"ulimit {s.pick('-n', '-u', '-c', '-f', '-t')}"),
    _R("kill-list", lambda s: f"kill -l {s.pick('9', '15', '2', '19', 'HUP', 'TERM')}"),
    _R("sleep", lambda s: f"sleep 0.{s.n(1, 2)}{s.pick('', ' && echo awake', '; echo $?')}"),
)
# fmt: on


# The machine.


_Y = partial(Family, "system")
# fmt: off
SYSTEM = (
    _Y("date", lambda s: s.pick("date", "date +%F", "date -u +%H:%M", "date +%s")),
    _Y("uname", lambda s: s.pick("uname", "uname -n", "uname -m", "uname -o", "uname -s")),
    _Y("hostname", lambda s: s.pick("hostname", "cat /etc/hostname", "echo $HOSTNAME")),
    _Y("whoami", lambda s: s.pick("whoami", "logname 2>&1", "id -un", "echo $LOGNAME")),
    _Y("df", lambda s: f"df {s.pick('-h', '-k', '--output=target,size', '-h --output=size,avail')} {s.pick('.', '~', '/tmp')}"),
    _Y("free", lambda s: s.pick("free -m | head -n 1", "free -h | wc -l", "free | awk 'NR == 1'")),
    _Y("uptime", lambda s: s.pick("uptime -p", "uptime", "cat /proc/uptime | wc -w")),
    _Y("os-release", lambda s: f"grep {s.pick('^NAME', 'VERSION_ID', '^ID', 'PRETTY')} /etc/os-release"),
    _Y("passwd", lambda s: s.pick("cut -d: -f1 /etc/passwd", "getent passwd $USER", f"grep {s.noun()} /etc/passwd", "awk -F: '{ print $1, $7 }' /etc/passwd", "tail -n 1 /etc/group")),
    _Y("hosts", lambda s: s.pick("cat /etc/hosts", "grep localhost /etc/hosts", "getent hosts localhost")),
    _Y("locale", lambda s: s.pick("locale | head -n 2", "locale -a | head -n 3", "echo $LANG")),
    _Y("terminal-size", lambda s: s.pick("stty size", "tput cols", "tput lines", "echo $COLUMNS x $LINES")),
    _Y("tty", lambda s: s.pick("tty", "test -t 0 && echo terminal")),
    _Y("proc", lambda s: s.pick("cat /proc/self/comm", "ls /proc/self/fd | wc -l", "head -n 1 /proc/self/status", "cat /proc/sys/kernel/ostype")),
    _Y("system-folder", lambda s: f"ls {s.pick('/', '/usr', '/var', '/etc | head -n 5', '/tmp', '/home', '/mnt', '/srv', '/opt')}"),
    _Y("network-missing", lambda s: s.pick("ping -c 1 10.0.0.1", "getent hosts example.org || echo unknown", "bash -c 'echo > /dev/tcp/127.0.0.1/9'", "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 9))' 2>&1 | tail -n 1", "git ls-remote https://example.org/x.git"), always_odd=True, seconds=5.0),
)
# fmt: on
