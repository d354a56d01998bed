"""`qkv doctor`: what is wrong with a corpus, by rule and by length, with examples; `--write` keeps the good lines."""

import argparse
import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.cli.options import Parser
from qkv.cli.progress import Progress
from qkv.errors import ConfigError, nearest

if TYPE_CHECKING:
    from qkv.data.doctor.examine import Sorted
    from qkv.data.sources import ParallelText


def parser() -> Parser:
    flags = Parser(
        "doctor",
        "Examine sentence pairs before you train on them: empty, over-long, lopsided, doubled and copied lines, wrong\n"
        "language, broken encoding, characters nobody sees, numbers and placeholders that do not match, and what the\n"
        "test set shares. Nothing is changed unless you ask for a filtered copy with --write.",
        examples=[
            "qkv doctor pairs.tsv",
            "qkv doctor pairs.tsv --test test.tsv --html doctor.html",
            'qkv doctor "corpus.{lang}.gz" --source de --target en --write clean.tsv.gz',
            "qkv doctor pairs.tsv --ignore language --ignore ratio --json -",
        ],
    )
    flags.add_argument("corpus", nargs="+", help="a TSV, JSON lines, or two files by {lang}; .gz is unpacked")
    flags.add_argument(
        "--test", action="append", default=[], metavar="FILE", help="a test set: what it shares is a leak"
    )
    flags.add_argument("--source", metavar="LANG", help="the source's language (de); left out: told by the text")
    flags.add_argument("--target", metavar="LANG", help="the target's language (en); left out: told by the text")
    flags.add_argument(
        "--columns", nargs=2, type=int, default=(0, 1), metavar="N", help="of a TSV, from 0; default 0 1"
    )
    flags.add_argument("--most-words", type=int, metavar="N", help="over-long begins above this, default 200")
    flags.add_argument("--most-ratio", type=float, metavar="X", help="of the two lengths in characters, default 3")
    flags.add_argument(
        "--ignore", action="append", default=[], metavar="RULE", help="leave a rule out; may be repeated"
    )
    flags.add_argument("--examples", type=int, default=5, metavar="N", help="examples kept of each rule, default 5")
    flags.add_argument("--json", metavar="FILE", help="write the report as JSON; - for standard output")
    flags.add_argument("--html", metavar="FILE", help="write the report as one page")
    flags.add_argument("--write", metavar="FILE", help="write the lines without a finding: .tsv, or .tsv.gz")
    flags.add_argument("--quiet", action="store_true", help="no progress on stderr")
    return flags


def run(argv: list[str]) -> int:
    flags = parser().read(argv)
    _check(flags)
    from qkv.data.doctor import report
    from qkv.data.doctor.examine import WHOLE, examine
    from qkv.data.doctor.language import Languages, told
    from qkv.data.doctor.rules import Limits, rules
    from qkv.folder import write_text

    corpora = [_read(pattern, flags) for pattern in flags.corpus]
    languages = None
    if "language" not in flags.ignore:
        sides = (flags.source, flags.target)
        guessed = told(corpora[0].rows()) if None in sides else sides
        languages = Languages([side or guess for side, guess in zip(sides, guessed, strict=True)])
    given = {name: getattr(flags, name) for name in ("most_words", "most_ratio") if getattr(flags, name) is not None}
    used = rules(Limits(**given), languages)
    known = {*used, *WHOLE, "language"}
    if odd := [name for name in flags.ignore if name not in known]:
        raise ConfigError(f'doctor: there is no rule "{odd[0]}" to ignore; {nearest(odd[0], known)}')
    progress = Progress("lines", total=sum(1 for text in corpora for _ in text.rows()))
    found, lines = examine(
        corpora,
        used,
        tests=[_read(pattern, flags) for pattern in flags.test],
        ignore=flags.ignore,
        examples=flags.examples,
        progress=(lambda done: None) if flags.quiet else progress,
    )
    if languages is not None:
        found.languages = (languages.sides[0], languages.sides[1])
    if flags.write:
        _write(Path(flags.write), lines)
    else:
        for _ in lines:
            pass
    if not flags.quiet:
        progress.end(found.lines)
    name = Path(flags.corpus[0]).name
    if flags.html:
        write_text(Path(flags.html), report.as_html(found, f"The doctor on {name}"))
    made = json.dumps(report.as_json(found), ensure_ascii=False, indent=2)
    if flags.json == "-":
        print(made)
        return 0
    if flags.json:
        write_text(Path(flags.json), made + "\n")
    print(report.as_text(found))
    if flags.write:
        print(f"\n  wrote {found.kept:,} lines to {flags.write} and left out {found.lines - found.kept:,}")
    return 0


def _check(flags: argparse.Namespace) -> None:
    for name in ("most_words", "most_ratio"):
        value = getattr(flags, name)
        if value is not None and not value >= 1:
            raise ConfigError(f"doctor: --{name.replace('_', '-')} is {value}; it must be at least 1")
    if flags.examples < 0:
        raise ConfigError(f"doctor: --examples is {flags.examples}; it must be at least 0")
    if flags.write is None:
        return
    out = Path(flags.write)
    if not out.name.endswith((".tsv", ".tsv.gz")):
        raise ConfigError(f"doctor: --write {out} must end in .tsv or .tsv.gz: both sides go into one file")
    read = [Path(pattern) for pattern in (*flags.corpus, *flags.test)]
    if any(path.exists() and out.exists() and path.samefile(out) for path in read):
        raise ConfigError(f"doctor: --write {out} would write over what is read; name another file")


def _read(pattern: str, flags: argparse.Namespace) -> "ParallelText":
    from qkv.data.sources import corpus

    if "{lang}" in pattern and not (flags.source and flags.target):
        raise ConfigError(f"doctor: {pattern} names a file for each language; say which: --source de --target en")
    return corpus(
        pattern,
        folder=".",
        source=flags.source or "source",
        target=flags.target or "target",
        columns=tuple(flags.columns),
        bad_lines="skip",
    )


def _write(out: Path, lines: "Iterable[Sorted]") -> None:
    """The lines that stay; the file appears whole or not at all."""
    from qkv.folder import new_file, writing

    opener = gzip.open if out.suffix == ".gz" else open
    with new_file(out) as scratch, writing(out), opener(scratch, "wt", encoding="utf-8", newline="\n") as file:
        for line in lines:
            if line.keep and line.pair is not None:
                file.write("\t".join(line.pair) + "\n")
