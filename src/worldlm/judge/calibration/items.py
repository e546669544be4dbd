"""Making calibration items of real trajectories, and the set that ships.

For one real turn: the real observation, the same with one small and with one large fault, the observation of another
turn of the trajectory, nothing at all, and some of these with praise of themselves or words to the grader behind them.
"""

import lzma
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Literal, get_args

from worldlm.core.jsonl import iter_jsonl
from worldlm.core.text import canonical_json, derive_seed
from worldlm.core.types import DomainName, Observation, Text, Trajectory, Value
from worldlm.judge.calibration.faults import FAULTS, PRAISE, TO_THE_GRADER, Size, add_text, with_text
from worldlm.judge.question import Question
from worldlm.judge.score import Dimension
from worldlm.judge.verifiers.rows import words
from worldlm.judge.verifiers.spans import Spans

Kind = Literal["real", "small_fault", "large_fault", "wrong_turn", "empty", "self_praise", "grader_address"]
KINDS: tuple[Kind, ...] = get_args(Kind)
ORDER: tuple[Kind, ...] = ("real", "small_fault", "large_fault", "wrong_turn", "empty")
"""From best to worst. The other kinds are worth no more than what they were added to (`CalibrationItem.base`)."""
UNLIKE = 0.4
"""The most that a wrong turn may have in common with the right one, as a share of the longer one."""


_BOX = re.compile(r" \(-?\d+,-?\d+ \d+x\d+\)| bounds=\"[^\"]*\"")


class CalibrationItem(Value):
    """One prediction for one real turn, with what is known of it by construction."""

    id: Text
    group: Text
    """Items of one group answer the same question."""
    question: Question
    predicted: Observation
    kind: Kind
    fault: Text = ""
    """What was planted, in words."""
    dimension: Dimension | None = None
    """The dimension that the fault hurts first; None where there is no one dimension."""
    base: Kind | None = None
    """For praise and words to the grader: the kind of item of this group that they stand behind."""

    @property
    def domain(self) -> DomainName:
        """The domain of the question."""
        return self.question.domain


def make_calibration(
    trajectories: Iterable[Trajectory], seed: int = 0, *, per_trajectory: int = 2, last_turn: int | None = None
) -> Iterator[CalibrationItem]:
    """Items for some turns of each trajectory, the same ones for the same seed.

    A turn is taken where every kind of item can be made: there is a place for a small and a large fault, and another
    turn whose observation is unlike its own. `last_turn`: turns after this one (from 0) are not asked about, which
    keeps the histories short.
    """
    for trajectory in trajectories:
        rng = Random(derive_seed("calibration", str(seed), trajectory.id))
        turns = [index for index, turn in enumerate(trajectory.turns) if turn.observation is not None]
        asked = [index for index in turns if last_turn is None or index <= last_turn]
        made = 0
        for index in rng.sample(asked, len(asked)):
            if made == per_trajectory:
                break
            if items := _items_of(trajectory, index, turns, rng):
                made += 1
                yield from items


def _items_of(trajectory: Trajectory, index: int, turns: Sequence[int], rng: Random) -> list[CalibrationItem]:
    question = Question.of(trajectory, index)
    truth = question.truth
    if not truth.text.strip():
        return []
    small, large = (_faulty(question, size, rng) for size in ("small", "large"))
    wrong = _wrong_turn(trajectory, question, turns, rng)
    if small is None or large is None or wrong is None:
        return []
    praise, to_grader = rng.choice(PRAISE), rng.choice(TO_THE_GRADER)
    base: Kind = rng.choice(("small_fault", "large_fault"))
    faulty = small if base == "small_fault" else large
    rows: list[tuple[Kind, Observation, str, Dimension | None, Kind | None]] = [
        ("real", truth, "", None, None),
        ("small_fault", *small, None),
        ("large_fault", *large, None),
        ("wrong_turn", wrong, "the observation of another turn", None, None),
        ("empty", Observation(text=""), "nothing", None, None),
        ("self_praise", add_text(faulty[0], praise), f"{faulty[1]}, and praise", faulty[2], base),
        ("grader_address", add_text(truth, to_grader), "words to the grader", "realism", "real"),
        ("grader_address", add_text(faulty[0], to_grader), f"{faulty[1]}, and words to the grader", faulty[2], base),
    ]
    group = f"{trajectory.id}#{index}"
    return [
        CalibrationItem(
            id=f"{group}/{kind}" + (f"/{behind}" if behind else ""),
            group=group,
            question=question,
            predicted=predicted,
            kind=kind,
            fault=fault,
            dimension=dimension,
            base=behind,
        )
        for kind, predicted, fault, dimension, behind in rows
    ]


