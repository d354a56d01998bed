"""The one table of parts: kind and name to "module:name", imported when asked for. Adding a system is adding a line.

A config names parts by these names and nothing else; a bundle can therefore never make us import what it likes.
"""

from importlib import import_module
from operator import attrgetter
from typing import Any

from qkv.errors import ConfigError, nearest

TABLE: dict[str, dict[str, str]] = {
    "model": {
        "transformer": "qkv.models.transformer:transformer",
    },
    "mixer": {
        "attention": "qkv.nn.mixers.attention:Attention",
        "lstm": "qkv.nn.mixers.recurrent:Lstm",
        "convolution": "qkv.nn.mixers.conv:Convolution",
    },
    "position": {
        "none": "qkv.nn.positions:NoPosition",
        "sinusoidal": "qkv.nn.positions:Sinusoidal",
        "learned": "qkv.nn.positions:Learned",
        "rotary": "qkv.nn.positions:Rotary",
        "relative": "qkv.nn.positions:Relative",
        "alibi": "qkv.nn.positions:Alibi",
    },
    "norm": {
        "layer": "qkv.nn.norm:LayerNorm",
        "rms": "qkv.nn.norm:RMSNorm",
    },
    "feedforward": {
        "relu": "qkv.nn.feedforward:Relu",
        "gelu": "qkv.nn.feedforward:Gelu",
        "gated": "qkv.nn.feedforward:Gated",
    },
    "objective": {
        "seq2seq": "qkv.objectives.seq2seq:Seq2Seq",
    },
    "optimizer": {
        "adam": "qkv.train.optim:adam",
        "adamw": "qkv.train.optim:adamw",
    },
    "schedule": {
        "noam": "qkv.train.schedule:Noam",
        "inverse_sqrt": "qkv.train.schedule:InverseSquareRoot",
        "cosine": "qkv.train.schedule:Cosine",
        "constant": "qkv.train.schedule:Constant",
    },
    "tokenizer": {
        "bpe": "qkv.data.tokenizers.bpe:Bpe.train",
        "words": "qkv.data.tokenizers.words:Words.train",
    },
    "data": {
        "parallel": "qkv.data.parallel:Parallel",
    },
    "claim": {
        "transformer/parameters": "qkv.claims.transformer_parameters:claim",
        "transformer/cost": "qkv.claims.transformer_cost:claim",
        "transformer/label-smoothing": "qkv.claims.transformer_label_smoothing:claim",
        "transformer/positions": "qkv.claims.transformer_positions:claim",
        "transformer/table-3-in-small": "qkv.claims.transformer_table_3:claim",
        "transformer/multi30k": "qkv.claims.transformer_multi30k:claim",
    },
}


def names(kind: str) -> list[str]:
    """Every registered name of a kind."""
    return sorted(TABLE[kind])


def register(kind: str, name: str, target: str) -> None:
    """Add a part of your own, as "module:name"; a name is never taken twice."""
    parts = TABLE.setdefault(kind, {})
    if parts.get(name, target) != target:
        raise ConfigError(f'{kind} "{name}" is already {parts[name]}; choose another name for {target}')
    parts[name] = target


def find(kind: str, name: str) -> Any:
    """The constructor behind a name; unknown names fail with the nearest known one."""
    if kind not in TABLE:
        raise ConfigError(f'no kind of part is called "{kind}"; {nearest(kind, TABLE)}')
    if name not in TABLE[kind]:
        raise ConfigError(f'no {kind} is called "{name}"; {nearest(name, TABLE[kind])}')
    module, path = TABLE[kind][name].split(":")
    return attrgetter(path)(import_module(module))
