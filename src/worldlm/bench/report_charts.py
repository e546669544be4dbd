"""What is drawn in a report: geometry alone, on scales of 0–100. The templates turn it into SVG and boxes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from worldlm.bench.results import Estimate

R_co = TypeVar("R_co", covariant=True)

CENTRE = 200.0
RADIUS = 130.0
RINGS = (25, 50, 75, 100)


@dataclass(frozen=True)
class Run(Generic[R_co]):
    """A run among others: its number is its colour, its label is unique."""

    number: int
    label: str
    results: R_co


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with its interval, of one series."""

    series: int
    """Number of the run, from 0: its colour."""
    name: str
    estimate: Estimate | None
    """None where the run has no such part."""


@dataclass(frozen=True, slots=True)
class Group:
    """The bars of all series for one thing."""

    name: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """A spoke of a radar, with its name at the end."""

    name: str
    x: float
    y: float
    label_x: float
    label_y: float
    anchor: str


@dataclass(frozen=True, slots=True)
class Shape:
    """One series of a radar. Without a value on every axis there is no outline."""

    series: int
    name: str
    points: tuple[tuple[float, float], ...]
    closed: bool

    @property
    def path(self) -> str:
        """As SVG's `points`."""
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in self.points)


@dataclass(frozen=True, slots=True)
class Radar:
    """Several series on the same axes; the rim is 100."""

    axes: tuple[Axis, ...]
    rings: tuple[tuple[int, str], ...]
    """Value and outline."""
    shapes: tuple[Shape, ...]


def radar(axes: Sequence[str], series: Sequence[tuple[str, Sequence[float | None]]]) -> Radar | None:
    """A radar of values on 0–100; None for fewer than three axes, which enclose nothing."""
    if len(axes) < 3:
        return None
    spokes = []
    for index, name in enumerate(axes):
        x, y = _point(index, len(axes), 100)
        label_x, label_y = _point(index, len(axes), 112)
        side = label_x - CENTRE
        anchor = "middle" if abs(side) < 10 else "start" if side > 0 else "end"
        spokes.append(Axis(name, x, y, label_x, label_y, anchor))
    rings = [
        (ring, " ".join("{:.1f},{:.1f}".format(*_point(index, len(axes), ring)) for index in range(len(axes))))
        for ring in RINGS
    ]
    shapes = [
        Shape(
            number,
            name,
            tuple(_point(index, len(axes), value) for index, value in enumerate(values) if value is not None),
            closed=all(value is not None for value in values),
        )
        for number, (name, values) in enumerate(series)
    ]
    return Radar(tuple(spokes), tuple(rings), tuple(shapes))


def _point(index: int, count: int, value: float) -> tuple[float, float]:
    angle = 2 * math.pi * index / count - math.pi / 2
    length = RADIUS * value / 100
    return CENTRE + length * math.cos(angle), CENTRE + length * math.sin(angle)
