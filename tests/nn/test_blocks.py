"""Residual connections before and behind the norm, and the names under which blocks speak."""

from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.errors import ConfigError
from qkv.nn.blocks import Block, Residual, Stack
from qkv.nn.call import Call, Extras, Layout, Memories, Want
from qkv.nn.dropout import name_places
from qkv.nn.feedforward import FeedForward, Relu
from qkv.nn.mixers.attention import Attention
from qkv.nn.mixers.base import Slot
from qkv.nn.mixers.recurrent import Lstm
from qkv.nn.norm import LayerNorm
from qkv.nn.state import Forgetful, KeyValues, Tree
from qkv.random import Noise, dropped

CALL = Call(Layout())


class Loud(FeedForward):
    """Doubles, and says so."""

    def forward(self, x: Tensor, call: Call) -> tuple[Tensor, Extras]:
        said = {"maps": torch.ones(1)} if "maps" in call.want else {}
        return 2 * x, Extras(maps=said, losses={"loud": x.sum()}, loads={"load": x.mean()})


def test_post_norm_and_pre_norm_by_formula() -> None:
    x, inner, norm = torch.randn(2, 3, 8), Relu(8, hidden=5), LayerNorm(8)
    torch.nn.init.normal_(norm.weight)
    noise = Noise(1, 2, torch.arange(2))
    for order in ("post", "pre"):
        residual = Residual(inner, norm, 0.5, order)
        name_places(residual)
        place = residual.dropout.place
        for given in (None, noise):
            y = residual(x, Call(Layout(), noise=given))[0]
            if order == "post":
                expected = norm(x + dropped(inner(x, CALL)[0], 0.5, given, place))
            else:
                expected = x + dropped(inner(norm(x), CALL)[0], 0.5, given, place)
            torch.testing.assert_close(y, expected)


def test_what_is_said_bears_the_names_of_who_said_it() -> None:
    def block() -> Block:
        return Block({"a": Residual(Loud(), LayerNorm(8), 0.0, "pre"), "b": Residual(Loud(), LayerNorm(8), 0.0, "pre")})

    stack = Stack([block(), block()], None)
    _, extras = stack(torch.randn(2, 3, 8), Call(Layout(), want=Want.of("1.*.maps")))
    names = {f"{i}.{name}" for i in (0, 1) for name in "ab"}
    assert set(extras.losses) == {f"{name}.loud" for name in names}
    assert set(extras.loads) == {f"{name}.load" for name in names}
    assert set(extras.maps) == {"1.a.maps", "1.b.maps"}


def test_a_stack_ends_in_its_norm() -> None:
    x, last = torch.randn(2, 3, 8) * 5, LayerNorm(8)
    blocks = [Block({"a": Residual(Loud(), LayerNorm(8), 0.0, "pre")})]
    bare, normed = Stack(blocks, None)(x, CALL)[0], Stack(blocks, last)(x, CALL)[0]
    torch.testing.assert_close(normed, last(bare))


def test_a_block_begins_a_state_for_each_sublayer() -> None:
    attention = Attention(Slot(8, causal=True), heads=2)
    block = Block(
        {
            "self": Residual(attention, LayerNorm(8), 0.0, "pre"),
            "feedforward": Residual(Relu(8, hidden=5), LayerNorm(8), 0.0, "pre"),
        }
    )
    memories: Memories = {}
    state: Any = block.begin(memories, 3, 4)
    assert isinstance(state, Tree) and isinstance(state.at("feedforward"), Forgetful)
    assert isinstance(state.at("self"), KeyValues) and state.at("self").keys.shape[0] == 3
    assert set(Stack([block, block], None).begin(memories, 3, 4)) == {"0", "1"}


def test_a_layout_that_a_mixer_cannot_see_is_refused() -> None:
    residual = Residual(Lstm(Slot(8)), LayerNorm(8), 0.0, "post")
    with pytest.raises(ConfigError, match="mixer lstm cannot keep packed documents apart"):
        residual(torch.zeros(1, 2, 8), Call(Layout(segments=torch.ones(1, 2, dtype=torch.long))))
