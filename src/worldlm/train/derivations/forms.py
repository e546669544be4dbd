"""What programs print when all is well, as tables: a pattern of the command, a sentence, a pattern of every row.

A sentence is true of a turn when its command is of that kind and all rows that were printed are of that form.
"""

import re
from collections.abc import Sequence

SILENT = frozenset(
    (
        "mkdir",
        "rmdir",
        "touch",
        "rm",
        "cp",
        "mv",
        "ln",
        "chmod",
        "chown",
        "cd",
        "export",
        "unset",
        "set",
        "shopt",
        "alias",
        "unalias",
        "readonly",
        "declare",
        "local",
        "source",
        ".",
        "sleep",
        "true",
        "false",
        ":",
        "kill",
        "wait",
        "trap",
        "umask",
        "split",
        "truncate",
        "gzip",
        "gunzip",
        "tar",
        "sed",
        "install",
        "mkfifo",
        "patch",
        "exec",
        "read",
        "ulimit",
        "disown",
        "zip",
        "ed",
    )
)
"""Programs that print nothing when they succeed, unless they are asked to."""

NOTHING: tuple[tuple[str, str], ...] = (
    (r"grep (?!.*(-\w*q|--quiet))", "No line matches"),
    (r"(diff|cmp)\b", "There is no difference"),
    (r"find (?!.*-(delete|exec|ok|fprint|quit))", "No path is found"),
    (r"ls\b(?!.*-\w*d)", "There is no name to list"),
    (r"jobs\b", "There is no job"),
    (r"git diff\b", "There is no difference"),
    (r"git status (.*-s\b|.*--short|.*--porcelain)", "There is no change to list"),
    (r"git stash list\b", "Nothing is stashed"),
    (r"git (tag|tag -l|tag --list)$", "There is no tag"),
    (r"git (add|commit .*-\w*q|config|checkout|switch|restore|reset|stash)\b", "git has nothing to tell"),
    (r"(test|\[) ", "A test only sets the status"),
    (r"(python3?|bash|sh|\./)", "The program prints nothing"),
)
"""What it means that a single command prints nothing."""


def nothing_of(line: str) -> str | None:
    """What it means that a command line printed nothing, in words; None where the table does not tell."""
    return next((what for pattern, what in NOTHING if re.match(pattern, line)), None)


_NAME = r"[^\s].*"
_LONG = r"(total \d+|[-dlbcps][rwxsStT-]{9}[.+@]? +\d+ \S+ +\S+ +\d+.* .+|.*: *|)"
_HEX = r"[0-9a-f]"

