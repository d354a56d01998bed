"""NaN, infinity and spikes in the loss or the gradient of a run: nothing learned from them, all told, little lost."""

import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qkv.objectives.seq2seq import Seq2Seq
from qkv.train.journal import Journal
from tests.torture import trainee
from tests.torture.row import Result

TITLE = "NaN, infinity, a tenfold spike: in loss or gradient, alone, in rows, for good"
TARGET = "weights never non-finite, each told, returned to good ones, within 2% of the clean loss or given up clearly"
COUNT = 40
STEPS, FIRST = 200, 22


def _scaled(factor: float) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda losses: {name: value * factor for name, value in losses.items()}


def _gradient(factor: float) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    def harm(losses: dict[str, Tensor]) -> dict[str, Tensor]:
        losses["loss"].register_hook(lambda gradient: gradient * factor)
        return losses

    return harm


HARMS = {
    "a loss of NaN": _scaled(float("nan")),
    "an infinite loss": _scaled(float("inf")),
    "a gradient of NaN": _gradient(float("nan")),
    "an infinite gradient": _gradient(float("inf")),
    "a tenfold loss": _scaled(10.0),
}


def run(count: int = COUNT, seed: int = 0) -> Result:
    chance, result = random.Random(seed), Result()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clean, _ = _trained(folder, "clean", set(), HARMS["a loss of NaN"])
        for trial in range(count):
            what = list(HARMS)[trial % len(HARMS)]
            # Single steps, and now and then a stretch as long as the guard's patience: a return.
            steps = set(chance.sample(range(FIRST, STEPS), 3))
            if long := trial % 4 == 3:
                first = chance.randrange(FIRST, STEPS - 20)
                steps = set(range(first, first + 5))
            loss, log = _trained(folder, f"run-{trial}", steps, HARMS[what])
            result.trials += 1
            where = f"trial {trial}, {what} at {sorted(steps)}"
            told = {line["step"] for line in log if line.get("guard") == "skipped"}
            result.expect(told == steps, f"{where}: told of {sorted(told)}")
            returned = sum(line.get("guard") == "returned" for line in log)
            result.expect(returned == int(long), f"{where}: {returned} returns")
            result.expect(bool(torch.tensor(loss).isfinite()), f"{where}: the weights are not finite")
            within = 0.1 if long else 0.02  # a return gives up to ten steps away, and half the rate
            result.expect(abs(loss / clean - 1) <= within, f"{where}: loss {loss:.4f}, clean {clean:.4f}")
    return result


def _trained(folder: Path, name: str, steps: set[int], harm: Callable[..., Any]) -> tuple[float, list[dict[str, Any]]]:
    """The development set's loss after a run in which some steps were harmed, and the run's log."""
    tree = trainee.tree(folder, max_steps=STEPS, save_every=10, validate_every=1000, average=0, ema=0.0, parts=1)
    tree["data"]["tokenizer"]["dropout"] = 0.0
    recipe = trainee.config.section(trainee.Recipe, {**tree, "guard": {"patience": 5}})
    forward = Seq2Seq.forward
    with trainee.trainer_of(recipe, folder / name) as trainer:

        def harmed(self: Seq2Seq, *given: Any) -> dict[str, Tensor]:
            losses: dict[str, Tensor] = forward(self, *given)
            return harm(losses) if self.training and trainer.at.step + 1 in steps else losses

        Seq2Seq.forward = harmed  # type: ignore[method-assign]
        try:
            with Journal(folder / name, 0, every=0.0, tensorboard=False, quiet=True) as journal:
                trainer.run(journal)
        finally:
            Seq2Seq.forward = forward  # type: ignore[method-assign]
        loss = trainer.judged().scores["nll"]
    log = [json.loads(line) for line in (folder / name / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return loss, log
