"""Reports: what they show, that no text of a model does anything in them, and that a browser shows them offline."""

import html
import html.parser
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example as given_example
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page, sync_playwright

from tests.bench.report_kit import choices, example, pair, results, tree
from worldlm.bench.choices import ChoiceResults, Pick, read_any_results, write_choice_results
from worldlm.bench.report import AnyResults, report_page, write_report
from worldlm.bench.report_charts import radar
from worldlm.bench.report_diff import MAX_LINES, MAX_WIDTH, Row, diff, visible
from worldlm.bench.results import Example, Failure, Results, write_results
from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.outcomes import Outcome
from worldlm.core.types import DOMAIN_NAMES
from worldlm.judge.score import DIMENSIONS
from worldlm.real.web import chromium

TAGS = """html head meta title style body header section nav h1 h2 h3 p a ul li span strong small table thead tbody tr
th td div details summary pre mark svg polygon line text g circle"""
ATTRIBUTES = """lang charset http-equiv content name id class href title style open colspan role aria-label viewbox
points x y x1 y1 x2 y2 text-anchor dominant-baseline cx cy r"""
HOSTILE = (
    "<script>document.title = 'run'</script>",
    "</pre></details><script>document.title = 'run'</script>",
    "<img src=x onerror=\"document.title='run'\">",
    "\"><svg onload=document.title='run'>",
    "' onmouseover='document.title=1' x='",
    "<iframe srcdoc=\"<script>parent.document.title='run'</script>\"></iframe>",
    "<a href=\"javascript:document.title='run'\">x</a>",
    "</style><script>document.title='run'</script>",
    "{{ 7 * 7 }}{% for x in range(9) %}x{% endfor %}",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:1/'>",
    "--></title><base href=http://127.0.0.1:1/><link rel=stylesheet href=//127.0.0.1:1/x.css>",
    "\x00<\x00script>\u202egpj.exe\u2066 \x1b[31mred &lt;b&gt; &#x3c;script&#x3e;",
)


class Reader(html.parser.HTMLParser):
    """What is in a page: tags and attributes, and the text of each element of a class."""

    def __init__(self, page: str):
        super().__init__()
        self.tags = set[str]()
        self.attributes = set[str]()
        self.links = list[str]()
        self.open = list[tuple[str, str]]()
        self.texts = list[tuple[str, str]]()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        self.tags.add(tag)
        self.attributes.update(told)
        self.links += [value for name, value in told.items() if name in ("href", "src", "content")]
        if tag not in ("meta", "polygon", "line", "circle"):
            self.open.append((tag, told.get("class", "")))

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1][0] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.append((self.open[-1][1], data))


def showing(shown: Example) -> Results:
    """Results with this sample as the worst."""
    return results().model_copy(update={"worst": (shown,)})


def planted(text: str) -> Results:
    """Results in which everything that others wrote is this text."""
    made = results(name="run", metrics=("rules",), domains=("terminal", "web", "os"), per_domain=3, failing=False)
    shown = example(
        text,
        real=f"before\n{text}",
        name=f"terminal/{text}",
        action=text,
        content=text,
        parts={text: 50.0},
        strengths=text,
        weaknesses=text,
        values={"rules": 10.0},
    )
    failed = example(None, outcome=Outcome.MODEL_FAILED, detail=text)
    failure = Failure(id=text, domain="web", stage="predict", outcome=Outcome.INFRASTRUCTURE_FAILED, detail=text)
    assert made.infer
    told = {
        "name": text,
        "benchmark": text,
        "warnings": (text,),
        "worst": (shown, failed),
        "failures": (failure,),
        "infer": made.infer.model_copy(update={"model": text, "prompt_hashes": {text: text}}),
    }
    return made.model_copy(update=told)


def planted_choices(text: str) -> ChoiceResults:
    """Choices in which everything that others wrote is this text."""
    pick = Pick(judge=text, first=text, chosen=text, reason=text)
    shown = pair(
        text, real=f"before\n{text}", name=f"terminal/{text}", action=text, content=text, other=text, picks=(pick,)
    )
    made = choices("pairwise", text)
    failure = Failure(id=text, domain="web", stage="choice", outcome=Outcome.JUDGE_FAILED, detail=text)
    told = {
        "benchmark": text,
        "judging": made.judging.model_copy(update={"against": text, "judges": (text,)}),
        "positions": (made.positions[0].model_copy(update={"judge": text, "shown_first": {text: 3}}),),
        "telling": (shown,),
        "failures": (failure,),
        "warnings": (text,),
        "withheld": text,
    }
    return made.model_copy(update=told)


