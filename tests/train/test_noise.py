"""Dropout in training: other numbers at each step, the same ones at the same step, none without noise."""

from pathlib import Path
from unittest.mock import patch

import torch

from qkv.random import Noise
from qkv.train.loop import Trainer
from tests.torture import trainee


def test_each_step_has_noise_of_its_own(tmp_path: Path) -> None:
    seen: list[tuple[int, int, list[int]]] = []
    original = Noise.__init__

    def noted(self: Noise, seed: int, step: int, samples: torch.Tensor, positions: object = None) -> None:
        seen.append((seed, step, samples.tolist()))
        original(self, seed, step, samples, positions)

    recipe = trainee.recipe(tmp_path, max_steps=9, seed=6, parts=2)
    with trainee.trainer_of(recipe, tmp_path / "run") as trainer, patch.object(Noise, "__init__", noted):
        steps = _stepped(trainer, 3)
    parts = [(seed, step) for seed, step, _ in seen]
    assert parts == [(6, 1), (6, 1), (6, 2), (6, 2), (6, 3), (6, 3)]
    assert [samples for _, _, samples in seen[::2]] == [batch[: len(batch) // 2] for batch in steps]


def _stepped(trainer: Trainer, count: int) -> list[list[int]]:
    """The samples of each step."""
    plan, samples = trainer.sampler.plan(0), []
    trainer.objective.train()
    with trainer.data.feed(trainer.sampler, trainee.Position(), 6) as feed:
        for _ in range(count):
            batch = next(feed)
            samples.append(batch.samples.tolist())
            trainer.step(batch)
            trainer.at.step += 1
    assert len(plan) > count
    return samples
