"""Translation as next-token prediction: label-smoothed cross-entropy ("Attention Is All You Need", 5.4).

Letters: B rows, T positions, N = B T.
"""

from collections.abc import Mapping
from typing import cast

import torch

from qkv.config import Probability
from qkv.data.batch import Batch
from qkv.errors import ConfigError
from qkv.models.base import Model
from qkv.models.protocols import Predicts
from qkv.objectives.base import Losses, Objective
from qkv.objectives.smoothed import smoothed
from qkv.random import Noise


class Seq2Seq(Objective):
    """`loss` is smoothed and holds the layers' own auxiliary losses; `nll` is the plain -log p a target token."""

    def __init__(self, model: Model, /, *, smoothing: Probability = 0.1) -> None:
        super().__init__(model)
        if not isinstance(model, Predicts):
            raise ConfigError(
                f"objective seq2seq wants a model that predicts a target; {type(model).__name__} does not"
            )
        self.smoothing = smoothing

    def forward(self, batch: Batch, divisors: Mapping[str, int], noise: Noise | None = None) -> Losses:
        assert batch.target is not None
        model = cast(Predicts, self.model)
        hidden, extras = model.hidden(batch, noise)
        weight, bias = model.projection()
        ids, target = batch.target.ids, batch.target
        real = torch.arange(1, ids.shape[1], device=ids.device) < target.lengths[:, None]
        if target.segments is not None:
            real = (target.segments[:, 1:] == target.segments[:, :-1]) & (target.segments[:, 1:] > 0)
        loss, nll = smoothed(
            hidden.flatten(0, 1),
            weight,
            bias,
            ids[:, 1:].flatten(),
            real.flatten(),
            self.smoothing if self.training else 0.0,
        )
        tokens = divisors["target_tokens"]
        losses = {"loss": loss / tokens, "nll": nll / tokens}
        share = batch.rows / divisors["sentences"]
        for name, extra in extras.losses.items():
            losses[name] = extra.detach() * share
            losses["loss"] = losses["loss"] + extra * share
        return losses
