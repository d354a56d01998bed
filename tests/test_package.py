"""The package's own door: a version, and `load`, imported when it is first asked for."""

import subprocess
import sys

import pytest

import qkv


def test_importing_qkv_is_cheap() -> None:
    line = "import sys, qkv; print(sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True).stdout
    assert "'qkv'" in shown
    assert not [name for name in ("torch", "numpy", "pydantic", "tokenizers") if f"'{name}'" in shown]


def test_load_is_the_pipeline_s_and_nothing_else_is_made_up() -> None:
    from qkv.pipeline.load import load

    assert qkv.load is load
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        qkv.lod  # noqa: B018
