"""Rows become batches as the contract says, and the feed counts what was consumed, whatever was made ahead."""

import threading
import time
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from qkv.data.batch import Batch
from qkv.data.collate import Collator, Feed, batches_of, filled, ragged
from qkv.data.sampling import Draw, Position, Sampler
from qkv.data.shards import Shards, Side, Writer
from tests.data.letters import Letters

TEXTS = ["abc", "a", "bb", "cabc", "ca"]
LETTERS = Letters("abc", dropout=0.1)


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    side = Side.of(LETTERS.size, 8, True)
    with Writer(tmp_path, {"source": side, "target": side}, shard_tokens=3) as writer:
        for text in TEXTS:
            ids = LETTERS.encode([text])
            writer.add({"source": ids, "target": [ids[0][::-1]]}, {"source": [text], "target": [text[::-1]]})
        writer.close()
    return Shards(tmp_path)


def numbers(*samples: int) -> np.ndarray:
    return np.array(samples, dtype=np.int64)


def test_source_ends_and_target_begins_and_ends(shards: Shards) -> None:
    batch = Collator(shards, task="translate", split="dev")(numbers(0, 4))
    assert batch.source is not None and batch.target is not None
    assert batch.source.ids.tolist() == [[4, 5, 6, 3], [6, 4, 3, 0]]
    assert batch.target.ids.tolist() == [[2, 6, 5, 4, 3], [2, 4, 6, 3, 0]]
    assert (batch.source.lengths.tolist(), batch.target.lengths.tolist()) == ([4, 3], [5, 4])
    assert batch.counts == {"sentences": 2, "source_tokens": 7, "target_tokens": 7}
    assert (batch.samples.tolist(), batch.task, batch.split) == ([0, 4], "translate", "dev")
    assert batch.source.ids.dtype == torch.int64


def test_widths_that_a_model_reads_are_rounded(shards: Shards) -> None:
    batch = Collator(shards, round_to=4)(numbers(1, 3))
    assert batch.source is not None and batch.target is not None
    assert (batch.source.ids.shape[1], batch.target.ids[:, :-1].shape[1]) == (8, 8)


def test_no_rows_are_a_batch_too(shards: Shards) -> None:
    batch = Collator(shards)(numbers())
    assert (batch.rows, batch.counts["target_tokens"]) == (0, 0)


@given(st.lists(st.lists(st.integers(4, 99), max_size=9), max_size=8), st.booleans(), st.integers(1, 4))
def test_filled_is_the_readable_loop(rows: list[list[int]], begin: bool, round_to: int) -> None:
    tokens = filled(*ragged(rows), begin=begin, round_to=round_to)
    marked = [[2] * begin + row + [3] for row in rows]
    assert tokens.lengths.tolist() == [len(row) for row in marked]
    assert (tokens.ids.shape[1] - begin) % round_to == 0
    assert tokens.ids.tolist() == [row + [0] * (tokens.ids.shape[1] - len(row)) for row in marked]


def test_varied_rows_depend_on_seed_epoch_and_sample_alone(shards: Shards) -> None:
    collate = Collator(shards, seed=3, vary={"source": LETTERS}, max_length=99)
    together, alone = collate(numbers(0, 1, 2, 3, 4), 7), [collate(numbers(sample), 7) for sample in range(5)]
    assert together.source is not None and together.target is not None
    for row, single in enumerate(alone):
        assert single.source is not None
        length = int(single.source.lengths[0])
        assert together.source.lengths[row] == length
        assert together.source.ids[row, :length].tolist() == single.source.ids[0, :length].tolist()
    assert together.target.lengths.tolist() == [len(text) + 2 for text in TEXTS]
    others = [Collator(shards, seed=seed, vary={"source": LETTERS}, max_length=99) for seed in range(4)]
    drawn = {tuple(o(numbers(0, 1, 2, 3, 4), e).source.lengths.tolist()) for o in others for e in range(4)}  # type: ignore[union-attr]
    assert len(drawn) > 8


def test_varied_rows_never_pass_the_limit(shards: Shards) -> None:
    collate = Collator(shards, seed=3, vary={"source": LETTERS}, max_length=5)
    for epoch in range(20):
        source = collate(numbers(3, 0), epoch).source
        assert source is not None
        # Twice or three times the text would be too long, so the ids stay the usual ones.
        assert source.ids.tolist() == [[6, 4, 5, 6, 3], [4, 5, 6, 3, 0]]


@given(st.lists(st.lists(st.integers(4, 99), max_size=20), max_size=40), st.integers(4, 60), st.integers(1, 4))
def test_batches_of_restores_the_order(rows: list[list[int]], max_tokens: int, round_to: int) -> None:
    found: dict[int, list[int]] = {}
    widths = []
    for places, tokens in batches_of(rows, max_tokens=max_tokens, round_to=round_to):
        assert len(places) == 1 or tokens.ids.numel() <= max_tokens
        widths.append(tokens.ids.shape[1])
        for place, ids, length in zip(places.tolist(), tokens.ids.tolist(), tokens.lengths.tolist(), strict=True):
            found[place] = ids[: length - 1]
            assert ids[length - 1] == 3
    assert [found[place] for place in range(len(rows))] == rows
    assert all(a >= b for a, b in pairwise(widths))


def sampler() -> Sampler:
    return Sampler([np.arange(60) % 7 + 1], max_tokens=20, seed=1)


def marked(samples: np.ndarray, epoch: int) -> Batch:
    return Batch.of(torch.from_numpy(samples), None, None, task=str(epoch))


def test_position_counts_what_was_consumed() -> None:
    draws = sampler().draws()
    with Feed(draws, marked, ahead=3) as feed:
        first = [next(feed).samples.tolist() for _ in range(5)]
        time.sleep(0.05)  # the thread goes on making batches; they do not count
        position = feed.position
    assert position == Position(0, 5)
    with Feed(sampler().draws(position), marked) as feed:
        second = [batch.samples.tolist() for batch in islice(feed, 40)]
        assert feed.position is not None and feed.position.epoch > 0
        assert feed.waited > 0
    whole = [draw.samples.tolist() for draw in islice(sampler().draws(), 45)]
    assert first + second == whole


def test_a_feed_ends_when_its_draws_do() -> None:
    feed = Feed(islice(sampler().draws(), 3), marked)
    assert len(list(feed)) == 3
    assert list(feed) == []
    assert not feed._thread.is_alive()


def test_an_error_in_the_thread_is_raised_to_the_consumer() -> None:
    def broken(samples: np.ndarray, epoch: int) -> Batch:
        raise ValueError("no such row")

    feed = Feed(sampler().draws(), broken)
    with pytest.raises(ValueError, match="no such row"):
        next(feed)
    with pytest.raises(StopIteration):
        next(feed)
    assert not feed._thread.is_alive()


def test_closing_stops_the_thread_at_once_and_twice_is_harmless() -> None:
    before = threading.active_count()
    feed = Feed(sampler().draws(), marked, ahead=1)
    next(feed)
    feed.close()
    feed.close()
    assert threading.active_count() == before


def test_it_stays_few_batches_ahead() -> None:
    taken: list[int] = []

    def noted() -> Iterator[Draw]:
        for draw in sampler().draws():
            taken.append(draw.batch)
            yield draw

    with Feed(noted(), marked, ahead=2) as feed:
        next(feed)
        for _ in range(100):
            if len(taken) == 4:
                break
            time.sleep(0.01)
        time.sleep(0.05)
        # One consumed, two waiting, one in the thread's hands.
        assert len(taken) == 4
