import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.corpus import make, said, text_record, write
from worldlm.core.errors import InputError
from worldlm.data.report import Losses
from worldlm.data.steps.decontaminate import Leaks
from worldlm.data.steps.dedup import Duplicates
from worldlm.data.steps.mixture import Recipe
from worldlm.data.steps.pipeline import ChangeRecords, Execution, Work, cluster
from worldlm.data.steps.quality import Rules
from worldlm.data.steps.records import Record, corpus_files, read_record, read_shard
from worldlm.data.steps.run import filter_quality, mix_sources, remove_duplicates, remove_leaks, split
from worldlm.data.steps.splits import SplitPlan

lines = st.lists(st.sampled_from(["", " ", "a", "bb\r", "ccc ccc", "é"]), max_size=12)


@given(st.lists(lines, min_size=1, max_size=3), st.integers(1, 9), st.booleans())
def test_shards_are_the_corpus_in_its_order(files: list[list[str]], shards: int, ends: bool) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, each in enumerate(files):
            paths.append(Path(folder) / f"{number}.jsonl")
            paths[-1].write_bytes(("\n".join(each) + "\n" * ends).encode())
        if not any(path.stat().st_size for path in paths):
            return
        found = corpus_files([Path(folder)])
        got = [line for shard in range(shards) for line in read_shard(found, shard, shards)]
        held = [(path, line) for path in paths for line in path.read_bytes().split(b"\n") if line.strip()]
        assert [(line.path, line.data) for line in got] == [(path, data.rstrip(b"\r")) for path, data in held]
        for line in got:
            place, _, at = line.place.rpartition(":")
            assert Path(place).read_bytes().split(b"\n")[int(at) - 1].rstrip(b"\r") == line.data


def test_where_nobody_is_told_what_is_no_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [make("t", said(1))])
    (tmp_path / "notes.txt").write_text("beside the records")
    assert [file.path.name for file in corpus_files([tmp_path])] == ["a.jsonl"]
    (tmp_path / "b.jsonl").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"b\.jsonl cannot be read: No such file or directory; remove it"):
        corpus_files([tmp_path])


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"schema": "worldlm.text/1", "id": "a", "text": "", "source": "s"}', "text: "),
        (b'{"schema": "worldlm.trajectory/7"}', "this version reads 'worldlm.trajectory/1'"),
        (b'{"id": "cut o', "not JSON: "),
        (b'{"id": "\xff"}', "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_line_that_is_no_record_says_why(line: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_record(line)


class Stop(Exception):  # noqa: N818
    """What stops a run in these tests."""


SEEN: list[str] = []
FAULTY: set[str] = set()


def watch(record: Record, losses: Losses) -> Record:
    if record.id in FAULTY:
        raise Stop
    SEEN.append(record.id)
    losses.changed("seen", record.id)
    return record


def watched(source: Path, output: Path, execution: Execution) -> Work:
    work = Work.open(output, corpus_files([source]), "settings", execution)
    blocks = [ChangeRecords("watch", watch, work.notes("watch", "change")), work.writer("watch")]
    work.run("watch", [work.reader("watch", corpus_files([source])), *blocks], tasks=4)
    return work


@pytest.fixture
def seen() -> Iterator[list[str]]:
    SEEN.clear()
    FAULTY.clear()
    yield SEEN
    FAULTY.clear()


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path, seen: list[str]) -> None:
    source = write(tmp_path / "in.jsonl", [make(f"t{n:02d}", said(n)) for n in range(16)])
    out = tmp_path / "out.jsonl"
    FAULTY.add("t10")
    with pytest.raises(Stop):
        watched(source, out, Execution())
    assert seen == [f"t{n:02d}" for n in range(10)]
    FAULTY.clear()
    seen.clear()
    work = watched(source, out, Execution())
    assert seen == [f"t{n:02d}" for n in range(8, 16)], "finished shards are not worked on again"
    notes = work.read_notes("watch", "read", "change")
    assert (notes.report.records, notes.report.turns) == (16, 64)
    assert [count.number for count in notes.report.losses.reasons.values()] == [16]
    work.publish({out: work.shards("watch")})
    assert out.read_bytes() == source.read_bytes()
    assert sorted(tmp_path.iterdir()) == [source, out]


def test_another_input_starts_anew(tmp_path: Path, seen: list[str]) -> None:
    source, out = write(tmp_path / "in.jsonl", [make(f"t{n}", said(n)) for n in range(4)]), tmp_path / "out.jsonl"
    watched(source, out, Execution())
    write(source, [make("t4", said(4))])
    seen.clear()
    work = watched(source, out, Execution())
    assert seen == [f"t{n}" for n in range(5)]
    assert work.read_notes("watch", "read").report.records == 5


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [make("t", said(1))])
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter.txt").write_text("Dear all,")
    with pytest.raises(InputError, match="no work folder of ours"):
        remove_duplicates([source], tmp_path / "out.jsonl", Duplicates(), Execution(work=mine))
    assert (mine / "letter.txt").read_text() == "Dear all,"


def every_step(source: Path, folder: Path, execution: Execution) -> dict[str, bytes]:
    """The outputs of all steps, one after another."""
    folder.mkdir()
    unique, kept, clean, mixed = (folder / f"{name}.jsonl" for name in ("unique", "kept", "clean", "mixed"))
    remove_duplicates([source], unique, Duplicates(bands=3, rows=8), execution)
    filter_quality([unique], kept, Rules(), execution)
    split([kept], folder / "parts", SplitPlan(test=0.3, validation=0.2), execution)
    remove_leaks([kept], lambda: [make("q", said(3))], clean, Leaks(), execution)
    plan = Recipe.model_validate({"sources": {"ours": {"path": "."}}, "seed": 1})
    mix_sources(plan, {"ours": [clean]}, mixed, execution)
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.jsonl"))}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(600)
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray: pip install ray")
def test_ray_gives_what_one_process_gives(tmp_path: Path) -> None:
    records: list[Record] = [make(f"t{n}", said(n % 25), seed=n) for n in range(40)]
    records.append(text_record("page", "some words"))
    source = write(tmp_path / "in.jsonl", records)
    here = every_step(source, tmp_path / "here", Execution())
    assert len(here) == 7
    under_ray = Execution(2, "ray")
    with cluster(under_ray):  # one for all steps
        assert every_step(source, tmp_path / "ray", under_ray) == here
