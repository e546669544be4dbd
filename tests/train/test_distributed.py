"""Two processes do what one does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'worldlm[train]'")
pytest.importorskip("tensorboard", reason="needs tensorboard: pip install 'worldlm[train]'")

import torch
import yaml

from tests.train.kit import MakeRun, train_it
from worldlm.train.checkpoint import ADAPTER, read_tensors
from worldlm.train.report import read_events


def torchrun(config: Path, out: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command += ["-m", "worldlm.cli.main", "train", "cpt", "--config", str(config), "--out", str(out)]
    env = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=170, check=False)


def test_two_processes_give_the_losses_of_one(make_run: MakeRun, tmp_path: Path) -> None:
    """Uneven targets, and a last step with too few micro-batches: means over each process would drift."""
    run = make_run(data={"validation": [str(tmp_path / "validation.jsonl")], "epochs": 3})
    one = train_it(run, tmp_path / "one")
    config = tmp_path / "run.yaml"
    config.write_text(yaml.safe_dump(run.model_dump(mode="json", by_alias=True)), "utf-8")
    done = torchrun(config, tmp_path / "two")
    assert done.returncode == 0, done.stderr
    events = read_events(tmp_path / "two" / "metrics.jsonl")
    assert next(event for event in events if event.kind == "start").figures["processes"] == 2
    losses = {event.step: event.figures["loss"] for event in events if event.kind == "step"}
    assert losses == pytest.approx(one.losses(), abs=1e-5)
    validation = [event.figures["loss"] for event in events if event.kind == "validation"]
    assert validation == pytest.approx([event.figures["loss"] for event in one.of("validation")], abs=1e-5)
    ours, theirs = (read_tensors(tmp_path / name / "adapter" / ADAPTER) for name in ("one", "two"))
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-4) for name in ours)
