"""Cross-entropy with label smoothing straight from hidden vectors: the logits are never whole in memory (Szegedy et al. 2016, 7).

The loss of a position is (1 - e) * -log p(target) + e * mean over the vocabulary of -log p. Chunk by chunk the logits are
made, turned into loss and gradient, and forgotten; so the backward pass has nothing left to do but scale.

Letters: N positions, D model width, V vocabulary.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

CHUNK = 1 << 22  # logits held at a time: 16 MiB in fp32


def plain_smoothed(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, "V"] | None,
    targets: Int[Tensor, "N"],
    real: Bool[Tensor, "N"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The readable reference: the sum of the smoothed losses and of -log p(target), over the real positions."""
    log_p = torch.log_softmax(
        F.linear(hidden, weight, bias), dim=-1, dtype=torch.promote_types(hidden.dtype, torch.float32)
    )
    nll = -log_p.gather(1, targets[:, None]).squeeze(1)
    loss = (1 - smoothing) * nll + smoothing * -log_p.mean(-1)
    return (loss * real).sum(), (nll * real).sum().detach()


def smoothed(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, "V"] | None,
    targets: Int[Tensor, "N"],
    real: Bool[Tensor, "N"],
    smoothing: float,
    chunk: int = CHUNK,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The same sums, a chunk of positions at a time."""
    loss, nll = _Smoothed.apply(hidden, weight, bias, targets, real, smoothing, max(1, chunk // weight.shape[0]))
    return loss, nll


class _Smoothed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        real: Tensor,
        smoothing: float,
        rows: int,
    ) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(hidden.dtype, torch.float32)
        wanted = any(ctx.needs_input_grad[:3])
        d_hidden = torch.empty_like(hidden) if wanted else None
        d_weight = torch.zeros_like(weight, dtype=wide) if wanted else None
        d_bias = torch.zeros_like(bias, dtype=wide) if wanted and bias is not None else None
        sums = torch.zeros(2, dtype=wide, device=hidden.device)
        for first in range(0, hidden.shape[0], rows):
            part = slice(first, first + rows)
            h_nd, index, weights = hidden[part], targets[part, None], real[part, None].to(wide)
            logits = F.linear(h_nd, weight, bias).to(wide)
            log_z = logits.logsumexp(-1, keepdim=True)
            nll = log_z - logits.gather(1, index)
            doubt = log_z - logits.mean(-1, keepdim=True)
            sums[0] += (weights * ((1 - smoothing) * nll + smoothing * doubt)).sum()
            sums[1] += (weights * nll).sum()
            if d_hidden is None or d_weight is None:
                continue
            # d loss / d logits = softmax - smoothing / V - (1 - smoothing) at the target
            d_logits = logits.sub_(log_z).exp_().sub_(smoothing / weight.shape[0])
            d_logits.scatter_add_(1, index, torch.full_like(weights, smoothing - 1))
            d_logits *= weights
            narrow = d_logits.to(hidden.dtype)
            torch.mm(narrow, weight, out=d_hidden[part])
            d_weight += narrow.t() @ h_nd
            if d_bias is not None:
                d_bias += d_logits.sum(0)
        if d_hidden is not None and d_weight is not None:
            narrow_bias = None if d_bias is None or bias is None else d_bias.to(bias.dtype)
            ctx.save_for_backward(d_hidden, d_weight.to(weight.dtype), *(() if narrow_bias is None else (narrow_bias,)))
        ctx.mark_non_differentiable(sums[1])
        return sums[0].clone(), sums[1].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight, *d_bias = ctx.saved_tensors
        scale = gradients[0]
        scaled = [None if d is None else d * scale.to(d.dtype) for d in (d_hidden, d_weight, *(d_bias or [None]))]
        return (*scaled, None, None, None, None)
