"""Row 4: stop at step k and go on, against a run that is not stopped: the same to the bit."""

import os
import random
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from qkv.data.batch import Batch
from qkv.train.checkpoint import Checkpoints
from qkv.train.loop import Trainer
from qkv.train.run import train
from tests.torture.row import Result
from tests.torture.trainee import recipe, same

TITLE = "stop at step k and resume, against an uninterrupted run"
TARGET = "bit-identical weights, optimizer, RNG, next batch"
COUNT = 20
LAST = 40  # steps; an epoch has five


def run(count: int = COUNT, seed: int = 0) -> Result:
    """Half of the stops in fp32, half in bf16."""
    result, chance = Result(), random.Random(seed)
    steps = chance.sample(range(1, LAST), count) if count < LAST else list(range(1, LAST))
    with tempfile.TemporaryDirectory(prefix="torture-") as name:
        for number, precision in enumerate(("fp32", "bf16")):
            stop_and_go_on(result, Path(name), precision, sorted(steps[number::2]))
    result.notes.append(f"of {LAST} steps, half in fp32 and half in bf16; dropout, BPE dropout, averages and parts on")
    return result


def stop_and_go_on(result: Result, root: Path, precision: str, steps: list[int], last: int = LAST) -> None:
    """One run through to `last`, and one for each step that is stopped there by a signal and started again."""
    whole = recipe(root, precision=precision, max_steps=last, validate_every=5, save_every=4)
    with recorded() as batches:
        train(whole, root / precision, quiet=True)
    for step in steps:
        result.trials += 1
        where, folder = f"{precision}, stopped at step {step}", root / f"{precision}-{step}"
        with recorded(stop_at=step) as before:
            stopped = train(whole, folder, quiet=True)
        result.expect(not stopped.finished and stopped.step == step, f"{where}: went on to {stopped.step}")
        torch.manual_seed(step)  # another process knows nothing of this one's generator
        with recorded() as after:
            ended = train(whole, folder, quiet=True)
        result.expect(ended.finished, f"{where}: did not come to its end: {ended.why}")
        result.expect(after[:1] == batches[step : step + 1], f"{where}: another next batch")
        result.expect(before + after == batches, f"{where}: other batches later")
        for fault in differing(root / precision, folder, last):
            result.expect(False, f"{where}: {fault}")


def differing(one: Path, other: Path, step: int) -> Iterator[str]:
    """What is not equal to the bit between the last checkpoints and the models of two runs."""
    left, right = (Checkpoints(folder / "checkpoints").load(step) for folder in (one, other))
    assert left is not None and right is not None
    if not same(left.tensors, right.tensors):
        yield "other weights, averages or optimizer"
    if not torch.equal(left.tensors["random"]["torch"], right.tensors["random"]["torch"]):
        yield "another state of the random numbers"
    if _but_time(left.state) != _but_time(right.state):
        yield f"at {right.state}, not {left.state}"
    if (one / "model.safetensors").read_bytes() != (other / "model.safetensors").read_bytes():
        yield "another model was kept"


def _but_time(state: dict[str, Any]) -> dict[str, Any]:
    return {**state, "progress": {k: v for k, v in state["progress"].items() if k != "elapsed"}}


@contextmanager
def recorded(stop_at: int | None = None) -> Iterator[list[list[list[int]]]]:
    """The ids of every batch trained on; SIGTERM comes in the middle of step `stop_at`."""
    batches: list[list[list[int]]] = []
    original = Trainer.step

    def step(self: Trainer, batch: Batch) -> dict[str, torch.Tensor]:
        assert batch.source is not None
        batches.append([batch.samples.tolist(), *batch.source.ids.tolist()])
        if self.at.step + 1 == stop_at:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self, batch)

    with patch.object(Trainer, "step", step):
        yield batches
