"""`worldlm export`: from a trained adapter to what llama.cpp, transformers and vLLM run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import typer

from worldlm.cli.console import note, show, show_json, transfer, waiting
from worldlm.core.errors import InputError, SetupError, nearest, user_path
from worldlm.core.jsonl import read_trajectories
from worldlm.core.types import Message, Profile
from worldlm.data.targets import targets
from worldlm.domains import get_domain
from worldlm.domains.render import Conversation
from worldlm.models import EmbeddedModel, weights
from worldlm.simulate import load_world

if TYPE_CHECKING:
    from worldlm.train.export import Adapter, Answer, Engine, Exported, Trained

app = typer.Typer(rich_markup_mode=None, help="Write a trained adapter for other programs, and compare the logits.")

LINES = {
    "terminal": "ls -la",
    "swe": "$ git status",
    "mcp": "list_projects",
    "search": "web_search query='ferry times'",
    "web": 'click("4")',
    "android": "click 3",
    "os": "pyautogui.click(100, 100)",
}
"""What is done in the first shipped world of each domain, to have a prompt."""
FEWEST, MOST = 5, 8
"""Prompts on which the models are compared."""
TYPES = ("float32", "bfloat16", "float16")

_Adapter = Annotated[Path, typer.Argument(metavar="ADAPTER", help="An adapter's folder, or that of its run.")]
_Out = Annotated[Path, typer.Argument(metavar="OUT", help="What to write; it must not be there yet.")]
_Base = Annotated[
    str | None, typer.Option(help="The base: a folder, a GGUF file, a hub's name, or embedded (by default as trained).")
]
_Prompts = Annotated[
    Path | None,
    typer.Option(metavar="TRAJ.jsonl", help="Compare on turns of these trajectories, not of the shipped worlds."),
]
_Offline = Annotated[bool, typer.Option("--offline", help="Never download.")]
_Json = Annotated[bool, typer.Option("--json", help="Report as JSON.")]


@app.command("gguf-lora")
def gguf_lora(
    adapter: _Adapter,
    out: _Out,
    base: _Base = None,
    prompts: _Prompts = None,
    offline: _Offline = False,
    as_json: _Json = False,
) -> None:
    """Write an adapter in GGUF for llama.cpp, and compare what it says there with what was trained."""
    train = _train()
    train.check_gguf_output(out)
    read = train.read_adapter(adapter)
    read.refuse_extras()
    where = _base(read, base, offline)
    if not where.is_file():
        raise InputError(f"{where} is no GGUF file, and llama.cpp runs no other: name the one to run with --base")
    with waiting("comparing"):
        trained, answers = _answered(read, str(where), prompts)
        longest = max(len(one.ids) for one in answers) + 1
        exported = train.export_gguf_lora(trained, out, where, answers, llama_cpp(where, longest))
    _show(exported, as_json)


@app.command("merged")
def merged(
    adapter: _Adapter,
    out: _Out,
    base: _Base = None,
    dtype: Annotated[str | None, typer.Option(help=f"The type of the weights: {', '.join(TYPES)}.")] = None,
    prompts: _Prompts = None,
    offline: _Offline = False,
    as_json: _Json = False,
) -> None:
    """Merge an adapter into its base: a folder that transformers and vLLM load."""
    if dtype not in (None, *TYPES):
        raise InputError(f"--dtype {dtype!r}: {nearest(str(dtype), TYPES)}")
    train = _train()
    train.refuse_output(out)
    read = train.read_adapter(adapter)
    where = str(_base(read, base, offline))
    with waiting("merging"):
        trained, answers = _answered(read, where, prompts)
        exported = train.export_merged(trained, out, train.TYPES[dtype] if dtype else train.own_type(where), answers)
    _show(exported, as_json)


@app.command("vllm")
def vllm(
    adapter: _Adapter,
    out: _Out,
    base: _Base = None,
    prompts: _Prompts = None,
    offline: _Offline = False,
    as_json: _Json = False,
) -> None:
    """Write an adapter's folder that vLLM serves beside the base."""
    train = _train()
    train.refuse_output(out)
    read = train.read_adapter(adapter)
    train.refuse_for_vllm(read)
    where = str(_base(read, base, offline))
    with waiting("comparing"):
        trained, answers = _answered(read, where, prompts)
        exported = train.export_vllm(trained, out, where, answers)
    _show(exported, as_json)


