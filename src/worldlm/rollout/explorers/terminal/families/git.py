"""Version control: what a developer does with git, mistakes and conflicts included."""
# ruff: noqa: E501  (a row of a table is a line)

import posixpath
from collections.abc import Callable
from functools import partial

from worldlm.rollout.explorers.terminal.known import TEXTS, Known, Repo
from worldlm.rollout.explorers.terminal.scene import Effect, Family, Make, Move, Need, Scene, heredoc, writable
from worldlm.rollout.explorers.terminal.words import PEOPLE, VERBS, phrase


def _repo(k: Known) -> Repo:
    assert k.repo is not None
    return k.repo


def _in_repo(test: Callable[[Repo], bool] = lambda repo: True) -> Need:
    return lambda k: k.repo is not None and test(k.repo)


_REPO = _in_repo()
_COMMITTED = _in_repo(lambda repo: bool(repo.commits) and repo.started is None)
_CLEAN = _in_repo(lambda repo: bool(repo.commits) and not repo.changed and not repo.staged and repo.started is None)
_CHANGED = _in_repo(lambda repo: repo.changed)
_STAGED = _in_repo(lambda repo: repo.staged)
_STASHED = _in_repo(lambda repo: repo.stashes > 0)
_TAGGED = _in_repo(lambda repo: bool(repo.tags))
_REMOTE = _in_repo(lambda repo: repo.remote)


def _tracked(k: Known) -> list[str]:
    """Files that git knows, and that are there."""
    return [path for path in _repo(k).tracked if path in k.files]


def _has_tracked(k: Known) -> bool:
    return k.repo is not None and bool(_tracked(k))


def _inside(k: Known) -> list[str]:
    """Text files in the repository."""
    return [path for path in k.paths(*TEXTS) if path.startswith(f"{k.root}/")]


def _has_inside(k: Known) -> bool:
    return k.repo is not None and bool(_inside(k))


def _other_branches(k: Known) -> list[str]:
    repo = _repo(k)
    return [name for name in repo.branches if name != repo.branch]


def _has_other(k: Known) -> bool:
    return k.repo is not None and bool(_other_branches(k))


def _state(**values: object) -> Effect:
    """The repository's fields have these values now."""

    def change(k: Known) -> None:
        if k.repo is not None:
            for name, value in values.items():
                setattr(k.repo, name, value)

    return change


def _message(s: Scene) -> str:
    verb = s.pick("Add", "Fix", "Update", "Remove", "Rename", "Document", "Test", "Move", "Simplify")
    return s.pick(
        f"{verb} {phrase(s.r)}", f"{verb} {s.noun()}", f"{s.noun()}: {s.r.choice(VERBS)} {s.noun()}", f"wip {s.noun()}"
    )


def _name(s: Scene) -> str:
    """A new branch's."""
    while True:
        person, thing = s.r.choice(PEOPLE), s.noun()
        name = s.pick(f"feature/{thing}", f"fix-{thing}", thing, f"{person}/{thing}", "dev", "draft")
        if name not in _repo(s.k).branches:
            return name


def _commit(s: Scene) -> str:
    """How to name a commit."""
    repo = _repo(s.k)
    return s.pick("HEAD", "HEAD", s.r.choice(repo.commits or ["HEAD"]), "HEAD~1" if len(repo.commits) > 1 else "HEAD")


def _add(s: Scene) -> Move:
    paths = s.r.sample(_inside(s.k)[-4:], min(len(_inside(s.k)[-4:]), s.n(1, 2)))

    def staged(k: Known) -> None:
        repo = _repo(k)
        repo.staged = True
        repo.tracked += [path for path in paths if path not in repo.tracked]

    return Move("git add " + " ".join(map(s.show, paths)), (staged,))


def _add_all(s: Scene) -> Move:
    return Move(
        s.pick("git add .", "git add -A", "git add --all", "git add -v ."),
        (_all_tracked, _state(staged=True, changed=False)),
    )


def _all_tracked(k: Known) -> None:
    _repo(k).tracked = _inside(k)


def _init(s: Scene) -> Move:
    if s.chance(0.5):
        return Move(f"git init {s.pick('', '-b main ', '-b main && git status ')}".rstrip())
    folder = s.new("dir")
    return Move(
        f"git init -b main {s.show(folder)} && cd {s.show(folder)}", (lambda k: k.folders.setdefault(folder, None),)
    )


