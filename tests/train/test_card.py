"""The model card: from a run's folder, results and forgetting to a page."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs torch: pip install 'worldlm[train]'")
pytest.importorskip("tensorboard", reason="reports need tensorboard: pip install 'worldlm[train]'")

from worldlm.bench.results import Estimate as BenchEstimate
from worldlm.bench.results import Example as BenchExample
from worldlm.bench.results import JudgingSettings, Metric, Results, SampleResult, Slice, Table, write_results
from worldlm.core.errors import InputError
from worldlm.core.outcomes import Outcome
from worldlm.data.markdown import block, put_between, table
from worldlm.train.card import (
    Measured,
    ModelCard,
    Score,
    Share,
    StageRun,
    main,
    measured,
    read_card,
    render_card,
)
from worldlm.train.forgetting import Estimate, Following, Forgetting, TextForgetting

ROOT = Path(__file__).parents[2]


def slice_of(name: str, mean: float, floored: int = 0) -> Slice:
    estimate = BenchEstimate(mean=mean, low=mean - 2, high=mean + 2, count=100)
    return Slice(
        name=name, planned=100, scored=100 - floored, floored=floored, floor=estimate, answered=estimate, exact=0.25
    )


def results(mean: float) -> Results:
    estimate = BenchEstimate(mean=mean, low=mean - 1, high=mean + 1, count=200)
    rules = Table(
        metric=Metric(name="rules", version="1", definition="by rules"),
        overall=slice_of("all", mean),
        headline=estimate,
        headline_answered=estimate,
        domains=(slice_of("terminal", mean + 5), slice_of("web", mean - 5, floored=3)),
        contents=(slice_of("deterministic", mean),),
    )
    worst = tuple(
        BenchExample(
            id=f"{domain}/{number}",
            domain=domain,
            turn=2,
            turns=9,
            action="cat README.md",
            real="# Title\n```\ncode\n```\n" + "line\n" * 40,
            predicted="a | b",
            values={"rules": 3.0 + number},
        )
        for domain in ("web", "terminal")
        for number in (0, 1)
    )
    sample = SampleResult(id="web/0", domain="web", trajectory="t", turn=2, length=9, outcome=Outcome.OK)
    return Results(
        name="mine",
        benchmark="realturns-a",
        infer=None,
        judging=JudgingSettings(rules="1"),
        tables=(rules,),
        samples=(sample,),
        worst=worst,
    )


def a_run(stage: str, **more: Any) -> StageRun:
    return StageRun(
        stage=stage,
        run=f"embedded-{stage}",
        seed=7,
        steps=500,
        tokens=4_000_000,
        targets=900_000,
        hours=2.5,
        validation=1.2345,
        validation_step=450,
        sizes={"rows": 10, "tokens": 1000, "targets": 300, "tokens/terminal": 700, "targets/terminal": 200},
        settings={"lora": {"rank": 16, "alpha": 32, "modules": "all-linear"}, "data": {"replay": {"share": 0.1}}},
        files={"train.jsonl": "ab" * 32},
        version="worldlm=0.1.0",
        **more,
    )


def forgetting(ratio: float) -> Forgetting:
    return Forgetting(
        texts={
            "general": TextForgetting(
                documents=40,
                tokens=9000,
                before=Estimate(mean=20.0, low=19, high=21),
                after=Estimate(mean=20 * ratio, low=19, high=23),
                ratio=Estimate(mean=ratio, low=ratio - 0.01, high=ratio + 0.01),
            )
        },
        instructions=Following(
            prompts=52,
            failed=0,
            before=Estimate(mean=30.0, low=20, high=40),
            after=Estimate(mean=28.0, low=18, high=38),
            difference=Estimate(mean=-2.0, low=-8, high=4),
            rules={"case": (50.0, 25.0)},
        ),
    )


@pytest.fixture
def card(tmp_path: Path) -> ModelCard:
    found = []
    for stage, mean in (("base", 20.0), ("cpt", 55.5), ("sft", 60.0)):
        path = tmp_path / f"{stage}.json"
        write_results(results(mean), path)
        exact = {"terminal turns with output": Share(right=int(mean), of=100)}
        found.append(measured(stage, "realturns-a", path, exact))
    return ModelCard(
        name="smollm2-135m-worldlm",
        licence="Apache-2.0",
        base="SmolLM2-135M-Instruct.Q4_1",
        base_licence="Apache-2.0",
        base_digest="cd" * 32,
        file="embedded.gguf",
        bytes=9_800_000,
        sha256="ef" * 32,
        stage="sft",
        parameters=4_884_480,
        machine="2 CPU cores",
        data="RealTurns (Apache-2.0)",
        stages=(a_run("cpt"), a_run("sft")),
        choice={"cpt": Score(mean=50.0, count=60), "sft": Score(mean=58.0, low=50, high=66, count=60)},
        results=tuple(found),
        forgetting={"cpt": forgetting(1.02), "sft": forgetting(1.1)},
    )


def row(page: str, name: str) -> list[str]:
    (found,) = re.findall(rf"^\| {re.escape(name)} \|(.*)\|$", page, re.MULTILINE)
    return [cell.strip() for cell in found.split("|")]


def test_results_are_told_stage_by_stage(card: ModelCard) -> None:
    page = render_card(card)
    assert "| | turns | base | cpt | sft |".replace("| |", "|  |") in page

    assert "| web | 100 | 15.0 [13.0, 17.0] | 50.5 [48.5, 52.5] | 55.0 [53.0, 57.0] |" in page
    assert row(page, "**mean of the domains**") == [
        "200",
        "20.0 [19.0, 21.0]",
        "55.5 [54.5, 56.5]",
        "60.0 [59.0, 61.0]",
    ]
    assert row(page, "exact: terminal turns with output") == ["100", "0.20", "0.55", "0.60"]


def test_recipe_choice_forgetting_and_failures_are_told(card: ModelCard) -> None:
    page = render_card(card)
    assert row(page, "seed") == ["7", "7"]
    assert row(page, "lowest validation loss") == ["1.2345 at step 450"] * 2
    assert row(page, "rank and alpha of the adapter") == ["16, 32"] * 2
    assert row(page, "trained in") == ["5.0 hours on 2 CPU cores"]
    assert row(page, "validation split") == ["50.0", "58.0 [50.0, 66.0]"]
    assert "**sft** is shipped" in page
    general = row(page, "perplexity, general text (40 documents)")
    assert general[0] == "20.00 [19.00, 21.00]"
    assert general[2::2] == ["× 1.020 [1.010, 1.030]", "× 1.100 [1.090, 1.110]"]
    assert row(page, "instructions followed, % (of 52)")[2] == "-2.0 [-8.0, 4.0]"
    assert "no usable answer to 3 of 100 in web (realturns-a)" in page
    # Each domain's worst, in a fence that what it holds does not close.
    assert "web, `web/0`, 3 of 100" in page
    assert page.count("````text\n# Title") == 2
    assert "more lines]" in page


def test_a_card_of_one_stage_without_extras(card: ModelCard) -> None:
    few = card.model_copy(update={"stages": card.stages[:1], "choice": {}, "forgetting": {}, "results": ()})
    assert "is shipped" not in render_card(few)


def test_a_card_is_put_in_its_page_again_and_again(
    card: ModelCard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, page = tmp_path / "card.json", tmp_path / "page.md"
    source.write_text(card.model_dump_json(), "utf-8")
    assert read_card(source) == card
    page.write_text("# Ours\n\n<!-- card: generated -->\nold\n<!-- card: end -->\n\nThe end.\n")
    assert main([str(source), str(page)]) == 0
    first = page.read_text("utf-8")
    assert first.startswith("# Ours\n")
    assert first.endswith("The end.\n")
    assert "old" not in first
    assert main([str(source), str(page)]) == 0
    assert page.read_text("utf-8") == first
    page.write_text("# Ours\n")
    assert main([str(source), str(page)]) == 2
    assert "card: generated" in capsys.readouterr().err
    assert page.read_text("utf-8") == "# Ours\n"
    source.write_text('{"schema": "worldlm.model-card/1", "licence": 3}')
    assert main([str(source), str(page)]) == 2
    assert main([]) == 2


def test_our_page_has_a_place_for_the_card(card: ModelCard) -> None:
    page = (ROOT / "docs" / "embedded.md").read_text("utf-8")
    assert put_between(page, "card", render_card(card)) != page


@pytest.mark.parametrize("text", ["{}", "no JSON", '{"tables": []}', "[1]"])
def test_what_is_no_result_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"results\.json is no result"):
        measured("cpt", "realturns-a", path)
    with pytest.raises(InputError, match=r"cannot read .*none\.json"):
        measured("cpt", "realturns-a", tmp_path / "none.json")


def test_measured_is_what_the_results_say(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_results(results(40.0), path)
    found: Measured = measured("cpt", "realturns-a", path)
    assert found.domains["web"] == Score(mean=35.0, low=33.0, high=37.0, count=100, exact=0.25, failures=3)
    assert [example.id for example in found.worst] == ["terminal/0", "web/0"]
    assert json.loads(found.model_dump_json())["benchmark"] == "realturns-a"


# What the pages are written with.


def test_a_cell_cannot_end_its_row() -> None:
    assert table(["a"], [["x | y\nz"]]) == "| a |\n| --- |\n| x \\| y z |"


@pytest.mark.parametrize("text", ["plain", "```\ncode\n```", "````", "`a`"])
def test_a_block_holds_any_text(text: str) -> None:
    made = block(text)
    fence = made.split("text\n", 1)[0]
    assert fence not in text
    assert made == f"{fence}text\n{text}\n{fence}"
