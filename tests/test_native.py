"""Our kernels: the plain paths' equals, made once for a machine, and never needed."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from qkv import native
from qkv.nn.call import Layout
from qkv.nn.functional import attend
from qkv.objectives.smoothed import softened_
from qkv.random import Noise, dropped

TYPES = [(torch.float32, 2e-6), (torch.bfloat16, 8e-3)]


@pytest.fixture(autouse=True)
def kernels() -> None:
    assert native.library() is not None, native.state()


def close(mine: Tensor, theirs: Tensor, within: float) -> None:
    assert mine.dtype == theirs.dtype
    scale = float(theirs.double().abs().max())
    torch.testing.assert_close(mine.double(), theirs.double(), rtol=within, atol=within * scale)


@pytest.mark.parametrize(("dtype", "within"), TYPES)
@pytest.mark.parametrize("shape", [(3, 5, 64), (3, 5, 7), (3, 4, 5, 33), (2, 16), (2, 3, 31), (1, 1, 1)])
def test_dropout_drops_what_the_plain_one_drops(shape: tuple[int, ...], dtype: torch.dtype, within: float) -> None:
    x = torch.randn(shape).to(dtype).requires_grad_()
    noise, slope = Noise(3, 5, torch.arange(7, 7 + shape[0])), torch.randn(shape).to(dtype)
    found = []
    for plain in (False, True):
        with native.switched_off() if plain else torch.enable_grad():
            assert native.serves(x) != plain
            y = dropped(x, 0.3, noise, 11)
            found.append((y.detach(), torch.autograd.grad(y, x, slope)[0]))
    for mine, theirs in zip(*found, strict=True):
        assert torch.equal(mine == 0, theirs == 0)
        close(mine, theirs, within)


def test_what_is_narrowed_is_rounded_to_nearest() -> None:
    x = torch.randn(4, 64, 64).bfloat16()
    y = dropped(x, 0.25, Noise(3, 5, torch.arange(4)), 2)
    assert torch.equal(y, torch.where(y == 0, 0.0, (x.float() * (4 / 3)).bfloat16()))


def test_dropout_of_what_does_not_lie_densely() -> None:
    x = torch.randn(4, 6, 8).transpose(0, 1)
    noise = Noise(3, 5, torch.arange(6), positions=torch.randint(9, (6, 4)))
    mine = dropped(x, 0.5, noise, 2)
    with native.switched_off():
        assert torch.equal(mine, dropped(x, 0.5, noise, 2))


@pytest.mark.parametrize(("dtype", "within"), TYPES)
@pytest.mark.parametrize("vocabulary", [31, 64, 1000])
@pytest.mark.parametrize("gradient", [False, True])
def test_the_loss_softens_like_the_plain_one(
    gradient: bool, vocabulary: int, dtype: torch.dtype, within: float
) -> None:
    logits = (5 * torch.randn(17, vocabulary)).to(dtype)
    targets, real = torch.randint(vocabulary, (17,)), torch.rand(17) < 0.7
    targets[0] = vocabulary - 1
    mine, theirs = logits.clone(), logits.clone()
    got = softened_(mine, targets, real, 0.1, gradient, None)
    wanted = softened_(theirs, targets, real, 0.1, gradient, torch.empty(17, vocabulary))
    for a, b in zip(got, wanted, strict=True):
        close(a, b, 1e-5)
    close(mine, theirs, within)
    if gradient:
        assert not mine[~real].any()


def test_a_logit_that_is_no_number_is_not_hidden() -> None:
    for bad in (float("nan"), float("inf")):
        logits = torch.randn(3, 40)
        logits[1, 7] = bad
        log_z, _ = softened_(logits, torch.zeros(3, dtype=torch.long), torch.ones(3, dtype=torch.bool), 0.1, True, None)
        assert log_z.isfinite().flatten().tolist() == [True, False, True]


SHAPES = [  # rows, heads, key heads, queries, keys, key width, value width
    (3, 4, 4, 14, 14, 32, 32),
    (2, 4, 2, 5, 21, 8, 12),
    (2, 6, 1, 37, 37, 64, 64),
    (1, 2, 2, 2, 1, 3, 5),
    (2, 2, 2, 70, 33, 16, 80),
]


@pytest.mark.parametrize(("dtype", "within"), TYPES)
@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention_over_short_rows_is_attention(
    shape: tuple[int, ...], causal: bool, rate: float, dtype: torch.dtype, within: float
) -> None:
    rows, heads, groups, queries, keys, key_width, value_width = shape
    q, k, v = (
        torch.randn(rows, length, count, width).transpose(1, 2).to(dtype).requires_grad_()
        for length, count, width in (
            (queries, heads, key_width),
            (keys, groups, key_width),
            (keys, groups, value_width),
        )
    )
    layout = Layout(causal=causal, lengths=torch.randint(1, keys + 1, (rows,)))
    noise, slope = Noise(3, 5, torch.arange(rows)), torch.randn(rows, heads, queries, value_width).to(dtype)
    found = []
    for plain in (False, True):
        with native.switched_off() if plain else torch.enable_grad():
            y, _ = attend(q, k, v, layout, rate=rate, noise=noise, place=4)
            assert ("_Short" in type(y.grad_fn).__name__) != plain
            found.append((y.detach(), *torch.autograd.grad(y, (q, k, v), slope)))
    for mine, theirs in zip(*found, strict=True):
        close(mine, theirs, 2 * within)


def test_a_row_without_keys_looks_at_all_alike() -> None:
    q, k, v = (torch.randn(2, 1, 3, 8, requires_grad=True) for _ in range(3))
    layout = Layout(lengths=torch.tensor([0, 2]))
    y, _ = attend(q, k, v, layout)
    torch.testing.assert_close(y[0], v[0].mean(1, keepdim=True).expand_as(y[0]))
    d_q, d_k, _ = torch.autograd.grad(y[0].sum(), (q, k, v))
    assert not d_q[0].any()
    assert not d_k[0].any()


def test_attention_hides_nothing_that_is_no_number() -> None:
    q, k, v = (torch.randn(2, 1, 4, 8) for _ in range(3))
    k[1, 0, 2, 3] = float("nan")
    y, _ = attend(q, k, v, Layout())
    assert y[0].isfinite().all()
    assert y[1].isnan().all()


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_change_nothing(threads: int) -> None:
    q, k, v = (torch.randn(5, 3, 9, 8, requires_grad=True) for _ in range(3))
    one = attend(q, k, v, Layout(causal=True))[0]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        many = attend(q, k, v, Layout(causal=True))[0]
        slopes = torch.autograd.grad(many.square().sum(), (q, k, v))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(one, many)
    for a, b in zip(slopes, torch.autograd.grad(one.square().sum(), (q, k, v)), strict=True):
        assert torch.equal(a, b)


def test_what_they_serve() -> None:
    assert native.serves(torch.zeros(1), torch.zeros(2))
    assert native.serves(torch.nn.Parameter(torch.zeros(1, dtype=torch.bfloat16)))
    assert not native.serves(torch.zeros(1, dtype=torch.float64))
    assert not native.serves(torch.zeros(1), torch.zeros(1, dtype=torch.bfloat16))
    assert not native.serves(torch.zeros(1, device="meta"))


def alone(code: str, **environment: str) -> str:
    """What a process of its own prints; coverage and the type checks of this one do not reach it."""
    run = [sys.executable, "-c", f"from qkv import native\n{code}"]
    found = subprocess.run(run, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return found.stdout.strip()


STATE = "print(native.library() is None, native.state(), sep='|')"


def test_without_them_it_says_why(tmp_path: Path) -> None:
    assert alone(STATE, QKV_NATIVE="0") == "True|none: QKV_NATIVE=0"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no C++ compiler" in alone(STATE, PATH=str(empty), CXX="")
    assert alone(STATE, XDG_CACHE_HOME="/dev/null").startswith("True|none: [Errno")
    broken = tmp_path / "g++"
    broken.write_text("#!/bin/sh\necho no such option >&2\nexit 1\n")
    broken.chmod(0o755)
    assert "no such option" in alone(STATE, CXX=str(broken), XDG_CACHE_HOME=str(tmp_path))


def test_they_are_compiled_once(tmp_path: Path) -> None:
    assert alone(STATE, XDG_CACHE_HOME=str(tmp_path)) == "False|compiled"
    (made,) = (tmp_path / "qkv").iterdir()
    ctypes.CDLL(str(made))
    before = made.stat().st_mtime_ns
    assert alone(STATE, XDG_CACHE_HOME=str(tmp_path)) == "False|compiled"
    assert made.stat().st_mtime_ns == before
