"""Parallel text as people keep it: two files line by line, one TSV, or JSON lines, each plain or gzip.

Nothing here knows tokens. Reading streams, so memory is bounded by the longest line allowed, whatever the files hold;
every pair that is dropped is counted by its reason.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple

from qkv.data.lines import CHUNK, MAX_LINE_BYTES, bounded, lines, opened, require_regular
from qkv.errors import ConfigError, DataError, nearest

__all__ = ["COUNTED", "Pair", "ParallelText", "Unreadable", "corpus", "lines"]

TSV = (".tsv", ".tsv.gz")
JSON_LINES = (".jsonl", ".jsonl.gz")

Reason = Literal["bad_utf8", "nul", "too_long", "missing_column", "bad_json"]
WHY: dict[Reason, str] = {
    "bad_utf8": "not UTF-8",
    "nul": "holds a NUL character",
    "too_long": "longer than {max_line_bytes} bytes",
    "missing_column": "has no text in {where}",
    "bad_json": "is not a JSON object with text under its keys",
}


class Pair(NamedTuple):
    source: str
    target: str


class Unreadable(NamedTuple):
    """A line that holds no pair, and why."""

    reason: Reason
    path: Path


REASONS: tuple[str, ...] = (*WHY, "empty_side")
COUNTED = ("read", "kept", *REASONS)


@dataclass(frozen=True)
class ParallelText:
    """One corpus of sentence pairs.

    `counts` tells of the latest iteration and is exact once that has ended: `read` is `kept` and every reason together.
    """

    source_path: Path
    target_path: Path | None = None
    _: KW_ONLY
    weight: float = 1.0
    bad_lines: Literal["refuse", "skip"] = "refuse"
    columns: tuple[int, int] = (0, 1)
    keys: tuple[str, str] = ("source", "target")
    max_line_bytes: int = MAX_LINE_BYTES
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(COUNTED, 0), init=False, compare=False, repr=False
    )

    def __post_init__(self) -> None:
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise ConfigError(
                f"weight {self.weight} of {self.source_path} must be above 0; leave the corpus out instead"
            )
        if self.bad_lines not in ("refuse", "skip"):
            raise ConfigError(f'bad_lines "{self.bad_lines}": {nearest(self.bad_lines, ("refuse", "skip"))}')
        if self.max_line_bytes < 1:
            raise ConfigError(
                f"max_line_bytes {self.max_line_bytes} must be at least 1; the default is {MAX_LINE_BYTES}"
            )
        if min(self.columns) < 0 or self.columns[0] == self.columns[1]:
            raise ConfigError(f"columns {self.columns} must be two different numbers from 0; the first two are (0, 1)")
        if self.keys[0] == self.keys[1]:
            raise ConfigError(f'keys {self.keys} must differ, or both sides are "{self.keys[0]}"')
        if self.target_path is None and not self.source_path.name.endswith(TSV + JSON_LINES):
            known = ", ".join(TSV + JSON_LINES)
            raise DataError(
                f"{self.source_path}: one file must hold both sides and end in one of {known}; "
                "name two files with {lang} in the pattern otherwise"
            )

    def __iter__(self) -> Iterator[Pair]:
        """Pairs in the order of the file; both sides hold something other than white space."""
        counts = dict.fromkeys(COUNTED, 0)
        object.__setattr__(self, "counts", counts)
        for row in self.rows():
            counts["read"] += 1
            if isinstance(row, Unreadable):
                self._refuse_or_count(row, counts)
            elif not (row.source.strip() and row.target.strip()):
                counts["empty_side"] += 1
            elif "\0" in row.source or "\0" in row.target:
                at = self.target_path if self.target_path and "\0" not in row.source else self.source_path
                self._refuse_or_count(Unreadable("nul", at), counts)
            else:
                counts["kept"] += 1
                yield row
        if not counts["kept"]:
            found = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count)
            raise DataError(f"{self._named()}: no sentence pair to use ({found or 'empty'}); name files that hold text")

    def rows(self) -> Iterator[Pair | Unreadable]:
        """Every line of the file as it stands, in its order: blank ones, and what says why it can't be read."""
        return self._two_files() if self.target_path else self._one_file()

    def fingerprint(self) -> str:
        """SHA-256 over the stored bytes of each file and how they are read, whatever the files are called."""
        files = [self.source_path, self.target_path] if self.target_path else [self.source_path]
        how: dict[str, object] = {"bad_lines": self.bad_lines, "max_line_bytes": self.max_line_bytes}
        if self.target_path is None:
            tsv = self.source_path.name.endswith(TSV)
            how |= {"columns": self.columns} if tsv else {"keys": self.keys}
        how["files"] = [(_digest(path), path.suffix == ".gz") for path in files]
        return hashlib.sha256(json.dumps(how, sort_keys=True).encode()).hexdigest()

    def _named(self) -> str:
        return f"{self.source_path} and {self.target_path}" if self.target_path else str(self.source_path)

    def _refuse_or_count(self, bad: Unreadable, counts: dict[str, int]) -> None:
        if self.bad_lines == "refuse":
            tsv = bad.path.name.endswith(TSV)
            where = f"columns {self.columns} (counted from 0)" if tsv else f"keys {self.keys}"
            why = WHY[bad.reason].format(max_line_bytes=self.max_line_bytes, where=where)
            raise DataError(
                f"{bad.path}, line {counts['read']}: {why}; mend the line, or drop such pairs with data.bad_lines: skip"
            )
        counts[bad.reason] += 1

    def _two_files(self) -> Iterator[Pair | Unreadable]:
        assert self.target_path is not None
        paths = (self.source_path, self.target_path)
        for path in paths:
            require_regular(path)
        with opened(paths[0]) as source_file, opened(paths[1]) as target_file:
            limit = self.max_line_bytes
            sides = bounded(source_file, str(paths[0]), limit), bounded(target_file, str(paths[1]), limit)
            counted = [0, 0]
            for source, target in zip_longest(*sides, fillvalue=_END):
                counted[0] += source is not _END
                counted[1] += target is not _END
                if counted[0] == counted[1]:
                    yield _pair(_text(source, paths[0]), _text(target, paths[1]))
        if counted[0] != counted[1]:
            raise DataError(
                f"{paths[0]} has {counted[0]} lines and {paths[1]} has {counted[1]}; "
                "line n of one must translate line n of the other: find the line lost or doubled"
            )

    def _one_file(self) -> Iterator[Pair | Unreadable]:
        split = self._from_tsv if self.source_path.name.endswith(TSV) else self._from_json
        require_regular(self.source_path)
        with opened(self.source_path) as file:
            for raw in bounded(file, str(self.source_path), self.max_line_bytes):
                line = _text(raw, self.source_path)
                if isinstance(line, Unreadable):
                    yield line
                else:
                    yield split(line) if line.strip() else Pair("", "")

    def _from_tsv(self, line: str) -> Pair | Unreadable:
        cells = line.split("\t")
        source, target = self.columns
        if max(source, target) >= len(cells):
            return Unreadable("missing_column", self.source_path)
        return Pair(cells[source], cells[target])

    def _from_json(self, line: str) -> Pair | Unreadable:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return Unreadable("bad_json", self.source_path)
        if not isinstance(row, dict):
            return Unreadable("bad_json", self.source_path)
        source, target = (row.get(key) for key in self.keys)
        if source is None or target is None:
            return Unreadable("missing_column", self.source_path)
        if not (isinstance(source, str) and isinstance(target, str)):
            return Unreadable("bad_json", self.source_path)
        try:
            (source + target).encode("utf-8", "strict")
        except UnicodeEncodeError:  # JSON can escape half a surrogate pair, which no UTF-8 text holds
            return Unreadable("bad_utf8", self.source_path)
        return Pair(source, target)


