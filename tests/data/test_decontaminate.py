import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.corpus import ids, make, read, said, text_record, trajectories, write
from worldlm.core.errors import InputError
from worldlm.core.types import Trajectory
from worldlm.data.report import Losses
from worldlm.data.steps.decontaminate import (
    Leaks,
    common_runs,
    decontaminate,
    find_leaks,
    occurrences,
    reference,
    spell_out,
)
from worldlm.data.steps.ngrams import is_in, ngram_hashes, words
from worldlm.data.steps.pipeline import Execution
from worldlm.data.steps.records import Record, TextRecord
from worldlm.data.steps.run import remove_leaks

STRICT = Leaks(common=None)


def runs(records: Iterable[Record], n: int) -> set[tuple[str, ...]]:
    """Every run of n words within a turn, or within a text: written anew, without hashes."""
    found = set()
    for record in records:
        if isinstance(record, TextRecord):
            texts = [record.text]
        else:
            texts = [f"{t.action} {t.observation.text if t.observation else t.detail or ''}" for t in record.turns]
            texts += [t.thinking for t in record.turns if t.thinking]
        for text in texts:
            plain = text.lower()
            for escape in ("\\n", "\\r", "\\t"):
                plain = plain.replace(escape, " ")
            items = "".join(c if c.isalnum() or c == "_" else " " for c in plain).split()
            found |= {tuple(items[at : at + n]) for at in range(len(items) - n + 1)}
    return found


def clean(
    training: Sequence[Record], tests: Sequence[Record], leaks: Leaks
) -> tuple[list[Record], set[tuple[str, ...]]]:
    """What is left of the training set, and the common runs."""
    known = reference(tests, leaks)
    number, counts = occurrences(training, known.hashes, leaks)
    common = common_runs(counts, number, leaks)
    left = [decontaminate(record, known.hashes[~common], leaks, Losses()) for record in training]
    spelt = spell_out(tests, known.hashes[common], leaks)
    return [record for record in left if record], {tuple(run.split()) for run in spelt.values()}


def test_words_are_lower_case_runs_and_escaped_line_ends_do_not_stick_to_them() -> None:
    assert words('{"Text": "one\\nTWO\\tthree_4", "n": -5}') == ["text", "one", "two", "three_4", "n", "5"]


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 5))
def test_equal_runs_and_no_others_have_equal_hashes(items: list[str], n: int) -> None:
    hashes = ngram_hashes(items, n)
    spelt = [tuple(items[at : at + n]) for at in range(max(len(items) - n + 1, 0))]
    assert len(hashes) == len(spelt)
    assert len(set(hashes.tolist())) == len(set(spelt))
    assert len({*zip(hashes.tolist(), spelt, strict=True)}) == len(set(spelt))


def test_hashes_are_the_same_everywhere() -> None:
    assert ngram_hashes(["a", "b", "c"], 2).tolist() == [4645263632228538810, 5688339807138495565]


@given(st.lists(st.integers(0, 50)), st.sets(st.integers(0, 50)))
def test_membership(asked: list[int], known: set[int]) -> None:
    found = is_in(np.array(asked, np.uint64), np.array(sorted(known), np.uint64))
    assert found.tolist() == [each in known for each in asked]


turns = st.lists(st.tuples(st.text("ab -", max_size=6), st.text("abcA \n", max_size=20)), max_size=4)
corpora = st.lists(turns, min_size=1, max_size=6)


@settings(max_examples=150)
@given(corpora, corpora, st.integers(2, 5), st.sampled_from(["cut", "drop"]), st.sampled_from([None, 2, 3]))
def test_no_run_of_the_tests_is_left_in_training_but_the_common_ones(
    training: list[list[tuple[str, str]]], tests: list[list[tuple[str, str]]], n: int, mode: str, common: int | None
) -> None:
    leaks = Leaks(n=n, mode=mode, common=common, common_share=0)  # type: ignore[arg-type]
    taught: list[Record] = [make(f"t{number}", each) for number, each in enumerate(training)]
    taught += [text_record("page", "a b c a b c\\na b"), text_record("other", "b a b")]
    asked = [make(f"q{number}", each) for number, each in enumerate(tests)]
    left, allowed = clean(taught, asked, leaks)
    assert runs(left, n) & runs(asked, n) <= allowed
    if common is None:
        assert not allowed
    untouched = [record for record in taught if not runs([record], n) & runs(asked, n)]
    assert [record for record in left if record in untouched] == untouched


