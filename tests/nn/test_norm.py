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


def test_statistics_of_narrow_rows_are_taken_in_fp32() -> None:
    """Rounded once, at the end: also where the weights are narrow too."""
    x = (torch.randn(4, 512) * 3).bfloat16()
    exact = RMSNorm(512)(x.float()).bfloat16()
    assert torch.equal(RMSNorm(512)(x), exact) and torch.equal(RMSNorm(512).bfloat16()(x), exact)
    narrow = LayerNorm(512)(x)
    assert narrow.dtype == torch.bfloat16
    torch.testing.assert_close(narrow.float(), LayerNorm(512)(x.float()), rtol=0.005, atol=0.005)
