"""Parallel text as a part of a run's config: where it lies, how it is cut into tokens, and the batches that come of it.

train, dev ("{folder}/tok.train.{lang}.gz", "pairs.tsv.gz", "pairs.jsonl") -> prepared folder -> sampler -> feed
"""

import sys
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Gt, Le

from qkv.config import NonNegative, Part, plain
from qkv.data.lines import MAX_LINE_BYTES
from qkv.data.prepare import Prepared, Progress, Trained, prepare
from qkv.data.sources import ParallelText, corpus
from qkv.data.tokenizers.base import Tokenizer
from qkv.errors import ConfigError

if TYPE_CHECKING:
    from qkv.data.collate import Collator, Feed
    from qkv.data.sampling import Plan, Position, Sampler

Length = Annotated[int, Gt(0), Le(MAX_LINE_BYTES)]  # a text has no more tokens than a line may have bytes


class Parallel:
    """Sentence pairs. With `{lang}` in a pattern each side is a file of its own; `weights` mixes several corpora."""

    kind: ClassVar[str] = "data"

    def __init__(
        self,
        *,
        train: str | tuple[str, ...],
        dev: str | None = None,
        folder: str = ".",
        source: str = "source",
        target: str = "target",
        columns: tuple[int, int] = (0, 1),
        weights: tuple[NonNegative, ...] | None = None,
        bad_lines: Literal["refuse", "skip"] = "refuse",
        tokenizer: Part[Tokenizer] = Part("tokenizer", "bpe"),
        joint: bool = True,
        max_length: Length = 256,
        cache: str | None = None,
    ) -> None:
        self.source, self.target, self.max_length, self.joint = source, target, max_length, joint
        self.recipe, self.cache = tokenizer, cache
        patterns = (train,) if isinstance(train, str) else train
        if not patterns:
            raise ConfigError("data.train is empty; name a file, such as pairs.tsv")
        if weights is not None and len(weights) != len(patterns):
            raise ConfigError(f"data.weights has {len(weights)} numbers for {len(patterns)} corpora; give one for each")
        self.weights = weights

        def read(pattern: str, weight: float = 1.0) -> ParallelText:
            return corpus(
                pattern,
                folder=folder,
                source=source,
                target=target,
                columns=columns,
                weight=weight,
                bad_lines=bad_lines,
            )

        self.corpora = [read(p, w) for p, w in zip(patterns, weights or [1.0] * len(patterns), strict=True)]
        self.held_out = None if dev is None else read(dev)

    def prepare(self, cache: Path, progress: Callable[[Progress], None] | None = None) -> "PreparedParallel":
        """Tokenizers and shards, made once and found again by the hash of what went in."""
        recipe = Trained(self.recipe.build, {"tokenizer": plain(self.recipe)})
        prepared = prepare(
            self.corpora,
            self.held_out,
            tokenizer=recipe,
            joint=self.joint,
            max_length=self.max_length,
            cache=Path(self.cache) if self.cache else cache,
            progress=progress,
        )
        return PreparedParallel(self, prepared)


class PreparedParallel:
    """What training reads: the tokenizers, the batches of an epoch, the development set."""

    def __init__(self, data: Parallel, prepared: Prepared, /) -> None:
        from qkv.data.shards import Shards

        self.data, self.prepared = data, prepared
        self.source: Tokenizer = Tokenizer.load(prepared.tokenizers["source"])
        self.target: Tokenizer = Tokenizer.load(prepared.tokenizers["target"])
        self.train = Shards(prepared.train)
        self.dev = None if prepared.dev is None else Shards(prepared.dev)

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Pairs and tokens by split, and what was left out, by reason."""
        return self.prepared.counts

    def sampler(self, *, max_tokens: int, seed: int) -> "Sampler":
        """The order of the training batches, epoch after epoch."""
        from qkv.data.sampling import Sampler

        return Sampler(
            list(self.train.lengths.values()),
            max_tokens=max_tokens,
            seed=seed,
            sizes=self.train.index.sizes,
            weights=self.data.weights,
        )

    def feed(self, sampler: "Sampler", start: "Position", seed: int) -> "Feed":
        """Training batches from a position on, made ahead by a thread."""
        from qkv.data.collate import Collator, Feed
        from qkv.data.regrouping import WINDOW, regrouped

        varied = {s: t for s, t in (("source", self.source), ("target", self.target)) if t.dropout > 0}
        collate = Collator(self.train, seed=seed, vary=varied, max_length=self.data.max_length)
        if not varied:
            return Feed(sampler.draws(start), collate)
        return Feed(regrouped(sampler, collate, start), collate, ahead=WINDOW)

    def held_out(self, *, max_tokens: int) -> "tuple[Plan, Collator]":
        """The development set in batches of like length; its pairs in the order of the file are samples 0, 1, 2 ..."""
        from qkv.data.collate import Collator
        from qkv.data.sampling import in_order_of_length

        assert self.dev is not None
        plan = in_order_of_length(list(self.dev.lengths.values()), max_tokens=max_tokens)
        return plan, Collator(self.dev, split="dev")

    def dev_texts(self, most: int | None = None) -> tuple[list[str], list[str]]:
        """The development set as text, all of it or its first pairs, for scores of translations and samples."""
        assert self.data.held_out is not None
        pairs = list(islice(self.data.held_out, most))
        return [p.source for p in pairs], [p.target for p in pairs]


def to_stderr(progress: Progress) -> None:
    """Progress as a line on stderr."""
    print(f"qkv: {progress}", file=sys.stderr, flush=True)
