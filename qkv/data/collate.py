"""Sample numbers -> Batch: rows filled from shards in a few vectorised steps, some batches ahead of their consumer.

Where a tokenizer has dropout (BPE-dropout, Provilkov et al. 2020) a training text is encoded anew in every epoch, keyed
by (seed, epoch, side, sample): the same for any split of a batch, and exact on resume. A text that would pass
`max_length` keeps its usual ids. The plan of the batches knows only the undropped lengths: see regrouping.py.

Letters: B rows, T positions.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from qkv.data.batch import Batch, Tokens
from qkv.data.sampling import Draw, Position, by_length, cut
from qkv.data.shards import Shards
from qkv.data.tokenizers.base import Specials, Tokenizer
from qkv.random import place_of, word


class Collator:
    """The rows of a folder of shards as batches; `vary` are the tokenizers of the sides that are encoded anew."""

    def __init__(
        self,
        shards: Shards,
        /,
        *,
        seed: int = 0,
        vary: Mapping[str, Tokenizer] | None = None,
        max_length: int = 256,
        round_to: int = 1,
        task: str = "",
        split: str = "train",
    ) -> None:
        self.shards, self.seed, self.vary, self.max_length = shards, seed, dict(vary or {}), max_length
        self.round_to, self.task, self.split = round_to, task, split
        self._made: dict[str, dict[int, list[int]]] = {}
        self._made_for: int | None = None

    def __call__(self, samples: NDArray[np.int64], epoch: int = 0) -> Batch:
        sides = {}
        for side in self.shards.index.sides:
            flat, sizes = self._ids(side, samples, epoch)
            sides[side] = filled(flat, sizes, begin=side == "target", round_to=self.round_to)
        numbers = torch.from_numpy(samples.astype(np.int64))
        return Batch.of(numbers, sides.get("source"), sides["target"], task=self.task, split=self.split)

    def encode(self, samples: NDArray[np.int64], epoch: int) -> list[NDArray[np.int64]]:
        """The lengths of these samples in this epoch, side by side; their ids are kept for the batches made next."""
        self._made = {side: self._varied(side, samples, epoch) for side in self.vary}
        self._made_for = epoch
        lengths = []
        for side in self.shards.index.sides:
            if side in self.vary:
                found = (len(self._made[side][sample]) + 1 for sample in samples.tolist())
                lengths.append(np.fromiter(found, dtype=np.int64, count=len(samples)))
            else:
                lengths.append(self.shards.lengths[side][samples].astype(np.int64))
        return lengths

    def _ids(self, side: str, samples: NDArray[np.int64], epoch: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The samples' tokens one after the other, and how many each has."""
        if side not in self.vary:
            return self.shards.ids(side, samples)
        made = self._made.get(side, {}) if self._made_for == epoch else {}
        missing = [sample for sample in samples.tolist() if sample not in made]
        if missing:
            made = made | self._varied(side, np.array(missing, dtype=np.int64), epoch)
        return ragged([made[sample] for sample in samples.tolist()])

    def _varied(self, side: str, samples: NDArray[np.int64], epoch: int) -> dict[int, list[int]]:
        """This epoch's ids by sample."""
        flat, sizes = self.shards.ids(side, samples)
        key, numbers = word(self.seed, epoch, place_of(side)), samples.tolist()
        rows = self.vary[side].encode_varied(
            self.shards.texts(side, samples), [word(key, sample) for sample in numbers]
        )
        ends = sizes.cumsum()
        for row, ids in enumerate(rows):
            if not 0 < len(ids) < self.max_length:
                rows[row] = flat[ends[row] - sizes[row] : ends[row]].tolist()
        return dict(zip(numbers, rows, strict=True))


def ragged(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows one after the other, and the length of each."""
    sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    return np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(sizes.sum())), sizes


def filled(flat: NDArray[Any], sizes: NDArray[np.int64], *, begin: bool, round_to: int = 1) -> Tokens:
    """Rows of tokens and EOS, after BOS where they `begin` a target; a model reads a multiple of `round_to` columns."""
    rows, first = len(sizes), int(begin)
    width = -(-int(sizes.max(initial=0) + 1) // round_to) * round_to + first
    ids = np.full((rows, width), Specials.PAD, dtype=np.int64)
    if begin:
        ids[:, 0] = Specials.BOS
    columns = np.arange(width)
    ids[(columns >= first) & (columns < sizes[:, None] + first)] = flat
    ids[np.arange(rows), sizes + first] = Specials.EOS
    return Tokens(torch.from_numpy(ids), torch.from_numpy(sizes + 1 + first))


def batches_of(
    rows: Sequence[Sequence[int]], *, max_tokens: int, begin: bool = False, round_to: int = 1
) -> Iterator[tuple[NDArray[np.int64], Tokens]]:
    """Rows of token ids in batches of like lengths, the longest first, each with the rows' places to restore the order.

    Every batch keeps rows x longest within `max_tokens`; a single row beyond it stands alone.
    """
    assert max_tokens >= round_to >= 1, (max_tokens, round_to)
    if not rows:
        return
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)) + 1
    alone = np.minimum(lengths, max_tokens // round_to * round_to)
    plan = cut([alone], by_length([lengths])[::-1], max_tokens=max_tokens, round_to=round_to)
    for number in range(len(plan)):
        places = plan.batch(number)
        yield places, filled(*ragged([rows[place] for place in places]), begin=begin, round_to=round_to)


class Feed:
    """Batches made by a thread, a few ahead; `position` is where reading goes on after the last one handed out.

    `waited` adds up the seconds for which the consumer stood still.
    """

    def __init__(self, draws: Iterable[Draw], collate: Callable[[NDArray[np.int64], int], Batch], /, *, ahead: int = 4):
        self.position: Position | None = None
        self.waited = 0.0
        self._queue: queue.Queue[tuple[Batch, Position] | BaseException | None] = queue.Queue(maxsize=ahead)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(draws, collate), name="qkv feed", daemon=True)
        self._thread.start()

    def __iter__(self) -> "Feed":
        return self

    def __next__(self) -> Batch:
        if self._stop.is_set():
            raise StopIteration
        began = time.perf_counter()
        item = self._queue.get()
        self.waited += time.perf_counter() - began
        if isinstance(item, tuple):
            batch, self.position = item
            return batch
        self.close()
        if item is None:
            raise StopIteration
        raise item

    def close(self) -> None:
        """End the thread; batches made ahead are forgotten, and `position` does not count them."""
        self._stop.set()
        while not self._queue.empty():
            self._queue.get_nowait()
        self._thread.join()

    def __enter__(self) -> "Feed":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, draws: Iterable[Draw], collate: Callable[[NDArray[np.int64], int], Batch]) -> None:
        last: BaseException | None = None
        try:
            for draw in draws:
                if not self._put((collate(draw.samples, draw.epoch), draw.after)):
                    return
        except BaseException as error:
            last = error
        self._put(last)

    def _put(self, item: tuple[Batch, Position] | BaseException | None) -> bool:
        """Waits for room; False where nobody wants any more."""
        while not self._stop.is_set():
            try:
                self._queue.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False
