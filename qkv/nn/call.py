"""What a layer is told beside its input, and what it says beside its output.

Letters: B rows, T queries (positions), S keys, H heads, D model width. In a mask True means "may attend".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from qkv.random import Noise

if TYPE_CHECKING:
    from qkv.nn.state import State


@dataclass(frozen=True)
class Layout:
    """The mask, described and not materialised: facts about the rows. Windows and patterns belong to the mixers."""

    causal: bool = False
    lengths: Int[Tensor, "B"] | None = None  # how many keys of each row are real; None: all
    segments: Int[Tensor, "B S"] | None = None  # packed rows: 0 is padding, a document sees itself alone
    query_segments: Int[Tensor, "B T"] | None = None  # where the queries are not the keys; None: the same as the keys'
    offset: int | Int[Tensor, "B"] = 0  # where the first query stands among the keys
    furthest: int = 0  # the largest offset, known on the host, where offsets differ
    prefix: Int[Tensor, "B"] | None = None  # the first keys of a row, seen by all its queries even if causal
    grid: tuple[int, int] | None = None  # rows that are pictures: height and width

    def facing(self, memory: "Layout") -> "Layout":
        """The layout of these queries before the keys of a memory."""
        mine = self.query_segments if self.query_segments is not None else self.segments
        return replace(memory, causal=False, query_segments=mine if memory.segments is not None else None, offset=0)

    def positions(self, queries: int, device: torch.device) -> Int[Tensor, "T"] | Int[Tensor, "B T"]:
        """Where each query stands in its sentence, counted from 0 anew in every packed segment."""
        index = torch.arange(queries, device=device)
        segments = self.query_segments if self.query_segments is not None else self.segments
        if segments is not None:
            new = torch.ones_like(segments, dtype=torch.bool)
            new[:, 1:] = segments[:, 1:] != segments[:, :-1]
            return index - torch.where(new, index, 0).cummax(1).values
        return index + (self.offset if isinstance(self.offset, int) else self.offset[:, None])

    def key_positions(self, keys: int, device: torch.device) -> Int[Tensor, "S"] | Int[Tensor, "B S"]:
        """Where each key stands in its sentence."""
        return replace(self, offset=0, query_segments=None).positions(keys, device)

    @property
    def start(self) -> int:
        """The largest offset: what a cache must hold before these queries."""
        return self.offset if isinstance(self.offset, int) else self.furthest

    @property
    def only_causal(self) -> bool:
        """Causality is all there is to the mask; padding that comes last needs none, since no real query sees it."""
        return self.causal and self.segments is None and self.prefix is None and isinstance(self.offset, int)

    def visible(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "#B 1 #T S"] | None:
        """The boolean matrix, as the last resort; None where everything may be seen."""
        masks: list[Tensor] = []
        index = torch.arange(keys, device=device)
        newest = queries == 1 and isinstance(self.offset, int) and keys == self.offset + 1
        if self.causal and not newest:
            offset = self.offset if isinstance(self.offset, int) else self.offset.view(-1, 1, 1, 1)
            seen = index <= torch.arange(queries, device=device).view(1, 1, -1, 1) + offset
            if self.prefix is not None:
                seen = seen | (index < self.prefix.view(-1, 1, 1, 1))
            masks.append(seen)
        if self.lengths is not None:
            masks.append(index < self.lengths.view(-1, 1, 1, 1))
        if self.segments is not None:
            theirs = self.segments[:, None, None, :]
            mine = (self.segments if self.query_segments is None else self.query_segments)[:, None, :, None]
            masks.append((mine == theirs) & (theirs > 0))
        return reduce(torch.logical_and, masks) if masks else None


@dataclass(frozen=True)
class Memory:
    """Something that was encoded, to be looked at: keys, values (ConvS2S keeps them apart) and their own layout."""

    keys: Float[Tensor, "B S D"]
    layout: Layout
    separate_values: Float[Tensor, "B S D"] | None = None

    @property
    def values(self) -> Float[Tensor, "B S D"]:
        return self.keys if self.separate_values is None else self.separate_values


Memories = Mapping[str, Memory]


@dataclass(frozen=True)
class Want:
    """What the caller asks to see, as dotted patterns: `decoder.*.cross.maps`; `*` stands for one name."""

    patterns: frozenset[str] = frozenset()

    @classmethod
    def of(cls, *patterns: str) -> "Want":
        return cls(frozenset(patterns))

    def at(self, name: str) -> "Want":
        """What is wanted of the child called `name`."""
        if not self.patterns:
            return self
        split = (p.partition(".") for p in self.patterns)
        return Want(frozenset(rest for head, _, rest in split if head in (name, "*") and rest))

    def __contains__(self, what: str) -> bool:
        return what in self.patterns or "*" in self.patterns


@dataclass(frozen=True)
class Extras:
    """What a layer says beside its output, by dotted name: maps where wanted, auxiliary losses and loads always."""

    maps: Mapping[str, Tensor] = field(default_factory=dict)
    losses: Mapping[str, Tensor] = field(default_factory=dict)
    loads: Mapping[str, Tensor] = field(default_factory=dict)

    def under(self, name: str) -> "Extras":
        """The same, as said by the child called `name`."""
        if self is NOTHING or not (self.maps or self.losses or self.loads):
            return NOTHING
        return Extras(
            *({f"{name}.{k}".rstrip("."): v for k, v in part.items()} for part in (self.maps, self.losses, self.loads))
        )

    def __or__(self, other: "Extras") -> "Extras":
        if other is NOTHING:
            return self
        if self is NOTHING:
            return other
        return Extras({**self.maps, **other.maps}, {**self.losses, **other.losses}, {**self.loads, **other.loads})


NOTHING = Extras()


@dataclass(frozen=True)
class Call:
    """The call that travels down a model beside the hidden vectors."""

    layout: Layout
    memories: Memories = field(default_factory=dict)
    state: "State | None" = None
    noise: Noise | None = None
    want: Want = Want()

    def at(self, name: str) -> "Call":
        """The call for the child called `name`: its own state, what is wanted of it."""
        if self.state is None and not self.want.patterns:
            return self
        return replace(self, state=None if self.state is None else self.state.at(name), want=self.want.at(name))
