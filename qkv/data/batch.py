"""What a model, an objective and a report are told of a batch: the typed contract between data and everything below it.

A source row is its tokens and EOS. A target row is BOS, its tokens and EOS: a decoder reads `ids[:, :-1]` and predicts
`ids[:, 1:]`, so a target of length n counts n - 1 predicted tokens. PAD (0) fills. Another modality is another field of
the same Batch.

Letters: B rows, T positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Tokens:
    """Rows of token ids, filled up with PAD; `segments` numbers a row's packed documents from 1, with 0 for padding."""

    ids: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]
    segments: Int[Tensor, "B T"] | None = None

    def to(self, device: torch.device | str) -> "Tokens":
        segments = None if self.segments is None else self.segments.to(device)
        return Tokens(self.ids.to(device), self.lengths.to(device), segments)

    def slice(self, first: int, last: int, round_to: int = 1) -> "Tokens":
        """Rows first to last (not included), without the columns that only the other rows need."""
        lengths = self.lengths[first:last]
        width = self.ids.shape[1]
        longest = int(lengths.max()) if len(lengths) else 0
        # Whole multiples are cut off, so a width that was rounded up to few shapes stays one of them.
        width -= (width - longest) // round_to * round_to
        segments = None if self.segments is None else self.segments[first:last, :width]
        return Tokens(self.ids[first:last, :width], lengths, segments)

    @property
    def predicted(self) -> int:
        """How many tokens a decoder predicts: none across the border of two documents."""
        if self.segments is None:
            return int((self.lengths - 1).clamp(min=0).sum())
        return int(((self.segments[:, 1:] == self.segments[:, :-1]) & (self.segments[:, 1:] > 0)).sum())


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of one task: `samples` are their numbers in the corpus, whatever the epoch, and key the random numbers."""

    samples: Int[Tensor, "B"]
    source: Tokens | None
    target: Tokens | None
    counts: Mapping[str, int]
    task: str = ""
    split: str = "train"

    @classmethod
    def of(
        cls,
        samples: Int[Tensor, "B"],
        source: Tokens | None,
        target: Tokens | None,
        *,
        task: str = "",
        split: str = "train",
    ) -> "Batch":
        """The batch of these rows, counted."""
        counts = {"sentences": len(samples)}
        if source is not None:
            counts["source_tokens"] = int(source.lengths.sum())
        if target is not None:
            counts["target_tokens"] = target.predicted
        return cls(samples, source, target, counts, task, split)

    @property
    def rows(self) -> int:
        return int(self.samples.shape[0])

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch elsewhere; divide before, since trimming reads the lengths."""
        source = None if self.source is None else self.source.to(device)
        target = None if self.target is None else self.target.to(device)
        return replace(self, samples=self.samples.to(device), source=source, target=target)

    def divided(self, parts: int, *, round_to: int = 1) -> "list[Batch]":
        """At most `parts` micro-batches of nearly equal rows, in order, none empty, each counted and trimmed."""
        assert parts >= 1, parts
        parts = max(1, min(parts, self.rows))
        bounds = [self.rows * i // parts for i in range(parts + 1)]
        return [self._slice(a, b, round_to) for a, b in pairwise(bounds)]

    def _slice(self, first: int, last: int, round_to: int) -> "Batch":
        source = None if self.source is None else self.source.slice(first, last, round_to)
        target = None if self.target is None else self.target.slice(first, last, round_to)
        return Batch.of(self.samples[first:last], source, target, task=self.task, split=self.split)

    @staticmethod
    def joined(batches: "Sequence[Batch]") -> "Batch":
        """The rows of several batches of one task as one batch, their counts added: the inverse of `divided`."""
        first = batches[0]
        assert all((b.task, b.split) == (first.task, first.split) for b in batches), "batches of one task and split"
        return Batch(
            torch.cat([b.samples for b in batches]),
            _joined([b.source for b in batches]),
            _joined([b.target for b in batches]),
            added([b.counts for b in batches]),
            first.task,
            first.split,
        )


def added(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The sum of counts, unit by unit: the divisors of a step are those of all its micro-batches."""
    units = {unit: 0 for count in counts for unit in count}
    return {unit: sum(count.get(unit, 0) for count in counts) for unit in units}


def _joined(sides: Sequence[Tokens | None]) -> Tokens | None:
    given = [side for side in sides if side is not None]
    if not given:
        return None
    assert len(given) == len(sides), "a side is there in every batch or in none"
    width = max(side.ids.shape[1] for side in given)
    segments = [side.segments for side in given if side.segments is not None]
    assert len(segments) in (0, len(given)), "rows are packed in every batch or in none"
    return Tokens(
        torch.cat([_widened(side.ids, width) for side in given]),
        torch.cat([side.lengths for side in given]),
        torch.cat([_widened(s, width) for s in segments]) if segments else None,
    )


def _widened(ids: Int[Tensor, "B T"], width: int) -> Int[Tensor, "B T2"]:
    # PAD is 0, and so is the segment of padding.
    return torch.nn.functional.pad(ids, (0, width - ids.shape[1]))
