"""Attention as tensor maths: three functions as the lectures write it, and the one that layers call, held equal by
tests.

"Attention Is All You Need", 3.2.1.
Letters: B rows, T queries, S keys, H heads, G key heads, K head width, D model width.
"""

from math import sqrt

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from qkv import native
from qkv.nn.call import Layout
from qkv.nn.short import short_attention
from qkv.random import LEVELS, Noise, dropped, dropped_levels

# Up to this many pairs a head, our kernel and plain products beat PyTorch's, whose backward is slow on short rows.
SHORT = 128 * 128


def dot_attention(x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
    """Every position becomes an average of all, weighted by how alike they are: softmax(x x^T) x."""
    weights = torch.softmax(x @ x.transpose(-2, -1), dim=-1)
    return weights @ x


def query_key_value_attention(
    query: Float[Tensor, "*B T K"], key: Float[Tensor, "*B S K"], value: Float[Tensor, "*B S V"]
) -> Float[Tensor, "*B T V"]:
    """What asks, what is asked and what is answered come apart: softmax(Q K^T) V."""
    weights = torch.softmax(query @ key.transpose(-2, -1), dim=-1)
    return weights @ value


def scaled_attention(
    query: Float[Tensor, "*B T K"],
    key: Float[Tensor, "*B S K"],
    value: Float[Tensor, "*B S V"],
    visible: Bool[Tensor, "*#B T S"] | None = None,
) -> Float[Tensor, "*B T V"]:
    """Equation 1: softmax(Q K^T / sqrt(d_k)) V, where a query may attend."""
    scores = query @ key.transpose(-2, -1) / sqrt(query.shape[-1])
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return torch.softmax(scores, dim=-1) @ value


def attend(
    q_bhtk: Float[Tensor, "B H T K"],
    k_bgsk: Float[Tensor, "B G S K"],
    v_bgsk: Float[Tensor, "B G S V"],
    layout: Layout,
    *,
    bias: Float[Tensor, "#B H T S"] | None = None,
    rate: float = 0.0,
    noise: Noise | None = None,
    place: int = -1,
    maps: bool = False,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T S"] | None]:
    """Equation 1 by the kernel that suits; the maps too when they are wanted, on the plain path, before dropout."""
    queries, keys = q_bhtk.shape[2], k_bgsk.shape[2]
    drops = rate > 0 and noise is not None
    if maps or bias is not None or drops or queries * keys <= SHORT:
        in_step = isinstance(layout.offset, int) and layout.offset == 0 and queries > 1
        simple = layout.segments is None and layout.prefix is None and bias is None and not maps
        if in_step and simple and native.serves(q_bhtk, k_bgsk, v_bgsk):
            return _short(q_bhtk, k_bgsk, v_bgsk, layout, rate, noise if drops else None, place), None
        return _plain(q_bhtk, k_bgsk, v_bgsk, layout, bias, rate, noise, place, maps)
    grouped = q_bhtk.shape[1] != k_bgsk.shape[1]
    if layout.only_causal and layout.offset == 0 and queries == keys:
        # Padding comes last, so no real query sees it; and only `is_causal` lets the kernel skip blocks.
        return F.scaled_dot_product_attention(q_bhtk, k_bgsk, v_bgsk, is_causal=True, enable_gqa=grouped), None
    visible = layout.visible(queries, keys, q_bhtk.device)
    if visible is not None and layout.segments is not None:
        visible = visible | ~visible.any(
            -1, keepdim=True
        )  # a padded query sees everything rather than nothing, which not every kernel answers with a number
    return F.scaled_dot_product_attention(q_bhtk, k_bgsk, v_bgsk, attn_mask=visible, enable_gqa=grouped), None


def _short(
    q_bhtk: Tensor, k_bgsk: Tensor, v_bgsk: Tensor, layout: Layout, rate: float, noise: Noise | None, place: int
) -> Tensor:
    shape = (*q_bhtk.shape[:3], k_bgsk.shape[2])
    levels = dropped_levels(rate)
    return short_attention(
        q_bhtk,
        k_bgsk,
        v_bgsk,
        causal=layout.causal,
        lengths=layout.lengths,
        noise_keys=None if noise is None else noise.keys(place, shape).expand(*shape[:3], 1),
        levels=levels,
        keep_scale=1 / (1 - levels / LEVELS),
    )


def _plain(
    q_bhtk: Tensor,
    k_bgsk: Tensor,
    v_bgsk: Tensor,
    layout: Layout,
    bias: Tensor | None,
    rate: float,
    noise: Noise | None,
    place: int,
    maps: bool,
) -> tuple[Tensor, Tensor | None]:
    rows, heads, queries, width = q_bhtk.shape
    groups, keys = k_bgsk.shape[1], k_bgsk.shape[2]
    # Query heads that share a key head stand one below the other, so that one product serves them all.
    q = (q_bhtk * width**-0.5).reshape(rows, groups, heads // groups * queries, width)
    scores = (q @ k_bgsk.transpose(-2, -1)).view(rows, heads, queries, keys)
    if bias is not None:
        scores = scores + bias
    visible = layout.visible(queries, keys, scores.device)
    if visible is not None:
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(v_bgsk.dtype)
    used = dropped(weights, rate, noise, place)
    y = used.view(rows, groups, heads // groups * queries, keys) @ v_bgsk
    return y.view(rows, heads, queries, v_bgsk.shape[-1]), weights if maps else None
