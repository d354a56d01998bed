"""Variants of a recipe, trained side by side and ranked by the development set: how a recipe's settings are chosen.

    python benchmarks/sweep.py --out runs/sweep --at-once 4 \\
        --source "$QKV_DATA/multi30k/tok.val.en.gz" --reference "$QKV_DATA/multi30k/tok.val.de.gz" \\
        --variant "as-it-is" --variant "bpe-dropout --data.tokenizer.dropout 0.1" \\
        -- --config recipes/transformer/multi30k-tiny.yaml --data.folder "$QKV_DATA/multi30k"

A variant is a name and the overrides that make it; what follows `--` goes to every `qkv train`. A variant that was
stopped goes on, one that has a model is only scored. Nothing here reads a test set. The last line is JSON.

Many small models share one GPU well once NVIDIA's MPS serves it (`nvidia-cuda-mps-control -d`): fourteen of Multi30k's
on an H200 made 65,000 tokens/s each. One core a process: `OMP_NUM_THREADS=1`.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True)
class Ranked:
    """What the development set says of a variant."""

    name: str
    overrides: str
    nll: float
    bleu: float
    chrf: float
    steps: int
    minutes: float


def trained(name: str, overrides: list[str], shared: list[str], out: Path) -> Path:
    """The variant's folder, with a model in it; what training said is in NAME.log beside it."""
    folder = out / name
    if not (folder / "model.safetensors").is_file():
        command = [sys.executable, "-m", "qkv", "train", *shared, *overrides, "--out", str(folder)]
        with (out / f"{name}.log").open("a", encoding="utf-8") as log:
            if subprocess.run(command, stderr=log, stdout=log, check=False).returncode:
                raise SystemExit(f"sweep: {name} ended early; {log.name} says why")
    return folder


def ranked(name: str, overrides: list[str], folder: Path, source: Path, reference: Path) -> Ranked:
    """Its scores on the development set, beam and lengths as the recipe says."""
    command = [sys.executable, "-m", "qkv", "evaluate", "--model", str(folder), "--quiet", "--json"]
    command += ["--source", str(source), "--reference", str(reference), "--resamples", "1"]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    scores = {score["name"]: score["value"] for score in report["scores"]}
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return Ranked(
        name,
        shlex.join(overrides),
        min(line["dev"]["nll"] for line in log if "dev" in line),
        scores["BLEU"],
        scores["chrF"],
        max(line["step"] for line in log),
        max(line.get("elapsed", 0.0) for line in log) / 60,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", action="append", required=True, help='"NAME --section.name VALUE ..."')
    parser.add_argument("--out", type=Path, default=Path("runs/sweep"))
    parser.add_argument("--at-once", type=int, default=1, help="how many train at a time")
    parser.add_argument("--source", type=Path, required=True, help="the development set's source")
    parser.add_argument("--reference", type=Path, required=True, help="and its target")
    parser.add_argument("shared", nargs="+", help="after --: what every `qkv train` is given")
    flags = parser.parse_args()
    variants = {words[0]: words[1:] for words in map(shlex.split, flags.variant)}
    if odd := [name for name in variants if not NAME.fullmatch(name)]:
        parser.error(f"a variant's name is letters, digits, dots and dashes, not {odd[0]!r}")
    flags.out.mkdir(parents=True, exist_ok=True)

    def one(name: str) -> Ranked:
        folder = trained(name, variants[name], flags.shared, flags.out)
        return ranked(name, variants[name], folder, flags.source, flags.reference)

    with ThreadPoolExecutor(flags.at_once) as pool:
        found = list(pool.map(one, variants))
    found.sort(key=lambda variant: -variant.bleu)
    print(f"{'dev BLEU':>8} {'chrF':>6} {'nll':>7} {'steps':>7} {'minutes':>8}  variant")
    for each in found:
        print(
            f"{each.bleu:>8.2f} {each.chrf:>6.2f} {each.nll:>7.4f} {each.steps:>7,} {each.minutes:>8.1f}  "
            f"{each.name} {each.overrides}"
        )
    figures = [{"name": f"dev BLEU, {v.name}", "value": round(v.bleu, 2), "target": None, "met": None} for v in found]
    print(json.dumps({"figures": figures}))


if __name__ == "__main__":
    main()
