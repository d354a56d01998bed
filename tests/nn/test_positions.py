"""What the papers say of positions: sinusoids shift linearly, rotations know distances, buckets and slopes by hand."""

import math

import pytest
import torch

from qkv.errors import ConfigError
from qkv.nn.call import Layout
from qkv.nn.positions import Alibi, Learned, Relative, Rotary, Sinusoidal, sinusoid

CPU = torch.device("cpu")


def test_sinusoids_by_formula() -> None:
    table = sinusoid(torch.arange(50), 16)
    for place in (0, 1, 7, 49):
        for i in range(8):
            angle = place / 10_000 ** (2 * i / 16)
            assert table[place, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[place, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)
    assert sinusoid(torch.arange(3), 5).shape == (3, 5)


def test_a_shift_of_a_sinusoid_is_a_fixed_rotation_of_each_pair() -> None:
    """Section 3.5: PE(p + k) is a linear function of PE(p), the same for every p."""
    table = sinusoid(torch.arange(200), 12)
    for k in (1, 5, 60):
        shift = torch.zeros(12, 12)
        for i in range(6):
            angle = k / 10_000 ** (2 * i / 12)
            shift[2 * i, 2 * i], shift[2 * i, 2 * i + 1] = math.cos(angle), math.sin(angle)
            shift[2 * i + 1, 2 * i], shift[2 * i + 1, 2 * i + 1] = -math.sin(angle), math.cos(angle)
        torch.testing.assert_close(table[k:], table[:-k] @ shift.T, atol=2e-5, rtol=0)


def test_sinusoidal_is_added() -> None:
    x = torch.randn(2, 4, 6)
    y = Sinusoidal(6, 1, base=100.0).embed(x, Layout(offset=3))
    torch.testing.assert_close(y - x, sinusoid(torch.arange(3, 7), 6, 100.0).expand(2, 4, 6))


def test_learned_tables_end() -> None:
    position = Learned(4, 1, longest=5)
    x = torch.zeros(1, 3, 4)
    assert torch.equal(position.embed(x, Layout(offset=2))[0], position.table.weight[2:5])
    with pytest.raises(ConfigError, match=r"6 positions .* table of 5; train with position.longest=6"):
        position.embed(x, Layout(offset=3))
    packed = Layout(segments=torch.tensor([[1, 1, 1, 2, 2, 2, 2]]))
    embedded = position.embed(torch.zeros(1, 7, 4), packed)[0]  # longer than the table, its documents are not
    assert torch.equal(embedded, position.table.weight[[0, 1, 2, 0, 1, 2, 3]])
    with pytest.raises(ConfigError, match="6 positions"):
        position.embed(torch.zeros(1, 7, 4), Layout(segments=torch.tensor([[1, 2, 2, 2, 2, 2, 2]])))


def test_rotary_scores_depend_on_the_distance_only() -> None:
    q, k = torch.randn(8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    rotary = Rotary(8, 1)
    places = torch.arange(40)
    turned_q = rotary.rotate(q.expand(1, 1, 40, 8), places)[0, 0]
    turned_k = rotary.rotate(k.expand(1, 1, 40, 8), places)[0, 0]
    scores = turned_q @ turned_k.T
    for distance in (-7, 0, 3):
        line = scores.diagonal(distance)
        torch.testing.assert_close(line, line[:1].expand_as(line), atol=1e-5, rtol=0)
    assert scores.diagonal(0)[0].item() == pytest.approx(float(q @ k), abs=1e-5)
    assert abs(scores[3, 0] - scores[0, 3]) > 1e-3
    torch.testing.assert_close(turned_q.norm(dim=-1), q.norm().expand(40), atol=1e-5, rtol=0)


def test_rotary_turns_pairs_by_the_angles_of_the_paper() -> None:
    x = torch.tensor([1.0, 0.0, 0.0, 1.0]).expand(1, 1, 1, 4)
    y = Rotary(4, 1).rotate(x, torch.tensor([3]))[0, 0, 0]
    fast, slow = 3.0, 3.0 / 10_000**0.5
    expected = torch.tensor([math.cos(fast), math.sin(fast), -math.sin(slow), math.cos(slow)])
    torch.testing.assert_close(y, expected)
    with pytest.raises(ConfigError, match="head width of 3 is odd"):
        Rotary(3, 1).rotate(torch.zeros(1, 1, 1, 3), torch.tensor([0]))


def test_relative_buckets_by_hand() -> None:
    """8 buckets to a distance of 8: half for each side; 0 and 1 exact, then by logarithm up to the last."""
    position = Relative(4, 1, buckets=8, longest=8)
    with torch.no_grad():
        position.table.weight.copy_(torch.arange(8.0)[:, None])
    ahead = position.bias(Layout(), 1, 12, CPU)[0, 0, 0].tolist()
    assert ahead == [0, 5, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7]
    behind = position.bias(Layout(offset=11), 1, 12, CPU)[0, 0, 0].tolist()
    assert behind == [3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 1, 0]
    with pytest.raises(ConfigError, match="7 buckets"):
        Relative(4, 1, buckets=7)


def test_relative_has_a_table_for_each_head() -> None:
    position = Relative(4, 3, buckets=4, longest=8)
    assert position.bias(Layout(), 2, 2, CPU).shape == (1, 3, 2, 2)
    assert not torch.equal(position.bias(Layout(), 2, 2, CPU)[:, 0], position.bias(Layout(), 2, 2, CPU)[:, 1])


def test_alibi_slopes_by_hand() -> None:
    assert Alibi(8, 8).slopes(CPU).tolist() == [2.0**-i for i in range(1, 9)]
    assert Alibi(8, 2).slopes(CPU).tolist() == [2.0**-4, 2.0**-8]
    bias = Alibi(8, 2).bias(Layout(causal=True), 3, 3, CPU)
    assert (bias[0, 0] * 16).tolist() == [[0, -1, -2], [-1, 0, -1], [-2, -1, 0]]
    later = Alibi(8, 2).bias(Layout(causal=True, offset=2), 1, 3, CPU)
    assert torch.equal(later, bias[:, :, 2:])
