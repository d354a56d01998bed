"""Norms against their formulas, in fp32 and with narrower rows than weights."""

import torch

from qkv.nn.norm import LayerNorm, RMSNorm


def test_layer_norm_by_formula() -> None:
    x, norm = torch.randn(3, 5, 8) * 4 + 2, LayerNorm(8, epsilon=0.1)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    mean = x.mean(-1, keepdim=True)
    deviation = ((x - mean).square().mean(-1, keepdim=True) + 0.1).sqrt()
    torch.testing.assert_close(norm(x), (x - mean) / deviation * norm.weight + norm.bias)


def test_rms_norm_by_formula() -> None:
    x, norm = torch.randn(3, 5, 8) * 4 + 2, RMSNorm(8, epsilon=0.1)
    torch.nn.init.normal_(norm.weight)
    torch.testing.assert_close(norm(x), x / (x.square().mean(-1, keepdim=True) + 0.1).sqrt() * norm.weight)


def test_statistics_are_taken_in_fp32() -> None:
    """256 + a small number is 256 in bf16: a narrow sum of squares would lose most of it."""
    x = torch.full((1, 512), 0.1).bfloat16()
    x[0, 0] = 16.0
    for norm in (RMSNorm(512), RMSNorm(512).bfloat16(), LayerNorm(512)):
        exact = norm.float()(x.float())
        narrow = (norm.bfloat16() if isinstance(norm, RMSNorm) else norm)(x)
        torch.testing.assert_close(narrow.float(), exact, rtol=0.005, atol=0.005)
        assert narrow.dtype == torch.bfloat16
