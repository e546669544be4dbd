"""The loop: steps, slices, saves, and what ends a run."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'worldlm[train]'")

import torch
import yaml
from accelerate import Accelerator
from transformers import LlamaConfig, LlamaForCausalLM

from tests.train.kit import MOE_LORA, MakeRun, Told, save_base, stop_after, train_it
from tests.train.records import sessions, write_lines
from worldlm.core.errors import InputError, WorldlmError
from worldlm.train.batches import Batch
from worldlm.train.checkpoint import ADAPTER, OPTIMISER, read_card, read_state, read_tensors
from worldlm.train.loop import Limits, _Training, learning_rate, slowdown
from worldlm.train.loss import Sums, TargetLoss
from worldlm.train.settings import Schedule


def held(tmp_path: Path) -> dict[str, Any]:
    return {"validation": [str(tmp_path / "validation.jsonl")], "epochs": 2}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("constant", [1 / 3, 2 / 3, 1, 1, 1, 1, 1, 1, 1, 1]),
        ("linear", [1 / 3, 2 / 3, 1.0, 0.8875, 0.775, 0.6625, 0.55, 0.4375, 0.325, 0.2125]),
        ("cosine", [1 / 3, 2 / 3, 1.0, 0.96575, 0.86820, 0.72221, 0.55, 0.37779, 0.23180, 0.13425]),
    ],
)
def test_the_learning_rate_over_a_run(kind: Any, expected: list[float]) -> None:
    schedule = Schedule(kind=kind, warmup=0.2, floor=0.1)
    assert [learning_rate(schedule, step, 10) for step in range(10)] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("times", "told"), [(1.0, 0), (30.0, 1)])
def test_a_processor_that_is_slow_in_bfloat16_is_named(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: float, told: int
) -> None:
    assert slowdown(64) > 0
    monkeypatch.setattr("worldlm.train.loop.slowdown", lambda: times)
    warnings = train_it(make_run(precision="bfloat16"), tmp_path / "out", limits=stop_after(1)).of("warning")
    assert [event.texts["what"].split(";")[0] for event in warnings] == told * [
        "this processor multiplies bfloat16 30 times slower than float32"
    ]


def test_a_run_tells_what_it_does_and_keeps_the_best(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(data=held(tmp_path), every={"save": 4, "validate": 4, "sample_tokens": 8})
    told = train_it(run, tmp_path / "out")
    kinds = [event.kind for event in told.events]
    assert (kinds[:2], kinds[-1]) == (["start", "validation"], "end")
    start, end = told.of("start")[0], told.of("end")[0]
    adapter = read_tensors(tmp_path / "out" / "adapter" / ADAPTER)
    assert start.figures["trained_parameters"] == sum(tensor.numel() for tensor in adapter.values())
    assert start.figures["rows"] == start.figures["rows/terminal"] + start.figures["rows/general"]
    steps = told.of("step")
    assert [event.step for event in steps] == list(range(1, int(start.figures["steps"]) + 1))
    assert sum(event.figures["step_tokens"] for event in steps) == start.figures["planned_tokens"] == end.tokens
    assert end.texts == {"why": "finished"}
    losses = [event.figures["loss"] for event in told.of("validation")]
    assert losses[-1] < losses[0]
    card = read_card(tmp_path / "out" / "adapter")
    assert told.result is not None
    assert told.result.best == min(losses)
    assert card.step == next(each.step for each in told.of("validation") if each.figures["loss"] == min(losses))
    assert (card.stage, card.run, card.domains) == ("cpt", "tiny", ("terminal",))
    assert read_state(tmp_path / "out" / "checkpoints" / "last").step == len(steps)
    sample = told.of("sample")[-1]
    assert set(sample.texts) == {"prompt", "expected", "text"}
    assert 0 < sample.figures["distinct"] <= 1
    config = json.loads((tmp_path / "out" / "adapter" / "adapter_config.json").read_text("utf-8"))
    assert config["base_model_name_or_path"] == card.base
    assert not any(str(tmp_path) in str(value) for value in config.values())


# Slices.


def test_a_run_in_slices_is_the_run_in_one(make_run: MakeRun, tmp_path: Path) -> None:
    """Another draw of dropout, another order or moments that were not rounded would show at once."""
    run = make_run(
        data=held(tmp_path),
        lora={"rank": 4, "alpha": 8, "dropout": 0.2},
        every={"save": 3, "validate": 5, "sample_tokens": 8},
    )
    whole = train_it(run, tmp_path / "whole")
    sliced = Told([])
    train_it(run, tmp_path / "sliced", limits=stop_after(3), told=sliced)
    assert sliced.result is not None
    assert (sliced.result.why, sliced.result.step) == ("signal", 3)
    # It goes on elsewhere, from what is copied there.
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "sliced" / "checkpoints").rename(tmp_path / "elsewhere" / "checkpoints")
    train_it(run, tmp_path / "elsewhere", resume=True, limits=stop_after(3), told=sliced)
    train_it(run, tmp_path / "elsewhere", resume=True, told=sliced)
    assert sliced.losses() == pytest.approx(whole.losses(), abs=1e-6)
    assert [event.step for event in sliced.of("resume")] == [3, 6]
    last = [each.of("validation")[-1].figures["loss"] for each in (sliced, whole)]
    assert last[0] == pytest.approx(last[1], abs=1e-6)
    assert sliced.of("end")[-1].tokens == whole.of("end")[0].tokens


def test_minutes_end_a_slice_after_a_step(make_run: MakeRun, tmp_path: Path) -> None:
    told = train_it(make_run(), tmp_path / "out", limits=Limits(minutes=0))
    assert told.result is not None
    assert (told.result.why, told.result.step) == ("minutes", 1)
    assert read_state(tmp_path / "out" / "checkpoints" / "last").step == 1
    assert not (tmp_path / "out" / "adapter").exists()


def test_a_run_that_is_done_says_so_again(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    train_it(run, tmp_path / "out")
    again = train_it(run, tmp_path / "out", resume=True)
    assert again.result is not None
    assert again.result.why == "finished"
    assert not again.of("step")


def test_a_killed_run_goes_on_with_the_losses_of_one_that_was_not(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(data=held(tmp_path), every={"save": 2, "validate": 4, "sample_tokens": 8})
    whole = train_it(run, tmp_path / "whole")
    config, out = tmp_path / "run.yaml", tmp_path / "killed"
    config.write_text(yaml.safe_dump(run.model_dump(mode="json", by_alias=True)), "utf-8")
    command = [sys.executable, "-m", "worldlm.cli.main", "train", "cpt", "--config", str(config), "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    metrics = out / "metrics.jsonl"
    while process.poll() is None:
        told = metrics.read_text("utf-8") if metrics.exists() else ""
        if '"step":5' in told:
            os.kill(process.pid, signal.SIGKILL)
            break
        time.sleep(0.005)
    _, problem = process.communicate()
    assert process.returncode == -signal.SIGKILL, problem
    state = read_state(out / "checkpoints" / "last")
    assert 2 <= state.step < len(whole.losses())
    resumed = train_it(run, out, resume=True)
    assert resumed.of("resume")[0].step == state.step
    rest = {step: loss for step, loss in whole.losses().items() if step > state.step}
    assert resumed.losses() == pytest.approx(rest, abs=1e-5)


# What ends a run.


def test_a_run_does_not_go_on_as_another(make_run: MakeRun, tmp_path: Path) -> None:
    train_it(make_run(), tmp_path / "out", limits=stop_after(1))
    with pytest.raises(InputError, match=r"setting optimiser\.learning_rate: 0\.01 then, 0\.02 now"):
        train_it(make_run(optimiser={"learning_rate": 0.02}), tmp_path / "out", resume=True)
    write_lines(tmp_path / "train.jsonl", sessions(13))
    with pytest.raises(InputError, match=r"cannot go on: data: .*train\.jsonl\. Start a run in another folder"):
        train_it(make_run(), tmp_path / "out", resume=True)
    with pytest.raises(InputError, match="there is no checkpoint in"):
        train_it(make_run(), tmp_path / "none", resume=True)


def faulty(monkeypatch: pytest.MonkeyPatch, calls: range) -> None:
    """The loss is not a number at some of the calls in training."""
    whole, count = TargetLoss.forward, [0]

    def forward(module: TargetLoss, batch: Batch) -> Sums:
        found = whole(module, batch)
        if not module.training:
            return found
        count[0] += 1
        return found._replace(loss=found.loss * float("nan")) if count[0] in calls else found

    monkeypatch.setattr(TargetLoss, "forward", forward)


def test_a_step_that_is_not_finite_changes_nothing(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty(monkeypatch, range(3, 4))  # in the second step, of two micro-batches each
    told = train_it(make_run(data={"epochs": 3}), tmp_path / "out")
    assert [event.step for event in told.of("skip")] == [2]
    assert told.of("skip")[0].texts == {"why": "the loss is nan"}
    assert told.of("skip")[0].figures == {"in_a_row": 1}
    state = read_state(tmp_path / "out" / "checkpoints" / "last")
    assert state.updates == state.step - 1
    adapter = read_tensors(tmp_path / "out" / "adapter" / ADAPTER)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in adapter.values())


def test_too_many_of_them_end_the_run_and_what_was_saved_stays(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty(monkeypatch, range(5, 1000))
    run = make_run(data={"epochs": 6}, every={"save": 2, "validate": 1000, "sample_tokens": 8})
    with pytest.raises(WorldlmError, match="step 5: the loss is nan, as in 3 steps in a row"):
        train_it(run, tmp_path / "out")
    assert read_state(tmp_path / "out" / "checkpoints" / "last").updates == 2
    assert not (tmp_path / "out" / "adapter").exists()


def test_a_run_in_which_nothing_was_trained_saves_nothing(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty(monkeypatch, range(1, 1000))
    with pytest.raises(WorldlmError, match="nothing was trained"):
        train_it(make_run(optimiser={"skips": 1000}), tmp_path / "out")
    assert not (tmp_path / "out" / "adapter").exists()
    assert not (tmp_path / "out" / "checkpoints" / "last").exists()


def test_a_model_that_says_one_token_only_ends_the_run(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told([])
    monkeypatch.setattr(_Training, "generate", lambda self, prompt: ([0] * 16, 0.0))
    with pytest.raises(WorldlmError, match="the model says one token only"):
        train_it(make_run(), tmp_path / "out", told=told)
    assert [event.texts["what"] for event in told.of("warning")] == ["the model repeats itself: '!!!!!!!!!!!!!!!!'"] * 2
    assert not (tmp_path / "out" / "adapter").exists()


def test_a_model_that_repeats_itself_is_warned_of(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Training, "generate", lambda self, prompt: ([0, 1] * 20, 0.0))
    told = train_it(make_run(), tmp_path / "out")
    assert told.of("warning")
    assert told.result is not None
    assert told.result.why == "finished"


def test_micro_batches_that_processes_cannot_share_are_refused(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Accelerator, "num_processes", property(lambda self: 2))
    with pytest.raises(InputError, match=r"batches\.micro_batches is 3, and 2 processes cannot share that evenly"):
        train_it(make_run(batches={"tokens": 2048, "micro_batches": 3}), tmp_path / "out")


def test_a_tokenizer_with_more_tokens_than_the_base_is_refused(make_run: MakeRun, tmp_path: Path) -> None:
    config = LlamaConfig(
        vocab_size=250,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    small = save_base(tmp_path / "small", LlamaForCausalLM(config))
    with pytest.raises(InputError, match=r"the tokenizer has ids up to 25\d, and the base only 250"):
        train_it(make_run(base=str(small)), tmp_path / "out")


# Shapes of a run.


@pytest.mark.parametrize(
    "given",
    [
        {"precision": "bfloat16"},
        pytest.param({"batches": {"tokens": 2048, "micro_batches": 2, "packing": "mask"}}, marks=pytest.mark.long),
    ],
    ids=["bfloat16", "packed"],
)
def test_other_shapes_train_as_well(given: dict[str, Any], make_run: MakeRun, tmp_path: Path) -> None:
    told = train_it(make_run(data=held(tmp_path), **given), tmp_path / "out")
    losses = [event.figures["loss"] for event in told.of("validation")]
    assert losses[-1] < losses[0]
    adapter = read_tensors(tmp_path / "out" / "adapter" / ADAPTER)
    assert all(tensor.dtype == torch.float32 for tensor in adapter.values())


@pytest.mark.long
def test_recomputed_activations_give_the_same_losses(make_run: MakeRun, tmp_path: Path) -> None:
    plain = train_it(make_run(), tmp_path / "plain")
    again = train_it(make_run(checkpointing=True), tmp_path / "again")
    assert again.losses() == pytest.approx(plain.losses(), abs=1e-6)


def test_a_mixture_of_experts_is_trained_saved_and_gone_on_with(make_run: MakeRun, moe: Path, tmp_path: Path) -> None:
    run = make_run(base=str(moe), lora=MOE_LORA)
    whole = train_it(run, tmp_path / "whole")
    assert all(event.figures["router_loss"] > 0 for event in whole.of("step"))
    adapter = read_tensors(tmp_path / "whole" / "adapter" / ADAPTER)
    assert any("experts" in name and bool(tensor.any()) for name, tensor in adapter.items() if "lora_B" in name)
    sliced = train_it(run, tmp_path / "sliced", limits=stop_after(2))
    train_it(run, tmp_path / "sliced", resume=True, told=sliced)
    assert sliced.losses() == pytest.approx(whole.losses(), abs=1e-5)


def test_a_checkpoint_takes_eight_bytes_a_number(make_run: MakeRun, tmp_path: Path) -> None:
    train_it(make_run(), tmp_path / "out", limits=stop_after(1))
    folder = tmp_path / "out" / "checkpoints" / "last"
    adapter, kept = read_tensors(folder / ADAPTER), read_tensors(folder / OPTIMISER)
    assert sum(each.numel() for each in kept.values()) == 2 * sum(each.numel() for each in adapter.values())
    assert {each.dtype for each in adapter.values()} == {torch.float32}
    assert {each.dtype for each in kept.values()} == {torch.bfloat16}