FORMS: tuple[tuple[str, str, str], ...] = (
    (r"ls (-\w*l\w*|.* -\w*l)", "ls -l prints a total, then mode, links, owner, size, date and name.", _LONG),
    (r"ls .*-\w*R", "ls -R prints a heading and the names for each folder.", r".*"),
    (r"ls .*-\w*t", "ls -t prints the names, newest first.", r".*"),
    (r"ls .*-\w*r", "ls -r prints the names in reverse order.", r".*"),
    (r"ls\b", "ls prints the names, sorted.", r".*"),
    (r"git .*commit\b", "git commit names branch and short hash, then counts the changes.", r"\[.+\] .*| .*|"),
    (
        r"git status (.*-s\b|.*--short|.*--porcelain)",
        "git status --short prints two letters and a path for each change.",
        r"[ MADRCTU?!]{2} .+|## .+",
    ),
    (r"git status", "git status names the branch, then lists the changes by kind.", r".*"),
    (r"git log .*--graph", "git log --graph draws the history with *, | and /, newest first.", r".*"),
    (
        r"git log .*--oneline",
        "git log --oneline prints a short hash and a subject, newest first.",
        r".*[0-9a-f]{7,} .+",
    ),
    (r"git log", "git log prints hash, author, date and message, newest first.", r".*"),
    (r"git (diff|show) .*--stat", "The files with their counts of changed lines, then the sum.", r".*"),
    (r"git diff", "git diff prints the changed lines with - and +, under headings of hunks.", r"[-+@ \\dinosr*].*|"),
    (r"git show", "git show prints the commit, then its changes.", r".*"),
    (r"git init", "git init names the new repository's folder.", r"Initialized .*|Reinitialized .*|hint: .*"),
    (r"git add .*-\w*v", "git add -v names each file that it adds.", r"(add|remove) '.+'"),
    (r"git (switch|checkout)", "git names the branch that it switched to.", r"Switched to .*"),
    (r"git branch", "git branch prints the branches in order; * marks this one.", r"[* +] .+|Deleted .*"),
    (r"git (merge|pull)", "git merge tells how it merged, or what stops it.", r".*"),
    (r"git config", "git config prints the value.", r".*"),
    (r"git stash", "git stash tells what it saved, or what is back.", r".*"),
    (r"git (tag|rev-parse|reflog|blame|ls-files|remote)", "git prints a row for each entry.", r".+"),
    (r"(md5|sha\d+)sum( -b| --binary)? [^-]", "A digest in hexadecimal, then the name.", _HEX + r"{32,128} [ *].+"),
    (r"(md5|sha\d+)sum (.*-c|.*--check)", "Each name with OK, or FAILED.", r".+: (OK|FAILED.*)|.*WARNING.*"),
    (r"wc\b", "wc prints its counts, then the name.", r" *\d+( +\d+)*( .+)?"),
    (r"stat -c", "stat fills in the given form for each name.", r".+"),
    (r"stat\b", "stat prints File, Size, Access and the times.", r" *(File|Size|Device|Access|Modify|Change| Birth).*"),
    (r"du\b", "du prints a size, a tab and a path.", r"[\d.]+[KMGBT]?\s+.+"),
    (r"df\b", "df prints a heading, then a row for each file system.", r".+"),
    (r"free\b", "free prints a heading, then memory and swap.", r"( +total.*|Mem:.*|Swap:.*|Total:.*|Low:.*|High:.*)"),
    (r"find\b.* -ls", "find -ls prints a long row for each path.", r".+"),
    (r"find\b", "find prints a path a row.", r".+"),
    (r"diff\b.* -\w*[uU]", "diff -u prints both names, then hunks with - and +.", r"[-+@ \\dO].*|"),
    (r"diff\b", "diff tells where and how lines differ: < old, > new.", r"[\d<>\-OB\\dF].*"),
    (r"date\b", "date prints the time in the wanted form.", r".+"),
    (r"ps\b", "ps prints a row for each process.", r".+"),
    (r"(id|groups)\b", "The user's ids or names are printed.", r".+"),
    (r"jobs\b", "jobs prints number, state and command of each job.", r"\[\d+\].+"),
    (r"history\b", "history prints numbered commands.", r" *\d+[ *] .*"),
    (r"(type|command -V)\b", "type tells what kind of command a name is.", r".*"),
    (r"(which|command -v|whereis)\b", "The path under which the program is found.", r".*"),
    (r"(env|printenv|set|export -p|declare -p)\b", "Variables with their values.", r".*"),
    (r"seq\b", "seq prints the numbers in order.", r".*"),
    (r"(nl|cat .*-\w*n)\b", "Each line comes with its number.", r" *\d+\s.*| *"),
    (r"grep .*-\w*c", "grep -c prints how many lines match.", r"(.+:)?\d+"),
    (r"grep .*-\w*n", "grep -n prints a number before each line that matches.", r"(.+[:-])?\d+[:-].*|--"),
    (r"grep\b", "grep prints the lines that match.", r".*"),
    (r"(uniq .*-\w*c|.*uniq -c)", "uniq -c prints a count before each line.", r" *\d+ .*"),
    (r"sort\b", "sort prints the lines in order.", r".*"),
    (r"head\b(?!.* (-c|--bytes))", "head prints the first lines.", r".*"),
    (r"tail\b(?!.* (-c|--bytes|-n \+))", "tail prints the last lines.", r".*"),
    (r"sed .*-\w*n\b", "sed -n prints only the lines that are asked for.", r".*"),
    (r"sed\b", "sed prints every line, edited.", r".*"),
    (r"cut\b", "cut prints a part of each line.", r".*"),
    (r"tr\b", "tr replaces characters of what it reads.", r".*"),
    (r"awk\b", "awk prints what its program says for each line.", r".*"),
    (r"(mv|cp|rm|mkdir|chmod|ln|rename) .*(-\w*v|--verbose)", "With -v each change is told in a row.", r".+"),
    (r"(uname|hostname|whoami|tty|nproc|arch|logname)\b", "It prints one fact about the machine.", r".+"),
    (r"(pytest|python3? -m (pytest|unittest))\b", "The tests are run, and counted at the end.", r".*"),
    (r"python3? -c", "Python prints what the expression asks for.", r".*"),
    (r"(bash|sh) -x", "With -x each command is printed after + before it runs.", r".*"),
    (r"(source|\.) ", "The file is run in this very shell.", r".*"),
    (r"python3? -m ", "The module prints its own output.", r".*"),
    (r"(fold|fmt)\b", "Long lines are broken at the width.", r".*"),
    (r"(zcat|gunzip -c|gzip -dc)\b", "The packed text is printed.", r".*"),
    (r"(realpath|readlink)\b", "The path that it leads to is printed.", r".+"),
    (r"(pushd|popd|dirs)\b", "The stack of folders is printed, the newest first.", r".+"),
    (r"(bash|sh) -c", "The inner shell runs the command.", r".*"),
    (r"(\./|(python3?|bash|sh) [^-])", "The script's own output is printed.", r".*"),
    (r"(echo|printf)\b", "Its words are printed after the shell expanded them.", r".*"),
    (r"cat\b", "cat prints the file as it is.", r".*"),
    (r"(for|while|until|if|case)\b", "The block prints what its commands print.", r".*"),
    (r"xargs\b|.*\| *xargs\b", "xargs runs its command on what it reads.", r".*"),
    (r"(top|uptime|w|vmstat)\b", "The state of the machine now.", r".*"),
)
"""Command, sentence, row. The first whose command and rows fit is taken."""

