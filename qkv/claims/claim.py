"""What a claim is: a paper's statement, a check that anyone can run, a band that was fixed before the first run.

A claim about a mechanism expects its effect, within a band. A comparison of systems never fixes a winner: it states the
paper's figures beside those measured, as checks without a band, which nothing can miss.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from qkv.registry import find, names

if TYPE_CHECKING:
    from qkv.claims.bench import Bench


@dataclass(frozen=True)
class Check:
    """One measured number, and where it has to lie; without `low` and `high` it is only stated beside the paper's."""

    name: str
    measured: float
    low: float | None = None
    high: float | None = None
    paper: str = ""  # the paper's own figure, as printed

    @classmethod
    def near(cls, name: str, measured: float, expected: float, within: float, paper: str = "") -> "Check":
        """A number expected to within a distance."""
        return cls(name, measured, expected - within, expected + within, paper)

    @property
    def met(self) -> bool | None:
        """None where nothing was expected."""
        if self.low is None and self.high is None:
            return None
        inside = (self.low is None or self.measured >= self.low) and (self.high is None or self.measured <= self.high)
        return isfinite(self.measured) and inside

    @property
    def band(self) -> str:
        """What was expected, for people."""
        low, high = (None if bound is None else f"{bound:.6g}" for bound in (self.low, self.high))
        if low is not None and high is not None:
            return low if low == high else f"{low} to {high}"
        return f"at least {low}" if low is not None else f"at most {high}" if high is not None else "stated"


@dataclass(frozen=True)
class Claim:
    """One statement of one paper."""

    paper: str
    statement: str
    minutes: float  # on two cores, about
    run: "Callable[[Bench], Iterator[Check]]"


@dataclass(frozen=True)
class Outcome:
    """What a run of a claim found."""

    name: str
    checks: tuple[Check, ...]
    minutes: float

    @property
    def met(self) -> bool:
        return bool(self.checks) and all(check.met is not False for check in self.checks)

    def plain(self) -> dict[str, Any]:
        """As JSON's types."""
        checks = [{**asdict(check), "met": check.met, "band": check.band} for check in self.checks]
        return {"name": self.name, "met": self.met, "minutes": round(self.minutes, 2), "checks": checks}


def claims() -> dict[str, Claim]:
    """Every registered claim by its name."""
    return {name: find("claim", name) for name in names("claim")}


def reproduce(name: str, bench: "Bench", say: Callable[[Check], None] = lambda check: None) -> Outcome:
    """Runs one claim, telling each check as it is known."""
    claim: Claim = find("claim", name)
    began, found = time.monotonic(), []
    for check in claim.run(bench):
        found.append(check)
        say(check)
    return Outcome(name, tuple(found), (time.monotonic() - began) / 60)
