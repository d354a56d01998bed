"""A token for each frequent word of tokenised text, as in the first neural translators (Bahdanau et al. 2015, 4.1)."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, models, pre_tokenizers
from tokenizers import Tokenizer as Library

from qkv.data.tokenizers.base import SPECIAL_TOKENS, UNSEEN, Specials, Tokenizer, require_text, tokens_of
from qkv.errors import BundleError, ConfigError, DataError


class Words(Tokenizer):
    name = "words"

    def __init__(self, tokens: Sequence[str], /) -> None:
        self.tokens = tuple(tokens)
        # A word of the text that is spelled like a special token is one more unknown word.
        self._ids = {token: number for number, token in enumerate(self.tokens) if number >= len(SPECIAL_TOKENS)}
        self._hidden = {Specials.PAD, Specials.BOS, Specials.EOS}

    @classmethod
    def train(cls, texts: Iterable[str], /, *, vocabulary: int = 30_000, minimum: int = 1) -> "Words":
        """The most frequent words that were seen `minimum` times; `vocabulary` counts the special tokens too."""
        if vocabulary <= len(SPECIAL_TOKENS):
            raise ConfigError(f"vocabulary {vocabulary} has no room for a word; take more than {len(SPECIAL_TOKENS)}")
        if minimum < 1:
            raise ConfigError(f"minimum {minimum} must be at least 1, which keeps every word")
        counts = Counter[str]()
        for text in texts:
            counts.update(text.split(" "))
        for reserved in ("", *SPECIAL_TOKENS):
            counts.pop(reserved, None)
        if not counts:
            raise DataError("the text to take words from is empty; name a corpus that holds text")
        require_text(["".join(counts)])
        frequent = sorted((word for word, count in counts.items() if count >= minimum), key=lambda w: (-counts[w], w))
        if not frequent:
            most = counts.most_common(1)[0][1]
            raise ConfigError(f"minimum {minimum} leaves no word: the most frequent was seen {most} times; lower it")
        return cls((*SPECIAL_TOKENS, *frequent[: vocabulary - len(SPECIAL_TOKENS)]))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        known = self._ids
        return [[known.get(word, Specials.UNK) for word in text.split(" ") if word] for text in texts]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        return [" ".join(self.tokens[number] for number in row if number not in self._hidden) for row in ids]

    def options(self) -> dict[str, Any]:
        return {}

    def document(self) -> dict[str, Any]:
        vocabulary = {token: number for number, token in enumerate(self.tokens)}
        library = Library(models.WordLevel(vocab=vocabulary, unk_token=SPECIAL_TOKENS[Specials.UNK]))
        library.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
        library.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in UNSEEN])
        document: dict[str, Any] = json.loads(library.to_str())
        return document

    @classmethod
    def rebuilt(cls, document: Mapping[str, Any], options: Mapping[str, Any], path: Path) -> "Words":
        tokens = tokens_of(document, path)
        if any(" " in token for token in tokens):
            raise BundleError(f"{path}: a word holds a space; restore the file from a copy")
        return cls(tokens)
