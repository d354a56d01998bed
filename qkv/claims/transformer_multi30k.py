"""Transformer-Tiny on Multi30k: the published score again, over three seeds (Wu et al. 2021, arXiv 2105.14462)."""

import statistics
from collections.abc import Iterator
from pathlib import Path

from qkv.claims.bench import Bench, Trained
from qkv.claims.claim import Check, Claim
from qkv.data.lines import lines
from qkv.metrics.text import bleu

RECIPE = Path("recipes/transformer/multi30k-tiny.yaml")
PUBLISHED, FLOOR, SEEDS = 41.02, 41.0, (1, 2, 3)
TEST = "tok.test_2016_flickr.{}.gz"


def run(bench: Bench) -> Iterator[Check]:
    from qkv import config

    folder = bench.data("multi30k")
    tree = config.read(RECIPE)
    scores = []
    for seed in SEEDS:
        given = config.merged(tree, {"data": {"folder": str(folder)}, "train": {"seed": seed}})
        scores.append(_bleu(bench.train(f"multi30k seed {seed}", given), folder))
        yield Check(f"BLEU on test_2016_flickr, seed {seed}", scores[-1], paper=f"{PUBLISHED}")
    mean, spread = statistics.mean(scores), statistics.stdev(scores)
    yield Check("mean", mean, paper=f"{PUBLISHED}")
    yield Check("mean and one standard deviation", mean + spread, low=FLOOR, paper=f"{PUBLISHED}")


def _bleu(trained: Trained, folder: Path) -> float:
    sources, references = (list(lines(folder / TEST.format(lang))) for lang in ("en", "de"))
    said = list(trained.load().translate_lines(sources))
    return bleu(said, [references], tokenize="none").score()


claim = Claim(
    "Wu et al. 2021, arXiv 2105.14462, Table 2: Transformer-Tiny, text only, English to German",
    "4+4 layers of width 128 reach the published BLEU of 41.02 on test2016: mean and one deviation of three seeds",
    200.0,
    run,
)
