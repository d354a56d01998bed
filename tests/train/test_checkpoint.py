"""Checkpoints under kills, refusals and damage: reduced counts of the torture's rows 1, 2 and 3."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from qkv.errors import BundleError, ConfigError
from qkv.folder import MANIFEST, digest, write_text
from qkv.lock import FolderLock
from qkv.train.checkpoint import COMMITTED, Checkpoints
from tests.torture import row_01, row_02, row_03
from tests.torture.row import Result, hidden
from tests.torture.saver import tensors_of


@pytest.fixture
def checkpoints(tmp_path: Path) -> Iterator[Checkpoints]:
    with FolderLock(tmp_path) as lock:
        yield Checkpoints(tmp_path / "checkpoints", lock=lock)


@pytest.fixture
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that the kernel has, so these tests need not wait for the disk."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def save(checkpoints: Checkpoints, *steps: int, pin: str | None = None) -> None:
    for step in steps:
        checkpoints.save(step, tensors_of(step, 20), {"position": step}, pin=pin)


def names(checkpoints: Checkpoints) -> list[str]:
    return sorted(path.name for path in checkpoints.folder.iterdir())


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def test_what_is_saved_comes_back(checkpoints: Checkpoints) -> None:
    assert checkpoints.load() is None
    assert checkpoints.steps() == []
    weights = {"embed": torch.randn(3, 4), "bias": torch.ones(3, dtype=torch.bfloat16)}
    state = {"rate": 0.1 + 0.2, "best": float("inf"), "epoch": [1, 2], "name": "é", "none": None}
    folder = checkpoints.save(7, {"weights": weights, "optimizer": {"moment": torch.zeros(2)}}, state)
    saved = checkpoints.load()
    assert saved is not None
    assert (saved.step, saved.folder, saved.state, saved.damaged) == (7, folder, state, ())
    assert list(saved.tensors) == ["optimizer", "weights"]
    for name, tensor in weights.items():
        assert torch.equal(saved.tensors["weights"][name], tensor)
    assert sorted(path.name for path in folder.iterdir()) == [
        COMMITTED,
        MANIFEST,
        "optimizer.safetensors",
        "state.json",
        "weights.safetensors",
    ]
    assert (folder / COMMITTED).read_text() == digest(folder / MANIFEST) + "\n"
    with pytest.raises(KeyError):
        saved.tensors["average"]


def test_one_group_is_read_for_averaging(checkpoints: Checkpoints) -> None:
    save(checkpoints, 1, 2)
    damage(checkpoints.folder / "step-1" / "optimizer.safetensors")
    assert torch.equal(checkpoints.read(1, "weights")["embed"], tensors_of(1, 20)["weights"]["embed"])
    with pytest.raises(BundleError, match=r"optimizer\.safetensors is damaged"):
        checkpoints.read(1, "optimizer")
    with pytest.raises(BundleError, match=r"average\.safetensors is not listed"):
        checkpoints.read(1, "average")
    with pytest.raises(BundleError, match="no checkpoint of step 5"):
        checkpoints.read(5, "weights")


def test_the_last_ones_and_the_pinned_are_kept(checkpoints: Checkpoints) -> None:
    save(checkpoints, 1, 2)
    save(checkpoints, 3, pin="best")
    save(checkpoints, 4, 5, 10)
    assert names(checkpoints) == ["latest", "step-10", "step-3", "step-5"]
    assert checkpoints.steps() == [3, 5, 10]
    assert checkpoints.pins() == {"best": 3}
    save(checkpoints, 11, pin="best")
    assert (checkpoints.steps(), checkpoints.pins()) == ([10, 11], {"best": 11})
    assert (checkpoints.folder / "latest").read_text() == "step-11\n"


def test_fewer_than_two_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="keep 1 is below 2"):
        Checkpoints(tmp_path, keep=1)


def test_damage_falls_back_is_named_and_set_aside(checkpoints: Checkpoints, caplog: pytest.LogCaptureFixture) -> None:
    save(checkpoints, 1, 2, 3)
    damage(checkpoints.folder / "step-3" / "optimizer.safetensors")
    with caplog.at_level(logging.WARNING):
        reader = Checkpoints(checkpoints.folder).load()
    assert reader is not None
    assert reader.step == 2
    assert "step-3/optimizer.safetensors is damaged" in reader.damaged[0]
    assert "step-3/optimizer.safetensors is damaged" in caplog.text
    assert "step-3" in names(checkpoints), "who only reads moves nothing"
    saved = checkpoints.load()
    assert saved is not None
    assert saved.step == 2
    assert names(checkpoints) == ["latest", "step-2", "step-3.damaged"]
    save(checkpoints, 3)
    assert names(checkpoints) == ["latest", "step-2", "step-3", "step-3.damaged"]
    save(checkpoints, 4, 5)
    assert names(checkpoints) == ["latest", "step-4", "step-5"]


def test_truncated_checkpoints_do_not_count_as_kept(checkpoints: Checkpoints) -> None:
    save(checkpoints, 1, 2)
    (checkpoints.folder / "step-2" / "weights.safetensors").write_bytes(b"")
    save(checkpoints, 3)
    assert checkpoints.steps() == [1, 3]


def test_with_nothing_usable_left_the_run_does_not_start_anew(checkpoints: Checkpoints) -> None:
    save(checkpoints, 1, 2)
    damage(checkpoints.folder / "step-1" / "state.json")
    (checkpoints.folder / "step-2" / COMMITTED).unlink()
    with pytest.raises(BundleError, match=r"no checkpoint in .* is usable; .*step-2/COMMITTED.*step-1/state\.json"):
        checkpoints.load()
    assert names(checkpoints) == ["latest", "step-1", "step-2"]
    with pytest.raises(BundleError, match="no checkpoint of step 9; there are: 1, 2"):
        checkpoints.load(9)


def test_whole_folders_exchanged_are_found(checkpoints: Checkpoints) -> None:
    save(checkpoints, 1, 2)
    one, two = checkpoints.folder / "step-1", checkpoints.folder / "step-2"
    one.rename(checkpoints.folder / "aside")
    two.rename(one)
    (checkpoints.folder / "aside").rename(two)
    with pytest.raises(BundleError, match=r"step-2/state\.json is of step 1, not 2"):
        checkpoints.load()


def test_the_hint_is_not_trusted(checkpoints: Checkpoints) -> None:
    save(checkpoints, 1, 2)
    write_text(checkpoints.folder / "latest", "step-1\n")
    saved = checkpoints.load()
    assert saved is not None
    assert saved.step == 2


def test_going_back_leaves_the_future(checkpoints: Checkpoints) -> None:
    save(checkpoints, 1, pin="best")
    save(checkpoints, 2)
    save(checkpoints, 3, pin="best")
    with pytest.raises(AssertionError, match="forget_after"):
        save(checkpoints, 2)
    checkpoints.forget_after(2)
    assert checkpoints.steps() == [1, 2] or checkpoints.steps() == [2]
    assert 3 not in checkpoints.pins().values()
    save(checkpoints, 3)
    assert checkpoints.steps()[-2:] == [2, 3]


def test_a_step_can_be_saved_again(checkpoints: Checkpoints) -> None:
    save(checkpoints, 1, 2)
    checkpoints.save(2, {"weights": {"w": torch.ones(3)}}, {"again": True})
    saved = checkpoints.load()
    assert saved is not None
    assert saved.state == {"again": True}
    assert list(saved.tensors) == ["weights"]
    assert not hidden(checkpoints.folder)


def test_tensors_may_be_written_in_pieces_by_others(checkpoints: Checkpoints) -> None:
    with checkpoints.saving(1, {}) as folder:
        (folder / "shards").mkdir()
        (folder / "shards" / "rank-0.bin").write_bytes(b"0")
    saved = checkpoints.load()
    assert saved is not None
    assert (saved.folder / "shards" / "rank-0.bin").read_bytes() == b"0"
    damage(saved.folder / "shards" / "rank-0.bin")
    with pytest.raises(BundleError, match=r"shards/rank-0\.bin is damaged"):
        checkpoints.load()


def test_state_that_json_would_change_is_refused(checkpoints: Checkpoints) -> None:
    for state in ({"a": (1, 2)}, {"a": {1: 2}}, {"a": torch.ones(1)}, {"a": [b"x"]}):
        with pytest.raises(AssertionError, match="state"):
            checkpoints.save(1, {}, state)
    with pytest.raises(AssertionError, match="no name for a group"):
        checkpoints.save(1, {"../x": {}}, {})
    assert checkpoints.steps() == []
    assert not hidden(checkpoints.folder)


def test_saving_needs_the_lock(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="needs the lock"):
        save(Checkpoints(tmp_path), 1)
    with pytest.raises(AssertionError, match="needs the lock"):
        Checkpoints(tmp_path, lock=FolderLock(tmp_path)).forget_after(1)


@pytest.mark.parametrize("step", [3, 4])
def test_a_kill_before_any_call_of_a_save_loses_nothing(step: int) -> None:
    """Every third call here, every one with the torture; step 3 is there already and gets replaced."""
    result = Result()
    row_01.kill_at_each_call(result, step, range(step - 2, 1000, 3))
    assert result.trials > 20
    assert result.misses == []


@pytest.mark.parametrize(("code", "words"), row_03.CODES.items())
@pytest.mark.usefixtures("without_waiting")
def test_every_seventh_call_of_a_save_refused(code: int, words: str) -> None:
    result = Result()
    row_03.refuse_each_call(result, code, words, range(1 + code % 7, 1000, 7))
    assert result.trials > 10
    assert result.misses == []


def test_no_damage_is_silent() -> None:
    result = row_02.run(40)
    assert result.trials == 40
    assert result.misses == []


def test_kill_nine_at_random_moments() -> None:
    result = row_01.kill_at_random(6, command=["-m", "tests.torture.saver", "--megabytes", "1", "--out"])
    assert result.trials >= 6
    assert result.misses == []
