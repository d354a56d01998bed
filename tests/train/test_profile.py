"""Where a step's time goes: each operation counts once, as the kind of work that it is."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.profiler import ProfilerActivity
from torch.profiler import profile as looked_at

from qkv.tracing import region
from qkv.train import profile as subject
from qkv.train.profile import KINDS
from qkv.train.speed import as_json, profiled, speed
from tests.torture import trainee


def kinds_of(run: Callable[[], None]) -> dict[str, set[str]]:
    """The names of the operations of something that runs, by their kind."""
    with looked_at(activities=[ProfilerActivity.CPU]) as found:
        run()
    made = subject._summed(list(found.events()), 1.0, 1, False, 1000)
    return {kind: set(named) for kind, named in made.operations.items()}


def test_products_of_matrices_are_that_in_any_region() -> None:
    def run() -> None:
        x = torch.randn(8, 8)
        with region("attention"):
            (x @ x).exp()

    found = kinds_of(run)
    assert "aten::mm" in found["matrix"]
    assert "aten::exp" in found["attention"]


def test_a_gradient_is_of_the_kind_of_what_it_is_the_gradient_of() -> None:
    x = torch.randn(8, 8, requires_grad=True)

    def run() -> None:
        with region("dropout"):
            y = x.sin()
        y.cosh().sum().backward()

    found = kinds_of(run)
    assert "aten::cos" in found["dropout"], "the derivative of the sine"
    assert "aten::sinh" in found["other"]


def test_the_innermost_region_counts() -> None:
    def run() -> None:
        with region("attention"), region("dropout"):
            torch.randn(8).exp()

    assert "aten::exp" in kinds_of(run)["dropout"]


def test_a_region_costs_nothing_where_nobody_looks() -> None:
    assert region("loss") is region("dropout")


def test_on_a_gpu_the_rest_is_what_it_waited_for() -> None:
    def event(name: str, where: str, device: float) -> SimpleNamespace:
        times = {"self_device_time_total": device, "self_cpu_time_total": 9e6}
        kind = SimpleNamespace(name=where)
        return SimpleNamespace(name=name, sequence_nr=-1, cpu_parent=None, device_type=kind, **times)

    # The device's own events say again what those of the host that began them say.
    events = [event("aten::mm", "CPU", 5e5), event("aten::exp", "CPU", 1e5), event("gemm", "CUDA", 5e5)]
    made = subject._summed(events, 1.0, 2, True, 4)
    assert (made.seconds, made.device) == (0.5, "cuda")
    assert (made.shares["matrix"], made.shares["other"]) == (0.5, 0.1)
    assert made.shares["idle"] == pytest.approx(0.4)


def test_a_step_is_accounted_for(tmp_path: Path) -> None:
    made = profiled(trainee.recipe(tmp_path, max_steps=40), tmp_path / "prepared", 2)
    assert set(made.shares) == set(KINDS)
    assert sum(made.shares.values()) == pytest.approx(1, abs=0.02)
    assert made.shares["idle"] == 0, "there is no device to wait for the host"
    for kind in ("matrix", "attention", "dropout", "norm", "loss", "optimizer", "data", "other"):
        assert made.shares[kind] > 0, kind
    assert all(sum(named.values()) <= made.shares[kind] + 1e-9 for kind, named in made.operations.items())


def test_speed_is_of_the_recipe_s_own_steps(tmp_path: Path) -> None:
    made = speed(trainee.recipe(tmp_path, max_steps=40), tmp_path / "prepared", 5)
    assert made.steps == 5
    assert made.slowest <= made.tokens_per_second <= made.fastest
    assert 0 < made.share < 1
    assert 0 <= made.waited < 1
    assert as_json(made)["share_of_matrix_rate"] == made.share
