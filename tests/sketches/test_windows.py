"""A sketch of a hard contract: windows on a grid (Liu et al. 2021): a mixer that alternates by layer."""

import torch
from torch import Tensor, nn

from qkv.nn.call import NOTHING, Call, Extras, Layout, Memories
from qkv.nn.functional import scaled_attention
from qkv.nn.mixers.base import Can, Mixer, Slot
from qkv.nn.state import Forgetful, State
from tests.conformance.cases import drawn, numbers

SIDE, WINDOW = 6, 3


class Windows(Mixer):
    """Attends within windows; every second layer shifts them by half, and masks what the shift wrapped around."""

    can = Can(bidirectional=True)

    def __init__(self, slot: Slot, /, *, window: int = WINDOW) -> None:
        super().__init__(slot)
        self.window, self.shift = window, (window // 2) * (slot.layer % 2)
        self.inward, self.outward = nn.Linear(slot.width, 3 * slot.width), nn.Linear(slot.width, slot.width)

    def forward(self, x: Tensor, call: Call) -> tuple[Tensor, Extras]:
        assert call.layout.grid is not None
        height, width = call.layout.grid
        q, k, v = self.cut(self.inward(x), height, width).chunk(3, -1)
        region = torch.zeros(1, height * width, 1)
        if self.shift:
            line = torch.arange(height) < self.shift, torch.arange(width) < self.shift
            region = (line[0][:, None] * 2.0 + line[1][None, :]).reshape(1, -1, 1)
        region = self.cut(region, height, width)
        y = scaled_attention(q, k, v, (region == region.mT).repeat(x.shape[0], 1, 1))
        return self.outward(self.pasted(y, height, width)), NOTHING

    def begin(self, memories: Memories, rows: int, capacity: int) -> State:
        return Forgetful()

    def cut(self, x: Tensor, height: int, width: int) -> Tensor:
        """B (H W) D to windows as rows: B*N (w w) D."""
        size = self.window
        grid = x.view(x.shape[0], height, width, -1).roll((-self.shift, -self.shift), (1, 2))
        cells = grid.view(x.shape[0], height // size, size, width // size, size, -1)
        return cells.transpose(2, 3).reshape(-1, size * size, x.shape[-1])

    def pasted(self, x: Tensor, height: int, width: int) -> Tensor:
        size, channels = self.window, x.shape[-1]
        cells = x.view(-1, height // size, width // size, size, size, channels).transpose(2, 3)
        grid = cells.reshape(-1, height, width, channels).roll((self.shift, self.shift), (1, 2))
        return grid.reshape(-1, height * width, channels)


def reach(layers: list[int], place: int) -> Tensor:
    """Which cells of the grid a place feels after these layers."""
    x = numbers(2, SIDE * SIDE, 8).requires_grad_()
    y, layout = x, Layout(grid=(SIDE, SIDE))
    for layer in layers:
        y = drawn(Windows(Slot(8, layer=layer)).double())(y, Call(layout))[0]
    (gradient,) = torch.autograd.grad(y[:, place].sum(), x)
    return (gradient[0].abs().sum(-1) > 0).view(SIDE, SIDE)


def test_unshifted_windows_never_meet() -> None:
    window = torch.zeros(SIDE, SIDE, dtype=torch.bool)
    window[:WINDOW, :WINDOW] = True
    assert torch.equal(reach([0, 2], 0), window)


def test_a_shift_lets_neighbours_meet_and_does_not_wrap_around() -> None:
    assert reach([0, 1], 2 * SIDE + 2).all(), "the middle of the picture sees all four windows"
    corner = reach([1], 0)
    assert corner[0, 0] and not corner[SIDE - 1].any() and not corner[:, SIDE - 1].any()
