"""Set-up's decision: go on or stop, from what pip would install and whether there is a GPU."""

from pathlib import Path
from typing import Any

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
