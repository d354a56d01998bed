"""Row 10: a corpus with bad UTF-8, lines of 10 MB, NUL, lost lines, no lines: counted to the line, or refused."""

import gzip
import json
import random
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from qkv.cli.main import main
from tests.torture.row import Result, hidden

TITLE = "corrupt corpus: bad UTF-8, a 10 MB line, NUL, misaligned files, empty file"
TARGET = "no crash, exact counts, the line named"
COUNT = 200
FORMS = ("tsv", "jsonl", "two files")
LONG = 10_000_000


class Corpus(NamedTuple):
    """Lines of both sides as stored, how many of each kind are among them, and the first that is refused."""

    source: list[bytes]
    target: list[bytes]
    counts: dict[str, int]
    first_bad: int


class Said(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


def run(count: int = COUNT, seed: int = 0) -> Result:
    result, chance = Result(), random.Random(seed)
    for trial in range(count):
        with tempfile.TemporaryDirectory(prefix="torture-") as name:
            form, packed = FORMS[trial % 3], trial % 2 == 1
            result.trials += 1
            where = f"trial {trial}, {form}{', gzip' if packed else ''}"
            one_corpus(result, Path(name), form, packed, chance, where, longest=LONG if trial % 7 == 0 else 1 << 20)
            if form == "two files":
                misaligned(result, Path(name), chance, where)
            empty(result, Path(name), form, where)
            result.expect(not [n for n in hidden(Path(name)) if ".partial" in n], f"{where}: litter")
    return result


def one_corpus(
    result: Result, folder: Path, form: str, packed: bool, chance: random.Random, where: str, *, longest: int
) -> None:
    """The same corpus twice: skipping must count every line, refusing must name the first bad one."""
    corpus = corrupted(form, chance, longest)
    pattern = stored(folder, "train", form, packed, corpus.source, corpus.target)
    said = prepare(folder, pattern, "--data.bad_lines", "skip", "--json")
    if said.code != 0:
        result.expect(False, f"{where}: refused though told to skip: {said}")
        return
    counts = json.loads(said.out)["counts"]
    found = {name: number for name, number in counts["train_read"].items() if number}
    result.expect(found == corpus.counts, f"{where}: counted {found}, there are {corpus.counts}")
    result.expect(counts["train"]["pairs"] == corpus.counts["kept"], f"{where}: {counts['train']['pairs']} pairs kept")
    refused(result, prepare(folder, pattern), [f"line {corpus.first_bad}:", str(folder), "skip"], where)


def misaligned(result: Result, folder: Path, chance: random.Random, where: str) -> None:
    """A line lost on one side."""
    lines = [f"line {number}".encode() for number in range(chance.randint(2, 300))]
    lost = chance.randrange(len(lines))
    pattern = stored(folder, "lost", "two files", False, lines, lines[:lost] + lines[lost + 1 :])
    for bad_lines in ("refuse", "skip"):
        said = prepare(folder, pattern, "--data.bad_lines", bad_lines)
        refused(result, said, [f"{len(lines)} lines", f"has {len(lines) - 1};"], f"{where}, a line lost")


def empty(result: Result, folder: Path, form: str, where: str) -> None:
    """No line at all, and nothing but blank ones."""
    for name, lines in (("empty", []), ("blank", [b"", b" "])):
        pattern = stored(folder, name, form, False, lines, lines)
        refused(result, prepare(folder, pattern), ["no sentence pair", str(folder)], f"{where}, {name}")


def refused(result: Result, said: Said, words: list[str], where: str) -> None:
    """One sentence on stderr with these words, and exit code 2."""
    complaint = [line for line in said.err.splitlines() if not line.startswith("qkv: training a tokenizer")]
    result.expect(said.code == 2, f"{where}: exit code {said.code}")
    result.expect(len(complaint) == 1 and complaint[0].startswith("qkv: "), f"{where}: said {said.err!r}")
    result.expect(all(word in said.err for word in words), f"{where}: {words} not in {said.err!r}")


def corrupted(form: str, chance: random.Random, longest: int) -> Corpus:
    """Good lines, and every kind of bad one among them."""
    kinds = ["bad_utf8", "nul", "too_long", "empty_side"]
    kinds += {"tsv": ["missing_column"], "jsonl": ["missing_column", "bad_json"], "two files": []}[form]
    drawn = ["kept"] * chance.randint(5, 40) + [kind for kind in kinds for _ in range(chance.randint(1, 3))]
    chance.shuffle(drawn)
    counts = {"read": len(drawn), **{kind: drawn.count(kind) for kind in ("kept", *kinds)}}
    pairs = [_pair(form, kind, chance, longest) for kind in drawn]
    first_bad = next(number for number, kind in enumerate(drawn, 1) if kind not in ("kept", "empty_side"))
    return Corpus([one for one, _ in pairs], [other for _, other in pairs], counts, first_bad)


def _pair(form: str, kind: str, chance: random.Random, longest: int) -> tuple[bytes, bytes]:
    """A stored line for each side; where both stand in one file the first holds it and the second is empty."""
    good, other = " ".join(chance.choices(["a", "bä", "𝄞", "d\u2028e"], k=3)).encode(), b"x y"
    bad = {
        "bad_utf8": b"caf\xe9",
        "nul": b"a\0b",
        "too_long": b"z" * (longest + 1),
        "empty_side": chance.choice([b"", b"  "]),
    }
    sides = [bad.get(kind, good), other]
    if chance.random() < 0.5:
        sides.reverse()
    source, target = sides
    if form == "two files":
        return source, target
    if form == "tsv":
        return (b"alone" if kind == "missing_column" else source + b"\t" + target), b""
    if kind == "bad_json":
        return chance.choice([b"{not", b"[1]", b'{"source": 1, "target": "x"}', b"null"]), b""
    if kind == "missing_column":
        return b'{"source": "x"}', b""
    quoted = [side.replace(b"\0", b"\\u0000") for side in sides]
    return b'{"source": "' + quoted[0] + b'", "target": "' + quoted[1] + b'"}', b""


def stored(folder: Path, name: str, form: str, packed: bool, source: list[bytes], target: list[bytes]) -> str:
    """Writes the lines; the pattern that names them."""
    ending = ".gz" if packed else ""
    files = {"tsv": [(f"{name}.tsv", source)], "jsonl": [(f"{name}.jsonl", source)]}.get(
        form, [(f"{name}.source", source), (f"{name}.target", target)]
    )
    for file, lines in files:
        data = b"".join(line + b"\n" for line in lines)
        (folder / f"{file}{ending}").write_bytes(gzip.compress(data, 1) if packed else data)
    pattern = f"{name}.{{lang}}" if form == "two files" else files[0][0]
    return f"{folder / pattern}{ending}"


def prepare(folder: Path, pattern: str, *more: str) -> Said:
    """`qkv prepare` as it is typed, in this process."""
    out, err = StringIO(), StringIO()
    argv = ["prepare", "--data.train", pattern, "--data.cache", str(folder / "cache"), "--data.tokenizer.minimum", "1"]
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*argv, *more])
    return Said(code, out.getvalue(), err.getvalue())
