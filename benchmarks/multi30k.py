"""BLEU of Transformer-Tiny on Multi30k, over seeds: the mean and one standard deviation beside what was published.

    python benchmarks/multi30k.py --data "$QKV_DATA/multi30k" --out runs/m30k --seeds 1 2 3
    python benchmarks/multi30k.py --data "$QKV_DATA/multi30k" --out runs/back --direction de en --peer peer.json

Each seed is `qkv train` with the recipe as it stands, stopped and chosen on the validation set; test_2016_flickr is
read once, beam 5, `sacrebleu --tokenize none` on the tokenised files. A run that was stopped goes on. `--peer` is what
`benchmarks/peers/fairseq_multi30k.sh` prints. The last line of the output is JSON: the figures.
"""

import argparse
import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PUBLISHED = {("en", "de"): 41.02}  # Wu et al. 2021, arXiv 2105.14462, test2016
FLOOR = 41.0
RECIPE = "recipes/transformer/multi30k-tiny.yaml"
TEST = "tok.test_2016_flickr.{}.gz"


def qkv(*words: str) -> str:
    """The standard output of a command; its progress goes to ours."""
    return subprocess.run([sys.executable, "-m", "qkv", *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def one_seed(data: Path, out: Path, source: str, target: str, seed: int) -> dict[str, Any]:
    """Trains where that is not done, then scores."""
    folder = out.with_name(f"{out.name}-{seed}")
    sides = ["--data.source", source, "--data.target", target]
    if not (folder / "model.safetensors").is_file():
        words = ["--config", RECIPE, "--data.folder", str(data), "--out", str(folder), "--train.seed", str(seed)]
        qkv("train", *words, *sides)
    files = ["--source", str(data / TEST.format(source)), "--reference", str(data / TEST.format(target))]
    report = json.loads(qkv("evaluate", "--model", str(folder), *files, "--json", "--tokenize", "none", "--quiet"))
    scores = {score["name"]: score for score in report["scores"]}
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    dev = [line["dev"]["nll"] for line in log if "dev" in line and "candidate" not in line]
    return {
        "seed": seed,
        "bleu": scores["BLEU"]["value"],
        "chrf": scores["chrF"]["value"],
        "signature": scores["BLEU"]["signature"],
        "minutes": max(line.get("elapsed", 0.0) for line in log) / 60,
        "epochs": len(dev),
        "best_dev_nll": min(dev),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the benchmark's files")
    parser.add_argument("--out", type=Path, default=Path("runs/m30k"), help="runs go to OUT-SEED")
    parser.add_argument("--direction", nargs=2, default=["en", "de"], metavar=("FROM", "TO"))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--at-once", type=int, default=1, help="how many seeds train at a time")
    parser.add_argument("--peer", type=Path, help="a peer's result: its line of JSON")
    flags = parser.parse_args()
    source, target = flags.direction
    with ThreadPoolExecutor(flags.at_once) as pool:
        found = list(pool.map(lambda seed: one_seed(flags.data, flags.out, source, target, seed), flags.seeds))
    print(f"\nMulti30k {source}-{target}, test_2016_flickr, beam 5, {found[0]['signature']}\n")
    print(f"{'seed':>6} {'BLEU':>7} {'chrF':>7} {'dev nll':>8} {'epochs':>7} {'minutes':>8}")
    for run in found:
        nll, spent = run["best_dev_nll"], run["minutes"]
        print(f"{run['seed']:>6} {run['bleu']:>7.2f} {run['chrf']:>7.2f} {nll:>8.4f} {run['epochs']:>7} {spent:>8.1f}")
    scores = [run["bleu"] for run in found]
    mean, spread = statistics.mean(scores), statistics.stdev(scores) if len(scores) > 1 else 0.0
    print(f"\nmean {mean:.2f}, standard deviation {spread:.2f} over {len(scores)} seed(s)")
    figures = []
    if (published := PUBLISHED.get((source, target))) is not None:
        print(f"published {published:.2f}")
        name = f"Multi30k {source}-{target} BLEU, mean + one standard deviation of {len(scores)} seeds"
        value = round(mean + spread, 2)
        figures.append({"name": name, "value": value, "target": FLOOR, "met": len(scores) > 2 and value >= FLOOR})
    if flags.peer:
        peer = json.loads(flags.peer.read_text())
        theirs = peer["bleu_test_2016_flickr"]
        print(f"{peer['peer']}: {theirs:.2f} after {peer['epochs']} epochs, {peer['seconds'] / 60:.1f} minutes")
        name = f"Multi30k {source}-{target} BLEU, mean, beside {peer['peer']}"
        figures.append({"name": name, "value": round(mean, 2), "target": theirs, "met": mean >= theirs})
    print(json.dumps({"figures": figures}))


if __name__ == "__main__":
    main()
