"""What training the paper's Transformers cost: its Table 2 rebuilt from hours and machines, beside the operations that
the recipes really count."""

from collections.abc import Iterator

from qkv.claims.bench import Bench
from qkv.claims.claim import Check, Claim

P100 = 9.5e12  # operations a second, as the paper reckons one (section 6.1, footnote 5)
GPUS = 8
LENGTH = 27  # tokens of a sentence of WMT 2014; only attention's share depends on it
# Steps, seconds a step or hours, as section 5.2 and 5.3 have them; tokens of each side a step, section 5.1.
RUNS = {"base": (100_000, 12.0, 3.28e18, 9.5e17, "3.3e18"), "big": (300_000, 84.0, 2.30e19, 9.6e18, "2.3e19")}
TOKENS = 25_000
VOCABULARY = 37_000


def run(bench: Bench) -> Iterator[Check]:
    for name, (steps, hours, printed, counted, paper) in RUNS.items():
        rebuilt = hours * 3600 * GPUS * P100
        yield Check.near(f"{name}, hours x machines x rate", rebuilt, printed, 0.01 * printed, paper)
        operations = steps * TOKENS * operations_a_pair(name)
        yield Check.near(f"{name}, operations of the recipe", operations, counted, 0.05 * counted)
        yield Check(f"{name}, share of what the machines could do", operations / rebuilt)


def operations_a_pair(preset: str, length: int = LENGTH) -> float:
    """Forward and backward, for one source and one target token, counted on the meta device."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from qkv.config import part
    from qkv.data.batch import Batch, Tokens
    from qkv.models.base import Sizes, outline
    from qkv.models.transformer import EncoderDecoder

    with torch.device("meta"):
        model = outline(part("model", {"name": "transformer", "preset": preset}), Sizes(VOCABULARY, VOCABULARY))
        assert isinstance(model, EncoderDecoder)
        ids = torch.zeros(1, length, dtype=torch.long)
        lengths = torch.full((1,), length)
        source = Tokens(ids, lengths)
        target = Tokens(torch.zeros(1, length + 1, dtype=torch.long), lengths + 1)
        counts = {"sentences": 1, "source_tokens": length, "target_tokens": length}
        batch = Batch(torch.zeros(1, dtype=torch.long), source, target, counts)
        with FlopCounterMode(display=False) as counter:
            hidden, _ = model.hidden(batch)
            weight, _ = model.projection()
            (hidden @ weight.t()).sum().backward()
    return counter.get_total_flops() / length


claim = Claim(
    "Vaswani et al. 2017, arXiv 1706.03762, Table 2 and section 6.1",
    "the printed training costs are hours x machines x an assumed rate; the recipes' own operations are less than half",
    0.1,
    run,
)
