"""`python -m tests.torture [--rows 1,2] [--write]`: rows at full count, a table at the end, non-zero where one misses.

A row is a file `row_NN.py` with TITLE, TARGET, COUNT and `run(count, seed) -> Result`. `ROWS=1,2` does as `--rows`.
"""

import argparse
import importlib
import logging
import os
import sys
import time
from datetime import date
from pathlib import Path
from typing import NamedTuple

from tests.torture.row import Result

HERE = Path(__file__).parent
REPORT = HERE.parent.parent / "docs" / "torture.md"


class Line(NamedTuple):
    """A row of the final table."""

    number: int
    title: str
    target: str
    result: Result
    seconds: float

    def text(self) -> str:
        met = f"{'met' if self.result.passed else 'MISSED'}, {len(self.result.misses)} misses"
        notes = "; ".join([met, *self.result.notes])
        return (
            f"| {self.number} | {self.title} | {self.result.trials} | {self.target} | {notes} | {self.seconds:.0f} s |"
        )


def main() -> int:
    known = {int(path.stem.removeprefix("row_")): path.stem for path in HERE.glob("row_[0-9][0-9].py")}
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("--rows", default=os.environ.get("ROWS", ""), help=f"some of {sorted(known)}; all by default")
    parser.add_argument("--count", type=int, help="trials a row, instead of the full count")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help=f"keep the table in docs/{REPORT.name}")
    chosen = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes under test, and of what they are compared with
    rows = [int(number) for number in chosen.rows.replace(",", " ").split()] or sorted(known)
    if unknown := set(rows) - set(known):
        parser.error(f"no row {sorted(unknown)}; there are {sorted(known)}")
    logging.getLogger("qkv").setLevel(logging.ERROR)  # the damage that rows make is not news
    lines = [_line(number, known[number], chosen.count, chosen.seed) for number in rows]
    head = ["| row | test | trials | target | result | time |", "|---|---|---|---|---|---|"]
    table = "\n".join([*head, *(line.text() for line in lines)])
    if chosen.write:
        command = f"`python -m tests.torture --rows {','.join(map(str, rows))} --seed {chosen.seed}`"
        REPORT.write_text(f"# Torture\n\n{date.today()}, {command}\n\n{table}\n", encoding="utf-8")
    print(table)
    return 0 if all(line.result.passed for line in lines) else 1


def _line(number: int, module: str, count: int | None, seed: int) -> Line:
    row = importlib.import_module(f"tests.torture.{module}")
    started = time.monotonic()
    result: Result = row.run(count or row.COUNT, seed)
    line = Line(number, row.TITLE, row.TARGET, result, time.monotonic() - started)
    print(f"row {number}: {row.TITLE}: {result.trials} trials, {len(result.misses)} misses", file=sys.stderr)
    for miss in result.misses[:20]:
        print(f"  {miss}", file=sys.stderr)
    return line


if __name__ == "__main__":
    sys.exit(main())
