"""A run small enough to be stopped hundreds of times: reversed words, and what each of its steps must be to the bit."""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from qkv import config
from qkv.data.sampling import Position
from qkv.lock import FolderLock
from qkv.train.checkpoint import Saved
from qkv.train.loop import Trainer
from qkv.train.recipe import Recipe

WORDS = ["ab", "ba", "cab", "dab", "bad", "cad", "abba", "dada", "cabba"]


def write_pairs(path: Path, count: int, seed: int) -> None:
    """Sentence pairs, the target being the source backwards."""
    chance = random.Random(seed)
    lines = [[chance.choice(WORDS) for _ in range(chance.randint(1, 7))] for _ in range(count)]
    text = "".join(f"{' '.join(line)}\t{' '.join(reversed(line))}\n" for line in lines)
    path.write_text(text, encoding="utf-8")


def tree(folder: Path, **train: Any) -> dict[str, Any]:
    """A recipe with all that a resume could get wrong: dropout, BPE dropout, two corpora, both averages, parts."""
    for number, (name, count) in enumerate((("one", 90), ("two", 30), ("dev", 12))):
        if not (folder / f"{name}.tsv").exists():
            write_pairs(folder / f"{name}.tsv", count, number)
    return {
        "data": {
            "train": ["{folder}/one.tsv", "{folder}/two.tsv"],
            "dev": "{folder}/dev.tsv",
            "folder": str(folder),
            "weights": [1.0, 2.0],
            "tokenizer": {"name": "bpe", "vocabulary": 20, "byte_fallback": False, "dropout": 0.2},
            "cache": str(folder / "prepared"),
        },
        "model": {
            "name": "transformer",
            "width": 16,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "mixer": {"heads": 2, "dropout": 0.1},
            "feedforward": {"hidden": 24},
            "dropout": 0.1,
        },
        "schedule": {"name": "inverse_sqrt", "peak": 0.01, "warmup": 10},
        "train": {
            "max_tokens": 256,
            "parts": 2,
            "precision": "fp32",
            "ema": 0.9,
            "average": 3,
            "clip": 1.0,
            "samples": 0,
            "report": False,
            **train,
        },
    }


def recipe(folder: Path, **train: Any) -> Recipe:
    """The same, resolved."""
    found: Recipe = config.section(Recipe, tree(folder, **train))
    return found


def write_recipe(folder: Path, **train: Any) -> Path:
    """The same as a file for the command line; JSON is YAML."""
    path = folder / "run.yaml"
    path.write_text(json.dumps(tree(folder, **train)), encoding="utf-8")
    return path


@contextmanager
def trainer_of(recipe: Recipe, folder: Path) -> Iterator[Trainer]:
    """A trainer that holds its folder."""
    data = recipe.data.build().prepare(folder)
    with FolderLock(folder) as lock:
        yield Trainer(recipe, data, folder, lock)


class Lockstep:
    """A run that is never stopped, stepping on to wherever the tested one has come: then both must be equal."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.steps = trainer, 0
        trainer.objective.train()
        self.feed = trainer.data.feed(trainer.sampler, Position(), trainer.recipe.train.seed)

    def __call__(self, saved: Saved) -> bool:
        while self.steps < saved.step:
            self.trainer.step(next(self.feed))
            self.steps = self.trainer.at.step = self.steps + 1
        where, progress = self.feed.position, saved.state["progress"]
        return (
            self.steps == saved.step == progress["step"]
            and where == Position(progress["epoch"], progress["batch"])
            and same(self.trainer.tensors(), {group: saved.tensors[group] for group in saved.tensors})
        )


def same(left: Any, right: Any) -> bool:
    """The same tensors by group and name, equal to the bit; the global generator apart, which a test may have used."""
    left, right = ({k: v for k, v in side.items() if k != "random"} for side in (left, right))
    return left.keys() == right.keys() and all(
        left[group].keys() == right[group].keys()
        and all(torch.equal(tensor, right[group][name]) for name, tensor in left[group].items())
        for group in left
    )
