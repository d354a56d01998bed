"""Train, evaluate, explain, shrink and serve Transformers, your own translator first. Rooms: docs/house.md."""

from os import PathLike
from typing import Any

__version__ = "0.1.0"


def load(path: str | PathLike[str]) -> Any:
    """The model in a bundle's folder, ready to translate; verified before use."""
    from qkv.pipeline.load import load as load_bundle

    return load_bundle(path)
