"""Stopped and started again, a run is the one that was never stopped, to the bit: rows 1 and 4, reduced."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from qkv.errors import BundleError, ConfigError, RunError
from qkv.folder import read_json, write_json
from qkv.lock import FolderLock
from qkv.train.checkpoint import Checkpoints
from qkv.train.loop import Trainer
from qkv.train.run import train
from tests.torture import row_01, row_04, trainee
from tests.torture.row import Result


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that the kernel has, so these tests need not wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


# Epochs end and validations are at 5 and 10, saves at 4 and 8.
@pytest.mark.parametrize(("precision", "steps"), [("fp32", [2, 5, 8]), ("bf16", [1, 4, 7])])
def test_stop_at_step_k_and_go_on(tmp_path: Path, precision: str, steps: list[int]) -> None:
    result = Result()
    row_04.stop_and_go_on(result, tmp_path, precision, steps, last=10)
    assert result.trials == 3
    assert result.misses == []


def test_a_stop_that_forgets_something_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Trainer.tensors
    monkeypatch.setattr(
        Trainer,
        "tensors",
        lambda self: {k: v for k, v in original(self).items() if self.at.step != 4 or k != "optimizer"},
    )
    result = Result()
    row_04.stop_and_go_on(result, tmp_path, "fp32", [4], last=8)
    assert "fp32, stopped at step 4: other weights, averages or optimizer" in result.misses


def test_kill_nine_of_the_command() -> None:
    result = row_01.kill_training(2)
    assert result.trials >= 2
    assert result.misses == []


def test_sigterm_saves_exits_143_and_the_same_command_goes_on(tmp_path: Path) -> None:
    file, out = trainee.write_recipe(tmp_path, max_minutes=1.0, save_every=1000), tmp_path / "run"
    command = [sys.executable, "-m", "qkv", "train", "--config", str(file), "--out", str(out), "--train.report_seconds"]
    with subprocess.Popen([*command, "0"], stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        lines = iter(child.stderr)
        assert any(line.startswith("qkv: step 3 ") for line in lines)
        child.send_signal(signal.SIGTERM)
        said = list(lines)
    assert child.returncode == 143
    stopped = Checkpoints(out / "checkpoints").load()
    assert stopped is not None
    assert (
        said[-1] == f"qkv: stopped by SIGTERM at step {stopped.step}, all saved; the same command goes on from there\n"
    )
    assert not (out / "model.safetensors").exists()
    recipe = trainee.recipe(tmp_path, max_steps=stopped.step + 2, save_every=1000)
    ended = train(recipe, out, quiet=True)
    assert (ended.finished, ended.step) == (True, stopped.step + 2)


def test_a_second_run_in_the_folder_refuses(tmp_path: Path) -> None:
    recipe = trainee.recipe(tmp_path, max_steps=2)
    with FolderLock(tmp_path / "run"), pytest.raises(RunError, match="is in use by another run"):
        train(recipe, tmp_path / "run", quiet=True)


def test_another_recipe_or_text_refuses_by_name(tmp_path: Path) -> None:
    train(trainee.recipe(tmp_path, max_steps=2), tmp_path / "run", quiet=True)
    before = sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "run").rglob("*.*"))
    with pytest.raises(ConfigError, match=r"holds a run with another recipe: train\.clip, train\.max_tokens differ;"):
        train(trainee.recipe(tmp_path, max_steps=9, max_tokens=200, clip=2.0), tmp_path / "run", quiet=True)
    trainee.write_pairs(tmp_path / "one.tsv", 150, seed=99)
    with pytest.raises(ConfigError, match=r"holds a run on other text: what data\.train or data\.dev names"):
        train(trainee.recipe(tmp_path, max_steps=9), tmp_path / "run", quiet=True)
    assert [(p, t) for p, t in before if p.name != ".lock"] == [
        (p, t)
        for p, t in sorted((p, p.stat().st_mtime_ns) for p in (tmp_path / "run").rglob("*.*"))
        if p.name != ".lock"
    ]


def test_another_precision_refuses_and_says_how_to_go_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(trainee.recipe(tmp_path, max_steps=2), out, quiet=True)
    facts = read_json(out / "run.json")
    facts["recipe"]["train"]["precision"] = "bf16"  # what `auto` was on another machine
    write_json(out / "run.json", facts)
    with pytest.raises(BundleError, match=r"in fp32, this machine would go on in bf16; set train\.precision fp32"):
        train(trainee.recipe(tmp_path, max_steps=9, precision="bf16"), out, quiet=True)


def test_a_damaged_checkpoint_is_passed_over_and_the_same_model_comes_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = trainee.recipe(tmp_path, max_steps=12, save_every=2, validate_every=5)
    train(whole, tmp_path / "whole", quiet=True)
    with row_04.recorded(stop_at=10):
        train(whole, tmp_path / "run", quiet=True)
    newest = tmp_path / "run" / "checkpoints" / "step-10" / "weights.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    assert train(whole, tmp_path / "run").finished
    assert "a damaged checkpoint was passed over" in capsys.readouterr().err
    assert list(row_04.differing(tmp_path / "whole", tmp_path / "run", 12)) == []


def test_a_kill_between_snapshot_and_checkpoint_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trainee.recipe(tmp_path, max_steps=8, validate_every=2, average=2)
    train(whole, tmp_path / "whole", quiet=True)
    original = Trainer.save
    for kill in (2, 6):  # before the first checkpoint, and where an old snapshot has just been let go
        out = tmp_path / f"killed-{kill}"

        def save(self: Trainer, pin: str | None = None, kill: int = kill) -> None:
            if self.at.step == kill:
                raise KeyboardInterrupt
            original(self, pin)

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Trainer, "save", save)
            train(whole, out, quiet=True)
        # Ending before the step of the snapshot that was saved too soon, and then going on past it.
        sooner = trainee.recipe(tmp_path, max_steps=kill - 1, validate_every=2, average=2)
        assert train(sooner, out, quiet=True).step == kill - 1
        assert Checkpoints(out / "snapshots").steps()[-1] == kill - 1
        ended = train(whole, out, quiet=True)
        assert (ended.finished, ended.step) == (True, 8)


def test_the_command_of_a_finished_run_only_says_so(tmp_path: Path) -> None:
    recipe = trainee.recipe(tmp_path, max_steps=3)
    first = train(recipe, tmp_path / "run", quiet=True)
    model = (tmp_path / "run" / "model.safetensors").read_bytes()
    with row_04.recorded() as batches:
        again = train(recipe, tmp_path / "run", quiet=True)
    assert (first.step, again.step, batches) == (3, 3, [])
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == model
