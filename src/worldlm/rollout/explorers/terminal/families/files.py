"""Files and folders, who may use them, and archives."""
# ruff: noqa: E501  (a row of a table is a line)

import posixpath
from functools import partial

from worldlm.rollout.explorers.terminal.known import ARCHIVES, TEXTS, File, Known
from worldlm.rollout.explorers.terminal.scene import (
    Effect,
    Family,
    Move,
    Scene,
    has,
    has_here,
    owns,
    subfolder,
    writable,
)

_HAS_TEXT = has(*TEXTS)
_OWNS = owns()


def _adds(path: str, kind: str, like: File | None = None) -> Effect:
    content = like.content if like else None
    repair = like.repair if like else None
    executable = bool(like and like.executable)
    return lambda k: k.add(path, kind, content, repair=repair, executable=executable)


def _folder(path: str) -> Effect:
    return lambda k: k.folders.setdefault(path, None)


def _ls(s: Scene) -> Move:
    folder = s.folder_path() if s.chance(0.45) else s.k.cwd
    where = "" if folder == s.k.cwd else " " + s.show(folder)
    flags = s.pick("", "", " -1", " -F", " -p", " -r")

    def listed(k: Known) -> None:
        names = [word for line in k.seen.split("\n")[1:-1] for word in line.split()]
        k.listed(folder, names)

    return Move(f"ls{flags}{where}", (listed,))


def _mkdir(s: Scene) -> Move:
    paths = [s.new("dir") for _ in range(s.n(1, 3))]
    return Move("mkdir " + " ".join(map(s.show, paths)), tuple(map(_folder, paths)))


def _mkdir_parents(s: Scene) -> Move:
    parts = [s.noun() for _ in range(s.n(2, 3))]
    paths = [posixpath.join(s.k.cwd, *parts[: i + 1]) for i in range(len(parts))]
    return Move(f"mkdir {s.pick('-p', '-p', '-pv')} {'/'.join(parts)}", tuple(map(_folder, paths)))


def _mkdir_braces(s: Scene) -> Move:
    top, names = s.noun(), [s.noun() for _ in range(s.n(2, 3))]
    paths = [posixpath.join(s.k.cwd, top, name) for name in names]
    effects = tuple(map(_folder, [posixpath.join(s.k.cwd, top), *paths]))
    return Move(f"mkdir -p {top}/{{{','.join(names)}}}", effects)


def _touch(s: Scene) -> Move:
    paths = [s.new(s.pick("txt", "md", "log", "csv")) for _ in range(s.n(1, 3))]
    return Move("touch " + " ".join(map(s.show, paths)), tuple(_adds(path, "txt", File("txt", "")) for path in paths))


def _touch_many(s: Scene) -> Move:
    name, count = s.noun(), s.n(2, 5)
    paths = [f"{s.k.cwd}/{name}{i}.txt" for i in range(1, count + 1)]
    effects = tuple(_adds(path, "txt", File("txt", "")) for path in paths)
    return Move(f"touch {name}{{1..{count}}}.txt", effects)


def _copied(s: Scene) -> tuple[str, str, Effect]:
    """A file, where it goes, and the effect of a copy."""
    source = s.path(*TEXTS)
    file = s.k.files[source]
    if subfolder(s.k) and s.chance(0.5):
        target = s.subfolder()
        return source, target + "/", _adds(f"{target}/{posixpath.basename(source)}", file.kind, file)
    target = s.new(file.kind)
    return source, target, _adds(target, file.kind, file)


def _spelled(s: Scene, target: str) -> str:
    return s.show(target.rstrip("/")) + ("/" if target.endswith("/") else "")


def _cp(s: Scene) -> Move:
    source, target, effect = _copied(s)
    return Move(f"cp {s.pick('', '', '-v ', '-p ')}{s.show(source)} {_spelled(s, target)}", (effect,))


def _backup(s: Scene) -> Move:
    source = s.own()
    file = s.k.files[source]
    target = source + s.pick(".bak", ".orig", ".old")
    return Move(f"cp {s.show(source)}{{,{target[len(source) :]}}}", (_adds(target, file.kind, file),))


def _cp_folder(s: Scene) -> Move:
    source, target = s.subfolder(), s.new("dir")

    def copied(k: Known) -> None:
        k.folders[target] = None
        for path in [p for p in k.files if p.startswith(source + "/")]:
            _adds(target + path[len(source) :], k.files[path].kind, k.files[path])(k)

    return Move(f"cp {s.pick('-r', '-a', '-rv')} {s.show(source)} {s.show(target)}", (copied,))


