"""The table of claims: every claim has its row, run or not; a miss stays until a later run meets its band."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from qkv.claims.claim import Outcome, claims
from qkv.folder import read_json, write_json, write_text

ABOUT = [
    "What papers say, as checks that run: `qkv reproduce NAME`. A band is fixed before the first run; a figure without",
    "one is stated beside the paper's, and no winner is expected. Written by `make claims`.",
]
HEAD = ["| figure | measured | expected | paper | |", "|---|---|---|---|---|"]


def keep(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Adds outcomes to those that are there already, and draws the table."""
    beside = path.with_suffix(".json")
    known: dict[str, Any] = read_json(beside) if beside.is_file() else {}
    for outcome in outcomes:
        known[outcome.name] = {**outcome.plain(), "date": date.today().isoformat()}
    write_json(beside, known)
    write_text(path, drawn(known))


def drawn(known: dict[str, Any]) -> str:
    """The table as Markdown."""
    lines = ["# Claims", "", *ABOUT, ""]
    lines += ["| claim | statement | minutes | result | date |", "|---|---|---|---|---|"]
    details: list[str] = []
    for name, claim in claims().items():
        found = known.get(name)
        if found is None:
            lines.append(f"| `{name}` | {claim.statement} | {claim.minutes:g} | not run yet | |")
            continue
        result = "as expected" if found["met"] else "**outside its band**"
        lines.append(f"| `{name}` | {claim.statement} | {found['minutes']:.1f} | {result} | {found['date']} |")
        details += ["", f"## {name}", "", claim.paper, "", *HEAD]
        for check in found["checks"]:
            verdict = {True: "met", False: "**missed**", None: "stated"}[check["met"]]
            details.append(
                f"| {check['name']} | {check['measured']:.6g} | {check['band']} | {check['paper']} | {verdict} |"
            )
    return "\n".join([*lines, *details]) + "\n"
