"""First weights: Xavier for matrices, N(0, 1/D) for embeddings; each parameter's numbers keyed by seed and name.

So adding a layer, or building in another order, changes nobody else's start.
"""

import torch
from torch import nn

from qkv.random import place_of, word


def initialise(model: nn.Module, seed: int) -> None:
    """Fills every parameter; a module with a method `first_weights(generator)` fills its own."""
    done: set[int] = set()
    for name, module in model.named_modules():
        own = getattr(module, "first_weights", None)
        if own is not None:
            own(generator_for(seed, name))
            done.update(id(p) for p in module.parameters())
            continue
        for leaf, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in done:
                done.add(id(parameter))
                _fill(module, leaf, parameter, generator_for(seed, f"{name}.{leaf}"))


def generator_for(seed: int, name: str) -> torch.Generator:
    """A generator of a name's own."""
    return torch.Generator().manual_seed((word(seed, place_of(name)) << 32) | word(place_of(name), seed))


@torch.no_grad()
def _fill(module: nn.Module, leaf: str, parameter: nn.Parameter, generator: torch.Generator) -> None:
    if isinstance(module, nn.Embedding):
        nn.init.normal_(parameter, std=module.embedding_dim**-0.5, generator=generator)
    elif isinstance(module, nn.RNNBase):
        reach = module.hidden_size**-0.5
        nn.init.uniform_(parameter, -reach, reach, generator=generator)
    elif "bias" in leaf:
        nn.init.zeros_(parameter)
    elif parameter.dim() > 1:
        nn.init.xavier_uniform_(parameter, generator=generator)
    # What is left are vectors such as a norm's weight: their constructors say how they start.