COMPILED = tuple((re.compile(command), sentence, re.compile(row)) for command, sentence, row in FORMS)
SENTENCES = {
    sentence: [(c, r) for c, other, r in COMPILED if other == sentence]
    for sentence in dict.fromkeys(f[1] for f in FORMS)
}


def plain(line: str) -> str:
    """A command line without the options of git itself."""
    return re.sub(r"^git(?: --no-pager| -c \S+| -C \S+)+ ", "git ", line)


_FIRST_IS_REDIRECTED = re.compile(r"[^|;&]*(?<![2&])>")
"""A line whose first command prints into a file (or has a `>` in its words)."""


def form_of(line: str, printed: Sequence[str]) -> str | None:
    """The sentence for a command line and all rows that it printed; None where no row of the table fits."""
    if _FIRST_IS_REDIRECTED.match(line):
        return None
    return next(
        (said for command, said, row in COMPILED if command.match(plain(line)) and all(map(row.fullmatch, printed))),
        None,
    )


def fits(sentence: str, line: str, printed: Sequence[str]) -> bool:
    """Whether a sentence of the table is true of a command line and its rows."""
    return not _FIRST_IS_REDIRECTED.match(line) and any(
        command.match(plain(line)) and all(map(row.fullmatch, printed)) for command, row in SENTENCES.get(sentence, ())
    )


