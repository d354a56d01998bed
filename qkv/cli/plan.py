"""`qkv plan`: what a run will take, before it is trained."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.cli.options import run_parser
from qkv.cli.progress import tell

if TYPE_CHECKING:
    from qkv.train.plan import Plan


def run(argv: list[str]) -> int:
    parser = run_parser(
        "plan",
        "Tells what a run will take before you train it: parameters by part, memory, work and time, disk. It prepares\n"
        "the data as training does, tries a few steps of the run itself, and trains nothing.",
        examples=[
            "qkv plan recipes/translate.yaml --data.train pairs.tsv --data.dev dev.tsv",
            "qkv plan run.yaml --train.max_steps 100000 --model.width 512",
            "qkv plan run.yaml --machine server.yaml",
        ],
    )
    parser.add_argument("recipe", nargs="?", metavar="FILE", help="the run's YAML file, as --config")
    parser.add_argument(
        "--machine",
        metavar="FILE",
        help="plan for another machine too: a YAML file with name, bf16_gflops, fp32_gflops and memory_gb",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--save", metavar="FILE", help="write it as JSON too, for the run's report")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    args, overrides = parser.read_run(argv)
    if args.recipe and args.config:
        parser.error(f"two recipes: {args.recipe} and --config {args.config}; give one")
    from qkv import config
    from qkv.train.recipe import recipe

    named = args.recipe or args.config
    resolved = recipe(Path(named) if named else None, overrides)
    if args.print_config:
        print(config.dump(resolved), end="")
        return 0
    from qkv.folder import make_folder, write_json
    from qkv.train.fit import check_fit
    from qkv.train.machine import described
    from qkv.train.plan import as_json, elsewhere, plan
    from qkv.train.run import CACHE

    other = described(Path(args.machine)) if args.machine else None
    resolved.check_end()
    check_fit(resolved)
    made = plan(resolved, CACHE, (lambda text: None) if args.quiet else tell)
    found = as_json(made)
    if other is not None:
        found["elsewhere"] = {"machine": other.name, "unverified": True, **as_json(elsewhere(made, other))}
    if args.save:
        make_folder(Path(args.save).parent)
        write_json(Path(args.save), found)
    if args.json:
        print(json.dumps(found))
        return 0
    print("\n".join(lines(made)))
    if other is not None:
        print(f"\non {other.name}, unverified: reckoned from its matrix rate, nothing was run there")
        print("\n".join(lines(elsewhere(made, other))))
    return 0


def lines(made: "Plan") -> list[str]:
    """For people."""
    parts = ", ".join(f"{name} {count:,}" for name, count in made.parts.items())
    memory, disk = made.memory, made.disk
    kept = ", ".join(f"{name} {_gb(size)}" for name, size in disk.items() if size)
    fits = "" if memory.peak <= memory.available else ": MORE THAN THERE IS"
    return [
        f"model     {made.parameters:,} parameters: {parts}",
        f"memory    {_gb(memory.peak)} at most of {_gb(memory.available)}{fits}: weights {_gb(memory.weights)}, "
        f"gradients {_gb(memory.gradients)}, optimizer {_gb(memory.optimizer)}, activations {_gb(memory.activations)}, "
        f"process {_gb(memory.process)}",
        f"a step    {made.tokens_a_step:,.0f} target tokens, {made.flops_a_step / 1e9:,.0f} GFLOP, "
        f"{made.seconds_a_step:.3f} s; padding {made.padding:.1%}",
        f"speed     {made.tokens_per_second:,.0f} tokens/s, {made.flops_rate / 1e9:,.0f} GFLOP/s: {made.share:.0%} of "
        f"the matrix rate in {made.precision}, {made.threads} thread(s)",
        f"an epoch  {made.pairs:,} pairs, {made.batches:,} steps, {made.batches * made.seconds_a_step / 60:,.1f} min; "
        f"a validation {made.seconds_a_validation:.1f} s, a checkpoint {made.seconds_a_save:.1f} s",
        f"the run   {made.steps:,} steps, {made.epochs:,.1f} epochs, {_time(made.minutes)}, ended by {made.ends_by} "
        "or earlier by patience",
        f"disk      {_gb(sum(disk.values()))}: {kept}",
    ]


def _gb(size: int | float) -> str:
    return f"{size / 1e9:,.2f} GB" if size >= 1e7 else f"{size / 1e6:,.1f} MB"


def _time(minutes: int | float) -> str:
    if minutes < 120:
        return f"{minutes:,.0f} min"
    return f"{minutes / 60:,.1f} h" if minutes < 48 * 60 else f"{minutes / 1440:,.1f} days"
