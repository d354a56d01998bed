"""What decoding remembers: mutable, owned by the caller, rows first; search reorders it without knowing what is inside.

Letters: R rows, H heads, C capacity, S keys, K and V widths of a head's keys and values.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor

Rows = Int[Tensor, "R"]


class State(ABC):
    """The operations that search needs; a state of several parts is a `Tree`."""

    @abstractmethod
    def select(self, rows: Rows) -> None:
        """New row i is old row rows[i]: rows leave, or are repeated for a beam."""

    def reorder(self, rows: Rows, group: int = 1) -> None:
        """As `select`, as many rows as before; each out of its own group of `group` neighbours when that is above 1."""
        self.select(rows)

    @abstractmethod
    def insert(self, other: "State") -> None:
        """The rows of another state of the same kind come in behind these."""

    @abstractmethod
    def rewind(self, lengths: Rows) -> None:
        """Row i forgets all but its first lengths[i] tokens; only where the mixer declares `rewind`."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by a dotted name, for export and for counting."""

    def at(self, name: str) -> "State":
        """The state of the child called `name`."""
        raise AssertionError(f"{type(self).__name__} has no parts, asked for {name}")

    def nbytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.tensors().values())


class Tree(State):
    """Named parts; a part may be None where a child remembers nothing."""

    def __init__(self, parts: Mapping[str, State]) -> None:
        self.parts = dict(parts)

    def at(self, name: str) -> State:
        return self.parts[name]

    def select(self, rows: Rows) -> None:
        for part in self.parts.values():
            part.select(rows)

    def reorder(self, rows: Rows, group: int = 1) -> None:
        for part in self.parts.values():
            part.reorder(rows, group)

    def insert(self, other: State) -> None:
        assert isinstance(other, Tree) and other.parts.keys() == self.parts.keys()
        for name, part in self.parts.items():
            part.insert(other.parts[name])

    def rewind(self, lengths: Rows) -> None:
        for part in self.parts.values():
            part.rewind(lengths)

    def tensors(self) -> dict[str, Tensor]:
        return {f"{name}.{k}": t for name, part in self.parts.items() for k, t in part.tensors().items()}


class Decoding(Tree):
    """The whole of what a model remembers: how far each row is, and its parts."""

    def __init__(self, parts: Mapping[str, State], lengths: Rows) -> None:
        super().__init__(parts)
        self.lengths = lengths
        self.longest = int(lengths.max()) if len(lengths) else 0
        self.aligned = len(lengths) == 0 or bool((lengths == self.longest).all())

    @property
    def rows(self) -> int:
        return self.lengths.shape[0]

    @property
    def offset(self) -> int | Rows:
        """Where the next token stands: one number while all rows are equally far, which is the fast case."""
        return self.longest if self.aligned else self.lengths

    def advance(self, steps: int) -> None:
        """Every row took `steps` tokens; no look at the device is needed."""
        self.lengths = self.lengths + steps
        self.longest += steps

    def select(self, rows: Rows) -> None:
        super().select(rows)
        if self.aligned:
            self.lengths = self.lengths[rows]
        else:  # those furthest ahead may have left
            self._set(self.lengths[rows])

    def reorder(self, rows: Rows, group: int = 1) -> None:
        super().reorder(rows, group)
        if not self.aligned:
            self.lengths = self.lengths[rows]

    def insert(self, other: State) -> None:
        assert isinstance(other, Decoding)
        super().insert(other)
        self._set(torch.cat([self.lengths, other.lengths]))

    def rewind(self, lengths: Rows) -> None:
        super().rewind(lengths)
        self._set(torch.minimum(self.lengths, lengths))

    def tensors(self) -> dict[str, Tensor]:
        return {"lengths": self.lengths, **super().tensors()}

    def _set(self, lengths: Rows) -> None:
        self.lengths = lengths
        self.longest = int(lengths.max()) if len(lengths) else 0
        self.aligned = bool((lengths == self.longest).all())


class Vectors(State):
    """Fixed-size tensors, rows first: recurrent vectors, the tail of a convolution. What they hold cannot be undone."""

    def __init__(self, **values: Tensor) -> None:
        self.values = values

    def select(self, rows: Rows) -> None:
        self.values = {name: t.index_select(0, rows) for name, t in self.values.items()}

    def insert(self, other: State) -> None:
        assert isinstance(other, Vectors)
        self.values = {name: torch.cat([t, other.values[name]]) for name, t in self.values.items()}

    def rewind(self, lengths: Rows) -> None:
        raise AssertionError(
            "recurrent vectors and convolution tails cannot be rewound; their mixers do not declare it"
        )

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.values)


