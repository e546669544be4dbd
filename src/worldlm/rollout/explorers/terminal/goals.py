"""What agents set out to do: chains of command families, and what to do about what went wrong on the way."""
# ruff: noqa: E501  (a chain is a line)

import re

Goal = tuple[str, ...]
"""Steps. A step names families, one of which is taken: `a|b`; with `?` at its end it is taken in half the cases.

A step for which the machine is not ready (no such file, not in a repository) is left out.
"""

_ANY_TEXT = "heredoc-text|heredoc-words|heredoc-markdown|echo-to|printf-to|cat-keys|tee"
_ANY_DATA = "heredoc-csv|heredoc-log|heredoc-numbers|heredoc-words"
_ANY_FILE = f"{_ANY_TEXT}|{_ANY_DATA}|heredoc-config|heredoc-json"
_LOOK = "ls|ls-long|cat|ls-all|wc"
_SED = "sed-in-place|sed-in-place-all|sed-insert|sed-append|sed-delete-in-place"

# fmt: off
GOALS: dict[str, tuple[Goal, ...]] = {
    "files": (
        ("pwd?", "ls|ls-long|ls-all", "mkdir", "cd", _ANY_TEXT, "ls-long", "cat", "mv", "ls", "cd-up"),
        ("mkdir-parents|mkdir-braces", "ls-recursive", "cp|install", "find-type|ls-recursive", "cp-folder", "diff-folders", "rm-folder", "ls"),
        ("touch|touch-many", "ls", "rename-suffix|mv", "ls-glob|ls", "rm-glob|rm|rm-asking", "ls"),
        (_ANY_TEXT, "cp|backup", _SED, "diff|diff-backup", "cmp?", "mv", "stat?", "rm", "ls"),
        (_ANY_FILE, "ln-soft", "ls-long", "readlink|realpath", "rm", "cat|stat", "ls-long"),
        (_ANY_FILE, "ln-hard", "stat", "echo-append", "cat", "ls-long|stat"),
        ("mkdir|mkdir-parents", "mv-folder", "pushd", "pwd?", _ANY_TEXT, "popd", "find-name|ls-recursive", "du"),
        ("cd-home|cd", "ls", "find-name|find-type", "cd-back", "pwd"),
        ("dd|truncate", "ls-long", "du|stat", "find-size", "rm?"),
    ),
    "text": (
        (_ANY_TEXT, "cat", "echo-append", "tail|cat-number|nl", _SED, "cat", "wc"),
        ("heredoc-csv", "head", "cut-column", "sort-column", "awk-sum|awk-group", "awk-filter", "redirect-output|pipe-tee?", "cat"),
        ("heredoc-csv", "column-swap|awk-format", "heredoc-csv", "join", "paste|diff", "awk-column"),
        ("heredoc-csv", "while-read", "python-csv", "awk-group", "csv-top", "sed-in-place", "python-csv"),
        ("heredoc-log", "grep-log", "log-levels|awk-count", "log-hours?", "grep-context|grep-invert", "gzip", "zcat", "zgrep", "gunzip"),
        ("heredoc-log", "tail", "grep-count", "cut-words", "uniq-count|top-words", "sed-print", "split?", "ls"),
        ("heredoc-numbers|seq-to", "sort-numbers", "awk-sum-lines", "paste-serial", "sort-in-place", "head"),
        ("heredoc-words", "sort", "uniq|uniq-count", "heredoc-words", "comm", "paste?", "shuf|tac"),
        ("heredoc-config", "cat", "grep|grep-regex", "backup", "sed-setting", "diff-backup", "grep"),
        ("heredoc-json", "cat", "python-json", "python-json-value", "sed-in-place", "python-json"),
        ("heredoc-html|heredoc-markdown", "grep-only|grep-regex", "sed-replace", "sed-in-place-all", "wc", "tr-delete|fold|fmt"),
        (_ANY_TEXT, _ANY_TEXT, "cat-several", "paste|diff", "cmp", "cat-number|od|base64"),
        (_ANY_FILE, "checksum-write", "checksum-check", "echo-append", "checksum-check", "checksum"),
    ),
    "search": (
        (_ANY_FILE, "grep", "grep-recursive|grep-files", "find-name", "find-exec|xargs", "grep-count", "sed-in-place", "grep"),
        ("find-depth|find-type", "find-size|find-empty", "touch", "find-empty", "find-newer", "backup", "find-delete", "find-name"),
        ("which|command-v|type", "whereis?", "program-version", "program-help|help", "xargs-count"),
    ),
    "scripts": (
        ("heredoc-script", "cat", "script-run", "chmod-x", "script-run", "script-check", "script-repair", "script-run", "script-run-arguments"),
        ("heredoc-script", "script-bash", "script-trace", "script-repair", "script-bash", "script-status", "sed-append", "cat"),
        ("script-short", "script-run", "script-run-arguments", "script-output", "ls-long", "script-variable|script-strict"),
        ("heredoc-env", "source-env", "variable-show|env-grep", "sed-in-place", "source-env"),
        ("heredoc-python", "python-run", "python-last-error?", "cat|cat-number", "script-repair", "python-run", "python-run-status", "python-compile"),
        ("python-module", "cat", "python-unittest", "script-repair", "python-unittest", "python-import", "python-format?"),
        ("heredoc-python", "vim-open", "vim-search|vim-command", "vim-insert|vim-normal", "vim-write-quit", "cat", "python-run"),
    ),
    "shell": (
        ("variable-set", "variable-show", "variable-expand", "export", "env-grep|printenv", "bash-inside", "variable-show", "bash-leave", "variable-unset"),
        ("function-define", "function-call", "function-show", "function-call", "alias", "alias-use", "alias-list"),
        ("array-set", "array-show", "array-append", "array-show", "array-map", "for-words"),
        ("for-make-files", "ls", "for-files", "for-sequence|while-count", "if-file", "cat-several|rm-glob"),
        ("arithmetic", "for-c-style|until", "case", "if-number|test-strings", "printf-format", "seq"),
        ("exit-status", "and-or", "pipe-status", "discard-errors", "redirect-errors", "redirect-both", "errors-to-pipe"),
        ("echo", "history", "history-again|key-up", "key-complete", "key-discard", "key-reverse-search", "key-clear"),
        ("set-option|shopt", "glob", "quoting", "brace-expansion", "eval|trap", "getopts"),
    ),
    "processes": (
        ("background", "jobs", "background", "jobs|jobs-long", "kill-job", "jobs", "kill-all-jobs"),
        ("stop-key", "jobs", "bg", "jobs", "fg-interrupt|kill-job", "jobs"),
        ("background", "ps|pgrep", "signal-job", "jobs", "pkill|kill-job", "wait-status", "jobs"),
        ("interrupt-sleep", "timeout", "interrupt-loop", "exit-status", "wait-short", "sleep|time", "background-output"),
        ("background", "disown|kill-job", "nohup|nice", "xargs-parallel", "kill-list|ulimit", "pgrep"),
    ),
    "permissions": (
        (_ANY_FILE, "ls-long", "chmod-octal|chmod-symbolic", "mode-of", "chmod-lock", "chmod-unlock", "cat"),
        ("umask", "touch|echo-to", "ls-long", "mode-of", "chmod-verbose", "test-access", "chown-denied"),
        ("mkdir", _ANY_TEXT, "chmod-recursive", "folder-lock", "find-permission", "write-denied", "id"),
    ),
    "archives": (
        (_ANY_FILE, _ANY_FILE, "tar-create", "tar-list", "tar-extract-into", "diff-folders|ls-recursive", "tar-member", "tar-compare"),
        ("mkdir", "touch", _ANY_DATA, "tar-create", "tar-append", "tar-list", "rm", "tar-extract", "ls"),
        (_ANY_TEXT, "gzip", "ls-long", "gzip-list", "zcat", "gunzip", "cat"),
        (_ANY_FILE, "zip-create", "zip-list", "zip-extract", "checksum", "find-type"),
    ),
    "git": (
        ("git-init", "git-identity?", "heredoc-text|heredoc-markdown|heredoc-csv", "git-status", "git-add|git-add-all", "git-status-short", "git-commit", "git-log-oneline", "git-edit", "git-diff", "git-commit-all"),
        ("mkdir", "cd", "git-init", _ANY_FILE, "git-add-all", "git-commit", "git-switch-new", "git-edit", "git-commit-all", "git-switch", "git-merge|git-merge-no-ff", "git-log-graph", "git-branch-delete"),
        ("git-init", _ANY_TEXT, "git-add-all", "git-commit", "git-conflict", "git-status", "git-conflict-show", "git-conflict-resolve|git-abort", "git-commit", "git-log-graph"),
        ("git-init", _ANY_DATA, "git-add-all", "git-commit", "git-edit", "git-stash", "git-status-short", "git-stash-list", "git-stash-pop", "git-restore|git-diff-stat"),
        ("git-init", _ANY_FILE, "git-add", "git-commit", "git-edit", "git-add-all", "git-diff-staged", "git-unstage", "git-add-all", "git-commit", "git-show|git-log", "git-reset-soft|git-amend", "git-reflog"),
        ("git-status-short", "git-edit|heredoc-text", "git-diff|git-status", "git-add-all", "git-commit", "git-revert", "git-log", "git-show-file|git-blame"),
        ("git-branch|git-branch-list", "git-switch-new", "git-edit", "git-commit-all", "git-switch", "git-diff-branch", "git-rebase|git-cherry-pick|git-merge-no-ff", "git-log-graph"),
        ("git-add-all", "git-commit", "git-tag", "git-tag-list", "git-remote", "git-push", "git-fetch", "git-clone"),
        ("git-ignore", "git-check-ignore", "git-status-short", "git-clean", "git-files", "git-grep|git-log-file", "git-mv|git-rm", "git-commit"),
        ("git-edit", "git-patch", "git-commit-all", "git-log-search", "git-shortlog|git-rev|git-object", "git-archive|git-worktree", "git-config"),
        ("git-hook", "git-edit", "git-commit-all", "git-log-oneline", "git-reset-hard", "git-commit-empty", "git-branch-rename"),
    ),
    "programs": (
        ("python-repl", "python-repl-assign", "python-repl-line", "python-repl-error?", "python-repl-block", "python-repl-import?", "python-repl-line", "python-repl-leave"),
        ("vim-open", "vim-insert", "vim-normal", "vim-command", "vim-write", "vim-insert?", "vim-write-quit", "cat", "wc"),
        (_ANY_FILE, "vim-open", "vim-search", "vim-normal", "vim-unknown?", "vim-command", "vim-quit", "cat"),
        ("less-long|less-open", "less-move", "less-search", "less-move", "less-quit"),
        ("python-expression", "python-library", "python-heredoc", "python-sqlite|python-sqlite-file", "python-error", "python-filter"),
        ("cat-waits", "input-line", "input-line?", "key-end-of-input", "forgotten-return", "key-return", "unclosed-quote", "key-interrupt"),
    ),
    "system": (
        ("whoami", "hostname", "uname", "os-release", "date", "uptime?", "df|free"),
        ("system-folder", "passwd|hosts", "proc", "locale|tty|terminal-size", "top-batch?", "ps"),
    ),
}
# fmt: on
"""Chains that agents follow, by what they are about. Between their steps an explorer looks around, and now and then gets something wrong."""

