"""How a run ends and what it keeps: limits, patience, the best weights, no checkpoint of what has diverged."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.data.parallel import PreparedParallel
from qkv.errors import ConfigError, RunError
from qkv.tensors import read_tensors
from qkv.train import loop
from qkv.train.average import mean_of
from qkv.train.checkpoint import Checkpoints
from qkv.train.loop import Trainer
from qkv.train.run import Outcome, train
from qkv.train.validate import Verdict
from tests.torture import trainee


def trained(folder: Path, **settings: Any) -> Outcome:
    plain = {"ema": 0.0, "average": 0, "parts": 1, "max_tokens": 512, **settings}
    return train(trainee.recipe(folder, **plain), folder / "run", quiet=True)


def log(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text().splitlines()]


def test_max_epochs_ends_with_an_epoch(tmp_path: Path) -> None:
    ended = trained(tmp_path, max_epochs=2)
    assert (ended.finished, ended.why) == (True, "max_epochs 2")
    validated = [line["step"] for line in log(tmp_path) if "dev" in line and "candidate" not in line]
    assert validated == [ended.step // 2, ended.step], "once an epoch, and not again at the end"


def test_max_minutes_counts_over_all_sittings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def monotonic() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr(loop.time, "monotonic", monotonic)
    first = trained(tmp_path, max_minutes=0.2)
    assert (first.finished, first.why) == (True, "max_minutes 0.2")
    assert 0 < first.step < 12
    assert trained(tmp_path, max_minutes=0.2).step == first.step
    assert trained(tmp_path, max_minutes=0.5).step > first.step


def test_patience_ends_where_nothing_gets_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([5.0, 4.0, 4.5, 4.0, 9.0, 1.0])
    told: list[float] = []

    def judged(self: Trainer, weights: Any = None) -> Verdict:
        told.append(4.0 if weights is not None else next(values))
        return Verdict({"nll": told[-1]}, "nll", 0.0)

    monkeypatch.setattr(Trainer, "judged", judged)
    ended = trained(tmp_path, patience=3, max_steps=99, validate_every=1)
    assert (ended.step, ended.why) == (5, "no better nll in 3 validations")
    best = Checkpoints(tmp_path / "run" / "checkpoints").read(2, "weights")
    kept = read_tensors(tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(tensor, best[f"model.{name}"]) for name, tensor in kept.items())


def test_the_mean_is_kept_where_it_is_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = iter([3.0, 2.0, 1.0, 1.0, 0.5])  # three validations, then the best and the mean
    monkeypatch.setattr(Trainer, "judged", lambda self, weights=None: Verdict({"nll": next(verdicts)}, "nll", 0.0))
    ended = trained(tmp_path, max_steps=3, validate_every=1, average=2)
    snapshots = Checkpoints(tmp_path / "run" / "snapshots")
    mean = mean_of(snapshots.read(step, "weights") for step in (2, 3))
    kept = read_tensors(tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(tensor, mean[f"model.{name}"]) for name, tensor in kept.items())
    assert ended.scores == {"nll": 0.5}


def test_the_moving_average_is_what_validates_and_is_kept(tmp_path: Path) -> None:
    trained(tmp_path, max_steps=4, ema=0.5)
    saved = Checkpoints(tmp_path / "run" / "checkpoints").load()
    assert saved is not None
    kept = read_tensors(tmp_path / "run" / "model.safetensors")
    ema, weights = saved.tensors["ema"], saved.tensors["weights"]
    assert all(torch.equal(tensor, ema[f"model.{name}"]) for name, tensor in kept.items())
    assert not all(torch.equal(ema[name], weights[name]) for name in ema)


def test_a_diverged_run_keeps_its_last_good_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Trainer.step

    def step(self: Trainer, batch: Any) -> Any:
        losses = original(self, batch)
        if self.at.step + 1 == 3:
            losses["loss"] = losses["loss"] * float("nan")
        return losses

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "step", step)
        with pytest.raises(RunError, match=r"loss nan.* at step 3: the run has diverged"):
            trained(tmp_path, max_steps=9, save_every=1, validate_every=100)
    assert Checkpoints(tmp_path / "run" / "checkpoints").steps() == [1, 2]
    assert trained(tmp_path, max_steps=4, save_every=1, validate_every=100).step == 4


def test_weights_that_are_no_numbers_are_never_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Trainer.step

    def step(self: Trainer, batch: Any) -> Any:
        losses = original(self, batch)
        if self.at.step + 1 == 3:
            with torch.no_grad():
                next(iter(self.masters.parameters.values()))[0, 0] = float("inf")
        return losses

    monkeypatch.setattr(Trainer, "step", step)
    with pytest.raises(RunError, match=r"no longer finite at step 3.*; its last checkpoint stands"):
        trained(tmp_path, max_steps=9, save_every=1)
    assert Checkpoints(tmp_path / "run" / "checkpoints").steps() == [1, 2]


def test_a_held_out_sentence_too_long_for_a_batch_is_told_before_training(tmp_path: Path) -> None:
    trainee.tree(tmp_path)
    (tmp_path / "dev.tsv").write_text(f"{'abba ' * 80}\tab\n")
    with pytest.raises(ConfigError, match="max_tokens is 64, but the longest sample has"):
        trained(tmp_path, max_steps=1, max_tokens=64)
    assert not (tmp_path / "run" / "log.jsonl").exists()


@pytest.mark.parametrize("settings", [{"patience": 2}, {"average": 2}, {"metric": "bleu"}])
def test_what_needs_a_development_set_asks_for_it(tmp_path: Path, settings: dict[str, Any]) -> None:
    tree = trainee.tree(tmp_path, max_steps=1, **{"average": 0, **settings})
    tree["data"]["dev"] = None
    recipe = trainee.config.section(trainee.Recipe, tree)
    with pytest.raises(ConfigError, match=r"asks for validations .* but data\.dev is not set"):
        train(recipe, tmp_path / "run", quiet=True)


def test_without_a_development_set_the_last_weights_are_kept(tmp_path: Path) -> None:
    tree = trainee.tree(tmp_path, max_steps=2, average=0, ema=0.0)
    tree["data"]["dev"] = None
    assert train(trainee.config.section(trainee.Recipe, tree), tmp_path / "run", quiet=True).finished
    saved = Checkpoints(tmp_path / "run" / "checkpoints").load()
    kept = read_tensors(tmp_path / "run" / "model.safetensors")
    assert saved is not None
    assert all(torch.equal(tensor, saved.tensors["weights"][f"model.{name}"]) for name, tensor in kept.items())


def test_a_step_in_parts_is_the_step(tmp_path: Path) -> None:
    losses: dict[int, list[float]] = {1: [], 3: []}
    for parts in losses:
        recipe = trainee.recipe(tmp_path, max_steps=1, parts=parts, ema=0.0)
        with trainee.trainer_of(recipe, tmp_path / f"run-{parts}") as trainer:
            data: PreparedParallel = trainer.data
            trainer.objective.train()
            with data.feed(trainer.sampler, loop.Position(), 1) as feed:
                for _ in range(6):
                    losses[parts].append(float(trainer.step(next(feed))["loss"]))
                    trainer.at.step += 1
    assert losses[3] == pytest.approx(losses[1], rel=1e-4)
    assert len(set(losses[1])) == 6
