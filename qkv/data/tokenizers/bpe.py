"""Byte pair encoding (Sennrich et al. 2016): frequent words are one token, rare ones several, and none is unknown.

With byte fallback a character without a token is spelled in its UTF-8 bytes, so the unknown id is never given out.
What a text keeps through encoding and decoding stands in spelling.py.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, models
from tokenizers import Tokenizer as Library

from qkv.data.tokenizers.base import SPECIAL_TOKENS, UNSEEN, Tokenizer, require_text, tokens_of
from qkv.data.tokenizers.dropout import KeyedMerges
from qkv.data.tokenizers.sample import even_sample
from qkv.data.tokenizers.spelling import Spelling
from qkv.data.tokenizers.training import Goal, Merges, learned
from qkv.errors import BundleError, ConfigError


class Bpe(Tokenizer):
    name = "bpe"

    def __init__(
        self, tokens: Sequence[str], merges: Sequence[tuple[str, str]], /, *, spelling: Spelling, dropout: float = 0.0
    ) -> None:
        if not 0 <= dropout <= 1:
            raise ConfigError(f"dropout {dropout} of a tokenizer must lie in 0 to 1; 0.1 is usual, 0 turns it off")
        self.tokens, self.merges = tuple(tokens), tuple(merges)
        self.spelling, self.dropout = spelling, float(dropout)
        ids = {token: number for number, token in enumerate(self.tokens)}
        unknown, fallback = SPECIAL_TOKENS[1], spelling.byte_fallback
        model = models.BPE(
            vocab=ids, merges=list(self.merges), unk_token=unknown, fuse_unk=False, byte_fallback=fallback
        )
        self._library = Library(model)
        self._library.normalizer = spelling.normalizer()
        self._library.pre_tokenizer = spelling.pre_tokenizer()
        self._library.decoder = spelling.decoder()
        self._library.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in UNSEEN])
        self._library.encode_special_tokens = True  # "</s>" in a text is text, not an end mark

    def __reduce__(self) -> tuple[Any, ...]:
        # The library's own pickling forgets that special tokens in a text are text.
        return partial(type(self), spelling=self.spelling, dropout=self.dropout), (self.tokens, self.merges)

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        /,
        *,
        vocabulary: int = 8000,
        merges: int | None = None,
        pretokenized: bool = False,
        lowercase: bool = False,
        byte_fallback: bool = True,
        dropout: float = 0.0,
        coverage: float = 1.0,
        minimum: int = 2,
        sample_bytes: int = 64_000_000,
    ) -> "Bpe":
        """Learns from an even sample of the texts; the same texts give the same tokenizer.

        `vocabulary` counts all ids: special tokens, bytes, alphabet and merges; fewer come out of a small text.
        `merges`, if given, fixes their number instead. Characters outside `coverage` of the text get no token of their
        own. Pairs seen less than `minimum` times are not merged. The sample is held in memory.
        """
        if not 0 <= dropout <= 1:
            raise ConfigError(f"dropout {dropout} of a tokenizer must lie in 0 to 1; 0.1 is usual, 0 turns it off")
        if sample_bytes < 1:
            raise ConfigError(f"sample_bytes {sample_bytes} must be at least 1; 64000000 is the default")
        goal = Goal(vocabulary=vocabulary, merges=merges, coverage=coverage, minimum=minimum)
        spelling = Spelling(pretokenized=pretokenized, lowercase=lowercase, byte_fallback=byte_fallback)
        sample = even_sample(texts, sample_bytes)
        require_text(sample)
        return cls(*learned(sample, spelling, goal), spelling=spelling, dropout=dropout)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        require_text(texts)
        return [found.ids for found in self._library.encode_batch_fast(list(texts), add_special_tokens=False)]

    def encode_varied(self, texts: Sequence[str], keys: Sequence[int]) -> list[list[int]]:
        """Ids with BPE dropout, by the key of each sample."""
        assert len(texts) == len(keys), (len(texts), len(keys))
        if not self.dropout:
            return self.encode(texts)
        require_text(texts)
        return [self._keyed.encode(self.words(text), key) for text, key in zip(texts, keys, strict=True)]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        decoded: list[str] = self._library.decode_batch([list(row) for row in ids], skip_special_tokens=True)
        return decoded

    def words(self, text: str) -> list[str]:
        """What merges act within: words with the mark of the space before them, digits and punctuation apart."""
        normalized = self._library.normalizer.normalize_str(text)
        return [word for word, _ in self._library.pre_tokenizer.pre_tokenize_str(normalized)]

    @cached_property
    def _keyed(self) -> KeyedMerges:
        ids = {token: number for number, token in enumerate(self.tokens)}
        return KeyedMerges(ids, self.merges, byte_fallback=self.spelling.byte_fallback, dropout=self.dropout)

    def options(self) -> dict[str, Any]:
        return {"dropout": self.dropout, **asdict(self.spelling)}

    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self._library.to_str())
        return document

    @classmethod
    def rebuilt(cls, document: Mapping[str, Any], options: Mapping[str, Any], path: Path) -> "Bpe":
        tokens = tokens_of(document, path)
        merges = _merges_of(document, set(tokens), path)
        flags = {key: options.get(key) for key in ("pretokenized", "lowercase", "byte_fallback")}
        dropout = options.get("dropout")
        if (
            not all(type(flag) is bool for flag in flags.values())
            or type(dropout) is not float
            or not 0 <= dropout <= 1
        ):
            raise BundleError(
                f"{path.parent}: options {dict(options)} are not those of a {cls.name} tokenizer; restore it"
            )
        spelling = Spelling(**{key: flag is True for key, flag in flags.items()})
        fixed = spelling.fixed_tokens(SPECIAL_TOKENS)
        if tokens[: len(fixed)] != fixed:
            raise BundleError(f"{path}: the byte tokens do not stand at ids 4 to 259; restore the file from a copy")
        if at := next((left + right for left, right in merges if left + right in fixed), None):
            raise BundleError(f'{path}: a merge spells the reserved token "{at}"; restore the file from a copy')
        return cls(tokens, merges, spelling=spelling, dropout=dropout)


def _merges_of(document: Mapping[str, Any], known: set[str], path: Path) -> Merges:
    found = document["model"].get("merges")
    if not isinstance(found, list):
        raise BundleError(f"{path}: holds no merges; restore the file from a copy")
    merges: Merges = []
    for number, pair in enumerate(found, start=1):
        whole = isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
        if not whole or not {pair[0], pair[1], pair[0] + pair[1]} <= known:
            raise BundleError(f"{path}: merge {number} is not of two tokens into a third; restore the file from a copy")
        merges.append((pair[0], pair[1]))
    if len(set(merges)) < len(merges):
        raise BundleError(f"{path}: a merge stands twice among its {len(merges)}; restore the file from a copy")
    return merges
