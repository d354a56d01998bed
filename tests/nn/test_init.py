"""First weights: each by its own name, of the right size, and nobody else's business."""

from math import sqrt

import torch
from torch import nn

from qkv.nn.init import generator_for, initialise


def stacked(*names: str) -> nn.ModuleDict:
    return nn.ModuleDict({name: nn.Linear(64, 32) for name in names})


def test_a_weight_depends_on_seed_and_name_alone() -> None:
    a, b, c = stacked("x", "y"), stacked("y", "z", "x"), stacked("x", "y")
    initialise(a, 1), initialise(b, 1), initialise(c, 2)
    assert torch.equal(a["x"].weight, b["x"].weight) and torch.equal(a["y"].weight, b["y"].weight)
    assert not torch.equal(a["x"].weight, a["y"].weight)
    assert not torch.equal(a["x"].weight, c["x"].weight)


def test_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    model = stacked("x")
    torch.manual_seed(3)
    initialise(model, 1)
    assert torch.equal(torch.rand(2), expected)
    assert generator_for(1, "a").initial_seed() != generator_for(1, "b").initial_seed()


def test_sizes_are_xavier_and_one_over_width() -> None:
    model = nn.ModuleDict({"linear": nn.Linear(300, 200), "table": nn.Embedding(500, 64), "norm": nn.LayerNorm(8)})
    initialise(model, 1)
    linear, table = model["linear"].weight.detach(), model["table"].weight.detach()
    bound = sqrt(6 / 500)
    assert linear.abs().max() <= bound and linear.abs().max() > 0.99 * bound
    assert abs(float(linear.std()) - bound / sqrt(3)) < 0.01 * bound
    assert model["linear"].bias.abs().sum() == 0
    assert abs(float(table.std()) - 1 / 8) < 0.002
    assert (model["norm"].weight == 1).all() and (model["norm"].bias == 0).all()


def test_recurrent_weights_are_within_one_over_root_cells() -> None:
    model = nn.ModuleDict({"lstm": nn.LSTM(8, 16)})
    initialise(model, 1)
    for parameter in model["lstm"].parameters():
        assert 0.2 < parameter.abs().max() <= 0.25


def test_a_module_may_fill_its_own_and_a_shared_weight_is_filled_once() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3, 3))

        def first_weights(self, generator: torch.Generator) -> None:
            nn.init.constant_(self.weight, 7.0)

    model = nn.ModuleDict({"own": Own(), "first": nn.Linear(4, 4), "second": nn.Linear(4, 4)})
    model["second"].weight = model["first"].weight
    initialise(model, 1)
    alone = nn.ModuleDict({"first": nn.Linear(4, 4)})
    initialise(alone, 1)
    assert (model["own"].weight == 7).all()
    assert torch.equal(model["second"].weight, alone["first"].weight)