FAILURES: tuple[tuple[str, str], ...] = (
    ("is no command that can be found", r"(?:.*: )?{name}: command not found"),
    (
        "is not there",
        r".*\b(?:cannot \w+ |can't open file )?['\"‘`]?{name}['\"’`]?:? "
        r"(?:No such file or directory|.*does not exist).*",
    ),
    ("is not there", r".*: {name}: No such file or directory"),
    ("is a folder", r".*{name}['\"]?: Is a directory"),
    ("is no folder", r".*{name}['\"]?: Not a directory"),
    ("is there already", r".*{name}['\"]?:? (?:File exists|.*already exists).*"),
    ("may not be touched", r".*{name}['\"]?:? (?:Permission denied|Operation not permitted).*"),
    ("is not empty", r".*{name}['\"]?: Directory not empty"),
    (
        "is an option that it does not know",
        r".*(?:unrecognized|unknown|invalid) (?:option|predicate)[^'`\"]*.?{name}['\"`]?.*",
    ),
    ("is no command of git", r"git: '{name}' is not a git command.*"),
    ("is unexpected there", r".*syntax error near unexpected token [`']{name}'"),
    (
        "is not known to git",
        r"(?:error|fatal): (?:pathspec|ambiguous argument|bad revision|invalid reference:?) '?{name}'?.*",
    ),
    ("is there already for git", r"fatal: .*'{name}' already exists.*"),
    ("is not a module that can be found", r"ModuleNotFoundError: No module named '{name}'"),
    ("is read-only", r".*\b{name}: readonly variable"),
)
"""What is wrong with something that was named, in words, and the row that tells it; `{name}` is what was named."""

REFUSALS: tuple[tuple[str, str], ...] = (
    ("This is no git repository", r"fatal: not (?:a git repository|in a git directory).*"),
    ("There is nothing to commit", r"nothing (?:added )?to commit.*|no changes added to commit.*"),
    ("An operand is missing", r".*missing (?:file |destination file )?operand.*"),
    ("The usage is told", r"(?:usage|Usage): .*|Try '.* --help' for more information\.?"),
    ("The line is no valid syntax", r".*(?:syntax error|unexpected EOF).*"),
    ("git refuses", r"(?:fatal|error): .*"),
    ("A traceback is printed", r"Traceback \(most recent call last\):"),
    ("An argument is wrong", r".*(?:invalid|ambiguous|bad) .*"),
    ("It is not allowed", r".*(?:Permission denied|Operation not permitted|not allowed).*"),
    ("Nothing like it is there", r".*(?:No such|not found|no such|cannot find|did not match).*"),
)
"""A failure in words, and the row that tells it."""


WRONG = tuple(dict.fromkeys(what for what, _ in FAILURES))
"""What can be wrong with something that was named."""


def failure_of(printed: Sequence[str], typed: str) -> tuple[str, str] | None:
    """What was named, and what is wrong with it, of the first row that tells a failure; None where none does."""
    words = dict.fromkeys(re.findall(r"[^\s;|&<>'\"=(){}]+|(?<=[ '\"=])[^\s'\"]+", typed))
    for row in printed:
        for what, pattern in FAILURES:
            for name in sorted(words, key=len, reverse=True):
                if name in row and re.fullmatch(pattern.replace("{name}", re.escape(name)), row):
                    return name, what
    return None


def fails(name: str, what: str, printed: Sequence[str]) -> bool:
    """Whether a row tells that of a name."""
    patterns = [pattern.replace("{name}", re.escape(name)) for said, pattern in FAILURES if said == what]
    return any(re.fullmatch(pattern, row) for pattern in patterns for row in printed)


def refusal_of(printed: Sequence[str]) -> str | None:
    """The failure that a row tells, in words."""
    return next((what for what, pattern in REFUSALS for row in printed if re.fullmatch(pattern, row)), None)


def refuses(what: str, printed: Sequence[str]) -> bool:
    """Whether a row tells this failure."""
    return any(re.fullmatch(pattern, row) for said, pattern in REFUSALS if said == what for row in printed)


__all__ = [
    "FAILURES",
    "FORMS",
    "NOTHING",
    "REFUSALS",
    "SILENT",
    "WRONG",
    "fails",
    "failure_of",
    "fits",
    "form_of",
    "nothing_of",
    "refusal_of",
    "refuses",
]
