"""What an adapter was trained for: stands beside its weights, so that loading can tell whether it fits.

In an adapter's folder it is part of the file `worldlm.json`; in a GGUF file it is the metadata keys `worldlm.FIELD`,
each a text (what is no text is JSON).
"""

import json
from collections.abc import Mapping
from typing import Any, Self

from worldlm.core.text import canonical_json
from worldlm.core.types import Profile, Text, Value

ADAPTER_CARD = "worldlm.json"
"""The file's name in an adapter's folder."""
PREFIX = "worldlm."
"""How the keys begin in a GGUF file."""


class TrainedFor(Value):
    """The base, the prompts and the way of being asked that an adapter was trained with."""

    base: Text
    """The base's name."""
    base_digest: Text
    """Hex SHA-256 of its GGUF file, or over its weights' files."""
    profile: Profile
    """How it is to be asked."""
    prompts: dict[Text, Text]
    """The prompt hash of each domain under this profile (`domains.prompt_hashes`)."""
    run: Text
    """What the run was called."""
    stage: Text
    """The last stage of its training: `cpt`, `sft`, …"""
    settings_digest: Text
    """Of the settings of that run."""

    def to_metadata(self) -> dict[str, str]:
        """As the keys and texts of a GGUF file."""
        fields = self.model_dump(mode="json")
        texts = {key: value if isinstance(value, str) else canonical_json(value) for key, value in fields.items()}
        return {PREFIX + key: text for key, text in texts.items()}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Self | None:
        """Out of the keys of a GGUF file; None where there are none of ours. Raises ValueError when they are wrong."""
        fields = {key.removeprefix(PREFIX): value for key, value in metadata.items() if key.startswith(PREFIX)}
        if not fields:
            return None
        for key in ("profile", "prompts"):
            if isinstance(fields.get(key), str):
                fields[key] = json.loads(fields[key])
        return cls.model_validate(fields)


__all__ = ["ADAPTER_CARD", "PREFIX", "TrainedFor"]
