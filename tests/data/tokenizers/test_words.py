"""A token a word: the frequent ones by rank, the others unknown and visible."""

import pytest

from qkv.data.tokenizers.base import SPECIAL_TOKENS, Specials
from qkv.data.tokenizers.words import Words
from qkv.errors import ConfigError, DataError

TEXTS = ["b b a c", "a b  d\u00a0e", "a <s> <unk>"]


def test_words_stand_by_count_then_by_code_point() -> None:
    assert Words.train(TEXTS).tokens == (*SPECIAL_TOKENS, "a", "b", "c", "d\u00a0e")
    assert Words.train(TEXTS, vocabulary=6).tokens == (*SPECIAL_TOKENS, "a", "b")
    assert Words.train(TEXTS, minimum=3).tokens == (*SPECIAL_TOKENS, "a", "b")


def test_known_words_come_back_and_unknown_ones_show() -> None:
    words = Words.train(TEXTS)
    assert words.encode(["a  c b", "", "z d\u00a0e"]) == [[4, 6, 5], [], [Specials.UNK, 7]]
    assert words.decode([[Specials.BOS, 4, 6, Specials.EOS, Specials.PAD], [], [1, 7]]) == ["a c", "", "<unk> d\u00a0e"]


def test_a_word_spelled_like_a_mark_is_unknown() -> None:
    assert Words.train(TEXTS).encode(["<s> </s> <pad> <unk>"]) == [[Specials.UNK] * 4]


def test_keys_change_nothing() -> None:
    words = Words.train(TEXTS)
    assert words.encode_varied(TEXTS, [1, 2, 3]) == words.encode(TEXTS)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="vocabulary 4 has no room"):
        Words.train(TEXTS, vocabulary=4)
    with pytest.raises(ConfigError, match="minimum 0 must be at least 1"):
        Words.train(TEXTS, minimum=0)
    with pytest.raises(ConfigError, match="minimum 9 leaves no word: the most frequent was seen 3 times"):
        Words.train(TEXTS, minimum=9)
    with pytest.raises(DataError, match="is empty"):
        Words.train(["", "  ", "<s>"])
