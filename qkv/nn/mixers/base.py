"""The contract of what moves information between positions: a mixer, the slot it is built for, what it can do."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from qkv.errors import ConfigError
from qkv.nn.call import Call, Extras, Layout, Memories
from qkv.nn.state import State

if TYPE_CHECKING:
    from qkv.nn.positions import Position


@dataclass(frozen=True)
class Can:
    """What a mixer can do: tested by the conformance tests, and asked by builders before anything is built."""

    causal: Literal["exactly", "to rounding", "no"] = "no"
    bidirectional: bool = False
    cross: bool = False  # looks at a memory other than its own row
    padding: bool = False  # the real positions do not feel the padded ones
    packing: bool = False  # several documents in a row do not feel one another
    prefix: bool = False  # a causal row may have a beginning that all of it sees
    stepwise: bool = False  # one token, or k, at a time, with a state
    rewind: bool = False  # the state can forget the last tokens
    maps: bool = False  # shows how much each position attends to each
    positions: bool = False  # takes positions that rotate queries and keys or bias scores


@dataclass(frozen=True)
class Slot:
    """The place a mixer is built for, as its builder knows it."""

    width: int
    causal: bool = False
    layer: int = 0  # how many blocks stand below: patterns alternate by it
    memory: str | None = None  # the name of the memory it looks at; None: its own row
    position: "Position | None" = None  # one that rotates or biases


class Mixer(nn.Module, ABC):
    """Moves information between positions."""

    kind: ClassVar[str] = "mixer"
    can: ClassVar[Can]

    def __init__(self, slot: Slot, /) -> None:
        super().__init__()
        self.slot = slot
        can = self.can
        self._refuse("be causal", slot.causal and slot.memory is None and can.causal == "no")
        self._refuse("look both ways", not slot.causal and slot.memory is None and not can.bidirectional)
        self._refuse(f'look at a memory ("{slot.memory}")', slot.memory is not None and not can.cross)
        self._refuse("take positions that rotate or bias", slot.position is not None and not can.positions)
        self._refuse("measure positions against a memory", slot.position is not None and slot.memory is not None)

    def check(self, layout: Layout) -> None:
        """Fails by name where rows are laid out as this mixer cannot see them."""
        self._refuse("keep packed documents apart", layout.segments is not None and not self.can.packing)
        self._refuse("show a causal row its beginning", layout.prefix is not None and not self.can.prefix)

    def _refuse(self, what: str, refused: bool) -> None:
        if refused:
            name = type(self).__name__.lower()
            raise ConfigError(f"mixer {name} cannot {what}; choose a mixer that can, such as attention")

    @abstractmethod
    def forward(self, x: Float[Tensor, "B T D"], call: Call) -> tuple[Float[Tensor, "B T D"], Extras]:
        """Every position's new vector, out of those it may see."""

    @abstractmethod
    def begin(self, memories: Memories, rows: int, capacity: int) -> State:
        """What decoding `rows` rows of about `capacity` tokens will remember; memories are projected here, once."""
