"""BPE dropout (Provilkov et al. 2020, section 4), keyed: the split of a sentence follows from its key and nothing else.

At each step the best merge of those that remain is applied, each left out of the step with probability p. The library
draws from a generator that cannot be seeded, so the loop stands here. Instead of a number for each merge, the number
of merges until the next one left out is drawn: a word that needs fewer takes its known split, and no step is walked.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import log, log1p

from qkv.data.tokenizers.base import Specials

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
REMEMBERED_WORDS = 1 << 16
LONGEST_REMEMBERED = 128

Split = tuple[list[int], list[int], int]  # symbols, pieces without dropout, merges between the two
Merge = tuple[int, int]  # rank, the id made


def mixed(number: int) -> int:
    """One 64-bit number well mixed into another: the finalizer of splitmix64 (Steele et al. 2014)."""
    number = (number + GOLDEN) & MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & MASK
    return number ^ (number >> 31)


def survivals(key: int, dropout: float) -> Iterator[int]:
    """How many merges pass before the next one left out, again and again: geometric, by counter from the key."""
    if dropout >= 1:
        while True:
            yield 0
    scale = 1 / log1p(-max(dropout, 2.0**-53))
    state = mixed(key & MASK)
    while True:
        state = (state + GOLDEN) & MASK
        uniform = ((mixed(state) >> 11) + 1) * 2.0**-53  # above 0, at most 1
        yield int(log(uniform) * scale)


class KeyedMerges:
    """The merges of a BPE model, applied to words with dropout."""

    def __init__(
        self, ids: Mapping[str, int], merges: Sequence[tuple[str, str]], /, *, byte_fallback: bool, dropout: float
    ) -> None:
        self.ids, self.byte_fallback, self.dropout = ids, byte_fallback, dropout
        self.merges: dict[tuple[int, int], Merge] = {
            (ids[left], ids[right]): (rank, ids[left + right]) for rank, (left, right) in enumerate(merges)
        }
        self._splits: dict[str, Split] = {}

    def encode(self, words: Sequence[str], key: int) -> list[int]:
        """Ids of a sentence's words, by its key."""
        draws = survivals(key, self.dropout)
        left = next(draws)
        pieces: list[int] = []
        splits = self._splits
        for word in words:
            symbols, whole, steps = splits.get(word) or self._split(word)
            if left >= steps:
                left -= steps
                pieces += whole
            else:
                some, left = self.merged(symbols, left, draws)
                pieces += some
        return pieces

    def symbols(self, word: str) -> list[int]:
        """A word's characters, spelled in bytes where they have no id."""
        ids: list[int] = []
        for character in word:
            known = self.ids.get(character)
            if known is not None:
                ids.append(known)
            elif self.byte_fallback:
                ids += [self.ids[f"<0x{byte:02X}>"] for byte in character.encode()]
            else:
                ids.append(Specials.UNK)
        return ids

    def _split(self, word: str) -> Split:
        symbols = self.symbols(word)
        enough = len(symbols)  # a merge makes one symbol of two, so there are fewer merges than symbols
        whole, left = self.merged(symbols, enough, iter(()))
        split = symbols, whole, enough - left
        if len(word) <= LONGEST_REMEMBERED:
            if len(self._splits) >= REMEMBERED_WORDS:
                self._splits.clear()
            self._splits[word] = split
        return split

    def merged(self, symbols: Sequence[int], left: int, draws: Iterator[int]) -> tuple[list[int], int]:
        """The symbols after all merges that were not left out, and how many more would pass before the next is."""
        merges, count = self.merges, len(symbols)
        now = list(symbols)  # -1 where a symbol went into the one before it
        before, after = list(range(-1, count - 1)), list(range(1, count + 1))
        queue = [(*merges[pair], at) for at in range(count - 1) if (pair := (now[at], now[at + 1])) in merges]
        heapify(queue := [(rank, at, made) for rank, made, at in queue])
        skipped: list[tuple[int, int, int]] = []
        while queue:
            entry = heappop(queue)
            rank, at, made = entry
            following = after[at]
            if following >= count or merges.get((now[at], now[following])) != (rank, made):
                continue  # a neighbour was merged away since
            if not left:
                skipped.append(entry)
                left = next(draws)
                continue
            left -= 1
            now[at], now[following] = made, -1
            after[at] = after[following]
            if after[at] < count:
                before[after[at]] = at
            while skipped:
                heappush(queue, skipped.pop())
            for first in (before[at], at):
                second = after[first] if first >= 0 else count
                if second < count and (merge := merges.get((now[first], now[second]))):
                    heappush(queue, (merge[0], first, merge[1]))
        return [symbol for symbol in now if symbol >= 0], left