_END = b"\n"  # a line never holds its own end, so this stands for no line at all


def _text(raw: bytes | None, path: Path) -> str | Unreadable:
    if raw is None:
        return Unreadable("too_long", path)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return Unreadable("bad_utf8", path)


def _pair(source: str | Unreadable, target: str | Unreadable) -> Pair | Unreadable:
    if isinstance(source, Unreadable):
        return source
    return target if isinstance(target, Unreadable) else Pair(source, target)


def _digest(path: Path) -> str:
    require_regular(path)
    digest = hashlib.sha256()
    with opened(path, raw=True) as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def corpus(
    pattern: str,
    *,
    folder: str,
    source: str,
    target: str,
    columns: tuple[int, int] = (0, 1),
    weight: float = 1.0,
    bad_lines: Literal["refuse", "skip"] = "refuse",
) -> ParallelText:
    """The corpus a pattern names: `{folder}` is filled in; `{lang}` stands for each language in turn, a file each."""
    pattern = pattern.replace("{folder}", folder)
    if source == target:
        raise ConfigError(f'source and target are both "{source}"; name two languages')
    if "{lang}" not in pattern:
        return ParallelText(
            Path(pattern).expanduser(),
            weight=weight,
            bad_lines=bad_lines,
            columns=columns,
            keys=(source, target),
        )
    if pattern.endswith(TSV + JSON_LINES):
        raise DataError(f"{pattern}: a TSV or JSON lines file holds both sides; take {{lang}} out of its pattern")
    sides = [Path(pattern.replace("{lang}", name)).expanduser() for name in (source, target)]
    return ParallelText(sides[0], sides[1], weight=weight, bad_lines=bad_lines)