def _identity(s: Scene) -> Move:
    name = s.r.choice(PEOPLE)
    return Move(
        f"git config --global user.name {name.title()} && git config --global user.email {name}@example.org",
        (lambda k: setattr(k, "identity", True),),
    )


def _ignore(s: Scene) -> Move:
    path = f"{s.k.root}/.gitignore"
    pattern = s.pick("*.log", "*.bak", "__pycache__/", "tmp/", "*.tar.gz", f"{s.noun()}/")
    return Move(f"echo '{pattern}' >> {s.show(path)}", (lambda k: k.add(path, "txt"),))


def _commit_all(s: Scene) -> Move:
    return Move(f"git commit -am '{_message(s)}'", (_state(changed=False),))


def _switch_new(s: Scene) -> Move:
    return Move(f"git {s.pick('switch -c', 'checkout -b')} {_name(s)}")


def _branch(s: Scene) -> Move:
    name = _name(s)

    def made(k: Known) -> None:
        if name not in _repo(k).branches:
            _repo(k).branches.append(name)

    return Move(f"git branch {name}", (made,))


def _branch_delete(s: Scene) -> Move:
    name = s.r.choice(_other_branches(s.k))
    return Move(f"git branch {s.pick('-d', '-D')} {name}", (lambda k: _repo(k).branches.remove(name),))


def _branch_rename(s: Scene) -> Move:
    name = _name(s)

    def renamed(k: Known) -> None:
        repo = _repo(k)
        repo.branches = [name if b == repo.branch else b for b in repo.branches]
        repo.branch = name

    return Move(f"git branch -m {name} && git branch --show-current", (renamed,))


def _with_other(line: str) -> Make:
    """Merge, rebase or the like with another branch; it may stop in the middle."""
    return lambda s: line.format(s.r.choice(_other_branches(s.k)))


def _conflict(s: Scene) -> str:
    """Prepares what a merge will trip over: one line changed in two branches. (Several commands on one line.)"""
    path = s.r.choice(_tracked(s.k))
    name, shown = _name(s), s.show(path)
    one, two = phrase(s.r), phrase(s.r)
    return (
        f"git switch -q -c {name} && sed -i '1s/.*/{one}/' {shown} && git commit -qam '{_message(s)}' && "
        f"git switch - && sed -i '1s/.*/{two}/' {shown} && git commit -am '{_message(s)}'; git merge {name}"
    )


def _conflict_show(s: Scene) -> str:
    return f"{s.pick('cat', 'git --no-pager diff', 'grep -n -A 4 HEAD')} {s.show(_repo(s.k).conflict or '')}"


_CONTINUED = {name: f" && GIT_EDITOR=true git {name} --continue" for name in ("rebase", "cherry-pick", "revert")}


def _resolve(s: Scene) -> Move:
    path = _repo(s.k).conflict or ""
    shown = s.show(path)
    line = s.pick(
        f"sed -i '/^<<<<<<<\\|^=======\\|^>>>>>>>/d' {shown} && git add {shown}",
        f"git checkout --{s.pick('ours', 'theirs')} {shown} && git add {shown}",
    )
    if started := _CONTINUED.get(_repo(s.k).started or ""):
        return Move(line + started, (_state(conflict=None, started=None),))
    return Move(line, (_state(conflict=None, staged=True),))


def _in_conflict(k: Known) -> bool:
    return k.repo is not None and k.repo.conflict in k.files


def _stopped(k: Known) -> bool:
    return (k.repo is not None and k.repo.started is not None) or _in_conflict(k)


def _abort(s: Scene) -> Move:
    return Move(
        f"git {_repo(s.k).started or 'merge'} --abort; git status -s",
        (_state(conflict=None, started=None, staged=False),),
    )


def _tag(s: Scene) -> Move:
    name = f"v{s.n(0, 3)}.{s.n(0, 9)}"
    line = s.pick(f"git tag {name}", f"git tag -a {name} -m '{phrase(s.r)}'")
    return Move(line, (lambda k: _repo(k).tags.append(name),))


def _mv(s: Scene) -> Move:
    path = s.r.choice(_tracked(s.k))
    target = s.new(s.k.files[path].kind)
    file = s.k.files[path]

    def moved(k: Known) -> None:
        k.drop(path)
        k.add(target, file.kind, file.content)
        _repo(k).tracked.append(target)
        _repo(k).staged = True

    return Move(f"git mv {s.show(path)} {s.show(target)} && git status -s", (moved,))


