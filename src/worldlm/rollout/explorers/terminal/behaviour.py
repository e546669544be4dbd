"""The explorer of the terminal: it follows goals, looks, gets things wrong, and repairs them."""

import re
from collections import Counter
from collections.abc import Sequence, Set
from random import Random

from worldlm.core.text import canonical_json
from worldlm.core.types import Observation, World
from worldlm.rollout.explorers.explorer import Act, Behave, Behaviour
from worldlm.rollout.explorers.terminal.families import FAMILIES
from worldlm.rollout.explorers.terminal.goals import GOALS, LEAVING, LOOKS, REPAIRS, Goal
from worldlm.rollout.explorers.terminal.known import Known
from worldlm.rollout.explorers.terminal.scene import Family, Move, Scene, slip

TURNS = (30, 40)
"""After how many turns an episode takes up no new goal: fewest and most."""
ODD_SHARE = 0.15
"""Of the commands that could be typed rightly. Whole families that are odd come on top of it."""
LOOK_SHARE = 0.1
REPAIR_SHARE = 0.7
"""How often something that went wrong is followed up."""
WANDER_SHARE = 0.35
"""Of the goals: a walk over the families, in place of a chain."""
GOAL_WEIGHTS = {"git": 2.0}
"""Where many families wait for a long way to be gone."""
STAY_SHARE = 0.7
"""How often a walk goes on inside the program that it opened."""
QUOTE_SECONDS = 0.15
"""How long to wait for a shell that may want more input."""
CLAIM_SHARE = 0.2
"""How often an episode ends with the claim that the task is done."""


def make_behave(without: Set[str] = frozenset()) -> Behave:
    """A behaviour that never uses the families named in `without`. Raises ValueError for a name that is none."""
    unknown = sorted(without - {family.name for family in FAMILIES})
    if unknown:
        raise ValueError(f"no command family is called {unknown[0]!r}; the names are in terminal.FAMILIES")
    families = {family.name: family for family in FAMILIES if family.name not in without}

    def behave(random: Random, world: World, initial: Observation) -> Behaviour:
        return _Explorer(random, world, initial, families).episode()

    return behave


behave: Behave = make_behave()
"""The terminal's explorer, with all families."""


class _Explorer:
    """One episode."""

    def __init__(self, random: Random, world: World, initial: Observation, families: dict[str, Family]):
        self.r = random
        self.known = Known(world, initial)
        self.scene = Scene(random, self.known)
        self.families = families
        counts = Counter(family.kind for family in families.values())
        self.kinds = list(counts)
        self.weights = [count**0.7 for count in counts.values()]
        self.over = False

    def episode(self) -> Behaviour:
        last = self.r.randint(*TURNS)
        while self.known.lines < last and not self.over:
            before = self.known.lines
            if self.r.random() < WANDER_SHARE:
                yield from self.wander(self.r.randint(4, 8))
            else:
                yield from self.pursue(self.goal())
            yield from self.leave()
            last -= before == self.known.lines  # an explorer of few families may find nothing to do
        claim = self.families.get("claim-done")
        if claim and not self.over and self.r.random() < CLAIM_SHARE:
            for _ in range(2):
                yield from self.type(claim, _move(claim.make(self.scene)), odd=False)

    def goal(self) -> Goal:
        kind = self.r.choices(list(GOALS), [len(goals) * GOAL_WEIGHTS.get(kind, 1.0) for kind, goals in GOALS.items()])[
            0
        ]
        return self.r.choice(GOALS[kind])

    def pursue(self, goal: Goal, *, repairs: int = 1) -> Behaviour:
        for step in goal:
            if step.endswith("?") and self.r.random() < 0.5:
                continue
            family = self.choose(step.rstrip("?").split("|"))
            if family is not None:
                yield from self.do(family, repairs)
                if self.known.program is None and self.r.random() < LOOK_SHARE:
                    look = self.choose(LOOKS)
                    if look is not None:
                        yield from self.do(look, 0)
            if self.over:
                return

    def wander(self, steps: int) -> Behaviour:
        """Families of all kinds; in a program that keeps the terminal, a few of its own."""
        for _ in range(steps if self.kinds else 0):
            weights = [
                w * (3 if kind == "git" and self.known.repo else 1)
                for kind, w in zip(self.kinds, self.weights, strict=True)
            ]
            kind = self.r.choices(self.kinds, weights)[0]
            inside = self.known.program is not None and self.r.random() < STAY_SHARE
            names = [
                f.name
                for f in self.families.values()
                if (f.program == self.known.program if inside else f.kind == kind)
            ]
            family = self.choose(names)
            if family is not None:
                yield from self.do(family, 1)
            if self.over:
                return

    def choose(self, names: Sequence[str]) -> Family | None:
        """One of these families that can be used now, from inside the program that has the terminal, or after it."""
        found = [self.families[name] for name in names if name in self.families]
        fitting = [family for family in found if family.fits(self.known) and self.can_leave(family)]
        if not fitting and self.known.program is not None:
            shell = [family for family in found if family.program is None and self.can_leave(family)]
            program, self.known.program = self.known.program, None
            fitting = [family for family in shell if family.fits(self.known)]
            self.known.program = program
        return self.r.choice(fitting) if fitting else None

    def can_leave(self, family: Family) -> bool:
        """Whether there is a way back from what the family opens."""
        return family.opens is None or LEAVING[family.opens] in self.families

    def ready(self, family: Family) -> bool:
        return not self.over and family.fits(self.known)

    def do(self, family: Family, repairs: int) -> Behaviour:
        """Type one command of the family, perhaps after getting it wrong, and see to what came of it."""
        if family.program is None:
            yield from self.leave()
        if not self.ready(family):
            return
        if self.r.random() < ODD_SHARE and not family.always_odd and (wrong := self.wrong(family)):
            yield from self.type(family, wrong, odd=True)
            yield from self.repair(0)
            if family.program is None:
                yield from self.leave()
            if self.r.random() > REPAIR_SHARE:
                return
            if not self.ready(family):
                return
        yield from self.type(family, _move(family.make(self.scene)), odd=family.always_odd)
        yield from self.repair(repairs)

    def type(self, family: Family, move: Move, *, odd: bool) -> Behaviour:
        keys = move.keys if move.keys is not None else ((move.text + "\n", family.seconds),)
        action = canonical_json([{"keystrokes": typed, "duration": seconds} for typed, seconds in keys])
        turn = yield Act(action, family.name + ("/odd" if odd else ""))
        self.known.lines += 1
        self.known.again = not (odd or move.opens or move.keys or move.effects or family.seconds > 2)
        if turn.observation is not None:
            self.known.observe(turn.observation.text, () if odd else move.effects, move.opens)

    def repair(self, depth: int) -> Behaviour:
        if depth and self.known.program is None and self.r.random() < REPAIR_SHARE:
            body = self.known.seen.partition("\n")[2]
            for pattern, goal in REPAIRS:
                if pattern.search(body):
                    yield from self.pursue(goal, repairs=0)
                    return

    def leave(self) -> Behaviour:
        """Back to the shell's prompt, or the end of the episode where there is no way back."""
        for attempt in range(3):
            if self.known.program is None:
                return
            family = self.families.get(LEAVING[self.known.program] if attempt < 2 else "key-quit")
            if family is not None:
                yield from self.type(family, _move(family.make(self.scene)), odd=False)
        self.over = self.known.program is not None

    def wrong(self, family: Family) -> Move | None:
        """A wrong form of a command: one of the family's own, or a slip that every command line may suffer."""
        if family.program is not None:
            return None
        if family.odd and self.r.random() < 0.5:
            return _move(self.r.choice(family.odd)(self.scene))
        line = _move(family.make(self.scene)).text
        if not line or "\n" in line:
            return None
        slipped = [
            made
            for slip_of in self.r.sample(_SLIPS, len(_SLIPS))
            if (made := slip_of(self.r, line)) not in (None, line)
        ]
        if not slipped:
            return None
        text = slipped[0]
        if text.count("'") % 2 or text.count('"') % 2 or text.endswith(("|", "&&", "\\")):
            if "key-interrupt" not in self.families:
                return None
            return Move(keys=((text + "\n", QUOTE_SECONDS),), opens="quote")
        return Move(text)


