"""The LSTM as torch has it, from one side and from both."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from qkv.nn.call import Call, Layout
from qkv.nn.mixers.base import Slot
from qkv.nn.mixers.recurrent import Lstm


def test_from_one_side() -> None:
    mixer, x = Lstm(Slot(6, causal=True), cells=5).double(), torch.randn(2, 4, 6, dtype=torch.float64)
    expected = mixer.outward(mixer.forth(x)[0])
    torch.testing.assert_close(mixer(x, Call(Layout(causal=True)))[0], expected)
    assert mixer.back is None and mixer.forth.hidden_size == 5


def test_from_both_sides_with_padding_it_equals_torch_on_packed_rows() -> None:
    mixer, theirs = Lstm(Slot(6), cells=8), nn.LSTM(6, 4, batch_first=True, bidirectional=True)
    assert mixer.back is not None
    with torch.no_grad():
        for name, parameter in mixer.forth.named_parameters():
            getattr(theirs, name).copy_(parameter)
        for name, parameter in mixer.back.named_parameters():
            getattr(theirs, name + "_reverse").copy_(parameter)
    x, lengths = torch.randn(3, 5, 6), torch.tensor([5, 2, 1])
    packed, _ = theirs(pack_padded_sequence(x, lengths, batch_first=True))
    both, _ = pad_packed_sequence(packed, batch_first=True)
    real = (torch.arange(5) < lengths[:, None])[..., None]
    y = mixer(x, Call(Layout(lengths=lengths)))[0]
    torch.testing.assert_close(y * real, mixer.outward(both) * real)
