"""Samples: what is wrong is named before anything is asked, and one function tells what came before a turn."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.kit import foreign, loaded, own, screen, session, write
from worldlm.bench.infer import default_words
from worldlm.bench.samples import benchmark_digest, load_samples, parse_record
from worldlm.core.errors import InputError
from worldlm.core.types import history_turns
from worldlm.data.content import ContentClass
from worldlm.data.formats.agentworldbench import make_sample

Change = Callable[[dict[str, Any]], None]


def test_a_sample_is_a_question_with_its_history(tmp_path: Path) -> None:
    (sample,) = loaded(tmp_path / "b.jsonl", [foreign(7, turn=2)])
    question = sample.question
    assert (sample.key, sample.domain, sample.turn, sample.turns) == ("terminal/7", "terminal", 2, 3)
    assert [turn.observation.text for turn in history_turns(question.history) if turn.observation] == [screen("r7t1")]
    assert question.truth.text == screen("r7t2")
    assert question.world.context == "You are the terminal of run 7."
    assert (sample.world, sample.action) == (question.world, question.action)
    assert sample.length == len(question.truth.text)


def test_the_sample_s_own_messages_are_those_of_the_public_script(tmp_path: Path) -> None:
    record = foreign(7, turn=3)
    (sample,) = loaded(tmp_path / "b.jsonl", [record])
    assert [(message.role, message.content) for message in sample.messages] == [
        ("system", record["system_str"]),
        ("user", record["prompt"][0]),
        ("assistant", record["response"][0]),
        ("user", record["prompt"][1]),
        ("assistant", record["response"][1]),
        ("user", record["prompt"][2]),
    ]


def test_texts_in_place_of_lists_are_one_turn(tmp_path: Path) -> None:
    record = foreign(1, turn=1, turns=1)
    record |= {"prompt": record["prompt"][0], "response": record["response"][0]}
    (sample,) = loaded(tmp_path / "b.jsonl", [record])
    assert len(sample.messages) == 2
    assert sample.question.truth.text == screen("r1t1")


def test_a_sample_of_ours_brings_its_world_and_content_class(tmp_path: Path) -> None:
    record = make_sample(session("s", ["a", "b"]), 1, 4, ContentClass.DETERMINISTIC)
    (sample,) = loaded(tmp_path / "b.jsonl", [record])
    assert sample.world == session("s", []).world == sample.question.world
    assert (sample.content, sample.trajectory) == (ContentClass.DETERMINISTIC, "s")
    assert default_words([sample]) == "own"
    assert default_words([*loaded(tmp_path / "c.jsonl", [foreign(1)]), sample]) == "sample"


WRONG: dict[str, tuple[Change, str]] = {
    "contradiction": (lambda r: r.update(current_prompt="something else"), "current_prompt"),
    "unknown domain": (lambda r: r.update(task="held-out/telnet"), "names no domain"),
    "missing turn": (lambda r: r.update(turn_idx=4), "turn_idx"),
    "no turn": (lambda r: r.pop("turn_idx"), "turn_idx"),
    "turn zero": (lambda r: r.update(turn_idx=0), "turn_idx"),
    "no truth": (lambda r: r["response"].pop(), "response"),
    "short total": (lambda r: r.update(total_turns=2), "total_turns"),
    "no id": (lambda r: r.pop("id"), "id"),
    "no response": (lambda r: r.pop("response"), "it lacks response (and"),
    "a turn in words": (lambda r: r.update(turn_idx="3"), "turn_idx: Input should be a valid integer"),
    "a turn behind the end": (lambda r: r.update(turn_idx=4, total_turns=3), "turn_idx: 4, and total_turns is 3"),
    "a world of another domain": (
        lambda r: r.update(worldlm={"world": {"name": "a", "domain": "web"}}),
        "worldlm.world",
    ),
    "an unknown class": (lambda r: r.update(worldlm={"content": "magic"}), "worldlm"),
}


@pytest.mark.parametrize(("change", "key"), WRONG.values(), ids=list(WRONG))
def test_what_is_wrong_is_named_with_file_line_sample_and_key(tmp_path: Path, change: Change, key: str) -> None:
    bad, other = foreign(2), foreign(3)
    change(bad)
    other["turn_idx"] = 99
    path = write(tmp_path / "b.jsonl", [foreign(1), bad, other])
    with pytest.raises(InputError) as error:
        load_samples(str(path))
    message = str(error.value)
    assert f"{path}:2: " in message
    assert key in message
    assert "1 more" in message
    assert "id" not in bad or f"sample {bad['task']}/2: " in message


def test_two_samples_of_one_id_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", [foreign(1)])
    write(tmp_path / "b.jsonl", [foreign(1, run=2)])
    with pytest.raises(InputError, match=r"b\.jsonl:1: .*terminal/1 stands at .*a\.jsonl:1"):
        load_samples(str(tmp_path))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("missing.jsonl", "realturns-a"),
        ("empty.jsonl", "no sample"),
        ("broken.jsonl", r"broken\.jsonl:1: not JSON"),
        ("other.jsonl", "no sample of AgentWorldBench"),
        ("nothing", "holds no benchmark"),
        ("cut.jsonl.gz", "cannot read"),
    ],
)
def test_files_that_are_no_benchmark(tmp_path: Path, source: str, words: str) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "broken.jsonl").write_text("{")
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "nothing").mkdir()
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(json.dumps(foreign(1)).encode())[:-9])
    with pytest.raises(InputError, match=words):
        load_samples(str(tmp_path / source))


def test_compressed_files_and_folders_are_one_benchmark(tmp_path: Path) -> None:
    text = [(json.dumps(foreign(number)) + "\n").encode() for number in (1, 2, 3, 4)]
    (tmp_path / "one.jsonl").write_bytes(text[0])
    (tmp_path / "two.jsonl.gz").write_bytes(gzip.compress(text[1]))
    (tmp_path / "three.jsonl.xz").write_bytes(lzma.compress(text[2]))
    (tmp_path / "four.jsonl.bz2").write_bytes(bz2.compress(text[3]))
    (tmp_path / "README.md").write_text("not a sample")
    assert sorted(sample.id for sample in load_samples(str(tmp_path))) == [1, 2, 3, 4]


def test_some_of_the_samples(tmp_path: Path) -> None:
    path = write(tmp_path / "b.jsonl", [*(foreign(n) for n in range(4)), *(foreign(n, task="os") for n in range(4))])
    assert [s.key for s in load_samples(str(path), limit=1)] == ["terminal/0", "os/0"]
    assert [s.key for s in load_samples(str(path), domains=["os"], limit=2)] == ["os/0", "os/1"]
    assert [s.key for s in load_samples(str(path), ids=["os/3"])] == ["os/3"]
    with pytest.raises(InputError, match="ids are like 'terminal/0'"):
        load_samples(str(path), ids=["9"])
    with pytest.raises(InputError, match="did you mean 'terminal'"):
        load_samples(str(path), domains=["terminl"])
    with pytest.raises(InputError, match="no sample of web"):
        load_samples(str(path), domains=["web"])


any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(texts=st.lists(st.tuples(any_text, any_text), min_size=1, max_size=4), data=st.data())
def test_whatever_the_texts_history_and_truth_are_the_file_s(texts: list[tuple[str, str]], data: st.DataObject) -> None:
    turn = data.draw(st.integers(1, len(texts)))
    record = foreign(1) | {
        "prompt": [told for told, _ in texts],
        "response": [seen for _, seen in texts],
        "current_prompt": texts[turn - 1][0],
        "turn_idx": turn,
        "total_turns": len(texts),
    }
    sample = parse_record(record)
    asked = [message.content for message in sample.messages[1:]]
    assert asked == [text for pair in texts[: turn - 1] for text in pair] + [texts[turn - 1][0]]
    question = sample.question
    assert len(question.history) == turn - 1
    for past, (told, seen) in zip(question.history, texts, strict=False):
        assert past.action in told
        assert past.observation is not None
        assert past.observation.text in seen
    assert (sample.world, sample.action) == (question.world, question.action)


def test_a_changed_sample_is_another_one(tmp_path: Path) -> None:
    changed = foreign(1)
    changed["response"][2] += " "
    (one,), (other,) = loaded(tmp_path / "a.jsonl", [foreign(1)]), loaded(tmp_path / "b.jsonl", [changed])
    assert one.digest != other.digest
    (again,) = loaded(tmp_path / "c.jsonl", [foreign(1) | {"gen": "x", "worldlm": {"prediction": {}}}])
    assert one.digest == again.digest
    keys = [(sample.key, sample.digest) for sample in (one, *loaded(tmp_path / "d.jsonl", [own(2)]))]
    assert benchmark_digest(keys) == benchmark_digest(reversed(keys))
