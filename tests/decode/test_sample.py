"""Sampling: the distribution that is meant, and numbers that belong to a sentence and not to its batch."""

from math import sqrt

import pytest
import torch

from qkv.decode.sample import drawn, uniform
from qkv.decode.settings import SearchSettings
from tests.decode.toys import BOS, EOS, Recurrent, Table, batch_of, searched

DRAWS = 20_000


def chi_square_limit(freedom: int) -> float:
    """What one in a thousand exceeds (Wilson and Hilferty 1931)."""
    return float(freedom * (1 - 2 / (9 * freedom) + 3.0902 * sqrt(2 / (9 * freedom))) ** 3)


def meant(probabilities: torch.Tensor, temperature: float, top_k: int, top_p: float) -> torch.Tensor:
    """The filtered distribution in plain steps: temper, keep the k likeliest, then as few of these as hold p."""
    p = probabilities ** (1 / temperature)
    order = sorted(range(len(p)), key=lambda i: -float(p[i]))[: top_k or len(p)]
    total, kept, mass = float(p[order].sum()), [], 0.0
    for i in order:
        if mass >= top_p:
            break
        kept.append(i)
        mass += float(p[i]) / total
    out = torch.zeros_like(p)
    out[kept] = p[kept]
    return out / out.sum()


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.5, 0, 1.0), (2.0, 0, 1.0), (1.0, 4, 1.0), (1.0, 0, 0.8), (1.5, 6, 0.7), (1.0, 50, 1e-6)],
)
def test_what_is_drawn_follows_the_distribution(temperature: float, top_k: int, top_p: float) -> None:
    torch.manual_seed(1)
    probabilities = torch.randn(10, dtype=torch.float64).mul(1.5).softmax(0)
    settings = SearchSettings(do_sample=True, temperature=temperature, top_k=top_k, top_p=top_p)
    samples = torch.arange(DRAWS)
    numbers = uniform(3, 1, samples, torch.zeros_like(samples), torch.full_like(samples, 5))
    ids = drawn(probabilities.log().float().expand(DRAWS, -1), numbers, settings)
    expected = meant(probabilities, temperature, top_k, top_p) * DRAWS
    seen = ids.bincount(minlength=10).double()
    assert not seen[expected == 0].any()
    likely = expected > 0
    statistic = float(((seen - expected)[likely] ** 2 / expected[likely]).sum())
    assert statistic <= (chi_square_limit(int(likely.sum()) - 1) if likely.sum() > 1 else 0)


def test_whole_texts_follow_the_product_of_their_steps() -> None:
    """Two words of two choices each: four texts, .42 .28 .12 .18."""
    table = torch.full((8, 8), -torch.inf)
    for last, choices in {BOS: {4: 0.7, 5: 0.3}, 4: {6: 0.6, 7: 0.4}, 5: {6: 0.4, 7: 0.6}}.items():
        for token, p in choices.items():
            table[last, token] = torch.tensor(p).log()
    table[6, EOS] = table[7, EOS] = 0.0
    found = searched(Table(table), batch_of([3] * 50), do_sample=True, num_return_sequences=40, max_new_tokens=5)
    texts = [h.ids for hypotheses in found for h in hypotheses]
    expected = {(4, 6): 0.42, (4, 7): 0.28, (5, 6): 0.12, (5, 7): 0.18}
    assert set(texts) == set(expected) and len(texts) == 2000
    statistic = sum((texts.count(t) - 2000 * p) ** 2 / (2000 * p) for t, p in expected.items())
    assert statistic <= chi_square_limit(3)


def test_numbers_differ_by_seed_sample_draw_and_position_and_by_nothing_else() -> None:
    def number(seed: int = 0, sample: int = 0, draw: int = 0, position: int = 0) -> float:
        at = (torch.tensor([sample]), torch.tensor([draw]), torch.tensor([position]))
        return float(uniform(seed, 4, *at))

    several = [number(), number(seed=1), number(sample=1), number(draw=1), number(position=1)]
    assert len(set(several)) == 5 and all(0 < n < 1 for n in several)
    together = uniform(0, 4, torch.tensor([9, 1, 0]), torch.tensor([2, 0, 0]), torch.tensor([3, 0, 1]))
    assert together.tolist() == [number(sample=9, draw=2, position=3), number(sample=1), number(position=1)]


def test_a_sentence_samples_the_same_alone_and_among_others() -> None:
    model = Recurrent(ending=2.0)
    settings = dict(do_sample=True, num_return_sequences=3, max_new_tokens=10, temperature=1.3)
    lengths = [3, 9, 5, 6]
    together = searched(model, batch_of(lengths), **settings)
    alone = [searched(model, batch_of([n], first=i), **settings)[0] for i, n in enumerate(lengths)]
    assert [[h.ids for h in hs] for hs in together] == [[h.ids for h in hs] for hs in alone]
    assert len({h.ids for hs in together for h in hs}) > 6
    other = searched(model, batch_of(lengths), seed=1, **settings)
    assert [[h.ids for h in hs] for hs in other] != [[h.ids for h in hs] for hs in together]


def test_the_score_of_a_sample_is_the_models_own() -> None:
    """Neither temperature nor filters change what a text is said to be worth."""
    model = Recurrent()
    for (h,) in searched(model, batch_of([4, 5]), do_sample=True, temperature=0.3, top_k=2, max_new_tokens=6):
        forced = searched(model, batch_of([4, 5]), num_beams=1, prefix=[h.ids[:-1]] * 2, max_new_tokens=1)
        assert h.log_probability == pytest.approx(sum(h.token_log_probabilities), abs=1e-4)
        assert forced[0][0].forced == len(h.ids) - 1
    cold = searched(model, batch_of([4, 5]), do_sample=True, temperature=1e-4, max_new_tokens=6)
    assert cold == searched(model, batch_of([4, 5]), num_beams=1, max_new_tokens=6)
