"""Batches of like lengths where dropout in the tokenizer changes the lengths in every epoch (BPE-dropout).

A plan made of undropped lengths would put long and short rows side by side. So a window of planned batches is encoded
at once, sorted by the lengths that came out, and cut into as many batches of about equal cost. Batch i of an epoch
stays batch i, so a run resumes at any of them by encoding one window. `max_tokens` then bounds the undropped tokens:
a batch holds about as many sentences as it would without dropout, and as much more of tokens as dropout makes.

Every rank encodes whole windows and takes its part of the rows, so that all agree on them without talking.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from qkv.data.collate import Collator
from qkv.data.sampling import Draw, Position, Sampler, by_length

WINDOW = 64  # batches encoded at once; a feed is to be as many ahead, or it stands still at each window


def regrouped(
    sampler: Sampler, collate: Collator, start: Position, rank: int = 0, ranks: int = 1, *, window: int = WINDOW
) -> Iterator[Draw]:
    """A rank's part of every batch from `start` on, for `collate`, which keeps the ids of the window under way."""
    assert 0 <= rank < ranks and window >= 1, (rank, ranks, window)
    epoch, first = start.epoch, start.batch
    while True:
        plan = sampler.plan(epoch)
        for opened in range(first // window * window, len(plan), window):
            count = min(window, len(plan) - opened)
            samples = np.concatenate([plan.batch(opened + index) for index in range(count)])
            batches = alike(collate.encode(samples, epoch), count)
            order = sampler.generator("regrouped", epoch, opened).permutation(count)
            for index in range(max(first - opened, 0), count):
                number = opened + index + 1
                after = Position(epoch, number) if number < len(plan) else Position(epoch + 1, 0)
                yield Draw(epoch, number - 1, samples[batches[order[index]]][rank::ranks], after)
        epoch, first = epoch + 1, 0


def alike(lengths: list[NDArray[np.int64]], count: int) -> list[NDArray[np.int64]]:
    """Rows in `count` groups of like lengths, none empty, about as many tokens of the longer side in each."""
    order, rows = by_length(lengths), len(lengths[0])
    assert 1 <= count <= rows, (count, rows)
    upto = np.maximum.reduce(lengths)[order].cumsum()
    bounds = np.searchsorted(upto, upto[-1] * np.arange(1, count) / count, side="right")
    places = np.arange(1, count)
    # One row a group at least, also where a single row outweighs several groups.
    bounds = np.maximum.accumulate(np.maximum(bounds, places) - places) + places
    return np.split(order, np.minimum(bounds, rows - count + places))
