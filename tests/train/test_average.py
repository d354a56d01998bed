"""Averages of weights: the plain mean, exact for equal ones, and the moving one by its recurrence."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from qkv.train.average import Moving, mean_of


def test_the_mean_is_taken_over_the_snapshots() -> None:
    snapshots = [{"w": torch.tensor([1.0, 10.0]) * k, "n": torch.tensor([float(k)])} for k in (1, 2, 6)]
    mean = mean_of(snapshots)
    assert mean["w"].tolist() == [3.0, 30.0]
    assert mean["n"].tolist() == [3.0]
    assert snapshots[0]["w"].tolist() == [1.0, 10.0], "what was given is left alone"


def test_the_mean_of_equal_weights_is_those_weights() -> None:
    weights = {"w": torch.randn(1000), "b": torch.randn(9, dtype=torch.bfloat16)}
    mean = mean_of([weights] * 7)
    assert mean["w"].dtype == torch.float32 and mean["b"].dtype == torch.bfloat16
    assert all(torch.equal(mean[name], weights[name]) for name in weights)


def test_snapshots_are_read_one_at_a_time() -> None:
    read: list[int] = []

    def snapshots() -> Iterator[dict[str, Tensor]]:
        for number in range(3):
            read.append(number)
            yield {"w": torch.tensor([float(number)])}

    assert mean_of(snapshots())["w"].item() == 1.0
    assert read == [0, 1, 2]
    with pytest.raises(AssertionError, match="a mean of nothing"):
        mean_of([])


def test_the_moving_average_follows_its_recurrence() -> None:
    start = {"w": torch.tensor([4.0]), "b": torch.tensor([0.0])}
    moving, wanted = Moving(0.9, start), 4.0
    for step in range(1, 200):
        now = {"w": torch.tensor([float(step)]), "b": torch.tensor([1.0])}
        moving.update(now, step)
        decay = min(0.9, (1 + step) / (10 + step))
        wanted = decay * wanted + (1 - decay) * step
        assert moving.tensors["w"].item() == pytest.approx(wanted, rel=1e-5)
    assert moving.tensors["b"].item() == pytest.approx(1.0, abs=1e-4)
    assert start["w"].item() == 4.0, "the model's own weights are left alone"


def test_the_first_weights_are_soon_forgotten() -> None:
    moving = Moving(0.9999, {"w": torch.tensor([100.0])})
    for step in range(1, 101):
        moving.update({"w": torch.tensor([0.0])}, step)
    assert moving.tensors["w"].item() < 1e-4
