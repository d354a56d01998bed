"""A tokenizer small enough to be checked by eye: a letter is an id, and varying repeats the text by its key."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from qkv.data.tokenizers.base import SPECIAL_TOKENS, Specials, Tokenizer


class Letters(Tokenizer):
    name = "letters"

    def __init__(self, letters: str, dropout: float = 0.0) -> None:
        self.tokens = (*SPECIAL_TOKENS, *letters)
        self.dropout = dropout

    @classmethod
    def train(cls, texts: Iterable[str], dropout: float = 0.0) -> Self:
        return cls("".join(sorted(set("".join(texts)) - {" "})), dropout)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        known = {token: number for number, token in enumerate(self.tokens)}
        return [[known.get(letter, Specials.UNK) for letter in text if letter != " "] for text in texts]

    def encode_varied(self, texts: Sequence[str], keys: Sequence[int]) -> list[list[int]]:
        """The text once, twice or three times, as its key says: the lengths vary."""
        return [ids * (1 + key % 3) for ids, key in zip(self.encode(texts), keys, strict=True)]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        return ["".join(self.tokens[number] for number in row if number >= len(SPECIAL_TOKENS)) for row in ids]

    def options(self) -> dict[str, Any]:
        return {"dropout": self.dropout}

    def document(self) -> dict[str, Any]:
        return {"model": {"vocab": {token: number for number, token in enumerate(self.tokens)}}}

    @classmethod
    def rebuilt(cls, document: Mapping[str, Any], options: Mapping[str, Any], path: Path) -> Self:
        return cls("".join(list(document["model"]["vocab"])[len(SPECIAL_TOKENS) :]), **options)
