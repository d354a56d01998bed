"""`qkv translate`: lines from stdin or a file to stdout or a file, exactly one line for each, blank lines kept."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from qkv.cli import decoding
from qkv.cli.options import Parser
from qkv.cli.progress import Progress

if TYPE_CHECKING:
    from qkv.pipeline.translator import Translation

WARNINGS = 5  # lines named one by one; more are counted


def parser() -> Parser:
    flags = Parser(
        "translate",
        "Translate lines: one line out for each line in, blank lines kept. Text is UTF-8.",
        examples=[
            "qkv translate --model runs/m30k < in.de > out.en",
            "zcat in.de.gz | qkv translate --model runs/m30k --num-beams 5 > out.en",
            "qkv translate --model runs/a --model runs/b --input in.de.gz --output out.en   # both models as one",
            "qkv translate --model runs/m30k --n-best 3 < in.de   # number, score and text, split by tabs",
        ],
    )
    flags.add_argument(
        "--model", action="append", required=True, metavar="FOLDER", help="a model; several are averaged"
    )
    flags.add_argument("--input", metavar="FILE", help="default: stdin; a name in .gz is unpacked")
    flags.add_argument("--output", metavar="FILE", help="default: stdout; the file appears when all is done")
    flags.add_argument("--n-best", metavar="K", help="K lines for each line: its number, the score, the text")
    flags.add_argument("--scores", action="store_true", help="the score and a tab before each translation")
    flags.add_argument("--prefix", metavar="TEXT", default="", help="begin every translation with this text")
    flags.add_argument(
        "--line-by-line", action="store_true", help="answer each line before the next is read, as at a terminal"
    )
    flags.add_argument("--quiet", action="store_true", help="no progress and no warnings on stderr")
    decoding.add_flags(flags)
    return flags


def run(argv: list[str]) -> int:
    flags = parser().read(argv)
    options = decoding.chosen(flags)
    if flags.n_best is not None:
        from qkv.config import Raw

        options["num_return_sequences"] = Raw(flags.n_best)  # type: ignore[typeddict-item]
    total = _count(Path(flags.input)) if flags.input else None
    translator = decoding.loaded(flags.model, flags)
    progress = Progress("lines", total)
    notes = Notes(translator.longest_source)
    chunk = 1 if flags.line_by_line or (not flags.input and sys.stdin.isatty()) else None
    done = 0
    with _opened(flags.output) as out:
        for done, found in enumerate(
            translator.candidates_lines(_lines(flags.input), chunk_lines=chunk, prefix=flags.prefix, **options), 1
        ):
            out.write("".join(_written(done, found, flags)).encode())
            notes.see(done, found[0])
            if chunk == 1:
                out.flush()
            if not flags.quiet:
                progress(done)
    if not flags.quiet:
        progress.end(done)
        for note in notes.lines():
            print(f"qkv translate: {note}", file=sys.stderr)
    return 0


class Notes:
    """What the reader of translations should know of them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.truncated: list[int] = []
        self.more = self.unfinished = 0

    def see(self, number: int, best: "Translation") -> None:
        self.unfinished += not best.finished
        if best.truncated:
            if len(self.truncated) < WARNINGS:
                self.truncated.append(number)
            else:
                self.more += 1

    def lines(self) -> Iterator[str]:
        if self.truncated:
            which = ", ".join(map(str, self.truncated)) + (f" and {self.more:,} more" if self.more else "")
            yield (
                f"line {which}: longer than the model's {self.limit:,} tokens, so only the beginning was translated; "
                "put each sentence on a line of its own"
            )
        if self.unfinished:
            yield (
                f"{self.unfinished:,} translations were cut at their greatest length; "
                "--max-new-tokens, --max-length-ratio and --max-length-offset set it"
            )


def _written(number: int, found: "list[Translation]", flags: argparse.Namespace) -> Iterator[str]:
    for each in found:
        # A model may write a line's end, or a tab; a line of output must stay one line and its columns columns.
        text = " ".join(each.text.splitlines())
        if flags.n_best is not None:
            yield f"{number}\t{each.score:.4f}\t{text.replace(chr(9), ' ')}\n"
        elif flags.scores:
            yield f"{each.score:.4f}\t{text.replace(chr(9), ' ')}\n"
        else:
            yield f"{text}\n"


def _lines(path: str | None) -> Iterator[str]:
    from qkv.data.lines import lines

    return lines(Path(path) if path else sys.stdin.buffer)


def _count(path: Path) -> int | None:
    """How many lines there will be; None of a pipe, which can be read only once."""
    from qkv.data.lines import lines

    return sum(1 for _ in lines(path)) if path.is_file() or not path.exists() else None


@contextmanager
def _opened(path: str | None) -> Iterator[BinaryIO]:
    if path is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    from qkv.folder import new_file

    with new_file(Path(path)) as draft, draft.open("wb") as stream:
        yield stream
