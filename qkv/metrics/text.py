"""How near a translation is to its reference: BLEU, chrF and TER as sacreBLEU counts them, and the GLEU of GNMT.

A corpus score is a function of sums over sentences. Those sums are kept a row per sentence, so that a part of the
corpus, or a bootstrap's resample of it, is scored without reading the text again. A score is never shown without its
signature.

Letters: N sentences, K statistics of a sentence.
"""

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qkv.errors import ConfigError, DataError, nearest

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

Texts = Sequence[str]
COMPOUNDS = "13a-compounds"
_HYPHEN = re.compile(r"(\S)-(?=\S)")


@dataclass(frozen=True, eq=False)
class Statistics:
    """What one corpus score is computed from: a row of sums for each sentence."""

    name: str
    signature: str
    higher_is_better: bool
    rows: NDArray[np.float64]  # N K
    metric: "Metric"

    def __len__(self) -> int:
        return len(self.rows)

    def score(self) -> float:
        """The score of the whole corpus, from 0 to 100 (TER may pass 100)."""
        return self.of_sums(self.rows.sum(0))

    def of(self, sentences: NDArray[np.integer] | Sequence[int]) -> float:
        """The score of these sentences alone."""
        return self.of_sums(self.rows[np.asarray(sentences, dtype=np.int64)].sum(0))

    def of_sums(self, sums: NDArray[np.float64]) -> float:
        """The score that summed rows make."""
        return float(self.metric._compute_score_from_stats(sums.tolist()).score)


def bleu(
    hypotheses: Texts, references: Sequence[Texts], *, tokenize: str = "13a", lowercase: bool = False
) -> Statistics:
    """BLEU (Papineni et al. 2002); `references` holds one list of sentences for each set of references."""
    from sacrebleu.metrics.bleu import BLEU

    if tokenize not in {*BLEU.TOKENIZERS, COMPOUNDS}:
        raise ConfigError(f'tokenize is "{tokenize}"; {nearest(tokenize, {*BLEU.TOKENIZERS, COMPOUNDS})}')
    if tokenize == COMPOUNDS:
        split = bleu(
            [split_compounds(line) for line in hypotheses],
            [[split_compounds(line) for line in lines] for lines in references],
            tokenize="none",
            lowercase=lowercase,
        )
        return replace(split, signature=split.signature.replace("tok:none", f"tok:{COMPOUNDS}"))
    # force: sacreBLEU's warning about tokenised text is ours to give, where the tokenisation is chosen.
    return _statistics("BLEU", BLEU(tokenize=tokenize, lowercase=lowercase, force=True), hypotheses, references)


def split_compounds(line: str) -> str:
    """Tokenised by 13a, and hyphens between letters made words of their own, as tensor2tensor's get_ende_bleu.sh does.

    Every compound that is right then counts as several words, so this BLEU stands higher than sacreBLEU's own: the
    figures of "Attention Is All You Need" were read so (after Moses' tokeniser, which differs from 13a in rare cases).
    """
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    return _HYPHEN.sub(r"\1 ##AT##-##AT## ", Tokenizer13a()(line))


def chrf(hypotheses: Texts, references: Sequence[Texts], *, lowercase: bool = False, word_order: int = 0) -> Statistics:
    """chrF (Popovic 2015); with word_order 2 it is chrF++."""
    from sacrebleu.metrics.chrf import CHRF

    name = "chrF" + "+" * word_order
    return _statistics(name, CHRF(lowercase=lowercase, word_order=word_order), hypotheses, references)


def ter(hypotheses: Texts, references: Sequence[Texts], *, case_sensitive: bool = False) -> Statistics:
    """Translation edit rate (Snover et al. 2006): lower is better; Tercom's defaults, which ignore case."""
    from sacrebleu.metrics.ter import TER

    return _statistics("TER", TER(case_sensitive=case_sensitive), hypotheses, references, higher_is_better=False)


def sentence_gleu(hypothesis: Sequence[Hashable], reference: Sequence[Hashable], *, order: int = 4) -> float:
    """GLEU (Wu et al. 2016, 5.2), 0 to 1: the smaller of precision and recall over 1- to `order`-grams; symmetric."""
    if not hypothesis and not reference:
        return 1.0
    mine, theirs = _ngrams(hypothesis, order), _ngrams(reference, order)
    return (mine & theirs).total() / max(mine.total(), theirs.total())


def _ngrams(tokens: Sequence[Hashable], order: int) -> Counter[tuple[Hashable, ...]]:
    return Counter(tuple(tokens[i : i + n]) for n in range(1, order + 1) for i in range(len(tokens) - n + 1))


def _statistics(
    name: str, metric: Any, hypotheses: Texts, references: Sequence[Texts], higher_is_better: bool = True
) -> Statistics:
    check_aligned(hypotheses, references)
    rows = np.array(metric._extract_corpus_statistics(hypotheses, references), dtype=np.float64)
    return Statistics(name, str(metric.get_signature()), higher_is_better, rows, metric)


def check_aligned(hypotheses: Texts, references: Sequence[Texts]) -> None:
    """Refuses what cannot be scored: nothing at all, or files of different lengths."""
    if not hypotheses:
        raise DataError("there is no sentence to score; 1 is the least: is the file empty?")
    if not references:
        raise DataError("there is no reference to score against; give one with --reference FILE")
    for number, lines in enumerate(references, 1):
        if len(lines) != len(hypotheses):
            raise DataError(
                f"{len(hypotheses):,} translations stand against {len(lines):,} lines of reference {number}; "
                "line n of one belongs to line n of the other, so the counts must agree"
            )
