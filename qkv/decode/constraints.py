"""What may not be written next: each constraint puts scores that are forbidden to minus infinity, in place.

Letters: U sentences, W lanes of each, V vocabulary, C columns of the target so far.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def forbid(scores: Float[Tensor, "U W V"], ids: tuple[int, ...]) -> None:
    """Never these ids."""
    for i in ids:
        scores[:, :, i] = -torch.inf


def hold_back(scores: Float[Tensor, "U W V"], sentences: list[int], eos: int) -> None:
    """No end yet for these sentences."""
    scores[torch.tensor(sentences, device=scores.device), :, eos] = -torch.inf


def block_repeats(
    scores: Float[Tensor, "U W V"], ids: Int[Tensor, "U W C"], lengths: Int[Tensor, "U"], longest: int, size: int
) -> None:
    """No token that would complete an n-gram of this size that stands in the target already."""
    starts = longest - size + 1
    if starts <= 0:
        return
    known = size - 1
    last = (lengths[:, None] - known + torch.arange(known, device=ids.device)).clamp_(min=0)
    suffix = ids.gather(2, last[:, None].expand(-1, ids.shape[1], -1))
    complete = torch.arange(starts, device=ids.device) + known < lengths[:, None]
    match = complete[:, None].expand(-1, ids.shape[1], -1)
    for i in range(known):
        match = match & (ids[:, :, i : i + starts] == suffix[:, :, i : i + 1])
    banned = torch.where(match, -torch.inf, torch.inf).to(scores.dtype)
    scores.scatter_reduce_(2, ids[:, :, known : known + starts], banned, "amin")


def force(scores: Float[Tensor, "U W V"], sentences: list[int], ids: list[int]) -> None:
    """These sentences write these ids, at no cost: a given token is not the model's choice."""
    rows = torch.tensor(sentences, device=scores.device)
    scores[rows] = -torch.inf
    scores[rows, :, torch.tensor(ids, device=scores.device)] = 0.0
