"""How sure a score is: the bootstrap, and the paired bootstrap for two systems on one test set (Koehn 2004).

Sentences are drawn with replacement, as many as there are; a resample is scored from the sums of its sentences'
statistics. Both systems see the same draws; a seed and a number of sentences always give the same ones.

Letters: N sentences, K statistics of a sentence, R resamples.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qkv.metrics.text import Statistics

RESAMPLES, SEED, LEVEL = 1000, 12345, 0.95  # sacreBLEU's


@dataclass(frozen=True)
class Interval:
    """Where the score of another test set of this kind would lie, `level` of the time."""

    low: float
    high: float
    level: float
    resamples: int
    seed: int


@dataclass(frozen=True)
class Comparison:
    """One system against another: the difference of their scores, its interval, and how likely it is chance."""

    name: str
    score: float
    against: float
    difference: float
    low: float
    high: float
    p: float  # two-sided: twice the share of resamples on the other side of zero
    wins: float  # the share of resamples that the first system wins: Koehn's figure
    resamples: int
    seed: int


def interval(statistics: Statistics, *, resamples: int = RESAMPLES, seed: int = SEED, level: float = LEVEL) -> Interval:
    """The percentile interval of a corpus score."""
    scores = resampled_scores(statistics, resamples, seed)
    low, high = _bounds(scores, level)
    return Interval(low, high, level, resamples, seed)


def paired(
    mine: Statistics, theirs: Statistics, *, resamples: int = RESAMPLES, seed: int = SEED, level: float = LEVEL
) -> Comparison:
    """Is the first system better than the second on this test set, or was it luck?"""
    assert mine.signature == theirs.signature and len(mine) == len(theirs), "one score, one test set, two systems"
    differences = resampled_scores(mine, resamples, seed) - resampled_scores(theirs, resamples, seed)
    better = differences if mine.higher_is_better else -differences
    # One is added above and below, so that no finite number of resamples gives p = 0.
    other_side = min(int((better <= 0).sum()), int((better >= 0).sum())) + 1
    score, against = mine.score(), theirs.score()
    low, high = _bounds(differences, level)
    return Comparison(
        name=mine.name,
        score=score,
        against=against,
        difference=score - against,
        low=low,
        high=high,
        p=min(1.0, 2 * other_side / (resamples + 1)),
        wins=float((better > 0).mean()),
        resamples=resamples,
        seed=seed,
    )


def resampled_scores(statistics: Statistics, resamples: int, seed: int) -> NDArray[np.float64]:
    """The score of each resample: R numbers."""
    sums = resampled_sums(statistics.rows, resamples, seed)
    return np.array([statistics.of_sums(row) for row in sums])


def resampled_sums(rows: NDArray[np.float64], resamples: int, seed: int) -> NDArray[np.float64]:
    """The summed statistics of each resample, R K, from how often it holds each sentence."""
    count = len(rows)
    assert count > 0 and resamples > 0, (count, resamples)
    random = np.random.default_rng(seed)
    draws = (np.bincount(random.integers(count, size=count), minlength=count) for _ in range(resamples))
    return np.stack([drawn @ rows for drawn in draws])


def _bounds(values: NDArray[np.float64], level: float) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
