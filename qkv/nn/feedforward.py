"""What each position does by itself: two linear maps and a bend between them ("Attention Is All You Need", 3.3)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.config import Count, Probability
from qkv.nn.call import NOTHING, Call, Extras
from qkv.nn.dropout import Dropout


class FeedForward(nn.Module, ABC):
    """Position-wise; shares the mixers' call, so that experts can speak of their losses and loads."""

    kind: ClassVar[str] = "feedforward"

    @abstractmethod
    def forward(self, x: Float[Tensor, "B T D"], call: Call) -> tuple[Float[Tensor, "B T D"], Extras]: ...


class Relu(FeedForward):
    """max(0, x W1 + b1) W2 + b2: equation 2."""

    def __init__(self, width: int, /, *, hidden: Count = 2048, dropout: Probability = 0.0) -> None:
        super().__init__()
        self.inward, self.outward = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "B T D"], call: Call) -> tuple[Float[Tensor, "B T D"], Extras]:
        return self.outward(self.dropout(F.relu(self.inward(x)), call.noise)), NOTHING


class Gelu(FeedForward):
    """gelu(x W1 + b1) W2 + b2 (Hendrycks and Gimpel 2016)."""

    def __init__(
        self,
        width: int,
        /,
        *,
        hidden: Count = 2048,
        dropout: Probability = 0.0,
        approximate: Literal["none", "tanh"] = "none",
    ) -> None:
        super().__init__()
        self.inward, self.outward = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.dropout, self.approximate = Dropout(dropout), approximate

    def forward(self, x: Float[Tensor, "B T D"], call: Call) -> tuple[Float[Tensor, "B T D"], Extras]:
        bent = F.gelu(self.inward(x), approximate=self.approximate)
        return self.outward(self.dropout(bent, call.noise)), NOTHING


class Gated(FeedForward):
    """(act(x W) * x V) W2 without biases: GLU variants (Shazeer 2020)."""

    def __init__(
        self,
        width: int,
        /,
        *,
        hidden: Count = 1365,
        dropout: Probability = 0.0,
        activation: Literal["silu", "gelu", "relu", "sigmoid"] = "silu",
    ) -> None:
        super().__init__()
        self.inward, self.outward = nn.Linear(width, 2 * hidden, bias=False), nn.Linear(hidden, width, bias=False)
        self.dropout = Dropout(dropout)
        self.activation: Callable[[Tensor], Tensor] = getattr(F, activation)

    def forward(self, x: Float[Tensor, "B T D"], call: Call) -> tuple[Float[Tensor, "B T D"], Extras]:
        gate, value = self.inward(x).chunk(2, dim=-1)
        return self.outward(self.dropout(self.activation(gate) * value, call.noise)), NOTHING
