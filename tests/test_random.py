"""Numbers by counter: the right rate, no relation between keys, and the same for any split or padding.

Bounds are four to five standard deviations of what independent numbers would do.
"""

import pytest
import torch
from torch import Tensor

from qkv.random import LEVELS, Noise, dropped, mixed_, place_of, word

ROWS = torch.arange(100, 116)
WORD, PLACE = 939062028, 86977692
WORDS = [-832016870, 1488303522, -1452013903, -364452091]


def kept(
    seed: int = 1, step: int = 2, place: int = 3, samples: Tensor = ROWS, shape: tuple[int, ...] = (64, 64)
) -> Tensor:
    return Noise(seed, step, samples).keep(place, (len(samples), *shape), 0.5).double()


def correlation(a: Tensor, b: Tensor) -> float:
    """Of two sets of coin throws, in standard deviations of none."""
    return float(((a * 2 - 1) * (b * 2 - 1)).mean() * a.numel() ** 0.5)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_rate_is_met(rate: float) -> None:
    keep = Noise(1, 2, ROWS).keep(3, (16, 128, 64), rate)
    deviation = (rate * (1 - rate) / keep.numel()) ** 0.5
    assert abs(1 - keep.double().mean().item() - rate) < 4 * deviation


def test_every_key_counts() -> None:
    base = kept()
    others = {
        "seed": kept(seed=9),
        "step": kept(step=3),
        "place": kept(place=4),
        "sample": kept(samples=ROWS + 1000),
        "high half of the sample": kept(samples=ROWS + (1 << 32)),
        "high half of the seed": kept(seed=1 + (1 << 32)),
    }
    for what, other in others.items():
        assert abs(correlation(base, other)) < 4.5, what
    for what, other in others.items():
        assert 0.4 < (base != other).double().mean() < 0.6, what


def test_neighbours_are_unrelated() -> None:
    keep = kept()
    for dimension in range(3):
        size = keep.shape[dimension]
        for lag in (1, 2, 7, 8):
            a, b = keep.narrow(dimension, 0, size - lag), keep.narrow(dimension, lag, size - lag)
            assert abs(correlation(a, b)) < 4.5, (dimension, lag)
    steps = torch.stack([kept(step=s, shape=(16, 16)) for s in range(32)])
    assert abs(correlation(steps[1:], steps[:-1])) < 4.5
    places = torch.stack([kept(place=place_of(f"encoder.{i}.dropout"), shape=(16, 16)) for i in range(32)])
    assert abs(correlation(places[1:], places[:-1])) < 4.5


