"""A trainer to try things with: a run's own model and data, in a folder that is gone afterwards."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from qkv import runtime
from qkv.data.parallel import PreparedParallel
from qkv.lock import FolderLock
from qkv.train.loop import Trainer
from qkv.train.recipe import Recipe


@contextmanager
def trial(recipe: Recipe, data: PreparedParallel) -> Iterator[Trainer]:
    """Ready to step, on the threads that a run would take."""
    torch.set_num_threads(runtime.threads())
    with tempfile.TemporaryDirectory() as name, FolderLock(Path(name)) as lock:
        trainer = Trainer(recipe, data, Path(name), lock)
        trainer.objective.train()
        yield trainer
