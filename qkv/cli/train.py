"""`qkv train`: from a recipe to a model folder, or on from where it was stopped."""

from pathlib import Path

from qkv.cli.options import run_parser


def run(argv: list[str]) -> int:
    parser = run_parser(
        "train",
        "Trains a model from a recipe: the data, the model, how long. The folder holds the run, its log and, at\n"
        "the end, the model at its root. Ctrl-C or SIGTERM saves and stops; the same command goes on from there, to\n"
        "the bit. When going on, more steps, epochs, minutes or patience may be given; all else wants another folder.",
        examples=[
            "qkv train --config recipes/translate.yaml --data.train pairs.tsv --data.dev dev.tsv --out runs/mine",
            "qkv train --config recipes/translate.yaml --print-config",
            "qkv train --config recipes/transformer/wmt14-en-de-base.yaml --dry-run",
            "qkv train --config run.yaml --out runs/mine --train.max_minutes 30 --model.mixer.heads 4",
        ],
    )
    parser.add_argument("--out", metavar="FOLDER", help="where the run and its model go (needed to train)")
    parser.add_argument("--quiet", action="store_true", help="say nothing on stderr; log.jsonl is written all the same")
    parser.add_argument("--dry-run", action="store_true", help="count parameters and steps, read no data, and stop")
    args, overrides = parser.read_run(argv)
    from qkv import config
    from qkv.train.recipe import recipe

    resolved = recipe(Path(args.config) if args.config else None, overrides)
    if args.print_config:
        print(config.dump(resolved), end="")
        return 0
    if args.dry_run:
        from qkv.train.fit import check_fit
        from qkv.train.outlook import outlook

        check_fit(resolved)
        print("\n".join(outlook(resolved).lines(resolved)))
        return 0
    if not args.out:
        parser.error("--out is missing: the folder for the run and its model, such as --out runs/mine")
    from qkv.train.run import train

    outcome = train(resolved, Path(args.out), quiet=args.quiet)
    return 0 if outcome.finished else 143 if "SIGTERM" in outcome.why else 130