def _mv(s: Scene) -> Move:
    source = s.own(*TEXTS)
    file = s.k.files[source]
    if subfolder(s.k) and s.chance(0.4):
        folder = s.subfolder()
        target = f"{folder}/{posixpath.basename(source)}"
        words = s.show(folder) + "/"
    else:
        target = s.new(file.kind)
        words = s.show(target)
    return Move(
        f"mv {s.pick('', '', '-v ', '-n ')}{s.show(source)} {words}",
        (lambda k: k.drop(source), _adds(target, file.kind, file)),
    )


def _mv_folder(s: Scene) -> Move:
    source, target = s.subfolder(), s.new("dir")

    def moved(k: Known) -> None:
        inside = {p: f for p, f in k.files.items() if p.startswith(source + "/")}
        k.drop(source)
        k.folders[target] = None
        for path, file in inside.items():
            _adds(target + path[len(source) :], file.kind, file)(k)

    return Move(f"mv {s.show(source)} {s.show(target)}", (moved,))


def _rename_suffix(s: Scene) -> Move:
    path = s.own("txt", "list", "num", "log", "md")
    stem, _, suffix = s.show(path).rpartition(".")
    new = s.pick("bak", "md", "old", "dat", "txt2")
    target = path.rpartition(".")[0] + "." + new
    file = s.k.files[path]
    return Move(f"mv {stem}.{{{suffix},{new}}}", (lambda k: k.drop(path), _adds(target, file.kind, file)))


def _rm(s: Scene) -> Move:
    paths = list(dict.fromkeys(s.own() for _ in range(s.n(1, 2))))
    return Move(
        f"rm {s.pick('', '', '-v ', '-f ')}" + " ".join(map(s.show, paths)),
        tuple(partial(_drop, path) for path in paths),
    )


def _drop(path: str, k: Known) -> None:
    k.drop(path)


def _rmdir(s: Scene) -> Move:
    path = s.subfolder()
    return Move(f"rmdir {s.show(path)}", (partial(_drop, path),))


def _dd(s: Scene) -> Move:
    path = s.new("bin")
    shown = s.show(path)
    line = f"dd if=/dev/zero of={shown} bs={s.n(1, 64)} count={s.n(1, 40)} status=none && wc -c {shown}"
    return Move(line, (lambda k: k.add(path, "bin"),))


def _rm_glob(s: Scene) -> Move:
    suffix = s.own().rpartition(".")[2]

    def gone(k: Known) -> None:
        for path in [p for p in k.here() if p.endswith("." + suffix)]:
            k.drop(path)

    return Move(f"rm {s.pick('', '-v ')}*.{suffix}", (gone,))


def _rm_asking(s: Scene) -> Move:
    path = s.own()
    answer = s.pick("y", "y", "n", "yes")
    effects = (partial(_drop, path),) if answer != "n" else ()
    return Move(f"rm -i {s.show(path)}\n{answer}", effects)


def _rm_folder(s: Scene) -> Move:
    path = s.subfolder()
    return Move(f"rm {s.pick('-r', '-rf', '-rv')} {s.show(path)}", (partial(_drop, path),))


def _link(s: Scene, flag: str) -> Move:
    source = s.own()
    file, target = s.k.files[source], s.new(s.k.files[source].kind)
    return Move(f"ln {flag}{s.show(source)} {s.show(target)}", (_adds(target, file.kind, file),))


def _cd(s: Scene) -> str:
    if subfolder(s.k) and s.chance(0.6):
        return f"cd {s.show(s.subfolder())}"
    return f"cd {s.show(s.folder_path())}"


def _touched(s: Scene, line: str, path: str) -> Move:
    return Move(line.format(s.show(path)), (lambda k: k.touch(path),))


def _install(s: Scene) -> Move:
    source, target = s.path(*TEXTS), s.new("dir")
    file = s.k.files[source]
    name = posixpath.basename(source)
    return Move(
        f"install -D -m {s.pick('644', '600', '755')} {s.show(source)} {s.show(target)}/{name}",
        (_adds(f"{target}/{name}", file.kind, file),),
    )


