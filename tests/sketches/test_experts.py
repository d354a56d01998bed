"""A sketch of a hard contract: a feed-forward of experts whose balance loss and loads come up through `Extras`."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from qkv import registry
from qkv.config import Count, part
from qkv.models.base import Sizes, build
from qkv.nn.call import Call, Extras, Layout
from qkv.nn.feedforward import FeedForward
from tests.conformance.cases import numbers, same
from tests.conformance.expected import TINY
from tests.conformance.networks import VOCABULARY, batch


class Experts(FeedForward):
    """The best of N for each position, weighed by the gate (Shazeer et al. 2017, with one expert a position)."""

    def __init__(self, width: int, /, *, experts: Count = 3) -> None:
        super().__init__()
        self.gate, self.experts = (
            nn.Linear(width, experts),
            nn.ModuleList(nn.Linear(width, width) for _ in range(experts)),
        )

    def forward(self, x: Tensor, call: Call) -> tuple[Tensor, Extras]:
        shares = self.gate(x).softmax(-1)
        best = shares.argmax(-1, keepdim=True)
        every = torch.stack([expert(x) for expert in self.experts], -2)
        y = every.gather(-2, best[..., None].expand(-1, -1, 1, x.shape[-1]))[..., 0, :] * shares.gather(-1, best)
        real = torch.ones(x.shape[:2], dtype=torch.bool)
        if call.layout.lengths is not None:
            real = torch.arange(x.shape[1]) < call.layout.lengths[:, None]
        loads = torch.bincount(best[..., 0][real], minlength=len(self.experts))
        importance = shares[real].sum(0)
        return y, Extras(losses={"balance": importance.var() / importance.mean() ** 2}, loads={"load": loads})


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(registry, "TABLE", {**registry.TABLE, "feedforward": dict(registry.TABLE["feedforward"])})
    registry.register("feedforward", "experts", "unused:Experts")
    found = registry.find
    monkeypatch.setattr(registry, "find", lambda kind, name: Experts if name == "experts" else found(kind, name))
    chosen = part("model", {"name": "transformer", **TINY, "feedforward": {"name": "experts", "experts": 4}})
    return build(chosen, Sizes(VOCABULARY, VOCABULARY), 1).double()


def test_losses_and_loads_come_up_by_name_and_reach_the_gate(model: Any) -> None:
    _, extras = model.hidden(batch())
    names = {f"{side}.{layer}.feedforward" for side in ("encoder", "decoder") for layer in (0, 1)}
    assert set(extras.losses) == {f"{name}.balance" for name in names}
    assert set(extras.loads) == {f"{name}.load" for name in names}
    torch.stack(list(extras.losses.values())).sum().backward()
    assert model.decoder.blocks[1].sublayers["feedforward"].inner.gate.weight.grad.abs().sum() > 0


def test_the_encoders_loads_count_real_positions_only(model: Any) -> None:
    given = batch()
    assert given.source is not None
    loads = model.hidden(given)[1].loads
    assert int(loads["encoder.0.feedforward.load"].sum()) == int(given.source.lengths.sum())
    for wider in (2, 5):
        again = model.hidden(batch(wider=wider))[1]
        same(again.loads["encoder.1.feedforward.load"], loads["encoder.1.feedforward.load"])


def test_minimising_the_balance_evens_the_loads() -> None:
    torch.manual_seed(1)
    layer, x, call = Experts(8, experts=4).double(), numbers(4, 64, 8), Call(Layout())
    with torch.no_grad():
        layer.gate.bias[0] = 3.0
    before = layer(x, call)[1].loads["load"]
    optimizer = torch.optim.Adam(layer.parameters(), 0.05)
    for _ in range(60):
        optimizer.zero_grad()
        layer(x, call)[1].losses["balance"].backward()
        optimizer.step()
    after = layer(x, call)[1].loads["load"]
    assert before.max() > 0.6 * before.sum() and after.max() < 0.45 * after.sum()


def test_the_balance_of_parts_is_not_the_balance_of_the_whole() -> None:
    """Why an objective with experts must say that it is not separable, or gather the shares first."""
    layer, x = Experts(8).double(), numbers(4, 6, 8)
    whole = layer(x, Call(Layout()))[1].losses["balance"]
    parts = [layer(half, replace(Call(Layout())))[1].losses["balance"] for half in x.split(2)]
    assert not torch.allclose(whole, torch.stack(parts).mean())
