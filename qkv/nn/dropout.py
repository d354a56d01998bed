"""Dropout as a module: a rate and a place, the noise comes with the call (Srivastava et al. 2014)."""

from jaxtyping import Float
from torch import Tensor, nn

from qkv.random import Noise, dropped, place_of


class Dropout(nn.Module):
    """Drops values at `rate` when there is noise. Its place, which keys the noise, is its dotted name in the model."""

    def __init__(self, rate: float, /) -> None:
        super().__init__()
        self.rate = rate
        self.place = -1

    def forward(self, x: Float[Tensor, "*shape"], noise: Noise | None) -> Float[Tensor, "*shape"]:
        return dropped(x, self.rate, noise, self.place)

    def extra_repr(self) -> str:
        return f"{self.rate}"


def name_places(model: nn.Module) -> None:
    """Gives every dropout of a model its place; equal numbers for two names would be equal noise, so they fail."""
    taken: dict[int, str] = {}
    for name, module in model.named_modules():
        if isinstance(module, Dropout):
            place = place_of(name)
            assert place not in taken, f"{name} and {taken[place]} have the same place; rename one"
            taken[place] = name
            module.place = place
