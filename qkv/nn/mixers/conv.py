"""A dilated convolution as a mixer: a position sees K others, D apart.

ByteNet (Kalchbrenner et al. 2016, 3.2); the causal form is WaveNet's.
Letters: B rows, T positions, D model width.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.config import Count
from qkv.errors import ConfigError
from qkv.nn.call import NOTHING, Call, Extras, Memories
from qkv.nn.mixers.base import Can, Mixer, Slot
from qkv.nn.state import State, Vectors


class Convolution(Mixer):
    """Looks back only where it must be causal, to both sides where it need not; dilations alternate by layer."""

    can = Can(causal="exactly", bidirectional=True, padding=True, stepwise=True)

    def __init__(self, slot: Slot, /, *, kernel: Count = 3, dilations: tuple[Count, ...] = (1,)) -> None:
        super().__init__(slot)
        if not slot.causal and kernel % 2 == 0:
            raise ConfigError(f"a kernel of {kernel} has no middle; one that looks both ways is odd, try {kernel + 1}")
        if not dilations:
            raise ConfigError("dilations is empty; give at least one, such as [1]")
        dilation = dilations[slot.layer % len(dilations)]
        self.filter = nn.Conv1d(slot.width, slot.width, kernel, dilation=dilation)
        self.reach = (kernel - 1) * dilation

    def forward(self, x: Float[Tensor, "B T D"], call: Call) -> tuple[Float[Tensor, "B T D"], Extras]:
        x_bdt = x.transpose(1, 2)
        if call.state is not None:
            assert isinstance(call.state, Vectors)
            x_bdt = torch.cat([call.state.values["tail"], x_bdt], dim=2)
            call.state.values = {"tail": x_bdt[:, :, x_bdt.shape[2] - self.reach :]}
        elif self.slot.causal:
            x_bdt = F.pad(x_bdt, (self.reach, 0))
        else:
            if call.layout.lengths is not None:
                real = torch.arange(x.shape[1], device=x.device) < call.layout.lengths[:, None]
                x_bdt = x_bdt.masked_fill(~real[:, None], 0)  # a product would keep what is not finite
            x_bdt = F.pad(x_bdt, (self.reach // 2, self.reach // 2))
        return self.filter(x_bdt).transpose(1, 2), NOTHING

    def begin(self, memories: Memories, rows: int, capacity: int) -> State:
        weight = self.filter.weight
        return Vectors(tail=weight.new_zeros(rows, weight.shape[1], self.reach))
