"""Before training: what a run will take, in memory, time, work and disk, from its own data and a few of its own steps.

Steps are tried on batches that stand for the epoch: the largest one for the memory, and one from the middle of each
tenth of the epoch for the speed. A step too large for the machine is refused from a small part of it, before it is
tried. For another machine the same work is divided by that machine's own matrix rate: a guess, and called one.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from qkv import native, runtime
from qkv.data.batch import Batch
from qkv.data.sampling import Position
from qkv.errors import ConfigError
from qkv.models.base import parameters
from qkv.train.loop import Trainer
from qkv.train.machine import OtherMachine, matrix_rate
from qkv.train.recipe import Recipe
from qkv.train.trial import trial

TRIALS = 10
SMALL = 8  # a first part of the largest batch, this many times smaller
ROOM = 0.95  # of the memory may be planned for


@dataclass(frozen=True)
class Memory:
    """Bytes: what each part of learning keeps, and the most the process is expected to hold."""

    process: int  # before the model: Python, PyTorch, the data's maps
    weights: int  # as they compute, and their fp32 masters
    gradients: int
    optimizer: int
    activations: int  # of the largest batch, with all that is only there for a moment
    peak: int
    available: int


@dataclass(frozen=True)
class Plan:
    """What a run will take."""

    parameters: int
    parts: dict[str, int]  # parameters by part of the model
    precision: str
    threads: int
    memory: Memory
    pairs: int
    batches: int  # an epoch
    tokens_a_step: float  # target tokens, padding apart
    padding: float
    flops_a_step: float
    flops_rate: float
    matrix_rate: float  # of the machine, in this precision
    tokens_per_second: float
    seconds_a_step: float
    seconds_a_validation: float
    seconds_a_save: float
    steps: int
    epochs: float
    minutes: float
    ends_by: str
    disk: dict[str, int]

    @property
    def share(self) -> float:
        """Of the machine's matrix rate."""
        return self.flops_rate / self.matrix_rate


