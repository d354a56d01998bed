"""The three attentions of the lectures, and `attend` on every path, against loops over rows, heads and places."""

from math import exp, sqrt
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.nn import functional
from qkv.nn.call import Layout
from qkv.nn.functional import attend, dot_attention, query_key_value_attention, scaled_attention
from qkv.random import Noise, dropped

B, T, K, V = 3, 5, 4, 4
LENGTHS, OFFSETS, PREFIX = torch.tensor([5, 3, 1]), torch.tensor([0, 2, 1]), torch.tensor([3, 0, 2])
SEGMENTS = torch.tensor([[1, 1, 2, 2, 2], [1, 1, 1, 2, 0], [1, 1, 1, 0, 0]])
LAYOUTS = {
    "everything": Layout(),
    "causal": Layout(causal=True),
    "lengths": Layout(lengths=LENGTHS),
    "causal lengths": Layout(causal=True, lengths=LENGTHS),
    "segments": Layout(segments=SEGMENTS),
    "causal segments": Layout(causal=True, segments=SEGMENTS),
    "prefix": Layout(causal=True, prefix=PREFIX),
    "offset": Layout(causal=True, offset=2),
    "offsets": Layout(causal=True, offset=OFFSETS, furthest=2),
}


def may_attend(layout: Layout, row: int, query: int, key: int) -> bool:
    """The meaning of a layout, one pair at a time."""
    offset = layout.offset if isinstance(layout.offset, int) else int(layout.offset[row])
    seen = not layout.causal or key <= query + offset
    if layout.prefix is not None:
        seen = seen or key < int(layout.prefix[row])
    if layout.lengths is not None:
        seen = seen and key < int(layout.lengths[row])
    if layout.segments is not None:
        mine = layout.segments if layout.query_segments is None else layout.query_segments
        theirs = int(layout.segments[row, key])
        seen = seen and theirs > 0 and theirs == int(mine[row, query])
    return seen