def _rm(s: Scene) -> Move:
    path = s.r.choice(_tracked(s.k))
    if s.chance(0.4):
        return Move(f"git rm --cached {s.show(path)}", (_state(staged=True), lambda k: _repo(k).tracked.remove(path)))
    return Move(f"git rm {s.show(path)}", (lambda k: k.drop(path), _state(staged=True)))


def _clone(s: Scene) -> Move:
    source = s.k.root or ""
    target = s.new("dir", folder="/tmp")
    name = posixpath.basename(target)
    bare = s.pick("--bare ", "")
    return Move(f"git clone {bare}{s.show(source)} /tmp/{name} && ls {s.pick('', '-A ')}/tmp/{name}")


def _remote(s: Scene) -> Move:
    name = f"/tmp/{s.noun()}.git"
    line = f"git init -q --bare {name} && git remote add origin {name}; git remote -v"
    return Move(line, (_state(remote=True),))


def _edit(s: Scene) -> Move:
    """A change to a file that git knows."""
    path = s.r.choice(_tracked(s.k))
    shown, words = s.show(path), phrase(s.r)
    line = s.pick(
        f"echo '{words}' >> {shown}", f"sed -i '{s.n(1, 3)}s/$/ {s.noun()}/' {shown}", f"sed -i '1i {words}' {shown}"
    )
    return Move(line, (lambda k: k.touch(path), _state(changed=True)))


def _patch(s: Scene) -> Move:
    path = s.new("patch", folder="/tmp")
    return Move(
        f"git diff > {s.show(path)} && git stash && git apply {s.show(path)} && git status -s",
        (lambda k: k.add(path, "patch"), _state(stashes=_repo(s.k).stashes + 1)),
    )


def _archive(s: Scene) -> Move:
    path = s.new("tar", folder="/tmp")
    return Move(f"git archive -o {s.show(path)} HEAD && tar -tf {s.show(path)}", (lambda k: k.add(path, "tar"),))


def _hook(s: Scene) -> str:
    text = f'#!/bin/bash\necho "hook: {s.noun()}"\n{s.pick("", "exit 1" + chr(10))}'
    path = f"{s.k.root}/.git/hooks/pre-commit"
    return heredoc(s.show(path), text) + f"\nchmod +x {s.show(path)}"


