"""A run's record: one line an event, files that go on after a resume, and a page that shows what came of it."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="training needs torch: pip install 'worldlm[train]'")
pytest.importorskip("tensorboard", reason="reports need tensorboard: pip install 'worldlm[train]'")
pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'worldlm[report]'")

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from worldlm.core.errors import InputError
from worldlm.train.events import Event, Kind
from worldlm.train.report import (
    METRICS,
    PAGE,
    TENSORBOARD,
    Report,
    compared,
    read_events,
    report_page,
    smooth,
    write_page,
)


def event(kind: Kind, step: int, texts: dict[str, str] | None = None, time: float = 0.0, **figures: float) -> Event:
    return Event(
        kind=kind,
        time=time or 1000.0 + step,
        step=step,
        steps=20,
        tokens=100 * step,
        figures=figures,
        texts=texts or {},
    )


def a_step(step: int, loss: float | None = None) -> Event:
    loss = 4.0 / (step + 1) if loss is None else loss
    return event(
        "step", step, loss=loss, gradient_norm=0.5, learning_rate=1e-3, tokens_per_second=450.0, step_tokens=100.0
    )


START = event(
    "start",
    0,
    {"run": "shells", "stage": "cpt", "base": "tiny"},
    **{"rows": 7, "tokens": 900, "targets": 300, "rows/terminal": 7, "tokens/terminal": 900, "targets/terminal": 300},
    parameters=1000,
    trained_parameters=10,
    **{"left_out/failed (timed_out)": 3, "unfit/its world does not fit": 2},
)
SAMPLE = event("sample", 4, {"prompt": "$ ls\n", "expected": "a.txt b.txt", "text": "a.txt c.txt"}, entropy=0.5)


def checked(step: int, **domains: float) -> Event:
    figures = {f"loss/{name}": value for name, value in domains.items()}
    return event("validation", step, loss=float(np.mean(list(domains.values()))), best=1, **figures)  # type: ignore[arg-type]


def first_slice() -> Iterator[Event]:
    yield START
    yield from map(a_step, range(1, 5))
    yield checked(4, terminal=2.0, web=3.0)
    yield event("save", 4, {"path": "checkpoints/last"}, bytes=10)
    yield SAMPLE


def written(folder: Path) -> list[tuple[str, int]]:
    return [(each.kind, each.step) for each in read_events(folder / METRICS)]


def scalars_of(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder / TENSORBOARD), size_guidance={"scalars": 0})
    found.Reload()
    return {tag: [(one.step, one.value) for one in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_each_event_is_a_line_as_soon_as_it_is_told(tmp_path: Path) -> None:
    with Report(tmp_path) as report:
        for number, each in enumerate(first_slice(), 1):
            report(each)
            lines = (tmp_path / METRICS).read_text().splitlines()
            if each.kind != "start":  # the next one tells whether it is one
                assert len(lines) == number
                assert Event.model_validate_json(lines[-1]) == each
    assert json.loads(lines[1])["figures"]["loss"] == 2.0


def test_tensorboard_has_the_figures(tmp_path: Path) -> None:
    with Report(tmp_path) as report:
        for each in first_slice():
            report(each)
    found = scalars_of(tmp_path)
    assert [step for step, _ in found["train/loss"]] == [1, 2, 3, 4]
    assert [loss for _, loss in found["train/loss"]] == pytest.approx([4 / (step + 1) for step in range(1, 5)])
    assert found["validation/loss/web"] == [(4, 3.0)]
    assert found["sample/entropy"] == [(4, 0.5)]


def test_a_run_that_goes_on_tells_no_step_twice(tmp_path: Path) -> None:
    """Killed after step 7, with a checkpoint of step 4: steps 5 to 7 are taken, and told, again."""
    report = Report(tmp_path)
    for each in [*first_slice(), a_step(5, 9.0), a_step(6, 9.0), a_step(7, 9.0)]:
        report(each)
    report._lines.close()  # killed: nothing else is closed
    with (tmp_path / METRICS).open("ab") as file:
        file.write(b'{"kind": "step", "ti')
    with Report(tmp_path) as report:
        report(START)
        report(event("resume", 4, {"from": "checkpoints/last"}))
        for each in [*map(a_step, range(5, 8)), event("end", 7, {"why": "minutes"}, steps=3, seconds=60)]:
            report(each)
    told = written(tmp_path)
    assert [step for kind, step in told if kind == "step"] == list(range(1, 8))
    assert [kind for kind, _ in told].count("start") == 1
    assert told[-1] == ("end", 7)
    assert 9.0 not in [each.figures.get("loss") for each in read_events(tmp_path / METRICS)]
    assert [step for step, _ in scalars_of(tmp_path)["train/loss"]] == list(range(1, 8))


def test_going_on_elsewhere_needs_no_record(tmp_path: Path) -> None:
    with Report(tmp_path) as report:
        report(START)
        report(event("resume", 4, {"from": "checkpoints/last"}))
        report(a_step(5))
    assert written(tmp_path) == [("start", 0), ("resume", 4), ("step", 5)]
    assert "step" in (tmp_path / PAGE).read_text()


def test_a_new_run_does_not_go_on_with_an_old_ones_record(tmp_path: Path) -> None:
    for _ in range(2):
        with Report(tmp_path) as report:
            for each in first_slice():
                report(each)
    assert written(tmp_path) == [(each.kind, each.step) for each in first_slice()]


def test_two_runs_cannot_write_one_record(tmp_path: Path) -> None:
    with Report(tmp_path), pytest.raises(InputError, match="is being written already"):
        Report(tmp_path)


def test_nothing_is_shown_where_nobody_looks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Report(tmp_path, Console(file=io.StringIO())) as report:
        for each in [*first_slice(), event("end", 4, {"why": "finished"})]:
            report(each)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_is_shown_how_far_it_is(tmp_path: Path) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=100, color_system=None, _environ={})
    with Report(tmp_path, console) as report:
        for each in first_slice():
            report(each)
    assert re.search(r"4/20.*loss 0\.800, 450 tokens/s", shown.getvalue())
    assert "validation loss 2.5000, the best so far" in shown.getvalue()


# The page.


def test_the_page_shows_the_run(tmp_path: Path) -> None:
    with Report(tmp_path) as report:
        for each in first_slice():
            report(each)
        (tmp_path / "run.yaml").write_text("name: shells\nseed: 5\n")
        report(event("end", 4, {"why": "finished"}, steps=4, seconds=60))
        page = (tmp_path / PAGE).read_text()
    for told in (
        "shells",
        "4 of 20",
        "2.0000 → 0.8000",
        "2.5000 at step 4",
        "seed: 5",
        "<td>terminal</td><td>7</td>",
        "timed_out)</td><td>3",
    ):
        assert told in page
    for heading in ("Loss", "Validation loss by domain", "Gradient norm before clipping", "Speed", "Learning rate"):
        assert f"<h2>{heading}</h2>" in page
    assert page.count("<svg") == 5
    assert "<del>b</del><ins>c</ins>" in page
    assert not re.search(r"<script|src=|@import|url\((?!#)", page)


def test_the_page_is_the_same_each_time(tmp_path: Path) -> None:
    events = list(first_slice())
    assert report_page(events) == report_page(events)


def test_what_a_model_wrote_is_text_and_nothing_else() -> None:
    nasty = "<script>alert(1)</script>\x1b[2J\u202egnp"
    sample = event("sample", 1, {"prompt": nasty, "expected": nasty, "text": nasty + "</pre>"})
    start = event("start", 0, {"run": nasty, "stage": "cpt", "base": nasty}, **{f"rows/{nasty}": 1})
    page = report_page([start, a_step(1), sample, event("warning", 1, {"what": nasty})], settings=nasty)
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page


@pytest.mark.parametrize("name", ["_private", "$x$", "a<b&c", "$"])
def test_any_name_of_a_domain_can_be_drawn(name: str) -> None:
    page = report_page([START, a_step(1), checked(1, **{name: 2.0, "terminal": 1.0})])
    shown = name.replace("&", "&amp;").replace("<", "&lt;")
    assert f"{shown}</text>" in page


def test_a_run_of_nothing_but_its_start_has_a_page() -> None:
    assert "unfinished" in report_page([START])


def test_a_long_run_has_a_page() -> None:
    page = report_page([START, *map(a_step, range(1, 3001))])
    assert len(page) < 2_000_000


def test_no_run_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"metrics\.jsonl"):
        write_page(tmp_path)
    (tmp_path / METRICS).write_text("")
    with pytest.raises(InputError, match="tells of nothing"):
        write_page(tmp_path)
    (tmp_path / METRICS).write_text('{"kind": "stop"}\n')
    with pytest.raises(InputError, match=r"metrics\.jsonl:1"):
        write_page(tmp_path)


@given(st.text("ab \n.", max_size=40), st.text("ab \n.", max_size=40))
def test_both_texts_can_be_read_out_of_a_comparison(real: str, predicted: str) -> None:
    pieces = compared({"expected": real, "text": predicted})
    assert "".join(piece.text for piece in pieces if piece.kind != "added") == real
    assert "".join(piece.text for piece in pieces if piece.kind != "missing") == predicted
    if real == predicted:
        assert {piece.kind for piece in pieces} <= {"same"}


def test_smoothing_by_hand() -> None:
    values: Any = np.array([1.0, 2.0, 6.0, 3.0])
    assert smooth(values, 1).tolist() == pytest.approx([1.5, 3.0, 11 / 3, 4.5])
    assert smooth(values, 0).tolist() == values.tolist()
