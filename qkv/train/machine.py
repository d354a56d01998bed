"""How fast a machine multiplies matrices: this one, measured, or another one, described in a file of numbers."""

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from qkv import config, runtime
from qkv.config import Positive, Settings
from qkv.runtime import Precision

SIDE = 2048


@dataclass(frozen=True, kw_only=True)
class OtherMachine(Settings):
    """The rate of a large product of matrices (GFLOP/s, in each number format) and the memory (GB)."""

    name: str = "another machine"
    bf16_gflops: Positive
    fp32_gflops: Positive
    memory_gb: Positive

    def rate(self, precision: str) -> float:
        """Operations a second."""
        return 1e9 * (self.bf16_gflops if precision == "bf16" else self.fp32_gflops)


def described(path: Path) -> OtherMachine:
    """From a YAML file such as `{name: laptop, bf16_gflops: 400, fp32_gflops: 200, memory_gb: 16}`."""
    found: OtherMachine = config.section(OtherMachine, config.read(path))
    return found


def matrix_rate(precision: Precision, side: int = SIDE, repeats: int = 5) -> float:
    """Operations a second of this machine's best product of square matrices, as it is now."""
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    device = runtime.device()
    a, b = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        torch.mm(a, b, out=out)
        runtime.wait_for(device)
        best = min(best, time.perf_counter() - began)
    return 2 * side**3 / best
