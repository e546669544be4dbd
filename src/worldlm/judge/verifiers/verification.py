"""What a verifier finds: named parts between 0 and 1, and one number on 0–100."""

from collections.abc import Sequence

from pydantic import Field

from worldlm.core.types import Value

VERSION = "verifiers/2"
"""Changes whenever a score can change."""
NOT_EQUAL = 99.9
"""What a prediction that differs from the reference gets at most."""


class Part(Value):
    """One thing that was compared."""

    name: str
    weight: float = Field(ge=0)
    """Its share of the sum, in proportion to the others'. 0: told, and not counted."""
    value: float = Field(ge=0, le=1)
    """1: as in the reference; 0: nothing of it."""


class Verification(Value):
    """A prediction compared with the reference by rules."""

    value: float = Field(ge=0, le=100)
    """100: the reference; 0: nothing right. The same scale in every domain."""
    parts: tuple[Part, ...] = ()
    """Empty where there was nothing to compare: equal texts, or one of them empty."""
    exact: bool
    """Whether it is the reference, letter by letter."""
    normalised: bool
    """Whether it says the same as the reference: apart from spelling (space at line ends, order of keys, kind of
    quotes) and from what nobody can know (times, ids of processes, hashes), of which only the form counts."""
    version: str = VERSION


def summarise(parts: Sequence[Part], *, exact: bool) -> Verification:
    """The weighted mean of the parts; 100 exactly when every part is 1."""
    total = sum(part.weight for part in parts)
    same = all(part.value >= 1 for part in parts)
    mean = 100 * sum(part.weight * part.value for part in parts) / total if total else 0.0
    return Verification(
        value=100.0 if same else min(max(mean, 0.0), NOT_EQUAL), parts=tuple(parts), exact=exact, normalised=same
    )


__all__ = ["NOT_EQUAL", "VERSION", "Part", "Verification", "summarise"]