class KeyValues(State):
    """The keys and values of a row's own past, in buffers that are written in place and grow by half when full."""

    def __init__(self, keys: Float[Tensor, "R H C K"], values: Float[Tensor, "R H C V"]) -> None:
        self.keys, self.values = keys, values

    @classmethod
    def empty(cls, like: Tensor, rows: int, heads: int, capacity: int, width: int) -> "KeyValues":
        return cls(like.new_zeros(rows, heads, capacity, width), like.new_zeros(rows, heads, capacity, width))

    def extend(
        self, keys: Float[Tensor, "R H T K"], values: Float[Tensor, "R H T V"], offset: int | Rows, longest: int
    ) -> tuple[Float[Tensor, "R H S K"], Float[Tensor, "R H S V"]]:
        """Writes new keys at each row's offset and returns all that are there; `longest` is the largest offset."""
        end = longest + keys.shape[2]
        self._reserve(end)
        if isinstance(offset, int):
            self.keys[:, :, offset:end] = keys
            self.values[:, :, offset:end] = values
        else:
            index = offset[:, None] + torch.arange(keys.shape[2], device=keys.device)
            rows = torch.arange(keys.shape[0], device=keys.device)[:, None]
            self.keys[rows, :, index] = keys.transpose(1, 2)
            self.values[rows, :, index] = values.transpose(1, 2)
        return self.keys[:, :, :end], self.values[:, :, :end]

    def select(self, rows: Rows) -> None:
        self.keys, self.values = self.keys.index_select(0, rows), self.values.index_select(0, rows)

    def insert(self, other: State) -> None:
        assert isinstance(other, KeyValues)
        capacity = max(self.keys.shape[2], other.keys.shape[2])
        self._reserve(capacity, exactly=True)
        other._reserve(capacity, exactly=True)
        self.keys, self.values = torch.cat([self.keys, other.keys]), torch.cat([self.values, other.values])

    def rewind(self, lengths: Rows) -> None:
        """Nothing to do: what lies behind a row's offset is masked, and overwritten by what comes."""

    def tensors(self) -> dict[str, Tensor]:
        return {"keys": self.keys, "values": self.values}

    def _reserve(self, size: int, exactly: bool = False) -> None:
        missing = size - self.keys.shape[2]
        if missing > 0:
            missing += 0 if exactly else self.keys.shape[2] // 2
            self.keys = torch.nn.functional.pad(self.keys, (0, 0, 0, missing))
            self.values = torch.nn.functional.pad(self.values, (0, 0, 0, missing))


class Projected(State):
    """The keys and values of a memory, projected once at `begin`: the same for every token and beam of a sentence."""

    def __init__(self, keys: Float[Tensor, "R H S K"], values: Float[Tensor, "R H S V"], lengths: Rows) -> None:
        self.keys, self.values, self.lengths = keys, values, lengths

    def select(self, rows: Rows) -> None:
        self.keys, self.values = self.keys.index_select(0, rows), self.values.index_select(0, rows)
        self.lengths = self.lengths.index_select(0, rows)

    def reorder(self, rows: Rows, group: int = 1) -> None:
        if group == 1:
            self.select(rows)

    def insert(self, other: State) -> None:
        assert isinstance(other, Projected)
        size = max(self.keys.shape[2], other.keys.shape[2])
        mine, theirs = self._padded(size), other._padded(size)
        self.keys, self.values = torch.cat([mine[0], theirs[0]]), torch.cat([mine[1], theirs[1]])
        self.lengths = torch.cat([self.lengths, other.lengths])

    def rewind(self, lengths: Rows) -> None:
        """Nothing to do: a memory does not grow with the tokens."""

    def tensors(self) -> dict[str, Tensor]:
        return {"keys": self.keys, "values": self.values, "lengths": self.lengths}

    def _padded(self, size: int) -> tuple[Tensor, Tensor]:
        pad = (0, 0, 0, size - self.keys.shape[2])
        return torch.nn.functional.pad(self.keys, pad), torch.nn.functional.pad(self.values, pad)


class Forgetful(State):
    """The state of what remembers nothing (a feed-forward in a block)."""

    def select(self, rows: Rows) -> None:
        """Nothing to select."""

    def insert(self, other: State) -> None:
        """Nothing to insert."""

    def rewind(self, lengths: Rows) -> None:
        """Nothing to forget."""

    def tensors(self) -> dict[str, Tensor]:
        return {}
