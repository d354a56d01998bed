"""What every model is: a module of kind `model`, built from a part of the config and the sizes that the data gives."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from qkv.config import Part
from qkv.errors import BundleError
from qkv.nn.dropout import name_places
from qkv.nn.init import initialise


@dataclass(frozen=True)
class Sizes:
    """What the data tells a model's builder: how many different tokens there are on each side."""

    source: int = 0
    target: int = 0


class Model(nn.Module):
    """A paper's whole network: answers the protocols of `qkv.models.protocols`, knows no tokenizer and no loss."""

    kind: ClassVar[str] = "model"


def build(part: Part[Model], sizes: Sizes, seed: int) -> Model:
    """A model with its places named and its first weights drawn."""
    model = outline(part, sizes)
    initialise(model, seed)
    return model


def outline(part: Part[Any], sizes: Sizes) -> Model:
    """A model whose weights are about to be loaded, or, on the meta device, only counted."""
    model: Model = part.build(sizes)
    name_places(model)
    return model


def parameters(model: nn.Module) -> int:
    """How many numbers are learned; a shared table counts once."""
    return sum(p.numel() for p in model.parameters())


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Every number that makes the model what it is, by name, a shared one once: parameters, and kept buffers."""
    kept = set(model.state_dict(keep_vars=True))
    buffers = {name: b for name, b in model.named_buffers() if name in kept}
    return {name: t.detach() for name, t in {**dict(model.named_parameters()), **buffers}.items()}


@torch.no_grad()
def load_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copies tensors into a model; a name or shape too many, too few or different fails by name."""
    mine = weights(model)
    missing, foreign = sorted(mine.keys() - tensors.keys()), sorted(tensors.keys() - mine.keys())
    if missing or foreign:
        raise BundleError(
            f"the weights do not fit the model: missing {missing[:3]}, unknown {foreign[:3]}; "
            "are config and weights of one model?"
        )
    for name, tensor in mine.items():
        if tensor.shape != tensors[name].shape:
            raise BundleError(
                f"{name} has shape {list(tensors[name].shape)}, the model wants {list(tensor.shape)}; "
                "are config and weights of one model?"
            )
    for name, tensor in mine.items():
        tensor.copy_(tensors[name])
