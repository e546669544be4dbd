"""Settings out of YAML files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from worldlm.core.errors import InputError
from worldlm.core.jsonl import describe, unknown_key
from worldlm.core.types import Value

S = TypeVar("S", bound=Value)

YAML_ERRORS = (yaml.YAMLError, ValueError, RecursionError)
"""What the reading of a YAML text raises: see `yaml_problem`."""


def read_settings(path: Path, kind: type[S], given: Mapping[str, Any] | None = None) -> S:
    """The settings of a file, with what was given beside it. Raises InputError that names file and key."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    try:
        value = yaml.safe_load(text)
    except YAML_ERRORS as error:
        raise InputError(f"{path} is {yaml_problem(error)}") from error
    if not isinstance(value, dict):
        raise InputError(f"{path} holds no mapping with the keys {', '.join(kind.model_fields)}")
    return settings({**value, **(given or {})}, kind, str(path))


def yaml_problem(error: Exception) -> str:
    """Why a text is not YAML, and where, in one line, given one of `YAML_ERRORS`.

    (The error's own words name the text in place of the file, and each of its marks.)
    """
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        return f"not YAML: {error.problem or error.context}{where}"
    if isinstance(error, yaml.reader.ReaderError):
        return f"not YAML: {error.reason} at character {error.position + 1}"
    if isinstance(error, RecursionError):
        return "not YAML: nested too deeply"
    return f"not YAML: {' '.join(str(error).split())}"


def settings(value: Mapping[str, Any], kind: type[S], name: str) -> S:
    """Settings out of a mapping. Raises InputError that names the key that is wrong."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        # What else is missing is missing for a key that there is not.
        if found := unknown_key(error, kind):
            raise InputError(f"{name}: there is no setting {found[0]}; {found[1]}") from error
        raise InputError(f"{name}: {describe(error)}") from error


__all__ = ["YAML_ERRORS", "read_settings", "settings", "yaml_problem"]