REPAIRS: tuple[tuple[re.Pattern[str], Goal], ...] = tuple(
    (re.compile(pattern), goal)
    for pattern, goal in (
        (r"Please tell me who you are|unable to auto-detect email", ("git-identity", "git-commit")),
        (r"CONFLICT", ("git-status?", "git-conflict-show", "git-conflict-resolve|git-abort", "git-commit?")),
        (r"no changes added to commit|nothing added to commit", ("git-add-all", "git-commit")),
        (r"would be overwritten by", ("git-stash|git-commit-all",)),
        (r"not a git repository", ("git-init|pwd",)),
        (r"\.sh: Permission denied", ("chmod-x", "script-run")),
        (r"Permission denied", ("ls-long|id|chmod-unlock",)),
        (r"syntax error|command not found", ("script-repair|type|which|script-check?",)),
        (r"Traceback|SyntaxError|NameError", ("script-repair|python-last-error?",)),
        (r"FAILED", ("script-repair", "python-unittest?")),
        (r"No such file or directory|cannot access|cannot stat", ("ls|find-name|pwd|ls-all",)),
        (r"[Ii]s a directory|not a directory|Not a directory", ("ls-long|ls-folder",)),
        (r"not empty", ("ls-all|rm-folder",)),
        (r"Read-only file system", ("ls-folder|pwd|cd-home",)),
        (r"invalid option|unrecognized option", ("program-help?",)),
        (r"There are stopped jobs", ("kill-all-jobs|jobs",)),
        (r"^\[\d+\]\+? +Stopped", ("jobs|bg|kill-job",)),
    )
)
"""What an observation tells, and what follows it."""

LOOKS = (
    "ls",
    "ls",
    "cat",
    "ls-long",
    "pwd",
    "exit-status",
    "git-status",
    "git-status-short",
    "wc",
    "head",
    "key-clear",
    "jobs",
    "echo",
)
"""What agents do between two steps."""

LEAVING = {
    "vim": "vim-quit",
    "less": "less-quit",
    "python": "python-repl-leave",
    "quote": "key-interrupt",
    "input": "key-end-of-input",
    "typed": "key-return",
    "busy": "key-break",
}
"""How to get back to the shell from what has the terminal."""
