"""Writing files, working on their lines, and finding things in them."""
# ruff: noqa: E501  (a row of a table is a line)

import posixpath
from functools import partial

from worldlm.rollout.explorers.terminal.known import TEXTS
from worldlm.rollout.explorers.terminal.scene import (
    Family,
    Make,
    Move,
    Scene,
    has,
    has_here,
    heredoc,
    owns,
    subfolder,
    writable,
)
from worldlm.rollout.explorers.terminal.words import LEVELS, PEOPLE, phrase, sentence

_HAS_TEXT = has(*TEXTS)
_PROSE = ("txt", "list", "md")
_LINES = ("txt", "list", "num", "csv", "log", "ini", "env", "md")


# Writing.


def _written(kind: str, mark: str = "EOF") -> Make:
    """A here-document with new content of this kind."""

    def make(s: Scene) -> Move:
        path, content = s.new(kind), s.content(kind)
        return Move(heredoc(s.show(path), content, mark), (lambda k: k.add(path, kind, content),))

    return make


def _program(kind: str) -> Make:
    def make(s: Scene) -> Move:
        path = s.new(kind)
        content, repair = s.program(kind)
        return Move(heredoc(s.show(path), content), (lambda k: k.add(path, kind, content, repair=repair),))

    return make


def _echo_to(s: Scene) -> Move:
    path, words = s.new("txt"), s.pick(phrase(s.r), sentence(s.r), str(s.n(1, 9999)), s.noun())
    quote = s.pick('"', "'")
    return Move(f"echo {quote}{words}{quote} > {s.show(path)}", (lambda k: k.add(path, "txt", words + "\n"),))


def _append(s: Scene) -> Move:
    path, words = s.own("txt", "list", "md", "log"), s.pick(sentence(s.r), phrase(s.r), s.noun())
    content = s.text(path)
    return Move(
        f"echo '{words}' >> {s.show(path)}", (lambda k: k.add(path, k.files[path].kind, f"{content}{words}\n"),)
    )


def _printf_to(s: Scene) -> Move:
    path, words = s.new("txt"), [s.noun() for _ in range(s.n(2, 5))]
    return Move(
        f"printf '%s\\n' {' '.join(words)} > {s.show(path)}",
        (lambda k: k.add(path, "list", "\n".join(words) + "\n"),),
    )


def _printf_rows(s: Scene) -> Move:
    path = s.new("txt")
    rows = [(s.noun(), str(s.n(1, 99))) for _ in range(s.n(2, 4))]
    flat = " ".join(f"{name} {count}" for name, count in rows)
    content = "".join(f"{name}\t{count}\n" for name, count in rows)
    return Move(f"printf '%s\\t%d\\n' {flat} > {s.show(path)}", (lambda k: k.add(path, "txt", content),))


def _seq_to(s: Scene) -> Move:
    path = s.new("num")
    first, step, last = s.n(0, 9), s.n(1, 5), s.n(12, 30)
    content = "".join(f"{i}\n" for i in range(first, last + 1, step))
    return Move(f"seq {first} {step} {last} > {s.show(path)}", (lambda k: k.add(path, "num", content),))


def _cat_keys(s: Scene) -> Move:
    path, lines = s.new("txt"), [s.pick(sentence(s.r), phrase(s.r)) for _ in range(s.n(1, 3))]
    content = "\n".join(lines) + "\n"
    keys = ((f"cat > {s.show(path)}\n", 0.2), (content, 0.1), ("C-d", 1.0))
    return Move(keys=keys, effects=(lambda k: k.add(path, "txt", content),))


def _tee(s: Scene) -> Move:
    path, words = s.new("txt"), s.pick(phrase(s.r), sentence(s.r))
    return Move(
        f"echo '{words}' | tee {s.pick('', '-a ')}{s.show(path)}", (lambda k: k.add(path, "txt", words + "\n"),)
    )


def _split(s: Scene) -> Move:
    prefix = s.noun() + "_"
    return Move(f"split -l {s.n(2, 4)} {s.pick('', '-d ')}{s.file(*_LINES)} {prefix} && ls {prefix}*")


