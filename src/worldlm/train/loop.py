"""The one loop that takes the steps of a run, on one process or many.

TRL's trainers are not used here, because they hide what must be exact: how targets are counted over processes and
accumulated batches, in which order rows come, which tokens get logits, and with what a stopped run goes on. Beneath is
what they stand on as well, `accelerate`: processes and sharding (DDP, FSDP2) come from its configuration.
"""

import math
import random
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator, DistributedType
from peft import get_peft_model_state_dict

from worldlm.core.errors import InputError, WorldlmError
from worldlm.core.text import canonical_json, digest
from worldlm.core.types import Profile
from worldlm.domains import prompt_hashes
from worldlm.train import checkpoint
from worldlm.train.base import Base, trained
from worldlm.train.batches import Batch, Step, batch_of, micro_batches, plan
from worldlm.train.checkpoint import AdapterCard, State
from worldlm.train.events import Emit, Event, Kind
from worldlm.train.examples import TrainingSet, ask
from worldlm.train.loss import TargetLoss, check_head, check_packing, router_weight
from worldlm.train.settings import Batches, Run, Schedule

PROMPTS = 2
"""Rows of which the first answer is generated after each save."""
LONGEST_PROMPT = 1024
"""Tokens of such a row's prompt, if there are shorter ones."""
STUCK = 16
"""Tokens of an answer from which on it may not be one token only."""


@dataclass(frozen=True, slots=True)
class Job:
    """All that a run needs, in memory."""

    run: Run
    profile: Profile
    base: Base
    model: Any
    """The base with its adapter, a `peft.PeftModel`."""
    rows: TrainingSet
    validation: TrainingSet | None
    files: dict[str, str]
    """Hex SHA-256 of each file of data."""
    out: Path
    """The run's folder: `checkpoints/last`, `checkpoints/best` and, at the end, `adapter` are written there."""

    def card(self, step: int) -> AdapterCard:
        """What the adapter is for, after `step` steps."""
        settings = self.run.model_dump(mode="json", by_alias=True)
        return AdapterCard(
            base=self.base.name,
            base_digest=self.base.digest,
            profile=self.profile,
            prompts=prompt_hashes(self.profile),
            run=self.run.name,
            stage=self.run.stage,
            step=step,
            domains=tuple(name for name in self.rows.domains if name not in self.rows.texts),
            settings=settings,
            settings_digest=digest(canonical_json(settings)),
            version=metadata.version("worldlm"),
        )


@dataclass(frozen=True, slots=True)
class Result:
    """How a run, or a slice of one, ended."""

    why: str
    """`finished`, `minutes` or `signal`."""
    step: int
    steps: int
    best: float | None
    """The lowest validation loss."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends a slice before its run is done."""

    minutes: float | None = None
    signalled: Callable[[], bool] = lambda: False
    """Asked after each step."""


def train(job: Job, emit: Emit, *, resume: bool = False, limits: Limits | None = None) -> Result:
    """Take the steps of a run from the first, or from where its last checkpoint is; save, and say what happens.

    Raises InputError before the first step for settings that cannot work, and when a run does not go on as it began;
    WorldlmError when a checkpoint cannot be written, when too many steps in a row are not finite, or when the model
    no longer speaks.
    """
    return _Training(job, emit, limits or Limits()).go(resume)


def learning_rate(schedule: Schedule, step: int, steps: int) -> float:
    """The part of the highest rate at a step (from 0) of all."""
    rising = round(schedule.warmup * steps)
    if step < rising:
        return (step + 1) / (rising + 1)
    done = (step - rising) / max(1, steps - rising)
    left = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}[schedule.kind]
    return left if schedule.kind == "constant" else schedule.floor + (1 - schedule.floor) * left


def slowdown(size: int = 512) -> float:
    """How many times longer a product of matrices takes on this processor in bfloat16 than in float32."""
    taken = []
    for dtype in (torch.float32, torch.bfloat16):
        matrix = torch.ones(size, size, dtype=dtype)
        times = []
        for _ in range(3):
            started = time.perf_counter()
            torch.mm(matrix, matrix)
            times.append(time.perf_counter() - started)
        taken.append(min(times))
    return taken[1] / taken[0]


