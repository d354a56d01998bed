"""Random numbers by counter, not by stream: a number is a function of (seed, step, place, sample, position, channel).

So the noise of a row is the same for any split of the batch, any padding and any number of ranks, and exact on resume:
there is no generator whose state could be lost. The mixing function is the 32-bit finalizer "lowbias32" (Wellons 2018),
applied to row keys xor column keys; two 16-bit numbers come out of each word, so a rate is met to 1/65,536.
"""

from dataclasses import dataclass, replace
from zlib import crc32

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from qkv import native
from qkv.tracing import region

_MIX_1, _MIX_2, _GOLDEN = 0x7FEB352D, -0x7B935975, -0x61C88647  # as signed 32-bit numbers
_MASK_15, _MASK_16 = 0x1FFFF, 0xFFFF
LEVELS = 1 << 16


def place_of(name: str) -> int:
    """The number of a place in a model, from its dotted name: stable over runs, ranks and machines."""
    return crc32(name.encode())


def mixed_(x: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """32-bit integers to well mixed ones, in place."""
    # Arithmetic shifts copy the sign bit; the masks make them logical ones.
    x ^= (x >> 16) & _MASK_16
    x *= _MIX_1
    x ^= (x >> 15) & _MASK_15
    x *= _MIX_2
    x ^= (x >> 16) & _MASK_16
    return x


def _signed(x: int) -> int:
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def word(*numbers: int) -> int:
    """One well mixed 32-bit number out of several, on the host."""
    state = 0x9E3779B9
    for number in numbers:
        for half in (number & 0xFFFFFFFF, (number >> 32) & 0xFFFFFFFF):
            state = (state ^ half) & 0xFFFFFFFF
            state = ((state ^ (state >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
            state = ((state ^ (state >> 15)) * 0x846CA68B) & 0xFFFFFFFF
            state = (state ^ (state >> 16)) + 0x9E3779B9 & 0xFFFFFFFF
    return state


@dataclass(frozen=True)
class Noise:
    """What keys the random numbers of one step: handed down in a call, absent when nothing is random."""

    seed: int
    step: int
    samples: Int[Tensor, "B"]
    positions: Int[Tensor, "B T"] | Int[Tensor, "T"] | None = (
        None  # where those before the channels do not run 0, 1, 2 ...
    )

    def to_rows(self, samples: Int[Tensor, "B"]) -> "Noise":
        """The same key for other rows."""
        return replace(self, samples=samples)

    def keep(self, place: int, shape: tuple[int, ...], rate: float) -> Bool[Tensor, "*shape"]:
        """True where a value survives dropout at `rate`.

        Dimension 0 is the rows, the last one the channels, the ones between positions. A position's
        numbers depend on its own index in each dimension, never on how far the others are padded.
        """
        *outer, channels = shape
        words = (channels + 1) // 2
        bits = self.words(place, (*outer, words))
        # int16 values are uniform over [-32768, 32767]: the lowest `rate` of them are dropped.
        threshold = dropped_levels(rate) - (LEVELS >> 1)
        kept = bits.view(torch.int16) >= threshold
        return kept[..., :channels] if 2 * words != channels else kept

    def words(self, place: int, shape: tuple[int, ...]) -> Int[Tensor, "*shape"]:
        """Independent uniform 32-bit numbers, keyed by row, position and channel."""
        last = len(shape) - 1
        keys = self.keys(place, shape)
        return mixed_(keys ^ (self._index(last, shape, keys.device) * _GOLDEN + last)) if last else keys

    def keys(self, place: int, shape: tuple[int, ...]) -> Int[Tensor, "*outer"]:
        """What keys each row of channels: the words, but for their last dimension, which is left at 1."""
        assert shape[0] == self.samples.shape[0], (shape, self.samples.shape)
        device = self.samples.device
        keys = self.samples.to(torch.int64)
        low, high = (keys & 0xFFFFFFFF), (keys >> 32)
        row = _to_int32(low ^ word(self.seed, self.step, place))
        row = mixed_(row) ^ _to_int32(high & 0xFFFFFFFF)
        x = row.view(-1, *[1] * (len(shape) - 1))
        for dimension in range(1, len(shape) - 1):
            index = self._index(dimension, shape, device)
            x = mixed_(x ^ (index * _GOLDEN + dimension))
        return x

    def _index(self, dimension: int, shape: tuple[int, ...], device: torch.device) -> Int[Tensor, "..."]:
        trailing = [1] * (len(shape) - 1 - dimension)
        if 0 < dimension == len(shape) - 2 and self.positions is not None:
            return self.positions.to(torch.int32).view(
                -1 if self.positions.dim() == 1 else shape[0], *[1] * (dimension - 1), shape[dimension], *trailing
            )
        return torch.arange(shape[dimension], dtype=torch.int32, device=device).view(
            1, *[1] * (dimension - 1), -1, *trailing
        )


def dropped_levels(rate: float) -> int:
    """How many of the 65,536 levels are dropped; never all of them."""
    return min(round(rate * LEVELS), LEVELS - 1)


def _to_int32(x: Int[Tensor, "B"]) -> Int[Tensor, "B"]:
    """The low 32 bits of 64-bit integers."""
    return x.to(torch.int64).bitwise_and(0xFFFFFFFF).add(1 << 31).bitwise_and(0xFFFFFFFF).sub(1 << 31).to(torch.int32)


class _Dropped(torch.autograd.Function):
    """x * keep / (1 - rate), remembering one byte a value."""

    @staticmethod
    def forward(ctx, x: Tensor, keep: Tensor, scale: float) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(keep)
        ctx.scale = scale
        return torch.ops.aten.native_dropout_backward(x, keep, scale)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[no-untyped-def]
        (keep,) = ctx.saved_tensors
        return torch.ops.aten.native_dropout_backward(gradient, keep, ctx.scale), None, None


class _DroppedNatively(torch.autograd.Function):
    """The same by csrc/dropout.cpp, which makes the mask again for the gradient."""

    @staticmethod
    def forward(ctx, x: Tensor, keys: Tensor, levels: int, scale: float) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(keys)
        ctx.numbers = levels, scale
        return _natively(x, keys, levels, scale)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[no-untyped-def]
        (keys,) = ctx.saved_tensors
        return _natively(gradient, keys, *ctx.numbers), None, None, None


def _natively(x: Tensor, keys: Tensor, levels: int, scale: float) -> Tensor:
    kernel, x = native.kernel("dropped", x), x.contiguous()
    y = torch.empty_like(x)
    rows = x.numel() // max(1, x.shape[-1])
    dimension, threads = x.dim() - 1, torch.get_num_threads()
    kernel(x.data_ptr(), y.data_ptr(), keys.data_ptr(), rows, x.shape[-1], dimension, levels, scale, threads)
    return y


def dropped(x: Tensor, rate: float, noise: Noise | None, place: int) -> Tensor:
    """Dropout (Srivastava et al. 2014) with the keyed noise; x itself when there is no noise."""
    if noise is None or rate == 0:
        return x
    assert place >= 0, "name_places(model) was not called"
    levels = dropped_levels(rate)
    scale = 1 / (1 - levels / LEVELS)
    result: Tensor
    with region("dropout"):
        if native.serves(x) and x.dim() > 1:
            keys = noise.keys(place, tuple(x.shape)).expand(*x.shape[:-1], 1).contiguous()
            result = _DroppedNatively.apply(x, keys, levels, scale)
        else:
            result = _Dropped.apply(x, noise.keep(place, tuple(x.shape), rate), scale)
    return result
