"""The mixers under test: every registered one, in every variant, with every position that acts inside it.

Everything runs in fp64, so that "equal" means equal but for rounding: a wrong mask shows, and no tolerance hides it.
Letters: B rows, T positions, S keys, D model width.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from qkv.config import part
from qkv.nn.call import Call, Layout, Memories, Memory, Want
from qkv.nn.mixers.base import Mixer, Slot
from qkv.nn.positions import Position
from qkv.nn.state import Decoding
from tests.conformance.expected import MIXERS, POSITIONS, WIDTH

ROWS, LONG = 3, 7
ACTING = ("rotary", "relative", "alibi")


@dataclass(frozen=True)
class Case:
    """One mixer in one variant, perhaps with a position."""

    name: str
    variant: str
    position: str | None = None

    def __str__(self) -> str:
        return "-".join(filter(None, (self.name, self.variant, self.position)))

    @property
    def options(self) -> dict[str, Any]:
        return dict(MIXERS[self.name].variants[self.variant])

    def build(self, causal: bool = False, memory: str | None = None) -> Mixer:
        """The mixer with all of its numbers drawn, biases too, in fp64."""
        given: Position | None = None
        if self.position is not None and memory is None:
            heads = self.options.get("heads", 1)
            given = part("position", {"name": self.position, **POSITIONS[self.position]}).build(WIDTH, heads)
        slot = Slot(WIDTH, causal, MIXERS[self.name].layer, memory, given)
        mixer: Mixer = part("mixer", {"name": self.name, **self.options}).build(slot).double()
        return drawn(mixer)


def drawn(module: nn.Module, seed: int = 1) -> Any:
    """A module whose every parameter holds random numbers of a size that keeps outputs near 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return module


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cases(**needs: Any) -> list[Any]:
    """Every case whose mixer must be able to do what is asked for, as pytest parameters' values."""
    found = [Case(name, variant) for name, row in MIXERS.items() for variant in row.variants if able(name, needs)]
    found += [
        Case(name, next(iter(row.variants)), position)
        for name, row in MIXERS.items()
        if row.can.positions and able(name, needs)
        for position in ACTING
    ]
    return found


def able(name: str, needs: dict[str, Any]) -> bool:
    can = MIXERS[name].can
    return all((getattr(can, what) != "no") if what == "causal" else getattr(can, what) for what in needs)


def full(mixer: Mixer, x: Tensor, layout: Layout, memories: Memories | None = None) -> Tensor:
    y: Tensor = mixer(x, Call(layout, memories or {}))[0]
    return y


def begun(mixer: Mixer, rows: int, capacity: int = 16, memories: Memories | None = None) -> Decoding:
    """A state of a model that is this mixer alone."""
    return Decoding({"mixer": mixer.begin(memories or {}, rows, capacity)}, torch.zeros(rows, dtype=torch.long))


@torch.no_grad()
def fed(mixer: Mixer, x: Tensor, state: Decoding, *pieces: int, want: Want = Want()) -> Tensor:
    """The outputs of x given in pieces, the state moving on; one by one where no pieces are named."""
    outputs = []
    for piece in x.split(list(pieces) if pieces else 1, dim=1):
        layout = Layout(causal=True, offset=state.offset, furthest=state.longest)
        outputs.append(mixer(piece, Call(layout, state=state, want=want).at("mixer"))[0])
        state.advance(piece.shape[1])
    return torch.cat(outputs, dim=1)


def source(rows: int = ROWS, long: int = 5, lengths: list[int] | None = None, seed: int = 9) -> Memory:
    layout = Layout(lengths=None if lengths is None else torch.tensor(lengths))
    return Memory(numbers(rows, long, WIDTH, seed=seed), layout)


def same(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6 if a.dtype == torch.float32 else 1e-9)
