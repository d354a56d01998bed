"""Which samples stand together, and when: batches of like lengths, the same for any number of ranks.

The order is a function of (seed, epoch) alone. An epoch's samples are shuffled, cut into pools of many batches, sorted
by length within a pool, cut where rows x max(longest source, longest target) would pass `max_tokens` (as in fairseq),
and the batches shuffled. A place in it is two numbers, so a run resumes at any batch without replaying the ones before.

Several corpora are mixed by weight: corpus i gives the share weight_i / sum of weights of the pairs. Each is read in a
shuffled order of its own, reshuffled whenever it is through, and the reading goes on from epoch to epoch, so nothing is
lost at an epoch's end. An epoch holds as many pairs as all corpora together, to within one a corpus; without weights,
or with weights in proportion to the sizes, that is each pair exactly once.

Memory: 4 bytes a sample of an epoch, while shuffling twice that, and some 60 bytes a sample of one pool.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from qkv.errors import ConfigError
from qkv.random import place_of

Numbers = NDArray[np.integer]
POOL_BATCHES = 512  # sorted together: at 4,096 tokens and 14 tokens a sentence some 150,000 pairs


@dataclass(frozen=True)
class Position:
    """The next batch to be consumed."""

    epoch: int = 0
    batch: int = 0


@dataclass(frozen=True)
class Draw:
    """A rank's samples of one global batch, and where reading goes on once it is consumed."""

    epoch: int
    batch: int
    samples: NDArray[np.int64]
    after: Position


@dataclass(frozen=True, eq=False)
class Plan:
    """The batches of one epoch: batch i is `order[starts[i] : ends[i]]`."""

    order: Numbers
    starts: Numbers
    ends: Numbers
    padding: float  # the share of all cells, both sides together, that hold no token

    def __len__(self) -> int:
        return len(self.starts)

    def batch(self, index: int, rank: int = 0, ranks: int = 1) -> NDArray[np.int64]:
        """Every `ranks`-th row from `rank` on: the rows are sorted by length, so the ranks get equal work.

        A batch of fewer rows than ranks leaves the last ranks without any.
        """
        return self.order[self.starts[index] + rank : self.ends[index] : ranks].astype(np.int64)


class Sampler:
    """Batches over one or several corpora, whose samples are numbered through in the order given."""

    def __init__(
        self,
        lengths: Sequence[Numbers],
        /,
        *,
        max_tokens: int,
        seed: int,
        sizes: Sequence[int] | None = None,
        weights: Sequence[float] | None = None,
        round_to: int = 1,
        pool_batches: int = POOL_BATCHES,
    ) -> None:
        self.lengths, self.max_tokens, self.seed = _checked(lengths, max_tokens, round_to), max_tokens, seed
        self.round_to, self.pool_batches = round_to, pool_batches
        self.sizes = [len(self.lengths[0])] if sizes is None else list(sizes)
        assert sum(self.sizes) == len(self.lengths[0]), (self.sizes, len(self.lengths[0]))
        self.shares = _shares(self.sizes, weights)
        usual = max(float(side.mean(dtype=np.float64)) for side in self.lengths)
        self.pool = max(1, int(pool_batches * max_tokens / usual))
        self._latest: tuple[int, Plan] | None = None

    def plan(self, epoch: int) -> Plan:
        """All batches of an epoch, in order."""
        latest = self._latest
        if latest is None or latest[0] != epoch:
            self._latest = None  # two plans of a large corpus need not be held at once
            self._latest = latest = (epoch, self._planned(epoch))
        return latest[1]

    def draws(self, start: Position = Position(), rank: int = 0, ranks: int = 1) -> Iterator[Draw]:
        """A rank's part of every batch from `start` on, epoch after epoch without end."""
        assert 0 <= rank < ranks, (rank, ranks)
        epoch, first = start.epoch, start.batch
        while True:
            plan = self.plan(epoch)
            for index in range(first, len(plan)):
                after = Position(epoch, index + 1) if index + 1 < len(plan) else Position(epoch + 1, 0)
                yield Draw(epoch, index, plan.batch(index, rank, ranks), after)
            epoch, first = epoch + 1, 0

    def _planned(self, epoch: int) -> Plan:
        order = self._drawn(epoch)
        for number, first in enumerate(range(0, len(order), self.pool)):
            pool = order[first : first + self.pool]
            ranked = by_length([_rounded(side[pool], self.round_to) for side in self.lengths], turn=epoch % 2)
            # Every second pool runs backwards: where one ends and the next begins the lengths agree.
            order[first : first + self.pool] = pool[ranked if number % 2 == 0 else ranked[::-1]]
        plan = cut(self.lengths, order, max_tokens=self.max_tokens, round_to=self.round_to, step=self.pool)
        shuffled = self.generator("batches", epoch).permutation(len(plan))
        return Plan(order, plan.starts[shuffled], plan.ends[shuffled], plan.padding)

    def _drawn(self, epoch: int) -> Numbers:
        """The N samples of an epoch in shuffled order."""
        total = sum(self.sizes)
        # Places in a corpus' own endless order: each epoch goes on where the last one stopped.
        stretches = [(int(share * total * epoch), int(share * total * (epoch + 1))) for share in self.shares]
        order: Numbers = np.empty(
            sum(last - first for first, last in stretches), dtype=np.int32 if total < 2**31 else np.int64
        )
        filled = offset = 0
        for corpus, (size, (first, last)) in enumerate(zip(self.sizes, stretches, strict=True)):
            for start, number, cycle in _cycles(first, last - first, size):
                shuffled = np.arange(offset, offset + size, dtype=order.dtype)
                self.generator("corpus", corpus, cycle).shuffle(shuffled)
                order[filled : filled + number] = shuffled[start : start + number]
                filled += number
            offset += size
        if len(self.sizes) > 1:
            self.generator("mix", epoch).shuffle(order)
        return order

    def generator(self, place: str, *numbers: int) -> np.random.Generator:
        """Random numbers for one place in the order, by the seed."""
        return np.random.default_rng([self.seed % 2**64, place_of(place), *numbers])


