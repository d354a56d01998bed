"""`qkv prepare`: tokenizers and shards of a recipe's data, ahead of training, which makes what is missing."""

import json
from pathlib import Path

from qkv.cli.options import run_parser


def run(argv: list[str]) -> int:
    parser = run_parser(
        "prepare",
        "Prepares a recipe's data: trains its tokenizers, encodes its text, counts what was left out and why.\n"
        "Training does this by itself; prepare it ahead where training runs on another machine.",
        examples=["qkv prepare --config recipes/translate.yaml --data.train pairs.tsv --data.dev dev.tsv"],
    )
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    args, overrides = parser.read_run(argv)
    from qkv import config
    from qkv.train.recipe import recipe

    resolved = recipe(Path(args.config) if args.config else None, overrides)
    if args.print_config:
        print(config.dump(resolved.data), end="")
        return 0
    from qkv.train.run import prepared

    made = prepared(resolved)
    facts = {
        "folder": str(made.prepared.folder),
        "vocabulary": {"source": made.source.size, "target": made.target.size},
    }
    if args.json:
        print(json.dumps({**facts, "counts": made.counts}, default=dict))
        return 0
    print(f"prepared in {facts['folder']}: {made.source.size:,} source and {made.target.size:,} target tokens")
    for split, counts in made.counts.items():
        print(f"  {split}: " + ", ".join(f"{name} {number:,}" for name, number in counts.items() if number))
    return 0
