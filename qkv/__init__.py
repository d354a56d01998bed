"""Train, evaluate and use Transformers, your own translator first. Rooms: docs/house.md."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qkv.pipeline.load import load

__all__ = ["__version__", "load"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`qkv.load`, imported when it is first asked for: `import qkv` alone loads no torch."""
    if name != "load":
        raise AttributeError(f"module 'qkv' has no attribute {name!r}")
    from qkv.pipeline.load import load

    return load
