"""Questions about training: what their rows run, what they are asked, and their table."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training needs torch: pip install 'worldlm[train]'")
pytest.importorskip("tensorboard", reason="reports need tensorboard: pip install 'worldlm[train]'")

from hypothesis import given
from hypothesis import strategies as st

from worldlm.core.errors import InputError
from worldlm.data.settings import read_settings
from worldlm.models.profiles import get_profile
from worldlm.train.ablations import Ablation, Row, Variant, chosen_families, chosen_turns, merged, render_rows, run_of
from worldlm.train.card import Score
from worldlm.train.forgetting import Estimate
from worldlm.train.settings import Run

ROOT = Path(__file__).parents[2]
QUESTIONS = sorted((ROOT / "configs" / "ablations").glob("*.yaml"))
TINY = """\
name: shared
stage: cpt
base: embedded
data: {files: [train.jsonl], replay: {share: 0.1, texts: [general.jsonl]}, tokens: 1000}
"""


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    path = tmp_path / "shared.yaml"
    path.write_text(TINY)
    return path


def ablation(run: Path, **rows: Variant) -> Ablation:
    return Ablation(question="Why?", run=str(run), rows=rows)


def test_a_row_is_the_shared_run_with_one_thing_in_its_place(shared: Path) -> None:
    asked = ablation(
        shared,
        plain=Variant(),
        more=Variant(settings={"data": {"replay": {"share": 0.25}}}),
        other=Variant(settings={"seed": 1}),
    )
    plain, more, other = (run_of(asked, name) for name in asked.rows)
    assert plain.data.replay.share == 0.1
    assert more.data.replay.share == 0.25
    assert more.data.replay.texts == plain.data.replay.texts == ("general.jsonl",)
    assert more.data.tokens == 1000
    assert other.seed == 1
    assert len({plain.name, more.name, other.name}) == 3


def test_equal_rows_are_one_run(shared: Path, tmp_path: Path) -> None:
    first, second = ablation(shared, a=Variant()), ablation(shared, b=Variant(settings={"name": "another"}))
    assert run_of(first, "a") == run_of(second, "b")
    files = [tmp_path / "other.jsonl"]
    assert run_of(first, "a", files).data.files == (str(files[0]),)
    assert run_of(first, "a", files).name != run_of(first, "a").name


def test_what_is_wrong_is_named(shared: Path, tmp_path: Path) -> None:
    asked = ablation(shared, odd=Variant(settings={"data": {"replay": {"shar": 0.25}}}))
    with pytest.raises(InputError, match=r"shared\.yaml with 'Why\?', 'odd': there is no setting data\.replay\.shar"):
        run_of(asked, "odd")
    with pytest.raises(InputError, match=r"cannot read .*none\.yaml"):
        run_of(ablation(tmp_path / "none.yaml", a=Variant()), "a")
    shared.write_text("[1]")
    with pytest.raises(InputError, match="holds no mapping"):
        run_of(ablation(shared, a=Variant()), "a")


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.stem)
def test_our_questions_can_be_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    asked = read_settings(path, Ablation)
    runs = [run_of(asked, name) for name in asked.rows if asked.rows[name].families is None]
    assert len(runs) in (0, len(asked.rows))
    assert len({run.name for run in runs}) == len(runs), "two rows are the same"
    assert {run.data.tokens for run in runs} <= {100_000}
    assert asked.turns == 200


@pytest.mark.parametrize("name", ["embedded-cpt", "embedded-sft", "ablation"])
def test_our_runs_are_sound(name: str) -> None:
    run = read_settings(ROOT / "configs" / f"{name}.yaml", Run)
    assert run.name == name
    assert (run.lora.rank, run.lora.modules) == (16, "all-linear")
    assert run.context is None, "an adapter is asked under the context that it was trained with"
    longest = run.data.row_tokens or get_profile(run.profile).context
    assert longest <= run.batches.tokens * run.batches.micro_batches


def test_the_second_stage_goes_on_from_the_first() -> None:
    run = read_settings(ROOT / "configs" / "embedded-sft.yaml", Run)
    assert run.init_from == "out/embedded/cpt"
    assert run.thinking


def test_merging_by_hand() -> None:
    value = {"a": {"b": 1, "c": 2}, "d": 3}
    assert merged(value, {"a": {"b": 9}}) == {"a": {"b": 9, "c": 2}, "d": 3}
    assert merged(value, {"a": 4, "e": {"f": 5}}) == {"a": 4, "d": 3, "e": {"f": 5}}
    assert merged(value, {}) == value


def test_more_families_hold_the_fewer() -> None:
    known = [f"family-{number}" for number in range(40)]
    few, many = chosen_families(known, 8), chosen_families(reversed(known), 20)
    assert (len(few), len(many)) == (8, 20)
    assert set(few) < set(many)
    with pytest.raises(InputError, match="41 families are wanted, and there are 40"):
        chosen_families(known, 41)


@given(st.dictionaries(st.text(max_size=4), st.sampled_from(["web", "os", "mcp"]), max_size=30), st.integers(1, 40))
def test_turns_are_chosen_evenly_and_always_alike(keys: dict[str, str], wanted: int) -> None:
    chosen = chosen_turns(keys, wanted)
    assert len(chosen) == len(set(chosen)) == min(wanted, len(keys))
    assert chosen == chosen_turns(dict(reversed(keys.items())), wanted)
    taken = {domain: sum(keys[key] == domain for key in chosen) for domain in set(keys.values())}
    left = {domain: sum(keys[key] == domain for key in keys) - count for domain, count in taken.items()}
    # No domain has fewer than another has, unless it has no more.
    assert all(taken[a] >= taken[b] - 1 for a in taken for b in taken if left[a])


def test_the_table_has_a_line_for_each_row() -> None:
    score = Score(mean=41.26, low=38, high=44.5, count=200)
    first = Row(
        question="Does it help?",
        name="yes",
        seed=0,
        tokens=500_123,
        targets=90_000,
        score=score,
        reply_tokens=51.4,
        text=Estimate(mean=1.034),
    )
    second = first.model_copy(update={"name": "no", "score": Score(mean=None, count=0), "text": None})
    lines = render_rows([first, second]).splitlines()
    assert lines[2] == "| Does it help? | yes | 0 | 500,123 | 90,000 | 41.3 [38.0, 44.5] of 200 | 51 | × 1.034 |"
    assert lines[3] == "|  | no | 0 | 500,123 | 90,000 | – | 51 | – |"
