"""The figures of `data stats` as one HTML page with drawings in it (SVG): nothing is loaded from elsewhere."""

import html
import io
import math
from collections import Counter
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from worldlm.core.errors import SetupError
from worldlm.data.classes import TURN_CLASSES
from worldlm.data.stats import NO_LANGUAGE, UNSURE, DomainStats, Stats

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse; font-size: 13px; width: 100% }}
td, th {{ border-bottom: 1px solid #ddd; padding: .25rem .6rem; text-align: right; vertical-align: top }}
td:first-child, th:first-child {{ text-align: left }} .wide {{ overflow-x: auto }}
svg {{ display: block; width: 100%; min-width: 56rem; height: auto }}
</style>
<h1>{title}</h1>
{body}
</html>
"""
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#5d3a9b", "#8c6d31")
"""Told apart by the colour-blind too (the first six after Okabe and Ito)."""
_GREYS = {"other": "#c8c8c8", NO_LANGUAGE: "#c8c8c8", UNSURE: "#969696"}
_NAMED = 0.06
"""The share from which on a part of a bar is named by its per cents."""
_WIDTH = 11.5
_BAR = 0.38
_PANEL = 0.85
_FRAME = 0.8
"""Inches: of the page's width, for a bar, for a panel, and for what stands around them."""
_MOST_LANGUAGES = 8


def stats_page(stats: Stats, title: str) -> str:
    """The page. Raises SetupError when `matplotlib` is not installed."""
    require_plots()
    domains = stats.by_domain()
    sections = [f'<div class="wide">{_table(stats.rows())}</div>']
    if any(kind.observation_tokens for kind in domains.values()):
        bars = _FRAME + _BAR * len(domains)
        sections += [
            drawing("Turn classes", bars, lambda figure: _classes(figure, domains)),
            drawing("Length of observations", _FRAME + _PANEL * len(domains), lambda figure: _lengths(figure, domains)),
            drawing("Languages of observations", bars, lambda figure: _languages(figure, domains)),
        ]
    return _PAGE.format(title=html.escape(title), body="\n".join(sections))


def require_plots() -> None:
    """Raises SetupError when `matplotlib` is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise SetupError("plots need matplotlib; pip install 'worldlm[report]'") from None


def drawing(heading: str, height: float, draw: Callable[[Any], None]) -> str:
    """What `draw` draws on a figure of the page's width, as SVG below its heading. The height is in inches.

    The same drawing is the same text. Raises SetupError when `matplotlib` is not installed.
    """
    require_plots()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    draw(figure)
    held = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": f"worldlm {heading}"}):
        figure.savefig(held, format="svg", metadata={"Date": None})
    drawn = held.getvalue()
    svg = f'<svg role="img" aria-label="{heading}"{drawn[drawn.index("<svg") + 4 :]}'
    return f'<h2>{heading}</h2>\n<div class="wide">{svg}</div>'


def _table(rows: list[tuple[str, ...]]) -> str:
    head, *rest = rows
    lines = ["<tr>" + "".join(f"<th>{html.escape(cell)}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rest]
    return "<table>\n" + "\n".join(lines) + "\n</table>"


def _classes(figure: Any, domains: dict[str, DomainStats]) -> None:
    _bars(figure.subplots(), {name: kind.classes for name, kind in domains.items()}, TURN_CLASSES)


def _languages(figure: Any, domains: dict[str, DomainStats]) -> None:
    total = sum((kind.languages for kind in domains.values()), Counter[str]())
    named = [name for name, _ in total.most_common(_MOST_LANGUAGES)]
    if len(total) <= len(named):
        counts = {name: kind.languages for name, kind in domains.items()}
    else:  # the rest as one
        counts = {
            name: Counter({**{part: kind.languages[part] for part in named}, "rest": _rest(kind.languages, named)})
            for name, kind in domains.items()
        }
        named.append("rest")
    _bars(figure.subplots(), counts, [*(n for n in named if n not in _GREYS), *(n for n in named if n in _GREYS)])


def _rest(languages: Counter[str], named: Sequence[str]) -> int:
    return languages.total() - sum(languages[part] for part in named)


def _bars(axes: Any, counts: dict[str, Counter[str]], parts: Sequence[str]) -> None:
    """A bar of shares for each domain, the first on top, and in it the larger shares in per cent."""
    left = [0.0] * len(counts)
    colours = iter(COLOURS)
    for part in parts:
        shares = [count[part] / (count.total() or 1) for count in counts.values()]
        if not any(shares):
            continue
        colour = _GREYS.get(part) or next(colours, "#444444")
        bars = axes.barh(list(counts), shares, left=left, label=part, color=colour, edgecolor="white", linewidth=0.5)
        texts = [f"{share:.0%}" if share >= _NAMED else "" for share in shares]
        axes.bar_label(bars, texts, label_type="center", fontsize=9, color="black" if _pale(colour) else "white")
        left = [a + b for a, b in zip(left, shares, strict=True)]
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_xlabel("share of observations")
    axes.tick_params(left=False)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _pale(colour: str) -> bool:
    """Whether black is better read on a colour than white (by its relative luminance)."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 110


def _lengths(figure: Any, domains: dict[str, DomainStats]) -> None:
    """A histogram for each domain, one below the other over the same lengths, with its median."""
    shown = {name: kind.observation_tokens for name, kind in domains.items() if kind.observation_tokens}
    most = math.ceil(math.log2(max(2, *(max(tokens) for tokens in shown.values()))))
    last = most + most % 2
    panels = figure.subplots(len(shown), sharex=True, squeeze=False)[:, 0]
    for axes, (name, tokens) in zip(panels, shown.items(), strict=True):
        powers = [math.log2(max(count, 1)) for count in tokens]
        bins = [n / 2 for n in range(2 * last + 1)]
        axes.hist(powers, bins=bins, weights=[1 / len(tokens)] * len(tokens), color=COLOURS[0])
        middle = median(tokens)
        axes.axvline(math.log2(max(middle, 1)), color=COLOURS[5])
        axes.set_ylabel(name, rotation=0, ha="right", va="center")
        axes.set_title(f"median {middle:,.0f}", loc="right", fontsize=9, color=COLOURS[5], pad=2)
        axes.set_yticks([])
        axes.spines[["top", "right", "left"]].set_visible(False)
    panels[-1].set_xlim(0, last)
    panels[-1].set_xticks(range(0, last + 1, 2), [f"{2**n:,}" for n in range(0, last + 1, 2)])
    panels[-1].set_xlabel("tokens of an observation; height: share of the domain's observations")