_F = partial(Family, "files")
# fmt: off
FILES = (
    _F("pwd", lambda s: s.pick("pwd", "pwd", "pwd -P")),
    _F("ls", _ls, odd=(lambda s: f"ls {s.absent('d')}", lambda s: f"ls -1 {s.absent()} {s.show(s.k.cwd)}")),
    _F("ls-long", lambda s: f"ls -l {s.show(s.folder_path()) if s.chance(0.3) else ''}".rstrip()),
    _F("ls-all", lambda s: f"ls {s.pick('-a', '-A', '-la', '-lA')}"),
    _F("ls-sorted", lambda s: f"ls {s.pick('-lS', '-1S', '-1t', '-ltr', '-1X')}"),
    _F("ls-recursive", lambda s: f"ls -R {s.show(s.subfolder()) if s.chance(0.5) else '.'}", (subfolder,)),
    _F("ls-glob", lambda s: f"ls {s.pick('', '-l ')}*.{s.path().rpartition('.')[2]}", (has_here(*TEXTS),)),
    _F("ls-folder", lambda s: f"ls -ld {s.pick('/tmp', '/', s.k.home, '.', '/etc', s.show(s.folder_path()))}"),
    _F(
        "cd",
        _cd,
        changes=True,
        odd=(lambda s: f"cd {s.noun()}", lambda s: "cd a b", lambda s: f"cd {s.file() if s.k.paths() else '/root/x'}"),
    ),
    _F("cd-up", lambda s: s.pick("cd ..", "cd ..", "cd ../.."), (lambda k: k.cwd.count("/") > 2,), True),
    _F("cd-home", lambda s: s.pick("cd", "cd ~", 'cd "$HOME"'), changes=True),
    _F("cd-back", lambda s: "cd -", (lambda k: "cd " in k.seen or k.lines > 6,), True),
    _F("pushd", lambda s: f"pushd {s.show(s.folder_path())}", changes=True),
    _F("popd", lambda s: s.pick("popd", "popd", "dirs -v"), (lambda k: k.lines > 3,), True),
    _F("mkdir", _mkdir, (writable,), True, odd=(lambda s: "mkdir", lambda s: f"mkdir {s.noun()}/{s.noun()}")),
    _F("mkdir-parents", _mkdir_parents, (writable,), True),
    _F("mkdir-braces", _mkdir_braces, (writable,), True),
    _F(
        "rmdir",
        _rmdir,
        (writable, subfolder),
        True,
        odd=(lambda s: f"rmdir {s.noun()}",),
    ),
    _F("touch", _touch, (writable,), True, odd=(lambda s: f"touch {s.noun()}/{s.noun()}.txt",)),
    _F("touch-many", _touch_many, (writable,), True),
    _F(
        "touch-date",
        lambda s: _touched(s, f"touch -d '2025-{s.n(1, 12):02}-{s.n(1, 28):02} {s.n(0, 23)}:{s.n(10, 59)}' {{}}", s.own()),
        (_OWNS,),
        True,
    ),
    _F("cp", _cp, (_HAS_TEXT, writable), True, odd=(lambda s: f"cp {s.absent()} copy.txt", lambda s: f"cp {s.file()}")),
    _F("backup", _backup, (_OWNS,), True),
    _F(
        "cp-folder",
        _cp_folder,
        (writable, subfolder),
        True,
        odd=(lambda s: f"cp {s.show(s.subfolder())} {s.noun()}",),
    ),
    _F("mv", _mv, (_OWNS, writable), True, odd=(lambda s: f"mv {s.absent()} {s.noun()}.txt", lambda s: f"mv {s.file()}")),
    _F("mv-folder", _mv_folder, (writable, subfolder), True),
    _F("rename-suffix", _rename_suffix, (owns("txt", "list", "num", "log", "md"),), True),
    _F("rm", _rm, (owns(count=4),), True, odd=(lambda s: f"rm {s.absent()}", lambda s: "rm /etc/hostname")),
    _F("rm-glob", _rm_glob, (has_here(*TEXTS, count=4), writable), True),
    _F("rm-asking", _rm_asking, (owns(count=2),), True),
    _F(
        "rm-folder",
        _rm_folder,
        (writable, subfolder),
        True,
        odd=(lambda s: f"rm {s.show(s.subfolder())}", lambda s: f"rmdir {s.show(s.subfolder())}/..", lambda s: "rm -rf"),
    ),
    _F("ln-hard", lambda s: _link(s, ""), (_OWNS, writable), True),
    _F("ln-soft", lambda s: _link(s, s.pick("-s ", "-s ", "-sv ")), (_OWNS, writable), True),
    _F("readlink", lambda s: f"readlink -f {s.file()}", (_HAS_TEXT,)),
    _F("realpath", lambda s: f"realpath {s.pick('', '', '--relative-to=/ ')}{s.file()}", (_HAS_TEXT,)),
    _F("basename", lambda s: f"basename {s.path()} {s.pick('', '.txt', '.csv')}".rstrip(), (_HAS_TEXT,)),
    _F("dirname", lambda s: f"dirname {s.path()}", (_HAS_TEXT,)),
    _F(
        "stat",
        lambda s: f"stat -c '{s.pick('%n %s', '%s bytes, %h links', '%A %U:%G %n', '%F: %n', '%y')}' {s.file()}",
        (_HAS_TEXT,),
        odd=(lambda s: f"stat -c {s.absent()}", lambda s: f"stat {s.absent()}"),
    ),
    _F("du", lambda s: f"du {s.pick('-sh', '-sb', '-ab', '-h --max-depth=1')} {s.show(s.folder_path())}"),
    _F("truncate", lambda s: _touched(s, f"truncate -s {s.n(0, 80)} {{}}", s.own("txt", "log", "num")), (owns("txt", "log", "num"),), True),
    _F("install", _install, (_HAS_TEXT, writable), True),
    _F(
        "dd",
        _dd,
        (writable,),
        True,
    ),
    _F("cmp", lambda s: "cmp " + " ".join(s.files(2)), (has(*TEXTS, count=2),)),
    _F(
        "write-denied",
        lambda s: s.pick(
            f"echo {s.noun()} > /etc/{s.noun()}.conf",
            f"touch /usr/bin/{s.noun()}",
            f"mkdir /{s.noun()}",
            f"cp /etc/hosts /etc/{s.noun()}",
            f"mv /etc/passwd {s.k.home}",
            f"mkdir /root/{s.noun()}",
        ),
        always_odd=True,
    ),
)
# fmt: on


