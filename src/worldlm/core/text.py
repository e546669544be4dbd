"""Text at the boundary: lone surrogates, canonical JSON, digests."""

import hashlib
import json
import math
import re
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")


def clean_text(text: str) -> str:
    """`text` with each lone surrogate replaced by U+FFFD, so that it can be encoded and stored.

    Models and tools do emit half of a surrogate pair (`"\\ud83d"` alone); unhandled, it breaks saving.
    """
    if text.isascii():
        return text
    return _SURROGATE.sub("\ufffd", text)


MAX_DEPTH = 200
"""How deep a JSON value may be nested: far below what Python's own recursion takes."""


def clean_json(value: Any) -> Any:
    """`value` as a JSON value that can be stored: strings and keys passed through `clean_text`.

    A key that is a number, a truth value or null becomes text, as JSON writes it. Raises ValueError for what
    JSON does not have (NaN, infinity, bytes, dates, sets), and for a value that is nested too deeply.
    """
    return _clean(value, MAX_DEPTH)


def _clean(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a number that JSON has")
        return value
    if not depth:
        raise ValueError(f"the value is nested more than {MAX_DEPTH} deep")
    if isinstance(value, list | tuple):
        return [_clean(item, depth - 1) for item in value]
    if isinstance(value, dict):
        cleaned = {_key(key): _clean(item, depth - 1) for key, item in value.items()}
        if len(cleaned) < len(value):
            raise ValueError("two keys of a mapping are the same text")
        return cleaned
    raise ValueError(f"JSON has no value of type {type(value).__name__}")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return clean_text(key)
    if key is None or isinstance(key, int | float):
        return json.dumps(key)
    raise ValueError(f"a key must be text, not {type(key).__name__}")


def estimate_tokens(text: str) -> int:
    """Tokens of `text` where nobody counts them: three bytes a token, which is rather too many than too few."""
    return len(text.encode("utf-8", "replace")) // 3 + 1


def number_of(count: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 run`, `2 runs`. `plural`: where it takes more than an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


COPIES, ROUNDS_LENGTH, LONGEST_ROUND = 8, 1000, 500
"""A text goes round where its end is so many copies of one block, so many characters or more, of a block so long."""
_RECOGNISED = 200


def goes_round(text: str) -> bool:
    """Whether the end of `text` repeats one block so often that whoever writes it will not stop.

    Small models fall into such a loop, and at temperature 0 never leave it. Ruled lines, tables, and the output of
    loops in a shell are shorter, or change from line to line.
    """
    end = size = len(text)
    if size < ROUNDS_LENGTH:
        return False
    recognised = text[-_RECOGNISED:]
    while (at := text.rfind(recognised, max(0, size - _RECOGNISED - LONGEST_ROUND), end - 1)) >= 0:
        end = at + len(recognised)
        period = size - end
        length = max(ROUNDS_LENGTH, COPIES * period)
        if size >= length and text[size - length : size - period] == text[size - length + period :]:
            return True
    return False


def canonical_json(value: Any) -> str:
    """One spelling for one value: keys sorted, no spaces, text unescaped. NaN and infinity are refused."""
    return json.dumps(clean_json(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(*parts: str) -> str:
    """Hex SHA-256 over `parts`, each framed by its length so that no two lists of parts collide."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        sha.update(b"%d:" % len(data))
        sha.update(data)
    return sha.hexdigest()


def derive_seed(*parts: str) -> int:
    """A 31-bit seed fixed by `parts` (samplers take signed 32-bit seeds)."""
    return int(digest(*parts)[:8], 16) & 0x7FFFFFFF
