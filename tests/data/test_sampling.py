"""The promises of the plan: every sample once, one order for any number of ranks, resumed exactly, little padding."""

import subprocess
import sys
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.data.sampling import Plan, Position, Sampler, in_order_of_length
from qkv.errors import ConfigError

SENTENCES = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=200)


def sides(pairs: list[tuple[int, int]]) -> list[np.ndarray]:
    return [np.array(side, dtype=np.uint16) for side in zip(*pairs, strict=True)]


def like_sentences(count: int, seed: int = 0) -> list[np.ndarray]:
    """Lengths spread as in a corpus of captions: some 13 words, the two sides within a few words."""
    random = np.random.default_rng(seed)
    source = np.clip(random.lognormal(2.55, 0.33, count), 3, 40)
    target = np.clip(source * random.normal(0.96, 0.17, count), 2, 44)
    return [np.rint(source).astype(np.uint16) + 1, np.rint(target).astype(np.uint16) + 1]


def batches(plan: Plan) -> list[list[int]]:
    return [plan.batch(index).tolist() for index in range(len(plan))]


def flat(plan: Plan) -> list[int]:
    return [sample for batch in batches(plan) for sample in batch]


def head(sampler: Sampler, count: int, start: Position) -> list[list[int]]:
    return [draw.samples.tolist() for draw in islice(sampler.draws(start), count)]


