"""Averages of weights: over the last checkpoints, as in the paper (6.1), and a moving one over all steps.

Sums are taken in fp64, so that the mean of equal weights is those weights.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor


@torch.no_grad()
def mean_of(snapshots: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each tensor over the snapshots, which are read one at a time."""
    sums: dict[str, Tensor] = {}
    kinds: dict[str, torch.dtype] = {}
    count = 0
    for snapshot in snapshots:
        count += 1
        for name, tensor in snapshot.items():
            kinds[name] = tensor.dtype
            sums[name] = tensor.double() if name not in sums else sums[name].add_(tensor)
    assert count, "a mean of nothing"
    return {name: (total / count).to(kinds[name]) for name, total in sums.items()}


class Moving:
    """An exponential moving average; its decay starts low, so that the first weights are soon forgotten."""

    def __init__(self, decay: float, start: Mapping[str, Tensor], /) -> None:
        self.decay = decay
        self.tensors = {name: tensor.detach().clone() for name, tensor in start.items()}

    @torch.no_grad()
    def update(self, now: Mapping[str, Tensor], step: int) -> None:
        """After step `step`, the first being 1."""
        weight = 1 - min(self.decay, (1 + step) / (10 + step))
        names = list(self.tensors)
        torch._foreach_lerp_([self.tensors[n] for n in names], [now[n] for n in names], weight)