# Permissions.


def _chmod(s: Scene, mode: str, path: str, *effects: Effect) -> Move:
    return Move(f"chmod {mode} {s.show(path)}", effects)


def _chmod_x(s: Scene) -> Move:
    plain = [p for p in s.k.paths("sh", "py") if s.k.can_write(p) and not s.k.files[p].executable]
    path = plain[-1] if plain else s.own("sh", "py")

    def runs(k: Known) -> None:
        k.files[path].executable = True

    return _chmod(s, s.pick("+x", "+x", "755", "u+x", "a+x"), path, runs)


def _lock(s: Scene) -> Move:
    path = s.own()
    return Move(
        f"chmod {s.pick('000', 'a-r', 'u-rw')} {s.show(path)}; {s.pick('cat', 'head -n 2', 'wc -l')} {s.show(path)}"
    )


def _lock_folder(s: Scene) -> str:
    path = s.show(s.subfolder())
    return f"chmod {s.pick('a-w', 'u-x', 'u-w')} {path}; touch {path}/{s.noun()}; chmod u+rwx {path}"


_P = partial(Family, "permissions")
# fmt: off
PERMISSIONS = (
    _P("chmod-x", _chmod_x, (owns("sh", "py"),), True, odd=(lambda s: f"chmod +x {s.absent('sh')}",)),
    _P(
        "chmod-octal",
        lambda s: _chmod(s, s.pick("600", "640", "644", "664", "700", "750"), s.own()),
        (_OWNS,),
        True,
        odd=(lambda s: f"chmod {s.pick('888', '6x4', 'rw')} {s.file()}", lambda s: f"chmod {s.file()}"),
    ),
    _P(
        "chmod-symbolic",
        lambda s: _chmod(s, s.pick("g+w", "o-r", "go-rwx", "u=rw,g=r,o=", "a+r", "ug+x"), s.own()),
        (_OWNS,),
        True,
    ),
    _P("chmod-recursive", lambda s: f"chmod -R {s.pick('u+rwX,go-w', 'g+w', 'o-rx')} {s.show(s.subfolder())}", (writable, subfolder), True),
    _P("chmod-verbose", lambda s: _chmod(s, s.pick("-v 644", "-c 600", "-v 640", "-c 755"), s.own()), (_OWNS,), True),
    _P("chmod-lock", _lock, (_OWNS,), True),
    _P("chmod-unlock", lambda s: _chmod(s, s.pick("u+rw", "644"), s.own()), (_OWNS,), True),
    _P(
        "folder-lock",
        _lock_folder,
        (writable, subfolder),
    ),
    _P("umask", lambda s: s.pick("umask", "umask -S", "umask 027; umask -S", "umask 077", "umask 022"), changes=True),
    _P("mode-of", lambda s: f"stat -c '%a %n' {' '.join(s.files(s.n(1, 3)))}", (_HAS_TEXT,)),
    _P("id", lambda s: s.pick("id", "id -un", "id -u", "id -Gn", "groups")),
    _P(
        "test-access",
        lambda s: f"[ -{s.pick('r', 'w', 'x')} {s.file()} ] && echo yes || echo no",
        (_HAS_TEXT,),
    ),
    _P(
        "chown-denied",
        lambda s: f"{s.pick('chown root', 'chown root:root', 'chgrp root', f'chown {s.noun()}')} {s.file()}",
        (_HAS_TEXT,),
        always_odd=True,
    ),
    _P("read-denied", lambda s: s.pick("cat /etc/shadow", "ls /root/.ssh", "cat /proc/1/environ | head -c 0", "head /etc/gshadow", "cat /dev/mem"), always_odd=True),
)
# fmt: on