def _train() -> Any:
    try:
        from worldlm.train import export
    except ImportError as error:
        raise SetupError(f"exporting needs {error.name}; pip install 'worldlm[train]'") from error
    return export


def _base(adapter: Adapter, given: str | None, offline: bool) -> Path:
    """Where the base lies (or its name on a hub): as given, else as it was in training."""
    where = given or str(adapter.card.settings.get("base") or "")
    if where == "embedded":
        with transfer(lambda: note("The embedded model's weights are not here yet: fetching them, once.")) as progress:
            return weights.obtain(offline=offline, progress=progress)
    path = user_path(where)
    if not where or (where.startswith((".", "/", "~")) and not path.exists()):
        told = f"there is no base {given}" if given else f"the base {where or adapter.card.base} is not where it was"
        raise InputError(f"{told}: name its folder, its GGUF file, or its name on a hub with --base")
    return path


def _answered(adapter: Adapter, where: str, prompts: Path | None) -> tuple[Trained, list[Answer]]:
    """The trained model, and its answers to the prompts."""
    import torch

    from worldlm.train.base import load_base
    from worldlm.train.export import load_trained

    trained = load_trained(adapter, load_base(where, dtype=torch.float32))
    tokenizer, profile = trained.base.tokenizer, adapter.card.profile
    asked = _recorded(prompts, profile, tokenizer.count) if prompts else shipped_prompts(profile, tokenizer.count)
    return trained, trained.answers([tokenizer.apply(messages, prompt=True) for messages in asked])


def shipped_prompts(profile: Profile, count: Callable[[str], int]) -> list[Sequence[Message]]:
    """The shortest prompts of domains, each in its first shipped world. Raises InputError when too few fit."""
    found: list[Sequence[Message]] = []
    for name, line in LINES.items():
        world, domain = load_world(name), get_domain(name)
        with suppress(InputError):  # the world alone does not fit
            conversation = Conversation(domain, world, profile, domain.initial_observation(world), count)
            if messages := conversation.messages(domain.from_line(line, world)):
                found.append(messages)
    if len(found) < FEWEST:
        raise InputError(
            f"{len(found)} of the shipped worlds' prompts fit {profile.context} tokens, and {FEWEST} are wanted: name "
            "a file of shorter trajectories with --prompts"
        )
    return sorted(found, key=lambda messages: sum(count(message.content) for message in messages))[:FEWEST]


def _recorded(path: Path, profile: Profile, count: Callable[[str], int]) -> list[Sequence[Message]]:
    """Prompts of recorded turns, from all over the file."""
    found = [
        target.prompt
        for trajectory in read_trajectories(path).items
        for target in targets(trajectory, get_domain(trajectory.world.domain), profile, count)
        if target.prompt is not None
    ]
    if len(found) < FEWEST:
        raise InputError(f"{path} has {len(found)} turns to ask about, and {FEWEST} are wanted; give more, or none")
    return [found[at * len(found) // MOST] for at in range(MOST)] if len(found) > MOST else list(found)


def llama_cpp(base: Path, context: int) -> Engine:
    """Runs the base in llama.cpp, with an adapter or without."""

    @contextmanager
    def run(lora: Path | None) -> Iterator[Callable[[Sequence[int], int], Mapping[int, float]]]:
        model = EmbeddedModel(base, lora=lora, slots=1, context=context)
        try:
            yield model.likeliest
        finally:
            anyio.run(model.close)

    return run


def _show(exported: Exported, as_json: bool) -> None:
    if as_json:
        show_json({**asdict(exported), "path": str(exported.path)})
        return
    seen = exported.comparison
    show(f"{exported.path}: {exported.bytes / 1e6:.1f} MB, {exported.tensors} weights")
    show(
        f"compared with the trained model at {seen.places} places of {seen.prompts} prompts: the same likeliest token "
        f"at {seen.agreement:.1%}; log-probabilities differ by {seen.difference:.4f} nats; training moved them by "
        f"{seen.shift:.4f} and the two programs' arithmetic by {seen.arithmetic:.4f}"
    )
    for line in exported.notes:
        show(line)