def test_a_trajectory_is_cut_before_its_first_leak() -> None:
    secret = said(7, turns=1)
    record, asked = make("t", [*said(1, turns=2), *secret, *said(2, turns=1)]), [make("q", secret)]
    known = reference(asked, STRICT).hashes
    losses = Losses()
    left = decontaminate(record, known, STRICT, losses)
    assert isinstance(left, Trajectory)
    assert left.turns == record.turns[:2]
    assert left.ending.detail == "cut before turn 3, which stands in a test set"
    (row,) = losses.to_json()
    assert (row["effect"], row["reason"]) == ("changed", "cut before a turn with words of the test set")
    assert row["examples"][0].startswith(f"t turn 3: {' '.join(words(' '.join(secret[0]))[:13])}")
    assert decontaminate(record, known, STRICT.model_copy(update={"mode": "drop"}), Losses()) is None
    assert decontaminate(make("t", secret), known, STRICT, Losses()) is None


def test_thinking_is_read_and_a_run_across_two_turns_is_none() -> None:
    secret = said(7, turns=1, words=20)[0][1]
    known = reference([text_record("q", secret)], STRICT).hashes
    thinking = make("t", [("a", "b")])
    thinking = thinking.model_copy(update={"turns": (thinking.turns[0].model_copy(update={"thinking": secret}),)})
    assert [leak.turn for leak in find_leaks(thinking, known, STRICT)] == [0]
    half = secret.split()
    assert not [*find_leaks(make("t", [("x", " ".join(half[:10])), ("y", " ".join(half[10:]))]), known, STRICT)]


def test_descriptions_are_compared_when_asked() -> None:
    task = said(3, turns=1, words=20)[0][1]
    described = make("t", said(1), initial=task)
    tests = [make("q", said(2), initial=task)]
    asked = STRICT.model_copy(update={"descriptions": True})
    assert decontaminate(described, reference(tests, STRICT).hashes, STRICT, Losses()) is described
    assert decontaminate(described, reference(tests, asked).hashes, asked, Losses()) is None


PROMPT = "user@box:~$"
LISTING = "total 24 drwxr-xr-x 4 user user 4096 Jan 1 00:00 . drwxr-xr-x 3 root root 4096 Jan 1 00:00 .."


def shell(seed: int) -> list[tuple[str, str]]:
    dice = random.Random(seed)
    name = f"file{dice.random()}"
    return [("ls -la", f"{PROMPT} ls -la\n{LISTING}\n{name}\n{PROMPT}"), *said(seed, turns=2)]


def test_prompts_and_listings_do_not_match_everything_and_are_reported(tmp_path: Path) -> None:
    training = [make(f"t{seed}", shell(seed), seed=seed) for seed in range(40)]
    leaked = make("leak", [*said(500, turns=1), shell(900)[1]])
    tests = [make("q", shell(900), seed=900)]
    source, out = write(tmp_path / "in.jsonl", [*training, leaked]), tmp_path / "out.jsonl"
    done = remove_leaks([source], lambda: tests, out, Leaks())
    assert ids(out) == [record.id for record in [*training, leaked]]
    assert [len(record.turns) for record in trajectories(out)] == [3] * 40 + [1]
    assert done.figures["test_texts"] == 3
    common = done.figures["common_runs"]
    assert {run["records"] for run in common} == {40}
    assert "total 24 drwxr xr x 4 user user 4096 jan 1 00 00" in {run["words"] for run in common}
    assert runs(read(out), 13) & runs(tests, 13) == {tuple(run["words"].split()) for run in common}
    strict = tmp_path / "strict.jsonl"
    remove_leaks([source], lambda: tests, strict, STRICT)
    assert ids(strict) == ["leak"]
    assert not runs(read(strict), 13) & runs(tests, 13)


def test_workers_do_not_change_the_result(tmp_path: Path) -> None:
    training = [make(f"t{seed}", shell(seed), seed=seed) for seed in range(30)]
    tests = [make("q", [*shell(900), *said(3)], seed=900)]
    source = write(tmp_path / "in.jsonl", training)
    results = []
    for workers in (1, 2):
        out = tmp_path / f"{workers}.jsonl"
        done = remove_leaks([source], lambda: tests, out, Leaks(), Execution(workers))
        results.append((out.read_bytes(), done.report.to_json(), done.figures))
    assert results[0] == results[1]


def test_tests_that_say_nothing_are_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [make("t", said(1))])
    with pytest.raises(InputError, match="holds no run of 13 words"):
        remove_leaks([source], lambda: [make("q", [("ls", "a b c")])], tmp_path / "out.jsonl", Leaks())
