"""A block: sublayers, each with a residual connection around it and a norm before or behind.

"Attention Is All You Need", 3.1:

post-norm (2017)   x ---+--> sublayer --> dropout --> (+) --> norm -->
                        +-----------------------------^
pre-norm           x ---+--> norm --> sublayer --> dropout --> (+) -->
                        +--------------------------------------^
"""

from collections.abc import Mapping
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from qkv.nn.call import NOTHING, Call, Extras, Memories
from qkv.nn.dropout import Dropout
from qkv.nn.feedforward import FeedForward
from qkv.nn.mixers.base import Mixer
from qkv.nn.norm import Norm
from qkv.nn.state import Forgetful, State, Tree

Order = Literal["pre", "post"]


class Residual(nn.Module):
    """One sublayer, its norm and its dropout, around which the input is carried."""

    def __init__(self, inner: Mixer | FeedForward, norm: Norm, dropout: float, order: Order, /) -> None:
        super().__init__()
        self.inner, self.norm, self.dropout, self.order = inner, norm, Dropout(dropout), order

    def forward(self, x: Float[Tensor, "B T D"], call: Call) -> tuple[Float[Tensor, "B T D"], Extras]:
        if isinstance(self.inner, Mixer):
            self.inner.check(call.layout)
        if self.order == "pre":
            y, extras = self.inner(self.norm(x), call)
            return x + self.dropout(y, call.noise), extras
        y, extras = self.inner(x, call)
        return self.norm(x + self.dropout(y, call.noise)), extras


class Block(nn.Module):
    """Named sublayers, one after the other: `self`, `cross`, `feedforward`."""

    def __init__(self, sublayers: Mapping[str, Residual], /) -> None:
        super().__init__()
        self.sublayers = nn.ModuleDict(dict(sublayers))

    def forward(self, x: Float[Tensor, "B T D"], call: Call) -> tuple[Float[Tensor, "B T D"], Extras]:
        extras = NOTHING
        for name, sublayer in self.sublayers.items():
            x, more = sublayer(x, call.at(name))
            extras |= more.under(name)
        return x, extras

    def begin(self, memories: Memories, rows: int, capacity: int) -> State:
        parts: dict[str, State] = {}
        for name, sublayer in self.sublayers.items():
            inner = sublayer.inner
            parts[name] = inner.begin(memories, rows, capacity) if isinstance(inner, Mixer) else Forgetful()
        return Tree(parts)


class Stack(nn.Module):
    """Blocks on top of one another, `0` lowest, and a norm above them where the blocks are pre-norm."""

    def __init__(self, blocks: list[Block], last: Norm | None, /) -> None:
        super().__init__()
        self.blocks, self.last = nn.ModuleList(blocks), last

    def forward(self, x: Float[Tensor, "B T D"], call: Call) -> tuple[Float[Tensor, "B T D"], Extras]:
        extras = NOTHING
        for index, block in enumerate(self.blocks):
            x, more = block(x, call.at(str(index)))
            extras |= more.under(str(index))
        return x if self.last is None else self.last(x), extras

    def begin(self, memories: Memories, rows: int, capacity: int) -> dict[str, State]:
        return {str(i): block.begin(memories, rows, capacity) for i, block in enumerate(self.blocks)}  # type: ignore[operator]
