"""Normalisation: LayerNorm (Ba et al. 2016) and RMSNorm (Zhang and Sennrich 2019), statistics and weights in fp32."""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.config import Positive


class Norm(nn.Module):
    """Brings each position's vector to a standard size. Its parameters stay in fp32 under every precision policy."""

    kind: ClassVar[str] = "norm"
    keep_fp32: ClassVar[bool] = True

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        raise AssertionError("a Norm is one of its subclasses")


class LayerNorm(Norm):
    """(x - mean) / deviation * weight + bias."""

    def __init__(self, width: int, /, *, epsilon: Positive = 1e-5) -> None:
        super().__init__()
        self.width, self.epsilon = width, epsilon
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        if x.dtype == self.weight.dtype or x.is_cpu:  # the CPU's kernel takes bf16 rows with fp32 weights
            return F.layer_norm(x, (self.width,), self.weight, self.bias, self.epsilon)
        return F.layer_norm(x.to(self.weight.dtype), (self.width,), self.weight, self.bias, self.epsilon).to(x.dtype)


class RMSNorm(Norm):
    """x / root mean square * weight."""

    def __init__(self, width: int, /, *, epsilon: Positive = 1e-6) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        wide = x.to(torch.promote_types(self.weight.dtype, torch.float32))
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon) * self.weight).to(x.dtype)
