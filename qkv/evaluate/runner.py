"""A model on a test set -> one report: scores with signatures and intervals, by length, perplexity, speed, counts.

Every number says what it was computed from; a report is plain data, so it can be stored, compared and printed.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qkv.errors import DataError
from qkv.metrics.bootstrap import LEVEL, RESAMPLES, SEED, Comparison, interval, paired
from qkv.metrics.text import Statistics, bleu, check_aligned, chrf, ter

if TYPE_CHECKING:
    from qkv.pipeline.translator import Options, Translation, Translator

Texts = Sequence[str]
BUCKETS = (10, 20, 30, 40)  # the longest of each but the last, in words


@dataclass(frozen=True)
class Asked:
    """How scores are taken."""

    tokenize: str = "13a"
    lowercase: bool = False
    resamples: int = RESAMPLES
    seed: int = SEED
    level: float = LEVEL


@dataclass(frozen=True)
class Measured:
    """One score of a corpus, and where another test set's would lie."""

    name: str
    value: float
    low: float
    high: float
    signature: str


@dataclass(frozen=True)
class Bucket:
    """The scores of the sentences whose reference has `shortest` to `longest` words."""

    shortest: int
    longest: int | None
    sentences: int
    scores: dict[str, float]


@dataclass(frozen=True)
class Perplexity:
    """Of the references' tokens as this model cuts them, end marks too: comparable within one vocabulary only."""

    value: float
    tokens: int


@dataclass(frozen=True)
class Speed:
    """How long the translating took, model in memory, and on what; tokens are new target tokens."""

    seconds: float
    device: str
    precision: str
    threads: int
    sentences_per_second: float
    tokens_per_second: float


@dataclass(frozen=True)
class Output:
    """A system's translations, and what is known of how they came about."""

    name: str
    lines: Texts
    counts: dict[str, int]
    decoding: dict[str, Any] | None = None
    speed: Speed | None = None
    perplexity: Perplexity | None = None


@dataclass(frozen=True)
class Report:
    """Everything that was measured of one system on one test set."""

    name: str
    sentences: int
    scores: tuple[Measured, ...]
    by_length: tuple[Bucket, ...]
    counts: dict[str, int]
    level: float
    resamples: int
    seed: int
    perplexity: Perplexity | None = None
    speed: Speed | None = None
    decoding: dict[str, Any] | None = None
    against: str | None = None
    comparisons: tuple[Comparison, ...] = ()

    def plain(self) -> dict[str, Any]:
        """The report as JSON's types."""
        return asdict(self)


def translated(
    translator: "Translator",
    sources: Texts,
    references: Sequence[Texts],
    options: "Options",
    progress: Callable[[int], None] | None = None,
) -> Output:
    """A model's translations of a test set, timed, and how likely it finds the first reference."""
    import torch

    check_aligned(sources, references)
    began = time.perf_counter()
    found: list[Translation] = []
    for candidates in translator.candidates_lines(sources, **options):
        found.append(candidates[0])
        if progress is not None:
            progress(len(found))
    seconds = max(time.perf_counter() - began, 1e-9)
    tokens = sum(each.tokens for each in found)
    counts = {
        "blank": sum(not source.strip() for source in sources),
        "truncated": sum(each.truncated for each in found),
        "unfinished": sum(not each.finished for each in found),
        "new_tokens": tokens,
    }
    return Output(
        translator.name,
        [each.text for each in found],
        counts,
        decoding=asdict(translator.settings(**options)),
        speed=Speed(
            seconds,
            str(translator.device),
            translator.precision,
            torch.get_num_threads(),
            len(found) / seconds,
            tokens / seconds,
        ),
        perplexity=perplexity(translator, sources, references[0]),
    )


def perplexity(translator: "Translator", sources: Texts, references: Texts) -> Perplexity | None:
    """How surprised the model is by the references; None where it cannot score what it did not write."""
    if not translator.scores_targets:
        return None
    scored = translator.score(sources, references)
    tokens = sum(each.tokens for each in scored)
    surprise = -sum(each.log_probability for each in scored) / tokens
    return Perplexity(float(np.exp(min(surprise, 700.0))), tokens)


def read_output(name: str, lines: Texts) -> Output:
    """Translations that someone else made."""
    return Output(name, lines, {"blank": sum(not line.strip() for line in lines)})


def report(
    output: Output,
    references: Sequence[Texts],
    asked: Asked = Asked(),
    against: Output | None = None,
) -> Report:
    """All scores of a system, and whether it differs from another one by more than luck."""
    statistics = scores_of(output.lines, references, asked)
    comparisons: list[Comparison] = []
    if against is not None:
        if len(against.lines) != len(output.lines):
            raise DataError(
                f"{output.name} has {len(output.lines):,} lines and {against.name} {len(against.lines):,}; "
                "two systems are compared on the same test set"
            )
        theirs = scores_of(against.lines, references, asked)
        comparisons = [
            paired(mine, other, resamples=asked.resamples, seed=asked.seed, level=asked.level)
            for mine, other in zip(statistics, theirs, strict=True)
        ]
    return Report(
        name=output.name,
        sentences=len(output.lines),
        scores=tuple(_measured(each, asked) for each in statistics),
        by_length=by_length(statistics, references[0]),
        counts=output.counts,
        level=asked.level,
        resamples=asked.resamples,
        seed=asked.seed,
        perplexity=output.perplexity,
        speed=output.speed,
        decoding=output.decoding,
        against=None if against is None else against.name,
        comparisons=tuple(comparisons),
    )


def scores_of(lines: Texts, references: Sequence[Texts], asked: Asked) -> list[Statistics]:
    """BLEU, chrF and TER of a corpus."""
    return [
        bleu(lines, references, tokenize=asked.tokenize, lowercase=asked.lowercase),
        chrf(lines, references, lowercase=asked.lowercase),
        ter(lines, references),
    ]


def by_length(statistics: Sequence[Statistics], references: Texts) -> tuple[Bucket, ...]:
    """The scores of short and of long sentences, by the words of the reference; empty buckets are left out."""
    lengths = np.array([len(line.split()) for line in references])
    number = np.searchsorted(np.array(BUCKETS), lengths)
    found = []
    for bucket in range(len(BUCKETS) + 1):
        sentences = np.flatnonzero(number == bucket)
        if len(sentences):
            shortest = BUCKETS[bucket - 1] + 1 if bucket else 0
            longest = BUCKETS[bucket] if bucket < len(BUCKETS) else None
            scores = {each.name: each.of(sentences) for each in statistics}
            found.append(Bucket(shortest, longest, len(sentences), scores))
    return tuple(found)


def _measured(statistics: Statistics, asked: Asked) -> Measured:
    bounds = interval(statistics, resamples=asked.resamples, seed=asked.seed, level=asked.level)
    return Measured(statistics.name, statistics.score(), bounds.low, bounds.high, statistics.signature)
