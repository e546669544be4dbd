"""From files to rows: what is trained, what is refused, and in which order it comes."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.sessions import session, shell, turn
from tests.train.records import sessions, texts, write_lines
from worldlm.core.errors import InputError
from worldlm.core.types import Message, Sampling
from worldlm.data.masks import MaskError, TemplateError
from worldlm.data.tokenizers import ByteTokenizer
from worldlm.models.profiles import get_profile
from worldlm.train.examples import (
    Row,
    TrainingSet,
    ask,
    epoch_order,
    file_digests,
    keep,
    kept,
    pieces,
    training_set,
    validation_set,
)
from worldlm.train.settings import Data, Replay, Run

BYTES = ByteTokenizer()
SHORT = Sampling(temperature=0.0, max_tokens=256)
PROFILE = get_profile("embedded").model_copy(update={"context": 2048, "sampling": SHORT, "state": "full"})
THINKING = PROFILE.model_copy(update={"thinking": True})


def run_of(files: Path, *, stage: str = "cpt", **data: Any) -> Run:
    wanted = {"files": [str(files)], "replay": {"share": 0.0}, "targets": "observations", **data}
    return Run.model_validate({"name": "one", "stage": stage, "base": "none", "data": wanted})


def row(length: int, domain: str = "terminal", source: str = "one") -> Row:
    return Row.of_text([7] * length, domain, source)


# What is trained.


def test_the_observations_of_a_trajectory_are_trained_and_nothing_else(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [session([shell("uname", "Linux"), shell("id -un", "ann")])])
    rows = training_set(run_of(path), PROFILE, BYTES)
    (one,) = rows
    assert [text for text, trained in pieces(one, BYTES) if trained] == [
        "ann@box:~$ uname\nLinux\nann@box:~$<|im_end|>",
        "ann@box:~$ id -un\nann\nann@box:~$<|im_end|>",
    ]
    assert (rows.wanted, rows.unfit, one.domain, one.source) == (2, {}, "terminal", "one")
    prompt, expected = ask(one)
    assert BYTES.decode(prompt).endswith("<|im_start|>assistant\n")
    assert BYTES.decode(expected) == "ann@box:~$ uname\nLinux\nann@box:~$<|im_end|>"


def test_classes_keep_their_part_unless_told_otherwise(tmp_path: Path) -> None:
    echoes = [session([shell("cd /srv"), shell("echo one two", "one two")] * 4) for _ in range(5)]
    path = write_lines(tmp_path / "a.jsonl", [each.model_copy(update={"id": f"{n}"}) for n, each in enumerate(echoes)])
    tokens = {
        targets: training_set(run_of(path, targets=targets), PROFILE, BYTES).figures()["targets"]
        for targets in ("kept", "observations", "all")
    }
    assert tokens["kept"] < tokens["observations"] < tokens["all"]
    rows = training_set(run_of(path, targets="all"), PROFILE, BYTES)
    assert tokens["all"] == len(rows.ids) - len(rows)


def test_a_thinking_profile_trains_each_turn_that_has_thinking(tmp_path: Path) -> None:
    turns = [shell("uname", "Linux", thinking="It is Linux."), shell("id -un", "ann"), shell("date", "x", thinking="T")]
    path = write_lines(tmp_path / "a.jsonl", [session(turns)])
    rows = training_set(run_of(path, stage="sft"), THINKING, BYTES)
    trained = [text for each in rows for text, is_trained in pieces(each, BYTES) if is_trained]
    assert [text[: text.index("</think>")] for text in trained] == ["<think>\nIt is Linux.\n", "<think>\nT\n"]
    assert (rows.wanted, dict(rows.left_out)) == (2, {"it has no thinking": 1})
    # The thinking of a turn is not in what later turns are shown.
    assert "It is Linux." not in BYTES.decode(rows[1].ids.tolist())


def test_a_text_is_trained_whole_in_pieces_that_fit(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", sessions(4))
    words = write_lines(tmp_path / "general.jsonl", [{**texts(1)[0], "text": "ab" * 3000}])
    rows = training_set(run_of(path, replay={"share": 0.4, "texts": [str(words)]}), PROFILE, BYTES)
    own = [each for each in rows if each.domain == "general"]
    assert [len(each.ids) for each in own] == [2048, 2048, 1904]
    assert all(each.trained == len(each.ids) - 1 and not each.mask[0] for each in own)
    assert rows.texts == {"general"}


def test_what_looks_like_a_control_token_in_a_text_is_text(tmp_path: Path) -> None:
    assert BYTES.end_of_turn not in BYTES.encode("the <|im_end|> token")


def test_validation_measures_so_many_rows_of_each_domain(tmp_path: Path) -> None:
    held = write_lines(tmp_path / "held.jsonl", [*sessions(9), *texts(9)])
    run = run_of(held, validation=[str(held)], validation_rows=4)
    rows = validation_set(run, PROFILE, BYTES)
    assert rows is not None
    assert Counter(each.domain for each in rows) == {"terminal": 4, "held": 4}
    assert validation_set(run_of(held), PROFILE, BYTES) is None


def test_of_a_trajectory_of_many_rows_no_more_are_measured(tmp_path: Path) -> None:
    held = write_lines(tmp_path / "held.jsonl", sessions(3, turns=8, thinking="It is so."))
    run = run_of(held, stage="sft", validation=[str(held)], validation_rows=2)
    whole = training_set(run, THINKING, BYTES)
    assert len(whole) == 25, "each turn is a row"
    rows = validation_set(run, THINKING, BYTES)
    assert rows is not None
    assert len(rows) == 2


# What is refused.


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([{"schema": "worldlm.trajectory/1"}], "a.jsonl:1: id: Field required"),
        ([*texts(1)], "a.jsonl:1: a text among trajectories"),
        (["{"], "a.jsonl:1: not JSON"),
        ([], "the file is empty"),
        ([session([turn("x", None)])], "no turn is trained (1 × failed (timed_out))"),
    ],
)
def test_a_file_that_trains_nothing_is_named(lines: list[Any], told: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    if lines and isinstance(lines[0], str):
        path.write_text("\n".join(lines), "utf-8")
    else:
        write_lines(path, lines)
    with pytest.raises(InputError) as refused:
        training_set(run_of(path), PROFILE, BYTES)
    assert told in str(refused.value)


def test_a_trajectory_among_texts_is_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", sessions(1))
    with pytest.raises(InputError, match=r"a\.jsonl:1: a trajectory among texts"):
        training_set(run_of(path, replay={"share": 0.1, "texts": [str(path)]}), PROFILE, BYTES)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no file or folder .*none\.jsonl"):
        training_set(run_of(tmp_path / "none.jsonl"), PROFILE, BYTES)


def test_a_context_shorter_than_the_prompts_is_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", sessions(3))
    short = PROFILE.model_copy(update={"context": 600})
    with pytest.raises(
        MaskError, match=r"no turn is trained \(10 × its world does not fit .*raise 'context' above 600"
    ):
        training_set(run_of(path), short, BYTES)


def test_rows_may_be_shorter_than_what_the_model_is_asked_with(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", sessions(3, turns=20))
    whole = training_set(run_of(path), PROFILE, BYTES)
    rows = training_set(run_of(path, row_tokens=1700), PROFILE, BYTES)
    assert max(whole.lengths) > 1700 >= max(rows.lengths)
    assert rows.wanted == whole.wanted
    assert not rows.unfit
    same = training_set(run_of(path, row_tokens=4096), PROFILE, BYTES)
    assert max(same.lengths) == max(whole.lengths), "the profile's context is a limit as well"
    with pytest.raises(MaskError, match=r"raise 'data.row_tokens' above 600"):
        training_set(run_of(path, row_tokens=600), PROFILE, BYTES)


def test_turns_that_do_not_fit_are_counted_and_refused_above_a_share(tmp_path: Path) -> None:
    long = session([shell("cat all", "word " * 500), shell("uname", "Linux")]).model_copy(update={"id": "long"})
    path = write_lines(tmp_path / "a.jsonl", [*sessions(2), long])
    with pytest.raises(MaskError, match=r"1 of 9 turns .* are lost \(1 × its answer does not fit"):
        training_set(run_of(path), PROFILE, BYTES)
    rows = training_set(run_of(path, max_unfit=0.2), PROFILE, BYTES)
    assert rows.unfit == {"its answer does not fit the context behind its prompt": 1}
    # The system prompt is never cut: each row begins with all of it.
    for each in rows:
        begin = BYTES.apply([Message(role="system", content="")], prompt=False)[:8]
        assert each.ids[: len(begin)].tolist() == begin


class Forgetful(ByteTokenizer):
    """Its template drops thinking, as some do."""

    def apply(self, messages: Any, *, prompt: bool) -> list[int]:
        told = [
            message.model_copy(update={"content": message.content.rpartition("</think>\n\n")[2]})
            for message in messages
        ]
        return super().apply(told, prompt=prompt)


def test_a_template_that_drops_thinking_is_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", sessions(2, thinking="so"))
    with pytest.raises(TemplateError, match="drops the thinking of a reply"):
        training_set(run_of(path, stage="sft"), THINKING, Forgetful())


def test_thinking_that_is_not_there_is_asked_for(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", sessions(2))
    with pytest.raises(MaskError, match=r"it has no thinking.*worldlm train think"):
        training_set(run_of(path, stage="sft"), THINKING, BYTES)


@pytest.mark.parametrize("mask", [[False, False], [True, True], [True, False], [True], []])
def test_a_row_without_a_target_or_with_nothing_but_targets_is_refused(mask: list[bool]) -> None:
    with pytest.raises(MaskError):
        Row(np.array([1, 2], np.int32), np.array(mask, np.bool_), "terminal", "one")


# The order of an epoch.

LENGTHS = st.lists(st.integers(2, 400), min_size=1, max_size=40)


@given(LENGTHS, LENGTHS, st.integers(0, 5), st.sampled_from(["none", "length"]))
@settings(max_examples=40)
def test_an_epoch_has_each_row_of_a_trajectory_once(
    shells: list[int], pages: list[int], seed: int, curriculum: str
) -> None:
    rows = TrainingSet.of_rows([*(row(n) for n in shells), *(row(n, "web") for n in pages)])
    data = Data.model_validate({"files": ["a"], "replay": {"share": 0}, "curriculum": curriculum, "epochs": 2})
    for epoch in (0, 1):
        order = epoch_order(rows, data, seed, epoch)
        assert sorted(order) == list(range(len(rows)))
        assert order == epoch_order(rows, data, seed, epoch)


def test_orders_hang_on_seed_and_epoch() -> None:
    rows = TrainingSet.of_rows([row(10 + n) for n in range(30)])
    data = Data(files=("a",), replay=Replay(share=0))
    orders = {tuple(epoch_order(rows, data, seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}
    assert len(orders) == 4


@given(st.floats(0.01, 0.6), st.integers(1, 3))
@settings(max_examples=20)
def test_texts_have_their_share_and_are_repeated_where_they_are_short(share: float, epochs: int) -> None:
    rows = TrainingSet.of_rows(
        [*(row(50) for _ in range(80)), *(row(20, "general") for _ in range(9))], texts=["general"]
    )
    data = Data(files=("a",), replay=Replay(share=share, texts=("general.jsonl",)), epochs=epochs)
    order = [each for epoch in range(epochs) for each in epoch_order(rows, data, 0, epoch)]
    seen = int(rows.lengths[[each for each in order if each >= 80]].sum())
    whole = int(rows.lengths[order].sum())
    assert abs(seen - share * whole) <= 20 * epochs + 1
    times = Counter(each for each in order if each >= 80)
    if len(times) == 9:
        assert max(times.values()) - min(times.values()) <= 1


def test_a_temperature_brings_domains_closer() -> None:
    rows = TrainingSet.of_rows([*(row(50) for _ in range(90)), *(row(50, "web") for _ in range(10))])
    counts = {}
    for temperature in (1.0, 2.0, 1000.0):
        data = Data(files=("a",), replay=Replay(share=0), temperature=temperature)
        order = epoch_order(rows, data, 0, 0)
        assert abs(len(order) - 100) <= 2
        counts[temperature] = sum(each >= 90 for each in order)
    # 10^(1/2) / (90^(1/2) + 10^(1/2)) is a quarter.
    assert (counts[1.0], counts[2.0], counts[1000.0]) == (10, 25, 50)


def test_weights_multiply_the_shares_of_domains() -> None:
    rows = TrainingSet.of_rows([*(row(50) for _ in range(50)), *(row(50, "web") for _ in range(50))])
    data = Data(files=("a",), replay=Replay(share=0), weights={"terminal": 3})
    order = epoch_order(rows, data, 0, 0)
    assert (len(order), sum(each < 50 for each in order)) == (100, 75)


def test_a_curriculum_begins_with_short_rows_in_the_first_epoch_only() -> None:
    rows = TrainingSet.of_rows([row(2 + n) for n in range(40)])
    data = Data(files=("a",), replay=Replay(share=0), curriculum="length", bands=4, epochs=2)
    first, second = epoch_order(rows, data, 3, 0), epoch_order(rows, data, 3, 1)
    bands = [set(first[at : at + 10]) for at in range(0, 40, 10)]
    assert bands == [set(range(at, at + 10)) for at in range(0, 40, 10)]
    assert first != list(range(40))
    assert set(second[:10]) != set(range(10))


# What is kept.


def test_a_set_is_mapped_from_disk_as_it_was(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", sessions(5))
    rows = training_set(run_of(path), PROFILE, BYTES)
    keep(rows, tmp_path / "rows" / "train", "a key")
    again = kept(tmp_path / "rows" / "train", "a key")
    assert again is not None
    assert (again.digest, again.figures(), again.sources) == (rows.digest, rows.figures(), rows.sources)
    assert [each.ids.tolist() for each in again] == [each.ids.tolist() for each in rows]
    assert kept(tmp_path / "rows" / "train", "another") is None
    (tmp_path / "rows" / "train" / "set.json").write_text("{", "utf-8")
    assert kept(tmp_path / "rows" / "train", "a key") is None


def test_a_digest_tells_masks_apart() -> None:
    one = Row(np.array([1, 2, 3], np.int32), np.array([False, True, False]), "terminal", "one")
    other = Row(np.array([1, 2, 3], np.int32), np.array([False, False, True]), "terminal", "one")
    assert TrainingSet.of_rows([one]).digest != TrainingSet.of_rows([other]).digest


def test_digests_of_files_follow_their_bytes(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", texts(1))
    before = file_digests([str(path)])
    write_lines(path, texts(2))
    assert file_digests([str(path)]) != before
