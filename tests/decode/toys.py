"""Small models that answer `Steps`: a table whose targets can be counted out, a GRU that feels its source."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from qkv.data.batch import Batch, Tokens
from qkv.decode.hypothesis import Hypothesis
from qkv.decode.search import search
from qkv.decode.settings import SearchSettings
from qkv.nn.call import NOTHING, Extras, Want
from qkv.nn.state import Decoding, Vectors

PAD, BOS, EOS = 0, 2, 3
MARKS = {"pad": PAD, "bos": BOS, "eos": EOS}


def batch_of(lengths: Sequence[int], vocabulary: int = 12, first: int = 0) -> Batch:
    """Sources of random words, a sample number each from `first` on: its words are its own."""
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, length in enumerate(lengths):
        generator = torch.Generator().manual_seed(1000 + first + row)
        ids[row, : length - 1] = torch.randint(4, vocabulary, (length - 1,), generator=generator)
        ids[row, length - 1] = EOS
    return Batch.of(torch.arange(first, first + len(lengths)), Tokens(ids, torch.tensor(lengths)), None)


def searched(model: object, batch: Batch, prefix: object = None, **settings: object) -> list[list[Hypothesis]]:
    return search(model, batch, SearchSettings(**settings), prefix=prefix, **MARKS)  # type: ignore[arg-type]


class Counted:
    """How many rows a model was given, step by step."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.widths: list[int] = []


class Table(Counted):
    """The next token depends on the last one alone: row i holds the log-probabilities after token i."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = table
        self.vocabulary = table.shape[0]

    def start(self, batch: Batch, capacity: int) -> Decoding:
        return Decoding({}, torch.zeros(batch.rows, dtype=torch.long))

    def extend(self, ids: Tensor, state: Decoding, want: Want = Want()) -> tuple[Tensor, Extras]:
        assert ids.shape[0] == state.rows
        self.rows.append(ids.shape[0])
        self.widths.append(ids.shape[1])
        state.advance(ids.shape[1])
        return self.table[ids], NOTHING

    def scores(self, hidden: Tensor, subset: Tensor | None = None) -> Tensor:
        return hidden.clone() if subset is None else hidden[..., subset]


class Recurrent(Counted):
    """A GRU of random weights that begins from the mean of its source, and ends likelier the more it has written."""

    def __init__(
        self, vocabulary: int = 12, seed: int = 0, width: int = 16, sharpness: float = 4.0, ending: float = 0.0
    ) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.vocabulary, self.sharpness, self.ending = vocabulary, sharpness, ending
        self.embed, self.cell = nn.Embedding(vocabulary, width), nn.GRUCell(width, width)
        self.output = nn.Linear(width, vocabulary)

    def start(self, batch: Batch, capacity: int) -> Decoding:
        assert batch.source is not None
        lengths = batch.source.lengths[:, None]
        real = (torch.arange(batch.source.ids.shape[1]) < lengths)[:, :, None]
        h = (self.embed(batch.source.ids) * real).sum(1) / lengths
        return Decoding({"cell": Vectors(h=h, over=-lengths.float())}, torch.zeros(batch.rows, dtype=torch.long))

    def extend(self, ids: Tensor, state: Decoding, want: Want = Want()) -> tuple[Tensor, Extras]:
        self.rows.append(ids.shape[0])
        self.widths.append(ids.shape[1])
        cell, hidden = state.at("cell"), []
        assert isinstance(cell, Vectors)
        for x in self.embed(ids).unbind(1):
            cell.values = {"h": self.cell(x, cell.values["h"]), "over": cell.values["over"] + 1}
            hidden.append(torch.cat([cell.values["h"], cell.values["over"]], 1))
        state.advance(ids.shape[1])
        return torch.stack(hidden, 1), NOTHING

    def scores(self, hidden: Tensor, subset: Tensor | None = None) -> Tensor:
        logits: Tensor = self.output(hidden[..., :-1]) * self.sharpness
        logits[..., EOS] += hidden[..., -1] + self.ending
        return (logits if subset is None else logits[..., subset]).log_softmax(-1)


def random_table(seed: int, words: int, choices: int, sharpness: float = 1.0) -> Table:
    """Words from id 4 on; each may be followed by `choices` random words or EOS, all else is impossible."""
    generator = torch.Generator().manual_seed(seed)
    vocabulary = 4 + words
    logits = torch.full((vocabulary, vocabulary), -torch.inf)
    for i in range(vocabulary):
        allowed = 4 + torch.randperm(words, generator=generator)[:choices]
        logits[i, allowed] = torch.randn(choices, generator=generator) * sharpness
        logits[i, EOS] = torch.randn(1, generator=generator).item() * sharpness
    return Table(logits.log_softmax(-1))


def every_target(model: Table, limit: int) -> list[tuple[tuple[int, ...], float]]:
    """All targets of a table that end by the limit, EOS counted, and their log-probabilities."""
    found, alive = [], [((), 0.0, BOS)]
    for _ in range(limit):
        grown = []
        for ids, total, last in alive:
            row = model.table[last].tolist()
            found.append((ids, total + row[EOS]))
            grown += [((*ids, i), total + row[i], i) for i in range(4, model.vocabulary) if row[i] > -torch.inf]
        alive = grown
    return found
