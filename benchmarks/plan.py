"""The planner's word against what then happens, on five recipes: memory, speed, time and disk, predicted and measured.

    python -m benchmarks.plan --data "$QKV_DATA"

Each recipe is planned by `qkv plan` and then really trained by `qkv train` for so many minutes, from the same command
line. The last line is JSON: the figures.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

WITHIN = 0.25
M30K = ["--config", "recipes/transformer/multi30k-tiny.yaml", "--data.folder", "{data}/multi30k"]
PAIRS = ["--data.train", "{data}/tatoeba/train.de-en.tsv.gz", "--data.dev", "{data}/tatoeba/dev.de-en.tsv.gz"]
BASE = ["--model.preset", "base", "--model.width", "512", "--model.encoder_layers", "6", "--model.decoder_layers", "6"]
RECIPES = {
    "multi30k-tiny": M30K,
    "translate": ["--config", "recipes/translate.yaml", *PAIRS],
    "demo": ["--config", "recipes/demo.yaml", *PAIRS],
    "base size": ["--config", "recipes/translate.yaml", *PAIRS, *BASE, "--model.feedforward.hidden", "2048"],
    "lstm": ["--config", "recipes/translate.yaml", *PAIRS, "--model.mixer", "lstm", "--model.cross", "attention"],
}


def qkv(*words: str) -> str:
    return subprocess.run([sys.executable, "-m", "qkv", *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def compared(words: list[str], minutes: float, folder: Path) -> dict[str, tuple[float, float]]:
    """Planned and measured, by name."""
    planned: dict[str, Any] = json.loads(qkv("plan", *words, "--json", "--quiet", "--train.max_minutes", "600"))
    steps = max(20, round(60 * minutes / planned["seconds_a_step"]))
    limit = ["--train.max_steps", str(steps), "--train.max_minutes", "600", "--train.report", "false"]
    planned = json.loads(qkv("plan", *words, "--json", "--quiet", *limit))
    out = folder / "run"
    qkv("train", *words, *limit, "--train.report_seconds", "5", "--out", str(out), "--quiet")
    log = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    reports = [line for line in log if "tokens_per_second" in line]
    kept = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    found = {
        "tokens/s": (planned["tokens_per_second"], statistics.median(line["tokens_per_second"] for line in reports)),
        "minutes": (planned["minutes"], reports[-1]["elapsed"] / 60),
        "peak GB": (planned["memory"]["peak"] / 1e9, max(line["memory"] for line in reports) / 1e9),
        "disk MB": ((sum(planned["disk"].values()) - planned["disk"]["prepared"]) / 1e6, kept / 1e6),
    }
    shutil.rmtree(out)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="the folder of the benchmark's data: QKV_DATA")
    parser.add_argument("--minutes", type=float, default=1.5, help="of training, each")
    parser.add_argument("--only", nargs="*", choices=list(RECIPES), help="some of the recipes")
    flags = parser.parse_args()
    figures = []
    print(f"{'recipe':<15}{'':<10}{'planned':>10}{'measured':>10}{'off by':>8}")
    for name in flags.only or RECIPES:
        words = [word.format(data=flags.data) for word in RECIPES[name]]
        with tempfile.TemporaryDirectory() as folder:
            for what, (before, after) in compared(words, flags.minutes, Path(folder)).items():
                off = before / after - 1
                print(f"{name:<15}{what:<10}{before:>10.2f}{after:>10.2f}{off:>+8.0%}", flush=True)
                met = abs(off) <= WITHIN
                figures.append(
                    {"name": f"plan, {name}, {what}: off by", "value": round(off, 3), "target": WITHIN, "met": met}
                )
    print(json.dumps({"figures": figures}))


if __name__ == "__main__":
    main()
