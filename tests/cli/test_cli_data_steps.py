import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.cli_kit import Cli
from tests.cli.test_nothing_left import descendants
from tests.data.corpus import ids, make, said, text_record, write

PLAN = """\
test: 0.3
validation: 0.2
held_out:
  mcp:
    worlds: ["mcp-shop*"]
"""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    records = [
        *(make(f"t{n}", said(n), seed=n) for n in range(20)),
        make("again", said(0)),
        make("short", said(99, turns=1)),
        make("shop", said(100), world="mcp-shop", domain="mcp"),
    ]
    return write(tmp_path / "corpus.jsonl", records)


def test_the_steps_one_after_another(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    unique, kept, parts, clean = (tmp_path / name for name in ("unique.jsonl", "kept.jsonl", "parts", "clean.jsonl"))
    result = cli("data", "dedup", corpus, unique)
    assert (result.code, result.err) == (0, "")
    assert [" ".join(line.split()) for line in result.out.splitlines()[1:]] == [
        "dropped 1 the same content stands earlier in the corpus again",
        f"{unique}: 22 records",
        f"23 records, {23 * 4 - 3} turns read; 0 bad lines",
    ]
    assert cli("data", "filter", unique, kept, "--json").json["written"] == {str(kept): 21}
    (tmp_path / "plan.yaml").write_text(PLAN)
    report = cli("data", "split", kept, parts, "--config", tmp_path / "plan.yaml", "--seed", "1", "--json").json
    assert report["figures"]["held_out_turns"] == {"mcp": {"mcp-shop*": 4}}
    assert ids(parts / "test-b.jsonl") == ["shop"]
    result = cli("data", "decontaminate", kept, clean, "--against", parts / "test-a.jsonl", "--common", "0")
    assert (result.code, result.err) == (0, "")
    assert "runs of words stand in training" in result.out
    assert not set(ids(clean)) & set(ids(parts / "test-a.jsonl"))
    assert set(ids(clean)) >= set(ids(parts / "train.jsonl"))


def test_a_mixture_of_records_and_documents(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    for n in range(5):
        (pages / f"page{n}.md").write_text(f"# Page {n}\n\n{said(n)[0][1]}\n")
    write(tmp_path / "general.jsonl", [text_record("g", said(7)[0][1])])
    (tmp_path / "mix.yaml").write_text(
        "seed: 3\nrepeat: 50\nsources:\n"
        "  ours: {path: corpus.jsonl, weight: 8}\n"
        "  general: {path: general.jsonl, weight: 1}\n"
        "  manual: {documents: pages, weight: 1, licence: MIT}\n"
    )
    out = tmp_path / "mixed.jsonl"
    result = cli("data", "mix", out, "--config", tmp_path / "mix.yaml")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[-4].split() == ["source", "records", "characters", "share", "rounds"]
    assert {"g", "https://manual.example/page0.md", "t0"} <= set(ids(out))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"corpus.jsonl", "pages", "general.jsonl", "mix.yaml", "mixed.jsonl"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dedup", "CORPUS", "CORPUS"), "is there already"),
        (("filter", "CORPUS", "OUT", "--config", "BAD"), "there is no setting min_turnz; did you mean 'min_turns'"),
        (("filter", "CORPUS", "OUT", "--config", "MUCH"), "no record is left, and nothing is written: "),
        (("dedup", "CORPUS", "PACKED"), "leave out .gz"),
        (("dedup", "PACKED", "OUT"), "unpack it first"),
        (("split", "CORPUS", "OUT", "--test", "2"), "the options: test: Input should be less than 1"),
        (("decontaminate", "CORPUS", "OUT", "--against", "NONE"), "there is no file or folder"),
        (("decontaminate", "CORPUS", "OUT", "--against", "CORPUS", "--mode", "cutt"), "it is cut or drop"),
        (("decontaminate", "CORPUS", "OUT", "--against", "CORPUS", "--common", "1"), "give 2 or more"),
        (("mix", "OUT", "--config", "NONE"), "cannot read"),
        (("mix", "OUT", "--config", "BAD"), "there is no setting min_turnz; known: repeat, seed, sources"),
        (("mix", "OUT", "--config", "LOST"), "source 'docs': there is no file or folder"),
    ],
)
def test_bad_input_is_one_line(
    cli: Cli, corpus: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    names = {"CORPUS": corpus, "OUT": tmp_path / "out", "NONE": tmp_path / "none.jsonl"}
    names |= {"BAD": tmp_path / "bad.yaml", "LOST": tmp_path / "lost.yaml"}
    names |= {"MUCH": tmp_path / "much.yaml", "PACKED": tmp_path / "a.jsonl.gz"}
    names["MUCH"].write_text("min_turns: 9999\n")
    names["BAD"].write_text("min_turnz: 3\n")
    names["LOST"].write_text("sources:\n  docs: {documents: nowhere}\n")
    result = cli("data", *(names.get(each, each) for each in arguments))
    assert result.code == 2
    assert message in result.error
    assert not names["OUT"].exists()


STEPS: dict[str, tuple[object, ...]] = {
    "dedup": ("dedup", "IN", "OUT"),
    "filter": ("filter", "IN", "OUT"),
    "decontaminate": ("decontaminate", "IN", "OUT", "--against", "TESTS"),
    "split": ("split", "IN", "OUT", "--test", "0.3", "--validation", "0.2"),
    "mix": ("mix", "OUT", "--config", "RECIPE"),
}


@pytest.fixture
def step(tmp_path: Path) -> Callable[[str, Path], tuple[object, ...]]:
    """The command line of a step by name, that reads a path and writes `made/out`."""

    def arguments(name: str, source: Path) -> tuple[object, ...]:
        if not (tests := tmp_path / "tests.jsonl").exists():
            write(tests, [make("q", said(3))])
        (recipe := tmp_path / "recipe.yaml").write_text(f"sources:\n  ours: {{path: {source}}}\n")
        names = {"IN": source, "OUT": tmp_path / "made" / "out", "TESTS": tests, "RECIPE": recipe}
        return ("data", *(names.get(str(each), each) for each in STEPS[name]))

    return arguments


Step = Callable[[str, Path], tuple[object, ...]]


@pytest.mark.parametrize("name", STEPS)
def test_a_work_folder_that_will_not_do_is_one_line_with_the_cure(
    cli: Cli, step: Step, corpus: Path, tmp_path: Path, name: str
) -> None:
    file, damaged, link = tmp_path / "file", tmp_path / "damaged", tmp_path / "link"
    file.write_text("mine")
    damaged.mkdir()
    (damaged / "work.json").write_text('{"key": ')
    (damaged / "mine.txt").write_text("mine")
    link.symlink_to(file)
    for work in (file, file / "in", link, damaged, tmp_path, tmp_path / "made" / "out", tmp_path / ("n" * 300)):
        result = cli(*step(name, corpus), "--work", work)
        assert result.code == 2
        assert str(work) in result.error
        assert "name another" in result.error
        assert "--work" in result.error
        assert not (tmp_path / "made").exists()
    assert file.read_text() == "mine"
    assert (damaged / "work.json").read_text() == '{"key": '


@pytest.mark.parametrize("mark", ["", '{"key": '])
@pytest.mark.parametrize("name", STEPS)
def test_a_run_that_was_killed_while_it_marked_its_folder_goes_on(
    cli: Cli, step: Step, corpus: Path, tmp_path: Path, name: str, mark: str
) -> None:
    work = tmp_path / "made" / "out.work"
    work.mkdir(parents=True)
    (work / "work.json").write_text(mark)
    assert cli(*step(name, corpus)).code == 0
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["out"]


@pytest.mark.parametrize("name", STEPS)
def test_without_ray_the_cure_is_named(
    cli: Cli, step: Step, corpus: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = cli(*step(name, corpus), "--ray")
    assert result.code == 2
    assert "--ray: Ray is not installed; pip install ray" in result.error
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", STEPS)
def test_what_in_a_folder_is_no_file_is_told_and_the_others_are_used(
    cli: Cli, step: Step, corpus: Path, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "folder"
    (folder / "inner.jsonl").mkdir(parents=True)
    (folder / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    (folder / "loop.jsonl").symlink_to(folder / "loop.jsonl")
    os.mkfifo(folder / "pipe.jsonl")
    os.mkfifo(folder / "pipe")
    (folder / "notes.txt").write_text("no trajectory")
    (folder / ".hidden.jsonl").write_text("no trajectory")
    result = cli(*step(name, folder))
    assert result.code == 2
    assert f"{folder}/dangling.jsonl cannot be read: No such file or directory" in result.error
    assert not (tmp_path / "made").exists()
    corpus.rename(folder / "corpus.jsonl")
    result = cli(*step(name, folder), "--max-bad", "0.5", "--json")
    assert (result.code, result.err) == (0, "")
    (told,) = result.json["files"]
    assert [problem.removeprefix(f"{folder}/") for problem in told["problems"]] == [
        "dangling.jsonl cannot be read: No such file or directory",
        "inner.jsonl cannot be read: it is no regular file",
        "loop.jsonl cannot be read: Too many levels of symbolic links",
        "pipe.jsonl cannot be read: it is no regular file",
    ]
    assert (told["bad"], told["records"]) == (4, 23)
    left_out = next(row for row in told["losses"] if row["reason"] == "what in a folder is no .jsonl file")
    assert left_out == {**left_out, "effect": "dropped", "count": 2}
    assert left_out["examples"] == [f"{folder}/notes.txt", f"{folder}/pipe"]


@pytest.mark.parametrize("name", STEPS)
def test_a_pipe_is_refused_and_nobody_waits_for_it(cli: Cli, step: Step, tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    result = cli(*step(name, tmp_path / "pipe.jsonl"))
    assert result.code == 2
    assert "pipe.jsonl: it is no regular file; write what it gives to a file first" in result.error


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", STEPS)
def test_ctrl_c_says_how_to_go_on(
    start: Callable[..., "subprocess.Popen[str]"], step: Step, cli: Cli, tmp_path: Path, name: str, workers: int
) -> None:
    source = write(tmp_path / "many.jsonl", (make(f"t{n}", said(n), seed=n) for n in range(3000)))
    work = tmp_path / "made" / "out.work"
    process = start(*step(name, source), "--workers", workers)
    deadline = time.monotonic() + 60
    while not (work / "work.json").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for pid in (*descendants(process.pid), process.pid):  # as a terminal does
        os.kill(pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    # Where warnings are told, as here, Python tells too what datatrove has not closed.
    told = [line for line in err.splitlines() if line.startswith("worldlm: ")]
    assert told == [f"worldlm: stopped; what is finished is in {work}, and the same command goes on from there"]
    assert "KeyboardInterrupt" not in err
    assert [*(tmp_path / "made").iterdir()] == [work]
    assert cli(*step(name, source), "--workers", workers).code == 0
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["out"]


def test_a_held_out_kind_that_no_record_has_is_refused_and_leaves_no_folder(
    cli: Cli, corpus: Path, tmp_path: Path
) -> None:
    plan, parts = tmp_path / "plan.yaml", tmp_path / "made" / "parts"
    for held, kind in (
        ("mcp: {worlds: [mcp-shpo]}", "held_out.mcp: nothing in the corpus is of the kind 'mcp-shpo'"),
        ("mcp: {worlds: ['mcp-shop*', other]}", "held_out.mcp: nothing in the corpus is of the kind 'other'"),
        ("terminal: {labels: [awk]}", "held_out.terminal: nothing in the corpus is of the kind 'awk'"),
        ("terminal: {words: [awk]}", "held_out.terminal: nothing in the corpus is of the kind 'awk'"),
        ("android: {labels: [tap]}", "held_out.android: nothing in the corpus is of the kind 'tap'"),
    ):
        plan.write_text(f"held_out:\n  {held}\n")
        for work in ((), ("--work", tmp_path / "works" / "work")):
            result = cli("data", "split", corpus, parts, "--config", plan, *work)
            assert result.code == 2
            assert kind in result.error
            assert not (tmp_path / "made").exists()
            assert not (tmp_path / "works").exists()
    parts.mkdir(parents=True)  # a folder that was there stays
    assert cli("data", "split", corpus, parts, "--config", plan).code == 2
    assert parts.is_dir()


def test_what_is_refused_leaves_no_folder_and_no_documents(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text("min_turns: 9999\n")
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "page.md").write_text("# Page\n\nwords\n")
    (tmp_path / "mix.yaml").write_text("total: 100000\nsources:\n  manual: {documents: pages, licence: MIT}\n")
    out = tmp_path / "made" / "out.jsonl"
    for arguments in (
        ("filter", corpus, out, "--config", tmp_path / "rules.yaml"),
        ("mix", out, "--config", tmp_path / "mix.yaml"),
    ):
        assert cli("data", *arguments).code == 2
        assert not (tmp_path / "made").exists()


def test_too_many_bad_lines_are_a_failure_and_the_good_ones_are_kept(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    corpus.write_bytes(corpus.read_bytes() + b"no JSON\n" * 10)
    out = tmp_path / "out.jsonl"
    result = cli("data", "filter", corpus, out)
    assert result.code == 1
    assert result.err.splitlines()[0] == f"{corpus}:24: not JSON: Expecting value at column 1"
    assert "30.3% of the lines could not be used" in result.err.splitlines()[-1]
    assert len(ids(out)) == 22