def plan(recipe: Recipe, cache: Path, say: Callable[[str], None] = lambda text: None) -> Plan:
    """Tries a few steps of the run, in a folder that is gone afterwards."""
    recipe.check_end()
    data = recipe.data.build().prepare(cache, lambda progress: say(str(progress)))
    before = runtime.memory_held()
    with trial(recipe, data) as trainer:
        batches = _tried(trainer)
        say(f"trying {len(batches)} steps of {len(trainer.sampler.plan(0)):,}")
        available = runtime.this_machine().memory
        _refuse_too_large(trainer, batches[0], available)
        for _ in range(2):  # the second runs warm
            trainer.step(batches[0])
        taken = []
        for number, batch in enumerate(batches[1:], start=1):
            began = time.perf_counter()
            float(trainer.step(batch)["loss"])
            taken.append(time.perf_counter() - began)
            say(f"step {number} of {TRIALS}: {batch.counts['target_tokens'] / taken[-1]:,.0f} tokens/s")
        tokens = sum(batch.counts["target_tokens"] for batch in batches[1:])
        judging = _seconds(trainer.judged) if data.dev is not None else 0.0
        saving = _seconds(trainer.save)
        memory = _memory(trainer, before, available)
        work = flops(trainer, batches[len(batches) // 2])
        second = sum(taken) / len(taken)
        epoch = len(trainer.sampler.plan(0))
        steps, minutes, ends_by = _until(recipe, epoch, second, judging, saving, data.dev is not None)
        disk = _disk(trainer, steps, epoch)
        rate = matrix_rate(trainer.precision)
    return Plan(
        parameters=parameters(trainer.model),
        parts=by_part(trainer.model),
        precision=trainer.precision,
        threads=torch.get_num_threads(),
        memory=memory,
        pairs=data.counts["train"]["pairs"],
        batches=epoch,
        tokens_a_step=tokens / len(taken),
        padding=trainer.sampler.plan(0).padding,
        flops_a_step=work * tokens / len(taken),
        flops_rate=work * tokens / sum(taken),
        matrix_rate=rate,
        tokens_per_second=tokens / sum(taken),
        seconds_a_step=second,
        seconds_a_validation=judging,
        seconds_a_save=saving,
        steps=steps,
        epochs=steps / epoch,
        minutes=minutes,
        ends_by=ends_by,
        disk=disk,
    )


def elsewhere(made: Plan, machine: OtherMachine) -> Plan:
    """The same run on a machine known by its numbers: its matrix rate at the share that is reached here."""
    faster = machine.rate(made.precision) / made.matrix_rate
    return replace(
        made,
        memory=replace(made.memory, available=int(machine.memory_gb * 1e9)),
        flops_rate=made.flops_rate * faster,
        matrix_rate=made.matrix_rate * faster,
        tokens_per_second=made.tokens_per_second * faster,
        seconds_a_step=made.seconds_a_step / faster,
        seconds_a_validation=made.seconds_a_validation / faster,
        steps=made.steps if made.ends_by != "max_minutes" else int(made.steps * faster),
        epochs=made.epochs if made.ends_by != "max_minutes" else made.epochs * faster,
        minutes=made.minutes if made.ends_by == "max_minutes" else made.minutes / faster,
    )


def as_json(made: Plan) -> dict[str, Any]:
    """As plain values, with what follows from them."""
    return {**asdict(made), "share_of_matrix_rate": made.share}


def by_part(model: torch.nn.Module) -> dict[str, int]:
    """Parameters by the model's own first parts; a shared one counts where it stands first."""
    found: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        part = name.split(".")[0]
        found[part] = found.get(part, 0) + parameter.numel()
    return found


def flops(trainer: Trainer, batch: Batch) -> float:
    """Operations of a whole step for each target token, counted on the plain paths."""
    from torch.utils.flop_counter import FlopCounterMode

    with native.switched_off(), FlopCounterMode(display=False) as counter:
        losses = trainer.objective(batch.to(trainer.device), batch.counts, None)
        losses["loss"].backward()
    trainer.masters.collect()
    trainer.masters.clear()
    return counter.get_total_flops() / batch.counts["target_tokens"]


def _tried(trainer: Trainer) -> list[Batch]:
    """The largest batch of the first epoch, and one from the middle of each tenth of it by size."""
    planned = trainer.sampler.plan(0)
    lengths = list(trainer.data.train.lengths.values())
    cells = [sum(int(side[planned.batch(i)].max()) for side in lengths) * len(planned.batch(i)) for i in _some(planned)]
    ranked = [number for _, number in sorted(zip(cells, _some(planned), strict=True))]
    chosen = [ranked[-1], *(ranked[int((i + 0.5) * len(ranked) / TRIALS)] for i in range(TRIALS))]
    made = []
    for number in chosen:
        with trainer.data.feed(trainer.sampler, Position(0, number), trainer.recipe.train.seed) as feed:
            made.append(next(feed))
    return made


def _some(planned: Any) -> list[int]:
    """At most some thousand batches, evenly: an epoch may have millions."""
    step = max(1, len(planned) // 4096)
    return list(range(0, len(planned), step))


def _refuse_too_large(trainer: Trainer, batch: Batch, available: int) -> None:
    """From a small part of the largest step, what all of it would take."""
    parts = trainer.recipe.train.parts
    if batch.rows < 2 * SMALL * parts:
        return
    small = batch.divided(SMALL * parts)[0]
    before = runtime.memory_held(forget_peak=True)
    trainer.step(small)
    grown = max(0, runtime.peak_memory() - before)
    needed = before + grown * SMALL
    if needed > ROOM * available:
        fitting = math.ceil(parts * grown * SMALL / max(1, ROOM * available - before))
        remedy = f"train.parts {fitting} would fit" if before < ROOM * available else "choose a smaller model"
        raise ConfigError(
            f"a step of {trainer.recipe.train.max_tokens:,} tokens in {parts} part(s) would take some "
            f"{needed / 1e9:,.1f} GB, and this machine has {available / 1e9:,.1f} GB; {remedy}"
        )


def _memory(trainer: Trainer, before: int, available: int) -> Memory:
    def size(tensors: Mapping[str, torch.Tensor]) -> int:
        return sum(t.numel() * t.element_size() for t in tensors.values())

    masters = size(trainer.masters.tensors())
    narrow = sum(p.numel() * p.element_size() for p in trainer.model.parameters())
    weights = masters + (narrow if trainer.precision == "bf16" else 0)
    optimizer = size(trainer.tensors().get("optimizer", {}))
    kept = weights + masters + optimizer
    peak = runtime.peak_memory()
    process = min(before, peak - kept)  # some of what the process held before may have gone since
    return Memory(process, weights, masters, optimizer, peak - process - kept, peak, available)


def _disk(trainer: Trainer, steps: int, epoch: int) -> dict[str, int]:
    """Bytes at the run's end, which keeps fewer checkpoints than it may when it is short."""
    train = trainer.recipe.train
    looks = math.ceil(steps / (train.validate_every or epoch)) if trainer.data.dev is not None else 0
    saves = looks + steps // train.save_every + (not looks)
    checkpoint = sum(path.stat().st_size for path in (trainer.folder / "checkpoints").rglob("*") if path.is_file())
    weights = sum(t.numel() * t.element_size() for t in trainer.masters.tensors().values())
    prepared = sum(path.stat().st_size for path in trainer.data.prepared.folder.rglob("*") if path.is_file())
    return {
        "prepared": prepared,
        "checkpoints": checkpoint * min(train.keep + 1, saves),  # the best one is kept too
        "snapshots": weights * min(train.average + 2, looks) if train.average > 1 else 0,
        "model": weights,
    }


def _until(recipe: Recipe, epoch: int, step: float, judging: float, saving: float, dev: bool) -> tuple[int, float, str]:
    """Steps, minutes, and the limit that ends the run; patience may end it earlier."""
    train = recipe.train
    between = train.validate_every or epoch
    whole = step + ((judging + saving) / between if dev else 0.0) + saving / train.save_every
    ends = {
        "max_steps": train.max_steps or math.inf,
        "max_epochs": (train.max_epochs or math.inf) * epoch,
        "max_minutes": math.inf if train.max_minutes is None else 60 * train.max_minutes / whole,
    }
    first = min(ends, key=lambda name: ends[name])
    steps = max(1, math.ceil(ends[first]))
    return steps, steps * whole / 60, first


def _seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began
