"""A sketch of a hard contract: a decoder that attends inside its recurrence (Bahdanau et al. 2014) steps and predicts.

What it must show: the state couples a recurrent vector with a projected memory, and nothing in `Steps` minds.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qkv.data.batch import Batch
from qkv.models.base import Model
from qkv.models.protocols import Predicts, Steps
from qkv.nn.call import NOTHING, Extras, Layout, Want
from qkv.nn.state import Decoding, Projected, Vectors
from qkv.random import Noise
from tests.conformance.cases import same
from tests.conformance.networks import VOCABULARY, batch, predicted, stepped

WIDTH = 16


class Search(Model):
    """e = v tanh(W s + U h) at every step: the look at the source needs the vector before, and feeds the one after."""

    def __init__(self) -> None:
        super().__init__()
        self.vocabulary = VOCABULARY
        self.table, self.encoder = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.ask, self.show, self.judge = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
        self.cell, self.output = nn.GRUCell(2 * WIDTH, WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def begun(self, given: Batch) -> Decoding:
        assert given.source is not None
        values = torch.tanh(self.encoder(self.table(given.source.ids)))
        memory = Projected(self.show(values)[:, None], values[:, None], given.source.lengths)
        vectors = Vectors(hidden=values.new_zeros(given.rows, WIDTH))
        return Decoding({"memory": memory, "cell": vectors}, torch.zeros(given.rows, dtype=torch.long))

    def extended(self, ids: Tensor, state: Decoding) -> Tensor:
        memory, vectors = state.at("memory"), state.at("cell")
        assert isinstance(memory, Projected) and isinstance(vectors, Vectors)
        hidden, out = vectors.values["hidden"], []
        visible = Layout(lengths=memory.lengths).visible(1, memory.keys.shape[2], ids.device)
        assert visible is not None
        for token in ids.unbind(1):
            scores = self.judge(torch.tanh(self.ask(hidden)[:, None] + memory.keys[:, 0]))[..., 0]
            weights = scores.masked_fill(~visible[:, 0, 0], -torch.inf).softmax(-1)
            seen = (weights[:, None] @ memory.values[:, 0])[:, 0]
            hidden = self.cell(torch.cat([self.table(token), seen], -1), hidden)
            out.append(hidden)
        vectors.values = {"hidden": hidden}
        state.advance(ids.shape[1])
        return torch.stack(out, 1)

    def hidden(self, batch: Batch, noise: Noise | None = None, want: Want = Want()) -> tuple[Tensor, Extras]:
        assert batch.target is not None
        return self.extended(batch.target.ids[:, :-1], self.begun(batch)), NOTHING

    def projection(self) -> tuple[Tensor, Tensor | None]:
        return self.output.weight, self.output.bias

    @torch.no_grad()
    def start(self, batch: Batch, capacity: int) -> Decoding:
        return self.begun(batch)

    @torch.no_grad()
    def extend(self, ids: Tensor, state: Decoding, want: Want = Want()) -> tuple[Tensor, Extras]:
        return self.extended(ids, state), NOTHING

    def scores(self, hidden: Tensor, subset: Tensor | None = None) -> Tensor:
        scores = self.output(hidden)
        return torch.log_softmax(scores if subset is None else scores[..., subset], -1)


def test_it_steps_as_it_predicts_and_beams_move() -> None:
    model, given = Search().double(), batch(target=[5, 5, 5])
    assert isinstance(model, Steps) and isinstance(model, Predicts)
    assert given.target is not None
    ids, whole = given.target.ids[:, :-1], predicted(model, given)
    for pieces in ((1, 1, 1, 1), (2, 2), (1, 3)):
        same(stepped(model, ids, model.start(given, 4), *pieces), whole.detach())
    state = model.start(given, 4)
    stepped(model, ids[:, :2], state)
    state.reorder(torch.tensor([2, 0, 1]))
    same(stepped(model, ids[[2, 0, 1], 2:], state), whole[[2, 0, 1], 2:].detach())
    state.insert(model.start(given, 4))
    state.select(torch.tensor([3, 4, 5]))
    same(stepped(model, ids, state), whole.detach())


def test_it_learns_a_batch() -> None:
    model, given = Search(), batch()
    assert given.target is not None
    labels = given.target.ids[:, 1:]
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.02), []
    for _ in range(40):
        weight, bias = model.projection()
        logits = F.linear(predicted(model, given), weight, bias)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
