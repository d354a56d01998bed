"""Set-up's decision: go on or stop, from what pip would install and whether there is a GPU."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts import setup
from scripts.setup import has_gpu, index_options, names, refusal, requirements


def report(*packages: str) -> dict[str, Any]:
    return {"install": [{"metadata": {"name": name, "version": "1"}} for name in packages]}


def test_cuda_without_a_gpu_is_refused_with_the_remedy() -> None:
    reason = refusal(report("torch", "nvidia-cublas-cu12", "nvidia_cudnn_cu12"), gpu=False)
    assert reason is not None
    assert "2 CUDA packages" in reason
    assert "nvidia-cudnn-cu12" in reason
    assert "TORCH_INDEX=" in reason


def test_cuda_with_a_gpu_is_welcome() -> None:
    assert refusal(report("torch", "nvidia-cublas-cu12"), gpu=True) is None


def test_a_cpu_build_goes_on() -> None:
    assert refusal(report("torch", "numpy"), gpu=False) is None
    assert refusal(report(), gpu=False) is None


def test_names_are_normal() -> None:
    assert names(report("Jinja2", "mypy_extensions")) == ["jinja2", "mypy-extensions"]


def test_a_gpu_is_seen_by_its_driver(tmp_path: Path) -> None:
    assert has_gpu(driver=tmp_path)


def test_the_index_is_optional() -> None:
    assert index_options({}) == []
    assert index_options({"TORCH_INDEX": " "}) == []
    assert index_options({"TORCH_INDEX": "some/index"}) == ["--extra-index-url", "some/index"]


def test_requirements_are_the_package_and_its_developers() -> None:
    project = {"project": {"dependencies": ["a>=1"]}, "dependency-groups": {"dev": ["b"]}}
    assert requirements(project) == ["a>=1", "b"]


def pip_that_resolves(
    found: dict[str, Any], calls: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, venv: Path
) -> None:
    """A stand-in for pip that reports `found` and installs nothing, in an environment that is already made."""

    def pip(*arguments: str) -> None:
        calls.append(arguments)
        if "--report" in arguments:
            Path(arguments[-1]).write_text(json.dumps(found))

    (venv / "pyvenv.cfg").touch()
    monkeypatch.setattr(setup, "VENV", venv)
    monkeypatch.setattr(setup, "has_gpu", lambda: False)
    monkeypatch.setattr(setup, "pip", pip)


def test_nothing_is_installed_after_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[str, ...]] = []
    pip_that_resolves(report("torch", "nvidia-nccl"), calls, monkeypatch, tmp_path)
    assert setup.main() == 2
    assert "no NVIDIA GPU" in capsys.readouterr().err
    assert "--dry-run" in calls[-1]
    assert not [call for call in calls if "torch>=2.13" in call and "--dry-run" not in call]


def test_what_was_resolved_is_installed_and_then_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setenv("TORCH_INDEX", "some/index")
    pip_that_resolves(report("torch"), calls, monkeypatch, tmp_path)
    assert setup.main() == 0
    resolved, installed, package = calls[-3:]
    assert resolved[: len(installed)] == installed
    assert "some/index" in installed and "constraints.txt" in installed
    assert package[-2:] == ("--editable", ".")


def test_an_old_python_is_told_which_to_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup, "OLDEST", (99, 1))
    assert setup.main() == 2
    assert "make setup PYTHON=python99.1" in capsys.readouterr().err