# What is shown.


def test_every_domain_dimension_count_and_interval_is_in_the_page() -> None:
    run = results()
    page = report_page([run])
    for table in run.tables:
        for each in (*table.domains, table.overall):
            assert f"{each.floor.mean:.1f}<small>[{each.floor.low:.1f}, {each.floor.high:.1f}]" in page
            assert f"<td>{each.scored}</td><td>{each.floored}</td><td>{each.planned}</td>" in page
        assert table.metric.version in page
        for each in (*table.turns, *table.contents, *table.lengths):
            assert f"<small>{each.counted} of {each.planned} samples</small>" in page
    for word in (*DOMAIN_NAMES, *DIMENSIONS, "the thinking never closed", "812,345, of which cached 402,000", "1.2345"):
        assert word in page
    for setting in ("qwen-agentworld", "32768", "aa11", "rubric/1 77aa", "judge-70b@localhost", "0123456789abcdef"):
        assert setting in page


def test_failures_are_grouped_by_kind_and_words_and_none_is_lost() -> None:
    kinds = {outcome for outcome in Outcome if not outcome.is_ok}
    failures = [
        Failure(
            id=f"web/{number}-{outcome}", domain="web", stage="predict", outcome=outcome, detail=f"words {number % 30}"
        )
        for outcome in kinds
        for number in range(40)
    ]
    page = report_page([results().model_copy(update={"failures": tuple(failures)})])
    for outcome in kinds:
        assert re.search(rf"<th>{outcome.value}<small.*?</th><td>40</td>", page)
    assert page.count("and 10 other messages") == len(kinds)
    assert page.count("2 × words 3\n") == len(kinds)


def test_a_withheld_headline_is_no_number_and_says_why() -> None:
    page = report_page([results(lost=0.5)])
    assert "has no headline: the coverage of" in page
    assert "<strong>–<small></small></strong>" in page


def test_runs_stand_beside_each_other_and_differing_settings_are_marked() -> None:
    first, second = results(), results("other", skill=80, metrics=("rules",), domains=DOMAIN_NAMES[:5])
    third = results(second.name, skill=30)
    page = report_page([first, second, third])
    assert "3 runs beside each other" in page
    assert "other (2)" in page
    assert "not scored in this way" in page
    assert page.count('<tr class="differs"><th>predicting: model</th>') == 1
    assert '<tr class="differs"><th>benchmark</th>' not in page
    assert page.count("Win rate, %") == 2
    # Means over different samples do not compare, and that is said.
    assert "asked different samples" not in page
    moved = second.model_copy(update={"benchmark_digest": "another"})
    assert "asked different samples" in report_page([first, moved])
    # Where two runs share nothing, the report says so and stands.
    lone = results("lone", metrics=("rubric",))
    assert "share no metric" in report_page([second, lone])


def test_a_run_that_is_hardly_begun_has_a_report_too() -> None:
    empty = results(per_domain=1, lost=1.0, domains=("web",))
    page = report_page([empty.model_copy(update={"infer": None, "warnings": (), "wall_seconds": {}, "worst": ()})])
    assert "None was kept." in page
    with pytest.raises(InputError, match="there is no run to report"):
        report_page([])


