"""Regions: stretches of a computation by the kind of work they are, for the profiler to show; free where none looks."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

Kind = Literal["matrix", "attention", "dropout", "norm", "loss", "optimizer", "data", "other"]
MARK = "qkv::"
_NONE = nullcontext()


def region(kind: Kind) -> AbstractContextManager[object]:
    """What happens within is of this kind, but for the products of matrices in it."""
    import torch

    if not torch.autograd._profiler_enabled():  # type: ignore[attr-defined]
        return _NONE
    return torch.profiler.record_function(f"{MARK}{kind}")