def _csplit(s: Scene) -> Move:
    return Move(f"csplit -s {s.file('txt', 'log', 'csv', 'num')} {s.n(2, 3)} && head -n 2 xx00 xx01")


_W = partial(Family, "writing", changes=True)
# fmt: off
WRITING = (
    _W("echo-to", _echo_to, (writable,), odd=(lambda s: f"echo {s.noun()} > {s.noun()}/{s.noun()}.txt", lambda s: "echo hello >")),
    _W("echo-append", _append, (owns("txt", "list", "md", "log"),)),
    _W("printf-to", _printf_to, (writable,)),
    _W("printf-rows", _printf_rows, (writable,)),
    _W("seq-to", _seq_to, (writable,)),
    _W("heredoc-text", _written("txt"), (writable,)),
    _W("heredoc-words", _written("list", "END"), (writable,)),
    _W("heredoc-numbers", _written("num"), (writable,)),
    _W("heredoc-csv", _written("csv"), (writable,)),
    _W("heredoc-log", _written("log"), (writable,)),
    _W("heredoc-config", _written("ini"), (writable,)),
    _W("heredoc-env", _written("env"), (writable,)),
    _W("heredoc-json", _written("json"), (writable,)),
    _W("heredoc-markdown", _written("md", "DOC"), (writable,)),
    _W("heredoc-html", _written("html"), (writable,)),
    _W("heredoc-script", _program("sh"), (writable,)),
    _W("heredoc-python", _program("py"), (writable,)),
    _W("cat-keys", _cat_keys, (writable,)),
    _W("tee", _tee, (writable,)),
    _W("split", _split, (has(*_LINES), writable)),
    _W("csplit", _csplit, (has("txt", "log", "csv", "num"), writable)),
)
# fmt: on


# Lines.


def _join(s: Scene) -> str:
    return f"join -t, -1 1 -2 1 <(tail -n +2 {s.file('csv')} | sort) <(tail -n +2 {s.file('csv')} | sort)"


def _comm(s: Scene) -> str:
    files = s.files(2, "list", "num", "txt")
    return f"comm {s.pick('', '-12 ', '-23 ', '-13 ')}<(sort {files[0]}) <(sort {files[-1]})"


def _setting(s: Scene) -> Move:
    path = s.own("ini")
    old = s.pick("port", "workers", "retries", "timeout", "size")
    return Move(f"sed -i 's/^{old} = .*/{old} = {s.n(1, 9999)}/' {s.show(path)}", (lambda k: k.touch(path),))


def _edited(line: str, kinds: tuple[str, ...] = _LINES) -> Make:
    """`sed` in place; `{word}`, `{new}`, `{n}` and `{file}` are filled in."""

    def make(s: Scene) -> Move:
        path = s.own(*kinds)
        filled = line.format(word=s.word_in(path), new=s.noun(), n=s.n(1, 4), file=s.show(path))
        return Move(filled, (lambda k: k.touch(path),))

    return make


def _sort_in_place(s: Scene) -> Move:
    path = s.own("txt", "list", "num", "csv")
    return Move(f"sort {s.pick('', '-r ', '-u ')}-o {s.show(path)} {s.show(path)}", (lambda k: k.touch(path),))


def _csv_group(s: Scene) -> str:
    return f"awk -F, 'NR > 1 {{ sum[${s.n(2, 3)}] += $4 }} END {{ for (k in sum) print k, sum[k] }}' {s.file('csv')} | sort"


def _level(s: Scene) -> str:
    return s.r.choice((*LEVELS, "GET", "404", "500"))


def _printed(*lines: str) -> Make:
    """One of these lines; `{n}`, `{m}`, `{c}` and `{word}` are filled in, and `{file}`, `{csv}`, `{log}`, `{num}`."""

    def make(s: Scene) -> str:
        line = s.r.choice(lines)
        values = {"n": str(s.n(1, 6)), "m": str(s.n(7, 30)), "c": str(s.column())}
        for name, kinds in _PLACES.items():
            if "{" + name + "}" in line:
                path = s.path(*kinds)
                values[name] = s.show(path)
                values["word"] = s.word_in(path)
        return line.format(**values)

    return make