# Archives.


def _tar_create(s: Scene) -> Move:
    gz = s.chance(0.5)
    kind = "tgz" if gz else "tar"
    archive = s.new(kind)
    if subfolder(s.k) and s.chance(0.5):
        folder = s.subfolder()
        members = tuple(posixpath.relpath(p, s.k.cwd) for p in s.k.files if p.startswith(folder + "/"))
        what = s.show(folder)
    else:
        members = tuple(posixpath.relpath(p, s.k.cwd) for p in s.k.here(*TEXTS)[-4:])
        what = " ".join(s.show(f"{s.k.cwd}/{m}") for m in members)
    flags = f"-c{'z' if gz else ''}{s.pick('', 'v', 'v')}f"
    return Move(f"tar {flags} {s.show(archive)} {what}", (lambda k: k.add(archive, kind, members=members),))


def _tar_list(s: Scene) -> str:
    return f"tar -t{s.pick('', '', 'v')}f {s.file('tar', 'tgz')}"


def _tar_extract(s: Scene) -> Move:
    archive = s.path("tar", "tgz")
    return _extracted(s, archive, s.k.cwd, f"tar -x{s.pick('', 'v')}f {s.show(archive)}")


def _extracted(s: Scene, archive: str, folder: str, line: str) -> Move:
    members = s.k.files[archive].members

    def there(k: Known) -> None:
        k.folders.setdefault(folder, None)
        for member in members:
            path = posixpath.join(folder, member)
            if path not in k.files:
                k.add(path, "txt" if "." not in member else File(member.rpartition(".")[2]).kind)

    return Move(line, (there,))


def _tar_into(s: Scene) -> Move:
    archive, folder = s.path("tar", "tgz"), s.new("dir")
    return _extracted(s, archive, folder, f"mkdir {s.show(folder)} && tar -xf {s.show(archive)} -C {s.show(folder)}")


def _tar_member(s: Scene) -> str:
    archive = s.path("tar", "tgz")
    members = s.k.files[archive].members
    return f"tar -xOf {s.show(archive)} {s.r.choice(members) if members else s.noun()}"


def _tar_append(s: Scene) -> Move:
    archive, path = s.own("tar"), s.r.choice(s.k.here(*TEXTS))
    name = posixpath.basename(path)

    def appended(k: Known) -> None:
        k.files[archive].members += (name,)

    return Move(f"tar -rf {s.show(archive)} {s.show(path)} && tar -tf {s.show(archive)}", (appended,))


def _gzip(s: Scene) -> Move:
    path = s.own("txt", "log", "csv", "num", "list")
    file = s.k.files[path]
    if path + ".gz" in s.k.files:
        return Move(f"gzip -f {s.show(path)}", (lambda k: k.drop(path),))
    if s.chance(0.4):
        return Move(f"gzip -k {s.show(path)}", (lambda k: k.add(path + ".gz", "gz", file.content),))
    return Move(
        f"gzip {s.pick('', '-v ', '-9 ')}{s.show(path)}",
        (lambda k: k.drop(path), lambda k: k.add(path + ".gz", "gz", file.content)),
    )


