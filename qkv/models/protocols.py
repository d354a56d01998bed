"""What the road asks of a model. Search sees `Steps` and nothing else; an objective sees `Predicts`."""

from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from qkv.data.batch import Batch
from qkv.nn.call import Extras, Memories, Want
from qkv.nn.state import Decoding
from qkv.random import Noise


@runtime_checkable
class Encodes(Protocol):
    """Turns a source into memories that can be looked at."""

    def encode(self, batch: Batch, noise: Noise | None = None, want: Want = Want()) -> tuple[Memories, Extras]: ...


@runtime_checkable
class Predicts(Protocol):
    """Predicts every next token of a given target (teacher forcing); the loss may fuse projection and softmax."""

    vocabulary: int

    def hidden(
        self, batch: Batch, noise: Noise | None = None, want: Want = Want()
    ) -> tuple[Float[Tensor, "B T D"], Extras]: ...

    def projection(self) -> tuple[Float[Tensor, "V D"], Float[Tensor, "V"] | None]: ...


@runtime_checkable
class Steps(Protocol):
    """Writes a target token by token, one or k at a time."""

    vocabulary: int

    def start(self, batch: Batch, capacity: int) -> Decoding:
        """The state before the first token, a row for each of the batch's."""
        ...

    def extend(
        self, ids: Int[Tensor, "R k"], state: Decoding, want: Want = Want()
    ) -> tuple[Float[Tensor, "R k D"], Extras]:
        """Feeds k tokens of each row; the state moves on by k."""
        ...

    def scores(
        self, hidden: Float[Tensor, "*rows D"], subset: Int[Tensor, "W"] | None = None
    ) -> Float[Tensor, "*rows V"]:
        """Log-probabilities of the next token (fp32), of all words or of a subset."""
        ...
