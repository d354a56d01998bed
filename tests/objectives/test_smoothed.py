"""The chunked loss equals the readable one and PyTorch's own, value and gradient, and never holds all logits."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from qkv.objectives.smoothed import plain_smoothed, smoothed

N, D, V = 23, 8, 31


def inputs(dtype: torch.dtype, bias: bool, rows: int = N) -> tuple[Tensor, Tensor, Tensor | None, Tensor, Tensor]:
    """Hidden vectors, projection, bias, targets, and which positions are real."""
    hidden = torch.randn(rows, D, dtype=dtype, requires_grad=True)
    weight = torch.randn(V, D, dtype=dtype, requires_grad=True)
    offset = torch.randn(V, dtype=dtype, requires_grad=True) if bias else None
    return hidden, weight, offset, torch.randint(V, (rows,)), torch.rand(rows) < 0.7


def gradients(loss: Tensor, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> list[Tensor]:
    return list(torch.autograd.grad(3 * loss, [t for t in (hidden, weight, bias) if t is not None]))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("chunk", [1, V, 3 * V, 7 * V + 5, 10**9])
@pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_it_equals_the_readable_one(
    dtype: torch.dtype, within: float, chunk: int, bias: bool, smoothing: float
) -> None:
    hidden, weight, offset, targets, real = inputs(dtype, bias)
    loss, nll = smoothed(hidden, weight, offset, targets, real, smoothing, chunk)
    wanted, wanted_nll = plain_smoothed(hidden, weight, offset, targets, real, smoothing)
    torch.testing.assert_close(loss, wanted, rtol=within, atol=0)
    torch.testing.assert_close(nll, wanted_nll, rtol=within, atol=0)
    for mine, theirs in zip(
        gradients(loss, hidden, weight, offset), gradients(wanted, hidden, weight, offset), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=within, atol=within * float(theirs.abs().max()))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_it_equals_pytorch_s_own(smoothing: float) -> None:
    hidden, weight, offset, targets, real = inputs(torch.float64, bias=True)
    loss, nll = smoothed(hidden, weight, offset, targets, real, smoothing, 2 * V)
    logits = F.linear(hidden, weight, offset)
    masked = targets.masked_fill(~real, -100)
    theirs = F.cross_entropy(logits, masked, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss, theirs, rtol=1e-10, atol=0)
    torch.testing.assert_close(nll, F.cross_entropy(logits, masked, reduction="sum"), rtol=1e-10, atol=0)
    for mine, other in zip(
        gradients(loss, hidden, weight, offset), gradients(theirs, hidden, weight, offset), strict=True
    ):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-10)


def test_bf16_computes_the_loss_in_fp32() -> None:
    hidden, weight, _, targets, real = inputs(torch.bfloat16, bias=False)
    loss, nll = smoothed(hidden, weight, None, targets, real, 0.1, 5 * V)
    assert loss.dtype == nll.dtype == torch.float32
    wide = [t.detach().double().requires_grad_() for t in (hidden, weight)]
    wanted, _ = plain_smoothed(wide[0], wide[1], None, targets, real, 0.1)
    torch.testing.assert_close(loss.double(), wanted, rtol=0.01, atol=0)
    for mine, theirs in zip(gradients(loss, hidden, weight, None), gradients(wanted, *wide, None), strict=True):
        assert mine.dtype == torch.bfloat16
        assert float((mine.double() - theirs).norm() / theirs.norm()) < 0.01


def test_padding_adds_nothing() -> None:
    hidden, weight, _, targets, real = inputs(torch.float64, bias=False)
    loss, nll = smoothed(hidden, weight, None, targets, real, 0.1, 4 * V)
    alone, alone_nll = smoothed(
        hidden[real], weight, None, targets[real], torch.ones(int(real.sum()), dtype=torch.bool), 0.1
    )
    torch.testing.assert_close(loss, alone)
    torch.testing.assert_close(nll, alone_nll)
    (d_hidden,) = torch.autograd.grad(loss, [hidden])
    assert not d_hidden[~real].any()
    nothing, _ = smoothed(hidden, weight, None, targets, torch.zeros_like(real), 0.1)
    assert nothing.item() == 0


def test_a_part_that_is_not_learned_gets_no_gradient() -> None:
    hidden, weight, offset, targets, real = inputs(torch.float64, bias=True)
    assert offset is not None
    fixed = smoothed(hidden, weight.detach(), offset.detach(), targets, real, 0.1)[0]
    wanted = plain_smoothed(hidden, weight, offset, targets, real, 0.1)[0]
    torch.testing.assert_close(torch.autograd.grad(fixed, hidden), torch.autograd.grad(wanted, hidden))


def test_only_the_loss_can_be_learned_from() -> None:
    hidden, weight, _, targets, real = inputs(torch.float32, bias=False)
    loss, nll = smoothed(hidden, weight, None, targets, real, 0.1)
    assert loss.requires_grad
    assert not nll.requires_grad
    (slope,) = torch.autograd.grad(loss.square(), hidden, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


class Largest(TorchDispatchMode):
    """The most elements that any tensor had, and how often the weights were multiplied."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = self.products = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.products += func in (torch.ops.aten.mm.default, torch.ops.aten.mm.out, torch.ops.aten.addmm.default)
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, Tensor):
                self.elements = max(self.elements, tensor.numel())
        return out


def test_the_logits_are_never_whole() -> None:
    rows, chunk = 40 * V, 4 * V
    hidden, weight, _, targets, real = inputs(torch.float32, bias=False, rows=rows)
    with Largest() as seen:
        smoothed(hidden, weight, None, targets, real, 0.1, chunk)[0].backward()
    assert seen.elements == max(rows * D, chunk)
    assert seen.elements < rows * V / 3
    with Largest() as seen:
        plain_smoothed(hidden, weight, None, targets, real, 0.1)[0].backward()
    assert seen.elements == rows * V


def test_scoring_makes_no_gradients() -> None:
    hidden, weight, _, targets, real = inputs(torch.float32, bias=False)
    with torch.no_grad(), Largest() as scoring:
        loss, _ = smoothed(hidden, weight, None, targets, real, 0.0)
    assert not loss.requires_grad
    with Largest() as learning:
        smoothed(hidden, weight, None, targets, real, 0.0)
    assert (scoring.products, learning.products) == (1, 3)
