"""What label smoothing does to a model that is right: it is taught doubt, by a known amount ("Attention Is All You
Need", 5.4; Szegedy et al. 2016)."""

from collections.abc import Iterator, Sequence
from functools import partial
from math import log
from typing import Any

from qkv.claims.bench import Bench
from qkv.claims.claim import Check, Claim
from qkv.data.synthetic import reversals, write_pairs

WORDS, LONGEST = 40, 8
SMOOTHINGS = (0.0, 0.1, 0.2)


def run(bench: Bench) -> Iterator[Check]:
    train = reversals(40_000, vocabulary=WORDS, shortest=1, longest=LONGEST, seed=1)
    unseen = reversals(500, vocabulary=WORDS, shortest=1, longest=LONGEST, seed=2)
    files = [
        str(bench.file(f"reverse-{name}.tsv", partial(write_pairs, pairs=pairs)))
        for name, pairs in (("train", train), ("dev", unseen))
    ]
    for smoothing in SMOOTHINGS:
        trained = bench.train(f"smoothing {smoothing}", tree(files, smoothing))
        vocabulary = trained.load().target.size
        floor = -log(1 - smoothing + smoothing / vocabulary)
        yield Check.near(f"-log p a token at smoothing {smoothing}", trained.nll(), floor, 0.02)
        yield Check(f"sentences right at smoothing {smoothing}", trained.right(unseen), low=0.99)


def tree(files: Sequence[str], smoothing: float) -> dict[str, Any]:
    """Two layers of width 128 and no dropout, to where the loss has settled."""
    return {
        "data": {"train": files[0], "dev": files[1], "tokenizer": "words"},
        "model": {
            "name": "transformer",
            "width": 128,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "mixer": {"heads": 4},
            "feedforward": {"hidden": 256},
            "dropout": 0.0,
            "order": "pre",
            "position": "rotary",
        },
        "objective": {"smoothing": smoothing},
        "schedule": {"name": "cosine", "peak": 0.002, "warmup": 100},
        "train": {"max_steps": 1500, "max_tokens": 1024, "precision": "fp32", "validate_every": 500},
        "decode": {"num_beams": 1},
    }


claim = Claim(
    "Vaswani et al. 2017, arXiv 1706.03762, 5.4: smoothing hurts perplexity, as the model learns to be more unsure",
    "on a task with one right answer, -log p of it settles at -ln(1 - e + e/V), and the answers stay right",
    6.0,
    run,
)
