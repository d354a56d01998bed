"""How many numbers the Transformers of the paper have: its tables, from the real modules ("Attention Is All You Need",
Table 3)."""

from collections.abc import Iterator
from typing import Any

from qkv.claims.bench import Bench
from qkv.claims.claim import Check, Claim

LEAN = {"name": "attention", "bias": False}
PAPER_VOCABULARY = 37_000  # section 5.1
TABLE_VOCABULARY = 40_800  # with which Table 3's own 65 million come out
ROWS: dict[str, tuple[dict[str, Any], float, str]] = {
    "base": ({}, 65.0, "65"),
    "key width 16": ({"mixer": {**LEAN, "key_width": 16}}, 57.9, "58"),
    "key width 32": ({"mixer": {**LEAN, "key_width": 32}}, 60.3, "60"),
    "2 layers": ({"encoder_layers": 2, "decoder_layers": 2}, 35.6, "36"),
    "4 layers": ({"encoder_layers": 4, "decoder_layers": 4}, 50.3, "50"),
    "8 layers": ({"encoder_layers": 8, "decoder_layers": 8}, 79.7, "80"),
    "width 256": ({"width": 256}, 27.8, "28"),
    "width 1024": ({"width": 1024}, 167.7, "168"),
    "feed-forward 1024": ({"feedforward": {"hidden": 1024}}, 52.4, "53"),
    "feed-forward 4096": ({"feedforward": {"hidden": 4096}}, 90.2, "90"),
    "big": ({"preset": "big"}, 218.1, "213"),
}


def run(bench: Bench) -> Iterator[Check]:
    for name, expected in (("base", 63.05), ("big", 214.2)):
        millions = _millions(PAPER_VOCABULARY, {"preset": name})
        yield Check.near(f"{name}, {PAPER_VOCABULARY:,} tokens (millions)", millions, expected, 0.05)
    for name, (options, expected, paper) in ROWS.items():
        millions = _millions(TABLE_VOCABULARY, {"preset": "base", **options})
        yield Check.near(f"{name}, {TABLE_VOCABULARY:,} tokens (millions)", millions, expected, 0.05, paper)


def _millions(vocabulary: int, options: dict[str, Any]) -> float:
    import torch

    from qkv.config import part
    from qkv.models.base import Sizes, outline, parameters

    chosen = part("model", {"name": "transformer", **options})
    with torch.device("meta"):
        return parameters(outline(chosen, Sizes(vocabulary, vocabulary))) / 1e6


claim = Claim(
    "Vaswani et al. 2017, arXiv 1706.03762, Table 3",
    "base and big have the paper's sizes; its column of parameters follows from the modules, but for two roundings",
    0.0,
    run,
)
