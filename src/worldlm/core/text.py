"""Text at the boundary: lone surrogates, canonical JSON, digests."""

import hashlib
import json
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


def clean_json(value: Any) -> Any:
    """A JSON value with every string in it, keys too, passed through `clean_text`."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key) if isinstance(key, str) else key: clean_json(v) for key, v in value.items()}
    return value


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
