"""Where a token stands, told at one of three places: added to embeddings, rotating queries and keys, biasing scores.

Letters: B rows, T queries, S keys, H heads, K head width, D model width.
"""

from math import log
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.config import Count, Positive
from qkv.errors import ConfigError
from qkv.nn.call import Layout


class Position(nn.Module):
    """One interface with three hooks; `acts` says which of them does something."""

    kind: ClassVar[str] = "position"
    acts: ClassVar[Literal["nowhere", "embedding", "rotation", "bias"]] = "nowhere"

    def embed(self, x: Float[Tensor, "B T D"], layout: Layout) -> Float[Tensor, "B T D"]:
        """Embeddings that know where they stand."""
        return x

    def rotate(self, x: Float[Tensor, "B H T K"], positions: Int[Tensor, "... T"]) -> Float[Tensor, "B H T K"]:
        """Queries or keys turned by where they stand."""
        return x

    def bias(self, layout: Layout, queries: int, keys: int, device: torch.device) -> Float[Tensor, "#B H T S"] | None:
        """What is added to the scores of each head."""
        return None


class NoPosition(Position):
    """Nothing is told: for recurrences and convolutions, which know order by themselves."""

    def __init__(self, width: int, heads: int, /) -> None:
        super().__init__()


def sinusoid(positions: Int[Tensor, "*rows"], width: int, base: float = 10_000.0) -> Float[Tensor, "*rows D"]:
    """Section 3.5: sine in the even channels, cosine in the odd ones, wavelengths from 2 pi to 2 pi * base."""
    exponents = torch.arange(0, width, 2, device=positions.device, dtype=torch.float32) / width
    angles = positions[..., None].to(torch.float32) * torch.exp(-log(base) * exponents)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :width]


class Sinusoidal(Position):
    """Fixed sinusoids, added ("Attention Is All You Need", 3.5)."""

    acts = "embedding"

    def __init__(self, width: int, heads: int, /, *, base: Positive = 10_000.0) -> None:
        super().__init__()
        self.width, self.base = width, base

    def embed(self, x: Float[Tensor, "B T D"], layout: Layout) -> Float[Tensor, "B T D"]:
        return x + sinusoid(layout.positions(x.shape[1], x.device), self.width, self.base).to(x.dtype)


class Learned(Position):
    """A vector for each position, added (Table 3, row E)."""

    acts = "embedding"

    def __init__(self, width: int, heads: int, /, *, longest: Count = 1024) -> None:
        super().__init__()
        self.longest = longest
        self.table = nn.Embedding(longest, width)

    def embed(self, x: Float[Tensor, "B T D"], layout: Layout) -> Float[Tensor, "B T D"]:
        positions, needed = layout.positions(x.shape[1], x.device), layout.start + x.shape[1]
        if needed > self.longest and layout.segments is not None:
            needed = int(positions.max()) + 1  # a packed row may be longer than any document in it
        if needed > self.longest:
            raise ConfigError(
                f"{needed} positions are asked of a learned table of {self.longest}; "
                f"train with position.longest={needed} or cut the text"
            )
        return x + self.table(positions)


class Rotary(Position):
    """Pairs of channels turn with the position, so that scores depend on the distance (Su et al. 2021)."""

    acts = "rotation"

    def __init__(self, width: int, heads: int, /, *, base: Positive = 10_000.0) -> None:
        super().__init__()
        self.base = base

    def rotate(self, x: Float[Tensor, "B H T K"], positions: Int[Tensor, "... T"]) -> Float[Tensor, "B H T K"]:
        width = x.shape[-1]
        if width % 2:
            raise ConfigError(
                f"rotary positions turn pairs of channels; a head width of {width} is odd, choose an even one"
            )
        rows = positions[None, None] if positions.dim() == 1 else positions[:, None]
        table = sinusoid(rows, width, self.base)
        sine, cosine = table[..., 0::2], table[..., 1::2]
        wide = torch.promote_types(x.dtype, torch.float32)
        even, odd = x[..., 0::2].to(wide), x[..., 1::2].to(wide)
        turned = torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1)
        return turned.flatten(-2).to(x.dtype)


def _distances(layout: Layout, queries: int, keys: int, device: torch.device) -> Int[Tensor, "#B 1 T S"]:
    """Key position minus query position."""
    mine, theirs = layout.positions(queries, device), layout.key_positions(keys, device)
    mine = mine[None] if mine.dim() == 1 else mine
    theirs = theirs[None] if theirs.dim() == 1 else theirs
    return (theirs[:, None, :] - mine[:, :, None])[:, None]


class Relative(Position):
    """A learned bias a head for each bucket of distances, far ones by their logarithm (Raffel et al. 2020)."""

    acts = "bias"

    def __init__(self, width: int, heads: int, /, *, buckets: Count = 32, longest: Count = 128) -> None:
        super().__init__()
        if buckets < 4 or buckets % 2 or longest <= buckets // 4:
            raise ConfigError(
                f"relative positions have {buckets} buckets and longest {longest}; "
                "buckets must be even and at least 4, and longest more than a quarter of them"
            )
        self.buckets, self.longest = buckets, longest
        self.table = nn.Embedding(buckets, heads)

    def bias(self, layout: Layout, queries: int, keys: int, device: torch.device) -> Float[Tensor, "#B H T S"]:
        distance = _distances(layout, queries, keys, device)
        half, near = self.buckets // 2, self.buckets // 4
        far = distance.abs()
        ratio = torch.log(far.clamp(min=near).float() / near) / log(self.longest / near)
        bucket = torch.where(far < near, far, (near + ratio * (half - near)).long().clamp(max=half - 1))
        scores = self.table(bucket + half * (distance > 0))  # B 1 T S H
        return scores.squeeze(1).permute(0, 3, 1, 2)


class Alibi(Position):
    """Scores fall with the distance, at a slope of its own for each head (Press et al. 2021)."""

    acts = "bias"

    def __init__(self, width: int, heads: int, /) -> None:
        super().__init__()
        self.heads = heads

    def slopes(self, device: torch.device) -> Float[Tensor, "H"]:
        """2^(-8/H), 2^(-16/H) ... 2^-8."""
        return 2.0 ** (-8.0 * torch.arange(1, self.heads + 1, device=device) / self.heads)

    def bias(self, layout: Layout, queries: int, keys: int, device: torch.device) -> Float[Tensor, "#B H T S"]:
        return -self.slopes(device).view(1, -1, 1, 1) * _distances(layout, queries, keys, device).abs()
