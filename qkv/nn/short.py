"""Attention over short rows by one kernel, csrc/attention.cpp: a head's scores stay in the cache and are never stored.

The fast form of `_plain` in qkv/nn/functional.py; the gradient makes the weights again.
Letters: B rows, T queries, S keys, H heads, G key heads, K key width, V value width.
"""

import ctypes
from ctypes import c_float, c_int, c_int64, c_void_p
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from qkv import native


class _Shape(ctypes.Structure):
    _fields_ = [(n, c_int64) for n in ("rows", "heads", "groups", "queries", "keys", "key_width", "value_width")]


class _Mask(ctypes.Structure):
    _fields_ = [
        ("lengths", c_void_p),
        ("causal", c_int),
        ("noise", c_void_p),
        ("dimension", c_int),
        ("levels", c_int),
        ("keep_scale", c_float),
    ]


def short_attention(
    q_bhtk: Float[Tensor, "B H T K"],
    k_bgsk: Float[Tensor, "B G S K"],
    v_bgsv: Float[Tensor, "B G S V"],
    *,
    causal: bool,
    lengths: Int[Tensor, "B"] | None,
    noise_keys: Int[Tensor, "B H T 1"] | None = None,
    levels: int = 0,
    keep_scale: float = 1.0,
) -> Float[Tensor, "B H T V"]:
    """Equation 1 for queries that stand at 0; what `native.serves` must have said yes to."""
    if lengths is not None:
        lengths = lengths.to(torch.int64).contiguous()
    if noise_keys is not None:
        noise_keys = noise_keys.contiguous()
    y: Tensor = _Short.apply(q_bhtk, k_bgsk, v_bgsv, causal, lengths, noise_keys, levels, keep_scale)
    return y


class _Short(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        causal: bool,
        lengths: Tensor | None,
        noise: Tensor | None,
        levels: int,
        keep_scale: float,
    ) -> Tensor:
        q, k, v = (_dense_last(t) for t in (q, k, v))
        y = _like_positions(q, v.shape[-1])
        ctx.save_for_backward(q, k, v, lengths, noise)
        ctx.told = causal, levels, keep_scale
        _run("attend", (q, k, v), (y,), lengths, noise, *ctx.told)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        q, k, v, lengths, noise = ctx.saved_tensors
        dy = _dense_last(gradients[0])
        made = tuple(_like_positions(t, t.shape[-1]) for t in (q, k, v))
        _run("attend_back", (q, k, v, dy), made, lengths, noise, *ctx.told)
        return (*made, None, None, None, None, None)


def _run(
    name: str,
    read: tuple[Tensor, ...],
    written: tuple[Tensor, ...],
    lengths: Tensor | None,
    noise: Tensor | None,
    causal: bool,
    levels: int,
    keep_scale: float,
) -> None:
    q, k, v = read[:3]
    shape = _Shape(q.shape[0], q.shape[1], k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3])
    tensors = (*read, *written)
    strides = (c_int64 * (3 * len(tensors)))(*(s for t in tensors for s in t.stride()[:3]))
    mask = _Mask(
        None if lengths is None else lengths.data_ptr(),
        causal,
        None if noise is None else noise.data_ptr(),
        3,
        levels,
        keep_scale,
    )
    native.kernel(name, q)(
        *(t.data_ptr() for t in tensors),
        ctypes.byref(shape),
        strides,
        ctypes.byref(mask),
        q.shape[3] ** -0.5,
        torch.get_num_threads(),
    )


def _dense_last(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _like_positions(x: Tensor, width: int) -> Tensor:
    """An empty tensor whose heads lie beside one another at each position, as the linear maps around have them."""
    return x.new_empty(x.shape[0], x.shape[2], x.shape[1], width).transpose(1, 2)
