"""What got in: all that qkv and its tests need, at the versions of constraints.txt; no CUDA where there is no GPU."""

import re
import tomllib
from importlib.metadata import distributions, requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from scripts import setup

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): pinned for name, pinned in pairs}


def needed() -> set[str]:
    """The names that the requirements lead to, from package to package."""
    waiting = [Requirement(text) for text in setup.requirements(PROJECT)]
    found: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found:
            continue
        found.add(name)
        for text in requires(name) or []:
            below = Requirement(text)
            if below.marker is None or any(below.marker.evaluate({"extra": e}) for e in ("", *requirement.extras)):
                waiting.append(below)
    return found


def test_every_needed_package_has_its_pinned_version() -> None:
    pinned = pins()
    expected = {name for name in needed() if not (setup.has_gpu() and name.startswith(("nvidia-", "triton", "cuda-")))}
    assert {"torch", "numpy", "pytest"} <= expected
    assert expected <= set(pinned), f"without a pin: {sorted(expected - set(pinned))}"
    wrong = {n: version(n) for n in expected if version(n) not in SpecifierSet(f"=={pinned[n]}", prereleases=True)}
    assert not wrong, wrong


def test_no_cuda_without_a_gpu_and_no_torchvision() -> None:
    present = {canonicalize_name(found.metadata["Name"]) for found in distributions()}
    assert "torchvision" not in present
    assert setup.has_gpu() or not [name for name in present if name.startswith("nvidia-")]


def test_pins_are_exact_and_sorted_once_each() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)
    names = [canonicalize_name(line.split("==")[0]) for line in lines]
    assert len(names) == len(set(names))
    assert pins()["torch"] == "2.13.0"
