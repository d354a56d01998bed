"""Learning rates: the paper's formula and figures, and the shapes of the others."""

from math import cos, pi
from typing import Any

import pytest

from qkv import registry
from qkv.config import part
from qkv.errors import ConfigError
from qkv.train.schedule import Schedule


def schedule(name: str, width: int = 512, last: int | None = None, **options: Any) -> Schedule:
    built: Schedule = part("schedule", {"name": name, **options}).build(width, last)
    return built


@pytest.mark.parametrize(("width", "peak"), [(512, 6.988e-4), (1024, 4.941e-4)])
def test_noam_is_equation_3(width: int, peak: float) -> None:
    noam = schedule("noam", width)
    for step in (1, 2, 100, 3999, 4000, 4001, 100_000, 300_000):
        assert noam.rate(step) == pytest.approx(width**-0.5 * min(step**-0.5, step * 4000**-1.5), rel=1e-12)
    assert noam.rate(4000) == pytest.approx(peak, rel=1e-4)
    assert max(range(1, 20_000), key=noam.rate) == 4000
    assert schedule("noam", width, factor=2.0).rate(7) == pytest.approx(2 * noam.rate(7))


def test_inverse_square_root_rises_in_a_line_and_falls() -> None:
    rates = schedule("inverse_sqrt", peak=0.01, warmup=100, initial=0.002)
    assert rates.rate(50) == pytest.approx(0.006)
    assert rates.rate(100) == pytest.approx(0.01)
    assert rates.rate(400) == pytest.approx(0.005)


def test_cosine_ends_at_its_floor() -> None:
    rates = schedule("cosine", last=1100, peak=0.02, warmup=100, floor=0.1)
    assert rates.rate(25) == pytest.approx(0.005)
    assert rates.rate(100) == pytest.approx(0.02)
    assert rates.rate(350) == pytest.approx(0.02 * (0.1 + 0.9 * (1 + cos(pi / 4)) / 2))
    assert rates.rate(1100) == rates.rate(5000) == pytest.approx(0.002)
    assert schedule("cosine", last=1100, steps=200, warmup=0, peak=1.0).rate(100) == pytest.approx(0.5)
    with pytest.raises(ConfigError, match=r"set train\.max_steps or schedule\.steps"):
        schedule("cosine")


def test_constant_stays() -> None:
    assert {schedule("constant", peak=0.3).rate(step) for step in (1, 10, 10**6)} == {0.3}
    rising = schedule("constant", peak=0.3, warmup=3)
    assert [rising.rate(step) for step in (1, 2, 3, 4)] == pytest.approx([0.1, 0.2, 0.3, 0.3])


@pytest.mark.parametrize("name", registry.names("schedule"))
def test_every_rate_is_above_zero_until_the_end(name: str) -> None:
    rates = schedule(name, last=10_000)
    assert all(0 < rates.rate(step) < 0.01 for step in range(1, 10_000, 7))
