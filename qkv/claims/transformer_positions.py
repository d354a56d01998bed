"""What positions are for, and why sinusoids: a model without them can't tell order, and any fixed offset is one linear
map ("Attention Is All You Need", 3.5 and Table 3, row E)."""

from collections.abc import Iterator
from functools import partial

from qkv.claims.bench import Bench
from qkv.claims.claim import Check, Claim
from qkv.claims.transformer_label_smoothing import LONGEST, WORDS, tree
from qkv.data.synthetic import reversals, write_pairs

KINDS = ("sinusoidal", "learned", "rotary", "relative")


def run(bench: Bench) -> Iterator[Check]:
    yield Check("sinusoids: largest error of one linear map per offset", offset_error(), high=1e-4)
    train = reversals(40_000, vocabulary=WORDS, shortest=1, longest=LONGEST, seed=1)
    unseen = reversals(500, vocabulary=WORDS, shortest=LONGEST // 2, longest=LONGEST, seed=2)
    files = [
        str(bench.file(f"positions-{name}.tsv", partial(write_pairs, pairs=pairs)))
        for name, pairs in (("train", train), ("dev", unseen))
    ]
    for kind in ("none", *KINDS):
        given = tree(files, 0.0)
        given["model"] = {**given["model"], "position": kind}
        right = bench.train(f"positions {kind}", given).right(unseen)
        if kind == "none":
            # Without positions the encoder sees a bag of words, which may be said backwards in many ways.
            yield Check("sentences reversed without positions", right, high=0.5)
        elif kind == "sinusoidal":
            yield Check("sentences reversed with sinusoidal positions", right, low=0.95, paper="25.8 BLEU, base")
        else:
            paper = "25.7 BLEU" if kind == "learned" else ""
            yield Check(f"sentences reversed with {kind} positions", right, paper=paper)


def offset_error(width: int = 64, positions: int = 200, offset: int = 17) -> float:
    """How far PE(p + k) is from M_k PE(p), with M_k a rotation of each pair of channels that knows only k."""
    import torch

    from qkv.nn.positions import sinusoid

    table = sinusoid(torch.arange(positions + offset), width).double()
    exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
    turn = offset * 10_000.0**-exponents
    sine, cosine = table[:positions, 0::2], table[:positions, 1::2]
    turned = torch.stack([sine * turn.cos() + cosine * turn.sin(), cosine * turn.cos() - sine * turn.sin()], dim=-1)
    return float((turned.flatten(-2) - table[offset : offset + positions]).abs().max())


claim = Claim(
    "Vaswani et al. 2017, arXiv 1706.03762, 3.5 and Table 3, row E",
    "sinusoids make every offset a linear map; without positions order is lost; learned ones do as well as sinusoids",
    12.0,
    run,
)