_PLACES = {
    "file": TEXTS,
    "lines": _LINES,
    "prose": _PROSE,
    "csv": ("csv",),
    "log": ("log",),
    "num": ("num",),
    "list": ("list", "num", "txt"),
    "json": ("json",),
    "ini": ("ini", "env"),
}

_HAS_LINES = has(*_LINES)
_HAS_LIST = has("list", "num", "txt")
_HAS_CSV = has("csv")
_HAS_NUM = has("num")


def _missing(program: str) -> Make:
    return lambda s: f"{program} {s.absent()}"


_T = partial(Family, "text")
# fmt: off
TEXT = (
    _T(
        "cat",
        lambda s: f"cat {s.file()}",
        (_HAS_TEXT,),
        odd=(_missing("cat"), lambda s: f"cat {s.show(s.folder_path())}", lambda s: f"cat {s.file()} {s.absent()}"),
    ),
    _T("cat-several", lambda s: "cat " + " ".join(s.files(2)), (has(*TEXTS, count=2),)),
    _T("cat-number", lambda s: f"cat {s.pick('-n', '-A', '-b', '-s', '-E')} {s.file()}", (_HAS_TEXT,)),
    _T("tac", lambda s: f"tac {s.file(*_LINES)}", (_HAS_LINES,)),
    _T("head", lambda s: f"head {s.pick(f'-n {s.n(1, 6)}', f'-{s.n(1, 5)}', f'-c {s.n(5, 60)}', '')} {s.file()}", (_HAS_TEXT,), odd=(_missing("head -n 3"), lambda s: f"head -n x {s.file()}")),
    _T("tail", lambda s: f"tail {s.pick(f'-n {s.n(1, 6)}', f'-n +{s.n(2, 6)}', f'-c {s.n(5, 60)}', '')} {s.file()}", (_HAS_TEXT,), odd=(_missing("tail"),)),
    _T("nl", _printed("nl {lines}", "nl -b a {lines}", "nl -w 3 -s '. ' {lines}"), (_HAS_LINES,)),
    _T("wc", lambda s: f"wc {s.pick('', '-l', '-w', '-c', '-L', '-lw')} {' '.join(s.files(s.n(1, 3)))}", (_HAS_TEXT,), odd=(_missing("wc -l"),)),
    _T("sort", lambda s: f"sort {s.pick('', '-r', '-u', '-f')} {s.file(*_LINES)}", (_HAS_LINES,), odd=(_missing("sort"), lambda s: f"sort --key {s.file()}")),
    _T("sort-numbers", _printed("sort -n {num}", "sort -rn {num}", "sort -rn {num} | head -n {n}", "sort -nu {num}"), (_HAS_NUM,)),
    _T("sort-column", _printed("sort -t, -k{c} {csv}", "sort -t, -k{c},{c} -r {csv}", "tail -n +2 {csv} | sort -t, -k4 -n", "sort -t, -k4,4nr {csv}"), (_HAS_CSV,)),
    _T("sort-in-place", _sort_in_place, (owns("txt", "list", "num", "csv"),), True),
    _T("uniq", _printed("uniq {list}", "sort {list} | uniq", "sort {list} | uniq -d", "sort {list} | uniq -u"), (_HAS_LIST,)),
    _T("uniq-count", _printed("sort {list} | uniq -c", "sort {list} | uniq -c | sort -rn", "uniq -c {list}"), (_HAS_LIST,)),
    _T("cut-column", _printed("cut -d, -f{c} {csv}", "cut -d, -f1,{c} {csv}", "cut -d, -f2- {csv}", "cut -d, -f{c} {csv} | tail -n +2 | sort"), (_HAS_CSV,), odd=(lambda s: f"cut -d, {s.file('csv')}", lambda s: f"cut -d ', ' -f1 {s.file('csv')}")),
    _T("cut-characters", _printed("cut -c1-{m} {lines}", "cut -c{n}- {lines}", "cut -c{n},{m} {lines}"), (_HAS_LINES,)),
    _T("cut-words", _printed("cut -d' ' -f{c} {lines}", "cut -d' ' -f1-{n} {lines}", "cut -d' ' -f{c} {lines} | sort -u"), (_HAS_LINES,)),
    _T("paste", lambda s: f"paste {s.pick('', '-d, ', '-d: ')}{' '.join(s.files(2, *_LINES))}", (has(*_LINES, count=2),)),
    _T("paste-serial", _printed("paste -s -d, {list}", "paste -sd+ {num}", "paste -s -d' ' {list}", "paste -sd+ {num} | tr -d '\\n'"), (_HAS_LIST, _HAS_NUM)),
    _T("join", _join, (_HAS_CSV,)),
    _T("comm", _comm, (_HAS_LIST,)),
    _T("tr-case", _printed("tr a-z A-Z < {prose}", "tr '[:lower:]' '[:upper:]' < {lines}", "tr A-Z a-z < {lines}"), (has(*_PROSE),)),
    _T("tr-delete", _printed("tr -d 'aeiou' < {lines}", "tr -d ',' < {lines}", "tr -cd '0-9\\n' < {lines}", "tr -d '[:punct:]' < {lines}"), (_HAS_LINES,)),
    _T("tr-squeeze", _printed("tr -s ' ' '\\n' < {lines} | head -n {n}", "tr ' ' '_' < {lines}", "tr -s 'a-z' < {lines}"), (_HAS_LINES,)),
    _T("sed-replace", _printed("sed 's/{word}/X/' {lines}", "sed 's/{word}/[&]/g' {lines}", "sed 's/^/> /' {lines}", "sed 's/,/;/g' {lines}", "sed -E 's/[0-9]+/N/g' {lines}", "sed 's/{word}/{word}{n}/I' {lines}"), (_HAS_LINES,), odd=(lambda s: f"sed 's/{s.noun()}/{s.noun()}' {s.file()}", lambda s: f"sed -n 's/(/x/p {s.file()}'")),
    _T("sed-delete", _printed("sed '{n}d' {lines}", "sed '/{word}/d' {lines}", "sed '1d' {lines}", "sed '$d' {lines}", "sed '/^$/d' {file}"), (_HAS_LINES,)),
    _T("sed-print", _printed("sed -n '{n}p' {lines}", "sed -n '2,{n}p' {lines}", "sed -n '/{word}/p' {lines}", "sed -n '$p' {lines}", "sed -n '/{word}/=' {lines}"), (_HAS_LINES,)),
    _T("sed-in-place", _edited("sed -i 's/{word}/{new}/' {file}"), (owns(*_LINES),), True, odd=(lambda s: f"sed -i 's/{s.noun()}/{s.noun()}/' {s.absent()}",)),
    _T("sed-in-place-all", _edited("sed -i 's/{word}/{new}/g' {file} && cat {file}"), (owns(*_LINES),), True),
    _T("sed-insert", _edited("sed -i '{n}i {new} {word}' {file}"), (owns(*_LINES),), True),
    _T("sed-append", _edited("sed -i '$a {new} {n}' {file}"), (owns(*_LINES),), True),
    _T("sed-delete-in-place", _edited("sed -i '/{word}/d' {file}"), (owns(*_LINES),), True),
    _T("sed-setting", _setting, (owns("ini"),), True),
    _T("awk-column", _printed("awk '{{ print $1 }}' {lines}", "awk '{{ print $NF }}' {lines}", "awk -F, '{{ print ${c} }}' {csv}", "awk -F, '{{ print $2 \": \" $4 }}' {csv}"), (_HAS_CSV,), odd=(lambda s: f"awk '{{ print $1 ' {s.file()}", lambda s: f"awk -F, {{print $2}} {s.file('csv')}")),
    _T("awk-sum", _printed("awk -F, 'NR > 1 {{ s += $4 }} END {{ print s }}' {csv}", "awk -F, 'NR > 1 {{ s += $4; n++ }} END {{ print s / n }}' {csv}", "awk -F, 'NR > 1 && $4 > m {{ m = $4 }} END {{ print m }}' {csv}"), (_HAS_CSV,)),
    _T("awk-sum-lines", _printed("awk '{{ s += $1 }} END {{ print s }}' {num}", "awk '{{ s += $1 }} END {{ print s / NR }}' {num}", "awk '{{ s += $1; print s }}' {num}"), (_HAS_NUM,)),
    _T("awk-filter", _printed("awk -F, '$4 > {m}' {csv}", "awk -F, 'NR > 1 && $4 < {m} {{ print $1, $2 }}' {csv}", "awk -F, '$2 ~ /{word}/' {csv}", "awk 'NR % 2' {csv}", "awk 'NR == {n}' {csv}"), (_HAS_CSV,)),
    _T("awk-group", _csv_group, (_HAS_CSV,)),
    _T("awk-count", _printed("awk '{{ n[$3]++ }} END {{ for (k in n) print n[k], k }}' {log} | sort -rn", "awk '$3 == \"ERROR\" {{ print $1, $2 }}' {log}", "awk '/{word}/ {{ n++ }} END {{ print n + 0 }}' {log}"), (has("log"),)),
    _T("awk-fields", _printed("awk '{{ print NR, NF }}' {lines}", "awk '{{ print length, $0 }}' {lines}", "awk 'END {{ print NR }}' {lines}", "awk 'length > {m}' {lines}"), (_HAS_LINES,)),
    _T("awk-format", _printed("awk -F, '{{ printf \"%-12s|%8s\\n\", $2, $4 }}' {csv}", "awk -F, -v OFS=';' '{{ $1 = $1; print }}' {csv}", "awk -F, 'NR > 1 {{ printf \"%s=%.1f\\n\", $2, $4 * 1.{n} }}' {csv}"), (_HAS_CSV,)),
    _T("awk-begin", _printed("awk 'BEGIN {{ for (i = 1; i <= {n}; i++) print i, i * i }}'", "awk 'BEGIN {{ print substr(\"{m} lamps\", 1, 4), toupper(\"abc\"), {n} ^ 2 }}'", "awk 'BEGIN {{ printf \"%05d %x %.3f\\n\", {n}, {m}, {m} / {n} }}'")),
    _T("column-swap", _printed("awk -F, '{{ print $2 \",\" $1 }}' {csv}", "awk -F, 'BEGIN {{ OFS = \",\" }} {{ t = $1; $1 = $4; $4 = t; print }}' {csv}"), (_HAS_CSV,)),
    _T("fold", _printed("fold -w {m} {prose}", "fold -s -w {m} {prose}"), (has(*_PROSE),)),
    _T("fmt", _printed("fmt -w 3{n} {prose}", "fmt -u -w 4{n} {prose}"), (has(*_PROSE),)),
    _T("rev", _printed("rev {lines}", "rev {lines} | head -n {n}"), (_HAS_LINES,)),
    _T("expand", _printed("expand -t {m} {file} | head -n {n}", "unexpand -a {file} | head -n {n}"), (_HAS_TEXT,)),
    _T("shuf", _printed("shuf --random-source=/usr/bin/awk {list}", "shuf -n {n} --random-source=/usr/bin/env {list}"), (_HAS_LIST,)),
    _T("od", _printed("head -c {m} {file} | od -c", "od -An -tx1 -N {m} {file}", "od -A d -t x1z -N {m} {file}"), (_HAS_TEXT,)),
    _T("base64", _printed("head -c {m} {file} | base64", "base64 -w 60 {file}", "echo {m}-{n} | base64", "base64 {file} | base64 -d | head -n {n}"), (_HAS_TEXT,)),
    _T("pr", _printed("pr -t -2 -w 60 {list}", "pr -t -n {list}"), (_HAS_LIST,)),
    _T("numfmt", _printed("numfmt --to=iec {m}00000", "numfmt --to=si {m}{n}0000", "numfmt --from=iec {n}K {m}M", "numfmt --grouping {m}0000")),
    _T("tsort", lambda s: f"printf '%s\\n' '{s.noun()} {s.noun()}' '{s.noun()} {s.noun()}' | tsort"),
    _T("iconv", _printed("iconv -f utf-8 -t ascii//TRANSLIT {file} | head -n {n}", "iconv -f utf-8 -t utf-16le {file} | wc -c"), (_HAS_TEXT,)),
    _T("diff", lambda s: f"diff {s.pick('', '-u', '-q', '-y -W 80')} {' '.join(s.files(2, *_LINES))}", (has(*_LINES, count=2),), odd=(lambda s: f"diff {s.file()} {s.absent()}",)),
    _T("diff-backup", lambda s: _diff_backup(s), (lambda k: any(p.endswith((".bak", ".orig", ".old")) for p in k.files),)),
    _T("diff-folders", lambda s: f"diff -rq {s.show(s.subfolder())} {s.show(s.folder_path())}", (subfolder,)),
)
# fmt: on