def _move(made: Move | str) -> Move:
    return made if isinstance(made, Move) else Move(made)


# Slips: each makes a wrong line of a right one, or None where it does not apply.


def _wrong_name(r: Random, line: str) -> str | None:
    """A misspelt command."""
    match = re.match(r"[a-z][a-z0-9]+(?= |$)", line)
    if not match:
        return None
    wrong = slip(r, match[0]) if r.random() < 0.8 else match[0].upper()
    return wrong + line[match.end() :]


def _wrong_path(r: Random, line: str) -> str | None:
    """A misspelt file name."""
    names = list(re.finditer(r"(?<=[\s/])[a-z][\w-]*\.[a-z]{2,4}\b", line))
    if not names or ">" in line:
        return None
    match = r.choice(names)
    return line[: match.start()] + slip(r, match[0]) + line[match.end() :]


def _wrong_option(r: Random, line: str) -> str | None:
    """An option that there is not."""
    match = re.match(
        r"(cat|ls|cp|mv|rm|mkdir|grep|sort|head|tail|wc|cut|tar|git|sed|uniq|find|touch|chmod|diff|tr|stat|du|gzip)\b",
        line,
    )
    if not match:
        return None
    option = r.choice(("--recursiv", "--colour-all", "--nope", "--all-lines", "-?", "--lines", "--output"))
    return f"{match[0]} {option}{line[match.end() :]}"


def _wrong_quote(r: Random, line: str) -> str | None:
    """A quote that is not closed."""
    return line + r.choice(("'", '"'))


def _wrong_operator(r: Random, line: str) -> str | None:
    """A stray operator or bracket."""
    return r.choice((f"{line} )", f"{line} |", f"| {line}", f"{line} && && pwd", f"{line};;", f"( {line} ))"))


def _wrong_variable(r: Random, line: str) -> str | None:
    """An argument replaced by a variable that is not set."""
    words = line.split(" ")
    if len(words) < 3 or ">" in line or "'" in line or '"' in line:
        return None
    words[-1] = "$" + r.choice(("file", "dir", "FILE", "name"))
    return " ".join(words)


def _doubled(r: Random, line: str) -> str | None:
    """The command's name typed twice."""
    match = re.match(r"(ls|cat|cd|cp|mv|mkdir|grep|head|tail|wc|sort|git|touch|diff|stat)\b", line)
    return f"{match[0]} {line}" if match else None


_SLIPS = (
    _wrong_name,
    _wrong_name,
    _wrong_path,
    _wrong_path,
    _wrong_path,
    _wrong_option,
    _wrong_quote,
    _wrong_operator,
    _wrong_variable,
    _doubled,
)
