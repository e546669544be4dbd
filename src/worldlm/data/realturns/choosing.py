"""Which turns a test part asks about.

A turn is a candidate when its observation is whole (nothing was cut, nothing was still changing, the harness did not
answer), when it fits a small model's context, and when training does not show it: no run of its words that is not
common stands in training, and neither does the same action with the same observation. Of the candidates some are
chosen, spread over the position in the session, the content class, the kind of action, world and trajectory.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from worldlm.core.text import digest, estimate_tokens
from worldlm.core.types import Trajectory
from worldlm.data.classes import label_turns
from worldlm.data.cleaning.cut import MARKER
from worldlm.data.content import Content, ContentClass, contents
from worldlm.data.formats.agentworldbench import sample_system
from worldlm.data.realturns.recipe import Asking
from worldlm.data.steps.decontaminate import Leaks, common_runs, find_leaks, occurrences, reference
from worldlm.data.steps.ngrams import Hashes
from worldlm.data.steps.quality import is_unstable
from worldlm.data.steps.records import Record, turn_text
from worldlm.data.steps.splits import ODD
from worldlm.domains import get_domain

POSITIONS = ("early", "middle", "late")
WHOLE_STATES = ("web", "android", "os")
"""Domains in which an observation is the whole state: a long session may be shown from any observation on."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A turn that a test part may ask about."""

    trajectory: Trajectory
    turn: int
    """Its number from 0."""
    position: str
    start: int = 0
    """The turn with which its history begins; above 0, the observation before that is the first one."""
    content: ContentClass | None = None
    """None: not yet known."""

    @property
    def session(self) -> Trajectory:
        """What a sample shows of the trajectory: its history, and the asked turn last."""
        return part_of(self.trajectory, self.start, self.turn + 1)

    @property
    def kind(self) -> str:
        """What the policy called the action, odd or not."""
        return (self.trajectory.turns[self.turn].label or "").removesuffix(ODD)

    @property
    def text(self) -> str:
        """Identifies action and observation."""
        return digest(turn_text(self.trajectory.turns[self.turn]))


@dataclass(frozen=True, slots=True)
class Seen:
    """What training shows."""

    runs: Hashes
    """Runs of words that are not common, sorted."""
    turns: Collection[str]
    """Digests of actions with their observations."""
    leaks: Leaks

    @classmethod
    def of(cls, records: Callable[[], Iterable[Record]], leaks: Leaks) -> "Seen":
        """What stands in these records, which are read three times."""
        known = reference(records(), leaks).hashes
        number, counts = occurrences(records(), known, leaks)
        turns = {
            digest(turn_text(turn)) for record in records() if isinstance(record, Trajectory) for turn in record.turns
        }
        return cls(known[~common_runs(counts, number, leaks)], turns, leaks)


def candidates(
    trajectory: Trajectory, turns: Collection[int] | None, tests: Asking, seen: Seen, losses: Counter[str]
) -> Iterator[Candidate]:
    """The candidates of a trajectory: of `turns` (numbers from 0), or of all where None.

    `losses` counts, by reason, the turns that are none.
    """
    if not _may_be_passed_on(trajectory.origin.licence, tests.licences):
        losses["its licence"] += len(trajectory.turns)
        return
    domain = get_domain(trajectory.world.domain)
    labels = label_turns(trajectory, domain)
    leaking = {leak.turn for leak in find_leaks(trajectory, seen.runs, seen.leaks)}
    observed = 0
    for number, (turn, label) in enumerate(zip(trajectory.turns, labels, strict=True)):
        if turn.observation is None:
            continue
        observed += 1
        if turns is not None and number not in turns:
            continue
        if is_unstable(turn):
            losses["its observation was still changing"] += 1
        elif MARKER.search(turn.observation.text):
            losses["its observation is cut"] += 1
        elif not turn.observation.text.strip():
            losses["its observation is blank"] += 1
        elif label.why == "answered by the harness":
            losses["the harness answered"] += 1
        elif number in leaking or digest(turn_text(turn)) in seen.turns:
            losses["it stands in training"] += 1
        elif (start := _start(trajectory, number, tests.context)) is None:
            losses["its history is too long"] += 1
        else:
            yield Candidate(trajectory, number, _position(observed, tests), start)


def _may_be_passed_on(licence: str, patterns: Sequence[str] | None) -> bool:
    named = [name.strip() for name in licence.split(",") if name.strip()]
    return patterns is None or all(any(fnmatchcase(name, pattern) for pattern in patterns) for name in named)


