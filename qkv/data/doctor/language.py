"""Which language a line is written in, by py3langid's n-gram model (Lui and Baldwin 2012), where it is long enough.

A short line has too few n-grams to be sure of: it is not judged, and said not to be. The library walks its automaton
byte by byte in Python; here many lines take each step together, which is several times as fast and gives the same.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from qkv.data.sources import Pair, Unreadable
from qkv.errors import ConfigError, nearest

FEWEST_LETTERS = 40
SURE = 0.6  # of another language, before a line is said to be in it
SAMPLE = 400  # judged lines that tell which language a side is in, where nobody said
TOGETHER = 256  # texts that are walked at once: their features' weights fit into the cache
NOT_LETTERS = re.compile(r"[\W\d_]+")
# Taken for one another even by people, at the length of a line.
ALIKE = [{"no", "nb", "nn", "da"}, {"hr", "bs", "sr"}, {"id", "ms"}, {"cs", "sk"}, {"gl", "pt"}, {"ur", "hi"}]


def long_enough(text: str) -> bool:
    return len(text) >= FEWEST_LETTERS and len(NOT_LETTERS.sub("", text)) >= FEWEST_LETTERS


class Guess(NamedTuple):
    language: str
    confidence: float


class Identifier:
    """The library's model, applied to many texts at once."""

    def __init__(self) -> None:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        self.names: list[str] = model.labels
        self._column = np.array([self.names.index(name) for name in model.nb_classes])
        self._next = np.asarray(model.tk_nextmove, dtype=np.int32)
        self._row = np.asarray(model.tk_row, dtype=np.int32) << 8
        self._feature = np.asarray(model.tk_output, dtype=np.int32)
        self._weights = np.asarray(model.nb_ptc, dtype=np.float32)
        self._prior = np.asarray(model.nb_pc, dtype=np.float32)

    def classify(self, texts: Sequence[str]) -> list[Guess]:
        """The likeliest language of each text, and how sure that is."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        found: dict[int, Guess] = {}
        for first in range(0, len(order), TOGETHER):
            part = order[first : first + TOGETHER]
            found |= zip(part, self._classify([texts[i] for i in part]), strict=True)
        return [found[i] for i in range(len(texts))]

    def _classify(self, texts: Sequence[str]) -> list[Guess]:
        raw = [normalize("NFC", text.lower() if text.isupper() else text).encode("utf-8", "replace") for text in texts]
        sizes = np.array([len(each) for each in raw])
        scores = self._scores(raw, sizes) / np.sqrt(np.maximum(sizes, 1))[:, None]
        shares = np.exp(scores - scores.max(1, keepdims=True))
        merged = np.zeros((len(texts), len(self.names)))
        for column, name in enumerate(self._column.tolist()):  # some languages have a column for each script
            merged[:, name] += shares[:, column]
        merged /= merged.sum(1, keepdims=True)
        best = merged.argmax(1)
        return [Guess(self.names[i], float(row[i])) for i, row in zip(best.tolist(), merged, strict=True)]

    def _scores(self, raw: list[bytes], sizes: NDArray[np.int64]) -> NDArray[np.float32]:
        texts, features, counts = self._counted(raw, sizes)
        scores = np.tile(self._prior, (len(raw), 1))
        if len(texts):
            weighted = self._weights[features] * np.log1p(counts, dtype=np.float32)[:, None]
            starts = np.flatnonzero(np.diff(texts, prepend=-1))
            scores[texts[starts]] += np.add.reduceat(weighted, starts, axis=0)
        scores[np.setdiff1d(np.arange(len(raw)), texts)] = 0.0  # nothing known of them: all languages alike
        return scores

    def _counted(
        self, raw: list[bytes], sizes: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Text, feature and how often, for every feature that a text has, text by text."""
        order = np.argsort(-sizes, kind="stable")
        longest = int(sizes.max(initial=0))
        block = np.zeros((longest, len(raw)), dtype=np.uint8)
        for column, text in enumerate(order.tolist()):
            block[: sizes[text], column] = np.frombuffer(raw[text], dtype=np.uint8)
        alive = np.searchsorted(-sizes[order], -np.arange(longest), side="left")  # texts longer than each position
        state = np.zeros(len(raw), dtype=np.int32)
        met: list[NDArray[np.int64]] = []
        span = len(self._weights)
        for position in range(longest):
            count = int(alive[position])
            state = self._next[self._row[state[:count]] + block[position, :count]]
            feature = self._feature[state]
            hit = np.flatnonzero(feature >= 0)
            met.append(order[hit] * span + feature[hit])
        pairs, counts = np.unique(np.concatenate(met) if met else np.zeros(0, np.int64), return_counts=True)
        return pairs // span, pairs % span, counts.astype(np.float32)


identifier = cache(Identifier)


class Languages:
    """The languages that the two sides should be in; None where that could not be told."""

    def __init__(self, sides: Sequence[str | None], /) -> None:
        self.sides = tuple(sides)
        for name in self.sides:
            if name is not None and name not in (known := identifier().names):
                raise ConfigError(
                    f'language "{name}" is not one that lines can be checked for; {nearest(name, known)}, '
                    "or leave the rule out with --ignore language"
                )

    def disagree(self, texts: Sequence[str], side: int) -> list[str | None]:
        """For each text the language that it is in instead; ask `long_enough` first."""
        wanted = self.sides[side]
        if wanted is None:
            return [None] * len(texts)
        alike = {wanted}.union(*(group for group in ALIKE if wanted in group))
        return [
            None if found.language in alike or found.confidence < SURE else f"{found.language}, not {wanted}"
            for found in identifier().classify(texts)
        ]


def told(rows: Iterable[Pair | Unreadable]) -> tuple[str | None, str | None]:
    """The language of each side by the majority of its first long lines; None where there are too few."""
    sides: tuple[list[str], list[str]] = ([], [])
    for row in rows:
        if isinstance(row, Pair):
            for text, sample in zip(row, sides, strict=True):
                if len(sample) < SAMPLE and long_enough(text):
                    sample.append(text)
        if all(len(sample) >= SAMPLE for sample in sides):
            break
    found = [Counter(guess.language for guess in identifier().classify(sample)) for sample in sides]
    first, second = (count.most_common(1)[0][0] if count.total() >= 10 else None for count in found)
    return first, second
