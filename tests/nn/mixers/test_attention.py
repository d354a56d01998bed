"""What is attention's own: its sizes, its refusals, and torch's multi-head attention as the same function."""

import pytest
import torch
from torch import nn

from qkv.errors import ConfigError
from qkv.nn.call import Call, Layout, Memory, Want
from qkv.nn.dropout import name_places
from qkv.nn.mixers.attention import Attention
from qkv.nn.mixers.base import Slot
from qkv.nn.positions import Rotary
from qkv.random import Noise


def test_it_equals_torch() -> None:
    ours, theirs = Attention(Slot(12), heads=3).double(), nn.MultiheadAttention(12, 3, batch_first=True).double()
    with torch.no_grad():
        nn.init.normal_(theirs.in_proj_bias)
        for mine, other in (
            (ours.inward.weight, theirs.in_proj_weight),
            (ours.inward.bias, theirs.in_proj_bias),
            (ours.outward.weight, theirs.out_proj.weight),
            (ours.outward.bias, theirs.out_proj.bias),
        ):
            mine.copy_(other)
    x, lengths = torch.randn(2, 5, 12, dtype=torch.float64), torch.tensor([5, 3])
    expected, _ = theirs(x, x, x, key_padding_mask=torch.arange(5) >= lengths[:, None], need_weights=False)
    torch.testing.assert_close(ours(x, Call(Layout(lengths=lengths)))[0], expected)


def test_sizes_follow_from_the_heads_or_are_set() -> None:
    plain = Attention(Slot(12), heads=3)
    assert plain.inward.out_features == 36 and plain.outward.in_features == 12
    shared = Attention(Slot(12), heads=4, key_heads=2, key_width=5, value_width=7)
    assert shared.inward.out_features == 4 * 5 + 2 * (5 + 7) and shared.outward.in_features == 28
    cross = Attention(Slot(12, memory="source"), heads=3, bias=False)
    assert cross.query.out_features == 12 and cross.shown.out_features == 24 and cross.query.bias is None


def test_sizes_that_do_not_fit_name_the_remedy() -> None:
    with pytest.raises(ConfigError, match="width 12 does not divide into 5 heads; try heads=4"):
        Attention(Slot(12), heads=5)
    with pytest.raises(ConfigError, match="4 heads cannot share 3 key heads"):
        Attention(Slot(12), heads=4, key_heads=3)
    assert Attention(Slot(12), heads=5, key_width=3, value_width=3).outward.in_features == 15


def test_a_state_holds_only_the_key_heads() -> None:
    state = Attention(Slot(8, causal=True), heads=4, key_heads=1).begin({}, 3, 10)
    assert state.nbytes() == 2 * 3 * 1 * 10 * 2 * 4


def test_dropout_is_on_the_weights() -> None:
    mixer = Attention(Slot(8), heads=2, dropout=0.5)
    name_places(mixer)
    x, noise = torch.randn(2, 4, 8), Noise(1, 2, torch.arange(2))
    assert not torch.allclose(mixer(x, Call(Layout(), noise=noise))[0], mixer(x, Call(Layout()))[0])
    assert mixer.dropout.place > 0


def test_another_memory_by_its_name() -> None:
    mixer = Attention(Slot(8, memory="picture"), heads=2)
    x, keys = torch.randn(1, 2, 8), torch.randn(1, 3, 8)
    memories = {"source": Memory(torch.zeros(1, 9, 8), Layout()), "picture": Memory(keys, Layout())}
    alone = mixer(x, Call(Layout(), {"picture": memories["picture"]}))[0]
    assert torch.equal(mixer(x, Call(Layout(), memories))[0], alone)
    assert torch.equal(mixer.begin(memories, 1, 4).tensors()["lengths"], torch.tensor([3]))


def test_queries_and_keys_are_rotated_alike() -> None:
    """In a row of one repeated vector, how much two places mean to each other depends on their distance alone."""
    x = torch.randn(1, 1, 8).expand(1, 6, 8)
    mixer = Attention(Slot(8, position=Rotary(8, 2)), heads=2)
    maps = mixer(x, Call(Layout(), want=Want.of("maps")))[1].maps["maps"].log()
    for query in range(3):
        own = maps[:, :, query, query]
        torch.testing.assert_close(maps[:, :, query, query + 3] - own, maps[:, :, 0, 3] - maps[:, :, 0, 0])
    assert (maps[:, :, 0, 3] - maps[:, :, 0, 0]).abs().min() > 1e-3
