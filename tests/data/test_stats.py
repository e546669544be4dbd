"""Figures of a set of trajectories, and the page of plots."""

from typing import Any

import pytest

from tests.data.sessions import PROMPT, session, shell, turn, typed
from worldlm.core.errors import SetupError
from worldlm.data.stats import NO_LANGUAGE, DomainStats, Stats, language_of
from worldlm.data.stats_plots import stats_page
from worldlm.domains import get_domain


def stats() -> Stats:
    found = Stats(count=len, language=lambda text: "en" if "Linux" in text else "none")
    first = session(
        [shell("uname", "Linux"), shell("uname", "Linux"), turn(typed("x"), None), turn(typed(":"), PROMPT)]
    )
    second = session([turn('click("1")', "a screen"), turn('click("1")', "a screen")], "web", "a screen")
    found.add(first, get_domain("terminal"))
    found.add(second, get_domain("web"))
    return found


def test_figures_by_hand() -> None:
    figures = stats().figures()
    terminal, web = figures["domains"]["terminal"], figures["domains"]["web"]
    length = len(f"{PROMPT} uname\nLinux\n{PROMPT}")
    assert figures["trajectories"] == 2
    assert (figures["turns"], terminal["turns"], web["turns"]) == (6, 4, 2)
    assert terminal["failed_turns"] == {"timed_out": 1}
    assert terminal["observation_tokens"] == {"median": length, "p90": length, "most": length, "total": 2 * length + 10}
    assert figures["turns_a_trajectory"] == {"median": 3, "p90": 3.8, "most": 4}
    assert terminal["repeated_turn_share"] == pytest.approx(1 / 3)
    assert web["repeated_turn_share"] == 0.5
    assert web["unchanged_share"] == 1.0
    assert figures["repeated_observation_share"] == pytest.approx(2 / 5)
    assert terminal["languages"] == {"en": 2, "none": 1}
    assert figures["origins"] == {"recorded": 2}
    assert figures["licences"] == {"CC0-1.0": 2}
    assert sum(terminal["class_shares"].values()) == pytest.approx(1)


def test_nothing_has_no_shares() -> None:
    figures = DomainStats().figures()
    assert figures["turns"] == 0
    assert figures["observation_tokens"] == {"median": None, "p90": None, "most": None, "total": 0}
    assert figures["trained_share"] is None
    assert set(figures["class_shares"].values()) == {None}
    assert Stats().rows()[0] == ("",)


def test_a_column_for_each_domain_and_one_for_all() -> None:
    rows = stats().rows()
    assert rows[0] == ("", "terminal", "web", "all")
    table: dict[str, Any] = {row[0]: row[1:] for row in rows}
    assert table["turns"] == ("4", "2", "6")
    assert table["unchanged observation"] == ("33.3%", "100.0%", "60.0%")
    assert table["languages"] == ("en 67%, none 33%", "none 100%", "none 60%, en 40%")
    one = Stats(count=len, language=lambda text: "en")
    one.add(session([shell("uname")]), get_domain("terminal"))
    assert one.rows()[0] == ("", "terminal")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The index that was built yesterday does not hold these documents any more.", "en"),
        ("Der Ordner, den Sie suchen, wurde gestern von einem anderen Benutzer gelöscht.", "de"),
        ("没有找到您要查询的列车信息，请重新输入出发城市和到达城市。", "zh"),
        ("total 4", NO_LANGUAGE),
        ("", NO_LANGUAGE),
        ("a a a a a a a a a a 1 2 3 4 5 6 7 8 9", NO_LANGUAGE),
    ],
)
def test_languages(text: str, language: str) -> None:
    pytest.importorskip("py3langid", reason="needs py3langid: pip install 'worldlm[data]'")
    assert language_of(text) == language


def test_the_page_holds_all_it_needs() -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'worldlm[report]'")
    page = stats_page(stats(), "a <set> & more")
    assert page.count("<svg") == page.count("</svg>") == 3
    assert "<title>a &lt;set&gt; &amp; more</title>" in page
    assert "src=" not in page
    assert "<script" not in page
    assert "<link" not in page
    assert page == stats_page(stats(), "a <set> & more")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from worldlm.data import stats as module

    module._identifier.cache_clear()
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SetupError, match=r"pip install 'worldlm\[data\]'"):
        language_of("eight words or so of a language that may be told")
    with pytest.raises(SetupError, match=r"pip install 'worldlm\[report\]'"):
        stats_page(stats(), "x")
