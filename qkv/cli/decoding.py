"""The flags of decoding, the same for every verb that decodes; what is not given is the model's own default."""

import argparse
from typing import TYPE_CHECKING, Any

from qkv.cli.options import Parser

if TYPE_CHECKING:
    from qkv.pipeline.translator import Options, Translator

VALUES = {
    "num_beams": ("N", "how many translations of a line are kept while searching; 1 is greedy and fastest"),
    "length_norm": ("NAME", "how scores of different lengths compare: gnmt, power, average or none"),
    "length_penalty": ("X", "the exponent of that; higher favours longer translations"),
    "max_new_tokens": ("N", "the longest translation, in tokens"),
    "max_length_ratio": ("X", "the longest translation: X times the source's tokens"),
    "max_length_offset": ("N", "and N more"),
    "min_new_tokens": ("N", "the shortest translation, in tokens"),
    "no_repeat_ngram_size": ("N", "never write the same N tokens twice; 0 allows it"),
    "temperature": ("X", "of sampling: below 1 is bolder in what is likely"),
    "top_k": ("N", "sample among the N most likely tokens; 0 is all"),
    "top_p": ("X", "sample among the most likely tokens that hold X of the probability"),
    "seed": ("N", "of sampling"),
}
SWITCHES = {
    "early_stopping": "stop at the first num-beams finished translations",
    "do_sample": "draw tokens by their probability instead of searching",
}


def add_flags(parser: Parser) -> None:
    """Adds `--num-beams` and its like, and how the model is held in memory."""
    group = parser.add_argument_group("decoding", "what is not given is the model's own default")
    for name, (metavar, about) in VALUES.items():
        group.add_argument(f"--{name.replace('_', '-')}", metavar=metavar, help=about)
    for name, about in SWITCHES.items():
        group.add_argument(f"--{name.replace('_', '-')}", action=argparse.BooleanOptionalAction, help=about)
    engine = parser.add_argument_group("engine")
    engine.add_argument("--precision", choices=("bf16", "fp32"), help="default: what this machine multiplies fastest")
    engine.add_argument(
        "--max-tokens", type=int, metavar="N", default=4096, help="source tokens of a batch, default 4096; less memory"
    )


def chosen(flags: argparse.Namespace) -> "Options":
    """What was said of decoding, as text that the settings themselves check."""
    from qkv.config import Raw

    found: Any = {name: Raw(value) for name in VALUES if (value := getattr(flags, name)) is not None}
    found |= {name: value for name in SWITCHES if (value := getattr(flags, name)) is not None}
    return found


def loaded(models: list[str], flags: argparse.Namespace) -> "Translator":
    """The model of some folders, on as many threads as this machine is worth."""
    import torch

    from qkv import runtime
    from qkv.pipeline.load import load

    torch.set_num_threads(runtime.threads())
    return load(*models, precision=flags.precision, max_tokens=flags.max_tokens)
