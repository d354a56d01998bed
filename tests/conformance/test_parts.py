"""Every registered position, norm and feed-forward: shapes, gradients, bf16, and no feeling between rows."""

from typing import Any

import pytest
import torch

from qkv import registry
from qkv.config import part
from qkv.nn.call import Call, Layout
from qkv.nn.dropout import Dropout, name_places
from qkv.nn.feedforward import FeedForward
from qkv.nn.norm import Norm
from qkv.nn.positions import Position
from qkv.random import Noise
from tests.conformance.cases import drawn, numbers, same
from tests.conformance.expected import FEEDFORWARDS, NORMS, POSITIONS, WIDTH

B, T, H, K = 3, 5, 2, 4
HOOKS = {"nowhere": (), "embedding": ("embed",), "rotation": ("rotate",), "bias": ("bias",)}


def built(kind: str, name: str, table: dict[str, Any], *given: Any) -> Any:
    return drawn(part(kind, {"name": name, **table[name]}).build(*given).double())


@pytest.mark.parametrize("name", registry.names("norm"))
def test_norms(name: str) -> None:
    norm: Norm = built("norm", name, NORMS, WIDTH)
    x = numbers(B, T, WIDTH).requires_grad_()
    y = norm(x)
    assert y.shape == x.shape and norm.keep_fp32
    y.backward(numbers(B, T, WIDTH, seed=2))
    assert all(p.grad is not None and (p.grad != 0).all() for p in norm.parameters())
    same(norm(x[1:2, 3:4]), y[1:2, 3:4])  # each position by itself
    narrow = norm.float()(x.detach().bfloat16())
    assert narrow.dtype == torch.bfloat16
    assert (narrow - y).norm() < 0.02 * y.norm()
    assert norm.bfloat16()(x.detach().bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("name", registry.names("feedforward"))
def test_feedforwards(name: str) -> None:
    layer: FeedForward = built("feedforward", name, FEEDFORWARDS, WIDTH)
    x, call = numbers(B, T, WIDTH).requires_grad_(), Call(Layout())
    y, _ = layer(x, call)
    assert y.shape == x.shape
    y.backward(numbers(B, T, WIDTH, seed=2))
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in layer.parameters())
    same(layer(x[1:2, 3:4], call)[0], y[1:2, 3:4])
    narrow = layer.bfloat16()(x.detach().bfloat16(), call)[0]
    exact = layer.double()(x.detach().bfloat16().double(), call)[0]
    assert narrow.dtype == torch.bfloat16 and (narrow - exact).norm() < 0.03 * exact.norm()


@pytest.mark.parametrize("name", registry.names("feedforward"))
def test_feedforwards_drop_out_inside(name: str) -> None:
    layer = drawn(part("feedforward", {"name": name, **FEEDFORWARDS[name], "dropout": 0.5}).build(WIDTH).double())
    assert sum(isinstance(m, Dropout) for m in layer.modules()) == 1
    name_places(layer)
    x, noise = numbers(B, T, WIDTH), Noise(1, 1, torch.arange(B))
    noisy = layer(x, Call(Layout(), noise=noise))[0]
    assert not torch.allclose(noisy, layer(x, Call(Layout()))[0])
    assert torch.equal(noisy, layer(x, Call(Layout(), noise=noise))[0])


@pytest.mark.parametrize("name", registry.names("position"))
def test_positions_act_where_they_say(name: str) -> None:
    position: Position = built("position", name, POSITIONS, WIDTH, H)
    layout, x, q = Layout(causal=True), numbers(B, T, WIDTH), numbers(B, H, T, K)
    done = {
        "embed": not torch.equal(position.embed(x, layout), x),
        "rotate": not torch.equal(position.rotate(q, layout.positions(T, x.device)), q),
        "bias": position.bias(layout, T, T, x.device) is not None,
    }
    assert {hook for hook, acts in done.items() if acts} == set(HOOKS[position.acts])
    assert position.embed(x.bfloat16(), layout).dtype == torch.float64 if name == "learned" else torch.bfloat16
    assert position.rotate(q.bfloat16(), layout.positions(T, x.device)).dtype == torch.bfloat16


@pytest.mark.parametrize("name", registry.names("position"))
def test_positions_go_on_where_they_stopped(name: str) -> None:
    """A later piece, at one offset or at one a row, is told what the whole row is told."""
    position: Position = built("position", name, POSITIONS, WIDTH, H)
    x, q, device = numbers(B, T, WIDTH), numbers(B, H, T, K), torch.device("cpu")
    whole, offsets = Layout(causal=True), torch.tensor([3, 0, 2])
    embedded, rotated = position.embed(x, whole), position.rotate(q, whole.positions(T, device))
    bias = position.bias(whole, T, T, device)
    for layout in (Layout(causal=True, offset=3), Layout(causal=True, offset=offsets, furthest=3)):
        starts = [3, 3, 3] if isinstance(layout.offset, int) else offsets.tolist()
        take = torch.tensor([[s, s + 1] for s in starts])
        piece = x.gather(1, take[..., None].expand(-1, -1, WIDTH))
        same(position.embed(piece, layout), embedded.gather(1, take[..., None].expand(-1, -1, WIDTH)))
        index = take[:, None, :, None].expand(-1, H, -1, K)
        same(position.rotate(q.gather(2, index), layout.positions(2, device)), rotated.gather(2, index))
        if bias is not None:
            part_of = position.bias(layout, 2, T, device)
            assert part_of is not None
            rows = bias.expand(B, -1, -1, -1).gather(2, take[:, None, :, None].expand(-1, H, -1, T))
            same(part_of.expand(B, -1, -1, -1), rows)


@pytest.mark.parametrize("name", registry.names("position"))
def test_positions_start_anew_in_each_packed_document(name: str) -> None:
    position: Position = built("position", name, POSITIONS, WIDTH, H)
    x, device = numbers(1, T, WIDTH), torch.device("cpu")
    layout = Layout(causal=True, segments=torch.tensor([[1, 1, 2, 2, 2]]))
    embedded = position.embed(x, layout)
    same(embedded[:, 2:], position.embed(x[:, 2:], Layout(causal=True)))
    bias, alone = position.bias(layout, T, T, device), position.bias(Layout(causal=True), 3, 3, device)
    if bias is not None and alone is not None:
        same(bias[:, :, 2:, 2:], alone)
