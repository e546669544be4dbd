"""What a set of trajectories holds, by domain: counts, lengths, turn classes, duplicates, languages, origins."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import median, quantiles
from typing import Any

from worldlm.core.errors import SetupError
from worldlm.core.text import digest, estimate_tokens
from worldlm.core.types import Trajectory
from worldlm.data.classes import TURN_CLASSES, MaskConfig, label_turns
from worldlm.domains.domain import Domain

ALL = "all"
"""The name of the sum over all domains."""
MIN_WORDS = 8
"""Different words of letters that a text must have for its language to be told."""
MOST_CHARACTERS = 6000
"""Of a text, that are looked at for its language."""
SURE = 0.9
"""How probable a language must be (by the identifier's own measure) to be named."""
_LETTERS = re.compile(r"[^\W\d_]{2,}")
NO_LANGUAGE, UNSURE = "none", "unsure"
"""Of a text with too few words, or that is none; of one that may be of several."""


@cache
def _identifier() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise SetupError("telling languages needs py3langid; pip install 'worldlm[data]'") from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def language_of(text: str) -> str:
    """The language of a text as a code of ISO 639-1, or `NO_LANGUAGE`, or `UNSURE`.

    It is told by the different words of letters in it: in listings and trees a few names recur in each line.
    """
    words = dict.fromkeys(word.lower() for word in _LETTERS.findall(text[:MOST_CHARACTERS]))
    if len(words) < MIN_WORDS and text.isascii():
        return NO_LANGUAGE
    name, probability = _identifier().classify(" ".join(words))
    if name == "zxx" or not words:
        return NO_LANGUAGE
    return str(name) if probability >= SURE else UNSURE


@dataclass
class DomainStats:
    """Figures of one domain, added a trajectory at a time; of the texts only lengths and digests are kept."""

    trajectories: int = 0
    turns: Counter[str] = field(default_factory=Counter)
    """By outcome."""
    classes: Counter[str] = field(default_factory=Counter)
    """Turns with an observation, by turn class."""
    trained: int = 0
    languages: Counter[str] = field(default_factory=Counter)
    origins: Counter[str] = field(default_factory=Counter)
    licences: Counter[str] = field(default_factory=Counter)
    turns_each: list[int] = field(default_factory=list)
    action_tokens: list[int] = field(default_factory=list)
    observation_tokens: list[int] = field(default_factory=list)
    repeated_turns: int = 0
    """Turns whose action and observation, as a pair, were seen before in this domain."""
    repeated_observations: int = 0
    unchanged: int = 0
    """Observations that equal the one before in their trajectory."""
    _pairs: set[int] = field(default_factory=set)
    _observations: set[int] = field(default_factory=set)

    def add(
        self,
        trajectory: Trajectory,
        domain: Domain,
        count: Callable[[str], int],
        config: MaskConfig | None,
        language: Callable[[str], str],
    ) -> None:
        """Count a trajectory."""
        self.trajectories += 1
        self.turns_each.append(len(trajectory.turns))
        self.origins[trajectory.origin.kind] += 1
        self.licences[trajectory.origin.licence or "unknown"] += 1
        before = trajectory.initial.text if trajectory.initial else None
        for label, turn in zip(label_turns(trajectory, domain, config), trajectory.turns, strict=True):
            self.turns[turn.outcome.value] += 1
            self.action_tokens.append(count(turn.action))
            if turn.observation is None or label.turn_class is None:
                continue
            text = turn.observation.text
            self.classes[label.turn_class] += 1
            self.trained += label.trained
            self.languages[language(text)] += 1
            self.observation_tokens.append(count(text))
            self.repeated_turns += _again(self._pairs, turn.action, text)
            self.repeated_observations += _again(self._observations, text)
            self.unchanged += text == before
            before = text

    def merge(self, other: "DomainStats") -> None:
        """Add what another one counted. (Duplicates are those within each.)"""
        self.trajectories += other.trajectories
        for name in ("turns", "classes", "languages", "origins", "licences"):
            getattr(self, name).update(getattr(other, name))
        for name in ("turns_each", "action_tokens", "observation_tokens"):
            getattr(self, name).extend(getattr(other, name))
        for name in ("trained", "repeated_turns", "repeated_observations", "unchanged"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def figures(self) -> dict[str, Any]:
        """As a JSON object. Shares are of the turns with an observation, in [0, 1]; None of nothing."""
        observed = len(self.observation_tokens)
        return {
            "trajectories": self.trajectories,
            "turns": self.turns.total(),
            "failed_turns": {name: count for name, count in sorted(self.turns.items()) if name != "ok"},
            "turns_a_trajectory": _spread(self.turns_each),
            "action_tokens": _spread(self.action_tokens),
            "observation_tokens": {**_spread(self.observation_tokens), "total": sum(self.observation_tokens)},
            "class_shares": {name: _share(self.classes[name], observed) for name in TURN_CLASSES},
            "trained_share": _share(self.trained, observed),
            "repeated_turn_share": _share(self.repeated_turns, observed),
            "repeated_observation_share": _share(self.repeated_observations, observed),
            "unchanged_share": _share(self.unchanged, observed),
            "languages": dict(self.languages.most_common()),
            "origins": dict(self.origins.most_common()),
            "licences": dict(self.licences.most_common()),
        }


@dataclass
class Stats:
    """Figures by domain."""

    count: Callable[[str], int] = estimate_tokens
    config: MaskConfig | None = None
    language: Callable[[str], str] = language_of
    domains: dict[str, DomainStats] = field(default_factory=dict)

    def add(self, trajectory: Trajectory, domain: Domain) -> None:
        """Count a trajectory."""
        kind = self.domains.setdefault(domain.name, DomainStats())
        kind.add(trajectory, domain, self.count, self.config, self.language)

    def total(self) -> DomainStats:
        """All domains together."""
        total = DomainStats()
        for kind in self.domains.values():
            total.merge(kind)
        return total

    def by_domain(self) -> dict[str, DomainStats]:
        """The domains by name, and `ALL` last where there are several."""
        rows = dict(sorted(self.domains.items()))
        return {**rows, ALL: self.total()} if len(rows) > 1 else rows

    def figures(self) -> dict[str, Any]:
        """As a JSON object: the total, and each domain."""
        return {
            **self.total().figures(),
            "domains": {name: kind.figures() for name, kind in sorted(self.domains.items())},
        }

    def rows(self) -> list[tuple[str, ...]]:
        """A table: a line for each figure, a column for each domain."""
        columns = [(name, kind.figures()) for name, kind in self.by_domain().items()]
        table: list[tuple[str, ...]] = [("", *(name for name, _ in columns))]

        def row(title: str, cell: Callable[[dict[str, Any]], str]) -> None:
            table.append((title, *(cell(figures) for _, figures in columns)))

        row("trajectories", lambda f: f"{f['trajectories']:,}")
        row("turns", lambda f: f"{f['turns']:,}")
        row("failed turns", lambda f: f"{sum(f['failed_turns'].values()):,}")
        for key in ("turns_a_trajectory", "action_tokens", "observation_tokens"):
            row(f"{key.replace('_', ' ')}, median / p90 / most", lambda f, key=key: _shown(f[key]))  # type: ignore[misc]
        row("observation tokens, total", lambda f: f"{f['observation_tokens']['total']:,}")
        for name in TURN_CLASSES:
            row(name, lambda f, name=name: _percent(f["class_shares"][name]))  # type: ignore[misc]
        row("trained by default", lambda f: _percent(f["trained_share"]))
        row("repeated action and observation", lambda f: _percent(f["repeated_turn_share"]))
        row("repeated observation", lambda f: _percent(f["repeated_observation_share"]))
        row("unchanged observation", lambda f: _percent(f["unchanged_share"]))
        row("languages", lambda f: _named(f["languages"]))
        row("origins", lambda f: _named(f["origins"]))
        return table


def _again(seen: set[int], *texts: str) -> bool:
    """Whether these texts were seen before; from now on they were."""
    key = int(digest(*texts)[:16], 16)
    if key in seen:
        return True
    seen.add(key)
    return False


def _spread(values: Sequence[int]) -> dict[str, float | None]:
    if not values:
        return {"median": None, "p90": None, "most": None}
    p90 = quantiles(values, n=10, method="inclusive")[-1] if len(values) > 1 else values[0]
    return {"median": median(values), "p90": p90, "most": max(values)}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _shown(spread: dict[str, Any]) -> str:
    if spread["median"] is None:
        return "-"
    return f"{spread['median']:,.0f} / {spread['p90']:,.0f} / {spread['most']:,.0f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _named(counts: dict[str, int], most: int = 3) -> str:
    total = sum(counts.values())
    return ", ".join(f"{name} {count / total:.0%}" for name, count in list(counts.items())[:most]) or "-"