@given(SENTENCES, st.integers(30, 200), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3))
def test_every_sample_once_an_epoch_within_the_limit(
    pairs: list[tuple[int, int]], limit: int, pool: int, round_to: int, epoch: int
) -> None:
    sampler = Sampler(sides(pairs), max_tokens=limit, seed=3, pool_batches=pool, round_to=round_to)
    plan = sampler.plan(epoch)
    assert sorted(flat(plan)) == list(range(len(pairs)))
    for batch in batches(plan):
        longest = max(max(pairs[sample]) for sample in batch)
        assert batch and len(batch) * -(-longest // round_to) * round_to <= limit


@given(SENTENCES, st.integers(30, 200))
def test_padding_is_counted_exactly(pairs: list[tuple[int, int]], limit: int) -> None:
    plan = Sampler(sides(pairs), max_tokens=limit, seed=1, pool_batches=2).plan(0)
    cells = sum(len(b) * max(pairs[s][side] for s in b) for b in batches(plan) for side in (0, 1))
    assert plan.padding == pytest.approx(1 - sum(map(sum, pairs)) / cells, abs=1e-12)


@given(SENTENCES, st.integers(30, 100), st.sampled_from([1, 2, 3, 4]))
def test_ranks_share_the_same_global_batches(pairs: list[tuple[int, int]], limit: int, ranks: int) -> None:
    alone = Sampler(sides(pairs), max_tokens=limit, seed=5)
    parts = [Sampler(sides(pairs), max_tokens=limit, seed=5).draws(rank=rank, ranks=ranks) for rank in range(ranks)]
    for draw in islice(alone.draws(), len(alone.plan(0)) + 2):
        mine = [next(part) for part in parts]
        assert sorted(np.concatenate([m.samples for m in mine])) == sorted(draw.samples)
        assert max(len(m.samples) for m in mine) - min(len(m.samples) for m in mine) <= 1
        assert {(m.epoch, m.batch, m.after) for m in mine} == {(draw.epoch, draw.batch, draw.after)}


@given(SENTENCES, st.integers(30, 100), st.integers(0, 40))
def test_resuming_anywhere_gives_the_uninterrupted_tail(
    pairs: list[tuple[int, int]], limit: int, consumed: int
) -> None:
    whole = list(islice(Sampler(sides(pairs), max_tokens=limit, seed=7).draws(), consumed + 6))
    start = whole[consumed - 1].after if consumed else Position()
    again = list(islice(Sampler(sides(pairs), max_tokens=limit, seed=7).draws(start), 6))
    for first, second in zip(whole[consumed:], again, strict=True):
        assert (first.epoch, first.batch, first.after) == (second.epoch, second.batch, second.after)
        assert first.samples.tolist() == second.samples.tolist()


PROGRAM = """
import numpy as np
from hashlib import sha256
from itertools import islice
from qkv.data.sampling import Sampler
lengths = [np.arange(3000) * 7919 % 31 + 1, np.arange(3000) * 104729 % 29 + 1]
sampler = Sampler(lengths, max_tokens=500, seed=11, sizes=[1000, 2000], weights=[2.0, 1.0], pool_batches=8)
print(sha256(repr([d.samples.tolist() for d in islice(sampler.draws(), 300)]).encode()).hexdigest())
"""


def test_the_order_is_the_same_in_every_process() -> None:
    printed = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1 and len(printed.pop()) == 65


def test_seeds_and_epochs_change_the_order() -> None:
    lengths = like_sentences(2000)
    orders = [
        head(Sampler(lengths, max_tokens=300, seed=seed), 20, Position(epoch)) for seed in (1, 2) for epoch in (0, 1)
    ]
    assert len({repr(order) for order in orders}) == 4


def test_padding_is_small_and_pools_cost_little() -> None:
    lengths = like_sentences(30_000)
    assert Sampler(lengths, max_tokens=4096, seed=1).plan(0).padding < 0.04
    assert Sampler(lengths, max_tokens=1024, seed=1).plan(0).padding < 0.02
    pools = Sampler(lengths, max_tokens=512, seed=1, pool_batches=256)
    assert pools.pool < 15_000
    assert pools.plan(0).padding < 0.03


def test_other_companions_in_another_epoch() -> None:
    sampler = Sampler(like_sentences(30_000), max_tokens=1024, seed=1)
    first, second = ([frozenset(batch) for batch in batches(sampler.plan(epoch))] for epoch in (0, 1))
    home = {sample: batch for batch in second for sample in batch}
    met_again = sum(len(batch & home[sample]) - 1 for batch in first for sample in batch)
    met = sum(len(batch) * (len(batch) - 1) for batch in first)
    assert met_again / met < 0.5
    assert not set(first) & set(second)


def test_batches_of_all_lengths_alternate() -> None:
    sampler = Sampler(like_sentences(20_000), max_tokens=1024, seed=1)
    longest = np.array([sampler.lengths[0][batch].max() for batch in batches(sampler.plan(0))], dtype=float)
    assert abs(np.corrcoef(longest[:-1], longest[1:])[0, 1]) < 0.2


def test_weights_are_shares_of_the_pairs() -> None:
    lengths, sizes = like_sentences(1000), [100, 900]
    sampler = Sampler(lengths, max_tokens=500, seed=1, sizes=sizes, weights=[1.0, 3.0])
    seen = Counter(sample for epoch in range(4) for batch in batches(sampler.plan(epoch)) for sample in batch)
    assert sum(seen.values()) == 4000
    assert sum(seen[sample] for sample in range(100)) == 1000
    # Read in turns without end, so no pair of a corpus is ever two turns ahead of another.
    assert {seen[sample] for sample in range(100)} == {10}
    assert {seen[sample] for sample in range(100, 1000)} == {3, 4}


def test_weights_like_the_sizes_are_each_pair_once() -> None:
    lengths = like_sentences(1000)
    sampler = Sampler(lengths, max_tokens=500, seed=1, sizes=[100, 900], weights=[100.0, 900.0])
    for epoch in (0, 5):
        assert sorted(flat(sampler.plan(epoch))) == list(range(1000))


def test_a_corpus_of_weight_zero_is_left_out() -> None:
    sampler = Sampler(like_sentences(10), max_tokens=500, seed=1, sizes=[4, 6], weights=[0.0, 1.0])
    assert set(flat(sampler.plan(0))) == {4, 5, 6, 7, 8, 9}


@given(
    st.lists(st.tuples(st.integers(1, 9), st.floats(0.01, 100)), min_size=1, max_size=5),
    st.integers(0, 1000),
)
def test_an_epoch_of_mixed_corpora_has_their_size(corpora: list[tuple[int, float]], epoch: int) -> None:
    sizes, weights = [size for size, _ in corpora], [weight for _, weight in corpora]
    sampler = Sampler([np.ones(sum(sizes), dtype=int)], max_tokens=10, seed=1, sizes=sizes, weights=weights)
    assert 1 <= len(sampler.plan(epoch).order) <= sum(sizes) + len(sizes)
    assert len(sampler.plan(epoch).order) >= sum(sizes) - len(sizes)


def test_in_order_of_length_starts_with_the_longest() -> None:
    lengths = like_sentences(500)
    plan = in_order_of_length(lengths, max_tokens=200)
    longest = [max(int(side[batch].max()) for side in lengths) for batch in batches(plan)]
    assert longest == sorted(longest, reverse=True)
    assert sorted(flat(plan)) == list(range(500))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_tokens": 8}, "max_tokens is 8, but the longest sample has 9 tokens; raise max_tokens"),
        ({"max_tokens": 10, "round_to": 4}, "longest sample has 12 tokens"),
        ({"max_tokens": 50, "weights": [0.0]}, "at least one must be above it"),
        ({"max_tokens": 50, "weights": [-1.0]}, "weights are at least 0"),
        ({"max_tokens": 50, "weights": [float("nan")]}, "weights are at least 0"),
    ],
)
def test_what_cannot_be_sampled_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Sampler([np.array([3, 9])], seed=1, **settings)  # type: ignore[arg-type]


def test_an_empty_corpus_is_refused() -> None:
    with pytest.raises(ConfigError, match="1 is the least"):
        Sampler([np.array([], dtype=int)], max_tokens=50, seed=1)
