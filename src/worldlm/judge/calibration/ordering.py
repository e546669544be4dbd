"""How well a score orders a calibration set."""

from collections.abc import Callable, Iterable

from pydantic import Field

from worldlm.core.types import Value
from worldlm.judge.calibration.items import CalibrationItem, expected_pairs


class Ordering(Value):
    """Pairs of one sort, and how a score ordered them."""

    pair: str
    """`real > small_fault`, or `small_fault >= self_praise`."""
    right: int = Field(ge=0)
    ties: int = Field(ge=0)
    """Pairs with equal scores: wrong in `>`, right (and counted so) in `>=`."""
    total: int = Field(ge=0)
    """Pairs of which both have a score."""
    missing: int = Field(default=0, ge=0)
    """Pairs of which one has none."""

    @property
    def share(self) -> float | None:
        """Right ones of all that have a score; None where none has."""
        return self.right / self.total if self.total else None


def measure_order(items: Iterable[CalibrationItem], score: Callable[[CalibrationItem], float | None]) -> list[Ordering]:
    """How `score` (None: no score) orders the pairs whose order is known, one row for each sort of pair."""
    rows: dict[str, Ordering] = {}
    known: dict[str, float | None] = {}
    for better, worse in expected_pairs(items):
        for item in (better, worse):
            if item.id not in known:
                known[item.id] = score(item)
        strict = worse.base is None
        name = f"{better.kind} {'>' if strict else '>='} {worse.kind}"
        row = rows.setdefault(name, Ordering(pair=name, right=0, ties=0, total=0))
        high, low = known[better.id], known[worse.id]
        if high is None or low is None:
            rows[name] = row.model_copy(update={"missing": row.missing + 1})
            continue
        right = high > low or (not strict and high == low)
        rows[name] = row.model_copy(
            update={"right": row.right + right, "ties": row.ties + (high == low), "total": row.total + 1}
        )
    return list(rows.values())


__all__ = ["Ordering", "measure_order"]
