"""Checkpoints: whole or not at all, small, and never of an adapter that is broken."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: pip install 'worldlm[train]'")

import torch
from peft import LoraConfig
from torch import Tensor

from worldlm.core.errors import InputError, WorldlmError
from worldlm.domains import prompt_hashes
from worldlm.models.profiles import get_profile
from worldlm.train.checkpoint import (
    ADAPTER,
    OPTIMISER,
    AdapterCard,
    State,
    differences,
    moments,
    read_card,
    read_state,
    read_tensors,
    recover,
    restore_moments,
    round_moments,
    write,
)

CONFIG = LoraConfig(r=4, target_modules=["q_proj"])


def tensors(value: float = 1.0) -> dict[str, Tensor]:
    return {"q.lora_A.weight": torch.ones(4, 8), "q.lora_B.weight": torch.full((8, 4), value)}


def card(step: int = 3) -> AdapterCard:
    profile = get_profile("embedded")
    return AdapterCard(
        base="tiny",
        base_digest="0" * 64,
        profile=profile,
        prompts=prompt_hashes(profile),
        run="one",
        stage="cpt",
        settings_digest="1" * 64,
        step=step,
        domains=("terminal",),
        settings={"name": "one"},
        version="1",
    )


def state(**given: Any) -> State:
    whole = {
        "step": 3,
        "updates": 3,
        "tokens": 10,
        "targets": 5,
        "seconds": 1.0,
        "best": None,
        "best_step": None,
        "settings": {"name": "one", "lora": {"rank": 4}},
        "files": {"a.jsonl": "12"},
        "rows": "ab",
        "base_digest": "cd",
        "version": "worldlm=1",
        "seed": 0,
    }
    return State.model_validate({**whole, **given})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints" / "last"
    size = write(folder, tensors(), CONFIG, card(), state(), {"first/q": torch.ones(3)})
    assert size == sum(path.stat().st_size for path in folder.iterdir())
    assert read_card(folder) == card()
    assert read_state(folder) == state()
    assert torch.equal(read_tensors(folder / ADAPTER)["q.lora_B.weight"], torch.ones(8, 4))
    assert [path.name for path in folder.parent.iterdir()] == ["last"]


def test_an_adapter_alone_has_no_place_in_a_run(tmp_path: Path) -> None:
    write(tmp_path / "adapter", tensors(), CONFIG, card())
    with pytest.raises(InputError, match="there is no checkpoint in"):
        read_state(tmp_path / "adapter")
    with pytest.raises(InputError, match="there is no adapter of worldlm in"):
        read_card(tmp_path)


@pytest.mark.parametrize(
    ("value", "told"),
    [(float("nan"), "is not finite"), (float("inf"), "is not finite"), (0.0, "nothing was trained")],
)
def test_a_broken_or_untrained_adapter_is_not_saved(value: float, told: str, tmp_path: Path) -> None:
    folder = tmp_path / "last"
    write(folder, tensors(), CONFIG, card())
    with pytest.raises(WorldlmError, match=told):
        write(folder, tensors(value), CONFIG, card(9))
    assert read_card(folder).step == 3
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


@contextmanager
def little_room(size: int) -> Iterator[None]:
    """Files cannot grow beyond so many bytes: what a full disk does, to this process alone."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("many", ["adapter", "optimiser"])
def test_a_full_disk_is_one_error_and_the_older_checkpoint_stays(many: str, tmp_path: Path) -> None:
    folder = tmp_path / "last"
    write(folder, tensors(), CONFIG, card(), state(), {"first/q": torch.ones(3)})
    large = torch.ones(1 << 20)
    own = {**tensors(), **({"more": large} if many == "adapter" else {})}
    kept = {"first/q": large if many == "optimiser" else torch.ones(3)}
    with little_room(1 << 18), pytest.raises(WorldlmError, match=r"cannot write .*free some space \(the one before"):
        write(folder, own, CONFIG, card(9), state(step=9), kept)
    assert (read_card(folder).step, read_state(folder).step) == (3, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["last"]
    write(folder, own, CONFIG, card(9), state(step=9), kept)
    assert read_state(folder).step == 9


def test_a_checkpoint_whose_writer_was_killed_at_the_last_moment_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "last"
    write(folder, tensors(), CONFIG, card(), state())
    folder.rename(tmp_path / ".last.previous")
    assert recover(folder)
    assert read_state(folder).step == 3
    assert not recover(tmp_path / "none")


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "last"
    write(folder, tensors(), CONFIG, card(), state(), {"first/q": torch.ones(3)})
    (folder / OPTIMISER).write_bytes(b"nothing")
    with pytest.raises(InputError, match="is damaged, go on from another checkpoint"):
        read_tensors(folder / OPTIMISER)


def test_all_that_is_not_as_it_was_is_listed() -> None:
    assert differences(state(), state(step=9, seconds=3.0, version="worldlm=2")) == []
    now = state(
        settings={"name": "one", "lora": {"rank": 8}, "more": 1}, files={"a.jsonl": "34"}, rows="xx", base_digest="ef"
    )
    assert differences(state(), now) == [
        "setting lora.rank: 4 then, 8 now",
        "setting more: None then, 1 now",
        "data: a.jsonl",
        "base: cd then, ef now",
    ]
    # A file that lies elsewhere and holds the same is the same.
    assert differences(state(), state(files={"b.jsonl": "12"})) == []


def update(optimiser: torch.optim.Optimizer, parameter: Tensor, steps: int) -> None:
    for _ in range(steps):
        parameter.grad = torch.sin(parameter.detach() * 3)
        optimiser.step()


def test_an_optimiser_that_goes_on_does_as_if_it_had_not_stopped() -> None:
    parameter = torch.nn.Parameter(torch.linspace(-1, 1, 50))
    running = torch.optim.AdamW([parameter], lr=0.1)
    update(running, parameter, 5)
    round_moments(running)
    held = moments(running, {"p": parameter})
    assert {name: each.dtype for name, each in held.items()} == {
        "first/p": torch.bfloat16,
        "second/p": torch.bfloat16,
    }
    resumed = torch.nn.Parameter(parameter.detach().clone())
    other = torch.optim.AdamW([resumed], lr=0.1)
    restore_moments(other, {"p": resumed}, held, updates=5)
    update(running, parameter, 4)
    update(other, resumed, 4)
    assert torch.equal(parameter, resumed)
    with pytest.raises(InputError, match="no moments of q"):
        restore_moments(other, {"q": resumed}, held, updates=5)
