"""`qkv bench train`: how fast a recipe trains on this machine, and where a step's time goes."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.cli.options import run_parser
from qkv.cli.progress import tell

if TYPE_CHECKING:
    from qkv.train.profile import Profile
    from qkv.train.speed import Speed

WHAT = ("train",)


def run(argv: list[str]) -> int:
    parser = run_parser(
        "bench",
        "Measures how fast a recipe trains here: target tokens a second over a few of its own steps, beside the rate\n"
        "of the machine's matrices; with --profile, where a step's time goes by kind of work. Nothing is kept.",
        examples=[
            "qkv bench train --config recipes/translate.yaml --data.train pairs.tsv --data.dev dev.tsv",
            "qkv bench train --config run.yaml --profile",
            "qkv bench train --config run.yaml --model.width 512 --steps 30 --json",
        ],
    )
    parser.add_argument("what", choices=WHAT, help="what is measured: train")
    parser.add_argument("--steps", type=int, default=12, metavar="N", help="steps that are timed; default 12")
    parser.add_argument("--profile", action="store_true", help="where a step's time goes, too")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    args, overrides = parser.read_run(argv)
    if args.steps < 1:
        parser.error(f"--steps is {args.steps}; at least 1 step is timed")
    from qkv import config
    from qkv.train.recipe import recipe

    resolved = recipe(Path(args.config) if args.config else None, overrides)
    if args.print_config:
        print(config.dump(resolved), end="")
        return 0
    from qkv.train.fit import check_fit
    from qkv.train.run import CACHE
    from qkv.train.speed import as_json, profiled, speed

    check_fit(resolved)
    say = (lambda text: None) if args.quiet else tell
    measured = speed(resolved, CACHE, args.steps, say)
    seen = profiled(resolved, CACHE, args.steps, say) if args.profile else None
    if args.json:
        print(json.dumps(as_json(measured) | ({"profile": asdict(seen)} if seen else {})))
        return 0
    print("\n".join([*lines(measured), *(profile_lines(seen) if seen else [])]))
    return 0


def lines(made: "Speed") -> list[str]:
    """For people."""
    return [
        f"speed     {made.tokens_per_second:,.0f} tokens/s, median of {made.steps} steps "
        f"({made.slowest:,.0f} to {made.fastest:,.0f}); {made.precision}, {made.threads} thread(s)",
        f"a step    {made.seconds_a_step:.3f} s, {made.tokens_a_step:,.0f} target tokens, padding {made.padding:.1%}, "
        f"{made.waited:.1%} of the time waited for data",
        f"work      {made.flops_rate / 1e9:,.0f} GFLOP/s, {made.share:.0%} of the matrix rate in {made.precision}, "
        f"{made.matrix_rate / 1e9:,.0f} GFLOP/s",
        f"memory    {made.peak / 1e9:,.2f} GB at most; {made.parameters:,} parameters",
    ]


def profile_lines(made: "Profile") -> list[str]:
    """Kinds of work, the largest first, and what is largest in each."""
    found = [f"\nwhere a step's {made.seconds:.3f} s go, looked at ({made.device})"]
    for kind, share in sorted(made.shares.items(), key=lambda item: -item[1]):
        if share >= 0.0005:
            named = ", ".join(f"{name} {part:.1%}" for name, part in made.operations.get(kind, {}).items())
            found.append(f"  {kind:<10}{share:>6.1%}  {named}")
    return found
