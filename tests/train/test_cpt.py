"""Continual pre-training from files to an adapter, held still by stored numbers."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'worldlm[train]'")

from tests.train.kit import MakeRun, train_it
from worldlm.cli.train import profile_of
from worldlm.core.errors import InputError
from worldlm.train.cpt import cpt
from worldlm.train.sft import sft

# fmt: off
LOSSES = [
    5.7839, 5.5976, 5.3565, 5.5733, 5.3136, 4.9469, 4.9653, 4.7747, 4.6729, 4.7805,
    4.8904, 4.563, 4.7553, 4.4482, 4.4177, 4.4433, 4.5818, 4.4718, 4.2658, 4.3102,
]
NORMS = [
    1.6807, 1.3586, 1.2758, 1.2066, 0.9768, 1.1909, 1.3178, 0.8335, 0.8355, 0.8487,
    1.2278, 0.8009, 1.1638, 0.7751, 0.9715, 1.2332, 1.0617, 0.9397, 0.9476, 0.8119,
]
# fmt: on


def test_twenty_steps_are_as_they_were(make_run: MakeRun, tmp_path: Path) -> None:
    """Loss and gradient norm of each step. Other processors sum in another order: hence the tolerance."""
    told = train_it(make_run(data={"epochs": 4}, batches={"tokens": 1100, "micro_batches": 2}), tmp_path / "out")
    steps = told.of("step")[:20]
    assert [event.figures["loss"] for event in steps] == pytest.approx(LOSSES, rel=2e-3)
    assert [event.figures["gradient_norm"] for event in steps] == pytest.approx(NORMS, rel=2e-2)


def test_rows_are_shown_before_they_are_trained(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    order: list[str] = []
    cpt(
        run,
        profile_of(run),
        run.base,
        tmp_path / "out",
        lambda event: order.append(event.kind),
        inspect=lambda rows, tokenizer: order.append(f"{len(rows)} rows of {rows[0].domain}"),
    )
    assert order[0].endswith(("rows of terminal", "rows of general"))
    assert order[1] == "start"


def test_a_stage_takes_its_own_runs_only(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    for stage, other in ((sft, run), (cpt, make_run(stage="sft", thinking=True))):
        with pytest.raises(InputError, match=f"is a run of the stage {other.stage}"):
            stage(other, profile_of(other), other.base, tmp_path, lambda event: None, inspect=lambda rows, tok: None)
    thinking = profile_of(run).model_copy(update={"thinking": True})
    with pytest.raises(InputError, match="continual pre-training has no thinking"):
        cpt(run, thinking, run.base, tmp_path, lambda event: None, inspect=lambda rows, tokenizer: None)
