"""Optimizers: Adam as in the paper (5.3) and AdamW (Loshchilov and Hutter 2019), by PyTorch's fused kernels.

The learning rate is set before each step by a schedule.
"""

from collections.abc import Iterable
from typing import ClassVar

from torch import nn
from torch.optim import Adam, AdamW
from torch.optim import Optimizer as TorchOptimizer

from qkv.config import NonNegative, Positive, Share


class Optimizer(TorchOptimizer):
    """The kind of what the functions below build."""

    kind: ClassVar[str] = "optimizer"


def adam(
    parameters: Iterable[nn.Parameter],
    /,
    *,
    beta_1: Share = 0.9,
    beta_2: Share = 0.98,
    epsilon: Positive = 1e-9,
) -> TorchOptimizer:
    """Adam with the paper's settings (Kingma and Ba 2015)."""
    return Adam(parameters, lr=0.0, betas=(beta_1, beta_2), eps=epsilon, fused=True)


def adamw(
    parameters: Iterable[nn.Parameter],
    /,
    *,
    beta_1: Share = 0.9,
    beta_2: Share = 0.98,
    epsilon: Positive = 1e-8,
    decay: NonNegative = 0.01,
) -> TorchOptimizer:
    """Adam whose weight decay is apart from its gradients; vectors (norms, biases) do not decay."""
    parameters = list(parameters)
    matrices = [p for p in parameters if p.dim() > 1]
    vectors = [p for p in parameters if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    return AdamW(groups, lr=0.0, betas=(beta_1, beta_2), eps=epsilon, fused=True)
