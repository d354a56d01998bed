"""`qkv evaluate`: a model, or translations that are there already, against references; a table or JSON."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.cli import decoding
from qkv.cli.options import Parser
from qkv.cli.progress import Progress

if TYPE_CHECKING:
    from qkv.evaluate.runner import Output, Report
    from qkv.pipeline.translator import Translator


def parser() -> Parser:
    flags = Parser(
        "evaluate",
        "Score translations: BLEU, chrF and TER with signatures and intervals; a model's perplexity and speed.",
        examples=[
            "qkv evaluate --model runs/m30k --source test.de --reference test.en",
            "qkv evaluate --model runs/m30k --source test.de.gz --reference test.en.gz --json",
            "qkv evaluate --hypothesis out.en --reference test.en --tokenize none",
            "qkv evaluate --model runs/a --against runs/b --source test.de --reference test.en",
        ],
    )
    flags.add_argument("--model", action="append", metavar="FOLDER", help="a model; several are averaged")
    flags.add_argument("--hypothesis", metavar="FILE", help="translations to score, instead of a model")
    flags.add_argument("--source", metavar="FILE", help="what the model translates, a line each; .gz is unpacked")
    flags.add_argument(
        "--reference",
        action="append",
        required=True,
        metavar="FILE",
        help="right translations; several files may be given",
    )
    flags.add_argument("--against", metavar="FILE|FOLDER", help="another system, compared by the paired bootstrap")
    flags.add_argument(
        "--tokenize",
        metavar="NAME",
        help="sacreBLEU's: 13a, none, intl, char ..., or 13a-compounds (hyphens split, as the paper's figures were "
        "read); default none where the model's text is tokenised, else 13a",
    )
    flags.add_argument("--lowercase", action="store_true", help="BLEU and chrF without regard to case")
    flags.add_argument("--resamples", type=int, default=1000, metavar="N", help="of the bootstrap, default 1000")
    flags.add_argument("--bootstrap-seed", type=int, default=12345, metavar="N", help="default 12345, sacreBLEU's")
    flags.add_argument("--save", metavar="FILE", help="write the model's translations too")
    flags.add_argument("--json", action="store_true", help="print one JSON object")
    flags.add_argument("--quiet", action="store_true", help="no progress on stderr")
    decoding.add_flags(flags)
    return flags


def run(argv: list[str]) -> int:
    flags = read(argv)
    from qkv.evaluate.runner import Asked, read_output, report

    against_file = flags.against is not None and not Path(flags.against).is_dir()
    # What cannot be right is said before a model is loaded.
    named = [flags.source, flags.hypothesis, flags.against if against_file else None, *flags.reference]
    texts = _aligned([path for path in named if path is not None])
    references, sources = [texts[path] for path in flags.reference], texts.get(flags.source)
    against = read_output(flags.against, texts[flags.against]) if against_file else None
    translator: Translator | None = None
    if flags.hypothesis:
        output = read_output(flags.hypothesis, texts[flags.hypothesis])
    else:
        translator = decoding.loaded(flags.model, flags)
        output = _translated(translator, sources or [], references, flags)
    if flags.against is not None and not against_file:
        against = _translated(decoding.loaded([flags.against], flags), sources or [], references, flags)
    if flags.save:
        from qkv.folder import write_text

        write_text(Path(flags.save), "".join(f"{line}\n" for line in output.lines))
    tokenize = flags.tokenize or ("none" if translator is not None and translator.pretokenized else "13a")
    asked = Asked(tokenize, flags.lowercase, flags.resamples, flags.bootstrap_seed)
    found = report(output, references, asked, against)
    print(json.dumps(found.plain(), indent=2, ensure_ascii=False) if flags.json else as_text(found))
    return 0


def read(argv: list[str]) -> argparse.Namespace:
    """The flags, at one with each other."""
    flags_of = parser()
    flags = flags_of.read(argv)
    if bool(flags.model) == bool(flags.hypothesis):
        flags_of.error("give either --model FOLDER or --hypothesis FILE, the one that is to be scored")
    translates = bool(flags.model) or (flags.against is not None and Path(flags.against).is_dir())
    if translates and not flags.source:
        flags_of.error("a model needs --source FILE, the text to translate")
    if flags.save and not flags.model:
        flags_of.error("--save writes what a model translates; give --model FOLDER")
    if flags.resamples < 1:
        flags_of.error(f"--resamples is {flags.resamples}; at least 1 is needed, 1000 is usual")
    return flags


def as_text(found: "Report") -> str:
    """The report for people."""
    lines = [f"{found.name}: {found.sentences:,} sentences", ""]
    share = f"{found.level:.0%} interval"
    lines.append(f"  {'':<6}{'score':>8}  {share:>16}  signature")
    for score in found.scores:
        bounds = f"{score.low:.2f} - {score.high:.2f}"
        lines.append(f"  {score.name:<6}{score.value:>8.2f}  {bounds:>16}  {score.signature}")
    lines += ["", f"  {'reference':<11}{'sentences':>9}" + "".join(f"{score.name:>8}" for score in found.scores)]
    for bucket in found.by_length:
        span = f"{bucket.shortest}-{bucket.longest}" if bucket.longest is not None else f"{bucket.shortest}+"
        values = "".join(f"{value:>8.2f}" for value in bucket.scores.values())
        lines.append(f"  {span + ' words':<11}{bucket.sentences:>9,}{values}")
    lines.append("")
    if found.perplexity is not None:
        lines.append(
            f"  perplexity {found.perplexity.value:.3f} over {found.perplexity.tokens:,} tokens of this model's"
        )
    if found.speed is not None:
        lines.append(
            f"  {found.speed.seconds:.1f} s, {found.speed.sentences_per_second:,.1f} sentences and "
            f"{found.speed.tokens_per_second:,.0f} target tokens a second, {found.speed.precision}, "
            f"{found.speed.threads} threads, {found.speed.device}"
        )
    lines.append("  " + ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in found.counts.items()))
    if found.comparisons:
        lines += ["", f"against {found.against}, paired bootstrap, {found.resamples:,} resamples"]
        for each in found.comparisons:
            lines.append(
                f"  {each.name:<6}{each.score:>8.2f} - {each.against:.2f} = {each.difference:+.2f}  "
                f"({each.low:+.2f} to {each.high:+.2f}), p {each.p:.3f}, wins {each.wins:.1%}"
            )
    return "\n".join(lines)


def _aligned(paths: list[str]) -> dict[str, list[str]]:
    """The lines of each file, as many in all of them."""
    from qkv.data.lines import lines
    from qkv.errors import DataError

    texts = {path: list(lines(Path(path))) for path in paths}
    first = paths[0]
    for path, found in texts.items():
        if not found:
            raise DataError(f"{path}: holds no line; a test set has at least 1")
        if len(found) != len(texts[first]):
            raise DataError(
                f"{first} has {len(texts[first]):,} lines and {path} has {len(found):,}; "
                "line n of one belongs to line n of the other: find the line lost or doubled"
            )
    return texts


def _translated(
    translator: "Translator", sources: list[str], references: list[list[str]], flags: argparse.Namespace
) -> "Output":
    from qkv.evaluate.runner import translated

    progress = Progress("sentences", len(sources))
    said = None if flags.quiet else progress
    output = translated(translator, sources, references, decoding.chosen(flags), said)
    if not flags.quiet:
        progress.end(len(sources))
        if output.counts["truncated"]:
            print(
                f"qkv evaluate: {output.counts['truncated']:,} sources are longer than the model's "
                f"{translator.longest_source:,} tokens, so only their beginning was translated",
                file=sys.stderr,
            )
    return output
