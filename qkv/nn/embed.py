"""Tokens to vectors ("Attention Is All You Need", 3.4): a table, scaled by sqrt(D), told its position, dropped out.

Letters: B rows, T positions, D model width, V vocabulary.
"""

from math import sqrt

from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.nn.call import Layout
from qkv.nn.dropout import Dropout
from qkv.nn.positions import Position
from qkv.random import Noise


class Embed(nn.Module):
    """The table may be another one's too: source, target and softmax share it in the 2017 model."""

    def __init__(self, table: nn.Embedding, position: Position | None, dropout: float, scaled: bool, /) -> None:
        super().__init__()
        self.table, self.position, self.dropout = table, position, Dropout(dropout)
        self.scale = sqrt(table.embedding_dim) if scaled else 1.0

    def forward(self, ids: Int[Tensor, "B T"], layout: Layout, noise: Noise | None) -> Float[Tensor, "B T D"]:
        x = self.table(ids) * self.scale
        if self.position is not None:
            x = self.position.embed(x, layout)
        return self.dropout(x, noise)