_G = partial(Family, "git", seconds=5.0)
# fmt: off
GIT = (
    _G("git-init", _init, (writable, lambda k: k.repo is None), True, odd=(lambda s: "git inti",)),
    _G("git-identity", _identity, (), True),
    _G("git-config", lambda s: s.pick("git config --list | head -n 5", "git config user.name", "git config --global core.pager cat", "git config --global init.defaultBranch main", f"git config alias.{s.pick('st', 'last')} status", "git config core.bare"), changes=True),
    _G("git-status", lambda s: "git status", (_REPO,), odd=(lambda s: "git stauts",)),
    _G("git-status-short", lambda s: s.pick("git status -s", "git status -sb", "git status --porcelain"), (_REPO,)),
    _G("git-add", _add, (_has_inside,), True, odd=(lambda s: f"git add {s.absent()}",)),
    _G("git-add-all", _add_all, (_REPO,), True),
    _G("git-edit", _edit, (_has_tracked,), True),
    _G("git-commit", lambda s: f'git commit -m "{_message(s)}"', (_STAGED,), True, odd=(lambda s: f"git comit -m '{_message(s)}'", lambda s: f"git commit -m {s.noun()} {s.noun()}")),
    _G("git-commit-all", _commit_all, (_in_repo(lambda repo: bool(repo.commits)),), True),
    _G("git-commit-empty", lambda s: f"git commit {s.pick('', '--allow-empty ')}-m '{_message(s)}'", (_CLEAN,), True),
    _G("git-amend", lambda s: s.pick("git commit --amend --no-edit", f"git commit --amend -m '{_message(s)}'"), (_COMMITTED,), True),
    _G("git-log", lambda s: s.pick("git --no-pager log -1", "git --no-pager log -2 --stat", "git log | cat", "git log --format='%an: %s' | cat"), (_COMMITTED,), odd=(lambda s: "git log nosuchbranch",)),
    _G("git-log-oneline", lambda s: f"git --no-pager log --oneline {s.pick('', '-3', '--all', '--reverse', '--decorate')}".rstrip(), (_COMMITTED,)),
    _G("git-log-graph", lambda s: "git --no-pager log --oneline --graph --all", (_COMMITTED,)),
    _G("git-log-file", lambda s: f"git --no-pager log --oneline -- {s.show(s.r.choice(_tracked(s.k)))}", (_COMMITTED, _has_tracked)),
    _G("git-log-search", lambda s: f"git --no-pager log --oneline {s.pick('--grep', '-S')} {s.pick('Add', 'Fix', 'the', s.noun())}", (_COMMITTED,)),
    _G("git-show", lambda s: f"git --no-pager show {s.pick('--stat ', '--name-only ', '', '-s --format=%s ')}{_commit(s)}", (_COMMITTED,), odd=(lambda s: f"git --no-pager show {s.n(1000000, 9999999)}",)),
    _G("git-show-file", lambda s: f"git --no-pager show HEAD:./{posixpath.relpath(s.r.choice(_tracked(s.k)), s.k.cwd)}", (_COMMITTED, _has_tracked), odd=(lambda s: f"git show HEAD:{s.absent()}",)),
    _G("git-diff", lambda s: f"git --no-pager diff {s.pick('', '', '-U0', '--word-diff', 'HEAD')}".rstrip(), (_REPO,)),
    _G("git-diff-staged", lambda s: f"git --no-pager diff --{s.pick('staged', 'cached --stat', 'cached')}", (_REPO,)),
    _G("git-diff-stat", lambda s: f"git --no-pager diff {s.pick('--stat', '--name-only', '--shortstat', '--numstat')} {s.pick('', 'HEAD~1')}".rstrip(), (_in_repo(lambda repo: len(repo.commits) > 1),)),
    _G("git-diff-branch", lambda s: f"git --no-pager diff {s.pick('--stat ', '')}{s.r.choice(_other_branches(s.k))}", (_has_other,)),
    _G("git-branch", _branch, (_COMMITTED,), True, odd=(lambda s: f"git branch {s.noun()}..{s.noun()}", lambda s: "git branch main")),
    _G("git-branch-list", lambda s: s.pick("git branch", "git branch -v", "git branch -a", "git branch --show-current"), (_REPO,)),
    _G("git-branch-delete", _branch_delete, (_has_other,), True, odd=(lambda s: f"git branch -d {s.noun()}",)),
    _G("git-branch-rename", _branch_rename, (_COMMITTED,), True),
    _G("git-switch-new", _switch_new, (_COMMITTED,), True),
    _G("git-switch", lambda s: f"git {s.pick('switch', 'checkout')} {s.r.choice([*_other_branches(s.k), '-'])}", (_has_other,), True, odd=(lambda s: f"git switch {s.noun()}",)),
    _G("git-restore", lambda s: f"git {s.pick('restore', 'checkout --')} {s.show(s.r.choice(_tracked(s.k)))}", (_has_tracked, _COMMITTED), True, odd=(lambda s: f"git restore {s.absent()}",)),
    _G("git-unstage", lambda s: Move(s.pick("git restore --staged .", "git reset -q && git status -s", "git reset HEAD"), (_state(staged=False, changed=True),)), (_STAGED, _COMMITTED), True),
    _G("git-merge", _with_other("git merge {}"), (_has_other, _COMMITTED), True, odd=(lambda s: f"git merge {s.noun()}",)),
    _G("git-merge-no-ff", _with_other("git merge --no-ff --no-edit {}"), (_has_other, _CLEAN), True),
    _G("git-conflict", _conflict, (_has_tracked, _COMMITTED), True),
    _G("git-conflict-show", _conflict_show, (_in_conflict,)),
    _G("git-conflict-resolve", _resolve, (_in_conflict,), True),
    _G("git-abort", _abort, (_stopped,), True),
    _G("git-rebase", _with_other("git rebase {}"), (_has_other, _CLEAN), True),
    _G("git-cherry-pick", _with_other("git cherry-pick {}"), (_has_other, _CLEAN), True, odd=(lambda s: "git cherry-pick abcdef1",)),
    _G("git-stash", lambda s: Move(f"git stash {s.pick('', 'push -m ' + s.noun(), '-u')}".rstrip(), (_state(stashes=_repo(s.k).stashes + 1, changed=False, staged=False),)), (_COMMITTED, _CHANGED), True),
    _G("git-stash-pop", lambda s: Move(s.pick("git stash pop", "git stash apply", "git stash drop"), (_state(stashes=max(0, _repo(s.k).stashes - 1), changed=True),)), (_STASHED,), True, odd=(lambda s: "git stash pop stash@{9}",)),
    _G("git-stash-list", lambda s: s.pick("git stash list", "git --no-pager stash show"), (_REPO,)),
    _G("git-tag", _tag, (_COMMITTED,), True, odd=(lambda s: f"git tag '{s.noun()} {s.n(1, 9)}'",)),
    _G("git-tag-list", lambda s: s.pick("git tag", "git tag -n", "git describe --tags", f"git tag -d {s.r.choice(_repo(s.k).tags)}"), (_TAGGED,)),
    _G("git-reset-soft", lambda s: Move("git reset --soft HEAD~1 && git status -s", (_state(staged=True),)), (_in_repo(lambda repo: len(repo.commits) > 1),), True),
    _G("git-reset-hard", lambda s: Move(f"git reset --hard {_commit(s)}", (_state(changed=False, staged=False),)), (_COMMITTED,), True),
    _G("git-revert", lambda s: "git revert --no-edit HEAD", (_CLEAN,), True),
    _G("git-blame", lambda s: f"git blame -s {s.pick('', '-L 1,3 ')}{s.show(s.r.choice(_tracked(s.k)))} | cat", (_has_tracked, _COMMITTED)),
    _G("git-grep", lambda s: f"git grep {s.pick('-n', '-c', '-i', '-l')} {s.noun() if s.chance(0.3) else s.word_in(s.r.choice(_tracked(s.k)))} | cat", (_has_tracked,)),
    _G("git-files", lambda s: s.pick("git ls-files", "git ls-files -o --exclude-standard", "git ls-tree --name-only HEAD", "git ls-files | wc -l"), (_COMMITTED,)),
    _G("git-rm", _rm, (_has_tracked, _COMMITTED), True, odd=(lambda s: f"git rm {s.absent()}",)),
    _G("git-mv", _mv, (_has_tracked, writable, _COMMITTED), True),
    _G("git-ignore", _ignore, (_REPO, writable), True),
    _G("git-check-ignore", lambda s: f"git check-ignore -v {s.noun()}.{s.pick('log', 'txt', 'bak')}; echo $?", (_REPO,)),
    _G("git-clean", lambda s: s.pick("git clean -n", "git clean -nd", "git clean -f"), (_REPO,), True, odd=(lambda s: "git clean",)),
    _G("git-clone", _clone, (_COMMITTED,), True, odd=(lambda s: f"git clone {s.noun()}",)),
    _G("git-remote", _remote, (_in_repo(lambda repo: bool(repo.commits) and not repo.remote),), True),
    _G("git-push", lambda s: f"git push {s.pick('-u ', '')}origin {s.pick('HEAD', _repo(s.k).branch)}", (_REMOTE,), True, odd=(lambda s: f"git push origin {s.noun()}", lambda s: "git push upstream main")),
    _G("git-fetch", lambda s: s.pick("git fetch", "git fetch -v", "git remote -v", "git branch -r", "git pull --ff-only"), (_REMOTE,), True),
    _G("git-reflog", lambda s: f"git reflog -{s.n(2, 5)} | cat", (_COMMITTED,)),
    _G("git-shortlog", lambda s: "git shortlog -sn HEAD", (_COMMITTED,)),
    _G("git-rev", lambda s: s.pick("git rev-parse --show-toplevel", "git rev-parse --abbrev-ref HEAD", "git rev-list --count HEAD", "git rev-parse --short HEAD", "git rev-parse --is-inside-work-tree"), (_REPO,)),
    _G("git-patch", _patch, (_CHANGED, _COMMITTED, _has_tracked), True),
    _G("git-archive", _archive, (_COMMITTED,), True),
    _G("git-object", lambda s: s.pick("git cat-file -t HEAD", "git count-objects", "git cat-file -p 'HEAD^{tree}'", f"git hash-object {s.show(s.r.choice(_tracked(s.k)))}", "cat $(git rev-parse --git-dir)/HEAD"), (_COMMITTED, _has_tracked)),
    _G("git-hook", _hook, (_REPO,), True),
    _G("git-worktree", lambda s: s.pick("git worktree list", f"git worktree add -q /tmp/{s.noun()}-{s.n(1, 99)} && git worktree list"), (_COMMITTED,), True),
    _G("git-outside", lambda s: s.pick("git status", "git log", "git add .", "git diff HEAD", f"git commit -m {s.noun()}"), (lambda k: k.root is None,), always_odd=True),
)
# fmt: on
