"""Length normalisation by hand, and its bound against every way to go on."""

import random

import pytest

from qkv.decode.penalties import best_reachable, divisor


@pytest.mark.parametrize(
    ("norm", "exponent", "tokens", "by_hand"),
    [
        ("gnmt", 0.6, 1, 1.0),
        ("gnmt", 0.6, 7, 1.5157165665103982),  # (12 / 6) ** .6
        ("gnmt", 1.0, 25, 5.0),
        ("gnmt", 0.0, 25, 1.0),
        ("power", 2.0, 3, 9.0),
        ("average", 0.6, 8, 8.0),
        ("none", 0.6, 8, 1.0),
        ("average", 0.6, 0, 1.0),
    ],
)
def test_divisors_by_hand(norm: str, exponent: float, tokens: int, by_hand: float) -> None:
    assert divisor(norm, exponent, tokens) == pytest.approx(by_hand, rel=1e-12)  # type: ignore[arg-type]


@pytest.mark.parametrize("norm", ["gnmt", "power", "average", "none"])
@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.6, 1.0, 2.0])
def test_no_way_to_go_on_beats_the_bound_and_one_meets_it(norm: str, exponent: float) -> None:
    chance = random.Random(0)
    for _ in range(50):
        tokens, total = chance.randrange(0, 6), -chance.random() * 8
        limit = tokens + chance.randrange(1, 9)
        bound = best_reachable(norm, exponent, total, tokens, limit)  # type: ignore[arg-type]
        ends = [total / divisor(norm, exponent, n) for n in range(tokens + 1, limit + 1)]  # type: ignore[arg-type]
        assert max(ends) == pytest.approx(bound, rel=1e-12)
        worse = [(total - chance.random()) / divisor(norm, exponent, n) for n in range(tokens + 1, limit + 1)]  # type: ignore[arg-type]
        assert max(worse) <= bound
