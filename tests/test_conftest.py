"""What conftest.py promises holds: one thread, and annotations that are executed unless switched off."""

import os
import subprocess
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent

WRONG_TYPE = "import tests.conftest; from qkv.runtime import read_limit; read_limit(b'12')"


def call_with_the_wrong_type(check: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "QKV_TYPECHECK": check}
    return subprocess.run([sys.executable, "-c", WRONG_TYPE], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_one_thread() -> None:
    assert torch.get_num_threads() == 1


def test_annotations_are_executed() -> None:
    done = call_with_the_wrong_type("1")
    assert done.returncode != 0
    assert "TypeCheckError" in done.stderr


def test_and_can_be_switched_off() -> None:
    assert "TypeCheckError" not in call_with_the_wrong_type("0").stderr


def test_seeds_are_fixed() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    assert torch.equal(torch.rand(3), expected)
