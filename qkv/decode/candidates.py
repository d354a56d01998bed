"""The best continuations of a sentence's lanes, highest first; of equals the lowest lane, then the lowest id.

Scores of bfloat16 logits are often exactly equal, so the order of equals is part of the definition, not a detail.
A vocabulary is first reduced to the maxima of chunks: the n best elements lie in the n chunks that come first by
(maximum, place), since each of those holds an element that comes before any of another chunk. Only these are sorted.

Letters: U sentences, W lanes of each, V vocabulary, N candidates.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

CHUNK = 64
_LOW_32 = (1 << 32) - 1


def top(
    scores: Float[Tensor, "U W V"], live: Float[Tensor, "U W"], count: int
) -> tuple[Float[Tensor, "U N"], Int[Tensor, "U N"], Int[Tensor, "U N"]]:
    """The values (log-probability of the whole), lanes and ids of the `count` best continuations, best first."""
    _, lanes, vocabulary = scores.shape
    peaks = _peaks(scores) + live[:, :, None]
    chunks = peaks.shape[2]
    _, order = _ranked(peaks.flatten(1), torch.arange(lanes * chunks, device=scores.device), count)
    lane, chunk = order // chunks, order % chunks
    ids = chunk[:, :, None] * CHUNK + torch.arange(CHUNK, device=scores.device)
    beyond = ids >= vocabulary
    ids = ids.clamp_(max=vocabulary - 1)
    places = (lane[:, :, None] * vocabulary + ids).flatten(1)
    values = scores.flatten(1).gather(1, places) + live.gather(1, lane).repeat_interleave(CHUNK, 1)
    values.masked_fill_(beyond.flatten(1), -torch.inf)
    best, index = _ranked(values, places, count)
    places = places.gather(1, index)
    return best, places // vocabulary, places % vocabulary


def _peaks(scores: Float[Tensor, "U W V"]) -> Float[Tensor, "U W C"]:
    whole = scores.shape[2] // CHUNK * CHUNK
    peaks = scores[:, :, :whole].unflatten(2, (-1, CHUNK)).amax(3) if whole else scores[:, :, :0]
    if whole == scores.shape[2]:
        return peaks
    return torch.cat([peaks, scores[:, :, whole:].amax(2, keepdim=True)], 2)


def _ranked(
    values: Float[Tensor, "U M"], places: Int[Tensor, "*U M"], count: int
) -> tuple[Float[Tensor, "U N"], Int[Tensor, "U N"]]:
    """The best values and their columns; of equal values the one with the lowest place."""
    # A float's bits, negative ones turned round, sort as it does: the value above, the place below, no two keys alike.
    # What is not a number comes first, so that it is seen.
    bits = (values.float().nan_to_num(torch.inf, torch.inf, -torch.inf) + 0.0).view(torch.int32)
    sortable = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    keys = (sortable << 32) + (_LOW_32 - places)
    columns = keys.topk(min(count, keys.shape[1]), dim=1).indices
    return values.gather(1, columns), columns
