"""Corpora and a tokenizer's recipe -> a cached folder that training reads: tokenizers, shards, exact counts.

    CACHE/KEY/tokenizers/            one tokenizer, or source/ and target/
    CACHE/KEY/train/, CACHE/KEY/dev/ shards
    CACHE/KEY/prepared.json          what went in, and the counts

KEY is the hash of what went in: the corpora's contents, the tokenizer's recipe, the limits, the format. The folder
appears whole or not at all. A second process that wants the same waits for the first one and then reads its work. Text
streams through: memory is bounded by one chunk of pairs, and by what a tokenizer keeps of its text while it is trained.
"""

import fcntl
import hashlib
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from qkv import folder as folders
from qkv.data import shards
from qkv.data.shards import Shards, Side, Writer
from qkv.data.sources import Pair, ParallelText
from qkv.data.tokenizers.base import Specials, Tokenizer
from qkv.errors import BundleError, DataError

FORMAT = 1
SIDES = ("source", "target")
CHUNK_PAIRS, CHUNK_CHARACTERS = 8192, 2_000_000
REPORT_SECONDS = 5.0


@runtime_checkable
class Recipe(Protocol):
    """How to make a tokenizer: trained on texts, or fixed."""

    def train(self, texts: Iterable[str]) -> Tokenizer: ...

    def fingerprint(self) -> str: ...


@dataclass(frozen=True)
class Trained:
    """A recipe from a function `texts -> Tokenizer`; `options` is the JSON-able whole of what decides its result."""

    build: Callable[[Iterable[str]], Tokenizer]
    options: Mapping[str, Any]

    def train(self, texts: Iterable[str]) -> Tokenizer:
        return self.build(texts)

    def fingerprint(self) -> str:
        return _hash(dict(self.options))


@dataclass(frozen=True)
class Progress:
    """How far a stage is; `total` pairs are known once the corpora have been read through."""

    stage: str
    pairs: int
    seconds: float
    total: int | None = None

    @property
    def rate(self) -> float:
        return self.pairs / self.seconds if self.seconds else 0.0

    @property
    def left(self) -> float | None:
        """Seconds to go, where the size is known."""
        return (self.total - self.pairs) / self.rate if self.total is not None and self.rate else None

    def __str__(self) -> str:
        of = "" if self.total is None else f" of {self.total:,}"
        left = "" if self.left is None else f", {self.left:,.0f} s left"
        return f"{self.stage}: {self.pairs:,}{of} pairs, {self.rate:,.0f} a second{left}"


@dataclass(frozen=True)
class Prepared:
    """A prepared folder: where its parts are, and exact counts by split and reason."""

    folder: Path
    tokenizers: Mapping[str, Path]
    train: Path
    dev: Path | None
    counts: Mapping[str, Mapping[str, int]]
    weights: tuple[float, ...] = field(default=())

    @classmethod
    def open(cls, folder: Path, *, weights: Sequence[float] = (), verify: bool = False) -> "Prepared":
        """A finished folder, its sizes checked, and with `verify` every hash."""
        if not _finished(folder):
            raise DataError(f"{folder} holds no prepared data; make it with `qkv prepare`")
        try:
            folders.verify(folder, deep=verify)
            about = folders.read_json(folder / "prepared.json")
        except BundleError as error:
            raise DataError(f"{error}, or delete {folder} and prepare it again") from None
        paths = {side: folder / "tokenizers" / ("" if about["joint"] else side) for side in SIDES}
        dev = folder / "dev" if about["dev"] else None
        for split in [folder / "train", *([dev] if dev else [])]:
            Shards(split, verify=verify)
        return cls(folder, paths, folder / "train", dev, about["counts"], tuple(weights))


def prepare(
    train: Sequence[ParallelText],
    dev: ParallelText | None,
    *,
    tokenizer: Recipe,
    joint: bool,
    max_length: int,
    cache: Path,
    progress: Callable[[Progress], None] | None = None,
) -> Prepared:
    """The prepared folder of these corpora: made now, or found finished.

    Pairs with a side beyond `max_length`, its tokens and one mark, or without any token, are left out and counted.
    """
    inputs = {
        "format": [FORMAT, shards.FORMAT],
        "train": [text.fingerprint() for text in train],
        "dev": None if dev is None else dev.fingerprint(),
        "tokenizer": tokenizer.fingerprint(),
        "joint": joint,
        "max_length": max_length,
    }
    folder = cache / _hash(inputs)[:32]
    if not _finished(folder):
        folders.make_folder(cache)
        with _alone(cache / f".{folder.name}.lock"):
            if not _finished(folder):
                folders.clean(cache)
                with folders.new_folder(folder) as draft:
                    counts = _Work(draft, tokenizer, joint, max_length, progress or _silent).done(train, dev)
                    about = {"inputs": inputs, "joint": joint, "dev": dev is not None, "counts": counts}
                    folders.write_json(draft / "prepared.json", about)
                    folders.write_manifest(draft, beside=("train", "dev"))
    return Prepared.open(folder, weights=[text.weight for text in train])


def _finished(folder: Path) -> bool:
    return (folder / "prepared.json").is_file()