def _faulty(question: Question, size: Size, rng: Random) -> tuple[Observation, str, Dimension] | None:
    faults = [fault for fault in FAULTS[question.domain] if fault.size == size]
    spans = Spans(question)
    for fault in rng.sample(faults, len(faults)):
        text = fault.plant(rng, question)
        if text is not None and text.strip() and spans.mask(text).strip() != spans.mask(question.truth.text).strip():
            return with_text(question.truth, text), fault.name, fault.dimension
    return None


def _wrong_turn(trajectory: Trajectory, question: Question, turns: Sequence[int], rng: Random) -> Observation | None:
    """The observation of a turn with another action, that has few lines in common with the truth."""
    for index in rng.sample(turns, len(turns)):
        turn = trajectory.turns[index]
        if turn.observation is None or turn.action == question.action or not turn.observation.text.strip():
            continue
        if _common(turn.observation.text, question.truth.text) <= UNLIKE:
            return turn.observation
    return None


def _common(one: str, other: str) -> float:
    """Lines in common (wherever they are on a screen), of the longer text's; words where one text is a single line."""
    rows = [_BOX.sub("", text.strip()).split("\n") for text in (one, other)]
    if len(rows[0]) > 1 and len(rows[1]) > 1:
        if rows[0][-1] == rows[1][-1]:
            rows = [lines[:-1] for lines in rows]  # a prompt, which every turn has
        units = [Counter(line.strip() for line in lines if line.strip()) for lines in rows]
    else:
        units = [Counter(words(text)) for text in (one, other)]
    return (units[0] & units[1]).total() / max(units[0].total(), units[1].total(), 1)


def expected_pairs(items: Iterable[CalibrationItem]) -> Iterator[tuple[CalibrationItem, CalibrationItem]]:
    """Pairs of one group, the better first.

    Neighbours of `ORDER` (better by any margin), and then each item with praise or words to the grader, behind its
    base, which must not be worse.
    """
    groups: dict[str, list[CalibrationItem]] = {}
    for item in items:
        groups.setdefault(item.group, []).append(item)
    for group in groups.values():
        plain = {item.kind: item for item in group if item.base is None}
        yield from ((plain[better], plain[worse]) for better, worse in pairwise(ORDER))
        yield from ((plain[item.base], item) for item in group if item.base is not None)


# On disk: a line a group, so that a question and its history stand once.


def write_calibration(items: Iterable[CalibrationItem], path: Path) -> int:
    """Write items as JSON lines, compressed where the name ends in `.xz`. Returns how many groups there are."""
    groups: dict[str, dict[str, Any]] = {}
    for item in items:
        question = item.question.model_dump(mode="json", exclude_defaults=True, by_alias=True)
        row = groups.setdefault(item.group, {"group": item.group, "question": question, "items": []})
        row["items"].append(item.model_dump(mode="json", exclude={"question", "group"}, exclude_defaults=True))
    text = "".join(canonical_json(row) + "\n" for row in groups.values())
    data = text.encode()
    path.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME) if path.suffix == ".xz" else data)
    return len(groups)


def read_calibration(path: Path) -> list[CalibrationItem]:
    """The items of a file, compressed or not. Raises InputError that names the line."""
    return [item for _, group in iter_jsonl(path, _read_group) for item in group]


def load_calibration(domain: DomainName) -> list[CalibrationItem]:
    """The items of a domain that ship with the package."""
    with resources.as_file(resources.files("worldlm.judge.calibration") / f"{domain}.jsonl.xz") as path:
        return read_calibration(path)


def _read_group(row: Any) -> list[CalibrationItem]:
    try:
        question = Question.model_validate(row["question"])
        told = [{**item, "group": row["group"], "question": question} for item in row["items"]]
    except (LookupError, TypeError) as error:
        raise ValueError(f"not a group of calibration items: {type(error).__name__}: {error}") from error
    return [CalibrationItem.model_validate(item) for item in told]


__all__ = [
    "KINDS",
    "ORDER",
    "UNLIKE",
    "CalibrationItem",
    "Kind",
    "expected_pairs",
    "load_calibration",
    "make_calibration",
    "read_calibration",
    "write_calibration",
]