class _Training:
    def __init__(self, job: Job, emit: Emit, limits: Limits):
        self.job, self.run, self.limits = job, job.run, limits
        self.tell = emit
        self.started = time.monotonic()
        self.accelerator = Accelerator(cpu=not torch.cuda.is_available())
        self.processes = self.accelerator.num_processes
        self.router = router_weight(job.base.model, self.run.router_weight)
        flash = self.run.batches.packing == "flash"
        bfloat16 = self.run.precision == "bfloat16"
        module = TargetLoss(job.model, reduced=bfloat16, router=self.router > 0, flash=flash)
        if self.run.checkpointing:
            job.base.model.activation_checkpointing_enable({"use_reentrant": False})
        # DDP and FSDP2 go through the module's own forward, so it is the loss that is prepared and not the model.
        self.optimiser: torch.optim.Optimizer = torch.optim.AdamW(
            trained(module).values(),
            lr=self.run.optimiser.learning_rate,
            betas=self.run.optimiser.betas,
            eps=self.run.optimiser.epsilon,
            weight_decay=self.run.optimiser.weight_decay,
        )
        self.module, prepared = self.accelerator.prepare(module, self.optimiser)
        self.optimiser = prepared.optimizer
        self.inner: TargetLoss = self.accelerator.unwrap_model(self.module)
        self.parameters = trained(self.inner)
        self.steps = plan(job.rows, self.run)
        self.step = self.updates = self.tokens = self.targets = self.skipped = 0
        self.before = 0.0
        self.last = job.out / "checkpoints" / "last"
        self.best: float | None = None
        self.best_step: int | None = None

    # The run, from top to bottom.

    def go(self, resume: bool) -> Result:
        self.check()
        then = self.resume() if resume else None
        self.start(then)
        if then is None:
            self.validate()
        why = "finished"
        while self.step < len(self.steps):
            stop = self.take(self.steps[self.step])
            done = self.step == len(self.steps)
            if done or self.step % self.run.every.validate_ == 0:
                self.validate()
            if done or stop is not None or self.step % self.run.every.save == 0:
                self.save(self.last)
                self.sample()
            if stop is not None and not done:
                why = stop
                break
        else:
            self.finish()
        self.emit("end", self._totals(), {"why": why})
        return Result(why, self.step, len(self.steps), self.best)

    def check(self) -> None:
        """Refuse what cannot work, before the first step."""
        run, rows = self.run, self.job.rows
        if run.batches.micro_batches % self.processes:
            raise InputError(
                f"batches.micro_batches is {run.batches.micro_batches}, and {self.processes} processes cannot share "
                "that evenly; make it a multiple of them"
            )
        vocabulary = self.inner.causal.get_input_embeddings().num_embeddings
        if int(rows.ids.max()) >= vocabulary:
            raise InputError(
                f"the tokenizer has ids up to {int(rows.ids.max())}, and the base only {vocabulary} of them"
            )
        self.inner.eval()
        if self.accelerator.distributed_type != DistributedType.FSDP:  # sharded parts cannot be asked by themselves
            check_head(self.inner, rows[0])
        if run.batches.packing != "none" and len(rows) > 1:
            first, second = np.argsort(rows.lengths)[:2]
            check_packing(self.inner, rows[int(first)], rows[int(second)])

    def start(self, then: State | None) -> None:
        rows = self.job.rows
        figures = {
            "steps": len(self.steps),
            "processes": self.processes,
            "parameters": sum(parameter.numel() for parameter in self.inner.parameters()),
            "trained_parameters": sum(parameter.numel() for parameter in self.parameters.values()),
            "planned_tokens": sum(step.tokens for step in self.steps),
            **rows.figures(),
            **{f"unfit/{why}": count for why, count in rows.unfit.items()},
            **{f"left_out/{why}": count for why, count in rows.left_out.items()},
        }
        self.emit("start", figures, {"run": self.run.name, "stage": self.run.stage, "base": self.job.base.name})
        if self.run.precision == "bfloat16" and self.accelerator.device.type == "cpu" and (times := slowdown()) > 2:
            slow = f"this processor multiplies bfloat16 {times:.0f} times slower than float32"
            self.emit("warning", {}, {"what": f"{slow}; with precision: float32 the run is faster"})
        if then is None:
            return
        self.emit("resume", {"step": self.step}, {"from": str(self.last)})
        if then.version != (now := self.state().version):
            self.emit("warning", {}, {"what": f"the run began with {then.version} and goes on with {now}"})

    def take(self, step: Step) -> str | None:
        """One step; why to stop after it, if so."""
        began = time.monotonic()
        rate = self.run.optimiser.learning_rate * learning_rate(self.run.schedule, self.step, len(self.steps))
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.module.train()
        own = step.share(self.accelerator.process_index, self.processes)
        loss = torch.zeros((), device=self.accelerator.device)
        router = torch.zeros((), device=self.accelerator.device)
        for number, rows in enumerate(own):
            # What dropout draws hangs on the place in the run alone.
            place = number * self.processes + self.accelerator.process_index
            torch.manual_seed(hash((self.run.seed, self.step, place)) % 2**63)
            last = number == len(own) - 1
            with self.accelerator.no_sync(self.module) if not last else nullcontext():
                sums = self.module(self.batch(rows or step.micro_batches[0], blank=not rows))
                # The processes' gradients are averaged, so each is worth as many as there are.
                whole = sums.loss / step.targets
                if sums.router is not None and rows:
                    whole = whole + self.router * sums.router / len(step.micro_batches)
                    router += sums.router.detach() / len(step.micro_batches)
                self.accelerator.backward(whole * self.processes)
            loss += sums.loss.detach() / step.targets
        norm = self.accelerator.clip_grad_norm_(list(self.parameters.values()), self.run.optimiser.clip)
        norm = float(checkpoint.whole(norm))
        loss_now, router_now, stop = self.agree(float(loss), float(router))
        self.step += 1
        self.tokens += step.tokens
        self.targets += step.targets
        if math.isfinite(loss_now) and math.isfinite(norm):
            self.optimiser.step()
            self.updates += 1
            self.skipped = 0
            figures = {
                "loss": loss_now,
                "gradient_norm": norm,
                "learning_rate": rate,
                "epoch": step.epoch,
                "step_tokens": step.tokens,
                "step_targets": step.targets,
                "tokens_per_second": step.tokens / (time.monotonic() - began),
                "memory_mib": _memory(),
            }
            self.emit("step", figures | ({"router_loss": router_now} if self.router else {}))
        else:
            self.skip(loss_now, norm)
        self.optimiser.zero_grad()
        return stop

    def skip(self, loss: float, norm: float) -> None:
        """A step that is not finite changes nothing; too many in a row are an error."""
        self.skipped += 1
        why = f"the loss is {loss}" if not math.isfinite(loss) else f"the gradient's norm is {norm}"
        self.emit("skip", {"in_a_row": self.skipped}, {"why": why})
        if self.skipped >= self.run.optimiser.skips:
            raise WorldlmError(
                f"step {self.step}: {why}, as in {self.skipped} steps in a row; lower optimiser.learning_rate, or look "
                "at the data. What was saved before stays"
            )

    def agree(self, loss: float, router: float) -> tuple[float, float, str | None]:
        """The sums over all processes, and whether any of them has to stop."""
        minutes = self.limits.minutes
        late = minutes is not None and time.monotonic() - self.started >= 60 * minutes
        mine = torch.tensor([loss, router, float(late), float(self.limits.signalled())], dtype=torch.float64)
        total = self.accelerator.reduce(mine.to(self.accelerator.device), "sum").tolist()
        return total[0], total[1], "signal" if total[3] else "minutes" if total[2] else None

    # Looking.

    @torch.no_grad()
    def validate(self) -> None:
        """The loss by domain, and whether it is the best so far; the best adapter is kept."""
        held = self.job.validation
        if held is None:
            return
        self.module.eval()
        shape = Batches(tokens=self.run.batches.tokens, packing=self.run.batches.packing)
        losses = {}
        counts = {}
        lengths, targets = held.lengths, held.trained
        for number, domain in enumerate(held.domains):
            rows = [row for row in range(len(held)) if held.domain[row] == number]
            parts = micro_batches(rows, lengths, shape, "validation")
            whole = Step(0, tuple(parts), int(lengths[rows].sum()), int(targets[rows].sum()))
            total = torch.zeros((), dtype=torch.float64, device=self.accelerator.device)
            for part in whole.share(self.accelerator.process_index, self.processes):
                total += self.module(self.batch(part or parts[0], blank=not part, of=held)).loss
            losses[domain] = float(self.accelerator.reduce(total, "sum")) / whole.targets
            counts[domain] = whole.targets
        mean = sum(losses.values()) / len(losses)
        if not math.isfinite(mean):
            raise WorldlmError(f"step {self.step}: the validation loss is {mean}; what was saved before stays")
        best = self.best is None or mean < self.best
        figures = {"loss": mean, "best": int(best)}
        figures |= {f"loss/{name}": loss for name, loss in losses.items()}
        self.emit("validation", figures | {f"targets/{name}": count for name, count in counts.items()})
        if best:
            self.best, self.best_step = mean, self.step
            if self.updates:
                self.save(self.job.out / "checkpoints" / "best", whole=False)

    @torch.no_grad()
    def sample(self) -> None:
        """What the model answers to a few prompts. Raises WorldlmError when it says one token only."""
        self.inner.eval()
        if hasattr(self.module, "unshard"):
            self.module.unshard()  # what lies outside of the layers, head and all
        stuck = 0
        prompts = list(_prompts(self.job.validation or self.job.rows))
        for prompt, expected in prompts:
            ids, entropy = self.generate(prompt)
            end = self.job.base.tokenizer.end_of_turn
            ended = bool(ids) and ids[-1] == end
            distinct = len(set(ids)) / max(1, len(ids))
            figures = {"entropy": entropy, "distinct": distinct, "ended": int(ended), "generated": len(ids)}
            decode = self.job.base.tokenizer.decode
            texts = {"prompt": decode(prompt[-200:]), "expected": decode(expected), "text": decode(ids)}
            self.emit("sample", figures, texts)
            one = len(ids) >= STUCK and len(set(ids)) == 1 and len(set(expected)) > 1
            stuck += one
            if one or (len(ids) >= 32 and distinct < 0.1):
                self.emit("warning", {}, {"what": f"the model repeats itself: {decode(ids)[:60]!r}"})
        if prompts and stuck == len(prompts):
            raise WorldlmError(
                f"step {self.step}: the model says one token only; lower optimiser.learning_rate, and go on from a "
                "checkpoint before this one (checkpoints/best)"
            )

    def generate(self, prompt: Sequence[int]) -> tuple[list[int], float]:
        """The likeliest continuation up to the end of the turn, and the mean entropy of its tokens, in nats."""
        model = self.inner.causal
        device = self.accelerator.device
        ids, cache, given = [], None, torch.tensor([list(prompt)], device=device)
        entropies = []
        with self.inner.autocast():
            for _ in range(self.run.every.sample_tokens):
                out = model(input_ids=given, cache=cache, use_cache=True, logits_to_keep=1)
                cache, chances = out.cache, out.logits[0, -1].float().log_softmax(-1)
                entropies.append(float(-(chances.exp() * chances).nansum()))
                ids.append(int(chances.argmax()))
                if ids[-1] == self.job.base.tokenizer.end_of_turn:
                    break
                given = torch.tensor([[ids[-1]]], device=device)
        return ids, sum(entropies) / len(entropies)

    # Keeping.

    def save(self, folder: Path, *, whole: bool = True) -> None:
        """Write a checkpoint, or without `whole` an adapter alone."""
        tensors = {
            name: checkpoint.whole(tensor).float()
            for name, tensor in get_peft_model_state_dict(self.inner.model, save_embedding_layers=False).items()
        }
        moments = None
        if whole:
            checkpoint.round_moments(self.optimiser)
            moments = checkpoint.moments(self.optimiser, self.parameters)
        failure, size = None, 0
        if self.accelerator.is_main_process:
            try:
                size = checkpoint.write(
                    folder,
                    tensors,
                    _for_others(self.inner.model.peft_config["default"], self.job.base.name),
                    self.job.card(self.step),
                    self.state() if whole else None,
                    moments,
                )
            except WorldlmError as error:
                failure = error
        told = torch.tensor(float(failure is not None), device=self.accelerator.device)
        if float(self.accelerator.reduce(told, "sum")):
            raise failure or WorldlmError("the first process could not save")
        if self.accelerator.is_main_process:
            self.emit("save", {"bytes": size}, {"path": str(folder)})

    def state(self) -> State:
        versions = {name: metadata.version(name) for name in ("worldlm", "torch", "transformers", "peft")}
        return State(
            step=self.step,
            updates=self.updates,
            tokens=self.tokens,
            targets=self.targets,
            seconds=self.before + time.monotonic() - self.started,
            best=self.best,
            best_step=self.best_step,
            settings=self.run.model_dump(mode="json", by_alias=True),
            files=self.job.files,
            rows=self.job.rows.digest,
            base_digest=self.job.base.digest,
            version=" ".join(f"{name}={version}" for name, version in versions.items()),
            seed=self.run.seed,
        )

    def resume(self) -> State:
        """Go on from the last checkpoint. Raises InputError with all that is not as it was."""
        folder = self.last
        checkpoint.recover(folder)
        then, now = checkpoint.read_state(folder), self.state()
        if changed := checkpoint.differences(then, now):
            raise InputError(f"{folder} cannot go on: {'; '.join(changed)}. Start a run in another folder")
        held = checkpoint.read_tensors(folder / checkpoint.ADAPTER)
        own = get_peft_model_state_dict(self.inner.model, save_embedding_layers=False)
        if set(own) != set(held):
            raise InputError(f"{folder} holds an adapter of other layers; it is of another base")
        for name, tensor in own.items():
            checkpoint.fill(tensor, held[name])
        moments = checkpoint.read_tensors(folder / checkpoint.OPTIMISER)
        checkpoint.restore_moments(self.optimiser, self.parameters, moments, then.updates)
        self.step, self.updates, self.tokens, self.targets = then.step, then.updates, then.tokens, then.targets
        self.best, self.best_step, self.before = then.best, then.best_step, then.seconds
        return then

    def finish(self) -> None:
        """The adapter of a finished run: the best one where that was measured, else the last."""
        best = self.job.out / "checkpoints" / "best"
        place = self.job.out / "adapter"
        if self.best_step == self.step or self.best is None or not self.best_step:
            self.save(place, whole=False)
            return
        if self.accelerator.is_main_process:
            card = checkpoint.read_card(best)
            tensors = checkpoint.read_tensors(best / checkpoint.ADAPTER)
            config = _for_others(self.inner.model.peft_config["default"], self.job.base.name)
            size = checkpoint.write(place, tensors, config, card)
            self.emit("save", {"bytes": size}, {"path": str(place)})
        self.accelerator.wait_for_everyone()

    # Small things.

    def batch(self, rows: Sequence[int], *, blank: bool = False, of: TrainingSet | None = None) -> Batch:
        held = self.job.rows if of is None else of
        made = batch_of([held[row] for row in rows], packed=self.run.batches.packing != "none")
        return (made.blank() if blank else made).to(self.accelerator.device)

    def emit(self, kind: Kind, figures: dict[str, float], texts: dict[str, str] | None = None) -> None:
        if self.accelerator.is_main_process:
            self.tell(
                Event(
                    kind=kind,
                    time=time.time(),
                    step=self.step,
                    steps=len(self.steps),
                    tokens=self.tokens,
                    figures=figures,
                    texts=texts or {},
                )
            )

    def _totals(self) -> dict[str, float]:
        spent = time.monotonic() - self.started
        return {"steps": self.step, "tokens": self.tokens, "targets": self.targets, "seconds": spent}


def _prompts(rows: TrainingSet) -> Iterator[tuple[list[int], list[int]]]:
    """Prompts of trajectories, short ones if there are, with what should follow; texts have no prompt to speak of."""
    numbers = [row for row in range(len(rows)) if rows.domains[rows.domain[row]] not in rows.texts]
    random.Random(0).shuffle(numbers)
    for row in sorted(numbers, key=lambda row: int(rows[row].mask.argmax()) > LONGEST_PROMPT)[:PROMPTS]:
        yield ask(rows[row])


def _for_others(config: Any, base: str) -> Any:
    """An adapter's configuration as it is written: for use, and without this machine's paths."""
    return type(config)(**{**config.to_dict(), "inference_mode": True, "base_model_name_or_path": base})


def _memory() -> float:
    """The most memory that was in use so far, MiB."""
    if torch.cuda.is_available():
        return float(torch.cuda.max_memory_allocated() / 2**20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


__all__ = ["Job", "Limits", "Result", "learning_rate", "slowdown", "train"]
