import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.corpus import ids, make, read, said, text_record, write
from worldlm.core.errors import InputError
from worldlm.data.steps.dedup import Duplicates, content_key, first_of_each
from worldlm.data.steps.pipeline import Execution
from worldlm.data.steps.records import Record
from worldlm.data.steps.run import remove_duplicates

EXACT = Duplicates(near=False)


def test_content_is_what_was_done_and_seen_and_not_ids_worlds_or_seeds() -> None:
    one = make("a", said(1))
    assert content_key(one) == content_key(make("b", said(1), world="other", seed=9))
    assert content_key(one) != content_key(make("a", said(2)))
    assert content_key(one) != content_key(make("a", said(1), initial="#"))
    assert content_key(one) != content_key(make("a", said(1)[:-1]))
    moved = [("cmd", "a\nb"), ("cmd", "c")]
    assert content_key(make("a", moved)) != content_key(make("a", [("cmd", "a"), ("b\ncmd", "c")]))


places = st.tuples(st.integers(0, 3), st.integers(0, 9))


@given(st.lists(st.tuples(places, places)))
def test_of_what_is_connected_only_the_first_is_kept(pairs: list[tuple[tuple[int, int], tuple[int, int]]]) -> None:
    removed = list(first_of_each(pairs))
    assert removed == sorted(set(removed))
    sets = {place: {place} for pair in pairs for place in pair}
    for one, other in pairs:
        both = sets[one] | sets[other]
        for place in both:
            sets[place] = both
    assert set(removed) == {place for place in sets if place != min(sets[place])}


def planted() -> list[Record]:
    """20 trajectories, 5 of them again, 5 nearly again (another word at the end), and texts alike."""
    first: list[Record] = [make(f"t{n}", said(n), seed=n) for n in range(20)]
    same = [make(f"same{n}", said(n), seed=100 + n, world="elsewhere") for n in range(5)]
    near = []
    for n in range(5, 10):
        turns = said(n)
        turns[-1] = (turns[-1][0], turns[-1][1] + " more")
        near.append(make(f"near{n}", turns, seed=200 + n))
    page = " ".join(f"{word} in {year} by paper {year * 7}" for year, (word, _) in enumerate(said(50, 60), 2000))
    crawled = page.replace("2026", "2031").replace("paper 14070", "paper 99999").replace("2007", "1999")
    return [*first, *same, *near, text_record("page", page), text_record("crawl", crawled, "crawl")]


def test_exact_duplicates_go_and_the_first_stays(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", planted()), tmp_path / "out.jsonl"
    done = remove_duplicates([source], out, EXACT)
    assert ids(out) == [record.id for record in planted() if not record.id.startswith("same")]
    assert done.written == {str(out): 27}
    assert (done.report.trajectories, done.report.turns, done.report.bad) == (30, 120, 0)
    (row,) = done.report.to_json()["losses"]
    assert (row["effect"], row["count"], row["examples"]) == ("dropped", 5, ["same0", "same1", "same2"])
    assert sorted(tmp_path.iterdir()) == [source, out]


def test_near_duplicates_go_too_copies_with_altered_numbers_among_them(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", planted()), tmp_path / "out.jsonl"
    remove_duplicates([source], out, Duplicates())
    assert ids(out) == [*[f"t{n}" for n in range(20)], "page"]


def test_what_is_kept_is_kept_byte_for_byte(tmp_path: Path) -> None:
    line = json.dumps(json.loads(make("a", said(1)).model_dump_json()), indent=None, separators=(" ,", ":  "))
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(f"\n{line}\n\n{line}")
    remove_duplicates([source], out, Duplicates())
    assert out.read_text() == line + "\n"


def test_short_commands_that_differ_in_a_flag_are_no_duplicates(tmp_path: Path) -> None:
    short = [make("n3", [("head -n 3 f", "a")]), make("n5", [("head -n 5 f", "a")]), make("c3", [("head -c 3 f", "a")])]
    source, out = write(tmp_path / "in.jsonl", short), tmp_path / "out.jsonl"
    remove_duplicates([source], out, Duplicates())
    assert ids(out) == ["n3", "n5", "c3"]


def test_by_turn_a_trajectory_goes_when_all_of_it_stands_earlier_else_its_repeats_are_listed(tmp_path: Path) -> None:
    one, other = said(1), said(2)
    half = [*said(3), one[2]]
    records = [make("one", one), make("other", other), make("both", [one[0], other[1]]), make("half", half)]
    source, out = write(tmp_path / "in.jsonl", records), tmp_path / "out.jsonl"
    done = remove_duplicates([source], out, Duplicates(level="turn"))
    assert ids(out) == ["one", "other", "half"]
    repeats = tmp_path / "out.jsonl.repeats.jsonl"
    assert [json.loads(line) for line in repeats.read_text().splitlines()] == [{"id": "half", "turns": [4]}]
    assert {row["reason"]: row["examples"] for row in done.report.to_json()["losses"]} == {
        "every turn stands earlier in the corpus": ["both"],
        "a turn that stands earlier in the corpus": ["half turn 5"],
    }


@pytest.mark.parametrize("level", ["trajectory", "turn"])
def test_workers_do_not_change_the_result(tmp_path: Path, level: str) -> None:
    records = planted()
    source = write(tmp_path / "in.jsonl", [*records[15:], *records[:15]])
    settings = Duplicates(level=level)  # type: ignore[arg-type]
    results = []
    for workers in (1, 2):
        out = tmp_path / f"{workers}.jsonl"
        done = remove_duplicates([source], out, settings, Execution(workers))
        results.append((out.read_bytes(), done.report.to_json()))
    assert results[0] == results[1]


def test_a_bad_line_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", planted()[:3]), tmp_path / "out.jsonl"
    with source.open("ab") as file:
        file.write(b'{"schema": "worldlm.trajectory/9"}\n{"id": "cut o')
    done = remove_duplicates([source], out, EXACT)
    assert len(read(out)) == 3
    assert [message.split(": ")[0] for message in done.report.files[0].problems] == [f"{source}:4", f"{source}:5"]
    assert "this version reads 'worldlm.trajectory/1'" in done.report.files[0].problems[0]


def test_what_will_not_do_is_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", planted()[:3])
    with pytest.raises(InputError, match="is there already"):
        remove_duplicates([source], source, EXACT)
    with pytest.raises(InputError, match="there is no file or folder"):
        remove_duplicates([tmp_path / "none"], tmp_path / "out.jsonl", EXACT)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"holds no \.jsonl file"):
        remove_duplicates([tmp_path / "empty"], tmp_path / "out.jsonl", EXACT)
    (tmp_path / "void.jsonl").touch()
    with pytest.raises(InputError, match="is empty"):
        remove_duplicates([tmp_path / "void.jsonl"], tmp_path / "out.jsonl", EXACT)
    with pytest.raises(InputError, match="unpack it first"):
        remove_duplicates([tmp_path / "a.jsonl.gz"], tmp_path / "out.jsonl", EXACT)