@dataclass
class _Work:
    """One preparation under way."""

    folder: Path
    recipe: Recipe
    joint: bool
    max_length: int
    progress: Callable[[Progress], None]

    def done(self, train: Sequence[ParallelText], dev: ParallelText | None) -> dict[str, dict[str, int]]:
        """Tokenizers and shards written; the counts by split."""
        coders, total = self._tokenizers(train)
        counts = self._encoded("train", train, coders, total)
        return counts if dev is None else counts | self._encoded("dev", [dev], coders, None)

    def _tokenizers(self, train: Sequence[ParallelText]) -> tuple[dict[str, Tokenizer], int | None]:
        """A tokenizer for each side, trained and saved, and how many pairs there are, where that was seen."""
        folder = self.folder / "tokenizers"
        if self.joint:
            meter = Meter("training a tokenizer", None, self.progress)
            both = self.recipe.train(side for text in train for pair in meter.through(text) for side in pair)
            meter.report()
            both.save(folder)
            return dict.fromkeys(SIDES, both), meter.pairs or None
        coders: dict[str, Tokenizer] = {}
        total = None
        for number, side in enumerate(SIDES):
            meter = Meter(f"training a {side} tokenizer", total, self.progress)
            coders[side] = self.recipe.train(_one_side(train, number, meter))
            meter.report()
            coders[side].save(folder / side)
            total = meter.pairs or None
        return coders, total

    def _encoded(
        self, split: str, texts: Sequence[ParallelText], coders: Mapping[str, Tokenizer], total: int | None
    ) -> dict[str, dict[str, int]]:
        """The shards of a split, written; what is in them, and what the corpora counted while they were read."""
        # Only a training set is encoded anew, epoch by epoch.
        varied = {side: split == "train" and coder.dropout > 0 for side, coder in coders.items()}
        sides = {side: Side.of(coder.size, self.max_length, varied[side]) for side, coder in coders.items()}
        meter = Meter(f"encoding {split}", total, self.progress)
        kept, read = Counter[str](), Counter[str]()
        with Writer(self.folder / split, sides) as writer:
            for number, text in enumerate(texts):
                if number:
                    writer.next_corpus()
                for chunk in _chunks(meter.through(text)):
                    kept.update(self._written(chunk, coders, writer))
                read.update(text.counts)
            meter.report()
            if not kept["pairs"]:
                raise DataError(
                    f"the {split} corpus has 0 pairs left of {meter.pairs:,}; {kept['too_long']:,} are longer than "
                    f"max_length {self.max_length}, {kept['empty']:,} empty: raise the limit or mend the corpus"
                )
            writer.close()
        return {split: dict(kept), f"{split}_read": dict(read)}

    def _written(self, chunk: list[Pair], coders: Mapping[str, Tokenizer], writer: Writer) -> Counter[str]:
        """The pairs of a chunk that keep to the limits, appended; tokens are counted with their mark, as in a batch."""
        counts = Counter[str](dict.fromkeys(("pairs", "too_long", "empty"), 0))
        texts = {side: [pair[i] for pair in chunk] for i, side in enumerate(SIDES)}
        ids = {side: coders[side].encode(texts[side]) for side in SIDES}
        good = []
        for row, sizes in enumerate(zip(*(map(len, ids[side]) for side in SIDES), strict=True)):
            reason = "empty" if min(sizes) == 0 else "too_long" if max(sizes) >= self.max_length else "pairs"
            counts[reason] += 1
            if reason == "pairs":
                good.append(row)
        kept = {side: [ids[side][row] for row in good] for side in SIDES}
        writer.add(kept, {side: [texts[side][row] for row in good] for side in SIDES})
        for side in SIDES:
            counts[f"{side}_tokens"] += sum(map(len, kept[side])) + len(good)
            counts[f"{side}_unknown"] += sum(row.count(Specials.UNK) for row in kept[side])
        return counts


class Meter:
    """Counts what passes through and reports it, every few seconds."""

    def __init__(self, stage: str, total: int | None, progress: Callable[[Progress], None]) -> None:
        self.stage, self.total, self.progress, self.pairs = stage, total, progress, 0
        self._began = self._reported = time.monotonic()

    def through(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        for pair in pairs:
            self.pairs += 1
            # The clock is read now and then only: it costs as much as a line.
            if self.pairs % 1024 == 0 and time.monotonic() - self._reported > REPORT_SECONDS:
                self.report()
            yield pair

    def report(self) -> None:
        self._reported = time.monotonic()
        self.progress(Progress(self.stage, self.pairs, self._reported - self._began, self.total))


def _one_side(texts: Sequence[ParallelText], number: int, meter: Meter) -> Iterator[str]:
    for text in texts:
        for pair in meter.through(text):
            yield pair[number]


def on_stderr(progress: Progress) -> None:
    """A line for people, where results do not go."""
    print(f"qkv: {progress}", file=sys.stderr)


def _silent(progress: Progress) -> None:
    """Nobody asked."""


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Lists of bounded count and bounded text."""
    chunk: list[Pair] = []
    characters = 0
    for pair in pairs:
        chunk.append(pair)
        characters += len(pair.source) + len(pair.target)
        if len(chunk) == CHUNK_PAIRS or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def _hash(value: Any) -> str:
    return hashlib.sha256(folders.canonical(value).encode()).hexdigest()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Waits until no other process is between these lines; a killed one counts as gone."""
    with folders.writing(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