@pytest.mark.parametrize("protocol", ["turing", "pairwise"])
def test_rates_positions_and_telling_pairs_of_choices_are_in_the_page(protocol: Any) -> None:
    run = choices(protocol)
    page = report_page([run])
    assert "37.5<small>[28.2, 46.8]" in page
    for each in (*run.domains, run.overall):
        assert f"{each.rate.mean:.1f}<small>[{each.rate.low:.1f}, {each.rate.high:.1f}]" in page
        counts = (each.won, each.tied, each.lost, each.by_rule, each.counted, each.planned)
        assert "".join(f"<td>{count}</td>" for count in counts) in page
    fair, biased = run.positions
    assert page.count('<tr class="differs"><th>judge-9b</th>') == page.count("goes by position") == 1
    assert page.count("no bias by position is seen") == 1
    assert f"<td>{fair.picks}</td><td>{fair.first_picks}</td>" in page
    assert biased.first_share is not None
    assert f"<td>{100 * biased.first_share:.1f}<small>" in page
    for shown in run.telling:
        assert page.count(f"<strong>{shown.id}</strong>") == 1
    assert page.count("Only one warns of the orders.") == 3
    # In a comparison both predictions stand beside the real answer.
    assert page.count('<div class="side real">Real</div>') == (3 if protocol == "turing" else 6)
    assert ("Predicted by base@localhost" in page) == (protocol == "pairwise")
    for word in (
        run.definition,
        "the reply is no choice",
        "400,321",
        "4 choices made on a part",
        "aa77",
    ):
        assert word in html.unescape(page)
    assert 'id="worst"' not in page
    assert "without the model" not in page


def test_scores_and_choices_stand_in_one_page() -> None:
    scored = results()
    page = report_page([scored, choices(), choices("pairwise"), choices("pairwise", "other", benchmark_digest="b")])
    read = Reader(page)
    assert "4 results beside each other" in page
    assert {"#rules", "#turing", "#pairwise", "#worst"} <= set(read.links)
    assert "#pairs" not in read.links  # of scores there is one run
    assert f"{scored.name}, Turing test" in page
    assert f"{scored.name} against base@localhost" in page
    assert page.count("The runs were asked different samples, so their rates do not compare.") == 1
    assert '<tr class="differs"><th>judging: protocol</th>' in page


def test_choices_that_nobody_made_have_a_report_too() -> None:
    run = choices()
    none: dict[str, Any] = {
        "first_share": None,
        "low": None,
        "high": None,
        "picks": 0,
        "shown_first": {},
        "biased": False,
    }
    rate = run.headline.model_copy(update={"mean": None, "low": None, "high": None, "count": 0})
    empty = {
        "headline": rate,
        "withheld": "nothing of terminal counts: 24 samples, none judged",
        "positions": (run.positions[0].model_copy(update=none),),
        "domains": tuple(each.model_copy(update={"rate": rate}) for each in run.domains),
        "overall": run.overall.model_copy(update={"rate": rate, "planned": 0, "counted": 0}),
        "telling": (),
    }
    page = report_page([run.model_copy(update=empty)])
    assert "has no mean of domains: nothing of terminal counts" in page
    assert "it picked nothing" in page
    assert "none was kept." in page
    assert "<strong>–<small></small></strong>" in page


def test_a_result_file_says_itself_which_kind_it_is(tmp_path: Path) -> None:
    scored, chosen = results(), choices("pairwise")
    write_results(scored, tmp_path / "scored.json")
    write_choice_results(chosen, tmp_path / "chosen.json")
    assert read_any_results(tmp_path / "scored.json") == scored
    assert read_any_results(tmp_path / "chosen.json") == chosen
    broken = json.loads((tmp_path / "chosen.json").read_text())
    broken["headline"]["mean"] = "high"
    for text, words in {
        "{}": "schema",
        "[]": "should be an object",
        "{": "Invalid JSON",
        '{"schema": "worldlm.world/1"}': "worldlm.world/1",
        json.dumps(broken): r"headline\.mean",
    }.items():
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(InputError, match=rf"bad\.json is no result of `worldlm bench score --out`, .*{words}"):
            read_any_results(tmp_path / "bad.json")
    with pytest.raises(InputError, match=r"cannot read .*none\.json"):
        read_any_results(tmp_path / "none.json")


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    write_report([results()], path)
    before = path.read_text("utf-8")
    assert before.startswith("<!doctype html>")
    assert before.endswith("</html>")
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(WorldlmError, match=r"cannot write .*report\.html: "):
        write_report([results()], path / "report.html")
    assert path.read_text("utf-8") == before


def test_a_radar_needs_three_axes_and_outlines_only_what_is_whole() -> None:
    assert radar(("a", "b"), [("run", (1.0, 2.0))]) is None
    drawn = radar(("a", "b", "c"), [("whole", (100.0, 0.0, 50.0)), ("part", (10.0, None, 20.0))])
    assert drawn is not None
    assert [shape.closed for shape in drawn.shapes] == [True, False]
    assert drawn.shapes[0].points[0] == pytest.approx((200.0, 70.0))
    assert drawn.shapes[0].points[1] == pytest.approx((200.0, 200.0))
    assert len(drawn.shapes[1].points) == 2


