"""BLEU and chrF of `recipes/translate.yaml` on Tatoeba, German to English, beside a peer given as many minutes.

    python benchmarks/tatoeba.py --data "$QKV_DATA/tatoeba" --out runs/tatoeba [--minutes 90] [--peer peer.json]

Raw text in, raw text out, a tokenizer of its own; everything is chosen on dev, and test is read once, at the end.
`--peer` is what `benchmarks/peers/fairseq_tatoeba.sh` prints. The last line of the output is JSON: the figures.
"""

import argparse
import gzip
import json
import tempfile
from pathlib import Path

from multi30k import qkv

RECIPE = "recipes/translate.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the benchmark's files")
    parser.add_argument("--out", type=Path, default=Path("runs/tatoeba"))
    parser.add_argument("--minutes", type=float, help="instead of the recipe's")
    parser.add_argument("--peer", type=Path, help="a peer's result: its line of JSON")
    flags = parser.parse_args()
    files = {split: flags.data / f"{split}.de-en.tsv.gz" for split in ("train", "dev", "test")}
    if not (flags.out / "model.safetensors").is_file():
        words = ["--config", RECIPE, "--data.train", str(files["train"]), "--data.dev", str(files["dev"])]
        words += ["--data.source", "de", "--data.target", "en", "--out", str(flags.out)]
        qkv("train", *words, *([] if flags.minutes is None else ["--train.max_minutes", str(flags.minutes)]))
    with gzip.open(files["test"], "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t") for line in file]
    with tempfile.TemporaryDirectory() as folder:
        sides = [Path(folder) / name for name in ("source.de", "reference.en")]
        for side, path in enumerate(sides):
            path.write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
        words = ["--source", str(sides[0]), "--reference", str(sides[1]), "--json", "--quiet"]
        report = json.loads(qkv("evaluate", "--model", str(flags.out), *words))
    peer = json.loads(flags.peer.read_text()) if flags.peer else {}
    figures = []
    print(f"\nTatoeba de-en, test, {len(pairs):,} sentences\n")
    for score in report["scores"]:
        name, value = score["name"], round(score["value"], 2)
        theirs = peer.get(f"{name.lower()}_test")
        beside = "" if theirs is None else f"   {peer['peer']}: {theirs:.2f}"
        print(f"{name:<6}{value:>7.2f}   {score['low']:.2f} - {score['high']:.2f}   {score['signature']}{beside}")
        if name in ("BLEU", "chrF"):
            met = None if theirs is None else value >= theirs
            figures.append({"name": f"Tatoeba de-en {name}", "value": value, "target": theirs, "met": met})
    print(json.dumps({"figures": figures}))


if __name__ == "__main__":
    main()