def _diff_backup(s: Scene) -> str:
    old = s.prefer_recent([p for p in s.k.files if p.endswith((".bak", ".orig", ".old"))])
    return f"diff {s.pick('', '-u')} {s.show(old)} {s.show(old.rpartition('.')[0])}"


# Search.


def _grep(flags: str, line: str = "grep {flags} {word} {file}") -> Make:
    """`grep` with one of the flags (separated by `|`) for a word that stands in the file, or nearly so."""

    def make(s: Scene) -> str:
        path = s.path(*TEXTS)
        return line.format(flags=s.pick(*flags.split("|")), word=s.word_in(path), file=s.show(path)).replace("  ", " ")

    return make


def _regex(s: Scene) -> str:
    pattern = s.pick(
        "^[A-Z]", "[0-9]{3,}", "(ERROR|WARN)", "^#", "[a-z]+ing", "s$", "^.{3,9}$", "(an|en)d?", "=.*[0-9]", ",[0-9]+$"
    )
    return f"grep -E{s.pick('', 'n', 'c', 'o')} '{pattern}' {s.file()}"


def _find_exec(s: Scene) -> str:
    name = s.path().rpartition(".")[2]
    return f"find . -name '*.{name}' -exec {s.pick('wc -l', 'ls', 'head -n 1', 'stat -c %s')} {{}} {s.pick(chr(92) + ';', '+')}"


