"""With dropout in the tokenizer: the same promises as the plan's, and rows of like lengths side by side."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.data.collate import Collator, Feed
from qkv.data.regrouping import alike, regrouped
from qkv.data.sampling import Draw, Position, Sampler
from qkv.data.shards import Shards, Side, Writer
from tests.data.letters import Letters

LETTERS = Letters("ab", dropout=0.1)


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    side = Side.of(LETTERS.size, 99, True)
    texts = ["ab"[number % 2] * (number % 13 + 1) for number in range(400)]
    with Writer(tmp_path, {"source": side, "target": side}) as writer:
        writer.add(
            dict.fromkeys(("source", "target"), LETTERS.encode(texts)), dict.fromkeys(("source", "target"), texts)
        )
        writer.close()
    return Shards(tmp_path)


def parts(shards: Shards) -> tuple[Sampler, Collator]:
    sampler = Sampler(list(shards.lengths.values()), max_tokens=60, seed=2)
    return sampler, Collator(shards, seed=2, vary={"source": LETTERS, "target": LETTERS}, max_length=99)


def draws(shards: Shards, count: int, start: Position, rank: int = 0, ranks: int = 1) -> list[Draw]:
    return list(islice(regrouped(*parts(shards), start, rank, ranks, window=8), count))


def test_every_sample_once_an_epoch(shards: Shards) -> None:
    size = len(parts(shards)[0].plan(0))
    for epoch in (0, 1):
        found = draws(shards, size, Position(epoch))
        assert sorted(np.concatenate([draw.samples for draw in found])) == list(range(400))
        assert found[-1].after == Position(epoch + 1, 0)
        assert min(len(draw.samples) for draw in found) >= 1


@pytest.mark.parametrize("consumed", [1, 7, 8, 20])
def test_resuming_gives_the_uninterrupted_tail(shards: Shards, consumed: int) -> None:
    whole = draws(shards, consumed + 9, Position())
    again = draws(shards, 9, whole[consumed - 1].after)
    assert [d.samples.tolist() for d in again] == [d.samples.tolist() for d in whole[consumed:]]
    assert [d.after for d in again] == [d.after for d in whole[consumed:]]


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_share_the_same_global_batches(shards: Shards, ranks: int) -> None:
    whole = draws(shards, 12, Position(1))
    each = [draws(shards, 12, Position(1), rank, ranks) for rank in range(ranks)]
    for number, draw in enumerate(whole):
        assert sorted(np.concatenate([mine[number].samples for mine in each])) == sorted(draw.samples)


def test_a_batch_holds_what_its_rows_hold_alone_and_little_padding(shards: Shards) -> None:
    sampler, collate = parts(shards)
    _, fresh = parts(shards)
    cells = tokens = plain_cells = plain_tokens = 0
    with Feed(regrouped(sampler, collate, Position(), window=64), collate) as feed:
        for batch in islice(feed, len(sampler.plan(0))):
            assert batch.source is not None
            again = fresh(batch.samples.numpy(), 0)
            assert again.source is not None and again.source.ids.tolist() == batch.source.ids.tolist()
            cells, tokens = cells + batch.source.ids.numel(), tokens + batch.counts["source_tokens"]
    for draw in islice(sampler.draws(), len(sampler.plan(0))):
        source = fresh(draw.samples, 0).source
        assert source is not None
        plain_cells, plain_tokens = plain_cells + source.ids.numel(), plain_tokens + int(source.lengths.sum())
    assert tokens == plain_tokens
    assert 1 - tokens / cells < 0.5 * (1 - plain_tokens / plain_cells)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1, max_size=40), st.data())
def test_alike_makes_as_many_groups_as_asked(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(rows)))
    lengths = [np.array(side) for side in zip(*rows, strict=True)]
    groups = alike(lengths, count)
    assert len(groups) == count and all(len(group) for group in groups)
    assert sorted(np.concatenate(groups)) == list(range(len(rows)))
