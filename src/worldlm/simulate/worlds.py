"""Worlds as YAML files: the shipped ones by name, your own by path."""

from collections.abc import Hashable
from importlib import resources
from typing import Any

import yaml
from pydantic import ValidationError

from worldlm.core.errors import InputError, nearest, user_path
from worldlm.core.jsonl import describe, unknown_key
from worldlm.core.types import DOMAIN_NAMES, DomainName, World
from worldlm.domains import get_domain

MAX_VALUES = 200_000
"""Values that a world may hold, aliases unfolded."""


class _Loader(yaml.CSafeLoader):
    """YAML without surprises: a key that stands twice in one mapping is an error, and dates stay text."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping whose keys are all different."""
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise yaml.MarkedYAMLError(problem="a key must be text", problem_mark=key_node.start_mark)
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"key {key!r} stands twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def shipped_worlds() -> dict[str, World]:
    """The worlds of the package by name, in the order of the domains; the first of a domain is its default."""
    return {name: _shipped(name) for name in _names()}


def _names() -> list[str]:
    """A shipped world's file is `NAME.yaml`, and its name begins with its domain."""
    folder = resources.files("worldlm.simulate") / "worlds"
    names = [entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")]
    return sorted(names, key=lambda name: (DOMAIN_NAMES.index(_domain_of(name)), name))


def _domain_of(name: str) -> DomainName:
    return next(domain for domain in DOMAIN_NAMES if name.startswith(f"{domain}-"))


def _shipped(name: str) -> World:
    file = resources.files("worldlm.simulate") / "worlds" / f"{name}.yaml"
    return parse_world(file.read_text("utf-8"), file.name)


def load_world(name: str) -> World:
    """A world by the name of a shipped one, by a domain's name (its first shipped world), or by the path of a file.

    Raises InputError with the nearest valid name, or with the file and the line or key that is wrong.
    """
    if name.endswith((".yaml", ".yml")) or "/" in name:
        path = user_path(name)
        try:
            text = path.read_text("utf-8")
        except OSError as error:
            raise InputError(f"cannot read world file {name}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{name} is not UTF-8 text (byte {error.start})") from error
        return parse_world(text, name)
    names = _names()
    if name in names:
        return _shipped(name)
    for shipped in names:
        if _domain_of(shipped) == name:
            return _shipped(shipped)
    hint = nearest(name, [*names, *DOMAIN_NAMES])
    raise InputError(f"there is no world {name!r}; {hint} (a file's name must end in .yaml)")


def parse_world(text: str, source: str) -> World:
    """A world from YAML text; `source` names it in errors. Raises InputError."""
    try:
        value = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise InputError(f"{source}{where}: not valid YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise InputError(f"{source}: not valid YAML: {error}") from error
    if not isinstance(value, dict):
        raise InputError(
            f"{source}: a world is a mapping with name, domain, initial_state, …; see `worldlm worlds show`"
        )
    if _is_endless(value):
        raise InputError(f"{source}: it refers to itself, or its aliases unfold to more than {MAX_VALUES:,} values")
    try:
        world = World.model_validate(value)
    except ValidationError as error:
        raise InputError(f"{source}: {_explain(error, value)}") from error
    if problems := get_domain(world.domain).problems(world):
        raise InputError(f"{source}: {problems[0]}" + (f" (and {len(problems) - 1} more)" if problems[1:] else ""))
    return world


def _is_endless(value: object) -> bool:
    """Whether a value of YAML, its aliases unfolded, is larger than any world (or refers to itself)."""
    waiting, count = [value], 0
    while waiting:
        item = waiting.pop()
        count += 1
        if count > MAX_VALUES:
            return True
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return False


def _explain(error: ValidationError, value: dict[str, Any]) -> str:
    if found := unknown_key(error, World):
        return f"unknown key {found[0]!r}; {found[1]}"
    if any(item["loc"] == ("domain",) for item in error.errors(include_url=False)):
        return f"unknown domain {value['domain']!r}; {nearest(str(value['domain']), DOMAIN_NAMES)}"
    return describe(error)


def dump_world(world: World) -> str:
    """A world as YAML, without what has its default."""
    value = {"schema": world.schema_, **world.model_dump(mode="json", by_alias=True, exclude_defaults=True)}
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
