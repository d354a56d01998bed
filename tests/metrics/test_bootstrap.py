"""Resamples are sacreBLEU's draws; a clear winner is found, luck is called luck."""

import numpy as np
import sacrebleu
from pytest import approx, mark
from sacrebleu.significance import _bootstrap_resample

from qkv.metrics.bootstrap import interval, paired, resampled_scores, resampled_sums
from qkv.metrics.text import bleu, chrf, ter

WORDS = "the a cat dog man woman park house runs sits sees blue old small and with on in"


def corpus(noise: float, seed: int = 0, sentences: int = 60) -> tuple[list[str], list[str]]:
    """References, and translations that get a share of the words wrong."""
    texts = np.random.default_rng(7)
    errors = np.random.default_rng(seed)
    references, hypotheses = [], []
    for _ in range(sentences):
        words = texts.choice(WORDS.split(), size=int(texts.integers(5, 14))).tolist()
        references.append(" ".join(words))
        wrong = errors.random(len(words)) < noise
        hypotheses.append(" ".join("wrong" if bad else word for word, bad in zip(words, wrong, strict=True)))
    return hypotheses, references


def test_draws_are_sacrebleus() -> None:
    hypotheses, references = corpus(0.2)
    for mine, metric in (
        (bleu(hypotheses, [references]), sacrebleu.BLEU()),
        (ter(hypotheses, [references]), sacrebleu.TER()),
    ):
        _, theirs = _bootstrap_resample(
            metric._extract_corpus_statistics(hypotheses, [references]), metric, n_samples=50
        )
        assert resampled_scores(mine, 50, seed=12345) == approx([s.score for s in theirs], rel=1e-5)


def test_sums_are_those_of_drawn_rows() -> None:
    rows = np.arange(12, dtype=np.float64).reshape(4, 3)
    drawn = np.random.default_rng(3).integers(4, size=4)
    assert resampled_sums(rows, 1, seed=3)[0] == approx(rows[drawn].sum(0))


def test_interval_holds_the_score_and_narrows_with_more_sentences() -> None:
    hypotheses, references = corpus(0.2, sentences=40)
    few = bleu(hypotheses, [references])
    hypotheses, references = corpus(0.2, sentences=640)
    many = bleu(hypotheses, [references])
    narrow, wide = interval(many, resamples=200), interval(few, resamples=200)
    assert wide.low < few.score() < wide.high
    assert narrow.low < many.score() < narrow.high
    # Sixteen times the sentences: about a quarter of the width.
    assert 2.5 < (wide.high - wide.low) / (narrow.high - narrow.low) < 6.5


def test_a_clear_winner_and_a_tie() -> None:
    good, references = corpus(0.1)
    bad, _ = corpus(0.4, seed=1)
    for score in (bleu, chrf, ter):
        clear = paired(score(good, [references]), score(bad, [references]), resamples=200)
        assert clear.p == approx(2 / 201) and clear.wins == 1.0
        assert clear.low < clear.difference < clear.high
        same = paired(score(good, [references]), score(good, [references]), resamples=200)
        assert same.p == 1.0 and same.wins == 0.0 and same.difference == 0


def test_two_of_a_kind_are_rarely_called_different() -> None:
    called = 0
    for seed in range(40):
        one, references = corpus(0.25, seed=2 * seed + 1)
        two, _ = corpus(0.25, seed=2 * seed + 2)
        called += paired(bleu(one, [references]), bleu(two, [references]), resamples=100).p < 0.05
    assert called <= 7  # 2 expected; a fair 5% test passes this bound 99.9% of the time


@mark.parametrize("seed", [1, 2])
def test_seeded(seed: int) -> None:
    hypotheses, references = corpus(0.3)
    statistics = bleu(hypotheses, [references])
    assert interval(statistics, resamples=50, seed=seed) == interval(statistics, resamples=50, seed=seed)
    assert interval(statistics, resamples=50, seed=seed).low != interval(statistics, resamples=50, seed=seed + 10).low
