"""The documentation that the running Python carries: its library's docstrings and its language topics.

Modules written in Python are read, and never imported (some do things when they are); those built into the
interpreter are there already. A page a module, a page a class that has methods with docstrings, a page a topic of
`pydoc` (`help('COMPARISON')`).
"""

import ast
import importlib
import inspect
import re
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from worldlm.retrieval.document import Document, Unreadable

_LEFT_OUT = {"__phello__", "antigravity", "idlelib", "lib2to3", "test", "this", "turtledemo"}
_MEMBERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FEWEST = 2
"""Methods with a docstring that make a class worth a page of its own."""


def read_python_library(base: str) -> Iterator[Document | Unreadable]:
    """The documents, under the address `base`."""
    yield from _topics(base)
    for name in sorted(sys.stdlib_module_names):
        if name.startswith("_") or name in _LEFT_OUT:
            continue
        if name in sys.builtin_module_names:
            yield from _builtin(importlib.import_module(name), base)
            continue
        for path, module in _sources(name):
            try:
                tree = ast.parse(path.read_bytes())
            except (OSError, SyntaxError, ValueError, RecursionError) as error:
                yield Unreadable(module, str(error))
            else:
                yield from _module(module, tree, base)


@cache
def python_sources() -> tuple[Path, ...]:
    """The files that `read_python_library` reads."""
    names = sorted(sys.stdlib_module_names)
    shown = [name for name in names if not name.startswith("_") and name not in _LEFT_OUT]
    return tuple(path for name in shown for path, _ in _sources(name))


def _sources(name: str) -> Iterator[tuple[Path, str]]:
    """The source files of a module and of its public submodules."""
    library = Path(sysconfig.get_path("stdlib"))
    if (path := library / f"{name}.py").is_file():
        yield path, name
    if not (library / name / "__init__.py").is_file():
        return
    for path in sorted((library / name).rglob("*.py")):
        parts = path.relative_to(library).with_suffix("").parts
        shown = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") or part in ("test", "tests", "idlelib") for part in shown):
            yield path, ".".join(shown)


def _topics(base: str) -> Iterator[Document]:
    """The language reference by topic, as `pydoc` has it."""
    topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    for name, text in sorted(topics.items()):
        heading = re.match(r"\s*([^\n]+)\n[*=]+\n", text)
        title = heading[1].replace('"', "").strip() if heading else name
        body = text[heading.end() :] if heading else text
        yield Document(f"{base}reference/{name}", f"{title} — Python language reference", body.strip())


# Modules that are read.


def _module(name: str, tree: ast.Module, base: str) -> Iterator[Document]:
    doc = ast.get_docstring(tree)
    functions = [node for node in tree.body if _is_public(node) and not isinstance(node, ast.ClassDef)]
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and _is_public(node)]
    own = {node.name: _class(name, node, base) for node in classes if len(_documented(node.body)) >= _FEWEST}
    parts = [doc or ""]
    parts += _section("Functions", (_function(node) for node in functions))
    parts += _section("Classes", (_summary(node, own.get(node.name)) for node in classes))
    if any(parts):
        yield Document(f"{base}library/{name}", _title(name, doc), _join(parts))
    yield from own.values()


def _class(module: str, node: ast.ClassDef, base: str) -> Document:
    bases = ", ".join(map(ast.unparse, node.bases)) or "object"
    doc = ast.get_docstring(node)
    head = f"Class of the module [{module}]({base}library/{module}); bases: {bases}."
    parts = [head, doc or "", *_section("Methods", map(_function, _documented(node.body)))]
    return Document(f"{base}library/{module}/{node.name}", f"class {module}.{node.name} — Python library", _join(parts))


def _summary(node: ast.AST, page: Document | None) -> str:
    assert isinstance(node, ast.ClassDef)
    doc = (ast.get_docstring(node) or "").split("\n\n", 1)[0]
    name = f"[{node.name}]({page.url})" if page else f"`{node.name}`"
    return f"### {name}\n\n{doc}".rstrip()


def _function(node: ast.AST) -> str:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    star = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    doc = ast.get_docstring(node) or ""
    return f"### `{star}{node.name}({ast.unparse(node.args)}){result}`\n\n{doc}".rstrip()


def _is_public(node: ast.AST) -> bool:
    return isinstance(node, _MEMBERS) and not node.name.startswith("_") and bool(ast.get_docstring(node))


def _documented(body: list[ast.stmt]) -> list[ast.stmt]:
    return [node for node in body if _is_public(node) and not isinstance(node, ast.ClassDef)]


# Modules that are in the interpreter.


def _builtin(module: ModuleType, base: str) -> Iterator[Document]:
    name = module.__name__
    members = [(key, value) for key, value in sorted(vars(module).items()) if not key.startswith("_")]
    classes = {key: value for key, value in members if inspect.isclass(value) and inspect.getdoc(value)}
    routines = [(key, value) for key, value in members if inspect.isroutine(value) and inspect.getdoc(value)]
    doc = _stable(inspect.getdoc(module) or "")
    pages = {key: _builtin_class(name, key, value, base) for key, value in classes.items()}
    links = (
        f"### [{key}]({pages[key].url})\n\n{_first(_stable(inspect.getdoc(value) or ''))}"
        for key, value in classes.items()
    )
    parts = [doc, *_section("Functions", (_routine(*item) for item in routines)), *_section("Classes", links)]
    if any(parts):
        yield Document(f"{base}library/{name}", _title(name, doc), _join(parts))
    yield from pages.values()


def _builtin_class(module: str, name: str, value: type, base: str) -> Document:
    methods = [
        (key, member)
        for key, member in sorted(vars(value).items())
        if not key.startswith("_") and callable(member) and inspect.getdoc(member)
    ]
    head = f"Class of the module [{module}]({base}library/{module})."
    parts = [head, _stable(inspect.getdoc(value) or ""), *_section("Methods", (_routine(*item) for item in methods))]
    return Document(f"{base}library/{module}/{name}", f"class {module}.{name} — Python library", _join(parts))


def _routine(name: str, value: object) -> str:
    try:
        signature = str(inspect.signature(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        signature = "(...)"
    return f"### `{name}{_stable(signature)}`\n\n{_stable(inspect.getdoc(value) or '')}".rstrip()


def _stable(text: str) -> str:
    """Without what differs from run to run and from machine to machine."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text).replace(sys.prefix, "/usr")


# Layout.


def _section(heading: str, entries: Iterator[str]) -> list[str]:
    found = list(entries)
    return [f"## {heading}", *found] if found else []


def _title(module: str, doc: str | None) -> str:
    line = (doc or "").strip().split("\n\n", 1)[0].strip().rstrip(".").replace("  ", " ")
    return f"{module} — {line}" if line and "\n" not in line else f"{module} — Python library"


def _first(doc: str) -> str:
    return " ".join(doc.strip().split("\n\n", 1)[0].split("\n", 1)[0].split())


def _join(parts: list[str]) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip())


__all__ = ["python_sources", "read_python_library"]