def _found(*options: str) -> Make:
    """`find` below the working folder, sorted, with one of these tests."""

    def make(s: Scene) -> str:
        option = s.pick(*options).format(n=s.n(1, 9), noun=s.noun())
        return f"find {s.pick('.', '.', s.show(s.folder_path()))} {option} {s.pick('', '', '| sort', '| head -n 5')}".rstrip()

    return make


_S = partial(Family, "search")
# fmt: off
SEARCH = (
    _S("grep", _grep("|-n|-n"), (_HAS_TEXT,), odd=(lambda s: f"grep {s.noun()} {s.absent()}", lambda s: f"grep '[{s.noun()}' {s.file()}", lambda s: f"grep {s.noun()} {s.show(s.folder_path())}")),
    _S("grep-ignore-case", _grep("-i|-in|-ic"), (_HAS_TEXT,)),
    _S("grep-count", _grep("-c"), (_HAS_TEXT,)),
    _S("grep-invert", _grep("-v|-vn|-vc"), (_HAS_TEXT,)),
    _S("grep-recursive", _grep("-r|-rn|-rl|-ri", "grep {flags} {word} ."), (has_here(*TEXTS),)),
    _S("grep-regex", _regex, (_HAS_TEXT,), odd=(lambda s: f"grep -E '({s.noun()}' {s.file()}",)),
    _S("grep-only", _grep("-o|-on|-oi"), (_HAS_TEXT,)),
    _S("grep-context", _grep("-A 1|-B 1|-C 1|-n -A 2"), (_HAS_TEXT,)),
    _S("grep-files", _grep("-l|-L|-c|-H", "grep {flags} {word} *"), (has_here(*TEXTS),)),
    _S("grep-word", _grep("-w|-wn|-x|-m 1"), (_HAS_TEXT,)),
    _S("grep-fixed", lambda s: f"grep -F{s.pick('', 'n', 'c')} '{s.pick('.', '[', '$', '*', ':', '=', '->', '(')}' {s.file()}", (_HAS_TEXT,)),
    _S("grep-quiet", _grep("-q", "grep {flags} {word} {file} && echo found || echo none"), (_HAS_TEXT,)),
    _S("grep-log", lambda s: f"grep {s.pick('', '-c ', '-n ')}{_level(s)} {s.file('log')}", (has("log"),)),
    _S("find-name", lambda s: f"find {s.pick('.', '.', '~')} -name '*.{s.path().rpartition('.')[2]}' {s.pick('', '| sort', '| wc -l')}".rstrip(), (_HAS_TEXT,), odd=(lambda s: f"find {s.noun()} -name '*.txt'", lambda s: "find . -nmae '*.txt'")),
    _S("find-type", _found("-type f", "-type d", "-type l", "-mindepth 1 -type d"), odd=(lambda s: "find . -type file",)),
    _S("find-size", _found("-type f -size +{n}c", "-type f -size -{n}k", "-size 0", "-type f -size +1k")),
    _S("find-empty", _found("-empty", "-type f -empty", "-type d -empty")),
    _S("find-depth", _found("-maxdepth 1", "-maxdepth 1 -type f", "-maxdepth 2 -name '*{noun}*'", "-mindepth 1 -maxdepth 1")),
    _S("find-newer", lambda s: f"find . -newer {s.file()} -type f | sort", (_HAS_TEXT,)),
    _S("find-path", _found("-path '*{noun}*'", "-not -path '*/.*' -type f", "-iname '{noun}*'", r"-name '*.sh' -o -name '*.py'")),
    _S("find-permission", _found("-perm -u+x -type f", "-perm 644 -type f", "-perm /g+w", "-not -perm -o+r")),
    _S("find-print", _found(r"-type f -printf '%f %s\n'", r"-type f -printf '%m %p\n'", r"-type d -printf '%d %f\n'")),
    _S("find-exec", _find_exec, (_HAS_TEXT,), odd=(lambda s: "find . -name '*.txt' -exec wc -l {}",)),
    _S("find-delete", lambda s: f"find . -name '*.{s.pick('bak', 'tmp', 'old', 'orig', 'pyc')}' {s.pick('-delete', '-print -delete')}", (writable,), True),
    _S("xargs", lambda s: f"find . -type f -name '*.{s.path().rpartition('.')[2]}' -print0 | xargs -0 {s.pick('wc -l', 'ls', 'grep -c e', 'stat -c %s')}", (has_here(*TEXTS),)),
    _S("xargs-each", lambda s: f"ls *.{posixpath.basename(s.r.choice(s.k.here(*TEXTS))).rpartition('.')[2]} | xargs -I{{}} {s.pick('echo file {}', 'basename {} .txt', 'echo {}.bak')}", (has_here(*TEXTS),)),
    _S("xargs-count", lambda s: s.pick(f"seq {s.n(3, 9)}", "echo " + " ".join(s.r.sample(PEOPLE, 4))) + f" | xargs -n {s.n(1, 3)}{s.pick('', ' echo')}"),
    _S("which", lambda s: f"which {s.pick('python3', 'git', 'bash', 'sed', 'awk', 'tar', 'vim', 'less', 'ls grep')}"),
    _S("command-v", lambda s: f"command -v {s.pick('cd', 'python3', 'echo', 'if', 'gzip', 'git')} || echo none"),
    _S("whereis", lambda s: f"whereis -b {s.pick('bash', 'sed', 'tar', 'sort')}"),
)
# fmt: on
