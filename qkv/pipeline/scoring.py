"""How likely a model finds targets that are given: teacher forcing, some positions at a time, so no logits pile up.

Letters: B rows, T positions, D width, N positions of a chunk.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from qkv.data.batch import Batch, Tokens
from qkv.data.collate import filled, ragged
from qkv.data.sampling import in_order_of_length
from qkv.errors import ConfigError
from qkv.models.protocols import Predicts

POSITIONS = 1024  # of which the logits are held at a time: at 32,000 words 128 MiB


def log_probabilities(
    model: Any,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    max_tokens: int,
    device: torch.device | str = "cpu",
) -> list[float]:
    """The log-probability of each target and its end mark; rows of ids without marks, batched by their lengths."""
    if not isinstance(model, Predicts):
        raise ConfigError(f"a {type(model).__name__} cannot score targets that are given; score with one model alone")
    found = [0.0] * len(sources)
    if not found:
        return found
    lengths = [np.array([len(row) + 1 for row in side], dtype=np.int64) for side in (sources, targets)]
    capped = [np.minimum(side, max_tokens) for side in lengths]
    plan = in_order_of_length(capped, max_tokens=max_tokens)
    for number in range(len(plan)):
        places = plan.batch(number)
        batch = Batch.of(
            torch.from_numpy(places),
            filled(*ragged([sources[place] for place in places]), begin=False),
            filled(*ragged([targets[place] for place in places]), begin=True),
            split="test",
        ).to(device)
        with torch.inference_mode():
            sums = _summed(model, batch).tolist()
        for place, value in zip(places.tolist(), sums, strict=True):
            found[place] = value
    return found


def _summed(model: Predicts, batch: Batch) -> Float[Tensor, "B"]:
    """The log-probability of each row's target."""
    target = batch.target
    assert isinstance(target, Tokens)
    hidden, _ = model.hidden(batch)
    weight, bias = model.projection()
    wanted = target.ids[:, 1:]
    real = torch.arange(wanted.shape[1], device=wanted.device) < (target.lengths - 1)[:, None]
    vectors, ids = hidden[real], wanted[real]
    losses = [
        F.cross_entropy(F.linear(part, weight, bias).float(), ids[first : first + POSITIONS], reduction="none")
        for first, part in zip(range(0, len(ids), POSITIONS), vectors.split(POSITIONS), strict=True)
    ]
    rows = torch.arange(batch.rows, device=wanted.device)[:, None].expand_as(wanted)[real]
    totals = torch.zeros(batch.rows, dtype=torch.float64, device=wanted.device)
    return totals.index_add_(0, rows, -torch.cat(losses).double())
