"""Token ids on disk: memory-mapped shards of bounded size and a JSON index, read by the number of a sample.

    index.json             what is there: sides, samples, corpora, shards
    manifest.json          the size and hash of each file
    source.lengths         one number a sample, as a model reads it: the tokens and one mark
    00000.source.ids       token ids without marks, uint16 where the vocabulary fits, else uint32
    00000.source.offsets   int64, where each sample begins, and the end
    00000.source.text      UTF-8, with its own 00000.source.text.offsets: only where a tokenizer will encode it anew

All numbers are little-endian. Sides are "source" and "target", or "target" alone. File names follow from numbers, never
from the index. The one mark is EOS on the source side; on the target side a decoder predicts the tokens and EOS.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from qkv import folder as folders
from qkv.errors import BundleError, DataError

FORMAT = 1
SHARD_TOKENS = 1 << 26  # of the longer side: 128 MiB of ids at uint16
LARGEST_INDEX = 1 << 24
_OFFSET = np.dtype("<i8")


@dataclass(frozen=True)
class Side:
    """How one side is stored."""

    ids: str  # numpy's name of the type of the ids
    lengths: str
    text: bool

    @classmethod
    def of(cls, vocabulary: int, max_length: int, text: bool) -> "Side":
        ids = "<u2" if vocabulary <= 1 << 16 else "<u4"
        return cls(ids, "<u2" if max_length < 1 << 16 else "<u4", text)


@dataclass
class Index:
    """What a folder of shards holds; `sizes` are the samples of each corpus, `shards` those of each shard."""

    format: int = FORMAT
    sides: dict[str, Side] = field(default_factory=dict)
    samples: int = 0
    sizes: list[int] = field(default_factory=list)
    shards: list[int] = field(default_factory=list)


class Writer:
    """Appends samples to a new folder of shards, holding no more than what is handed over at a time."""

    def __init__(self, folder: Path, sides: Mapping[str, Side], *, shard_tokens: int = SHARD_TOKENS) -> None:
        self.folder, self.shard_tokens = folder, shard_tokens
        self.index = Index(sides=dict(sides), sizes=[0])
        self._open: dict[str, IO[bytes]] = {}
        self._ends: dict[str, int] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, ids: Mapping[str, Sequence[Sequence[int]]], texts: Mapping[str, Sequence[str]] | None = None) -> None:
        """Samples in order: for each side their token ids without marks, and their text where it is kept."""
        rows = len(next(iter(ids.values())))
        if not rows:
            return
        if not self.index.shards or max(self._ends.get(f"{side}.ids", 0) for side in ids) >= self.shard_tokens:
            self._next_shard()
        for name, side in self.index.sides.items():
            lengths = np.fromiter(map(len, ids[name]), dtype=np.int64, count=rows)
            flat = np.fromiter(chain.from_iterable(ids[name]), dtype=side.ids, count=int(lengths.sum()))
            self._append(f"{name}.ids", flat, lengths)
            self._file(f"{name}.lengths").write((lengths + 1).astype(side.lengths).tobytes())
            if side.text:
                assert texts is not None, "the sides keep their text"
                encoded = [text.encode() for text in texts[name]]
                sizes = np.fromiter(map(len, encoded), dtype=np.int64, count=rows)
                self._append(f"{name}.text", np.frombuffer(b"".join(encoded), dtype=np.uint8), sizes)
        self.index.shards[-1] += rows
        self.index.sizes[-1] += rows
        self.index.samples += rows

    def next_corpus(self) -> None:
        """What follows belongs to another corpus."""
        self.index.sizes.append(0)

    def close(self) -> Index:
        """Write index and manifest; a folder without them is not read."""
        for name in self.index.sides:
            self._file(f"{name}.lengths")
        self._close(list(self._open))
        folders.write_json(self.folder / "index.json", asdict(self.index))
        folders.write_manifest(self.folder)
        return self.index

    def __enter__(self) -> "Writer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(list(self._open))

    def _next_shard(self) -> None:
        self._close([name for name in self._open if name[0].isdigit()])
        self._ends = {}
        self.index.shards.append(0)
        for name, side in self.index.sides.items():
            for kind in (f"{name}.ids", f"{name}.text") if side.text else (f"{name}.ids",):
                self._offsets(kind).write(np.zeros(1, dtype=_OFFSET).tobytes())

    def _append(self, kind: str, flat: NDArray[Any], lengths: NDArray[np.int64]) -> None:
        ends = self._ends.get(kind, 0) + lengths.cumsum()
        self._ends[kind] = int(ends[-1])
        self._file(f"{self._prefix}.{kind}").write(flat.tobytes())
        self._offsets(kind).write(ends.astype(_OFFSET).tobytes())

    @property
    def _prefix(self) -> str:
        return f"{len(self.index.shards) - 1:05d}"

    def _offsets(self, kind: str) -> IO[bytes]:
        name = kind.removesuffix(".ids")
        return self._file(f"{self._prefix}.{name}.offsets")

    def _file(self, name: str) -> IO[bytes]:
        if name not in self._open:
            self._open[name] = (self.folder / name).open("wb")
        return self._open[name]

    def _close(self, names: Sequence[str]) -> None:
        for name in names:
            self._open.pop(name).close()


class Shards:
    """An opened folder of shards."""

    def __init__(self, folder: Path, *, verify: bool = False) -> None:
        self.folder, self.index = folder, _opened(folder, verify)
        self._firsts = np.concatenate([[0], np.cumsum(self.index.shards)])
        self._maps: dict[str, NDArray[Any]] = {}
        self.lengths: dict[str, NDArray[Any]] = {
            name: self._map(f"{name}.lengths", side.lengths, self.index.samples)
            for name, side in self.index.sides.items()
        }
        self._check_offsets()

    def __len__(self) -> int:
        return self.index.samples

    def ids(self, side: str, samples: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The samples' tokens one after the other, and how many each has."""
        return self._ragged(side, "ids", np.dtype(self.index.sides[side].ids), samples)

    def texts(self, side: str, samples: NDArray[np.int64]) -> list[str]:
        """The samples' text, where it is kept."""
        assert self.index.sides[side].text, f"no text is kept of {side}"
        flat, sizes = self._ragged(side, "text", np.dtype(np.uint8), samples)
        ends = sizes.cumsum()
        return [
            flat[end - size : end].tobytes().decode() for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)
        ]

    def _ragged(
        self, side: str, kind: str, dtype: np.dtype[Any], samples: NDArray[np.int64]
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        assert not len(samples) or 0 <= samples.min() <= samples.max() < len(self), "samples of this folder"
        shard_of = np.searchsorted(self._firsts, samples, side="right") - 1
        starts, sizes = np.empty(len(samples), dtype=np.int64), np.empty(len(samples), dtype=np.int64)
        touched = [(int(shard), np.flatnonzero(shard_of == shard)) for shard in np.unique(shard_of)]
        for shard, rows in touched:
            offsets, local = self._offsets(shard, side, kind), samples[rows] - self._firsts[shard]
            starts[rows] = offsets[local]
            sizes[rows] = offsets[local + 1] - starts[rows]
        begins = sizes.cumsum() - sizes
        flat = np.empty(int(sizes.sum()), dtype=dtype)
        for shard, rows in touched:
            values = self._values(shard, side, kind, dtype)
            into, within = _places(begins[rows], sizes[rows]), _places(starts[rows], sizes[rows])
            flat[into] = values[within]
        return flat, sizes

    def _offsets(self, shard: int, side: str, kind: str) -> NDArray[Any]:
        name = side if kind == "ids" else f"{side}.{kind}"
        return self._map(f"{shard:05d}.{name}.offsets", _OFFSET, self.index.shards[shard] + 1)

    def _values(self, shard: int, side: str, kind: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        return self._map(f"{shard:05d}.{side}.{kind}", dtype, int(self._offsets(shard, side, kind)[-1]))

    def _map(self, name: str, dtype: str | np.dtype[Any], count: int) -> NDArray[Any]:
        if name not in self._maps:
            path, size = self.folder / name, np.dtype(dtype).itemsize * count
            found = path.stat().st_size if path.is_file() else 0
            if found != size:
                raise DataError(f"{path} holds {found:,} bytes, where {size:,} belong; {_again(self.folder)}")
            # As plain arrays: slicing numpy's memmap class costs more than the reading.
            mapped = np.memmap(path, dtype=dtype, mode="r", shape=(count,)) if count else np.empty(0, dtype=dtype)
            self._maps[name] = np.asarray(mapped)
        return self._maps[name]

    def _check_offsets(self) -> None:
        """That each shard's offsets begin at 0 and end where its values do; what lies between is for `verify`."""
        for shard in range(len(self.index.shards)):
            for name, side in self.index.sides.items():
                for kind, dtype in (("ids", np.dtype(side.ids)), ("text", np.dtype(np.uint8)))[: 1 + side.text]:
                    offsets = self._offsets(shard, name, kind)
                    if offsets[0] != 0 or offsets[-1] < 0:
                        raise DataError(f"{self.folder}: the offsets of shard {shard} are wrong; {_again(self.folder)}")
                    self._values(shard, name, kind, dtype)


def _places(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """start, start + 1 ... of every stretch, one after the other."""
    before = sizes.cumsum() - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


def _again(folder: Path) -> str:
    return f"delete {folder} and prepare it again"


def _opened(folder: Path, verify: bool) -> Index:
    """The index of a folder whose files are all there at their sizes, and with `verify` as they were written."""
    path = folder / "index.json"
    if not path.is_file():
        raise DataError(f"{path} is not there; give a folder that `qkv prepare` has made")
    try:
        folders.verify(folder, deep=verify)
        raw = folders.read_json(path, limit=LARGEST_INDEX)
    except BundleError as error:
        raise DataError(f"{error}, or {_again(folder)}") from None
    try:
        if raw["format"] != FORMAT:
            raise DataError(f"{path} is of format {raw['format']}, this version reads {FORMAT}; {_again(folder)}")
        index = Index(**{**raw, "sides": {name: Side(**side) for name, side in raw["sides"].items()}})
        consistent = index.samples == sum(index.sizes) == sum(index.shards) and min([*index.sizes, *index.shards]) >= 0
        typed = all(s.ids in ("<u2", "<u4") and s.lengths in ("<u2", "<u4") for s in index.sides.values())
    except (KeyError, TypeError, AttributeError, ValueError):
        consistent = typed = False
    if not (consistent and typed and index.sides.keys() <= {"source", "target"}):
        raise DataError(f"{path} contradicts itself; {_again(folder)}")
    return index
