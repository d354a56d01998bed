"""Tokens to vectors: scaled by the root of the width, told their position, dropped out."""

import torch
from torch import nn

from qkv.nn.call import Layout
from qkv.nn.dropout import name_places
from qkv.nn.embed import Embed
from qkv.nn.positions import Sinusoidal, sinusoid
from qkv.random import Noise, dropped

IDS = torch.tensor([[3, 1, 4], [1, 5, 0]])


def test_embedding_by_formula() -> None:
    table = nn.Embedding(6, 16)
    embed = Embed(table, Sinusoidal(16, 1), 0.5, True)
    name_places(embed)
    clean = table.weight[IDS] * 4 + sinusoid(torch.arange(2, 5), 16)
    torch.testing.assert_close(embed(IDS, Layout(offset=2), None), clean)
    noise = Noise(1, 2, torch.tensor([7, 8]))
    torch.testing.assert_close(embed(IDS, Layout(offset=2), noise), dropped(clean, 0.5, noise, embed.dropout.place))
    torch.testing.assert_close(Embed(table, None, 0.5, False)(IDS, Layout(), None), table.weight[IDS])
