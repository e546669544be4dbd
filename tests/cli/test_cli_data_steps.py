from pathlib import Path

import pytest

from tests.cli.cli_kit import Cli
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


def test_too_many_bad_lines_are_a_failure_and_the_good_ones_are_kept(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    corpus.write_bytes(corpus.read_bytes() + b"no JSON\n" * 10)
    out = tmp_path / "out.jsonl"
    result = cli("data", "filter", corpus, out)
    assert result.code == 1
    assert result.err.splitlines()[0] == f"{corpus}:24: not JSON: Expecting value at column 1"
    assert "30.3% of the lines could not be used" in result.err.splitlines()[-1]
    assert len(ids(out)) == 22
