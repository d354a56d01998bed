"""A tiny random translator, for every test that wants one on the disk."""

from pathlib import Path
from typing import Any

import torch

from qkv import config
from qkv.config import Part
from qkv.data.tokenizers.base import SPECIAL_TOKENS, Tokenizer
from qkv.data.tokenizers.words import Words
from qkv.models.base import Model, Sizes, build, weights
from qkv.pipeline.bundle import write_bundle
from qkv.pipeline.card import Card

WORDS = "ein zwei drei hund katze mann frau läuft sitzt schläft im auf dem park haus rot blau ."
SOURCE = Words((*SPECIAL_TOKENS, *WORDS.split()))
OPTIONS: dict[str, Any] = {
    "name": "transformer",
    "width": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "mixer": {"name": "attention", "heads": 2},
    "feedforward": {"name": "relu", "hidden": 24},
    "tie": "none",
    "dropout": 0.0,
}


def part(**options: Any) -> Part[Model]:
    found: Part[Model] = config.part("model", {**OPTIONS, **options})
    return found


def model(seed: int = 2, **options: Any) -> Model:
    return build(part(**options), Sizes(SOURCE.size, SOURCE.size), seed)


def tiny_bundle(
    folder: Path,
    *,
    seed: int = 2,
    source: Tokenizer = SOURCE,
    target: Tokenizer = SOURCE,
    decoding: dict[str, Any] | None = None,
    longest_source: int = 24,
    **options: Any,
) -> dict[str, torch.Tensor]:
    """Writes the bundle and returns its weights."""
    made = part(**options)
    kept = weights(build(made, Sizes(source.size, target.size), seed))
    write_bundle(
        folder,
        part=made,
        weights=kept,
        source=source,
        target=target,
        decoding={"num_beams": 2, "max_new_tokens": 12} if decoding is None else decoding,
        card=Card(source_language="de", target_language="en"),
        longest_source=longest_source,
    )
    return kept
