"""What every registered model that steps holds to: pieces equal the whole, whatever search does to the rows."""

from dataclasses import replace

import pytest
import torch

from qkv.data.batch import Tokens
from tests.conformance.cases import same
from tests.conformance.networks import VOCABULARY, Network, batch, networks, predicted, stepped

EVERY = pytest.mark.parametrize("network", networks("Steps"), ids=str)
LONG = 6
FULL = batch(target=[LONG + 1] * 3)  # the last id of a target is only predicted


def ids_of(rows: int = 3, long: int = LONG, seed: int = 5) -> torch.Tensor:
    return torch.randint(1, VOCABULARY, (rows, long), generator=torch.Generator().manual_seed(seed))


def whole(model: object, rows: list[int], ids: torch.Tensor) -> torch.Tensor:
    """The hidden vectors of ids after the sources of some rows, teacher-forced."""
    assert FULL.source is not None
    source = Tokens(FULL.source.ids[rows], FULL.source.lengths[rows])
    given = torch.cat([ids, ids[:, :1]], 1)
    target = Tokens(given, torch.full((len(rows),), given.shape[1]))
    return predicted(model, replace(FULL, samples=FULL.samples[rows], source=source, target=target))


@EVERY
def test_pieces_equal_the_whole(network: Network) -> None:
    model, ids = network.build(), ids_of()
    expected = whole(model, [0, 1, 2], ids)
    for pieces in ((1,) * 6, (2, 2, 2), (3, 3), (6,), (1, 3, 2)):
        state = model.start(FULL, 3)
        assert state.rows == 3 and state.lengths.tolist() == [0, 0, 0]
        same(stepped(model, ids, state, *pieces), expected)
        assert state.lengths.tolist() == [LONG] * 3


@EVERY
def test_rows_reorder_within_their_group_leave_and_come_in(network: Network) -> None:
    model, ids = network.build(), ids_of()
    state = model.start(FULL, 8)
    stepped(model, ids[:, :2], state)
    state.select(torch.tensor([0, 0, 2, 2]))  # two beams a sentence, and the middle one is finished
    beams = ids_of(4, 4, seed=6)
    stepped(model, beams[:, :1], state)
    state.reorder(torch.tensor([1, 1, 3, 2]), group=2)
    past = torch.cat([ids[[0, 0, 2, 2], :2], beams[:, :1]], 1)[[1, 1, 3, 2]]
    expected = whole(model, [0, 0, 2, 2], torch.cat([past, beams[:, 1:3]], 1))
    same(stepped(model, beams[:, 1:3], state, 2), expected[:, 3:])
    new = model.start(replace(FULL, samples=FULL.samples[:2]).divided(2)[1], 8)
    state.insert(new)
    assert state.lengths.tolist() == [5, 5, 5, 5, 0]
    more = ids_of(5, 2, seed=7)
    got = stepped(model, more, state)
    same(got[4:], whole(model, [1], more[4:]))
    history = torch.cat([past, beams[:, 1:3], more[:4]], 1)
    same(got[:4], whole(model, [0, 0, 2, 2], history)[:, 5:])


@EVERY
def test_rewinding_where_it_can(network: Network) -> None:
    model, ids, more = network.build(), ids_of(), ids_of(3, 3, seed=8)
    state, kept = model.start(FULL, 8), [1, 4, 2]
    stepped(model, ids[:, :4], state)
    if network.lacks("rewind"):
        with pytest.raises(AssertionError, match="cannot be rewound"):
            state.rewind(torch.tensor(kept))
        return
    state.rewind(torch.tensor(kept))
    got = stepped(model, more, state, 1, 2)
    for row, n in enumerate(kept):
        ids_row = torch.cat([ids[row : row + 1, :n], more[row : row + 1]], 1)
        same(got[row : row + 1], whole(model, [row], ids_row)[:, n:])


@EVERY
def test_scores_are_log_probabilities_of_all_or_of_a_subset(network: Network) -> None:
    model, state = network.build(), None
    state = model.start(FULL, 4)
    hidden = stepped(model, ids_of()[:, :2], state)
    scores = model.scores(hidden)
    assert scores.shape == (3, 2, VOCABULARY)
    same(scores.exp().sum(-1), torch.ones(3, 2, dtype=torch.float64))
    weight, bias = model.projection()
    logits = hidden @ weight.T + (0 if bias is None else bias)
    same(scores - scores[..., :1], (logits - logits[..., :1]).detach())
    subset = torch.tensor([7, 3, 11])
    same(model.scores(hidden, subset), torch.log_softmax(scores[..., subset], -1))
    assert model.bfloat16().scores(hidden.bfloat16()).dtype == torch.float32


@EVERY
def test_the_state_counts_its_bytes(network: Network) -> None:
    model = network.build()
    state = model.start(FULL, 8)
    tensors = state.tensors()
    assert all(t.shape[0] == 3 for t in tensors.values())
    assert state.nbytes() == sum(t.numel() * t.element_size() for t in tensors.values()) > 0
    assert not any(t.requires_grad for t in tensors.values())
