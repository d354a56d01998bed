"""Drawing a token: temperature, the k likeliest (Fan et al. 2018), the fewest that hold p (Holtzman et al. 2020).

One uniform number decides each token. It is keyed by (seed, position, sample, draw), so a sentence's samples are the
same whatever it is decoded with.

Letters: U sentences, V vocabulary.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from qkv.decode.settings import SearchSettings
from qkv.random import Noise, place_of

PLACE = place_of("decode.sample")


def uniform(
    seed: int, draws_of: int, samples: Int[Tensor, "U"], draws: Int[Tensor, "U"], positions: Int[Tensor, "U"]
) -> Float[Tensor, "U"]:
    """Numbers in (0, 1), one for each sentence, where each sample is drawn `draws_of` times."""
    words = Noise(seed, 0, samples, positions[:, None]).words(PLACE, (len(samples), 1, draws_of))
    own = words[:, 0].gather(1, draws[:, None])[:, 0]
    return ((own.to(torch.int64) & 0xFFFFFFFF).to(torch.float64) + 0.5) / (1 << 32)


def drawn(scores: Float[Tensor, "U V"], numbers: Float[Tensor, "U"], settings: SearchSettings) -> Int[Tensor, "U"]:
    """The token at which the distribution function, tokens in order, passes the number."""
    ids, shares = kept(scores, settings)
    below = shares.cumsum(1)
    place = torch.searchsorted(below, numbers[:, None] * below[:, -1:], right=True)
    # Where nothing is allowed there is no such place; the score of whatever stands there says so.
    place = place.clamp_(max=shares.shape[1] - 1)
    return (place if ids is None else ids.gather(1, place))[:, 0]


def kept(
    scores: Float[Tensor, "U V"], settings: SearchSettings
) -> tuple[Int[Tensor, "U K"] | None, Float[Tensor, "U K"]]:
    """What may be drawn and its share: all tokens by id (None), or the likeliest, best first, lowest id first."""
    scores, ids = scores.double() / settings.temperature, None
    if settings.top_k or settings.top_p < 1:
        scores, ids = scores.sort(dim=1, descending=True, stable=True)
        if settings.top_k:
            scores, ids = scores[:, : settings.top_k], ids[:, : settings.top_k]
    shares = scores.softmax(1)
    if settings.top_p < 1:
        above = shares.cumsum(1) - shares
        shares = shares.masked_fill(above >= settings.top_p, 0.0)
    return ids, shares
