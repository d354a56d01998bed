"""The even sample: everything when it fits, bounded when it does not, spread over the stream, always the same."""

from qkv.data.tokenizers.bpe import Bpe
from qkv.data.tokenizers.sample import even_sample


def test_all_of_a_small_stream_in_order() -> None:
    texts = [f"text {number}" for number in range(500)]
    assert even_sample(iter(texts), 1_000_000) == texts
    assert even_sample([], 10) == []


def test_a_large_stream_is_bounded_and_spread() -> None:
    texts = [f"{number:05d}" for number in range(20_000)]
    sample = even_sample(iter(texts), 10_000)
    assert 4_000 <= 5 * len(sample) <= 10_000
    assert sample == sorted(sample) == even_sample(texts, 10_000)
    for tenth in range(10):
        share = sum(tenth * 2000 <= int(text) < (tenth + 1) * 2000 for text in sample) / len(sample)
        assert 0.07 < share < 0.13


def test_alternating_languages_both_stay() -> None:
    sample = even_sample((("de", "en")[number % 2] for number in range(20_000)), 4_000)
    assert 0.45 < sample.count("de") / len(sample) < 0.55


def test_the_budget_counts_bytes_and_keeps_at_least_one_text() -> None:
    assert len(even_sample(["ж" * 10] * 100, 400)) <= 20
    assert even_sample(["a" * 50], 10) == ["a" * 50]


def test_training_learns_from_the_sample() -> None:
    letters = "abcdefghij"
    texts = ["".join(letters[int(digit)] for digit in str(number * number)) for number in range(3000)]
    whole, part = Bpe.train(texts, vocabulary=400), Bpe.train(texts, vocabulary=400, sample_bytes=5000)
    assert part.merges == Bpe.train(even_sample(texts, 5000), vocabulary=400).merges != whole.merges