# Diffs.

LINES = st.lists(st.text(alphabet=st.sampled_from("ab \t<&é\u202e\x00"), max_size=6), max_size=12).map("\n".join)


def rows(left: str, right: str) -> list[Row]:
    return [row for block in diff(left, right).blocks for row in block.rows]


@given(LINES, LINES)
def test_a_side_put_together_again_is_its_text(left: str, right: str) -> None:
    aligned = rows(left, right)
    for text, side in ((left, [row.left for row in aligned]), (right, [row.right for row in aligned])):
        lines = ["".join(piece.text for piece in pieces) for pieces in side if pieces is not None]
        assert "\n".join(lines) == visible(text)
    for row in aligned:
        assert row.left is not None or row.right is not None
        assert row.equal == (row.left == row.right)
        # What is not marked is the same on both sides.
        plain = ["".join(p.text for p in side or () if not p.changed) for side in (row.left, row.right)]
        assert plain[0] == plain[1]


@given(LINES)
def test_equal_texts_have_no_mark(text: str) -> None:
    assert all(row.equal for row in rows(text, text))


@given(st.text())
def test_nothing_hides_in_what_is_shown(text: str) -> None:
    shown = visible(text)
    assert all(char in "\t\n" or char.isprintable() or not ("\u0000" <= char <= "\u009f") for char in shown)
    assert not set(shown) & {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200B, 0xFEFF)}
    assert visible(shown) == shown


def test_long_texts_are_folded_and_cut_and_what_is_left_out_is_told() -> None:
    page = report_page([showing(example(tree(120, (40,)), real=tree(120)))])
    assert page.count('<details class="fold"><summary>') == 2
    assert [page.count(f"{count} equal lines") for count in (37, 76)] == [1, 1]
    huge = "x" * (MAX_WIDTH + 1) + "\n" + "a\nb\n" * 200_000
    made = diff(huge, huge.replace("a", "c"))
    assert (
        made.cut[0] == f"not shown: {400_002 - MAX_LINES:,} more lines, the ends of 1 line longer than 2,000 characters"
    )
    assert sum(len(block.rows) for block in made.blocks) <= 2 * MAX_LINES
    assert len(report_page([showing(example(huge, real=huge[1:], action=huge))])) < 1_000_000


# What a model wrote is text.


