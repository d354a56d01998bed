"""Generated tasks with one right answer: what a model must be able to learn, wherever no real data lies."""

import random
from pathlib import Path

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def words(count: int) -> list[str]:
    """Different words, short ones first."""
    return [LETTERS[i % 26] * (i // 26 + 1) for i in range(count)]


def reversals(count: int, *, vocabulary: int, shortest: int, longest: int, seed: int) -> list[tuple[str, str]]:
    """Sentences of random words, and the same backwards."""
    chance, known = random.Random(seed), words(vocabulary)
    lines = [[chance.choice(known) for _ in range(chance.randint(shortest, longest))] for _ in range(count)]
    return [(" ".join(line), " ".join(reversed(line))) for line in lines]


def write_pairs(path: Path, pairs: list[tuple[str, str]]) -> None:
    """As a TSV."""
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8", newline="\n")
