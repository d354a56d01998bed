"""Cross-entropy with label smoothing straight from hidden vectors: the logits are never whole in memory.

The loss of a position is (1 - e) * -log p(target) + e * mean over the vocabulary of -log p (Szegedy et al. 2016, 7).
Chunk by chunk the logits are made, turned into loss and gradient, and forgotten; so the backward pass has nothing left
to do but scale.

Letters: N positions, D model width, V vocabulary.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from qkv import native
from qkv.tracing import region

CHUNK = 1 << 22  # logits held at a time: 8 MiB in bf16, about what a core's cache takes


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
    rows = max(1, chunk // weight.shape[0])
    # Only out here does `no_grad` show: within a function of autograd's it always holds.
    learns = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (hidden, weight, bias))
    with region("loss"):
        loss, nll = _Smoothed.apply(hidden, weight, bias, targets, real, smoothing, rows, learns)
    return loss, nll


def softened_(
    logits: Float[Tensor, "N V"],
    targets: Int[Tensor, "N"],
    real: Bool[Tensor, "N"],
    smoothing: float,
    gradient: bool,
    room: Float[Tensor, "M V"] | None,
) -> tuple[Float[Tensor, "N 1"], Float[Tensor, "N 1"]]:
    """log sum exp and the targets' logits. Where a gradient is wanted the logits turn into it, in place.

    The gradient is softmax - (1 - smoothing) at the target, and nothing for positions that are not real; smoothing's
    even part is left to the caller. With `room` for as many numbers in fp32 this is plain PyTorch, else the kernel.
    """
    if room is None:
        log_z, at_target = (logits.new_empty(len(logits), 1, dtype=torch.float32) for _ in range(2))
        targets, real = targets.contiguous(), real.contiguous()  # by name: an address keeps nothing alive
        native.kernel("softened", logits)(
            logits.data_ptr(),
            targets.data_ptr(),
            real.data_ptr(),
            *logits.shape,
            smoothing,
            gradient,
            log_z.data_ptr(),
            at_target.data_ptr(),
            torch.get_num_threads(),
        )
        return log_z, at_target
    index, p_nv = targets[:, None], room[: len(logits)]
    at_target = logits.gather(1, index).to(room.dtype)
    if not gradient:
        return logits.to(room.dtype).logsumexp(-1, keepdim=True), at_target
    torch.softmax(p_nv.copy_(logits), -1, out=p_nv)
    log_z = at_target - p_nv.gather(1, index).clamp_min(torch.finfo(room.dtype).tiny).log()
    p_nv.scatter_add_(1, index, torch.full_like(log_z, smoothing - 1))
    logits.copy_(p_nv.mul_(real[:, None]))
    return log_z, at_target


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
        wanted: bool,
    ) -> tuple[Tensor, Tensor]:
        wide = torch.promote_types(hidden.dtype, torch.float32)
        d_hidden = torch.empty_like(hidden) if wanted else None
        d_weight = torch.zeros_like(weight, dtype=wide) if wanted else None
        d_bias = torch.zeros_like(bias, dtype=wide) if wanted and bias is not None else None
        # Smoothing is linear in the logits, so its part needs no pass over them: the mean logit is h . mean(w).
        mean_d = weight.mean(0, dtype=wide)
        mean_bias = 0.0 if bias is None else bias.mean(dtype=wide)
        doubt = smoothing / weight.shape[0]
        sums, sum_d = torch.zeros(2, dtype=wide, device=hidden.device), torch.zeros_like(mean_d)
        # Written over by every chunk: fresh memory for each would cost more than what is computed in it.
        rows = min(rows, hidden.shape[0])
        logits_nv = hidden.new_empty(rows, weight.shape[0])
        room_nv = None if native.serves(logits_nv) else torch.empty_like(logits_nv, dtype=wide)
        for first in range(0, hidden.shape[0], rows):
            part = slice(first, first + rows)
            h_nd, index, seen = hidden[part], targets[part], real[part, None].to(wide)
            logits = logits_nv[: len(h_nd)]
            torch.mm(h_nd, weight.t(), out=logits)
            if bias is not None:
                logits += bias
            log_z, at_target = softened_(logits, index, real[part], smoothing, wanted, room_nv)
            if d_hidden is not None and d_weight is not None:
                d_hidden[part] = (logits @ weight) - (smoothing * seen * mean_d).to(hidden.dtype)
                d_weight += logits.t() @ h_nd
                sum_d += (h_nd * seen.to(hidden.dtype)).sum(0, dtype=wide)
                if d_bias is not None:
                    d_bias += logits.sum(0, dtype=wide) - doubt * seen.sum()
            nll = log_z - at_target
            mean_logit = (h_nd.to(wide) @ mean_d + mean_bias)[:, None]
            sums[0] += (seen * ((1 - smoothing) * nll + smoothing * (log_z - mean_logit))).sum()
            sums[1] += (seen * nll).sum()
        if d_hidden is not None and d_weight is not None:
            d_weight -= doubt * sum_d
            narrow_bias = None if d_bias is None or bias is None else d_bias.to(bias.dtype)
            ctx.save_for_backward(d_hidden, d_weight.to(weight.dtype), *(() if narrow_bias is None else (narrow_bias,)))
        loss, plain = sums[0].clone(), sums[1].clone()
        ctx.mark_non_differentiable(plain)
        return loss, plain

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        d_hidden, d_weight, *d_bias = ctx.saved_tensors
        scale = gradients[0]
        scaled = [None if d is None else d * scale.to(d.dtype) for d in (d_hidden, d_weight, *(d_bias or [None]))]
        return (*scaled, None, None, None, None, None)
