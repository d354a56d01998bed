"""A sketch of a hard contract: feedback memory (Fan et al. 2020), one memory of the past that all layers look at.

The state couples the layers: a token's memory is known when the topmost layer is done, so there are steps only, and
teacher forcing is a loop. One `KeyValues` serves every layer.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.nn.call import Layout
from qkv.nn.functional import attend
from qkv.nn.state import Decoding, KeyValues
from tests.conformance.cases import drawn, numbers, same

WIDTH, LAYERS = 8, 2


class Feedback(nn.Module):
    """m_t = sum of softmax(w)_l x_t^l over layers; keys and values of the memory are shared by all layers."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.shown = nn.Parameter(torch.zeros(LAYERS + 1)), nn.Linear(WIDTH, 2 * WIDTH)
        self.asks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.bends = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def token(self, x: Tensor, keys: Tensor | None, values: Tensor | None, layout: Layout) -> tuple[Tensor, Tensor]:
        """One token up through the layers, and its memory; keys are those of the tokens before."""
        levels = [x]
        for ask, bend in zip(self.asks, self.bends, strict=True):
            x = x + torch.tanh(bend(x))
            if keys is not None and values is not None:
                x = x + attend(ask(x)[:, None], keys, values, layout)[0][:, 0]
            levels.append(x)
        return x, (torch.stack(levels) * self.mix.softmax(0)[:, None, None, None]).sum(0)

    def whole(self, x: Tensor) -> Tensor:
        """Teacher forcing: the memory is a list, since the state's buffers are written in place."""
        keys: list[Tensor] = []
        values: list[Tensor] = []
        out = []
        for token in x.split(1, 1):
            before = (torch.cat(keys, 2), torch.cat(values, 2)) if keys else (None, None)
            y, memory = self.token(token, *before, Layout())
            k, v = self.shown(memory)[:, None].chunk(2, -1)
            keys.append(k), values.append(v)
            out.append(y)
        return torch.cat(out, 1)

    def start(self, rows: int) -> Decoding:
        empty = KeyValues.empty(self.shown.weight, rows, 1, 2, WIDTH)
        return Decoding({"memory": empty}, torch.zeros(rows, dtype=torch.long))

    @torch.no_grad()
    def extend(self, x: Tensor, state: Decoding) -> Tensor:
        memory, out = state.at("memory"), []
        assert isinstance(memory, KeyValues)
        for token in x.split(1, 1):
            seen = Layout(lengths=state.lengths)
            if state.longest:
                past = memory.keys[:, :, : state.longest], memory.values[:, :, : state.longest]
            y, m = self.token(token, *(past if state.longest else (None, None)), seen)
            k, v = self.shown(m)[:, None].chunk(2, -1)
            memory.extend(k, v, state.offset, state.longest)
            state.advance(1)
            out.append(y)
        return torch.cat(out, 1)


def test_steps_equal_the_loop_and_rows_move() -> None:
    model, x = drawn(Feedback().double()), numbers(3, 5, WIDTH)
    whole = model.whole(x).detach()
    for pieces in ((1,) * 5, (2, 3), (5,)):
        state = model.start(3)
        same(torch.cat([model.extend(piece, state) for piece in x.split(list(pieces), 1)], 1), whole)
    state.rewind(torch.tensor([2, 2, 2]))
    state.reorder(torch.tensor([2, 0, 1]))
    same(model.extend(x[[2, 0, 1], 2:], state), whole[[2, 0, 1], 2:])


def test_a_row_ahead_may_be_joined_by_one_behind() -> None:
    model, x = drawn(Feedback().double()), numbers(2, 5, WIDTH)
    whole = model.whole(x).detach()
    state, other = model.start(1), model.start(1)
    model.extend(x[:1, :3], state)
    model.extend(x[1:, :1], other)
    state.insert(other)
    got = model.extend(torch.stack([x[0, 3:], x[1, 1:3]]), state)
    same(got, torch.stack([whole[0, 3:], whole[1, 1:3]]))


def test_the_lowest_layer_sees_what_the_topmost_did_before() -> None:
    model, x = drawn(Feedback().double()), numbers(1, 4, WIDTH).requires_grad_()
    top = model.bends[-1].weight
    (gradient,) = torch.autograd.grad(model.whole(x)[:, 1].sum(), top, retain_graph=True)
    assert gradient.abs().sum() > 0
    (future,) = torch.autograd.grad(model.whole(x)[:, 1].sum(), x)
    assert future[:, 2:].abs().sum() == 0 and future[:, 0].abs().sum() > 0


def test_it_learns_to_remember() -> None:
    torch.manual_seed(0)
    model, x = Feedback(), torch.randn(8, 4, WIDTH)
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.02), []
    for _ in range(60):
        loss = F.mse_loss(model.whole(x)[:, 1:], x[:, :-1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
