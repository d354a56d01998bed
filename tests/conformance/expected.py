"""What every registered part must be able to do, and the tiny sizes at which it is tested.

Losing a capability fails, and so does a registered part without a row here: one row earns it all the tests.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from qkv import registry
from qkv.nn.mixers.base import Can

WIDTH = 8


@dataclass(frozen=True)
class Row:
    """What a mixer must declare, and the options (and the layer it stands in) that it is tested with."""

    can: Can
    variants: Mapping[str, Mapping[str, Any]]
    layer: int = 0


MIXERS = {
    "attention": Row(
        Can(
            causal="exactly",
            bidirectional=True,
            cross=True,
            padding=True,
            packing=True,
            prefix=True,
            stepwise=True,
            rewind=True,
            maps=True,
            positions=True,
        ),
        {
            "plain": {"heads": 2},
            "grouped": {"heads": 4, "key_heads": 2, "bias": False},
            "odd": {"heads": 2, "key_width": 4, "value_width": 5},
        },
    ),
    "lstm": Row(
        Can(causal="exactly", bidirectional=True, padding=True, stepwise=True),
        {"plain": {}, "odd": {"cells": 5}},
    ),
    "convolution": Row(
        Can(causal="exactly", bidirectional=True, padding=True, stepwise=True),
        {"plain": {"kernel": 3}, "dilated": {"kernel": 3, "dilations": (1, 2)}, "pointwise": {"kernel": 1}},
        layer=1,
    ),
}

TINY = {
    "width": WIDTH,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "mixer": {"name": "attention", "heads": 2},
    "feedforward": {"name": "relu", "hidden": 12},
}
HEADS = {"name": "attention", "heads": 2}


@dataclass(frozen=True)
class ModelRow:
    """The protocols a model must answer, its presets, the variants it is tested as, and what some of them lack."""

    protocols: frozenset[str]
    presets: frozenset[str]
    variants: Mapping[str, Mapping[str, Any]]
    lacks: Mapping[str, frozenset[str]] = field(default_factory=dict)


MODELS = {
    "transformer": ModelRow(
        frozenset({"Encodes", "Predicts", "Steps"}),
        frozenset({"base", "big", "tiny"}),
        {
            "plain": TINY,
            "lstm": {**TINY, "mixer": "lstm", "cross": HEADS, "position": "none"},
            "lstm-decoder": {**TINY, "decoder_mixer": "lstm"},
            "convolution": {**TINY, "mixer": {"name": "convolution", "dilations": [1, 2]}, "cross": HEADS},
            "learned": {**TINY, "position": {"name": "learned", "longest": 12}},
            "rotary": {**TINY, "position": "rotary"},
            "relative": {**TINY, "position": {"name": "relative", "buckets": 8, "longest": 6}},
            "alibi": {**TINY, "position": "alibi"},
            "pre": {**TINY, "order": "pre"},
            "rms-gated": {**TINY, "norm": "rms", "feedforward": {"name": "gated", "hidden": 6}},
            "gelu": {**TINY, "feedforward": {"name": "gelu", "hidden": 12}, "final_norm": True},
            "tied-target": {**TINY, "tie": "target", "scaled": False},
            "untied": {**TINY, "tie": "none", "output_bias": True},
            "depths-apart": {**TINY, "encoder_layers": 3, "decoder_layers": 1},
            "grouped": {**TINY, "mixer": {"name": "attention", "heads": 4, "key_heads": 2}},
        },
        {name: frozenset({"packing", "rewind"}) for name in ("lstm", "lstm-decoder", "convolution")},
    ),
}

POSITIONS = {
    "none": {},
    "sinusoidal": {},
    "learned": {"longest": 16},
    "rotary": {},
    "relative": {"buckets": 8, "longest": 6},
    "alibi": {},
}
NORMS = {"layer": {}, "rms": {}}
FEEDFORWARDS = {"relu": {"hidden": 12}, "gelu": {"hidden": 12}, "gated": {"hidden": 6}}
TABLES: dict[str, Mapping[str, Any]] = {
    "mixer": MIXERS,
    "model": MODELS,
    "position": POSITIONS,
    "norm": NORMS,
    "feedforward": FEEDFORWARDS,
}


def without_a_row() -> Iterator[str]:
    """A complaint for every registered part without a row, and for every row without a registered part."""
    for kind, table in TABLES.items():
        registered = set(registry.names(kind))
        for name in sorted(registered - table.keys()):
            yield f'{kind} "{name}" has no row in tests/conformance/expected.py: say what it must do'
        for name in sorted(table.keys() - registered):
            yield f'{kind} "{name}" has a row in tests/conformance/expected.py, but is not registered any more'
