"""A model is built the same from the same seed, named before it is drawn, and refuses weights of another."""

import pytest
import torch

from qkv.config import part
from qkv.errors import BundleError
from qkv.models.base import Sizes, build, load_weights, outline, parameters, weights
from qkv.nn.dropout import Dropout
from tests.conformance.expected import TINY

CHOSEN = part("model", {"name": "transformer", **TINY})


def test_the_seed_decides() -> None:
    one, same, other = (weights(build(CHOSEN, Sizes(9, 9), seed)) for seed in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_every_dropout_has_a_place() -> None:
    places = [m.place for m in outline(CHOSEN, Sizes(9, 9)).modules() if isinstance(m, Dropout)]
    assert min(places) > 0 and len(set(places)) == len(places)


def test_a_shared_weight_is_stored_once() -> None:
    model = build(CHOSEN, Sizes(9, 9), 1)
    stored = weights(model)
    assert "source.table.weight" in stored and "target.table.weight" not in stored
    assert sum(t.numel() for t in stored.values()) == parameters(model)
    assert not any(t.requires_grad for t in stored.values())


def test_weights_of_another_model_are_refused_by_name_and_change_nothing() -> None:
    model, wider = build(CHOSEN, Sizes(9, 9), 1), build(CHOSEN, Sizes(10, 10), 2)
    before = {name: t.clone() for name, t in weights(model).items()}
    with pytest.raises(BundleError, match=r"source.table.weight has shape \[10, 8\], the model wants \[9, 8\]"):
        load_weights(model, weights(wider))
    assert all(torch.equal(t, before[name]) for name, t in weights(model).items())
