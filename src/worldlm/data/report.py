"""What an import or an export kept, changed and dropped, and why: counted reasons, each with a few places."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

EXAMPLES = 3
"""Places that are named for one reason."""
PROBLEMS = 20
"""Bad records that are named for one file; all are counted."""


class Effect(StrEnum):
    """What became of a piece of a record."""

    CHANGED = "changed"
    """It is kept in another form."""
    VERBATIM = "verbatim"
    """It is kept as the source wrote it, and that is not the domain's wire format."""
    DROPPED = "dropped"
    """It is not kept."""


@dataclass(slots=True)
class Count:
    """How often something happened, and where it did first."""

    number: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Losses:
    """The reasons that came up, counted."""

    reasons: dict[tuple[Effect, str], Count] = field(default_factory=dict)

    def tell(self, effect: Effect, why: str, where: str, number: int = 1) -> None:
        """Count a reason. `where` is a place that a person can find: file, line, key."""
        count = self.reasons.setdefault((effect, why), Count())
        count.number += number
        if len(count.examples) < EXAMPLES and where not in count.examples:
            count.examples.append(where)

    def changed(self, why: str, where: str) -> None:
        """Something is kept in another form."""
        self.tell(Effect.CHANGED, why, where)

    def verbatim(self, why: str, where: str) -> None:
        """Something is kept as it was, and that is not the domain's wire format."""
        self.tell(Effect.VERBATIM, why, where)

    def dropped(self, why: str, where: str) -> None:
        """Something is not kept."""
        self.tell(Effect.DROPPED, why, where)

    def add(self, other: "Losses") -> None:
        """Count everything that `other` counted."""
        for (effect, why), count in other.reasons.items():
            mine = self.reasons.setdefault((effect, why), Count())
            mine.number += count.number
            mine.examples += [place for place in count.examples if place not in mine.examples]
            del mine.examples[EXAMPLES:]

    def to_json(self) -> list[dict[str, Any]]:
        """The reasons, the most frequent of each effect first."""
        order = list(Effect)
        ranked = sorted(self.reasons.items(), key=lambda item: (order.index(item[0][0]), -item[1].number, item[0][1]))
        return [
            {"effect": effect.value, "reason": why, "count": count.number, "examples": count.examples}
            for (effect, why), count in ranked
        ]


@dataclass(slots=True)
class FileReport:
    """What became of one file (or of a folder that is one recording)."""

    path: str
    format: str = ""
    """`""` where no known format was recognised."""
    versions: set[str] = field(default_factory=set)
    records: int = 0
    """Records that were used."""
    trajectories: int = 0
    turns: int = 0
    bad: int = 0
    """Records that were not used; a file that cannot be read at all counts as one."""
    problems: list[str] = field(default_factory=list)
    losses: Losses = field(default_factory=Losses)

    def problem(self, message: str) -> None:
        """Count a bad record. `message` names the place and what is wrong."""
        self.bad += 1
        if len(self.problems) < PROBLEMS:
            self.problems.append(message)

    def withdraw(self, turns: int, message: str) -> None:
        """Count a record of one trajectory, which was counted as used, as a bad one."""
        self.records -= 1
        self.trajectories -= 1
        self.turns -= turns
        self.problem(message)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {
            "path": self.path,
            "format": self.format or None,
            "versions": sorted(self.versions),
            "records": self.records,
            "trajectories": self.trajectories,
            "turns": self.turns,
            "bad": self.bad,
            "problems": self.problems,
            "losses": self.losses.to_json(),
        }


@dataclass(slots=True)
class LossReport:
    """What became of every file of a batch."""

    files: list[FileReport] = field(default_factory=list)

    def start(self, path: str, format_name: str = "") -> FileReport:
        """The report of a further file."""
        report = FileReport(path, format_name)
        self.files.append(report)
        return report

    @property
    def trajectories(self) -> int:
        """How many there are."""
        return sum(file.trajectories for file in self.files)

    @property
    def turns(self) -> int:
        """How many there are, in all trajectories."""
        return sum(file.turns for file in self.files)

    @property
    def bad(self) -> int:
        """Records that were not used."""
        return sum(file.bad for file in self.files)

    @property
    def bad_share(self) -> float:
        """The part of all records that was not used, in [0, 1]; 0 of nothing."""
        total = self.bad + sum(file.records for file in self.files)
        return self.bad / total if total else 0.0

    @property
    def losses(self) -> Losses:
        """The reasons of all files together."""
        total = Losses()
        for file in self.files:
            total.add(file.losses)
        return total

    def to_json(self) -> dict[str, Any]:
        """As a JSON object: totals, reasons over all files, and each file."""
        return {
            "trajectories": self.trajectories,
            "turns": self.turns,
            "bad": self.bad,
            "bad_share": round(self.bad_share, 4),
            "losses": self.losses.to_json(),
            "files": [file.to_json() for file in self.files],
        }

    def rows(self) -> Iterator[tuple[str, str, str, str]]:
        """The reasons as rows of a table: effect, count, reason, first place."""
        for row in self.losses.to_json():
            yield row["effect"], str(row["count"]), row["reason"], row["examples"][0] if row["examples"] else ""
