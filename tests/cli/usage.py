"""What a verb says of itself under `--help`, for tests that hold it to that."""

import os
import re
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from unittest.mock import patch


def help_of(verb: str) -> str:
    """The text of `qkv VERB --help`, at a fixed width."""
    shown = StringIO()
    with patch.dict(os.environ, {"COLUMNS": "100"}), redirect_stdout(shown):
        try:
            import_module(f"qkv.cli.{verb}").run(["--help"])
        except SystemExit as left:
            assert not left.code
    return shown.getvalue()


def usage_of(verb: str) -> str:
    """Its flags as argparse sums them up, on one line."""
    return " ".join(help_of(verb).split("\n\n")[0].split()) + "\n"


def flags_of(verb: str) -> set[str]:
    """Its long flags."""
    return {"--help", *re.findall(r"--[a-z][a-z0-9-]*", usage_of(verb))}
