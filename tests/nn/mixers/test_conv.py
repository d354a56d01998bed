"""How far a convolution sees: as many as its kernel, as far apart as its layer's dilation."""

import pytest
import torch

from qkv.errors import ConfigError
from qkv.nn.call import Call, Layout
from qkv.nn.mixers.base import Slot
from qkv.nn.mixers.conv import Convolution


def seen(mixer: Convolution, causal: bool, place: int = 10) -> list[int]:
    x = torch.randn(1, 21, 4, requires_grad=True)
    mixer(x, Call(Layout(causal=causal)))[0][0, place].sum().backward()
    assert x.grad is not None
    return [i - place for i in range(21) if x.grad[0, i].abs().sum() > 0]


@pytest.mark.parametrize(("layer", "dilation"), [(0, 1), (1, 2), (2, 4), (3, 1)])
def test_dilations_alternate_by_layer(layer: int, dilation: int) -> None:
    both = Convolution(Slot(4, layer=layer), kernel=3, dilations=(1, 2, 4))
    assert seen(both, False) == [-dilation, 0, dilation]
    back = Convolution(Slot(4, causal=True, layer=layer), kernel=2, dilations=(1, 2, 4))
    assert seen(back, True) == [-dilation, 0]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"kernel of 4 has no middle; .* try 5"):
        Convolution(Slot(4), kernel=4)
    with pytest.raises(ConfigError, match="dilations is empty"):
        Convolution(Slot(4), dilations=())


def test_padding_that_is_not_finite_does_not_spread() -> None:
    mixer, x = Convolution(Slot(4)), torch.randn(1, 5, 4)
    x[0, 3:] = torch.nan
    y = mixer(x, Call(Layout(lengths=torch.tensor([3]))))[0]
    assert y[0, :3].isfinite().all()
