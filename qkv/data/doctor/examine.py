"""One pass over a corpus: every rule on every line, what is there twice, and what the test set shares.

Memory holds a number for each different pair (some 80 bytes), a few examples a rule, and nothing else.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from itertools import islice
from typing import NamedTuple

from qkv.data.doctor.rules import NOT_JUDGED, SIDES, Judged, Rule, key_of
from qkv.data.sources import Pair, ParallelText, Unreadable
from qkv.random import word

UNREADABLE = {
    "bad_utf8": ("encoding", "not UTF-8"),
    "nul": ("control", "U+0000"),
    "too_long": ("long", "too long to be read"),
    "missing_column": ("malformed", "has no text in one of the columns or keys"),
    "bad_json": ("malformed", "is not a JSON object with text under its keys"),
}
WHOLE: Mapping[str, str] = {
    "malformed": "hold no pair at all",
    "duplicate": "say again what an earlier line said",
    "leak": "are in the test set too, source or target",
}
BLOCK = 2048
BUCKETS = (0, 5, 10, 20, 40, 80)  # words of the longer side, from this many on


class Example(NamedTuple):
    """A line that a rule speaks of, and what it says."""

    corpus: str
    line: int
    source: str
    target: str
    why: str


@dataclass
class Tally:
    """What one rule found."""

    about: str
    warns: bool = False
    found: int = 0
    judged: int = 0
    by_length: list[int] = field(default_factory=lambda: [0] * len(BUCKETS))
    _heap: list[tuple[int, Example]] = field(default_factory=list)

    def add(self, bucket: int, example: Example, most: int) -> None:
        """Counts a finding; an even choice of `most` of them is kept, the same in every run."""
        self.found += 1
        self.by_length[bucket] += 1
        entry = (-word(self.found, 0x0D0C), example)
        if len(self._heap) < most:
            heappush(self._heap, entry)
        elif most and entry > self._heap[0]:
            heappushpop(self._heap, entry)

    @property
    def examples(self) -> list[Example]:
        return sorted((example for _, example in self._heap), key=lambda e: (e.corpus, e.line))


@dataclass
class Findings:
    """The whole examination."""

    tallies: dict[str, Tally]
    lines: int = 0
    kept: int = 0
    bytes: int = 0
    seconds: float = 0.0
    by_length: list[int] = field(default_factory=lambda: [0] * len(BUCKETS))
    languages: tuple[str | None, str | None] = (None, None)

    @property
    def rate(self) -> float:
        """Megabytes a second."""
        return self.bytes / 1e6 / self.seconds if self.seconds else 0.0


class Sorted(NamedTuple):
    """A line and whether it stays."""

    pair: Pair | None
    keep: bool


def examine(
    corpora: Sequence[ParallelText],
    rules: Mapping[str, Rule],
    *,
    tests: Sequence[ParallelText] = (),
    ignore: Iterable[str] = (),
    examples: int = 5,
    progress: Callable[[int], None] = lambda lines: None,
) -> tuple[Findings, Iterator[Sorted]]:
    """The findings, and the lines one by one: they are complete when the lines have been read to their end."""
    left_out = set(ignore)
    abouts = {name: (rule.about, rule.warns) for name, rule in rules.items()}
    abouts |= {name: (about, False) for name, about in WHOLE.items() if name != "leak" or tests}
    tallies = {name: Tally(*about) for name, about in abouts.items() if name not in left_out}
    findings = Findings(tallies)
    used = {name: rule for name, rule in rules.items() if name in tallies}
    return findings, _lines(corpora, used, findings, _keys(tests) if "leak" in tallies else None, examples, progress)


def _lines(
    corpora: Sequence[ParallelText],
    rules: Mapping[str, Rule],
    findings: Findings,
    tested: tuple[set[int], set[int]] | None,
    examples: int,
    progress: Callable[[int], None],
) -> Iterator[Sorted]:
    seen: set[int] = set()
    for corpus in corpora:
        name, number, rows = corpus.source_path.name, 0, corpus.rows()
        while True:
            began = time.perf_counter()
            block = list(islice(rows, BLOCK))
            if not block:
                break
            pairs = [row if isinstance(row, Pair) else Pair("", "") for row in block]
            said = {rule: judge.judge(pairs) for rule, judge in rules.items()}
            kept = []
            for at, row in enumerate(block):
                number += 1
                if isinstance(row, Unreadable):
                    rule, why = UNREADABLE[row.reason]
                    spoken, bucket = [(rule, why)] if rule in findings.tallies else [], 0
                else:
                    alone = [(rule, verdicts[at]) for rule, verdicts in said.items()]
                    spoken, bucket = _spoken(row, alone, findings.tallies, seen, tested), _bucket(row)
                    findings.bytes += 2 + _size(row)
                findings.by_length[bucket] += 1
                keep = isinstance(row, Pair)
                for rule, why in spoken:
                    tally = findings.tallies[rule]
                    tally.add(bucket, Example(name, number, *pairs[at], why), examples)
                    keep = keep and tally.warns
                kept.append(keep)
            findings.lines += len(block)
            findings.kept += sum(kept)
            findings.seconds += time.perf_counter() - began
            progress(findings.lines)
            yield from (
                Sorted(row if isinstance(row, Pair) else None, keep) for row, keep in zip(block, kept, strict=True)
            )


def _spoken(
    row: Pair,
    alone: list[tuple[str, Judged]],
    tallies: Mapping[str, Tally],
    seen: set[int],
    tested: tuple[set[int], set[int]] | None,
) -> list[tuple[str, str]]:
    """The rules that speak of a pair, and what they say."""
    spoken: list[tuple[str, str]] = []
    for name, verdict in alone:
        tallies[name].judged += verdict != NOT_JUDGED
        if verdict:
            spoken.append((name, verdict))
            if name == "empty":  # nothing else can be said of it
                return spoken
    if "duplicate" not in tallies and tested is None:
        return spoken
    keys = key_of(row.source), key_of(row.target)
    if "duplicate" in tallies:
        tallies["duplicate"].judged += 1
        before = len(seen)
        seen.add(hash(keys))
        if len(seen) == before:
            spoken.append(("duplicate", "seen before"))
    if tested is not None:
        tallies["leak"].judged += 1
        shared = [side for side, key, known in zip(SIDES, keys, tested, strict=True) if hash(key) in known]
        if shared:
            spoken.append(("leak", f"{' and '.join(shared)} in the test set"))
    return spoken


def _size(row: Pair) -> int:
    return sum(len(text) if text.isascii() else len(text.encode("utf-8", "replace")) for text in row)


def _keys(tests: Sequence[ParallelText]) -> tuple[set[int], set[int]]:
    keys: tuple[set[int], set[int]] = (set(), set())
    for text in tests:
        for row in text.rows():
            if isinstance(row, Pair):
                for side, key in zip(keys, row, strict=True):
                    side.add(hash(key_of(key)))
    return keys


def _bucket(row: Pair) -> int:
    words = max(row.source.count(" "), row.target.count(" ")) + 1
    return next(i for i in range(len(BUCKETS) - 1, -1, -1) if words >= BUCKETS[i])
