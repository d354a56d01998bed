"""An objective: a module that holds the model and turns a batch into named losses; what compile, DDP and FSDP wrap.

`loss` is what is minimised; the other names are reported. Every value is already divided by the counts of the whole
step (`divisors`, by unit, over all micro-batches and ranks), so the values of the parts add up to those of the step.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from qkv.data.batch import Batch
from qkv.models.base import Model
from qkv.random import Noise

Losses = dict[str, Float[Tensor, ""]]


class Objective(nn.Module, ABC):
    """What is minimised. `separable`: the gradient is the same however a step's batch is split."""

    kind: ClassVar[str] = "objective"
    separable: ClassVar[bool] = True

    def __init__(self, model: Model, /) -> None:
        super().__init__()
        self.model = model

    @abstractmethod
    def forward(self, batch: Batch, divisors: Mapping[str, int], noise: Noise | None = None) -> Losses:
        """The part of the step's losses that this part of its batch gives."""
