from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.data.corpus import ids, make, said, text_record, write
from worldlm.core.errors import InputError
from worldlm.data.steps.mixture import Ingredient, Recipe, choose, mix, quotas, shares
from worldlm.data.steps.pipeline import Execution
from worldlm.data.steps.run import mix_sources


def recipe(weights: dict[str, float | None], **settings: object) -> Recipe:
    sources = {name: {"path": name, "weight": weight} for name, weight in weights.items()}
    return Recipe.model_validate({"sources": sources, **settings})


def test_shares_by_hand() -> None:
    assert shares(recipe({"a": 3, "b": 1}), {"a": 10, "b": 10}) == {"a": 0.75, "b": 0.25}
    assert shares(recipe({"a": None, "b": None}), {"a": 900, "b": 100}) == pytest.approx({"a": 0.9, "b": 0.1})
    warm = shares(recipe({"a": None, "b": None}, temperature=2), {"a": 900, "b": 100})
    assert warm == pytest.approx({"a": 0.75, "b": 0.25})


def test_without_a_total_the_scarcest_source_is_used_up() -> None:
    assert quotas(recipe({"a": 9, "b": 1}), {"a": 500, "b": 100}) == {"a": 500, "b": 56}
    assert quotas(recipe({"a": 9, "b": 1}, repeat=2), {"a": 500, "b": 200}) == {"a": 1000, "b": 111}
    assert quotas(recipe({"a": 9, "b": 1}, total=100), {"a": 500, "b": 100}) == {"a": 90, "b": 10}


def test_too_little_is_refused_with_the_cure() -> None:
    with pytest.raises(InputError, match=r"10000 characters need 9000 of source 'a', which has 500; ask for 556"):
        quotas(recipe({"a": 9, "b": 1}, total=10_000), {"a": 500, "b": 100})
    with pytest.raises(InputError, match="source 'b' holds nothing"):
        quotas(recipe({"a": 9, "b": 1}), {"a": 500, "b": 0})


lengths = st.lists(st.integers(1, 100), min_size=1, max_size=50).map(lambda each: np.array(each, np.int64))


@given(lengths, st.integers(1, 10_000), st.integers(), st.text())
def test_a_choice_fills_its_quota_evenly(
    sizes: np.ndarray[tuple[int], np.dtype[np.int64]], quota: int, seed: int, name: str
) -> None:
    chosen = choose(sizes, quota, seed, name)
    taken = int(sizes[chosen].sum())
    assert quota - sizes.max() < taken <= quota or len(chosen) == 1
    times = np.bincount(chosen, minlength=len(sizes))
    assert times.max() - times.min() <= 1
    assert np.array_equal(chosen, choose(sizes, quota, seed, name))


@given(st.lists(lengths, min_size=1, max_size=4), st.integers(0, 99))
def test_a_mixture_is_every_chosen_record_in_a_seeded_order(
    sizes: list[np.ndarray[tuple[int], np.dtype[np.int64]]], seed: int
) -> None:
    by_name = {f"s{number}": each for number, each in enumerate(sizes)}
    plan = recipe(dict.fromkeys(by_name, None), seed=seed)
    one, again = mix(plan, by_name), mix(plan, by_name)
    assert np.array_equal(one.source, again.source)
    assert np.array_equal(one.record, again.record)
    # Each weighs what it holds, so all of each is taken.
    for number, each in enumerate(sizes):
        assert sorted(one.record[one.source == number].tolist()) == list(range(len(each)))


def test_another_seed_is_another_order() -> None:
    sizes = {"a": np.full(50, 10, np.int64)}
    orders = {tuple(mix(recipe({"a": 1}, seed=seed), sizes).record.tolist()) for seed in range(3)}
    assert len(orders) == 3


def sources(folder: Path) -> dict[str, list[Path]]:
    first = write(folder / "one.jsonl", [make(f"t{n}", said(n)) for n in range(20)])
    second = write(folder / "two.jsonl", [make(f"u{n}", said(100 + n)) for n in range(20)])
    pages = write(folder / "pages.jsonl", [text_record(f"p{n}", said(200 + n)[0][1]) for n in range(60)])
    return {"ours": [first, second], "pages": [pages]}


def test_over_files_with_any_number_of_workers(tmp_path: Path) -> None:
    plan = recipe({"ours": 9, "pages": 1}, seed=4)
    results = []
    for workers in (1, 2):
        out = tmp_path / f"{workers}.jsonl"
        done = mix_sources(plan, sources(tmp_path / f"in{workers}"), out, Execution(workers))
        results.append((out.read_bytes(), done.figures))
    assert results[0] == results[1]
    names = ids(tmp_path / "1.jsonl")
    assert {name for name in names if name[0] != "p"} == {f"{kind}{n}" for n in range(20) for kind in "tu"}
    assert names != sorted(names)
    figures = results[0][1]["sources"]
    assert figures["ours"]["rounds"] == 1
    assert figures["pages"]["share"] == pytest.approx(0.1, abs=0.02)
    assert figures["ours"]["records"] + figures["pages"]["records"] == len(names)


def test_a_source_that_is_missing_or_empty_is_refused_before_work_starts(tmp_path: Path) -> None:
    have = sources(tmp_path / "in")
    plan, out = recipe({"ours": 9, "pages": 1}), tmp_path / "out.jsonl"
    with pytest.raises(InputError, match="source 'pages' is missing"):
        mix_sources(plan, {"ours": have["ours"]}, out)
    with pytest.raises(InputError, match="there is no file or folder"):
        mix_sources(plan, have | {"pages": [tmp_path / "none.jsonl"]}, out)
    (tmp_path / "void.jsonl").touch()
    with pytest.raises(InputError, match="is empty"):
        mix_sources(plan, have | {"pages": [tmp_path / "void.jsonl"]}, out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "void.jsonl"]


def test_recipes_that_say_nothing_clear_are_refused() -> None:
    with pytest.raises(ValidationError, match="source 'b' has no 'weight'"):
        recipe({"a": 1, "b": None})
    with pytest.raises(ValidationError, match="either a 'path' of records or 'documents'"):
        Ingredient(path="a", documents="b")
    with pytest.raises(ValidationError, match="at least 1 item"):
        Recipe(sources={})
