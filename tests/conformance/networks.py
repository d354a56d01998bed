"""The models under test, every registered one in every variant, in fp64, and batches of random ids for them."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qkv.config import part
from qkv.data.batch import Batch, Tokens
from qkv.models.base import Model, Sizes, build
from qkv.nn.state import Decoding
from tests.conformance.expected import MODELS

VOCABULARY = 20
SOURCE, TARGET = [6, 2, 4], [5, 6, 3]


@dataclass(frozen=True)
class Network:
    """One model in one variant."""

    name: str
    variant: str

    def __str__(self) -> str:
        return f"{self.name}-{self.variant}"

    def build(self, seed: int = 1, dropout: float = 0.0) -> Any:
        """The model in fp64; `Any`, since protocols are what it is used by."""
        options = {**MODELS[self.name].variants[self.variant], "dropout": dropout}
        model: Model = build(part("model", {"name": self.name, **options}), Sizes(VOCABULARY, VOCABULARY), seed)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
        return model.double()

    def lacks(self, what: str) -> bool:
        return what in MODELS[self.name].lacks.get(self.variant, ())


def networks(protocol: str) -> list[Network]:
    """Every variant of every model that answers a protocol."""
    return [Network(name, v) for name, row in MODELS.items() if protocol in row.protocols for v in row.variants]


def tokens(lengths: list[int], seed: int, width: int | None = None) -> Tokens:
    """Rows whose padding is junk, not PAD: nobody may look at it."""
    generator = torch.Generator().manual_seed(seed)
    long = max(lengths)
    ids = torch.stack([torch.randint(1, VOCABULARY, (long,), generator=generator) for _ in lengths])
    junk = torch.randint(1, VOCABULARY, (len(lengths), (width or long) - long), generator=generator)
    return Tokens(torch.cat([ids, junk], 1), torch.tensor(lengths))


def batch(source: list[int] = SOURCE, target: list[int] = TARGET, wider: int = 0) -> Batch:
    """A batch of sentence pairs, `wider` columns wider than it must be."""
    sides = tokens(source, 1, max(source) + wider), tokens(target, 2, max(target) + wider)
    return Batch.of(torch.tensor([11, 12, 1 << 40])[: len(source)], *sides)


def row_of(whole: Batch, row: int) -> Batch:
    """One row by itself, without padding."""
    return whole.divided(whole.rows)[row]


def predicted(model: Any, given: Batch, noise: Any = None) -> Tensor:
    hidden: Tensor = model.hidden(given, noise)[0]
    return hidden


def stepped(model: Any, ids: Tensor, state: Decoding, *pieces: int) -> Tensor:
    """Hidden vectors of ids fed in pieces; one by one where no pieces are named."""
    return torch.cat([model.extend(piece, state)[0] for piece in ids.split(list(pieces) if pieces else 1, 1)], 1)
