"""Supervised fine-tuning from files to an adapter, held still by stored numbers."""

from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'worldlm[train]'")

from tests.train.kit import MakeRun, train_it
from tests.train.records import sessions, write_lines
from worldlm.train.checkpoint import read_card
from worldlm.train.settings import Run

# fmt: off
LOSSES = [
    5.9382, 5.9014, 5.6501, 5.4245, 5.1603, 5.0294, 4.9044, 4.835, 4.7753, 4.6323,
    4.6383, 4.5696, 4.5549, 4.5205, 4.5234, 4.4682, 4.5085, 4.3977, 4.3734, 4.3442,
]
NORMS = [
    1.0343, 1.1821, 1.3814, 1.2118, 1.0348, 1.0437, 0.9709, 0.7634, 0.7342, 0.6929,
    0.7234, 0.7046, 0.6332, 0.6601, 0.7971, 0.7532, 0.9304, 0.7768, 0.9132, 0.7138,
]
# fmt: on


@pytest.fixture
def run(make_run: MakeRun, tmp_path: Path) -> Run:
    thought = write_lines(tmp_path / "thought.jsonl", sessions(12, thinking="The prompt comes behind the output."))
    data = {"files": [str(thought)], "replay": {"share": 0}, "curriculum": "length"}
    return make_run(stage="sft", thinking=True, data=data, batches={"tokens": 1100, "micro_batches": 2})


def test_twenty_steps_are_as_they_were(run: Run, tmp_path: Path) -> None:
    told = train_it(run, tmp_path / "out")
    steps = told.of("step")[:20]
    assert [event.figures["loss"] for event in steps] == pytest.approx(LOSSES, rel=2e-3)
    assert [event.figures["gradient_norm"] for event in steps] == pytest.approx(NORMS, rel=2e-2)
    # Thinking is expected, and the adapter says that it thinks.
    assert told.of("sample")[0].texts["expected"].startswith("<think>\nThe prompt comes behind")
    card = read_card(tmp_path / "out" / "adapter")
    assert (card.stage, card.profile.thinking) == ("sft", True)
    # A row for each of the turns: 12 sessions of 3 or 4.
    assert told.of("start")[0].figures["rows"] == 42