def in_order_of_length(lengths: Sequence[Numbers], /, *, max_tokens: int, round_to: int = 1) -> Plan:
    """Every sample once, the longest batch first, nothing random: for scoring and for translating."""
    lengths = _checked(lengths, max_tokens, round_to)
    order = by_length([_rounded(np.asarray(side), round_to) for side in lengths])[::-1]
    return cut(lengths, order, max_tokens=max_tokens, round_to=round_to)


def cut(
    lengths: Sequence[Numbers], order: Numbers, *, max_tokens: int, round_to: int = 1, step: int | None = None
) -> Plan:
    """`order` cut greedily into batches of rows x longest side <= max_tokens, looking at `step` samples at a time."""
    total = len(order)
    step = max(step or total, max_tokens, 1)
    bounds, first, cells, tokens = [0], 0, 0, 0
    while first < total:
        sides = [np.asarray(side)[order[first : first + step]].astype(np.int64) for side in lengths]
        rounded = [_rounded(side, round_to) for side in sides]
        ends = _greedy(np.maximum.reduce(rounded), max_tokens, last=first + step >= total)
        starts = np.concatenate([[0], ends[:-1]])
        cells += sum(int((np.maximum.reduceat(side, starts) * (ends - starts)).sum()) for side in rounded)
        tokens += sum(int(side[: ends[-1]].sum()) for side in sides)
        bounds.extend((first + ends).tolist())
        first += int(ends[-1])
    padding = 1 - tokens / cells if cells else 0.0
    return Plan(order, np.array(bounds[:-1], dtype=np.int64), np.array(bounds[1:], dtype=np.int64), padding)


def _greedy(costs: NDArray[np.int64], max_tokens: int, last: bool) -> NDArray[np.int64]:
    """Where each batch ends; the one that reaches the end of `costs` is only closed when nothing follows."""
    ends: list[int] = []
    first, total = 0, len(costs)
    numbers = np.arange(1, max_tokens + 1)
    while first < total:
        window = np.maximum.accumulate(costs[first : first + max(1, max_tokens // int(costs[first]))])
        fits = window * numbers[: len(window)] <= max_tokens
        rows = len(fits) if fits[-1] else int(fits.argmin())
        first += rows
        if first == total and not last and ends:
            break
        ends.append(first)
    return np.array(ends, dtype=np.int64)


def by_length(sides: Sequence[Numbers], turn: int = 0) -> NDArray[np.int64]:
    """Sorted by the longer side, then by the difference of the sides, up and down in turn: neighbours stay alike.

    The other `turn` swaps up and down, which parts many who stood together, at no padding.
    """
    longer = np.maximum.reduce(sides).astype(np.int64)
    difference = sides[0].astype(np.int64) - sides[-1]
    keys = longer << 32 | (np.where(longer % 2 == turn, difference, -difference) + (1 << 31))
    # Stable, so that the shuffled order before decides among equals, on every machine alike.
    return np.argsort(keys, kind="stable")


def _rounded(lengths: Numbers, round_to: int) -> Numbers:
    return lengths if round_to == 1 else -(-lengths.astype(np.int64) // round_to) * round_to


def _checked(lengths: Sequence[Numbers], max_tokens: int, round_to: int) -> list[Numbers]:
    lengths = [np.asarray(side) for side in lengths]
    assert lengths and all(side.ndim == 1 and len(side) == len(lengths[0]) for side in lengths), "one length a sample"
    if not len(lengths[0]):
        raise ConfigError("there is no sample to make batches of; 1 is the least: check the corpus and its limits")
    assert min(int(side.min()) for side in lengths) >= 1, "a sample has a token at least, if only its end"
    longest = -(-max(int(side.max()) for side in lengths) // round_to) * round_to
    if longest > max_tokens:
        raise ConfigError(
            f"max_tokens is {max_tokens:,}, but the longest sample has {longest:,} tokens; "
            "raise max_tokens or lower max_length"
        )
    return lengths


def _shares(sizes: Sequence[int], weights: Sequence[float] | None) -> list[Fraction]:
    """The exact share of the pairs that each corpus gives."""
    if weights is None:
        return [Fraction(size, sum(sizes)) for size in sizes]
    assert len(weights) == len(sizes), (weights, sizes)
    for weight, size in zip(weights, sizes, strict=True):
        if not 0 <= weight < float("inf") or (weight > 0 and size == 0):
            raise ConfigError(
                f"a corpus of {size:,} pairs has the weight {weight}; "
                "weights are at least 0, and 0 where a corpus is empty"
            )
    exact = [Fraction(weight) for weight in weights]
    if not sum(exact):
        raise ConfigError("every corpus has the weight 0; at least one must be above it")
    return [weight / sum(exact) for weight in exact]


def _cycles(first: int, count: int, size: int) -> Iterator[tuple[int, int, int]]:
    """(start, number, cycle) of what `count` places from `first` on take of a list that is read again and again."""
    while count:
        cycle, start = divmod(first, size)
        number = min(count, size - start)
        yield start, number, cycle
        first, count = first + number, count - number
