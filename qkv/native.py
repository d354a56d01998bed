"""Our own C++ kernels (`csrc/`): compiled once for this machine at first use, and beside each a path in plain PyTorch.

They take dense tensors of bf16 or fp32 on a CPU. Where there is no compiler, or `QKV_NATIVE=0` says so, or the cache
cannot be written, there are no kernels and everything goes the plain way; `qkv env` says which.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from ctypes import c_float, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

SOURCES = Path(__file__).with_name("csrc")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")
COMPILERS = ("c++", "g++", "clang++")

_MANY, _COUNT = c_void_p, c_int64
SIGNATURES: Mapping[str, tuple[Any, ...]] = {
    "dropped": (_MANY, _MANY, _MANY, _COUNT, _COUNT, c_int, c_int, c_float, c_int),
    "softened": (_MANY, _MANY, _MANY, _COUNT, _COUNT, c_float, c_int, _MANY, _MANY, c_int),
    "attend": (_MANY, _MANY, _MANY, _MANY, _MANY, _MANY, _MANY, c_float, c_int),
    "attend_back": (*[_MANY] * 7, _MANY, _MANY, _MANY, c_float, c_int),
}

_off = False


def serves(*tensors: "Tensor") -> bool:
    """Whether there are kernels for these tensors: all on a CPU, all bf16 or all fp32."""
    first = tensors[0]
    if not all(t.is_cpu and t.dtype == first.dtype and type(t).__module__.startswith("torch") for t in tensors):
        return False
    return _suffix(first) is not None and not _off and library() is not None


def kernel(name: str, like: "Tensor") -> Callable[..., None]:
    """The kernel for tensors of this kind; ask `serves` first."""
    found = library()
    assert found is not None
    function: Callable[..., None] = found[f"{name}_{_suffix(like)}"]
    return function


@contextmanager
def switched_off() -> "Iterator[None]":
    """The plain paths alone, for whoever compares the two."""
    global _off
    before, _off = _off, True
    try:
        yield
    finally:
        _off = before


def state() -> str:
    """One word or sentence on whether there are kernels, for people."""
    if library() is not None:
        return "compiled"
    return _why_not


_why_not = ""


@cache
def library() -> Mapping[str, Callable[..., None]] | None:
    """The compiled kernels by name; None where there can be none."""
    global _why_not
    if os.environ.get("QKV_NATIVE", "1") == "0":
        _why_not = "none: QKV_NATIVE=0"
        return None
    try:
        import torch  # noqa: F401 (its OpenMP library must be the one that ours finds)

        loaded = ctypes.CDLL(str(_compiled()))
    except (OSError, subprocess.SubprocessError) as error:
        _why_not = f"none: {error}".splitlines()[0]
        return None
    found = {}
    for name, arguments in SIGNATURES.items():
        for suffix in ("f32", "bf16"):
            function = loaded[f"qkv_{name}_{suffix}"]
            function.argtypes, function.restype = arguments, None
            found[f"{name}_{suffix}"] = function
    return found


def _compiled() -> Path:
    """The shared library of these sources on this processor, from the cache or made now."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", ""), *COMPILERS))), None)
    if compiler is None:
        raise FileNotFoundError("no C++ compiler found; install g++, or name one in CXX")
    sources = sorted(SOURCES.iterdir())
    key = hashlib.sha256(repr((FLAGS, compiler, platform.machine(), _processor())).encode())
    for source in sources:
        key.update(source.read_bytes())
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qkv"
    made = folder / f"kernels-{key.hexdigest()[:16]}.so"
    if made.is_file():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        # Another process may be making the same: each in a folder of its own, and whoever renames last, no harm.
        out = Path(work) / made.name
        wide = ("-mprefer-vector-width=512",) if platform.machine() == "x86_64" else ()
        files = [str(source) for source in sources if source.suffix == ".cpp"]
        command = [compiler, *FLAGS, *wide, "-w", *files, "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise OSError(f"{compiler} could not compile the kernels: {done.stderr.strip()[:300]}")
        os.replace(out, made)
    return made


def _processor() -> str:
    """What -march=native goes by: a cache may be shared by unlike machines."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    return next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")


def _suffix(tensor: "Tensor") -> str | None:
    return {"torch.bfloat16": "bf16", "torch.float32": "f32"}.get(str(tensor.dtype))