def test_values_are_uniform_by_chi_square() -> None:
    words = Noise(5, 6, ROWS).words(7, (16, 64, 32)).view(torch.int16).flatten().long() + (1 << 15)
    counts = torch.bincount(words // 256, minlength=256).double()
    expected = words.numel() / 256
    chi = float(((counts - expected) ** 2 / expected).sum())
    assert abs(chi - 255) < 4.5 * (2 * 255) ** 0.5


def test_each_channel_and_each_position_meets_the_rate() -> None:
    keep = kept(shape=(128, 32))
    for dimensions in ((0, 1), (0, 2), (1, 2)):
        share = keep.mean(dimensions)
        bound = 5 * (0.25 * share.numel() / keep.numel()) ** 0.5
        assert (share - 0.5).abs().max() < bound


@pytest.mark.parametrize("shape", [(6, 8), (3, 6, 8), (6, 7)])
def test_rows_splits_and_padding_change_nothing(shape: tuple[int, ...]) -> None:
    whole = kept(shape=shape)
    order = torch.randperm(16)
    assert torch.equal(kept(samples=ROWS[order], shape=shape), whole[order])
    assert torch.equal(torch.cat([kept(samples=part, shape=shape) for part in ROWS.split([5, 1, 10])]), whole)
    wider = kept(shape=(*shape[:-2], shape[-2] + 5, shape[-1] + 3))
    assert torch.equal(wider[..., : shape[-2], : shape[-1]], whole)


def test_positions_key_the_dimension_before_the_channels() -> None:
    """One token at a time draws what the whole row would have drawn there: also for the maps of attention."""
    noise = Noise(1, 2, ROWS)
    whole, maps = noise.words(3, (16, 6, 8)), noise.words(3, (16, 2, 6, 8))
    later = Noise(1, 2, ROWS, positions=torch.tensor([4, 5]))
    assert torch.equal(later.words(3, (16, 2, 8)), whole[:, 4:])
    assert torch.equal(later.words(3, (16, 2, 2, 8)), maps[:, :, 4:])
    apart = Noise(1, 2, ROWS, positions=torch.arange(16)[:, None] % 6)
    assert torch.equal(apart.words(3, (16, 1, 8))[:, 0], whole[torch.arange(16), torch.arange(16) % 6])
    assert torch.equal(apart.words(3, (16, 2, 1, 8))[5], maps[5, :, 5:6])


def test_rows_of_the_same_key() -> None:
    noise = Noise(1, 2, ROWS)
    assert torch.equal(noise.to_rows(ROWS[3:4]).words(0, (1, 4)), noise.words(0, (16, 4))[3:4])


def test_dropping_scales_what_is_kept_and_its_gradient() -> None:
    noise, x = Noise(1, 2, ROWS), torch.randn(16, 5, 9, dtype=torch.float64, requires_grad=True)
    y = dropped(x, 0.25, noise, 3)
    scale = noise.keep(3, (16, 5, 9), 0.25) / 0.75
    torch.testing.assert_close(y, x * scale)
    weight = torch.randn_like(y)
    (gradient,) = torch.autograd.grad(y, x, weight)
    torch.testing.assert_close(gradient, weight * scale)
    assert dropped(x.bfloat16(), 0.25, noise, 3).dtype == torch.bfloat16


def test_without_noise_or_rate_nothing_is_copied() -> None:
    x = torch.ones(16, 3)
    assert dropped(x, 0.5, None, 3) is x and dropped(x, 0.0, Noise(1, 2, ROWS), 3) is x


def test_the_scale_is_of_the_rate_that_is_met() -> None:
    noise, x = Noise(1, 2, ROWS), torch.ones(16, 200, 200, dtype=torch.float64)
    assert dropped(x, 1 / 3, noise, 3).max().item() == 1 / (1 - round(LEVELS / 3) / LEVELS)
    assert dropped(x, 0.9999999, noise, 3).isfinite().all()


def test_a_place_without_a_name_is_found_out() -> None:
    with pytest.raises(AssertionError, match="name_places"):
        dropped(torch.ones(16, 3), 0.5, Noise(1, 2, ROWS), -1)


def test_the_mixing_is_the_published_one() -> None:
    """lowbias32 as its author gives it, in plain integers."""
    for x in (0, 1, 2, 0xDEADBEEF, 0xFFFFFFFF, 0x80000000):
        y = x
        y = (y ^ (y >> 16)) * 0x7FEB352D & 0xFFFFFFFF
        y = (y ^ (y >> 15)) * 0x846CA68B & 0xFFFFFFFF
        y ^= y >> 16
        signed = torch.tensor([x - (x >> 31 << 32)]).to(torch.int32)
        assert int(mixed_(signed)) & 0xFFFFFFFF == y


def test_words_on_the_host_are_32_bits_and_ordered() -> None:
    words = {word(a, b) for a in range(40) for b in range(40)}
    assert len(words) == 1600 and max(words) < 1 << 32
    assert word(1, 2) != word(2, 1) and word(0) != word(0, 0) and word(1) != word(1 + (1 << 32))


def test_numbers_do_not_change_between_versions() -> None:
    """A resumed run and a stored result depend on them."""
    assert word(1, 2, 3) == WORD and place_of("encoder.blocks.0") == PLACE
    assert Noise(1, 2, torch.tensor([5])).words(3, (1, 2, 2)).flatten().tolist() == WORDS
