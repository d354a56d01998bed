"""Optimizers: Adam by its paper's equations and PyTorch's plain kernel; AdamW decays matrices alone."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.optim import Optimizer

from qkv.config import part


def parameters() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(4)
    return [nn.Parameter(torch.randn(*shape, generator=generator)) for shape in ((5, 3), (3,))]


def gradients(steps: int) -> Iterator[list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(5)
    for _ in range(steps):
        yield [torch.randn(5, 3, generator=generator), torch.randn(3, generator=generator)]


def stepped(optimizer: Optimizer, given: list[nn.Parameter], steps: int = 20) -> list[nn.Parameter]:
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    for step in gradients(steps):
        for parameter, gradient in zip(given, step, strict=True):
            parameter.grad = gradient
        optimizer.step()
    return given


def test_adam_has_the_paper_s_settings() -> None:
    options = part("optimizer", "adam").options
    assert (options["beta_1"], options["beta_2"], options["epsilon"]) == (0.9, 0.98, 1e-9)


def test_adam_equals_pytorch_s_plain_one() -> None:
    mine, theirs = parameters(), parameters()
    stepped(part("optimizer", "adam").build(mine), mine)
    stepped(torch.optim.Adam(theirs, betas=(0.9, 0.98), eps=1e-9, foreach=False, fused=False), theirs)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_adam_is_its_equations() -> None:
    (mine, _), first, second = (given := parameters()), 0.0, 0.0
    wanted = mine.detach().double().clone()
    for number, (gradient, _) in enumerate(gradients(20), 1):
        first = 0.9 * first + 0.1 * gradient.double()
        second = 0.98 * second + 0.02 * gradient.double() ** 2
        wanted -= 0.01 * (first / (1 - 0.9**number)) / ((second / (1 - 0.98**number)).sqrt() + 1e-9)
    stepped(part("optimizer", "adam").build(given), given)
    torch.testing.assert_close(mine.detach().double(), wanted, rtol=1e-4, atol=1e-5)


def test_adamw_decays_matrices_and_no_vectors() -> None:
    still = parameters()
    before = [p.detach().clone() for p in still]
    optimizer = part("optimizer", {"name": "adamw", "decay": 0.5}).build(still)
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    for parameter in still:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    torch.testing.assert_close(still[0].detach(), before[0] * (1 - 0.1 * 0.5))
    assert torch.equal(still[1].detach(), before[1])


def test_adamw_without_decay_is_adam() -> None:
    mine, theirs = parameters(), parameters()
    stepped(part("optimizer", {"name": "adamw", "decay": 0.0}).build(mine), mine)
    stepped(part("optimizer", {"name": "adam", "epsilon": 1e-8}).build(theirs), theirs)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other)
