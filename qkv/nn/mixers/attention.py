"""Multi-head attention ("Attention Is All You Need", 3.2.2): each position asks all it may see, H times at once.

Letters: B rows, T queries, S keys, H heads, G key heads (fewer when heads share them: Ainslie et al. 2023), K head
width, D model width.
"""

from jaxtyping import Float
from torch import Tensor, nn

from qkv.config import Count, Probability
from qkv.errors import ConfigError
from qkv.nn.call import NOTHING, Call, Extras, Layout, Memories, Memory
from qkv.nn.dropout import Dropout
from qkv.nn.functional import attend
from qkv.nn.mixers.base import Can, Mixer, Slot
from qkv.nn.state import KeyValues, Projected, State
from qkv.tracing import region


class Attention(Mixer):
    """Looks at its own row, or at a memory when its slot names one."""

    can = Can(
        causal="exactly",
        bidirectional=True,
        cross=True,
        padding=True,
        packing=True,
        prefix=True,
        stepwise=True,
        rewind=True,
        maps=True,
        positions=True,
    )

    def __init__(
        self,
        slot: Slot,
        /,
        *,
        heads: Count = 8,
        key_heads: Count | None = None,
        key_width: Count | None = None,
        value_width: Count | None = None,
        dropout: Probability = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(slot)
        width = slot.width
        if (key_width is None or value_width is None) and width % heads:
            near = max(h for h in range(1, heads + 1) if width % h == 0)
            raise ConfigError(
                f"width {width} does not divide into {heads} heads; try heads={near}, or set key_width and value_width"
            )
        groups = key_heads or heads
        if heads % groups:
            raise ConfigError(f"{heads} heads cannot share {groups} key heads evenly; key_heads must divide heads")
        self.heads, self.groups = heads, groups
        self.key_width, self.value_width = key_width or width // heads, value_width or width // heads
        asked, shown = heads * self.key_width, groups * (self.key_width + self.value_width)
        if slot.memory is None:
            self.inward = nn.Linear(width, asked + shown, bias=bias)
        else:
            self.query, self.shown = nn.Linear(width, asked, bias=bias), nn.Linear(width, shown, bias=bias)
        self.outward = nn.Linear(heads * self.value_width, width, bias=bias)
        self.dropout = Dropout(dropout)
        self.position = slot.position

    def forward(self, x: Float[Tensor, "B T D"], call: Call) -> tuple[Float[Tensor, "B T D"], Extras]:
        q_bhtk, k_bgsk, v_bgsk, layout = self._own(x, call) if self.slot.memory is None else self._other(x, call)
        bias = None
        if self.position is not None:
            bias = self.position.bias(layout, q_bhtk.shape[2], k_bgsk.shape[2], x.device)
        wanted = "maps" in call.want
        with region("attention"):
            y_bhtk, maps = attend(
                q_bhtk,
                k_bgsk,
                v_bgsk,
                layout,
                bias=None if bias is None else bias.to(q_bhtk.dtype),
                rate=self.dropout.rate,
                noise=call.noise,
                place=self.dropout.place,
                maps=wanted,
            )
        y = self.outward(y_bhtk.transpose(1, 2).flatten(2))
        return y, Extras(maps={"maps": maps}) if maps is not None else NOTHING

    def begin(self, memories: Memories, rows: int, capacity: int) -> State:
        if self.slot.memory is not None:
            memory = memories[self.slot.memory]
            k_bgsk, v_bgsk = self._keys_values(self.shown(memory.keys), memory)
            lengths = memory.layout.lengths
            return Projected(
                k_bgsk, v_bgsk, k_bgsk.new_full((rows,), k_bgsk.shape[2]).long() if lengths is None else lengths
            )
        weight = self.outward.weight
        shape = (rows, self.groups, capacity)
        return KeyValues(weight.new_zeros(*shape, self.key_width), weight.new_zeros(*shape, self.value_width))

    def _own(self, x: Tensor, call: Call) -> tuple[Tensor, Tensor, Tensor, Layout]:
        layout, groups = call.layout, self.groups
        widths = [self.heads * self.key_width, groups * self.key_width, groups * self.value_width]
        q, k, v = self.inward(x).split(widths, dim=-1)
        q_bhtk, k_bgsk, v_bgsk = _split(q, self.heads), _split(k, groups), _split(v, groups)
        if self.position is not None and self.position.acts == "rotation":
            positions = layout.positions(x.shape[1], x.device)
            q_bhtk, k_bgsk = self.position.rotate(q_bhtk, positions), self.position.rotate(k_bgsk, positions)
        if call.state is not None:
            assert isinstance(call.state, KeyValues)
            k_bgsk, v_bgsk = call.state.extend(k_bgsk, v_bgsk, layout.offset, layout.start)
        return q_bhtk, k_bgsk, v_bgsk, layout

    def _other(self, x: Tensor, call: Call) -> tuple[Tensor, Tensor, Tensor, Layout]:
        assert self.slot.memory is not None
        q_bhtk = _split(self.query(x), self.heads)
        if call.state is not None:
            assert isinstance(call.state, Projected)
            return q_bhtk, call.state.keys, call.state.values, Layout(lengths=call.state.lengths)
        memory = call.memories[self.slot.memory]
        k_bgsk, v_bgsk = self._keys_values(self.shown(memory.keys), memory)
        return q_bhtk, k_bgsk, v_bgsk, call.layout.facing(memory.layout)

    def _keys_values(self, shown: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        widths = [self.groups * self.key_width, self.groups * self.value_width]
        k, v = shown.split(widths, dim=-1)
        if memory.separate_values is not None:
            v = self.shown(memory.separate_values).split(widths, dim=-1)[1]
        return _split(k, self.groups), _split(v, self.groups)


def _split(x: Float[Tensor, "B T HK"], heads: int) -> Float[Tensor, "B H T K"]:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)
