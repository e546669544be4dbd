"""The figures of `data stats` as one HTML page with drawings in it (SVG): nothing is loaded from elsewhere."""

import html
import io
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from worldlm.core.errors import SetupError
from worldlm.data.classes import TURN_CLASSES
from worldlm.data.stats import ALL, DomainStats, Stats

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto }}
td, th {{ border-bottom: 1px solid #ddd; padding: .25rem .6rem; text-align: right; white-space: nowrap }}
td:first-child, th:first-child {{ text-align: left }} svg {{ max-width: 100%; height: auto }}
</style>
<h1>{title}</h1>
{body}
</html>
"""


def stats_page(stats: Stats, title: str) -> str:
    """The page. Raises SetupError when `matplotlib` is not installed."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise SetupError("plots need matplotlib; pip install 'worldlm[report]'") from None

    def drawing(draw: Any, height: float) -> str:
        figure = Figure(figsize=(9, height), layout="constrained")
        draw(figure.subplots(), stats.by_domain())
        held = io.StringIO()
        with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "worldlm"}):
            figure.savefig(held, format="svg", metadata={"Date": None})
        return held.getvalue()[held.getvalue().index("<svg") :]

    domains = len(stats.by_domain())
    sections = [
        _table(stats.rows()),
        "<h2>Turn classes</h2>",
        drawing(_classes, 1.2 + 0.4 * domains),
        "<h2>Length of observations</h2>",
        drawing(_lengths, 4),
        "<h2>Languages of observations</h2>",
        drawing(_languages, 1.2 + 0.4 * domains),
    ]
    return _PAGE.format(title=html.escape(title), body="\n".join(sections))


def _table(rows: list[tuple[str, ...]]) -> str:
    head, *rest = rows
    lines = ["<tr>" + "".join(f"<th>{html.escape(cell)}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rest]
    return "<table>\n" + "\n".join(lines) + "\n</table>"


def _classes(axes: Any, domains: dict[str, DomainStats]) -> None:
    _bars(axes, {name: kind.classes for name, kind in domains.items()}, TURN_CLASSES)


def _languages(axes: Any, domains: dict[str, DomainStats]) -> None:
    total = Counter[str]()
    for kind in domains.values():
        total.update(kind.languages)
    _bars(axes, {name: kind.languages for name, kind in domains.items()}, [name for name, _ in total.most_common(8)])


def _bars(axes: Any, counts: dict[str, Counter[str]], parts: Sequence[str]) -> None:
    """A bar of shares for each domain, the first on top."""
    left = [0.0] * len(counts)
    for part in parts:
        shares = [count[part] / (count.total() or 1) for count in counts.values()]
        axes.barh(list(counts), shares, left=left, label=part)
        left = [a + b for a, b in zip(left, shares, strict=True)]
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of observations")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _lengths(axes: Any, domains: dict[str, DomainStats]) -> None:
    for name, kind in domains.items():
        if kind.observation_tokens and name != ALL:
            powers = [math.log2(max(tokens, 1)) for tokens in kind.observation_tokens]
            axes.hist(powers, bins=[n / 2 for n in range(33)], histtype="step", label=name)
    axes.set_xticks(range(0, 17, 2), [f"{2**n:,}" for n in range(0, 17, 2)])
    axes.set_xlabel("tokens")
    axes.set_ylabel("observations")
    axes.legend(frameon=False)
