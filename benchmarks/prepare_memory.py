"""The peak memory of `prepare` on a large corpus: 4 GB of text are to pass within 2 GB.

    python benchmarks/prepare_memory.py --gigabytes 0.2

Writes a corpus of made-up words whose frequencies fall as in a language (Zipf), new words coming up throughout,
prepares it with a joint BPE of 32,000 pieces in a process of its own, and prints one line of JSON on stdout.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from qkv.data.prepare import Trained, on_stderr, prepare
from qkv.data.sources import ParallelText
from qkv.data.tokenizers.base import Tokenizer

LIMIT_GIGABYTES = 2.0
SYLLABLES = [a + b for a in "bcdfghklmnprstvwz" for b in ("a", "e", "i", "o", "u", "en", "er", "is", "on", "ut")]


def words(ranks: np.ndarray) -> list[str]:
    """A spelling for each rank: frequent words are short, every rank has its own."""
    made = []
    for rank in ranks.tolist():
        parts = []
        while True:
            rank, place = divmod(rank, len(SYLLABLES))
            parts.append(SYLLABLES[place])
            if not rank:
                break
        made.append("".join(parts))
    return made


def write_corpus(folder: Path, gigabytes: float) -> ParallelText:
    """Two files of some 15 words a line, together as large as asked."""
    random = np.random.default_rng(1)
    paths = [folder / "text.a", folder / "text.b"]
    for path in paths:
        left = gigabytes * 1e9 / 2
        with path.open("w", encoding="utf-8") as file:
            while left > 0:
                lengths = random.integers(5, 26, 10_000)
                made = iter(words(np.minimum(random.zipf(1.25, int(lengths.sum())), 10**12)))
                block = "".join(" ".join(next(made) for _ in range(n)) + "\n" for n in lengths.tolist())
                file.write(block)
                left -= len(block)
    lines = []
    for path in paths:
        with path.open(encoding="utf-8") as file:
            lines.append(sum(1 for _ in file))
    for path, count in zip(paths, lines, strict=True):
        keep_lines(path, count - min(lines))
    return ParallelText(*paths)


def keep_lines(path: Path, surplus: int) -> None:
    """Takes the surplus lines off the end of a file."""
    with path.open("rb+") as file:
        size = file.seek(0, 2)
        window = min(size, surplus * 400)
        file.seek(size - window)
        tail = file.read(window).splitlines(keepends=True)
        file.truncate(size - sum(map(len, tail[len(tail) - surplus :])))


def bpe(texts: Iterable[str]) -> Tokenizer:
    from qkv.data.tokenizers.bpe import Bpe

    return Bpe.train(texts, vocabulary=32_000)


def peak() -> float:
    """The most memory this process has held, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def measured(corpus: ParallelText, cache: Path, out: Connection) -> None:
    """Prepares, and sends the peak while training the tokenizer, the peak of all, the seconds and the counts."""
    began, trained = time.monotonic(), 0.0

    def build(texts: Iterable[str]) -> Tokenizer:
        nonlocal trained
        made = bpe(texts)
        trained = peak()
        return made

    recipe = Trained(build, {"name": "bpe", "vocabulary": 32_000})
    made = prepare([corpus], None, tokenizer=recipe, joint=True, max_length=256, cache=cache, progress=on_stderr)
    out.send((trained, peak(), time.monotonic() - began, dict(made.counts["train"])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=4.0, help="of text, both sides together")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        corpus = write_corpus(Path(folder), given.gigabytes)
        size = sum(path.stat().st_size for path in (corpus.source_path, corpus.target_path or corpus.source_path))
        # A process of its own: the peak is that of preparing, not of writing the corpus.
        context = get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=measured, args=(corpus, Path(folder) / "cache", sender))
        process.start()
        sender.close()
        try:
            trained, whole, seconds, counts = receiver.recv()
        except EOFError:
            sys.exit("prepare_memory: the preparing process ended early; its own message stands above")
        process.join()
    figures = [
        {"name": "text, GB", "value": round(size / 1e9, 3), "target": None, "met": None},
        {
            "name": "peak memory, GB",
            "value": round(whole, 3),
            "target": LIMIT_GIGABYTES,
            "met": whole <= LIMIT_GIGABYTES,
        },
        {"name": "peak until the tokenizer was trained, GB", "value": round(trained, 3), "target": None, "met": None},
        {"name": "pairs", "value": counts["pairs"], "target": None, "met": None},
        {"name": "seconds", "value": round(seconds, 1), "target": None, "met": None},
    ]
    print(json.dumps({"figures": figures}))


if __name__ == "__main__":
    main()
