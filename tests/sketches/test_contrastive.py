"""A sketch of a hard contract: a contrastive loss over micro-batches, in two parts, whose gradient is the unsplit one.

`represent(batch)` is separable, `loss(all)` is not. Gradients are cached (Gao et al. 2021): represent every part
without a graph, take the loss and its gradient at the representations, then represent each part again and go back
through it. The second pass is the same function as the first only because the noise is keyed by sample.
"""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.data.batch import Batch
from qkv.nn.dropout import Dropout, name_places
from qkv.random import Noise
from tests.conformance.networks import VOCABULARY, tokens

ROWS = 6


class Pairs(nn.Module):
    """Two sides of a pair to one space; each must find its own among all."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.table, self.left, self.right = nn.Embedding(VOCABULARY, 8), nn.Linear(8, 4), nn.Linear(8, 4)
        self.dropout = Dropout(rate)
        name_places(self)

    def represent(self, batch: Batch, noise: Noise | None) -> Tensor:
        """B 2 D: both sides, of unit length."""
        assert batch.source is not None and batch.target is not None
        sides = []
        for side, linear in ((batch.source, self.left), (batch.target, self.right)):
            real = (torch.arange(side.ids.shape[1]) < side.lengths[:, None])[..., None]
            mean = (self.dropout(self.table(side.ids), noise) * real).sum(1) / side.lengths[:, None]
            sides.append(F.normalize(linear(mean), dim=-1))
        return torch.stack(sides, 1)

    def loss(self, every: Tensor) -> Tensor:
        scores, own = every[:, 0] @ every[:, 1].T / 0.1, torch.arange(len(every))
        return (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2


def noise_of(batch: Batch) -> Noise:
    return Noise(1, 2, batch.samples)


def given() -> Batch:
    return Batch.of(torch.arange(ROWS) + 40, tokens([6, 2, 4, 5, 1, 3], 1), tokens([3, 5, 2, 6, 4, 4], 2))


def gradient(model: Pairs, parts: int) -> dict[str, Tensor]:
    model.zero_grad()
    pieces = given().divided(parts)
    with torch.no_grad():
        cached = torch.cat([model.represent(piece, noise_of(piece)) for piece in pieces])
    cached.requires_grad_()
    (wanted,) = torch.autograd.grad(model.loss(cached), cached)
    for piece, own in zip(pieces, wanted.split([piece.rows for piece in pieces]), strict=True):
        model.represent(piece, noise_of(piece)).backward(own)
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_the_gradient_is_that_of_the_whole_batch_for_any_split(rate: float) -> None:
    model, whole = Pairs(rate).double(), given()
    model.loss(model.represent(whole, noise_of(whole))).backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    for parts in (1, 2, 3, ROWS):
        found = gradient(model, parts)
        assert found.keys() == expected.keys()
        for name, value in found.items():
            torch.testing.assert_close(value, expected[name])


def test_accumulating_the_losses_of_parts_would_be_another_objective() -> None:
    model, whole = Pairs(0.0).double(), given()
    expected = model.loss(model.represent(whole, None))
    parts = torch.stack([model.loss(model.represent(piece, None)) for piece in whole.divided(3)]).mean()
    assert (parts - expected).abs() > 0.05
