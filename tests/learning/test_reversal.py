"""A small task must be learned, from the text to the folder to the text: sentences backwards."""

import random
from pathlib import Path

import qkv
from qkv import config
from qkv.train.recipe import Recipe
from qkv.train.run import train

WORDS = ["ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]


def write(path: Path, count: int, seed: int) -> list[tuple[str, str]]:
    chance = random.Random(seed)
    lines = [[chance.choice(WORDS) for _ in range(chance.randint(1, 4))] for _ in range(count)]
    pairs = [(" ".join(line), " ".join(reversed(line))) for line in lines]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return pairs


def test_reversal_is_learned(tmp_path: Path) -> None:
    write(tmp_path / "train.tsv", 12_000, seed=1)
    unseen = write(tmp_path / "dev.tsv", 200, seed=2)
    recipe = config.section(
        Recipe,
        {
            "data": {
                "train": str(tmp_path / "train.tsv"),
                "dev": str(tmp_path / "dev.tsv"),
                "tokenizer": "words",
                "cache": str(tmp_path / "prepared"),
            },
            "model": {
                "name": "transformer",
                "width": 64,
                "encoder_layers": 2,
                "decoder_layers": 1,
                "mixer": {"heads": 4},
                "feedforward": {"hidden": 128},
                "dropout": 0.0,
                "order": "pre",
                "position": "rotary",
            },
            "objective": {"smoothing": 0.0},
            "schedule": {"name": "cosine", "peak": 0.003, "warmup": 40},
            "train": {"max_steps": 400, "max_tokens": 400, "precision": "fp32", "validate_every": 100},
            "decode": {"num_beams": 1},
        },
    )
    ended = train(recipe, tmp_path / "run", quiet=True)
    assert ended.scores["nll"] < 0.05
    translator = qkv.load(tmp_path / "run", precision="fp32")
    answers = translator.translate([source for source, _ in unseen])
    right = sum(answer == target for answer, (_, target) in zip(answers, unseen, strict=True))
    assert right / len(unseen) >= 0.99