def _gunzip(s: Scene) -> Move:
    path = s.own("gz")
    plain = path.removesuffix(".gz")
    content = s.k.files[path].content
    return Move(
        f"{s.pick('gunzip', 'gzip -d')} {'-f ' if plain in s.k.files else ''}{s.show(path)}",
        (lambda k: k.drop(path), lambda k: k.add(plain, plain.rpartition(".")[2], content)),
    )


def _zip_create(s: Scene) -> Move:
    archive = s.new("zip")
    members = tuple(posixpath.basename(p) for p in s.k.here(*TEXTS)[-3:])
    return Move(
        f"python3 -m zipfile -c {s.show(archive)} {' '.join(members)}",
        (lambda k: k.add(archive, "zip", members=members),),
    )


def _zip_extract(s: Scene) -> Move:
    archive, folder = s.path("zip"), s.new("dir")
    line = f"python3 -m zipfile -e {s.show(archive)} {s.show(folder)} && ls {s.show(folder)}"
    return _extracted(s, archive, folder, line)


def _sum_file(s: Scene) -> Move:
    path = s.new("sum")
    return Move(
        f"{s.pick('sha256sum', 'md5sum')} {' '.join(s.files(3))} > {s.show(path)}", (lambda k: k.add(path, "sum"),)
    )


_A = partial(Family, "archives", seconds=5.0)
# fmt: off
ARCHIVING = (
    _A(
        "tar-create",
        _tar_create,
        (has_here(*TEXTS), writable),
        True,
        odd=(lambda s: f"tar -cf {s.noun()}.tar {s.absent()}", lambda s: "tar -c", lambda s: f"tar -cf {s.noun()}.tar"),
    ),
    _A("tar-list", _tar_list, (has("tar", "tgz"),), odd=(lambda s: f"tar -tf {s.file()}", lambda s: f"tar tf {s.noun()}.tar")),
    _A("tar-extract", _tar_extract, (has("tar", "tgz"), writable), True, odd=(lambda s: f"tar -xf {s.noun()}.tar.gz",)),
    _A("tar-extract-into", _tar_into, (has("tar", "tgz"), writable), True),
    _A("tar-member", _tar_member, (has("tar", "tgz"),)),
    _A("tar-append", _tar_append, (owns("tar"), has_here(*TEXTS)), True),
    _A("tar-compare", lambda s: f"tar -df {s.file('tar', 'tgz')} && echo same", (has("tar", "tgz"),)),
    _A("gzip", _gzip, (owns("txt", "log", "csv", "num", "list"),), True, odd=(lambda s: f"gzip {s.absent()}",)),
    _A("gunzip", _gunzip, (owns("gz"),), True, odd=(lambda s: f"gunzip {s.file()}",)),
    _A("gzip-list", lambda s: f"gzip {s.pick('-l', '-t')} {s.file('gz', 'tgz')}", (has("gz", "tgz"),)),
    _A("zcat", lambda s: f"zcat {s.file('gz')} | {s.pick('head -n 3', 'wc -l', 'tail -n 2', 'sort | head -n 4')}", (has("gz"),)),
    _A("zgrep", lambda s: f"zgrep {s.pick('-c', '-n', '-i')} {s.word_in(s.path('gz'))} {s.file('gz')}", (has("gz"),)),
    _A("zip-create", _zip_create, (has_here(*TEXTS), writable), True),
    _A("zip-list", lambda s: f"python3 -m zipfile {s.pick('-t', '-t', '-l')} {s.file('zip')}", (has("zip"),)),
    _A("zip-extract", _zip_extract, (has("zip"), writable), True),
    _A("checksum", lambda s: f"{s.pick('sha256sum', 'md5sum', 'sha1sum', 'cksum', 'b2sum -l 64')} {s.file(*TEXTS, *ARCHIVES)}", (_HAS_TEXT,)),
    _A("checksum-write", _sum_file, (_HAS_TEXT, writable), True),
    _A(
        "checksum-check",
        lambda s: f"{s.pick('sha256sum', 'md5sum')} -c {s.file('sum')}",
        (has("sum"),),
    ),
)
# fmt: on
