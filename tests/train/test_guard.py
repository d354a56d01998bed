"""Faults injected into a run: bad steps are skipped and told, bad stretches left behind, hopeless runs given up."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.errors import RunError
from qkv.train.checkpoint import Checkpoints
from qkv.train.guard import WARM, Guard, GuardSettings
from qkv.train.loop import Trainer
from tests.torture import trainee

NAN, INF = float("nan"), float("inf")


def guard(**settings: Any) -> Guard:
    return Guard(GuardSettings(**settings), torch.device("cpu"))


def judged(guard: Guard, *losses: float, norm: float = 1.0) -> list[float]:
    return [float(guard.judge(torch.tensor(loss), torch.tensor(norm))) for loss in losses]


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_what_is_no_number_is_bad_from_the_first_step(bad: float) -> None:
    assert judged(guard(), bad, 1.0, bad) == [1.0, 0.0, 1.0]
    assert judged(guard(), 1.0, norm=bad) == [1.0]
    of = guard()
    judged(of, bad)
    assert of.look() == (1, 1, "the loss is no number")
    judged(of, 1.0, norm=bad)
    assert of.look() == (1, 2, "the gradient is no number")


def test_a_spike_is_bad_once_the_usual_is_known() -> None:
    early = guard()
    assert judged(early, *[2.0] * (WARM - 1), 7.0) == [0.0] * WARM
    late = guard()
    assert judged(late, *[2.0] * WARM, 7.0, 5.0) == [0.0] * WARM + [1.0, 0.0]
    assert late.look().reason == "the loss is 3.5 times the usual"
    assert judged(guard(spike=0.0), *[2.0] * WARM, 700.0) == [0.0] * (WARM + 1)


def test_a_spike_does_not_become_usual() -> None:
    of = guard()
    judged(of, *[2.0] * WARM)
    assert judged(of, *[20.0] * 500) == [1.0] * 500
    assert of.look().streak == 500


def test_small_losses_may_treble() -> None:
    assert judged(guard(), *[0.001] * WARM, 0.2) == [0.0] * (WARM + 1)


def test_what_is_usual_follows_the_loss() -> None:
    of = guard()
    assert not any(judged(of, *(10 * 0.99**step for step in range(600))))
    assert judged(of, 1.0) == [1.0]


Harm = Callable[[Trainer, dict[str, Tensor]], dict[str, Tensor]]


def spoilt_loss(factor: float) -> Harm:
    def harm(trainer: Trainer, losses: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: value * factor for name, value in losses.items()}

    return harm


def spoilt_gradient(trainer: Trainer, losses: dict[str, Tensor]) -> dict[str, Tensor]:
    losses["loss"].register_hook(lambda gradient: gradient * INF)
    return losses


def ran(
    folder: Path, monkeypatch: pytest.MonkeyPatch, at: set[int], harm: Harm, settings: dict[str, Any], **train: Any
) -> tuple[Trainer, list[dict[str, Any]]]:
    """A run in which some steps are harmed; its trainer and its log."""
    from qkv.train.journal import Journal

    folder.mkdir(exist_ok=True)
    plain = {"average": 0, "ema": 0.0, "clip": 0.0, "parts": 1, "validate_every": 1000, "report_seconds": 0.0}
    tree = trainee.tree(folder, **{**plain, **train})
    tree["data"]["tokenizer"]["dropout"] = 0.0
    recipe = trainee.config.section(trainee.Recipe, {**tree, "guard": settings})
    with trainee.trainer_of(recipe, folder / "run") as trainer, monkeypatch.context() as patched:
        forward = type(trainer.objective).forward

        def patched_forward(self: Any, *given: Any) -> dict[str, Tensor]:
            losses: dict[str, Tensor] = forward(self, *given)
            return harm(trainer, losses) if self.training and trainer.at.step + 1 in at else losses

        patched.setattr(type(trainer.objective), "forward", patched_forward)
        with Journal(folder / "run", 0, every=0.0, tensorboard=False, quiet=True) as journal:
            trainer.run(journal)
    log = [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text().splitlines()]
    return trainer, log


def loss_of(trainer: Trainer) -> float:
    return trainer.judged().scores["nll"]


def test_single_faults_cost_next_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {25: spoilt_loss(NAN), 26: spoilt_gradient, 33: spoilt_loss(10.0), 90: spoilt_loss(INF)}
    reasons = {25: "the loss is no", 26: "the gradient is no", 33: "times the usual", 90: "the loss is no"}

    def harm(trainer: Trainer, losses: dict[str, Tensor]) -> dict[str, Tensor]:
        return kinds[trainer.at.step + 1](trainer, losses)

    clean, _ = ran(tmp_path / "clean", monkeypatch, set(), harm, {}, max_steps=200)
    found, log = ran(tmp_path / "harmed", monkeypatch, set(kinds), harm, {}, max_steps=200)
    assert loss_of(found) == pytest.approx(loss_of(clean), rel=0.02)
    told = {line["step"]: line for line in log if line.get("guard") == "skipped"}
    assert list(told) == list(kinds)
    assert all(reasons[step] in line["reason"] for step, line in told.items())
    assert [line["streak"] for line in told.values()] == [1, 2, 1, 1]
    assert found.at.returns == 0
    means = [line["loss"] for line in log if "loss" in line]
    assert all(torch.tensor(means).isfinite())


def test_a_step_that_is_skipped_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before: list[dict[str, Any]] = []

    def harm(trainer: Trainer, losses: dict[str, Tensor]) -> dict[str, Tensor]:
        kept = trainer.tensors()
        before.append({g: {n: t.clone() for n, t in kept[g].items()} for g in ("weights", "optimizer")})
        return spoilt_loss(NAN)(trainer, losses)

    trainer, _ = ran(tmp_path, monkeypatch, {5}, harm, {}, max_steps=5)
    after = trainer.tensors()
    assert trainee.same(before[0], {group: after[group] for group in before[0]})


def test_a_run_that_diverges_goes_back_and_on_more_slowly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"patience": 4, "slower": 0.5}
    faults = set(range(33, 37))
    trainer, log = ran(tmp_path, monkeypatch, faults, spoilt_loss(NAN), settings, max_steps=40, save_every=10)
    (back,) = [line for line in log if line.get("guard") == "returned"]
    assert (back["step"], back["to"], back["slowed"]) == (36, 30, 0.5)
    assert (trainer.at.returns, trainer.at.slowed, trainer.at.step) == (1, 0.5, 40)
    rates = {line["step"]: line["rate"] for line in log if "rate" in line}
    assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(0.5 * trainer.schedule.rate(40))
    assert len(rates) >= 8


def test_before_any_checkpoint_it_goes_back_to_the_first_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer, log = ran(tmp_path, monkeypatch, {3, 4}, spoilt_loss(NAN), {"patience": 2}, max_steps=4)
    (back,) = [line for line in log if line.get("guard") == "returned"]
    assert back["to"] == 0
    fresh, _ = ran(tmp_path / "other", monkeypatch, {1}, spoilt_loss(NAN), {}, max_steps=1)
    assert trainee.same({"weights": trainer.masters.tensors()}, {"weights": fresh.masters.tensors()})


def test_it_gives_up_in_one_sentence_and_the_last_checkpoint_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"patience": 2, "returns": 2}
    with pytest.raises(RunError, match=r"step 16: the loss is no number, 2 steps in a row, after 2 returns") as told:
        ran(tmp_path, monkeypatch, set(range(11, 99)), spoilt_loss(NAN), settings, max_steps=99, save_every=5)
    assert "lower the learning rate" in str(told.value)
    saved = Checkpoints(tmp_path / "run" / "checkpoints").load()
    assert saved is not None
    assert all(tensor.isfinite().all() for tensor in saved.tensors["weights"].values())


def test_what_the_guard_knows_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, _ = ran(tmp_path, monkeypatch, {7}, spoilt_loss(NAN), {}, max_steps=30)
    with trainee.trainer_of(trainer.recipe, tmp_path / "run") as again:
        assert again.resume(lambda note: None)
        assert torch.equal(again.guard.state, trainer.guard.state)
        assert again.guard.look().skipped == 0
        assert int(again.guard.state[2]) == 1
