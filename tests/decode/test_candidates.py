"""The best continuations against a full sort, ties and minus infinities among them."""

import pytest
import torch

from qkv.decode.candidates import CHUNK, top


@pytest.mark.parametrize("vocabulary", [2, 5, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 5 * CHUNK + 7])
@pytest.mark.parametrize("levels", [2, 5, 10_000])
def test_the_order_is_value_then_lane_then_id(vocabulary: int, levels: int) -> None:
    """Few levels make many exact ties."""
    for seed in range(6):
        torch.manual_seed(seed)
        lanes = min(4, vocabulary)
        scores = -torch.randint(0, levels, (3, lanes, vocabulary)).float() / 8
        scores[torch.rand(scores.shape) < 0.2] = -torch.inf
        live = -torch.randint(0, levels, (3, lanes)).float() / 8
        live[0, lanes // 2 :] = -torch.inf
        values, at, ids = top(scores, live, 2 * lanes)
        whole = (scores + live[:, :, None]).flatten(1)
        best, places = whole.sort(dim=1, descending=True, stable=True)
        assert torch.equal(values, best[:, : 2 * lanes])
        possible = values > -torch.inf
        assert torch.equal((at * vocabulary + ids)[possible], places[:, : 2 * lanes][possible])
        assert ids.min() >= 0 and ids.max() < vocabulary and at.max() < lanes


def test_zero_has_no_sign() -> None:
    scores = torch.tensor([[[-1.0, -0.0, 0.0]]])
    assert top(scores, torch.zeros(1, 1), 2)[2].tolist() == [[1, 2]]


@pytest.mark.parametrize("bad", [float("nan"), -float("nan")])
def test_what_is_not_a_number_comes_first_so_that_it_is_seen(bad: float) -> None:
    scores = torch.full((1, 2, 100), -1.0)
    scores[0, 1, 70] = bad
    values, lanes, ids = top(scores, torch.zeros(1, 2), 3)
    assert values[0, 0].isnan() and (lanes[0, 0], ids[0, 0]) == (1, 70)
