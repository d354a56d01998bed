"""Keyed BPE dropout: the library's splits at 0, characters at 1, the paper's rate between, decided by the key alone."""

from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qkv.data.tokenizers.bpe import Bpe
from qkv.data.tokenizers.dropout import KeyedMerges, mixed, survivals

TEXT = "the then there these those cat cats catch hat hats that aaaa aaaaaaa abab ababab banana bandana"
TEXTS = [f"{TEXT[at:]} {TEXT[:at]}".strip() for at in range(len(TEXT)) if TEXT[at] == " "]
PLAIN = Bpe.train(TEXTS, vocabulary=360, pretokenized=True)


def with_dropout(rate: float) -> Bpe:
    return Bpe(PLAIN.tokens, PLAIN.merges, spelling=PLAIN.spelling, dropout=rate)


def merges_without_dropout(words: list[str]) -> list[int]:
    ids = {token: number for number, token in enumerate(PLAIN.tokens)}
    return KeyedMerges(ids, PLAIN.merges, byte_fallback=True, dropout=0.0).encode(words, 0)


@given(st.text("abtehns cé▁<", max_size=200))
def test_without_dropout_the_loop_is_the_library(text: str) -> None:
    assert merges_without_dropout(PLAIN.words(text)) == PLAIN.encode([text])[0]


def test_a_long_word_takes_no_time_squared() -> None:
    word = "abt" * 30_000
    assert merges_without_dropout(PLAIN.words(word)) == PLAIN.encode([word])[0]


def test_dropout_of_one_gives_characters() -> None:
    (ids,) = with_dropout(1.0).encode_varied(["the cat Ж"], [3])
    tokens = [PLAIN.tokens[number] for number in ids]
    assert tokens == ["▁", "t", "h", "e", "▁", "c", "a", "t", "▁", "<0xD0>", "<0x96>"]


def test_dropout_of_zero_is_plain_encoding() -> None:
    assert PLAIN.encode_varied(TEXTS, range(len(TEXTS))) == PLAIN.encode(TEXTS)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_one_merge_is_left_out_at_its_rate(rate: float) -> None:
    """One possible merge and one step: the word stays in two pieces as often as the rate says."""
    ids = {"<pad>": 0, "<unk>": 1, "a": 4, "b": 5, "ab": 6}
    merges = KeyedMerges(ids, [("a", "b")], byte_fallback=False, dropout=rate)
    count = 10_000
    split = sum(merges.encode(["ab"], key) == [4, 5] for key in range(count))
    assert abs(split / count - rate) < 4 * (rate * (1 - rate) / count) ** 0.5
    in_one_sentence = merges.encode(["ab"] * count, 1).count(4)
    assert abs(in_one_sentence / count - rate) < 4 * (rate * (1 - rate) / count) ** 0.5


def reference(
    symbols: list[str], ranks: dict[tuple[str, str], int], rate: float, draw: np.random.Generator
) -> list[str]:
    """Algorithm 1 of the paper, as it reads: drop some of the possible merges, apply the best of the rest, again."""
    while True:
        possible = [(ranks[pair], at) for at, pair in enumerate(pairwise(symbols)) if pair in ranks]
        left = [merge for merge in possible if draw.random() >= rate]
        if not left:
            return symbols
        _, at = min(left)
        symbols = [*symbols[:at], symbols[at] + symbols[at + 1], *symbols[at + 2 :]]


def test_splits_are_distributed_as_in_the_paper() -> None:
    ranks = {pair: rank for rank, pair in enumerate(PLAIN.merges)}
    draw = np.random.Generator(np.random.Philox(5))
    ours, count, rate = with_dropout(0.3), 3000, 0.3
    rows = ours.encode_varied(["bandana"] * count, range(count))
    keyed = ["|".join(PLAIN.tokens[number] for number in row) for row in rows]
    papers = ["|".join(reference(list("▁bandana"), ranks, rate, draw)) for _ in range(count)]
    common = {split for split in keyed + papers if keyed.count(split) + papers.count(split) > count // 20}
    assert len(common) >= 4
    for split in common:
        assert abs(keyed.count(split) - papers.count(split)) < 4 * (2 * papers.count(split)) ** 0.5 + 20, split


def test_the_key_alone_decides() -> None:
    ours, keys = with_dropout(0.2), [mixed(number) for number in range(len(TEXTS))]
    together = ours.encode_varied(TEXTS, keys)
    order = np.random.default_rng(0).permutation(len(TEXTS))
    fresh = with_dropout(0.2)
    apart = {int(at): fresh.encode_varied([TEXTS[at]], [keys[at]])[0] for at in order}
    assert [apart[at] for at in range(len(TEXTS))] == together
    assert ours.encode_varied([TEXTS[0]] * 2, [1, 2])[0] != ours.encode_varied([TEXTS[0]] * 2, [1, 2])[1]
    assert ours.encode_varied([TEXTS[0]], [-1]) == ours.encode_varied([TEXTS[0]], [(1 << 64) - 1])


def test_remembered_words_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = with_dropout(0.2).encode_varied(TEXTS, range(len(TEXTS)))
    monkeypatch.setattr("qkv.data.tokenizers.dropout.REMEMBERED_WORDS", 3)
    assert with_dropout(0.2).encode_varied(TEXTS, range(len(TEXTS))) == expected
    monkeypatch.setattr("qkv.data.tokenizers.dropout.LONGEST_REMEMBERED", 0)
    assert with_dropout(0.2).encode_varied(TEXTS, range(len(TEXTS))) == expected


def test_the_numbers_are_those_of_splitmix64() -> None:
    golden = 0x9E3779B97F4A7C15
    assert [mixed(n * golden % 2**64) for n in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    draws = list(islice(survivals(9, 0.25), 20_000))
    assert draws[1:100] != list(islice(survivals(9 + golden, 0.25), 99)), "keys a step apart share no stream"
    assert abs(np.mean(draws) - 3) < 4 * (12 / 20_000) ** 0.5
    assert list(islice(survivals(9, 1.0), 3)) == [0, 0, 0]
    assert min(islice(survivals(9, 5e-324), 50)) > 1000
