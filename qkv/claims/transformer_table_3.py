"""Table 3 in small: each row's change made to a small Transformer, its direction beside the paper's ("Attention Is All
You Need", 6.2).

On Multi30k where it lies (QKV_DATA), else on generated pairs. Equal steps for all; one seed, so that small differences
are noise: nothing here expects a winner.
"""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from qkv.claims.bench import Bench
from qkv.claims.claim import Check, Claim
from qkv.data.synthetic import reversals, write_pairs
from qkv.errors import ConfigError

STEPS = 1500
# The change, and the paper's dev BLEU beside its base's 25.8.
ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "base": ({}, "25.8"),
    "1 head": ({"model": {"mixer": {"heads": 1}}}, "24.9"),
    "16 heads": ({"model": {"mixer": {"heads": 16}}}, "25.8"),
    "key width 8": ({"model": {"mixer": {"key_width": 8}}}, "25.1 at a quarter of the width"),
    "2 layers": ({"model": {"encoder_layers": 2, "decoder_layers": 2}}, "23.7 at 2 of 6"),
    "6 layers": ({"model": {"encoder_layers": 6, "decoder_layers": 6}}, "25.5 at 8 of 6"),
    "half the width": ({"model": {"width": 64}}, "24.5"),
    "twice the feed-forward": ({"model": {"feedforward": {"hidden": 512}}}, "26.2"),
    "no dropout": ({"model": {"dropout": 0.0}}, "24.6"),
    "dropout 0.2": ({"model": {"dropout": 0.2}}, "25.5"),
    "no smoothing": ({"objective": {"smoothing": 0.0}}, "25.3"),
    "smoothing 0.2": ({"objective": {"smoothing": 0.2}}, "25.7"),
    "learned positions": ({"model": {"position": "learned"}}, "25.7"),
}


def run(bench: Bench) -> Iterator[Check]:
    from qkv import config

    data = _data(bench)
    for name, (change, paper) in ROWS.items():
        trained = bench.train(name, config.merged({**_base(), "data": data}, change))
        log = (trained.folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
        kept = min((line for line in map(json.loads, log) if "candidate" in line), key=lambda line: line["dev"]["nll"])
        yield Check(f"{name}: BLEU", kept["dev"]["bleu"], low=0.0 if name == "base" else None, paper=paper)
        yield Check(f"{name}: -log p a token", kept["dev"]["nll"])


def _base() -> dict[str, Any]:
    return {
        "model": {"name": "transformer", "preset": "tiny"},
        "objective": {"smoothing": 0.1},
        "schedule": {"name": "inverse_sqrt", "peak": 0.005, "warmup": 500},
        "train": {"max_steps": STEPS, "max_tokens": 4096, "validate_every": 500, "metric": "bleu", "average": 2},
        "decode": {"num_beams": 1},
    }


def _data(bench: Bench) -> dict[str, Any]:
    try:
        folder = bench.data("multi30k")
    except ConfigError:
        bench.say("Multi30k is not here (QKV_DATA): on generated pairs instead")
        files = {}
        for name, count, seed in (("train", 40_000, 1), ("dev", 500, 2)):
            pairs = reversals(count, vocabulary=200, shortest=3, longest=20, seed=seed)
            files[name] = str(bench.file(f"table-3-{name}.tsv", partial(write_pairs, pairs=pairs)))
        return {**files, "tokenizer": "words"}
    return {
        "folder": str(folder),
        "train": "{folder}/tok.train.{lang}.gz",
        "dev": "{folder}/tok.val.{lang}.gz",
        "source": "en",
        "target": "de",
        "tokenizer": {"name": "bpe", "merges": 10_000, "pretokenized": True, "byte_fallback": False},
    }


claim = Claim(
    "Vaswani et al. 2017, arXiv 1706.03762, Table 3 (dev BLEU of newstest2013; base 25.8)",
    "what each hyperparameter does, in small: directions beside the paper's, no winner expected",
    90.0,
    run,
)
