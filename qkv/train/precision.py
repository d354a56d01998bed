"""Which numbers compute: bf16 weights made once a step from fp32 masters, norms and losses in fp32; or fp32 throughout.

The model holds what computes; the masters are what is learned, saved and averaged. A gradient is widened as soon as it
is made, so that the parts of a step add up in fp32.
"""

import torch
from torch import Tensor, nn

from qkv.runtime import Precision


class Masters:
    """The fp32 parameters behind a model's own, which become bf16 when the policy says so."""

    def __init__(self, model: nn.Module, precision: Precision, /) -> None:
        self.model, self.precision = model, precision
        full = dict(model.named_parameters())
        if precision == "fp32":
            self.parameters = full
            self._pairs: list[tuple[nn.Parameter, nn.Parameter]] = []
            return
        narrow_modules = [m for m in model.modules() if not getattr(m, "keep_fp32", False)]
        narrow = {id(p) for module in narrow_modules for p in module.parameters(recurse=False)}
        self.parameters, self._pairs = {}, []
        for name, parameter in full.items():
            if id(parameter) not in narrow:
                self.parameters[name] = parameter
                continue
            master = nn.Parameter(parameter.detach().clone(), requires_grad=parameter.requires_grad)
            parameter.data = parameter.detach().to(torch.bfloat16)
            self.parameters[name] = master
            self._pairs.append((master, parameter))

    def collect(self) -> None:
        """The gradients of one part of a step, widened and added; the model's own are dropped."""
        for master, parameter in self._pairs:
            if parameter.grad is None:
                continue
            if master.grad is None:
                master.grad = parameter.grad.to(master.dtype)
            else:
                master.grad += parameter.grad
            parameter.grad = None

    @torch.no_grad()
    def spread(self) -> None:
        """What was learned, into the model that computes: the one cast of a step."""
        if self._pairs:
            torch._foreach_copy_([p for _, p in self._pairs], [m for m, _ in self._pairs])

    def clear(self) -> None:
        """No gradients, for the next step."""
        for master in self.parameters.values():
            master.grad = None

    def tensors(self) -> dict[str, Tensor]:
        """Every master by its name in the model."""
        return {name: master.detach() for name, master in self.parameters.items()}

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        """Masters from a checkpoint, and the model from them."""
        assert tensors.keys() == self.parameters.keys(), "a checkpoint of another model"
        for name, master in self.parameters.items():
            master.copy_(tensors[name])
        self.spread()
