"""A dropout's place is its name in the model; the noise comes with the call."""

import pytest
import torch
from torch import nn

from qkv.nn.dropout import Dropout, name_places
from qkv.random import Noise, dropped, place_of

NOISE = Noise(1, 2, torch.arange(4))


def test_places_are_names() -> None:
    model = nn.ModuleDict({"a": Dropout(0.5), "b": nn.Sequential(Dropout(0.5), nn.ReLU())})
    name_places(model)
    assert model["a"].place == place_of("a") and model["b"][0].place == place_of("b.0")
    x = torch.ones(4, 3, 8)
    assert torch.equal(model["a"](x, NOISE), dropped(x, 0.5, NOISE, place_of("a")))
    assert not torch.equal(model["a"](x, NOISE), model["b"][0](x, NOISE))
    assert model["a"](x, None) is x
    assert "0.5" in repr(model["a"])


def test_equal_places_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qkv.nn.dropout.place_of", lambda name: 7)
    with pytest.raises(AssertionError, match="the same place"):
        name_places(nn.Sequential(Dropout(0.5), Dropout(0.5)))


def test_an_unnamed_dropout_is_found_out() -> None:
    with pytest.raises(AssertionError, match="name_places"):
        Dropout(0.5)(torch.ones(4, 2), NOISE)
    assert Dropout(0.0)(torch.ones(4, 2), NOISE).sum() == 8