def by_hand(q: Tensor, k: Tensor, v: Tensor, layout: Layout, bias: Tensor | None = None) -> Tensor:
    """Equation 1 in plain numbers; where a query may attend to nothing, zeros."""
    rows, heads, queries, width = q.shape
    out = torch.zeros(rows, heads, queries, v.shape[-1], dtype=q.dtype)
    share = heads // k.shape[1]
    for b in range(rows):
        for h in range(heads):
            for t in range(queries):
                seen = [s for s in range(k.shape[2]) if may_attend(layout, b, t, s)]
                scores = [float(q[b, h, t] @ k[b, h // share, s]) / sqrt(width) for s in seen]
                if bias is not None:
                    scores = [x + float(bias[b, h, t, s]) for x, s in zip(scores, seen, strict=True)]
                total = sum(map(exp, scores))
                for x, s in zip(scores, seen, strict=True):
                    out[b, h, t] += exp(x) / total * v[b, h // share, s]
    return out


def real(layout: Layout, queries: int) -> Tensor:
    """The queries that may attend to something."""
    return torch.tensor(
        [[any(may_attend(layout, b, t, s) for s in range(T)) for t in range(queries)] for b in range(B)]
    )


def given(heads: int = 4, groups: int = 4, queries: int = T, values: int = V) -> tuple[Tensor, Tensor, Tensor]:
    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    return draw(B, heads, queries, K), draw(B, groups, T, K), draw(B, groups, T, values)


def queries_of(layout: Layout) -> int:
    return T - layout.start


def test_the_lectures_in_three_steps() -> None:
    x = torch.randn(2, 6, 4, dtype=torch.float64)
    weights = (x @ x.mT).exp() / (x @ x.mT).exp().sum(-1, keepdim=True)
    torch.testing.assert_close(dot_attention(x), weights @ x)
    torch.testing.assert_close(query_key_value_attention(x, x, x), dot_attention(x))
    q, k, v = (torch.randn(2, n, 4, dtype=torch.float64) for n in (3, 6, 6))
    torch.testing.assert_close(scaled_attention(q, k, v), query_key_value_attention(q / 2, k, v))
    visible = torch.ones(3, 6, dtype=torch.bool).tril(2)
    torch.testing.assert_close(
        scaled_attention(q, k, v, visible), by_hand(q[:, None], k[:, None], v[:, None], LAYOUTS["offset"])[:, 0]
    )


@pytest.mark.parametrize("short", [functional.SHORT, 0], ids=["plain", "fused"])
@pytest.mark.parametrize("shape", [(4, 4, V), (4, 2, V), (4, 1, V), (2, 2, V + 1)], ids=str)
@pytest.mark.parametrize("name", LAYOUTS)
def test_attend_is_equation_1(monkeypatch: pytest.MonkeyPatch, name: str, shape: Any, short: int) -> None:
    monkeypatch.setattr(functional, "SHORT", short)
    layout = LAYOUTS[name]
    q, k, v = given(shape[0], shape[1], queries_of(layout), shape[2])
    y, maps = attend(q, k, v, layout)
    some = real(layout, q.shape[2])[:, None, :, None]
    assert maps is None and y.isfinite().all()
    expected = by_hand(q.detach(), k.detach(), v.detach(), layout)
    if short == 0 and layout.causal and layout.lengths is not None:  # padded queries are nobody's concern there
        some = some & (torch.arange(T) < LENGTHS[:, None])[:, None, :, None]
    torch.testing.assert_close(y * some, expected * some)


@pytest.mark.parametrize("name", LAYOUTS)
def test_both_paths_have_one_gradient(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    layout, found = LAYOUTS[name], []
    q, k, v = given(queries=queries_of(layout))
    some = real(layout, q.shape[2])[:, None, :, None]
    if layout.causal and layout.lengths is not None:
        some = some & (torch.arange(T) < LENGTHS[:, None])[:, None, :, None]
    for short in (functional.SHORT, 0):
        monkeypatch.setattr(functional, "SHORT", short)
        y, _ = attend(q, k, v, layout)
        found.append(torch.autograd.grad((y * some).square().sum(), (q, k, v)))
    for plain, fused in zip(*found, strict=True):
        assert fused.isfinite().all()
        torch.testing.assert_close(plain, fused)


@pytest.mark.parametrize("name", LAYOUTS)
def test_maps_are_the_weights(name: str) -> None:
    layout = LAYOUTS[name]
    q, k, v = given(4, 2, queries_of(layout))
    y, maps = attend(q, k, v, layout, maps=True)
    assert maps is not None
    torch.testing.assert_close(maps.sum(-1), torch.ones_like(maps.sum(-1)))
    torch.testing.assert_close(maps @ v.repeat_interleave(2, 1), y)
    for b, t, s in torch.cartesian_prod(torch.arange(B), torch.arange(q.shape[2]), torch.arange(T)).tolist():
        if real(layout, q.shape[2])[b, t]:
            assert bool((maps[b, :, t, s] > 0).all()) == may_attend(layout, b, t, s)


def test_a_bias_is_added_to_the_scores() -> None:
    q, k, v = (x.detach() for x in given())
    bias = torch.randn(B, 4, T, T, dtype=torch.float64)
    y, _ = attend(q, k, v, LAYOUTS["causal"], bias=bias)
    torch.testing.assert_close(y, by_hand(q, k, v, LAYOUTS["causal"], bias))


def test_dropout_falls_on_the_weights_and_maps_are_shown_before_it() -> None:
    q, k, v = (x.detach() for x in given())
    noise = Noise(1, 2, torch.arange(B))
    clean, clean_maps = attend(q, k, v, Layout(), maps=True)
    y, maps = attend(q, k, v, Layout(), rate=0.5, noise=noise, place=7, maps=True)
    assert clean_maps is not None and maps is not None
    torch.testing.assert_close(maps, clean_maps)
    torch.testing.assert_close(y, dropped(maps, 0.5, noise, 7) @ v)
    assert not torch.allclose(y, clean)
    torch.testing.assert_close(attend(q, k, v, Layout(), rate=0.5)[0], clean)


@pytest.mark.parametrize(
    ("layout", "queries", "causal_kernel"),
    [
        (Layout(causal=True), T, True),
        (LAYOUTS["causal lengths"], T, True),
        (Layout(), T, False),
        (LAYOUTS["offset"], 3, False),
        (LAYOUTS["prefix"], T, False),
        (LAYOUTS["causal segments"], T, False),
    ],
)
def test_only_plain_causality_takes_the_kernel_that_skips(
    monkeypatch: pytest.MonkeyPatch, layout: Layout, queries: int, causal_kernel: bool
) -> None:
    monkeypatch.setattr(functional, "SHORT", 0)
    calls: list[dict[str, Any]] = []

    def spy(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        calls.append(options)
        return q

    monkeypatch.setattr(functional.F, "scaled_dot_product_attention", spy)
    q, k, v = given(queries=queries)
    attend(q, k, v, layout)
    assert [bool(options.get("is_causal")) for options in calls] == [causal_kernel]
