"""`qkv reproduce`: a paper's statement, what was expected, what is measured here; the exit code tells."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.cli.options import Parser
from qkv.cli.progress import tell
from qkv.errors import ConfigError

if TYPE_CHECKING:
    from qkv.claims.claim import Check, Claim

MISSED = 1


def parser() -> Parser:
    flags = Parser(
        "reproduce",
        "Check what a paper says by running it: each claim has a statement, a band that was fixed before its first\n"
        "run, and the minutes that it takes. Exit code 0: all as expected; 1: something lies outside its band.",
        examples=[
            "qkv reproduce --list",
            "qkv reproduce transformer/parameters",
            "qkv reproduce --max-minutes 1",
            "qkv reproduce transformer/label-smoothing --work runs/claims --json",
        ],
    )
    flags.add_argument("claim", nargs="*", help="claims by name; left out: all of them")
    flags.add_argument("--list", action="store_true", help="list the claims and run none")
    flags.add_argument("--max-minutes", type=float, metavar="N", help="leave out claims that take longer")
    flags.add_argument(
        "--work", metavar="FOLDER", help="where trainings go, and are found again; default .cache/claims"
    )
    flags.add_argument("--table", metavar="FILE", help="keep the outcomes in a Markdown table, and as JSON beside it")
    flags.add_argument("--json", action="store_true", help="print one JSON object")
    return flags


def run(argv: list[str]) -> int:
    flags = parser().read(argv)
    from qkv.claims.bench import Bench
    from qkv.claims.claim import claims, reproduce
    from qkv.registry import find

    known = claims()
    chosen: Mapping[str, Claim] = {name: find("claim", name) for name in flags.claim} or known
    if flags.list:
        _list(chosen, flags.json)
        return 0
    if flags.max_minutes is not None:
        chosen = {name: claim for name, claim in chosen.items() if claim.minutes <= flags.max_minutes}
        if not chosen:
            shortest = min(claim.minutes for claim in known.values())
            raise ConfigError(
                f"reproduce: no claim takes {flags.max_minutes:g} minutes or less; the shortest takes {shortest:g}"
            )
    bench = Bench(Path(flags.work or ".cache/claims"), tell)
    outcomes = []
    for name, claim in chosen.items():
        if not flags.json:
            print(f"{name}\n  {claim.paper}\n  {claim.statement}; about {claim.minutes:g} min")
        outcome = reproduce(name, bench, (lambda check: None) if flags.json else _show)
        outcomes.append(outcome)
        if not flags.json:
            print(f"  {'as expected' if outcome.met else 'OUTSIDE ITS BAND'}, {outcome.minutes:.1f} min\n", flush=True)
    if flags.table:
        from qkv.claims.table import keep

        keep(Path(flags.table), outcomes)
    if flags.json:
        print(json.dumps({"claims": [outcome.plain() for outcome in outcomes]}))
    return 0 if all(outcome.met for outcome in outcomes) else MISSED


def _list(chosen: Mapping[str, "Claim"], as_json: bool) -> None:
    if as_json:
        facts = ("paper", "statement", "minutes")
        print(json.dumps({"claims": [{"name": n, **{f: getattr(c, f) for f in facts}} for n, c in chosen.items()]}))
        return
    for name, claim in chosen.items():
        print(f"{name}  (about {claim.minutes:g} min)\n  {claim.statement}\n  {claim.paper}")


def _show(check: "Check") -> None:
    verdict = {True: "ok", False: "MISSED", None: "stated"}[check.met]
    paper = f"  (paper: {check.paper})" if check.paper else ""
    print(f"  {verdict:7} {check.name}: {check.measured:.6g}, expected {check.band}{paper}", flush=True)