def part_of(trajectory: Trajectory, start: int, end: int) -> Trajectory:
    """The turns from `start` to before `end`, from the observation that is the newest before them."""
    before = [turn.observation for turn in trajectory.turns[:start] if turn.observation is not None]
    return trajectory.model_copy(
        update={"initial": before[-1] if before else trajectory.initial, "turns": trajectory.turns[start:end]}
    )


def _start(trajectory: Trajectory, asked: int, context: int) -> int | None:
    """The first turn of a history that fits: all turns, or in a domain of whole states as many as fit, one at least.

    None where it does not fit.
    """
    room = context - estimate_tokens(sample_system(trajectory.world))
    domain = get_domain(trajectory.world.domain)
    sizes = [
        0 if turn.observation is None else _tokens(turn.action, domain.write_observation(turn.observation))
        for turn in trajectory.turns[: asked + 1]
    ]
    starts = range(max(asked, 1)) if domain.name in WHOLE_STATES else range(1)
    for start in starts:
        first = part_of(trajectory, start, asked + 1).initial
        if _tokens(first.text if first else "") + sum(sizes[start:]) <= room:
            return start
    return None


def _tokens(*texts: str) -> int:
    """Tokens with the marks around the texts."""
    return sum(estimate_tokens(text) + 12 for text in texts)


def _position(number: int, tests: Asking) -> str:
    early, middle = tests.positions
    return POSITIONS[0 if number <= early else 1 if number <= middle else 2]


def choose(pool: Sequence[Candidate], wanted: int, per_trajectory: int, tests: Asking) -> list[Candidate]:
    """At most `wanted` of the pool, and of one trajectory at most so many; in the order of the pool.

    Each next one is of the cell (position and class) that is furthest behind its share, and in it of the trajectory,
    the kind and the world of which least was taken. No two have the same action and observation. It depends on the
    pool alone.
    """
    cells: dict[tuple[str, ContentClass | None], list[Candidate]] = {}
    ranks = {id(each): digest(each.trajectory.id, str(each.turn)) for each in pool}
    for each in sorted(pool, key=lambda each: ranks[id(each)]):
        cells.setdefault((each.position, each.content), []).append(each)
    taken: list[Candidate] = []
    counts: Counter[tuple[str, str]] = Counter()
    by_cell: Counter[tuple[str, ContentClass | None]] = Counter()
    texts: set[str] = set()
    while len(taken) < wanted and cells:
        cell = max(cells, key=lambda cell: (_share(cell, tests) * (len(taken) + 1) - by_cell[cell], cell[0]))
        best = min(
            (each for each in cells[cell] if counts["trajectory", each.trajectory.id] < per_trajectory),
            key=lambda each: (
                counts["trajectory", each.trajectory.id],
                counts["kind", each.kind],
                counts["world", each.trajectory.world.name],
            ),
            default=None,
        )
        if best is None:
            del cells[cell]
            continue
        cells[cell].remove(best)
        if best.text in texts:
            continue
        texts.add(best.text)
        taken.append(best)
        by_cell[cell] += 1
        counts.update(
            [
                ("trajectory", best.trajectory.id),
                ("kind", best.kind),
                ("world", best.trajectory.world.name),
            ]
        )
    places = {id(each): place for place, each in enumerate(pool)}
    return sorted(taken, key=lambda each: places[id(each)])


def _share(cell: tuple[str, ContentClass | None], tests: Asking) -> float:
    """What a cell is to have, as a share of all: positions weigh alike, classes as the recipe says."""
    return (1.0 if cell[1] is None else tests.classes[cell[1]] / sum(tests.classes.values())) / len(POSITIONS)


def with_contents(
    pool: Sequence[Candidate], again: Mapping[str, Sequence[Trajectory]], common: Collection[str], told: Counter[str]
) -> list[Candidate]:
    """The candidates whose content class can be told, with it.

    `again`: the replays of the trajectories, by their ids, as far as the candidates go; `common`: what is no news
    anywhere. `told` counts, for every turn of these trajectories, its class, or why it has none.
    """
    found: list[Candidate] = []
    ends = {each.trajectory.id: 0 for each in pool}
    for each in pool:
        ends[each.trajectory.id] = max(ends[each.trajectory.id], each.turn + 1)
    whole: dict[str, list[Content]] = {}
    for each in pool:
        name, twins = each.trajectory.id, again.get(each.trajectory.id, ())
        if name not in whole:
            whole[name] = contents(part_of(each.trajectory, 0, ends[name]), twins, common)
            told.update(str(content.kind or content.why) for content in whole[name])
        kind = whole[name][each.turn].kind
        if kind is not None and each.start:  # what a shorter history does not tell is news
            twins = [part_of(twin, each.start, each.turn + 1) for twin in twins]
            kind = contents(each.session, twins, common)[-1].kind
        if kind is not None:
            found.append(replace(each, content=kind))
    return found
