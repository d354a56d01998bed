"""What may not be written, against plain Python."""

import random

import pytest
import torch

from qkv.decode.constraints import block_repeats, forbid, force, hold_back


def banned(ids: list[int], n: int) -> set[int]:
    """The tokens that would complete an n-gram that was there before."""
    grams = {tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)}
    return {g[-1] for g in grams if g[:-1] == tuple(ids[len(ids) - n + 1 :])} if len(ids) >= n - 1 else set()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_repeats_are_blocked_row_by_row(size: int) -> None:
    chance = random.Random(size)
    for _ in range(30):
        lengths = [chance.randrange(0, 12) for _ in range(3)]
        ids = torch.tensor([[[chance.randrange(5) for _ in range(14)] for _ in range(2)] for _ in range(3)])
        scores = torch.full((3, 2, 5), -1.0)
        block_repeats(scores, ids, torch.tensor(lengths), max(lengths), size)
        for u in range(3):
            for w in range(2):
                gone = {i for i in range(5) if scores[u, w, i] == -torch.inf}
                assert gone == banned(ids[u, w, : lengths[u]].tolist(), size)


def test_forbidden_held_back_and_forced() -> None:
    scores = torch.zeros(3, 2, 6) - 2.0
    forbid(scores, (0, 2))
    hold_back(scores, [1], 3)
    force(scores, [2, 0], [5, 2])
    allowed = [(scores[u] > -torch.inf).all(0).nonzero()[:, 0].tolist() for u in range(3)]
    assert allowed == [[2], [1, 4, 5], [5]]
    assert scores[0, 0, 2] == 0 and scores[2, 1, 5] == 0 and scores[1, 0, 4] == -2
