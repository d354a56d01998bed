"""The command `qkv`: a table of verbs, each imported only when it is called, so that help answers at once.

A verb is a file here with `run(argv)`, which returns its exit code. A user's mistake is one sentence on stderr and
code 2.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from qkv import __version__
from qkv.errors import QkvError, nearest

VERBS = {
    "prepare": "turn sentence pairs into a tokenizer and shards",
    "train": "train a model; started again, it resumes",
    "translate": "translate lines from stdin to stdout",
    "evaluate": "score a model on a test set",
    "plan": "tell what a run will take, before training it",
    "doctor": "examine sentence pairs before training on them",
    "reproduce": "check what a paper says by running it",
    "bench": "measure how fast a recipe trains here",
    "env": "show what this machine offers and what qkv chooses",
}

HELP = """usage: qkv VERB ...        qkv VERB --help        qkv --version

Train, evaluate and use Transformers, your own translator first.

start here:
  qkv env
  qkv train --config recipes/translate.yaml --data.train pairs.tsv --data.dev dev.tsv --out runs/mine
  echo "Guten Morgen." | qkv translate --model runs/mine

verbs:
{verbs}
"""

INTERRUPTED, BROKEN_PIPE = 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line; the exit code."""
    try:
        try:
            code = dispatch(list(sys.argv[1:] if argv is None else argv))
        except SystemExit as left:  # argparse has shown a verb's help
            code = int(left.code or 0)
        sys.stdout.flush()
        return code
    except QkvError as error:
        print(f"qkv: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader left (`qkv ... | head`); what is still buffered would fail again when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def dispatch(argv: list[str]) -> int:
    """Finds the verb and hands it the rest."""
    if not argv:
        print(help_text(), end="", file=sys.stderr)
        return 2
    verb, rest = argv[0], argv[1:]
    if verb in ("-h", "--help"):
        print(help_text(), end="")
        return 0
    if verb == "--version":
        print(f"qkv {__version__}")
        return 0
    if verb not in VERBS:
        raise QkvError(f'there is no verb "{verb}"; {nearest(verb, VERBS)}  (qkv --help shows all)')
    code: int = import_module(f"qkv.cli.{verb}").run(rest)
    return code


def help_text() -> str:
    """What `qkv --help` prints."""
    width = max(map(len, VERBS))
    return HELP.format(verbs="\n".join(f"  {verb:{width}}  {line}" for verb, line in VERBS.items()))
