"""The page of plots as a browser without a network shows it: every plot drawn, labelled and legible."""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.data.sessions import session, shell, turn
from worldlm.core.errors import SetupError
from worldlm.data.stats import ALL, NO_LANGUAGE, UNSURE, DomainStats, Stats
from worldlm.data.stats_plots import stats_page
from worldlm.domains import get_domain

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'worldlm[report]'")
playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install 'worldlm[real]'")

SMALLEST_PIXELS = 9.0
"""Height of a line of the smallest text that is read without effort."""

LAID_OUT = """() => [...document.querySelectorAll('svg')].map(svg => {
  const box = e => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom] };
  const filled = [...svg.querySelectorAll('path')].filter(e => {
    const style = getComputedStyle(e);
    return !e.closest('defs') && style.fill !== 'none' && style.fill !== 'rgb(255, 255, 255)'
  });
  return {
    heading: svg.parentElement.previousElementSibling.textContent,
    label: svg.getAttribute('aria-label'),
    box: box(svg),
    texts: [...svg.querySelectorAll('text')].map(e => [e.textContent, box(e)]),
    areas: filled.map(box).filter(b => b[2] - b[0] > 1 && b[3] - b[1] > 1).length,
  }
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from worldlm.real.web import chromium

    try:
        program = chromium()
    except SetupError as error:
        pytest.skip(str(error))
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield found
        found.close()


def filled(languages: int) -> DomainStats:
    kind = DomainStats(trajectories=3)
    kind.turns["ok"] = 60
    kind.classes.update({"retrieval": 30, "expansion": 20, "action": 7, "echo": 2, "other": 1})
    kind.languages.update({NO_LANGUAGE: 9, UNSURE: 8, **{f"{chr(97 + n)}x": 30 - 2 * n for n in range(languages)}})
    kind.observation_tokens += [2 ** (n % 15) for n in range(60)]
    kind.turns_each += [20, 20, 20]
    return kind


def one_domain() -> Stats:
    stats = Stats(count=len, language=lambda text: "en")
    stats.add(session([shell("uname", "Linux"), shell("date", "Monday")]), get_domain("terminal"))
    return stats


def all_domains() -> Stats:
    return Stats(domains={name: filled(14) for name in ("terminal", "swe", "mcp", "search", "web", "android", "os")})


def one_empty_domain() -> Stats:
    stats = one_domain()
    stats.language = lambda text: NO_LANGUAGE
    stats.add(session([turn('click("1")', None)], "web", "a screen"), get_domain("web"))
    stats.add(session([turn("x", "")], "mcp", ""), get_domain("mcp"))
    return stats


@cache
def page_of(make: Callable[[], Stats]) -> str:
    """Drawing is what takes time here, and the widths share it."""
    return stats_page(make(), "Some trajectories")


def overlap(one: list[float], other: list[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] + 1 < other[3] and other[1] + 1 < one[3]


@pytest.mark.parametrize("width", [700, 1280, 1920])
@pytest.mark.parametrize("make", [one_domain, all_domains, one_empty_domain])
def test_every_plot_is_drawn_labelled_and_legible(
    browser: Any, tmp_path: Path, make: Callable[[], Stats], width: int
) -> None:
    stats = make()
    path = tmp_path / "page.html"
    path.write_text(page_of(make), "utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900}, offline=True)
    asked: list[str] = []
    complaints: list[str] = []
    shown = context.new_page()
    shown.on("request", lambda request: asked.append(request.url))
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.goto(path.as_uri())
    plots = shown.evaluate(LAID_OUT)
    wide = shown.evaluate("document.documentElement.scrollWidth")
    context.close()

    assert asked == [path.as_uri()]
    assert complaints == []
    assert wide <= width
    headings = ["Turn classes", "Length of observations", "Languages of observations"]
    assert [plot["heading"] for plot in plots] == [plot["label"] for plot in plots] == headings
    names = {name for name, kind in stats.by_domain().items() if kind.observation_tokens}
    assert (ALL in names) is (len(stats.by_domain()) > 1)
    for plot in plots:
        left, top, right, bottom = plot["box"]
        words = [text for text, _ in plot["texts"]]
        assert names <= set(words), plot["heading"]
        assert plot["areas"] >= len(names), plot["heading"]
        assert any("observation" in text for text in words)  # the axis says what it shows
        for text, box in plot["texts"]:
            cut = box[0] < left or box[2] > right or box[1] < top or box[3] > bottom
            assert not cut, f"{text!r} is cut off in {plot['heading']}"
            assert box[3] - box[1] >= SMALLEST_PIXELS, f"{text!r} is too small"
        for number, (text, box) in enumerate(plot["texts"]):
            for other, its_box in plot["texts"][number + 1 :]:
                assert not overlap(box, its_box), f"{text!r} lies over {other!r} in {plot['heading']}"


def test_many_languages_are_told_as_the_most_frequent_and_the_rest() -> None:
    page = page_of(all_domains)
    assert ">rest<" in page
    assert ">ax<" in page
    assert ">nx<" not in page
    assert ">rest<" not in page_of(one_domain)


def test_nothing_is_a_page_without_plots() -> None:
    page = stats_page(Stats(), "nothing")
    assert "<svg" not in page
    assert "<h1>nothing</h1>" in page
