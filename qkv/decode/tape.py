"""What has been written so far, on the device: ids, their log-probabilities and their sums, sentences first.

Letters: U sentences, W lanes of each, C columns, N given.
"""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F


@dataclass
class Tape:
    """`birth` is the clock at which a sentence would have had no token: its length at any time is clock - birth."""

    ids: Int[Tensor, "U W C"]
    steps: Float[Tensor, "U W C"]  # the log-probability of each token
    live: Float[Tensor, "U W"]  # and their sum; minus infinity where a lane holds nothing
    birth: Int[Tensor, "U"]
    samples: Int[Tensor, "U"]  # what keys the random numbers of a sentence
    draws: Int[Tensor, "U"]  # and which of its samples this is

    @classmethod
    def blank(
        cls, samples: Int[Tensor, "U"], draws: Int[Tensor, "U"], lanes: int, columns: int, written: Int[Tensor, "U c"]
    ) -> "Tape":
        """Every lane holds the same first ids, so only the first counts; behind them stands id 0, as good as any."""
        sentences, device = len(samples), samples.device
        ids = torch.zeros(sentences, lanes, columns, dtype=torch.long, device=device)
        ids[:, :, : written.shape[1]] = written[:, None]
        live = torch.zeros(sentences, lanes, device=device)
        live[:, 1:] = -torch.inf
        return cls(
            ids,
            torch.zeros(sentences, lanes, columns, device=device),
            live,
            torch.full((sentences,), -written.shape[1], device=device),
            samples,
            draws,
        )

    def lengths(self, clock: int) -> Int[Tensor, "U"]:
        return clock - self.birth

    def write(
        self,
        clock: int,
        longest: int,
        parents: Int[Tensor, "U W"] | None,
        ids: Int[Tensor, "U W"],
        steps: Float[Tensor, "U W"],
    ) -> None:
        """Lane w goes on from lane parents[w] of its sentence, with a token more."""
        if parents is not None:
            past = parents[:, :, None].expand(-1, -1, longest)
            self.ids[:, :, :longest] = self.ids[:, :, :longest].gather(1, past)
            self.steps[:, :, :longest] = self.steps[:, :, :longest].gather(1, past)
        place = self.lengths(clock)[:, None, None].expand(-1, self.ids.shape[1], 1)
        self.ids.scatter_(2, place, ids[:, :, None])
        self.steps.scatter_(2, place, steps[:, :, None])

    def read(self, sentences: list[int], lanes: list[int], longest: int) -> tuple[list[list[int]], list[list[float]]]:
        """Ids and log-probabilities of some lanes, on the host."""
        at = torch.tensor(sentences, device=self.ids.device), torch.tensor(lanes, device=self.ids.device)
        return self.ids[*at, :longest].tolist(), self.steps[*at, :longest].tolist()

    def select(self, sentences: Int[Tensor, "N"]) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name).index_select(0, sentences))

    def join(self, other: "Tape", later: int) -> None:
        """Other sentences come in behind these; their clock runs `later` ticks behind."""
        columns = max(self.ids.shape[2], other.ids.shape[2])
        for name in ("ids", "steps"):
            mine, theirs = (F.pad(t, (0, columns - t.shape[2])) for t in (getattr(self, name), getattr(other, name)))
            setattr(self, name, torch.cat([mine, theirs]))
        self.birth = torch.cat([self.birth, other.birth + later])
        for name in ("live", "samples", "draws"):
            setattr(self, name, torch.cat([getattr(self, name), getattr(other, name)]))