@settings(max_examples=25)
@given(st.text(max_size=40) | st.sampled_from(HOSTILE))
@given_example("".join(HOSTILE))
def test_no_text_of_a_model_becomes_anything_but_text(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    page = report_page([planted(text), planted(text), planted_choices(text)])
    read = Reader(page)
    assert read.tags <= set(TAGS.split())
    assert read.attributes <= set(ATTRIBUTES.split())
    assert all(
        link.startswith("#") or "'none'" in link or "width=" in link or link == "no-referrer" for link in read.links
    )
    # And all of it is there to be read.
    assert visible(text).split() == [] or "".join(visible(text).split()) in "".join(
        "".join(t for _, t in read.texts).split()
    )


# In a browser.


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Opens a report without a network; what it asks for, says and fails at must stay empty."""
    folder = tmp_path_factory.mktemp("reports")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])

        def opened(runs: Sequence[AnyResults], width: int = 1200, scheme: Any = "light") -> tuple[Page, list[str]]:
            path = folder / "report.html"
            write_report(runs, path)
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
            page, told = context.new_page(), list[str]()
            page.on("request", lambda request: told.append(request.url) if request.url != path.as_uri() else None)
            page.on("console", lambda message: told.append(message.text))
            page.on("pageerror", lambda error: told.append(str(error)))
            page.on("dialog", lambda dialog: told.append(dialog.message))
            page.goto(path.as_uri())
            return page, told

        yield opened
        browser.close()


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_tables_charts_and_diffs_offline(pages: Any, width: int, scheme: str) -> None:
    page, told = pages([results(), results("other", skill=80)], width, scheme)
    assert told == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # the page never scrolls sideways
    for shape in ("table.overall", "#rules .bars .fill", "#rubric svg .shape", ".diff mark", "#failures table"):
        box = page.locator(shape).first.bounding_box()
        assert box, shape
        assert min(box["width"], box["height"]) > 0, shape
    # Bars are as long as their values say.
    track, fill = (page.locator(f"#rules .bars .{name}").first.bounding_box() for name in ("track", "fill"))
    mean = results().tables[0].domains[0].floor.mean
    assert mean is not None
    assert fill["width"] / track["width"] == pytest.approx(mean / 100, abs=0.01)
    ground, ink = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    brightness = [sum(json.loads("[" + colour[4:-1] + "]")) for colour in (ground, ink)]
    assert (brightness[0] > brightness[1]) == (scheme == "light")
    # Side by side where there is room, one above the other where there is not.
    real, predicted = (page.locator(f".pair.changed > .{name}").first.bounding_box() for name in ("real", "predicted"))
    assert (real["y"] == predicted["y"]) == (width > 640)
    marks = page.locator(".sample[open] .diff mark").all_inner_texts()
    assert {"214", "250", "done"} <= set(marks)
    page.context.close()


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_choices_with_their_intervals_and_diffs_offline(pages: Any, width: int, scheme: str) -> None:
    page, told = pages([choices(), choices("pairwise"), choices("pairwise", "other")], width, scheme)
    assert told == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for shape in ("#turing table.rates", "#pairwise .even .fill", "#turing .even .whisker", "#turing table.positions"):
        box = page.locator(shape).first.bounding_box()
        assert box, shape
        assert min(box["width"], box["height"]) > 0, shape
    # A bar is as long as its rate; its whisker spans the interval.
    rate = choices().domains[0].rate
    assert rate.mean is not None
    assert rate.low is not None
    assert rate.high is not None
    track, fill, whisker = (
        page.locator(f"#turing .even .{name}").first.bounding_box() for name in ("track", "fill", "whisker")
    )
    assert fill["width"] / track["width"] == pytest.approx(rate.mean / 100, abs=0.01)
    assert whisker["width"] / track["width"] == pytest.approx((rate.high - rate.low) / 100, abs=0.01)
    # The first pair is open, real and predicted side by side where there is room, and what differs is marked.
    first = page.locator("#turing .sample[open]")
    assert first.count() == 1
    real, predicted = (first.locator(f".pair.changed > .{name}").first.bounding_box() for name in ("real", "predicted"))
    assert (real["y"] == predicted["y"]) == (width > 640)
    assert {"214", "250", "done"} <= set(first.locator(".diff mark").all_inner_texts())
    # In a comparison each prediction has a diff of its own.
    compared = page.locator("#pairwise .sample").first
    compared.locator("summary").first.click()
    heads = compared.locator(".diff .head .predicted").all_inner_texts()
    assert heads == ["Predicted by qwen-agentworld-35b@localhost", "Predicted by base@localhost"]
    assert "9" in compared.locator(".diff").nth(1).locator("mark").all_inner_texts()
    page.context.close()


def test_nothing_that_a_model_wrote_runs_in_a_browser(pages: Any) -> None:
    made = planted("x")
    examples = tuple(example(text, real=text + "!", name=f"web/{n}", action=text) for n, text in enumerate(HOSTILE))
    runs = [planted(text) for text in HOSTILE] + [made.model_copy(update={"worst": examples})]
    page, told = pages([*runs, *map(planted_choices, HOSTILE)])
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.mouse.move(300, 300)
    page.wait_for_timeout(200)
    assert told == []
    assert page.title() != "run"
    assert (
        page.evaluate("document.scripts.length + document.images.length + document.links.length")
        == page.locator("nav a").count()
    )
    shown = page.locator("#worst .side.predicted").all_inner_texts()
    assert "<script>document.title = 'run'</script>" in shown
    assert "{{ 7 * 7 }}{% for x in range(9) %}x{% endfor %}" in shown
    page.context.close()


def test_on_paper_every_sample_is_open(pages: Any) -> None:
    page, _ = pages([results()])
    page.emulate_media(media="print")
    heights = [box["height"] for each in page.locator(".sample .diff").all() if (box := each.bounding_box())]
    assert len(heights) == 3
    assert min(heights) > 10
    assert page.pdf().startswith(b"%PDF")
    page.context.close()
