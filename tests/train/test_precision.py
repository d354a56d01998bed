"""The policy of number formats: fp32 masters, one cast a step, norms in fp32, parts that add up in fp32."""

from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from qkv.nn.norm import LayerNorm
from qkv.train.precision import Masters


class Small(nn.Module):
    """A matrix, a norm, and a table that two places share."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(6, 4)
        self.norm = LayerNorm(4)
        self.inner = nn.Linear(4, 4)
        self.output = nn.Linear(4, 6, bias=False)
        self.output.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.output(self.norm(self.inner(self.table(ids))))
        return out


class Casts(TorchDispatchMode):
    """How many tensors go from fp32 to bf16."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in (torch.ops.aten._to_copy.default, torch.ops.aten.to.dtype):
            self.count += args[0].dtype == torch.float32 and out.dtype == torch.bfloat16
        if func is torch.ops.aten._foreach_copy_.default:
            self.count += sum(
                a.dtype == torch.bfloat16 and b.dtype == torch.float32 for a, b in zip(args[0], args[1], strict=True)
            )
        return out


def test_fp32_learns_the_model_s_own() -> None:
    model = Small()
    masters = Masters(model, "fp32")
    assert all(masters.parameters[name] is p for name, p in model.named_parameters())
    assert len(masters.parameters) == 5


def test_bf16_keeps_norms_and_masters_in_fp32() -> None:
    model = Small()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    masters = Masters(model, "bf16")
    kinds = {name: p.dtype for name, p in model.named_parameters()}
    assert {name for name, kind in kinds.items() if kind == torch.float32} == {"norm.weight", "norm.bias"}
    assert masters.parameters["norm.weight"] is model.norm.weight
    for name, master in masters.parameters.items():
        assert master.dtype == torch.float32
        assert torch.equal(master.detach(), before[name])
    assert model.output.weight is model.table.weight
    assert masters.parameters.keys() == {"table.weight", "norm.weight", "norm.bias", "inner.weight", "inner.bias"}


def test_a_step_casts_each_weight_once() -> None:
    model = Small()
    masters = Masters(model, "bf16")
    with Casts() as seen:
        for _ in range(3):
            model(torch.tensor([1, 2])).sum().backward()
            masters.collect()
        masters.clear()
        masters.spread()
    narrow = sum(p.dtype == torch.bfloat16 for p in model.parameters())
    assert seen.count == narrow == 3


def test_parts_add_up_in_fp32() -> None:
    model = nn.Linear(1, 1, bias=False)
    masters = Masters(model, "bf16")
    # In bf16, 256 + 1 is 256.
    for value in (256.0, 1.0, 1.0):
        model.weight.grad = torch.full((1, 1), value, dtype=torch.bfloat16)
        masters.collect()
        assert model.weight.grad is None
    master = masters.parameters["weight"]
    assert master.grad is not None
    assert master.grad.dtype == torch.float32
    assert master.grad.item() == 258.0
    masters.clear()
    assert master.grad is None


def test_steps_too_small_for_bf16_are_not_lost() -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    masters = Masters(model, "bf16")
    for _ in range(100):
        with torch.no_grad():
            masters.parameters["weight"] += 1e-4
        masters.spread()
    assert model.weight.dtype == torch.bfloat16
    assert abs(model.weight.item() - 1.01) < 0.005
    assert abs(masters.parameters["weight"].item() - 1.01) < 1e-5


def test_what_is_loaded_computes_at_once() -> None:
    model, other = Small(), Small()
    masters = Masters(model, "bf16")
    masters.load({name: p.detach() for name, p in other.named_parameters()})
    for name, tensor in masters.tensors().items():
        assert torch.equal(tensor, other.get_parameter(name).detach())
        assert torch.equal(
            model.get_parameter(name).detach().float(), tensor.to(model.get_parameter(name).dtype).float()
        )
