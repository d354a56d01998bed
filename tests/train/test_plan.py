"""The plan: exact where it counts, of the right size where it measures, and a refusal that names what would fit."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv import runtime
from qkv.errors import ConfigError
from qkv.models.base import parameters
from qkv.train.machine import OtherMachine, described, matrix_rate
from qkv.train.plan import Plan, as_json, by_part, elsewhere, plan
from tests.conformance.networks import Network
from tests.torture import trainee


def planned(folder: Path, **settings: Any) -> Plan:
    return plan(trainee.recipe(folder, **{"average": 2, "validate_every": 10, **settings}), folder / "prepared")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return planned(tmp_path_factory.mktemp("plan"), max_steps=500)


def test_it_counts_parameters_by_part(made: Plan) -> None:
    model, _ = Network("transformer", "plain").build(dropout=0.0), None
    assert sum(by_part(model).values()) == parameters(model)
    assert sum(made.parts.values()) == made.parameters
    assert list(made.parts) == ["source", "encoder", "decoder"], "a shared table counts once"


def test_it_keeps_the_account_of_memory(made: Plan) -> None:
    memory = made.memory
    assert memory.weights == memory.gradients == 4 * made.parameters
    assert memory.optimizer == pytest.approx(8 * made.parameters, rel=0.02)
    assert memory.process + memory.weights + memory.gradients + memory.optimizer <= memory.peak
    assert memory.available == runtime.this_machine().memory


def test_time_follows_from_steps(made: Plan) -> None:
    assert (made.steps, made.ends_by) == (500, "max_steps")
    assert made.epochs == 500 / made.batches
    steps = 500 * made.seconds_a_step / 60
    more = 500 / 10 * (made.seconds_a_validation + made.seconds_a_save) / 60
    assert made.minutes == pytest.approx(steps + more + made.seconds_a_save * 500 / 1000 / 60)
    assert made.tokens_per_second == pytest.approx(made.tokens_a_step / made.seconds_a_step)
    assert 0 < made.share < 1


def test_the_first_limit_ends_the_run(tmp_path: Path) -> None:
    few = planned(tmp_path, max_steps=10**6, max_epochs=2, max_minutes=10**6)
    assert (few.ends_by, few.epochs) == ("max_epochs", 2)
    timed = planned(tmp_path, max_steps=10**9, max_minutes=30)
    assert timed.ends_by == "max_minutes"
    assert timed.minutes == pytest.approx(30, rel=0.01)


def test_work_is_counted_for_each_token(made: Plan) -> None:
    # Each weight of a matrix is multiplied forward, and twice backward: six operations a token, of either side.
    assert made.flops_a_step / made.tokens_a_step > 6 * made.parts["decoder"]


def test_another_machine_is_reckoned_from_its_matrix_rate(made: Plan) -> None:
    rate = made.matrix_rate / 1e9
    other = OtherMachine(bf16_gflops=2 * rate, fp32_gflops=2 * rate, memory_gb=7.0)
    there = elsewhere(made, other)
    assert there.tokens_per_second == pytest.approx(2 * made.tokens_per_second)
    assert there.minutes == pytest.approx(made.minutes / 2)
    assert (there.steps, there.share) == (made.steps, pytest.approx(made.share))
    assert there.memory.available == 7_000_000_000
    timed = elsewhere(replace(made, ends_by="max_minutes"), other)
    assert (timed.minutes, timed.steps) == (made.minutes, 2 * made.steps)


def test_a_machine_is_a_file_of_numbers(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text("name: server\nbf16_gflops: 9000\nfp32_gflops: 4000\nmemory_gb: 64\n")
    machine = described(path)
    assert (machine.name, machine.rate("bf16"), machine.rate("fp32")) == ("server", 9e12, 4e12)
    path.write_text("bf16_gflop: 9000\nfp32_gflops: 1\nmemory_gb: 1\n")
    with pytest.raises(ConfigError, match='did you mean "bf16_gflops"'):
        described(path)


def test_the_matrix_rate_is_a_rate() -> None:
    assert 1e8 < matrix_rate("fp32", side=256, repeats=2) < 1e16


def test_what_cannot_fit_is_refused_before_it_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = runtime.memory_held()
    small = replace(runtime.this_machine(), memory=held + (1 << 20))
    monkeypatch.setattr(runtime, "this_machine", lambda: small)
    peaks = iter([held + (1 << 19)])
    monkeypatch.setattr(runtime, "peak_memory", lambda: next(peaks))
    monkeypatch.setattr(runtime, "memory_held", lambda forget_peak=False: held)
    with pytest.raises(ConfigError, match=r"would take some .* GB, and this machine has .* GB; (train\.parts|choose)"):
        planned(tmp_path, max_steps=5, max_tokens=4096, parts=1)


def test_it_is_plain_values(made: Plan) -> None:
    found = json.loads(json.dumps(as_json(made)))
    assert found["share_of_matrix_rate"] == made.share
    assert found["memory"]["peak"] == made.memory.peak


def test_it_leaves_nothing_behind(tmp_path: Path) -> None:
    recipe = trainee.recipe(tmp_path, max_steps=5)
    before = {path.name for path in tmp_path.iterdir()}
    plan(recipe, tmp_path / "prepared")
    assert {path.name for path in tmp_path.iterdir()} - before <= {"prepared"}
    assert torch.get_num_threads() == 1
