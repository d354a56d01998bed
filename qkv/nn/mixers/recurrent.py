"""The LSTM as a mixer (Hochreiter and Schmidhuber 1997): a position knows the others through what was carried along.

Letters: B rows, T positions, D model width, C cell width.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.config import Count
from qkv.nn.call import NOTHING, Call, Extras, Memories
from qkv.nn.mixers.base import Can, Mixer, Slot
from qkv.nn.state import State, Vectors


class Lstm(Mixer):
    """From left to right where it must be causal; from both sides where it need not, half the cells each."""

    can = Can(causal="exactly", bidirectional=True, padding=True, stepwise=True)

    def __init__(self, slot: Slot, /, *, cells: Count | None = None) -> None:
        super().__init__(slot)
        self.cells = cells or slot.width
        each = self.cells if slot.causal else (self.cells + 1) // 2
        self.forth = nn.LSTM(slot.width, each, batch_first=True)
        self.back = None if slot.causal else nn.LSTM(slot.width, each, batch_first=True)
        self.outward = nn.Linear(each if slot.causal else 2 * each, slot.width)

    def forward(self, x: Float[Tensor, "B T D"], call: Call) -> tuple[Float[Tensor, "B T D"], Extras]:
        if self.back is not None:
            index = _reversal(x, call.layout.lengths)
            back = self.back(_gathered(x, index))[0]
            return self.outward(torch.cat([self.forth(x)[0], _gathered(back, index)], dim=-1)), NOTHING
        if call.state is None:
            return self.outward(self.forth(x)[0]), NOTHING
        assert isinstance(call.state, Vectors)
        before = tuple(call.state.values[name][None].contiguous() for name in ("hidden", "cell"))
        y, (hidden, cell) = self.forth(x, before)
        call.state.values = {"hidden": hidden[0], "cell": cell[0]}
        return self.outward(y), NOTHING

    def begin(self, memories: Memories, rows: int, capacity: int) -> State:
        like = self.outward.weight
        return Vectors(
            hidden=like.new_zeros(rows, self.forth.hidden_size), cell=like.new_zeros(rows, self.forth.hidden_size)
        )


def _reversal(x: Float[Tensor, "B T D"], lengths: Int[Tensor, "B"] | None) -> Int[Tensor, "#B T"]:
    """For each row the index that turns its real part around; its own inverse."""
    index = torch.arange(x.shape[1], device=x.device)
    if lengths is None:
        return index.flip(0)[None]
    return torch.where(index < lengths[:, None], lengths[:, None] - 1 - index, index)


def _gathered(x: Float[Tensor, "B T D"], index: Int[Tensor, "#B T"]) -> Float[Tensor, "B T D"]:
    return x.gather(1, index[..., None].expand(x.shape[0], -1, x.shape[2]))
