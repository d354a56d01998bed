"""The package's own door: a version, and `load`, which imports what it needs only when called."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

import qkv


def test_importing_qkv_is_cheap() -> None:
    line = "import sys, qkv; print(sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True).stdout
    assert "'qkv'" in shown
    assert not [name for name in ("torch", "numpy", "pydantic", "tokenizers") if f"'{name}'" in shown]


def test_load_hands_the_folder_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qkv.pipeline.load", SimpleNamespace(load=lambda path: ("loaded", path)))
    assert qkv.load("runs/mine") == ("loaded", "runs/mine")
