"""How every verb reads its flags: argparse, with our sentences for mistakes, and dotted overrides of a config.

`--data.source de` and `--data.source=de` set one value of the config; a switch of the config is written with its value
(`--train.resume true`). What has no dot is a flag of the verb.
"""

import argparse
import re
from collections.abc import Sequence
from typing import NoReturn

from qkv.errors import ConfigError, nearest

Overrides = list[tuple[str, str]]

DOTTED = re.compile(r"--([A-Za-z_]\w*(?:\.\w+)+)(?:=(.*))?", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are ours: one sentence with the nearest flag, and no abbreviations."""

    def __init__(self, verb: str, about: str, *, examples: Sequence[str] = ()) -> None:
        epilog = "examples:\n" + "\n".join(f"  {line}" for line in examples) if examples else None
        super().__init__(
            prog=f"qkv {verb}",
            description=about,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.verb = verb
        self.overridable = False

    def flags(self) -> list[str]:
        """Every long flag of the verb."""
        return sorted(flag for action in self._actions for flag in action.option_strings if flag.startswith("--"))

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """The flags of a verb that has no config."""
        found, unknown = self.parse_known_args(list(argv))
        if unknown:
            self.error(self._stray(unknown[0]))
        return found

    def read_run(self, argv: Sequence[str]) -> tuple[argparse.Namespace, Overrides]:
        """The flags of a verb, and the dotted overrides of its config in their order."""
        rest, overrides = split_overrides(argv)
        return self.read(rest), overrides

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.verb}: {message}  (qkv {self.verb} --help shows all)")

    def _stray(self, word: str) -> str:
        flag = word.split("=")[0]
        if flag.startswith("-"):
            hint = (
                "; a value of the config is written with its dots, as in --section.name 3" if self.overridable else ""
            )
            return f'there is no flag "{flag}"; {nearest(flag, self.flags())}{hint}'
        if self.overridable and word.endswith((".yaml", ".yml")):
            return f'"{word}" stands alone; did you mean --config {word}?'
        return f'"{word}" is one word too many; quote a value that holds spaces'


def run_parser(verb: str, about: str, *, examples: Sequence[str] = ()) -> Parser:
    """A parser for a verb that reads a run's config: `--config FILE`, `--print-config`, and dotted overrides."""
    parser = Parser(verb, about, examples=examples)
    parser.overridable = True
    group = parser.add_argument_group("the run", "any value of the config can be set beside it: --section.name VALUE")
    group.add_argument("--config", metavar="FILE", help="the run's YAML file")
    group.add_argument("--print-config", action="store_true", help="print the resolved config and stop")
    return parser


def split_overrides(argv: Sequence[str]) -> tuple[list[str], Overrides]:
    """Takes `--dotted.key VALUE` and `--dotted.key=VALUE` out of a command line: the rest, and the pairs in order."""
    rest: list[str] = []
    overrides: Overrides = []
    words = list(argv)
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            return rest + words[at - 1 :], overrides
        if (match := DOTTED.fullmatch(word)) is None:
            rest.append(word)
            continue
        key, value = match.groups()
        if value is None:
            if at == len(words) or words[at].startswith("--"):
                raise ConfigError(f"--{key} needs a value; a switch too is written with one, as in --{key} true")
            value = words[at]
            at += 1
        overrides.append((key, value))
    return rest, overrides
